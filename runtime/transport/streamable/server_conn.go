package streamable

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// serverConn is the server end of one conversation: a [transport.Conn] that receives messages by
// POST and sends each message on one of several streams. It passes each message from part to part;
// the parts do not know each other, except that a sink belongs to its outflow. Each part has a lock
// of its own, and no goroutine holds two of them. The order of a stream is acquired before any of
// them.
type serverConn struct {
	h         *Handler
	id        string       // session id; empty without a session
	principal string       // principal that opened the session
	account   string       // key of the limits that the connection counts for; see guard.Account
	place     *place       // nil unless the handler is Stateless
	usage     *usage       // of the account
	pending   *guard.Meter // the notifications and short answers that are pending in the session
	in        *queue.Queue
	done      chan struct{} // closed when the connection has ended
	closed    chan struct{} // closed when shut has returned
	closeErr  error         // set before closed is closed

	handshake handshake
	exchanges exchanges
	journal   journal
	streams   streams
	out       outflow

	mu        sync.Mutex
	closing   bool          // Close was called
	suspended bool          // Suspend was called
	deleted   bool          // the client has ended the session
	owner     ability.Owner // nil if unknown
	linger    *time.Timer   // see endAfter; nil before
}

func newServerConn(h *Handler, id, principal string) *serverConn {
	c := &serverConn{
		h:         h,
		id:        id,
		principal: principal,
		in:        queue.New(h.o.Limits.Queue, h.o.Timeouts.Stall),
		done:      make(chan struct{}),
		closed:    make(chan struct{}),
		exchanges: exchanges{max: h.o.Limits.Streams, quiet: make(chan struct{}), used: time.Now()},
		streams:   newStreams(h.o.Limits.Streams, id != ""),
	}
	c.journal = journal{h: h, o: &h.o, id: id, done: c.done}
	c.out = outflow{max: h.o.Limits.Queue, stall: h.o.Timeouts.Stall, done: c.done}
	return c
}

// begin sets what the account of the connection uses, before the connection is used.
func (c *serverConn) begin(u *usage) {
	c.usage, c.exchanges.usage, c.streams.usage, c.out.answers = u, u, u, u.answers
	if c.place != nil {
		c.streams.place = 1
	}
	c.out.queued = guard.NewMeter(u.queued, c.h.o.Limits.Initialize)
	c.pending = guard.NewMeter(u.bodies, c.h.o.Limits.Initialize)
	c.in.Limit(c.pending.Limit)
}

// Meters implements [mailbox.Conn]. The bytes of requests belong to their streams.
func (c *serverConn) Meters() (requests, pending mailbox.Meter) { return nil, c.pending }

// Own implements [ability.Owned].
func (c *serverConn) Own(owner ability.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = owner
}

// Suspend implements [transport.Persister].
func (c *serverConn) Suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended = true
}

// ownedBy returns the owner, or nil if it is unknown.
func (c *serverConn) ownedBy() ability.Owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner
}

// speaks reports whether the owner speaks a revision. It returns true if the owner is unknown.
func (c *serverConn) speaks(revision mcp.Revision) bool {
	owner := c.ownedBy()
	return owner == nil || owner.Speaks(revision)
}

// shutdown ends the session in order.
func (c *serverConn) shutdown(ctx context.Context) {
	if owner := c.ownedBy(); owner != nil {
		owner.Shutdown(ctx) // the error is that of Close, which end logs, or the cause of ctx
		return
	}
	c.in.Close(io.EOF)
}

// end closes the connection. It logs the error if the session cannot be deleted from the store.
func (c *serverConn) end() {
	if err := c.Close(); err != nil {
		c.h.o.Logger.Error("session not deleted from the store", logged(c.id), "error", err)
	}
}

// Info implements [transport.Described].
func (c *serverConn) Info() transport.Info { return transport.Info{Network: "tcp", Protocol: "http"} }

// Read returns the next posted message.
func (c *serverConn) Read() (transport.Message, error) { return c.in.Next() }

