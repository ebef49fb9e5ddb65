package session

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// serving is a request of the peer that is being served. inbound.mu guards over and kept.
type serving struct {
	s        *Session
	req      *Request
	until    lazyctx.Cancellable // the parent of ctx
	ctx      context.Context
	size     int
	batch    *batch // nil if the request is not part of a batch
	over     bool   // it was answered, or must not be
	kept     bool   // cancellation is ignored
	session  uint32 // number of the session in which it arrived; see reopening
	reporter atomic.Pointer[Reporter]
	asking   atomic.Int32 // requests to the peer whose answers the handler waits for
	yields   atomic.Bool  // see Request.EndOnShutdown
	// Closed when initialize has been answered; nil if that was before the request arrived.
	opened <-chan struct{}
}

// Limits of the parts of a message that are retained, and repeated in answers. Longer ids and
// method names are rejected before any other work on them. Longer progress tokens are ignored.
const (
	maxID     = 1 << 10
	maxMethod = 1 << 10
	maxReason = 1 << 10 // of the peer's reason for a cancellation; the rest is truncated
)

// receive processes a message or a batch. It must not wait for a handler.
func (s *Session) receive(m transport.Message) {
	// The session owns the text and does not change it.
	message, err := m.Parse()
	if errors.Is(err, jsonrpc.ErrBatch) {
		if s.Revision().Defines("JSONRPCBatchRequest") {
			s.receiveBatch(m)
			return
		}
		if s.failBatch(m, err) {
			return
		}
	}
	s.take(&message, err, &m, nil)
}

// take processes a message, or its error err. Answers are added to b unless that is nil. Its
// parameters are pointers, because the frames below it may be on the stack of a handler of the peer.
func (s *Session) take(message *jsonrpc.Message, err error, m *transport.Message, b *batch) {
	if longer(message.ID, maxID) {
		message.ID = jsonrpc.ID{}
		err = fmt.Errorf("%w: longer than %d bytes", jsonrpc.ErrID, maxID)
	}
	if err != nil {
		s.refuse(*message, err, *m, b)
		return
	}
	switch message.Kind {
	case jsonrpc.KindRequest:
		s.request(*message, *m, b)
	case jsonrpc.KindNotification:
		if message.Method == mcp.MethodNotificationsProgress {
			s.progressed(message.Params)
		} else {
			s.notification(*message, *m)
		}
	case jsonrpc.KindResponse:
		s.answered(message.ID, answer{result: message.Result})
	case jsonrpc.KindErrorResponse:
		s.answered(message.ID, answer{err: message.Error})
	}
}

// longer reports whether the text of an id or a token has more than max bytes.
func longer(id codec.Scalar, max int) bool {
	text, ok := id.Text()
	if !ok && !id.IsZero() {
		text = id.String()
	}
	return len(text) > max
}

// refuse answers an invalid message with an error, unless it is a notification or an answer.
func (s *Session) refuse(message jsonrpc.Message, err error, m transport.Message, b *batch) {
	cause := boundary.Text(boundary.ErrorText(err), 1<<10) // it may quote the message
	switch message.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		// Without a result and an error, it may also be a request that lacks its method.
		if s.answered(message.ID, invalidAnswer(err)) || !errors.Is(err, jsonrpc.ErrNeither) {
			return
		}
	case jsonrpc.KindNotification:
		s.warn("notification rejected", "method", boundary.Text(message.Method, maxMethod), "error", cause)
		return
	}
	s.warn("message rejected", "error", cause)
	s.reject(message, &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: cause}, m, b)
}

// invalidAnswer returns the answer for a response that is invalid because of err.
func invalidAnswer(err error) answer {
	return answer{err: fmt.Errorf("%w: %w", errInvalidAnswer, err)}
}

var errInvalidAnswer = errors.New("session: invalid answer")

// reject answers a request in m with an error instead of serving it.
func (s *Session) reject(message jsonrpc.Message, err error, m transport.Message, b *batch) {
	s.cfg.rejected(message.Method, boundary.WireError(err))
	s.answer(message.ID, err, m, b)
}

