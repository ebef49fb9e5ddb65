package task_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// gauge counts the work that runs at once, without that whose context has ended.
type gauge struct {
	mu       sync.Mutex
	running  map[context.Context]string
	started  []string // names of the work, in order
	greatest int
}

func newGauge() *gauge { return &gauge{running: map[context.Context]string{}} }

// begin counts work until end is called.
func (g *gauge) begin(ctx context.Context, name string) (end func()) {
	g.mu.Lock()
	g.started = append(g.started, name)
	g.running[ctx] = name
	g.mu.Unlock()
	time.Sleep(time.Millisecond) // contexts that end at the same time have ended then
	g.mu.Lock()
	g.greatest = max(g.greatest, g.count())
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.running, ctx)
	}
}

func (g *gauge) count() (n int) {
	for ctx := range g.running {
		if ctx.Err() == nil {
			n++
		}
	}
	return n
}

// now returns how much work runs, and how much has started so far.
func (g *gauge) now() (running, started int) {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count(), len(g.started)
}

// order returns the names of the work that has started.
func (g *gauge) order() []string {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.started)
}

// lasts is work that takes a time.
func (g *gauge) lasts(name string, d time.Duration) task.Work {
	return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		defer g.begin(ctx, name)()
		select {
		case <-time.After(d):
			return raw(`{}`), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// limitTo returns a Limits.Tool that limits one tool.
func limitTo(name string, n int) func(string) int {
	return func(tool string) int {
		if tool == name {
			return n
		}
		return 0
	}
}

func TestFurtherTasksWait(t *testing.T) {
	for name, cfg := range map[string]task.Options{
		"process": {Limits: task.Limits{Running: 2}},
		"tool":    {Limits: task.Limits{Tool: limitTo("tool", 2)}},
		"both":    {Limits: task.Limits{Running: 2, Tool: limitTo("tool", 3)}},
		"fleet":   {Limits: task.Limits{Tool: limitTo("tool", 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if name == "fleet" {
					cfg.Store = memory.NewFleet().Store()
				}
				m := newManager(t, cfg)
				g := newGauge()
				var ids []string
				for n := range 5 {
					ids = append(ids, create(t, m, task.Request{Name: "tool", Work: g.lasts(fmt.Sprint(n), time.Minute)}).TaskID)
				}
				time.Sleep(time.Second)
				running, started := g.now()
				if s := m.Stats(); running != 2 || started != 2 || s.Running != 2 || s.Queued != 3 {
					t.Errorf("%d run, %+v", running, s)
				}
				for _, id := range ids {
					if s := get(t, m, id).Status; s != mcp.TaskStatusWorking {
						t.Errorf("status %s", s)
					}
				}
				start := time.Now()
				for _, id := range ids {
					result(t, m, id)
				}
				if took := time.Since(start); took < 2*time.Minute || took > 3*time.Minute || g.greatest != 2 {
					t.Errorf("took %v, %d at once", took, g.greatest)
				}
				if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(slices.Sorted(slices.Values(g.order())), want) {
					t.Errorf("started %v", g.order())
				}
				synctest.Wait()
				if s := m.Stats(); s.Running != 0 || s.Queued != 0 {
					t.Errorf("at the end: %+v", s)
				}
			})
		})
	}
}

func TestPrincipalsHaveTurns(t *testing.T) {
	for name, cfg := range map[string]task.Options{
		"one tool":      {Limits: task.Limits{Tool: limitTo("tool", 1)}},
		"several tools": {Limits: task.Limits{Running: 1, Tool: limitTo("tool", 5)}},
	} {
		runInBubble(t, cfg, func(t *testing.T, m *task.Manager) {
			g := newGauge()
			last := ""
			add := func(principal, tool string, n int) {
				for i := range n {
					work := g.lasts(fmt.Sprint(principal, i), time.Second)
					last = create(t, m, task.Request{Principal: principal, Name: tool, Work: work}).TaskID
					synctest.Wait()
				}
			}
			other := "tool"
			if cfg.Limits.Running > 0 {
				other = "other"
			}
			add("bob", "tool", 5)
			add("carol", other, 3)
			add("alice", "tool", 2)
			result(t, m, last)
			time.Sleep(time.Minute)
			want := "bob0 bob1 carol0 alice0 bob2 carol1 alice1 bob3 carol2 bob4"
			if got := strings.Join(g.order(), " "); got != want {
				t.Errorf("%s: started %s, want %s", name, got, want)
			}
		})
	}
}

// Work of a tool that has no room does not delay that of other tools.
func TestToolsDoNotDelayOneAnother(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Running: 2, Tool: limitTo("slow", 1)}}, func(t *testing.T, m *task.Manager) {
		for range 3 {
			create(t, m, task.Request{Name: "slow", Work: untilDone})
		}
		start := time.Now()
		id := create(t, m, task.Request{Name: "fast", Work: returns(`{}`)}).TaskID
		if result(t, m, id); time.Since(start) != 0 {
			t.Errorf("took %v", time.Since(start))
		}
	})
}

