package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// drain makes a member drain for at most a minute. The channel has the error of Drain.
func (m *member) drain(t *testing.T) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { // ends with Drain
		defer cancel()
		done <- m.Drain(ctx)
	}()
	synctest.Wait()
	return done
}

// drained waits until Drain returns.
func drained(t *testing.T, done <-chan error) {
	t.Helper()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// isHeld fails unless tasks are held by the member with an ID.
func (m *member) isHeld(t *testing.T, id string, tasks ...string) {
	t.Helper()
	synctest.Wait()
	for _, each := range tasks {
		if r := m.record(t, each); r.Claim.Member != id {
			t.Errorf("the task with status %s is held by %q, want %q", r.Status, r.Claim.Member, id)
		}
	}
}

// atOnce fails unless f takes no time.
func atOnce(t *testing.T, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if d := time.Since(start); d != 0 {
		t.Errorf("it took %v", d)
	}
}

// joinBoth is join for two kinds of work: steps, and the work of tasks of createAsking.
func joinBoth(t *testing.T, f *memory.Fleet, cfg task.Options, proceed <-chan struct{}) (*member, *racingStore) {
	t.Helper()
	m := &member{store: f.Store(), work: steps(proceed)}
	store := &racingStore{FleetStore: m.store}
	cfg.Store = store
	cfg.Recovery.Recover = func(r task.Record) task.Work {
		if r.Durable.Version == "asks" {
			return asks
		}
		return m.run
	}
	m.Manager = newManager(t, cfg)
	synctest.Wait()
	return m, store
}

// createAsking creates a restartable task of alice that asks once.
func (m *member) createAsking(t *testing.T) string {
	t.Helper()
	return create(t, m.Manager, task.Request{Restartable: true, Work: asks, Version: "asks", Name: "tool"}).TaskID
}

// answers returns a requestor that gives one answer.
func answers(answer string) *peer {
	return &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(answer), nil
	}}
}

func TestRunningWorkFinishesDuringDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		a, b := join(t, f, task.Options{}, steps(proceed)), join(t, f, task.Options{}, steps(proceed))
		id := a.create(t, nil)
		done := a.drain(t)
		start := time.Now()
		time.AfterFunc(30*time.Second, func() { close(proceed) })
		drained(t, done)
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("Drain returned after %v", d)
		}
		if status := get(t, b.Manager, id).Status; status != mcp.TaskStatusCompleted || b.runs.Load() != 0 {
			t.Errorf("the task is %s after %d runs at the other member", status, b.runs.Load())
		}
	})
}

func TestUnfinishedWorkIsHandedOverAfterDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		a, b := join(t, f, task.Options{}, steps(proceed)), join(t, f, task.Options{}, steps(proceed))
		id := a.create(t, nil)
		done := a.drain(t)
		start := time.Now()
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute || b.runs.Load() != 0 {
			t.Errorf("Drain returned after %v: %v; %d runs at the other member", time.Since(start), err, b.runs.Load())
		}
		atOnce(t, func() {
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
			close(proceed)
			if got := found(t, result(t, b.Manager, id)); got != "1" || b.runs.Load() != 1 {
				t.Errorf("found %s entries in %d runs", got, b.runs.Load())
			}
		})
		if err := a.Drain(t.Context()); !errors.Is(err, task.ErrClosed) {
			t.Errorf("drained after the end: %v", err)
		}
	})
}

// Tasks that are queued or parked move at once. Their work continues at the other member, and their
// requestor at the first member still receives the messages of the work.
func TestDrainHandsOverQueuedAndParkedTasks(t *testing.T) {
	for name, limits := range map[string]task.Options{"running": {Limits: task.Limits{Running: 1}}, "tool": {Limits: task.Limits{Tool: limitTo("tool", 1)}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				proceed := make(chan struct{})
				limits.Recovery.ParkAfter = time.Second
				a, _ := joinBoth(t, f, limits, proceed)
				via := &peer{}
				parked := a.createAsking(t)
				time.Sleep(time.Minute)
				running, queued := a.create(t, nil), a.create(t, via)
				b, _ := joinBoth(t, f, limits, proceed)
				if s := a.Stats(); s.Running != 1 || s.Queued != 1 || s.Parked != 1 {
					t.Fatalf("before: %+v", s)
				}
				members := a.Members()
				var done <-chan error
				atOnce(t, func() {
					done = a.drain(t)
					b.isHeld(t, members[1].ID, parked, queued)
				})
				b.isHeld(t, members[0].ID, running)
				if s := a.Stats(); s.Running != 1 || s.Queued+s.Parked != 0 {
					t.Errorf("the first member: %+v", s)
				}
				if s := b.Stats(); s.Running+s.Queued != 1 || s.Parked != 1 {
					t.Errorf("the second member: %+v", s)
				}
				if r := b.record(t, queued); r.Claim.Epoch != 2 {
					t.Errorf("claim %+v", r.Claim)
				}
				close(proceed)
				drained(t, done)
				synctest.Wait()
				p := answers(`"yes"`)
				for id, want := range map[string]string{running: "0", queued: "0", parked: `"yes"`} {
					out, err := b.Result(t.Context(), "alice", id, p)
					if err != nil || found(t, out) != want {
						t.Errorf("got %v, %v, want %s", out, err, want)
					}
				}
				synctest.Wait()
				if s := a.Stats(); s.Running+s.Queued+s.Parked != 0 {
					t.Errorf("the first member at the end: %+v", s)
				}
				if len(via.received()) == 0 {
					t.Error("the requestor received nothing")
				}
			})
		})
	}
}

