package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// withExtension declares the Tasks extension and elicitation in a request.
var withExtension = declares(`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)

// taskTools adds tools with tasks, which begin at once if the client has the extension.
func taskTools(s *server.Server) {
	atOnce := server.Tasks(receiver.Support{After: -1})
	server.AddTool(s, "hi", "", sayHi, atOnce)
	server.AddTool(s, "never", "", sayHi)
	server.AddTool(s, "only", "", sayHi, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
	server.AddTool(s, "bad", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", errors.New("it is broken") }, atOnce)
	server.AddTool(s, "worse", "", func(context.Context, *server.Call, struct{}) (string, error) {
		return "", &jsonrpc.Error{Code: -7, Message: "no way", Data: json.RawMessage(`{"why":[1.0,"é"]}`)}
	}, atOnce)
	server.AddTool(s, "hang", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}, atOnce)
	server.AddTool(s, "order", "", orderTool, atOnce)
}

// startTask calls a tool that runs as a task, and returns the id of the task.
func (c *modernClient) startTask(tool, arguments string) string {
	c.t.Helper()
	created := c.result("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), withExtension)
	if err := tasks.Validate(tasks.RevisionExtTasks, "CreateTaskResult", []byte(created)); err != nil {
		c.t.Fatalf("%s: %v", created, err)
	}
	for _, name := range []string{"content", "result", "error", "inputRequests", "requestState", "task", "ttl", "pollInterval"} {
		if part(created, name) != "" {
			c.t.Errorf("the task has a member %s: %s", name, created)
		}
	}
	return strings.Trim(part(created, "taskId"), `"`)
}

// task returns the result of tasks/get, without the server info.
func (c *modernClient) task(id string) string {
	c.t.Helper()
	got := c.result("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id), withExtension)
	if err := tasks.Validate(tasks.RevisionExtTasks, "GetTaskResult", []byte(got)); err != nil || part(got, "resultType") != `"complete"` {
		c.t.Errorf("%s: %v", got, err)
	}
	return got
}

// outline returns what tests compare of the state of a task: its status and its payload.
func outline(state string) string {
	out := strings.Trim(part(state, "status"), `"`)
	for _, name := range []string{"inputRequests", "result", "error"} {
		if value := part(state, name); value != "" {
			out += " " + value
		}
	}
	return out
}

// Proves XTASK-05, XTASK-12, XTASK-13, XTASK-14, XTASK-15, XTASK-16, XTASK-17, XTASK-18, XTASK-19,
// XTASK-20, XTASK-23, XTASK-25, XTASK-26, XTASK-27, XTASK-54 and XTASK-55.
func TestExtensionTaskHasOutcomeOfCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		c := connectModern(t, s)
		for _, row := range []struct{ tool, want, message string }{
			{"hi", `completed {"resultType":"complete","content":[{"type":"text","text":"hi"}]}`, ``},
			{"only", `completed {"resultType":"complete","content":[{"type":"text","text":"hi"}]}`, ``},
			{"bad", `completed {"resultType":"complete","content":[{"type":"text","text":"it is broken"}],"isError":true}`, `"it is broken"`},
			{"worse", `failed {"code":-7,"message":"no way","data":{"why":[1.0,"é"]}}`, `"no way"`},
			{"hang", `working`, ``},
		} {
			id := c.startTask(row.tool, `{}`)
			got := c.task(id)
			if outline(got) != row.want || part(got, "statusMessage") != row.message {
				t.Errorf("%s: got %s, want %s", row.tool, got, row.want)
			}
			if part(got, "taskId") != `"`+id+`"` || part(got, "ttlMs") != "3600000" || part(got, "pollIntervalMs") != "1000" {
				t.Errorf("%s: got %s", row.tool, got)
			}
			if row.tool == "hang" {
				c.result("tasks/cancel", `{"taskId":"`+id+`"}`, withExtension)
				if got := c.task(id); outline(got) != "cancelled" {
					t.Errorf("got %s after its cancellation", got)
				}
			}
		}
		// A tool without tasks, and one that is unknown, are plain.
		if got := c.result("tools/call", `{"name":"never"}`, withExtension); part(got, "resultType") != `"complete"` {
			t.Errorf("got %s", got)
		}
		c.fails("tools/call", `{"name":"unknown"}`, withExtension, jsonrpc.CodeInvalidParams, "unknown tool")
	})
}