func TestWaitingTaskEnds(t *testing.T) {
	ttl := int64(60_000)
	for name, end := range map[string]func(t *testing.T, m *task.Manager, id string) error{
		"cancelled": func(t *testing.T, m *task.Manager, id string) error {
			_, err := m.Cancel(t.Context(), "alice", id, nil)
			if out := result(t, m, id); out.Error == nil || out.Error.Code != task.CodeCancelled {
				t.Errorf("got %+v", out)
			}
			return err
		},
		"expired": func(t *testing.T, m *task.Manager, id string) error {
			time.Sleep(time.Duration(ttl) * time.Millisecond)
			synctest.Wait()
			if _, err := m.Get(t.Context(), "alice", id, nil); !errors.Is(err, task.ErrExpired) {
				t.Errorf("got %v", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, task.Options{Limits: task.Limits{Running: 1}}, func(t *testing.T, m *task.Manager) {
				create(t, m, task.Request{Work: untilDone})
				g := newGauge()
				id := create(t, m, task.Request{Work: g.lasts("late", time.Second), Task: &mcp.TaskMetadata{TTL: &ttl}}).TaskID
				if err := end(t, m, id); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if s := m.Stats(); s.Queued != 0 || s.Running != 1 || len(g.order()) != 0 {
					t.Errorf("%+v, started %v", s, g.order())
				}
			})
		})
	}
}

// Work that waits when its process ends was not re-run.
func TestWaitingWorkIsNotRerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Running: 1}, Recovery: task.Recovery{MaxReruns: 1}}
		a := join(t, f, cfg, untilDone)
		a.create(t, nil)
		id := a.create(t, nil)
		for range 3 {
			b := join(t, f, cfg, untilDone)
			create(t, b.Manager, task.Request{Work: untilDone})
			a.cut(t)
			time.Sleep(2 * task.DefaultLease)
			if r := b.record(t, id); r.Reruns != 0 || r.Claim.Epoch == 1 {
				t.Fatalf("%d re-runs, claim %v", r.Reruns, r.Claim)
			}
			a = b
		}
	})
}

// A parked task holds no permit, and waits for one when it wakes.
func TestParkedTaskHoldsNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGauge()
		sleeps := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			defer g.begin(ctx, "sleeper")()
			entries, _, err := run.Journal(ctx)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				if err := run.Record(ctx, task.Entry{Key: "slept", Occurrence: 1}); err != nil {
					return nil, err
				}
				return nil, run.Sleep(ctx, time.Now().Add(time.Hour))
			}
			return raw(`{}`), nil
		}
		m := newManager(t, task.Options{
			Limits: task.Limits{Tool: limitTo("tool", 1)}, Recovery: task.Recovery{ParkAfter: time.Second, Recover: func(task.Record) task.Work { return sleeps }}, TTL: task.TTL{Unlimited: true},
		})
		sleeper := create(t, m, task.Request{Name: "tool", Work: sleeps, Restartable: true}).TaskID
		time.Sleep(2 * time.Second)
		create(t, m, task.Request{Name: "tool", Work: g.lasts("other", 2*time.Hour)})
		if running, _ := g.now(); running != 1 || g.order()[1] != "other" {
			t.Errorf("%d run, started %v", running, g.order())
		}
		time.Sleep(90 * time.Minute)
		if s := m.Stats(); s.Queued != 1 || s.Parked != 0 {
			t.Errorf("%+v", s)
		}
		start := time.Now()
		result(t, m, sleeper)
		if d := time.Since(start); d < 29*time.Minute || d > 31*time.Minute || g.greatest != 1 {
			t.Errorf("woke %v later, %d at once", d, g.greatest)
		}
	})
}

