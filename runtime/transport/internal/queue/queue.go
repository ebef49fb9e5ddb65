// Package queue holds messages that wait for delivery: first in, first out, bounded in bytes.
package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// overhead is what a waiting message costs beside its text.
const overhead = 128

// Queue is a bounded queue. Many goroutines may put into it, one takes out of it.
type Queue struct {
	max   int
	stall time.Duration

	mu      sync.Mutex
	waiting []transport.Message
	spare   []transport.Message // the slice that Take returned before
	size    int                 // of waiting, in bytes
	moved   atomic.Uint64       // how often something was taken, or Moved was called
	err     error               // why nothing goes in any more
	hungry  bool                // the taker waits for filled
	filled  chan struct{}       // holds one; nil before somebody waits
	room    chan struct{}       // closed when something is taken; nil while nobody waits for it

	take   func(transport.Message, error) // see Push
	taking bool                           // somebody calls take, and sees to what waits by then
	ended  bool                           // take was told of the end
	still  sync.Cond                      // taking is false
}

// New returns a queue for max bytes, in which a writer waits for at most stall without anything being taken or moved.
func New(max int, stall time.Duration) *Queue {
	q := &Queue{max: max, stall: stall}
	q.still.L = &q.mu
	return q
}

// Push makes the queue call take, one after another and in order, with what waits, with what is put into it, and at
// last with what Close is given. It is called instead of Take. Who puts a message calls take for that one, in the place
// of a goroutine that would have to be woken. What others put meanwhile waits for a goroutine of its own, so that nobody
// is held up by more than his own message.
func (q *Queue) Push(take func(transport.Message, error)) {
	q.mu.Lock()
	q.take, q.taking = take, true
	q.mu.Unlock()
	q.drain()
}

// hand calls take for a message. Whatever that does, what has come meanwhile is seen to.
func (q *Queue) hand(m transport.Message) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.waiting) > 0 || q.err != nil && !q.ended {
			go q.drain() // ends when nothing is left; Wait waits for it
			return
		}
		q.taking = false
		q.still.Broadcast()
	}()
	q.take(m, nil)
}

// drain calls take until there is nothing for it. Nobody else does, as taking is set.
func (q *Queue) drain() {
	for {
		q.mu.Lock()
		batch := q.remove()
		ended := len(batch) == 0 && q.err != nil && !q.ended
		q.ended = q.ended || ended
		if len(batch) == 0 && !ended {
			q.taking = false
			q.still.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, m := range batch {
			q.take(m, nil)
			q.Moved()
		}
		if ended {
			q.take(transport.Message{}, q.err) // which does not change any more
		}
		clear(batch)
	}
}

// remove takes out what waits. It is called with mu held.
func (q *Queue) remove() []transport.Message {
	batch := q.waiting
	if len(batch) > 0 {
		q.waiting, q.spare = q.spare[:0], batch
		q.size = 0
		q.moved.Add(1)
		q.freed()
	}
	return batch
}

// Moved reports that a part of the data taken from the queue was written. So a slow reader is not
// mistaken for one that has stopped.
func (q *Queue) Moved() { q.moved.Add(1) }

// Put adds m. It waits for room until ctx ends, with [transport.ErrStalled] if nothing is taken, and nothing that was
// taken moves, for too long. After Close it fails with what Close was given.
func (q *Queue) Put(ctx context.Context, m transport.Message) error {
	size := len(m.Text) + overhead
	var timer *time.Timer // only a caller that must wait pays for it
	var moved uint64
	for {
		q.mu.Lock()
		if q.err != nil {
			defer q.mu.Unlock()
			return q.err
		}
		if q.take != nil && !q.taking {
			q.taking = true
			q.mu.Unlock()
			q.hand(m)
			return nil
		}
		if q.size == 0 || q.size+size <= q.max {
			q.waiting = append(q.waiting, m)
			q.size += size
			wake := q.hungry
			q.hungry = false
			q.mu.Unlock()
			if wake {
				q.filled <- struct{}{} // has room: hungry is set with it empty
			}
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()

		now := q.moved.Load()
		switch {
		case timer == nil:
			timer = time.NewTimer(q.stall)
			defer timer.Stop()
		case now != moved:
			timer.Reset(q.stall)
		}
		moved = now
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if q.moved.Load() == moved {
				return transport.ErrStalled
			}
		}
	}
}

// Take waits for messages and returns all there are, in order. The slice is good until the next Take. When the
// queue is closed it returns what is left, and after that what Close was given.
func (q *Queue) Take() ([]transport.Message, error) {
	clear(q.spare) // nobody else uses it: what was delivered need not be kept while we wait
	for {
		q.mu.Lock()
		if batch := q.remove(); len(batch) > 0 {
			q.mu.Unlock()
			return batch, nil
		}
		if q.err != nil {
			defer q.mu.Unlock()
			return nil, q.err
		}
		if q.filled == nil {
			q.filled = make(chan struct{}, 1)
		}
		filled := q.filled
		q.hungry = true
		q.mu.Unlock()
		<-filled
	}
}

// freed wakes those who wait for room. It is called with mu held.
func (q *Queue) freed() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// Close refuses further messages with err. Those that wait can still be taken. Only the first Close counts.
func (q *Queue) Close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	q.err = err
	q.freed()
	if q.take != nil && !q.taking {
		q.taking = true
		go q.drain() // ends when that was taken; Wait waits for it
	}
	if q.hungry {
		q.hungry = false
		q.filled <- struct{}{}
	}
}

// Discard drops what waits.
func (q *Queue) Discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.waiting)
	q.waiting, q.size = q.waiting[:0], 0
	q.freed()
}

// Wait waits until nobody calls take, which is for good once the queue was closed. Take must not call it.
func (q *Queue) Wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.taking {
		q.still.Wait()
	}
}
