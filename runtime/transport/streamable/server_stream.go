package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

	kept       bool   // it is an event stream: what is sent has a number, and is kept
	last       uint64 // number of the newest event
	taken      uint64 // number of the newest event that some connection has taken
	unanswered int    // requests without an answer; 0 for the standing stream
	over       bool   // nothing comes any more
	sink       *sink  // the connection; nil if there is none
}

func newServerStream(id string) *serverStream {
	return &serverStream{id: id, kept: id == standing}
}

// sink is the connection that takes the events of a stream. All but wake is guarded by the mu of
// the connection.
type sink struct {
	wake   chan struct{} // holds one: something has changed
	events []Event       // that come after those in the store, and wait
	size   int           // of events, in bytes
	held   int           // the same of what is being written
	parts  int           // that were written
	answer []byte        // that is sent without a stream
	over   bool          // nothing comes any more
	cut    bool          // it is not wanted any more
	hangUp bool          // it shall send the client to connect again
}

func newSink() *sink { return &sink{wake: make(chan struct{}, 1)} }

// signal wakes the goroutine that serves the sink.
func (k *sink) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// send adds a message to a stream, and waits while its connection and others of the session have
// too much to take.
func (c *serverConn) send(ctx context.Context, st *serverStream, m transport.Message) error {
	st.order.Lock()
	k, err := c.add(ctx, st, m)
	st.order.Unlock()
	if k == nil {
		return err
	}
	c.waitForRoom(ctx, k)
	return nil
}

// add adds a message to a stream. It returns the stream's connection if too many bytes are pending
// for it. It fails with errOver if nothing comes on the stream any more. It is called with the
// order of the stream held.
func (c *serverConn) add(ctx context.Context, st *serverStream, m transport.Message) (*sink, error) {
	c.mu.Lock()
	switch {
	case c.over:
		c.mu.Unlock()
		return nil, transport.ErrClosed
	case st.over:
		c.mu.Unlock()
		return nil, errOver
	}
	if m.Answer {
		delete(c.calls, m.For)
		st.unanswered--
		if !st.kept && st.unanswered == 0 {
			defer c.mu.Unlock()
			return c.answerAlone(st, m.Text), nil
		}
	}
	e := Event{Number: st.last + 1, Text: m.Text, Last: m.Answer && st.unanswered == 0}
	begin := !st.kept
	st.kept = true
	c.mu.Unlock()

	var answers jsonrpc.ID
	if m.Answer && m.Text != nil {
		answers = m.For
	}
	keepErr := c.keep(ctx, st, begin, e, answers)

	c.mu.Lock()
	defer c.mu.Unlock()
	st.last = e.Number
	if e.Last {
		c.finish(st)
	}
	k := st.sink
	if k == nil {
		if keepErr != nil && !m.Answer {
			return nil, &transport.MessageError{Err: keepErr}
		}
		return nil, nil
	}
	k.events = append(k.events, e)
	k.size += len(e.Text) + eventOverhead
	c.pending += len(e.Text) + eventOverhead
	k.over = e.Last
	k.signal()
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
	if c.id == "" { // that was all
		c.in.Close(transport.ErrClosed)
	}
}

// keep puts an event into the store, behind the beginning of the stream if that is new. It is
// called with the order of the stream held.
func (c *serverConn) keep(ctx context.Context, st *serverStream, begin bool, e Event, answers jsonrpc.ID) error {
	store := c.h.o.Store
	if store == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if begin {
		c.keepBeginning(ctx, st)
	}
	err := store.Append(ctx, c.id, st.id, e)
	if err == nil {
		return nil
	}
	c.h.o.Logger.Error("event not kept", logged(c.id), "stream", st.id, "bytes", len(e.Text), "error", err)
	if !answers.IsZero() { // a client that comes back for the answer learns what has become of it
		lost := jsonrpc.NewErrorResponse(answers, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the answer was not kept and is lost"})
		if text, err := codec.Marshal(&lost); err == nil {
			e.Text = text
			store.Append(ctx, c.id, st.id, e) // or the client is told that the stream is unknown
		}
	}
	return err
}

// keepBeginning notes in the store that a stream has begun.
func (c *serverConn) keepBeginning(ctx context.Context, st *serverStream) {
	if store, ok := c.h.o.Store.(SessionStore); ok {
		if err := store.Begin(ctx, c.id, st.id, encodeIDs(st.requests)); err != nil {
			c.h.o.Logger.Error("stream not kept", logged(c.id), "stream", st.id, "error", err)
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
	begin := !st.kept && !st.over
	if begin {
		st.kept = true
	} else if st.sink != nil {
		answer = st.sink.answer
	}
	c.mu.Unlock()
	if begin && c.h.o.Store != nil {
		c.keepBeginning(context.Background(), st)
	}
	return answer
}

// waitForRoom waits until not too much waits for a connection any more. One that takes nothing at
// all for StallTimeout is cut: what waits for it is in the store.
func (c *serverConn) waitForRoom(ctx context.Context, k *sink) {
	var timer *time.Timer
	for {
		c.mu.Lock()
		if c.over || k.cut || k.size+k.held == 0 || c.ifFull(k) == nil {
			c.mu.Unlock()
			return
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room, before, parts := c.room, k.size+k.held, k.parts
		c.mu.Unlock()
		if timer == nil {
			timer = time.NewTimer(c.h.o.StallTimeout)
			defer timer.Stop()
		}
		select {
		case <-room:
			timer.Reset(c.h.o.StallTimeout)
		case <-ctx.Done():
			return
		case <-c.done:
			return
		case <-timer.C:
			c.mu.Lock()
			if k.size+k.held >= before && k.parts == parts {
				c.cut(k)
			}
			c.mu.Unlock()
			timer.Reset(c.h.o.StallTimeout)
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

// makeRoom subtracts n pending bytes. mu must be held.
func (c *serverConn) makeRoom(n int) {
	if n == 0 {
		return
	}
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
