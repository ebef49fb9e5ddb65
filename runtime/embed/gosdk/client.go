package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// Client is a connected client of the SDK that can call tools as tasks, in all revisions that have
// tasks. It uses one connection for its Session and for tasks. Its methods are safe for concurrent
// use.
//
// The handlers and the receiving middleware of the [mcp.Client] serve the input requests of tasks.
// These may arrive in a second ClientSession, which is not Session and cannot send requests.
type Client struct {
	// Session is the session of the SDK. Its CallTool fails if the server responds with a task.
	Session *mcp.ClientSession

	wire   *client.Client
	inputs *inputSession
}

// Connect connects c to a server, like [mcp.Client.Connect]. Close the returned Client after use.
//
// Over a [mcp.StreamableClientTransport], also inside a [mcp.LoggingTransport], the requests of the
// Client use a copy of its HTTPClient and its OAuthHandler. The log has only those of Session. Inside
// another wrapper, a task of revision 2026-07-28 that asks for input fails: the requests of the
// Client lack the headers of that revision. Wrap the Transport of the HTTPClient instead.
func Connect(ctx context.Context, c *mcp.Client, t mcp.Transport, o *mcp.ClientSessionOptions) (*Client, error) {
	shared := newSharing()
	own, open := shared.transport(t)
	s, err := c.Connect(ctx, own, o)
	if err != nil {
		return nil, err
	}
	out := &Client{Session: s}
	if err := out.join(ctx, c, shared, open); err != nil {
		s.Close()
		return nil, fmt.Errorf("gosdk: connect: %w", err)
	}
	return out, nil
}

// join opens the joined session and the session of input requests.
func (c *Client) join(ctx context.Context, own *mcp.Client, shared *sharing, open func(*mcp.ClientSession) (*joined.Conn, error)) (err error) {
	server, err := joined.ReadServer(c.Session.InitializeResult().ProtocolVersion, shared.server())
	if err != nil {
		return err
	}
	if c.inputs, err = newInputSession(ctx, own, server); err != nil {
		return err
	}
	conn, err := open(c.Session)
	if err != nil {
		c.inputs.close()
		return err
	}
	shared.conn.Store(conn)
	c.wire, err = joined.Open(ctx, conn, joined.Config{
		Client: c.inputs.client, Server: server, Request: c.inputs.request, Notify: c.inputs.notify,
	})
	if err != nil {
		c.inputs.close()
		return err
	}
	go func() { // ends with the session of the SDK, which Close ends
		c.Session.Wait()
		c.wire.Session().Internals(boundary.Caller{}).StartClose()
		c.inputs.close()
	}()
	return nil
}

// Close closes the connection and waits for the handlers of input requests. Tasks continue at the
// server.
func (c *Client) Close() error {
	return errors.Join(c.wire.Close(), c.inputs.close(), c.Session.Close())
}

// CallTool calls a tool as a task and returns once the server has created the task.
//
// In a revision with sessions, it fails with [requestor.ErrNotAsTask] if the tool does not support
// tasks, and with a [*session.CapabilityError] if the server does not. In 2026-07-28, the server
// decides whether the call becomes a task: if it returns the result, the id of the handle is
// "".
//
// The progress token in the params is ignored; see [requestor.Progress].
func (c *Client) CallTool(ctx context.Context, p *mcp.CallToolParams, opts ...requestor.Option) (*Handle, error) {
	ctx, arguments, err := callParams(ctx, p)
	if err != nil {
		return nil, err
	}
	h, err := c.wire.StartTool(ctx, p.Name, arguments, opts...)
	if err != nil {
		return nil, withSDKError(err)
	}
	return &Handle{h}, nil
}

// Invoke calls a tool and waits for the result. The call is a task if the tool requires one, or if
// the server decides so. If ctx ends first, the call or the task is cancelled.
func (c *Client) Invoke(ctx context.Context, p *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	ctx, arguments, err := callParams(ctx, p)
	if err != nil {
		return nil, err
	}
	return decodeResult(c.wire.CallTool(ctx, p.Name, arguments))
}

// callParams returns the arguments of a call, and a context for its _meta.
func callParams(ctx context.Context, p *mcp.CallToolParams) (context.Context, any, error) {
	if len(p.InputResponses) > 0 || p.RequestState != "" {
		return nil, nil, fmt.Errorf("gosdk: call of tool %q: InputResponses and RequestState must be empty", p.Name)
	}
	if len(p.Meta) > 0 {
		meta, err := encode(p.Meta)
		if err != nil {
			return nil, nil, err
		}
		ctx = joined.WithMeta(ctx, meta)
	}
	if p.Arguments == nil {
		return ctx, nil, nil
	}
	arguments, err := encode(p.Arguments)
	return ctx, arguments, err
}

// AttachTool returns a handle for an existing task of a tool call. It sends nothing.
func (c *Client) AttachTool(id string, opts ...requestor.Option) *Handle {
	return &Handle{c.wire.AttachTool(id, opts...)}
}

// List iterates over the tasks that the server lists for this client, in a revision with sessions.
func (c *Client) List(ctx context.Context) iter.Seq2[wire.Task, error] { return c.wire.Tasks(ctx) }

// Handle stands for a task. Its methods are safe for concurrent use; see [requestor.Handle].
type Handle struct {
	*requestor.Handle[*wire.CallToolResult]
}

// Result waits until the task is terminal and returns its result; see [requestor.Handle.Result].
// The error of a failed task wraps a [*jsonrpc.Error]. The error of a cancelled task is
// task.ErrCancelled.
func (h *Handle) Result(ctx context.Context) (*mcp.CallToolResult, error) {
	return decodeResult(h.Handle.Result(ctx))
}

