package task_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// hasNothingLeft checks that a member neither counts nor follows a task.
func (m *member) hasNothingLeft(t *testing.T) {
	t.Helper()
	if left := m.Leftovers(); len(left) > 0 {
		t.Errorf("left at the end: %q", left)
	}
}

// A front end counts and follows a task that it has left to others until the task has ended, also
// if the front end itself has cancelled it, or dropped it after its expiry.
func TestFrontEndForgetsItsTasks(t *testing.T) {
	cancel := func(t *testing.T, front *member, id string) {
		if _, err := front.Cancel(t.Context(), "alice", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	expire := func(*testing.T, *member, string) { time.Sleep(time.Hour) }
	for _, test := range []struct {
		name    string
		workers int
		end     func(*testing.T, *member, string)
	}{
		{"cancelled while a worker runs it", 1, cancel},
		{"cancelled while it waits for a worker", 0, cancel},
		{"expired while a worker runs it", 1, expire},
		{"expired while it waits for a worker", 0, expire},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				front := join(t, f, task.Options{Limits: task.Limits{Tasks: 1}, Member: task.Member{Tools: []string{}}}, nil)
				for range test.workers {
					join(t, f, task.Options{}, untilDone)
				}
				for range 20 { // each member drops some of the expired tasks
					id := front.create(t, nil)
					time.Sleep(time.Minute)
					test.end(t, front, id)
					time.Sleep(time.Minute)
				}
				front.hasNothingLeft(t)
			})
		})
	}
}

// One network of clients without a principal may have half of the tasks that a front end leaves to
// others for all of them.
func TestNetworksShareLimitsOfFrontEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := join(t, f, task.Options{Limits: task.Limits{Tasks: 4}, Member: task.Member{Tools: []string{}}}, nil)
		join(t, f, task.Options{}, untilDone)
		create := func(from string) error {
			_, err := front.Manager.Create(network.With(t.Context(), from), task.Request{Method: "tools/call", Name: "tool", Restartable: true, Work: untilDone})
			return err
		}
		for range 2 {
			first, second := create(networkOfEve), create(networkOfEve)
			third := create(networkOfEve)
			limited, ok := errors.AsType[*task.LimitError](third)
			if first != nil || second != nil || !ok || limited.Limit != 2 {
				t.Errorf("got %v, %v and %v, want a limit of 2", first, second, third)
			}
			if err := create(networkOfAnn); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Hour) // all expire
		}
		front.hasNothingLeft(t)
	})
}

// incapable is a requestor that supports no input requests.
type incapable struct{ *peer }

func (incapable) Supports(string) bool { return false }

// An input request fails if neither the waiter nor the creator supports it, also if a front end has
// left the task to a worker.
func TestFrontEndKnowsCreator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			_, err := run.Call(ctx, "elicitation/create", nil)
			return nil, err
		})
		p := incapable{new(peer)}
		id := front.create(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := front.Manager.Result(ctx, "alice", id, p)
		if err != nil || out.Error == nil || out.Error.Code != jsonrpc.CodeMethodNotFound {
			t.Errorf("got %v, %v", out.Error, err)
		}
	})
}

// sleeper is a process whose tool is removed and added again.
type sleeper struct {
	*member
	store *racingStore
	lacks atomic.Bool
}

// joinSleeper adds a member whose work sleeps some times, each for d.
func joinSleeper(t *testing.T, f *memory.Fleet, times int, d, parkAfter time.Duration) *sleeper {
	t.Helper()
	s := &sleeper{member: &member{store: f.Store()}}
	s.store = &racingStore{FleetStore: s.member.store}
	began := time.Now()
	s.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for n := range times {
			if err := run.Sleep(ctx, began.Add(time.Duration(n+1)*d)); err != nil {
				return nil, err
			}
		}
		return raw(`{}`), nil
	}
	s.Manager = newManager(t, task.Options{Store: s.store, Recovery: task.Recovery{
		ParkAfter: parkAfter,
		Recover: func(task.Record) task.Work {
			if s.lacks.Load() {
				return nil
			}
			return s.run
		},
	}})
	synctest.Wait()
	return s
}

// set removes the tool of the member, or adds it.
func (s *sleeper) set(lacks bool) {
	s.lacks.Store(lacks)
	if !lacks {
		s.ToolsChanged()
	}
}

// A member that hands the same task over twice forgets it once it has ended.
func TestMemberForgetsWhatItHandsOverTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		const minutes = 6
		a, b := joinSleeper(t, f, minutes, time.Minute, time.Second), joinSleeper(t, f, minutes, time.Minute, time.Second)
		id := a.create(t, nil)
		for n := range minutes {
			time.Sleep(30 * time.Second)
			a.set(n%2 == 0)
			b.set(n%2 == 1)
			time.Sleep(30 * time.Second)
		}
		time.Sleep(time.Minute)
		if got := get(t, b.Manager, id); got.Status != mcp.TaskStatusCompleted || a.runs.Load() < 3 || b.runs.Load() < 3 {
			t.Errorf("%s after %d and %d runs", got.Status, a.runs.Load(), b.runs.Load())
		}
		a.hasNothingLeft(t)
		b.hasNothingLeft(t)
	})
}

// A member that gives up a task which it holds without running it offers the task until another
// member claims it: offers may be lost.
func TestMemberOffersWhatItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := joinSleeper(t, f, 1, 20*time.Minute, -1)
		var ids []string
		for range 2 {
			ids = append(ids, a.create(t, nil))
		}
		b := joinSleeper(t, f, 1, 20*time.Minute, -1)
		time.Sleep(time.Minute + task.DefaultLease) // b has looked for tasks
		var lost atomic.Int64
		a.store.set(hooks{offer: func() error {
			if lost.Add(1) <= 2 {
				return memory.ErrCut
			}
			return nil
		}})
		a.set(true)
		for _, id := range ids {
			if err := a.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil { // ends its run
				t.Fatal(err)
			}
			time.Sleep(2*task.DefaultLease + time.Second) // b has looked for tasks because of what a is missing
		}
		time.Sleep(30 * time.Minute)
		for _, id := range ids {
			if got := get(t, b.Manager, id); got.Status != mcp.TaskStatusCompleted {
				t.Errorf("the task is %s, held by %v", got.Status, b.record(t, id).Claim)
			}
		}
		a.hasNothingLeft(t)
	})
}

// A task that a member begins to follow while it joins again is followed once.
func TestFollowWhileJoiningAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		worker := join(t, f, task.Options{}, untilDone)
		id := worker.create(t, nil)
		a := joinSleeper(t, f, 1, time.Minute, time.Second)
		a.lacks.Store(true)
		a.Internals(boundary.Caller{}).TakeOver(t.Context(), id) // fails, and announces what is missing
		var watch atomic.Pointer[taskrules.Watch[task.Record]]
		a.store.set(hooks{announce: once(func() {
			w, _, err := a.Internals(boundary.Caller{}).Watch(t.Context(), "alice", []string{id}, func(string) {})
			if err != nil {
				t.Error(err)
			}
			watch.Store(&w)
		})})
		a.member.store.Cut()
		time.Sleep(2 * task.DefaultLease)
		a.member.store.Heal()
		time.Sleep(time.Minute)
		if watch.Load() == nil {
			t.Fatal("nothing was announced")
		}
		(*watch.Load()).Close()
		a.store.mu.Lock()
		defer a.store.mu.Unlock()
		for _, followed := range a.store.followed {
			if followed == id {
				t.Error("the task is still followed")
			}
		}
	})
}
