package task_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// labelled returns the Options of a member with labels.
func labelled(labels ...string) task.Options {
	return task.Options{Member: task.Member{Labels: labels}, Recovery: task.Recovery{ParkAfter: time.Second}}
}

// createWith is create for a task that requires labels.
func (m *member) createWith(t *testing.T, labels ...string) string {
	t.Helper()
	return create(t, m.Manager, task.Request{Restartable: true, Work: m.run, Name: "tool", Labels: labels}).TaskID
}

// Wherever a task is created, it runs at the members with all labels that it requires, and is spread
// evenly over them. Tasks without labels run anywhere.
func TestTaskRunsAtMembersWithItsLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		none, some := join(t, f, labelled(), untilDone), join(t, f, labelled("gpu"), untilDone)
		other := join(t, f, task.Options{Member: task.Member{Labels: []string{"gpu", "region=eu"}, Tools: []string{"other"}}}, untilDone)
		a, b := join(t, f, labelled("region=eu", "gpu"), untilDone), join(t, f, labelled("gpu", "x", "region=eu"), untilDone)
		if none.Internals(boundary.Caller{}).Runs("tool", "gpu") || some.Internals(boundary.Caller{}).Runs("tool", "gpu", "region=eu") || !a.Internals(boundary.Caller{}).Runs("tool", "gpu", "region=eu") || !none.Internals(boundary.Caller{}).Runs("tool") {
			t.Error("Runs does not compare labels")
		}
		if none.Internals(boundary.Caller{}).Lacks("gpu") != "gpu" || some.Internals(boundary.Caller{}).Lacks("gpu", "region=eu") != "region=eu" || a.Internals(boundary.Caller{}).Lacks("gpu", "region=eu") != "" || none.Internals(boundary.Caller{}).Lacks() != "" {
			t.Error("Lacks does not compare labels")
		}
		var id string
		for range 30 {
			id = none.createWith(t, "region=eu", "gpu", "gpu")
			some.createWith(t, "region=eu", "gpu")
		}
		a.createWith(t, "gpu", "region=eu") // holds it itself
		none.createWith(t)
		synctest.Wait()
		if n := other.runs.Load() + some.runs.Load(); n != 0 || none.runs.Load() != 1 {
			t.Errorf("%d runs at members that lack a label or do not run the tool, %d at one that created a task without labels", n, none.runs.Load())
		}
		if n, m := a.runs.Load(), b.runs.Load(); n+m != 61 || n < 15 || m < 15 {
			t.Errorf("%d and %d runs at the members with the labels", n, m)
		}
		if r := b.record(t, id); !slices.Equal(r.Labels, []string{"gpu", "region=eu"}) {
			t.Errorf("the record has the labels %q", r.Labels)
		}
	})
}

// A task that no living member can run waits, also if its creator leaves, and starts at once when a
// member with its labels joins.
func TestTaskWaitsForMemberWithItsLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, labelled(), untilDone), join(t, f, labelled("cpu"), untilDone)
		id, second := a.createWith(t, "gpu"), a.createWith(t, "gpu")
		time.Sleep(time.Hour / 2)
		if _, err := b.Cancel(t.Context(), "alice", second, nil); err != nil {
			t.Error(err)
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		b.isHeld(t, "", id)
		if n := a.runs.Load() + b.runs.Load(); n != 0 {
			t.Fatalf("%d runs", n)
		}
		atOnce(t, func() {
			c := join(t, f, labelled("gpu"), returns(`{"found":1}`))
			if got := found(t, result(t, b.Manager, id)); got != "1" || c.runs.Load() != 1 {
				t.Errorf("found %s in %d runs", got, c.runs.Load())
			}
		})
	})
}

// readsStore is a FleetStore that counts reads of records.
type readsStore struct {
	*memory.FleetStore
	reads atomic.Int64
}

func (s *readsStore) Get(ctx context.Context, id string) (task.Record, error) {
	s.reads.Add(1)
	return s.FleetStore.Get(ctx, id)
}

