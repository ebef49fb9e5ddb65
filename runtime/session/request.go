package session

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Handler serves a request or a notification of the peer. The result of a notification is ignored.
// A nil result without an error is the empty result. If the chain of an error has a
// [*jsonrpc.Error], that is sent to the peer. Other errors are sent with
// [jsonrpc.CodeInternalError] and their text.
//
// Each request has its own goroutine, and ctx ends when the peer cancels the request or the session
// ends. Notifications are handled one at a time, in the order in which they were sent. Their ctx
// ends with the session.
type Handler func(ctx context.Context, req *Request) (codec.Encoder, error)

// Middleware wraps a [Handler].
type Middleware func(next Handler) Handler

// Request is a request or a notification of the peer. Its fields must not be changed once a
// [Handler] has it. Middleware that passes on other values calls [Request.Clone] first.
type Request struct {
	ID     jsonrpc.ID // the zero ID for a notification
	Method string
	// Params is an object, or nil for none. It shares the memory of the message and must not be
	// changed.
	Params json.RawMessage
	// Session is the session that received the request. It is nil for a request of a
	// revision without sessions, and for a request that is re-run outside of any session.
	Session *Session

	meta atomic.Pointer[decodedMeta] // nil before Meta was called
	// capabilities is the part of Params with the capabilities of the client; nil if it was not
	// looked for, and for a request of a session.
	capabilities []byte

	revision mcp.Revision // "" if unknown; not set for a request of a session
	state    *serving     // nil for a notification in a session, and for a request that belongs to no connection
}

// decodedMeta is the decoded _meta of a request.
type decodedMeta struct {
	mcp.RequestMetaObject
	err error
}

// IsNotification reports whether the message is a notification.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Clone returns a copy whose fields may be changed. Its Meta is read from its own Params. It shares
// cancellation and progress with the original.
func (r *Request) Clone() *Request {
	return &Request{ID: r.ID, Method: r.Method, Params: r.Params, Session: r.Session, revision: r.revision, state: r.state}
}

// Traits returns the traits of the revision of the request.
func (r *Request) Traits() mcp.Traits { return r.Revision().Traits() }

// Connection returns the session of the connection over which the request arrived. A modern request
// does not belong to that session, but its client has no other way to reach it. Connection returns
// nil for a modern request over HTTP, and for a request that is re-run outside of any session.
func (r requestInternals) Connection() *Session {
	if r.Session == nil && r.state != nil {
		return r.state.conn
	}
	return r.Session
}

// State returns the State of the [Options] of the session or the Responder that has received the
// request, or nil if the request belongs to no connection.
func (r requestInternals) State() any {
	switch {
	case r.Session != nil:
		return r.Session.cfg.inner.State
	case r.state != nil:
		return r.state.side.cfg.inner.State
	}
	return nil
}

// Revision returns the protocol revision of the request: that of a modern request, or that of the
// session, or that of the stored request that is served again.
func (r *Request) Revision() mcp.Revision { return r.described().Revision() }

// ClientCapabilities returns the capabilities that the client has declared, for a modern request or
// for the session. It returns nil if they are unknown. They must not be changed.
func (r *Request) ClientCapabilities() *mcp.ClientCapabilities { return r.described().Capabilities() }

// ClientExtension returns the settings of an extension that the client has declared, for a modern
// request or for the session. ok is false if it has not. The settings must not be changed.
func (r requestInternals) ClientExtension(id string) (settings json.RawMessage, ok bool) {
	return r.described().Extension(id)
}

// ClientInfo returns what the client says of itself, or the zero value if that is unknown. It must
// not be changed.
func (r *Request) ClientInfo() mcp.Implementation { return r.described().Info() }

// maxKeptMeta is the size in bytes up to which a request keeps its decoded _meta. Many small
// members take several times the memory of their text, which no limit counts.
const maxKeptMeta = 4 << 10

// Meta returns the _meta of the params, or an empty one if there is none. It fails if a member has
// the wrong type. It decodes a _meta of up to 4 KiB once, and all calls return the same object.
// Each call decodes a longer one.
func (r *Request) Meta() (*mcp.RequestMetaObject, error) {
	meta := r.meta.Load()
	if meta == nil {
		raw, ok := codec.Member(r.Params, "_meta")
		meta = new(decodedMeta)
		if ok {
			meta.err = codec.Unmarshal(raw, &meta.RequestMetaObject)
		}
		if len(raw) <= maxKeptMeta && !r.meta.CompareAndSwap(nil, meta) {
			meta = r.meta.Load()
		}
	}
	if meta.err != nil {
		return nil, meta.err
	}
	return &meta.RequestMetaObject, nil
}

// ProgressToken returns the token for progress of this request, or the zero token if the peer does
// not ask for progress. A token of more than 1024 bytes is ignored.
func (r requestInternals) ProgressToken() mcp.ProgressToken {
	meta, err := r.Meta()
	if err != nil || longer(meta.ProgressToken, maxID) {
		return mcp.ProgressToken{}
	}
	return meta.ProgressToken
}

