package streamable

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/stall"
)

// outflow limits the bytes that are pending for the HTTP connections of a session. Senders wait for
// room, and connections that accept no data are cut.
//
// pending is the sum of the bytes that are pending for the sinks, being written, or reserved. It is
// at most max, except for answers and for a single message that is longer; and less while the
// sessions of the account have too many together. mu guards all fields of outlets and sinks, except
// those that say otherwise.
type outflow struct {
	max     int
	stall   time.Duration
	done    <-chan struct{} // closed when the connection has ended
	queued  *guard.Meter    // counts pending for the account, and events that are written from the store
	answers *guard.Room     // limits the long answers that the account does not read

	progress // of all sinks; see interrupt; not guarded

	mu      sync.Mutex
	pending int
	room    chan struct{} // closed when pending decreases; nil unless await waits
	tickets uint64        // the newest ticket; see reserve
	sinks   *sink         // head of the list of sinks
}

// outlet is the part of a stream that its messages leave through.
type outlet struct {
	sink    *sink    // the connection; nil if there is none
	over    bool     // the stream has ended
	taken   uint64   // number of the newest event that was written to a connection
	waiting []uint64 // tickets of the messages that wait for room, in order
}

// add adds k to the sinks, whose writes interrupt ends.
func (f *outflow) add(k *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k.next = f.sinks; k.next != nil {
		k.next.previous = k
	}
	f.sinks = k
}

// remove removes k from the sinks, and from its outlet. The stream continues without a connection.
func (f *outflow) remove(o *outlet, k *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.sink == k {
		o.sink = nil
	}
	if k.next != nil {
		k.next.previous = k.previous
	}
	switch {
	case k.previous != nil:
		k.previous.next = k.next
	case f.sinks == k:
		f.sinks = k.next
	}
	k.previous, k.next = nil, nil
	f.cut(k)
	f.free(k.held)
	f.answers.Give(k.long)
	k.held, k.long = 0, 0
}

// hold counts an answer of n bytes that is long or part of a batch, and which the connection of an
// outlet is about to get. It returns false if the account does not read earlier ones.
func (f *outflow) hold(o *outlet, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := o.sink
	if k == nil || k.cut { // the answer only gets into the store, which has limits of its own
		return true
	}
	if !f.answers.Take(n) {
		return false
	}
	k.long += n
	return true
}

// connected reports whether an outlet has a connection.
func (f *outflow) connected(o *outlet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.sink != nil && !o.sink.cut
}

// interrupt ends the writes to all connections, and later ones.
func (f *outflow) interrupt() {
	f.interrupted.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := f.sinks; k != nil; k = k.next {
		// mu delays the end of the exchange. After that end, its ResponseWriter is reused.
		k.conn.SetWriteDeadline(time.Now())
	}
}

// reserve reserves room for an event of n bytes, and waits while too many bytes are pending in the
// session. If nothing is pending, an event of any length fits. room is 0 if the outlet has no
// connection. Messages of one stream get room in order: while a ticket other than 0 is held, later
// messages wait.
//
// reserve fails if ctx or the session ends, and with [transport.ErrStalled] if no connection of the
// session accepts data for the stall timeout. If the stalled connection is that of the outlet,
// reserve cuts it, and the event is only stored.
func (f *outflow) reserve(ctx context.Context, o *outlet, n int) (room int, ticket uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := func() bool {
		switch {
		case len(o.waiting) > 0 && o.waiting[0] != ticket:
			return false
		case o.sink == nil || o.sink.cut || o.over: // no room is needed; see push
			return true
		case f.pending > 0 && f.pending+n > f.limit():
			return false
		}
		room = n
		f.count(n)
		return true
	}
	if ready() {
		return room, 0, nil
	}
	f.tickets++
	ticket = f.tickets
	o.waiting = append(o.waiting, ticket)
	if err := f.await(ctx, func() *sink { return o.sink }, ready); err != nil {
		f.removeTicket(o, ticket)
		return 0, 0, err
	}
	return room, ticket, nil
}

// releaseTicket lets the next message of a stream reserve room.
func (f *outflow) releaseTicket(o *outlet, ticket uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removeTicket(o, ticket)
}

// removeTicket is releaseTicket for callers that hold mu.
func (f *outflow) removeTicket(o *outlet, ticket uint64) {
	i := slices.Index(o.waiting, ticket)
	o.waiting = slices.Delete(o.waiting, i, i+1)
	f.free(0)
}

// release gives back room of reserve.
func (f *outflow) release(room int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free(room)
}

