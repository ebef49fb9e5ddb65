package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

var (
	errNoStream       = errors.New("no stream for messages without a request")
	errTooManyStreams = errors.New("too many streams")
	errIDInUse        = errors.New("a request with this id is being served")
	errOver           = errors.New("the stream has ended")
)

// eventOverhead is the memory of a pending event in addition to its text, in bytes.
const eventOverhead = 128

// serverStream is a sequence of events. It outlives the HTTP connections over which it is read, of
// which there is at most one at a time. serverConn.mu guards all fields but id and order.
type serverStream struct {
	id       string
	order    sync.Mutex   // held while an event is added, to store and send events in order
	requests []jsonrpc.ID // the requests that it was opened for; nil once they are stored

	numbered   bool   // it is an event stream: its messages have numbers and are persisted
	last       uint64 // number of the newest event
	taken      uint64 // number of the newest event that was written to a connection
	unanswered int    // number of requests without an answer; 0 for the standing stream
	over       bool   // the stream has ended
	opening    []byte // the params of initialize, if the stream was opened for a new session
	sink       *sink  // the connection; nil if there is none

	waiting []uint64 // tickets of the messages that wait for room, in order
}

func newServerStream(id string) *serverStream {
	return &serverStream{id: id, numbered: id == standing}
}

// sink is the HTTP connection to which the events of a stream are written. serverConn.mu guards all
// fields but wake, parts and conn.
type sink struct {
	wake   chan struct{} // buffers one; signals a change
	events []Event       // pending events
	size   int           // of events, in bytes
	held   int           // bytes being written
	answer []byte        // an answer without a stream; nil if there is none
	over   bool          // no further events
	cut    bool          // the connection is to be closed, and its pending events were dropped
	hangUp bool          // the connection is to be closed, and the client to reconnect

	parts atomic.Uint64 // number of partial writes

	conn           *http.ResponseController
	previous, next *sink // in the list of the connection's sinks
}

func newSink(w http.ResponseWriter) *sink {
	return &sink{wake: make(chan struct{}, 1), conn: http.NewResponseController(w)}
}

// addSink adds k to the sinks whose writes Close interrupts. mu must be held.
func (c *serverConn) addSink(k *sink) {
	if k.next = c.sinks; k.next != nil {
		k.next.previous = k
	}
	c.sinks = k
}

// removeSink removes k from the list of addSink. mu must be held.
func (c *serverConn) removeSink(k *sink) {
	if k.next != nil {
		k.next.previous = k.previous
	}
	switch {
	case k.previous != nil:
		k.previous.next = k.next
	case c.sinks == k:
		c.sinks = k.next
	}
	k.previous, k.next = nil, nil
}

// interrupt ends the writes to all connections, and later ones.
func (c *serverConn) interrupt() {
	c.interrupted.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := c.sinks; k != nil; k = k.next {
		// mu delays the end of the exchange. After that end, its ResponseWriter is reused.
		k.conn.SetWriteDeadline(time.Now())
	}
}

// signal wakes the goroutine that serves the sink.
func (k *sink) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// send adds a message to a stream. Unless the message is an answer, send first waits until the
// session has room for it. An answer is added at once. Then send waits until no more than MaxQueue
// is pending.
func (c *serverConn) send(ctx context.Context, st *serverStream, m transport.Message) error {
	var room int
	if !m.Answer {
		var ticket uint64
		var err error
		if room, ticket, err = c.reserve(ctx, st, len(m.Text)+eventOverhead); err != nil {
			return err
		}
		if ticket != 0 {
			defer c.releaseTicket(st, ticket)
		}
	}
	st.order.Lock()
	k, err := c.add(ctx, st, m, room)
	st.order.Unlock()
	if k != nil {
		c.waitForRoom(ctx, k)
	}
	return err
}

