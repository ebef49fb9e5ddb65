package contracttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Fleet is the implementation of a shared [task.Store] under test.
type Fleet struct {
	// Open returns n stores with the same records, as n processes would open them, and registers
	// their cleanup with t. They have no records and no members.
	Open func(t *testing.T, n int) []task.Store
	// Cut cuts a store off from the other stores until heal is called.
	Cut func(t *testing.T, s task.Store) (heal func())
	// LoseAcknowledgements makes the calls of a store time out, although its writes happen and
	// announcements arrive, until end is called. It is nil if that cannot happen.
	LoseAcknowledgements func(t *testing.T, s task.Store) (end func())
	// InMemory runs each subtest in its own [synctest] bubble.
	InMemory bool
}

// RunFleet tests the contract of shared stores, without what [Run] tests.
func RunFleet(t *testing.T, fleet Fleet) {
	for _, tt := range []struct {
		name string
		test func(*testing.T, Fleet)
	}{
		{"members join and leave", membersJoin},
		{"a member drains", memberDrains},
		{"a member announces what it is missing", missingAnnounced},
		{"members report their load", loadReported},
		{"members respond to a query", queries},
		{"a lease ends", leaseEnds},
		{"changes by other members are reported", changesReported},
		{"changes during a lost connection are reported", changesWhileCut},
		{"changes by failed writes are reported", failedWriteReported},
		{"messages arrive in order", messagesInOrder},
		{"tasks are offered to one member", offers},
		{"tasks without a living holder are orphans", orphans},
		{"orphans are found among other tasks", orphansAmongOthers},
		{"a late claim is found", lateClaim},
		{"a closed store has no members", closedFleet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if fleet.InMemory {
				synctest.Test(t, func(t *testing.T) { tt.test(t, fleet) })
			} else {
				tt.test(t, fleet)
			}
		})
	}
}

// member is a member of a fleet. Its channels have room for everything that is reported.
type member struct {
	fleets.Membership[task.Member, task.Record]
	store    task.Store
	departed chan struct{}
	offered  chan string
}

func join(t *testing.T, s task.Store, m task.Member) *member {
	t.Helper()
	joined := &member{store: s, departed: make(chan struct{}, 10_000), offered: make(chan string, 10_000)}
	var err error
	joined.Membership, err = s.Join(t.Context(), m, fleets.Events{
		Departed: func() { joined.departed <- struct{}{} }, Offered: func(id string) { joined.offered <- id },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { joined.Leave(context.Background()) })
	return joined
}

// joinAll opens n stores and joins with each of them.
func joinAll(t *testing.T, fleet Fleet, n int) (members []*member) {
	t.Helper()
	for i, s := range fleet.Open(t, n) {
		members = append(members, join(t, s, task.Member{Name: fmt.Sprint("member ", i), Lease: time.Minute}))
	}
	return members
}

// patience bounds all waits. Only a test that fails reaches it.
const patience = 2 * time.Minute

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// receive waits for a value of a channel, or for its end.
func receive[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value = <-from:
	case <-timer.C:
		t.Fatalf("waited in vain until %s", what)
	}
	return value
}

// reach repeats send until a message arrives: messages to a member may be lost until the servers
// have its subscriptions. It returns once no more of these messages can arrive.
func reach(t *testing.T, what string, arrived <-chan string, send func(message string)) {
	t.Helper()
	n := 0
	eventually(t, what, func() bool {
		n++
		send(fmt.Sprint("attempt ", n))
		return len(arrived) > 0
	})
	for last := fmt.Sprint("attempt ", n); receive(t, what, arrived) != last; {
	}
}

// lives reports whether a member is alive according to another member.
func (m *member) lives(t *testing.T, other *member) bool {
	t.Helper()
	alive, err := m.Alive(t.Context(), other.Self().ID)
	if err != nil {
		t.Fatal(err)
	}
	return alive
}

// settle returns once the changes of a task are reported to a member that follows it. In a cluster,
// the subscription of the member arrives at other servers a moment later, but before a read of the
// record that follows it.
func (m *member) settle(t *testing.T, id string) {
	t.Helper()
	get(t, m.store, id)
}

// lists reports whether a member is in the list of another member.
func (m *member) lists(other *member) bool {
	return slices.ContainsFunc(m.Members(), func(each task.Member) bool { return each.ID == other.Self().ID })
}

