package receiver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// fixture is a server with tasks and a client that sends raw requests.
type fixture struct {
	t       *testing.T
	client  *session.Session
	server  *session.Session
	manager *task.Manager
	config  session.Options // of the server

	mu       sync.Mutex
	received []string // requests and notifications at the client: method and params
}

// callUnchecked sends a request without checking the server's capabilities, on a new connection.
func (f *fixture) callUnchecked(method, params string) (string, error) {
	a, b := inmemory.Pair(inmemory.Options{})
	server := session.Serve(b, &mcp.InitializeResult{Capabilities: f.server.Server().Capabilities}, &f.config)
	defer server.Close()
	defer a.Close()
	var answer string
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"` + method + `","params":` + params + `}`,
	} {
		if err := a.Write(f.t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			f.t.Fatal(err)
		}
		if !strings.Contains(text, `"id"`) {
			continue
		}
		m, err := a.Read()
		if err != nil {
			f.t.Fatal(err)
		}
		answer = string(m.Text)
	}
	m, err := jsonrpc.Parse([]byte(answer))
	if err != nil {
		f.t.Fatal(err)
	}
	if m.Error != nil {
		return "", m.Error
	}
	return string(m.Result), nil
}

type config struct {
	manager task.Options
	tools   map[string]session.Handler
	support map[string]receiver.Support
	caps    *mcp.ServerCapabilitiesTasks
	answer  session.Handler // of the client
}

func setup(t *testing.T, c config) *fixture {
	t.Helper()
	f := &fixture{t: t}
	if c.manager.Store == nil {
		c.manager.Store = memory.New()
	}
	m, err := task.New(t.Context(), c.manager)
	if err != nil {
		t.Fatal(err)
	}
	f.manager = m
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	server := sessiontest.Side{Server: mcp.ServerCapabilities{
		Tools: new(mcp.ServerCapabilitiesTools), Prompts: new(mcp.ServerCapabilitiesPrompts), Logging: json.RawMessage(`{}`), Tasks: c.caps,
	}}
	server.Config.Handler = sessiontest.Methods(map[string]session.Handler{
		"tools/call": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			var p mcp.CallToolRequestParams
			if err := codec.Unmarshal(req.Params, &p); err != nil {
				return nil, err
			}
			if p.Task != nil {
				t.Error("params have a task member")
			}
			return c.tools[p.Name](ctx, req)
		},
		"prompts/get": func(context.Context, *session.Request) (codec.Encoder, error) {
			return session.Raw(`{"messages":[]}`), nil
		},
	}, nil)
	receiver.Attach(&server.Config, receiver.Options{Manager: m, Support: func(ctx context.Context, req *session.Request) (receiver.Support, error) {
		var p mcp.CallToolRequestParams
		codec.Unmarshal(req.Params, &p)
		return c.support[p.Name], nil
	}})
	client := sessiontest.Side{Client: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)}}
	client.Config.Hooks.Receiving = []session.Middleware{func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			f.mu.Lock()
			f.received = append(f.received, req.Method+" "+string(req.Params))
			f.mu.Unlock()
			return next(ctx, req)
		}
	}}
	client.Config.Handler = c.answer
	if c.answer == nil {
		client.Config.Handler = sessiontest.Methods(nil, nil)
	}
	f.config = server.Config
	f.client, f.server = sessiontest.Pair(t, client, server)
	return f
}

// messages returns the messages that the client has received so far.
func (f *fixture) messages() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.received...)
}

// call sends a raw request.
func (f *fixture) call(method, params string) (string, error) {
	raw, err := f.client.Call(f.t.Context(), method, rawParams(params))
	return string(raw), err
}

// mustCall sends a raw request and returns its decoded result.
func (f *fixture) mustCall(method, params string) map[string]any {
	f.t.Helper()
	raw, err := f.call(method, params)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, params, err)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		f.t.Fatal(err)
	}
	return v
}

// create calls a tool as a task and returns the task's id.
func (f *fixture) create(params string) string {
	f.t.Helper()
	created := f.mustCall("tools/call", params)
	return created["task"].(map[string]any)["taskId"].(string)
}

// rawParams are params that are sent unchecked.
type rawParams string

func (r rawParams) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

// wireCode returns the code of a JSON-RPC error, or 0.
func wireCode(err error) int64 {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return 0
	}
	return e.Code
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// returns is a handler that returns a result at once.
func returns(text string) session.Handler {
	return func(context.Context, *session.Request) (codec.Encoder, error) { return session.Raw(text), nil }
}

// blockUntilDone is a handler that returns when its context ends.
func blockUntilDone(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// optional returns optional task support for each of the tools.
func optional(tools ...string) map[string]receiver.Support {
	m := map[string]receiver.Support{}
	for _, name := range tools {
		m[name] = receiver.Support{Mode: mcp.TaskSupportOptional}
	}
	return m
}

// runInBubble runs a test in a synctest bubble, with a fixture.
func runInBubble(t *testing.T, c config, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, setup(t, c)) })
}

const relatedKey = taskrules.RelatedTask

// The messages of a task from the call to the result. The result is that of a plain call, byte for
// byte except for the related task.
//
// Proves TASK-02, TASK-10, TASK-13, TASK-19, TASK-21, TASK-32, TASK-33, TASK-34, TASK-42, TASK-43,
// TASK-47.
func TestTaskOverTheWire(t *testing.T) {
	const plain = `{"content":[{"type":"text","text":"é","annotations":{"priority":1.0}}],"structuredContent":{"n":1e2},"_meta":{"x/y":[]}}`
	c := config{
		caps:    receiver.ServerCapabilities(true),
		tools:   map[string]session.Handler{"t": returns(plain)},
		support: optional("t"),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		if got, err := f.call("tools/call", `{"name":"t"}`); err != nil || got != plain {
			t.Errorf("plain call: %s, %v", got, err)
		}
		created := f.mustCall("tools/call", `{"name":"t","task":{"ttl":60000,"taskId":"mine"},"taskId":"mine"}`)
		if len(created) != 1 {
			t.Errorf("created: %v", created)
		}
		one := created["task"].(map[string]any)
		id := one["taskId"].(string)
		if one["status"] != "working" || id == "mine" || one["ttl"] != 60000.0 {
			t.Errorf("created: %v", one)
		}
		got, err := f.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
		if want := strings.Replace(plain, `"_meta":{`, fmt.Sprintf(`"_meta":{%q:{"taskId":%q},`, relatedKey, id), 1); err != nil || got != want {
			t.Errorf("result: %s, %v\nwant    %s", got, err, want)
		}
		state := f.mustCall("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id))
		list := f.mustCall("tasks/list", `{}`)["tasks"].([]any)
		equal(t, "listed", []any{state}, list)
		for _, key := range []string{"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"} {
			if _, ok := state[key]; !ok {
				t.Errorf("tasks/get lacks %s: %v", key, state)
			}
		}
		if _, ok := state["_meta"]; ok {
			t.Errorf("tasks/get has metadata: %v", state)
		}
		caps, _ := codec.Marshal(f.client.Server())
		if !strings.Contains(string(caps), `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`) {
			t.Errorf("declared: %s", caps)
		}
	})
}

// A task without a TTL has "ttl":null in all messages.
//
// Proves TASK-34.
func TestUnlimitedTaskHasTTLOfNull(t *testing.T) {
	c := config{
		manager: task.Options{TTL: task.TTL{Unlimited: true}}, caps: receiver.ServerCapabilities(true),
		tools: map[string]session.Handler{"t": blockUntilDone}, support: optional("t"),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		created := f.mustCall("tools/call", `{"name":"t","task":{"ttl":null}}`)["task"].(map[string]any)
		id := fmt.Sprintf(`{"taskId":%q}`, created["taskId"])
		for where, shown := range map[string]any{
			"tools/call": created, "tasks/get": f.mustCall("tasks/get", id), "tasks/list": f.mustCall("tasks/list", `{}`)["tasks"].([]any)[0],
			"tasks/cancel": f.mustCall("tasks/cancel", id),
		} {
			if ttl, ok := shown.(map[string]any)["ttl"]; !ok || ttl != nil {
				t.Errorf("%s: got %v", where, shown)
			}
		}
	})
}

// The task support of a tool is enforced.
//
// Proves TASK-09, TASK-10, TASK-12.
func TestToolSupportIsEnforced(t *testing.T) {
	modes := map[string]mcp.TaskSupport{
		"unset": "", "forbidden": mcp.TaskSupportForbidden, "optional": mcp.TaskSupportOptional, "required": mcp.TaskSupportRequired,
	}
	c := config{caps: receiver.ServerCapabilities(false), tools: map[string]session.Handler{}, support: map[string]receiver.Support{}}
	for name, mode := range modes {
		c.tools[name] = returns(`{"content":[]}`)
		c.support[name] = receiver.Support{Mode: mode}
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		for name, want := range map[string][2]int64{"unset": {0, -32601}, "forbidden": {0, -32601}, "optional": {0, 0}, "required": {-32601, 0}} {
			plain, err := f.call("tools/call", fmt.Sprintf(`{"name":%q}`, name))
			if wireCode(err) != want[0] || err == nil && plain != `{"content":[]}` {
				t.Errorf("%s, plain: %s, %v", name, plain, err)
			}
			created, err := f.call("tools/call", fmt.Sprintf(`{"name":%q,"task":{}}`, name))
			if wireCode(err) != want[1] || err == nil && !strings.HasPrefix(created, `{"task":{`) {
				t.Errorf("%s, as a task: %s, %v", name, created, err)
			}
		}
	})
}

// If tasks are not declared, the task member is ignored and the tasks/* methods do not exist.
// tasks/list and tasks/cancel exist only if they are declared.
//
// Proves TASK-03, TASK-06, TASK-17, TASK-71.
func TestUndeclaredTasksAreNotServed(t *testing.T) {
	for name, tt := range map[string]struct {
		caps *mcp.ServerCapabilitiesTasks
		want map[string]int64
	}{
		"nothing":     {nil, map[string]int64{"tasks/get": -32601, "tasks/result": -32601, "tasks/list": -32601, "tasks/cancel": -32601}},
		"no requests": {&mcp.ServerCapabilitiesTasks{List: json.RawMessage(`{}`)}, map[string]int64{"tasks/get": -32602, "tasks/result": -32602, "tasks/list": 0, "tasks/cancel": -32601}},
		"no list":     {receiver.ServerCapabilities(false), map[string]int64{"tasks/list": -32601, "tasks/cancel": -32602}},
	} {
		t.Run(name, func(t *testing.T) {
			c := config{caps: tt.caps, tools: map[string]session.Handler{"t": returns(`{"content":[]}`)}, support: optional("t")}
			runInBubble(t, c, func(t *testing.T, f *fixture) {
				if name != "no list" {
					// The session of a client would not send these calls.
					for _, params := range []string{`{"name":"t","task":{}}`, `{"name":"t","task":5}`, `{"name":"t","task":{"ttl":-1}}`} {
						if got, err := f.callUnchecked("tools/call", params); err != nil || got != `{"content":[]}` {
							t.Errorf("%s: %s, %v", params, got, err)
						}
					}
				}
				if got, err := f.callUnchecked("prompts/get", `{"name":"p","task":{}}`); err != nil || got != `{"messages":[]}` {
					t.Errorf("prompt: %s, %v", got, err)
				}
				for method, want := range tt.want {
					if _, err := f.callUnchecked(method, `{"taskId":"x"}`); wireCode(err) != want {
						t.Errorf("%s: %v, want code %d", method, err, want)
					}
				}
			})
		})
	}
}

// A client that requires sampling as a task refuses plain requests with InvalidRequest.
//
// Proves TASK-18.
func TestClientIsReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := task.New(t.Context(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		mode := mcp.TaskSupportRequired
		client := sessiontest.Side{Client: mcp.ClientCapabilities{
			Sampling: new(mcp.ClientCapabilitiesSampling), Elicitation: new(mcp.ClientCapabilitiesElicitation), Tasks: receiver.ClientCapabilities(true, true, true),
		}}
		client.Config.Handler = sessiontest.Methods(nil, returns(`{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`))
		receiver.Attach(&client.Config, receiver.Options{Manager: m, Support: func(context.Context, *session.Request) (receiver.Support, error) {
			return receiver.Support{Mode: mode}, nil
		}})
		_, server := sessiontest.Pair(t, client, sessiontest.Side{})
		call := func(method, params string) (string, error) {
			raw, err := server.Call(t.Context(), method, rawParams(params))
			return string(raw), err
		}
		const params = `"messages":[],"maxTokens":1`
		if _, err := call("sampling/createMessage", `{`+params+`}`); wireCode(err) != -32600 {
			t.Errorf("plain: %v", err)
		}
		created, err := server.Call(t.Context(), "sampling/createMessage", rawParams(`{`+params+`,"task":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		var result mcp.CreateTaskResult
		if err := codec.Unmarshal(created, &result); err != nil {
			t.Fatal(err)
		}
		got, err := call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, result.Task.TaskID))
		if err != nil || !strings.Contains(got, `"model":"m"`) || !strings.Contains(got, result.Task.TaskID) {
			t.Errorf("result: %s, %v", got, err)
		}
		mode = mcp.TaskSupportForbidden
		if _, err := call("elicitation/create", `{"message":"m","requestedSchema":{"type":"object","properties":{}},"task":{}}`); wireCode(err) != -32600 {
			t.Errorf("forbidden: %v", err)
		}
	})
}

// Invalid tasks/* requests fail with InvalidParams. Only taskId selects a task, not the related
// task in _meta.
//
// Proves TASK-44, TASK-61, TASK-62.
func TestInvalidTaskRequests(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(true), tools: map[string]session.Handler{"t": returns(`{"content":[]}`), "f": blockUntilDone}, support: optional("t", "f")}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			for _, params := range []string{`{"taskId":"no such"}`, `{"taskId":""}`, `{"taskId":7}`, `{"taskId":null}`, `{}`} {
				if got, err := f.call(method, params); wireCode(err) != -32602 {
					t.Errorf("%s %s: %s, %v", method, params, got, err)
				}
			}
		}
		for _, params := range []string{`{"cursor":"nonsense"}`, `{"cursor":7}`} {
			if got, err := f.call("tasks/list", params); wireCode(err) != -32602 {
				t.Errorf("tasks/list %s: %s, %v", params, got, err)
			}
		}
		for _, params := range []string{`{"name":"t","task":5}`, `{"name":"t","task":{"ttl":"x"}}`, `{"name":"t","task":{"ttl":1.5}}`, `{"name":"t","task":{"ttl":0}}`, `{"name":"t","task":{"ttl":-5}}`} {
			if got, err := f.call("tools/call", params); wireCode(err) != -32602 {
				t.Errorf("tools/call %s: %s, %v", params, got, err)
			}
		}
		a, b := f.create(`{"name":"t","task":{"ttl":6e4}}`), f.create(`{"name":"f","task":{}}`)
		synctest.Wait()
		meta := fmt.Sprintf(`"_meta":{%q:{"taskId":%q}}`, relatedKey, b)
		if got := f.mustCall("tasks/get", fmt.Sprintf(`{"taskId":%q,%s}`, a, meta)); got["taskId"] != a {
			t.Errorf("got %v instead of %s", got, a)
		}
		f.mustCall("tasks/result", fmt.Sprintf(`{"taskId":%q,%s}`, a, meta))
		if _, err := f.call("tasks/cancel", fmt.Sprintf(`{"taskId":%q,%s}`, a, meta)); wireCode(err) != -32602 {
			t.Errorf("cancel of a terminal task: %v", err)
		}
		if got := f.mustCall("tasks/get", fmt.Sprintf(`{"taskId":%q}`, b)); got["status"] != "working" {
			t.Errorf("other task: %v", got)
		}
		cancelled := f.mustCall("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, b))
		if cancelled["status"] != "cancelled" || cancelled["_meta"] != nil {
			t.Errorf("cancelled: %v", cancelled)
		}
	})
}

