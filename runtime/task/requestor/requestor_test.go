package requestor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// spy records the requests that a side receives.
type spy struct {
	mu   sync.Mutex
	list []string
	at   []time.Time
}

func (s *spy) middleware(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		s.mu.Lock()
		s.list = append(s.list, req.Method+" "+string(req.Params))
		s.at = append(s.at, time.Now())
		s.mu.Unlock()
		return next(ctx, req)
	}
}

// received returns the messages of a method and the times of their arrival.
func (s *spy) received(method string) (list []string, at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.list {
		if strings.HasPrefix(m, method+" ") {
			list, at = append(list, m), append(at, s.at[i])
		}
	}
	return list, at
}

// server is a server with tasks. Several clients can connect to it.
type server struct {
	t       *testing.T
	manager *task.Manager
	handler session.Handler
	session *session.Session // the latest
	spy     spy
}

func newServer(t *testing.T, handler session.Handler) *server {
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
	requests := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return nil, nil
		}
		return handler(ctx, req)
	}
	return &server{t: t, manager: m, handler: requests}
}

// connect returns a client session that handles requests of the server with answer.
func (s *server) connect(answer session.Handler) (*requestor.Tasks, *session.Session) {
	s.t.Helper()
	side := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}}
	side.Config.Hooks.Receiving = []session.Middleware{s.spy.middleware}
	side.Config.Handler = s.handler
	receiver.Attach(&side.Config, receiver.Options{Manager: s.manager, Support: func(context.Context, *session.Request) (receiver.Support, error) {
		return receiver.Support{Mode: mcp.TaskSupportOptional, Immediate: "working on it"}, nil
	}})
	client := sessiontest.Side{Client: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)}}
	client.Config.Handler = answer
	tasks := requestor.Attach(&client.Config)
	c, own := sessiontest.Pair(s.t, client, side)
	s.session = own
	return tasks, c
}

// mock returns a client session to a server that declares tasks and handles all requests with
// handler.
func mock(t *testing.T, handler session.Handler) (*requestor.Tasks, *session.Session, *session.Session) {
	t.Helper()
	side := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}}
	side.Config.Handler = handler
	client := sessiontest.Side{Client: mcp.ClientCapabilities{Elicitation: new(mcp.ClientCapabilitiesElicitation)}}
	tasks := requestor.Attach(&client.Config)
	c, s := sessiontest.Pair(t, client, side)
	return tasks, c, s
}

func text(s string) session.Raw {
	return session.Raw(`{"content":[{"type":"text","text":"` + s + `"}]}`)
}

