package session

import (
	"context"
	"sync"
	"time"
)

// lazyTimeout is a context with a timeout that begins when somebody waits for it. Nearly always nobody does: there is
// room for a message, and a timer would cost more than handing it over.
type lazyTimeout struct {
	context.Context
	timeout time.Duration
	mu      sync.Mutex
	stop    context.CancelFunc // nil while nobody waits
}

func (l *lazyTimeout) current() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Context
}

// Done is called by who waits.
func (l *lazyTimeout) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop == nil {
		l.Context, l.stop = context.WithTimeoutCause(l.Context, l.timeout, ErrTimeout)
	}
	return l.Context.Done()
}

func (l *lazyTimeout) Deadline() (time.Time, bool) { return l.current().Deadline() }
func (l *lazyTimeout) Err() error                  { return l.current().Err() }
func (l *lazyTimeout) Value(key any) any           { return l.current().Value(key) }

// cancel ends the waiting.
func (l *lazyTimeout) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
}