func TestAcquireWaits(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}, func(t *testing.T, m *task.Manager) {
		_, release, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		if _, free, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "other"); err != nil {
			t.Error(err)
		} else {
			free()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := m.Internals(boundary.Caller{}).Acquire(ctx, "alice", "tool"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		g := newGauge()
		id := create(t, m, task.Request{Name: "tool", Work: g.lasts("task", time.Second)}).TaskID
		got := make(chan struct{})
		go func() { // ends once the task has ended
			_, second, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "bob", "tool")
			if err != nil {
				t.Error(err)
			}
			close(got)
			second()
		}()
		if running, _ := g.now(); running != 0 {
			t.Errorf("%d tasks run", running)
		}
		release()
		release()
		result(t, m, id)
		<-got
	})
}

func TestAcquireEndsWithManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}})
		if _, _, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error)
		go func() { // ends with the Manager
			_, _, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
			failed <- err
		}()
		synctest.Wait()
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-failed; !errors.Is(err, task.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// gauged adds a member whose work takes d and counts in g. The tool has a limit in the fleet.
func gauged(t *testing.T, f *memory.Fleet, g *gauge, limit int, d time.Duration) *member {
	t.Helper()
	return join(t, f, task.Options{Limits: task.Limits{Tool: limitTo("tool", limit)}, Recovery: task.Recovery{MaxReruns: -1}}, g.lasts("work", d))
}

func TestLimitHoldsInFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		var members []*member
		for range 3 {
			members = append(members, gauged(t, f, g, 4, time.Second))
		}
		start := time.Now()
		var ids []string
		for n := range 40 {
			ids = append(ids, members[n%3].create(t, nil))
		}
		for _, id := range ids {
			result(t, members[0].Manager, id)
		}
		if took := time.Since(start); g.greatest != 4 || took > 11*time.Second {
			t.Errorf("%d at once, took %v", g.greatest, took)
		}
		for i, m := range members {
			if n := m.runs.Load(); n < 12 || n > 14 {
				t.Errorf("member %d ran %d of 40 tasks", i, n)
			}
		}
	})
}

// The permits of a member that is cut off return once its lease has ended.
func TestPermitsOfDeadMemberReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		a, b := gauged(t, f, g, 2, time.Hour), gauged(t, f, g, 2, time.Hour)
		a.create(t, nil)
		a.create(t, nil)
		time.Sleep(time.Second)
		b.create(t, nil)
		a.cut(t)
		time.Sleep(task.DefaultLease - 2*time.Second)
		if _, started := g.now(); started != 2 {
			t.Errorf("%d started while the member may be alive", started)
		}
		time.Sleep(3 * time.Second)
		if running, started := g.now(); running != 2 || started != 4 || g.greatest != 2 {
			t.Errorf("%d of %d run, %d at once", running, started, g.greatest)
		}
	})
}

// A member that leaves gives its permits back.
func TestPermitsOfClosedMemberReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		a, b := gauged(t, f, g, 1, time.Hour), gauged(t, f, g, 1, time.Hour)
		a.create(t, nil)
		time.Sleep(time.Second)
		b.create(t, nil)
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if running, started := g.now(); running != 1 || started != 2 || g.greatest != 1 {
			t.Errorf("%d of %d run, %d at once", running, started, g.greatest)
		}
	})
}

// The context of a call ends when its permit may be given to another member.
func TestAcquireIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}
		a, b := join(t, f, cfg, untilDone), join(t, f, cfg, untilDone)
		ctx, release, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		a.cut(t)
		_, other, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		defer other()
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), task.ErrFenced) {
			t.Errorf("the context has ended with %v", context.Cause(ctx))
		}
	})
}

// The permit of work that returns after the lease has ended is no longer granted. Then the member
// waits for a permit like any other member.
func TestMemberWaitsAfterLateWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		late := make(chan struct{})
		first := true
		a := join(t, f, task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if first {
				first = false
				<-late
			}
			return g.lasts("a", time.Second)(ctx, run)
		})
		b := gauged(t, f, g, 1, time.Second)
		id := a.create(t, nil)
		synctest.Wait()
		a.store.Cut()
		result(t, b.Manager, id) // b keeps the permit
		a.store.Heal()
		time.Sleep(task.DefaultLease)
		id = a.create(t, nil)
		time.Sleep(time.Second)
		if s := a.Stats(); s.Queued != 1 {
			t.Errorf("%+v", s)
		}
		close(late)
		time.Sleep(time.Minute)
		if s := get(t, a.Manager, id).Status; s != mcp.TaskStatusCompleted || g.greatest != 1 {
			t.Errorf("status %s, %d at once", s, g.greatest)
		}
	})
}