func content(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if r == nil || len(r.Content) != 1 {
		t.Fatalf("result %+v", r)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func taskJSON(status string, more string) string {
	return `{"taskId":"T","status":"` + status + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null` + more + `}`
}

var render = &mcp.CallToolRequestParams{Name: "render"}

// A handle of a tool call provides state, progress, updates and result.
//
// Proves TASK-15, TASK-16, TASK-45, PROG-10.
func TestCallTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			for i := range 3 {
				time.Sleep(time.Second)
				peer.Report(session.Progress{Value: float64(i)})
			}
			return text("done"), nil
		})
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render, requestor.TTL(time.Minute), requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		if render.Task != nil {
			t.Error("the params of the caller were changed")
		}
		if state := h.State(); h.ID() == "" || state.TaskID != h.ID() || state.Status != mcp.TaskStatusWorking || *state.TTL != 60_000 {
			t.Errorf("created: %+v", state)
		}
		if h.Immediate() != "working on it" {
			t.Errorf("immediate: %q", h.Immediate())
		}
		var values []float64
		var group sync.WaitGroup
		group.Go(func() {
			for p := range h.Progress(t.Context()) {
				values = append(values, p.Value)
			}
		})
		var states []mcp.TaskStatus
		for state, err := range h.Updates(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			states = append(states, state.Status)
		}
		equal(t, "states", []mcp.TaskStatus{"working", "completed"}, states)
		for range 2 {
			r, err := h.Result(t.Context())
			if err != nil || content(t, r) != "done" {
				t.Errorf("result: %v, %v", r, err)
			}
		}
		group.Wait()
		equal(t, "progress", []float64{0, 1, 2}, values)
		for _, method := range []string{"tasks/get", "tasks/result"} {
			list, _ := s.spy.received(method)
			for _, m := range list {
				equal(t, "request", method+fmt.Sprintf(` {"taskId":%q}`, h.ID()), m)
			}
		}
	})
}

// The session's handler handles input requests of a task, also if only Updates is called. The
// responses have the related task.
//
// Proves TASK-25, TASK-46.
func TestHandlerAnswersInputRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer json.RawMessage
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			time.Sleep(10 * time.Second)
			raw, err := peer.Call(ctx, "elicitation/create", session.Raw(`{"message":"name?","requestedSchema":{"type":"object","properties":{}}}`))
			answer = raw
			time.Sleep(10 * time.Second)
			return text("done"), err
		})
		proceed := make(chan bool)
		tasks, c := s.connect(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() {
				return nil, nil
			}
			<-proceed
			return session.Raw(`{"action":"accept","content":{}}`), nil
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		var states []mcp.TaskStatus
		for state, err := range h.Updates(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			states = append(states, state.Status)
			if state.Status == mcp.TaskStatusInputRequired {
				proceed <- true
			}
		}
		equal(t, "states", []mcp.TaskStatus{"working", "input_required", "working", "completed"}, states)
		equal(t, "answer", fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"action":"accept","content":{}}`, h.ID()), string(answer))
	})
}

// Messages that a handler sends during an input request have the related task.
//
// Proves TASK-46.
func TestHandlerNotifiesDuringInputRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			_, err := peer.Call(ctx, "elicitation/create", session.Raw(`{"message":"name?","requestedSchema":{"type":"object","properties":{}},"_meta":{"progressToken":7}}`))
			return text("done"), err
		})
		tasks, c := s.connect(func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				req.Internals(boundary.Caller{}).Progress().Report(session.Progress{Value: 1})
				req.Session.Notify(ctx, "x/note", session.Raw(`{}`))
			}
			return session.Raw(`{"action":"cancel"}`), nil
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		list, _ := s.spy.received("x/note")
		equal(t, "note", []string{fmt.Sprintf(`x/note {"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}`, h.ID())}, list)
	})
}

// Result returns the error of a failed task, or of a missing task, unchanged.
func TestResultReturnsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := &jsonrpc.Error{Code: -32050 - 1000, Message: "quota", Data: json.RawMessage(`[1]`)}
		s := newServer(t, func(context.Context, *session.Request) (codec.Encoder, error) { return nil, failure })
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Result(t.Context())
		equal(t, "error", error(failure), err)
		var last mcp.Task
		for state, err := range h.Updates(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			last = state
		}
		if last.Status != mcp.TaskStatusFailed || *last.StatusMessage != "quota" {
			t.Errorf("last state: %+v", last)
		}
		missing := tasks.AttachTool(c, "no such")
		_, err = missing.Result(t.Context())
		equal(t, "no such task", error(&jsonrpc.Error{Code: -32602, Message: `task: not found: "no such"`}), err)
		for _, err := range missing.Updates(t.Context()) {
			equal(t, "no such task", error(&jsonrpc.Error{Code: -32602, Message: `task: not found: "no such"`}), err)
		}
	})
}

// A tracker that was passed to Track stays open at the end of the task, even with the option
// Progress.
func TestHandleDoesNotCloseCallersTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			return text("done"), nil
		})
		tasks, c := s.connect(nil)
		tracker := c.Internals(boundary.Caller{}).NewTracker()
		defer tracker.Close()
		h, err := tasks.CallTool(t.Context(), c, render, requestor.Progress(), requestor.Track(tracker))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Internals(boundary.Caller{}).NewTrackerFor(tracker.Token()); err == nil || !strings.Contains(err.Error(), "token is in use") {
			t.Errorf("the tracker was closed: %v", err)
		}
	})
}

