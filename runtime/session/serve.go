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
	"github.com/mcpwire/mcpwire/runtime/internal/stack"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// serving is a request of the peer that is being served. The flags over and kept are guarded by
// inbound.mu.
type serving struct {
	s        *Session
	req      *Request
	until    lazyctx.Cancellable // ends ctx
	ctx      context.Context
	size     int
	batch    *batch // that it came in, or nil
	over     bool   // it was answered, or shall not be
	kept     bool   // cancellation is ignored
	reporter atomic.Pointer[Reporter]
	asking   atomic.Int32    // requests to the peer that its handler waits for
	opened   <-chan struct{} // if it came while initialize was being answered: closed when that was
}

// Limits of the parts of a message that are held, and repeated in answers. Longer ids and method
// names are refused before any other work on them. A longer progress token is ignored.
const (
	maxID     = 1 << 10
	maxMethod = 1 << 10
	maxReason = 1 << 10 // of the peer's reason for a cancellation; the rest is cut off
)

// receive takes one message, or a batch. It must not wait for a handler.
func (s *Session) receive(m transport.Message) {
	message, err := jsonrpc.ParseReceived(m.Text) // the text is ours, and stays as it is
	if errors.Is(err, jsonrpc.ErrBatch) && s.Revision() == mcp.Revision20250326 {
		s.receiveBatch(m)
		return
	}
	s.take(message, err, m, nil)
}

// take takes one message, or the fault that it has. What it answers goes into b unless that is nil.
func (s *Session) take(message jsonrpc.Message, err error, m transport.Message, b *batch) {
	if longer(message.ID, maxID) {
		message.ID = jsonrpc.ID{}
		err = fmt.Errorf("%w: longer than %d bytes", jsonrpc.ErrID, maxID)
	}
	if err != nil {
		s.refuse(message, err, b)
		return
	}
	switch message.Kind {
	case jsonrpc.KindRequest:
		s.request(message, m, b)
	case jsonrpc.KindNotification:
		s.notification(message, m)
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

// refuse answers a message that is none, if it may be answered.
func (s *Session) refuse(message jsonrpc.Message, err error, b *batch) {
	cause := boundary.Text(boundary.ErrorText(err), 1<<10) // it may quote the message
	switch message.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		s.answered(message.ID, answer{err: fmt.Errorf("session: the answer is no valid message: %w", err)})
		return
	case jsonrpc.KindNotification:
		s.warn("notification refused", "method", boundary.Text(message.Method, maxMethod), "error", cause)
		return
	}
	s.warn("message refused", "error", cause)
	s.answer(message.ID, &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: cause}, b)
}

// answer answers what no handler gets to see: with an empty result or an error.
func (s *Session) answer(id jsonrpc.ID, err error, b *batch) {
	text, _, encodeErr := encodeAnswer(id, nil, err)
	if encodeErr != nil {
		return // a message that is not UTF-8 has been replaced: there is no other reason
	}
	if b != nil {
		b.add(text)
		return
	}
	s.reply(transport.Message{Text: text, For: id, Answer: !id.IsZero()})
}

// reply sends an answer of the read loop without waiting for the transport. Otherwise two peers that
// both have too much to do would wait for each other to read. It waits only if very many answers
// are pending, as with a peer that reads nothing.
func (s *Session) reply(m transport.Message) { s.replies.Put(m, len(m.Text)) }