// A tool that runs as a task sends progress, a log message and an input request, all with the task
// in _meta. The input request is sent during tasks/result. Progress has the token of tools/call and
// stops with the task.
//
// Proves TASK-46, PROG-10, PROG-11, PROG-12.
func TestToolReachesItsRequestor(t *testing.T) {
	step := make(chan bool)
	var late error
	tool := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		peer, ok := session.PeerFrom(ctx)
		if !ok {
			return nil, errors.New("no peer")
		}
		<-step
		err := errors.Join(
			peer.Report(session.Progress{Value: 1, Message: "half"}),
			peer.Notify(ctx, "notifications/message", rawParams(`{"level":"info","data":"x"}`)),
		)
		if err != nil {
			return nil, err
		}
		answer, err := peer.Call(ctx, "elicitation/create", rawParams(`{"message":"name?","requestedSchema":{"type":"object","properties":{}}}`))
		if err != nil {
			return nil, err
		}
		peer.Report(session.Progress{Value: 2})
		go func() {
			<-step
			late = peer.Report(session.Progress{Value: 3})
			step <- true
		}()
		return session.Raw(`{"content":[],"structuredContent":` + string(answer) + `}`), nil
	}
	c := config{
		caps: receiver.ServerCapabilities(false), tools: map[string]session.Handler{"t": tool}, support: optional("t"),
		answer: sessiontest.Methods(map[string]session.Handler{"elicitation/create": returns(`{"action":"accept","content":{"name":"Ann"}}`)}, nil),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		tracker := f.client.Internals(boundary.Caller{}).NewTracker()
		raw, err := f.client.With(f.client.Internals(boundary.Caller{}).Track(tracker)).Call(t.Context(), "tools/call", rawParams(`{"name":"t","task":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		var created mcp.CreateTaskResult
		if err := codec.Unmarshal(raw, &created); err != nil {
			t.Fatal(err)
		}
		id := created.Task.TaskID
		step <- true
		synctest.Wait()
		if got := f.mustCall("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id)); got["status"] != "input_required" {
			t.Errorf("before tasks/result: %v", got)
		}
		for _, m := range f.messages() {
			if strings.HasPrefix(m, "elicitation/create") {
				t.Errorf("input request before tasks/result: %s", m)
			}
		}
		result := f.mustCall("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
		equal(t, "answer", map[string]any{"action": "accept", "content": map[string]any{"name": "Ann"}}, result["structuredContent"])
		step <- true
		<-step
		if !errors.Is(late, session.ErrProgressOver) {
			t.Errorf("report after the end: %v", late)
		}
		synctest.Wait()
		kinds := map[string]int{}
		for _, m := range f.messages() {
			method, params, _ := strings.Cut(m, " ")
			kinds[method]++
			related := strings.Contains(params, fmt.Sprintf(`%q:{"taskId":%q}`, relatedKey, id))
			if want := method != "notifications/tasks/status"; related != want {
				t.Errorf("related is %v: %s", related, m)
			}
		}
		// The status working, after the answer, is not sent if the task is already completed.
		if n := kinds["notifications/tasks/status"]; n != 2 && n != 3 {
			t.Errorf("%d status notifications", n)
		}
		delete(kinds, "notifications/tasks/status")
		equal(t, "messages", map[string]int{"notifications/message": 1, "elicitation/create": 1}, kinds)
		tracker.Close()
		var values []float64
		for p := range tracker.Updates(t.Context()) {
			values = append(values, p.Value)
		}
		equal(t, "progress", []float64{1, 2}, values)
	})
}

// An input request fails if the client has not declared the capability.
func TestInputRequestWithoutCapability(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{
		"t": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			_, err := peer.Call(ctx, "roots/list", nil)
			return nil, err
		},
	}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := f.create(`{"name":"t","task":{}}`)
		if _, err := f.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id)); wireCode(err) != -32601 {
			t.Errorf("got %v", err)
		}
	})
}

// The result of tools/call has the immediate response, if there is one.
//
// Proves TASK-16.
func TestImmediateResponse(t *testing.T) {
	c := config{
		caps: receiver.ServerCapabilities(false), tools: map[string]session.Handler{"t": blockUntilDone, "u": blockUntilDone},
		support: map[string]receiver.Support{
			"t": {Mode: mcp.TaskSupportOptional, Immediate: "I am on it", StatusMessage: "queued", PollInterval: time.Minute},
			"u": {Mode: mcp.TaskSupportOptional},
		},
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		created := f.mustCall("tools/call", `{"name":"t","task":{}}`)
		equal(t, "meta", map[string]any{"io.modelcontextprotocol/model-immediate-response": "I am on it"}, created["_meta"].(map[string]any))
		one := created["task"].(map[string]any)
		if one["statusMessage"] != "queued" || one["pollInterval"] != 60000.0 {
			t.Errorf("created: %v", one)
		}
		if created := f.mustCall("tools/call", `{"name":"u","task":{}}`); created["_meta"] != nil {
			t.Errorf("created: %v", created)
		}
	})
}

// A task belongs to its principal, not to its session. It is available after a reconnect, and not
// to other principals.
//
// Proves TASK-68.
func TestTaskSurvivesReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := task.New(t.Context(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		dial := func(principal string) *session.Session {
			server := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}}
			server.Config.Principal = principal
			server.Config.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				time.Sleep(time.Hour / 2)
				return session.Raw(`{"content":[]}`), ctx.Err()
			}
			receiver.Attach(&server.Config, receiver.Options{Manager: m})
			c, _ := sessiontest.Pair(t, sessiontest.Side{}, server)
			return c
		}
		first := dial("alice")
		raw, err := first.Call(t.Context(), "tools/call", rawParams(`{"name":"t","task":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		var created mcp.CreateTaskResult
		if err := codec.Unmarshal(raw, &created); err != nil {
			t.Fatal(err)
		}
		about := rawParams(fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID))
		first.Close()
		bob := dial("bob")
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			_, err := bob.Call(t.Context(), method, about)
			equal(t, method, error(&jsonrpc.Error{Code: -32602, Message: fmt.Sprintf("task: not found: %q", created.Task.TaskID)}), err)
		}
		if _, err := dial("alice").With(session.Timeout(0)).Call(t.Context(), "tasks/result", about); err != nil {
			t.Errorf("after a reconnect: %v", err)
		}
	})
}

