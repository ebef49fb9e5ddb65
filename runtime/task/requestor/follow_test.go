package requestor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// scriptedReceiver responds to the requests for the task T, which tools/call creates as working.
type scriptedReceiver struct {
	get    func() (codec.Encoder, error)
	result func(ctx context.Context, n int) (codec.Encoder, error) // the nth request, from 1

	gets, results atomic.Int32
}

func (s *scriptedReceiver) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	switch req.Method {
	case "tools/call":
		return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
	case "tasks/get":
		s.gets.Add(1)
		return s.get()
	case "tasks/result":
		return s.result(ctx, int(s.results.Add(1)))
	}
	return nil, nil
}

// start creates the task.
func (s *scriptedReceiver) start(t *testing.T) *requestor.Handle[*mcp.CallToolResult] {
	t.Helper()
	tasks, c, _ := mock(t, s.handle)
	h, err := tasks.CallTool(t.Context(), c, render)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// blockUntilDone returns when ctx ends.
func blockUntilDone(ctx context.Context) (codec.Encoder, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// always returns a get function that always returns the same state.
func always(state string) func() (codec.Encoder, error) {
	return func() (codec.Encoder, error) { return session.Raw(state), nil }
}

// A result that takes 15 minutes after the end of the task arrives, with only a few further
// requests.
func TestSlowResultArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 15 * time.Minute
		s := &scriptedReceiver{get: always(taskJSON("completed", "")), result: func(ctx context.Context, n int) (codec.Encoder, error) {
			select {
			case <-time.After(delay):
				return text(fmt.Sprint(n)), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		h, began := s.start(t), time.Now()
		r, err := h.Result(t.Context())
		if err != nil || content(t, r) != "1" {
			t.Fatalf("got %v, %v", r, err)
		}
		if took := time.Since(began); took != delay || s.results.Load() > 8 || s.gets.Load() > 1 {
			t.Errorf("took %v, %d tasks/result and %d tasks/get", took, s.results.Load(), s.gets.Load())
		}
	})
}

// Result fails if the result of a terminal task never arrives.
func TestLostResultIsAnError(t *testing.T) {
	for name, result := range map[string]func(context.Context, int) (codec.Encoder, error){
		"no response": func(ctx context.Context, _ int) (codec.Encoder, error) { return blockUntilDone(ctx) },
		"overloaded": func(context.Context, int) (codec.Encoder, error) {
			return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "not now"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedReceiver{get: always(taskJSON("completed", "")), result: result}
				h, began := s.start(t), time.Now()
				if _, err := h.Result(t.Context()); !errors.Is(err, requestor.ErrNoResult) {
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > time.Hour || s.results.Load() > 120 {
					t.Errorf("took %v and %d requests", took, s.results.Load())
				}
			})
		})
	}
}

// The work of a task may fail with a code that is otherwise temporary. Result returns that error,
// and repeats the request if the receiver is overloaded.
func TestOutcomeWithTemporaryCodeIsReturned(t *testing.T) {
	for name, message := range map[string]string{"same text": "quota exceeded", "text cut": "quota ex\u2026"} {
		t.Run(name, func(t *testing.T) { testOutcomeWithTemporaryCode(t, message) })
	}
}

func testOutcomeWithTemporaryCode(t *testing.T, message string) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedReceiver{
			get: always(taskJSON("failed", `,"statusMessage":"`+message+`"`)),
			result: func(_ context.Context, n int) (codec.Encoder, error) {
				if n == 1 {
					return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "not now"}
				}
				return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "quota exceeded"}
			},
		}
		h, began := s.start(t), time.Now()
		_, err := h.Result(t.Context())
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Message != "quota exceeded" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// The status message of a failed task may differ from its outcome. A temporary error is then not
// recognized as the outcome. Result soon fails with it nevertheless.
func TestRepeatedTemporaryErrorOfFailedTaskIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedReceiver{
			get: always(taskJSON("failed", `,"statusMessage":"failed"`)),
			result: func(context.Context, int) (codec.Encoder, error) {
				return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "quota exceeded"}
			},
		}
		h, began := s.start(t), time.Now()
		_, err := h.Result(t.Context())
		if e, ok := errors.AsType[*jsonrpc.Error](err); !errors.Is(err, requestor.ErrNoResult) || !ok || e.Message != "quota exceeded" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took > 3*time.Minute || s.results.Load() > 20 {
			t.Errorf("took %v and %d requests", took, s.results.Load())
		}
	})
}

