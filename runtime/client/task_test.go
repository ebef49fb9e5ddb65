package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// tasks is a server whose tools are named after their task support: forbidden, optional and
// required. Tool hang requires a task, too, and runs until it is cancelled. The tools report
// progress. Their result says whether they ran as a task.
type tasks struct {
	mu      sync.Mutex
	modes   map[string]mcp.TaskSupport
	calls   []string // served requests: a tool name for each call, "list" for each tools/list
	stopped chan struct{}
}

func (x *tasks) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch req.Method {
	case "tools/list":
		x.calls = append(x.calls, "list")
		r := &mcp.ListToolsResult{}
		for _, name := range []string{"forbidden", "optional", "required", "hang"} {
			mode := x.modes[name]
			r.Tools = append(r.Tools, mcp.Tool{Name: name, Execution: &mcp.ToolExecution{TaskSupport: &mode}})
		}
		return r, nil
	case "tools/call":
		x.calls = append(x.calls, toolOf(req))
		x.mu.Unlock()
		defer x.mu.Lock()
		return x.run(ctx, req)
	}
	return nil, nil
}

func (x *tasks) run(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	peer, _ := session.PeerFrom(ctx)
	for i := range 3 {
		if err := peer.Report(session.Progress{Value: float64(i + 1), Total: new(3.0)}); err != nil {
			return nil, err
		}
		time.Sleep(time.Second)
	}
	if toolOf(req) == "hang" {
		<-ctx.Done()
		close(x.stopped)
		return nil, ctx.Err()
	}
	inTask := strings.HasPrefix(fmt.Sprintf("%T", peer), "receiver.")
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: fmt.Sprint("task ", inTask)}}}, nil
}

func toolOf(req *session.Request) string {
	var p mcp.CallToolRequestParams
	codec.Unmarshal(req.Params, &p)
	return p.Name
}

// took checks the requests served since the last call.
func (x *tasks) took(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if diff := cmp.Diff(want, x.calls); diff != "" {
		t.Errorf("requests served (-want +got):\n%s", diff)
	}
	x.calls = nil
}

func newManager(t *testing.T) *task.Manager {
	t.Helper()
	m, err := task.New(t.Context(), task.Options{Store: memory.New()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func withTasks(t *testing.T) (*client.Client, *tasks, *scripted) {
	x := &tasks{stopped: make(chan struct{}), modes: map[string]mcp.TaskSupport{
		"forbidden": "forbidden", "optional": "optional", "required": "required", "hang": "required",
	}}
	cfg := session.Options{Handler: x.handle}
	receiver.Attach(&cfg, receiver.Options{Manager: newManager(t), Support: func(_ context.Context, req *session.Request) (receiver.Support, error) {
		x.mu.Lock()
		defer x.mu.Unlock()
		return receiver.Support{Mode: x.modes[toolOf(req)]}, nil
	}})
	capabilities := everything()
	capabilities.Tasks = receiver.ServerCapabilities(true)
	c, s := connectAs(t, capabilities, nil, cfg, nil)
	return c, x, s
}

// Proves TASK-08, TASK-10, TASK-11.
func TestCallToolFollowsTaskSupport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, x, _ := withTasks(t)
		for _, test := range []struct{ tool, want string }{
			{"forbidden", "task false"}, {"optional", "task false"}, {"required", "task true"},
		} {
			var mu sync.Mutex
			var reports []float64
			result, err := c.CallTool(t.Context(), test.tool, nil, client.TTL(time.Hour), client.OnProgress(func(p session.Progress) {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, p.Value)
			}))
			if err != nil || result.Content[0].(*mcp.TextContent).Text != test.want {
				t.Errorf("%s: got %v, %v", test.tool, result, err)
			}
			mu.Lock()
			if diff := cmp.Diff([]float64{1, 2, 3}, reports); diff != "" {
				t.Errorf("%s: progress (-want +got):\n%s", test.tool, diff)
			}
			mu.Unlock()
		}
		x.took(t, "list", "forbidden", "optional", "required")
	})
}

func TestCallToolRetriesAfterChangedTaskSupport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, x, _ := withTasks(t)
		call := func(tool string) string {
			t.Helper()
			result, err := c.CallTool(t.Context(), tool, nil)
			if err != nil {
				return err.Error()
			}
			return result.Content[0].(*mcp.TextContent).Text
		}
		call("optional")
		set := func(tool string, mode mcp.TaskSupport) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.modes[tool] = mode
		}
		set("optional", "required")
		set("required", "forbidden")
		if got := call("optional"); got != "task true" {
			t.Errorf("got %s", got)
		}
		x.took(t, "list", "optional", "list", "optional")
		set("optional", "forbidden")
		if got := call("optional"); got != "task false" {
			t.Errorf("got %s", got)
		}
		if got := call("required"); got != "task false" {
			t.Errorf("got %s", got)
		}
		x.took(t, "list", "optional", "required")
	})
}

