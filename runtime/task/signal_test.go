package task_test

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

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/faultstore"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// cutOffStore stores the next write and fails it, and then returns an empty journal for some time,
// as a server does that was cut off.
type cutOffStore struct {
	*memory.FleetStore
	mu       sync.Mutex
	failNext func(r task.Record) bool // the write to fail; nil for none
	failed   bool                     // Get fails once, so that the Manager cannot confirm the write
	until    time.Time                // journals are outdated
}

func (s *cutOffStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	stored, err := s.FleetStore.Update(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.failNext != nil && s.failNext(r) {
		s.failNext, s.failed, s.until = nil, true, time.Now().Add(10*time.Second)
		return task.Record{}, errors.New("no answer")
	}
	return stored, err
}

func (s *cutOffStore) Get(ctx context.Context, id string) (task.Record, error) {
	s.mu.Lock()
	failed := s.failed
	s.failed = false
	s.mu.Unlock()
	if failed {
		return task.Record{}, errors.New("no answer")
	}
	return s.FleetStore.Get(ctx, id)
}

func (s *cutOffStore) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return nil, nil
	}
	return s.FleetStore.Journal(ctx, id)
}

// takes takes n signals, apart from those that the journal has, and returns the values of all.
func takes(n int) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		entries, _, err := run.Journal(ctx)
		for err == nil && len(entries) < n {
			if _, err = run.Internals(boundary.Caller{}).AwaitSignal(ctx, []string{"go"}, time.Time{}); err != nil {
				break
			}
			e, ok := task.Entry{Key: "go", Occurrence: len(entries) + 1}, false
			if e, ok, err = run.Internals(boundary.Caller{}).TakeSignal("go", e, signalResult); ok {
				entries = append(entries, e)
			}
		}
		if err != nil {
			return nil, err
		}
		var values []json.RawMessage
		for _, e := range entries {
			value, _ := codec.Member(e.Result, "value")
			values = append(values, value)
		}
		text, err := json.Marshal(map[string]any{"found": values})
		return raw(text), err
	}
}

// signalResult returns the result of the entry with which work takes a signal.
func signalResult(s *task.Signal) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"id":%q,"value":%s}`, s.ID, s.Value))
}

// A signal is stored once and taken once although the store fails a write that it has made, and
// then returns an outdated journal.
func TestSignalOutlastsOutdatedJournal(t *testing.T) {
	hasSignals := func(n int) func(r task.Record) bool {
		return func(r task.Record) bool { return len(r.Durable.Signals) == n }
	}
	for _, taken := range []bool{false, true} {
		t.Run(fmt.Sprint("failed write takes the signal: ", taken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				store := &cutOffStore{FleetStore: f.Store()}
				faulty := &member{store: store.FleetStore, work: takes(2)}
				cfg := task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return faulty.run }}}
				if !taken {
					cfg.Member.Tools = []string{} // the other member takes the signals
				}
				faulty.Manager = newManager(t, cfg)
				synctest.Wait()
				other := &member{store: f.Store(), work: takes(2)}
				otherCfg := task.Options{Store: other.store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return other.run }}}
				if taken {
					otherCfg.Member.Tools = []string{}
				}
				other.Manager = newManager(t, otherCfg)
				synctest.Wait()
				id := other.create(t, nil)
				time.Sleep(time.Second)
				store.mu.Lock()
				if store.failNext = hasSignals(1); taken {
					store.failNext = hasSignals(0)
				}
				store.mu.Unlock()
				sender := faulty
				if taken {
					sender = other
				}
				for _, value := range []string{"1", "2"} {
					if err := sender.Signal(t.Context(), id, "go", json.RawMessage(value)); err != nil {
						t.Fatal(err)
					}
				}
				out := result(t, other.Manager, id)
				if got := found(t, out); got != "[1,2]" {
					t.Errorf("took %s", got)
				}
			})
		})
	}
}

// Signals that two members send at the same time are all taken, each one once, also if the task is
// parked and moves.
func TestConcurrentSignalsOfTwoMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 8
		f := memory.NewFleet()
		cfg := task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}
		work := takes(2 * each)
		a, b := join(t, f, cfg, work), join(t, f, cfg, work)
		id := a.create(t, nil)
		for round := range each {
			time.Sleep(3 * time.Second)
			if round == each/2 {
				go a.Drain(t.Context())
			}
			var group sync.WaitGroup
			for i, m := range []*member{a, b} {
				group.Go(func() {
					if err := m.Signal(t.Context(), id, "go", json.RawMessage(fmt.Sprint(2*round+i))); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
		}
		out := result(t, b.Manager, id)
		var values []int
		if err := json.Unmarshal([]byte(found(t, out)), &values); err != nil {
			t.Fatal(err)
		}
		slices.Sort(values)
		for i, value := range values {
			if value != i {
				t.Fatalf("took %v", values)
			}
		}
		if len(values) != 2*each {
			t.Errorf("took %v", values)
		}
	})
}

// Close waits for a signal, an answer or a cancellation that is being stored, so that the next
// Manager finds it. Later ones are refused.
func TestCloseWaitsForChangesOfParkedTasks(t *testing.T) {
	for name, change := range map[string]func(m *task.Manager, id string) error{
		"signal": func(m *task.Manager, id string) error {
			return m.Signal(context.Background(), id, "go", json.RawMessage(`1`))
		},
		"answer": func(m *task.Manager, id string) error {
			return m.Update(context.Background(), "alice", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) {
				return json.RawMessage(`{"action":"decline"}`), nil
			})
		},
		"cancellation": func(m *task.Manager, id string) error {
			_, err := m.Cancel(context.Background(), "alice", id, nil)
			return err
		},
		"cancellation by an operator": func(m *task.Manager, id string) error {
			_, err := m.CancelForOperator(context.Background(), id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				var slow atomic.Bool
				p := newParking(t, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}, Store: faultstore.New(store, func(_ int, operation string) (f faultstore.Fault) {
					if operation == "Update" && slow.Load() {
						f.Delay = time.Minute
					}
					return f
				})}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					if name == "answer" {
						_, err := ask(ctx, run, "go")
						return raw(`{}`), err
					}
					return takes(1)(ctx, run)
				})
				id := p.start(t)
				time.Sleep(time.Minute)
				if !p.parked(t, id) {
					t.Error("not parked")
				}
				slow.Store(true)
				failed := make(chan error, 1)
				go func() { failed <- change(p.Manager, id) }()
				time.Sleep(time.Second)
				p.cfg.Store = store
				old := p.Manager
				if err := old.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if err := <-failed; err != nil {
					t.Error(err)
				}
				if r, err := store.Get(t.Context(), id); err != nil || !task.Terminal(r.Status) && r.Phase != taskrules.PhaseSuspended {
					t.Errorf("phase %d, as if the process had died during the work; %v", r.Phase, err)
				}
				p.restart(t)
				time.Sleep(time.Second)
				if state := get(t, p.Manager, id); !task.Terminal(state.Status) || p.Stats().Parked != 0 {
					t.Errorf("%s, %+v", state.Status, p.Stats())
				}
				if err := change(old, id); !errors.Is(err, task.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

func TestNamesOfSignals(t *testing.T) {
	for name, want := range map[string]bool{"go": true, "géh": true, strings.Repeat("x", taskrules.MaxSignalName): true, "": false, strings.Repeat("x", taskrules.MaxSignalName+1): false, "a\xff": false} {
		if err := taskrules.CheckSignalName(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}