// A member that has handed over a task does not repeat the messages of its work to the other members.
func TestMessagesAfterHandOverArriveOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		notifies := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			<-proceed
			run.Notify(ctx, mcp.MethodNotificationsMessage, raw(`{"level":"info","data":"x"}`))
			return raw(`{"found":1}`), nil
		}
		a := join(t, f, task.Options{Limits: task.Limits{Running: 1}}, notifies)
		running, queued := a.create(t, nil), a.create(t, nil) // no requestor is known
		b, c := join(t, f, task.Options{}, notifies), join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		members := a.Members()
		done := a.drain(t)
		b.isHeld(t, members[0].ID, running)
		b.isHeld(t, members[1].ID, queued)
		p := &peer{}
		time.AfterFunc(time.Second, func() { close(proceed) })
		if out, err := c.Result(t.Context(), "alice", queued, p); err != nil || found(t, out) != "1" {
			t.Errorf("got %v, %v", out, err)
		}
		drained(t, done)
		synctest.Wait()
		if n := strings.Count(strings.Join(p.received(), " "), mcp.MethodNotificationsMessage); n != 1 {
			t.Errorf("the requestor received the message %d times", n)
		}
	})
}

// Work that only waits is parked soon during a drain, and then handed over.
func TestDrainParksWaitingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{Recovery: task.Recovery{ParkAfter: time.Hour}}, asks), join(t, f, task.Options{}, asks)
		id := a.create(t, nil)
		start, done := time.Now(), a.drain(t)
		drained(t, done)
		if d := time.Since(start); d != time.Second {
			t.Errorf("Drain returned after %v", d)
		}
		b.isHeld(t, b.Members()[1].ID, id)
		if s := b.Stats(); s.Parked != 1 {
			t.Errorf("the other member: %+v", s)
		}
	})
}

// A member that drains gets neither new tasks nor the tasks of members that have ended.
func TestDrainingMemberIsOfferedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{}, untilDone), join(t, f, task.Options{}, untilDone)
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		c := join(t, f, task.Options{}, untilDone)
		drained(t, a.drain(t))
		if members := b.Members(); !members[0].Draining || members[1].Draining || a.Internals(boundary.Caller{}).Runs("tool") || !b.Internals(boundary.Caller{}).Runs("tool") {
			t.Errorf("members are %+v", members)
		}
		for range 30 {
			front.create(t, nil)
			c.create(t, nil)
		}
		for range 30 {
			a.create(t, nil) // as at a front end
		}
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a.runs.Load() != 0 || b.Stats().Running != 90 {
			t.Errorf("%d runs at the member that drains, %+v at the other", a.runs.Load(), b.Stats())
		}
		id := a.create(t, nil)
		if err := a.Internals(boundary.Caller{}).TakeOver(t.Context(), id); !errors.Is(err, taskrules.ErrNotMovable) {
			t.Errorf("taken over: %v", err)
		}
	})
}

func TestTwoMembersDrainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Running: 1}, Recovery: task.Recovery{ParkAfter: time.Second}}
		proceed := make(chan struct{})
		a, _ := joinBoth(t, f, cfg, proceed)
		b, _ := joinBoth(t, f, cfg, proceed)
		c, _ := joinBoth(t, f, task.Options{}, proceed)
		var ids []string
		for _, m := range []*member{a, b} {
			for range 20 {
				ids = append(ids, m.createAsking(t))
				time.Sleep(time.Minute)
			}
			m.create(t, nil) // runs
			for range 20 {
				ids = append(ids, m.create(t, nil))
			}
		}
		atOnce(t, func() {
			errs := make(chan error, 2)
			for _, m := range []*member{a, b} {
				go func() { errs <- m.Drain(t.Context()) }()
			}
			c.isHeld(t, c.Members()[2].ID, ids...)
			close(proceed)
			drained(t, errs)
			drained(t, errs)
			synctest.Wait()
		})
		if s := c.Stats(); s.Parked != 40 || s.Completed != 40 {
			t.Errorf("the third member: %+v", s)
		}
	})
}

