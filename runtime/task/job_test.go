package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// batchSystem is a system of jobs in which a job is done at the fifth poll.
type batchSystem struct {
	mu             sync.Mutex
	started        map[string]int // number of starts by task
	polls          int
	cancelled      []string
	out            task.Outcome
	unreachable    bool   // Look fails
	message        string // status message; "in the queue" if empty
	cancelFailures int    // number of calls of Cancel that fail
}

func (b *batchSystem) cancelledJobs() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.cancelled...)
}

func (b *batchSystem) Start(ctx context.Context, r task.Record) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if string(r.Params) == `{"refuse":1}` {
		return "", &jsonrpc.Error{Code: -32602, Message: "no such queue"}
	}
	if b.started == nil {
		b.started = map[string]int{}
	}
	b.started[r.ID]++
	return "job of " + r.ID, nil
}

func (b *batchSystem) Look(ctx context.Context, job string) (task.Look, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.polls++
	switch {
	case b.unreachable:
		return task.Look{}, errors.New("not reachable")
	case b.polls < 5:
		message := b.message
		if message == "" {
			message = "in the queue"
		}
		return task.Look{Message: message, After: time.Minute, Progress: &task.Progress{Value: float64(b.polls)}}, nil
	}
	return task.Look{Done: true, Outcome: b.out}, nil
}

func (b *batchSystem) Cancel(ctx context.Context, job string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cancelFailures--; b.cancelFailures >= 0 {
		return errors.New("not reachable")
	}
	b.cancelled = append(b.cancelled, job)
	return ctx.Err()
}

// panickingSystem is a system of jobs whose Look panics.
type panickingSystem struct{ batchSystem }

func (*panickingSystem) Look(context.Context, string) (task.Look, error) { panic("Look") }

// A job whose state cannot be polled because of a panic is cancelled, and its task fails.
func TestJobIsCancelledAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &panickingSystem{batchSystem{cancelFailures: 2}}
		m := newManager(t, task.Options{Updates: task.Updates{Quiet: true}, Jobs: map[string]task.Jobs{"batch": b}, Logger: slog.New(slog.DiscardHandler)})
		began := time.Now()
		created := create(t, m, task.Request{Runner: "batch"})
		if out := result(t, m, created.TaskID); wireCode(out.Error) != jsonrpc.CodeInternalError || time.Since(began) > 0 {
			t.Errorf("outcome after %v: %v", time.Since(began), out.Error)
		}
		time.Sleep(time.Minute)
		if got := b.cancelledJobs(); len(got) != 1 || got[0] != "job of "+created.TaskID {
			t.Errorf("cancelled jobs: %q", got)
		}
	})
}

// A task polls its job at the interval that the job suggests, until the job is done.
func TestJob(t *testing.T) {
	for _, out := range []task.Outcome{
		{Result: json.RawMessage(`{"content":[]}`)},
		{Error: &jsonrpc.Error{Code: -1, Message: "out of memory", Data: json.RawMessage(`7`)}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &batchSystem{out: out}
			m := newManager(t, task.Options{Updates: task.Updates{Quiet: true}, Jobs: map[string]task.Jobs{"batch": b}})
			p := new(peer)
			created := create(t, m, task.Request{Runner: "batch", Via: p, Token: progressToken})
			synctest.Wait()
			if got := *get(t, m, created.TaskID).StatusMessage; got != "in the queue" {
				t.Errorf("status message %q", got)
			}
			before := time.Now()
			got := result(t, m, created.TaskID)
			if d := time.Since(before); d != 4*time.Minute {
				t.Errorf("took %v", d)
			}
			checkEqual(t, "error", out.Error, got.Error)
			checkEqual(t, "progress", []float64{1, 2, 3, 4}, p.progress())
			checkEqual(t, "starts", map[string]int{created.TaskID: 1}, b.started)
		})
	}
}

// A job that cannot be started fails its task. A job that cannot be polled is polled again later.
func TestJobErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batchSystem{out: task.Outcome{Result: json.RawMessage(`{}`)}}
		m := newManager(t, task.Options{Jobs: map[string]task.Jobs{"batch": b}})
		refused := create(t, m, task.Request{Runner: "batch", Params: json.RawMessage(`{"refuse":1}`)})
		checkEqual(t, "refused", &jsonrpc.Error{Code: -32602, Message: "no such queue"}, result(t, m, refused.TaskID).Error)
		b.unreachable = true
		created := create(t, m, task.Request{Runner: "batch"})
		time.Sleep(10 * time.Minute)
		b.mu.Lock()
		b.unreachable = false
		b.mu.Unlock()
		if out := result(t, m, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		for _, q := range []task.Request{{Runner: "no such"}, {Runner: "batch", Work: untilDone}, {}} {
			if _, err := m.Create(t.Context(), q); err == nil {
				t.Errorf("Create accepted %+v", q)
			}
		}
	})
}

// The cancellation and the expiry of a task cancel its job.
func TestJobIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(batchSystem)
		m := newManager(t, task.Options{Jobs: map[string]task.Jobs{"batch": b}})
		cancelled := create(t, m, task.Request{Runner: "batch"})
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", cancelled.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		checkEqual(t, "cancelled", []string{"job of " + cancelled.TaskID}, b.cancelled)
		expired := create(t, m, task.Request{Runner: "batch", Task: &mcp.TaskMetadata{TTL: new(int64(1000))}})
		time.Sleep(time.Second)
		synctest.Wait()
		checkEqual(t, "expired", []string{"job of " + cancelled.TaskID, "job of " + expired.TaskID}, b.cancelled)
	})
}

// A restart neither loses, nor cancels, nor starts a job again.
func TestJobSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := &batchSystem{out: task.Outcome{Result: json.RawMessage(`{}`)}}
		jobs := map[string]task.Jobs{"batch": b}
		first := newManager(t, task.Options{Store: store, Jobs: jobs})
		created := create(t, first, task.Request{Runner: "batch"})
		synctest.Wait()
		if err := first.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := newManager(t, task.Options{Store: store, Jobs: jobs})
		if out := result(t, second, created.TaskID); out.Error != nil {
			t.Error(out.Error)
		}
		checkEqual(t, "starts", map[string]int{created.TaskID: 1}, b.started)
		checkEqual(t, "cancelled", []string(nil), b.cancelled)
	})
}
