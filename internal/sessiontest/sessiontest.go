// Package sessiontest connects pairs of sessions for tests:
//
//	client, server := sessiontest.Pair(t, sessiontest.Side{},
//		sessiontest.Side{Config: session.Options{Handler: handler}})
package sessiontest

import (
	"context"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Side configures one side of a pair of sessions. The zero value has no capabilities and the
// default configuration.
type Side struct {
	Client mcp.ClientCapabilities // of the client
	Server mcp.ServerCapabilities // of the server
	Config session.Options
}

// Pair returns two sessions that are connected in memory and ready. They are closed at the end of
// the test. It may be called within a bubble of testing/synctest.
func Pair(t testing.TB, client, server Side) (c, s *session.Session) {
	t.Helper()
	a, b := inmemory.Pair(inmemory.Options{})
	return Connect(t, a, b, client, server)
}

// Connect is [Pair] over two given connections.
func Connect(t testing.TB, a, b transport.Conn, client, server Side) (c, s *session.Session) {
	t.Helper()
	s = session.Serve(b, &mcp.InitializeResult{
		Capabilities: server.Server,
		ServerInfo:   mcp.Implementation{Name: "test server", Version: "1"},
	}, &server.Config)
	t.Cleanup(func() { s.Close() })
	c, err := session.Connect(context.Background(), a, &mcp.InitializeRequestParams{
		Capabilities: client.Client,
		ClientInfo:   mcp.Implementation{Name: "test client", Version: "1"},
	}, &client.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := s.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	return c, s
}

// ServerHandler returns a Handler that dispatches requests to h and notifications to n, either of
// which may be nil.
func ServerHandler(h mcp.ServerHandler, n mcp.ServerNotificationHandler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchServerNotification(ctx, n, req.Revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchServer(ctx, h, req.Revision(), req.Method, req.Params)
		}
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
}

// ClientHandler is [ServerHandler] for a client.
func ClientHandler(h mcp.ClientHandler, n mcp.ClientNotificationHandler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		switch {
		case req.IsNotification() && n != nil:
			return nil, mcp.DispatchClientNotification(ctx, n, req.Revision(), req.Method, req.Params)
		case !req.IsNotification() && h != nil:
			return mcp.DispatchClient(ctx, h, req.Revision(), req.Method, req.Params)
		}
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
}

// Methods returns a Handler that passes a request to the handler of its method, and others to rest,
// which may be nil.
func Methods(handlers map[string]session.Handler, rest session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if h := handlers[req.Method]; h != nil {
			return h(ctx, req)
		}
		if rest != nil {
			return rest(ctx, req)
		}
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
}
