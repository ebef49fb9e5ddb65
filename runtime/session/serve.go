package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// serving is an exchange with what its handler needs.
type serving struct {
	engine.Exchange
	side *side           // of the session, or of the Responder
	conn *Session        // over whose connection it arrived; nil over HTTP without a session
	to   transport.Reply // of its message; nil if its messages are written to the connection
	ctx  *requestContext
}

func (st *serving) ID() jsonrpc.ID { return st.ctx.req.ID }

// response returns an answer. If text is nil, it encodes failed, unless that is nil, too, or the
// error of a notification.
func (st *serving) response(text []byte, failed *jsonrpc.Error) response {
	if req := st.ctx.req; text == nil && failed != nil {
		if failed = wireError(req.Traits(), failed); !req.IsNotification() {
			text = engine.EncodeError(req.ID, failed)
		}
	}
	return response{st.to, text, failed, st.Session}
}

// connected is a request that has arrived over the connection of a session. It is the Reply of its
// exchange.
type connected struct {
	serving
	until lazyctx.Cancellable // the parent of ctx
	// Closed when initialize has been answered; nil if that was before the request arrived.
	opened <-chan struct{}
}

func (c *connected) Send(ctx context.Context, text []byte) error {
	return c.conn.writeUntil(ctx, transport.Message{Text: text, Reply: c.to, Session: c.Session})
}

func (c *connected) Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error {
	return c.conn.answer(ctx, c.response(text, failed))
}

func (c *connected) Cancel(cause error) { c.until.Cancel(cause) }

// side runs the handlers of a session or of a Responder.
type side struct {
	cfg     Options
	handler Handler // with its middleware
	sender  Sender  // with its middleware
	warnings
}

// handle calls the handler. A panic fails only the request. A handler that returns the error of its
// context returns the cause of that.
func (e *side) handle(ctx context.Context, req *Request) (result codec.Encoder, err error) {
	defer boundary.Catch(&err)
	result, err = e.handler(ctx, req)
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
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
	if errors.Is(err, jsonfault.Batch) {
		if s.Revision().Defines("JSONRPCBatchRequest") {
			s.receiveBatch(m)
			return
		}
		if s.failBatch(m, err) {
			return
		}
	}
	s.take(&message, err, &m)
}

// take processes a message, or its error err. It reports whether the Reply of the message gets an
// answer, or the end without one. Its parameters are pointers, because the frames below it may be on
// the stack of a handler of the peer.
func (s *Session) take(message *jsonrpc.Message, err error, m *transport.Message) (answers bool) {
	if longer(message.ID, maxID) {
		message.ID = jsonrpc.ID{}
		err = fmt.Errorf("%w: longer than %d bytes", jsonfault.ID, maxID)
	}
	if err != nil {
		return s.refuse(*message, err, *m)
	}
	switch message.Kind {
	case jsonrpc.KindRequest:
		return s.request(*message, *m)
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
	return false
}

// longer reports whether the text of an id or a token has more than max bytes.
func longer(id codec.Scalar, max int) bool {
	text, ok := id.Text()
	if !ok && !id.IsZero() {
		text = id.String()
	}
	return len(text) > max
}

// refuse answers an invalid message with an error, unless it is a notification or an answer. It
// reports whether it does.
func (s *Session) refuse(message jsonrpc.Message, err error, m transport.Message) (answers bool) {
	cause := boundary.Text(boundary.ErrorText(err), 1<<10) // it may quote the message
	switch message.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		// Without a result and an error, it may also be a request that lacks its method.
		if s.answered(message.ID, invalidAnswer(err)) || !errors.Is(err, jsonfault.Neither) {
			return false
		}
	case jsonrpc.KindNotification:
		s.warn("notification rejected", "method", boundary.Text(message.Method, maxMethod), "error", cause)
		return false
	}
	s.warn("message rejected", "error", cause)
	s.reject(&s.cfg, message, &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: cause}, m)
	return true
}

// invalidAnswer returns the answer for a response that is invalid because of err.
func invalidAnswer(err error) answer {
	return answer{err: fmt.Errorf("%w: %w", errInvalidAnswer, err)}
}

var errInvalidAnswer = errors.New("session: invalid answer")

// reject answers a request in m with an error instead of serving it. cfg is that of the Responder for
// a modern request.
func (s *Session) reject(cfg *Options, message jsonrpc.Message, failed *jsonrpc.Error, m transport.Message) {
	cfg.rejected(message.Method, failed)
	s.reply(response{m.Reply, engine.EncodeError(message.ID, failed), failed, m.Session})
}

// response is an answer on its way to the peer.
type response struct {
	to      transport.Reply // nil for the connection
	text    []byte          // nil if the request will not be answered
	failed  *jsonrpc.Error  // the error in it
	session uint32
}

// reply queues an answer of the read loop and does not wait for the transport. Otherwise two peers
// that are both overloaded would wait for each other to read. It blocks only if very many answers
// are pending, because the peer does not read.
//
// The client sends no answers in revisions without sessions.
func (s *Session) reply(r response) {
	if b, ok := r.to.(*batch); ok {
		b.Answer(s.life.ctx, r.text, r.failed) // does not wait
		return
	}
	if !s.Traits().InputInResults {
		s.replies.Put(r, len(r.text))
	}
}