// answer answers a request in m without a handler: with err or, if that is nil, with an empty
// result.
func (s *Session) answer(id jsonrpc.ID, err error, m transport.Message, b *batch) {
	text, _, encodeErr := encodeAnswer(id, nil, err)
	if encodeErr != nil {
		return // not reached: invalid UTF-8 in a message has been replaced
	}
	if b != nil {
		b.add(text)
		return
	}
	s.reply(transport.Message{Text: text, For: id, Answer: !id.IsZero(), Session: m.Session})
}

// reply queues an answer of the read loop and does not wait for the transport. Otherwise two peers
// that are both overloaded would wait for each other to read. It blocks only if very many answers
// are pending, because the peer does not read.
//
// The client sends no answers in revisions without sessions.
func (s *Session) reply(m transport.Message) {
	if !s.Traits().InputInResults {
		s.replies.Put(m, len(m.Text))
	}
}

// request starts serving a request, or rejects it.
func (s *Session) request(message jsonrpc.Message, m transport.Message, b *batch) {
	if m.Session > 0 && m.Session <= s.reopening.withdrawn {
		return // it was on its way when its session was lost
	}
	if s.Traits().InputInResults {
		s.warn("request of the server dropped", "method", boundary.Text(message.Method, 100))
		return
	}
	if s.cfg.Responder != nil && s.role == RoleServer && b == nil {
		if meta, ok := modern.Meta(message.Params); ok {
			s.modernRequest(message, meta, m)
			return
		}
	}
	if message.Method == mcp.MethodPing {
		s.answer(message.ID, nil, m, b) // at once, even while overloaded or before initialize
		return
	}
	if len(message.Method) > maxMethod {
		s.reject(message, jsonrpc.MethodNotFound(boundary.Text(message.Method, 100)), m, b)
		return
	}
	in := &struct {
		request Request
		serving serving
		context requestContext
	}{
		request: Request{ID: message.ID, Method: message.Method, Params: message.Params, Session: s},
		serving: serving{s: s, size: len(m.Text), batch: b, session: m.Session},
	}
	req, st := &in.request, &in.serving
	// Session.stop cancels st.until. A context derived from s.life.ctx would cost more per request.
	in.context = requestContext{lazyctx.Values{Context: &st.until, Other: m.Context}, req}
	st.req, st.ctx = req, &in.context
	req.state = st
	if err := s.admit(st); err != nil {
		s.reject(message, err, m, b)
		return
	}
	s.life.work.Add(1)
	go st.serve() // ends when the handler returns
}

// admit adds a request to inbound, or returns the error that rejects it.
func (s *Session) admit(st *serving) error {
	if st.req.Method == mcp.MethodInitialize && s.role == RoleServer {
		return s.admitInitialize(st)
	}
	// Requests that arrive while initialize is being answered are served after it.
	if st.opened = s.handshake.opening(); st.opened == nil {
		if err := s.served(st.req); err != nil {
			return err
		}
	}
	return s.inbound.admit(st)
}

// admitInitialize is admit for initialize.
func (s *Session) admitInitialize(st *serving) error {
	err := s.handshake.begin()
	if err != nil {
		return err
	}
	switch {
	case st.batch != nil:
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "initialize must not be part of a batch"}
	case len(st.req.Params) > s.cfg.MaxInitialize:
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("invalid params: longer than %d bytes", s.cfg.MaxInitialize)}
	default:
		err = s.inbound.admit(st)
	}
	if err != nil {
		s.handshake.end(false)
		return err
	}
	s.notices.Pause()
	return nil
}

// served returns an error if a request is not served: the session is not initialized, or does not
// have the method.
func (s *Session) served(req *Request) error {
	a := s.handshake.current.Load()
	if a.phase < phaseOpened {
		if _, fault := modern.Read(req.Method, req.Params); fault != nil && s.cfg.Responder != nil {
			// Only a modern request can be served here (MCP stdio, "Request Metadata").
			fault.Message += ", and the session is not initialized"
			return fault
		}
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "session is not initialized"}
	}
	if a.missing(req.Method, false, false) != nil {
		return jsonrpc.MethodNotFound(req.Method)
	}
	return nil
}

