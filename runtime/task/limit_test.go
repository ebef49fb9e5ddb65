package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

func tryCreate(t *testing.T, m *task.Manager, who string, work task.Work) error {
	t.Helper()
	_, err := m.Create(t.Context(), task.Request{Principal: who, Method: "tools/call", Work: work})
	return err
}

// Each principal may have so many tasks that are not over; the others are unharmed.
//
// Proves TASK-73.
func TestTaskLimit(t *testing.T) {
	bubble(t, task.Config{Limits: task.Limits{Tasks: 2}}, func(t *testing.T, m *task.Manager) {
		first := start(t, m, untilDone)
		start(t, m, untilDone)
		err := tryCreate(t, m, "alice", untilDone)
		equal(t, "third", &jsonrpc.Error{Code: task.CodeTooManyTasks, Message: "task: limit of 2 unfinished tasks is reached"}, task.WireError(err))
		if err := tryCreate(t, m, "bob", untilDone); err != nil {
			t.Errorf("bob: %v", err)
		}
		if _, err := m.Cancel(t.Context(), "alice", first.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the work returns
		if err := tryCreate(t, m, "alice", returns(`{}`)); err != nil {
			t.Errorf("after a cancellation: %v", err)
		}
		synctest.Wait()
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("after a completion: %v", err)
		}
		time.Sleep(2 * time.Hour)
		for range 2 {
			if err := tryCreate(t, m, "alice", untilDone); err != nil {
				t.Errorf("after an expiry: %v", err)
			}
		}
	})
}

// Each principal may store so many bytes. A result that does not fit fails its task.
//
// Proves TASK-73.
func TestByteLimit(t *testing.T) {
	bubble(t, task.Config{Limits: task.Limits{Bytes: 10_000}}, func(t *testing.T, m *task.Manager) {
		large := returns(`{"x":"` + strings.Repeat("x", 8000) + `"}`)
		fits := start(t, m, large)
		if out := result(t, m, fits.TaskID); out.Error != nil {
			t.Fatal(out.Error)
		}
		second := start(t, m, large)
		want := &jsonrpc.Error{Code: task.CodeTooManyBytes, Message: "task: limit of 10000 stored bytes is reached"}
		equal(t, "second result", want, result(t, m, second.TaskID).Error)
		if state := get(t, m, second.TaskID); state.Status != mcp.TaskStatusFailed || *state.StatusMessage != want.Message {
			t.Errorf("%+v", state)
		}
		_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: large, Params: json.RawMessage(`{"x":"` + strings.Repeat("x", 2000) + `"}`)})
		equal(t, "request", want, task.WireError(err))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		third := start(t, m, large)
		if out := result(t, m, third.TaskID); out.Error != nil {
			t.Errorf("after an expiry: %v", out.Error)
		}
	})
}

// A negative Burst means that any number of calls may come at once.
func TestNegativeBurstIsNoLimit(t *testing.T) {
	bubble(t, task.Config{Limits: task.Limits{Rate: 10, Burst: -1}}, func(t *testing.T, m *task.Manager) {
		for range 100 {
			if _, err := m.Get(t.Context(), "alice", "guess", nil); !errors.Is(err, task.ErrNotFound) {
				t.Fatal(err)
			}
		}
	})
}