// notifications/cancelled for tasks/result, or for the request that created the task, does not
// cancel the task.
//
// Proves TASK-30, CANC-04.
func TestCancelledNotificationLeavesTask(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(false), tools: map[string]session.Handler{"t": blockUntilDone}, support: optional("t")}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := f.create(`{"name":"t","task":{}}`)
		for n := range 5 { // ids of requests that were sent
			f.client.Notify(t.Context(), "notifications/cancelled", rawParams(fmt.Sprintf(`{"requestId":%d}`, n)))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := f.client.Call(ctx, "tasks/result", rawParams(fmt.Sprintf(`{"taskId":%q}`, id)))
			done <- err
		}()
		synctest.Wait()
		if n := f.manager.Stats().Waiting; n != 1 {
			t.Errorf("%d pending calls of tasks/result", n)
		}
		cancel()
		<-done
		synctest.Wait()
		if n := f.manager.Stats().Waiting; n != 0 {
			t.Errorf("%d calls of tasks/result still pending", n)
		}
		if got := f.mustCall("tasks/get", fmt.Sprintf(`{"taskId":%q}`, id)); got["status"] != "working" {
			t.Errorf("task: %v", got)
		}
	})
}

// Work that is re-run after a restart is served by the same handler.
func TestWorkIsRerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, ok := session.PeerFrom(ctx)
			if !ok {
				t.Error("no peer")
			}
			if got := session.Principal(ctx); got != "alice" {
				t.Errorf("principal %q", got)
			}
			peer.Report(session.Progress{Value: 1})
			return session.Raw(`{"content":[],"method":"` + req.Method + `","params":` + string(req.Params) + `}`), nil
		}
		store := memory.New()
		stored, err := store.Create(t.Context(), task.Record{
			ID: "old", Owner: "alice", Status: mcp.TaskStatusWorking, Created: time.Now(), Updated: time.Now(),
			Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`), Restartable: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		m, err := task.New(t.Context(), task.Options{Store: store, Recovery: task.Recovery{Recover: func(r task.Record) task.Work { return receiver.Work(handler, r) }}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		out, err := m.Result(t.Context(), "alice", stored.ID, nil)
		if err != nil || !strings.HasSuffix(string(out.Result), `"content":[],"method":"tools/call","params":{"name":"t"}}`) {
			t.Errorf("%s, %v", out.Result, err)
		}
	})
}

type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: p.Name}}}, nil
}

// Work of a typed handler can be re-run, although the request has no session.
func TestTypedWorkIsRerun(t *testing.T) {
	work := receiver.Work(sessiontest.ServerHandler(tools{}, nil), task.Record{ID: "old", Method: "tools/call", Params: json.RawMessage(`{"name":"t"}`)})
	result, err := work(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := codec.Marshal(result)
	equal(t, "result", `{"content":[{"type":"text","text":"t"}]}`, string(text))
	if err != nil {
		t.Error(err)
	}
}

// Notifications of a task go to the session that created it. After a tasks/get they go to the
// session that sent the tasks/get. They never go to all sessions.
func TestStatusGoesToOneSession(t *testing.T) {
	end := make(chan bool)
	c := config{caps: receiver.ServerCapabilities(true), support: optional("t"), tools: map[string]session.Handler{
		"t": func(context.Context, *session.Request) (codec.Encoder, error) {
			<-end
			return session.Raw(`{"content":[]}`), nil
		},
	}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		var others []string
		var mu sync.Mutex
		client := sessiontest.Side{}
		client.Config.Hooks.Receiving = []session.Middleware{func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				mu.Lock()
				defer mu.Unlock()
				others = append(others, req.Method)
				return nil, nil
			}
		}}
		other, _ := sessiontest.Pair(t, client, sessiontest.Side{
			Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}, Config: f.config,
		})
		f.create(`{"name":"t","task":{}}`)
		second := f.create(`{"name":"t","task":{}}`)
		if _, err := other.Call(t.Context(), "tasks/get", rawParams(fmt.Sprintf(`{"taskId":%q}`, second))); err != nil {
			t.Fatal(err)
		}
		close(end)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		equal(t, "notifications of the other session", []string{"notifications/tasks/status"}, others)
		if got := f.messages(); len(got) != 1 || strings.Contains(got[0], second) {
			t.Errorf("notifications of the first session: %q", got)
		}
	})
}

// A client without the elicitation capability leaves input requests to clients that have it,
// whether these are already waiting or begin to wait later.
func TestWatcherLeavesInputRequests(t *testing.T) {
	c := config{
		caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{"t": elicitingTool},
		answer: sessiontest.Methods(map[string]session.Handler{"elicitation/create": func(context.Context, *session.Request) (codec.Encoder, error) {
			time.Sleep(2 * time.Second)
			return session.Raw(`{"action":"decline"}`), nil
		}}, nil),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		watcher, _ := sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{
			Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(false)}, Config: f.config,
		})
		id := f.create(`{"name":"t","task":{}}`)
		about := fmt.Sprintf(`{"taskId":%q}`, id)
		var group sync.WaitGroup
		wait := func() {
			raw, err := watcher.Call(t.Context(), "tasks/result", rawParams(about))
			if err != nil || !strings.Contains(string(raw), `"decline"`) {
				t.Errorf("result at the watcher: %s, %v", raw, err)
			}
		}
		group.Go(wait)
		time.Sleep(time.Second)
		equal(t, "status without a capable client", any("input_required"), f.mustCall("tasks/get", about)["status"])
		group.Go(func() {
			time.Sleep(time.Second)
			wait()
		})
		equal(t, "answer", any("decline"), f.mustCall("tasks/result", about)["action"])
		group.Wait()
		received := slices.DeleteFunc(f.messages(), func(m string) bool { return strings.HasPrefix(m, "notifications/tasks/status") })
		if len(received) != 1 {
			t.Errorf("the client received %q", received)
		}
	})
}

// queue is a job system.
type queue struct{ params string }

func (q *queue) Start(ctx context.Context, r task.Record) (string, error) {
	q.params = string(r.Params)
	return "job", nil
}

func (q *queue) Look(context.Context, string) (task.Look, error) {
	return task.Look{Done: true, Outcome: task.Outcome{Result: json.RawMessage(`{"content":[]}`)}}, nil
}

func (q *queue) Cancel(context.Context, string) error { return nil }

// With a Runner, a request that runs as a task is passed to the job system. The handler serves
// plain calls only.
func TestToolRunsAsJob(t *testing.T) {
	q := new(queue)
	c := config{
		manager: task.Options{Jobs: map[string]task.Jobs{"queue": q}},
		caps:    receiver.ServerCapabilities(false),
		tools:   map[string]session.Handler{"t": returns(`{"content":[],"plain":true}`)},
		support: map[string]receiver.Support{"t": {Mode: mcp.TaskSupportOptional, Runner: "queue"}},
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := f.create(`{"name":"t","task":{},"arguments":{"n":1}}`)
		got, err := f.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id))
		if err != nil || !strings.HasSuffix(got, `,"content":[]}`) {
			t.Errorf("as a task: %s, %v", got, err)
		}
		equal(t, "the job's request", `{"name":"t","arguments":{"n":1}}`, q.params)
		if got, err := f.call("tools/call", `{"name":"t"}`); err != nil || got != `{"content":[],"plain":true}` {
			t.Errorf("plain: %s, %v", got, err)
		}
	})
}

// Messages that a tool sends through the session directly have the related task.
//
// Proves TASK-46.
func TestToolSendsThroughSession(t *testing.T) {
	tool := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"content":[]}`), req.Session.Notify(ctx, "notifications/message", rawParams(`{"level":"info","data":1}`))
	}
	c := config{caps: receiver.ServerCapabilities(false), tools: map[string]session.Handler{"t": tool}, support: optional("t")}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := f.create(`{"name":"t","task":{}}`)
		synctest.Wait()
		want := fmt.Sprintf(`notifications/message {"_meta":{%q:{"taskId":%q}},"level":"info","data":1}`, relatedKey, id)
		equal(t, "notification", want, f.messages()[0])
		before := len(f.messages())
		f.mustCall("tools/call", `{"name":"t"}`)
		synctest.Wait()
		equal(t, "notifications of a plain call", []string{`notifications/message {"level":"info","data":1}`}, f.messages()[before:])
	})
}