// A handle of another session is attached to a task by its id and receives progress for its token.
func TestAttachAfterReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			for i := range 10 {
				time.Sleep(time.Minute)
				peer.Report(session.Progress{Value: float64(i)})
			}
			return text("done"), ctx.Err()
		})
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := h.Result(t.Context())
			waiting <- err
		}()
		time.Sleep(3*time.Minute + time.Second)
		c.Close()
		if err := <-waiting; !errors.Is(err, session.ErrClosed) {
			t.Errorf("the session ended: %v", err)
		}
		tasks, c = s.connect(nil)
		tracker, err := c.Internals(boundary.Caller{}).NewTrackerFor(h.Token())
		if err != nil {
			t.Fatal(err)
		}
		again := tasks.AttachTool(c, h.ID(), requestor.Track(tracker))
		if status := again.State().Status; status != "" {
			t.Errorf("status of a newly attached handle: %s", status)
		}
		r, err := again.Result(t.Context())
		if err != nil || content(t, r) != "done" {
			t.Errorf("result: %v, %v", r, err)
		}
		tracker.Close()
		reported := func(h *requestor.Handle[*mcp.CallToolResult]) (values []float64) {
			for p := range h.Progress(t.Context()) {
				values = append(values, p.Value)
			}
			return values
		}
		equal(t, "progress", []float64{3, 4, 5, 6, 7, 8, 9}, reported(again))

		// Without the token, a handle receives the reports with the task in their _meta.
		h, err = tasks.CallTool(t.Context(), c, render, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*time.Minute + time.Second)
		tasks, c = s.connect(nil)
		foreign, other := tasks.AttachTool(c, h.ID(), requestor.Progress()), tasks.AttachTool(c, "another", requestor.Progress())
		if r, err := foreign.Result(t.Context()); err != nil || content(t, r) != "done" {
			t.Errorf("result: %v, %v", r, err)
		}
		equal(t, "progress", []float64{5, 6, 7, 8, 9}, reported(foreign))
		if _, err := other.Result(t.Context()); err == nil {
			t.Error("a missing task has a result")
		}
		equal(t, "progress of another task", 0, len(reported(other)))
		equal(t, "state", mcp.TaskStatusCompleted, func() mcp.TaskStatus { state, _ := again.Refresh(t.Context()); return state.Status }())
	})
}

// A receiver that shuts down ends the wait for a result. That is not the outcome of the task: while
// the session is open, Result asks again, and then it fails with ErrClosed.
func TestShutdownOfReceiverIsNotAnOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if strings.Contains(string(req.Params), "slow") {
				time.Sleep(10 * time.Second)
				return text("slow"), nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := h.Result(t.Context())
			failed <- err
		}()
		slow := make(chan error, 1)
		go func() { // keeps the session open after the beginning of the shutdown
			_, err := mcp.ToServer{Caller: c}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: "slow"})
			slow <- err
		}()
		synctest.Wait()
		began := time.Now()
		if err := s.session.Shutdown(t.Context()); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("Shutdown took %v: %v", time.Since(began), err)
		}
		if err := <-slow; err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, session.ErrClosed) {
			t.Errorf("Result failed with %v", err)
		}
	})
}

// Cancel ends blocked calls of Result at once, even if the receiver drops the task.
//
// Proves TASK-60, CANC-04.
func TestCancelEndsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := h.Result(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		state, err := h.Cancel(t.Context())
		if err != nil || state.Status != mcp.TaskStatusCancelled {
			t.Errorf("cancel: %+v, %v", state, err)
		}
		if err := <-waiting; err != task.ErrCancelled {
			t.Errorf("Result: %v", err)
		}
		synctest.Wait()
		if list, _ := s.spy.received("tasks/cancel"); len(list) != 1 {
			t.Errorf("sent %q", list)
		}
		if _, err := h.Cancel(t.Context()); err == nil {
			t.Error("second Cancel succeeded")
		}
		equal(t, "state", mcp.TaskStatusCancelled, h.State().Status)
	})
	synctest.Test(t, func(t *testing.T) {
		var dropped atomic.Bool
		tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
			case "tasks/cancel":
				dropped.Store(true)
				return session.Raw(taskJSON("cancelled", "")), nil
			}
			if dropped.Load() {
				return nil, &jsonrpc.Error{Code: -32602, Message: "no such task"}
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); err != task.ErrCancelled {
			t.Errorf("result: %v", err)
		}
	})
}