// Push implements [ability.Pusher]. The goroutine of a POST calls take for its message.
func (c *serverConn) Push(of transport.Conn, take func(transport.Message, error)) bool {
	if of != transport.Conn(c) {
		return false
	}
	c.in.Push(take)
	return true
}

// Restored implements [transport.Persister].
func (c *serverConn) Restored() (revision mcp.Revision, client []byte, ok bool) {
	return c.handshake.get()
}

// PersistedState implements [transport.Persister].
func (c *serverConn) PersistedState() (state []byte, ok bool) { return c.journal.takeState() }

// PersistState implements [transport.Persister].
func (c *serverConn) PersistState(ctx context.Context, state []byte) error {
	return c.journal.persistState(ctx, state)
}

// Write sends m on the standing stream.
func (c *serverConn) Write(ctx context.Context, m transport.Message) error {
	if c.isOver() {
		return transport.ErrClosed
	}
	rest := c.streams.named(standing)
	if rest == nil {
		return &transport.MessageError{Err: errNoStream}
	}
	return c.send(ctx, rest, outgoing{text: m.Text})
}

// Detached implements [ability.Detachable].
func (c *serverConn) Detached() bool {
	rest := c.streams.named(standing)
	return rest == nil || !c.out.connected(&rest.outlet)
}

// outgoing is a message for a stream.
type outgoing struct {
	text   []byte    // nil if the request will not be answered
	of     *incoming // the request that it belongs to; nil for none
	answer bool      // it is the last message of that request
}

// send adds a message to a stream. Unless the message is an answer, send first waits until the
// session has room for it. An answer is added at once. If it has a text, send then waits until no
// more than Limits.Queue is pending.
func (c *serverConn) send(ctx context.Context, st *serverStream, m outgoing) error {
	var room int
	if !m.answer {
		var ticket uint64
		var err error
		if room, ticket, err = c.out.reserve(ctx, &st.outlet, len(m.text)+eventOverhead); err != nil {
			return err
		}
		if ticket != 0 {
			defer c.out.releaseTicket(&st.outlet, ticket)
		}
	}
	st.order.Lock()
	full, err := c.add(ctx, st, m, room)
	st.order.Unlock()
	if full != nil && m.answer && m.text != nil {
		c.out.waitForRoom(ctx, full)
	}
	return err
}

// add adds a message to a stream: it persists the event and passes it to the connection. It returns
// that connection if too many bytes are pending. It fails with [transport.ErrAnswered] if the request
// was answered. room is the room reserved for the message; add uses or releases it. The order of the
// stream must be held.
func (c *serverConn) add(ctx context.Context, st *serverStream, m outgoing, room int) (full *sink, err error) {
	switch {
	case c.isOver():
		c.out.release(room)
		return nil, transport.ErrClosed
	case m.of != nil && m.of.answered.Load():
		c.out.release(room)
		return nil, transport.ErrAnswered
	}
	if m.answer && (len(st.requests) > 1 || len(m.text) > c.h.o.Limits.Initialize) && !c.out.hold(&st.outlet, len(m.text)) {
		m.text, _ = errorResponse(m.of.id, &jsonrpc.Error{Code: engine.CodeOverloaded, Message: errUnread}) // strings of our own are always encoded
	}
	e, alone := st.next(m)
	if alone || e.Last {
		st.body.Release()
	}
	if alone {
		c.streams.remove(st, st.requests...)
		full = c.out.answer(&st.outlet, m.text)
		c.ended()
		return full, nil
	}
	var answers jsonrpc.ID
	if m.answer {
		c.streams.answered(m.of.id)
		if m.text != nil {
			answers = m.of.id
		}
	}
	begins := c.streams.number(st)
	if e.Last && st.opening != nil { // the answer to initialize is sent as an event
		c.opened(context.WithoutCancel(ctx), st.opening, m.text)
		st.opening = nil
	}
	if begins {
		c.journal.begin(ctx, st.id, st.requests)
	}
	persistErr := c.journal.append(ctx, st.id, e, answers)
	if errors.Is(persistErr, ErrNotHeld) && !m.answer {
		// The process that holds the session now sends another event with this number.
		c.out.release(room)
		return nil, transport.ErrClosed
	}
	st.last = e.Number
	if e.Last {
		// Before the client receives the answer: its next request may need the place.
		c.streams.remove(st)
		defer c.ended()
	}
	full, ok := c.out.push(&st.outlet, e, room)
	if !ok && persistErr != nil && !m.answer {
		return nil, &transport.MessageError{Err: persistErr}
	}
	return full, nil
}

