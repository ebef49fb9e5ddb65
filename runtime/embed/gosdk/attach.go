package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
)

// Methods that have no constant in the SDK.
const (
	methodInitialize      = wire.MethodInitialize
	methodPing            = wire.MethodPing
	methodCallTool        = wire.MethodToolsCall
	methodListTools       = wire.MethodToolsList
	methodDiscover        = wire.MethodServerDiscover
	methodListen          = wire.MethodSubscriptionsListen
	methodSetLevel        = wire.MethodLoggingSetLevel
	methodElicit          = wire.MethodElicitationCreate
	methodCreateMessage   = wire.MethodSamplingCreateMessage
	methodListRoots       = wire.MethodRootsList
	methodCancelled       = wire.MethodNotificationsCancelled
	methodProgress        = wire.MethodNotificationsProgress
	methodMessage         = wire.MethodNotificationsMessage
	methodElicitComplete  = wire.MethodNotificationsElicitationComplete
	methodResourceUpdated = wire.MethodNotificationsResourcesUpdated
	methodAcknowledged    = wire.MethodNotificationsSubscriptionsAcknowledged
)

// Tasks are the tasks of a server. Its methods are safe for concurrent use.
type Tasks struct {
	server *mcp.Server
	engine *embedding.Engine

	tickets   sync.Map  // id to *ticket, of HTTP requests and of forwarded subscriptions
	outermost sync.Once // adds the middleware describe
	mu        sync.Mutex
	streams   map[string]*embedding.Stream // GET streams by session id
	waits     embedding.Waits
}

// Attach lets the tools of a server be called as tasks. The server must not have tasks yet, and
// no session. Tools may be added before and after.
//
// Attach adds receiving middleware. Middleware that is added later sees the calls of clients, over
// HTTP also their tasks/* requests, and each run of a handler as a task. Middleware that was added
// before sees plain calls and the runs of handlers. The result of a call that becomes a task is not
// a [mcp.CallToolResult]. Middleware that was added before the start, even before Attach, gets the
// results of the SDK for initialize, tools/list and server/discover. Attach also adds sending
// middleware: an input request of a task whose context ends returns once its outcome is recorded.
//
// Each run of a handler as a task has a session of its own, which belongs to no client.
// Server.Sessions lists it while the handler runs, and the SDK logs its beginning and its end. If
// the program closes it, requests and notifications of the handler fail, and the task ends with
// what the handler returns. A task whose result cannot be encoded fails.
//
// Clients reach the tasks through [Tasks.Transport], [Tasks.Handler] or [Tasks.Wrap]. For clients
// of other transports, all calls stay plain.
func Attach(s *mcp.Server, o embed.Options) (*Tasks, error) {
	if s == nil {
		return nil, errors.New("gosdk: the server is nil")
	}
	t := &Tasks{server: s, streams: make(map[string]*embedding.Stream)}
	e, err := embedding.New(o, backend{s})
	if err != nil {
		return nil, err
	}
	t.engine = e
	for _, method := range []string{
		wire.MethodTasksGet, wire.MethodTasksResult, wire.MethodTasksList, wire.MethodTasksCancel, tasks.MethodTasksUpdate,
	} {
		if err := mcp.AddReceivingCustomMethod(s, method, unserved); err != nil {
			return nil, err
		}
	}
	s.AddReceivingMiddleware(t.receive)
	s.AddSendingMiddleware(send)
	return t, nil
}

// send is the sending middleware of the server. It makes the input requests of a task session end
// with their response only: the SDK would return at the end of ctx, before the outcome is recorded,
// so that the next operation of the handler would overlap this one.
func send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c, ok := ctx.Value(taskSessionKey{}).(*taskSession); ok && req.GetSession() == mcp.Session(c.ss) && isInputRequest(method) {
			ctx = context.WithValue(context.WithoutCancel(ctx), handlerContextKey{}, ctx)
		}
		return next(ctx, method, req)
	}
}

// isInputRequest reports whether a method is that of an input request.
func isInputRequest(method string) bool {
	switch method {
	case wire.MethodElicitationCreate, wire.MethodSamplingCreateMessage, wire.MethodRootsList:
		return true
	}
	return false
}

// unserved makes a tasks/* method known to the SDK. The middleware serves it.
func unserved(context.Context, *mcp.ServerSession, *rawParams) (*rawResult, error) {
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "gosdk: the middleware of Attach was not called"}
}

// Start recovers the tasks of the store. The first HTTP request begins that in the background, so
// that plain requests do not depend on the store. Connect of [Tasks.Transport] calls Start. To
// recover tasks earlier, call Start once all tools have been added. Start returns the errors of
// [task.New]; the next call tries again.
func (t *Tasks) Start(ctx context.Context) error {
	t.addOutermost()
	return t.engine.Start(ctx)
}

