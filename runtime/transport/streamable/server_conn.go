package streamable

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// standing is the name of the stream for messages that belong to no request. Clients open it with
// GET.
const standing = "0"

// serverConn is the server end of one conversation: a [transport.Conn] that receives messages by
// POST and sends each message on one of several streams.
type serverConn struct {
	h         *Handler
	id        string // session id; empty without a session
	principal string // principal that opened the session
	place     *place // nil unless the handler is Stateless
	in        *queue.Queue
	bodies    *guard.Room   // limits the messages that are being received
	done      chan struct{} // closed when the connection has ended
	closed    chan struct{} // closed when shut has returned
	closeErr  error         // set before closed is closed

	handshake handshake
	exchanges exchanges
	journal   journal

	interrupted atomic.Bool // writes to HTTP connections fail; see interrupt

	mu         sync.Mutex
	closing    bool                     // Close was called
	over       bool                     // the connection has ended
	suspended  bool                     // Suspend was called
	deleted    bool                     // the client has ended the session
	owner      transport.Owner          // nil if unknown
	linger     *time.Timer              // see endAfter; nil before
	streams    map[string]*serverStream // the streams that have not ended
	calls      map[jsonrpc.ID]*serverStream
	nextStream uint64
	pending    int           // bytes pending for HTTP connections
	room       chan struct{} // closed when pending decreases; nil unless await waits
	tickets    uint64        // the newest ticket; see reserve
	moved      atomic.Uint64 // number of partial writes of all HTTP connections; not guarded
	sinks      *sink         // head of the list of sinks
}

func newServerConn(h *Handler, id, principal string) *serverConn {
	c := &serverConn{
		h:          h,
		id:         id,
		principal:  principal,
		in:         queue.New(h.o.MaxQueue, h.o.StallTimeout),
		bodies:     guard.NewRoom(guard.MaxBodies * h.o.MaxMessage),
		done:       make(chan struct{}),
		closed:     make(chan struct{}),
		exchanges:  exchanges{max: h.o.MaxStreams, quiet: make(chan struct{}), used: time.Now()},
		calls:      map[jsonrpc.ID]*serverStream{},
		streams:    map[string]*serverStream{},
		nextStream: 1,
	}
	c.journal = journal{o: &h.o, id: id, done: c.done}
	if id != "" {
		c.streams[standing] = newServerStream(standing)
	}
	return c
}

// Own implements [transport.Owned].
func (c *serverConn) Own(owner transport.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = owner
}

// Suspend implements [transport.Suspender].
func (c *serverConn) Suspend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended = true
}

// ownedBy returns the owner, or nil if it is unknown.
func (c *serverConn) ownedBy() transport.Owner {
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

// Read returns the next posted message.
func (c *serverConn) Read() (transport.Message, error) { return c.in.Next() }

// Push implements [transport.Pusher]. The goroutine of a POST calls take for its message.
func (c *serverConn) Push(of transport.Conn, take func(transport.Message, error)) bool {
	if of != transport.Conn(c) {
		return false
	}
	c.in.Push(take)
	return true
}

// Restored implements [transport.Restored].
func (c *serverConn) Restored() (revision mcp.Revision, client []byte, ok bool) {
	return c.handshake.get()
}

// PersistedState implements [transport.Persister].
func (c *serverConn) PersistedState() (state []byte, ok bool) { return c.journal.takeState() }

// PersistState implements [transport.Persister].
func (c *serverConn) PersistState(ctx context.Context, state []byte) error {
	return c.journal.persistState(ctx, state)
}

// Write sends m on the stream of the request that it belongs to, or on the standing stream. It
// drops an answer whose stream has ended.
func (c *serverConn) Write(ctx context.Context, m transport.Message) error {
	c.mu.Lock()
	st, rest, over := c.calls[m.For], c.streams[standing], c.over
	c.mu.Unlock()
	if over {
		return transport.ErrClosed
	}
	if st != nil {
		if err := c.send(ctx, st, m); err != errOver {
			return err
		}
	}
	switch {
	case m.Answer:
		return nil
	case rest == nil:
		return &transport.MessageError{Err: errNoStream}
	}
	return c.send(ctx, rest, m)
}

// Release implements [transport.Releaser]. It ends the stream of the request without an answer.
func (c *serverConn) Release(id jsonrpc.ID) {
	c.mu.Lock()
	st := c.calls[id]
	c.mu.Unlock()
	if st == nil {
		return
	}
	st.order.Lock()
	defer st.order.Unlock()
	// No room is reserved, because the answer has no text.
	c.add(context.Background(), st, transport.Message{For: id, Answer: true}, 0)
}

// Close ends the conversation. It waits until pending data is written to open HTTP connections, for
// FlushTimeout at most. It deletes the session from the store, unless outlives reports true.
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
	c.over = true
	if c.linger != nil {
		c.linger.Stop()
	}
	c.mu.Unlock()
	close(c.done)
	timer := time.NewTimer(c.h.o.FlushTimeout)
	defer timer.Stop()
	select {
	case <-c.exchanges.quiet:
	case <-timer.C:
		if c.isUnwanted() {
			c.interrupt()
		}
	}
	c.settle()
	c.in.Wait()
	defer c.h.remove(c) // after Forget; otherwise find could load the session again
	if c.id == "" || c.outlives() {
		return nil
	}
	return c.journal.forget(context.Background())
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

// settle waits until no event is being added and no state is being persisted.
func (c *serverConn) settle() {
	c.journal.settle()
	c.mu.Lock()
	streams := slices.Collect(maps.Values(c.streams))
	c.mu.Unlock()
	for _, st := range streams {
		st.settle()
	}
}

// settle waits until no event is being added to the stream.
func (st *serverStream) settle() {
	st.order.Lock()
	defer st.order.Unlock()
}

// idleSince returns when the session became idle. ok is false if it is not idle. A handler that
// waits for an answer of a client without a connection does not count, because the client may never
// return.
func (c *serverConn) idleSince() (t time.Time, ok bool) {
	if t, ok = c.exchanges.idleSince(); !ok {
		return t, false
	}
	c.mu.Lock()
	owner, serving := c.owner, len(c.calls) > 0
	c.mu.Unlock()
	return t, !serving || owner != nil && owner.AwaitsPeer()
}

// begin opens a stream for requests, with the connection k.
func (c *serverConn) begin(ids []jsonrpc.ID, k *sink) (*serverStream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return nil, transport.ErrClosed
	case len(c.streams) > c.h.o.MaxStreams, // one of them is the standing stream
		len(c.calls)+len(ids) > c.h.o.MaxStreams: // a batch has many requests, and one stream
		return nil, errTooManyStreams
	}
	st := newServerStream(strconv.FormatUint(c.nextStream, 36))
	for i, id := range ids {
		if c.calls[id] != nil { // also if the same batch has the id twice
			for _, id := range ids[:i] {
				delete(c.calls, id)
			}
			return nil, errIDInUse
		}
		c.calls[id] = st
	}
	c.nextStream++
	c.addSink(k)
	st.requests = ids
	st.unanswered = len(ids)
	st.sink = k
	c.streams[st.id] = st
	return st, nil
}

// abandon removes a stream whose message was not accepted.
func (c *serverConn) abandon(st *serverStream, ids []jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.calls, id)
	}
	delete(c.streams, st.id)
}

// priming reports whether the client accepts events without data, which revision 2025-11-25 added.
func (c *serverConn) priming() bool {
	return c.id != "" && c.handshake.negotiated() >= mcp.Revision20251125
}
