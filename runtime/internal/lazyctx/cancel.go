package lazyctx

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Cancellable is a context that can be cancelled with a cause. It has no values and no deadline. It
// allocates a context of the context package only when Done, context.Cause or a derived context
// needs it; most requests never do. The zero value is ready to use. A Cancellable must not be
// copied.
type Cancellable struct {
	ended   atomic.Bool
	mu      sync.Mutex
	context context.Context // nil until first used
	cancel  context.CancelCauseFunc
	cause   error // nil for context.Canceled
}

// Cancel ends the context with cause, as a [context.CancelCauseFunc] does. Only the first call has
// an effect.
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

// full returns the context of the context package. It allocates it on first use.
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

// Deadline implements [context.Context]. There is no deadline.
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

// Cause returns the same as [context.Cause], without allocating a context.
func (c *Cancellable) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		return c.Err()
	}
	return c.cause
}

// Value implements [context.Context]. It returns a value only for the internal key of the context
// package.
func (c *Cancellable) Value(key any) any {
	if !IsCancelKey(key) {
		return nil
	}
	return c.full().Value(key)
}

// IsCancelKey reports whether key is the one by which the context package finds cancellable
// parents.
func IsCancelKey(key any) bool { return key == cancelKey }

// cancelKey is the internal key of the context package for cancellable parents.
var cancelKey = func() any {
	var p probe
	context.Cause(&p)
	return p.key
}()

// probe is a context that records the key of the last Value call.
type probe struct{ key any }

func (p *probe) Deadline() (time.Time, bool) { return time.Time{}, false }
func (p *probe) Done() <-chan struct{}       { return nil }
func (p *probe) Err() error                  { return context.Canceled }

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}