// A task that no member can run costs its creator no reads and no log lines while it waits, and is
// offered again once a member that can run it has joined.
func TestTaskWithoutMemberIsNotPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		var log bytes.Buffer
		cfg := labelled()
		store := &readsStore{FleetStore: f.Store()}
		cfg.Store, cfg.Logger = store, slog.New(slog.NewTextHandler(&log, nil))
		m := newManager(t, cfg)
		id := create(t, m, task.Request{Restartable: true, Work: untilDone, Name: "tool", Labels: []string{"gpu"}}).TaskID
		synctest.Wait()
		before := store.reads.Load()
		time.Sleep(time.Hour / 2)
		synctest.Wait()
		if n, lines := store.reads.Load()-before, strings.Count(log.String(), "no member runs the tool"); n != 0 || lines != 1 {
			t.Errorf("%d reads while the task waits, logged %d times", n, lines)
		}
		offered := make(chan string, 10)
		gpu, err := f.Store().Join(t.Context(), task.Member{Labels: []string{"gpu"}}, fleets.Events{
			Departed: func() {}, Shared: func(string) {}, Offered: func(id string) { offered <- id },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer gpu.Leave(t.Context())
		for range 2 {
			if got := <-offered; got != id {
				t.Errorf("offered %q", got)
			}
		}
	})
}

// The tasks of a member that has died are taken over by a member with their labels alone, and wait for
// one. Running and parked tasks keep their labels.
func TestTaskIsTakenOverByMemberWithItsLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		proceed := make(chan struct{})
		a, _ := joinBoth(t, f, labelled("gpu"), proceed)
		b, _ := joinBoth(t, f, labelled("cpu"), proceed)
		ids := []string{create(t, a.Manager, task.Request{Restartable: true, Work: asks, Version: "asks", Labels: []string{"gpu"}}).TaskID}
		time.Sleep(time.Minute)
		for range 10 {
			ids = append(ids, a.createWith(t, "gpu"))
		}
		plain := a.createWith(t)
		synctest.Wait()
		a.cut(t)
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if r := b.record(t, id); r.Claim.Epoch != 1 || r.Durable.Parked != (id == ids[0]) {
				t.Errorf("claim %+v, parked %t", r.Claim, r.Durable.Parked)
			}
		}
		b.isHeld(t, b.Members()[0].ID, plain)
		atOnce(t, func() {
			c, _ := joinBoth(t, f, labelled("gpu"), proceed)
			c.isHeld(t, c.Members()[1].ID, ids...)
			close(proceed)
			for _, id := range append(ids[1:], plain) {
				if got := found(t, result(t, c.Manager, id)); got != "1" {
					t.Errorf("found %s entries", got)
				}
			}
			out, err := c.Result(t.Context(), "alice", ids[0], answers(`"yes"`))
			if err != nil || found(t, out) != `"yes"` {
				t.Errorf("got %v, %v", out, err)
			}
		})
	})
}

// A member that drains hands tasks over to members with their labels alone.
func TestDrainHandsOverToMemberWithLabels(t *testing.T) {
	for name, limits := range map[string]task.Options{"running": {Limits: task.Limits{Running: 1}}, "tool": {Limits: task.Limits{Tool: limitTo("tool", 1)}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				proceed := make(chan struct{})
				join := func(labels ...string) *member {
					cfg := limits
					cfg.Member.Labels, cfg.Recovery.ParkAfter = labels, time.Second
					m, _ := joinBoth(t, f, cfg, proceed)
					return m
				}
				first := join("gpu", "cpu")
				parked, queued := map[string]string{}, map[string]string{}
				for _, label := range []string{"gpu", "cpu"} {
					parked[label] = create(t, first.Manager, task.Request{Restartable: true, Work: asks, Version: "asks", Name: "tool", Labels: []string{label}}).TaskID
					time.Sleep(time.Minute)
				}
				running := first.createWith(t, "cpu")
				for _, label := range []string{"gpu", "cpu"} {
					queued[label] = first.createWith(t, label)
				}
				cpu := join("cpu")
				members := first.Members()
				var done <-chan error
				atOnce(t, func() { done = first.drain(t) })
				cpu.isHeld(t, members[0].ID, running, parked["gpu"], queued["gpu"])
				cpu.isHeld(t, members[1].ID, parked["cpu"], queued["cpu"])
				if first.Internals(boundary.Caller{}).Runs("tool", "cpu") || !first.Internals(boundary.Caller{}).Runs("tool", "gpu") {
					t.Error("new tasks go to the wrong member")
				}
				late := first.createWith(t, "gpu") // stays, because no other member can run it
				cpu.isHeld(t, members[0].ID, late)
				close(proceed)
				drained(t, done)
				if err := first.Close(t.Context()); err != nil {
					t.Error(err)
				}
				gpu := join("gpu")
				gpu.isHeld(t, gpu.Members()[1].ID, parked["gpu"])
				for _, id := range []string{running, queued["gpu"], queued["cpu"], late} {
					found(t, result(t, gpu.Manager, id))
				}
			})
		})
	}
}