func TestBlockedProgressCallbackDoesNotDelayCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := withTasks(t)
		for _, tool := range []string{"forbidden", "required"} {
			unblock, began := make(chan struct{}), time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := c.CallTool(ctx, tool, nil, client.OnProgress(func(session.Progress) { <-unblock }))
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("%s: got %v after %v", tool, err, took)
			}
			cancel()
			close(unblock)
		}
	})
}

func TestTimeoutCancelsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, x, _ := withTasks(t)
		if _, err := c.CallTool(t.Context(), "hang", nil, client.Timeout(10*time.Second)); err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
		<-x.stopped
		for state, err := range c.Tasks(t.Context()) {
			if err != nil || state.Status != mcp.TaskStatusCancelled {
				t.Errorf("got %v, %v", state, err)
			}
		}
		if _, err := c.CallTool(t.Context(), "forbidden", nil, client.Timeout(time.Second)); err != session.ErrTimeout {
			t.Errorf("got %v", err)
		}
	})
}

// Proves SDK-16.
func TestTasksAreStartedListedAndAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := withTasks(t)
		if _, err := c.StartTool(t.Context(), "forbidden", nil); !errors.Is(err, requestor.ErrNotAsTask) {
			t.Errorf("got %v", err)
		}
		if _, err := c.StartTool(t.Context(), "none", nil); !errors.Is(err, client.ErrUnknown) {
			t.Errorf("got %v", err)
		}
		h, err := c.StartTool(t.Context(), "optional", map[string]int{"a": 1}, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		again := c.AttachTool(h.ID())
		result, err := again.Result(t.Context())
		if err != nil || result.Content[0].(*mcp.TextContent).Text != "task true" {
			t.Errorf("got %v, %v", result, err)
		}
		hang, err := c.StartTool(t.Context(), "hang", nil)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := hang.Cancel(t.Context()); err != nil || state.Status != mcp.TaskStatusCancelled {
			t.Errorf("got %v, %v", state, err)
		}
		var states []string
		for state, err := range c.Tasks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, string(state.Status))
		}
		if got := strings.Join(states, " "); got != "completed cancelled" && got != "cancelled completed" {
			t.Errorf("got %s", got)
		}
	})
}

// Proves TASK-07.
func TestCallToolDoesNotListToolsWithoutTasks(t *testing.T) {
	c, s := connect(t, nil, map[string]func(string) (string, error){"tools/call": always(`{"content":[],"isError":true}`)})
	result, err := c.CallTool(t.Context(), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Output[int](result); err == nil || !errors.As(err, new(*client.ToolError)) {
		t.Errorf("got %v", err)
	}
	s.took(`tools/call {"name":"x"}`)
	if _, err := c.StartTool(t.Context(), "x", nil); err == nil {
		t.Error("a task was started")
	}
	s.took()
	refuse := func(string) (string, error) { return "", jsonrpc.MethodNotFound("x") }
	s.answers["tools/call"] = refuse
	if _, err := c.CallTool(t.Context(), "x", nil); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("got %v", err)
	}
	s.took(`tools/call {"name":"x"}`)
}

// Proves SDK-16.
func TestInputRequestsRunAsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &client.Options{Input: client.Input{
			Tasks: newManager(t),
			Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
				time.Sleep(10 * time.Minute) // the time a user may take
				return client.Decline(), nil
			},
		}}
		var remote *requestor.Tasks
		cfg := session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil }}
		remote = requestor.Attach(&cfg)
		_, s := connectAs(t, everything(), a, cfg, nil)
		h, err := remote.Elicit(t.Context(), s.Session, &mcp.ElicitRequestFormParams{Message: "Which?"})
		if err != nil {
			t.Fatal(err)
		}
		if h.State().Status != mcp.TaskStatusWorking {
			t.Errorf("the task is %s", h.State().Status)
		}
		result, err := h.Result(t.Context())
		if err != nil || result.Action != mcp.ElicitActionDecline {
			t.Errorf("got %v, %v", result, err)
		}
	})
}

// A client with a Manager declares tasks for the input requests that it handles.
//
// Proves TASK-01.
func TestTasksAreDeclaredForHandledRequests(t *testing.T) {
	fill := func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) { return client.Decline(), nil }
	_, s := connectAs(t, everything(), &client.Options{Input: client.Input{Fill: fill}}, session.Options{}, nil)
	if got := s.Client().Capabilities.Tasks; got != nil {
		t.Errorf("declared without tasks: %+v", got)
	}
	_, s = connectAs(t, everything(), &client.Options{Input: client.Input{Fill: fill, Tasks: newManager(t)}}, session.Options{}, nil)
	if got := s.Client().Capabilities.Tasks; got == nil || got.Requests == nil || got.Requests.Elicitation == nil || got.Requests.Sampling != nil {
		t.Errorf("declared with tasks: %+v", got)
	}
}
