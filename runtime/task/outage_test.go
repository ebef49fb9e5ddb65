package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/faultstore"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

var errDisk = errors.New("write /secret/tasks.db: no space left on device")

// restartable creates a task with restartable work.
func restartable(t *testing.T, m *task.Manager, work task.Work) mcp.Task {
	t.Helper()
	return create(t, m, task.Request{Work: work, Restartable: true})
}

// rerun is a Recover function for tests in which nothing is recovered.
func rerun(task.Record) task.Work { return untilDone }

// If the store fails for two seconds, or for a minute, whatever work reads and writes is delayed
// and does not fail.
func TestFailureOfStoreDelaysWork(t *testing.T) {
	for _, outage := range []time.Duration{2 * time.Second, time.Minute} {
		for name, operation := range map[string]func(ctx context.Context, run *task.Run) error{
			"record":  func(ctx context.Context, run *task.Run) error { return run.Record(ctx, step(1, 10)) },
			"journal": func(ctx context.Context, run *task.Run) error { _, _, err := run.Journal(ctx); return err },
			"sleep":   func(ctx context.Context, run *task.Run) error { return run.Sleep(ctx, time.Now().Add(time.Second)) },
			"message": func(ctx context.Context, run *task.Run) error { return run.SetStatusMessage(ctx, "working") },
			"ask": func(ctx context.Context, run *task.Run) error {
				_, err := run.Ask(ctx, task.InputRequest{Method: "elicitation/create", Key: "key", Occurrence: 1}, raw(`{}`))
				return err
			},
			"call": func(ctx context.Context, run *task.Run) error {
				_, err := run.Call(ctx, "elicitation/create", raw(`{}`))
				return err
			},
		} {
			for _, durable := range []bool{false, true} {
				store := &failingStore{Store: memory.New()}
				runInBubble(t, task.Options{Store: store, Recovery: task.Recovery{Recover: rerun, ParkAfter: -1}, Updates: task.Updates{Quiet: true}}, func(t *testing.T, m *task.Manager) {
					begin := make(chan bool)
					created := create(t, m, task.Request{Restartable: durable, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
						<-begin
						return raw(`{}`), operation(ctx, run)
					}})
					p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
						return json.RawMessage(`{}`), nil
					}}
					store.setError(errDisk)
					time.AfterFunc(outage, func() { store.setError(nil) })
					close(begin)
					out, err := m.Result(t.Context(), "alice", created.TaskID, p)
					if err != nil || out.Error != nil {
						t.Errorf("%s, durable %v, %v: %v, %v", name, durable, outage, out.Error, err)
					}
					if got := len(p.received()); (name == "ask" || name == "call") && got != 1 {
						t.Errorf("%s, durable %v, %v: the requestor received %q", name, durable, outage, p.received())
					}
				})
			}
		}
	}
}

// Close ends the context of work, but not what the work records, and waits for it. Once the work
// has returned, nothing more is recorded.
func TestCloseWaitsForRecords(t *testing.T) {
	for _, outage := range []time.Duration{0, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New()
			store := &failingStore{Store: inner}
			m, err := task.New(t.Context(), task.Options{Store: store, Recovery: task.Recovery{Recover: rerun}})
			if err != nil {
				t.Fatal(err)
			}
			var late *task.Run
			recorded := make(chan error, 1)
			created := restartable(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				<-ctx.Done()
				late = run
				entered := make(chan bool)
				go func() { // goes on after the work has returned
					close(entered)
					recorded <- run.Record(ctx, step(1, 10))
				}()
				<-entered
				time.Sleep(time.Millisecond)
				return nil, context.Cause(ctx)
			})
			synctest.Wait()
			if outage > 0 {
				store.setError(errDisk)
				time.AfterFunc(outage, func() { store.setError(nil) })
			}
			if err := m.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-recorded; err != nil {
				t.Errorf("Record: %v", err)
			}
			if err := late.Record(t.Context(), step(2, 10)); err != task.ErrClosed {
				t.Errorf("Record after Close: %v", err)
			}
			if entries, err := inner.Journal(t.Context(), created.TaskID); err != nil || len(entries) != 1 {
				t.Errorf("%d entries, %v", len(entries), err)
			}
		})
	}
}