// Proves XTASK-01, XTASK-02 and XTASK-59.
func TestExtensionIsDeclaredToModernClientsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		must(0, s.Extend(server.Extension{ID: "com.example/other"}))
		capabilities := part(connectModern(t, s).result("server/discover", `{}`, ""), "capabilities")
		if got := part(capabilities, "extensions"); got != `{"com.example/other":{},"io.modelcontextprotocol/tasks":{}}` || part(capabilities, "tasks") != "" {
			t.Errorf("got %s", capabilities)
		}
		c := connect(t, s, clientConfig{capabilities: mcp.ClientCapabilities{Extensions: json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)}})
		if got := string(c.Server().Capabilities.Extensions); got != `{"com.example/other":{}}` || c.Server().Capabilities.Tasks == nil {
			t.Errorf("a session got the extensions %s", got)
		}
	})
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { c.Tasks = nil }}}, memory.New(), taskTools)
		c := connectModern(t, s)
		if got := c.result("server/discover", `{}`, ""); part(got, "capabilities", "extensions") != "" {
			t.Errorf("got %s", got)
		}
		if got := c.result("tools/call", `{"name":"hi"}`, withExtension); part(got, "resultType") != `"complete"` {
			t.Errorf("got %s", got)
		}
		c.fails("tasks/get", `{"taskId":"x"}`, withExtension, jsonrpc.CodeMethodNotFound, "tasks/get")
	})
}

