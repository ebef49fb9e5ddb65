package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// operation is a request or a notification that is being sent or handled. It lives on the stack of
// its middleware.
type operation struct {
	entry   *entry          // nil if it is not observed
	ctx     context.Context // has the span
	span    trace.Span
	started time.Time
}

// outcome is how an operation has ended.
type outcome struct {
	errorType string // "" for success
	code      bool   // errorType is the code of an error answer
	message   string // of the error
	result    string // the kind of a result that is not the final one, such as "task"
}

// silent reports whether messages of a method are not observed. A call may send hundreds of them,
// and the session handles some of them without its middleware.
func silent(method string) bool {
	switch method {
	case mcp.MethodPing, mcp.MethodNotificationsProgress, mcp.MethodNotificationsMessage:
		return true
	}
	return false
}

// protocolMethod reports whether the protocol or the Tasks extension defines a method.
func protocolMethod(method string) bool {
	_, ok := mcp.LookupMethod(method)
	return ok || tasks.RevisionExtTasks.Has(method)
}

// receiving returns middleware that observes received messages. Has reports whether the server has a
// feature, and ownMethod whether it has a method of its own; both may be nil.
func (t *Telemetry) receiving(has func(server.Feature) bool, ownMethod func(string) bool) session.Middleware {
	return func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (result codec.Encoder, err error) {
			if silent(req.Method) {
				return next(ctx, req)
			}
			derived, op := t.beginReceived(ctx, req, has, ownMethod)
			returned := false
			defer func() {
				if !returned {
					err = errPanicked // only for the span: the panic goes on
				}
				t.endReceived(ctx, &op, req, result, err)
			}()
			result, err = next(derived, req)
			returned = true
			return result, err
		}
	}
}

// errPanicked is the error of a handler that panicked or called runtime.Goexit.
var errPanicked = errors.New("the handler panicked")

// beginReceived begins to observe a received message.
func (t *Telemetry) beginReceived(ctx context.Context, req *session.Request, has func(server.Feature) bool, ownMethod func(string) bool) (derived context.Context, op operation) {
	derived = ctx
	defer t.recovered()
	k := kind{server: true, method: req.Method, revision: req.Revision()}
	if !protocolMethod(k.method) && (ownMethod == nil || !ownMethod(k.method)) {
		k.method = other
	}
	address := ""
	if s := req.Connection(); s != nil {
		k.info = s.Info()
		k.info.Host, k.info.Port = "", 0 // a client that handles requests of the server
	} else if _, remote := transport.HTTP(ctx); remote != "" {
		k.info = transport.Info{Network: "tcp", Protocol: "http"}
	}
	if k.info.Protocol != "" {
		_, address = transport.HTTP(ctx)
	}
	switch k.method {
	case mcp.MethodToolsCall:
		k.target = knownName(req.Params, server.KindTool, has)
	case mcp.MethodPromptsGet:
		k.target = knownName(req.Params, server.KindPrompt, has)
	}
	e := t.entryOf(k)
	withParent, ambient := t.extract(ctx, req.Params)
	options := e.options
	if ambient.IsValid() {
		options = append(options[:len(options):len(options)], trace.WithLinks(trace.Link{SpanContext: ambient}))
	}
	started, span := t.tracer.Start(withParent, e.span, options...)
	if span.IsRecording() {
		t.describe(span, req.ID, resourceOf(k.method, req.Params), address)
	}
	e.active.Add(1)
	return started, operation{e, started, span, t.now()}
}

// endReceived ends what beginReceived has begun.
func (t *Telemetry) endReceived(ctx context.Context, op *operation, req *session.Request, result codec.Encoder, err error) {
	if op.entry == nil {
		return
	}
	defer t.recovered()
	var out outcome
	switch {
	case err == nil:
		out = received(result)
	case ctx.Err() != nil && req.Session != nil && errors.Is(context.Cause(ctx), session.ErrCancelled):
		out = outcome{errorType: "cancelled", message: "cancelled by the peer"}
	default:
		failure := req.Failure(err)
		out = outcome{errorType: codeText(failure.Code), code: !req.IsNotification(), message: failure.Message}
	}
	t.end(op, &out)
}