// answer passes an answer to the transport. An error of the connection ends the session.
func (s *Session) answer(ctx context.Context, r response) error {
	if r.to == nil {
		if r.text == nil {
			return nil
		}
		return s.writeUntil(ctx, transport.Message{Text: r.text, Session: r.session})
	}
	if s.life.over() {
		return s.life.err()
	}
	if err := answerTo(ctx, r); err != nil {
		return s.writeFailed(ctx, err)
	}
	return nil
}

// answerTo calls Answer of a Reply. It returns a panic as an error.
func answerTo(ctx context.Context, r response) (err error) {
	defer boundary.Catch(&err)
	return r.to.Answer(ctx, r.text, r.failed)
}

// request starts serving a request, or rejects it. It returns false if it drops the request.
func (s *Session) request(message jsonrpc.Message, m transport.Message) (answers bool) {
	if m.Session > 0 && m.Session <= s.reopening.withdrawn {
		return false // it was on its way when its session was lost
	}
	if s.Traits().InputInResults {
		s.warn("request of the server dropped", "method", boundary.Text(message.Method, 100))
		return false
	}
	var meta modern.RequestMeta
	stated := false
	if _, inBatch := m.Reply.(*batch); s.cfg.responder != nil && s.role == roleServer && !inBatch {
		meta, stated = modern.Meta(message.Params)
	}
	if message.Method == mcp.MethodPing && !stated {
		text, _ := encodeResult(message.ID, nil)
		s.reply(response{m.Reply, text, nil, m.Session}) // at once, even while overloaded or before initialize
		return true
	}
	if len(message.Method) > maxMethod {
		s.reject(&s.cfg, message, boundary.WireError(jsonrpc.MethodNotFound(boundary.Text(message.Method, 100))), m)
		return true
	}
	in := &struct {
		request   Request
		connected connected
		context   requestContext
	}{
		request: Request{ID: message.ID, Method: message.Method, Params: message.Params},
		connected: connected{serving: serving{side: &s.side, conn: s, to: m.Reply, Exchange: engine.Exchange{
			Size: len(m.Text), Session: m.Session, Input: engine.WaitsForInput(message.Method), Kept: message.Method == mcp.MethodInitialize,
		}}},
	}
	req, c := &in.request, &in.connected
	// Session.stop cancels until. A context derived from s.life.ctx would cost more per request.
	in.context = requestContext{lazyctx.Values{Context: &c.until, Other: m.Context}, req}
	c.Reply, c.ctx, req.state = c, &in.context, &c.serving
	var err error
	if stated {
		c.side, req.capabilities = &s.cfg.responder.side, meta.Capabilities
		version, fault := meta.Version()
		if err = s.cfg.responder.check(req, version, fault); err == nil {
			err = s.inbound.Enter(&c.Exchange)
		}
	} else {
		req.Session = s
		err = s.admit(c)
	}
	if err != nil {
		s.reject(&c.side.cfg, message, wireError(req.Traits(), err), m)
		return true
	}
	s.life.work.Add(1)
	go c.serve() // ends when the handler returns
	return true
}

// admit adds a request to inbound, or returns the error that rejects it.
func (s *Session) admit(c *connected) error {
	if c.ctx.req.Method == mcp.MethodInitialize && s.role == roleServer {
		return s.admitInitialize(c)
	}
	// Requests that arrive while initialize is being answered are served after it.
	if c.opened = s.handshake.opening(); c.opened == nil {
		if err := s.served(c.ctx.req); err != nil {
			return err
		}
	}
	return s.inbound.Enter(&c.Exchange)
}