// Proves XTASK-04, XTASK-06, XTASK-09, XTASK-10, XTASK-11, XTASK-56, XTASK-57 and XTASK-58.
func TestTasksOnlyForRequestsThatDeclareTheExtension(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		server.AddPrompt(s, "p", "", givePrompt)
		c := connectModern(t, s)
		id := c.startTask("hi", `{}`)
		const missing = `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		for _, capabilities := range []string{`{}`, `{"tasks":{"requests":{"tools":{"call":{}}},"cancel":{}}}`, `{"extensions":{"com.example/tasks":{}}}`} {
			meta := declares(capabilities)
			for _, tool := range []string{"hi", "never"} {
				if got := c.result("tools/call", `{"name":"`+tool+`","task":{"ttl":1000}}`, meta); part(got, "resultType") != `"complete"` || part(got, "content") == "" {
					t.Errorf("%s: got %s", capabilities, got)
				}
			}
			refused := []string{c.fails("tools/call", `{"name":"only"}`, meta, -32021, "extension")}
			for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
				for _, id := range []string{id, "gate-test"} {
					refused = append(refused, c.fails(method, `{"taskId":"`+id+`","inputResponses":{}}`, meta, -32021, "extension"))
				}
			}
			for _, data := range refused {
				equalJSON(t, capabilities, missing, data)
			}
		}
		for _, meta := range []string{withExtension, declares(`{"tasks":{}}`)} {
			c.fails("tasks/result", `{"taskId":"`+id+`"}`, meta, jsonrpc.CodeMethodNotFound, "tasks/result")
			c.fails("tasks/list", `{}`, meta, jsonrpc.CodeMethodNotFound, "tasks/list")
		}
		// The member task is ignored, whatever it is.
		for _, task := range []string{`{"ttl":60000,"pollInterval":100}`, `7`, `null`} {
			if got := c.result("tools/call", `{"name":"never","task":`+task+`}`, withExtension); part(got, "content") == "" {
				t.Errorf("got %s", got)
			}
			if got := c.result("tools/call", `{"name":"hi","task":`+task+`}`, withExtension); part(got, "ttlMs") != "3600000" {
				t.Errorf("got %s", got)
			}
		}
		if got := c.result("prompts/get", `{"name":"p"}`, withExtension); part(got, "resultType") != `"complete"` {
			t.Errorf("got %s", got)
		}
	})
}

// Proves XTASK-24, XTASK-36, XTASK-37, XTASK-38, XTASK-39, XTASK-40, XTASK-43, XTASK-52 and
// XTASK-53.
func TestUpdateAnswersInputRequestsOfExtensionTask(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		names := make(chan string, 10)
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				for _, round := range []string{"first", "second"} {
					ask := func(message string) func(context.Context) error {
						return func(ctx context.Context) error {
							name, err := askName(server.InputName(ctx, "name"), c, message)
							names <- name
							return err
						}
					}
					if err := c.RunAll(ctx, ask(round+" a"), ask(round+" b")); err != nil {
						return "", err
					}
				}
				return "done", nil
			}, server.Tasks(receiver.Support{After: -1}))
		})
		c := connectModern(t, s)
		id := c.startTask("ask", `{}`)
		update := func(responses string) {
			t.Helper()
			got := c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":`+responses+`}`, withExtension)
			if err := tasks.Validate(tasks.RevisionExtTasks, "UpdateTaskResult", []byte(got)); err != nil || part(got, "resultType") != `"complete"` || part(got, "taskId") != "" {
				t.Errorf("%s: %v", got, err)
			}
		}
		// open returns the keys of the open input requests, in the order of their messages.
		open := func() (keys []string) {
			t.Helper()
			state := c.task(id)
			requests := map[string]struct {
				Method string
				Params json.RawMessage
			}{}
			if err := json.Unmarshal([]byte(part(state, "inputRequests")), &requests); err != nil || part(state, "status") != `"input_required"` {
				t.Fatalf("%s: %v", state, err)
			}
			for key, request := range requests {
				if request.Method != "elicitation/create" || strings.Contains(string(request.Params), "related-task") {
					t.Errorf("got %v", request)
				}
				keys = append(keys, part(string(request.Params), "message")+key)
			}
			slices.Sort(keys)
			for i, key := range keys {
				keys[i] = key[strings.LastIndexByte(key, '"')+1:]
			}
			return keys
		}
		first := open()
		update(`{}`)
		update(`{"other":{"ignored":true},"7":5,"":null}`)
		c.fails("tasks/update", `{"taskId":"`+id+`","inputResponses":{"`+first[0]+`":{"roots":[]},"`+first[1]+`":{"action":"decline"}}}`, withExtension, jsonrpc.CodeInvalidParams, first[0])
		c.fails("tasks/update", `{"taskId":"`+id+`"}`, withExtension, jsonrpc.CodeInvalidParams, "inputResponses")
		if got := open(); !slices.Equal(got, first) {
			t.Errorf("open are %q, want %q", got, first)
		}
		update(`{"` + first[0] + `":` + accept(`{"name":"Ada"}`) + `,"unknown":{}}`)
		if got := open(); !slices.Equal(got, first[1:]) {
			t.Errorf("open are %q, want %q", got, first[1:])
		}
		update(`{"` + first[0] + `":` + accept(`{"name":"Eve"}`) + `,"` + first[1] + `":` + accept(`{"name":"Bob"}`) + `}`)
		second := open()
		for _, key := range second {
			if slices.Contains(first, key) {
				t.Errorf("key %q is used again", key)
			}
		}
		update(`{"` + first[0] + `":` + accept(`{"name":"Eve"}`) + `}`)
		update(`{"` + second[0] + `":` + accept(`{"name":"Cyd"}`) + `,"` + second[1] + `":` + accept(`{"name":"Dan"}`) + `}`)
		if got := c.task(id); part(got, "status") != `"completed"` {
			t.Errorf("got %s", got)
		}
		close(names)
		got := []string{}
		for name := range names {
			got = append(got, name)
		}
		if slices.Sort(got); !slices.Equal(got, []string{"accept Ada", "accept Bob", "accept Cyd", "accept Dan"}) {
			t.Errorf("the tool got %q", got)
		}

		// Requests about a terminal task, and about none.
		update(`{"` + second[0] + `":{"roots":[]}}`)
		if got := c.result("tasks/cancel", `{"taskId":"`+id+`"}`, withExtension); tasks.Validate(tasks.RevisionExtTasks, "CancelTaskResult", []byte(got)) != nil || part(got, "resultType") != `"complete"` || part(got, "status") != "" {
			t.Errorf("got %s", got)
		}
		if got := c.task(id); part(got, "status") != `"completed"` {
			t.Errorf("got %s after a cancellation", got)
		}
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			c.fails(method, `{"taskId":"unknown","inputResponses":{}}`, withExtension, jsonrpc.CodeInvalidParams, "unknown")
			c.fails(method, `{"inputResponses":{}}`, withExtension, jsonrpc.CodeInvalidParams, "taskId")
		}
	})
}

