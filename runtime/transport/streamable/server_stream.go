package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
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

// serverStream is a sequence of events, which goes on whatever becomes of the connections that it
// is read by. At most one connection at a time takes its events. All but id and order is guarded by
// the mu of the connection.
type serverStream struct {
	id       string
	order    sync.Mutex   // held while an event is added, so that they are kept and sent in order
	requests []jsonrpc.ID // that it was opened for, until they are kept

	numbered   bool   // it is an event stream: its messages have numbers and are persisted
	last       uint64 // number of the newest event
	taken      uint64 // number of the newest event that some connection has taken
	unanswered int    // requests without an answer; 0 for the standing stream
	over       bool   // nothing comes any more
	opening    []byte // the params, if it was opened for the initialize of a new session
	sink       *sink  // the connection; nil if there is none

	waiting []uint64 // tickets of the messages that wait for room, in their order
}

func newServerStream(id string) *serverStream {
	return &serverStream{id: id, numbered: id == standing}
}

// sink is the connection that takes the events of a stream. All but wake and parts is guarded by the mu of the connection.
type sink struct {
	wake   chan struct{} // holds one: something has changed
	events []Event       // that come after those in the store, and wait
	size   int           // of events, in bytes
	held   int           // the same of what is being written
	answer []byte        // that is sent without a stream
	over   bool          // nothing comes any more
	cut    bool          // it is not wanted any more
	hangUp bool          // it shall send the client to connect again

	parts atomic.Uint64 // how often a part of something was written

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
		k.conn.SetWriteDeadline(time.Now()) // mu keeps the exchange from ending, and its ResponseWriter from being reused
	}
}