// While the store fails for some time, no new tasks are created, and the Manager is not healthy.
// The store gets no further calls for them.
func TestLongFailureRefusesNewTasks(t *testing.T) {
	var failing atomic.Bool
	creates := 0
	store := faultstore.New(memory.New(), func(_ int, operation string) (fault faultstore.Fault) {
		if operation == "Create" {
			creates++
		}
		if failing.Load() {
			fault.Before = errDisk
		}
		return fault
	})
	runInBubble(t, task.Options{Store: store, Recovery: task.Recovery{Recover: rerun}}, func(t *testing.T, m *task.Manager) {
		try := func(want error) {
			t.Helper()
			_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
			if !errors.Is(err, want) || err != nil && strings.Contains(err.Error()+task.WireError(err).Message, "secret") {
				t.Errorf("Create: %v", err)
			}
		}
		begin := make(chan bool)
		restartable(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-begin
			return raw(`{}`), run.Record(ctx, step(1, 10))
		})
		failing.Store(true)
		close(begin)
		try(task.ErrUnavailable)
		time.Sleep(3 * time.Second)
		before := creates
		for range 100 {
			try(task.ErrUnavailable)
		}
		if creates != before {
			t.Errorf("%d attempts to create tasks", creates-before)
		}
		if err := m.Health(); !errors.Is(err, errDisk) {
			t.Errorf("Health: %v", err)
		}
		failing.Store(false)
		time.Sleep(10 * time.Second) // the next attempt of the work
		try(nil)
		if err := m.Health(); err != nil {
			t.Errorf("Health after the failure: %v", err)
		}
		// If nothing uses the store, the next task finds out whether it works.
		failing.Store(true)
		try(task.ErrUnavailable)
		failing.Store(false)
		time.Sleep(10 * time.Second)
		if err := m.Health(); err != nil {
			t.Errorf("Health when idle: %v", err)
		}
		try(nil)
	})
}

// A task whose lifetime ends while the store fails holds no memory any longer, although it cannot
// be dropped.
func TestRetriesEndWithLifetime(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store, Recovery: task.Recovery{Recover: rerun}, Limits: task.Limits{Tasks: 2}}, func(t *testing.T, m *task.Manager) {
		begin := make(chan bool)
		failed := make(chan error, 1)
		ttl := &mcp.TaskMetadata{TTL: new(int64(60_000))}
		create(t, m, task.Request{Task: ttl, Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-begin
			err := run.Record(ctx, step(1, 10))
			failed <- err
			return nil, err
		}})
		create(t, m, task.Request{Task: ttl, Work: func(context.Context, *task.Run) (codec.Encoder, error) { <-begin; return raw(`{}`), nil }})
		store.setError(errDisk)
		close(begin)
		time.Sleep(2 * time.Minute)
		if err := <-failed; !errors.Is(err, task.ErrExpired) && !errors.Is(err, task.ErrNotFound) {
			t.Errorf("Record: %v", err)
		}
		if s := m.Stats(); s.Running != 0 || s.Unstored != 0 {
			t.Errorf("%+v", s)
		}
		store.setError(nil)
		time.Sleep(2 * time.Minute)
		for range 2 { // nothing counts towards the limit any more
			create(t, m, task.Request{Work: untilDone})
		}
	})
}

// The work of a task that is cancelled or expires stops waiting for the store.
func TestRetriesEndWithCancellation(t *testing.T) {
	var failing atomic.Bool
	store := faultstore.New(memory.New(), func(_ int, operation string) (fault faultstore.Fault) {
		if failing.Load() && operation == "Journal" {
			fault.Before = errDisk
		}
		return fault
	})
	runInBubble(t, task.Options{Store: store, Recovery: task.Recovery{Recover: rerun}}, func(t *testing.T, m *task.Manager) {
		failed := make(chan error, 1)
		created := restartable(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			run.Record(ctx, step(1, 10))
			failing.Store(true)
			_, _, err := run.Journal(context.Background())
			failed <- err
			return nil, err
		})
		time.Sleep(time.Minute)
		if _, err := m.Cancel(t.Context(), "alice", created.TaskID, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-failed:
			if err != task.ErrCancelled {
				t.Errorf("Journal: %v", err)
			}
		default:
			t.Error("the work still waits for the store")
		}
	})
}

