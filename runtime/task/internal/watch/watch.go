// Package watch wakes those who wait for a change of a task.
package watch

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Hub knows who waits for which task of a store. The zero value is ready to use. It may be
// used by many goroutines at once.
type Hub struct {
	mu     sync.Mutex
	cells  map[string]*cell
	closed bool
}

// cell is the next change of one task, which all who wait for it share.
type cell struct {
	happened chan struct{}
	waiting  int // how many wait
	record   task.Record
	err      error
}

// Tell wakes all who wait for the task of a record, which has just been written.
func (h *Hub) Tell(r *task.Record) { h.wake(r.ID, r, nil) }

// Gone wakes all who wait for a task that is there no more.
func (h *Hub) Gone(id string) { h.wake(id, &task.Record{}, task.ErrNotFound) }

func (h *Hub) wake(id string, r *task.Record, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.cells[id]; c != nil {
		delete(h.cells, id)
		c.record, c.err = *r, err
		close(c.happened)
	}
}

// Close wakes everybody with [task.ErrClosed], now and for ever.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for id, c := range h.cells {
		delete(h.cells, id)
		c.err = task.ErrClosed
		close(c.happened)
	}
}

// Wait returns the record of a task as soon as its revision is greater than the given one.
// It signs up for the next change before it looks with get, so that none falls in between.
func (h *Hub) Wait(ctx context.Context, id string, revision uint64, get func(context.Context, string) (task.Record, error)) (task.Record, error) {
	for {
		c, err := h.join(id)
		if err != nil {
			return task.Record{}, err
		}
		r, err := get(ctx, id)
		if err != nil || r.Revision > revision {
			h.leave(id, c)
			return r, err
		}
		select {
		case <-c.happened:
			// A change that was told late may be one that get has seen before.
			if c.err != nil || c.record.Revision > revision {
				return c.record, c.err
			}
		case <-ctx.Done():
			h.leave(id, c)
			return task.Record{}, ctx.Err()
		}
	}
}

func (h *Hub) join(id string) (*cell, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, task.ErrClosed
	}
	c := h.cells[id]
	if c == nil {
		if h.cells == nil {
			h.cells = map[string]*cell{}
		}
		c = &cell{happened: make(chan struct{})}
		h.cells[id] = c
	}
	c.waiting++
	return c, nil
}

// leave forgets a cell that nobody waits for any more.
func (h *Hub) leave(id string, c *cell) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.waiting--; c.waiting == 0 && h.cells[id] == c {
		delete(h.cells, id)
	}
}