// "task":null means the same as no task member.
func TestTaskOfNullIsIgnored(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{"t": returns(`{"content":[]}`)}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		if got, err := f.callUnchecked("tools/call", `{"name":"t","task":null}`); err != nil || got != `{"content":[]}` {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// elicitingTool is a tool that sends an input request with a timeout of a minute.
func elicitingTool(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	peer, _ := session.PeerFrom(ctx)
	short, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	answer, err := peer.Call(short, "elicitation/create", rawParams(`{"message":"name?","requestedSchema":{"type":"object","properties":{}}}`))
	return session.Raw(answer), err
}

// An input request that is withdrawn is cancelled at the requestor, with the related task.
//
// Proves TASK-46.
func TestWithdrawnInputRequestIsCancelled(t *testing.T) {
	c := config{
		caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{"t": elicitingTool},
		answer: sessiontest.Methods(map[string]session.Handler{"elicitation/create": blockUntilDone}, nil),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := f.create(`{"name":"t","task":{}}`)
		if _, err := f.call("tasks/result", fmt.Sprintf(`{"taskId":%q}`, id)); err == nil {
			t.Error("tasks/result succeeded without an answer")
		}
		synctest.Wait()
		n := 0
		for _, m := range f.messages() {
			if strings.HasPrefix(m, "notifications/cancelled ") {
				n++
				if !strings.Contains(m, fmt.Sprintf(`%q:{"taskId":%q}`, relatedKey, id)) {
					t.Errorf("not related: %s", m)
				}
			}
		}
		if n != 1 {
			t.Errorf("%d input requests were cancelled: %q", n, f.messages())
		}
	})
}

// A response that is not a valid message fails an input request of a task, as it does in a plain
// call.
func TestInvalidResponseFailsInputRequest(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{"t": elicitingTool}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		a, b := inmemory.Pair(inmemory.Options{})
		server := session.Serve(b, &mcp.InitializeResult{Capabilities: f.server.Server().Capabilities}, &f.config)
		defer server.Close()
		defer a.Close()
		send := func(text string) {
			t.Helper()
			if err := a.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		next := func(kind jsonrpc.Kind) jsonrpc.Message {
			t.Helper()
			for {
				m, err := a.Read()
				if err != nil {
					t.Fatal(err)
				}
				message, err := jsonrpc.Parse(m.Text)
				if err != nil {
					t.Fatal(err)
				}
				if message.Kind == kind {
					return message
				}
			}
		}
		send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		next(jsonrpc.KindResponse)
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t","task":{}}}`)
		var created mcp.CreateTaskResult
		if err := codec.Unmarshal(next(jsonrpc.KindResponse).Result, &created); err != nil {
			t.Fatal(err)
		}
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":%q}}`, created.Task.TaskID))
		inputRequest := next(jsonrpc.KindRequest)
		before := time.Now()
		send(`{"jsonrpc":"2.0","id":` + inputRequest.ID.String() + `,"result":null}`)
		m := next(jsonrpc.KindErrorResponse)
		if d := time.Since(before); m.ID.String() != "3" || d != 0 || !strings.Contains(m.Error.Message, "invalid answer") {
			t.Errorf("response %s %v after %v", m.ID, m.Error, d)
		}
	})
}

