package streamable

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// sessionOf returns the connection of the session in the header of a request. If it returns false,
// it has answered the request.
func (h *Handler) sessionOf(ctx context.Context, w http.ResponseWriter, r *http.Request) (c *serverConn, ok bool) {
	// While a body is unread, net/http does not notice a disconnect.
	if r.Method != http.MethodPost && r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, r.Method+" must not have a body")
		return nil, false
	}
	id := r.Header.Get(headerSession)
	if id == "" {
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP-Session-Id is missing")
		return nil, false
	}
	principal, _ := transport.Principal(ctx)
	forwarded := false
	for start := time.Now(); ; {
		c, err := h.find(ctx, r, id, principal)
		if held, ok := errors.AsType[heldError](err); ok {
			if h.forward(w, r, id, Holder(held)) {
				return nil, false
			}
			forwarded = true
			if h.awaitHolder(r, start) {
				continue
			}
			err = errMoved
		}
		if err != nil {
			if forwarded {
				skipBody(w, r)
			}
			refuse(w, err)
			return nil, false
		}
		return c, checkProtocol(w, r, c)
	}
}

// delete ends a session.
func (h *Handler) delete(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	c, ok := h.sessionOf(ctx, w, r)
	if !ok {
		return
	}
	c.mu.Lock()
	c.deleted = true
	c.mu.Unlock()
	over := c.isOver()
	err := c.Close()
	if over { // Close may have left the session in the store
		err = c.journal.forget(ctx)
	}
	if err != nil { // the session may still be there
		h.o.Logger.Error("session not deleted from the store", logged(c.id), "error", err)
		refuse(w, errNotDeleted)
		return
	}
	guard.WriteStatus(w, http.StatusNoContent)
}

// get opens the standing stream, or resumes any stream.
func (h *Handler) get(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !accepts(r, "text/event-stream") {
		guard.Refuse(w, http.StatusNotAcceptable, jsonrpc.CodeInvalidRequest, "the client does not accept text/event-stream")
		return
	}
	c, ok := h.sessionOf(ctx, w, r)
	if !ok {
		return
	}
	if err := c.exchanges.enter(false); err != nil {
		refuse(w, c.because(err))
		return
	}
	defer c.exchanges.leave(false)
	st, after, ok := h.streamFor(ctx, w, r, c)
	if !ok {
		return
	}
	over := c.out.isOver(&st.outlet)
	k := newSink(&c.out, w)
	k.over = over
	defer h.guard.Watch(ctx, r, func(error) { k.close() })()
	c.out.add(k)
	defer c.out.remove(&st.outlet, k)
	upTo := uint64(math.MaxUint64)
	if !over {
		var err error
		if upTo, err = st.attach(k, after); err != nil {
			guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "Last-Event-ID: "+err.Error())
			return
		}
	}
	h.streams.Add(1)
	defer h.streams.Add(-1)
	h.serveStream(w, r, c, st, k, after, upTo)
}

// streamFor returns the stream of a GET, and the number of the last event that the client has
// received. If it returns false, it has answered the request.
func (h *Handler) streamFor(ctx context.Context, w http.ResponseWriter, r *http.Request, c *serverConn) (st *serverStream, after uint64, ok bool) {
	last := r.Header.Get("Last-Event-Id")
	if last == "" {
		st = c.streams.named(standing)
		return st, c.out.taken(&st.outlet), true
	}
	name, after, ok := parseEventID(last)
	if ok {
		if st = c.streams.named(name); st != nil {
			return st, after, true
		}
		st = &serverStream{id: name, numbered: true, outlet: outlet{over: true}}
		switch rest, err := hasRest(ctx, r, c, name, after); {
		case errors.Is(err, transport.ErrClosed):
			refuse(w, c.because(err))
			return nil, 0, false
		case r.Context().Err() != nil:
			return nil, 0, false
		case err != nil && !errors.Is(err, ErrUnknown): // the next attempt may succeed
			h.o.Logger.Error("events not read", logged(c.id), "stream", name, "error", err)
			refuse(w, errStore)
			return nil, 0, false
		case rest:
			return st, after, true
		}
	}
	guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "the events after Last-Event-ID are not stored")
	return nil, 0, false
}

