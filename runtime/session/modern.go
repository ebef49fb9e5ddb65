package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// ModernRevisions returns the protocol revisions without sessions, newest first. A
// server of package server serves them.
func ModernRevisions() []mcp.Revision { return modern.Revisions() }

// responder serves modern requests: those of revisions without sessions, such as 2026-07-28. It is
// a [transport.Responder] for transports with a connection for each request, such as Streamable
// HTTP, and that of sessions. Its methods may be called by many goroutines. End it with Shutdown or
// Close.
type responder struct {
	side
	supported []mcp.Revision // see Supported
	activity  engine.Activity
	set       engine.Set // of the requests that belong to no connection of a session
}

// NewResponder returns a Responder: a server of requests without a session. Of the Options, it uses
// Handler, Principal, Logger, Hooks but for Reopened, State, ExtensionMethods and
// Limits.ProgressInterval. The transport limits how many requests it serves at once. If Revisions
// names modern revisions, only these are served.
func (o optionsInternals) NewResponder() *responder {
	r := new(responder)
	r.set = engine.Set{SharesIDs: true, Activity: &r.activity}
	var invalid error
	r.cfg, invalid = o.options.complete()
	if invalid != nil {
		r.cfg.Logger.Error("invalid configuration", "error", invalid)
	}
	current, sessions := modern.Split(r.cfg.Revisions)
	if len(current) == 0 {
		current = modern.Revisions()
	}
	r.cfg.Revisions, r.supported = current, slices.Concat(current, sessions)
	r.warnings.log = r.cfg.Logger
	r.handler = r.cfg.Handler
	if r.handler == nil {
		r.handler = func(_ context.Context, req *Request) (codec.Encoder, error) { return nil, unhandled(req) }
	}
	r.handler = wrap(r.handler, r.cfg.Hooks.Receiving)
	r.sender = wrap(sendStated, r.cfg.Hooks.Sending)
	return r
}

// Revisions implements [transport.Responder].
func (r *responder) Revisions() []mcp.Revision { return slices.Clone(r.cfg.Revisions) }

// Supported returns the revisions for server/discover and for the errors of requests with another
// version: the modern ones that are served, then those of sessions. The latter are those in the
// Revisions of the configuration or, if that is nil, those of [Revisions].
func (r *responder) Supported() []mcp.Revision { return slices.Clone(r.supported) }

// responded is a request, or a notification, that belongs to no connection of a session. It is the
// Reply of its exchange.
type responded struct {
	serving
	until *lazyctx.Child // the parent of ctx
}

func (c *responded) Send(ctx context.Context, text []byte) error {
	err := c.to.Send(ctx, text)
	if _, rejected := errors.AsType[*transport.MessageError](err); err != nil && !rejected && ctx.Err() == nil {
		c.until.Cancel(err) // the client cannot receive the answer either
	}
	return err
}

func (c *responded) Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error {
	err := answerTo(ctx, c.response(text, failed))
	boundary.Report(c.side.cfg.Logger, "transport panicked", err)
	return err
}

func (c *responded) Cancel(cause error) {
	if cause != nil { // otherwise Receive returns
		c.until.Cancel(cause)
	}
}