// An input request that a requestor cannot answer because it shuts its session down stays open. The
// requestor receives it again with its next tasks/result.
func TestInputRequestSurvivesShutdownOfRequestor(t *testing.T) {
	shown := make(chan struct{}, 1)
	c := config{
		caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{"t": elicitingTool},
		answer: sessiontest.Methods(map[string]session.Handler{"elicitation/create": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			shown <- struct{}{}
			return blockUntilDone(ctx, req)
		}}, nil),
	}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		id := fmt.Sprintf(`{"taskId":%q}`, f.create(`{"name":"t","task":{}}`))
		go f.call("tasks/result", id) // ends with the session
		<-shown
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f.client.Shutdown(ctx)
		if err := f.client.Wait(); err != nil {
			t.Error(err)
		}
		synctest.Wait()

		client := sessiontest.Side{Client: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)}}
		client.Config.Handler = sessiontest.Methods(map[string]session.Handler{"elicitation/create": returns(`{"action":"accept","content":{"n":"Ada"}}`)}, nil)
		server := sessiontest.Side{Server: f.server.Server().Capabilities, Config: f.config}
		f.client, _ = sessiontest.Pair(t, client, server)
		if result, err := f.call("tasks/result", id); err != nil || !strings.Contains(result, `"Ada"`) {
			t.Errorf("after a reconnect: %s, %v", result, err)
		}
	})
}

