package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// booking is work that must be undone if its task is cancelled or expires.
type booking struct {
	booked, undone atomic.Int64
	then           task.Work // what the work does once it has booked; it waits by default
}

func (b *booking) work(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	entries, _, err := run.Journal(ctx)
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, e := range entries {
		has[e.Key] = true
	}
	record := func(kind byte, key string, effect *atomic.Int64) error {
		if has[key] {
			return nil
		}
		if effect != nil {
			effect.Add(1)
		}
		return run.Record(ctx, task.Entry{Kind: kind, Key: key, Occurrence: 1, Result: json.RawMessage(`1`)})
	}
	if why, _ := run.Internals(boundary.Caller{}).Undoing(); why != taskrules.UndoNone {
		err := record(6, "undone", &b.undone)
		if err == nil {
			run.Internals(boundary.Caller{}).EndUndo()
		}
		return raw(`{}`), err
	}
	if err := record(taskrules.KindUndo, "undo", nil); err != nil {
		return nil, err
	}
	if err := record(2, "book", &b.booked); err != nil {
		return nil, err
	}
	if b.then != nil {
		return b.then(ctx, run)
	}
	return untilDone(ctx, run)
}

func (b *booking) check(t *testing.T, undone int64) {
	t.Helper()
	if b.booked.Load() != 1 || b.undone.Load() != undone {
		t.Errorf("booked %d times, undone %d times, want %d", b.booked.Load(), b.undone.Load(), undone)
	}
}

// sleeps is work that sleeps for an hour.
func sleeps(ctx context.Context, run *task.Run) (codec.Encoder, error) {
	if err := run.Sleep(ctx, time.Now().Add(time.Hour)); err != nil {
		return nil, err
	}
	return raw(`{}`), nil
}

// The holder of a task undoes it, whichever member cancels it.
func TestCancelledTaskIsUndoneByHolder(t *testing.T) {
	for name, then := range map[string]task.Work{"running": nil, "parked": sleeps} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				b := &booking{then: then}
				one, two := join(t, f, task.Options{}, b.work), join(t, f, task.Options{}, b.work)
				id := one.create(t, nil)
				time.Sleep(2 * time.Minute)
				result := make(chan task.Outcome, 1)
				go func() {
					out, err := two.Result(t.Context(), "alice", id, nil)
					if err != nil {
						t.Error(err)
					}
					result <- out
				}()
				synctest.Wait()
				created, err := two.Cancel(t.Context(), "alice", id, nil)
				if err != nil || created.Status != mcp.TaskStatusCancelled {
					t.Fatalf("status %s, %v", created.Status, err)
				}
				if out := <-result; out.Error == nil || out.Error.Code != task.CodeCancelled {
					t.Errorf("outcome %+v", out)
				}
				if _, err := one.Cancel(t.Context(), "alice", id, nil); !errors.As(err, new(*task.MoveError)) {
					t.Errorf("cancelled again: %v", err)
				}
				synctest.Wait()
				b.check(t, 1)
				r := one.record(t, id)
				if r.Status != mcp.TaskStatusCancelled || r.Durable.Recorded != 0 {
					t.Errorf("status %s, %d entries", r.Status, r.Durable.Recorded)
				}
				if n := one.Stats().Running + one.Stats().Parked; n != 0 {
					t.Errorf("%d tasks are left", n)
				}
			})
		})
	}
}

// If the holder dies, the member that takes the task over undoes it, also after its expiry.
func TestOtherMemberUndoesTask(t *testing.T) {
	for _, fate := range []string{"cancelled", "expired"} {
		for name, then := range map[string]task.Work{"running": nil, "parked": sleeps} {
			t.Run(fate+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := memory.NewFleet()
					b := &booking{then: then}
					one := join(t, f, task.Options{TTL: task.TTL{Default: 3 * time.Minute}}, b.work)
					id := one.create(t, nil)
					time.Sleep(2 * time.Minute)
					two := join(t, f, task.Options{}, b.work)
					one.cut(t)
					if fate == "cancelled" {
						if _, err := two.Cancel(t.Context(), "alice", id, nil); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(10 * time.Minute)
					b.check(t, 1)
					if _, err := two.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) {
						t.Errorf("got %v", err)
					}
					if _, err := two.store.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
						t.Errorf("the store has the task, %v", err)
					}
				})
			})
		}
	}
}

