package embedtest

import (
	"fmt"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Calls that are tasks, and calls that are not.
var callCases = []testCase{
	{name: "plain call", run: func(c *check) {
		c.equal("outcome", c.peer().plain("greet-plain", `{"name":"Ada"}`), "Hello, Ada")
	}},
	{name: "plain call of a tool with task support", run: func(c *check) {
		p := c.peer()
		c.equal("greet", p.plain("greet", `{"name":"Ada"}`), "Hello, Ada")
		c.equal("echo", p.plain("echo", `{"a":[1,"é"]}`), `{"a":[1,"é"]}`)
	}},
	{name: "call as a task", run: func(c *check) {
		p := c.peer()
		id := p.task("greet", `{"name":"Ada"}`)
		c.equal("outcome", p.outcome(id), "Hello, Ada")
		c.equal("status", p.status(id), "completed")
		c.equal("outcome, read again", p.outcome(id), "Hello, Ada")
	}},
	{name: "result has the related task", era: "session", run: func(c *check) {
		p := c.peer()
		id := p.task("echo", `{}`)
		result, _ := p.wait(id)
		c.equal("related task", part(result, "_meta", taskrules.RelatedTask, "taskId"), fmt.Sprintf("%q", id))
	}},
	{name: "extension task has no related task", era: "modern", run: func(c *check) {
		p := c.peer()
		created := p.create("echo", `{}`)
		for _, name := range []string{"task", "ttl", "pollInterval", "content", "result"} {
			c.equal(name, part(created, name), "")
		}
		result, _ := p.wait(p.taskOf(created))
		c.equal("related task", part(result, "_meta", taskrules.RelatedTask), "")
		c.equal("type of the result", part(result, "resultType"), `"complete"`)
	}},
	{name: "short call stays plain", era: "modern", run: func(c *check) {
		c.equal("outcome", outcome(c.peer().call("tools/call", call("echo-later", `{"a":1}`, ""))), `{"a":1}`)
	}},
	{name: "long call becomes a task", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("gate-later", keyed("k"))
		c.equal("status", p.status(id), "working")
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "no extension, no task", era: "modern", run: func(c *check) {
		p := c.peer()
		id := p.task("echo", `{}`)
		p.capabilities = "{" + inputCapabilities + "}"
		for _, tool := range []string{"echo", "gate-later"} {
			if tool == "gate-later" {
				p.release("k")
			}
			result := p.result("tools/call", call(tool, keyed("k"), ""))
			c.equal("type of the result", part(result, "resultType"), `"complete"`)
		}
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			e := p.fails(method, ofTask(id), modern.CodeMissingCapability)
			c.equal("data of the error", string(e.Data), `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
		}
	}},
	{name: "extension in a session is ignored", era: "session", run: func(c *check) {
		// Proves XTASK-59.
		p := c.peer()
		more := `,"_meta":{"io.modelcontextprotocol/clientCapabilities":{` + withExtension + `}}`
		c.equal("outcome", outcome(p.call("tools/call", call("greet", `{"name":"Ada"}`, more))), "Hello, Ada")
	}},
	{name: "session of an earlier revision has no tasks", era: "session", run: func(c *check) {
		conn, _, err := c.connect(nil)
		if err != nil {
			c.Fatal(err)
		}
		p := c.open(conn, c.era, everything(c.era))
		p.handshake("2025-06-18")
		c.equal("revision", part(p.initialize, "protocolVersion"), `"2025-06-18"`)
		c.equal("capabilities", part(p.initialize, "capabilities", "tasks"), "")
		for _, tool := range members(p.result("tools/list", `{}`), "tools") {
			c.equal("task support of "+part(tool, "name"), part(tool, "execution", "taskSupport"), "")
		}
		c.equal("outcome", outcome(p.call("tools/call", call("greet", `{"name":"Ada"}`, `,"task":{}`))), "Hello, Ada")
		p.fails("tasks/get", ofTask("unknown"), jsonrpc.CodeMethodNotFound)
	}},
	{name: "task parameter is ignored", era: "modern", run: func(c *check) {
		// Proves XTASK-57.
		p := c.peer()
		created := p.result("tools/call", call("echo", `{}`, `,"task":{"ttl":5000}`))
		p.taskOf(created)
		c.equal("ttl", part(created, "ttlMs"), "3600000")
		c.equal("outcome", outcome(p.call("tools/call", call("greet-plain", `{"name":"Ada"}`, `,"task":{}`))), "Hello, Ada")
	}},
	{name: "required tool refuses a plain call", run: func(c *check) {
		p := c.peer()
		code := int64(jsonrpc.CodeMethodNotFound)
		params := call("required", `{"a":1}`, "")
		if c.era == "modern" {
			code = modern.CodeMissingCapability
			params = withMeta(params, "{"+inputCapabilities+"}", "")
		}
		p.fails("tools/call", params, code)
		c.equal("outcome", p.outcome(p.task("required", `{"a":1}`)), `{"a":1}`)
	}},
	{name: "forbidden tool refuses a task", run: func(c *check) {
		p := c.peer()
		for _, tool := range []string{"forbidden", "greet-plain"} {
			if c.era == "session" {
				p.fails("tools/call", call(tool, `{"name":"Ada"}`, `,"task":{}`), jsonrpc.CodeMethodNotFound)
				continue
			}
			result := p.result("tools/call", call(tool, `{"name":"Ada"}`, ""))
			c.equal("type of the result", part(result, "resultType"), `"complete"`)
		}
	}},
	{name: "unknown tool", run: func(c *check) {
		p := c.peer()
		result, failed := p.call("tools/call", asTask(c.era, "unknown", `{}`))
		if id := part(result, "task", "taskId"); id != "" {
			result, failed = p.wait(unquote(id))
		}
		if failed == nil || failed.Code != jsonrpc.CodeInvalidParams {
			c.Errorf("got %s, %v", result, failed)
		}
	}},
	{name: "task support is listed", run: func(c *check) {
		listed := map[string]string{}
		for _, t := range members(c.peer().result("tools/list", `{}`), "tools") {
			listed[unquote(part(t, "name"))] = unquote(part(t, "execution", "taskSupport"))
		}
		for name, t := range c.setup.tools() {
			want := ""
			if c.era == "session" && t.support != nil {
				want = string(t.support.Mode)
				if want == "" {
					want = "optional"
				}
			}
			got, ok := listed[name]
			if got == "forbidden" && (want == "" && c.era == "session") || got == "" && want == "forbidden" {
				got = want // the default
			}
			if !ok || got != want {
				c.Errorf("%s has the support %q, want %q", name, got, want)
			}
		}
	}},
	{name: "capabilities are declared", run: func(c *check) {
		// Proves XTASK-01 and XTASK-02.
		capabilities := part(c.peer().initialize, "capabilities")
		ofSession, extension := part(capabilities, "tasks"), part(capabilities, "extensions", "io.modelcontextprotocol/tasks")
		if c.era == "modern" {
			c.equal("tasks", ofSession, "")
			c.equal("extension", extension, "{}")
			return
		}
		c.equal("tools/call", part(ofSession, "requests", "tools", "call"), "{}")
		c.equal("cancel", part(ofSession, "cancel"), "{}")
		if c.transport != "stdio" { // a process may serve one principal
			c.equal("list", part(ofSession, "list"), "")
		}
		c.equal("extension", extension, "")
	}},
	{name: "methods of the other era do not exist", run: func(c *check) {
		// Proves XTASK-56.
		p := c.peer()
		id := p.task("echo", `{}`)
		methods := []string{"tasks/update"}
		if c.era == "modern" {
			methods = []string{"tasks/result", "tasks/list"}
		}
		for _, method := range methods {
			p.fails(method, ofTask(id), jsonrpc.CodeMethodNotFound)
		}
	}},
	{name: "cancellation of a plain call", run: func(c *check) {
		p := c.peer()
		params := call("gate-plain", keyed("k"), "")
		id, _ := p.start("tools/call", params) // the response, if there is one, is ignored
		p.events("k", 1)
		p.write(jsonrpc.NewNotification("notifications/cancelled", cancelled(p, id)))
		c.equal("events", p.events("k", 2), "[run cancelled]")
	}},
	{name: "disconnect cancels a plain call", transports: "memory http", run: func(c *check) {
		p, other := c.peer(), c.peer()
		p.start("tools/call", call("gate-plain", keyed("k"), ""))
		other.events("k", 1)
		p.close()
		c.equal("events", other.events("k", 2), "[run cancelled]")
	}},
	{name: "plain transport without wrapper stays plain", transports: "memory", run: func(c *check) {
		if c.endpoint.Bare == nil {
			c.Skip("the subject has no wrapper")
		}
		conn, err := c.endpoint.Bare()
		if err != nil {
			c.Fatal(err)
		}
		p := c.peerOver(conn, c.era, everything(c.era))
		c.equal("outcome", p.plain("greet", `{"name":"Ada"}`), "Hello, Ada")
		more := ""
		if c.era == "session" {
			more = `,"task":{}`
		}
		c.equal("outcome of a call as a task", outcome(p.call("tools/call", call("greet", `{"name":"Ada"}`, more))), "Hello, Ada")
	}},
}

// cancelled returns the params of notifications/cancelled.
func cancelled(p *peer, id any) []byte {
	return []byte(p.complete(fmt.Sprintf(`{"requestId":%v}`, id)))
}
