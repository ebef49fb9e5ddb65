package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

// mortal is a store of one process that dies: from then on, nothing reaches the store, and the
// process learns nothing.
type mortal interface{ die() }

type mortalMember struct{ *memory.FleetStore }

func (m mortalMember) die() { m.Cut() }

type mortalProcess struct{ *failingStore }

func (m mortalProcess) die() { m.setError(errors.New("dead")) }

// host runs processes that start again after they have died, over one store or in a fleet.
type host struct {
	t     *testing.T
	cfg   task.Options
	store func() task.Store // of a new process

	mu     sync.Mutex
	kills  int
	undone int
	runs   map[string]int  // by name of the tool
	all    []*task.Manager // the living ones
	stores map[*task.Manager]mortal
}

// start starts a process.
func (h *host) start() *task.Manager {
	h.t.Helper()
	store := h.store()
	cfg := h.cfg
	cfg.Store, cfg.Updates.Quiet, cfg.Logger = store, true, slog.New(slog.DiscardHandler)
	var m *task.Manager
	var mu sync.Mutex // until m is set
	mu.Lock()
	defer mu.Unlock()
	cfg.Recovery.Recover = func(r task.Record) task.Work {
		return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			mu.Lock()
			self := m
			mu.Unlock()
			return h.work(ctx, run, self, store.(mortal), r.Name)
		}
	}
	var err error
	if m, err = task.New(h.t.Context(), cfg); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { // dead processes cannot store their outcomes
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		m.Close(ctx)
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m)
	if h.stores == nil {
		h.stores = map[*task.Manager]mortal{}
	}
	h.stores[m] = store.(mortal)
	return m
}

// work is the work of a tool: "long" takes an hour, "poison" kills its process after a while, and
// "poison N" after N milliseconds. "poison booking" has something to undo, and undoes it; "poison
// undo" kills the process that undoes it, too.
func (h *host) work(ctx context.Context, run *task.Run, m *task.Manager, store mortal, name string) (codec.Encoder, error) {
	h.mu.Lock()
	h.runs[name]++
	h.mu.Unlock()
	if name == "poison booking" || name == "poison undo" {
		entries, _, err := run.Journal(ctx)
		why, _ := run.Internals(boundary.Caller{}).Undoing()
		switch {
		case err != nil:
			return nil, err
		case why != taskrules.UndoNone && name == "poison booking":
			h.mu.Lock()
			h.undone++
			h.mu.Unlock()
			run.Internals(boundary.Caller{}).EndUndo()
			return nil, errors.New("undone")
		case len(entries) == 0:
			if err := run.Record(ctx, task.Entry{Kind: taskrules.KindUndo, Key: "undo", Occurrence: 1, Result: json.RawMessage(`1`)}); err != nil {
				return nil, err
			}
		}
		name = "poison"
	}
	after := time.Hour
	if strings.HasPrefix(name, "poison") {
		after = 200 * time.Millisecond
		if rest, ok := strings.CutPrefix(name, "poison "); ok {
			after, _ = time.ParseDuration(rest)
		}
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if name == "long" {
		return raw(`{}`), nil
	}
	h.mu.Lock()
	h.kills++
	store.die()
	for i := range h.all {
		if h.all[i] == m {
			h.all = append(h.all[:i:i], h.all[i+1:]...)
			break
		}
	}
	h.mu.Unlock()
	time.AfterFunc(time.Millisecond, func() { h.start() })
	<-ctx.Done() // the process does nothing more
	return nil, context.Cause(ctx)
}

// create creates a task with one of the living processes.
func (h *host) create(name string) string {
	h.t.Helper()
	h.mu.Lock()
	m := h.all[0]
	h.mu.Unlock()
	return create(h.t, m, task.Request{Restartable: true, Name: name, Work: func(context.Context, *task.Run) (codec.Encoder, error) {
		return nil, errors.New("runs at its creator")
	}}).TaskID
}

// status returns the status of a task.
func (h *host) status(id string) mcp.Task {
	h.t.Helper()
	h.mu.Lock()
	m := h.all[0]
	h.mu.Unlock()
	return get(h.t, m, id)
}

// newProcessHost returns a host of one process.
func newProcessHost(t *testing.T) *host {
	store := memory.New()
	h := &host{t: t, runs: map[string]int{}, cfg: task.Options{TTL: task.TTL{Max: 48 * time.Hour, Default: 48 * time.Hour}}}
	h.store = func() task.Store { return mortalProcess{&failingStore{Store: store}} }
	h.start()
	return h
}

// createHere creates a task that runs in the process that creates it.
func (h *host) createHere(name string) string {
	h.t.Helper()
	h.mu.Lock()
	m := h.all[0]
	h.mu.Unlock()
	return create(h.t, m, task.Request{Restartable: true, Name: name, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		return h.work(ctx, run, m, h.stores[m], name)
	}}).TaskID
}

