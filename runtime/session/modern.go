package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// ModernRevisions returns the protocol revisions without sessions, newest first. A [Responder]
// serves them.
func ModernRevisions() []mcp.Revision { return modern.Revisions() }

// Responder serves modern requests: those of revisions without sessions, such as 2026-07-28. It is
// a [transport.Responder] for transports with a connection for each request, such as Streamable
// HTTP, and the [Config.Responder] of sessions. Its methods may be called by many goroutines. Create
// it with [NewResponder], and end it with Shutdown or Close.
type Responder struct {
	cfg       Config
	supported []mcp.Revision // see Supported
	handler   Handler        // with its middleware
	sender    Sender         // with its middleware

	mu       sync.Mutex
	draining bool
	serving  map[*modernRequest]struct{}
	counted  int           // number of requests in serving that count towards the limits
	bytes    int           // of these requests
	idle     chan struct{} // closed when draining and no request is being served
}

// NewResponder returns a Responder. Of the configuration, it uses Handler, Receiving, Sending,
// ProgressInterval, MaxRequests, MaxBytes, Principal and Logger. The limits hold for all clients
// together. If Revisions names modern revisions, only these are served.
func NewResponder(cfg *Config) *Responder {
	r := &Responder{serving: map[*modernRequest]struct{}{}, idle: make(chan struct{})}
	if cfg != nil {
		r.cfg = *cfg
	}
	named := r.cfg.Revisions
	r.cfg = r.cfg.withDefaults()
	r.cfg.Revisions = slices.DeleteFunc(slices.Clone(named), func(rev mcp.Revision) bool { return !isModern(rev) })
	if len(r.cfg.Revisions) == 0 {
		r.cfg.Revisions = modern.Revisions()
	}
	if named == nil {
		named = Revisions()
	}
	r.supported = append(r.Revisions(), slices.DeleteFunc(slices.Clone(named), isModern)...)
	r.handler = r.cfg.Handler
	if r.handler == nil {
		r.handler = func(_ context.Context, req *Request) (codec.Encoder, error) { return nil, unhandled(req) }
	}
	for i := len(r.cfg.Receiving) - 1; i >= 0; i-- {
		r.handler = r.cfg.Receiving[i](r.handler)
	}
	r.sender = sendModern
	for i := len(r.cfg.Sending) - 1; i >= 0; i-- {
		r.sender = r.cfg.Sending[i](r.sender)
	}
	return r
}

// Revisions implements [transport.Responder].
func (r *Responder) Revisions() []mcp.Revision { return slices.Clone(r.cfg.Revisions) }

// Supported returns the revisions for server/discover and for the errors of requests with another
// version: the modern ones that are served, then those of sessions. The latter are those in the
// Revisions of the configuration or, if that is nil, those of [Revisions].
func (r *Responder) Supported() []mcp.Revision { return slices.Clone(r.supported) }

func isModern(rev mcp.Revision) bool { return slices.Contains(modern.Revisions(), rev) }

// modernRequest is the part of a modern [Request] that the Responder needs.
type modernRequest struct {
	r        *Responder
	session  *Session // over whose connection it arrived; nil for none
	revision mcp.Revision
	size     int
	cancel   context.CancelCauseFunc // nil if the session cancels the request
	yields   bool                    // see Request.EndOnShutdown; guarded by r.mu
	counts   bool                    // towards the limits of r; guarded by r.mu

	reporting sync.Mutex
	reporter  *Reporter

	sending sync.Mutex // held while a notification is sent
	send    func(text []byte) error
	over    bool // the request was answered, or must not be; guarded by sending
}

// Respond implements [transport.Responder].
func (r *Responder) Respond(ctx context.Context, m *jsonrpc.Message, send func(text []byte) error) (answer []byte, failed *jsonrpc.Error) {
	x := &modernRequest{r: r, size: len(m.Params), send: send}
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	req := &Request{ID: m.ID, Method: m.Method, Params: m.Params, modern: x}
	err := r.admit(x)
	var result codec.Encoder
	if err == nil {
		defer r.leave(x)
		result, err = r.serve(&requestContext{lazyctx.Values{Context: ctx, Other: ctx}, req}, req)
	}
	return r.encode(req, result, err)
}

