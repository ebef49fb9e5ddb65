package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
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
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// operation is a request or a notification that is being sent or handled. It lives on the stack of
// its middleware.
type operation struct {
	entry   *entry          // nil if it is not observed
	ctx     context.Context // has the span
	span    trace.Span
	started time.Time
	learns  bool // a result shows that there is a tool or prompt of the name, see learn
}

// outcome is how an operation has ended.
type outcome struct {
	fault
	message string // of the error
	result  string // the kind of a result that is not the final one, such as "task"
}

// fault is the error of an outcome, without its message.
type fault struct {
	errorType string // "" for success
	code      string // code of an error response, or ""
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

// receiving returns middleware that observes received messages. Has reports whether the server has
// a feature; it may be nil.
func (t *Telemetry) receiving(has func(server.Feature) bool) session.Middleware {
	return func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (result codec.Encoder, err error) {
			if silent(req.Method) {
				return next(ctx, req)
			}
			derived, op := t.beginReceived(ctx, req, has)
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
func (t *Telemetry) beginReceived(ctx context.Context, req *session.Request, has func(server.Feature) bool) (derived context.Context, op operation) {
	derived = ctx
	defer t.recovered()
	k := kind{server: true, method: req.Method, revision: req.Revision()}
	if !protocolMethod(k.method) && (has == nil || !has(server.Feature{Kind: server.KindMethod, Name: k.method})) {
		k.method = other
	}
	address := ""
	if s := req.Internals(boundary.Caller{}).Connection(); s != nil {
		k.info = s.Info()
		k.info.Host, k.info.Port = "", 0 // a client that handles requests of the server
	} else if _, remote := transport.HTTP(ctx); remote != "" {
		k.info = transport.Info{Network: "tcp", Protocol: "http"}
	}
	if k.info.Protocol != "" {
		_, address = transport.HTTP(ctx)
	}
	names, values := [...]string{"_meta", described(k.method)}, [2][]byte{}
	n := len(names)
	if names[1] == "" {
		n = 1
	}
	codec.ReadPart(req.Params, func(r *wire.Reader) { r.PeekRaws(names[:n], values[:n]) })
	i := t.carriers.Get().(*incoming)
	defer t.release(i)
	uri := ""
	switch k.method {
	case mcp.MethodToolsCall:
		k.target = t.known(k.method, i.name(values[1]), server.KindTool, has)
	case mcp.MethodPromptsGet:
		k.target = t.known(k.method, i.name(values[1]), server.KindPrompt, has)
	default:
		uri = text(values[1])
	}
	e := t.entryOf(k)
	withParent, ambient := t.extract(ctx, i, values[0])
	options := i.begin(e, req.ID, uri, address)
	if ambient.IsValid() {
		options = append(slices.Clip(options), trace.WithLinks(trace.Link{SpanContext: ambient}))
	}
	derived, op = t.begin(withParent, e, options)
	op.learns = k.target == other && has != nil
	return derived, op
}

// begin begins an operation with a span.
func (t *Telemetry) begin(ctx context.Context, e *entry, options []trace.SpanStartOption) (derived context.Context, op operation) {
	derived, span := t.tracer.Start(ctx, e.span, options...)
	op = operation{entry: e, ctx: derived, span: span}
	// A recorded span has read the clock.
	if recorded, ok := span.(interface{ StartTime() time.Time }); ok {
		op.started = recorded.StartTime()
	} else {
		op.started = time.Now()
	}
	e.active.Add(1)
	return derived, op
}

// endReceived ends an operation of beginReceived.
func (t *Telemetry) endReceived(ctx context.Context, op *operation, req *session.Request, result codec.Encoder, err error) {
	if op.entry == nil {
		return
	}
	defer t.recovered()
	var out outcome
	switch {
	case err == nil:
		if out = received(result); op.learns && out.errorType == "" {
			t.learn(op, req.Params)
		}
	case ctx.Err() != nil && cancelledByPeer(context.Cause(ctx)):
		out = outcome{fault: fault{errorType: "cancelled"}, message: "cancelled by the peer"}
	default:
		failure := req.Internals(boundary.Caller{}).Failure(err)
		out = outcome{fault: fault{errorType: codeText(failure.Code)}, message: failure.Message}
		if !req.IsNotification() {
			out.code = out.errorType
		}
		if faultOfSender(failure.Code) {
			out.errorType = ""
		}
	}
	t.end(op, &out)
}

// cancelledByPeer reports whether a request ended with the given cause because its peer has
// cancelled it, or has closed the stream or the connection of the response.
func cancelledByPeer(cause error) bool {
	return errors.Is(cause, session.ErrCancelled) || errors.Is(cause, session.ErrClosed) || errors.Is(cause, context.Canceled) ||
		errors.Is(cause, transport.ErrClosed) || errors.Is(cause, io.EOF)
}

// received returns the outcome of a handler that has returned a result.
func received(result codec.Encoder) (out outcome) {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r.IsError != nil && *r.IsError {
			out.errorType = toolError
		}
	case *mcp.InputRequiredResult:
		out.result = "input_required"
	case *mcp.CreateTaskResult, interface{ TypedTask() }:
		out.result = "task"
	case session.Raw: // of a proxy
		if isError(json.RawMessage(r)) {
			out.errorType = toolError
		}
		switch {
		case bytes.Contains(r, []byte(`"resultType"`)) && member(json.RawMessage(r), "resultType") == modern.ResultInputRequired:
			out.result = "input_required"
		case bytes.Contains(r, []byte(`"task"`)):
			if _, ok := codec.Member(json.RawMessage(r), "task"); ok {
				out.result = "task"
			}
		}
	}
	return out
}

// isError reports whether the text of a result has the member isError with the value true.
func isError(result json.RawMessage) bool {
	// Most results have no such member. A search for the text is faster than decoding.
	if !bytes.Contains(result, []byte(`"isError"`)) {
		return false
	}
	value, _ := codec.Member(result, "isError")
	return string(value) == "true"
}

// feature is the method and the name in a request for a tool or a prompt.
type feature struct{ method, name string }

// learn names the tool or the prompt of an operation that has succeeded, and of later ones. A server
// that is a proxy does not know what its upstreams have: only a result shows that.
func (t *Telemetry) learn(op *operation, params json.RawMessage) {
	k := op.entry.kind
	k.target = member(params, "name")
	if k.target == "" || len(k.target) > maxToolName {
		return
	}
	if _, ok := t.passed.get(feature{k.method, k.target}, maxTools, func() struct{} { return struct{}{} }); !ok {
		return
	}
	op.entry = t.entryOf(k) // counts the active operations of the same method
	op.span.SetName(op.entry.span)
	op.span.SetAttributes(op.entry.attrs...)
}

// maxMethod is the maximum length in bytes of methods that are reported by name although the
// protocol does not define them.
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

// clientOpened observes a session of a client. It does nothing if it already observes the session.
func (t *Telemetry) clientOpened(s *session.Session) {
	if _, known := t.opened.Load(s); known {
		return
	}
	t.sessionOpened(s)
	s.Internals(boundary.Caller{}).AfterDone(func() { t.sessionClosed(s, s.Wait()) })
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
	switch p := call.Params.(type) {
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
		switch name := described(k.method); name {
		case "name":
			k.target = member(json.RawMessage(p), name)
		case "uri":
			uri = member(json.RawMessage(p), name)
		}
	}
	e := t.entryOf(k)
	options := e.options
	if uri != "" {
		options = []trace.SpanStartOption{e.spanKind, trace.WithAttributes(single(slices.Clip(e.attrs), call.ID, uri, "")...)}
	}
	derived, op = t.begin(ctx, e, options)
	t.propagator.Inject(derived, outgoing{call})
	return derived, op
}

// endSent ends an operation of beginSent.
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
		if isError(result) {
			out.errorType = toolError
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
	took := time.Since(op.started)
	if *out != (outcome{}) && op.span.IsRecording() {
		fail(op.span, out)
		if out.result != "" {
			op.span.SetAttributes(keyResult.String(out.result))
		}
	}
	op.span.End()
	t.durations[side(e.kind.server)].Record(op.ctx, took.Seconds(), e.record(out.fault)...)
}

// maxMessage is the maximum length in bytes of the message of an error in a span.
const maxMessage = 1024

// fail adds the error of an outcome, if there is one, to a span.
func fail(span trace.Span, out *outcome) {
	if out.errorType != "" {
		span.SetStatus(codes.Error, boundary.Text(out.message, maxMessage))
	}
	if attrs := out.attributes(); attrs != nil {
		span.SetAttributes(attrs...)
	}
}

// attributes returns those of a span and of a metric.
func (f fault) attributes() (attrs []attribute.KeyValue) {
	if f.errorType != "" {
		attrs = append(attrs, keyErrorType.String(f.errorType))
	}
	if f.code != "" {
		attrs = append(attrs, keyStatusCode.String(f.code))
	}
	return attrs
}

// faultOfSender reports whether a code means that the request itself is at fault. The conventions
// do not count such a response as an error of the receiver.
func faultOfSender(code int64) bool {
	switch code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, server.CodeResourceNotFound:
		return true
	}
	return false
}

// maxURI is the maximum length in bytes of a URI in a span.
const maxURI = 2048

// single appends the attributes of a single operation.
func single(attrs []attribute.KeyValue, id jsonrpc.ID, uri, address string) []attribute.KeyValue {
	if !id.IsZero() {
		attrs = append(attrs, keyRequestID.String(idText(id)))
	}
	if uri != "" {
		attrs = append(attrs, keyResource.String(boundary.Text(uri, maxURI)))
	}
	if address != "" {
		if host, port, err := net.SplitHostPort(address); err == nil {
			attrs = append(attrs, keyClientAddress.String(host))
			if number, err := strconv.Atoi(port); err == nil {
				attrs = append(attrs, keyClientPort.Int(number))
			}
		}
	}
	return attrs
}

// recovered logs a panic of the goroutine. It must be deferred directly.
func (t *Telemetry) recovered() {
	if v := recover(); v != nil {
		t.guard(func() { panic(v) })
	}
}

// known returns the name of a feature, or other if the server does not have it, as far as is known.
func (t *Telemetry) known(method, name string, kind server.Kind, has func(server.Feature) bool) string {
	if has == nil {
		return other
	}
	if has(server.Feature{Kind: kind, Name: name}) {
		return name
	}
	if passed := t.passed.current.Load(); passed != nil {
		if _, ok := (*passed)[feature{method, name}]; ok {
			return name
		}
	}
	return other
}

// described returns the name of the member of params that spans report for a method, or "".
func described(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return "name"
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe, mcp.MethodNotificationsResourcesUpdated:
		return "uri"
	}
	return ""
}

// member returns a member of params that is a string, or "".
func member(params json.RawMessage, name string) string {
	value, _ := codec.Member(params, name)
	return text(value)
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

// classify returns the error.type of an error, and the code if it is an error response.
func classify(ctx context.Context, err error) (errorType, code string) {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		code = codeText(e.Code)
		return code, code
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return "capability", ""
	}
	if _, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return "delivery", ""
	}
	switch {
	case errors.Is(err, session.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return "timeout", ""
	case errors.Is(err, task.ErrCancelled), errors.Is(err, session.ErrCancelled), errors.Is(err, context.Canceled), ctx.Err() != nil:
		return "cancelled", ""
	case errors.Is(err, task.ErrExpired):
		return "expired", ""
	case errors.Is(err, session.ErrUnresponsive):
		return "unresponsive", ""
	case errors.Is(err, session.ErrClosed), errors.Is(err, task.ErrClosed), errors.Is(err, transport.ErrClosed):
		return "closed", ""
	case err == errPanicked:
		return "panic", ""
	}
	return other, ""
}