// If no other member runs the tool, tasks stay where they are, and new ones run. The next member takes
// them over.
func TestLastMemberDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		cfg := task.Options{Limits: task.Limits{Running: 1}, Recovery: task.Recovery{ParkAfter: time.Second}}
		proceed := make(chan struct{})
		a, _ := joinBoth(t, f, cfg, proceed)
		other := join(t, f, task.Options{Member: task.Member{Tools: []string{"other"}}}, nil)
		parked := a.createAsking(t)
		time.Sleep(time.Minute)
		ids := []string{parked, a.create(t, nil), a.create(t, nil)}
		drained(t, other.drain(t))
		done := a.drain(t)
		ids = append(ids, a.create(t, nil))
		a.isHeld(t, a.Members()[0].ID, ids...)
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Drain returned %v", err)
		}
		if s := a.Stats(); s.Running != 1 || s.Queued != 2 || s.Parked != 1 {
			t.Errorf("after the drain: %+v", s)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		atOnce(t, func() {
			b, _ := joinBoth(t, f, task.Options{}, proceed)
			b.isHeld(t, b.Members()[1].ID, ids...)
			if s := b.Stats(); s.Running != 3 || s.Parked != 1 {
				t.Errorf("the next member: %+v", s)
			}
		})
	})
}

func TestCancellationDuringDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{Limits: task.Limits{Running: 1}}, untilDone), join(t, f, task.Options{Limits: task.Limits{Running: 1}}, untilDone)
		running, queued := a.create(t, nil), a.create(t, nil)
		atOnce(t, func() {
			done := a.drain(t)
			for _, id := range []string{running, queued} {
				if _, err := b.Cancel(t.Context(), "alice", id, nil); err != nil {
					t.Error(err)
				}
			}
			drained(t, done)
			synctest.Wait()
		})
		if s := b.Stats(); s.Running+s.Queued != 0 {
			t.Errorf("the other member: %+v", s)
		}
	})
}

// A member that has lost its lease while it drains still drains after it has joined again.
func TestDrainOutlastsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{}, untilDone), join(t, f, task.Options{}, untilDone)
		id := a.create(t, nil)
		done := a.drain(t)
		a.store.Cut()
		time.Sleep(task.DefaultLease + time.Second)
		a.store.Heal()
		drained(t, done)
		time.Sleep(time.Minute)
		members := b.Members()
		if len(members) != 2 || members[0].Draining || !members[1].Draining || a.runs.Load() != 1 {
			t.Errorf("members are %+v; %d runs", members, a.runs.Load())
		}
		b.isHeld(t, members[0].ID, id)
	})
}

// A task is handed over although the store fails, or has written although it reports a failure.
func TestHandOverOutlastsFailuresOfStore(t *testing.T) {
	for name, lost := range map[string]bool{"write fails": false, "acknowledgement is lost": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				cfg := task.Options{Limits: task.Limits{Running: 1}, Recovery: task.Recovery{ParkAfter: time.Second}}
				proceed := make(chan struct{})
				a, store := joinBoth(t, f, cfg, proceed)
				parked := a.createAsking(t)
				time.Sleep(time.Minute)
				running, queued := a.create(t, nil), a.create(t, nil)
				b, _ := joinBoth(t, f, task.Options{}, proceed)
				members := b.Members()
				var mu sync.Mutex
				until, writes := members[1].Joined.Add(3*time.Second), 0
				failure := errors.New("the store fails")
				fails := func(task.Record) error {
					mu.Lock()
					defer mu.Unlock()
					if time.Now().Before(until) {
						return failure
					}
					return nil
				}
				if lost {
					until = time.Time{}
					store.set(hooks{afterGet: fails, afterUpdate: func(r task.Record) error {
						mu.Lock()
						defer mu.Unlock()
						if writes++; writes > 2 {
							return nil
						}
						until = time.Now().Add(time.Second / 2) // nor can the write be confirmed
						return failure
					}})
				} else {
					store.set(hooks{afterGet: fails})
				}
				done := a.drain(t)
				time.Sleep(10 * time.Second)
				b.isHeld(t, members[1].ID, parked, queued)
				close(proceed)
				drained(t, done)
				if s := a.Stats(); s.Running+s.Queued+s.Parked != 0 || s.Completed != 1 {
					t.Errorf("the first member: %+v", s)
				}
				for _, id := range []string{running, queued} {
					result(t, b.Manager, id)
				}
			})
		})
	}
}

