package task

import (
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Wall clocks of processes may be wrong. So no wall clock decides alone that a task has expired,
// which cannot be undone.
//
// The Manager of a shared store uses [Store].Now for the times in records and for the end of
// sleeps. A task expires once both the clock of the store and that of the process have reached the
// end of its TTL, and its creation has the later time of both: a task is dropped too early only if
// both clocks are wrong. The Manager logs a warning while the clocks differ by more than maxSkew.
//
// If the store is not shared, a steadyClock is the second clock.

// maxSkew is the maximum difference of two clocks that count as equal.
const maxSkew = 5 * time.Second

// clockGrace is how long a steadyClock doubts a jump of the wall clock. A clock that is wrong when
// the machine starts, or is set by mistake, is mostly corrected within that time. The time in which
// no process was running looks like a jump, too: at the start, tasks have what remained of their
// TTL when the last process ended, for at most clockGrace.
const clockGrace = time.Hour

// steadyClock is the wall clock without its jumps forward. After a jump, it goes on like the
// monotonic clock. It follows the jump once the wall clock has been ahead for clockGrace. It
// follows jumps back at once. The zero value believes the first reading.
type steadyClock struct {
	mu       sync.Mutex
	believed time.Time     // the latest reading of the wall clock that was believed; zero for none
	at       time.Duration // time since the start of the process, of that reading
	doubting bool          // the wall clock is ahead
	since    time.Duration // time since the start of the process, of the first reading that was ahead
}

// begin sets the clock to a time that was read earlier.
func (c *steadyClock) begin(t time.Time, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.believed, c.at, c.doubting = t, at, false
}

// read returns the time for a reading of the wall clock, at a time since the start of the process.
func (c *steadyClock) read(wall time.Time, at time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady := c.believed.Add(at - c.at)
	if !c.believed.IsZero() && wall.Sub(steady) > maxSkew {
		if !c.doubting {
			c.doubting, c.since = true, at
		}
		if at-c.since < clockGrace {
			return steady
		}
	}
	c.believed, c.at, c.doubting = wall, at, false
	return wall
}

// now returns the time of the store's clock. For a store that is not shared, that is the wall clock
// of this process.
func (m *Manager) now() time.Time {
	now := time.Now()
	boundary.Run(func() error { now = m.cfg.Store.Now().Round(0); return nil })
	return now
}

// earlier returns the earlier of the times of the two clocks. It decides whether a task has
// expired.
func (m *Manager) earlier() time.Time {
	now, other := m.now(), time.Now()
	if !m.fleet.others() {
		other = m.steady.read(now, time.Since(m.started))
	}
	if now.Before(other) {
		return now
	}
	return other
}

// later returns the later of the times of the store and of this process.
func (m *Manager) later() time.Time {
	if now := m.now(); now.After(time.Now()) {
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

// sharedTime converts a time that was computed with the clock of this process to the clock that all
// processes of the store share; see [Store].Now. Unless the clocks differ by seconds, it returns t.
func (run *Run) sharedTime(t time.Time) time.Time {
	if ahead := run.m.ahead(); ahead.Abs() > maxSkew {
		return t.Round(0).Add(-ahead)
	}
	return t
}
