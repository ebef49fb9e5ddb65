package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// testClient is a session with a server, and the notifications that it received.
type testClient struct {
	*session.Session
	t testing.TB

	mu      sync.Mutex
	notices []notice
}

type notice struct{ Method, Params string }

// clientConfig configures a testClient.
type clientConfig struct {
	capabilities mcp.ClientCapabilities
	handler      session.Handler
	revision     mcp.Revision
}

// connect opens a session with s in memory. It ends with the test.
func connect(t testing.TB, s *server.Server, with clientConfig) *testClient {
	t.Helper()
	clientConn, serverConn := inmemory.Pair(inmemory.Options{})
	return connectOver(t, s, with, clientConn, serverConn)
}

// connectOver is connect for an existing connection, given by its two ends.
func connectOver(t testing.TB, s *server.Server, with clientConfig, clientConn, serverConn transport.Conn) *testClient {
	t.Helper()
	sess, err := s.Serve(serverConn)
	if err != nil {
		t.Fatal(err)
	}
	c := &testClient{t: t}
	cfg := &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.notices = append(c.notices, notice{req.Method, string(req.Params)})
			return nil, nil
		}
		if with.handler == nil {
			return nil, jsonrpc.MethodNotFound(req.Method)
		}
		return with.handler(ctx, req)
	}}
	if with.revision != "" {
		cfg.Revisions = []mcp.Revision{with.revision}
	}
	c.Session, err = session.Connect(t.Context(), clientConn, &mcp.InitializeRequestParams{
		Capabilities: with.capabilities, ClientInfo: mcp.Implementation{Name: "client", Version: "1"},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := sess.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// newServer returns a server. It is closed at the end of the test.
func newServer(t testing.TB, cfg server.Options) *server.Server {
	t.Helper()
	if cfg.Session.Logger == nil {
		cfg.Session.Logger = slog.New(slog.DiscardHandler)
	}
	s := server.New("test", "1", &cfg)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// must returns v. It panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// call sends a request, and returns the result, or the message and code of the error.
func (c *testClient) call(method, params string) (result string, code int64) {
	c.t.Helper()
	var p codec.Encoder
	if params != "" {
		p = session.Raw(params)
	}
	raw, err := c.Call(c.t.Context(), method, p)
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return wire.Message, wire.Code
	}
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, params, err)
	}
	return string(raw), 0
}

// expect sends a request and checks its result.
func (c *testClient) expect(method, params, want string) {
	c.t.Helper()
	got, _ := c.call(method, params)
	equalJSON(c.t, method+" "+params, want, got)
}

// expectError sends a request and checks the code of the error.
func (c *testClient) expectError(method, params string, want int64) {
	c.t.Helper()
	if got, code := c.call(method, params); code != want {
		c.t.Errorf("%s %s: got code %d (%s), want %d", method, params, code, got, want)
	}
}

// equalJSON compares JSON texts.
func equalJSON(t testing.TB, what, want, got string) {
	t.Helper()
	if diff := cmp.Diff(decoded(want), decoded(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func decoded(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return text
	}
	return v
}

// notifications returns the params of the notifications of a method so far.
func (c *testClient) notifications(method string) (params []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.notices {
		if n.Method == method {
			params = append(params, n.Params)
		}
	}
	return params
}

// text returns the text of the first block of a result.
func text(t testing.TB, result string) string {
	t.Helper()
	var r mcp.CallToolResult
	if err := codec.Unmarshal([]byte(result), &r); err != nil {
		t.Fatalf("%v: %s", err, result)
	}
	if len(r.Content) == 0 {
		return ""
	}
	block, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		t.Fatalf("no text: %s", result)
	}
	return block.Text
}

func TestShutdownDoesNotWaitForStuckHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		release := make(chan struct{})
		server.AddTool(s, "stuck", "", func(context.Context, *server.Call, struct{}) (string, error) {
			<-release
			return "", nil
		})
		c := connect(t, s, clientConfig{})
		go c.Call(context.Background(), "tools/call", session.Raw(`{"name":"stuck"}`))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(ctx) }()
		time.Sleep(time.Minute)
		select {
		case err := <-stopped:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		default:
			t.Error("Shutdown waits for a handler that ignores the end of its context")
		}
		close(release)
	})
}
