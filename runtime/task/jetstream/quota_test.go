package jetstream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// events records the events of a membership. Its channels have room for all events.
type events struct {
	departed chan struct{}
	shared   chan string
}

func joinQuotas(t *testing.T, s *jetstream.Store, name string, lease time.Duration) (fleets.Membership[task.Member, task.Record], *events) {
	t.Helper()
	e := &events{make(chan struct{}, 1000), make(chan string, 1000)}
	m, err := s.Join(t.Context(), task.Member{Name: name, Lease: lease}, fleets.Events{
		Departed: func() { e.departed <- struct{}{} },
		Offered:  func(string) {},
		Shared:   func(quota string) { e.shared <- quota },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave(context.Background()) })
	return m, e
}

// share waits until the share of a member is want.
func share(t *testing.T, m fleets.Membership[task.Member, task.Record], shared <-chan string, quota string, want fleets.Share) {
	t.Helper()
	for m.Share(quota) != want {
		natstest.Receive(t, fmt.Sprintf("the share %+v is %+v", m.Share(quota), want), shared)
	}
}

func TestQuota(t *testing.T) {
	c := natstest.Run(t, 1)
	first := open(t, c.JetStream(t), jetstream.Options{})
	second := open(t, c.JetStream(t), jetstream.Options{Name: first.Name()})
	a, ea := joinQuotas(t, first, "a", time.Minute)
	b, eb := joinQuotas(t, second, "b", time.Minute)
	reserve := func(m fleets.Membership[task.Member, task.Record], used, want int64) {
		t.Helper()
		if err := m.Reserve(t.Context(), "tool x.y", fleets.Reservation{Used: used, Want: want, Max: 3}); err != nil {
			t.Fatal(err)
		}
	}
	reserve(a, 0, 5)
	share(t, a, ea.shared, "tool x.y", fleets.Share{Granted: 3})
	reserve(b, 0, 2)
	share(t, b, eb.shared, "tool x.y", fleets.Share{Contended: true})
	share(t, a, ea.shared, "tool x.y", fleets.Share{Granted: 3, Contended: true})
	reserve(a, 1, 5) // it gives two permits back, and gets one of them in its turn
	share(t, b, eb.shared, "tool x.y", fleets.Share{Granted: 1, Contended: true})
	reserve(a, 1, 1)
	share(t, b, eb.shared, "tool x.y", fleets.Share{Granted: 2})
	reserve(b, 2, 3)
	share(t, b, eb.shared, "tool x.y", fleets.Share{Granted: 2})
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "the departure was reported", eb.departed)
	if got := b.Share("tool x.y"); !got.Stale {
		t.Errorf("after a member has left: %+v", got)
	}
	reserve(b, 2, 3)
	share(t, b, eb.shared, "tool x.y", fleets.Share{Granted: 3})
	reserve(b, 0, 0)
	if got := b.Share("tool x.y"); got != (fleets.Share{}) {
		t.Errorf("in the end: %+v", got)
	}
	js := c.JetStream(t)
	natstest.Until(t, "the quota that is not used was removed", func() bool {
		stream, err := js.Stream(t.Context(), first.Name()+"-quotas")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Msgs == 0
	})
}

// Members change a quota at the same time. No permit is granted twice.
func TestQuotaUnderContention(t *testing.T) {
	c := natstest.Run(t, 1)
	first := open(t, c.JetStream(t), jetstream.Options{})
	stores := []*jetstream.Store{first}
	for range 3 {
		stores = append(stores, open(t, c.JetStream(t), jetstream.Options{Name: first.Name()}))
	}
	const limit = 5
	var mu sync.Mutex
	used, greatest := int64(0), int64(0)
	var group sync.WaitGroup
	for i, s := range stores {
		m, e := joinQuotas(t, s, fmt.Sprint(i), time.Minute)
		group.Go(func() {
			for range 25 {
				if err := m.Reserve(t.Context(), "q", fleets.Reservation{Want: 3, Max: limit}); err != nil {
					t.Error(err)
					return
				}
				for m.Share("q").Granted == 0 {
					select {
					case <-e.shared:
					case <-time.After(time.Minute):
						t.Errorf("no permit: %+v", m.Share("q"))
						return
					}
				}
				n := m.Share("q").Granted
				mu.Lock()
				used += n
				greatest = max(greatest, used)
				mu.Unlock()
				mu.Lock()
				used -= n
				mu.Unlock()
				if err := m.Reserve(t.Context(), "q", fleets.Reservation{Max: limit}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if greatest > limit || greatest < 3 {
		t.Errorf("%d permits at once", greatest)
	}
}

// If an operator deletes the stream of quotas and a process creates it again, the sequences begin
// anew. Members reserve permits again, and a member that waits learns that its share is out of date.
func TestQuotaInNewStream(t *testing.T) {
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	first := open(t, js, jetstream.Options{Timeout: 5 * time.Second})
	a, ea := joinQuotas(t, first, "a", time.Minute)
	b, _ := joinQuotas(t, open(t, c.JetStream(t), jetstream.Options{Name: first.Name(), Timeout: 5 * time.Second}), "b", time.Minute)
	reserve := func(m fleets.Membership[task.Member, task.Record], used, want int64) {
		t.Helper()
		if err := m.Reserve(t.Context(), "q", fleets.Reservation{Used: used, Want: want, Max: 3}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		reserve(b, 3, 3)
	}
	reserve(a, 0, 1)
	share(t, a, ea.shared, "q", fleets.Share{})
	if err := js.DeleteStream(t.Context(), first.Name()+"-quotas"); err != nil {
		t.Fatal(err)
	}
	d, ed := joinQuotas(t, open(t, c.JetStream(t), jetstream.Options{Name: first.Name()}), "d", time.Minute)
	reserve(d, 0, 1)
	reserve(b, 1, 1) // until it writes, the others do not know what it uses
	// As after an election, a reads the quotas that it waits for.
	if err := js.Conn().Publish("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+first.Name()+"-quotas", nil); err != nil {
		t.Fatal(err)
	}
	share(t, a, ea.shared, "q", fleets.Share{Stale: true})
	reserve(a, 0, 1)
	share(t, a, ea.shared, "q", fleets.Share{Granted: 1})
	reserve(d, 0, 2)
	share(t, a, ea.shared, "q", fleets.Share{Granted: 1, Contended: true})
	reserve(b, 0, 0)
	share(t, d, ed.shared, "q", fleets.Share{Granted: 2})
	share(t, a, ea.shared, "q", fleets.Share{Granted: 1})
}
