package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Both is a context that ends when either of two contexts ends. Its values and its deadline are
// those of the first. Callers that know the type select on both channels of [Both.Each]. For other
// callers, Both allocates a merged context on first use. Call [Both.Release] after use.
type Both struct {
	first, second context.Context

	mu       sync.Mutex
	context  context.Context // the merged context; nil until first used
	cancel   context.CancelCauseFunc
	stop     func() bool // detaches the merged context from second; nil if it is not attached
	released bool
}

// WithBoth returns a context that ends with first or second.
func WithBoth(first, second context.Context) *Both {
	b := new(Both)
	b.Set(first, second)
	return b
}

// Set makes b, a zero Both that is part of another object, end with first or second.
func (b *Both) Set(first, second context.Context) { b.first, b.second = first, second }

// Each returns the Done channels of the two contexts. They are not closed by [Both.Release].
func (b *Both) Each() (first, second <-chan struct{}) { return b.first.Done(), b.second.Done() }

// full returns the merged context. It allocates it on first use.
func (b *Both) full() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.context == nil {
		ctx, cancel := context.WithCancelCause(b.first)
		b.context, b.cancel = ctx, cancel
		if b.released {
			cancel(context.Canceled)
		} else {
			b.stop = context.AfterFunc(b.second, func() { cancel(context.Cause(b.second)) })
		}
	}
	if b.second.Err() != nil {
		b.cancel(context.Cause(b.second)) // AfterFunc may not have run yet
	}
	return b.context
}

// Release ends the context. A merged context that is allocated later has ended, too.
func (b *Both) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released = true
	if b.stop != nil {
		b.stop()
		b.cancel(context.Canceled)
	}
}

// Deadline implements [context.Context].
func (b *Both) Deadline() (time.Time, bool) { return b.first.Deadline() }

// Done implements [context.Context].
func (b *Both) Done() <-chan struct{} { return b.full().Done() }

// Err implements [context.Context].
func (b *Both) Err() error {
	if err := b.first.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released || b.second.Err() != nil {
		return context.Canceled
	}
	return nil
}

// Cause returns the cause of the context that has ended, or nil if neither has.
func (b *Both) Cause() error {
	if b.first.Err() != nil {
		return context.Cause(b.first)
	}
	return context.Cause(b.second)
}

// Value implements [context.Context]. It allocates a context only as [Cancellable.Value] does.
func (b *Both) Value(key any) any {
	if findsParent(key) {
		return b.full().Value(key)
	}
	return b.first.Value(key)
}