// hasRest is [journal.hasRest] as one of the reads of the account. r is the request that waits for it.
func hasRest(ctx context.Context, r *http.Request, c *serverConn, stream string, after uint64) (bool, error) {
	if err := c.usage.reads.begin(r.Context(), c.done); err != nil {
		return false, err
	}
	defer c.usage.reads.end()
	return c.journal.hasRest(&storeContext{r.Context(), ctx, c.account}, stream, after)
}

// maxBuffer is how many bytes of events are written at once.
const maxBuffer = 64 << 10

// streamWriter writes the events of a stream to a connection.
type streamWriter struct {
	h      *Handler
	c      *serverConn
	st     *serverStream
	k      *sink
	room   *[]byte // pooled memory of buf; nil while buf is empty
	buf    []byte  // bytes to write
	long   []byte  // data to write after buf
	number uint64  // of the newest event that was added, or that the client has
	some   bool    // a message was added
	held   int     // bytes that are held by the sink until the next flush
}

// serveStream writes the events of a stream with numbers above after, until the stream or the
// connection ends. Those up to upTo come from the store.
func (h *Handler) serveStream(w http.ResponseWriter, r *http.Request, c *serverConn, st *serverStream, k *sink, after, upTo uint64) {
	if c.id != "" {
		w.Header()[headerSession] = []string{c.id}
	}
	k.beginStream()
	defer k.limitWrite() // for the end of the response, which package http writes
	out := &streamWriter{h: h, c: c, st: st, k: k, number: after}
	out.prime()
	if !out.flush() || !out.replay(r.Context(), upTo) {
		return
	}
	out.follow(r.Context())
}

// prime writes an event with the id from which the client can resume, and with the reconnect delay. A
// request that was cancelled before its response became a stream has none to resume.
func (s *streamWriter) prime() {
	switch {
	case s.c.priming() && s.st.id != "":
		s.write(eventstream.Event{ID: eventID(s.st.id, s.number), Data: []byte{}, Retry: s.h.o.Streams.Retry})
	case s.c.id != "":
		s.write(eventstream.Event{Retry: s.h.o.Streams.Retry})
	}
}

// write appends an event to the buffer.
func (s *streamWriter) write(e eventstream.Event) {
	s.begin()
	s.buf = eventstream.Append(s.buf, e)
}

// writeLong is write without a copy of the data, because many slow connections may write the same
// data at once. It returns false if the data must be copied.
func (s *streamWriter) writeLong(e eventstream.Event) (ok bool) {
	s.begin()
	if s.buf, ok = eventstream.AppendHead(s.buf, e); ok {
		s.long = e.Data
	}
	return ok
}

// begin takes memory for buf from the pool, if there is none. end returns it.
func (s *streamWriter) begin() {
	if s.room != nil {
		return
	}
	room, ok := s.h.buffers.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	s.room, s.buf = room, (*room)[:0]
}

// end returns the memory of buf to the pool, unless it may still be read: after an error, HTTP/2
// does not wait for a pending write.
func (s *streamWriter) end(err error) {
	if s.room != nil && cap(s.buf) <= 2*maxBuffer && err == nil {
		*s.room = s.buf
		s.h.buffers.Put(s.room)
	}
	s.room, s.buf = nil, nil
}

// add adds an event to the buffer, and flushes a large buffer. It returns false if the event is the
// last one, or if the connection is lost.
func (s *streamWriter) add(e Event) bool {
	if e.Text != nil {
		out := eventstream.Event{Data: e.Text}
		if s.c.id != "" {
			out.ID = eventID(s.st.id, e.Number)
		}
		s.some = true
		if len(e.Text) <= maxBuffer || !s.writeLong(out) {
			s.write(out)
		}
	}
	s.number = e.Number
	if len(s.buf) > maxBuffer || s.long != nil || e.Last {
		return s.flush() && !e.Last
	}
	return true
}

var longTail = []byte(eventstream.Tail)

// flush writes the buffer. It returns false if the connection is lost or the client accepts no data
// for Timeouts.Stall. It also returns false if the writer cannot flush and the client can resume
// the stream: then the data arrives only when the connection ends.
func (s *streamWriter) flush() bool {
	var err error
	if s.long == nil {
		err = s.k.write(s.buf)
	} else {
		err = s.k.write(s.buf, s.long, longTail)
		s.long = nil
	}
	noFlush := errors.Is(err, errors.ErrUnsupported)
	if noFlush {
		s.h.warnNoFlush()
		err = nil
	}
	s.end(err)
	if err != nil {
		s.h.o.Logger.Debug("connection lost", logged(s.c.id), "stream", s.st.id, "error", err)
		return false
	}
	first := s.c.out.wrote(&s.st.outlet, s.k, s.held, s.number)
	s.held = 0
	if first && s.st.id == standing { // another process need not send the event again; see restore
		s.c.journal.beginStanding()
	}
	return !noFlush || !s.some || s.c.id == ""
}