// If a call ends before its response arrives, the created task is cancelled with tasks/cancel, not
// with notifications/cancelled.
//
// Proves CANC-04.
func TestTaskOfCancelledCallIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var methods []string
		tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "notifications/initialized" {
				return nil, nil
			}
			mu.Lock()
			methods = append(methods, req.Method)
			mu.Unlock()
			if req.Method == "tools/call" {
				time.Sleep(time.Minute)
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), ctx.Err()
			}
			return session.Raw(taskJSON("cancelled", "")), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tasks.CallTool(ctx, c, render, requestor.Progress()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call: %v", err)
		}
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		equal(t, "received", []string{"tools/call", "tasks/cancel"}, methods)
	})
}

// While tasks/result fails, the handle polls at the poll interval of the receiver, even if that
// changes, until the result arrives. It needs no notifications.
//
// Proves TASK-37, TASK-38, TASK-49.
func TestPollingRespectsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Time
		over := false
		tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			mu.Lock()
			defer mu.Unlock()
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", `,"pollInterval":300`) + `}`), nil
			case "tasks/get":
				at = append(at, time.Now())
				switch n := len(at); {
				case n < 5:
					return session.Raw(taskJSON("working", `,"pollInterval":300`)), nil
				case n < 10:
					return session.Raw(taskJSON("working", `,"pollInterval":60000`)), nil
				}
				over = true
				return session.Raw(taskJSON("completed", "")), nil
			case "tasks/result":
				if !over {
					return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "not now"}
				}
				return text("done"), nil
			}
			return nil, nil
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		created := time.Now()
		r, err := h.Result(t.Context())
		if err != nil || content(t, r) != "done" {
			t.Errorf("result: %v, %v", r, err)
		}
		if len(at) != 10 {
			t.Errorf("%d polls", len(at))
		}
		for i, now := range at {
			want := 300 * time.Millisecond
			if i >= 5 {
				want = time.Minute
			}
			if gap := now.Sub(created); gap < want || gap > want+want/5 {
				t.Errorf("poll %d was sent after %v", i, gap)
			}
			created = now
		}
		n := len(at)
		time.Sleep(time.Hour)
		if len(at) != n {
			t.Error("polls after the end")
		}
	})
}

// tasks/result is sent again if it fails, or has no response although the task is terminal.
func TestResultIsRequestedAgain(t *testing.T) {
	for name, first := range map[string]func(ctx context.Context) error{
		"no response": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"error":       func(ctx context.Context) error { return &jsonrpc.Error{Code: -32603, Message: "stream reset"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				requests := 0
				var mu sync.Mutex
				tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					terminal := time.Since(start) > 10*time.Second
					switch {
					case req.Method == "tools/call":
						return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
					case req.Method == "tasks/get" && terminal:
						return session.Raw(taskJSON("completed", "")), nil
					case req.Method == "tasks/get":
						return session.Raw(taskJSON("working", "")), nil
					case req.Method == "tasks/result":
						mu.Lock()
						requests++
						n := requests
						mu.Unlock()
						if n == 1 || !terminal {
							return nil, first(ctx)
						}
						return text("done"), nil
					}
					return nil, nil
				})
				h, err := tasks.CallTool(t.Context(), c, render)
				if err != nil {
					t.Fatal(err)
				}
				if r, err := h.Result(t.Context()); err != nil || content(t, r) != "done" {
					t.Errorf("result: %v, %v", r, err)
				}
			})
		})
	}
}

