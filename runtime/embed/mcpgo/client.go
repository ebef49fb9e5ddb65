package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	wireclient "github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// Client is a client of mcp-go that can call tools as tasks, in all revisions that have tasks. It
// uses one connection for its Client and for tasks. Its methods are safe for concurrent use, once
// Initialize of its Client has returned.
//
// The handlers of the options serve the input requests of tasks. Over HTTP in a revision with
// sessions, mcp-go ends their contexts after 30 seconds. The handlers of
// [client.Client.OnNotification] receive all notifications, including those about tasks.
type Client struct {
	// Client is the client of mcp-go. Call its Start and Initialize before the methods of this
	// type. Its CallTool fails if the server responds with a task.
	Client *client.Client

	tap *clientTap

	mu     sync.Mutex
	joined *wireclient.Client // nil until the first use
	number int                // of the handshake that joined belongs to
	closed bool
}

// NewClient returns a client with a transport, like [client.NewClient]. Call Close after use. The
// transport of its Client wraps t.
func NewClient(t transport.Interface, o ...client.ClientOption) *Client {
	tap, wrapped := newClientTap(t)
	return &Client{Client: client.NewClient(wrapped, o...), tap: tap}
}

// Close closes the connection and waits for the handlers of input requests of tasks. Tasks continue
// at the server.
func (c *Client) Close() error {
	c.mu.Lock()
	own := c.joined
	c.closed = true
	c.mu.Unlock()
	var err error
	if own != nil {
		err = own.Close()
	}
	return errors.Join(err, c.Client.Close())
}

// session returns the joined session. The first call after each handshake of the Client opens it.
func (c *Client) session(ctx context.Context) (*wireclient.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := c.tap.handshake()
	switch {
	case c.closed:
		return nil, session.ErrClosed
	case latest.number == 0:
		return nil, errors.New("mcpgo: client is not initialized")
	case c.joined != nil && c.number == latest.number:
		return c.joined, nil
	}
	version := c.Client.ProtocolVersion()
	server, err := joined.ReadServer(version, latest.result)
	if err != nil {
		return nil, err
	}
	own, err := latest.client()
	if err != nil {
		return nil, err
	}
	if c.joined != nil {
		c.joined.Session().Internals(boundary.Caller{}).StartClose()
	}
	conn := c.tap.open(version, latest.result)
	opened, err := joined.Open(ctx, conn, joined.Config{
		Client: own, Server: server, Request: c.tap.input,
		Notify: func(string, json.RawMessage) {}, // the handlers of the Client have received it
	})
	if err != nil {
		return nil, fmt.Errorf("mcpgo: connect: %w", err)
	}
	c.joined, c.number = opened, latest.number
	return opened, nil
}

// CallTool calls a tool as a task and returns once the server has created the task.
//
// In a revision with sessions, it fails with [requestor.ErrNotAsTask] if the tool does not
// support tasks, and with a [*session.CapabilityError] if the server does not. In 2026-07-28, the
// server decides whether the call becomes a task: if it returns the result, the id of the handle
// is "".
//
// The progress token in the params is ignored; see [requestor.Progress].
func (c *Client) CallTool(ctx context.Context, request mcp.CallToolRequest, opts ...requestor.Option) (*Handle, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	ctx, arguments, err := callParams(ctx, request)
	if err != nil {
		return nil, err
	}
	h, err := s.StartTool(ctx, request.Params.Name, arguments, opts...)
	if err != nil {
		return nil, withDetails(err)
	}
	return &Handle{h}, nil
}

// Invoke calls a tool and waits for the result. The call is a task if the tool requires one, or if
// the server decides so. If ctx ends first, the call or the task is cancelled.
func (c *Client) Invoke(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	s, err := c.session(ctx)
	if err != nil {
		return nil, err
	}
	ctx, arguments, err := callParams(ctx, request)
	if err != nil {
		return nil, err
	}
	return decodeResult(s.CallTool(ctx, request.Params.Name, arguments))
}