// reserve reserves room for an event of n bytes, and waits while too many bytes are pending in the
// session. If nothing is pending, an event of any length fits. room is 0 if the stream has no
// connection. Messages of one stream get room in order: while a ticket other than 0 is held, later
// messages wait.
//
// reserve fails if ctx or the session ends, and with [transport.ErrStalled] if no connection of the
// session accepts data for StallTimeout. If the stalled connection is that of the stream, reserve
// cuts it, and the event is only stored.
func (c *serverConn) reserve(ctx context.Context, st *serverStream, n int) (room int, ticket uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := func() bool {
		switch {
		case len(st.waiting) > 0 && st.waiting[0] != ticket:
			return false
		case st.sink == nil || st.sink.cut || st.over: // no room is needed; see add
			return true
		case c.pending > 0 && c.pending+n > c.h.o.MaxQueue:
			return false
		}
		room = n
		c.pending += n
		return true
	}
	if c.over || ready() {
		return room, 0, nil
	}
	c.tickets++
	ticket = c.tickets
	st.waiting = append(st.waiting, ticket)
	if err := c.await(ctx, func() *sink { return st.sink }, ready); err != nil {
		c.removeTicket(st, ticket)
		return 0, 0, err
	}
	return room, ticket, nil
}

// releaseTicket lets the next message of a stream reserve room.
func (c *serverConn) releaseTicket(st *serverStream, ticket uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeTicket(st, ticket)
}

// removeTicket is releaseTicket for callers that hold mu.
func (c *serverConn) removeTicket(st *serverStream, ticket uint64) {
	i := slices.Index(st.waiting, ticket)
	st.waiting = slices.Delete(st.waiting, i, i+1)
	c.makeRoom(0)
}

// add adds a message to a stream. It returns the stream's connection if the message is an answer
// and too many bytes are pending. It fails with errOver if the stream has ended. room is the room
// reserved for the message; add releases it if the stream has no connection. The order of the
// stream must be held.
func (c *serverConn) add(ctx context.Context, st *serverStream, m transport.Message, room int) (*sink, error) {
	c.mu.Lock()
	if c.over || st.over {
		defer c.mu.Unlock()
		c.makeRoom(room)
		if c.over {
			return nil, transport.ErrClosed
		}
		return nil, errOver
	}
	if m.Answer {
		delete(c.calls, m.For)
		st.unanswered--
		if !st.numbered && st.unanswered == 0 {
			defer c.mu.Unlock()
			return c.answerAlone(st, m.Text), nil
		}
	}
	e := Event{Number: st.last + 1, Text: m.Text, Last: m.Answer && st.unanswered == 0}
	begin := !st.numbered
	st.numbered = true
	var opening []byte
	if e.Last {
		opening, st.opening = st.opening, nil
	}
	c.mu.Unlock()

	if opening != nil { // the answer to initialize is sent as an event
		c.opened(context.WithoutCancel(ctx), opening, m.Text)
	}
	var answers jsonrpc.ID
	if m.Answer && m.Text != nil {
		answers = m.For
	}
	if begin {
		c.journal.begin(ctx, st.id, st.requests)
		st.requests = nil
	}
	persistErr := c.journal.append(ctx, st.id, e, answers)

	c.mu.Lock()
	defer c.mu.Unlock()
	st.last = e.Number
	if e.Last {
		c.finish(st)
	}
	k := st.sink
	if k == nil || k.cut { // a client whose connection was cut resumes the stream
		c.makeRoom(room)
		if persistErr != nil && !m.Answer {
			return nil, &transport.MessageError{Err: persistErr}
		}
		return nil, nil
	}
	k.events = append(k.events, e)
	k.size += len(e.Text) + eventOverhead
	c.pending += len(e.Text) + eventOverhead - room
	k.over = e.Last
	k.signal()
	if !m.Answer {
		return nil, nil
	}
	return c.ifFull(k), nil
}

// ifFull returns k if more than MaxQueue is pending, otherwise nil. mu must be held.
func (c *serverConn) ifFull(k *sink) *sink {
	if c.pending <= c.h.o.MaxQueue {
		return nil
	}
	return k
}

// answerAlone passes the only message of a stream to its connection, as JSON. It returns the
// connection if too many bytes are pending. mu must be held.
func (c *serverConn) answerAlone(st *serverStream, text []byte) *sink {
	c.finish(st)
	k := st.sink
	if k == nil { // the client has disconnected, and cannot resume a stream without events
		return nil
	}
	k.answer, k.over = text, true
	k.held = len(text) + eventOverhead
	c.pending += k.held
	k.signal()
	return c.ifFull(k)
}

// finish records that a stream has ended. mu must be held.
func (c *serverConn) finish(st *serverStream) {
	st.over = true
	delete(c.streams, st.id)
	c.makeRoom(0)   // wakes messages that wait for room in this stream: they need another one
	if c.id == "" { // without a session, this was the only stream
		c.in.Close(transport.ErrClosed)
	}
}

