package lazyctx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Cancellable is a context that can be cancelled, with a cause, and has nothing else. It is one of the context package only
// from when somebody waits for it, looks for its cause or derives another one from it: most requests come and go
// without. The zero value is ready to use; it must not be copied.
type Cancellable struct {
	ended   atomic.Bool
	mu      sync.Mutex
	context context.Context // nil while nobody needs it
	cancel  context.CancelCauseFunc
	cause   error // of the end; nil for what the context package says
}

// Cancel ends the context because of cause, as a [context.CancelCauseFunc] does. Only the first call counts.
func (c *Cancellable) Cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Load() {
		return
	}
	c.cause = cause
	c.ended.Store(true)
	if c.cancel != nil {
		c.cancel(cause)
	}
}

// full returns the context of the context package.
func (c *Cancellable) full() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context == nil {
		c.context, c.cancel = context.WithCancelCause(context.Background())
		if c.ended.Load() {
			c.cancel(c.cause)
		}
	}
	return c.context
}

// Deadline implements [context.Context]: there is none.
func (c *Cancellable) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (c *Cancellable) Done() <-chan struct{} { return c.full().Done() }

// Err implements [context.Context].
func (c *Cancellable) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

// Cause is what [context.Cause] returns.
func (c *Cancellable) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return c.Err()
	}
	return c.cause
}

// Value implements [context.Context]. It has what the context package itself looks for, and nothing else.
func (c *Cancellable) Value(key any) any {
	if !IsCancelKey(key) {
		return nil
	}
	return c.full().Value(key)
}

// IsCancelKey reports whether a key is that under which the context package looks for what can be cancelled.
func IsCancelKey(key any) bool { return key == cancelKey }

// cancelKey is the key that the context package looks for a cause with.
var cancelKey = func() any {
	var p probe
	context.Cause(&p)
	return p.key
}()

// probe is a context that notes which key it is asked for.
type probe struct{ key any }

func (p *probe) Deadline() (time.Time, bool) { return time.Time{}, false }
func (p *probe) Done() <-chan struct{}       { return nil }
func (p *probe) Err() error                  { return context.Canceled }

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}
