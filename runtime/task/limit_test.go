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
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// tryCreate creates a task and returns the error of Create.
func tryCreate(t *testing.T, m *task.Manager, principal string, work task.Work) error {
	t.Helper()
	_, err := m.Create(t.Context(), task.Request{Principal: principal, Method: "tools/call", Work: work})
	return err
}

// The number of tasks that are not terminal is limited per principal.
//
// Proves TASK-73.
func TestTaskLimit(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Tasks: 2}}, func(t *testing.T, m *task.Manager) {
		first := start(t, m, untilDone)
		start(t, m, untilDone)
		err := tryCreate(t, m, "alice", untilDone)
		checkEqual(t, "third", &jsonrpc.Error{Code: task.CodeTooManyTasks, Message: "task: limit of 2 unfinished tasks is reached"}, task.WireError(err))
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

// The number of stored bytes is limited per principal. A result above the limit fails its task.
//
// Proves TASK-73.
func TestByteLimit(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Bytes: 10_000}}, func(t *testing.T, m *task.Manager) {
		large := returns(`{"x":"` + strings.Repeat("x", 8000) + `"}`)
		fits := start(t, m, large)
		if out := result(t, m, fits.TaskID); out.Error != nil {
			t.Fatal(out.Error)
		}
		second := start(t, m, large)
		want := &jsonrpc.Error{Code: task.CodeTooManyBytes, Message: "task: limit of 10000 stored bytes is reached"}
		checkEqual(t, "second result", want, result(t, m, second.TaskID).Error)
		if state := get(t, m, second.TaskID); state.Status != mcp.TaskStatusFailed || *state.StatusMessage != want.Message {
			t.Errorf("%+v", state)
		}
		_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: large, Params: json.RawMessage(`{"x":"` + strings.Repeat("x", 2000) + `"}`)})
		checkEqual(t, "request", want, task.WireError(err))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		third := start(t, m, large)
		if out := result(t, m, third.TaskID); out.Error != nil {
			t.Errorf("after an expiry: %v", out.Error)
		}
	})
}

// A negative Burst means that any number of calls is accepted at once.
func TestNegativeBurstIsNoLimit(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Rate: 10, Burst: -1}}, func(t *testing.T, m *task.Manager) {
		for range 100 {
			if _, err := m.Get(t.Context(), "alice", "guess", nil); !errors.Is(err, task.ErrNotFound) {
				t.Fatal(err)
			}
		}
	})
}

// The rate of calls is limited per principal. The error says when to try again.
//
// Proves TASK-73.
func TestRateLimit(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Rate: 10, Burst: 3}}, func(t *testing.T, m *task.Manager) {
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
		checkEqual(t, "wire error", &jsonrpc.Error{
			Code: task.CodeTooManyCalls, Message: "task: limit of 10 task calls per second is reached, try again in 100ms",
			Data: json.RawMessage(`{"retryAfter":101}`),
		}, task.WireError(err))
		_, _, listErr := m.List(t.Context(), "alice", "")
		_, resultErr := m.Result(t.Context(), "alice", "guess", nil)
		_, cancelErr := m.Cancel(t.Context(), "alice", "guess", nil)
		for _, err := range []error{tryCreate(t, m, "alice", untilDone), listErr, resultErr, cancelErr} {
			if wireCode(err) != task.CodeTooManyCalls {
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
		// Principals that call once are removed.
		for i := range 1000 {
			m.Get(t.Context(), fmt.Sprint("guest ", i), "guess", nil)
		}
	})
}

// A disabled limit does not apply. The other limits keep their defaults.
func TestDisabledLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		limits  task.Limits
		refused int64
	}{
		"defaults":      {task.Limits{}, task.CodeTooManyBytes},
		"no rate limit": {task.Limits{Rate: -1, Bytes: -1}, task.CodeTooManyTasks},
		"no task limit": {task.Limits{Tasks: -1, Bytes: -1}, task.CodeTooManyCalls},
		"no byte limit": {task.Limits{Bytes: -1}, task.CodeTooManyTasks},
		"no limits":     {task.Limits{Tasks: -1, Bytes: -1, Rate: -1}, 0},
	} {
		runInBubble(t, task.Options{Limits: tt.limits}, func(t *testing.T, m *task.Manager) {
			large := json.RawMessage(make([]byte, task.DefaultMaxBytes))
			_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: untilDone, Params: large})
			for range 3000 {
				if err == nil {
					err = tryCreate(t, m, "alice", untilDone)
				}
			}
			if got := wireCode(err); got != tt.refused {
				t.Errorf("%s: %v, want code %d", name, err, tt.refused)
			}
		})
	}
}

