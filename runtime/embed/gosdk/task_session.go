//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and tasks serve them as long as the SDK has them

package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// sessionVersion is the newest revision with sessions. Task sessions have it, because servers can
// send requests in it. modernVersion is the oldest revision without sessions.
var sessionVersion, modernVersion = func() (session, current string) {
	without, with := modern.Split(wire.Revisions()) // oldest first
	return string(with[len(with)-1]), string(without[0])
}()

// taskSession is the client's end of a session of the SDK that serves one request: a tool call or a
// tools/list. It is both the transport and the connection of the session. The session belongs to no
// client, so the call can outlive its client and can be repeated after a restart.
type taskSession struct {
	call   *embedding.Call
	ctx    context.Context // of the call
	ss     *mcp.ServerSession
	cancel context.CancelFunc // ends the requests of the handler

	in       chan jsonrpc.Message   // to the SDK
	response chan *jsonrpc.Response // of the request; buffered
	done     chan struct{}          // closed with the connection
	close    sync.Once

	// What the middleware of the server has returned. It is the outcome of the request if the SDK
	// sends no response: if it cannot encode the result, or if the session was closed meanwhile.
	outcome   outcome
	processed chan struct{} // closed when the SDK has processed outcome

	mu       sync.Mutex
	ended    bool           // further requests of the handler are rejected
	requests sync.WaitGroup // requests of the handler that are being served
}

// outcome is the result of a request in the SDK.
type outcome struct {
	result mcp.Result // nil for none
	err    error
}

type taskSessionKey struct{}

// handlerContextKey is the key of the context with which the handler has made an input request; see
// send.
type handlerContextKey struct{}

// taskSessionOf returns the task session whose request a middleware serves, or nil.
func taskSessionOf(ctx context.Context, method string, req mcp.Request) *taskSession {
	if method != methodCallTool && method != methodListTools {
		return nil
	}
	if c, ok := ctx.Value(taskSessionKey{}).(*taskSession); ok && req.GetSession() == mcp.Session(c.ss) {
		return c
	}
	return nil
}

// callID is the id of the only request of a task session.
var callID, _ = jsonrpc.MakeID(methodCallTool)

// origin describes the request that made a call. The context of the call carries it, until the
// process ends.
type origin struct {
	extra  *mcp.RequestExtra     // nil if the request had none
	client *mcp.InitializeParams // of the session; nil for none
}

type originKey struct{}

// backend runs tools of a server for an [embedding.Engine].
type backend struct{ server *mcp.Server }

// CallTool implements [embedding.Backend].
func (b backend) CallTool(ctx context.Context, call *embedding.Call) (json.RawMessage, error) {
	return b.serve(ctx, methodCallTool, call)
}

// ListTools implements [embedding.Backend].
func (b backend) ListTools(ctx context.Context, call *embedding.Call) (json.RawMessage, error) {
	return b.serve(ctx, methodListTools, call)
}

