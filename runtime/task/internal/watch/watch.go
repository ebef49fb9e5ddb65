// Package watch wakes those who wait for a change of a task.
package watch

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Hub knows who waits for which task of a store. The zero value is ready to use. It may be
// used by many goroutines at once.
type Hub struct {
	mu      sync.Mutex
	waiters map[string]*waiter // the latest one for each task
	closed  bool
	idle    sync.Pool // of *waiter that are in no list, with nothing in told
}

// waiter is one who waits for the next change of one task, in a list of all those who do.
type waiter struct {
	told           chan struct{} // holds one: record or err are there, and it is in no list any more
	record         *task.Record  // shared, not to be changed
	err            error
	earlier, later *waiter
}

// Tell wakes all who wait for the task of a record, which has just been written.
func (h *Hub) Tell(r *task.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[r.ID]; w != nil {
		record := *r
		h.wake(r.ID, w, &record, nil)
	}
}

// Gone wakes all who wait for a task that is there no more.
func (h *Hub) Gone(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[id]; w != nil {
		h.wake(id, w, nil, task.ErrNotFound)
	}
}

// Again makes all waiters read the store again, which may have changed unnoticed.
func (h *Hub) Again() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.waiters {
		h.wake(id, w, nil, nil)
	}
}

// wake wakes the list of those who wait for a task. It is called with mu held.
func (h *Hub) wake(id string, w *waiter, r *task.Record, err error) {
	delete(h.waiters, id)
	for w != nil {
		next := w.earlier
		w.record, w.err, w.earlier, w.later = r, err, nil, nil
		w.told <- struct{}{}
		w = next
	}
}

// Close wakes everybody with [task.ErrClosed], now and for ever.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for id, w := range h.waiters {
		h.wake(id, w, nil, task.ErrClosed)
	}
}

// Wait returns the record of a task as soon as its revision is greater than the given one.
// It signs up for the next change before it looks with get, so that none falls in between.
func (h *Hub) Wait(ctx context.Context, id string, revision uint64, get func(context.Context, string) (task.Record, error)) (task.Record, error) {
	var ended, endedToo <-chan struct{}
	if both, ok := ctx.(*lazyctx.Both); ok {
		ended, endedToo = both.Each()
	} else {
		ended = ctx.Done()
	}
	for {
		w, err := h.join(id)
		if err != nil {
			return task.Record{}, err
		}
		r, err := get(ctx, id)
		if err != nil || r.Revision > revision {
			h.leave(id, w)
			return r, err
		}
		select {
		case <-w.told:
			told, err := w.record, w.err
			h.rest(w)
			if err != nil {
				return task.Record{}, err
			}
			if told != nil && told.Revision > revision { // or it was told late, and get has seen it before
				return *told, nil
			}
		case <-ended:
			h.leave(id, w)
			return task.Record{}, ctx.Err()
		case <-endedToo:
			h.leave(id, w)
			return task.Record{}, ctx.Err()
		}
	}
}

func (h *Hub) join(id string) (*waiter, error) {
	w, ok := h.idle.Get().(*waiter)
	if !ok {
		w = &waiter{told: make(chan struct{}, 1)}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, task.ErrClosed
	}
	if h.waiters == nil {
		h.waiters = map[string]*waiter{}
	}
	if w.earlier = h.waiters[id]; w.earlier != nil {
		w.earlier.later = w
	}
	h.waiters[id] = w
	return w, nil
}

// leave takes a waiter out of its list, unless it was told in between.
func (h *Hub) leave(id string, w *waiter) {
	h.mu.Lock()
	select {
	case <-w.told:
	default:
		if w.earlier != nil {
			w.earlier.later = w.later
		}
		if w.later != nil {
			w.later.earlier = w.earlier
		} else if w.earlier != nil {
			h.waiters[id] = w.earlier
		} else {
			delete(h.waiters, id)
		}
		w.earlier, w.later = nil, nil
	}
	h.mu.Unlock()
	h.rest(w)
}

// rest keeps a waiter for another time.
func (h *Hub) rest(w *waiter) {
	w.record, w.err = nil, nil
	h.idle.Put(w)
}
