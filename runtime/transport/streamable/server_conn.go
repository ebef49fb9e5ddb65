package streamable

import (
	"context"
	"errors"
	"fmt"
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

// standing names the stream for what belongs to no request, which a client opens by GET.
const standing = "0"

// serverConn is the server's end of one conversation: a [transport.Conn] whose messages come in by
// POST, and go out on one of several streams.
type serverConn struct {
	h         *Handler
	id        string // of the session; "" if there is none
	principal string // that opened it
	place     *place // that it has; nil unless the handler is Stateless
	in        *queue.Queue
	bodies    *guard.Room         // of messages that are being received
	batch     []transport.Message // taken from in, not yet read
	done      chan struct{}       // closed when the connection is over
	closed    chan struct{}       // closed when Close has returned; closeErr is set then
	closeErr  error
	persistMu sync.Mutex // held while the opening or the state is persisted

	interrupted atomic.Bool // connections take nothing any more; see interrupt

	mu         sync.Mutex
	revision   mcp.Revision // "" until initialize is answered
	client     []byte       // the params of initialize, if it was opened before
	resumed    bool         // it was opened before
	state      []byte       // persisted earlier; nil after PersistedState
	closing    bool         // Close was called
	over       bool
	suspended  bool                     // its owner closes it without ending the session
	deleted    bool                     // its client has ended the session
	owner      transport.Owner          // nil if the owner is not known
	linger     *time.Timer              // ends a request without a session whose client has hung up; nil if it has not
	streams    map[string]*serverStream // that may still get something
	calls      map[jsonrpc.ID]*serverStream
	nextStream uint64
	pending    int           // bytes that wait for connections
	room       chan struct{} // closed when something was taken; nil while no sender waits for it
	tickets    uint64        // the newest ticket of a message that waits for room
	moved      atomic.Uint64 // how often a connection has written a part of something; not guarded
	sinks      *sink         // the first of those of the exchanges
	exchanges  int           // HTTP exchanges being served
	brief      int           // those among them that bring no request and so hold no stream
	quiet      chan struct{} // closed when the connection is over and no exchange is left
	used       time.Time     // when the last exchange ended
	touched    time.Time     // when the store was told last that the session is used
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
		calls:      map[jsonrpc.ID]*serverStream{},
		streams:    map[string]*serverStream{},
		nextStream: 1,
		quiet:      make(chan struct{}),
		used:       time.Now(),
	}
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

// speaks reports whether the owner of the connection speaks a revision, as far as that is known.
func (c *serverConn) speaks(revision mcp.Revision) bool {
	owner := c.ownedBy()
	return owner == nil || owner.Speaks(revision)
}

// shutdown ends the session in order.
func (c *serverConn) shutdown(ctx context.Context) {
	if owner := c.ownedBy(); owner != nil {
		owner.Shutdown(ctx) // its error is that of Close, or the cause of ctx
		return
	}
	c.in.Close(io.EOF)
}

// end closes the connection and logs why its session was not forgotten.
func (c *serverConn) end() {
	if err := c.Close(); err != nil {
		c.h.o.Logger.Error("session not forgotten", logged(c.id), "error", err)
	}
}

// Read returns the next posted message.
func (c *serverConn) Read() (transport.Message, error) {
	if len(c.batch) == 0 {
		var err error
		if c.batch, err = c.in.Take(); err != nil {
			return transport.Message{}, err
		}
	}
	m := c.batch[0]
	c.batch[0] = transport.Message{}
	c.batch = c.batch[1:]
	return m, nil
}

// Push is [transport.Pusher]: a message is taken by the goroutine of its POST.
func (c *serverConn) Push(of transport.Conn, take func(transport.Message, error)) bool {
	if of != transport.Conn(c) {
		return false
	}
	c.in.Push(take)
	return true
}

// Restored implements [transport.Restored].
func (c *serverConn) Restored() (revision mcp.Revision, client []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision, c.client, c.resumed
}

// PersistedState implements [transport.Persister].
func (c *serverConn) PersistedState() (state []byte, ok bool) {
	_, ok = c.h.o.Store.(SessionStore)
	c.mu.Lock()
	defer c.mu.Unlock()
	state, c.state = c.state, nil
	return state, ok && c.id != ""
}

// PersistState implements [transport.Persister]. It does I/O under persistMu, so that states are
// persisted in order, and none after the session was deleted from the store.
func (c *serverConn) PersistState(ctx context.Context, state []byte) error {
	store, ok := c.h.o.Store.(SessionStore)
	switch {
	case !ok || c.id == "":
		return fmt.Errorf("streamable: session is not stored: %w", errors.ErrUnsupported)
	case len(state) > c.h.o.MaxState:
		return fmt.Errorf("streamable: %d bytes of state: %w", len(state), transport.ErrTooLong)
	}
	c.persistMu.Lock()
	defer c.persistMu.Unlock()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		return transport.ErrClosed
	}
	return store.PersistState(ctx, c.id, state)
}