// warnNoFlush logs, once, that the data of streams arrives only when their connections end.
func (h *Handler) warnNoFlush() {
	if !h.warned.Swap(true) {
		h.o.Logger.Warn("stream not flushed", "effect", "each connection with a stream ends after the first messages",
			"remedy", "give the wrapper of http.ResponseWriter a method Flush or Unwrap")
	}
}

// replay writes the events up to upTo from the store. It returns false if the last one of the
// stream is among them, or if the connection is lost.
func (s *streamWriter) replay(ctx context.Context, upTo uint64) bool {
	for s.number < upTo {
		more, ok := s.replayNext(ctx, upTo)
		if !ok {
			return false
		}
		if !more {
			break
		}
	}
	return s.flush()
}

// replayNext writes the next events from the store. more is false if there are none up to upTo. ok is
// false if the last event of the stream is among them, or if the connection is lost. It closes the
// connection, for the client to reconnect, if the account has too many bytes pending.
func (s *streamWriter) replayNext(ctx context.Context, upTo uint64) (more, ok bool) {
	events, size, err := s.read(ctx)
	switch {
	case err == errNoRoom:
		s.hangUp()
		return false, false
	case err != nil && (ctx.Err() != nil || s.c.isOver()):
		return false, false
	case err != nil || len(events) == 0 && upTo != math.MaxUint64 || len(events) > 0 && events[0].Number > s.number+1:
		s.h.o.Logger.Warn("events are missing", logged(s.c.id), "stream", s.st.id, "after", s.number, "error", err)
	}
	if err != nil || len(events) == 0 {
		return false, true
	}
	defer s.c.out.queued.Add(-size)
	for _, e := range events {
		if e.Number > upTo { // it is pending in the sink
			return false, true
		}
		if !s.add(e) {
			return false, false
		}
	}
	return true, true
}

// errNoRoom is returned if an account has too many bytes pending for more events from the store.
var errNoRoom = errors.New("too many bytes are pending")

// read returns the next events from the store, and their size, which it has counted for the account.
func (s *streamWriter) read(ctx context.Context) (events []Event, size int, err error) {
	if err := s.c.usage.reads.begin(ctx, s.c.done); err != nil {
		return nil, 0, err
	}
	defer s.c.usage.reads.end() // once the events count
	if events, err = s.h.o.Sessions.Store.Events(ctx, s.c.id, s.st.id, s.number); err != nil {
		return nil, 0, err
	}
	for _, e := range events {
		size += len(e.Text) + eventOverhead
	}
	if !s.c.out.queued.Take(size) {
		return nil, 0, errNoRoom
	}
	return events, size, nil
}

// follow writes events as they arrive.
func (s *streamWriter) follow(ctx context.Context) {
	var idle, end <-chan time.Time
	var timer *time.Timer
	if s.h.o.Streams.KeepAlive > 0 {
		timer = s.h.timers.start(s.h.o.Streams.KeepAlive)
		defer s.h.timers.stop(timer)
		idle = timer.C
	}
	if s.h.o.Streams.MaxConnection > 0 && s.c.priming() {
		t := time.NewTimer(s.h.o.Streams.MaxConnection)
		defer t.Stop()
		end = t.C
	}
	for closed := false; ; {
		events, state := s.k.take()
		for _, e := range events {
			s.held += len(e.Text) + eventOverhead
			if !s.add(e) {
				return
			}
		}
		if len(s.buf) > 0 && !s.flush() || state == sinkOver || closed {
			return
		}
		if state == sinkHangUp {
			s.hangUp()
			return
		}
		select {
		case <-s.k.wake:
		case <-idle:
			s.begin()
			s.buf = eventstream.AppendComment(s.buf, "")
			timer.Reset(s.h.o.Streams.KeepAlive)
		case <-end:
			s.hangUp()
			return
		case <-s.c.done:
			closed = true
		case <-ctx.Done():
			return
		}
	}
}

// hangUp writes the reconnect delay before the connection is closed.
func (s *streamWriter) hangUp() {
	s.write(eventstream.Event{Retry: s.h.o.Streams.Retry})
	s.flush()
}
