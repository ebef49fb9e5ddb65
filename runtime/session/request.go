package session

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Handler answers a request of the peer, or takes a notification, whose result is ignored. A nil result without an
// error is the empty one. A [*jsonrpc.Error] anywhere in the chain of an error goes to the peer as it is; any
// other error becomes one with [jsonrpc.CodeInternalError] and its text.
//
// Each request has a goroutine of its own, and ctx ends when the peer cancels it or the session ends. Notifications
// come one at a time, in the order they were sent; ctx ends with the session.
type Handler func(ctx context.Context, req *Request) (codec.Encoder, error)

// Middleware wraps a [Handler].
type Middleware func(next Handler) Handler

// Request is a request or a notification of the peer. Its fields are not changed once a [Handler] has it; a
// middleware that wants to hand on something else calls [Request.Clone] first.
type Request struct {
	ID      jsonrpc.ID // the zero ID for a notification
	Method  string
	Params  json.RawMessage // an object, or nil if there are none; a part of the message, not to be changed
	Session *Session        // what it came through; nil for one that is served again, outside of any session

	meta struct {
		once sync.Once
		mcp.RequestMetaObject
		err  error
		long bool // more than maxKeptMeta: it is read each time
	}
	state  *serving        // nil for a notification
	values context.Context // that came with a notification, or nil
}

// IsNotification reports whether the message is a notification.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Clone returns a copy that may be changed. Meta is read anew from its Params; cancellation and progress are still
// those of the original.
func (r *Request) Clone() *Request {
	return &Request{ID: r.ID, Method: r.Method, Params: r.Params, Session: r.Session, state: r.state}
}

// maxKeptMeta is how many bytes a _meta may have that a request keeps decoded. Many small members take
// several times the memory of their text, which no limit counts.
const maxKeptMeta = 4 << 10

// Meta returns the _meta of the params; it is empty if there is none. It fails if it has members of the wrong type.
// A _meta of up to 4 KiB is read once, and shared. A longer one is read by each call.
func (r *Request) Meta() (*mcp.RequestMetaObject, error) {
	r.meta.once.Do(func() {
		raw, ok := member(r.Params, "_meta")
		if r.meta.long = len(raw) > maxKeptMeta; ok && !r.meta.long {
			r.meta.err = codec.Unmarshal(raw, &r.meta.RequestMetaObject)
		}
	})
	if r.meta.long {
		meta := new(mcp.RequestMetaObject)
		raw, _ := member(r.Params, "_meta")
		if err := codec.Unmarshal(raw, meta); err != nil {
			return nil, err
		}
		return meta, nil
	}
	if r.meta.err != nil {
		return nil, r.meta.err
	}
	return &r.meta.RequestMetaObject, nil
}

// ProgressToken returns the token under which the peer wants progress, or the zero token. A token of more than 1024
// bytes counts as none.
func (r *Request) ProgressToken() mcp.ProgressToken {
	meta, err := r.Meta()
	if err != nil || longer(meta.ProgressToken, maxID) {
		return mcp.ProgressToken{}
	}
	return meta.ProgressToken
}

// Task returns the raw task member of the params, by which the peer asks for a task; ok is false if there is none.
func (r *Request) Task() (task json.RawMessage, ok bool) { return member(r.Params, "task") }

// Progress returns what reports progress of this request. Its reports go nowhere if the peer asked for none, and
// after the request was answered.
func (r *Request) Progress() *Reporter {
	if r.state == nil {
		return nil
	}
	return r.state.s.inbound.progress(r.state, r)
}

// Keep makes the request immune to cancellation: the peer's notifications/cancelled is ignored from now on, and the
// answer is sent. It reports false if the request was cancelled before. It is for requests that have become a
// task, which has a way of its own to be cancelled (MCP cancellation, "Behavior Requirements").
func (r *Request) Keep() bool { return r.state == nil || r.state.s.inbound.keep(r.state) }

// Detach replaces the Params of the request by params, a copy with the same _meta, so that the
// request no longer holds its message in memory. Use it for a request whose context outlives it, such as one that has
// become a task. Only the handler of the request may call it, and not concurrently with other uses
// of the request.
func (r *Request) Detach(params json.RawMessage) {
	r.Params = params
}

type requestKey struct{}

// FromContext returns the request that is being served under ctx; ok is false if there is none.
func FromContext(ctx context.Context) (req *Request, ok bool) {
	req, ok = ctx.Value(requestKey{}).(*Request)
	return req, ok
}

// NewContext returns a context under which what is sent belongs to req: it takes the way to the peer that req came
// on. The contexts of handlers are such. For work that outlives the request it came with, like that of a task,
// the context of a later request can be made its own.
func NewContext(ctx context.Context, req *Request) context.Context {
	return context.WithValue(ctx, requestKey{}, req)
}

// Principal returns on whose authority the request being served under ctx was sent: what the transport found out,
// or else what the session's [Config] says.
func Principal(ctx context.Context) string {
	if p, ok := transport.Principal(ctx); ok {
		return p
	}
	if req, ok := FromContext(ctx); ok && req.Session != nil {
		return req.Session.cfg.Principal
	}
	return ""
}