func membersJoin(t *testing.T, fleet Fleet) {
	stores := fleet.Open(t, 2)
	a := join(t, stores[0], task.Member{})
	if self := a.Self(); self.ID == "" || self.Name == "" || self.Tools != nil || self.Labels != nil || self.Lease != task.DefaultLease || self.Joined.IsZero() {
		t.Errorf("joined as %+v", self)
	}
	labels := []string{"gpu", "region=eu"}
	b := join(t, stores[1], task.Member{Name: "b", Tools: []string{"x", "y"}, Labels: labels, Lease: time.Minute})
	if !b.lists(a) {
		t.Error("the second member does not know the first")
	}
	eventually(t, "the first member knew the second", func() bool { return a.lists(b) })
	for _, m := range append(a.Members(), b.Self()) {
		if m.ID == b.Self().ID && (m.Name != "b" || !slices.Equal(m.Tools, []string{"x", "y"}) || !slices.Equal(m.Labels, labels) || m.Lease != time.Minute) {
			t.Errorf("the second member is %+v", m)
		}
	}
	if !slices.IsSortedFunc(a.Members(), func(a, b task.Member) int { return strings.Compare(a.ID, b.ID) }) || len(a.Members()) != 2 {
		t.Errorf("members are %v", a.Members())
	}
	if !a.lives(t, b) || !b.lives(t, a) || !a.lives(t, a) {
		t.Error("a member is dead")
	}
	for _, id := range []string{"", "other", "*", "a.b"} {
		if alive, err := a.Alive(t.Context(), id); alive || err != nil {
			t.Errorf("member %q: %v, %v", id, alive, err)
		}
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, "the departure was reported", a.departed)
	if a.lists(b) || a.lives(t, b) {
		t.Error("the second member is alive after it has left")
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Errorf("left again: %v", err)
	}
	c := join(t, stores[1], task.Member{Name: "b"})
	if c.Self().ID == b.Self().ID || a.lives(t, b) || !a.lives(t, c) {
		t.Error("a member came back")
	}
}

