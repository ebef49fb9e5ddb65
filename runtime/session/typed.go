package session

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// ServerHandler returns a Handler for a server. It dispatches requests to h and notifications to n,
// either of which may be nil. It validates params against the schema of the session's revision
// first, and answers invalid params with [jsonrpc.CodeInvalidParams]. It does not validate the
// params of a request without a session, as they were validated when it arrived.
func ServerHandler(h mcp.ServerHandler, n mcp.ServerNotificationHandler) Handler {
	return func(ctx context.Context, req *Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchServerNotification(ctx, n, req.Revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchServer(ctx, h, req.Revision(), req.Method, req.Params)
		}
		return nil, unhandled(req)
	}
}

// ClientHandler is [ServerHandler] for a client.
func ClientHandler(h mcp.ClientHandler, n mcp.ClientNotificationHandler) Handler {
	return func(ctx context.Context, req *Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchClientNotification(ctx, n, req.Revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchClient(ctx, h, req.Revision(), req.Method, req.Params)
		}
		return nil, unhandled(req)
	}
}

// Methods returns a Handler that passes a request to the handler of its method in the map, and
// others to rest. Without rest, other requests are answered with [jsonrpc.CodeMethodNotFound]. Use
// it for custom methods, or for raw access to methods of the protocol. The map must not be changed
// afterwards.
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

// unhandled returns the error for a request without a handler, or nil for a notification.
func unhandled(req *Request) error {
	if req.IsNotification() {
		return nil
	}
	return jsonrpc.MethodNotFound(req.Method)
}