// An error is not the outcome of a completed task: the process that responds may end, for example.
func TestErrorIsNoOutcomeOfCompletedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedReceiver{get: always(taskJSON("completed", "")), result: func(_ context.Context, n int) (codec.Encoder, error) {
			if n == 1 {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "context canceled"}
			}
			return text("done"), nil
		}}
		r, err := s.start(t).Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "result", "done", content(t, r))
	})
}

// Result fails if responses leave the state of the task unclear.
func TestUnclearResponsesAreAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "what?"}
		s := &scriptedReceiver{get: func() (codec.Encoder, error) { return nil, fault }, result: func(context.Context, int) (codec.Encoder, error) { return nil, fault }}
		_, err := s.start(t).Result(t.Context())
		if e, ok := errors.AsType[*jsonrpc.Error](err); !errors.Is(err, requestor.ErrNoResult) || !ok || e.Message != "what?" {
			t.Errorf("got %v", err)
		}
	})
}

// droppingConn is a connection that drops its writes while dropping is set.
type droppingConn struct {
	transport.Conn
	dropping atomic.Bool
}

func (s *droppingConn) Write(ctx context.Context, m transport.Message) error {
	if s.dropping.Load() {
		return nil
	}
	return s.Conn.Write(ctx, m)
}

// Result fails if the receiver has not responded for the lifetime of the task.
func TestUnresponsiveReceiverIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := inmemory.Pair(inmemory.Options{})
		conn := &droppingConn{Conn: a}
		var client, server sessiontest.Side
		server.Server = mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}
		server.Config.Handler = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "tools/call" {
				return session.Raw(`{"task":` + strings.Replace(taskJSON("working", ""), `"ttl":null`, `"ttl":3600000`, 1) + `}`), nil
			}
			return blockUntilDone(ctx)
		}
		tasks := requestor.Attach(&client.Config)
		c, _ := sessiontest.Connect(t, conn, b, client, server)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		conn.dropping.Store(true)
		began := time.Now()
		_, err = h.Result(t.Context())
		if !errors.Is(err, session.ErrTimeout) || time.Since(began) < time.Hour || time.Since(began) > time.Hour+5*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The clock of a receiver can be set back. A terminal state is accepted with any date, and so is
// the response to a request that was sent after the known state arrived.
func TestStateIsAcceptedAfterClockChange(t *testing.T) {
	for _, status := range []string{"failed", "completed"} {
		t.Run(status, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				created := time.Now()
				s := &scriptedReceiver{}
				dated := func(status, date string) (codec.Encoder, error) {
					return session.Raw(strings.ReplaceAll(taskJSON(status, ""), `"lastUpdatedAt":"2026-01-01T00:00:00Z"`, `"lastUpdatedAt":"`+date+`"`)), nil
				}
				s.get = func() (codec.Encoder, error) {
					switch age := time.Since(created); {
					case age < 3*time.Second:
						return dated("working", "2026-01-02T00:00:00Z")
					case age < 6*time.Second:
						return dated("input_required", "2025-01-01T00:00:00Z")
					}
					return dated(status, "2025-01-01T00:00:01Z")
				}
				s.result = func(ctx context.Context, _ int) (codec.Encoder, error) {
					time.Sleep(time.Until(created.Add(10 * time.Second)))
					if status == "failed" {
						return nil, &jsonrpc.Error{Code: -32603, Message: "broken"}
					}
					return text("done"), nil
				}
				h := s.start(t)
				var states []string
				for state, err := range h.Updates(t.Context()) {
					if err != nil {
						t.Error(err)
					}
					if n := len(states); n == 0 || states[n-1] != string(state.Status) {
						states = append(states, string(state.Status))
					}
				}
				equal(t, "states", []string{"working", "input_required", status}, states)
				if _, err := h.Result(t.Context()); (status == "failed") != (err != nil && err.Error() == "jsonrpc: broken (code -32603)") {
					t.Errorf("result: %v", err)
				}
			})
		})
	}
}

