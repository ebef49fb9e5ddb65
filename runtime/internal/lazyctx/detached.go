package lazyctx

import (
	"context"
	"time"
)

// Detached is a context with the values of Parent that never ends, like that of
// [context.WithoutCancel]. It can be a part of another context, and lookups through it do not
// allocate.
type Detached struct{ Parent context.Context }

// Deadline implements [context.Context]. There is no deadline.
func (d *Detached) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context]. It returns nil.
func (d *Detached) Done() <-chan struct{} { return nil }

// Err implements [context.Context]. It returns nil.
func (d *Detached) Err() error { return nil }

// Value implements [context.Context].
func (d *Detached) Value(key any) any {
	if findsParent(key) { // the cause of the parent's end is not that of this context
		return nil
	}
	return d.Parent.Value(key)
}