// A shutdown of the receiver does not wait for requestors that wait for an outcome. They can ask
// again through another session.
func TestShutdownEndsWaitForResult(t *testing.T) {
	var finish chan struct{}
	c := config{
		caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{
			"t": func(context.Context, *session.Request) (codec.Encoder, error) {
				<-finish
				return session.Raw(`{"content":[]}`), nil
			},
		},
	}
	synctest.Test(t, func(t *testing.T) {
		finish = make(chan struct{})
		f := setup(t, c)
		id := fmt.Sprintf(`{"taskId":%q}`, f.create(`{"name":"t","task":{}}`))
		failed := make(chan error, 1)
		go func() {
			_, err := f.call("tasks/result", id)
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := f.server.Shutdown(ctx); err != nil || time.Since(began) > 0 {
			t.Errorf("Shutdown took %v: %v", time.Since(began), err)
		}
		if err := <-failed; wireCode(err) != session.CodeClosing {
			t.Errorf("tasks/result failed with %v", err)
		}
		f.client, f.server = sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{Server: f.server.Server().Capabilities, Config: f.config})
		close(finish)
		if result, err := f.call("tasks/result", id); err != nil || !strings.Contains(result, "content") {
			t.Errorf("after a reconnect: %s, %v", result, err)
		}
	})
}