// A member with many tasks gives each permit back while another one waits.
func TestMembersHaveTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		a, b := gauged(t, f, g, 1, time.Second), gauged(t, f, g, 1, time.Second)
		for range 10 {
			a.create(t, nil)
		}
		synctest.Wait()
		start := time.Now()
		id := b.create(t, nil)
		if result(t, b.Manager, id); time.Since(start) > 3*time.Second {
			t.Errorf("the task of the other member took %v", time.Since(start))
		}
	})
}

// While it is unknown whether a permit was given back, it is not used.
func TestUnknownPermitIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		a, store := joinRacing(t, f, task.Options{Limits: task.Limits{Tool: limitTo("tool", 2)}}, g.lasts("a", time.Minute))
		b := gauged(t, f, g, 2, time.Hour)
		a.create(t, nil)
		first := a.create(t, nil)
		time.Sleep(time.Second)
		if _, err := a.Cancel(t.Context(), "alice", first, nil); err != nil { // a keeps its permit
			t.Fatal(err)
		}
		synctest.Wait()
		store.set(hooks{reserve: func() error { return memory.ErrCut }})
		b.create(t, nil) // a gives the permit back, and misses the change
		time.Sleep(time.Second / 2)
		a.create(t, nil)
		time.Sleep(10 * time.Second)
		if running, started := g.now(); running != 2 || started != 3 || g.greatest != 2 {
			t.Errorf("%d of %d run, %d at once", running, started, g.greatest)
		}
		store.set(hooks{})
	})
}

// A member uses its permits again without a write while no other member waits.
func TestPermitsAreUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		m, store := joinRacing(t, f, task.Options{Limits: task.Limits{Tool: limitTo("tool", 3)}}, g.lasts("work", time.Second))
		reserved := 0
		store.set(hooks{reserve: func() error { reserved++; return nil }})
		for range 30 {
			result(t, m.Manager, m.create(t, nil))
		}
		if reserved > 1 {
			t.Errorf("%d writes for 30 tasks", reserved)
		}
	})
}

// Lost acknowledgements of the quota neither exceed the limit nor lose permits.
func TestLostReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, g := memory.NewFleet(), newGauge()
		var members []*member
		for i := range 3 {
			m, store := joinRacing(t, f, task.Options{Limits: task.Limits{Tool: limitTo("tool", 3)}}, g.lasts("work", 300*time.Millisecond))
			n := i
			var mu sync.Mutex
			store.set(hooks{reserve: func() error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%3 == 0 {
					return memory.ErrCut
				}
				return nil
			}})
			members = append(members, m)
		}
		var ids []string
		for n := range 60 {
			ids = append(ids, members[n%3].create(t, nil))
		}
		for _, id := range ids {
			result(t, members[0].Manager, id)
		}
		if g.greatest != 3 {
			t.Errorf("%d at once", g.greatest)
		}
	})
}

// Calls that are not tasks do not wait for tasks that run or wait, as long as their tool has room.
func TestCallsDoNotWaitForTasks(t *testing.T) {
	for name, open := range map[string]func() task.Store{
		"process": func() task.Store { return memory.New() },
		"fleet":   func() task.Store { return memory.NewFleet().Store() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newManager(t, task.Options{Store: open(), Limits: task.Limits{Running: 1, Tool: limitTo("tool", 2)}})
				create(t, m, task.Request{Name: "other", Work: untilDone})
				synctest.Wait()
				for range 2 {
					create(t, m, task.Request{Name: "tool", Work: untilDone})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for range 2 {
					if _, _, err := m.Internals(boundary.Caller{}).Acquire(ctx, "alice", "tool"); err != nil {
						t.Fatal(err)
					}
				}
				if s := m.Stats(); s.Running != 1 || s.Queued != 2 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A limit that has become lower holds for all work that starts from then on.
func TestLowerLimitHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Int64
		limit.Store(3)
		cfg := task.Options{Limits: task.Limits{Tool: func(string) int { return int(limit.Load()) }}}
		a := join(t, memory.NewFleet(), cfg, untilDone)
		var releases []func()
		for range 3 {
			_, release, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
		}
		releases[0]()
		releases[1]()
		limit.Store(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := a.Internals(boundary.Caller{}).Acquire(ctx, "alice", "tool"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second call runs: %v", err)
		}
		releases[2]()
		if _, _, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
			t.Error(err)
		}
	})
}

// A call that waits for a permit continues to wait after the lease has ended.
func TestWaitingCallOutlastsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}
		a, b := join(t, f, cfg, untilDone), join(t, f, cfg, untilDone)
		_, release, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { // ends once b has released its permit
			_, _, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
			got <- err
		}()
		synctest.Wait()
		a.store.Cut()
		time.Sleep(2 * task.DefaultLease)
		a.store.Heal()
		time.Sleep(time.Minute)
		release()
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// Other members may depart or change a quota before Join has returned.
func TestEventsDuringJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &racingStore{FleetStore: memory.NewFleet().Store()}
		store.set(hooks{afterJoin: func(e fleets.Events) {
			e.Departed()
			e.Shared("tool tool")
			e.Offered("id")
		}})
		m := newManager(t, task.Options{Store: store, Limits: task.Limits{Tool: limitTo("tool", 1)}})
		if _, _, err := m.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
			t.Error(err)
		}
	})
}

