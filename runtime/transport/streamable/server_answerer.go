package streamable

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// answerer writes the response to a modern request: JSON, or an event stream that begins with the
// first notification or after Streams.After. The goroutine of the request writes the answer.
// Notifications of other goroutines, keep-alive comments and the error of abort may come before it.
// A message is written at once, or its sender waits: nothing is queued.
type answerer struct {
	stallWriter
	h       *Handler
	r       *http.Request
	id      jsonrpc.ID // of the request; zero for a notification
	version string     // of the request
	place   *place
	gone    lazyctx.Values // ends when the client disconnects
	ctx     lazyctx.Child  // of the message; also ends if nothing can be written
	moved   progress
	unwatch func() // nil unless the token is watched

	previous, next *answerer // in the list of the Handler, guarded by its mu
	listed         bool

	mu      sync.Mutex
	sending context.Context // of Send while it writes; otherwise nil; guarded by mu

	text   []byte // of the answer; nil for a notification
	failed *jsonrpc.Error

	// writing holds an item while a goroutine writes, which may take Timeouts.Stall. It guards the
	// following fields.
	writing chan struct{}
	state   answerState
	timer   *time.Timer // calls tick; nil for a notification
}

type answerState uint8

const (
	answerPending answerState = iota
	answerStream              // the response is an event stream
	answerOver                // nothing may be written
)

var errWriter = errors.New("the http.ResponseWriter panicked")

// newAnswerer returns an answerer for a request or, with a zero id, for a notification. It adds it
// to the list of the handler, and fails with errDraining if the handler is shutting down. Call
// leave before the response ends.
func (h *Handler) newAnswerer(ctx context.Context, w http.ResponseWriter, r *http.Request, id jsonrpc.ID, version string, taken *place) (*answerer, error) {
	a := &answerer{h: h, r: r, id: id, version: version, place: taken, gone: lazyctx.Values{Context: r.Context(), Other: ctx}, writing: make(chan struct{}, 1)}
	a.stallWriter = newStallWriter(w, h.o.Timeouts.Stall, &a.moved)
	a.ctx.Parent = &a.gone
	if !h.enlist(a) {
		return nil, errDraining
	}
	if !id.IsZero() {
		a.lock() // tick may run at once
		a.timer = time.AfterFunc(h.streamAfter(), a.tick)
		a.unlock()
	}
	return a, nil
}

// Version implements [modern.Checked].
func (a *answerer) Version() string { return a.version }

// Waits implements [modern.Checked].
func (a *answerer) Waits() {
	if a.unwatch == nil {
		a.unwatch = a.h.guard.Watch(&a.ctx, a.r, func(error) { a.ctx.Cancel(errReauthorize) })
	}
}

// streamAfter returns Streams.After for modern requests.
func (h *Handler) streamAfter() time.Duration {
	if h.o.Streams.After > 0 {
		return h.o.Streams.After
	}
	return defaultStreamAfter
}

// leave ends the use of the ResponseWriter.
func (a *answerer) leave() {
	if a.unwatch != nil {
		a.unwatch()
	}
	a.lock()
	a.end()
	a.unlock()
	a.ctx.Cancel(nil)
	a.h.delist(a)
}

func (a *answerer) lock()   { a.writing <- struct{}{} }
func (a *answerer) unlock() { <-a.writing }

// end makes later writes fail. The lock must be held.
func (a *answerer) end() {
	a.state = answerOver
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Send implements [transport.Reply]. It waits while the client accepts no data, for Timeouts.Stall at
// most. The response to a notification has no room for others.
func (a *answerer) Send(ctx context.Context, text []byte) error {
	if a.id.IsZero() {
		return nil
	}
	a.lock()
	defer a.unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := a.begin(); err != nil {
		return err
	}
	a.sendWith(ctx)
	a.timer.Reset(a.h.o.Timeouts.Flush)
	err := a.writeEvent(text)
	a.sent()
	a.wrote(err)
	return err
}

// sendWith sets the context of the message that is being written.
func (a *answerer) sendWith(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sending = ctx
}

// sent ends what sendWith has begun.
func (a *answerer) sent() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sending = nil
}

// hurry interrupts Send if a context has ended while it waits for the client. It returns false if Send
// is not writing.
func (a *answerer) hurry() (sending bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.sending == nil:
		return false
	case a.sending.Err() != nil || a.ctx.Err() != nil:
		a.h.interrupt(a)
	default:
		a.timer.Reset(a.h.o.Timeouts.Flush)
	}
	return true
}

// Answer implements [transport.Reply]. The goroutine of the HTTP request sends the answer.
func (a *answerer) Answer(_ context.Context, text []byte, failed *jsonrpc.Error) error {
	a.text, a.failed = text, failed
	return nil
}

// begin makes the response an event stream. It fails if nothing may be written but the answer. The
// lock must be held.
func (a *answerer) begin() error {
	switch {
	case a.state == answerOver:
		return transport.ErrAnswered
	case a.ctx.Err() != nil:
		return a.ctx.Cause()
	case a.state == answerPending:
		a.state = answerStream
		a.beginStream()
	}
	return nil
}