// Proves XTASK-60.
func TestTasksInBothEras(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		modern := connectModern(t, s)
		c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`)})
		for _, tool := range []string{"hi", "bad", "worse"} {
			created, _ := c.call("tools/call", `{"name":"`+tool+`","task":{}}`)
			ofSession, ofModern := taskID(t, created), modern.startTask(tool, `{}`)
			if got, want := outline(modern.task(ofSession)), outline(modern.task(ofModern)); got != want || got == "" {
				t.Errorf("%s: the task of a session is %s to modern clients, want %s", tool, got, want)
			}
			status := func(id string) string {
				got, _ := c.call("tasks/get", `{"taskId":"`+id+`"}`)
				return part(got, "status")
			}
			if got, want := status(ofModern), status(ofSession); got != want || got == "" {
				t.Errorf("%s: the task of a modern client is %s in sessions, want %s", tool, got, want)
			}
			wire := func(id string) string {
				_, err := c.Call(t.Context(), "tasks/result", session.Raw(`{"taskId":"`+id+`"}`))
				if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
					return fmt.Sprint(e.Code, e.Message, string(e.Data))
				}
				result, _ := c.call("tasks/result", `{"taskId":"`+id+`"}`)
				return strings.ReplaceAll(result, id, "ID")
			}
			if got, want := wire(ofModern), wire(ofSession); got != want || got == "" {
				t.Errorf("%s: the result of the task of a modern client is %s in sessions, want %s", tool, got, want)
			}
		}

		// A modern client that knows tasks of sessions only.
		created, _ := c.call("tools/call", `{"name":"hang","task":{"ttl":5000}}`)
		id, meta := taskID(t, created), declares(`{"tasks":{}}`)
		if got := modern.result("tasks/get", `{"taskId":"`+id+`"}`, meta); part(got, "status") != `"working"` || part(got, "ttl") != "5000" || part(got, "ttlMs") != "" {
			t.Errorf("got %s", got)
		}
		if got := modern.result("tasks/cancel", `{"taskId":"`+id+`"}`, meta); part(got, "status") != `"cancelled"` || part(got, "taskId") != `"`+id+`"` {
			t.Errorf("got %s", got)
		}
		modern.fails("tasks/cancel", `{"taskId":"`+id+`"}`, meta, jsonrpc.CodeInvalidParams, "terminal")
		modern.fails("tasks/update", `{"taskId":"`+id+`","inputResponses":{}}`, meta, -32021, "extension")
		modern.fails("tasks/get", `{"taskId":"`+modern.startTask("hi", `{}`)+`"}`, meta, -32021, "extension")
	})
}

// An input request of a task can be answered in either era, whichever has created the task.
func TestInputOfTasksInBothEras(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		modern := connectModern(t, s)
		client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"Ada"}}`})
		c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve})

		id := modern.startTask("order", `{"dish":"soup"}`)
		result, _ := c.call("tasks/result", `{"taskId":"`+id+`"}`)
		if got := part(text(t, result), "for"); got != `"Ada"` || !strings.Contains(result, id) {
			t.Errorf("got %s", result)
		}
		created, _ := c.call("tools/call", `{"name":"order","arguments":{"dish":"soup"},"task":{}}`)
		id = taskID(t, created)
		state := modern.task(id)
		if strings.Contains(part(state, "inputRequests"), "related-task") {
			t.Errorf("got %s", state)
		}
		modern.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":`+accept(`{"name":"Bob"}`)+`}}`, withExtension)
		if got := part(text(t, part(modern.task(id), "result")), "for"); got != `"Bob"` {
			t.Errorf("got %s", got)
		}
	})
}