// A member that drains runs a task that it holds without a run, unless another member has its labels.
func TestDrainingMemberKeepsTaskWhoseLabelsOthersLack(t *testing.T) {
	for label, runs := range map[string][2]int64{"gpu": {1, 0}, "cpu": {0, 1}} {
		t.Run(label, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				first := join(t, f, labelled("gpu", "cpu"), untilDone)
				id := first.createWith(t, label)
				a := &member{store: f.Store(), work: returns(`{"found":1}`)}
				lose := new(atomic.Bool)
				cfg := labelled("gpu", "cpu")
				cfg.Store, cfg.Recovery.Recover = &unackedStore{FleetStore: a.store, lose: lose}, func(task.Record) task.Work { return a.run }
				a.Manager = newManager(t, cfg)
				time.Sleep(time.Minute) // until it does not look for tasks by itself
				lose.Store(true)
				first.cut(t)
				time.Sleep(task.DefaultLease + time.Second) // a holds the task now, and does not know it
				b := join(t, f, labelled("cpu"), returns(`{"found":1}`))
				b.isHeld(t, b.Members()[0].ID, id)
				drained(t, a.drain(t))
				found(t, result(t, b.Manager, id))
				if got := [2]int64{a.runs.Load(), b.runs.Load()}; got != runs {
					t.Errorf("%d runs at the members, want %d", got, runs)
				}
			})
		})
	}
}

// A member does not take a task whose labels it lacks, even if it is offered, or if an operator
// wants it.
func TestMemberRefusesTaskWhoseLabelsItLacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, labelled("cpu"), untilDone), join(t, f, labelled("gpu"), untilDone)
		held := b.createWith(t, "gpu")
		waits := a.createWith(t, "gpu", "region=eu")
		sender, err := f.Store().Join(t.Context(), task.Member{Tools: []string{}}, fleets.Events{Departed: func() {}, Offered: func(string) {}, Shared: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Leave(t.Context())
		for _, m := range a.Members() {
			if err := sender.Offer(t.Context(), m.ID, waits); err != nil {
				t.Error(err)
			}
		}
		a.isHeld(t, "", waits)
		for id, missing := range map[string]string{held: "gpu", waits: "gpu"} {
			if err := a.Internals(boundary.Caller{}).TakeOver(t.Context(), id); !errors.Is(err, taskrules.ErrNotMovable) || !strings.HasSuffix(err.Error(), fmt.Sprintf("does not have the label %q", missing)) {
				t.Errorf("taken over: %v", err)
			}
		}
		a.isHeld(t, b.Members()[1].ID, held)
		if n := a.runs.Load(); n != 0 {
			t.Errorf("%d runs", n)
		}
	})
}