// serve runs the handler and sends the answer.
func (st *serving) serve() {
	defer st.s.life.work.Done()
	lazyctx.GrowStack()
	var result codec.Encoder
	err := boundary.ErrGoexit // unless the handler returns
	defer func() { st.finish(result, err) }()
	if err = st.wait(); err == nil {
		err = boundary.ErrGoexit
		result, err = st.s.run(st.ctx, st.req)
	}
}

// wait waits until initialize has been answered, and then returns the error of served. It returns
// nil at once if initialize was answered before the request arrived.
func (st *serving) wait() error {
	if st.opened == nil {
		return nil
	}
	select {
	case <-st.opened:
	case <-st.ctx.Done():
		return context.Cause(st.ctx)
	}
	err := st.s.served(st.req)
	if err != nil {
		st.s.cfg.rejected(st.req.Method, boundary.WireError(err))
	}
	return err
}

// run calls the handler. A panic fails only the request.
func (s *Session) run(ctx context.Context, req *Request) (result codec.Encoder, err error) {
	if req.modern != nil {
		return s.cfg.Responder.serve(ctx, req)
	}
	defer boundary.Catch(&err)
	return s.handler(ctx, req)
}

// finish answers the request, unless it was cancelled. The request and the answer count towards the
// limits until the transport has accepted the answer.
func (st *serving) finish(result codec.Encoder, err error) {
	s := st.s
	text, ok := st.encode(result, err)
	size := len(text)
	silent, pending := s.inbound.settle(st, size)
	st.until.Cancel(nil)
	if !silent {
		if pending >= s.cfg.MaxBytes {
			s.warn("answer dropped", "method", st.req.Method, "pending", pending)
			text, _, _ = encodeAnswer(st.req.ID, nil, overloaded("the answer was dropped, answers of %d bytes are pending", pending))
			size, ok = 0, false
		}
		st.deliver(s.life.ctx, text)
	}
	if st.req.Method == mcp.MethodInitialize && st.req.modern == nil {
		s.opened(ok)
	}
	s.inbound.finish(st, silent, size)
}

// encode returns the text of the answer. ok reports whether it is a result.
func (st *serving) encode(result codec.Encoder, err error) (text []byte, ok bool) {
	log := st.s.cfg.Logger
	if st.req.modern != nil {
		log = st.s.cfg.Responder.cfg.Logger
	}
	text, failed := encodeOutcome(log, st.req, result, err)
	return text, failed == nil
}

// deliver sends the answer.
func (st *serving) deliver(ctx context.Context, text []byte) error {
	if st.batch != nil {
		st.batch.add(text)
		return nil
	}
	return st.s.writeUntil(ctx, transport.Message{Text: text, For: st.req.ID, Answer: true, Session: st.session})
}

// cancelled handles the peer's cancellation of a request. It ignores unknown ids, because the
// cancellation may cross the answer (MCP cancellation, "Timing Considerations").
func (s *Session) cancelled(id jsonrpc.ID, reason string) {
	st := s.inbound.cancel(id)
	if st == nil {
		return
	}
	s.interrupt(st, boundary.Text(reason, maxReason))
}

// interrupt cancels the context of a request that must not be answered.
func (s *Session) interrupt(st *serving, reason string) {
	st.reporter.Load().silence()
	if st.req.modern != nil {
		st.req.modern.silence()
	}
	id := st.req.ID
	s.cfg.Logger.Info("request cancelled", "method", st.req.Method, "id", id.String(), "reason", reason)
	cause := ErrCancelled
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCancelled, reason)
	}
	if st.batch != nil {
		st.batch.skip()
	}
	conn, ok := transport.As[transport.Releaser](s.conn)
	if !ok || !s.life.spawn(func() { // ends when Release returns
		// Release comes first: later messages of the handler must not take the stream of the
		// cancelled request, which the client may have stopped reading.
		defer st.until.Cancel(cause)
		s.panicked("transport", boundary.Run(func() error { conn.Release(id); return nil }))
	}) {
		st.until.Cancel(cause)
	}
}

