package session

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Peer is the requestor of the work that a handler does. The handler sends requests with Call and
// notifications with Notify, and reports its progress with Report.
type Peer interface {
	jsonrpc.Caller
	jsonrpc.Notifier
	Report(Progress) error
}

type peerKey struct{}

// WithPeer returns a context for which [PeerFrom] returns p. It is for work on behalf of a request
// that reaches its requestor in another way, such as the work of a task.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFrom returns the requestor of the work under ctx: the Peer of [WithPeer] or, without one, the
// requestor of the request that is being served. ok is false if there is neither.
func PeerFrom(ctx context.Context) (p Peer, ok bool) {
	if p, ok = ctx.Value(peerKey{}).(Peer); ok {
		return p, true
	}
	req, ok := FromContext(ctx)
	switch {
	case ok && req.modern != nil:
		return modernRequestor{req}, true
	case ok && req.Session != nil:
		return requestor{req}, true
	}
	return nil, false
}

// requestor is the Peer that has sent a request.
type requestor struct{ req *Request }

func (r requestor) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	return r.req.Session.Call(ctx, method, params)
}

func (r requestor) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return r.req.Session.Notify(ctx, method, params)
}

func (r requestor) Report(p Progress) error { return r.req.Progress().Report(p) }