// Task returns the raw task member of the params, which asks for a task. ok is false if there is
// none.
func (r requestInternals) Task() (task json.RawMessage, ok bool) {
	if !bytes.Contains(r.Params, []byte(`"task"`)) && bytes.IndexByte(r.Params, '\\') < 0 { // most requests
		return nil, false
	}
	return codec.Member(r.Params, "task")
}

// Progress returns the Reporter of this request. It sends nothing if the peer has not asked for
// progress, and after the request was answered.
func (r requestInternals) Progress() *reporter {
	st := r.exchange()
	if st == nil {
		return nil
	}
	return st.Progress(func() engine.Progress {
		return progress{newReporter(requestor{r.Request}, &st.side.cfg, st.ctx, r.ProgressToken())}
	}).(progress).reporter
}

// Keep makes the request immune to cancellation: from now on, the session ignores the peer's
// notifications/cancelled, and sends the answer. It returns false if the request was cancelled
// before. Use it for requests that have become a task, which is cancelled in another way (MCP
// cancellation, "Behavior Requirements").
func (r requestInternals) Keep() bool {
	st := r.exchange()
	return st == nil || st.Exchange.Keep()
}

// exchange returns the exchange of a request that is being served, or nil if the request is a
// notification over the connection of a session, has been outlived, or belongs to no connection.
func (r *Request) exchange() *serving {
	if r.state == nil || r.state.Set == nil {
		return nil
	}
	return r.state
}

// reply returns the Reply of the message of a request, or nil if there is none. r may be nil.
func (r *Request) reply() transport.Reply {
	if r == nil || r.state == nil {
		return nil
	}
	return r.state.to
}

// EndOnShutdown makes [Session.Shutdown], or Shutdown of a Responder, end the context of the
// request at once. Its cause is a [*jsonrpc.Error] with [CodeClosing], which the peer gets if the
// handler returns the error of the context or its cause. While the handler waits for the answer to
// a request to the peer, the context does not end. Use it for requests that only wait, and that the
// peer can send again without losing anything. If such a request has a connection of its own, as in
// revisions without sessions over HTTP, its context ends in the same way when its access token
// does.
func (r requestInternals) EndOnShutdown() {
	st := r.exchange()
	if st == nil {
		return
	}
	st.Yield()
	if c, ok := st.Reply.(*responded); ok {
		if to, ok := c.to.(modern.Checked); ok {
			to.Waits()
		}
	}
}

// Failure returns the error that the peer receives if the handler of the request fails with err,
// which must not be nil.
func (r requestInternals) Failure(err error) *jsonrpc.Error { return wireError(r.Traits(), err) }

// Detach replaces the Params of the request by params, a copy with the same _meta, so that the
// request no longer holds its message in memory. Its Meta is then read from the copy. Use it for a
// request whose context outlives it, such as one that has become a task. Only the handler of the
// request may call it, and not concurrently with other uses of the request.
func (r requestInternals) Detach(params json.RawMessage) {
	r.Params, r.capabilities = params, nil
	r.meta.Store(nil)
}

// Outlive returns a context with the values of ctx for work that outlives the request, such as that
// of a task. ctx is a context that the handler of the request, or of its original, has received. If
// it is that of the session itself, the state that the session holds for the request can be freed,
// and the request no longer reports progress of its own. Use only the values of the result, because
// it may be ctx.
func (r requestInternals) Outlive(ctx context.Context) context.Context {
	if c, ok := ctx.(*requestContext); ok {
		st := r.state
		if r.state = nil; r.Session == nil { // Connection, Principal and Peer still need it
			r.state = &serving{side: st.side, conn: st.conn}
		}
		return &requestContext{lazyctx.Values{Context: context.Background(), Other: c.Other}, r.Request}
	}
	return ctx
}

type requestKey struct{}

// FromContext returns the request that is being served under ctx. ok is false if there is none.
func FromContext(ctx context.Context) (req *Request, ok bool) {
	req, ok = ctx.Value(requestKey{}).(*Request)
	return req, ok
}

// NewContext returns a context in which sent messages belong to the request: a transport with a
// separate stream for each request sends them on the stream of the request. Contexts of handlers
// already have their request. It is for work that outlives its request, such as a task, to attach
// it to a later request.
func (r requestInternals) NewContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, r.Request)
}

// Stored returns a request that belongs to no connection, for a handler that serves a stored
// request again. Rev is the revision of the stored request, or "" if that is unknown. The _meta of
// the params describes the client as in revisions without sessions, or not at all.
func (requestInternals) Stored(id jsonrpc.ID, method string, params json.RawMessage, rev mcp.Revision) *Request {
	return &Request{ID: id, Method: method, Params: params, revision: rev}
}

// Principal returns the principal of the request that is being served under ctx: the principal that
// the transport has authenticated or, without one, that of the session's [Options].
func Principal(ctx context.Context) string {
	if p, ok := transport.Principal(ctx); ok {
		return p
	}
	req, ok := FromContext(ctx)
	if !ok {
		return ""
	}
	if s := (requestInternals{req}).Connection(); s != nil {
		return s.cfg.Principal
	}
	if req.state != nil {
		return req.state.side.cfg.Principal
	}
	return ""
}