// start makes a stream an event stream, which its client can resume, before there is a message. If
// the request was answered with JSON in between, start returns the answer.
func (c *serverConn) start(st *serverStream) (answer []byte) {
	st.order.Lock()
	defer st.order.Unlock()
	c.mu.Lock()
	begin := !st.numbered && !st.over
	if begin {
		st.numbered = true
	} else if st.sink != nil {
		answer = st.sink.answer
	}
	over := c.over
	c.mu.Unlock()
	if begin && !over { // after Forget, Begin would store the session again
		c.journal.begin(context.Background(), st.id, st.requests)
		st.requests = nil
	}
	return answer
}

// waitForRoom waits until no more than MaxQueue is pending, or nothing for k. It cuts k if k
// accepts no data for StallTimeout: the pending events are in the store.
func (c *serverConn) waitForRoom(ctx context.Context, k *sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The error is irrelevant, because the answer is pending.
	c.await(ctx, func() *sink { return k }, func() bool {
		return k.cut || k.size+k.held == 0 || c.ifFull(k) == nil
	})
}

// await waits until ready returns true, and calls it whenever pending decreases. of returns the
// connection that the caller waits for, or nil. If data is pending for that connection and it
// accepts none for StallTimeout, await cuts it. If no data is pending for it, and no other
// connection of the session accepts data, await fails with [transport.ErrStalled]. It fails if ctx
// or the session ends. mu must be held; of and ready are called with mu held.
func (c *serverConn) await(ctx context.Context, of func() *sink, ready func() bool) error {
	var timer *time.Timer
	var k *sink
	var parts, moved uint64
	for {
		switch {
		case c.over:
			return transport.ErrClosed
		case ready():
			return nil
		}
		if now := c.moved.Load(); timer == nil || k != of() || moved != now {
			if k, moved = of(), now; k != nil {
				parts = k.parts.Load()
			}
			if timer == nil {
				timer = time.NewTimer(c.h.o.StallTimeout)
				defer timer.Stop()
			} else {
				timer.Reset(c.h.o.StallTimeout)
			}
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		var ended error
		stalled := false
		select {
		case <-room:
		case <-ctx.Done():
			ended = context.Cause(ctx)
		case <-c.done:
			ended = transport.ErrClosed
		case <-timer.C:
			stalled = true
		}
		c.mu.Lock()
		switch {
		case ended != nil:
			return ended
		case !stalled || c.moved.Load() != moved:
		case k != nil && (k.cut || k.size+k.held > 0 && k.parts.Load() == parts):
			c.cut(k)
		default:
			return &transport.MessageError{Err: transport.ErrStalled}
		}
	}
}

// cut closes a connection and drops its pending data. mu must be held.
func (c *serverConn) cut(k *sink) {
	k.cut = true
	k.events = nil
	c.makeRoom(k.size)
	k.size = 0
	k.signal()
}

// wrote records that n of the held bytes of a connection are written or dropped. mu must be held.
func (c *serverConn) wrote(k *sink, n int) {
	k.held -= n
	c.makeRoom(n)
}

// makeRoom subtracts n from the pending bytes and wakes calls of await. mu must be held.
func (c *serverConn) makeRoom(n int) {
	c.pending -= n
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// attach makes k the connection of a stream, for the events after the one with the number after. It
// replaces the current connection. The caller must write the events up to upTo from the store.
func (c *serverConn) attach(st *serverStream, k *sink, after uint64) (upTo uint64, err error) {
	st.order.Lock()
	defer st.order.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if after > st.last {
		return 0, fmt.Errorf("%w: event %d has not been sent", ErrUnknown, after)
	}
	if st.sink != nil {
		c.cut(st.sink)
	}
	st.sink = k
	k.over = st.over
	return st.last, nil
}

// detach removes k from a stream. The stream continues without a connection.
func (c *serverConn) detach(st *serverStream, k *sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.sink == k {
		st.sink = nil
	}
	c.removeSink(k)
	c.cut(k)
	c.wrote(k, k.held)
}

// eventID returns the id of an event: its stream and its number.
func eventID(stream string, number uint64) string {
	return stream + "-" + strconv.FormatUint(number, 10)
}

// parseEventID splits an event id.
func parseEventID(id string) (stream string, number uint64, ok bool) {
	stream, digits, ok := strings.Cut(id, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return stream, number, ok && err == nil && stream != "" && len(id) <= maxID
}
