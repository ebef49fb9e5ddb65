package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Call is a request that a handler serves, as a task or not: the way back to the client that has sent it. What a task
// sends reaches its client wherever that is by then. Its methods may be called by many goroutines, until the handler
// returns.
type Call struct {
	p         *peer
	session   *session.Session // nil for a task that an earlier process has left
	to        session.Peer     // nil if there is nobody
	run       *task.Run        // nil unless it is a task
	principal string
}

func newCall(ctx context.Context, p *peer) *Call {
	c := &Call{p: p, principal: session.Principal(ctx)}
	c.to, _ = session.PeerFrom(ctx)
	c.run, _ = task.FromContext(ctx)
	if req, ok := session.FromContext(ctx); ok {
		c.session = req.Session
	}
	return c
}

// Server returns the server that the handler belongs to.
func (c *Call) Server() *Server { return c.p.s }

// Session returns the session that the request came through, which may be over when a task still runs; nil for a task
// that an earlier process has left.
func (c *Call) Session() *session.Session { return c.session }

// Principal returns on whose authority the client acts.
func (c *Call) Principal() string { return c.principal }

// Task returns the task that the call runs as; ok is false if it is a plain call.
func (c *Call) Task() (run *task.Run, ok bool) { return c.run, c.run != nil }

// Progress reports how far the call is. The value grows with every report; total is the value at which all is done,
// or 0 if that is unknown. The message is for people, and may be empty. It fails with [session.ErrNotIncreasing], or
// with [session.ErrProgressOver] after the end. If the client asked for no progress nothing is sent.
func (c *Call) Progress(value, total float64, message string) error {
	if c.to == nil {
		return nil
	}
	p := session.Progress{Value: value, Message: message}
	if total != 0 {
		p.Total = &total
	}
	return c.to.Report(p)
}

// Notify sends any notification to the client.
func (c *Call) Notify(ctx context.Context, method string, params codec.Encoder) error {
	if c.to == nil {
		return session.ErrClosed
	}
	return c.to.Notify(ctx, method, params)
}

// client sends requests to the client, which people may take their time to answer: ctx alone limits them.
func (c *Call) client() mcp.ToClient {
	switch {
	case c.to == nil:
		return mcp.ToClient{Caller: nobody{}}
	case c.run == nil && c.session != nil:
		return mcp.ToClient{Caller: c.session.With(session.Timeout(0))}
	}
	return mcp.ToClient{Caller: c.to}
}

// nobody is the client of a call that has none.
type nobody struct{}

func (nobody) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, session.ErrClosed
}

// capabilities are those of the client; nil if that is not known.
func (c *Call) capabilities() *mcp.ClientCapabilities {
	if c.session == nil || c.session.Client() == nil {
		return nil
	}
	return &c.session.Client().Capabilities
}

// handler serves requests of one peer.
type handler struct {
	mcp.UnimplementedServerHandler
	p *peer
}

// invalidParams refuses params.
func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