func memberDrains(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	draining := func(list []task.Member, of *member) bool {
		return slices.ContainsFunc(list, func(m task.Member) bool { return m.ID == of.Self().ID && m.Draining })
	}
	eventually(t, "the first member knew the second", func() bool { return a.lists(b) })
	if a.Self().Draining || draining(a.Members(), b) {
		t.Error("a member drains from the start")
	}
	b.Drain()
	b.Drain()
	if !b.Self().Draining || !draining(b.Members(), b) {
		t.Errorf("the member that drains is %+v", b.Self())
	}
	eventually(t, "the first member knew that the second drains", func() bool { return draining(a.Members(), b) })
	receive(t, "the draining was reported", a.departed)
	if !a.lives(t, b) || draining(b.Members(), a) {
		t.Error("the second member is dead, or the first one drains")
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := join(t, b.store, task.Member{Draining: true})
	if c.Self().Draining {
		t.Error("a member drains that has just joined")
	}
}

func missingAnnounced(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	missing := func(list []task.Member, of *member) []fleets.Missing {
		for _, m := range list {
			if m.ID == of.Self().ID {
				return m.Missing
			}
		}
		return nil
	}
	eventually(t, "the first member knew the second", func() bool { return a.lists(b) })
	for _, want := range [][]fleets.Missing{
		{{Tool: "x", All: true}},
		{{Tool: "x", All: true}, {Tool: "y", Version: "1"}, {Tool: "y"}},
		nil,
		{{Tool: "z", Version: "2"}},
	} {
		b.Announce(want)
		if got := b.Self().Missing; !slices.Equal(got, want) || !slices.Equal(missing(b.Members(), b), want) {
			t.Errorf("announced %v, got %v", want, got)
		}
		eventually(t, "the first member knew the announcement", func() bool { return slices.Equal(missing(a.Members(), b), want) })
		receive(t, "the announcement was reported", a.departed)
		if !a.lives(t, b) || len(missing(b.Members(), a)) > 0 {
			t.Error("the second member is dead, or the first one is missing something")
		}
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := join(t, b.store, task.Member{Missing: []fleets.Missing{{Tool: "x"}}})
	if len(c.Self().Missing) > 0 {
		t.Error("a member that has just joined is missing something")
	}
}

func loadReported(t *testing.T, fleet Fleet) {
	stores := fleet.Open(t, 2)
	var running atomic.Int64
	running.Store(1)
	a := join(t, stores[0], task.Member{Lease: time.Minute})
	begun := time.Now()
	b, err := stores[1].Join(t.Context(), task.Member{Lease: 2 * time.Second}, fleets.Events{
		Departed: func() {}, Offered: func(string) {},
		Load: func() fleets.Load { return fleets.Load{Running: int(running.Load()), Queued: 2, Parked: 3} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Leave(context.Background()) })
	// find returns the second member as a member lists it.
	find := func(list []task.Member) (found task.Member) {
		for _, m := range list {
			if m.ID == b.Self().ID {
				found = m
			}
			if m.ID == a.Self().ID && (m.Load != fleets.Load{} || m.Heard.IsZero()) {
				t.Errorf("the member without load is %+v", m)
			}
		}
		return found
	}
	eventually(t, "the first member knew the second", func() bool { return find(a.Members()).ID != "" })
	// The clocks of members and stores differ a little.
	if m := find(a.Members()); m.Load != (fleets.Load{Running: 1, Queued: 2, Parked: 3}) || m.Heard.Before(begun.Add(-time.Second)) || m.Heard.After(time.Now()) {
		t.Errorf("the second member is %+v", m)
	}
	if m := find(b.Members()); m.Load.Queued != 2 || m.Heard.IsZero() {
		t.Errorf("the second member is %+v to itself", m)
	}
	changed := time.Now()
	running.Store(10)
	eventually(t, "the first member knew the new load", func() bool { return find(a.Members()).Load.Running == 10 })
	if m := find(a.Members()); m.Heard.Before(changed) {
		t.Errorf("the second member was heard at %v, and has changed at %v", m.Heard, changed)
	}
	fleet.Cut(t, stores[1])
	eventually(t, "the first member had not heard from the second for a second, or had found it dead", func() bool {
		m := find(a.Members())
		return m.ID == "" || time.Since(m.Heard) > time.Second
	})
	<-a.departed
}

func queries(t *testing.T, fleet Fleet) {
	stores := fleet.Open(t, 4)
	a := join(t, stores[0], task.Member{Lease: time.Minute})
	var ids []string
	for i, s := range stores[1:] {
		var respond func([]byte) []byte
		if i < 2 {
			respond = func(request []byte) []byte { return fmt.Appendf(nil, "%s to %d", request, i) }
		}
		m, err := s.Join(t.Context(), task.Member{Lease: time.Minute}, fleets.Events{
			Departed: func() {}, Offered: func(id string) { t.Errorf("%q was offered", id) }, Queried: respond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Leave(context.Background()) })
		ids = append(ids, m.Self().ID)
	}
	eventually(t, "the first member knew the others", func() bool { return len(a.Members()) == 4 })
	// check queries until all of the given responses arrive, because messages may be lost.
	check := func(want map[string]string) {
		t.Helper()
		eventually(t, "all members responded", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			responses, err := a.Query(ctx, []byte("request"))
			if err != nil {
				t.Fatal(err)
			}
			for id, data := range responses {
				if text, ok := want[id]; !ok || text != string(data) {
					t.Errorf("member %s of %v responded with %q", id, ids, data)
				}
			}
			return len(responses) == len(want)
		})
	}
	check(map[string]string{ids[0]: "request to 0", ids[1]: "request to 1", ids[2]: ""})
	heal := fleet.Cut(t, stores[1])
	check(map[string]string{ids[1]: "request to 1", ids[2]: ""})
	heal()
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := a.Query(ended, nil); err != nil {
		t.Errorf("query with an ended context: %v", err)
	}
	a.store.Close()
	_, err := a.Query(t.Context(), nil)
	fails(t, "query of a closed store", task.ErrClosed, err)
}

func leaseEnds(t *testing.T, fleet Fleet) {
	stores := fleet.Open(t, 2)
	a := join(t, stores[0], task.Member{Lease: time.Minute})
	b := join(t, stores[1], task.Member{Lease: 2 * time.Second})
	eventually(t, "the first member knew the second", func() bool { return a.lists(b) })
	create(t, stores[1], held("x", b))
	heal := fleet.Cut(t, stores[1])
	receive(t, "the lease ended", b.Expired())
	receive(t, "the end of the lease was reported", a.departed)
	if a.lists(b) || a.lives(t, b) {
		t.Error("the second member is alive after its lease has ended")
	}
	equal(t, "orphans", []string{"x"}, a.orphans(t))
	heal()
	var again *member
	eventually(t, "the second member joined again", func() bool {
		membership, err := stores[1].Join(t.Context(), task.Member{}, fleets.Events{Departed: func() {}, Offered: func(string) {}})
		again = &member{Membership: membership, store: stores[1]}
		return err == nil
	})
	if a.lives(t, b) || !a.lives(t, again) || again.Self().ID == b.Self().ID {
		t.Error("a member came back")
	}
	equal(t, "orphans", []string{"x"}, again.orphans(t))
	again.Leave(t.Context())
}

// follower returns callbacks that write to channels.
func follower() (changed chan struct{}, messages chan string, f fleets.Follower) {
	changed, messages = make(chan struct{}, 10_000), make(chan string, 10_000)
	return changed, messages, fleets.Follower{
		Changed: func() { changed <- struct{}{} }, Message: func(data []byte) { messages <- string(data) },
	}
}

func changesReported(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	r := plain("x", "o")
	r.TTL = time.Hour
	r = create(t, a.store, r)
	changedA, _, fa := follower()
	changedB, _, fb := follower()
	defer a.Follow("x", fa)()
	stop := b.Follow("x", fb)
	second, _, fb2 := follower()
	stop2 := b.Follow("x", fb2)
	b.settle(t, "x")
	r = update(t, a.store, r)
	receive(t, "the change was reported", changedB)
	receive(t, "the change was reported again", second)
	stop2()
	r = update(t, b.store, r)
	receive(t, "the change of the other member was reported", changedA)
	if len(changedA) > 0 || len(changedB) > 0 {
		t.Error("a member received a hint of its own change")
	}
	update(t, a.store, r)
	receive(t, "the second change was reported", changedB)
	if len(second) > 0 {
		t.Error("a change was reported after the end of Follow")
	}
	if dropped, _, err := a.store.Sweep(t.Context(), start.Add(2*time.Hour), 10); err != nil || len(dropped) != 1 {
		t.Fatalf("%d tasks dropped, %v", len(dropped), err)
	}
	receive(t, "the drop was reported", changedB)
	stop()
	stop()
}

func changesWhileCut(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	r := create(t, a.store, plain("x", "o"))
	changed, _, f := follower()
	defer b.Follow("x", f)()
	b.settle(t, "x")
	heal := fleet.Cut(t, b.store)
	for len(changed) > 0 {
		<-changed
	}
	update(t, a.store, r)
	heal()
	receive(t, "the change was reported", changed)
	receive(t, "departures were reported", b.departed)
	eventually(t, "the change was read", func() bool {
		r, err := b.store.Get(t.Context(), "x")
		return err == nil && r.Revision == 2
	})
}

func failedWriteReported(t *testing.T, fleet Fleet) {
	if fleet.LoseAcknowledgements == nil {
		t.Skip("writes that happen are acknowledged")
	}
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	r := create(t, a.store, plain("x", "o"))
	changed, _, f := follower()
	defer a.Follow("x", f)()
	changedB, _, fb := follower()
	defer b.Follow("x", fb)()
	a.settle(t, "x")
	b.settle(t, "x")
	end := fleet.LoseAcknowledgements(t, a.store)
	// On a slow machine, the time of an update may end before its write is sent. Servers may lose the
	// announcement of the write, which the store finds later.
	attempts := 0
	for timeout := 100 * time.Millisecond; len(changedB) == 0 && timeout < 10*time.Second; timeout *= 2 {
		attempts++
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		_, err := a.store.Update(ctx, r)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, task.ErrConflict) { // with the write of an earlier update
			t.Fatalf("the update returned %v", err)
		}
	}
	end()
	receive(t, "the write had happened", changedB)
	receive(t, "the write that has failed was reported", changed)
	for {
		r, err := a.store.Get(t.Context(), "x")
		if err == nil && r.Revision == 2 {
			break
		}
		receive(t, "the write was reported once it had happened", changed)
	}
	r = get(t, a.store, "x")
	update(t, a.store, r)
	receive(t, "the next write was reported", changedB)
	if len(changed) > attempts {
		t.Errorf("%d reports of %d writes", len(changed), attempts)
	}
}

func messagesInOrder(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 3)
	a, b, c := members[0], members[1], members[2]
	create(t, a.store, plain("x", "o"))
	_, own, fa := follower()
	_, messages, fb := follower()
	_, others, fc := follower()
	defer a.Follow("x", fa)()
	stop := b.Follow("x", fb)
	defer b.Follow("x", fleets.Follower{Changed: func() {}})()
	defer c.Follow("y", fc)()
	send := func(id string) func(string) {
		return func(message string) {
			t.Helper()
			if err := a.Send(t.Context(), id, []byte(message)); err != nil {
				t.Fatal(err)
			}
		}
	}
	reach(t, "a message arrived", messages, send("x"))
	const n = 100
	for i := range n {
		send("x")(fmt.Sprint(i))
	}
	for i := range n {
		if got := receive(t, "the message arrived", messages); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, got)
		}
	}
	stop()
	defer b.Follow("z", fb)()
	reach(t, "a message of the other task arrived", messages, send("z"))
	send("x")("late")
	send("z")("last")
	if got := receive(t, "the last message arrived", messages); got != "last" || len(own) > 0 || len(others) > 0 {
		t.Errorf("got %q, %d own messages, %d of other tasks", got, len(own), len(others))
	}
}