// Result of a cancelled task fails with ErrCancelled, even if tasks/result returns a result.
func TestCancelledTaskHasNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedReceiver{get: always(taskJSON("cancelled", "")), result: func(context.Context, int) (codec.Encoder, error) {
			time.Sleep(time.Minute)
			return text("done"), nil
		}}
		if _, err := s.start(t).Result(t.Context()); err != task.ErrCancelled {
			t.Errorf("got %v", err)
		}
	})
}

func TestResultWithoutContentIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for result, ok := range map[string]bool{`{"_meta":{}}`: false, `{"structuredContent":{}}`: false, `{"content":[]}`: true} {
			s := &scriptedReceiver{get: always(taskJSON("completed", "")), result: func(context.Context, int) (codec.Encoder, error) { return session.Raw(result), nil }}
			if r, err := s.start(t).Result(t.Context()); (err == nil) != ok {
				t.Errorf("%s: got %v, %v", result, r, err)
			}
		}
	})
}

// A result that the transport refuses as too long is requested only a few times.
func TestTooLongResultIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		var requests atomic.Int32
		var client, server sessiontest.Side
		server.Server = mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}
		server.Config.Handler = func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
			case "tasks/result":
				requests.Add(1)
				return text(strings.Repeat("a", 100<<10)), nil
			}
			return session.Raw(taskJSON("completed", "")), nil
		}
		tasks := requestor.Attach(&client.Config)
		c, _ := sessiontest.Connect(t, stdio.New(fromServer, toServer, stdio.Options{MaxMessage: 64 << 10}), stdio.New(fromClient, toClient, stdio.Options{}), client, server)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); !errors.Is(err, requestor.ErrNoResult) && !errors.Is(err, transport.ErrTooLong) {
			t.Errorf("got %v", err)
		}
		if n := requests.Load(); n > 9 {
			t.Errorf("%d requests for the result", n)
		}
	})
}

// However short its poll interval is and however many status notifications it sends, a receiver
// cannot make a requestor send more than ten tasks/get or tasks/result requests per second.
func TestRequestRateIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const state = `,"pollInterval":1`
		s := &scriptedReceiver{get: always(taskJSON("input_required", state)), result: func(context.Context, int) (codec.Encoder, error) {
			return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "not now"}
		}}
		tasks, c, remote := mock(t, s.handle)
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var group sync.WaitGroup
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				date := time.Date(2026, 1, 2, 0, 0, 0, i*1000, time.UTC).Format(time.RFC3339Nano)
				remote.Notify(ctx, "notifications/tasks/status", session.Raw(strings.ReplaceAll(taskJSON("input_required", state), "2026-01-01T00:00:00Z", date)))
				time.Sleep(time.Millisecond)
			}
		})
		h.Result(ctx)
		group.Wait()
		if gets, results := s.gets.Load(), s.results.Load(); gets > 100 || results > 101 {
			t.Errorf("%d tasks/get and %d tasks/result in ten seconds", gets, results)
		}
	})
}

// After a refused cancel request, the end of a task is not taken for a cancellation.
func TestRefusedCancelIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "task: expired"}
		tasks, c, _ := mock(t, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if req.Method == "tools/call" {
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
			}
			return nil, expired
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Cancel(t.Context()); err == nil {
			t.Error("Cancel succeeded")
		}
		_, err = h.Result(t.Context())
		equal(t, "result", error(expired), err)
	})
}

