// Package lazyctx has contexts that cost little as long as nobody waits for them.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Timeout is a context with a timeout that begins when somebody waits for it. Nearly always nobody does: there is
// room for a message, and a timer would cost more than handing it over.
type Timeout struct {
	timeout time.Duration
	cause   error

	mu      sync.Mutex
	context context.Context
	stop    context.CancelFunc // nil while nobody waits
}

// WithTimeout returns a context that ends with ctx, or because of cause (nil for what the context package says) when
// somebody has waited that long for it. Whoever is done with it calls [Timeout.Cancel].
func WithTimeout(ctx context.Context, timeout time.Duration, cause error) *Timeout {
	return &Timeout{context: ctx, timeout: timeout, cause: cause}
}

func (t *Timeout) current() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.context
}

// Done is called by who waits.
func (t *Timeout) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop == nil {
		t.context, t.stop = context.WithTimeoutCause(t.context, t.timeout, t.cause)
	}
	return t.context.Done()
}

// Deadline is that of the parent until somebody waits.
func (t *Timeout) Deadline() (time.Time, bool) { return t.current().Deadline() }

// Err implements [context.Context].
func (t *Timeout) Err() error { return t.current().Err() }

// Value implements [context.Context].
func (t *Timeout) Value(key any) any { return t.current().Value(key) }

// Cancel ends the waiting. Nobody may begin to wait after it.
func (t *Timeout) Cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		t.stop()
	}
}
