package embedtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// States of tasks.
var taskCases = []testCase{
	{name: "status and poll interval", run: func(c *check) {
		// Proves XTASK-15, XTASK-16 and XTASK-23.
		p := c.peer()
		created := p.create("gate", keyed("k"))
		id := p.taskOf(created)
		suffix := "Ms"
		if c.era == "session" {
			created, suffix = part(created, "task"), ""
		}
		for _, state := range []string{created, p.get(id)} {
			c.equal("id", part(state, "taskId"), fmt.Sprintf("%q", id))
			c.equal("status", part(state, "status"), `"working"`)
			c.equal("ttl", part(state, "ttl"+suffix), "3600000")
			c.equal("poll interval", part(state, "pollInterval"+suffix), pollInterval.Milliseconds())
			for _, name := range []string{"createdAt", "lastUpdatedAt"} {
				if _, err := time.Parse(time.RFC3339Nano, unquote(part(state, name))); err != nil {
					c.Errorf("%s: %v", name, err)
				}
			}
		}
	}},
	{name: "ttl is limited", era: "session", run: func(c *check) {
		p := c.peer()
		for asked, want := range map[string]string{"5000": "5000", "8640000000": "86400000"} {
			created := p.result("tools/call", call("gate", keyed("k"), `,"task":{"ttl":`+asked+`}`))
			c.equal("ttl", part(created, "task", "ttl"), want)
		}
	}},
	{name: "task expires", transports: "memory", era: "session", run: func(c *check) { // the clock is that of a bubble
		p := c.peer()
		id := p.taskOf(p.result("tools/call", call("gate", keyed("k"), `,"task":{"ttl":5000}`)))
		time.Sleep(6 * time.Second)
		p.fails("tasks/get", ofTask(id), jsonrpc.CodeInvalidParams)
		c.equal("events", p.events("k", 2), "[run cancelled]")
	}},
	{name: "unknown task", run: func(c *check) {
		// Proves XTASK-53.
		p := c.peer()
		methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
		if c.era == "modern" {
			methods[2] = "tasks/update"
		}
		for _, method := range methods {
			p.fails(method, `{"taskId":"unknown","inputResponses":{}}`, jsonrpc.CodeInvalidParams)
			if c.transport != "http" || c.era == "session" { // where Mcp-Name would be missing, too
				p.fails(method, `{"inputResponses":{}}`, jsonrpc.CodeInvalidParams)
			}
		}
	}},
	{name: "terminal task cannot be cancelled", era: "session", run: func(c *check) {
		p := c.peer()
		id := p.task("echo", `{}`)
		p.outcome(id)
		p.fails("tasks/cancel", ofTask(id), jsonrpc.CodeInvalidParams)
		c.equal("status", p.status(id), "completed")
	}},
	{name: "cancel is idempotent", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		for range 2 {
			c.equal("type of the result", part(p.cancel(id), "resultType"), `"complete"`)
		}
		c.equal("status", p.status(id), "cancelled")
		id = p.task("echo", `{}`)
		p.outcome(id)
		p.cancel(id)
		c.equal("status", p.status(id), "completed")
	}},
	{name: "cancel reaches the handler", run: func(c *check) {
		// Proves XTASK-26.
		p := c.peer()
		id := p.task("gate", keyed("k"))
		p.events("k", 1)
		p.cancel(id)
		c.equal("events", p.events("k", 2), "[run cancelled]")
		c.equal("status", p.status(id), "cancelled")
		c.equal("code", p.code(id), task.CodeCancelled)
	}},
	{name: "cancel of a handler that waits for input", run: func(c *check) {
		p := c.peer()
		id := p.task("ask", keyed("k"))
		p.awaitInput(id)
		p.cancel(id)
		c.equal("status", p.status(id), "cancelled")
		c.equal("code", p.code(id), task.CodeCancelled)
	}},
	{name: "cancel of a handler that ignores it", run: func(c *check) {
		p := c.peer()
		id := p.task("stubborn", keyed("k"))
		p.events("k", 1)
		p.cancel(id)
		c.equal("status", p.status(id), "cancelled")
		p.release("k")
		c.equal("events", p.events("k", 2), "[run passed]")
		c.equal("status", p.status(id), "cancelled")
	}},
	{name: "disconnect does not cancel a task", transports: "memory http", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		p.close()
		other := c.peer()
		c.equal("status", other.status(id), "working")
		other.release("k")
		c.equal("outcome", other.outcome(id), "passed")
	}},
	{name: "two clients wait for a task", transports: "memory http", run: func(c *check) {
		p, other := c.peer(), c.peer()
		id := p.task("gate", keyed("k"))
		if c.era == "session" {
			_, first := p.start("tasks/result", ofTask(id))
			_, second := other.start("tasks/result", ofTask(id))
			p.release("k")
			c.equal("first outcome", outcome(p.receive(first)), "passed")
			c.equal("second outcome", outcome(other.receive(second)), "passed")
			return
		}
		p.release("k")
		c.equal("first outcome", p.outcome(id), "passed")
		c.equal("second outcome", other.outcome(id), "passed")
	}},
	{name: "wait for a result is cancelled", era: "session", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		request, _ := p.start("tasks/result", ofTask(id))
		p.write(jsonrpc.NewNotification("notifications/cancelled", cancelled(p, request)))
		c.equal("status", p.status(id), "working")
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
		c.equal("events", p.events("k", 2), "[run passed]")
	}},
	{name: "tool error", run: func(c *check) {
		// Proves XTASK-54.
		p := c.peer()
		c.equal("outcome of the plain call", p.plain("fail", `{}`), "failure: it is broken")
		id := p.task("fail", `{}`)
		c.equal("outcome", p.outcome(id), "failure: it is broken")
		want := "completed"
		if c.era == "session" {
			want = "failed"
		}
		c.equal("status", p.status(id), want)
	}},
	{name: "JSON-RPC error", run: func(c *check) {
		p := c.peer()
		id := p.task("fail-rpc", `{}`)
		_, failed := p.wait(id)
		if failed == nil {
			c.Fatalf("the task has a result")
		}
		c.equal("error", failed, "jsonrpc: no way (code -7)")
		c.equal("data", string(failed.Data), `{"why":[1,"é"]}`)
		c.equal("status", p.status(id), "failed")
	}},
	{name: "panic", run: func(c *check) {
		p := c.peer()
		id := p.task("panic", `{}`)
		if got := p.outcome(id); strings.Contains(got, "the panic of a test") || !strings.HasPrefix(got, "error -32603") {
			c.Errorf("outcome: %s", got)
		}
		c.equal("status", p.status(id), "failed")
		c.equal("outcome of another task", p.outcome(p.task("echo", `{}`)), "{}")
	}},
	{name: "task of a session is read by a modern client", transports: "memory http", era: "session", run: func(c *check) {
		p, other := c.peer(), c.peerOf("modern", everything("modern"), nil)
		id := p.task("gate", keyed("k"))
		c.equal("status", other.status(id), "working")
		p.release("k")
		c.equal("outcome", other.outcome(id), "passed")
		id = other.task("greet", `{"name":"Ada"}`)
		c.equal("outcome in the session", p.outcome(id), "Hello, Ada")
	}},
}

// code returns the code of the error of a task, or 0 if it has none.
func (p *peer) code(id string) int64 {
	p.c.Helper()
	_, failed := p.wait(id)
	if failed == nil {
		return 0
	}
	return failed.Code
}