// A task that must be undone waits for a member with its version, also long after its expiry, and
// its requestors see it as cancelled at once. A member of another version does not undo it.
func TestUndoWaitsForItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		b := &booking{}
		ofVersion := func(version string) *member {
			m := &member{store: f.Store(), work: b.work}
			m.Manager = newManager(t, task.Options{
				Store: m.store, TTL: task.TTL{Default: time.Hour}, Recovery: task.Recovery{
					ToolVersion: func(string) string { return version },
					Recover: func(r task.Record) task.Work {
						if r.Durable.Version != version {
							return nil
						}
						return m.run
					},
				},
			})
			synctest.Wait()
			return m
		}
		first := ofVersion("1")
		id := create(t, first.Manager, task.Request{Restartable: true, Name: "book", Version: "1", Work: b.work}).TaskID
		time.Sleep(time.Minute)
		second := ofVersion("2")
		first.cut(t)
		if got, err := second.Cancel(t.Context(), "alice", id, nil); err != nil || got.Status != mcp.TaskStatusCancelled {
			t.Fatalf("%v, %v", got, err)
		}
		time.Sleep(25 * time.Hour)
		b.check(t, 0)
		if r := second.record(t, id); task.Terminal(r.Status) || second.runs.Load() > 0 {
			t.Errorf("%s, %d runs", r.Status, second.runs.Load())
		}
		ofVersion("1")
		time.Sleep(time.Hour)
		b.check(t, 1)
		if _, err := second.store.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the store has the task, %v", err)
		}
	})
}

// A cancellation that is stored after the work has returned, and before its outcome is, counts.
func TestCancellationJustBeforeOutcomeIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *task.Manager
		var returned atomic.Bool
		store := &hookedStore{Store: memory.New()}
		store.afterGet = func(r task.Record) {
			if returned.Swap(false) { // the read before the write of the outcome
				if _, err := m.Cancel(t.Context(), "alice", r.ID, nil); err != nil {
					t.Error(err)
				}
			}
		}
		b := &booking{then: func(context.Context, *task.Run) (codec.Encoder, error) {
			returned.Store(true)
			return raw(`{}`), nil
		}}
		m = newManager(t, task.Options{Store: store, Updates: task.Updates{Quiet: true}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return b.work }}})
		id := create(t, m, task.Request{Restartable: true, Work: b.work}).TaskID
		synctest.Wait()
		b.check(t, 1)
		if s := get(t, m, id).Status; s != mcp.TaskStatusCancelled {
			t.Errorf("status %s", s)
		}
		if r, err := store.Get(t.Context(), id); err != nil || r.Status != mcp.TaskStatusCancelled {
			t.Errorf("stored status %s, %v", r.Status, err)
		}
	})
}

// The outcome of work that has ended first stays, and nothing is undone.
func TestSuccessBeforeCancellationIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &booking{then: returns(`{}`)}
		m := newManager(t, task.Options{TTL: task.TTL{Default: time.Hour}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return b.work }}})
		id := create(t, m, task.Request{Restartable: true, Work: b.work}).TaskID
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", id, nil); !errors.As(err, new(*task.MoveError)) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Hour)
		b.check(t, 0)
	})
}

