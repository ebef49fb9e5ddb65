package proxy_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// newTaskUpstream returns an upstream that runs tools as tasks and knows the proxy as one
// principal.
func newTaskUpstream(t *testing.T, name string) *upstream {
	t.Helper()
	return newUpstream(t, name, &server.Options{
		Tasks: task.Options{Store: memory.New()}, Session: session.Options{Principal: "proxy"},
	})
}

var required = server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired})

func TestTasksPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newTaskUpstream(t, "one"), newUpstream(t, "two", nil)
		addTool(t, two.Server, "plain", echo(""))
		step := make(chan struct{})
		addTool(t, one.Server, "work", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			for i := range 3 {
				if err := c.Progress(float64(i+1), 3, ""); err != nil {
					return "", err
				}
				<-step
			}
			return "done", nil
		}, required)
		addAsking(t, one.Server, required)
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{two.as("b"), one.as("a")}})
		c := connect(t, p, user("Ada"))

		h, err := c.StartTool(t.Context(), "a_work", nil, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(h.ID(), "a:") {
			t.Errorf("id: %s", h.ID())
		}
		progress := make(chan float64, 10)
		go func() {
			defer close(progress)
			for p := range h.Progress(t.Context()) {
				progress <- p.Value
			}
		}()
		for want := 1.0; want <= 3; want++ {
			synctest.Wait()
			equal(t, "progress", want, <-progress)
			step <- struct{}{}
		}
		result, err := h.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "result", "done", result.Content[0].(*mcp.TextContent).Text)
		equal(t, "related task", h.ID(), result.Meta.RelatedTask.TaskID)
		var listed []string
		for task, err := range c.Tasks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, task.TaskID+" "+string(task.Status))
		}
		equal(t, "list", []string{h.ID() + " completed"}, listed)

		equal(t, "form in a task", "accept Ada", mustCall(t, c, "a_ask", nil))
		raw, err := c.Session().Call(t.Context(), mcp.MethodTasksGet, session.Raw(`{"taskId":"`+h.ID()+`"}`))
		if id, _ := codec.Member(raw, "taskId"); err != nil || string(id) != `"`+h.ID()+`"` {
			t.Errorf("tasks/get: %s, %v", raw, err)
		}
		if _, err := c.Session().Call(t.Context(), mcp.MethodTasksGet, session.Raw(`{"taskId":"none"}`)); err == nil {
			t.Error("unknown task was found")
		}
		_, err = c.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"name":"b_plain","task":{}}`))
		if jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
			t.Errorf("task of an upstream without tasks: %v", err)
		}
	})
}

func TestCancellationOfTaskPasses(t *testing.T) {
	one := newTaskUpstream(t, "one")
	ended := make(chan struct{})
	addTool(t, one.Server, "work", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	}, required)
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), nil)
	h, err := c.StartTool(t.Context(), "a_work", nil, requestor.Progress())
	if err != nil {
		t.Fatal(err)
	}
	state, err := h.Cancel(t.Context())
	if err != nil || state.Status != mcp.TaskStatusCancelled || state.TaskID != h.ID() {
		t.Errorf("cancel: %v, %v", state, err)
	}
	<-ended
}

// A task can be awaited in a later session by its id. Only the session that created it can list it,
// because the upstream has one principal for all clients.
func TestTaskOfEarlierSession(t *testing.T) {
	one := newTaskUpstream(t, "one")
	release := make(chan struct{})
	addTool(t, one.Server, "work", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		<-release
		return "done", nil
	}, required)
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	ada, bob := connect(t, p, nil), connect(t, p, nil)
	h, err := ada.StartTool(t.Context(), "a_work", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.Close()
	own, err := bob.StartTool(t.Context(), "a_work", nil)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for task, err := range bob.Tasks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, task.TaskID)
	}
	equal(t, "Bob's tasks", []string{own.ID()}, listed)
	close(release)
	result, err := connect(t, p, nil).AttachTool(h.ID()).Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", "done", result.Content[0].(*mcp.TextContent).Text)
}

// A task remains in the list, in its latest state, while its upstream does not respond.
func TestTaskOfSilentUpstreamIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as()}, Server: server.Options{Logger: discard}}), sessions.in(nil))
		id := startTask(t, c, "a_who")
		list := func() (ids []string) {
			for task, err := range c.Tasks(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, task.TaskID+" "+string(task.Status))
			}
			return ids
		}
		time.Sleep(time.Second)
		equal(t, "tasks", []string{id + " completed"}, list())
		one.set(stuck)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Session().Call(ctx, mcp.MethodTasksGet, session.Raw(`{"taskId":"`+id+`"}`)); err == nil {
			t.Error("tasks/get has a result")
		}
		for _, limit := range []time.Duration{patience, 0} {
			began := time.Now()
			equal(t, "tasks of the silent upstream", []string{id + " completed"}, list())
			equal(t, "time", limit, time.Since(began))
		}
		one.set(none)
		time.Sleep(time.Minute)
		equal(t, "tasks at the end", []string{id + " completed"}, list())
	})
}

// An upstream runs an input request as a task of the client.
func TestTaskOfClientPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := make(chan string, 10)
		one := newUpstream(t, "one", &server.Options{Features: server.Features{Methods: map[string]session.Handler{
			mcp.MethodNotificationsTasksStatus: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				id, _ := codec.Member(req.Params, "taskId")
				status <- strings.Trim(string(id), `"`)
				return nil, nil
			},
		}}})
		addTool(t, one.Server, "ask", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			h, err := c.ElicitTask(ctx, &mcp.ElicitRequestFormParams{Message: "?"})
			if err != nil {
				return "", err
			}
			r, err := h.Result(ctx)
			if err != nil {
				return "", err
			}
			return h.ID() + " " + string(r.Action) + " " + r.Meta.RelatedTask.TaskID, nil
		})
		m, err := task.New(t.Context(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), &client.Options{
			Input: client.Input{
				Tasks: m,
				Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
					time.Sleep(time.Minute)
					return client.Decline(), nil
				},
			}})
		got := strings.Fields(mustCall(t, c, "a_ask", nil, client.Timeout(time.Hour)))
		if len(got) != 3 || got[0] != got[2] || got[1] != "decline" {
			t.Errorf("got %v", got)
		}
		synctest.Wait() // the notification may follow the result
		select {
		case id := <-status:
			equal(t, "task of the notification", got[0], id)
		default:
			t.Error("no notification of the task's status has arrived")
		}
	})
}

