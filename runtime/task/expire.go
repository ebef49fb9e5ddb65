package task

import (
	"hash/maphash"
	"sync"
	"time"
)

// sweepPortion is how many tasks go at once, so that nobody waits long for the store; sweepPause is
// the least time between two sweeps unless there is more to drop, so that many tasks that expire
// one after another do not take a sweep each; sweepRest is the longest time between two, as the clock
// may be set.
const (
	sweepPortion = 256
	sweepPause   = time.Millisecond
	sweepRest    = time.Minute
)

// sweep drops tasks when their time has passed, until the Manager closes. It sleeps until the
// next one is due: however many tasks there are, none has a timer of its own.
func (m *Manager) sweep() {
	timer := time.NewTimer(sweepRest)
	defer timer.Stop()
	for pause := time.Duration(0); m.sleep(timer, pause); {
		pause = m.drop()
	}
}

// drop drops tasks whose time has passed. It sets when the sweeper is to wake, and returns how long
// it is to sleep at least.
func (m *Manager) drop() (pause time.Duration) {
	m.mu.Lock()
	m.wake = time.Time{} // what is created from now on makes itself known
	m.mu.Unlock()
	// The end of the Manager does not end the sweep: otherwise the Manager would not know which
	// tasks were dropped.
	gone, next, err := m.store.sweep(time.Now(), sweepPortion)
	for i := range gone {
		m.expired(&gone[i])
	}
	if err != nil && m.life.Err() == nil {
		m.fault("drop expired tasks", err)
		next = time.Now().Add(time.Second)
	}
	wake := time.Now().Add(sweepRest)
	if !next.IsZero() && next.Before(wake) {
		wake = next
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wake.IsZero() || wake.Before(m.wake) {
		m.wake = wake
	}
	if len(gone) == sweepPortion {
		return 0
	}
	return sweepPause
}

// sleep returns when the sweeper is to wake, but not before the pause is over; ok is false if the
// Manager closes first.
func (m *Manager) sleep(timer *time.Timer, pause time.Duration) (ok bool) {
	earliest := time.Now().Add(pause)
	for {
		m.mu.Lock()
		wake := m.wake
		m.mu.Unlock()
		timer.Reset(max(time.Until(wake), time.Until(earliest)))
		select {
		case <-timer.C:
			return true
		case <-m.nudge: // wake is earlier now
		case <-m.life.Done():
			return false
		}
	}
}

// sweepBy makes the sweeper look when a new task expires, if that is before it would anyway.
func (m *Manager) sweepBy(expires time.Time) {
	if expires.IsZero() {
		return
	}
	m.mu.Lock()
	earlier := m.wake.IsZero() || expires.Before(m.wake)
	if earlier {
		m.wake = expires
	}
	m.mu.Unlock()
	if earlier {
		select {
		case m.nudge <- struct{}{}:
		default:
		}
	}
}

// expired does what follows when a task is dropped.
func (m *Manager) expired(r *Record) {
	m.past.add(r.Owner, r.ID)
	if run := m.run(r.ID); run != nil {
		m.limits.dropShare(&run.share)
		run.silence()
		run.ctx.Cancel(ErrExpired)
	} else {
		m.limits.drop(r)
	}
	m.audit.expired(r)
}

// graveyard remembers the latest tasks that have expired, so that who asks for one is told so.
// The zero value is empty.
type graveyard struct {
	once  sync.Once
	seed  maphash.Seed
	mu    sync.Mutex
	known map[uint64]struct{}
	ring  []uint64 // what is known, the oldest at next
	next  int
}

const graves = 4096

func (g *graveyard) hash(owner, id string) uint64 {
	g.once.Do(func() { g.seed = maphash.MakeSeed() })
	return maphash.Comparable(g.seed, [2]string{owner, id})
}

func (g *graveyard) add(owner, id string) {
	h := g.hash(owner, id)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = map[uint64]struct{}{}
	}
	if len(g.ring) < graves {
		g.ring = append(g.ring, h)
	} else {
		delete(g.known, g.ring[g.next])
		g.ring[g.next] = h
		g.next = (g.next + 1) % graves
	}
	g.known[h] = struct{}{}
}

func (g *graveyard) holds(owner, id string) bool {
	h := g.hash(owner, id)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.known[h]
	return ok
}
