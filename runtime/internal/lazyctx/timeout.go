// Package lazyctx keeps requests and their goroutines cheap: it has contexts that allocate little
// until a caller waits for them, and grows the stack of a goroutine in one step.
package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Timeout is a context with a timeout that starts with the first call of Done. Most messages are
// written without waiting, and a timer would cost more than the write. The context carries a clock,
// see [Hold], which works even after Cancel.
type Timeout struct {
	Clock Clock

	timeout time.Duration
	cause   error

	mu      sync.Mutex
	context context.Context
	stop    context.CancelFunc // nil until Done is called
}

// WithTimeout returns a context that ends with ctx, or with cause when timeout has passed since the
// first call of Done. A nil cause means [context.DeadlineExceeded]. Call [Timeout.Cancel] after
// use.
func WithTimeout(ctx context.Context, timeout time.Duration, cause error) *Timeout {
	t := new(Timeout)
	t.Begin(ctx, timeout, cause)
	return t
}

// Begin makes the zero value the context that [WithTimeout] returns. It returns false, and does
// nothing, if t has begun.
func (t *Timeout) Begin(ctx context.Context, timeout time.Duration, cause error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.context != nil {
		return false
	}
	t.context, t.timeout, t.cause = ctx, timeout, cause
	return true
}

func (t *Timeout) current() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.context
}

// Done implements [context.Context]. The first call starts the timeout.
func (t *Timeout) Done() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop == nil {
		t.context, t.stop = t.Clock.WithTimeout(t.context, t.timeout, t.cause)
	}
	return t.context.Done()
}

// Deadline implements [context.Context]. It returns the deadline of the parent.
func (t *Timeout) Deadline() (time.Time, bool) { return t.current().Deadline() }

// Err implements [context.Context].
func (t *Timeout) Err() error { return t.current().Err() }

// Value implements [context.Context].
func (t *Timeout) Value(key any) any {
	if key == (clockKey{}) {
		return t
	}
	return t.current().Value(key)
}

func (t *Timeout) carried() (*Clock, context.Context) { return &t.Clock, t.current() }

// Cancel stops the timer. Done must not be called afterwards.
func (t *Timeout) Cancel() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stop != nil {
		t.stop()
	}
}