// A cancelled or expired task counts towards the limits, with the bytes of its request, until its
// work returns.
//
// Proves TASK-73.
func TestRunningWorkCountsAfterTaskEnds(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Tasks: 2, Bytes: 20_000}}, func(t *testing.T, m *task.Manager) {
		finish := make(chan bool)
		request := task.Request{
			Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}, Params: json.RawMessage(`"` + strings.Repeat("x", 8000) + `"`),
			Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-finish; return raw(`{}`), nil },
		}
		cancelled := create(t, m, request)
		create(t, m, request)
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // both have expired
		if s := m.Stats(); s.Expired != 2 || s.Running != 2 {
			t.Errorf("%+v", s)
		}
		if err := tryCreate(t, m, "alice", untilDone); wireCode(err) != task.CodeTooManyTasks {
			t.Errorf("third task: %v", err)
		}
		finish <- true
		synctest.Wait()
		large := task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`), Params: json.RawMessage(`"` + strings.Repeat("x", 15_000) + `"`)}
		if _, err := m.Create(t.Context(), large); wireCode(err) != task.CodeTooManyBytes {
			t.Errorf("large task: %v", err)
		}
		finish <- true
		synctest.Wait()
		for range 2 {
			if _, err := m.Create(t.Context(), large); err != nil {
				t.Errorf("after the work has returned: %v", err)
			}
			time.Sleep(2 * time.Hour)
		}
	})
}

// An input request above the limit of bytes fails. So does one whose answer is above it.
//
// Proves TASK-73.
func TestByteLimitOfInputRequests(t *testing.T) {
	runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}, Limits: task.Limits{Bytes: 5000}}, func(t *testing.T, m *task.Manager) {
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "sampling/createMessage", raw(`{"x":"`+strings.Repeat("x", 6000)+`"}`))
			if wireCode(err) != task.CodeTooManyBytes {
				t.Errorf("long input request: %v", err)
			}
			_, err = run.Call(ctx, "sampling/createMessage", raw(`{"bytes":9992}`))
			if wireCode(err) != task.CodeTooManyBytes {
				t.Errorf("long answer: %v", err)
			}
			answer, err := run.Call(ctx, "sampling/createMessage", raw(`{"bytes":992}`))
			return raw(fmt.Sprintf(`{"bytes":%d}`, len(answer))), err
		})
		p := &peer{answer: func(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			var request struct{ Bytes int }
			err := json.Unmarshal(params, &request)
			return json.RawMessage(`{"x":"` + strings.Repeat("x", request.Bytes) + `"}`), err
		}}
		out, err := m.Result(t.Context(), "alice", created.TaskID, p)
		if err != nil || !strings.HasSuffix(string(out.Result), `"bytes":1000}`) {
			t.Errorf("%s, %v, %v", out.Result, out.Error, err)
		}
	})
}

// An answer above the limit of bytes fails its input request, even if the error is above the limit,
// too.
func TestAnswerAtTheByteLimitFails(t *testing.T) {
	const limit = 5000
	for spare := range 40 {
		runInBubble(t, task.Options{Updates: task.Updates{Quiet: true}, Limits: task.Limits{Bytes: limit}}, func(t *testing.T, m *task.Manager) {
			params := json.RawMessage(`"` + strings.Repeat("x", limit-580-10*spare) + `"`)
			created, err := m.Create(t.Context(), task.Request{
				Principal: "alice", Method: "tools/call", Params: params,
				Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					_, err := run.Call(ctx, "sampling/createMessage", raw(`{}`))
					return nil, err
				},
			})
			if err != nil { // the task itself is above the limit
				return
			}
			p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{"x":"` + strings.Repeat("x", 1000) + `"}`), nil
			}}
			out, err := m.Result(t.Context(), "alice", created.TaskID, p)
			// The error may also be that of Call, for an input request above the limit.
			if err != nil || out.Error == nil {
				t.Errorf("%d bytes of params: %v, %v", len(params), out.Error, err)
			}
		})
	}
}

