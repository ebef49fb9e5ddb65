package mcpgo

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
)

// requestKey identifies an intercepted request of a Tasks.
type requestKey struct {
	session string
	id      jsonrpc.ID
}

// requests holds the intercepted requests that are being served, so that clients can cancel them.
// The SDK registers only requests that the hook has let pass.
type requests struct {
	open atomic.Int64 // number of requests in cancel

	mu     sync.Mutex
	cancel map[requestKey]context.CancelFunc
}

// add registers a request and returns its context. The caller must call remove.
func (r *requests) add(ctx context.Context, key requestKey) (_ context.Context, remove func()) {
	ctx, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.cancel[key]; exists { // the client has used the id twice
		return ctx, cancel
	}
	if r.cancel == nil {
		r.cancel = make(map[requestKey]context.CancelFunc)
	}
	r.cancel[key] = cancel
	r.open.Add(1)
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.cancel, key)
		r.open.Add(-1)
	}
}

// cancelNamed cancels the request that message names, if it is a notifications/cancelled.
func (r *requests) cancelNamed(session string, message []byte) {
	if key, ok := cancelled(session, message); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		if cancel := r.cancel[key]; cancel != nil {
			cancel()
		}
	}
}

// maxCancelled is the largest size, in bytes, of a notifications/cancelled that is parsed. The
// longest id has 1024 bytes.
const maxCancelled = 4 << 10

// cancelled returns the request that a notifications/cancelled names. ok is false for other
// messages.
func cancelled(session string, message []byte) (key requestKey, ok bool) {
	if len(message) > maxCancelled {
		return key, false
	}
	m, err := jsonrpc.ParseReceived(message)
	if err != nil || m.Method != wire.MethodNotificationsCancelled {
		return key, false
	}
	var params struct {
		RequestID jsonrpc.ID `json:"requestId"`
	}
	if json.Unmarshal(m.Params, &params) != nil {
		return key, false
	}
	return requestKey{session, jsonrpc.CanonicalID(params.RequestID)}, true
}
