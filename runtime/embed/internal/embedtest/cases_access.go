package embedtest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Principals, lists and limits.
var accessCases = []testCase{
	{name: "tasks are listed by page", era: "session", setup: setup{Principals: true, List: true, PageSize: 2}, run: func(c *check) {
		p := c.peerAs("ada")
		c.equal("list", part(p.initialize, "capabilities", "tasks", "list"), "{}")
		var want, got []string
		for range 5 {
			want = append(want, p.task("echo", `{}`))
		}
		for cursor, pages := "{}", 1; ; pages++ {
			result := p.result("tasks/list", cursor)
			for _, t := range members(result, "tasks") {
				got = append(got, unquote(part(t, "taskId")))
			}
			next := part(result, "nextCursor")
			if next == "" {
				c.equal("pages", pages, 3)
				break
			}
			cursor = `{"cursor":` + next + `}`
		}
		slices.Sort(got)
		slices.Sort(want)
		c.equal("tasks", got, want)
	}},
	{name: "tasks are not listed without principals", era: "session", transports: "memory http", run: func(c *check) {
		c.peer().fails("tasks/list", `{}`, jsonrpc.CodeMethodNotFound)
	}},
	{name: "principals are separate", transports: "http", setup: setup{Principals: true, List: true}, run: separate},
	{name: "principal from the token", transports: "http", setup: setup{Tokens: true, List: true}, run: func(c *check) {
		separate(c)
		ada := c.peerAs("ada")
		c.equal("user in a plain call", ada.plain("whoami", keyed("k")), "ada")
		c.equal("user in a task", ada.outcome(ada.task("whoami", keyed("k"))), "ada")
	}},
	{name: "handler gets the principal", transports: "http", setup: setup{Principals: true}, run: func(c *check) {
		ada := c.peerAs("ada")
		ada.release("plain")
		c.equal("principal in a plain call", ada.plain("principal", keyed("plain")), "ada")
		id := ada.task("principal-durable", keyed("k"))
		ada.events("k", 1)
		c.restart(ada)
		ada = c.peerAs("ada")
		for count(ada.events("k", 2), "run") < 2 {
			ada.pause()
		}
		ada.release("k")
		c.equal("principal after a restart", ada.outcome(id), "ada")
	}},
	{name: "session user cannot change", transports: "http", era: "session", setup: setup{Tokens: true}, run: func(c *check) {
		post := func(user, session, body string) (status int, header http.Header, text string) {
			r, err := http.NewRequestWithContext(c.ctx, "POST", c.web.URL, strings.NewReader(body))
			if err != nil {
				c.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + user}}
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
				r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
			}
			return c.send(r)
		}
		_, header, _ := post("ada", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"suite","version":"1"},"capabilities":{}}}`)
		session := header.Get("Mcp-Session-Id")
		if session == "" {
			c.Fatalf("initialize: got the header %v", header)
		}
		post("ada", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		ping := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"name":"Ada"},"task":{}}}`
		if status, _, _ := post("ada", session, ping); status != http.StatusOK {
			c.Errorf("the user of the session got status %d", status)
		}
		if status, _, text := post("eve", session, ping); status < 400 {
			c.Errorf("another user got status %d: %s", status, text)
		}
	}},
	{name: "Mcp-Name must match", transports: "http", era: "modern", run: func(c *check) {
		// Proves XTASK-51.
		id := c.peer().task("echo", `{}`)
		body := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":` + withMeta(ofTask(id), everything("modern"), "") + `}`
		for name, want := range map[string]int{id: http.StatusOK, "other": http.StatusBadRequest, "": http.StatusBadRequest} {
			r, err := http.NewRequestWithContext(c.ctx, "POST", c.web.URL, strings.NewReader(body))
			if err != nil {
				c.Fatal(err)
			}
			r.Header = http.Header{
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				modern.HeaderVersion: {"2026-07-28"}, modern.HeaderMethod: {"tasks/get"},
			}
			if name != "" {
				r.Header.Set(modern.HeaderName, name)
			}
			status, _, text := c.send(r)
			if status != want || want != http.StatusOK && part(text, "error", "code") != fmt.Sprint(modern.CodeHeaderMismatch) {
				c.Errorf("name %q: got status %d: %s", name, status, text)
			}
		}
	}},
	{name: "limit of tasks", setup: setup{Limits: task.Limits{Tasks: 2}}, run: func(c *check) {
		p := c.peer()
		first := p.task("gate", keyed("k"))
		p.task("gate", keyed("k"))
		c.refused(p, task.CodeTooManyTasks, "gate", keyed("k"))
		p.cancel(first)
		p.events("k", 2)
		for { // the task counts until its handler has returned
			if _, failed := p.call("tools/call", asTask(c.era, "gate", keyed("other"))); failed == nil {
				break
			}
			p.pause()
		}
	}},
	{name: "limit of bytes", setup: setup{Limits: task.Limits{Bytes: 10_000}}, run: func(c *check) {
		p := c.peer()
		arguments := fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 6000))
		p.task("gate", keyed("k"))
		c.refused(p, task.CodeTooManyBytes, "big", fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 12_000)))
		c.equal("outcome of a plain call", p.plain("echo", arguments), arguments)
	}},
	{name: "limit of calls", setup: setup{Limits: task.Limits{Rate: 0.001, Burst: 3}}, run: func(c *check) {
		p := c.peer()
		for range 3 {
			p.task("gate", keyed("k"))
		}
		c.refused(p, task.CodeTooManyCalls, "gate", keyed("k"))
		c.equal("outcome of a plain call", p.plain("echo", `{}`), `{}`)
	}},
}

// asTask returns the params of a call as a task.
func asTask(era, tool, arguments string) string {
	if era == "session" {
		return call(tool, arguments, `,"task":{}`)
	}
	return call(tool, arguments, "")
}

// refused calls a tool as a task, and checks that a limit rejects it with code.
func (c *check) refused(p *peer, code int64, tool, arguments string) {
	c.Helper()
	if p.era == "modern" {
		code = modern.MapCode(code)
	}
	p.fails("tools/call", asTask(p.era, tool, arguments), code)
}

// send sends an HTTP request.
func (c *check) send(r *http.Request) (status int, header http.Header, text string) {
	c.Helper()
	response, err := c.web.Client().Do(r)
	if err != nil {
		c.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

// separate checks that a principal cannot reach the tasks of another one.
//
// Proves XTASK-64.
func separate(c *check) {
	ada, eve := c.peerAs("ada"), c.peerAs("eve")
	id := ada.task("gate", keyed("k"))
	c.equal("status", ada.status(id), "working")
	methods := []string{"tasks/get", "tasks/cancel", "tasks/result"}
	if c.era == "modern" {
		methods[2] = "tasks/update"
	}
	for _, method := range methods {
		foreign := eve.fails(method, fmt.Sprintf(`{"taskId":%q,"inputResponses":{}}`, id), jsonrpc.CodeInvalidParams)
		unknown := eve.fails(method, `{"taskId":"unknown","inputResponses":{}}`, jsonrpc.CodeInvalidParams)
		c.equal("message", strings.ReplaceAll(foreign.Message, id, "unknown"), unknown.Message)
	}
	if c.era == "session" {
		c.equal("tasks of eve", len(members(eve.result("tasks/list", `{}`), "tasks")), 0)
		c.equal("tasks of ada", len(members(ada.result("tasks/list", `{}`), "tasks")), 1)
	}
	c.equal("status", ada.status(id), "working")
	ada.release("k")
	c.equal("outcome", ada.outcome(id), "passed")
}