// Raw is like Result, and returns the result as JSON, with all members that the server has sent.
func (h *Handle) Raw(ctx context.Context) (json.RawMessage, error) {
	result, err := h.Handle.Result(ctx)
	if err != nil {
		return nil, withSDKError(err)
	}
	return codec.Marshal(result)
}

// Cancel cancels the task and returns its state; see [requestor.Handle.Cancel].
func (h *Handle) Cancel(ctx context.Context) (wire.Task, error) {
	state, err := h.Handle.Cancel(ctx)
	return state, withSDKError(err)
}

// decodeResult converts a result to the type of the SDK.
func decodeResult(result *wire.CallToolResult, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, withSDKError(err)
	}
	raw, err := codec.Marshal(result)
	if err != nil {
		return nil, err
	}
	return decode[mcp.CallToolResult](raw)
}

// withSDKError adds the error type of the SDK to an error response of the server.
func withSDKError(err error) error {
	e, ok := errors.AsType[*wirerpc.Error](err)
	if !ok {
		return err
	}
	return &responseError{err, &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}}
}

type responseError struct {
	error
	sdk *jsonrpc.Error
}

func (e *responseError) Unwrap() []error { return []error{e.error, e.sdk} }

// inputSession is a second session of the SDK's client, with this package as its server. Through
// it, input requests reach the handlers and the middleware of the client.
type inputSession struct {
	client  *wire.InitializeRequestParams // params of initialize; nil before
	session *mcp.ClientSession

	server *wire.InitializeResult
	in     chan jsonrpc.Message
	done   chan struct{}
	end    func()

	mu      sync.Mutex
	last    int64
	pending map[string]chan *jsonrpc.Response
}

func newInputSession(ctx context.Context, c *mcp.Client, server *wire.InitializeResult) (*inputSession, error) {
	own := *server
	own.ProtocolVersion = sessionVersion
	s := &inputSession{server: &own, in: make(chan jsonrpc.Message, 16), done: make(chan struct{}), pending: map[string]chan *jsonrpc.Response{}}
	s.end = sync.OnceFunc(func() { close(s.done) })
	var err error
	s.session, err = c.Connect(ctx, inputTransport{s}, &mcp.ClientSessionOptions{ProtocolVersion: sessionVersion})
	return s, err
}

func (s *inputSession) close() error { return s.session.Close() }

// request passes a request to the client.
func (s *inputSession) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	response := make(chan *jsonrpc.Response, 1)
	s.mu.Lock()
	s.last++
	name := fmt.Sprint("input-", s.last)
	s.pending[name] = response
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, name)
	}()
	id, err := jsonrpc.MakeID(name)
	if err != nil {
		return nil, err
	}
	if !s.send(ctx, &jsonrpc.Request{ID: id, Method: method, Params: params}) {
		return nil, s.endError(ctx)
	}
	select {
	case r := <-response:
		if r.Error != nil {
			return nil, toError(r.Error)
		}
		return r.Result, nil
	case <-ctx.Done():
		cancel, err := encode(map[string]any{"requestId": name, "reason": context.Cause(ctx).Error()})
		if err == nil {
			s.send(context.WithoutCancel(ctx), &jsonrpc.Request{Method: wire.MethodNotificationsCancelled, Params: cancel})
		}
		return nil, s.endError(ctx)
	case <-s.done:
		return nil, s.endError(ctx)
	}
}

// endError returns the error of a request without response.
func (s *inputSession) endError(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return mcp.ErrConnectionClosed
}

// notify passes a notification to the client.
func (s *inputSession) notify(method string, params json.RawMessage) {
	s.send(context.Background(), &jsonrpc.Request{Method: method, Params: params})
}

// send makes Read return m. It returns false if ctx or the session ends first.
func (s *inputSession) send(ctx context.Context, m jsonrpc.Message) bool {
	select {
	case s.in <- m:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}

// respond sends the response to a request of the client.
func (s *inputSession) respond(ctx context.Context, id jsonrpc.ID, result codec.Encoder) error {
	response := &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{
		Code: jsonrpc.CodeMethodNotFound, Message: "gosdk: the session of input requests cannot send requests: use Session of the gosdk.Client",
	}}
	if result != nil {
		raw, err := codec.Marshal(result)
		if err != nil {
			return err
		}
		response.Result, response.Error = raw, nil
	}
	s.send(ctx, response)
	return nil
}

// inputTransport is the transport of an inputSession.
type inputTransport struct{ s *inputSession }

// Connect implements [mcp.Transport].
func (t inputTransport) Connect(context.Context) (mcp.Connection, error) { return inputConn(t), nil }

type inputConn struct{ s *inputSession }

// Read implements [mcp.Connection].
func (c inputConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.s.in:
		return m, nil
	case <-c.s.done:
		return nil, mcp.ErrConnectionClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write implements [mcp.Connection]. It serves initialize and ping, and receives the responses to
// input requests.
func (c inputConn) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		name, _ := m.ID.Raw().(string)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		if response := c.s.pending[name]; response != nil {
			delete(c.s.pending, name)
			response <- m
		}
	case *jsonrpc.Request:
		switch {
		case !m.IsCall(): // the server ignores notifications
		case m.Method == wire.MethodInitialize:
			params := new(wire.InitializeRequestParams)
			if err := codec.Unmarshal(m.Params, params); err != nil {
				return err
			}
			c.s.client = params
			return c.s.respond(ctx, m.ID, c.s.server)
		case m.Method == wire.MethodPing:
			return c.s.respond(ctx, m.ID, session.Raw(`{}`))
		default:
			return c.s.respond(ctx, m.ID, nil)
		}
	}
	return nil
}

// Close implements [mcp.Connection].
func (c inputConn) Close() error {
	c.s.end()
	return nil
}

// SessionID implements [mcp.Connection].
func (inputConn) SessionID() string { return "" }
