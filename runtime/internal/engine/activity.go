package engine

import (
	"sync"
	"sync/atomic"
)

// Activity counts the work that a shutdown waits for: exchanges and, for a session, notifications
// being handled, responses being sent, and calls that wait for their responses. The zero value is
// idle. Its methods are safe for concurrent use.
type Activity struct {
	count atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed when count becomes 0; nil unless something waits for that
}

// Begin counts one more.
func (a *Activity) Begin() { a.count.Add(1) }

// End counts one less.
func (a *Activity) End() {
	if a.count.Add(-1) > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// Done returns a channel that is closed when nothing is counted.
func (a *Activity) Done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := a.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	// An End after this check needs mu, and then closes idle.
	if a.idle = idle; a.count.Load() == 0 {
		close(idle)
		a.idle = nil
	}
	return idle
}
