// Package sessiontest connects pairs of sessions for tests:
//
//	client, server := sessiontest.Pair(t, sessiontest.Side{},
//		sessiontest.Side{Config: session.Config{Handler: handler}})
package sessiontest

import (
	"context"
	"testing"

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
	Config session.Config
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