// A shutdown of the receiver waits until the user has answered an input request. The answer is not
// lost.
func TestShutdownWaitsForAnswerToInputRequest(t *testing.T) {
	var finish chan struct{}
	c := config{
		caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{
			"t": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				result, err := elicitingTool(ctx, req)
				<-finish
				return result, err
			},
		},
		answer: sessiontest.Methods(map[string]session.Handler{"elicitation/create": func(context.Context, *session.Request) (codec.Encoder, error) {
			time.Sleep(2 * time.Second)
			return session.Raw(`{"action":"accept","content":{"n":"Ada"}}`), nil
		}}, nil),
	}
	synctest.Test(t, func(t *testing.T) {
		finish = make(chan struct{})
		f := setup(t, c)
		id := fmt.Sprintf(`{"taskId":%q}`, f.create(`{"name":"t","task":{}}`))
		go f.call("tasks/result", id) // ends with the session
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := f.server.Shutdown(ctx); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("Shutdown took %v: %v", time.Since(began), err)
		}
		f.client, f.server = sessiontest.Pair(t, sessiontest.Side{}, sessiontest.Side{Server: f.server.Server().Capabilities, Config: f.config})
		close(finish)
		if result, err := f.call("tasks/result", id); err != nil || !strings.Contains(result, `"Ada"`) {
			t.Errorf("after a reconnect: %s, %v", result, err)
		}
	})
}