// Proves XTASK-63 and XTASK-64.
func TestExtensionTasksBelongToPrincipal(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, m := withTasksOf(t, server.Options{}, memory.New(), taskTools)
		ann, bob := connectModern(t, s), connectModern(t, s)
		ann.ctx, bob.ctx = transport.WithPrincipal(t.Context(), "ann"), transport.WithPrincipal(t.Context(), "bob")
		id := ann.startTask("order", `{"dish":"soup"}`)
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			other := bob.fails(method, `{"taskId":"`+id+`","inputResponses":{"input-1":`+accept(`{}`)+`}}`, withExtension, jsonrpc.CodeInvalidParams, "not found")
			if other != "" {
				t.Errorf("%s: got %s", method, other)
			}
		}
		if got := ann.task(id); part(got, "status") != `"input_required"` {
			t.Errorf("got %s", got)
		}
		if got := m.Stats().Foreign; got != 3 {
			t.Errorf("%d calls about tasks of others are counted, want 3", got)
		}
		seen := map[string]bool{}
		for range 100 {
			id := ann.startTask("hi", `{}`)
			if len(id) < 26 || seen[id] { // 26 letters of 5 bits
				t.Fatalf("task id %q", id)
			}
			seen[id] = true
		}
	})
}

// Proves XTASK-21 and XTASK-31.
func TestExtensionTaskIsReadableFromCreationToExpiry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Tasks: task.Options{TTL: task.TTL{Default: time.Minute}}}, memory.New(), taskTools)
		c := connectModern(t, s)
		id := c.startTask("hi", `{}`)
		time.Sleep(time.Minute - time.Millisecond)
		if got := c.task(id); part(got, "ttlMs") != "60000" || part(got, "status") != `"completed"` {
			t.Errorf("got %s", got)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait() // while the task is being removed, it may be unknown
		c.fails("tasks/get", `{"taskId":"`+id+`"}`, withExtension, jsonrpc.CodeInvalidParams, "expired")
	})
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Tasks: task.Options{TTL: task.TTL{Unlimited: true}, Updates: task.Updates{Poll: -1}}}, memory.New(), taskTools)
		c := connectModern(t, s)
		if got := c.task(c.startTask("hi", `{}`)); part(got, "ttlMs") != "null" || part(got, "pollIntervalMs") != "" {
			t.Errorf("got %s", got)
		}
	})
}

// Proves XTASK-49.
func TestExtensionTasksSendNoMessages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), taskTools)
		c := connectModern(t, s)
		meta := withExtension + `"progressToken":1,"io.modelcontextprotocol/logLevel":"debug",`
		answer, before := c.call("tools/call", `{"name":"order","arguments":{"dish":"soup"}}`, meta)
		if len(before) > 0 || part(string(answer.Result), "resultType") != `"task"` {
			t.Errorf("got %s after %q", answer.Result, before)
		}
		time.Sleep(time.Second)
		if got := c.take(); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}

// listenTo begins a subscription to tasks with an id, and returns the ids in the acknowledgment.
func (c *modernClient) listenTo(id, meta, taskIDs string) (acknowledged string, rest []string) {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{"taskIds":` + taskIDs + `},"_meta":{` + meta +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	got := c.take()
	if len(got) == 0 {
		c.t.Fatal("no acknowledgment")
	}
	return got[0], got[1:]
}

// states checks that messages are notifications/tasks of a subscription, and returns the statuses
// in them by task.
func (c *modernClient) states(got []string, subscription string) map[string]string {
	c.t.Helper()
	states, last := map[string]string{}, map[string]string{} // earlier changes may be reported, or merged
	for _, text := range got {
		params := part(text, "params")
		if err := tasks.ValidateParams(tasks.RevisionExtTasks, "notifications/tasks", []byte(params)); err != nil || part(text, "method") != `"notifications/tasks"` ||
			part(params, "_meta", "io.modelcontextprotocol/subscriptionId") != subscription || part(params, "resultType") != "" {
			c.t.Errorf("%s: %v", text, err)
		}
		last[strings.Trim(part(params, "taskId"), `"`)] = params
	}
	for id, params := range last {
		states[id] = outline(params)
		if now := c.task(id); outline(now) != states[id] || part(now, "lastUpdatedAt") != part(params, "lastUpdatedAt") {
			c.t.Errorf("got %s, but the task is %s", params, now)
		}
	}
	return states
}