// received returns the outcome of a handler that has returned a result.
func received(result codec.Encoder) (out outcome) {
	switch r := unwrap(result).(type) {
	case *mcp.CallToolResult:
		if r.IsError != nil && *r.IsError {
			out.errorType = toolError
		}
	case *mcp.InputRequiredResult:
		out.result = "input_required"
	case *mcp.CreateTaskResult, *receiver.ExtensionTask:
		out.result = "task"
	}
	return out
}

// unwrap returns the value that v adds members to, if it adds any.
func unwrap(v codec.Encoder) codec.Encoder {
	for {
		u, ok := v.(interface{ Unwrap() codec.Encoder })
		if !ok {
			return v
		}
		v = u.Unwrap()
	}
}

// maxMethod is the length in bytes up to which methods that the protocol does not define have a name
// of their own.
const maxMethod = 100

// sending returns middleware that observes sent messages. If client is set, it also observes the
// sessions.
func (t *Telemetry) sending(client bool) session.SendMiddleware {
	return func(next session.Sender) session.Sender {
		return func(ctx context.Context, call *session.Call) (result json.RawMessage, err error) {
			if silent(call.Method) {
				return next(ctx, call)
			}
			derived, op := t.beginSent(ctx, call)
			returned := false
			defer func() {
				if !returned {
					err = errPanicked
				}
				t.endSent(ctx, &op, call, result, err)
			}()
			result, err = next(derived, call)
			returned = true
			if client && err == nil && call.Method == mcp.MethodInitialize && call.Session != nil {
				t.clientOpened(call.Session)
			}
			return result, err
		}
	}
}

// clientOpened observes a session of a client. A session that replaces a lost one is the same.
func (t *Telemetry) clientOpened(s *session.Session) {
	if _, known := t.opened.Load(s); known {
		return
	}
	t.sessionOpened(s)
	s.AfterDone(func() { t.sessionClosed(s, s.Wait()) })
}

// beginSent begins to observe a message that is being sent.
func (t *Telemetry) beginSent(ctx context.Context, call *session.Call) (derived context.Context, op operation) {
	derived = ctx
	defer t.recovered()
	k := kind{method: call.Method}
	if len(k.method) > maxMethod && !protocolMethod(k.method) {
		k.method = other
	}
	if s := call.Session; s != nil {
		k.revision, k.info = s.Revision(), s.Info()
	} else if req, ok := session.FromContext(ctx); ok { // a notification that belongs to a modern request
		k.revision = req.Revision()
	}
	uri := ""
	switch p := unwrap(call.Params).(type) {
	case *mcp.CallToolRequestParams:
		k.target = p.Name
	case *mcp.GetPromptRequestParams:
		k.target = p.Name
	case *mcp.ReadResourceRequestParams:
		uri = p.URI
	case *mcp.SubscribeRequestParams:
		uri = p.URI
	case *mcp.UnsubscribeRequestParams:
		uri = p.URI
	case *mcp.ResourceUpdatedNotificationParams:
		uri = p.URI
	case session.Raw:
		if k.method == mcp.MethodToolsCall || k.method == mcp.MethodPromptsGet {
			k.target = member(json.RawMessage(p), "name")
		}
		uri = resourceOf(k.method, json.RawMessage(p))
	}
	e := t.entryOf(k)
	started, span := t.tracer.Start(ctx, e.span, e.options...)
	if span.IsRecording() {
		t.describe(span, jsonrpc.ID{}, uri, "")
	}
	t.propagator.Inject(started, outgoing{call})
	e.active.Add(1)
	return started, operation{e, started, span, t.now()}
}

// endSent ends what beginSent has begun.
func (t *Telemetry) endSent(ctx context.Context, op *operation, call *session.Call, result json.RawMessage, err error) {
	if op.entry == nil {
		return
	}
	defer t.recovered()
	var out outcome
	if err != nil {
		out.errorType, out.code = classify(ctx, err)
		out.message = boundary.ErrorText(err)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
			out.message = e.Message
		}
	} else if call.Method == mcp.MethodToolsCall {
		// Most results have no such member, which a search for the text finds out faster.
		if bytes.Contains(result, []byte(`"isError"`)) {
			if value, _ := codec.Member(result, "isError"); string(value) == "true" {
				out.errorType = toolError
			}
		}
	}
	if !call.ID.IsZero() && op.span.IsRecording() {
		op.span.SetAttributes(keyRequestID.String(idText(call.ID)))
	}
	t.end(op, &out)
}