// A task is seen as expired while it is undone, and a waiter learns of it. It is dropped
// afterwards.
func TestExpiredTaskIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := &booking{}
		undo := make(chan struct{})
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, _, err := run.Journal(ctx); err != nil {
				return nil, err
			}
			if why, since := run.Internals(boundary.Caller{}).Undoing(); why == taskrules.UndoExpired {
				if d := time.Since(since); d > time.Second {
					t.Errorf("undoing since %v", d)
				}
				<-undo
			}
			return b.work(ctx, run)
		}
		m := newManager(t, task.Options{Store: store, TTL: task.TTL{Default: time.Hour}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		id := create(t, m, task.Request{Restartable: true, Work: work}).TaskID
		begin := time.Now()
		if _, err := m.Result(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) || time.Since(begin) != time.Hour {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		time.Sleep(time.Hour)
		if _, err := m.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) {
			t.Errorf("got %v", err)
		}
		if list, _, err := m.List(t.Context(), "alice", ""); err != nil || len(list) != 0 {
			t.Errorf("listed %v, %v", list, err)
		}
		close(undo)
		synctest.Wait()
		b.check(t, 1)
		time.Sleep(time.Second)
		if _, err := store.Get(t.Context(), id); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

// Work that fails before it undoes what earlier runs have registered runs again, and so does work
// that fails in that run, or cannot be looked up. The outcome is that of the first failure.
func TestWorkThatDoesNotComeToUndosRunsAgain(t *testing.T) {
	for _, failsIn := range []string{"the run", "Recover"} {
		synctest.Test(t, func(t *testing.T) {
			b := &booking{}
			var down atomic.Bool
			var runs atomic.Int64
			work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				if failsIn == "the run" {
					runs.Add(1)
					if down.Load() {
						return nil, errors.New("the database is down")
					}
				}
				result, err := b.work(ctx, run)
				return result, err
			}
			cfg := task.Options{Store: memory.New(), TTL: task.TTL{Default: time.Hour}, Recovery: task.Recovery{Recover: func(task.Record) task.Work {
				if failsIn == "Recover" {
					runs.Add(1)
					if down.Load() {
						panic("the database is down")
					}
				}
				return work
			}}}
			m := newManager(t, cfg)
			id := create(t, m, task.Request{Restartable: true, Work: work}).TaskID
			synctest.Wait()
			m.Close(t.Context())
			down.Store(true)
			m = newManager(t, cfg)
			time.Sleep(time.Minute)
			b.check(t, 0)
			if n := runs.Load(); n < 5 || n > 20 {
				t.Errorf("%d runs in a minute, which fail in %s", n, failsIn)
			}
			if r, err := m.Get(t.Context(), "alice", id, nil); err != nil || r.Status != mcp.TaskStatusWorking {
				t.Errorf("status %s, %v", r.Status, err)
			}
			down.Store(false)
			time.Sleep(time.Minute)
			b.check(t, 1)
		})
	}
}

// Work that never comes to its undos is given up after a day.
func TestWorkThatNeverComesToUndosIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &booking{then: func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New("no room") }}
		runs := 0
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if runs++; runs > 1 {
				return nil, errors.New("the database is down")
			}
			return b.work(ctx, run)
		}
		m := newManager(t, task.Options{TTL: task.TTL{Default: 100 * time.Hour, Max: 100 * time.Hour}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		id := create(t, m, task.Request{Restartable: true, Work: work}).TaskID
		begin := time.Now()
		out, err := m.Result(t.Context(), "alice", id, nil)
		if d := time.Since(begin); err != nil || out.Error == nil || d < 24*time.Hour || d > 25*time.Hour {
			t.Errorf("got %v, %v after %v", out.Error, err, d)
		}
		b.check(t, 0)
	})
}

// lossyStore is a store that loses the acknowledgement of the next write while lose is set: the read
// after it fails, too.
type lossyStore struct {
	task.Store
	lose, failing atomic.Bool
}

func (s *lossyStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	r, err := s.Store.Update(ctx, r)
	if err == nil && s.lose.Swap(false) {
		s.failing.Store(true)
		return task.Record{}, errors.New("no acknowledgement")
	}
	return r, err
}

func (s *lossyStore) Get(ctx context.Context, id string) (task.Record, error) {
	if s.failing.Swap(false) {
		return task.Record{}, errors.New("no response")
	}
	return s.Store.Get(ctx, id)
}

// A task that has expired is undone although the acknowledgement of its undo was lost, and the work
// records nothing else.
func TestUndoWhoseAcknowledgementIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lossyStore{Store: memory.New()}
		var undone atomic.Int64
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if _, _, err := run.Journal(ctx); err != nil {
				return nil, err
			}
			if why, _ := run.Internals(boundary.Caller{}).Undoing(); why != taskrules.UndoNone {
				undone.Add(1)
				run.Internals(boundary.Caller{}).EndUndo()
				return raw(`{}`), nil
			}
			store.lose.Store(true)
			if err := run.Record(ctx, task.Entry{Kind: taskrules.KindUndo, Key: "undo", Occurrence: 1}); err != nil {
				return nil, err
			}
			return untilDone(ctx, run)
		}
		m := newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}})
		create(t, m, task.Request{Restartable: true, Work: work, Task: &mcp.TaskMetadata{TTL: new(int64(60_000))}})
		time.Sleep(time.Hour)
		if n := undone.Load(); n != 1 {
			t.Errorf("undone %d times", n)
		}
	})
}
