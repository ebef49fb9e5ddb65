package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
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
	// rounds is set if the result of a modern request may be input requests.
	rounds bool
	// plain is set if the call is no task and cannot become one.
	plain  bool
	number int                       // of rounds that have ended
	tool   *tool                     // the one that is called; nil for prompts and resources
	log    atomic.Pointer[rerun.Log] // nil until the call makes input requests or runs steps
	ended  atomic.Bool               // the handler has returned
}

func newCall(ctx context.Context, p *peer) *Call { return &Call{p: p, ctx: ctx} }

// Server returns the server that the handler belongs to.
func (c *Call) Server() *Server { return c.p.s }

// Session returns the session that received the request. It may have ended while a task still runs.
// Session returns nil for a task whose handler runs again, and for calls of revisions without
// sessions. Handlers rarely need it: the other methods of Call describe the request, even without a
// session.
func (c *Call) Session() *session.Session {
	if req, ok := session.FromContext(c.ctx); ok {
		return req.Session
	}
	return c.p.session.Load()
}

// Principal returns the principal of the call, "" if there is none.
func (c *Call) Principal() string { return session.Principal(c.ctx) }

// ClientInfo returns the client info of the client: its name, version and title. It is for display
// and logs, because the client can claim to be any other. A task of a [Durable] tool has that of the
// client that created it, in each run. ClientInfo returns the zero value if the client is unknown, as
// for calls through a Stateless [streamable.Handler]. It must not be changed.
func (c *Call) ClientInfo() mcp.Implementation {
	if req, ok := session.FromContext(c.ctx); ok {
		return req.ClientInfo()
	}
	if sess := c.Session(); sess != nil && sess.Client() != nil {
		return sess.Client().ClientInfo
	}
	return mcp.Implementation{}
}

// ClientCapabilities returns the capabilities of the client, or nil if the client is unknown; see
// [Call.ClientInfo]. They must not be changed.
func (c *Call) ClientCapabilities() *mcp.ClientCapabilities {
	if req, ok := session.FromContext(c.ctx); ok {
		return req.ClientCapabilities()
	}
	if sess := c.Session(); sess != nil && sess.Client() != nil {
		return &sess.Client().Capabilities
	}
	return nil
}

// Revision returns the protocol revision of the call. For a task, it is that of the request that
// created the task.
func (c *Call) Revision() mcp.Revision {
	if req, ok := session.FromContext(c.ctx); ok {
		return revision(req)
	}
	if sess := c.Session(); sess != nil {
		return sess.Revision()
	}
	return latest()
}

// traits returns the traits of the revision of the call. If that is unknown, they are those of
// sessions.
func (c *Call) traits() (t mcp.Traits) {
	if req, ok := session.FromContext(c.ctx); ok {
		t = req.Traits()
	}
	return t
}

// Meta returns the _meta of the request. It is never nil, and must not be changed. A recovered task
// has the _meta of the request that created it.
func (c *Call) Meta() *mcp.RequestMetaObject {
	if req, ok := session.FromContext(c.ctx); ok {
		if meta, err := req.Meta(); err == nil { // otherwise the request was rejected
			return meta
		}
	}
	return new(mcp.RequestMetaObject)
}

// Header returns the header of the HTTP request in which the call arrived, or nil if it did not
// arrive over HTTP. For a task, it is the header of the request that created the task, as long as
// the task runs in the process that created it. A recovered task has none, because headers are
// never persisted. The header must not be changed. It may contain cookies and other credentials,
// but not the access token if the Auth of the handler has verified it: that is for this server
// alone.
//
// As long as Header returns the header, the context of the handler has the values that HTTP
// middleware adds to the context of the HTTP request.
func (c *Call) Header() http.Header {
	header, _ := transport.HTTP(c.ctx)
	return header
}

// RemoteAddr returns the address from which the HTTP request of [Call.Header] was received, as
// "IP:port", or "" if there is none. Behind a proxy, it is the address of the proxy.
func (c *Call) RemoteAddr() string {
	_, addr := transport.HTTP(c.ctx)
	return addr
}

// Task returns the task that the call runs as; ok is false if it is a plain call. A call of a
// [Durable] tool by a client with the Tasks extension is a plain one until its first operation, such
// as a [Step].
func (c *Call) Task() (run *task.Run, ok bool) {
	if c.plain {
		return nil, false
	}
	return task.FromContext(c.ctx)
}

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

// client returns a sender of input requests to the client, except for those of a plain modern call,
// which go in its result; see [Call.ask]. A user may take long to respond, so requests of a plain
// call have the timeout [Limits.InputTimeout]. Requests of a task have no timeout, because a task
// waits for its client to reconnect.
func (c *Call) client() mcp.ToClient {
	to, ok := session.PeerFrom(c.ctx)
	if !ok {
		return mcp.ToClient{Caller: noClient{}}
	}
	if _, isTask := c.Task(); !isTask {
		if sess := c.Session(); sess != nil {
			return mcp.ToClient{Caller: sess.With(session.Timeout(c.p.s.cfg.Limits.InputTimeout))}
		}
	}
	return mcp.ToClient{Caller: to}
}

// inRounds reports whether input requests of the call go in its result: it is modern and no task.
func (c *Call) inRounds() bool {
	if !c.traits().InputInResults {
		return false
	}
	_, isTask := c.Task()
	return !isTask
}

// noClient fails all requests of a call without a client.
type noClient struct{}

func (noClient) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, session.ErrClosed
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