// changes sends a request, and returns the notifications that arrive with its answer.
func (c *modernClient) changes(method, params string) []string {
	c.t.Helper()
	c.start(method, params, withExtension)
	return slices.DeleteFunc(c.take(), func(text string) bool { return part(text, "id") != "" })
}

// Proves XTASK-45, XTASK-46, XTASK-47, XTASK-48, XTASK-49 and XTASK-64.
func TestListenReportsTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{}, memory.New(), taskTools)
		ann, bob := connectModern(t, s), connectModern(t, s)
		ann.ctx, bob.ctx = transport.WithPrincipal(t.Context(), "ann"), transport.WithPrincipal(t.Context(), "bob")
		order, hang, done, foreign := ann.startTask("order", `{"dish":"soup"}`), ann.startTask("hang", `{}`), ann.startTask("hi", `{}`), bob.startTask("hang", `{}`)

		for _, meta := range []string{declares(`{}`), declares(`{"tasks":{}}`)} {
			got, _ := ann.listenTo("1", meta, `["`+hang+`"]`)
			equalJSON(t, "without the extension", `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`, part(got, "error", "data"))
			if part(got, "error", "code") != "-32021" {
				t.Errorf("got %s", got)
			}
		}
		if got, _ := ann.listenTo("1", withExtension, `[7]`); part(got, "error", "code") != "-32602" {
			t.Errorf("got %s", got)
		}

		meta := withExtension + `"progressToken":9,"io.modelcontextprotocol/logLevel":"debug",`
		ids := fmt.Sprintf(`[%q,%q,"unknown",%q,%q,%q]`, order, hang, foreign, done, hang)
		first, rest := ann.listenTo("1", meta, ids)
		want := []string{order, hang, done}
		slices.Sort(want)
		equalJSON(t, "acknowledgment", string(must(json.Marshal(want))), part(first, "params", "notifications", "taskIds"))
		states := ann.states(rest, "1") // of those that are not working
		if len(states) != 2 || !strings.HasPrefix(states[order], "input_required") || !strings.HasPrefix(states[done], "completed") {
			t.Errorf("got %v", states)
		}
		empty, _ := ann.listenTo(`"none"`, withExtension, `[]`)
		equalJSON(t, "acknowledgment of none", `[]`, part(empty, "params", "notifications", "taskIds"))

		if states := ann.states(ann.changes("tasks/update", `{"taskId":"`+order+`","inputResponses":{"input-1":`+accept(`{"name":"Ada"}`)+`}}`), "1"); !strings.HasPrefix(states[order], "completed") {
			t.Errorf("got %v", states)
		}
		ann.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		again, rest := ann.listenTo("2", withExtension, ids)
		if states := ann.states(rest, "2"); len(states) != 2 || !strings.HasPrefix(states[order], "completed") {
			t.Errorf("got %v after %s", states, again)
		}
		if states := ann.states(ann.changes("tasks/cancel", `{"taskId":"`+hang+`"}`), "2"); len(states) != 1 || states[hang] != "cancelled" {
			t.Errorf("got %v", states)
		}
		bob.result("tasks/cancel", `{"taskId":"`+foreign+`"}`, withExtension)
		if got := ann.take(); len(got) > 0 {
			t.Errorf("got %q about a task of another principal", got)
		}
	})
}

