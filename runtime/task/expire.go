package task

import (
	"hash/maphash"
	"sync"
	"time"
)

// The sweep of expired tasks.
const (
	// sweepBatch is the maximum number of tasks that one call of Store.Sweep drops. It bounds the
	// time for which other calls wait for the store.
	sweepBatch = 256
	// minSweepInterval is the minimum time between two sweeps, unless the last one reached
	// sweepBatch. Tasks that expire shortly after one another then share a sweep.
	minSweepInterval = time.Millisecond
	// maxSweepInterval is the maximum time between two sweeps, because the wall clock may be
	// changed.
	maxSweepInterval = time.Minute
)

// sweepLoop drops expired tasks until the Manager closes. One timer serves all tasks: it fires when
// the next task expires.
func (m *Manager) sweepLoop() {
	timer := time.NewTimer(maxSweepInterval)
	defer timer.Stop()
	for pause := time.Duration(0); m.waitForSweep(timer, pause); {
		pause = m.sweepOnce()
	}
}

// sweepOnce drops expired tasks and sets nextSweep. It returns the minimum time until the next
// sweep.
func (m *Manager) sweepOnce() (pause time.Duration) {
	m.mu.Lock()
	m.nextSweep = time.Time{} // so that tasks created during the sweep schedule themselves
	m.mu.Unlock()
	// The Manager's lifetime does not bound the sweep: the Manager must learn which tasks were
	// dropped.
	dropped, next, err := m.store.sweep(time.Now(), sweepBatch)
	for i := range dropped {
		m.handleExpired(&dropped[i])
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
	if len(dropped) == sweepBatch {
		return 0
	}
	return minSweepInterval
}

// waitForSweep returns true when the next sweep is due, but not before pause has passed. It returns
// false when the Manager closes.
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
		case <-m.sweepSooner: // nextSweep is earlier now
		case <-m.lifetime.Done():
			return false
		}
	}
}

// scheduleSweep makes sure that a sweep runs when a new task expires.
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

// handleExpired ends the work of a dropped task, counts the task, and audits it.
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

// expiredSet holds hashes of the ids of the latest expired tasks, so that a call about one of them
// fails with ErrExpired rather than ErrNotFound. The zero value is empty.
type expiredSet struct {
	once   sync.Once
	seed   maphash.Seed
	mu     sync.Mutex
	hashes map[uint64]struct{}
	ring   []uint64 // the same hashes; the oldest is at next once the ring is full
	next   int
}

// maxExpiredIDs is the capacity of an expiredSet.
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