// notification processes notifications/cancelled and initialized at once, and queues all
// notifications for the handler, apart from progress. A notification outside of a session goes to
// the Responder instead, apart from cancelled.
func (s *Session) notification(message jsonrpc.Message, m transport.Message) {
	switch message.Method {
	case mcp.MethodNotificationsCancelled:
		var p mcp.CancelledNotificationParams
		if err := codec.Unmarshal(message.Params, &p); err != nil {
			s.warn("notification refused", "method", message.Method, "error", err)
			return
		}
		reason := ""
		if p.Reason != nil {
			reason = *p.Reason
		}
		s.cancelled(p.RequestID, reason)
		if s.listens.has(p.RequestID) { // a server ends a subscription like this
			s.answered(p.RequestID, answer{err: fmt.Errorf("%w: %s", ErrCancelled, boundary.Text(reason, maxReason))})
		}
	case mcp.MethodNotificationsInitialized:
		if s.role == RoleServer {
			s.handshake.confirm()
		}
	}
	if s.Traits().Listens && !s.listens.admit(message) {
		s.cfg.Logger.Debug("notification of an unknown subscription dropped", "method", boundary.Text(message.Method, 100))
		return
	}
	req := &Request{Method: message.Method, Params: message.Params, Session: s, values: m.Context}
	if s.role == RoleServer && (s.withoutSession() || s.cfg.Responder != nil && modern.Is(message.Params)) {
		if message.Method == mcp.MethodNotificationsCancelled {
			return
		}
		req.Session, req.revision, req.modern = nil, s.cfg.Responder.cfg.Revisions[0], &modernRequest{r: s.cfg.Responder, session: s}
	}
	if reason := s.enqueue(req, len(m.Text)); reason != "" {
		s.warn("notification dropped", "reason", reason, "method", boundary.Text(message.Method, 100))
	}
}

// enqueue queues a notification for the handler. size is that of its message, which it retains. It
// returns the reason if it drops the notification, otherwise "".
func (s *Session) enqueue(req *Request, size int) (reason string) {
	switch {
	case req.modern == nil && s.cfg.Handler == nil && len(s.cfg.Receiving) == 0:
		return ""
	case req.modern == nil && s.role == RoleServer && s.handshake.isNew():
		return "session not initialized"
	case len(req.Method) > maxMethod:
		return "method name too long"
	case !s.notices.TryPut(req, size):
		return "too many pending"
	}
	return ""
}

// notify passes a notification to the handler, unless the session has ended.
func (s *Session) notify(req *Request) {
	if s.life.over() { // and is about to close notices
		return
	}
	_, err := s.run(&requestContext{lazyctx.Values{Context: s.life.ctx, Other: req.values}, req}, req)
	if err == nil || boundary.Report(s.cfg.Logger, "handler panicked", err, "method", req.Method) {
		return
	}
	if !s.life.over() && boundary.WireError(err).Code != jsonrpc.CodeMethodNotFound {
		s.warn("notification failed", "method", req.Method, "error", boundary.ErrorText(err))
	}
}

// base is the innermost handler.
func (s *Session) base(ctx context.Context, req *Request) (codec.Encoder, error) {
	if req.Method == mcp.MethodInitialize && s.role == RoleServer && !req.IsNotification() {
		return s.serveInitialize(req)
	}
	if s.cfg.Handler == nil {
		return nil, unhandled(req)
	}
	return s.cfg.Handler(ctx, req)
}

// requestContext is the context of a handler: that of its request, with the values of the message's
// context.
type requestContext struct {
	lazyctx.Values
	req *Request
}

func (c *requestContext) Value(key any) any {
	if key == (requestKey{}) {
		return c.req
	}
	return c.Values.Value(key)
}