// Updates yields the state of a status notification at once, unless it is older or of another task.
func TestStatusNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, c, s := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", `,"pollInterval":3600000`) + `}`), nil
			case "tasks/result":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return nil, nil
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		var messages []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			defer close(done)
			for state, err := range h.Updates(ctx) {
				if err == nil && state.StatusMessage != nil {
					messages = append(messages, *state.StatusMessage)
				}
			}
		}()
		synctest.Wait()
		for _, n := range []string{
			`{"taskId":"T","status":"working","statusMessage":"one","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:02Z","ttl":null}`,
			`{"taskId":"T","status":"working","statusMessage":"older","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:01Z","ttl":null}`,
			`{"taskId":"U","status":"working","statusMessage":"other","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:03Z","ttl":null}`,
			`{"taskId":7}`,
			`{"taskId":"T","status":"working","statusMessage":"two","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:03Z","ttl":null}`,
		} {
			if err := s.Notify(t.Context(), "notifications/tasks/status", session.Raw(n)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		cancel()
		<-done
		equal(t, "seen", []string{"one", "two"}, messages)
	})
}

// If the receiver responds with the result instead of a task, the handle has it at once.
func TestResultWithoutTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, c, _ := mock(t, func(context.Context, *session.Request) (codec.Encoder, error) { return text("at once"), nil })
		h, err := tasks.CallTool(t.Context(), c, render, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := h.Result(t.Context()); err != nil || content(t, r) != "at once" || h.ID() != "" {
			t.Errorf("result: %v, %v", r, err)
		}
		if _, err := h.Cancel(t.Context()); err == nil {
			t.Error("Cancel succeeded without a task")
		}
		for state, err := range h.Updates(t.Context()) {
			t.Errorf("update %+v, %v", state, err)
		}
		for p := range h.Progress(t.Context()) {
			t.Errorf("progress %+v", p)
		}
	})
}

// No request is sent as a task unless the peer has declared tasks for its method.
//
// Proves TASK-03, TASK-04, TASK-05, TASK-07.
func TestUndeclaredTasksAreNotRequested(t *testing.T) {
	for _, sampling := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var s spy
			server := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools)}}
			server.Config.Hooks.Receiving = []session.Middleware{s.middleware}
			serverTasks := requestor.Attach(&server.Config)
			client := sessiontest.Side{Client: mcp.ClientCapabilities{
				Sampling: new(mcp.ClientCapabilitiesSampling), Elicitation: new(mcp.ClientCapabilitiesElicitation), Tasks: receiver.ClientCapabilities(false, sampling, !sampling),
			}}
			client.Config.Hooks.Receiving = []session.Middleware{s.middleware}
			clientTasks := requestor.Attach(&client.Config)
			c, p := sessiontest.Pair(t, client, server)
			_, toolErr := clientTasks.CallTool(t.Context(), c, render)
			_, messageErr := serverTasks.CreateMessage(t.Context(), p, &mcp.CreateMessageRequestParams{MaxTokens: 1})
			_, formErr := serverTasks.Elicit(t.Context(), p, &mcp.ElicitRequestFormParams{})
			synctest.Wait()
			for method, test := range map[string]struct {
				declared bool
				err      error
			}{"tools/call": {false, toolErr}, "sampling/createMessage": {sampling, messageErr}, "elicitation/create": {!sampling, formErr}} {
				_, lacking := errors.AsType[*session.CapabilityError](test.err)
				list, _ := s.received(method)
				if lacking == test.declared || len(list) > 0 != test.declared {
					t.Errorf("%s, declared is %v: sent %q, %v", method, test.declared, list, test.err)
				}
			}
		})
	}
}

