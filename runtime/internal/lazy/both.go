package lazy

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

	mu      sync.Mutex
	context context.Context // nil while nobody needs it
	release func()
}

// WithBoth returns a context that ends with first or second.
func WithBoth(first, second context.Context) *Both { return &Both{first: first, second: second} }

// Each returns what is closed when the first context ends, and when the second does.
func (b *Both) Each() (first, second <-chan struct{}) { return b.first.Done(), b.second.Done() }

// full returns a context of the context package that ends with either.
func (b *Both) full() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.context == nil {
		ctx, cancel := context.WithCancelCause(b.first)
		if b.second.Err() != nil {
			cancel(context.Cause(b.second)) // now, and not in a while
		}
		stop := context.AfterFunc(b.second, func() { cancel(context.Cause(b.second)) })
		b.context, b.release = ctx, func() {
			stop()
			cancel(context.Canceled)
		}
	}
	return b.context
}

// Release ends what waits under the context.
func (b *Both) Release() {
	b.mu.Lock()
	release := b.release
	b.mu.Unlock()
	if release != nil {
		release()
	}
}

// Deadline implements [context.Context].
func (b *Both) Deadline() (time.Time, bool) { return b.first.Deadline() }

// Done implements [context.Context].
func (b *Both) Done() <-chan struct{} { return b.full().Done() }

// Err implements [context.Context].
func (b *Both) Err() error {
	b.mu.Lock()
	ctx := b.context
	b.mu.Unlock()
	if ctx != nil {
		return ctx.Err()
	}
	if err := b.first.Err(); err != nil {
		return err
	}
	return b.second.Err()
}

// Cause returns why either has ended, or nil.
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