func newFleetHost(t *testing.T, workers int) *host {
	f := memory.NewFleet()
	h := &host{t: t, runs: map[string]int{}, cfg: task.Options{Member: task.Member{Tools: []string{}}, TTL: task.TTL{Max: 48 * time.Hour, Default: 48 * time.Hour}}}
	h.store = func() task.Store { return mortalMember{f.Store()} }
	h.start() // the front end
	h.cfg.Member.Tools = nil
	for range workers {
		h.start()
	}
	synctest.Wait()
	return h
}

// A call that kills its process does so twice, and then fails. The other tasks of the processes
// that it kills do not fail, however often that happens.
func TestPoisonCallIsQuarantined(t *testing.T) {
	for _, workers := range []int{1, 3} {
		for _, poison := range []string{"poison", "poison 3s"} {
			t.Run(fmt.Sprintf("%d workers, %s", workers, poison), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := newFleetHost(t, workers)
					var long []string
					for range 12 {
						long = append(long, h.create("long"))
					}
					time.Sleep(time.Minute)
					for call := 1; call <= 3; call++ {
						id := h.create(poison)
						time.Sleep(10 * time.Minute)
						got := h.status(id)
						if h.kills != 2*call || got.Status != mcp.TaskStatusFailed || !strings.Contains(*got.StatusMessage, "died 2 times") {
							t.Errorf("call %d: %d processes killed in all, %s", call, h.kills, got.Status)
						}
					}
					time.Sleep(6 * time.Hour)
					for _, id := range long {
						if got := h.status(id); got.Status != mcp.TaskStatusCompleted {
							t.Errorf("another task: %s", got.Status)
						}
					}
				})
			})
		}
	}
}

// The same in one process, which starts again after each death.
func TestPoisonCallIsQuarantinedInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newProcessHost(t)
		var long []string
		for range 5 {
			long = append(long, h.createHere("long"))
		}
		for call := 1; call <= 3; call++ {
			id := h.createHere("poison")
			time.Sleep(10 * time.Minute)
			if got := h.status(id); h.kills != 2*call || got.Status != mcp.TaskStatusFailed {
				t.Errorf("call %d: %d processes killed in all, %s", call, h.kills, got.Status)
			}
		}
		time.Sleep(6 * time.Hour)
		for _, id := range long {
			if got := h.status(id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("another task: %s", got.Status)
			}
		}
	})
}

// A call that kills its process is undone once it has failed. If its process dies then, too, the
// undos are given up.
func TestPoisonCallIsUndone(t *testing.T) {
	for name, host := range map[string]func(t *testing.T) *host{
		"one process": newProcessHost,
		"fleet":       func(t *testing.T) *host { return newFleetHost(t, 2) },
	} {
		for _, row := range []struct {
			poison        string
			kills, undone int
		}{{"poison booking", 2, 1}, {"poison undo", 3, 0}} {
			t.Run(name+", "+row.poison, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := host(t)
					create, wait := h.create, 30*time.Minute
					if name == "one process" {
						create, wait = h.createHere, 20*time.Second // no member can come back
					}
					id := create(row.poison)
					time.Sleep(wait)
					got := h.status(id)
					h.mu.Lock()
					defer h.mu.Unlock()
					if h.kills != row.kills || h.undone != row.undone || got.Status != mcp.TaskStatusFailed {
						t.Errorf("%d processes killed, undone %d times, %s", h.kills, h.undone, got.Status)
					}
				})
			})
		}
	}
}