// request starts to serve a request, or refuses it.
func (s *Session) request(message jsonrpc.Message, m transport.Message, b *batch) {
	if message.Method == mcp.MethodPing {
		s.answer(message.ID, nil, b) // at once, whatever else is going on
		return
	}
	if len(message.Method) > maxMethod {
		s.answer(message.ID, jsonrpc.MethodNotFound(boundary.Text(message.Method, 100)), b)
		return
	}
	in := &struct {
		request Request
		serving serving
		context requestContext
	}{
		request: Request{ID: message.ID, Method: message.Method, Params: message.Params, Session: s},
		serving: serving{s: s, size: len(m.Text), batch: b},
	}
	req, st := &in.request, &in.serving
	// Session.stop ends it with the session; to have each one hang on s.life.ctx would cost more.
	in.context = requestContext{&st.until, m.Context, req}
	st.req, st.ctx = req, &in.context
	req.state = st
	if err := s.admit(st); err != nil {
		s.answer(message.ID, err, b)
		return
	}
	s.life.work.Add(1)
	go st.serve() // ends when the handler returns
}

// admit adds a request to those that are served, or returns the error with which it is refused.
func (s *Session) admit(st *serving) error {
	if st.req.Method == mcp.MethodInitialize && s.role == RoleServer {
		return s.admitInitialize(st)
	}
	// A client that does not wait for the answer to initialize may be served all the same.
	if st.opened = s.handshake.opening(); st.opened == nil {
		if err := s.served(st.req.Method); err != nil {
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
	}
	return err
}

// served reports why a request is not served: the session is not open, or the method is not part of it.
func (s *Session) served(method string) error {
	a := s.handshake.current.Load()
	if a.phase < phaseOpened {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "session is not initialized"}
	}
	if a.missing(method, false, false) != nil {
		return jsonrpc.MethodNotFound(method)
	}
	return nil
}

// serve runs the handler and answers.
func (st *serving) serve() {
	defer st.s.life.work.Done()
	stack.Grow()
	var result codec.Encoder
	err := boundary.ErrGoexit // unless the handler returns
	defer func() { st.finish(result, err) }()
	if err = st.wait(); err == nil {
		err = boundary.ErrGoexit
		result, err = st.s.run(st.ctx, st.req)
	}
}

// wait waits until the session is open, where that is not so yet, and decides then whether the request is served.
func (st *serving) wait() error {
	if st.opened == nil {
		return nil
	}
	select {
	case <-st.opened:
	case <-st.ctx.Done():
		return context.Cause(st.ctx)
	}
	return st.s.served(st.req.Method)
}

// run calls the handler. If that panics, the request alone fails.
func (s *Session) run(ctx context.Context, req *Request) (result codec.Encoder, err error) {
	defer boundary.Catch(&err)
	return s.handler(ctx, req)
}

// finish answers the request, unless it was cancelled. The request and the answer count towards the
// limits until the transport has the answer.
func (st *serving) finish(result codec.Encoder, err error) {
	s := st.s
	text, ok := st.encode(result, err)
	size := len(text)
	silent, pending := s.inbound.settle(st, size)
	st.until.Cancel(nil)
	if !silent {
		if pending >= s.cfg.MaxBytes {
			s.warn("answer dropped: the peer does not read", "method", st.req.Method, "waiting", pending)
			text, _, _ = encodeAnswer(st.req.ID, nil, overloaded("the answer was dropped, as answers of %d bytes wait to be read", pending))
			size, ok = 0, false
		}
		st.deliver(s.life.ctx, text)
	}
	if st.req.Method == mcp.MethodInitialize {
		s.opened(ok)
	}
	s.inbound.finish(st, silent, size)
}

