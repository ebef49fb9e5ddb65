package task

import (
	"hash/maphash"
	"math/rand/v2"
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
	// memberSweepInterval is the average time between two sweeps of all members of a fleet
	// together.
	memberSweepInterval = 100 * time.Millisecond
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
	m.checkClock()
	now := m.earlier() // before undoExpired, which retains what has expired by then
	again := m.undoExpired()
	dropped, next, err := m.store.sweep(now, sweepBatch)
	for _, r := range dropped { // first, so that a caller that learns of one end is right about all
		m.expiredIDs.add(r.Owner, r.ID)
	}
	for i := range dropped {
		m.handleExpired(&dropped[i])
	}
	if err != nil && m.lifetime.Err() == nil {
		m.logFault("drop expired tasks", err)
		next = m.earlier().Add(time.Second)
	}
	sweepAt := m.earlier().Add(maxSweepInterval)
	for _, at := range []time.Time{next, again} {
		if !at.IsZero() && at.Before(sweepAt) {
			sweepAt = at
		}
	}
	m.mu.Lock()
	if m.nextSweep.IsZero() || sweepAt.Before(m.nextSweep) {
		m.nextSweep = sweepAt
	}
	m.mu.Unlock()
	if len(dropped) == sweepBatch {
		return 0
	}
	return m.sweepPause()
}

// sweepPause returns the minimum time until the next sweep. The members of a fleet sweep the same
// tasks. So each pauses longer the more there are, for a random time, so that one of them sweeps
// about every memberSweepInterval.
func (m *Manager) sweepPause() time.Duration {
	n := len(m.Members())
	if n < 2 {
		return minSweepInterval
	}
	pause := time.Duration(n) * memberSweepInterval
	return pause/2 + rand.N(pause)
}

// waitForSweep returns true when the next sweep is due, but not before pause has passed. It returns
// false when the Manager closes.
func (m *Manager) waitForSweep(timer *time.Timer, pause time.Duration) (ok bool) {
	earliest := time.Now().Add(pause)
	for {
		m.mu.Lock()
		sweepAt := m.nextSweep
		m.mu.Unlock()
		// The clock may have been set back since sweepAt was computed.
		timer.Reset(max(min(sweepAt.Sub(m.earlier()), maxSweepInterval), time.Until(earliest)))
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
	defer m.watches.notify(r.ID)
	run := m.findRun(r.ID)
	if run != nil {
		m.expireRun(run)
	}
	m.fleet.dropped(run, r)
	if r.undoes() {
		m.cfg.Logger.Error("compensations not run", "task", r.ID, "error", ErrExpired)
	}
	m.audit.expired(r)
}

// expireRun ends the work of a dropped task.
func (m *Manager) expireRun(run *Run) {
	m.limits.dropTaskWithWork(&run.usage)
	m.limits.unsetNetwork(run.id)
	run.abortProgress()
	run.endContext(ErrExpired)
	m.unpark(run.id, true)
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

// hash returns the hash of a principal and a task id.
func (s *expiredSet) hash(principal, id string) uint64 {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return maphash.Comparable(s.seed, [2]string{principal, id})
}

func (s *expiredSet) add(principal, id string) {
	h := s.hash(principal, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hashes == nil {
		s.hashes = map[uint64]struct{}{}
	}
	if len(s.ring) < maxExpiredIDs {
		s.ring = append(s.ring, h)
	} else {
		delete(s.hashes, s.ring[s.next])
		s.ring[s.next] = h
		s.next = (s.next + 1) % maxExpiredIDs
	}
	s.hashes[h] = struct{}{}
}

func (s *expiredSet) contains(principal, id string) bool {
	h := s.hash(principal, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.hashes[h]
	return ok
}