// Write sends m on the stream of the request that it is for, or on the standing stream. An answer
// for which nobody can come any more is dropped.
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

// Release implements [transport.Releaser]: the request gets no answer, and its stream ends.
func (c *serverConn) Release(id jsonrpc.ID) {
	c.mu.Lock()
	st := c.calls[id]
	c.mu.Unlock()
	if st == nil {
		return
	}
	st.order.Lock()
	defer st.order.Unlock()
	c.add(context.Background(), st, transport.Message{For: id, Answer: true}, 0) // it is small: no room is needed
}

// Close ends the conversation. Connections that are open get what waits for them, for as long as FlushTimeout says. A
// session does not exist any more then, unless the handler is shutting down.
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
	c.mu.Lock()
	c.over = true
	if c.linger != nil {
		c.linger.Stop()
	}
	if c.exchanges == 0 {
		close(c.quiet)
	}
	c.mu.Unlock()
	close(c.done)
	timer := time.NewTimer(c.h.o.FlushTimeout)
	defer timer.Stop()
	select {
	case <-c.quiet:
	case <-timer.C:
		if c.isUnwanted() {
			c.interrupt()
		}
	}
	c.settle()
	c.in.Wait()
	defer c.h.remove(c) // not before it is forgotten, or it could be loaded again
	if c.id == "" || c.outlives() {
		return nil
	}
	return c.h.o.Store.Forget(context.Background(), c.id)
}

// isUnwanted reports whether what is still being written is wanted by neither side: the client has
// ended the session, or the handler was closed. An answer that was given before the session ended
// in another way may be long and its connection slow.
func (c *serverConn) isUnwanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted || c.h.closed.Load()
}

// outlives reports whether a session that is over stays in the store, for another process.
func (c *serverConn) outlives() bool {
	c.mu.Lock()
	suspended, deleted := c.suspended, c.deleted
	c.mu.Unlock()
	_, ok := c.h.o.Store.(SessionStore)
	return ok && !deleted && (suspended || c.h.draining.Load())
}

// because returns why a request was not taken, where err is why its message was not: errDraining if
// the session is over because the server shuts down.
func (c *serverConn) because(err error) error {
	if !errors.Is(err, transport.ErrClosed) && !errors.Is(err, io.EOF) {
		return err
	}
	c.mu.Lock()
	goesOn := c.suspended || c.revision == "" // or its owner has not taken it: the server takes no sessions any more
	c.mu.Unlock()
	if goesOn || c.id == "" || c.h.draining.Load() {
		return errDraining
	}
	return err
}

// settle waits until no event is being added any more, and no state kept.
func (c *serverConn) settle() {
	c.persistMu.Lock()
	c.mu.Lock()
	streams := slices.Collect(maps.Values(c.streams))
	c.mu.Unlock()
	c.persistMu.Unlock() // an event that is being added may need it, and finds that the connection is over
	for _, st := range streams {
		st.settle()
	}
}

// settle waits until no event is being added to the stream.
func (st *serverStream) settle() {
	st.order.Lock()
	defer st.order.Unlock()
}

// enter counts a new HTTP exchange that may hold a stream. It fails if there are too many or the
// connection is over.
func (c *serverConn) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return transport.ErrClosed
	case c.exchanges-c.brief >= c.h.o.MaxStreams:
		return errTooManyStreams
	}
	c.exchanges++
	return nil
}

// enterBriefly is enter for messages without requests. They have a limit of their own: requests
// that fill theirs may wait for such a message, an answer or a cancellation.
func (c *serverConn) enterBriefly() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.over:
		return transport.ErrClosed
	case c.brief >= c.h.o.MaxStreams:
		return errTooManyStreams
	}
	c.exchanges++
	c.brief++
	return nil
}

// leaveBriefly is leave after enterBriefly.
func (c *serverConn) leaveBriefly() {
	c.mu.Lock()
	c.brief--
	c.mu.Unlock()
	c.leave()
}

// leave records that an HTTP exchange has ended.
func (c *serverConn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges--
	c.used = time.Now()
	if c.exchanges == 0 && c.over {
		close(c.quiet)
	}
}

// idleSince returns since when nothing has happened; ok is false if something is happening. A
// handler that waits for an answer of a client that has no connection does not count: the client
// may never come back.
func (c *serverConn) idleSince() (t time.Time, ok bool) {
	c.mu.Lock()
	t, owner := c.used, c.owner
	free, serving := c.exchanges == 0, len(c.calls) > 0
	c.mu.Unlock()
	return t, free && (!serving || owner != nil && owner.AwaitsPeer())
}

// begin opens a stream for requests, to which k is connected.
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
		if c.calls[id] != nil { // by another message, or by this one
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

// priming reports whether clients accept events without data, as they do since revision 2025-11-25.
func (c *serverConn) priming() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id != "" && c.revision >= mcp.Revision20251125
}
