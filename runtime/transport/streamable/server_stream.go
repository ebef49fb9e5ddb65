package streamable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

var (
	errNoStream       = errors.New("no stream for messages without a request")
	errTooManyStreams = errors.New("too many streams")
	errIDInUse        = errors.New("a request with this id is being served")
)

// serverStream is a sequence of events. It outlives the HTTP connections over which it is read, of
// which there is at most one at a time. Its events are numbered from 1 without gaps, and are stored
// and sent in that order.
type serverStream struct {
	id       string      // "" until it is an event stream
	requests []incoming  // those that it was opened for: several for a batch, whose answers may be pending at once
	single   [1]incoming // what requests refers to if there is only one

	order      sync.Mutex  // held while an event is added; guards the following fields
	opening    []byte      // the params of initialize, if the stream was opened for a new session
	numbered   bool        // it is an event stream: its messages have numbers and are persisted
	last       uint64      // number of the newest event
	body       guard.Share // the bytes of the requests, until all of them are answered
	unanswered int         // number of requests without an answer; 0 for the standing stream

	removed bool // from the streams of the session; guarded by their mu

	outlet // guarded by the mu of the outflow; over changes only while order is held, too
}

// incoming is a request that a stream was opened for. It is the Reply of its message, and its
// context, by which [Disconnect] finds the stream.
type incoming struct {
	context.Context
	c        *serverConn
	st       *serverStream
	id       jsonrpc.ID
	answered atomic.Bool // written with the order of the stream held
}

type incomingKey struct{}

// Value implements [context.Context].
func (i *incoming) Value(key any) any {
	if key == (incomingKey{}) {
		return i
	}
	return i.Context.Value(key)
}

// Send implements [transport.Reply]. After the answer, it does not wait for room in the stream of a
// batch.
func (i *incoming) Send(ctx context.Context, text []byte) error {
	switch {
	case i.c.isOver():
		return transport.ErrClosed
	case i.answered.Load():
		return transport.ErrAnswered
	}
	return i.c.send(ctx, i.st, outgoing{text: text, of: i})
}

// Answer implements [transport.Reply]. It drops an answer whose stream has ended.
func (i *incoming) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	if i.c.isOver() {
		return transport.ErrClosed
	}
	err := i.c.send(ctx, i.st, outgoing{text: text, of: i, answer: true})
	if err == transport.ErrAnswered {
		return nil
	}
	return err
}

// next counts a message and returns its event. alone reports that the message is not an event: it
// is the answer to the only request, and is sent as JSON. order must be held.
func (st *serverStream) next(m outgoing) (e Event, alone bool) {
	if m.answer {
		m.of.answered.Store(true)
		st.unanswered--
	}
	last := m.answer && st.unanswered == 0
	if last && !st.numbered {
		return Event{}, true
	}
	return Event{Number: st.last + 1, Text: m.text, Last: last}, false
}

// abandon makes the stream accept no further messages, because a request was not received.
func (st *serverStream) abandon() {
	st.order.Lock()
	defer st.order.Unlock()
	st.body.Release()
	for i := range st.requests {
		st.requests[i].answered.Store(true)
	}
}

// attach makes k the connection of the stream, for the events after the one with the number after.
// The caller must write the events up to upTo from the store.
func (st *serverStream) attach(k *sink, after uint64) (upTo uint64, err error) {
	st.order.Lock()
	defer st.order.Unlock()
	if after > st.last {
		return 0, fmt.Errorf("%w: event %d has not been sent", ErrUnknown, after)
	}
	k.out.attach(&st.outlet, k)
	return st.last, nil
}

// keep moves the bytes of the requests to the stream, unless the connection c has ended.
func (st *serverStream) keep(c *serverConn, body *guard.Share) {
	st.order.Lock()
	defer st.order.Unlock()
	if !c.isOver() {
		st.body = body.Move()
	}
}

// settle waits until no event is being added to the stream, and releases the bytes of its requests.
func (st *serverStream) settle() {
	st.order.Lock()
	defer st.order.Unlock()
	st.body.Release()
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