// Each principal may call so often, and is told when to come again.
//
// Proves TASK-73.
func TestRateLimit(t *testing.T) {
	bubble(t, task.Config{Limits: task.Limits{Rate: 10, Burst: 3}}, func(t *testing.T, m *task.Manager) {
		for range 3 {
			if _, err := m.Get(t.Context(), "alice", "guess", nil); !errors.Is(err, task.ErrNotFound) {
				t.Fatal(err)
			}
		}
		_, err := m.Get(t.Context(), "alice", "guess", nil)
		limit, ok := errors.AsType[*task.LimitError](err)
		if !ok || limit.RetryAfter != 100*time.Millisecond {
			t.Fatalf("fourth call: %v", err)
		}
		equal(t, "told", &jsonrpc.Error{
			Code: task.CodeTooManyCalls, Message: "task: limit of 10 task calls per second is reached, try again in 100ms",
			Data: json.RawMessage(`{"retryAfter":101}`),
		}, task.WireError(err))
		_, _, listErr := m.List(t.Context(), "alice", "")
		_, resultErr := m.Result(t.Context(), "alice", "guess", nil)
		_, cancelErr := m.Cancel(t.Context(), "alice", "guess", nil)
		for _, err := range []error{tryCreate(t, m, "alice", untilDone), listErr, resultErr, cancelErr} {
			if code(err) != task.CodeTooManyCalls {
				t.Errorf("another call: %v", err)
			}
		}
		if _, err := m.Get(t.Context(), "bob", "guess", nil); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("bob: %v", err)
		}
		time.Sleep(limit.RetryAfter)
		if err := tryCreate(t, m, "alice", untilDone); err != nil {
			t.Errorf("later: %v", err)
		}
		// Who comes once and never again is forgotten.
		for i := range 1000 {
			m.Get(t.Context(), fmt.Sprint("guest ", i), "guess", nil)
		}
	})
}

// Without limits more is taken than by default.
func TestNoLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		limits  task.Limits
		refused int64
	}{
		"the defaults": {task.Limits{}, task.CodeTooManyBytes},
		"no rate":      {task.Limits{Rate: -1, Bytes: -1}, task.CodeTooManyTasks},
		"no tasks":     {task.Limits{Tasks: -1, Bytes: -1}, task.CodeTooManyCalls},
		"no bytes":     {task.Limits{Bytes: -1}, task.CodeTooManyTasks},
		"no limits":    {task.Limits{Tasks: -1, Bytes: -1, Rate: -1}, 0},
	} {
		bubble(t, task.Config{Limits: tt.limits}, func(t *testing.T, m *task.Manager) {
			large := json.RawMessage(make([]byte, task.DefaultMaxBytes)) // which nobody reads
			_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: untilDone, Params: large})
			for range 3000 {
				if err == nil {
					err = tryCreate(t, m, "alice", untilDone)
				}
			}
			if got := code(err); got != tt.refused {
				t.Errorf("%s: %v, want code %d", name, err, tt.refused)
			}
		})
	}
}

