package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

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
// HTTP, and the [Config.Responder] of sessions. Its methods may be called by many goroutines.
// Create it with [NewResponder], and end it with Shutdown or Close.
type Responder struct {
	cfg       Config
	supported []mcp.Revision // see Supported
	handler   Handler        // with its middleware
	sender    Sender         // with its middleware

	mu       sync.Mutex
	draining bool
	serving  map[*modernRequest]struct{}
	idle     chan struct{} // closed when draining and no request is being served
}

// NewResponder returns a Responder. Of the configuration, it uses Handler, Receiving, Sending,
// Rejected, ExtensionMethods, ProgressInterval, Principal and Logger. The transport limits how many requests
// it serves at once. If Revisions names modern revisions, only these are served.
func NewResponder(cfg *Config) *Responder {
	r := &Responder{serving: map[*modernRequest]struct{}{}, idle: make(chan struct{})}
	if cfg != nil {
		r.cfg = *cfg
	}
	named := r.cfg.Revisions
	r.cfg = r.cfg.withDefaults()
	if named == nil {
		named = Revisions()
	}
	current, sessions := modern.Split(named)
	if len(current) == 0 {
		current = modern.Revisions()
	}
	r.cfg.Revisions, r.supported = current, slices.Concat(current, sessions)
	r.handler = r.cfg.Handler
	if r.handler == nil {
		r.handler = func(_ context.Context, req *Request) (codec.Encoder, error) { return nil, unhandled(req) }
	}
	r.handler = wrap(r.handler, r.cfg.Receiving)
	r.sender = wrap(sendModern, r.cfg.Sending)
	return r
}

// Revisions implements [transport.Responder].
func (r *Responder) Revisions() []mcp.Revision { return slices.Clone(r.cfg.Revisions) }

// Supported returns the revisions for server/discover and for the errors of requests with another
// version: the modern ones that are served, then those of sessions. The latter are those in the
// Revisions of the configuration or, if that is nil, those of [Revisions].
func (r *Responder) Supported() []mcp.Revision { return slices.Clone(r.supported) }

// modernRequest is the part of a modern [Request] that the Responder needs.
type modernRequest struct {
	r       *Responder
	session *Session             // over whose connection it arrived; nil for none
	meta    modern.RequestMeta   // of the params, until version is called; may be unknown
	to      transport.Response   // nil if there is a session
	until   *lazyctx.Cancellable // ends the context if there is a session; nil for its notifications
	yields  bool                 // see Request.EndOnShutdown; guarded by r.mu

	reporting sync.Mutex
	reporter  *Reporter

	sending sync.Mutex  // held while a notification is sent
	over    atomic.Bool // the request was answered, or must not be; finish sets it with sending held
}

// version returns the version that the params of a request name, or the error that rejects them.
func (x *modernRequest) version(req *Request) (version string, fault *jsonrpc.Error) {
	if checked, ok := x.to.(modern.Checked); ok {
		return checked.Version(), nil
	}
	if x.meta.Named() {
		version, fault = x.meta.Version()
		x.meta = modern.RequestMeta{} // it keeps the message in memory
		return version, fault
	}
	repeated, fault := modern.Read(req.Method, req.Params)
	return repeated.Version, fault
}

// cancel ends the context of the request.
func (x *modernRequest) cancel(cause error) {
	switch {
	case x.to != nil:
		x.to.Cancel(cause)
	case x.until != nil:
		x.until.Cancel(cause)
	}
}

// Respond implements [transport.Responder].
func (r *Responder) Respond(ctx context.Context, m *jsonrpc.Message, to transport.Response) (answer []byte, failed *jsonrpc.Error) {
	in := &struct {
		request Request
		modern  modernRequest
		context requestContext
	}{
		request: Request{ID: m.ID, Method: m.Method, Params: m.Params, revision: r.cfg.Revisions[0]},
		modern:  modernRequest{r: r, to: to},
	}
	req, x := &in.request, &in.modern
	req.modern = x
	in.context = requestContext{lazyctx.Values{Context: ctx}, req}
	err := r.enter(x)
	if err == nil {
		defer r.leave(x)
	} else if !req.IsNotification() {
		r.cfg.rejected(req.Method, modernError(err))
	}
	if req.IsNotification() {
		return nil, r.notify(&in.context, req, err)
	}
	var result codec.Encoder
	if err == nil {
		result, err = r.serve(&in.context, req)
	}
	return encodeOutcome(r.cfg.Logger, req, result, err)
}

// notify passes a notification to the handler, or returns the error that rejects it: err, or that
// of check.
func (r *Responder) notify(ctx context.Context, req *Request, err error) (failed *jsonrpc.Error) {
	if err == nil {
		err = r.check(req)
	}
	if err != nil {
		return modernError(err)
	}
	if _, err := r.serve(ctx, req); err != nil && !boundary.Report(r.cfg.Logger, "handler panicked", err, "method", req.Method) {
		r.cfg.Logger.Warn("notification failed", "method", req.Method, "error", boundary.ErrorText(err))
	}
	return nil
}

// enter adds a request to those being served. It fails if the Responder has ended.
func (r *Responder) enter(x *modernRequest) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return closing()
	}
	r.serving[x] = struct{}{}
	return nil
}

func (r *Responder) leave(x *modernRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.serving, x)
	if r.draining && len(r.serving) == 0 {
		close(r.idle)
	}
}