// Receive implements [transport.Responder].
func (r *responder) Receive(m transport.Message) {
	message, invalid := m.Parse()
	until, ok := m.Context.(*lazyctx.Child)
	if !ok {
		until = &lazyctx.Child{Parent: cmp.Or(m.Context, context.Background())}
		defer until.Cancel(nil)
	}
	in := &struct {
		request   Request
		responded responded
		context   requestContext
	}{
		request:   Request{ID: message.ID, Method: message.Method, Params: message.Params},
		responded: responded{serving: serving{side: &r.side, to: m.Reply}, until: until},
	}
	req, c := &in.request, &in.responded
	in.context = requestContext{lazyctx.Values{Context: until}, req}
	c.Reply, c.ctx, req.state = c, &in.context, &c.serving
	version, fault := r.versionIn(req, m.Reply)
	err := r.check(req, version, fault)
	if invalid != nil {
		err = &jsonrpc.Error{Code: jsonrpc.CodeOf(invalid), Message: boundary.ErrorText(invalid)}
	}
	if err == nil {
		err = r.set.Enter(&c.Exchange)
	}
	switch {
	case err != nil:
		failed := wireError(req.Traits(), err)
		if !req.IsNotification() {
			r.cfg.rejected(req.Method, failed)
		}
		c.Answer(until, nil, failed)
	case req.IsNotification():
		defer c.End()
		_, err := r.handle(c.ctx, req)
		r.notified(c.ctx, req, err)
	default:
		c.run(nil)
	}
}

// versionIn returns the version that a request names, or the error that rejects it. The _meta of a
// notification may be absent. to may be nil.
func (r *responder) versionIn(req *Request, to transport.Reply) (version string, fault *jsonrpc.Error) {
	if req.IsNotification() && !modern.Is(req.Params) {
		return string(r.cfg.Revisions[0]), nil
	}
	if checked, ok := to.(modern.Checked); ok {
		return checked.Version(), nil
	}
	repeated, fault := modern.Read(req.Method, req.Params)
	return repeated.Version, fault
}

// check sets the revision of a request that names version. It fails with fault if the request
// cannot be read, or if the version is not served or does not have the method.
func (r *responder) check(req *Request, version string, fault *jsonrpc.Error) error {
	req.revision = r.cfg.Revisions[0] // also for the error of a request in another one
	if fault != nil {
		return fault
	}
	if !slices.Contains(r.cfg.Revisions, mcp.Revision(version)) {
		return modern.Unsupported(version, r.supported)
	}
	req.revision = mcp.Revision(version)
	m, ok := mcp.LookupMethod(req.Method)
	undefined := ok && !defines(req.revision, &m, req.IsNotification(), mcp.FromClient)
	if extended := r.cfg.inner.ExtensionMethods; undefined && extended != nil && !req.IsNotification() {
		undefined = !extended(req.Method)
	}
	if undefined || len(req.Method) > maxMethod {
		return jsonrpc.MethodNotFound(boundary.Text(req.Method, 100))
	}
	return nil
}

// Shutdown ends the Responder in order. It rejects further requests, ends the contexts of those
// that only wait, see EndOnShutdown of a request, and waits for the others. If ctx ends first, it
// ends the contexts of all requests and returns the cause of ctx without waiting for their
// handlers.
func (r *responder) Shutdown(ctx context.Context) error {
	r.set.Shutdown()
	select {
	case <-r.activity.Done():
		return nil
	case <-ctx.Done():
		r.set.Close(engine.Closing())
		return context.Cause(ctx)
	}
}

// Close rejects further requests, ends the contexts of all others, and waits for their handlers. A
// handler must not call it.
func (r *responder) Close() error {
	r.set.Close(engine.Closing())
	<-r.activity.Done()
	return nil
}

// sendStated is the innermost sender of a Responder: it sends a notification that belongs to the
// request of ctx.
func sendStated(ctx context.Context, call *Call) (json.RawMessage, error) {
	req, ok := FromContext(ctx)
	if !ok || req.Session != nil || req.state == nil || !call.Notification {
		return nil, &CapabilityError{Method: call.Method, Revision: modern.Revisions()[0]}
	}
	if m, defined := mcp.LookupMethod(call.Method); defined && !defines(req.revision, &m, true, mcp.FromServer) {
		return nil, &CapabilityError{Method: call.Method, Revision: req.revision}
	}
	text, _, err := encodeCall(jsonrpc.ID{}, call.Method, call.Params, call.meta, nil)
	if err != nil {
		return nil, err
	}
	return nil, req.state.Exchange.Notify(ctx, text)
}