// A task whose work goes on when it was cancelled, or has expired, has its place and its bytes until
// the work returns.
//
// Proves TASK-73.
func TestWorkThatGoesOnCounts(t *testing.T) {
	bubble(t, task.Config{Limits: task.Limits{Tasks: 2, Bytes: 20_000}}, func(t *testing.T, m *task.Manager) {
		goOn := make(chan bool)
		stubborn := task.Request{
			Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}, Params: json.RawMessage(`"` + strings.Repeat("x", 8000) + `"`),
			Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-goOn; return raw(`{}`), nil },
		}
		cancelled := create(t, m, stubborn)
		create(t, m, stubborn)
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // both are gone
		if s := m.Stats(); s.Expired != 2 || s.Running != 2 {
			t.Errorf("%+v", s)
		}
		if err := tryCreate(t, m, "alice", untilDone); code(err) != task.CodeTooManyTasks {
			t.Errorf("a third task: %v", err)
		}
		goOn <- true
		synctest.Wait()
		large := task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`), Params: json.RawMessage(`"` + strings.Repeat("x", 15_000) + `"`)}
		if _, err := m.Create(t.Context(), large); code(err) != task.CodeTooManyBytes {
			t.Errorf("a large task: %v", err)
		}
		goOn <- true
		synctest.Wait()
		for range 2 {
			if _, err := m.Create(t.Context(), large); err != nil {
				t.Errorf("when the work has returned: %v", err)
			}
			time.Sleep(2 * time.Hour)
		}
	})
}

// An input request that does not fit fails by itself, and so does one whose answer does not fit.
//
// Proves TASK-73.
func TestByteLimitOfQuestions(t *testing.T) {
	bubble(t, task.Config{Quiet: true, Limits: task.Limits{Bytes: 5000}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "sampling/createMessage", raw(`{"x":"`+strings.Repeat("x", 6000)+`"}`))
			if code(err) != task.CodeTooManyBytes {
				t.Errorf("a long question: %v", err)
			}
			_, err = run.Call(ctx, "sampling/createMessage", raw(`{"bytes":9992}`))
			if code(err) != task.CodeTooManyBytes {
				t.Errorf("a long answer: %v", err)
			}
			answer, err := run.Call(ctx, "sampling/createMessage", raw(`{"bytes":992}`))
			return raw(fmt.Sprintf(`{"bytes":%d}`, len(answer))), err
		})
		p := &peer{answer: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			var wish struct{ Bytes int }
			err := json.Unmarshal(params, &wish)
			return json.RawMessage(`{"x":"` + strings.Repeat("x", wish.Bytes) + `"}`), err
		}}
		out, err := m.Result(t.Context(), "alice", created.TaskID, p)
		if err != nil || !strings.HasSuffix(string(out.Result), `"bytes":1000}`) {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
	})
}

// An input request whose answer does not fit fails even if nothing else fits either.
func TestAnswerAtTheByteLimitFails(t *testing.T) {
	const limit = 5000
	for spare := range 40 {
		bubble(t, task.Config{Quiet: true, Limits: task.Limits{Bytes: limit}}, func(t *testing.T, m *task.Manager) {
			params := json.RawMessage(`"` + strings.Repeat("x", limit-200-10*spare) + `"`)
			created, err := m.Create(t.Context(), task.Request{
				Principal: "alice", Method: "tools/call", Params: params,
				Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					_, err := run.Call(ctx, "sampling/createMessage", raw(`{}`))
					return nil, err
				},
			})
			if err != nil { // the task does not fit
				return
			}
			p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"x":"` + strings.Repeat("x", 1000) + `"}`), nil
			}}
			out, err := m.Result(t.Context(), "alice", created.TaskID, p)
			if err != nil || out.Error == nil { // with an error of the work if the input request does not fit either
				t.Errorf("%d bytes of params: %v, %v", len(params), out.Error, err)
			}
		})
	}
}

// A progress token is stored with its task as long as that is kept, be it a string or a number.
func TestByteLimitCountsTokens(t *testing.T) {
	for name, token := range map[string]string{"string": `"` + strings.Repeat("7", 1000) + `"`, "number": strings.Repeat("7", 1000)} {
		bubble(t, task.Config{Limits: task.Limits{Bytes: 1000}}, func(t *testing.T, m *task.Manager) {
			q := task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)}
			if err := codec.Unmarshal([]byte(token), &q.Token); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Create(t.Context(), q); code(err) != task.CodeTooManyBytes {
				t.Errorf("a %s of 1000 digits: %v", name, err)
			}
		})
	}
}

// A store may decode a record anew for each reader. However many waiters a task has, they do not
// hold its payloads.
func TestWaitersHoldNoPayloads(t *testing.T) {
	const waiters, size = 50, 1 << 20
	bubble(t, task.Config{Store: copies{memory.New()}, Quiet: true}, func(t *testing.T, m *task.Manager) {
		created := create(t, m, task.Request{
			Params: json.RawMessage(`"` + strings.Repeat("x", size) + `"`),
			Work:   untilDone,
		})
		for range waiters {
			go m.Result(t.Context(), "alice", created.TaskID, nil)
		}
		synctest.Wait()
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		if now.HeapAlloc > waiters*size/2 {
			t.Errorf("%d MiB are in use", now.HeapAlloc>>20)
		}
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// copies is a store that returns a copy of the params with each record.
type copies struct{ *memory.Store }

func (c copies) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := c.Store.Get(ctx, id)
	r.Params = bytes.Clone(r.Params)
	return r, err
}