// A task whose requestor has disconnected continues. Its notifications are dropped without an
// error.
func TestNotificationsAreDroppedAfterDisconnect(t *testing.T) {
	var failed error
	c := config{caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{
		"t": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			time.Sleep(time.Minute)
			peer, _ := session.PeerFrom(ctx)
			failed = errors.Join(
				peer.Report(session.Progress{Value: 1}),
				peer.Notify(ctx, "notifications/message", rawParams(`{"level":"error","data":"x"}`)),
			)
			return session.Raw(`{"content":[]}`), nil
		},
	}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		f.create(`{"name":"t","task":{},"_meta":{"progressToken":"p"}}`)
		f.client.Close()
		time.Sleep(time.Hour / 2)
		if got := f.manager.Stats(); failed != nil || got.Completed != 1 {
			t.Errorf("%v, %+v", failed, got)
		}
	})
}

// A task keeps its params in memory, not the message that created it.
func TestTaskDoesNotRetainMessage(t *testing.T) {
	c := config{caps: receiver.ServerCapabilities(false), support: optional("t"), tools: map[string]session.Handler{
		"t": func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if string(req.Params) != `{"name":"t"}` {
				t.Errorf("params %s", req.Params)
			}
			if outer, ok := session.FromContext(ctx); !ok || len(outer.Params) > 20 {
				t.Error("the context refers to the message")
			}
			return blockUntilDone(ctx, req)
		},
	}}
	runInBubble(t, c, func(t *testing.T, f *fixture) {
		a, b := inmemory.Pair(inmemory.Options{})
		server := session.Serve(b, &mcp.InitializeResult{Capabilities: f.server.Server().Capabilities}, &f.config)
		defer server.Close()
		defer a.Close()
		const size, tasks = 1 << 20, 64
		heap := func() int64 {
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return int64(s.HeapAlloc)
		}
		var before int64
		for id := range tasks {
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call",%*s"params":{"name":"t",%*s"task":{}}}`, id, size/2, "", size/2, "")
			if id == 0 {
				text = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
			}
			if err := a.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Read(); err != nil {
				t.Fatal(err)
			}
			if id == 0 {
				if err := a.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				before = heap()
			}
		}
		synctest.Wait()
		if n := f.manager.Stats().Running; n != tasks-1 {
			t.Fatalf("%d tasks running", n)
		}
		if more := heap() - before; more > tasks*size/8 {
			t.Errorf("%d tasks hold %d KiB", tasks-1, more>>10)
		}
	})
}

// A client can declare tasks for sampling or for elicitation alone.
//
// Proves TASK-03.
func TestMethodsAreDeclaredSeparately(t *testing.T) {
	for _, sampling := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, err := task.New(t.Context(), task.Options{Store: memory.New(), Updates: task.Updates{Quiet: true}})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close(context.Background())
			cfg := session.Options{Handler: sessiontest.Methods(nil, returns(`{"plain":1}`))}
			receiver.Attach(&cfg, receiver.Options{Manager: m})
			a, b := inmemory.Pair(inmemory.Options{})
			defer b.Close()
			opened := make(chan *session.Session, 1)
			go func() { // ends with the handshake
				c, err := session.Connect(t.Context(), a, &mcp.InitializeRequestParams{Capabilities: mcp.ClientCapabilities{
					Sampling: new(mcp.ClientCapabilitiesSampling), Elicitation: new(mcp.ClientCapabilitiesElicitation),
					Tasks: receiver.ClientCapabilities(false, sampling, !sampling),
				}, ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}, &cfg)
				if err != nil {
					t.Error(err)
				}
				opened <- c
			}()
			read := func() jsonrpc.Message {
				t.Helper()
				m, err := b.Read()
				if err != nil {
					t.Fatal(err)
				}
				message, err := jsonrpc.Parse(m.Text)
				if err != nil {
					t.Fatal(err)
				}
				return message
			}
			write := func(text string) {
				t.Helper()
				if err := b.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
					t.Fatal(err)
				}
			}
			write(`{"jsonrpc":"2.0","id":` + read().ID.String() + `,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
			read() // notifications/initialized
			defer (<-opened).Close()
			for method, params := range map[string]string{
				"sampling/createMessage": `"messages":[],"maxTokens":1`,
				"elicitation/create":     `"message":"m","requestedSchema":{"type":"object","properties":{}}`,
			} {
				write(`{"jsonrpc":"2.0","id":"` + method + `","method":"` + method + `","params":{` + params + `,"task":{}}}`)
				answer := read()
				declared := sampling == (method == "sampling/createMessage")
				if got := string(answer.Result); declared == (got == `{"plain":1}`) {
					t.Errorf("sampling declared: %v; %s returned %s, %v", sampling, method, got, answer.Error)
				}
			}
		})
	}
}
