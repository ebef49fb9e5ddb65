// Package queue has a bounded first-in, first-out queue of messages.
package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/stall"
)

// overhead is the memory of a pending message in addition to its text, in bytes.
const overhead = 128

// Queue is a queue with a limit in bytes. Many goroutines may put messages into it, and one takes
// them out.
type Queue struct {
	max   int
	limit func(max int) int // see Limit
	stall time.Duration

	mu           sync.Mutex
	pending      []transport.Message
	spare        []transport.Message // the slice returned by the last Take, for reuse
	size         int                 // of pending, in bytes
	moved        atomic.Uint64       // number of calls of Moved and of removals
	err          error               // the error of Put after Close; nil before
	takerWaiting bool                // Take waits for filled
	filled       chan struct{}       // buffers one; nil before Take first waits
	room         chan struct{}       // closed on removal; nil unless Put waits

	batch []transport.Message // taken by Next and not yet returned; not guarded by mu

	take   func(transport.Message, error) // set by Push; nil if Take is used
	taking bool                           // a goroutine handles the pending messages
	ended  bool                           // take was called with err
	idle   sync.Cond                      // signals that taking is false
}

// New returns a queue for max bytes. Put fails if no message is taken or moved for the duration
// stall.
func New(max int, stall time.Duration) *Queue {
	q := &Queue{max: max, limit: func(max int) int { return max }, stall: stall}
	q.idle.L = &q.mu
	return q
}

// Limit makes limit return how many bytes the queue may have, at most max. It may change at any time;
// calls of Put that wait notice it when a message is removed. Call it before the queue is used.
func (q *Queue) Limit(limit func(max int) int) { q.limit = limit }

// Push makes the queue call take for each pending and later message, sequentially and in order, and
// finally with the error of Close. It replaces Take. If take is idle, Put calls it for its own
// message, which avoids waking a goroutine. Messages that arrive during that call are handled by a
// separate goroutine, so that each Put is delayed by its own message only.
func (q *Queue) Push(take func(transport.Message, error)) {
	q.mu.Lock()
	q.take, q.taking = take, true
	q.mu.Unlock()
	q.drain()
}

// takeOne calls take for m, and starts drain if messages have arrived meanwhile. It does so even if
// take panics. The caller has set taking.
func (q *Queue) takeOne(m transport.Message) {
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(q.pending) > 0 || q.err != nil && !q.ended {
			go q.drain() // ends when no message is pending; Wait waits for it
			return
		}
		q.taking = false
		q.idle.Broadcast()
	}()
	q.take(m, nil)
}

// drain calls take until no message is pending. The caller has set taking.
func (q *Queue) drain() {
	for {
		q.mu.Lock()
		batch := q.remove()
		ended := len(batch) == 0 && q.err != nil && !q.ended
		q.ended = q.ended || ended
		if len(batch) == 0 && !ended {
			q.taking = false
			q.idle.Broadcast()
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		for _, m := range batch {
			q.take(m, nil)
			q.Moved()
		}
		if ended {
			q.take(transport.Message{}, q.err) // err does not change once set
		}
		clear(batch)
	}
}

// remove removes all pending messages. mu must be held.
func (q *Queue) remove() []transport.Message {
	batch := q.pending
	if len(batch) > 0 {
		q.pending, q.spare = q.spare[:0], batch
		q.size = 0
		q.moved.Add(1)
		q.wakePut()
	}
	return batch
}

// Moved reports that a part of the removed messages was written. It prevents a slow reader from
// being mistaken for one that has stopped.
func (q *Queue) Moved() { q.moved.Add(1) }

// Put adds m. It waits for room until ctx ends. It fails with [transport.ErrStalled] if no message
// is taken or moved for too long, and with the error of Close after Close.
func (q *Queue) Put(ctx context.Context, m transport.Message) error {
	q.mu.Lock()
	direct := q.err == nil && q.take != nil && !q.taking
	q.taking = q.taking || direct
	q.mu.Unlock()
	if !direct {
		return q.add(ctx, m)
	}
	q.takeOne(m)
	return nil
}

// add is Put for a Queue that has no function of Push, or calls it already.
func (q *Queue) add(ctx context.Context, m transport.Message) error {
	size := len(m.Text) + overhead
	wait := stall.Wait{Timeout: q.stall, Progress: &q.moved}
	defer wait.Stop()
	for {
		q.mu.Lock()
		if err := q.err; err != nil {
			q.mu.Unlock()
			return err
		}
		if q.take != nil && !q.taking {
			q.taking = true
			q.mu.Unlock()
			q.takeOne(m)
			return nil
		}
		if q.size == 0 || q.size+size <= q.limit(q.max) {
			q.pending = append(q.pending, m)
			q.size += size
			wake := q.takerWaiting
			q.takerWaiting = false
			q.mu.Unlock()
			if wake {
				q.filled <- struct{}{} // does not block: filled is empty while takerWaiting is set
			}
			return nil
		}
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		if err := wait.For(ctx, room, nil); err != nil {
			return err
		}
	}
}

// Take waits for messages and returns all pending ones, in order. The slice is valid until the next
// Take. After Close it returns the remaining messages, and then the error of Close.
func (q *Queue) Take() ([]transport.Message, error) {
	clear(q.spare) // delivered messages need not stay in memory during the wait
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
		q.takerWaiting = true
		q.mu.Unlock()
		<-filled
	}
}

// Next waits for a message and returns it. After Close it returns the remaining messages, and then
// the error of Close. It is Take for callers that handle one message at a time.
func (q *Queue) Next() (transport.Message, error) {
	if len(q.batch) == 0 {
		var err error
		if q.batch, err = q.Take(); err != nil {
			return transport.Message{}, err
		}
	}
	m := q.batch[0]
	q.batch[0] = transport.Message{}
	q.batch = q.batch[1:]
	q.Moved()
	return m, nil
}

// wakePut wakes waiting calls of Put. mu must be held.
func (q *Queue) wakePut() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// Close rejects further messages with err. Pending messages can still be taken. Only the first
// Close has an effect.
func (q *Queue) Close(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	q.err = err
	q.wakePut()
	if q.take != nil && !q.taking {
		q.taking = true
		go q.drain() // ends when take has received err; Wait waits for it
	}
	if q.takerWaiting {
		q.takerWaiting = false
		q.filled <- struct{}{}
	}
}

// Discard drops pending messages.
func (q *Queue) Discard() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.pending)
	q.pending, q.size = q.pending[:0], 0
	q.wakePut()
}

// Wait waits until take is not running. After Close, take does not run again. take must not call
// Wait.
func (q *Queue) Wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.taking {
		q.idle.Wait()
	}
}
