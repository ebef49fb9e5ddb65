// Package mailbox hands items to a function one after another, in a goroutine that exists only
// while there are items. It counts them for limits that a connection shares with others.
package mailbox

import (
	"context"
	"sync"
)

// Mailbox is a bounded first-in, first-out queue of items for one function. Its fields are set
// before the first use and not changed afterwards. Its methods are safe for concurrent use.
type Mailbox[T any] struct {
	// Handle handles an item. Its calls do not overlap. If Handle calls [runtime.Goexit], a new
	// goroutine handles the next item.
	Handle func(T)

	// Spawn runs a function in a goroutine of the owner. It returns false, and does not run the
	// function, if the owner has ended.
	Spawn func(func()) bool

	// MaxItems is how many items may be pending. An item that is being handled is not pending.
	MaxItems int

	// MaxBytes limits the total size of the pending items and the item that is being handled. A
	// larger item is accepted if it is the only one.
	MaxBytes int

	// Meter, if it is not nil, counts the same bytes, and [Overhead] for each item.
	Meter Meter

	mu      sync.Mutex
	pending []entry[T]
	bytes   int // of pending and of the item that is being handled
	paused  bool
	running bool // a goroutine calls Handle, or is about to
	closed  bool
	ended   chan struct{} // closed when running becomes false; nil unless a Wait waits
	room    chan struct{} // closed when an item is removed; nil unless a Put waits
}

type entry[T any] struct {
	item T
	size int
}

// TryPut appends an item. It returns false if there is no room. A closed mailbox drops the item.
func (m *Mailbox[T]) TryPut(item T, size int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && (m.full(size) || m.Meter != nil && !m.Meter.Take(size+Overhead)) {
		return false
	}
	m.add(item, size)
	return true
}

// Put appends an item. If the mailbox is full, it waits for room first. A closed mailbox drops the
// item.
func (m *Mailbox[T]) Put(item T, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.closed && m.full(size) {
		if m.room == nil {
			m.room = make(chan struct{})
		}
		room := m.room
		m.mu.Unlock()
		<-room
		m.mu.Lock()
	}
	if !m.closed && m.Meter != nil {
		m.Meter.Add(size + Overhead)
	}
	m.add(item, size)
}

// full reports whether there is no room for an item. mu must be held.
func (m *Mailbox[T]) full(size int) bool {
	limit := m.MaxBytes
	if m.Meter != nil {
		limit = m.Meter.Limit(limit)
	}
	return len(m.pending) >= m.MaxItems || m.bytes > 0 && m.bytes+size > limit
}

// add appends an item. mu must be held.
func (m *Mailbox[T]) add(item T, size int) {
	if m.closed {
		return
	}
	m.pending = append(m.pending, entry[T]{item, size})
	m.bytes += size
	m.start()
}

// start starts the goroutine that handles the items, unless it is running, the mailbox is paused or
// no item is pending. mu must be held.
func (m *Mailbox[T]) start() {
	if !m.running && !m.paused && len(m.pending) > 0 {
		m.running = m.Spawn(m.run) // ends when no item is pending
	}
}

// run handles items until none is pending.
func (m *Mailbox[T]) run() {
	held, items := 0, 0 // the size of the item that is being handled; and 1, or 0 for none
	drained := false
	defer func() {
		if !drained { // Handle called runtime.Goexit
			m.mu.Lock()
			m.release(held, items)
			m.stopped()
			m.start()
			m.mu.Unlock()
		}
	}()
	for {
		m.mu.Lock()
		m.release(held, items)
		held, items = 0, 0
		if len(m.pending) == 0 || m.paused {
			m.stopped()
			m.mu.Unlock()
			drained = true
			return
		}
		next := m.pending[0]
		m.pending[0] = entry[T]{}
		m.pending = m.pending[1:]
		m.wake() // an item was removed from pending
		m.mu.Unlock()
		held, items = next.size, 1
		m.Handle(next.item)
	}
}

// stopped records that no goroutine calls Handle, and wakes the calls of Wait. mu must be held.
func (m *Mailbox[T]) stopped() {
	m.running = false
	if m.ended != nil {
		close(m.ended)
		m.ended = nil
	}
}

// Wait waits until all items are handled or dropped, or ctx ends.
func (m *Mailbox[T]) Wait(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.running && ctx.Err() == nil {
		if m.ended == nil {
			m.ended = make(chan struct{})
		}
		ended := m.ended
		m.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
}

// release subtracts the bytes of items and wakes the calls of Put that wait. mu must be held.
func (m *Mailbox[T]) release(bytes, items int) {
	m.bytes -= bytes
	if m.Meter != nil {
		m.Meter.Add(-bytes - items*Overhead)
	}
	m.wake()
}

// wake wakes the calls of Put that wait for room. mu must be held.
func (m *Mailbox[T]) wake() {
	if m.room != nil {
		close(m.room)
		m.room = nil
	}
}

// Pause stops the handling of items until Resume. An item that is being handled is completed.
func (m *Mailbox[T]) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = true
}

// Resume ends a Pause.
func (m *Mailbox[T]) Resume() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused = false
	m.start()
}

// Clear drops the pending items.
func (m *Mailbox[T]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

// clear is Clear with mu held.
func (m *Mailbox[T]) clear() {
	bytes := 0
	for _, e := range m.pending {
		bytes += e.size
	}
	items := len(m.pending)
	m.pending = nil
	m.release(bytes, items)
}

// Close drops the pending items and all later ones. It does not wait for an item that is being
// handled.
func (m *Mailbox[T]) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.clear()
}

// Running reports whether an item is being handled, or about to be.
func (m *Mailbox[T]) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}