// push adds an event to the connection of an outlet. The event uses the reserved room. The last event
// ends the stream. full is the connection if more than max is pending, otherwise nil. ok is false if
// there is no connection, or if it was cut: the client has to resume the stream.
func (f *outflow) push(o *outlet, e Event, room int) (full *sink, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Last {
		f.end(o)
	}
	k := o.sink
	if k == nil || k.cut {
		f.free(room)
		return nil, false
	}
	n := len(e.Text) + eventOverhead
	k.events = append(k.events, e)
	k.size += n
	f.count(n - room)
	k.over = e.Last
	k.signal()
	return f.ifFull(k), true
}

// answer passes the only message of a stream to its connection, as JSON, and ends the stream. It
// returns the connection if more than max is pending, otherwise nil.
func (f *outflow) answer(o *outlet, text []byte) (full *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(o)
	k := o.sink
	if k == nil { // the client has disconnected, and cannot resume a stream without events
		return nil
	}
	k.answer, k.over = text, true
	k.held = len(text) + eventOverhead
	f.count(k.held)
	k.signal()
	return f.ifFull(k)
}

// count adds n to the pending bytes. mu must be held.
func (f *outflow) count(n int) {
	f.pending += n
	f.queued.Add(n)
}

// limit returns how many bytes may be pending: less than max if the account has too many. Calls of
// await notice a change when pending decreases. Something is pending while they wait, so it does.
func (f *outflow) limit() int { return f.queued.Limit(f.max) }

// ifFull returns k if more than max is pending, otherwise nil. mu must be held.
func (f *outflow) ifFull(k *sink) *sink {
	if f.pending <= f.limit() {
		return nil
	}
	return k
}

// end records that a stream has ended. mu must be held.
func (f *outflow) end(o *outlet) {
	o.over = true
	f.free(0) // messages that wait for room in this stream need another one
}

// waitForRoom waits until no more than max is pending, or nothing for k. It cuts k if k accepts no
// data for the stall timeout: the pending events are in the store.
func (f *outflow) waitForRoom(ctx context.Context, k *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The error is irrelevant, because the answer is pending.
	f.await(ctx, func() *sink { return k }, func() bool {
		return k.cut || k.size+k.held == 0 || f.pending <= f.limit()
	})
}

// await waits until ready returns true, and calls it whenever pending decreases. of returns the
// connection that the caller waits for, or nil. If data is pending for that connection and no
// connection of the session accepts any for the stall timeout, await cuts it. If no data is pending
// for it, await fails with [transport.ErrStalled] instead. It fails if ctx or the session ends. mu
// must be held; of and ready are called with mu held.
func (f *outflow) await(ctx context.Context, of func() *sink, ready func() bool) error {
	if ready() {
		return nil
	}
	wait := stall.Wait{Timeout: f.stall, Progress: &f.moved}
	defer wait.Stop()
	k := of()
	for {
		if f.room == nil {
			f.room = make(chan struct{})
		}
		room := f.room
		f.mu.Unlock()
		err := wait.For(ctx, room, f.done)
		f.mu.Lock()
		switch {
		case err == transport.ErrStalled && k != nil && (k.cut || k.size+k.held > 0):
			f.cut(k)
			wait.Restart()
		case err == transport.ErrStalled:
			return &transport.MessageError{Err: err}
		case err != nil:
			return err
		}
		if ready() {
			return nil
		}
		if now := of(); now != k {
			k = now
			wait.Restart()
		}
	}
}

// cut closes a connection and drops its pending data. mu must be held.
func (f *outflow) cut(k *sink) {
	k.cut = true
	k.events = nil
	f.free(k.size)
	k.size = 0
	k.signal()
}

// wrote records that n of the held bytes of a connection are written, with the events of the outlet
// up to a number. It reports whether these are its first ones.
func (f *outflow) wrote(o *outlet, k *sink, n int, number uint64) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k.held -= n
	f.free(n)
	first = o.taken == 0 && number > 0
	o.taken = max(o.taken, number)
	return first
}

// free subtracts n from the pending bytes and wakes calls of await. mu must be held.
func (f *outflow) free(n int) {
	f.count(-n)
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// attach makes k the connection of an outlet. It cuts the current one.
func (f *outflow) attach(o *outlet, k *sink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.sink != nil {
		f.cut(o.sink)
	}
	o.sink = k
	k.over = o.over
}

// hangUp makes the connection of an outlet close, so that the client reconnects. It returns false if
// there is none, or if the stream has ended.
func (f *outflow) hangUp(o *outlet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.sink == nil || o.over {
		return false
	}
	o.sink.hangUp = true
	o.sink.signal()
	return true
}

// isOver reports whether the stream of an outlet has ended.
func (f *outflow) isOver(o *outlet) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.over
}

// taken returns the number of the newest event of an outlet that was written to a connection.
func (f *outflow) taken(o *outlet) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.taken
}