// A passing failure of the read before the delivery of an input request delays the delivery.
func TestFailureDelaysDelivery(t *testing.T) {
	for fail := 1; fail <= 6; fail++ {
		gets := 0
		store := faultstore.New(memory.New(), func(_ int, operation string) (fault faultstore.Fault) {
			if operation == "Get" || operation == "Wait" {
				if gets++; gets >= fail && gets < fail+3 {
					fault.Before = errDisk
				}
			}
			return fault
		})
		runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
			created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				_, err := run.Call(ctx, "elicitation/create", raw(`{}`))
				return raw(`{}`), err
			})
			p := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`{}`), nil
			}}
			out, err := m.Result(t.Context(), "alice", created.TaskID, p)
			if took := time.Since(bubbleStart()); err != nil || out.Error != nil || took > 10*time.Second {
				t.Errorf("failure %d: %v, %v after %v", fail, out.Error, err, took)
			}
		})
	}
}

// If a task that a Watch has reported cannot be read, the Watch reports it again.
func TestWatchReportsAgainAfterFailure(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		end := make(chan bool)
		created := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) { <-end; return raw(`{}`), nil })
		store.setError(errDisk) // while the watch begins
		time.AfterFunc(time.Second, func() { store.setError(nil) })
		reports := make(chan string, 10)
		w, known, err := m.Internals(boundary.Caller{}).Watch(t.Context(), "alice", []string{created.TaskID}, func(id string) { reports <- id })
		if err != nil || len(known) != 1 {
			t.Fatalf("watching %q, %v", known, err)
		}
		defer w.Close()
		close(end)
		id := <-reports
		store.setError(errDisk)
		if _, err := w.Get(t.Context(), id, ""); !errors.Is(err, task.ErrUnavailable) {
			t.Fatalf("Get: %v", err)
		}
		store.setError(nil)
		<-reports
		if r, err := w.Get(t.Context(), id, ""); err != nil || r.Status != mcp.TaskStatusCompleted {
			t.Errorf("%s, %v", r.Status, err)
		}
		w.Remove(created.TaskID)
		time.Sleep(time.Minute)
		if len(reports) > 0 {
			t.Errorf("%d reports after the end", len(reports))
		}
	})
}