// ended is called when a stream of requests has ended. Without a session, it was the only one.
func (c *serverConn) ended() {
	if c.id == "" {
		c.in.Close(transport.ErrClosed)
	}
}

// start makes a stream an event stream before there is a message.
func (c *serverConn) start(st *serverStream) {
	st.order.Lock()
	defer st.order.Unlock()
	if st.over {
		return
	}
	if c.streams.number(st) && !c.isOver() { // after Forget, Begin would store the session again
		c.journal.begin(context.Background(), st.id, st.requests)
	}
}

// Close ends the conversation. It waits until pending data is written to open HTTP connections, for
// Timeouts.Flush at most. It deletes the session from the store, unless outlives reports true.
func (c *serverConn) Close() error {
	c.mu.Lock()
	first := !c.closing
	c.closing = true
	c.mu.Unlock()
	if first {
		defer close(c.closed)
		c.closeErr = c.shut()
		return c.closeErr
	}
	<-c.closed
	return c.closeErr
}

func (c *serverConn) shut() error {
	c.in.Close(transport.ErrClosed)
	c.in.Discard()
	c.exchanges.end()
	c.mu.Lock()
	if c.linger != nil {
		c.linger.Stop()
	}
	c.mu.Unlock()
	close(c.done)
	timer := time.NewTimer(c.h.o.Timeouts.Flush)
	defer timer.Stop()
	select {
	case <-c.exchanges.quiet:
	case <-timer.C:
		if c.isUnwanted() {
			c.out.interrupt()
		}
	}
	c.journal.settle()
	c.streams.settle()
	c.in.Wait()
	defer c.h.remove(c) // after Forget; otherwise find could load the session again
	if c.id == "" {
		return nil
	}
	defer c.h.release(c.id)
	if c.outlives() {
		return nil
	}
	return c.journal.forget(context.Background())
}

// isOver reports whether the connection has ended.
func (c *serverConn) isOver() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// isRefused reports whether the owner has closed the connection without suspending it.
func (c *serverConn) isRefused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOver() && !c.suspended
}

// isUnwanted reports whether pending writes may be interrupted, because the client has ended the
// session or the Handler was closed. Otherwise a long answer may still be on its way over a slow
// connection.
func (c *serverConn) isUnwanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted || c.h.closed.Load()
}

// outlives reports whether the session stays in the store after Close, for another process.
func (c *serverConn) outlives() bool {
	c.mu.Lock()
	suspended, deleted := c.suspended, c.deleted
	c.mu.Unlock()
	_, ok := c.journal.sessions()
	return ok && !deleted && (suspended || c.h.draining.Load())
}

// because returns the error of a request whose message was rejected with err. That is errDraining
// if the session has ended because the server shuts down.
func (c *serverConn) because(err error) error {
	if !errors.Is(err, transport.ErrClosed) && !errors.Is(err, io.EOF) {
		return err
	}
	c.mu.Lock()
	suspended := c.suspended
	c.mu.Unlock()
	// Without a handshake, the owner has rejected the session.
	if suspended || !c.handshake.isOpen() || c.id == "" || c.h.draining.Load() {
		return errDraining
	}
	return err
}

// idleSince returns when the session became idle. ok is false if it is not idle. A handler that
// waits for an answer of a client without a connection does not count, because the client may never
// return.
func (c *serverConn) idleSince() (t time.Time, ok bool) {
	if t, ok = c.exchanges.idleSince(); !ok {
		return t, false
	}
	owner := c.ownedBy()
	return t, !c.streams.serving() || owner != nil && owner.AwaitsPeer()
}

// priming reports whether the client accepts events without data, which revision 2025-11-25 added.
func (c *serverConn) priming() bool {
	return c.id != "" && c.handshake.negotiated() >= mcp.Revision20251125
}
