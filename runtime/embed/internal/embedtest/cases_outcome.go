package embedtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Outcomes of tools.
var outcomeCases = []testCase{
	{name: "outcomes are those of plain calls", run: func(c *check) {
		p := c.peer()
		for _, tool := range []string{"greet", "echo", "structured", "fail", "error"} {
			p.sameOutcome(tool)
		}
	}},
	{name: "code of an error is that of a plain call", run: func(c *check) { c.peer().sameOutcome("fail-rpc") }},
	{name: "result that cannot be encoded", run: func(c *check) {
		p := c.peer()
		id := p.task("unencodable", `{}`)
		if got := p.outcome(id); !strings.HasPrefix(got, "error ") && !strings.HasPrefix(got, "failure: ") {
			c.Errorf("outcome: %s", got)
		}
	}},
	{name: "sessions are closed in the middle", transports: "memory http", run: func(c *check) {
		if c.endpoint.CloseSessions == nil {
			c.Skip("the subject lists no sessions")
		}
		p := c.peer()
		id := p.task("gate", keyed("k"))
		c.equal("events", p.events("k", 1), "[run]")
		c.endpoint.CloseSessions()
		other := c.peer()
		other.release("k")
		c.equal("outcome", other.outcome(id), "passed")
	}},
}

// sameOutcome calls a tool plainly and as a task.
func (p *peer) sameOutcome(tool string) {
	p.c.Helper()
	params := call(tool, `{"name":"Ada"}`, "")
	if p.era == "modern" {
		params = withMeta(params, "{"+inputCapabilities+"}", "")
	}
	plain := normal(p.call("tools/call", params))
	p.c.equal(tool, normal(p.wait(p.task(tool, `{"name":"Ada"}`))), plain)
	if tool == "structured" && !strings.Contains(plain, `"structuredContent":{"n":1}`) {
		p.c.Errorf("%s: got %s", tool, plain)
	}
}

// normal returns the response to a call without what tells a task from a plain call. The SDKs have
// no code for an error that has none; a task has that of internal errors.
func normal(result string, failed *jsonrpc.Error) string {
	if failed != nil {
		return fmt.Sprintf("error %d: %s %s", cmp.Or(failed.Code, jsonrpc.CodeInternalError), failed.Message, string(failed.Data))
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(result), &members); err != nil {
		return err.Error()
	}
	delete(members, "_meta")
	delete(members, "resultType")
	text, err := json.Marshal(members)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
