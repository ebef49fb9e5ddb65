package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// orderTool is a tool that reports progress, logs and elicits input.
func orderTool(ctx context.Context, c *server.Call, in struct {
	Dish string `json:"dish"`
}) (map[string]any, error) {
	if err := c.Progress(1, 2, "cooking"); err != nil {
		return nil, err
	}
	if err := c.Log(ctx, mcp.LoggingLevelWarning, "kitchen", in.Dish); err != nil {
		return nil, err
	}
	p := person{}
	action, err := server.Elicit(ctx, c, "For whom?", &p)
	if err != nil {
		return nil, err
	}
	_, isTask := c.Task()
	return map[string]any{"dish": in.Dish, "for": p.Name, "action": action, "task": isTask, "principal": c.Principal()}, nil
}

// withTasks returns a server with tasks in a store, and its manager. The server is closed at the end
// of the test.
func withTasks(t *testing.T, store task.Store, add func(*server.Server)) (*server.Server, *task.Manager) {
	t.Helper()
	return withTasksOf(t, server.Options{Session: session.Options{Principal: "ada"}}, store, add)
}

// withTasksOf is withTasks for a configuration.
func withTasksOf(t *testing.T, cfg server.Options, store task.Store, add func(*server.Server)) (*server.Server, *task.Manager) {
	t.Helper()
	cfg.Tasks.Store = store
	s := newServer(t, cfg)
	add(s)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, s.Tasks()
}