// The limit of a tool holds for all of its tasks, whatever labels they require, and those that wait for
// a label use nothing of it.
func TestToolLimitHoldsAcrossLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		g := newGauge()
		cfg := func(labels ...string) task.Options {
			cfg := labelled(labels...)
			cfg.Limits.Tool = limitTo("tool", 1)
			return cfg
		}
		a, b := join(t, f, cfg("gpu"), g.lasts("a", time.Second)), join(t, f, cfg("cpu"), g.lasts("b", time.Second))
		var ids []string
		for range 10 {
			ids = append(ids, b.createWith(t, "gpu"), a.createWith(t, "cpu"), b.createWith(t))
		}
		waits := a.createWith(t, "tpu")
		for _, id := range ids {
			result(t, a.Manager, id)
		}
		if a.runs.Load() != 10 || b.runs.Load() != 20 || g.greatest != 1 {
			t.Errorf("%d and %d runs, %d at once", a.runs.Load(), b.runs.Load(), g.greatest)
		}
		a.isHeld(t, "", waits)
	})
}

// Labels have no effect on other stores, which keep them.
func TestLabelsWithoutFleet(t *testing.T) {
	store := memory.New()
	runInBubble(t, task.Options{Store: store}, func(t *testing.T, m *task.Manager) {
		id := create(t, m, task.Request{Restartable: true, Work: returns(`{"found":1}`), Labels: []string{"gpu"}}).TaskID
		found(t, result(t, m, id))
		if r, err := store.Get(t.Context(), id); err != nil || !slices.Equal(r.Labels, []string{"gpu"}) {
			t.Errorf("the record has the labels %q, %v", r.Labels, err)
		}
		if !m.Internals(boundary.Caller{}).Runs("tool", "gpu") || m.Internals(boundary.Caller{}).Lacks("gpu") != "" {
			t.Error("the labels have an effect")
		}
		plain := create(t, m, task.Request{Restartable: true, Work: returns(`{"found":1}`)}).TaskID
		found(t, result(t, m, plain))
		with, _ := store.Get(t.Context(), id)
		if without, err := store.Get(t.Context(), plain); err != nil || with.Bytes <= without.Bytes {
			t.Errorf("a task takes %d bytes with a label, %d without; %v", with.Bytes, without.Bytes, err)
		}
	})
}

func TestInvalidLabels(t *testing.T) {
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprint("x", i))
	}
	for want, labels := range map[string][]string{
		`label "": want 1 to 128 ASCII letters, digits and characters of "-_.:/="`: {"gpu", ""},
		`label "g pu": want`: {"g pu"},
		`label "a,b": want`:  {"a,b"},
		`label "ü": want`:    {"ü"},
		`label "` + strings.Repeat("x", 128) + `…": want`: {strings.Repeat("x", 129)},
		`17 labels (must be at most 16)`:                  many,
	} {
		if _, err := taskrules.LabelSet(labels); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		_, err := task.New(t.Context(), task.Options{Store: memory.New(), Member: task.Member{Labels: labels}})
		if err == nil || !strings.HasPrefix(err.Error(), "task: Member.Labels: "+want) {
			t.Errorf("got %v, want %s", err, want)
		}
		runInBubble(t, task.Options{}, func(t *testing.T, m *task.Manager) {
			_, err := m.Create(t.Context(), task.Request{Work: returns(`{}`), Restartable: true, Labels: labels})
			if err == nil || !strings.HasPrefix(err.Error(), "task: create: "+want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	if _, err := taskrules.LabelSet(slices.Concat(many[:14], []string{"x0", strings.Repeat("x", 128), "aZ0-_.:/="})); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) {
		m := join(t, memory.NewFleet(), labelled("cpu"), untilDone)
		for want, q := range map[string]task.Request{
			`task: create: Labels need Restartable`:                                               {},
			`task: create: the process in which the work has begun does not have the label "gpu"`: {Restartable: true, Begun: true},
		} {
			q.Work, q.Labels = m.run, []string{"cpu", "gpu"}
			_, err := m.Create(t.Context(), q)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			wire := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the request cannot become a task"}
			checkEqual(t, "wire error", wire, task.WireError(err)) // it does not say that the request may succeed later
		}
		if m.runs.Load() != 0 {
			t.Error("work runs")
		}
	})
}