func offers(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 3)
	a, b, c := members[0], members[1], members[2]
	offer := func(to *member) func(string) {
		return func(id string) {
			t.Helper()
			if err := a.Offer(t.Context(), to.Self().ID, id); err != nil {
				t.Fatal(err)
			}
		}
	}
	reach(t, "an offer arrived", b.offered, offer(b))
	for _, id := range []string{"x", "an id with spaces"} {
		offer(b)(id)
		if got := receive(t, "the offer arrived", b.offered); got != id {
			t.Errorf("offered %q", got)
		}
	}
	offer(a)("own")
	if got := receive(t, "the own offer arrived", a.offered); got != "own" {
		t.Errorf("offered %q", got)
	}
	b.Leave(t.Context())
	a.Offer(t.Context(), b.Self().ID, "lost") // must not block
	if len(c.offered) > 0 {
		t.Error("a task was offered to another member")
	}
}

// held returns a record that a member holds.
func held(id string, m *member) task.Record {
	r := plain(id, "o")
	if m != nil {
		r.Claim = task.Claim{Member: m.Self().ID, Epoch: 1}
	}
	return r
}

// orphans returns the ids of the orphans in ascending order, each as often as it is yielded.
func (m *member) orphans(t *testing.T) (ids []string) {
	t.Helper()
	for r, err := range m.Orphans(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Params != nil || r.Result != nil || r.Error != nil || r.InputRequests != nil {
			t.Errorf("task %q has payloads", r.ID)
		}
		if labelled := r.ID == "unclaimed"; labelled != slices.Equal(r.Labels, []string{"gpu"}) {
			t.Errorf("task %q has labels %q", r.ID, r.Labels)
		}
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// claim makes a member hold a task.
func (m *member) claim(t *testing.T, id string) task.Record {
	t.Helper()
	r := get(t, m.store, id)
	r.Claim = task.Claim{Member: m.Self().ID, Epoch: r.Claim.Epoch + 1}
	return update(t, m.store, r)
}

// end moves a task to a status.
func (m *member) end(t *testing.T, id string, status mcp.TaskStatus) {
	t.Helper()
	r := get(t, m.store, id)
	r.Status = status
	update(t, m.store, r)
}

func orphans(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 3)
	a, b, c := members[0], members[1], members[2]
	equal(t, "orphans of an empty store", []string(nil), b.orphans(t))
	unclaimed := held("unclaimed", nil)
	unclaimed.Labels = []string{"gpu"}
	create(t, a.store, unclaimed)
	for _, id := range []string{"working", "asking", "completed", "failed", "cancelled", "job", "asks and ends", "moved", "expires"} {
		r := held(id, a)
		r.Params, r.TTL = []byte(`{}`), 10*time.Hour
		switch id {
		case "job", "completed":
			r.Job, r.Runner = "j", "runner"
		case "expires":
			r.TTL = time.Hour
		case "asking":
			r.Status = mcp.TaskStatusInputRequired
		}
		create(t, a.store, r)
	}
	a.end(t, "completed", mcp.TaskStatusCompleted)
	a.end(t, "failed", mcp.TaskStatusFailed)
	b.end(t, "cancelled", mcp.TaskStatusCancelled)
	b.end(t, "job", mcp.TaskStatusCancelled)
	b.end(t, "asks and ends", mcp.TaskStatusInputRequired)
	b.claim(t, "moved")
	ended := held("created at its end", a)
	ended.Status = mcp.TaskStatusCompleted
	create(t, a.store, ended)
	equal(t, "orphans while all members live", []string{"unclaimed"}, b.orphans(t))
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, "the departure was reported", b.departed)
	receive(t, "the departure was reported to the third member", c.departed)
	left := []string{"asking", "asks and ends", "expires", "job", "unclaimed", "working"}
	for range 2 { // what was found is found again until it is claimed
		equal(t, "orphans after a member has left", left, b.orphans(t))
	}
	equal(t, "orphans at another member", left, c.orphans(t))
	for range b.Orphans(t.Context()) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range b.Orphans(ctx) {
		fails(t, "orphans with an ended context", context.Canceled, err)
	}
	b.claim(t, "asking")
	b.end(t, "asks and ends", mcp.TaskStatusCompleted)
	b.claim(t, "unclaimed")
	c.claim(t, "working")
	if _, _, err := c.store.Sweep(t.Context(), start.Add(2*time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		equal(t, "orphans after they were claimed", []string{"job"}, c.orphans(t))
	}
	if err := c.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	receive(t, "the second departure was reported", b.departed)
	equal(t, "orphans after the second member has left", []string{"job", "working"}, b.orphans(t))
	b.claim(t, "working")
	b.claim(t, "moved") // again
	equal(t, "orphans at last", []string{"job"}, b.orphans(t))
}

func orphansAmongOthers(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 3)
	var want []string
	for i := range 60 {
		r := held(fmt.Sprintf("task %02d", i), members[i%3])
		create(t, members[(i+1)%3].store, r)
		if i%3 != 0 {
			want = append(want, r.ID)
		}
	}
	members[1].Leave(t.Context())
	members[2].Leave(t.Context())
	for range 2 {
		receive(t, "the departures were reported", members[0].departed)
	}
	equal(t, "orphans", want, members[0].orphans(t))
	for _, id := range want {
		members[0].end(t, id, mcp.TaskStatusCompleted)
	}
	for range 3 {
		equal(t, "orphans after they have ended", []string(nil), members[0].orphans(t))
	}
}