// Proves SDK-16, SDK-15.
func TestOneFunctionServesCallsAndTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		s, _ := withTasks(t, store, func(s *server.Server) {
			server.AddTool(s, "order", "", orderTool, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional, Immediate: "It is cooking."}))
			server.AddTool(s, "plain", "", sayHi)
			server.AddTool(s, "task", "", sayHi, server.DefineTool(func(t *mcp.Tool) { t.Execution = &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportRequired)} }))
		})
		client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"Ada"}}`})
		c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve})
		listed, _ := c.call("tools/list", "")
		for _, want := range []string{`"execution":{"taskSupport":"optional"}`, `"execution":{"taskSupport":"required"}`} {
			if !strings.Contains(listed, want) {
				t.Errorf("no %s in %s", want, listed)
			}
		}
		want := func(isTask string) string {
			return `{"dish":"soup","for":"Ada","action":"accept","task":` + isTask + `,"principal":"ada"}`
		}
		result, _ := c.call("tools/call", `{"name":"order","arguments":{"dish":"soup"},"_meta":{"progressToken":"plain"}}`)
		equalJSON(t, "plain call", want("false"), text(t, result))

		created, _ := c.call("tools/call", `{"name":"order","arguments":{"dish":"soup"},"task":{"ttl":60000},"_meta":{"progressToken":"task"}}`)
		id := taskID(t, created)
		if !strings.Contains(created, "It is cooking.") {
			t.Errorf("no immediate response: %s", created)
		}
		synctest.Wait()
		if got, _ := c.call("tasks/get", `{"taskId":"`+id+`"}`); !strings.Contains(got, `"input_required"`) {
			t.Errorf("the task does not wait for input: %s", got)
		}
		result, _ = c.call("tasks/result", `{"taskId":"`+id+`"}`)
		equalJSON(t, "task", want("true"), text(t, result))
		synctest.Wait()
		if got := c.notifications("notifications/message"); len(got) != 2 || strings.Contains(got[0], id) || !strings.Contains(got[1], id) {
			t.Errorf("log messages: %v", got)
		}
		c.expectError("tools/call", `{"name":"plain","task":{}}`, jsonrpc.CodeMethodNotFound)
		c.expectError("tools/call", `{"name":"task"}`, jsonrpc.CodeMethodNotFound)
		c.expectError("tools/call", `{"name":"nope"}`, jsonrpc.CodeInvalidParams)

		bad, _ := c.call("tools/call", `{"name":"order","arguments":{"dish":7},"task":{}}`)
		result, _ = c.call("tasks/result", `{"taskId":"`+taskID(t, bad)+`"}`)
		if !strings.Contains(text(t, result), "/dish: got number, want string") {
			t.Errorf("arguments of a task: %s", result)
		}
		if got, _ := c.call("tasks/get", `{"taskId":"`+taskID(t, bad)+`"}`); !strings.Contains(got, `"failed"`) {
			t.Errorf("the task has not failed: %s", got)
		}
	})
}

// Proves TASK-01.
func TestStoreDeclaresCapabilitiesOfTasks(t *testing.T) {
	declared := func(s *server.Server) string {
		tasks := connect(t, s, clientConfig{}).Server().Capabilities.Tasks
		if tasks == nil {
			return ""
		}
		return string(must(codec.Marshal(tasks)))
	}
	s := newServer(t, server.Options{})
	server.AddTool(s, "x", "", sayHi)
	equalJSON(t, "without tasks", "", declared(s))

	s, _ = withTasks(t, memory.New(), func(*server.Server) {})
	equalJSON(t, "with a principal", `{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`, declared(s))
	s, _ = withTasksOf(t, server.Options{}, memory.New(), func(*server.Server) {})
	equalJSON(t, "without a principal", `{"cancel":{},"requests":{"tools":{"call":{}}}}`, declared(s))
}

func taskID(t *testing.T, created string) string {
	t.Helper()
	var result mcp.CreateTaskResult
	if err := codec.Unmarshal([]byte(created), &result); err != nil {
		t.Fatalf("%v: %s", err, created)
	}
	return result.Task.TaskID
}

func TestDurableToolRunsAgainAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		support := server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, Restartable: true})
		hang := func(ctx context.Context, c *server.Call, in json.RawMessage) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		first, _ := withTasks(t, store, func(s *server.Server) { s.AddRawTool(mcp.Tool{Name: "order"}, hang, support) })
		c := connect(t, first, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`)})
		created, _ := c.call("tools/call", `{"name":"order","arguments":{"dish":"soup"},"task":{}}`)
		first.Close()

		second, _ := withTasks(t, store, func(s *server.Server) { server.AddTool(s, "order", "", orderTool, support) })
		time.Sleep(time.Second)
		client := respondWith(map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"Ada"}}`})
		c = connect(t, second, clientConfig{capabilities: clientCapabilities(t, `{"elicitation":{}}`), handler: client.serve})
		result, _ := c.call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
		equalJSON(t, "result", `{"dish":"soup","for":"Ada","action":"accept","task":true,"principal":"ada"}`, text(t, result))
	})
}

// slowScan is a store that takes a second for each task when it is scanned.
type slowScan struct{ task.Store }

func (s slowScan) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		for r, err := range s.Store.Scan(ctx) {
			if !yield(r, err) {
				return
			}
			time.Sleep(time.Second)
		}
	}
}

// The handler of a recovered task may signal other tasks, also while the rest of them is still being
// recovered. If that failed, so would its step, in each later run.
func TestRecoveredTaskSignalsOtherTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waits atomic.Value // the id of the task that waits
		waits.Store("")
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			if run, _ := c.Task(); waits.CompareAndSwap("", run.ID()) || waits.Load() == run.ID() {
				return server.Await[string](ctx, c, "go")
			}
			if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
				return "", err
			}
			_, err := server.Step(ctx, c, "signal", func(ctx context.Context) (int, error) {
				return 1, c.Server().Signal(ctx, waits.Load().(string), "go", "gone")
			})
			return "sent", err
		})
		d.s.Close()
		d.cfg.Tasks.Store = slowScan{d.cfg.Tasks.Store}
		d.start()
		waiter := d.call()
		synctest.Wait()
		sender := d.call()
		time.Sleep(time.Minute)
		d.s.Close()
		time.Sleep(2 * time.Hour)
		d.start()
		equal(t, "result of the sender", "sent", d.result(sender))
		equal(t, "result of the waiter", "gone", d.result(waiter))
	})
}

func TestCallRateLimitsRequestsAndNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		tool := func(block bool) func(*server.Server) {
			run := func(ctx context.Context, c *server.Call, in json.RawMessage) (*mcp.CallToolResult, error) {
				if block {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return server.Text("done"), nil
			}
			return func(s *server.Server) {
				s.AddRawTool(mcp.Tool{Name: "work"}, run, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, Restartable: true}))
			}
		}
		cfg := server.Options{Limits: server.Limits{Calls: 1}}
		first, m := withTasksOf(t, cfg, store, tool(true))
		c := connect(t, first, clientConfig{})
		const n = 5
		for range n {
			c.call("tools/call", `{"name":"work","task":{}}`)
			time.Sleep(time.Second)
		}
		c.call("tools/call", `{"name":"work","task":{}}`)
		c.call("tools/call", `{"name":"work","task":{}}`)
		c.expectError("tools/call", `{"name":"work","task":{}}`, session.CodeOverloaded)
		if got := m.Stats(); got.Created != n+2 || got.Running != n+2 {
			t.Errorf("%d tasks created and %d running, want %d", got.Created, got.Running, n+2)
		}
		first.Close()

		_, m = withTasksOf(t, cfg, store, tool(false))
		synctest.Wait()
		if got := m.Stats(); got.Completed != n+2 || got.Failed != 0 {
			t.Errorf("after a restart, %d tasks completed and %d failed, want %d and 0", got.Completed, got.Failed, n+2)
		}
	})
}

func TestCancellationEndsToolContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 2)
		s, _ := withTasks(t, memory.New(), func(s *server.Server) {
			server.AddTool(s, "wait", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return "", ctx.Err()
			}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional}))
		})
		c := connect(t, s, clientConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, "tools/call", session.Raw(`{"name":"wait"}`)); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		if cause := <-ended; !strings.Contains(cause.Error(), session.ErrCancelled.Error()) {
			t.Errorf("the plain call ended because of %v", cause)
		}
		created, _ := c.call("tools/call", `{"name":"wait","task":{}}`)
		c.call("tasks/cancel", `{"taskId":"`+taskID(t, created)+`"}`)
		if cause := <-ended; cause != task.ErrCancelled {
			t.Errorf("the task ended because of %v", cause)
		}
	})
}

func TestShutdownWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			time.Sleep(time.Minute)
			return "done", nil
		})
		c := connect(t, s, clientConfig{})
		got := make(chan string)
		go func() {
			result, _ := c.With(session.Timeout(0)).Call(context.Background(), "tools/call", session.Raw(`{"name":"slow"}`))
			got <- string(result)
		}()
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- s.Shutdown(context.Background()) }()
		if result := <-got; !strings.Contains(result, "done") {
			t.Errorf("got result %q", result)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		_, conn := inmemory.Pair(inmemory.Options{})
		if _, err := s.Serve(conn); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Serve after Shutdown: got %v, want ErrClosed", err)
		}
		if n := len(s.Sessions()); n != 0 {
			t.Errorf("%d sessions are open", n)
		}
	})
}

// When the context of Run ends, calls have five seconds to finish, and Run returns nil.
func TestRunShutsDownWhenContextEnds(t *testing.T) {
	for _, tt := range []struct{ work, want time.Duration }{{time.Second, time.Second}, {time.Minute, 5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, server.Options{})
			server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				select {
				case <-time.After(tt.work):
				case <-ctx.Done():
				}
				return "done", nil
			})
			clientConn, serverConn := inmemory.Pair(inmemory.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx, serverConn) }()
			c, err := client.Connect(t.Context(), clientConn, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			called := make(chan error, 1)
			go func() {
				_, err := c.CallTool(t.Context(), "slow", nil)
				called <- err
			}()
			synctest.Wait()
			start := time.Now()
			cancel()
			if err := <-ended; err != nil || time.Since(start) != tt.want {
				t.Errorf("a call of %v: Run returned %v after %v, want nil after %v", tt.work, err, time.Since(start), tt.want)
			}
			wire, rejected := errors.AsType[*jsonrpc.Error](<-called)
			if late := tt.work > tt.want; rejected != late || late && wire.Code != session.CodeClosing {
				t.Errorf("a call of %v: got %v", tt.work, wire)
			}
		})
	}
}

// A handler has the client run an input request as a task, which may take longer than InputTimeout.
// The handler receives the status notifications of the client without polling. Messages sent while
// the server serves a request of the task are related to the task.
//
// Proves TASK-03, TASK-46.
func TestHandlerCreatesTasksOfClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{Limits: server.Limits{InputTimeout: time.Second}})
		server.AddTool(s, "sample", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			h, err := c.SampleTask(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10})
			if err != nil {
				return "", err
			}
			if h.ID() == "" || h.State().Status != mcp.TaskStatusWorking {
				t.Errorf("the task is %+v", h.State())
			}
			checkUpdates(t, h.Updates(ctx))
			result, err := h.Result(ctx)
			if err != nil {
				return "", err
			}
			return result.Model, nil
		})
		server.AddTool(s, "elicit", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			h, err := c.ElicitTask(ctx, &mcp.ElicitRequestFormParams{Message: "?"})
			if err != nil {
				return "", err
			}
			checkUpdates(t, h.Updates(ctx))
			result, err := h.Result(ctx)
			if err != nil {
				return "", err
			}
			return string(result.Action), nil
		})
		server.AddTool(s, "secret", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			_, err := c.ElicitTask(ctx, &mcp.ElicitRequestFormParams{RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
				Properties: map[string]mcp.PrimitiveSchemaDefinition{"apiKey": new(mcp.StringSchema)},
			}})
			return "asked", err
		})
		server.AddTool(s, "helper", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			time.Sleep(time.Minute)
			return "", c.Log(ctx, mcp.LoggingLevelWarning, "helper", "helped")
		})
		tasks, err := task.New(t.Context(), task.Options{Store: memory.New(), Updates: task.Updates{Poll: 24 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		defer tasks.Close(context.Background())
		var logged taskLog
		serveInput := func(ctx context.Context) {
			id := ""
			if run, ok := task.FromContext(ctx); ok {
				id = run.ID()
			}
			peer, _ := session.PeerFrom(ctx)
			result, err := peer.Call(ctx, "tools/call", session.Raw(`{"name":"helper"}`))
			if err != nil || id == "" || !strings.Contains(string(result), id) {
				t.Errorf("result for task %q: %s, %v", id, result, err)
			}
			synctest.Wait()
			if got := logged.take(); len(got) != 1 || got[0] != id {
				t.Errorf("log messages of tasks %q, want %q", got, id)
			}
			time.Sleep(10 * time.Minute)
		}
		o := &client.Options{
			Input: client.Input{
				Tasks: tasks,
				Fill: func(ctx context.Context, _ *client.FormRequest) (*mcp.ElicitResult, error) {
					serveInput(ctx)
					return client.Decline(), nil
				},
				Sample: func(ctx context.Context, _ *client.SampleRequest) (*mcp.CreateMessageResult, error) {
					serveInput(ctx)
					return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "x"}}}}, nil
				},
			},
			Notifications: &logged,
		}
		o.Session.Timeouts.Request = time.Hour
		clientConn, serverConn := inmemory.Pair(inmemory.Options{})
		must(s.Serve(serverConn))
		c, err := client.Connect(t.Context(), clientConn, o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for tool, want := range map[string]string{"sample": "m", "elicit": "decline"} {
			result, err := c.CallTool(t.Context(), tool, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := result.Content[0].(*mcp.TextContent).Text; got != want {
				t.Errorf("%s: got %q, want %q", tool, got, want)
			}
		}
		if result := must(c.CallTool(t.Context(), "secret", nil)); result.IsError == nil {
			t.Error("ElicitTask accepts a secret field")
		}

		for tool, capabilities := range map[string][]string{
			"sample": {`{"sampling":{},"elicitation":{}}`, `{"sampling":{},"elicitation":{},"tasks":{"requests":{"elicitation":{"create":{}}}}}`},
			"elicit": {`{"sampling":{},"elicitation":{}}`, `{"sampling":{},"elicitation":{},"tasks":{"requests":{"sampling":{"createMessage":{}}}}}`},
		} {
			for _, declared := range capabilities {
				without := connect(t, s, clientConfig{capabilities: clientCapabilities(t, declared), handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
					if !req.IsNotification() {
						t.Errorf("%s was sent to a client with %s", req.Method, declared)
					}
					return nil, nil
				}})
				if result, _ := without.call("tools/call", fmt.Sprintf(`{"name":%q}`, tool)); !strings.Contains(result, "tasks.requests") {
					t.Errorf("%s with %s: got %s", tool, declared, result)
				}
			}
		}
	})
}

// checkUpdates checks the states of a task whose work sends a request. Intermediate states may be
// missing, because a later state may arrive first.
func checkUpdates(t *testing.T, updates iter.Seq2[mcp.Task, error]) {
	var got []mcp.TaskStatus
	for state, err := range updates {
		if err != nil {
			t.Error(err)
		}
		got = append(got, state.Status)
	}
	next := 0
	for _, status := range []mcp.TaskStatus{mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusWorking, mcp.TaskStatusCompleted} {
		if next < len(got) && got[next] == status {
			next++
		}
	}
	if len(got) < 2 || next < len(got) || got[len(got)-1] != mcp.TaskStatusCompleted {
		t.Errorf("got states %q", got)
	}
}

// taskLog collects the ids of the tasks that log messages are related to.
type taskLog struct {
	mcp.UnimplementedClientNotificationHandler
	mu    sync.Mutex
	tasks []string
}

func (n *taskLog) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := ""
	if p.Meta != nil && p.Meta.RelatedTask != nil {
		id = p.Meta.RelatedTask.TaskID
	}
	n.tasks = append(n.tasks, id)
	return nil
}

func (n *taskLog) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	tasks := n.tasks
	n.tasks = nil
	return tasks
}

// A server declares the tasks capability only with a store.
//
// Proves TASK-01.
func TestTasksAreDeclaredOnlyIfOffered(t *testing.T) {
	without := connect(t, newServer(t, server.Options{}), clientConfig{})
	if got := without.Server().Capabilities.Tasks; got != nil {
		t.Errorf("declared without tasks: %+v", got)
	}
	s, _ := withTasks(t, memory.New(), func(s *server.Server) { server.AddTool(s, "plain", "", sayHi) })
	if got := connect(t, s, clientConfig{}).Server().Capabilities.Tasks; got == nil || got.Requests == nil || got.Requests.Tools == nil {
		t.Errorf("declared with tasks: %+v", got)
	}
}

// A result with an invalid key in _meta is not sent in any revision, neither as the result of a
// call nor of a task.
//
// Proves META-02.
func TestResultMetaKeysAreChecked(t *testing.T) {
	for key, want := range map[string]int64{"com.example/x": 0, "1a/x": jsonrpc.CodeInternalError} {
		for _, revision := range []mcp.Revision{mcp.Revision20241105, mcp.Revision20251125} {
			synctest.Test(t, func(t *testing.T) {
				s, _ := withTasks(t, memory.New(), func(s *server.Server) {
					s.AddRawTool(mcp.Tool{Name: "x"}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
						result := server.Text("x")
						result.Meta = new(mcp.ResultMetaObject)
						result.Meta.Extra.Set(key, json.RawMessage(`1`))
						return result, nil
					}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional}))
				})
				c := connect(t, s, clientConfig{revision: revision})
				if result, code := c.call("tools/call", `{"name":"x"}`); code != want {
					t.Errorf("%s, %s: got %d %s, want %d", revision, key, code, result, want)
				}
				if revision != mcp.Revision20251125 {
					return
				}
				created, _ := c.call("tools/call", `{"name":"x","task":{}}`)
				result, code := c.call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
				if code != want || want == 0 && !strings.Contains(result, key) {
					t.Errorf("task with %s: got %d %s, want %d", key, code, result, want)
				}
			})
		}
	}
}
