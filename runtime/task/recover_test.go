package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// newCrashableManager returns a Manager and its store. Setting an error of the store simulates a
// crash of the process: the Manager can write nothing from then on. The inner store keeps the
// records written before.
func newCrashableManager(t *testing.T, store task.Store) (*failingStore, *task.Manager) {
	t.Helper()
	lost := &failingStore{Store: store}
	m, err := task.New(t.Context(), task.Options{Store: lost, Updates: task.Updates{Quiet: true}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) }) // cannot store the remaining outcomes
	return lost, m
}

// After a restart, finished tasks are unchanged, restartable work is re-run from its start with its
// request, and other work fails with a message that says why. Only restartable work runs twice.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lost, first := newCrashableManager(t, store)
		var runs atomic.Int64
		count := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			runs.Add(1)
			return untilDone(ctx, run)
		}
		finished := start(t, first, returns(`{"n":1}`))
		outcome := result(t, first, finished.TaskID)
		state := get(t, first, finished.TaskID)
		running := start(t, first, count)
		params := json.RawMessage(`{"name":"render"}`)
		restartable := create(t, first, task.Request{Restartable: true, Params: params, Work: count})
		asking := create(t, first, task.Request{Restartable: true, Params: params, Work: workWithInputRequests(2)})
		unknown := create(t, first, task.Request{Restartable: true, Method: "forgotten", Name: "tool", Work: count})
		synctest.Wait()
		lost.setError(errors.New("killed"))

		second := newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
			if r.Method != "tools/call" {
				return nil
			}
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				runs.Add(1)
				return raw(`{"again":` + string(r.Params) + `}`), nil
			}
		}}})
		checkEqual(t, "finished", state, get(t, second, finished.TaskID))
		checkEqual(t, "outcome", outcome, result(t, second, finished.TaskID))
		if got := get(t, second, unknown.TaskID); got.Status != mcp.TaskStatusWorking || *got.StatusMessage != `waits for a process that has the tool "tool"` {
			t.Errorf("unknown: %+v", got)
		}
		for _, id := range []string{running.TaskID} {
			const message = "the receiver was restarted while the task was running, and the task cannot be recovered"
			got := get(t, second, id)
			if got.Status != mcp.TaskStatusFailed || *got.StatusMessage != message {
				t.Errorf("running: %+v", got)
			}
			checkEqual(t, "outcome", &jsonrpc.Error{Code: -32603, Message: message}, result(t, second, id).Error)
		}
		for _, id := range []string{restartable.TaskID, asking.TaskID} {
			out := result(t, second, id)
			want := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}},"again":%s}`, id, params)
			if string(out.Result) != want {
				t.Errorf("recovered: %s, %v", out.Result, out.Error)
			}
		}
		if got := runs.Load(); got != 3+2 {
			t.Errorf("work ran %d times", got)
		}
		if s := second.Stats(); s.Recovered != 3 || s.Failed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Work that kills its process is re-run a limited number of times. Then its task fails.
func TestWorkThatKillsItsProcessIsRerunLimitedTimes(t *testing.T) {
	for max, want := range map[int]int{0: task.DefaultMaxReruns, 1: 1, 3: 3, -1: 10} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			lost, m := newCrashableManager(t, store)
			created := create(t, m, task.Request{Restartable: true, Work: untilDone})
			reruns := 0
			for range 10 {
				lost.setError(errors.New("killed"))
				lost = &failingStore{Store: store}
				m = newManager(t, task.Options{Store: lost, Recovery: task.Recovery{
					MaxReruns: max,
					Recover: func(task.Record) task.Work {
						reruns++
						return untilDone
					},
				}, Updates: task.Updates{Quiet: true}, Logger: slog.New(slog.DiscardHandler)})
				synctest.Wait()
			}
			if reruns != want {
				t.Errorf("MaxReruns %d: %d re-runs", max, reruns)
			}
			if max < 0 {
				return
			}
			message := fmt.Sprintf("the process that ran the task died %d times, and the last time shortly after it had begun the task alone: the task is probably the cause", want+1)
			checkEqual(t, "outcome", &jsonrpc.Error{Code: -32603, Message: message}, result(t, m, created.TaskID).Error)
		})
	}
}

// A task of an earlier version is recovered even if this version counts more bytes for it and the
// limit is exceeded.
func TestRecoveryAboveTheByteLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		now := time.Now().UTC()
		old := task.Record{ID: "old", Owner: "alice", Status: mcp.TaskStatusWorking, Created: now, Updated: now, Method: "tools/call", Restartable: true, Bytes: 150}
		if _, err := store.Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		m := newManager(t, task.Options{Store: store, Limits: task.Limits{Bytes: 200}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return untilDone }}})
		if state := get(t, m, "old"); state.Status != mcp.TaskStatusWorking {
			t.Errorf("%+v", state)
		}
	})
}

// A re-run that ends because the Manager closes does not count towards Recovery.MaxReruns.
func TestClosedManagerDoesNotCountReruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		m := newManager(t, task.Options{Store: store})
		created := create(t, m, task.Request{Restartable: true, Work: untilDone})
		for range 10 {
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			m = newManager(t, task.Options{Store: store, Recovery: task.Recovery{MaxReruns: 1, Recover: func(task.Record) task.Work { return untilDone }}})
			synctest.Wait()
		}
		if state := get(t, m, created.TaskID); state.Status != mcp.TaskStatusWorking {
			t.Errorf("%+v", state)
		}
	})
}

// Recovered tasks count towards the limits.
func TestLimitsCountRecoveredTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lost, first := newCrashableManager(t, store)
		create(t, first, task.Request{Restartable: true, Work: untilDone})
		start(t, first, returns(`{}`))
		synctest.Wait()
		lost.setError(errors.New("killed"))
		second := newManager(t, task.Options{Store: store, Limits: task.Limits{Tasks: 1}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return untilDone }}})
		if err := tryCreate(t, second, "alice", untilDone); wireCode(err) != task.CodeTooManyTasks {
			t.Errorf("second task: %v", err)
		}
	})
}

// Close leaves recoverable tasks as they are and fails the others with a message. An outcome that
// the work returns after Close is stored.
func TestCloseKeepsRecoverableTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		first := newManager(t, task.Options{Store: store})
		restartable := create(t, first, task.Request{Restartable: true, Work: untilDone})
		plain := start(t, first, untilDone)
		quick := start(t, first, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			return raw(`{"partial":true}`), nil
		})
		synctest.Wait()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]mcp.TaskStatus{
			restartable.TaskID: mcp.TaskStatusWorking, plain.TaskID: mcp.TaskStatusFailed, quick.TaskID: mcp.TaskStatusCompleted,
		} {
			r, err := store.Get(t.Context(), id)
			if err != nil || r.Status != want {
				t.Errorf("got %s (%s), %v, want %s", r.Status, r.StatusMessage, err, want)
			}
			if id == plain.TaskID && r.StatusMessage != "the receiver was shut down while the task was running" {
				t.Errorf("message: %s", r.StatusMessage)
			}
		}
	})
}

// A cursor is valid after a restart.
func TestCursorSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		first := newManager(t, task.Options{Store: store, Limits: task.Limits{PageSize: 1}})
		start(t, first, returns(`{}`))
		last := start(t, first, returns(`{}`))
		synctest.Wait()
		_, cursor, err := first.List(t.Context(), "alice", "")
		if err != nil {
			t.Fatal(err)
		}
		first.Close(t.Context())
		second := newManager(t, task.Options{Store: store, Limits: task.Limits{PageSize: 1}})
		tasks, _, err := second.List(t.Context(), "alice", cursor)
		if err != nil || len(tasks) != 1 || tasks[0].TaskID != last.TaskID {
			t.Errorf("listed %v, %v", tasks, err)
		}
	})
}
