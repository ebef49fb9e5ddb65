package session

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
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
	if !ok || req.Session == nil && req.state == nil {
		return nil, false
	}
	return requestor{req}, true
}

// requestor is the Peer that has sent a request. In revisions without sessions, it receives no
// requests, and only notifications that belong to its request, until that is answered.
type requestor struct{ req *Request }

func (r requestor) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	if s := r.req.Session; s != nil {
		return s.Call(ctx, method, params)
	}
	return nil, &CapabilityError{Method: method, Revision: r.req.revision}
}

func (r requestor) Notify(ctx context.Context, method string, params codec.Encoder) (err error) {
	if s := r.req.Session; s != nil {
		return s.Notify(ctx, method, params)
	}
	defer boundary.Catch(&err)
	if req, _ := FromContext(ctx); req != r.req {
		ctx = requestInternals{r.req}.NewContext(ctx)
	}
	_, err = r.req.state.side.sender(ctx, &Call{Method: method, Params: params, Notification: true})
	return err
}

func (r requestor) Report(p Progress) error { return requestInternals{r.req}.Progress().Report(p) }