// serve checks a request and calls the handler.
func (r *Responder) serve(ctx context.Context, req *Request) (result codec.Encoder, err error) {
	defer req.modern.finish()
	defer boundary.Catch(&err)
	if err := r.check(req); err != nil {
		if !req.IsNotification() {
			r.cfg.rejected(req.Method, modernError(err))
		}
		return nil, err
	}
	result, err = r.handler(ctx, req)
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = context.Cause(ctx) // the handler has returned the error of its context
	}
	return result, err
}

// check sets the revision of a request. It fails if the _meta is incomplete, or if the revision is
// not served or does not have the method. The _meta of a notification may be absent.
func (r *Responder) check(req *Request) error {
	if !req.IsNotification() || modern.Is(req.Params) {
		version, fault := req.modern.version(req)
		if fault != nil {
			return fault
		}
		if !slices.Contains(r.cfg.Revisions, mcp.Revision(version)) {
			return modern.Unsupported(version, r.supported)
		}
		req.revision = mcp.Revision(version)
	}
	if !req.IsNotification() && slices.Contains(r.cfg.ExtensionMethods, req.Method) {
		return nil
	}
	m, ok := mcp.LookupMethod(req.Method)
	if ok && !defines(req.revision, &m, req.IsNotification(), mcp.FromClient) || len(req.Method) > maxMethod {
		return jsonrpc.MethodNotFound(boundary.Text(req.Method, 100))
	}
	return nil
}

// modernError returns the error object for an error of a handler. A missing capability of the
// client has its own code and lists the capability (MCP basic, "_meta").
func modernError(err error) *jsonrpc.Error {
	if missing, ok := errors.AsType[*CapabilityError](err); ok && missing.Capability != "" && !missing.Own {
		return &jsonrpc.Error{
			Code: modern.CodeMissingCapability, Message: boundary.ErrorText(missing), Data: modern.RequiredCapabilities(missing.Capability),
		}
	}
	wire := boundary.WireError(err)
	if code := modern.MapCode(wire.Code); code != wire.Code {
		out := *wire
		out.Code = code
		return &out
	}
	return wire
}

// Shutdown ends the Responder in order. It rejects further requests, ends the contexts of those
// that only wait, see [Request.EndOnShutdown], and waits for the others. If ctx ends first, it ends
// the contexts of all requests and returns the cause of ctx without waiting for their handlers.
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

// principal returns the principal of a request whose transport has none: that of the session, or
// that of the Responder.
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
	if x.yields = true; x.r.draining {
		x.cancel(closing())
	}
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
	if m, defined := mcp.LookupMethod(call.Method); defined && !defines(req.revision, &m, true, mcp.FromServer) {
		return nil, &CapabilityError{Method: call.Method, Revision: req.revision}
	}
	text, _, err := encodeCall(jsonrpc.ID{}, call.Method, call.Params, call.meta, nil)
	if err != nil {
		return nil, err
	}
	x := req.modern
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.over.Load() {
		return nil, nil
	}
	if st := req.state; st != nil {
		return nil, st.s.writeUntil(ctx, transport.Message{Text: text, For: st.req.ID, Session: st.session})
	}
	if x.to == nil {
		return nil, nil // req is a notification, which is not answered
	}
	if err = x.to.Send(text); err != nil {
		if _, ok := errors.AsType[*transport.MessageError](err); !ok {
			x.to.Cancel(err)
		}
	}
	return nil, err
}

// finish sends the report of progress that is held. After that, no notification is sent.
func (x *modernRequest) finish() {
	x.reported().Finish()
	x.sending.Lock()
	x.over.Store(true)
	x.sending.Unlock()
}

// silence ends the notifications of a request that was cancelled. It does not wait for one that is
// being written, which may take as long as the client does not read.
func (x *modernRequest) silence() {
	x.reported().silence()
	x.over.Store(true)
}

// reported returns the Reporter of the request, or nil if it has reported nothing.
func (x *modernRequest) reported() *Reporter {
	x.reporting.Lock()
	defer x.reporting.Unlock()
	return x.reporter
}

// modernRequestor is the Peer that has sent a modern request. It receives no requests: they go in
// the result.
type modernRequestor struct{ req *Request }

func (p modernRequestor) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, &CapabilityError{Method: method, Revision: p.req.revision}
}

func (p modernRequestor) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return p.req.modern.Notify(NewContext(ctx, p.req), method, params)
}

func (p modernRequestor) Report(report Progress) error { return p.req.Progress().Report(report) }

// modernRequest starts serving a modern request with the given _meta that arrived over the
// connection of a session. It is independent of the session and of its handshake.
func (s *Session) modernRequest(message jsonrpc.Message, meta modern.RequestMeta, m transport.Message) {
	in := &struct {
		request Request
		serving serving
		modern  modernRequest
		context requestContext
	}{
		request: Request{ID: message.ID, Method: message.Method, Params: message.Params, revision: s.cfg.Responder.cfg.Revisions[0], capabilities: meta.Capabilities},
		serving: serving{s: s, size: len(m.Text), session: m.Session},
		modern:  modernRequest{r: s.cfg.Responder, session: s, meta: meta},
	}
	req, st := &in.request, &in.serving
	in.context = requestContext{lazyctx.Values{Context: &st.until, Other: m.Context}, req}
	in.modern.until = &st.until
	st.req, st.ctx = req, &in.context
	req.state, req.modern = st, &in.modern
	if err := s.inbound.admit(st); err != nil {
		s.reject(message, modernError(err), m, nil)
		return
	}
	s.life.work.Add(1)
	go st.serve() // ends when the handler returns
}