// onLog is a log handler that calls a function with each message.
type onLog func(message string)

func (onLog) Enabled(context.Context, slog.Level) bool        { return true }
func (f onLog) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }
func (f onLog) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f onLog) WithGroup(string) slog.Handler                 { return f }

// A permit that becomes free between the end of the lease and the end of the work is not used.
func TestNothingStartsAfterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var release func()
		logger := slog.New(onLog(func(message string) {
			if message == "lease ended" {
				release()
			}
		}))
		a := join(t, memory.NewFleet(), task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}, Logger: logger}, untilDone)
		var err error
		if _, release, err = a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
			t.Fatal(err)
		}
		a.store.Cut()
		time.AfterFunc(time.Minute, a.store.Heal)
		ctx, second, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		defer second()
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Errorf("the call has started after the lease: %v", context.Cause(ctx))
		}
	})
}

// A reservation that succeeds when its membership has ended grants nothing in the next one.
func TestLateReservationGrantsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}
		a, store := joinRacing(t, f, cfg, untilDone)
		b := join(t, f, cfg, untilDone)
		late := once(func() {
			if err := store.latest().Leave(t.Context()); err != nil { // as if the lease had ended
				t.Error(err)
			}
			if _, _, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil { // for the rest of the test
				t.Error(err)
			}
			time.Sleep(time.Second)
		})
		store.set(hooks{reserve: func() error { late(); return nil }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, _, err := a.Internals(boundary.Caller{}).Acquire(ctx, "alice", "tool"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// Work that returns after its lease has ended gives back its permits, although the member waits for
// more permits.
func TestLateWorkGivesPermitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 3)}}
		a, b := join(t, f, cfg, untilDone), join(t, f, cfg, untilDone)
		var late []func()
		for range 2 {
			_, release, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
			if err != nil {
				t.Fatal(err)
			}
			late = append(late, release)
		}
		a.store.Cut()
		time.Sleep(2 * task.DefaultLease)
		var release func()
		for range 3 {
			var err error
			if _, release, err = b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
				t.Fatal(err)
			}
		}
		a.store.Heal()
		got := make(chan error, 2)
		for range 2 {
			go func() { // ends with the test
				_, _, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
				got <- err
			}()
		}
		time.Sleep(time.Minute)
		late[0]()
		late[1]()
		time.Sleep(time.Minute)
		release()
		time.Sleep(time.Minute)
		if len(got) != 1 {
			t.Errorf("%d calls run, want 1", len(got))
		}
	})
}

// Work that continues after its lease has ended counts in the next membership.
func TestLateWorkCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}
		a, b := join(t, f, cfg, untilDone), join(t, f, cfg, untilDone)
		_, late, err := a.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		a.store.Cut()
		time.Sleep(2 * task.DefaultLease)
		a.store.Heal()
		time.Sleep(time.Minute)
		time.AfterFunc(time.Minute, late)
		start := time.Now()
		if _, _, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// A member that waits no longer does not make the others give permits back.
func TestCallThatGivesUpDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Tool: limitTo("tool", 1)}}
		a := join(t, f, cfg, untilDone)
		b, store := joinRacing(t, f, cfg, untilDone)
		_, release, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := a.Internals(boundary.Caller{}).Acquire(ctx, "alice", "tool"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait()
		store.set(hooks{reserve: func() error { t.Error("the permit was given back"); return nil }})
		release()
		if _, _, err := b.Internals(boundary.Caller{}).Acquire(t.Context(), "alice", "tool"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		store.set(hooks{})
	})
}