// wrote records the outcome of a write: the timer of keep-alive comments starts again, or the
// request is cancelled. The lock must be held.
func (a *answerer) wrote(err error) {
	switch {
	case err != nil:
		a.h.o.Logger.Debug("connection lost", "error", err)
		a.end()
		a.ctx.Cancel(err)
	case a.h.o.Streams.KeepAlive > 0:
		a.timer.Reset(a.h.o.Streams.KeepAlive)
	default:
		a.timer.Stop()
	}
}

// tick begins the event stream of a request that takes long, and writes comments on an idle one.
func (a *answerer) tick() {
	if a.hurry() {
		return
	}
	a.lock()
	defer a.unlock()
	idle, begun := a.state == answerStream, false
	err := boundary.Run(func() error { // the goroutine is that of the timer
		if begun = a.begin() == nil; !begun {
			return nil
		}
		var comment []byte
		if idle {
			comment = eventstream.AppendComment(nil, "")
		}
		return a.flush(comment)
	})
	if boundary.Report(a.h.o.Logger, "http.ResponseWriter panicked", err) {
		begun, err = true, errWriter // the handler has not panicked
	}
	if begun {
		a.wrote(err)
	}
}

// writeEvent writes an event with a message. The lock must be held.
func (a *answerer) writeEvent(text []byte) error {
	event := eventstream.Event{Data: text}
	if len(text) > maxBuffer {
		if head, ok := eventstream.AppendHead(nil, event); ok { // without a copy of the message
			return a.flush(head, text, longTail)
		}
	}
	room, ok := a.h.buffers.Get().(*[]byte)
	if !ok {
		room = new([]byte)
	}
	*room = eventstream.Append((*room)[:0], event)
	err := a.flush(*room)
	if cap(*room) <= 2*maxBuffer && err == nil { // after an error, HTTP/2 may still read it
		a.h.buffers.Put(room)
	}
	return err
}

// flush writes texts. If the writer cannot flush, they arrive with the answer.
func (a *answerer) flush(texts ...[]byte) error {
	err := a.write(texts...)
	if errors.Is(err, errors.ErrUnsupported) {
		a.h.warnNoFlush()
		err = nil
	}
	return err
}

// finish writes the answer, unless the client has disconnected.
func (a *answerer) finish() {
	a.lock()
	defer a.unlock()
	stream, over := a.state == answerStream, a.state == answerOver || a.gone.Err() != nil
	a.end()
	if over {
		return
	}
	text, failed := a.text, a.failed
	if len(text) > a.h.o.Limits.Initialize { // shorter ones are limited by their number
		if answers := a.place.usage.answers; answers.Take(len(text)) {
			defer answers.Give(len(text))
		} else {
			failed = &jsonrpc.Error{Code: modern.CodeOverloaded, Message: errUnread}
			text, _ = errorResponse(a.id, failed) // strings of our own are always encoded
		}
	}
	switch {
	case stream:
		a.writeEvent(text) // fails if the client does not read
		a.limitWrite()     // for the end of the response, which package http writes
	case a.id.IsZero() && failed != nil:
		guard.RefuseCall(a.w, notificationStatus(failed), jsonrpc.ID{}, failed)
	case a.id.IsZero():
		guard.WriteStatus(a.w, http.StatusAccepted)
	case failed != nil:
		a.answerJSON(statusOf(failed), text)
	default:
		a.answerJSON(http.StatusOK, text)
	}
}

// answerJSON answers with a message. Package http flushes it, and then removes the deadline.
func (a *answerer) answerJSON(status int, text []byte) {
	a.limitWrite()
	guard.BeginJSON(a.w, status, text, &a.length)
	for len(text) > maxBuffer {
		if _, err := a.w.Write(text[:maxBuffer]); err != nil {
			return
		}
		text = text[maxBuffer:]
		a.limitWrite()
	}
	a.w.Write(text)
}

// abort answers the request with an error, if it has no answer yet, and cancels it. The connection
// serves no further requests.
func (a *answerer) abort(failed *jsonrpc.Error) {
	a.lock()
	defer a.unlock()
	defer a.ctx.Cancel(failed)
	defer a.end() // also if the writer panics
	if a.state != answerOver && a.gone.Err() == nil {
		if text, _ := errorResponse(a.id, failed); a.state == answerStream {
			a.writeEvent(text)
		} else {
			a.w.Header()["Connection"] = []string{"close"}
			a.writeJSON(statusOf(failed), text)
		}
	}
}

// close is abort, for Timeouts.Flush at most. Then it interrupts the writes if the Handler was
// closed. Otherwise a long answer may still be on its way over a slow connection.
func (a *answerer) close() {
	done := make(chan struct{})
	go func() { // ends when the client has accepted the answer, or after Timeouts.Stall
		defer close(done)
		err := boundary.Run(func() error {
			a.abort(&jsonrpc.Error{Code: modern.CodeClosing, Message: errDraining.Error()})
			return nil
		})
		boundary.Report(a.h.o.Logger, "http.ResponseWriter panicked", err)
	}()
	timer := time.NewTimer(a.h.o.Timeouts.Flush)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		if a.h.closed.Load() {
			a.h.interrupt(a)
			<-done
		}
	}
	a.h.delist(a)
}