// The state of a task at the client reaches the upstream that has created it, and no other one, also
// if it arrives before the response that names the task.
func TestEarlyStatusOfClientTaskPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := make(chan string, 10)
		cfg := func(name string) *server.Options {
			return &server.Options{Features: server.Features{Methods: map[string]session.Handler{
				mcp.MethodNotificationsTasksStatus: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
					id, _ := codec.Member(req.Params, "taskId")
					status <- name + " " + string(id)
					return nil, nil
				},
			}}}
		}
		one, two := newUpstream(t, "one", cfg("one")), newUpstream(t, "two", cfg("two"))
		const state = `"status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}`
		o := sessions.in(nil)
		o.Features.Capabilities.Elicitation = &mcp.ClientCapabilitiesElicitation{}
		o.Features.Capabilities.Tasks = receiver.ClientCapabilities(false, false, true)
		o.Session.Hooks.Receiving = []session.Middleware{func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != mcp.MethodElicitationCreate {
					return next(ctx, req)
				}
				for _, id := range []string{"7", "8"} {
					if err := req.Session.Notify(ctx, mcp.MethodNotificationsTasksStatus, session.Raw(`{"taskId":"`+id+`",`+state)); err != nil {
						return nil, err
					}
				}
				synctest.Wait()
				return session.Raw(`{"task":{"taskId":"7",` + state + `}`), nil
			}
		}}
		connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{two.as("b"), one.as("a")}}), o)
		s := one.Sessions()[0]
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Call(t.Context(), mcp.MethodElicitationCreate, session.Raw(`{"message":"?","requestedSchema":{"type":"object","properties":{}},"task":{}}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		close(status)
		var got []string
		for s := range status {
			got = append(got, s)
		}
		equal(t, "states", []string{`one "7"`}, got)
	})
}

// The client knows all upstreams as one. A task that one of them has created at the client is that
// of no task for the others.
func TestTaskOfClientBelongsToUpstream(t *testing.T) {
	one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
	create := func(s *session.Session) (string, error) {
		result, err := s.Call(t.Context(), mcp.MethodElicitationCreate, session.Raw(`{"message":"PIN?","requestedSchema":{"type":"object","properties":{}},"task":{}}`))
		id, _ := codec.Member(result, "task")
		id, _ = codec.Member(id, "taskId")
		return strings.Trim(string(id), `"`), err
	}
	m, err := task.New(t.Context(), task.Options{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	o := sessions.in(&client.Options{Input: client.Input{
		Tasks: m,
		Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Decline(), nil
		},
	}})
	o.Session.Principal = "user" // otherwise the client lists no tasks
	connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), o)
	a, b := one.Sessions()[0], two.Sessions()[0]
	for _, s := range []*session.Session{a, b} {
		if err := s.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id, err := create(a)
	if err != nil {
		t.Fatal(err)
	}
	other, err := create(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel} {
		result, err := b.Call(t.Context(), method, session.Raw(`{"taskId":"`+id+`"}`))
		if failed, ok := err.(*jsonrpc.Error); !ok || !strings.HasPrefix(failed.Message, "task: not found: ") {
			t.Errorf("%s by the other upstream: %s, %v", method, result, err)
		}
	}
	if result, err := b.Call(t.Context(), mcp.MethodTasksGet, session.Raw(`{"taskId":"`+other+`","task_id":"`+id+`"}`)); strings.Contains(string(result), id) || err != nil {
		t.Errorf("task of the other upstream: %s, %v", result, err)
	}
	result, err := a.Call(t.Context(), mcp.MethodTasksResult, session.Raw(`{"taskId":"`+id+`"}`))
	if action, _ := codec.Member(result, "action"); string(action) != `"decline"` || err != nil {
		t.Errorf("result: %s, %v", result, err)
	}
	for s, want := range map[*session.Session]string{a: id, b: other} {
		var ids []string
		for task, err := range requestor.List(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, task.TaskID)
		}
		equal(t, "tasks", []string{want}, ids)
	}
}