// admit adds a request to those being served, or returns the error that rejects it.
func (r *Responder) admit(x *modernRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return closing()
	case r.counted >= r.cfg.MaxRequests:
		return overloaded("%d requests are being served", r.counted)
	case r.bytes > 0 && r.bytes+x.size > r.cfg.MaxBytes:
		return overloaded("requests of %d bytes are being served", r.bytes)
	}
	r.serving[x] = struct{}{}
	r.counted++
	r.bytes += x.size
	x.counts = true
	return nil
}

// uncount stops counting a request towards the limits. mu must be held.
func (r *Responder) uncount(x *modernRequest) {
	if x.counts {
		r.counted--
		r.bytes -= x.size
		x.counts = false
	}
}

func (r *Responder) leave(x *modernRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.serving, x)
	r.uncount(x)
	if r.draining && len(r.serving) == 0 {
		close(r.idle)
	}
}

// serve checks the _meta of a request and calls the handler.
func (r *Responder) serve(ctx context.Context, req *Request) (result codec.Encoder, err error) {
	defer req.modern.finish()
	defer boundary.Catch(&err)
	version, fault := modern.Read(req.Params)
	if fault != nil {
		return nil, fault
	}
	if !slices.Contains(r.cfg.Revisions, mcp.Revision(version)) {
		return nil, modern.Unsupported(version, r.supported)
	}
	req.modern.revision = mcp.Revision(version)
	if m, ok := mcp.LookupMethod(req.Method); ok && (!m.In(req.modern.revision) || m.Notification || m.From&mcp.FromClient == 0) || len(req.Method) > maxMethod {
		return nil, jsonrpc.MethodNotFound(boundary.Text(req.Method, 100))
	}
	return r.handler(ctx, req)
}

// encode returns the text of the answer.
func (r *Responder) encode(req *Request, result codec.Encoder, err error) (answer []byte, failed *jsonrpc.Error) {
	if err != nil {
		boundary.Report(r.cfg.Logger, "handler panicked", err, "method", req.Method)
		failed = modernError(err)
		err = failed
	}
	answer, _, encodeErr := encodeAnswer(req.ID, result, err)
	if encodeErr == nil {
		return answer, failed
	}
	if !boundary.Report(r.cfg.Logger, "result panicked", encodeErr, "method", req.Method) {
		r.cfg.Logger.Error("result not encoded", "method", req.Method, "error", encodeErr)
	}
	failed = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be encoded"}
	answer, _, _ = encodeAnswer(req.ID, nil, failed)
	return answer, failed
}

// modernError returns the error object for an error of a handler. A missing capability of the
// client has its own code and lists the capability (MCP basic, "_meta"). The protocol reserves the
// codes from -32000 to -32099: other ones than its own are mapped to the range from -31000.
func modernError(err error) *jsonrpc.Error {
	if missing, ok := errors.AsType[*CapabilityError](err); ok && missing.Capability != "" && !missing.Own {
		return &jsonrpc.Error{
			Code: modern.CodeMissingCapability, Message: boundary.ErrorText(missing), Data: modern.RequiredCapabilities(missing.Capability),
		}
	}
	wire := boundary.WireError(err)
	if wire.Code <= -32023 && wire.Code >= -32099 || wire.Code <= -32000 && wire.Code >= -32019 {
		out := *wire
		out.Code += 1000
		return &out
	}
	return wire
}

// Shutdown ends the Responder in order. It rejects further requests, ends the contexts of those that
// only wait, see [Request.EndOnShutdown], and waits for the others. If ctx ends first, it ends the
// contexts of all requests and returns the cause of ctx without waiting for their handlers.
func (r *Responder) Shutdown(ctx context.Context) error {
	r.drain(func(x *modernRequest) bool { return x.yields })
	select {
	case <-r.idle:
		return nil
	case <-ctx.Done():
		r.drain(func(*modernRequest) bool { return true })
		return context.Cause(ctx)
	}
}

// Close rejects further requests, ends the contexts of all others, and waits for their handlers. A
// handler must not call it.
func (r *Responder) Close() error {
	r.drain(func(*modernRequest) bool { return true })
	<-r.idle
	return nil
}

// drain rejects further requests, and cancels those for which end returns true.
func (r *Responder) drain(end func(*modernRequest) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		if len(r.serving) == 0 {
			close(r.idle)
		}
	}
	for x := range r.serving {
		if end(x) {
			x.cancel(closing())
		}
	}
}