// A member that has ended, but does not know it, claims a task, or creates one.
func lateClaim(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 3)
	a, b, c := members[0], members[1], members[2]
	create(t, a.store, held("x", a))
	create(t, a.store, held("y", c))
	a.Leave(t.Context())
	b.Leave(t.Context())
	for range 2 {
		receive(t, "the departures were reported", c.departed)
	}
	for range 3 { // nothing is left of b
		equal(t, "orphans", []string{"x"}, c.orphans(t))
	}
	b.claim(t, "x")
	create(t, b.store, held("unacknowledged", b)) // may be found or not
	if got := c.orphans(t); !slices.Contains(got, "x") {
		t.Errorf("orphans after a late claim: %v", got)
	}
	c.claim(t, "x")
	for range 3 {
		if got := c.orphans(t); slices.Contains(got, "x") || slices.Contains(got, "y") {
			t.Errorf("orphans after the task was claimed again: %v", got)
		}
	}
	if r := get(t, c.store, "x"); r.Claim.Epoch != 3 || r.Revision != 3 {
		t.Errorf("claim %v, revision %d", r.Claim, r.Revision)
	}
	update(t, c.store, get(t, c.store, "x"))
}

func closedFleet(t *testing.T, fleet Fleet) {
	members := joinAll(t, fleet, 2)
	a, b := members[0], members[1]
	create(t, a.store, held("x", a))
	a.store.Close()
	_, err := a.store.Join(t.Context(), task.Member{}, fleets.Events{})
	fails(t, "join", task.ErrClosed, err)
	yielded := 0
	for _, err := range a.Orphans(t.Context()) {
		fails(t, "orphans", task.ErrClosed, err)
		yielded++
	}
	if yielded != 1 {
		t.Errorf("yielded %d times", yielded)
	}
	if !b.lives(t, b) {
		t.Error("a member of another store has ended")
	}
}