// The ids of tasks in raw messages are replaced in both directions. A message that names a task of
// another client loses the name.
func TestRelatedTaskHasIDOfReceiver(t *testing.T) {
	const key = `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`
	var got []string
	one := newUpstream(t, "one", &server.Options{
		Features: server.Features{
			Capabilities: func(c *mcp.ServerCapabilities) { c.Tasks = receiver.ServerCapabilities(false) },
			Methods: map[string]session.Handler{
				mcp.MethodToolsList: func(context.Context, *session.Request) (codec.Encoder, error) {
					return session.Raw(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`), nil
				},
				mcp.MethodToolsCall: func(context.Context, *session.Request) (codec.Encoder, error) {
					return session.Raw(`{"task":{"taskId":"7","status":"working"}}`), nil
				},
				mcp.MethodTasksResult: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					got = append(got, string(req.Params))
					escaped := strings.ReplaceAll(key, "/", `\/`)
					for _, related := range []string{key + "7", key + "8", escaped + "8"} {
						answer, err := req.Session.Call(ctx, mcp.MethodElicitationCreate, session.Raw(`{"message":"?","requestedSchema":{"type":"object","properties":{}},`+related+`"}}}`))
						if err != nil {
							return nil, err
						}
						got = append(got, string(answer))
					}
					return session.Raw(`{"content":[],` + key + `7"}}}`), nil
				},
			},
		},
	})
	o := &client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
		related := f.Meta.RelatedTask
		if related == nil {
			got = append(got, "no task")
			return &mcp.ElicitResult{Action: mcp.ElicitActionDecline}, nil
		}
		got = append(got, related.TaskID)
		return &mcp.ElicitResult{Action: mcp.ElicitActionDecline, Meta: &mcp.ResultMetaObject{RelatedTask: related}}, nil
	}}}
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), o)
	id := startTask(t, c, "a_t")
	result, err := c.Session().Call(t.Context(), mcp.MethodTasksResult, session.Raw(`{"taskId":"`+id+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", []string{`{"taskId":"7"}`, id, `{` + key + `7"}},"action":"decline"}`, "no task", `{"action":"decline"}`, "no task", `{"action":"decline"}`}, got)
	equal(t, "result", `{"content":[],`+key+id+`"}}}`, string(result))
}

// startTask calls a tool as a task, without the client's own handling of tasks, and returns the id.
func startTask(t *testing.T, c *client.Client, tool string) string {
	t.Helper()
	result, err := c.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"name":"`+tool+`","task":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	task, _ := codec.Member(result, "task")
	id, _ := codec.Member(task, "taskId")
	return strings.Trim(string(id), `"`)
}