// end ends the span of an operation and records its duration.
func (t *Telemetry) end(op *operation, out *outcome) {
	e := op.entry
	e.active.Add(-1)
	took := t.now().Sub(op.started)
	if op.span.IsRecording() {
		if out.errorType != "" {
			fail(op.span, out)
		}
		if out.result != "" {
			op.span.SetAttributes(keyResult.String(out.result))
		}
	}
	op.span.End()
	t.durations[side(e.server)].Record(op.ctx, took.Seconds(), e.record(out.errorType, out.code)...)
}

// maxMessage is the length in bytes up to which a span has the message of an error.
const maxMessage = 1024

// fail marks a span as failed.
func fail(span trace.Span, out *outcome) {
	span.SetStatus(codes.Error, boundary.Text(out.message, maxMessage))
	span.SetAttributes(keyErrorType.String(out.errorType))
	if out.code {
		span.SetAttributes(keyStatusCode.String(out.errorType))
	}
}

// maxURI is the length in bytes up to which a span has a URI.
const maxURI = 2048

// describe adds the attributes of a single operation to its span.
func (t *Telemetry) describe(span trace.Span, id jsonrpc.ID, uri, address string) {
	var attrs [4]attribute.KeyValue
	n := 0
	if !id.IsZero() {
		attrs[n] = keyRequestID.String(idText(id))
		n++
	}
	if uri != "" {
		attrs[n] = keyResource.String(boundary.Text(uri, maxURI))
		n++
	}
	if address != "" {
		if host, port, err := net.SplitHostPort(address); err == nil {
			attrs[n] = keyClientAddress.String(host)
			n++
			if number, err := strconv.Atoi(port); err == nil {
				attrs[n] = keyClientPort.Int(number)
				n++
			}
		}
	}
	if n > 0 {
		span.SetAttributes(attrs[:n]...)
	}
}

// recovered logs a panic of the goroutine. It must be deferred directly.
func (t *Telemetry) recovered() {
	if v := recover(); v != nil {
		t.guard(func() { panic(v) })
	}
}

// knownName returns the name of the feature that params are for, or other if the server does not
// have it.
func knownName(params json.RawMessage, kind server.Kind, has func(server.Feature) bool) string {
	name := member(params, "name")
	if has == nil || !has(server.Feature{Kind: kind, Name: name}) {
		return other
	}
	return name
}

// member returns a member of params that is a string, or "".
func member(params json.RawMessage, name string) (text string) {
	codec.ReadPart(params, func(r *wire.Reader) {
		if value, kind, ok := r.PeekMember(name); ok && kind == wire.KindString {
			text = value
		}
	})
	return text
}

// resourceOf returns the URI that the params of a method name, or "".
func resourceOf(method string, params json.RawMessage) string {
	switch method {
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodNotificationsResourcesUpdated:
		return member(params, "uri")
	}
	return ""
}

// idText returns the text of an id, without quotes.
func idText(id jsonrpc.ID) string {
	if text, ok := id.Text(); ok {
		return text
	}
	return id.String()
}

// codeText returns the error.type for a code.
func codeText(code int64) string { return strconv.FormatInt(code, 10) }

// classify returns the error.type of an error. code is set if it is that of an error answer.
func classify(ctx context.Context, err error) (errorType string, code bool) {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return codeText(e.Code), true
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return "capability", false
	}
	if _, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return "delivery", false
	}
	switch {
	case errors.Is(err, session.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout", false
	case errors.Is(err, task.ErrCancelled), errors.Is(err, session.ErrCancelled), errors.Is(err, context.Canceled), ctx.Err() != nil:
		return "cancelled", false
	case errors.Is(err, task.ErrExpired):
		return "expired", false
	case errors.Is(err, session.ErrUnresponsive):
		return "unresponsive", false
	case errors.Is(err, session.ErrClosed), errors.Is(err, task.ErrClosed), errors.Is(err, transport.ErrClosed):
		return "closed", false
	case err == errPanicked:
		return "panic", false
	}
	return other, false
}
