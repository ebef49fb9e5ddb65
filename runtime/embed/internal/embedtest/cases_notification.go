package embedtest

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Notifications.
var notificationCases = []testCase{
	{name: "progress until the result", era: "session", run: func(c *check) {
		p := c.peer()
		for _, token := range []string{`"t"`, `""`, "0", "7"} {
			id := p.taskOf(p.result("tools/call", call("count", keyed(token), `,"task":{},"_meta":{"progressToken":`+token+`}`)))
			p.await("progress of the task", progress(token, "3"))
			p.release(token)
			c.equal("outcome", p.outcome(id), "passed")
		}
		for _, params := range p.got("notifications/progress") {
			if part(params, "total") != "10" || !strings.HasPrefix(unquote(part(params, "message")), "step ") {
				c.Errorf("progress: %s", params)
			}
		}
	}},
	{name: "progress of a plain call", run: func(c *check) {
		p := c.peer()
		params := call("count", keyed("k"), `,"_meta":{"progressToken":"t"}`)
		if c.era == "modern" {
			params = withMeta(call("count", keyed("k"), ""), "{"+inputCapabilities+"}", `,"progressToken":"t"`)
		}
		_, response := p.start("tools/call", params)
		p.await("progress", progress(`"t"`, "3"))
		p.release("k")
		c.equal("outcome", outcome(p.receive(response)), "passed")
	}},
	{name: "progress before a call is a task", era: "modern", run: func(c *check) {
		p := c.peer()
		params := withMeta(call("count-plain", keyed("k"), ""), p.capabilities, `,"progressToken":"t"`)
		_, response := p.start("tools/call", params)
		p.await("progress", progress(`"t"`, "3"))
		p.release("k")
		c.equal("outcome", outcome(p.receive(response)), "passed")
	}},
	{name: "progress of another token is dropped", era: "session", run: func(c *check) {
		p := c.peer()
		id := p.taskOf(p.result("tools/call", call("count", keyed("k"), `,"task":{},"_meta":{"progressToken":"t"}`)))
		p.await("progress of the task", progress(`"t"`, "3"))
		p.release("k")
		p.outcome(id)
		for _, params := range p.got("notifications/progress") {
			c.equal("token", part(params, "progressToken"), `"t"`)
		}
	}},
	{name: "extension task has no progress", era: "modern", run: func(c *check) {
		// Proves XTASK-49.
		p := c.peer()
		params := withMeta(call("count", keyed("k"), ""), p.capabilities, `,"progressToken":"t","io.modelcontextprotocol/logLevel":"debug"`)
		id := p.taskOf(p.result("tools/call", params))
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
		c.equal("progress", p.got("notifications/progress"), "[]")
		c.equal("log messages", p.got("notifications/message"), "[]")
	}},
	{name: "log messages of a task", era: "session", run: func(c *check) {
		p := c.peer()
		c.equal("setLevel", p.result("logging/setLevel", `{"level":"info"}`), "{}")
		id := p.task("count", keyed("k"))
		p.await("log message of the task", func(m jsonrpc.Message) bool {
			return m.Method == "notifications/message" && part(string(m.Params), "data") == `"log 3 of k"`
		})
		for _, params := range p.got("notifications/message") {
			c.equal("level", part(params, "level"), `"info"`)
			c.equal("related task", part(params, "_meta", taskrules.RelatedTask, "taskId"), fmt.Sprintf("%q", id))
		}
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "status notifications", era: "session", run: func(c *check) {
		p := c.peer()
		id := p.task("echo", `{}`)
		p.await("notification of the task", func(m jsonrpc.Message) bool {
			params := string(m.Params)
			return m.Method == "notifications/tasks/status" && unquote(part(params, "taskId")) == id && part(params, "status") == `"completed"`
		})
	}},
	{name: "subscription reports a task", era: "modern", run: func(c *check) {
		// Proves XTASK-45 and XTASK-46.
		p := c.peer()
		id := p.task("gate", keyed("k"))
		request, _ := p.start("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q,"unknown"]}}`, id))
		c.equal("acknowledged tasks", part(p.acknowledged(request), "notifications", "taskIds"), fmt.Sprintf("[%q]", id))
		p.release("k")
		p.reported(id, request)
	}},
	{name: "subscription with other filters", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		request, _ := p.start("subscriptions/listen", fmt.Sprintf(`{"notifications":{"toolsListChanged":true,"taskIds":[%q]}}`, id))
		acknowledged := part(p.acknowledged(request), "notifications")
		c.equal("acknowledged tasks", part(acknowledged, "taskIds"), fmt.Sprintf("[%q]", id))
		c.equal("acknowledged list", part(acknowledged, "toolsListChanged"), "true")
		p.release("k")
		p.reported(id, request)
	}},
	{name: "subscription without tasks", era: "modern", run: func(c *check) {
		p := c.peer()
		request, _ := p.start("subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		acknowledged := part(p.acknowledged(request), "notifications")
		c.equal("acknowledged tasks", part(acknowledged, "taskIds"), "")
		c.equal("acknowledged list", part(acknowledged, "toolsListChanged"), "true")
	}},
	{name: "subscription ends", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		first, _ := p.start("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]}}`, id))
		p.acknowledged(first)
		p.write(jsonrpc.NewNotification("notifications/cancelled", cancelled(p, first)))
		second, _ := p.start("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q]}}`, id))
		p.acknowledged(second)
		p.release("k")
		p.reported(id, second)
	}},
	{name: "subscription of another principal's task", era: "modern", transports: "http", setup: setup{Principals: true}, run: func(c *check) {
		ada, eve := c.peerAs("ada"), c.peerAs("eve")
		id, own := ada.task("gate", keyed("k")), eve.task("gate", keyed("k"))
		request, _ := eve.start("subscriptions/listen", fmt.Sprintf(`{"notifications":{"taskIds":[%q,%q]}}`, id, own))
		c.equal("acknowledged tasks", part(eve.acknowledged(request), "notifications", "taskIds"), fmt.Sprintf("[%q]", own))
		ada.release("k")
		eve.reported(own, request)
		for _, params := range eve.got("notifications/tasks") {
			c.equal("task", part(params, "taskId"), fmt.Sprintf("%q", own))
		}
	}},
}

// progress returns a condition for await.
func progress(token, value string) func(m jsonrpc.Message) bool {
	return func(m jsonrpc.Message) bool {
		params := string(m.Params)
		return m.Method == "notifications/progress" && part(params, "progressToken") == token && part(params, "progress") == value
	}
}

// acknowledged waits for the acknowledgment of a subscription and returns its params.
func (p *peer) acknowledged(request int64) string {
	p.c.Helper()
	return string(p.await("acknowledgment", func(m jsonrpc.Message) bool {
		return m.Method == "notifications/subscriptions/acknowledged" && part(string(m.Params), "_meta", modern.MetaSubscription) == fmt.Sprint(request)
	}).Params)
}

// reported waits until a subscription reports that a task is completed.
func (p *peer) reported(id string, request int64) {
	p.c.Helper()
	p.await("notification of the task", func(m jsonrpc.Message) bool {
		params := string(m.Params)
		return m.Method == "notifications/tasks" && part(params, "_meta", modern.MetaSubscription) == fmt.Sprint(request) &&
			unquote(part(params, "taskId")) == id && part(params, "status") == `"completed"` && part(params, "result") != ""
	})
}