// callParams returns the arguments of a call, and a context for its _meta and its header.
func callParams(ctx context.Context, request mcp.CallToolRequest) (context.Context, any, error) {
	p := request.Params
	if p.Task != nil || len(p.InputResponses) > 0 || p.RequestState != "" {
		return nil, nil, fmt.Errorf("mcpgo: call of tool %q: Task, InputResponses and RequestState must be empty", p.Name)
	}
	if p.Meta != nil && len(p.Meta.AdditionalFields) > 0 {
		meta, err := encode(p.Meta)
		if err != nil {
			return nil, nil, err
		}
		ctx = joined.WithMeta(ctx, meta)
	}
	if request.Header != nil {
		ctx = context.WithValue(ctx, headerKey{}, request.Header)
	}
	if p.Arguments == nil {
		return ctx, nil, nil
	}
	arguments, err := encode(p.Arguments)
	return ctx, arguments, err
}

// AttachTool returns a handle for an existing task of a tool call. It sends nothing. It fails if
// the Client is not initialized.
func (c *Client) AttachTool(id string, opts ...requestor.Option) (*Handle, error) {
	s, err := c.session(context.Background())
	if err != nil {
		return nil, err
	}
	return &Handle{s.AttachTool(id, opts...)}, nil
}

// List iterates over the tasks that the server lists for this client, in a revision with sessions.
func (c *Client) List(ctx context.Context) iter.Seq2[wire.Task, error] {
	return func(yield func(wire.Task, error) bool) {
		s, err := c.session(ctx)
		if err != nil {
			yield(wire.Task{}, err)
			return
		}
		s.Tasks(ctx)(yield)
	}
}

// Handle stands for a task. Its methods are safe for concurrent use; see [requestor.Handle].
type Handle struct {
	*requestor.Handle[*wire.CallToolResult]
}

// Result waits until the task is terminal and returns its result; see
// [requestor.Handle.Result]. The error of a failed task wraps a [*jsonrpc.Error] and the error
// of mcp-go for its code. The error of a cancelled task is task.ErrCancelled.
func (h *Handle) Result(ctx context.Context) (*mcp.CallToolResult, error) {
	return decodeResult(h.Handle.Result(ctx))
}

// Raw is like Result, and returns the result as JSON, with all members that the server has sent.
func (h *Handle) Raw(ctx context.Context) (json.RawMessage, error) {
	r, err := h.Handle.Result(ctx)
	if err != nil {
		return nil, withDetails(err)
	}
	return codec.Marshal(r)
}

// Cancel cancels the task and returns its state; see [requestor.Handle.Cancel].
func (h *Handle) Cancel(ctx context.Context) (wire.Task, error) {
	state, err := h.Handle.Cancel(ctx)
	return state, withDetails(err)
}

// decodeResult converts a result to the type of mcp-go.
func decodeResult(r *wire.CallToolResult, err error) (*mcp.CallToolResult, error) {
	if err != nil {
		return nil, withDetails(err)
	}
	raw, err := codec.Marshal(r)
	if err != nil {
		return nil, err
	}
	return decode[mcp.CallToolResult](raw)
}

// withDetails adds the error of mcp-go for its code to an error response of the server.
func withDetails(err error) error {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return err
	}
	return &responseErrors{err, detailsOf(e).AsError()}
}

type responseErrors struct {
	error
	sdk error
}

func (e *responseErrors) Unwrap() []error { return []error{e.error, e.sdk} }

// detailsOf converts an error to the type of mcp-go.
func detailsOf(e *jsonrpc.Error) *mcp.JSONRPCErrorDetails {
	d := &mcp.JSONRPCErrorDetails{Code: int(e.Code), Message: e.Message}
	if len(e.Data) > 0 {
		d.Data = e.Data
	}
	return d
}
