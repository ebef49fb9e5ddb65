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

// Call is a request that a handler serves, plainly or as a task. Its methods reach the client that
// sent the request; those of a task reach it even over a later connection. They are safe for
// concurrent use until the handler returns. The zero Call is not usable: its methods panic.
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

// Principal returns on whose authority the client acts.
func (c *Call) Principal() string { return session.Principal(c.ctx) }

// Task returns the task that the call runs as; ok is false if it is a plain call.
func (c *Call) Task() (run *task.Run, ok bool) { return task.FromContext(c.ctx) }

// Progress reports the progress of the call. Value must increase with every report. Total is the
// value at completion, or 0 if that is unknown. The message is for people and may be empty.
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

// Notify sends any notification to the client. If the call is a task whose client has disconnected,
// Notify and [Call.Log] drop the notification and return nil.
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
		return mcp.ToClient{Caller: noClient{}}
	}
	if open := c.Session(); open != nil {
		if _, isTask := c.Task(); !isTask {
			return mcp.ToClient{Caller: open.With(session.Timeout(c.p.s.cfg.InputTimeout))}
		}
	}
	return mcp.ToClient{Caller: to}
}

// noClient is the caller of a call without a client. Its requests fail.
type noClient struct{}

func (noClient) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
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