// What a store reports does not become the outcome of a task.
func TestFailureOfStoreIsNoOutcome(t *testing.T) {
	store := &failingStore{Store: memory.New()}
	synctest.Test(t, func(t *testing.T) {
		m, err := task.New(t.Context(), task.Options{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		created := start(t, m, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-ctx.Done()
			err := run.SetStatusMessage(context.Background(), "closing")
			store.setError(nil)
			failed <- err
			return nil, err
		})
		synctest.Wait()
		store.setError(errDisk)
		m.Close(t.Context())
		if err := <-failed; !errors.Is(err, errDisk) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
		r, err := store.Get(t.Context(), created.TaskID)
		if text := r.StatusMessage + string(r.Error); err != nil || r.Status != mcp.TaskStatusFailed || strings.Contains(text, "secret") {
			t.Errorf("%s: %s, %v", r.Status, text, err)
		}
	})
}

// An operation of the store that does not return is reported after a while, and delays its own task
// alone. Meanwhile, no tasks are created.
func TestHangingStoreIsReported(t *testing.T) {
	for _, operation := range []string{"Create", "Get", "Update"} {
		t.Run(operation, func(t *testing.T) {
			var hang atomic.Bool
			store := faultstore.New(memory.New(), func(_ int, called string) (f faultstore.Fault) {
				if called == operation && hang.CompareAndSwap(true, false) {
					f.Delay = 10 * time.Minute
				}
				return f
			})
			runInBubble(t, task.Options{Store: store, Recovery: task.Recovery{Recover: rerun}}, func(t *testing.T, m *task.Manager) {
				begin := make(chan bool)
				records := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					<-begin
					return raw(`{}`), run.Record(ctx, step(1, 10))
				}
				ids := []string{restartable(t, m, records).TaskID, restartable(t, m, records).TaskID}
				checks := func(d time.Duration) (err error) {
					for end := time.Now().Add(d); time.Now().Before(end) && err == nil; time.Sleep(time.Second) {
						err = m.Health()
					}
					return err
				}
				if err := checks(time.Minute); err != nil {
					t.Error(err)
				}
				hang.Store(true)
				created := make(chan error, 1)
				switch operation {
				case "Create":
					go func() {
						_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)})
						created <- err
					}()
				case "Get":
					go func() {
						_, err := m.Get(t.Context(), "alice", ids[0], nil)
						created <- err
					}()
				default:
					created <- nil
				}
				synctest.Wait()
				close(begin)
				if err := checks(25 * time.Second); err != nil {
					t.Errorf("too early: %v", err)
				}
				if err := checks(10 * time.Second); err == nil {
					t.Error("not reported")
				}
				if _, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Work: returns(`{}`)}); !errors.Is(err, task.ErrUnavailable) {
					t.Errorf("Create: %v", err)
				}
				completed := 0
				for _, id := range ids {
					if get(t, m, id).Status == mcp.TaskStatusCompleted {
						completed++
					}
				}
				if want := map[string]int{"Create": 2, "Get": 2, "Update": 1}[operation]; completed != want {
					t.Errorf("%d tasks are completed", completed)
				}
				time.Sleep(10 * time.Minute)
				if err := checks(time.Minute); err != nil {
					t.Error(err)
				}
				if err := <-created; err != nil {
					t.Error(err)
				}
				for _, id := range ids {
					result(t, m, id)
				}
				start(t, m, returns(`{}`))
			})
		})
	}
}

// between is a store that fails in place of one Update, of the first change for which instead returns
// true. It has then made another change.
type between struct {
	task.Store
	instead atomic.Pointer[func(r *task.Record) bool]
}

func (s *between) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if instead := s.instead.Load(); instead != nil && (*instead)(&r) {
		return task.Record{}, errors.New("no connection")
	}
	return s.Store.Update(ctx, r)
}

// A failed write is not taken for another one that was made at the same time, with as many bytes: the
// answer of a user is stored, or the user learns that it is not.
func TestFailedWriteIsNotTakenForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &between{Store: memory.New()}
		p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: -1}, Store: store}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			second := make(chan error, 1)
			go func() { _, err := ask(ctx, run, "b"); second <- err }()
			_, err := ask(ctx, run, "a")
			return raw(`{}`), errors.Join(err, <-second)
		})
		id := p.start(t)
		time.Sleep(time.Second)
		answer := func(number uint64) error {
			return p.Update(t.Context(), "alice", id, "tasks/update", func(q *task.InputRequest) (json.RawMessage, error) {
				if q.Number == number {
					return json.RawMessage(`{}`), nil
				}
				return nil, nil
			})
		}
		instead := func(*task.Record) bool {
			store.instead.Store(nil)
			if err := answer(2); err != nil {
				t.Error(err)
			}
			return true
		}
		store.instead.Store(&instead)
		err := answer(1)
		r, _ := store.Get(t.Context(), id)
		for _, q := range r.InputRequests {
			if q.Open() && err == nil {
				t.Errorf("input request %d has no answer, although it was accepted", q.Number)
			}
		}
		if err := answer(1); err != nil {
			t.Error(err)
		}
		if out, err := p.Result(t.Context(), "alice", id, nil); err != nil || out.Error != nil {
			t.Errorf("outcome %+v, %v", out, err)
		}
	})
}
