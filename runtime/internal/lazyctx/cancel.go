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

// full returns the context of the context package, a child of parent. It allocates it on first use.
func (c *Cancellable) full(parent context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context == nil {
		c.context, c.cancel = context.WithCancelCause(parent)
		if c.ended.Load() {
			c.cancel(c.cause)
		}
	}
	return c.context
}

// Deadline implements [context.Context]. There is no deadline.
func (c *Cancellable) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (c *Cancellable) Done() <-chan struct{} { return c.full(context.Background()).Done() }

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

// Value implements [context.Context]. A Cancellable has no values, but the context package uses
// Value to find cancellable parents. If it did not find one, each derived context would need a
// goroutine. Other keys do not allocate a context.
func (c *Cancellable) Value(key any) any {
	if findsParent(key) {
		return c.full(context.Background()).Value(key)
	}
	return nil
}

// Child is a [Cancellable] that also ends with its parent, whose values and deadline it has.
type Child struct {
	Cancellable
	Parent context.Context
}

// Deadline implements [context.Context].
func (c *Child) Deadline() (time.Time, bool) { return c.Parent.Deadline() }

// Done implements [context.Context].
func (c *Child) Done() <-chan struct{} { return c.full(c.Parent).Done() }

// Err implements [context.Context].
func (c *Child) Err() error {
	if err := c.Cancellable.Err(); err != nil {
		return err
	}
	return c.Parent.Err()
}

// Cause returns the same as [context.Cause], without allocating a context.
func (c *Child) Cause() error {
	if c.Cancellable.Err() != nil {
		return c.Cancellable.Cause()
	}
	return context.Cause(c.Parent)
}

// Value implements [context.Context]. It allocates a context only as [Cancellable.Value] does.
func (c *Child) Value(key any) any {
	if findsParent(key) {
		return c.full(c.Parent).Value(key)
	}
	return c.Parent.Value(key)
}

// findsParent reports whether the context package looks for a cancellable parent with a key. Its key
// has the type *int.
func findsParent(key any) bool {
	_, ok := key.(*int)
	return ok
}