// admitInitialize is admit for initialize.
func (s *Session) admitInitialize(c *connected) error {
	err := s.handshake.begin()
	if err != nil {
		return err
	}
	switch _, inBatch := c.to.(*batch); {
	case inBatch:
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "initialize must not be part of a batch"}
	case len(c.ctx.req.Params) > s.cfg.Limits.Initialize:
		err = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("invalid params: longer than %d bytes", s.cfg.Limits.Initialize)}
	default:
		err = s.inbound.Enter(&c.Exchange)
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
		if _, fault := modern.Read(req.Method, req.Params); fault != nil && s.cfg.responder != nil {
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

// serve serves the request in a goroutine of the session.
func (c *connected) serve() {
	defer c.conn.life.work.Done()
	lazyctx.GrowStack()
	c.run(c.wait())
}

// wait waits until initialize has been answered, and then returns the error of served. It returns
// nil at once if initialize was answered before the request arrived.
func (c *connected) wait() error {
	if c.opened == nil {
		return nil
	}
	select {
	case <-c.opened:
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	req := c.ctx.req
	err := c.conn.served(req)
	if err != nil {
		c.side.cfg.rejected(req.Method, wireError(req.Traits(), err))
	}
	return err
}

// run calls the handler, unless the request has failed with err, and sends the answer.
func (st *serving) run(err error) {
	var result codec.Encoder
	defer func() { st.finish(result, err) }()
	if err == nil {
		err = boundary.ErrGoexit // unless the handler returns
		result, err = st.side.handle(st.ctx, st.ctx.req)
	}
}

// finish answers the request, unless it was cancelled.
func (st *serving) finish(result codec.Encoder, err error) {
	req := st.ctx.req
	text, failed := encodeOutcome(st.side.cfg.Logger, req, result, err)
	ctx := context.Background()
	if st.conn != nil {
		ctx = st.conn.life.ctx
	}
	initialize := req.Session != nil && req.Method == mcp.MethodInitialize
	if initialize { // Shutdown waits for the notifications that have waited for the answer
		req.Session.activity.Begin()
		defer req.Session.activity.End()
	}
	sent := st.Finish(ctx, text, failed)
	if sent != failed {
		st.side.warn("answer dropped", "method", req.Method, "error", sent.Message)
	}
	if initialize {
		req.Session.opened(sent == nil)
	}
}

// cancelled handles the peer's cancellation of a request. It ignores unknown ids, because the
// cancellation may cross the answer (MCP cancellation, "Timing Considerations").
func (s *Session) cancelled(id jsonrpc.ID, reason string) {
	if x := s.inbound.Cancel(id); x != nil {
		s.interrupt(x, boundary.Text(reason, maxReason))
	}
}

// interrupt ends a request that must not be answered.
func (s *Session) interrupt(x *engine.Exchange, reason string) {
	c := x.Reply.(*connected)
	s.cfg.Logger.Info("request cancelled", "method", c.ctx.req.Method, "id", c.ID().String(), "reason", reason)
	x.Interrupt(reason, func(release func()) bool {
		if c.to != nil {
			return s.life.spawn(release) // it may wait for the transport
		}
		release()
		return true
	})
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
		if s.role == roleServer {
			s.handshake.confirm()
		}
	}
	if s.Traits().Listens && !s.listens.admit(message, s.calls.waiting) {
		s.cfg.Logger.Debug("notification of an unknown subscription dropped", "method", boundary.Text(message.Method, 100))
		return
	}
	req := &Request{Method: message.Method, Params: message.Params, Session: s}
	if s.role == roleServer && (s.withoutSession() || s.cfg.responder != nil && modern.Is(message.Params)) {
		if message.Method == mcp.MethodNotificationsCancelled {
			return
		}
		req.Session, req.state = nil, &serving{side: &s.cfg.responder.side, conn: s}
	}
	if reason := s.enqueue(notice{req, m.Context}, len(m.Text)); reason != "" {
		s.warn("notification dropped", "reason", reason, "method", boundary.Text(message.Method, 100))
	}
}

// enqueue queues a notification for the handler. size is that of its message, which it retains. It
// returns the reason if it drops the notification, otherwise "".
func (s *Session) enqueue(n notice, size int) (reason string) {
	switch req := n.req; {
	case req.Session != nil && s.cfg.Handler == nil && len(s.cfg.Hooks.Receiving) == 0:
		return ""
	case req.Session != nil && s.role == roleServer && s.handshake.isNew():
		return "session not initialized"
	case len(req.Method) > maxMethod:
		return "method name too long"
	case !s.notices.TryPut(n, size):
		return "too many pending"
	}
	return ""
}

// notice is a notification for the handler.
type notice struct {
	req    *Request
	values context.Context // of its message, or nil
}

// notify passes a notification to the handler, unless the session has ended.
func (s *Session) notify(n notice) {
	req := n.req
	if s.life.over() { // and is about to close notices
		return
	}
	ctx := &requestContext{lazyctx.Values{Context: s.life.ctx, Other: n.values}, req}
	of, err := &s.side, error(nil)
	if r := s.cfg.responder; req.Session == nil {
		version, fault := r.versionIn(req, nil)
		of, err = &r.side, r.check(req, version, fault)
	}
	if err == nil {
		_, err = of.handle(ctx, req)
	}
	s.notified(ctx, req, err)
}

// notified logs the error of a notification.
func (e *side) notified(ctx context.Context, req *Request, err error) {
	switch {
	case err == nil, boundary.Report(e.cfg.Logger, "handler panicked", err, "method", req.Method):
	case ctx.Err() == nil && boundary.WireError(err).Code != jsonrpc.CodeMethodNotFound:
		e.warn("notification failed", "method", req.Method, "error", boundary.ErrorText(err))
	}
}

// base is the innermost handler.
func (s *Session) base(ctx context.Context, req *Request) (codec.Encoder, error) {
	if req.Method == mcp.MethodInitialize && s.role == roleServer && !req.IsNotification() {
		return s.serveInitialize(req)
	}
	if s.cfg.Handler == nil {
		return nil, unhandled(req)
	}
	return s.cfg.Handler(ctx, req)
}

// unhandled returns the error for a request without a handler, or nil for a notification.
func unhandled(req *Request) error {
	if req.IsNotification() {
		return nil
	}
	return jsonrpc.MethodNotFound(req.Method)
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
