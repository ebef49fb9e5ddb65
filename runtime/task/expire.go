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
	sweepBatch       = 256
	minSweepInterval = time.Millisecond
	maxSweepInterval = time.Minute
)

// sweep drops tasks when their time has passed, until the Manager closes. It sleeps until the
// next one is due: however many tasks there are, none has a timer of its own.
func (m *Manager) sweepLoop() {
	timer := time.NewTimer(maxSweepInterval)
	defer timer.Stop()
	for pause := time.Duration(0); m.waitForSweep(timer, pause); {
		pause = m.sweepOnce()
	}
}

// drop drops tasks whose time has passed. It sets when the sweeper is to wake, and returns how long
// it is to sleep at least.
func (m *Manager) sweepOnce() (pause time.Duration) {
	m.mu.Lock()
	m.nextSweep = time.Time{} // what is created from now on makes itself known
	m.mu.Unlock()
	// The end of the Manager does not end the sweep: otherwise the Manager would not know which
	// tasks were dropped.
	gone, next, err := m.store.sweep(time.Now(), sweepBatch)
	for i := range gone {
		m.handleExpired(&gone[i])
	}
	if err != nil && m.lifetime.Err() == nil {
		m.logFault("drop expired tasks", err)
		next = time.Now().Add(time.Second)
	}
	wake := time.Now().Add(maxSweepInterval)
	if !next.IsZero() && next.Before(wake) {
		wake = next
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.nextSweep.IsZero() || wake.Before(m.nextSweep) {
		m.nextSweep = wake
	}
	if len(gone) == sweepBatch {
		return 0
	}
	return minSweepInterval
}

// sleep returns when the sweeper is to wake, but not before the pause is over; ok is false if the
// Manager closes first.
func (m *Manager) waitForSweep(timer *time.Timer, pause time.Duration) (ok bool) {
	earliest := time.Now().Add(pause)
	for {
		m.mu.Lock()
		wake := m.nextSweep
		m.mu.Unlock()
		timer.Reset(max(time.Until(wake), time.Until(earliest)))
		select {
		case <-timer.C:
			return true
		case <-m.sweepSooner: // wake is earlier now
		case <-m.lifetime.Done():
			return false
		}
	}
}

// sweepBy makes the sweeper look when a new task expires, if that is before it would anyway.
func (m *Manager) scheduleSweep(expires time.Time) {
	if expires.IsZero() {
		return
	}
	m.mu.Lock()
	earlier := m.nextSweep.IsZero() || expires.Before(m.nextSweep)
	if earlier {
		m.nextSweep = expires
	}
	m.mu.Unlock()
	if earlier {
		select {
		case m.sweepSooner <- struct{}{}:
		default:
		}
	}
}

// expired does what follows when a task is dropped.
func (m *Manager) handleExpired(r *Record) {
	m.expiredIDs.add(r.Owner, r.ID)
	if run := m.findRun(r.ID); run != nil {
		m.limits.dropTaskWithWork(&run.usage)
		run.abortProgress()
		run.ctx.Cancel(ErrExpired)
	} else {
		m.limits.dropTaskWithoutWork(r)
	}
	m.audit.expired(r)
}

// graveyard remembers the latest tasks that have expired, so that who asks for one is told so.
// The zero value is empty.
type expiredSet struct {
	once   sync.Once
	seed   maphash.Seed
	mu     sync.Mutex
	hashes map[uint64]struct{}
	ring   []uint64 // what is known, the oldest at next
	next   int
}

const maxExpiredIDs = 4096

func (g *expiredSet) hash(owner, id string) uint64 {
	g.once.Do(func() { g.seed = maphash.MakeSeed() })
	return maphash.Comparable(g.seed, [2]string{owner, id})
}

func (g *expiredSet) add(owner, id string) {
	h := g.hash(owner, id)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hashes == nil {
		g.hashes = map[uint64]struct{}{}
	}
	if len(g.ring) < maxExpiredIDs {
		g.ring = append(g.ring, h)
	} else {
		delete(g.hashes, g.ring[g.next])
		g.ring[g.next] = h
		g.next = (g.next + 1) % maxExpiredIDs
	}
	g.hashes[h] = struct{}{}
}

func (g *expiredSet) contains(owner, id string) bool {
	h := g.hash(owner, id)
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.hashes[h]
	return ok
}
