package session

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// ServerHandler returns a Handler for a server: requests go to h and notifications to n, either of which may be nil.
// Params are checked against the schema of the session's revision first; faults are answered with
// [jsonrpc.CodeInvalidParams]. Those of a request without a session were checked when it came.
func ServerHandler(h mcp.ServerHandler, n mcp.ServerNotificationHandler) Handler {
	return func(ctx context.Context, req *Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchServerNotification(ctx, n, req.revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchServer(ctx, h, req.revision(), req.Method, req.Params)
		}
		return nil, unhandled(req)
	}
}

// ClientHandler is [ServerHandler] for a client.
func ClientHandler(h mcp.ClientHandler, n mcp.ClientNotificationHandler) Handler {
	return func(ctx context.Context, req *Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchClientNotification(ctx, n, req.revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchClient(ctx, h, req.revision(), req.Method, req.Params)
		}
		return nil, unhandled(req)
	}
}

// Methods returns a Handler that gives each method of the map to its handler, and all others to rest, which may be
// nil: methods of one's own, or raw access to some of the protocol's. The map must not be changed afterwards.
func Methods(handlers map[string]Handler, rest Handler) Handler {
	return func(ctx context.Context, req *Request) (codec.Encoder, error) {
		h, ok := handlers[req.Method]
		if !ok {
			h = rest
		}
		if h == nil {
			return nil, unhandled(req)
		}
		return h(ctx, req)
	}
}

// unhandled is the error for a request that nobody handles; notifications may be ignored.
func unhandled(req *Request) error {
	if req.IsNotification() {
		return nil
	}
	return jsonrpc.MethodNotFound(req.Method)
}

// revision is that of the session, or "" for a request that came from none: see Request.Session.
func (r *Request) revision() mcp.Revision {
	if r.Session == nil {
		return ""
	}
	return r.Session.Revision()
}
