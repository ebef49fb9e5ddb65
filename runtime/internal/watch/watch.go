// Package watch wakes the waiters of a task when its record changes.
package watch

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Hub holds the waiters of a store's tasks. The zero value is ready to use. It may be used
// concurrently.
type Hub struct {
	mu      sync.Mutex
	waiters map[string]*waiter // by task id; the latest waiter, head of a linked list
	closed  bool
	idle    sync.Pool // pool of *waiter that are in no list and whose woken is empty
}

// waiter is a call of Wait that is blocked until the next change of one task. All waiters of a
// task form a linked list.
type waiter struct {
	// woken has capacity 1. It is filled after record and err are set and the waiter has left its
	// list.
	woken          chan struct{}
	record         *task.Record // shared between waiters, read-only
	err            error
	earlier, later *waiter
}

// Publish wakes all waiters of a task with its record, which has just been written.
func (h *Hub) Publish(r *task.Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[r.ID]; w != nil {
		record := *r
		h.wake(r.ID, w, &record, nil)
	}
}

// Remove wakes all waiters of a task with [task.ErrNotFound]. The task has just been dropped.
func (h *Hub) Remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w := h.waiters[id]; w != nil {
		h.wake(id, w, nil, task.ErrNotFound)
	}
}

// Recheck makes all waiters read the store again. It is for changes that were not published.
func (h *Hub) Recheck() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, w := range h.waiters {
		h.wake(id, w, nil, nil)
	}
}

// wake wakes the waiters in the list that starts with w. The caller holds mu.
func (h *Hub) wake(id string, w *waiter, r *task.Record, err error) {
	delete(h.waiters, id)
	for w != nil {
		next := w.earlier
		w.record, w.err, w.earlier, w.later = r, err, nil, nil
		w.woken <- struct{}{}
		w = next
	}
}

// Close wakes all waiters with [task.ErrClosed]. Later calls of Wait fail with it, too.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for id, w := range h.waiters {
		h.wake(id, w, nil, task.ErrClosed)
	}
}

// Wait sets r to the record of a task as soon as its revision is greater than the given one. It
// registers a waiter before it reads the record with get, so that it misses no change.
func (h *Hub) Wait(ctx context.Context, id string, revision uint64, get func(context.Context, string) (task.Record, error), r *task.Record) error {
	var done1, done2 <-chan struct{}
	if both, ok := ctx.(*lazyctx.Both); ok {
		done1, done2 = both.Each()
	} else {
		done1 = ctx.Done()
	}
	for {
		w, err := h.register(id)
		if err != nil {
			return err
		}
		if *r, err = get(ctx, id); err != nil || r.Revision > revision {
			h.unregister(id, w)
			return err
		}
		select {
		case <-w.woken:
			published, err := w.record, w.err
			h.recycle(w)
			if err != nil {
				return err
			}
			// A store publishes after it writes, so the caller may have seen this revision.
			if published != nil && published.Revision > revision {
				*r = *published
				return nil
			}
		case <-done1:
			h.unregister(id, w)
			return ctx.Err()
		case <-done2:
			h.unregister(id, w)
			return ctx.Err()
		}
	}
}

// Len returns the number of waiters.
func (h *Hub) Len() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		for ; w != nil; w = w.earlier {
			n++
		}
	}
	return n
}

// register adds a waiter to the list of a task.
func (h *Hub) register(id string) (*waiter, error) {
	w, ok := h.idle.Get().(*waiter)
	if !ok {
		w = &waiter{woken: make(chan struct{}, 1)}
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

// unregister removes a waiter from its list, unless wake has already done so.
func (h *Hub) unregister(id string, w *waiter) {
	h.mu.Lock()
	select {
	case <-w.woken:
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
	h.recycle(w)
}

// recycle returns a waiter to the pool.
func (h *Hub) recycle(w *waiter) {
	w.record, w.err = nil, nil
	h.idle.Put(w)
}