// A server requests sampling and elicitation as tasks.
func TestServerIsRequestor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := task.New(t.Context(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		client := sessiontest.Side{Client: mcp.ClientCapabilities{
			Sampling: new(mcp.ClientCapabilitiesSampling), Elicitation: new(mcp.ClientCapabilitiesElicitation), Tasks: receiver.ClientCapabilities(true, true, true),
		}}
		client.Config.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			time.Sleep(time.Hour / 2) // longer than the timeout of requests
			if req.Method == "elicitation/create" {
				return session.Raw(`{"action":"accept","content":{"n":1}}`), ctx.Err()
			}
			return session.Raw(`{"role":"assistant","content":{"type":"text","text":"hi"},"model":"m"}`), ctx.Err()
		}
		receiver.Attach(&client.Config, receiver.Options{Manager: m})
		var server sessiontest.Side
		tasks := requestor.Attach(&server.Config)
		_, s := sessiontest.Pair(t, client, server)
		message, err := tasks.CreateMessage(t.Context(), s, &mcp.CreateMessageRequestParams{MaxTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		form, err := tasks.Elicit(t.Context(), s, &mcp.ElicitRequestFormParams{Message: "n?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{Properties: map[string]mcp.PrimitiveSchemaDefinition{}}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := tasks.AttachMessage(s, message.ID()).Result(t.Context()); err != nil || r.Model != "m" {
			t.Errorf("sampling: %+v, %v", r, err)
		}
		if r, err := form.Result(t.Context()); err != nil || r.Action != "accept" {
			t.Errorf("elicitation: %+v, %v", r, err)
		}
	})
}

// Concurrent calls of Result all return the result. The handle stops polling without calls.
func TestConcurrentResultCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			time.Sleep(time.Minute)
			return text("done"), nil
		})
		tasks, c := s.connect(nil)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := h.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled Result: %v", err)
		}
		_, before := s.spy.received("tasks/get")
		time.Sleep(10 * time.Second)
		if _, after := s.spy.received("tasks/get"); len(after) != len(before) {
			t.Errorf("%d polls without a call of Result", len(after)-len(before))
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if r, err := h.Result(t.Context()); err != nil || content(t, r) != "done" {
					t.Errorf("result: %v, %v", r, err)
				}
			})
		}
		group.Wait()
		if list, _ := s.spy.received("tasks/result"); len(slices.Compact(list)) != 1 || len(list) > 2 {
			t.Errorf("sent %q", list)
		}
	})
}

// List requests pages one by one, only as needed, with unchanged cursors.
//
// Proves TASK-53.
func TestListRequestsPagesAsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const odd = `"} \u0000/é?&=+`
		var params []string
		_, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method != "tasks/list" {
				return nil, nil
			}
			var p mcp.PaginatedRequestParams
			if err := codec.Unmarshal(req.Params, &p); err != nil {
				return nil, err
			}
			if p.Cursor == nil {
				params = append(params, "first")
				next := odd
				return &mcp.ListTasksResult{Tasks: []mcp.Task{{TaskID: "a"}, {TaskID: "b"}}, NextCursor: &next}, nil
			}
			params = append(params, *p.Cursor)
			return &mcp.ListTasksResult{Tasks: []mcp.Task{{TaskID: "c"}}}, nil
		})
		var ids []string
		for state, err := range requestor.List(t.Context(), c) {
			if err != nil {
				t.Error(err)
			}
			ids = append(ids, state.TaskID)
		}
		for range requestor.List(t.Context(), c) {
			break
		}
		equal(t, "tasks", []string{"a", "b", "c"}, ids)
		equal(t, "requested pages", []string{"first", odd, "first"}, params)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range requestor.List(ctx, c) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// A task can have params and results of any length that the transport allows, like a plain call.
func TestLargeParamsAndResults(t *testing.T) {
	if testing.Short() {
		t.Skip("needs several hundred megabytes of memory")
	}
	long := strings.Repeat("x", wire.DefaultSize)
	handler := func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		if len(req.Params) > wire.DefaultSize {
			return session.Raw(`{"content":[]}`), nil
		}
		return session.Raw(`{"content":[],"isError":true,"structuredContent":{"text":"` + long + `"}}`), nil
	}
	tasks, c := newServer(t, handler).connect(nil)
	for name, arguments := range map[string]string{"the params": `{"text":"` + long + `"}`, "the result": `{}`} {
		h, err := tasks.CallTool(t.Context(), c, &mcp.CallToolRequestParams{Name: "x", Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := h.Result(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
