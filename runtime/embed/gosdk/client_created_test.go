package gosdk_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// TestPlainCallFailsIfTaskIsCreated: without this package, the SDK decodes the task as an empty
// result and a success.
func TestPlainCallFailsIfTaskIsCreated(t *testing.T) {
	check := func(t *testing.T, c *gosdk.Client, tool string) {
		t.Helper()
		r, err := c.Session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		e, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			t.Fatalf("got %v, %v", r, err)
		}
		found := regexp.MustCompile(`^gosdk: the call has created task "(.+)": call the tool with gosdk.Client.CallTool, or use AttachTool$`).FindStringSubmatch(e.Message)
		if found == nil {
			t.Fatalf("got %v", err)
		}
		if tool == "job" {
			if got, _, err := (testHandle{c.AttachTool(found[1])}).Text(t.Context()); got != "accept blue" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
	}
	connect := func(t *testing.T, transport mcp.Transport) *gosdk.Client {
		t.Helper()
		c, err := gosdk.Connect(t.Context(), newClientWith(&mcp.ClientCapabilities{
			Extensions: map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
		}), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	serve := func(conn transport.Conn) *session.Session {
		return session.Serve(conn, &wire.InitializeResult{Capabilities: wire.ServerCapabilities{Tools: &wire.ServerCapabilitiesTools{}}}, &session.Options{
			Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != wire.MethodToolsCall {
					return nil, nil
				}
				return session.Raw(`{"task":{"taskId":"1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`), nil
			},
		})
	}
	pipe := func() (transport.Conn, mcp.Transport) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		return stdio.New(in, out, stdio.Options{}), &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	}
	t.Run("stdio 2025-11-25", func(t *testing.T) {
		conn, transport := pipe()
		s := serve(conn)
		t.Cleanup(func() { s.Close() })
		check(t, connect(t, transport), "any")
	})
	t.Run("http 2025-11-25", func(t *testing.T) {
		h := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { serve(conn) }, streamable.HandlerOptions{})
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		t.Cleanup(func() { h.Close() })
		check(t, connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}), "any")
	})
	t.Run("stdio 2026-07-28", func(t *testing.T) {
		s := joinedtest.NewServer()
		t.Cleanup(func() { s.Close() })
		conn, transport := pipe()
		go s.Run(context.Background(), conn) // ends with the pipe
		check(t, connect(t, transport), "job")
	})
	t.Run("http 2026-07-28", func(t *testing.T) {
		s := joinedtest.NewServer()
		t.Cleanup(func() { s.Close() })
		web := httptest.NewServer(must.Get(s.Handler(nil)))
		t.Cleanup(web.Close)
		check(t, connect(t, &mcp.StreamableClientTransport{Endpoint: web.URL}), "job")
	})
}