// Members that lose their leases and join again have not died: their tasks run again without a
// trial, whoever takes them over, and never fail for it.
func TestLostLeaseIsNoDeath(t *testing.T) {
	for _, members := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			f := memory.NewFleet()
			work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				select {
				case <-time.After(time.Hour):
					return raw(`{}`), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			var all []*member
			var ids []string
			for range members {
				all = append(all, join(t, f, task.Options{TTL: task.TTL{Max: 48 * time.Hour, Default: 48 * time.Hour}}, work))
			}
			for _, m := range all {
				ids = append(ids, m.create(t, nil), m.create(t, nil))
			}
			for outage := range 8 {
				for _, m := range all {
					m.store.Cut()
				}
				time.Sleep(task.DefaultLease + 5*time.Second)
				for i := range all { // the first one takes over the tasks of those that join later
					all[(outage+i)%members].store.Heal()
					time.Sleep(3 * time.Second)
				}
				time.Sleep(5 * time.Second)
				for _, id := range ids {
					r := all[0].record(t, id)
					if r.Status != mcp.TaskStatusWorking || r.Reruns != 0 || len(r.Lost) != 0 || r.Phase != taskrules.PhaseRunning {
						t.Fatalf("%d members, after outage %d: %s, %d deaths, lost %v, phase %d", members, outage, r.Status, r.Reruns, r.Lost, r.Phase)
					}
				}
			}
			for _, id := range ids {
				if out := result(t, all[0].Manager, id); out.Error != nil {
					t.Error(out.Error)
				}
			}
		})
	}
}

// A task whose trial has ended with the lease of its member fails if that member has died, and goes
// on if it joins again in time.
func TestVerdictWaitsForTheLostMember(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := memory.NewFleet()
			a, b := join(t, f, task.Options{}, untilDone), join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
			id := a.create(t, nil)
			a.cut(t)
			c := join(t, f, task.Options{}, untilDone)
			time.Sleep(task.DefaultLease + time.Second)
			if r := b.record(t, id); r.Phase != taskrules.PhaseTrial || r.Reruns != 1 {
				t.Fatalf("phase %d, %d deaths", r.Phase, r.Reruns)
			}
			c.store.Cut()
			d := join(t, f, task.Options{}, untilDone)
			time.Sleep(task.DefaultLease + time.Second)
			if r := b.record(t, id); r.Phase != taskrules.PhaseDoomed || r.Reruns != 2 || d.runs.Load() != 0 {
				t.Fatalf("phase %d, %d deaths", r.Phase, r.Reruns)
			}
			if err := d.Internals(boundary.Caller{}).TakeOver(t.Context(), id); !errors.Is(err, taskrules.ErrNotMovable) {
				t.Error(err)
			}
			if back {
				c.store.Heal()
			} else {
				t.Cleanup(c.store.Heal)
			}
			time.Sleep(3 * task.DefaultLease)
			if got := get(t, b.Manager, id); (got.Status == mcp.TaskStatusFailed) == back || (d.runs.Load() == 1) != back {
				t.Errorf("back %t: %s, %d runs", back, got.Status, d.runs.Load())
			}
		})
	}
}

// doom makes a task whose work is work wait for its verdict at a member with a racingStore. The
// member of the trial is cut off.
func doom(t *testing.T, f *memory.Fleet, work task.Work) (id string, front, lost, judge *member, store *racingStore) {
	t.Helper()
	a := join(t, f, task.Options{}, work)
	front = join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
	id = a.create(t, nil)
	synctest.Wait()
	a.cut(t)
	lost = join(t, f, task.Options{}, work)
	time.Sleep(task.DefaultLease + time.Second)
	if r := front.record(t, id); r.Phase != taskrules.PhaseTrial {
		t.Fatalf("phase %d", r.Phase)
	}
	lost.store.Cut()
	judge, store = joinRacing(t, f, task.Options{}, work)
	time.Sleep(task.DefaultLease + time.Second)
	if r := front.record(t, id); r.Phase != taskrules.PhaseDoomed || judge.runs.Load() != 0 {
		t.Fatalf("phase %d, %d runs", r.Phase, judge.runs.Load())
	}
	return id, front, lost, judge, store
}