// begin is Start, but does not wait.
func (t *Tasks) begin() {
	t.addOutermost()
	t.engine.Begin()
}

func (t *Tasks) addOutermost() {
	t.outermost.Do(func() { t.server.AddReceivingMiddleware(t.describe) })
}

// Manager returns the manager of the tasks, or nil before they are started.
func (t *Tasks) Manager() *task.Manager { return t.engine.Manager() }

// Close ends all tasks, like [task.Manager.Close]. Durable tasks continue after a restart. The
// store stays open.
func (t *Tasks) Close() error { return t.engine.Close() }

// receive is the receiving middleware of the server.
func (t *Tasks) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c := taskSessionOf(ctx, method, req); c != nil {
			return c.run(ctx, next, method, req)
		}
		switch method {
		case methodCallTool:
			if k := t.ticket(req); k != nil {
				return t.serve(ctx, method, req, k, next)
			}
			principal, err := t.principal(ctx, req.GetExtra())
			if err != nil {
				return nil, sdkError(err)
			}
			ctx = wiretransport.WithPrincipal(ctx, principal)
		case methodListen:
			if k := t.ticket(req); k != nil {
				return t.serve(ctx, method, req, k, next)
			}
		case wire.MethodTasksGet, wire.MethodTasksResult, wire.MethodTasksList, wire.MethodTasksCancel, tasks.MethodTasksUpdate:
			k := t.ticket(req)
			if k == nil {
				k = new(ticket)
			}
			if p, ok := req.GetParams().(*rawParams); ok && p != nil {
				k.params = p.text
			}
			return t.serve(ctx, method, req, k, next)
		}
		return next(ctx, method, req)
	}
}

// describe is the receiving middleware that adds the support for tasks to the results of
// initialize, tools/list and server/discover, for clients over HTTP, and that records the outcomes
// of task sessions. Start adds it, so that it is outside the middleware of the author, which gets
// the results of the SDK: it may filter the list of tools, for example.
func (t *Tasks) describe(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if c := taskSessionOf(ctx, method, req); c != nil {
			return c.observe(ctx, next, method, req)
		}
		switch method {
		case methodInitialize, methodListTools, methodDiscover:
		default:
			return next(ctx, method, req)
		}
		if t.ticket(req) == nil {
			return next(ctx, method, req)
		}
		result, err := next(ctx, method, req)
		if err != nil {
			return nil, err
		}
		text, err := encodeResult(result)
		if err == nil {
			text, err = t.edit(method, revisionOf(req), text)
		}
		if err != nil {
			return nil, err
		}
		return &rawResult{text: text}, nil
	}
}

