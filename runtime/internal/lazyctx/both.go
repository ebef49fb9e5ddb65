package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Both is a context that ends when either of two do. Its values, and its deadline, are those of the first. Who knows
// it waits for each of them; for all others it becomes a context of its own. Whoever is done with it calls
// [Both.Release].
type Both struct {
	first, second context.Context

	mu       sync.Mutex
	context  context.Context // nil while nobody needs it
	cancel   context.CancelCauseFunc
	stop     func() bool // ends the waiting for second; nil if nobody waits
	released bool
}

// WithBoth returns a context that ends with first or second.
func WithBoth(first, second context.Context) *Both { return &Both{first: first, second: second} }

// Each returns what is closed when the first context ends, and when the second does. It is for who calls
// [Both.Release] afterwards, which it does not tell of.
func (b *Both) Each() (first, second <-chan struct{}) { return b.first.Done(), b.second.Done() }

// full returns a context of the context package that ends with either, and with Release.
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
		b.cancel(context.Cause(b.second)) // now, and not in a while
	}
	return b.context
}

// Release ends the context, also for who begins to wait for it only then.
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

// Cause returns why either of the two has ended, or nil.
func (b *Both) Cause() error {
	if b.first.Err() != nil {
		return context.Cause(b.first)
	}
	return context.Cause(b.second)
}

// Value implements [context.Context].
func (b *Both) Value(key any) any {
	if IsCancelKey(key) {
		return b.full().Value(key)
	}
	return b.first.Value(key)
}