// signal wakes the goroutine that serves the sink.
func (k *sink) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// send adds a message to a stream. A message that is no answer first waits until the session has room for it. An answer
// is added at once, and send returns when its connection and others of the session have less to take.
func (c *serverConn) send(ctx context.Context, st *serverStream, m transport.Message) error {
	var room int
	if !m.Answer {
		var ticket uint64
		var err error
		if room, ticket, err = c.reserve(ctx, st, len(m.Text)+eventOverhead); err != nil {
			return err
		}
		if ticket != 0 {
			defer c.giveUpTicket(st, ticket)
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

// reserve takes room for an event of n bytes, and waits for it while too many bytes are pending in
// the session. One event has room whatever its length. room is 0 if no connection takes the event.
// Messages of one stream get room in order: while ticket, if it is not 0, is not given up, later
// ones wait.
//
// reserve fails when ctx or the session ends, and with [transport.ErrStalled] if no connection of
// the session takes anything for StallTimeout. If that of the stream has something to take, it is
// cut, and the event goes to the store alone.
func (c *serverConn) reserve(ctx context.Context, st *serverStream, n int) (room int, ticket uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := func() bool {
		switch {
		case len(st.waiting) > 0 && st.waiting[0] != ticket:
			return false
		case st.sink == nil || st.sink.cut || st.over: // add sees to it
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

// giveUpTicket lets the next message of a stream have room.
func (c *serverConn) giveUpTicket(st *serverStream, ticket uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeTicket(st, ticket)
}

// removeTicket is giveUpTicket with mu held.
func (c *serverConn) removeTicket(st *serverStream, ticket uint64) {
	i := slices.Index(st.waiting, ticket)
	st.waiting = slices.Delete(st.waiting, i, i+1)
	c.makeRoom(0)
}

// add adds a message to a stream. It returns the stream's connection if the message is an answer and
// too many bytes are pending. It fails with errOver if nothing comes on the stream any more. room is
// what was reserved for the message; add gives it back if no connection takes that. It is called
// with the order of the stream held.
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

	if opening != nil { // other messages came before the answer
		c.opened(context.WithoutCancel(ctx), opening, m.Text)
	}
	var answers jsonrpc.ID
	if m.Answer && m.Text != nil {
		answers = m.For
	}
	persistErr := c.persist(ctx, st, begin, e, answers)

	c.mu.Lock()
	defer c.mu.Unlock()
	st.last = e.Number
	if e.Last {
		c.finish(st)
	}
	k := st.sink
	if k == nil || k.cut { // what a cut connection has lost leaves a gap: the client comes back for it
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

// ifFull returns k if too much waits for the connections of the session, else nil. It is called
// with mu held.
func (c *serverConn) ifFull(k *sink) *sink {
	if c.pending <= c.h.o.MaxQueue {
		return nil
	}
	return k
}

// answerAlone gives the only message of a stream to its connection, and returns that if there is
// too much to take. It is called with mu held.
func (c *serverConn) answerAlone(st *serverStream, text []byte) *sink {
	c.finish(st)
	k := st.sink
	if k == nil { // the client has hung up, and cannot come back
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
	c.makeRoom(0)   // for messages that wait here and have to go elsewhere
	if c.id == "" { // that was all
		c.in.Close(transport.ErrClosed)
	}
}

// keep puts an event into the store, behind the beginning of the stream if that is new. It is
// called with the order of the stream held.
func (c *serverConn) persist(ctx context.Context, st *serverStream, begin bool, e Event, answers jsonrpc.ID) error {
	store := c.h.o.Store
	if store == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if begin {
		c.persistBeginning(ctx, st)
	}
	err := store.Append(ctx, c.id, st.id, e)
	if err == nil {
		return nil
	}
	c.h.o.Logger.Error("event not persisted", logged(c.id), "stream", st.id, "bytes", len(e.Text), "error", err)
	if !answers.IsZero() { // a client that comes back for the answer learns what has become of it
		lost := jsonrpc.NewErrorResponse(answers, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the answer is lost: the server could not store it"})
		if text, err := codec.Marshal(&lost); err == nil {
			e.Text = text
			store.Append(ctx, c.id, st.id, e) // or the client is told that the stream is unknown
		}
	}
	return err
}

// persistBeginning notes in the store that a stream has begun.
func (c *serverConn) persistBeginning(ctx context.Context, st *serverStream) {
	if store, ok := c.h.o.Store.(SessionStore); ok {
		if err := store.Begin(ctx, c.id, st.id, encodeIDs(st.requests)); err != nil {
			c.h.o.Logger.Error("stream not persisted", logged(c.id), "stream", st.id, "error", err)
		}
	}
	st.requests = nil
}

// encodeIDs encodes ids as a JSON array.
func encodeIDs(ids []jsonrpc.ID) []byte {
	text := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			text = append(text, ',')
		}
		if one, err := codec.Marshal(id); err == nil { // it was read
			text = append(text, one...)
		}
	}
	return append(text, ']')
}

// decodeIDs is the inverse of encodeIDs.
func decodeIDs(text []byte) (ids []jsonrpc.ID, err error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	for _, one := range raw {
		var id jsonrpc.ID
		if err := codec.Unmarshal(one, &id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// start makes a stream an event stream, before the first message if it comes to that, so that its
// client can resume. If it is too late for that it returns the answer.
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
	c.mu.Unlock()
	if begin && c.h.o.Store != nil {
		c.persistBeginning(context.Background(), st)
	}
	return answer
}

// waitForRoom waits until not too much waits for connections any more, or nothing for this one. One that takes nothing at
// all for StallTimeout is cut: what waits for it is in the store.
func (c *serverConn) waitForRoom(ctx context.Context, k *sink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(ctx, func() *sink { return k }, func() bool { // an answer is on its way, whatever the error
		return k.cut || k.size+k.held == 0 || c.ifFull(k) == nil
	})
}

// await waits until ready reports true, which it calls whenever room was made. If the connection
// that of returns takes nothing for StallTimeout although it could, it is cut. If no connection of
// the session takes anything, await fails with [transport.ErrStalled]. It fails when ctx or the
// session ends. It is called with mu held, as are of and ready.
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

// wrote notes that a connection has brought n bytes of what it holds to the client, or never will.
// It is called with mu held.
func (c *serverConn) wrote(k *sink, n int) {
	k.held -= n
	c.makeRoom(n)
}

// makeRoom notes that less waits for connections, and wakes the senders that wait for room. It is called with mu held.
func (c *serverConn) makeRoom(n int) {
	c.pending -= n
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// attach makes k the connection of a stream, in the place of one that it may have, from the event
// after a number on. The events up to the one it returns are to be taken from the store.
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