// encodeResult encodes a result as the SDK does, which does not escape HTML. An error is one for
// the client.
func encodeResult(result mcp.Result) (json.RawMessage, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := boundary.Run(func() error { return e.Encode(result) })
	if _, ok := err.(*boundary.Panic); ok {
		return nil, err
	}
	if err != nil {
		return nil, internalError("the result cannot be encoded: " + boundary.ErrorText(err))
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// edit adds the support for tasks to the result of initialize, tools/list or server/discover.
func (t *Tasks) edit(method string, rev wire.Revision, result json.RawMessage) (json.RawMessage, error) {
	result, err := t.engine.Edit(method, rev, result)
	if err == nil && rev.Traits().ResultTypes {
		result = complete(result)
	}
	return result, err
}

// complete adds the resultType to the result of a modern request, if it has none.
func complete(result json.RawMessage) json.RawMessage {
	if _, ok := codec.Member(result, "resultType"); ok {
		return result
	}
	return jsonedit.With(result, "resultType", json.RawMessage(`"`+modern.ResultComplete+`"`))
}

// serve serves a tools/call, a subscriptions/listen or a tasks/* request over HTTP.
func (t *Tasks) serve(ctx context.Context, method string, req mcp.Request, k *ticket, next mcp.MethodHandler) (mcp.Result, error) {
	if k.taskIDs != nil { // a subscription that the connection has served
		return k.listen(ctx, method, req, next)
	}
	ss, extra := req.GetSession().(*mcp.ServerSession), req.GetExtra()
	if extra == nil {
		extra = new(mcp.RequestExtra)
	}
	in := &embedding.Incoming{ID: k.id, Method: method, Params: k.params, Header: extra.Header, Session: ss.ID()}
	if in.ID.IsZero() {
		in.ID = codec.StringScalar("http")
	}
	var err error
	if in.Principal, err = t.principal(ctx, extra); err != nil {
		return nil, sdkError(err)
	}
	isModern := modern.Is(k.params)
	reply := &httpReply{t: t, ss: ss, k: k, ctx: ctx}
	if isModern {
		in.Revision = wire.Revision(modernVersion)
		in.Plain = reply
		if k.stream != nil {
			in.Send = k.stream.Send
		}
		if k.ctx != nil {
			// Without sessions, the response is lost when the HTTP request ends.
			linked, cancel := follow(ctx, k.ctx)
			defer cancel()
			ctx = linked
		}
	} else {
		in.Revision = sessionRevision(ss, extra.Header)
		in.Requestor = sessionRequestor{t: t, ss: ss}
		if method == wire.MethodTasksResult {
			in.Requestor = sessionRequestor{t: t, ss: ss, reply: reply}
			if k.ctx != nil {
				var done func()
				ctx, done = t.waits.Add(ctx, k.ctx, embedding.Waiter{Session: in.Session, Principal: in.Principal}, k.resumable && in.Session != "")
				defer done()
			}
		}
	}
	if method == methodCallTool {
		in.Client = clientOf(k.params, isModern, ss.InitializeParams(), extra.TokenInfo)
		from := &origin{extra: extra}
		if !isModern {
			from.client = ss.InitializeParams()
		}
		ctx = context.WithValue(ctx, originKey{}, from)
	}
	out, err := t.engine.Serve(ctx, in)
	switch {
	case err != nil:
		return nil, sdkError(boundary.WireError(err))
	case out.TaskIDs != nil:
		k.taskIDs, k.stop = out.TaskIDs, out.Stop
		return k.listen(ctx, method, req, next)
	case !out.Handled:
		return next(wiretransport.WithPrincipal(ctx, in.Principal), method, req)
	}
	text, err := codec.Marshal(out.Result)
	if err != nil {
		return nil, err
	}
	if isModern {
		text = complete(text)
	}
	return &rawResult{text: text}, nil
}

// follow returns a context that ends when ctx or other ends, and has the values of ctx.
func follow(ctx, other context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() { stop(); cancel(nil) }
}

// principal returns the principal of a request. Extra may be nil. The error is one for the client.
func (t *Tasks) principal(ctx context.Context, extra *mcp.RequestExtra) (string, error) {
	if extra == nil {
		extra = new(mcp.RequestExtra)
	}
	user := ""
	if extra.TokenInfo != nil {
		user = extra.TokenInfo.UserID
	}
	return t.engine.Principal(ctx, extra.Header, user)
}

// revisionOf returns the revision of a request.
func revisionOf(req mcp.Request) wire.Revision {
	if isModern(req) {
		return wire.Revision(modernVersion)
	}
	var header http.Header
	if extra := req.GetExtra(); extra != nil {
		header = extra.Header
	}
	return sessionRevision(req.GetSession().(*mcp.ServerSession), header)
}

// isModern reports whether a request belongs to a revision without sessions.
func isModern(req mcp.Request) bool {
	p := req.GetParams()
	if p == nil {
		return false
	}
	switch p := p.(type) { // the SDK passes nil pointers for absent params
	case *mcp.DiscoverParams:
		if p == nil {
			return false
		}
	case *mcp.ListToolsParams:
		if p == nil {
			return false
		}
	}
	version, _ := p.GetMeta()[modern.MetaVersion].(string)
	return version >= modernVersion
}

// sessionRevision returns the revision of a session.
func sessionRevision(ss *mcp.ServerSession, header http.Header) wire.Revision {
	version := header.Get(modern.HeaderVersion)
	if p := ss.InitializeParams(); version == "" && p != nil {
		version = p.ProtocolVersion
	}
	if version == "" || version >= modernVersion {
		version = sessionVersion
	}
	return wire.Revision(version)
}

// rawParams are params as JSON.
type rawParams struct {
	mcp.ParamsBase
	text json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *rawParams) UnmarshalJSON(text []byte) error {
	p.text = append(json.RawMessage(nil), text...)
	if meta, ok := codec.Member(p.text, "_meta"); ok {
		return json.Unmarshal(meta, &p.Meta)
	}
	return nil
}

// rawResult is a result as JSON. The SDK adds members to its _meta.
type rawResult struct {
	mcp.ResultBase
	text json.RawMessage
}

// MarshalJSON implements [json.Marshaler].
func (r *rawResult) MarshalJSON() ([]byte, error) {
	text := r.text
	for name, v := range r.Meta {
		value, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		if text, err = methods.AddMeta(text, name, session.Raw(value)); err != nil {
			return nil, err
		}
	}
	return text, nil
}
