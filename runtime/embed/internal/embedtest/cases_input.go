package embedtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Input requests of tools.
var inputCases = []testCase{
	{name: "elicitation in the middle", run: inTheMiddle("ask", "elicitation/create", "accept k")},
	{name: "sampling in the middle", run: inTheMiddle("sample", "sampling/createMessage", "sampled")},
	{name: "roots in the middle", run: inTheMiddle("roots", "roots/list", "file:///a file:///b")},
	{name: "input requests of a plain call", era: "session", run: func(c *check) {
		p := c.peer()
		c.equal("elicitation", p.plain("ask", keyed("k")), "accept k")
		c.equal("sampling", p.plain("sample", keyed("k")), "sampled")
		c.equal("roots", p.plain("roots", keyed("k")), "file:///a file:///b")
	}},
	{name: "two input requests at once", run: func(c *check) {
		p := c.peer()
		c.equal("outcome", p.outcome(p.task("ask-two", keyed("k"))), "accept k 0, accept k 1")
	}},
	{name: "input request is declined", run: func(c *check) {
		p := c.peer()
		p.serve = func(string, string) (string, *jsonrpc.Error) { return `{"action":"decline"}`, nil }
		c.equal("outcome", p.outcome(p.task("ask", keyed("k"))), "decline")
	}},
	{name: "input request fails with a code", era: "session", run: func(c *check) {
		p := c.peer()
		p.serve = func(string, string) (string, *jsonrpc.Error) { return "", &jsonrpc.Error{Code: -7, Message: "no way"} }
		got := p.outcome(p.task("ask", keyed("k")))
		if !strings.HasPrefix(got, "failure: error -7: ") || !strings.Contains(got, "no way") {
			c.Errorf("outcome: %s", got)
		}
	}},
	{name: "client without elicitation", run: func(c *check) {
		capabilities := "{}"
		if c.era == "modern" {
			capabilities = "{" + withExtension + "}"
		}
		p := c.peerOf(c.era, capabilities, nil)
		p.serve = func(method, _ string) (string, *jsonrpc.Error) {
			c.Errorf("received %s", method)
			return "", &jsonrpc.Error{Code: -7, Message: "no way"}
		}
		got := p.outcome(p.task("ask", keyed("k")))
		if !strings.HasPrefix(got, "error ") && !strings.HasPrefix(got, "failure: ") {
			c.Errorf("outcome: %s", got)
		}
	}},
	{name: "another session answers", transports: "memory http", run: func(c *check) {
		p := c.peer()
		id := p.task("ask", keyed("k"))
		p.awaitInput(id)
		p.close()
		c.equal("outcome", c.peer().outcome(id), "accept k")
	}},
	{name: "input before a call is a task", era: "modern", run: func(c *check) {
		c.equal("outcome", c.peer().finishTask("ask-later", keyed("k")), "accept k")
	}},
	{name: "input rounds of a plain call", run: func(c *check) {
		p := c.peer()
		c.equal("outcome", outcome(p.finish("rounds-plain", keyed("k"))), "k a, k b")
		if c.era == "modern" {
			p.capabilities = "{" + inputCapabilities + "}"
			c.equal("outcome without the extension", outcome(p.finish("rounds-task", keyed("k"))), "k a, k b")
		}
	}},
	{name: "input rounds before a task", era: "modern", run: func(c *check) {
		p := c.peer()
		result := p.result("tools/call", call("rounds", `{"key":"k","count":1}`, ""))
		if id := part(result, "taskId"); id == "" { // the first round was not so slow that it became a task
			c.equal("type of the result", part(result, "resultType"), `"input_required"`)
			result = p.result("tools/call", call("rounds", `{"key":"k","count":1}`, p.nextRound(result)))
		}
		id := p.taskOf(result)
		p.release("k")
		c.equal("outcome", p.outcome(id), "k a, k b")
	}},
	{name: "input rounds inside a task", run: func(c *check) {
		p := c.peer()
		c.equal("outcome", p.outcome(p.task("rounds-task", keyed("k"))), "k a, k b")
	}},
	{name: "partial and repeated responses", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("ask-two", keyed("k"))
		open := func() (keys []string) {
			for {
				state := p.get(id)
				requests := part(state, "inputRequests")
				if keys = names(requests); len(keys) > 0 {
					slices.SortFunc(keys, func(a, b string) int {
						return strings.Compare(part(requests, a, "params", "message"), part(requests, b, "params", "message"))
					})
					return keys
				}
				p.pause()
			}
		}
		keys := open()
		for len(keys) < 2 {
			p.pause()
			keys = open()
		}
		p.update(id, `{}`)
		p.update(id, `{"unknown":{"action":"decline"}}`)
		p.update(id, fmt.Sprintf(`{%q:%s}`, keys[0], accept("Ada")))
		c.equal("open requests", open(), keys[1:])
		p.update(id, fmt.Sprintf(`{%q:%s}`, keys[0], accept("Eve")))
		p.update(id, fmt.Sprintf(`{%q:%s}`, keys[1], accept("Bob")))
		c.equal("outcome", p.outcome(id), "accept Ada, accept Bob")
	}},
}

// inTheMiddle returns a case in which a task sends an input request.
func inTheMiddle(tool, method, want string) func(c *check) {
	return func(c *check) {
		p := c.peer()
		id := p.task(tool, keyed("k"))
		if c.era == "modern" {
			p.awaitInput(id)
			for _, key := range names(part(p.get(id), "inputRequests")) {
				request := part(p.get(id), "inputRequests", key)
				c.equal("method", part(request, "method"), fmt.Sprintf("%q", method))
				c.equal("related task", part(request, "params", "_meta", taskrules.RelatedTask), "")
			}
		}
		c.equal("outcome", p.outcome(id), want)
		if c.era == "session" {
			for _, params := range p.got(method) {
				c.equal("related task", part(params, "_meta", taskrules.RelatedTask, "taskId"), fmt.Sprintf("%q", id))
			}
			c.equal("number of requests", len(p.got(method)), 1)
		}
	}
}