// The progress token, a string or a number, counts towards the limit of bytes.
func TestByteLimitCountsProgressTokens(t *testing.T) {
	for name, token := range map[string]string{"string": `"` + strings.Repeat("7", 1000) + `"`, "number": strings.Repeat("7", 1000)} {
		runInBubble(t, task.Options{Limits: task.Limits{Bytes: 1000}}, func(t *testing.T, m *task.Manager) {
			q := task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)}
			if err := codec.Unmarshal([]byte(token), &q.Token); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Create(t.Context(), q); wireCode(err) != task.CodeTooManyBytes {
				t.Errorf("a %s of 1000 digits: %v", name, err)
			}
		})
	}
}

// A store may decode a separate record for each reader. The waiters of a task do not hold its
// payloads.
func TestWaitersHoldNoPayloads(t *testing.T) {
	const waiters, size = 50, 1 << 20
	runInBubble(t, task.Options{Store: copyingStore{memory.New()}, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
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
			t.Errorf("%d MiB in use", now.HeapAlloc>>20)
		}
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// copyingStore is a store that returns a separate copy of the params with each record.
type copyingStore struct{ *memory.Store }

func (c copyingStore) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := c.Store.Get(ctx, id)
	r.Params = bytes.Clone(r.Params)
	return r, err
}

// In a fleet, finished tasks count for all members together until they are dropped: one that has
// finished its tasks, another one, one that has just started, and a front end.
//
// Proves TASK-73.
func TestByteLimitOfFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 100_000
		large := returns(`{"x":"` + strings.Repeat("x", 8000) + `"}`)
		f := memory.NewFleet()
		join := func(tools []string) *task.Manager {
			return newManager(t, task.Options{
				Store: f.Store(), Limits: task.Limits{Bytes: limit}, Member: task.Member{Tools: tools},
				Recovery: task.Recovery{Recover: func(task.Record) task.Work { return large }},
			})
		}
		fill := func(m *task.Manager, principal string) (stored int64) {
			for range 20 {
				created, err := m.Create(t.Context(), task.Request{Principal: principal, Method: "tools/call", Name: "report", Restartable: true, Work: large})
				if err != nil {
					if wireCode(err) != task.CodeTooManyBytes {
						t.Fatal(err)
					}
					break
				}
				if out, err := m.Result(t.Context(), principal, created.TaskID, nil); err != nil {
					t.Fatal(err)
				} else if out.Error != nil {
					break
				}
			}
			synctest.Wait()
			for r, err := range f.Store().Scan(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Owner == principal {
					stored += r.Bytes
				}
			}
			return stored
		}
		first := join(nil)
		if n := fill(first, "alice"); n > limit || n < limit/2 {
			t.Errorf("one member: %d bytes stored", n)
		}
		second, front := join(nil), join([]string{})
		for name, m := range map[string]*task.Manager{"the second member": second, "the front end": front, "the first member": first} {
			if n := fill(m, "alice"); n > limit+limit/16 {
				t.Errorf("%s: %d bytes stored", name, n)
			}
			if n := fill(m, "bob "+name); n < limit/2 || n > limit {
				t.Errorf("%s: %d bytes of bob stored", name, n)
			}
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		for name, m := range map[string]*task.Manager{"second": second, "front": front} {
			if n := fill(m, "alice"); n < limit/4 {
				t.Errorf("%s: after the expiry, %d bytes stored", name, n)
			}
		}
	})
}

// A task is not created if its progress token would make each of its writes large.
func TestProgressTokenIsLimited(t *testing.T) {
	m := newManager(t, task.Options{Updates: task.Updates{Quiet: true}})
	for _, row := range []struct {
		token mcp.ProgressToken
		want  error
	}{
		{codec.StringScalar(strings.Repeat("t", task.MaxToken)), nil},
		{codec.StringScalar(strings.Repeat("t", task.MaxToken+1)), task.ErrToken},
	} {
		_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: mcp.MethodToolsCall, Token: row.token, Work: returns(`{}`)})
		if !errors.Is(err, row.want) {
			t.Errorf("got %v, want %v", err, row.want)
		}
		if err != nil && task.WireError(err).Code != jsonrpc.CodeInvalidParams {
			t.Errorf("the peer receives %v", task.WireError(err))
		}
	}
}
