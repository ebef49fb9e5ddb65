package task

import (
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Clock is a [Shared] store with a clock that all processes share, such as that of its servers. The
// wall clocks of processes may be wrong, and may be set while they run. So a [Manager] uses a Clock
// for the times in records and for the end of sleeps. A task expires once both clocks have reached
// the end of its TTL, and its creation has the later time of both: a task is dropped too early only
// if both clocks are wrong.
//
// The Manager logs a warning while the clocks differ by more than 5 seconds.
type Clock interface {
	// Now returns the present time. It returns at once, and may be wrong by some seconds.
	Now() time.Time
}

// maxSkew is the maximum difference of two clocks that count as equal.
const maxSkew = 5 * time.Second

// now returns the time of the store's clock or, if the store has none, of this process.
func (m *Manager) now() time.Time {
	now := time.Now()
	if m.clock != nil {
		boundary.Run(func() error { now = m.clock.Now().Round(0); return nil })
	}
	return now
}

// earlier returns the earlier of the times of the store and of this process. It decides whether a
// task has expired.
func (m *Manager) earlier() time.Time {
	now := m.now()
	if m.clock == nil || now.Before(time.Now()) {
		return now
	}
	return time.Now()
}

// later returns the later of the times of the store and of this process.
func (m *Manager) later() time.Time {
	now := m.now()
	if m.clock == nil || now.After(time.Now()) {
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
// processes of the store share; see [Clock]. Without one, and unless the clocks differ by seconds,
// it returns t.
func (run *Run) SharedTime(t time.Time) time.Time {
	if ahead := run.m.ahead(); ahead.Abs() > maxSkew {
		return t.Round(0).Add(-ahead)
	}
	return t
}