// A client that does not read gets the latest state of each task, once, and a watched task costs
// little.
func TestListenMergesChangesOfTasks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "talk", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				run, _ := c.Task()
				time.Sleep(time.Second)
				for i := range 1000 {
					if err := run.SetStatusMessage(ctx, fmt.Sprint(i)); err != nil {
						return "", err
					}
				}
				return "done", nil
			}, server.Tasks(receiver.Support{After: -1}))
		})
		c := connectModernWith(t, s, inmemory.Options{MaxQueue: 2000, StallTimeout: time.Hour})
		ids := []string{c.startTask("talk", `{}`), c.startTask("talk", `{}`)}
		if got, rest := c.listenTo("1", withExtension, fmt.Sprintf("[%q,%q]", ids[0], ids[1])); len(rest) > 0 {
			t.Errorf("got %s, %q", got, rest)
		}
		paused := make(chan struct{})
		c.mu.Lock()
		c.paused = paused
		c.mu.Unlock()
		time.Sleep(time.Minute)
		c.mu.Lock()
		c.paused = nil
		c.mu.Unlock()
		close(paused)
		got := c.take()
		if len(got) > 20 {
			t.Errorf("%d notifications", len(got))
		}
		last := map[string]string{}
		for _, text := range got {
			last[strings.Trim(part(text, "params", "taskId"), `"`)] = part(text, "params", "status")
		}
		for _, id := range ids {
			if last[id] != `"completed"` {
				t.Errorf("task %s is %s in the last of %d notifications", id, last[id], len(got))
			}
		}
	})
}

// Proves XTASK-21.
func TestRecoveredExtensionTaskHasRevisionOfItsRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := memory.New()
		start := func() (*server.Server, *modernClient) {
			s, _ := withTasks(t, store, func(s *server.Server) {
				server.AddTool(s, "who", "", func(ctx context.Context, c *server.Call, _ struct{}) ([]string, error) {
					name, err := askName(ctx, c, "Who?")
					return []string{name, string(c.Revision()), c.Principal(), fmt.Sprint(c.ClientCapabilities().Elicitation != nil)}, err
				}, server.Tasks(receiver.Support{Restartable: true, After: -1}))
			})
			return s, connectModern(t, s)
		}
		s, c := start()
		id := c.startTask("who", `{}`)
		must(0, s.Close())
		_, c = start()
		c.take() // waits until the tool asks again
		state := c.task(id)
		key, _, _ := strings.Cut(strings.TrimPrefix(part(state, "inputRequests"), `{"`), `"`)
		c.result("tasks/update", fmt.Sprintf(`{"taskId":%q,"inputResponses":{%q:%s}}`, id, key, accept(`{"name":"Ada"}`)), withExtension)
		if got := part(c.task(id), "result", "structuredContent"); got != `["accept Ada","2026-07-28","ada","true"]` {
			t.Errorf("got %s after %s", got, state)
		}
	})
}

func TestExtensionTaskAsksToVisitPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "visit", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				action, err := c.ElicitURL(ctx, "Sign in", "https://example.com/{id}", "")
				return string(action), err
			}, server.Tasks(receiver.Support{After: -1}))
		})
		c := connectModern(t, s)
		meta := declares(`{"elicitation":{"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
		id := strings.Trim(part(c.result("tools/call", `{"name":"visit"}`, meta), "taskId"), `"`)
		params := part(c.task(id), "inputRequests", "input-1", "params")
		if !strings.HasPrefix(part(params, "url"), `"https://example.com/`) || part(params, "mode") != `"url"` || part(params, "elicitationId") != "" {
			t.Errorf("got %s", params)
		}
		c.result("tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":{"action":"accept"}}}`, withExtension)
		if got := text(t, part(c.task(id), "result")); got != "accept" {
			t.Errorf("got %s", got)
		}
	})
}

// Each task in a subscription counts towards the limits of the principal.
func TestWatchedTasksAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := withTasksOf(t, server.Options{Limits: server.Limits{Subscriptions: 3}}, memory.New(), taskTools)
		c := connectModern(t, s)
		if got, _ := c.listenTo("1", withExtension, `["a","b","c"]`); part(got, "error", "code") != "-32600" {
			t.Errorf("got %s", got)
		}
		if got, _ := c.listenTo("2", withExtension, `["a","b"]`); part(got, "error") != "" {
			t.Errorf("got %s", got)
		}
		if got, _ := c.listenTo("3", withExtension, `[]`); part(got, "error", "code") != "-32600" {
			t.Errorf("got %s", got)
		}
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
		c.take()
		if got, _ := c.listenTo("4", withExtension, `[]`); part(got, "error") != "" {
			t.Errorf("got %s", got)
		}
	})
}
