package task

import (
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Wall clocks of processes may be wrong. So the Manager of a shared store uses [Store].Now for the
// times in records and for the end of sleeps. A task expires once both the clock of the store and that
// of the process have reached the end of its TTL, and its creation has the later time of both: a task
// is dropped too early only if both clocks are wrong. The Manager logs a warning while the clocks
// differ by more than maxSkew.

// maxSkew is the maximum difference of two clocks that count as equal.
const maxSkew = 5 * time.Second

// now returns the time of the store's clock or, if the store is not shared, of this process.
func (m *Manager) now() time.Time {
	now := time.Now()
	if m.fleet != nil {
		boundary.Run(func() error { now = m.cfg.Store.Now().Round(0); return nil })
	}
	return now
}

// earlier returns the earlier of the times of the store and of this process. It decides whether a
// task has expired.
func (m *Manager) earlier() time.Time {
	now := m.now()
	if m.fleet == nil || now.Before(time.Now()) {
		return now
	}
	return time.Now()
}

// later returns the later of the times of the store and of this process.
func (m *Manager) later() time.Time {
	now := m.now()
	if m.fleet == nil || now.After(time.Now()) {
		return now
	}
	return time.Now()
}

// ahead returns the clock of this process minus the clock of the store.
func (m *Manager) ahead() time.Duration { return -time.Until(m.now()) }

// checkClock logs when the clock of this process begins or ceases to differ from that of the store.
// Only sweepLoop calls it.
func (m *Manager) checkClock() {
	ahead := m.ahead()
	switch skewed := ahead.Abs() > maxSkew; {
	case skewed == m.skewed:
		return
	case skewed:
		m.cfg.Logger.Warn("clock skew detected", "ahead", ahead.Round(time.Second))
	default:
		m.cfg.Logger.Info("clock skew ended")
	}
	m.skewed = !m.skewed
}

// SharedTime converts a time that was computed with the clock of this process to the clock that all
// processes of the store share; see [Store].Now. Unless the clocks differ by seconds, it returns t.
func (run *Run) SharedTime(t time.Time) time.Time {
	if ahead := run.m.ahead(); ahead.Abs() > maxSkew {
		return t.Round(0).Add(-ahead)
	}
	return t
}
