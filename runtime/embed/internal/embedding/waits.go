package embedding

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Waits holds the tasks/result requests of sessions over HTTP, so that they end with their session,
// and so that they may outlive their HTTP requests if clients can resume the streams of these. The
// zero value is ready to use. The methods may be called concurrently.
type Waits struct {
	mu sync.Mutex
	by map[Waiter]*waits
}

// Waiter identifies the requests that a principal makes in a session.
type Waiter struct{ Session, Principal string }

// waits are the requests of one Waiter.
type waits struct {
	open      []*wait
	abandoned []*wait // of open, oldest first: their HTTP requests have ended
}

// wait is a request that is being served.
type wait struct{ end context.CancelCauseFunc }

// maxAbandoned is the number of requests of a Waiter that may continue after their HTTP requests
// have ended.
const maxAbandoned = 16

var (
	errAbandoned    = errors.New("embed: too many abandoned tasks/result requests")
	errSessionEnded = errors.New("embed: the session has ended")
)

// Add returns a context for a request. It ends with ctx and with the session. It also ends with the
// context of the HTTP request, or if the request is resumable, once 16 later requests of the Waiter
// have outlived their HTTP requests. The caller must call done when it has served the request.
func (w *Waits) Add(ctx, request context.Context, by Waiter, resumable bool) (_ context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	this := &wait{end}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.by[by]
	if all == nil {
		all = new(waits)
		if w.by == nil {
			w.by = make(map[Waiter]*waits)
		}
		w.by[by] = all
	}
	all.open = append(all.open, this)
	stop := context.AfterFunc(request, func() {
		if !resumable {
			end(context.Cause(request))
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if all.abandoned = append(all.abandoned, this); len(all.abandoned) > maxAbandoned {
			all.abandoned[0].end(errAbandoned)
			all.abandoned = slices.Delete(all.abandoned, 0, 1)
		}
	})
	return ctx, func() {
		stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		end(nil)
		isThis := func(other *wait) bool { return other == this }
		all.open, all.abandoned = slices.DeleteFunc(all.open, isThis), slices.DeleteFunc(all.abandoned, isThis)
		if len(all.open) == 0 {
			delete(w.by, by)
		}
	}
}

// End ends the requests of a Waiter, because its session ends.
func (w *Waits) End(by Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.by[by]; all != nil {
		for _, each := range all.open {
			each.end(errSessionEnded)
		}
	}
}