// Without a fleet, running work finishes, work that only waits is parked, and nothing moves.
func TestDrainWithoutFleet(t *testing.T) {
	proceed := make(chan struct{})
	runInBubble(t, task.Options{Recovery: task.Recovery{Recover: func(task.Record) task.Work { return asks }}}, func(t *testing.T, m *task.Manager) {
		proceed = make(chan struct{})
		running := start(t, m, func(context.Context, *task.Run) (codec.Encoder, error) {
			<-proceed
			return raw(`{"found":1}`), nil
		}).TaskID
		waiting := create(t, m, task.Request{Restartable: true, Work: asks}).TaskID
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { close(proceed) })
		if err := m.Drain(t.Context()); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("drained after %v: %v", time.Since(began), err)
		}
		if s := m.Stats(); s.Running != 0 || s.Parked != 1 || s.Completed != 1 || !m.Internals(boundary.Caller{}).Runs("tool") {
			t.Errorf("after the drain: %+v", s)
		}
		found(t, result(t, m, running))
		out, err := m.Result(t.Context(), "alice", waiting, answers(`"yes"`))
		if err != nil || found(t, out) != `"yes"` {
			t.Errorf("got %v, %v", out, err)
		}
	})
}

// A member that begins to drain while it takes tasks over leaves the rest to others.
func TestDrainEndsTakingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		dead := join(t, f, task.Options{}, untilDone)
		for range 20 {
			dead.create(t, nil)
		}
		a, store := joinRacing(t, f, task.Options{}, untilDone)
		seen := 0
		store.set(hooks{afterOrphan: func(task.Record) {
			if seen++; seen == 5 {
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				a.Drain(ended)
			}
		}})
		if err := dead.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := a.runs.Load(); n != 4 {
			t.Errorf("%d runs, want 4", n)
		}
		b := join(t, f, task.Options{}, untilDone)
		if n := b.runs.Load(); n != 16 {
			t.Errorf("%d runs at the next member, want 16", n)
		}
	})
}

// Tasks that a member is just taking over when it begins to drain move on if they wait for room.
func TestDrainHandsOverNewlyClaimedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		dead := join(t, f, task.Options{}, untilDone)
		for range 20 {
			dead.create(t, nil)
		}
		a, store := joinRacing(t, f, task.Options{Limits: task.Limits{Running: 1}}, untilDone)
		a.create(t, nil)
		b := join(t, f, task.Options{}, untilDone)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		drain := once(func() { a.Drain(ended) })
		store.set(hooks{afterUpdate: func(task.Record) error {
			drain()
			time.Sleep(time.Second) // everything that was queued before is handed over
			return nil
		}})
		if err := dead.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if s := a.Stats(); s.Queued != 0 || s.Running != 1 || b.Stats().Running != 20 {
			t.Errorf("%+v, and %+v at the other member", s, b.Stats())
		}
	})
}

// A task that is handed over is offered again if the offer was lost.
func TestHandedOverTaskIsOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, first := joinRacing(t, f, task.Options{Limits: task.Limits{Running: 1}}, untilDone)
		b, second := joinRacing(t, f, task.Options{}, untilDone)
		a.create(t, nil)
		id := a.create(t, nil)
		time.Sleep(time.Minute) // the members look for no tasks any longer
		lost := false
		first.set(hooks{offer: func() error {
			if !lost {
				lost = true
				return memory.ErrCut
			}
			return nil
		}})
		second.set(hooks{noOrphans: true})
		a.drain(t)
		time.Sleep(task.DefaultLease)
		if b.isHeld(t, b.Members()[1].ID, id); !lost {
			t.Error("no offer was lost")
		}
	})
}

// An offer of a member that does not know of the drain yet is declined.
func TestDrainingMemberDeclinesOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		store := &racingStore{FleetStore: f.Store()}
		var events fleets.Events
		store.set(hooks{afterJoin: func(e fleets.Events) { events = e }})
		a := newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return untilDone }}})
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		if err := a.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		id := front.create(t, nil)
		events.Offered(id)
		front.isHeld(t, "", id)
	})
}
