package session

import (
	"sync"
	"sync/atomic"
)

// activity counts what a session that shuts down waits for: the requests and notifications that are
// handled, the answers that are sent, and the calls that wait for theirs.
type activity struct {
	count atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed when count becomes 0; nil unless something waits for that
}

func (a *activity) begin() { a.count.Add(1) }

func (a *activity) end() {
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

// done returns a channel that is closed when nothing is counted.
func (a *activity) done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := a.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	// An end that comes after this look finds the channel, as it needs mu to look for it.
	if a.idle = idle; a.count.Load() == 0 {
		close(idle)
		a.idle = nil
	}
	return idle
}
