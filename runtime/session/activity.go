package session

import (
	"sync"
	"sync/atomic"
)

// activity counts the work that Shutdown waits for: requests and notifications being handled,
// answers being sent, and calls waiting for their answers.
type activity struct {
	count atomic.Int64

	mu   sync.Mutex
	idle chan struct{} // closed when count becomes 0; nil unless Shutdown waits
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

// done returns a channel that is closed when count is 0.
func (a *activity) done() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := a.idle
	if idle == nil {
		idle = make(chan struct{})
	}
	// An end after this check needs mu, and then closes idle.
	if a.idle = idle; a.count.Load() == 0 {
		close(idle)
		a.idle = nil
	}
	return idle
}