// The answer to an input request of a task that waits for its verdict lifts the verdict: the work
// continues with the answer.
func TestAnswerLiftsVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, front, lost, judge, _ := doom(t, memory.NewFleet(), asks)
		t.Cleanup(lost.store.Heal)
		client := &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"answer":1}`), nil
		}}
		out, err := front.Result(t.Context(), "alice", id, client)
		if err != nil || out.Error != nil || !strings.Contains(string(out.Result), `{"answer":1}`) || judge.runs.Load() != 1 {
			t.Errorf("result %s, error %v, %v, %d runs", string(out.Result), out.Error, err, judge.runs.Load())
		}
	})
}

// A verdict that is lifted while the store fails for the member that waits for it is not carried
// out afterwards.
func TestLiftedVerdictIsNotCarriedOutAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, front, lost, judge, store := doom(t, memory.NewFleet(), untilDone)
		time.Sleep(2*task.DefaultLease - 8*time.Second) // the judge looks once more
		store.set(hooks{afterGet: func(task.Record) error { return errors.New("no answer") }})
		lost.store.Heal()
		time.Sleep(6 * time.Second)
		if r := front.record(t, id); r.Phase != taskrules.PhaseSuspended {
			t.Fatalf("phase %d", r.Phase)
		}
		time.Sleep(5 * time.Second)
		store.set(hooks{})
		time.Sleep(time.Minute)
		if got := get(t, front.Manager, id); got.Status != mcp.TaskStatusWorking || judge.runs.Load() != 1 {
			t.Errorf("%s, %d runs", got.Status, judge.runs.Load())
		}
	})
}

// A member that joins again takes back its own loss, and not the death of another one that counts
// since the journal has grown.
func TestLateMemberDoesNotHideLaterDeath(t *testing.T) {
	for name, grow := range map[string]func(ctx context.Context, run *task.Run) error{
		"step": func(ctx context.Context, run *task.Run) error {
			return run.Record(ctx, task.Entry{Key: "step", Occurrence: 1})
		},
		"signal": func(ctx context.Context, run *task.Run) error {
			_, ok, err := run.Internals(boundary.Caller{}).TakeSignal("go", task.Entry{Key: "step", Occurrence: 1}, signalResult)
			if err == nil && !ok {
				err = errors.New("no signal")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testLateMember(t, grow) })
		})
	}
}

func testLateMember(t *testing.T, grow func(ctx context.Context, run *task.Run) error) {
	f := memory.NewFleet()
	a, front := join(t, f, task.Options{}, untilDone), join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
	id := a.create(t, nil)
	if err := front.Signal(t.Context(), id, "go", json.RawMessage(`1`)); err != nil {
		t.Fatal(err)
	}
	a.store.Cut()
	b := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		if err := grow(ctx, run); err != nil {
			return nil, err
		}
		return untilDone(ctx, run)
	})
	time.Sleep(2 * task.DefaultLease)
	b.store.Cut()
	t.Cleanup(b.store.Heal)
	c := join(t, f, task.Options{}, untilDone)
	time.Sleep(2 * task.DefaultLease)
	a.store.Heal()
	time.Sleep(2 * task.DefaultLease)
	if r := front.record(t, id); b.runs.Load() != 1 || c.runs.Load() != 1 || r.Reruns != 1 || len(r.Lost) != 1 {
		t.Errorf("%d and %d runs, %d deaths, lost %v", b.runs.Load(), c.runs.Load(), r.Reruns, r.Lost)
	}
}

// A trial lets no other work begin until it ends: by its time, by the end of the work, or by
// progress.
func TestTrialsRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lost, first := newCrashableManager(t, store)
		names := []string{"progress", "end", "time"} // the latest is tried first
		for _, name := range names {
			create(t, first, task.Request{Restartable: true, Name: name, Work: untilDone})
			time.Sleep(time.Second)
		}
		lost.setError(errors.New("dead"))
		var log []string
		var mu sync.Mutex
		began := time.Now()
		note := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, fmt.Sprint(text, " ", time.Since(began).Round(time.Second)))
		}
		m := newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
			return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
				note(r.Name)
				switch r.Name {
				case "progress":
					time.Sleep(time.Second)
					if err := run.Record(ctx, task.Entry{Key: "a", Occurrence: 1}); err != nil {
						return nil, err
					}
				case "end":
					time.Sleep(2 * time.Second)
					return raw(`{}`), nil
				}
				return untilDone(ctx, run)
			}
		}}})
		time.Sleep(time.Second)
		create(t, m, task.Request{Restartable: true, Name: "other", Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			note("other")
			return untilDone(ctx, run)
		}})
		time.Sleep(time.Minute)
		// "other" waits for the first trial, and has then to last as long as a trial.
		want := "time 0s, other 5s, end 10s, progress 12s"
		create(t, m, task.Request{Restartable: true, Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			note("last")
			return raw(`{}`), nil
		}})
		synctest.Wait()
		if got := strings.Join(log, ", "); got != want+", last 1m1s" {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// A suspect that waits for room delays no other work, however long it waits. It has its trial once
// there is room.
func TestSuspectThatWaitsForRoomDelaysNoOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		lost, first := newCrashableManager(t, store)
		for range 2 {
			create(t, first, task.Request{Restartable: true, Name: "tool", Work: untilDone})
			time.Sleep(time.Second)
		}
		lost.setError(errors.New("dead"))
		g := newGauge()
		m := newManager(t, task.Options{Store: store, Limits: task.Limits{Tool: limitTo("tool", 1)}, TTL: task.TTL{Default: 24 * time.Hour}, Recovery: task.Recovery{Recover: func(r task.Record) task.Work {
			return g.lasts(r.Name, 20*time.Minute)
		}}})
		time.Sleep(time.Minute)
		other := create(t, m, task.Request{Restartable: true, Name: "other", Work: g.lasts("other", time.Second)}).TaskID
		if running, started := g.now(); running != 2 || started != 2 {
			t.Errorf("%d of %d run", running, started)
		}
		if s := m.Stats(); s.Queued != 1 || s.Running != 2 {
			t.Errorf("%+v", s)
		}
		result(t, m, other)
		time.Sleep(20 * time.Minute) // the second suspect begins
		late := create(t, m, task.Request{Restartable: true, Name: "late", Work: returns(`{}`)}).TaskID
		began := time.Now()
		result(t, m, late)
		if d := time.Since(began); d != 0 {
			t.Errorf("other work waits %v after the trial", d)
		}
		time.Sleep(20 * time.Minute)
		if s := m.Stats(); s.Completed != 4 || s.Running+s.Queued != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Parked work is no suspect after the death of its member, also if the event for which it waits
// comes before another member takes it over.
func TestParkedWorkIsNoSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}, takes(1))
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		id := a.create(t, nil)
		time.Sleep(10 * time.Second)
		if !front.record(t, id).Durable.Parked {
			t.Fatal("not parked")
		}
		a.cut(t)
		if err := front.Signal(t.Context(), id, "go", json.RawMessage(`1`)); err != nil {
			t.Fatal(err)
		}
		b := join(t, f, task.Options{}, untilDone)
		time.Sleep(task.DefaultLease + time.Second)
		if r := front.record(t, id); r.Phase != taskrules.PhaseRunning || r.Reruns != 0 || len(r.Lost) != 0 || b.runs.Load() != 1 {
			t.Errorf("phase %d, %d deaths, lost %v, %d runs", r.Phase, r.Reruns, r.Lost, b.runs.Load())
		}
	})
}