// encode returns the text of the answer; ok says that it is a result.
func (st *serving) encode(result codec.Encoder, err error) (text []byte, ok bool) {
	if err != nil { // the arguments cost an allocation
		boundary.Report(st.s.cfg.Logger, "handler panicked", err, "method", st.req.Method)
	}
	text, ok, encodeErr := encodeAnswer(st.req.ID, result, err)
	if encodeErr != nil {
		if !boundary.Report(st.s.cfg.Logger, "result panicked", encodeErr, "method", st.req.Method) {
			st.s.cfg.Logger.Error("result cannot be written", "method", st.req.Method, "error", encodeErr)
		}
		text, ok, _ = encodeAnswer(st.req.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be written"})
	}
	return text, ok
}

// deliver sends the answer.
func (st *serving) deliver(ctx context.Context, text []byte) error {
	if st.batch != nil {
		st.batch.add(text)
		return nil
	}
	return st.s.writeUntil(ctx, transport.Message{Text: text, For: st.req.ID, Answer: true})
}

// cancelled cancels a request of the peer because that asked for it. Anything that does not fit is ignored, as the
// cancellation may cross the answer (MCP cancellation, "Timing Considerations").
func (s *Session) cancelled(id jsonrpc.ID, reason string) {
	st := s.inbound.cancel(id)
	if st == nil {
		return
	}
	st.reporter.Load().silence()
	reason = boundary.Text(reason, maxReason)
	s.cfg.Logger.Info("request cancelled by the peer", "method", st.req.Method, "id", id.String(), "reason", reason)
	cause := ErrCancelled
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCancelled, reason)
	}
	if st.batch != nil {
		st.batch.skip()
	}
	conn, ok := transport.As[transport.Releaser](s.conn)
	if !ok || !s.life.spawn(func() { // ends when the connection has noted it
		// What the handler still has to say comes behind that, and takes another way: who has cancelled a request
		// may not look there any more.
		defer st.until.Cancel(cause)
		s.panicked("transport", boundary.Run(func() error { conn.Release(id); return nil }))
	}) {
		st.until.Cancel(cause)
	}
}

// notification takes a notification: what concerns the session at once, the rest when its turn comes.
func (s *Session) notification(message jsonrpc.Message, m transport.Message) {
	switch message.Method {
	case mcp.MethodNotificationsProgress:
		s.progressed(message.Params)
		return
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
	case mcp.MethodNotificationsInitialized:
		if s.role == RoleServer {
			s.handshake.confirm()
		}
	}
	req := &Request{Method: message.Method, Params: message.Params, Session: s, values: m.Context}
	if refused := s.enqueue(req, len(m.Text)); refused != "" {
		s.warn("notification dropped: "+refused, "method", boundary.Text(message.Method, 100))
	}
}

// enqueue queues a notification for the handler. Size is that of its message, all of which it holds.
// If it cannot, it returns the reason.
func (s *Session) enqueue(req *Request, size int) (refused string) {
	switch {
	case s.cfg.Handler == nil && len(s.cfg.Receiving) == 0:
		return ""
	case s.role == RoleServer && s.handshake.current.Load().phase == phaseNew:
		return "session is not initialized"
	case len(req.Method) > maxMethod:
		return "the name of the method is too long"
	case !s.notices.TryPut(req, size):
		return "too many wait for the handler"
	}
	return ""
}

// notify passes a notification to the handler.
func (s *Session) notify(req *Request) {
	_, err := s.run(&requestContext{s.life.ctx, req.values, req}, req)
	if err == nil || boundary.Report(s.cfg.Logger, "handler panicked", err, "method", req.Method) {
		return
	}
	if !s.life.over() && boundary.WireError(err).Code != jsonrpc.CodeMethodNotFound {
		s.warn("notification not taken", "method", req.Method, "error", boundary.ErrorText(err))
	}
}

// base is the innermost handler.
func (s *Session) base(ctx context.Context, req *Request) (codec.Encoder, error) {
	if req.Method == mcp.MethodInitialize && s.role == RoleServer && !req.IsNotification() {
		return s.initialize(req)
	}
	if s.cfg.Handler == nil {
		return nil, unhandled(req)
	}
	return s.cfg.Handler(ctx, req)
}

// requestContext is the context of a handler: that of its request, with the values that came with the message.
type requestContext struct {
	context.Context
	values context.Context // nil for none
	req    *Request        // nil for that of values
}

func (c *requestContext) Value(key any) any {
	if key == (requestKey{}) && c.req != nil {
		return c.req
	}
	if v := c.Context.Value(key); v != nil || c.values == nil {
		return v
	}
	return c.values.Value(key)
}
