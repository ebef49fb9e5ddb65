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

// Call is a request that a handler serves, as a plain call or as a task. Its methods reach the
// client that sent the request. If the call runs as a task, they reach the client even over a later
// connection. They are safe for concurrent use until the handler returns. The zero Call is not
// usable: its methods panic.
type Call struct {
	p *peer
	// ctx is the handler's context. Session, task and peer are looked up in its values on demand,
	// because few calls need them.
	ctx context.Context
}

func newCall(ctx context.Context, p *peer) *Call { return &Call{p, ctx} }

// Server returns the server that the handler belongs to.
func (c *Call) Server() *Server { return c.p.s }

// Session returns the session that received the request. It may have ended while a task still runs.
// Session returns nil for a task that was recovered from an earlier process.
func (c *Call) Session() *session.Session {
	if req, ok := session.FromContext(c.ctx); ok {
		return req.Session
	}
	return c.p.session.Load()
}

// Principal returns the principal of the call, "" if there is none.
func (c *Call) Principal() string { return session.Principal(c.ctx) }

// Task returns the task that the call runs as; ok is false if it is a plain call.
func (c *Call) Task() (run *task.Run, ok bool) { return task.FromContext(c.ctx) }

// Progress reports the progress of the call. Value must increase with every report. Total is the
// value at completion, or 0 if that is unknown. Message is for people to read and may be empty.
// Progress fails with [session.ErrNotIncreasing], or with [session.ErrProgressOver] after the end
// of the call. It does nothing if the client did not request progress.
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

// Notify sends a notification to the client. It fails with [session.ErrClosed] if the call has no
// client. If the call is a task whose client has disconnected, Notify and [Call.Log] drop the
// notification and return nil.
func (c *Call) Notify(ctx context.Context, method string, params codec.Encoder) error {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return session.ErrClosed
	}
	return to.Notify(ctx, method, params)
}

// client returns a sender of input requests to the client. A user may take long to respond, so
// requests of a plain call have the timeout [Config.InputTimeout]. Requests of a task have no
// timeout, because a task waits for its client to reconnect.
func (c *Call) client() mcp.ToClient {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return mcp.ToClient{Caller: noClient{}}
	}
	if sess := c.Session(); sess != nil {
		if _, isTask := c.Task(); !isTask {
			return mcp.ToClient{Caller: sess.With(session.Timeout(c.p.s.cfg.InputTimeout))}
		}
	}
	return mcp.ToClient{Caller: to}
}

// noClient fails all requests of a call without a client.
type noClient struct{}

func (noClient) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, session.ErrClosed
}

// capabilities returns the capabilities of the client, or nil if they are unknown.
func (c *Call) capabilities() *mcp.ClientCapabilities {
	sess := c.Session()
	if sess == nil || sess.Client() == nil {
		return nil
	}
	return &sess.Client().Capabilities
}

// handler serves requests of one peer.
type handler struct {
	mcp.UnimplementedServerHandler
	p *peer
}

// maxQuotedBytes limits the length of a client's text that an error quotes.
const maxQuotedBytes = 200

// invalidParams returns an error that rejects params. It truncates the texts among args, because
// they are from the client.
func invalidParams(format string, args ...any) error {
	for i, arg := range args {
		switch text := arg.(type) {
		case string:
			args[i] = boundary.Text(text, maxQuotedBytes)
		case mcp.LoggingLevel:
			args[i] = boundary.Text(string(text), maxQuotedBytes)
		}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}
