package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Call is a request that a handler serves, as a task or not: the way back to the client that has
// sent it. What a task sends reaches its client wherever that is by then. Its methods may be called
// by many goroutines, until the handler returns. The zero Call is not usable: its methods panic.
type Call struct {
	p *peer
	// ctx is that of the handler. What the call knows is in its values, and looked up when it is asked for, which
	// few calls are.
	ctx context.Context
}

func newCall(ctx context.Context, p *peer) *Call { return &Call{p, ctx} }

// Server returns the server that the handler belongs to.
func (c *Call) Server() *Server { return c.p.s }

// Session returns the session that the request came through, which may be over when a task still runs; nil for a task
// that an earlier process has left.
func (c *Call) Session() *session.Session {
	if req, ok := session.FromContext(c.ctx); ok {
		return req.Session
	}
	return c.p.session.Load()
}

// Principal returns on whose authority the client acts.
func (c *Call) Principal() string { return session.Principal(c.ctx) }

// Task returns the task that the call runs as; ok is false if it is a plain call.
func (c *Call) Task() (run *task.Run, ok bool) { return task.FromContext(c.ctx) }

// Progress reports how far the call is. The value grows with every report; total is the value at which all is done,
// or 0 if that is unknown. The message is for people, and may be empty. It fails with [session.ErrNotIncreasing], or
// with [session.ErrProgressOver] after the end. If the client asked for no progress nothing is sent.
func (c *Call) Progress(value, total float64, message string) error {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return nil
	}
	p := session.Progress{Value: value, Message: message}
	if total != 0 {
		p.Total = &total
	}
	return to.Report(p)
}

// Notify sends any notification to the client.
func (c *Call) Notify(ctx context.Context, method string, params codec.Encoder) error {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return session.ErrClosed
	}
	return to.Notify(ctx, method, params)
}

// client returns a sender of requests to the client. A user may take long to answer, so they have
// the InputTimeout. Requests of a task are limited by ctx alone, as a task waits for its client.
func (c *Call) client() mcp.ToClient {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return mcp.ToClient{Caller: nobody{}}
	}
	if open := c.Session(); open != nil {
		if _, isTask := c.Task(); !isTask {
			return mcp.ToClient{Caller: open.With(session.Timeout(c.p.s.cfg.InputTimeout))}
		}
	}
	return mcp.ToClient{Caller: to}
}

// nobody is the client of a call that has none.
type nobody struct{}

func (nobody) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, session.ErrClosed
}

// capabilities are those of the client; nil if that is not known.
func (c *Call) capabilities() *mcp.ClientCapabilities {
	open := c.Session()
	if open == nil || open.Client() == nil {
		return nil
	}
	return &open.Client().Capabilities
}

// handler serves requests of one peer.
type handler struct {
	mcp.UnimplementedServerHandler
	p *peer
}

// maxQuoted is how many bytes of a peer's text an error repeats.
const maxQuoted = 200

// invalidParams returns an error that refuses params. It shortens the peer's texts.
func invalidParams(format string, args ...any) error {
	for i, arg := range args {
		switch text := arg.(type) {
		case string:
			args[i] = boundary.Text(text, maxQuoted)
		case mcp.LoggingLevel:
			args[i] = boundary.Text(string(text), maxQuoted)
		}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