// Invoke cancels its task if ctx ends. If that fails, the error contains the id of the task.
func TestInvokeCancelsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		s := newServer(t, func(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil, ctx.Err()
		})
		required := &mcp.Tool{Name: "render", Execution: &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportRequired)}}
		tasks, c := s.connect(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := tasks.Invoke(ctx, c, required, render); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		<-stopped
	})
	synctest.Test(t, func(t *testing.T) {
		tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
			case "tasks/cancel":
				return nil, &jsonrpc.Error{Code: -32603, Message: "full disk"}
			}
			return blockUntilDone(ctx)
		})
		required := &mcp.Tool{Name: "render", Execution: &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportRequired)}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := tasks.Invoke(ctx, c, required, render)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"T"`) || !strings.Contains(err.Error(), "full disk") {
			t.Errorf("got %v", err)
		}
	})
}

// Handles need no Close: the session does not keep trackers of unreachable handles.
func TestTrackersOfUnreachableHandlesAreReleased(t *testing.T) {
	tasks, c, _ := mock(t, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
	})
	token := func() mcp.ProgressToken {
		h, err := tasks.CallTool(t.Context(), c, render, requestor.Progress())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Internals(boundary.Caller{}).NewTrackerFor(h.Token()); err == nil || !strings.Contains(err.Error(), "token is in use") {
			t.Errorf("the handle has no tracker: %v", err)
		}
		return h.Token()
	}()
	for { // until the garbage collector has run the cleanup of the handle
		runtime.GC()
		if tracker, err := c.Internals(boundary.Caller{}).NewTrackerFor(token); err == nil {
			tracker.Close()
			return
		}
		runtime.Gosched()
	}
}

// List fails if a cursor leads back to an earlier page, or if pages never end.
func TestEndlessListIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, next := range map[string]func(n int) string{
			"first page": func(int) string { return "" },
			"same page":  func(int) string { return "a" },
			"cycle":      func(n int) string { return fmt.Sprint(n % 7) },
			"endless":    func(n int) string { return fmt.Sprint(n) },
		} {
			n := 0
			_, c, _ := mock(t, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != "tasks/list" {
					return nil, nil
				}
				n++
				return &mcp.ListTasksResult{NextCursor: new(next(n))}, nil
			})
			var failed error
			for _, err := range requestor.List(t.Context(), c) {
				failed = err
			}
			if failed == nil || n > 10_000 {
				t.Errorf("%s: %v after %d pages", name, failed, n)
			}
		}
	})
}

// Result sends tasks/result itself: a task that ends at once costs no further goroutine.
func TestResultSendsRequestItself(t *testing.T) {
	var stack string
	var client sessiontest.Side
	tasks := requestor.Attach(&client.Config)
	client.Config.Hooks.Sending = append(client.Config.Hooks.Sending, func(next session.Sender) session.Sender {
		return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
			if call.Method == mcp.MethodTasksResult {
				stack = string(debug.Stack())
			}
			return next(ctx, call)
		}
	})
	side := sessiontest.Side{Server: mcp.ServerCapabilities{Tools: new(mcp.ServerCapabilitiesTools), Tasks: receiver.ServerCapabilities(true)}}
	side.Config.Handler = (&scriptedReceiver{result: func(context.Context, int) (codec.Encoder, error) { return text("done"), nil }}).handle
	c, _ := sessiontest.Pair(t, client, side)
	h, err := tasks.CallTool(t.Context(), c, render)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := h.Result(t.Context()); err != nil || content(t, r) != "done" {
		t.Fatalf("got %v, %v", r, err)
	}
	if !strings.Contains(stack, "TestResultSendsRequestItself") {
		t.Errorf("tasks/result was sent in another goroutine:\n%s", stack)
	}
}

// If the first caller of Result leaves, a further one gets the result.
func TestLaterCallerGetsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedReceiver{get: always(taskJSON("working", "")), result: func(ctx context.Context, n int) (codec.Encoder, error) {
			select {
			case <-time.After(time.Minute):
				return text(fmt.Sprint(n)), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		h := s.start(t)
		first, leave := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := h.Result(first); err != enough {
				t.Errorf("first: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if r, err := h.Result(t.Context()); err != nil || content(t, r) != "2" {
				t.Errorf("second: %v, %v", r, err)
			}
		})
		synctest.Wait()
		leave(enough)
		group.Wait()
	})
}

// Cancel ends all calls of Result at once, even if the receiver does not respond to tasks/result.
func TestCancelEndsAllCallersOfResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tasks, c, _ := mock(t, func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			switch req.Method {
			case "tools/call":
				return session.Raw(`{"task":` + taskJSON("working", "") + `}`), nil
			case "tasks/cancel":
				return session.Raw(taskJSON("cancelled", "")), nil
			}
			return blockUntilDone(ctx)
		})
		h, err := tasks.CallTool(t.Context(), c, render)
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if _, err := h.Result(t.Context()); err != task.ErrCancelled {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if _, err := h.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if group.Wait(); time.Since(began) > 0 {
			t.Errorf("Result returned after %v", time.Since(began))
		}
	})
}