// principal returns the principal of a request whose transport has none: that of the session, or that
// of the Responder.
func (x *modernRequest) principal() string {
	if x.session != nil {
		return x.session.cfg.Principal
	}
	return x.r.cfg.Principal
}

// endOnShutdown implements Request.EndOnShutdown.
func (x *modernRequest) endOnShutdown() {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	if x.yields = true; x.r.draining && x.cancel != nil {
		x.cancel(closing())
	}
}

// leaveLimits implements Request.LeaveLimits.
func (x *modernRequest) leaveLimits() {
	x.r.mu.Lock()
	defer x.r.mu.Unlock()
	x.r.uncount(x)
}

// progress implements Request.Progress.
func (x *modernRequest) progress(req *Request) *Reporter {
	x.reporting.Lock()
	defer x.reporting.Unlock()
	if x.reporter == nil {
		ctx := context.WithValue(context.Background(), requestKey{}, req)
		x.reporter = newReporter(x, &x.r.cfg, ctx, req.ProgressToken())
	}
	return x.reporter
}

// Notify sends a notification that belongs to the request, through the sending middleware. It does
// nothing after the request was answered.
func (x *modernRequest) Notify(ctx context.Context, method string, params codec.Encoder) (err error) {
	defer boundary.Catch(&err)
	_, err = x.r.sender(ctx, &Call{Method: method, Params: params, Notification: true})
	return err
}

// sendModern is the innermost sender: it sends a notification that belongs to the request of ctx.
func sendModern(ctx context.Context, call *Call) (json.RawMessage, error) {
	req, ok := FromContext(ctx)
	if !ok || req.modern == nil || !call.Notification {
		return nil, &CapabilityError{Method: call.Method, Revision: modern.Revisions()[0]}
	}
	if m, defined := mcp.LookupMethod(call.Method); defined && (!m.In(req.modern.revision) || !m.Notification || m.From&mcp.FromServer == 0) {
		return nil, &CapabilityError{Method: call.Method, Revision: req.modern.revision}
	}
	text, err := encodeCall(jsonrpc.ID{}, call.Method, call.Params, call.meta, nil)
	if err != nil {
		return nil, err
	}
	x := req.modern
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.over {
		return nil, nil
	}
	return nil, x.send(text)
}

// finish sends the report of progress that is held. After that, no notification is sent.
func (x *modernRequest) finish() { x.end((*Reporter).Finish) }

// silence ends the notifications of a request that was cancelled.
func (x *modernRequest) silence() { x.end((*Reporter).silence) }

func (x *modernRequest) end(report func(*Reporter)) {
	x.reporting.Lock()
	report(x.reporter)
	x.reporting.Unlock()
	x.sending.Lock()
	x.over = true
	x.sending.Unlock()
}

// modernRequestor is the Peer that has sent a modern request. It receives no requests: they go in
// the result.
type modernRequestor struct{ req *Request }

func (p modernRequestor) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, &CapabilityError{Method: method, Revision: p.req.modern.revision}
}

func (p modernRequestor) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return p.req.modern.Notify(NewContext(ctx, p.req), method, params)
}

func (p modernRequestor) Report(report Progress) error { return p.req.Progress().Report(report) }

// modernRequest starts serving a modern request that arrived over the connection of a session. It
// is independent of the session and of its handshake.
func (s *Session) modernRequest(message jsonrpc.Message, m transport.Message) {
	x := &modernRequest{r: s.cfg.Responder, session: s}
	st := &serving{s: s, size: len(m.Text), session: m.Session}
	st.req = &Request{ID: message.ID, Method: message.Method, Params: message.Params, state: st, modern: x}
	st.ctx = &requestContext{lazyctx.Values{Context: &st.until, Other: m.Context}, st.req}
	x.cancel = st.until.Cancel
	x.send = func(text []byte) error {
		return s.writeUntil(s.life.ctx, transport.Message{Text: text, For: st.req.ID, Session: m.Session})
	}
	if err := s.inbound.admit(st); err != nil {
		s.answer(message.ID, modernError(err), m, nil)
		return
	}
	s.life.work.Add(1)
	go st.serve() // ends when the handler returns
}