// serve serves a request in a session of its own.
func (b backend) serve(ctx context.Context, method string, call *embedding.Call) (json.RawMessage, error) {
	c := &taskSession{
		call: call, in: make(chan jsonrpc.Message, 1), response: make(chan *jsonrpc.Response, 1),
		done: make(chan struct{}), processed: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	defer c.cancel()
	from, _ := ctx.Value(originKey{}).(*origin)
	state, err := sessionState(call, from)
	if err != nil {
		return nil, err
	}
	ss, err := b.server.Connect(context.WithValue(c.ctx, taskSessionKey{}, c), c, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, err
	}
	c.ss = ss
	c.in <- &jsonrpc.Request{ID: callID, Method: method, Params: call.Params, Extra: extra(call, from)}
	result, err := c.wait()
	c.end()
	if err == boundary.ErrGoexit {
		return nil, err // the SDK still waits for the handler, and so would Close
	}
	ss.Close()
	if err != nil {
		return nil, unknownTool(call, callError(err))
	}
	return result, nil
}

// unknownTool returns an [*embedding.UnknownToolError] if err is the error of the SDK for a tool that
// the server does not have, and otherwise err.
func unknownTool(call *embedding.Call, err error) error {
	name, _ := codec.Member(call.Params, "name")
	if e, ok := err.(*wirerpc.Error); ok && e.Code == wirerpc.CodeInvalidParams && e.Message == fmt.Sprintf("unknown tool %q", text(name)) {
		return &embedding.UnknownToolError{Response: e}
	}
	return err
}

// wait returns the outcome of the request. The handler has the context of the call, so wait needs
// no select on it.
func (c *taskSession) wait() (json.RawMessage, error) {
	select {
	case r := <-c.response:
		return r.Result, r.Error
	case <-c.processed:
	case <-c.done: // after the SDK has processed all requests
	}
	select {
	case r := <-c.response:
		return r.Result, r.Error
	default:
	}
	switch {
	case c.outcome.err != nil:
		return nil, c.outcome.err
	case c.outcome.result == nil:
		return nil, internalError("the session of the task was closed before its tool was called")
	}
	return encodeResult(c.outcome.result)
}

// internalError returns an error response for a fault on this side.
func internalError(cause string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: " + cause}
}

// sessionState returns the state of a session after the handshake with the client of a call. After
// a restart, from is nil.
func sessionState(call *embedding.Call, from *origin) (*mcp.ServerSessionState, error) {
	var params mcp.InitializeParams
	if from != nil && from.client != nil {
		params = *from.client
	} else if call.Client.Initialize != nil {
		p, err := decodeClient(call.Client.Initialize)
		if err != nil {
			return nil, err
		}
		params = *p
	}
	if params.Capabilities == nil {
		params.Capabilities = new(mcp.ClientCapabilities)
	}
	switch {
	case call.Modern:
		params.ProtocolVersion = modernVersion
	case params.ProtocolVersion == "" || params.ProtocolVersion >= modernVersion:
		params.ProtocolVersion = sessionVersion
	}
	// The client's level filters log messages later, when they are sent to it.
	return &mcp.ServerSessionState{
		InitializeParams: &params, InitializedParams: new(mcp.InitializedParams), NegotiatedProtocolVersion: params.ProtocolVersion, LogLevel: "debug",
	}, nil
}

// decodeClient decodes the params of initialize.
func decodeClient(text json.RawMessage) (*mcp.InitializeParams, error) {
	var p struct {
		mcp.InitializeParams
		Capabilities *struct {
			mcp.ClientCapabilities
			Roots *mcp.RootCapabilities `json:"roots"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, err
	}
	if c := p.Capabilities; c != nil {
		c.RootsV2 = c.Roots
		p.InitializeParams.Capabilities = &c.ClientCapabilities
	}
	return &p.InitializeParams, nil
}

// extra returns the RequestExtra for the handler: that of the request that made the call, or what
// the task has stored of it after a restart.
func extra(call *embedding.Call, from *origin) *mcp.RequestExtra {
	if from != nil && from.extra != nil {
		return &mcp.RequestExtra{TokenInfo: from.extra.TokenInfo, Header: from.extra.Header}
	}
	e := &mcp.RequestExtra{Header: call.Header}
	if call.Client.User != "" || call.Client.Scopes != nil {
		e.TokenInfo = &auth.TokenInfo{UserID: call.Client.User, Scopes: call.Client.Scopes}
	}
	return e
}

// observe serves the request in the outermost middleware of the server. It records the outcome.
func (c *taskSession) observe(ctx context.Context, next mcp.MethodHandler, method string, req mcp.Request) (result mcp.Result, err error) {
	returned := false
	defer func() {
		if !returned && err == nil {
			c.response <- &jsonrpc.Response{Error: boundary.ErrGoexit}
			return
		}
		c.outcome = outcome{result, err}
		context.AfterFunc(ctx, func() { close(c.processed) }) // the SDK cancels ctx after it has responded
	}()
	defer boundary.Catch(&err)
	result, err = next(ctx, method, req)
	returned = true
	if r, ok := result.(*mcp.CallToolResult); err == nil && !(ok && isPlain(r)) {
		// The SDK encodes the result in a goroutine of its own, where a panic of a method of one of
		// its values would end the process.
		_, err = encodeResult(result)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// isPlain reports whether no method of a type of the author encodes a part of the result.
func isPlain(r *mcp.CallToolResult) bool {
	if r == nil || len(r.Meta) > 0 {
		return false
	}
	switch r.StructuredContent.(type) {
	case nil, json.RawMessage:
	default:
		return false
	}
	for _, content := range r.Content {
		text, ok := content.(*mcp.TextContent)
		if !ok || text == nil || len(text.Meta) > 0 {
			return false
		}
	}
	return true
}

// run serves the request in the middleware of Attach. ctx is the context of the SDK, with the
// values of other middleware.
func (c *taskSession) run(ctx context.Context, next mcp.MethodHandler, method string, req mcp.Request) (result mcp.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	defer stop()
	defer boundary.Catch(&err)
	return next(ctx, method, req)
}

// end ends the session: the SDK reads io.EOF, and all requests of the handler fail.
func (c *taskSession) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.cancel()
	c.Close()
	c.requests.Wait()
}

// Connect implements [mcp.Transport].
func (c *taskSession) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (c *taskSession) SessionID() string { return c.call.ID }

// Close implements [mcp.Connection].
func (c *taskSession) Close() error {
	c.close.Do(func() { close(c.done) })
	return nil
}

// Read implements [mcp.Connection].
func (c *taskSession) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.done:
		return nil, io.EOF
	}
}

// Write implements [mcp.Connection].
func (c *taskSession) Write(ctx context.Context, m jsonrpc.Message) error {
	select {
	case <-c.done:
		return mcp.ErrConnectionClosed
	default:
	}
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.response <- m
	case *jsonrpc.Request:
		switch {
		case m.Method == methodPing: // the SDK checks that the connection is alive
			go c.respond(&jsonrpc.Response{ID: m.ID, Result: json.RawMessage(`{}`)}) // ends with the session
		case m.IsCall():
			return c.request(ctx, m)
		case isBroadcast(m.Method):
		default:
			if err := c.call.Notify(ctx, m.Method, m.Params); err != nil {
				// After another error, the SDK would write nothing more, not even the response.
				return fmt.Errorf("%w: %w", &jsonrpc.Error{Code: codeRejected, Message: "rejected"}, err)
			}
		}
	}
	return nil
}

// isBroadcast reports whether the SDK, and not the handler, sends a notification: to all sessions,
// or about a request that has already ended.
func isBroadcast(method string) bool {
	return strings.HasSuffix(method, "/list_changed") || method == methodResourceUpdated || method == methodCancelled
}

// request serves a request of the handler.
func (c *taskSession) request(ctx context.Context, m *jsonrpc.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return mcp.ErrConnectionClosed
	}
	c.requests.Add(1)
	go func() { // ends with the session
		defer c.requests.Done()
		from, ok := ctx.Value(handlerContextKey{}).(context.Context)
		if !ok {
			from = ctx
		}
		both, cancel := context.WithCancelCause(from)
		defer cancel(nil)
		for _, each := range []context.Context{c.ctx, ctx} {
			defer context.AfterFunc(each, func() { cancel(context.Cause(each)) })()
		}
		result, err := c.call.Request(both, m.Method, m.Params)
		response := &jsonrpc.Response{ID: m.ID, Result: result}
		if err != nil {
			response.Error = sdkError(err)
		}
		c.respond(response)
	}()
	return nil
}

// respond passes a response to the SDK.
func (c *taskSession) respond(response *jsonrpc.Response) {
	select {
	case c.in <- response:
	case <-c.done:
	}
}

// callError returns the error of a failed call. An error of the SDK that has a code becomes a
// JSON-RPC error with the same code and text.
func callError(err error) error {
	if p, ok := errors.AsType[*boundary.Panic](err); ok {
		return p
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e == nil {
		return err
	}
	wire := &wirerpc.Error{Code: e.Code, Message: err.Error()}
	if error(e) == err {
		wire.Data = e.Data
	}
	return wire
}

// sdkError converts err for the SDK. An error response keeps its code, message and data.
func sdkError(err error) error {
	if e, ok := errors.AsType[*wirerpc.Error](err); ok && e != nil {
		return &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return err
}
