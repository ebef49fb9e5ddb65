package embedtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Messages of unusual content or at an unusual time.
var messageCases = []testCase{
	{name: "messages after the end are dropped", run: func(c *check) {
		p := c.peer()
		p.serve = func(method, params string) (string, *jsonrpc.Error) {
			c.Errorf("received %s %s", method, params)
			return accept("late"), nil
		}
		meta := `,"task":{},"_meta":{"progressToken":"t"}`
		if c.era == "modern" {
			meta = ""
		}
		id := p.taskOf(p.result("tools/call", call("chatty", keyed("k"), meta)))
		c.equal("outcome", p.outcome(id), "done")
		p.release("k")
		c.equal("events", p.events("k", 1), "[refused]")
		p.result("tools/list", `{}`) // earlier messages have arrived with its result
		for _, method := range []string{"notifications/progress", "notifications/message", "elicitation/create"} {
			c.equal(method, p.got(method), "[]")
		}
		c.equal("status", p.status(id), "completed")
	}},
	{name: "slashes are escaped", run: func(c *check) { // as some encoders do by default
		p := c.peer()
		p.escape = true
		c.equal("outcome of a plain call", p.plain("greet", `{"name":"Ada/Eve"}`), "Hello, Ada/Eve")
		id := p.task("ask", keyed("k"))
		c.equal("outcome", p.outcome(id), "accept k")
		c.equal("status", p.status(id), "completed")
	}},
	{name: "members in another order", run: func(c *check) {
		p := c.peer()
		arguments := `{"_meta":{"task":{}},"name":"Ada"}`
		params := `{"arguments":` + arguments + `,"name":"echo"}`
		if c.era == "session" {
			params = ` { "t\u0061sk" : { } ,` + params[1:]
		}
		c.equal("outcome", p.outcome(p.taskOf(p.result("tools/call", params))), arguments)
	}},
	{name: "ids of requests survive", run: func(c *check) {
		p := c.peer()
		for _, id := range []jsonrpc.ID{codec.StringScalar("mcpwire-1"), codec.StringScalar(""), codec.StringScalar("1"), codec.IntScalar(-1), codec.IntScalar(1 << 53)} {
			created, failed := p.receive(p.startAs(id, "tools/call", p.complete(asTask(c.era, "ask", keyed("k")))))
			if failed != nil {
				c.Fatalf("id %v: %v", id, failed)
			}
			task := p.taskOf(created)
			state, failed := p.receive(p.startAs(id, "tasks/get", p.complete(ofTask(task))))
			if failed != nil {
				c.Fatalf("id %v: %v", id, failed)
			}
			c.equal("task", part(state, "taskId"), fmt.Sprintf("%q", task))
			c.equal("outcome", p.outcome(task), "accept k")
		}
	}},
	{name: "many tasks at once", run: func(c *check) {
		p := c.peer()
		ids := map[string]string{}
		for n := range 30 {
			k := fmt.Sprintf("k%d", n)
			ids[k] = p.task("ask", keyed(k))
		}
		var waiting sync.WaitGroup
		for k, id := range ids {
			waiting.Go(func() { c.equal("outcome", p.outcome(id), "accept "+k) })
		}
		waiting.Wait()
	}},
	{name: "unknown members of arguments survive", run: func(c *check) {
		p := c.peer()
		arguments := `{"z":{"deep":[1,null,true,"é\u0000"]},"a":-1.5e3,"key":"k"}`
		for what, got := range map[string]string{"plain call": p.plain("echo", arguments), "task": p.outcome(p.task("echo", arguments))} {
			var g, w any
			if json.Unmarshal([]byte(got), &g) != nil || json.Unmarshal([]byte(arguments), &w) != nil || !reflect.DeepEqual(g, w) {
				c.Errorf("%s: got %s, want %s", what, got, arguments)
			}
		}
	}},
	{name: "large integers of arguments survive", run: func(c *check) {
		p := c.peer()
		arguments := `{"n":9007199254740993}`
		c.equal("task", p.outcome(p.task("echo", arguments)), arguments)
		c.equal("plain call", p.plain("echo", arguments), arguments)
	}},
	{name: "result of 8 MiB", long: true, run: func(c *check) {
		p := c.peer()
		id := p.task("big", fmt.Sprintf(`{"count":%d}`, 8<<20))
		if got := p.outcome(id); got != strings.Repeat("x", 8<<20) {
			c.Errorf("got %d bytes, which begin with %s", len(got), shorten(got))
		}
	}},
	{name: "thousand tasks, no goroutine left", long: true, transports: "memory", run: func(c *check) { // the bubble of the test waits for all goroutines
		p := c.peer()
		for range 1000 {
			id := p.task("echo", `{}`)
			if got := p.outcome(id); got != "{}" {
				c.Fatalf("outcome: %s", got)
			}
		}
	}},
}
