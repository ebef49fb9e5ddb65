package mcpgo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/session"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func TestPlainCallFailsIfTaskIsCreated(t *testing.T) {
	check := func(t *testing.T, c *mcpgo.Client, tool string) {
		t.Helper()
		r, err := c.Client.CallTool(t.Context(), callOf(tool, nil))
		if err == nil {
			t.Fatalf("got %v", r)
		}
		found := regexp.MustCompile(`mcpgo: the call has created task "(.+)": call the tool with mcpgo.Client.CallTool, or use AttachTool$`).FindStringSubmatch(err.Error())
		if found == nil {
			t.Fatalf("got %v", err)
		}
		if tool == "job" {
			if got, _, err := (testHandle{must(c.AttachTool(found[1]))}).Text(t.Context()); got != "accept blue" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		}
	}
	open := func(t *testing.T, over transport.Interface, version string) *mcpgo.Client {
		t.Helper()
		return connect(t, over, version, mcp.ClientCapabilities{Extensions: map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}})
	}
	const created = `{"task":{"taskId":"1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":null}}`
	serve := func(conn wiretransport.Conn) *session.Session {
		return session.Serve(conn, &wire.InitializeResult{Capabilities: wire.ServerCapabilities{Tools: &wire.ServerCapabilitiesTools{}}}, &session.Options{
			Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				if req.Method != wire.MethodToolsCall {
					return nil, nil
				}
				return session.Raw(created), nil
			},
		})
	}
	pipe := func() (wiretransport.Conn, transport.Interface) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		return stdio.New(in, out, stdio.Options{}), transport.NewIO(fromServer, toServer, nil)
	}
	overHTTP := func(t *testing.T, h http.Handler) transport.Interface {
		web := httptest.NewServer(h)
		t.Cleanup(web.Close)
		over, err := transport.NewStreamableHTTP(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		return over
	}
	t.Run("stdio 2025-11-25", func(t *testing.T) {
		conn, over := pipe()
		s := serve(conn)
		t.Cleanup(func() { s.Close() })
		c := open(t, over, mcp.ProtocolVersion20251125)
		check(t, c, "any")
		// A call that asks for a task itself gets it.
		raw, err := c.Client.GetTransport().SendRequest(t.Context(), transport.JSONRPCRequest{
			JSONRPC: "2.0", ID: mcp.NewRequestId("own"), Method: "tools/call", Params: mcp.CallToolParams{Name: "any", Task: &mcp.TaskParams{}},
		})
		if err != nil || string(raw.Result) != created {
			t.Errorf("got %v, %v", raw, err)
		}
	})
	t.Run("http 2025-11-25", func(t *testing.T) {
		h := streamable.NewHandler(func(_ *http.Request, conn wiretransport.Conn) { serve(conn) }, streamable.HandlerOptions{})
		t.Cleanup(func() { h.Close() })
		check(t, open(t, overHTTP(t, h), mcp.ProtocolVersion20251125), "any")
	})
	t.Run("stdio 2026-07-28", func(t *testing.T) {
		s := joinedtest.NewServer()
		t.Cleanup(func() { s.Close() })
		conn, over := pipe()
		go s.Run(context.Background(), conn) // ends with the pipe
		check(t, open(t, over, mcp.ProtocolVersion20260728), "job")
	})
	t.Run("http 2026-07-28", func(t *testing.T) {
		s := joinedtest.NewServer()
		t.Cleanup(func() { s.Close() })
		check(t, open(t, overHTTP(t, must(s.Handler(nil))), mcp.ProtocolVersion20260728), "job")
	})
}

func TestUninitializedClientFails(t *testing.T) {
	r, w := io.Pipe()
	c := mcpgo.NewClient(transport.NewIO(r, w, nil))
	const want = "mcpgo: client is not initialized"
	if _, err := c.CallTool(t.Context(), callOf("job", nil)); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := c.Invoke(t.Context(), callOf("job", nil)); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := c.AttachTool("a"); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for _, err := range c.List(t.Context()) {
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
	c.Close()
	if _, err := c.CallTool(t.Context(), callOf("job", nil)); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// After the server has lost the session, the client makes a second handshake and attaches to its
// task in the new session.
func TestHandleWorksAfterSecondHandshake(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	h := must(s.Handler(nil))
	var lost atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost.Load() && r.Header.Get("Mcp-Session-Id") != "" {
			http.NotFound(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer web.Close()
	over, err := transport.NewStreamableHTTP(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, over, mcp.ProtocolVersion20251125, mcp.ClientCapabilities{})
	first, err := c.CallTool(t.Context(), callOf("forever", nil))
	if err != nil {
		t.Fatal(err)
	}
	lost.Store(true)
	web.CloseClientConnections()
	if _, err := first.Result(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
	lost.Store(false)
	var again mcp.InitializeRequest
	again.Params.ProtocolVersion = mcp.ProtocolVersion20251125
	if _, err := c.Client.Initialize(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if state, err := must(c.AttachTool(first.ID())).Cancel(t.Context()); state.Status != wire.TaskStatusCancelled || err != nil {
		t.Errorf("got %v, %v", state, err)
	}
}

func TestTransportOfServesClient(t *testing.T) {
	for _, revision := range []wire.Revision{wire.Revision20251125, wire.Revision20260728} {
		t.Run(string(revision), func(t *testing.T) {
			server := joinedtest.NewServer()
			defer server.Close()
			a, b := inmemory.Pair(inmemory.Options{})
			go server.Run(context.Background(), a) // ends with the session
			s, err := session.Connect(t.Context(), b, nil, &session.Options{Revisions: []wire.Revision{revision}})
			if err != nil {
				t.Fatal(err)
			}
			c := connect(t, mcpgo.TransportOf(s), string(revision), mcp.ClientCapabilities{})
			if got, err := (testClient{c}).Plain(t.Context(), "plain"); got != "plain" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			_, err = c.Client.CallTool(t.Context(), callOf("unknown", nil))
			if !errors.Is(err, mcp.ErrInvalidParams) {
				t.Errorf("got %v", err)
			}
			c.Close()
			if err := s.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestResultsPassByteForByte(t *testing.T) {
	const result = `{"a": [1.0, 12345678901234567890, "\u0041<"], "resultType":"complete"}`
	a, b := inmemory.Pair(inmemory.Options{})
	s := session.Serve(a, &wire.InitializeResult{}, &session.Options{Handler: func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(result), nil
	}})
	defer s.Close()
	c, err := session.Connect(t.Context(), b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	over := mcpgo.TransportOf(c)
	defer over.Close()
	r, err := over.SendRequest(t.Context(), transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(int64(1)), Method: "x/any"})
	if err != nil || string(r.Result) != result {
		t.Errorf("got %v, %v", r, err)
	}
}

// The session may use the request ids of the client for other requests.
func TestCancellationByClientLeavesOtherRequests(t *testing.T) {
	type request struct {
		id  jsonrpc.ID
		ctx context.Context
	}
	started := make(chan request)
	a, b := inmemory.Pair(inmemory.Options{})
	s := session.Serve(a, &wire.InitializeResult{}, &session.Options{Handler: func(ctx context.Context, r *session.Request) (codec.Encoder, error) {
		if r.Method == "x/wait" {
			started <- request{r.ID, ctx}
			<-ctx.Done()
		}
		return session.Raw(`{}`), nil
	}})
	defer s.Close()
	c, err := session.Connect(t.Context(), b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	over := mcpgo.TransportOf(c)
	defer over.Close()
	go c.Call(t.Context(), "x/wait", nil) // ends with the session
	waiting := <-started
	var n mcp.JSONRPCNotification
	n.Method = wire.MethodNotificationsCancelled
	n.Params.AdditionalFields = map[string]any{"requestId": waiting.id}
	if err := over.SendNotification(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	// The server processes a notification of this method before it serves a later request.
	if _, err := over.SendRequest(t.Context(), transport.JSONRPCRequest{ID: mcp.NewRequestId(int64(1)), Method: "x/any"}); err != nil {
		t.Fatal(err)
	}
	if err := context.Cause(waiting.ctx); err != nil {
		t.Errorf("the other request has ended: %v", err)
	}
}

func TestFailedTaskReturnsErrorOfCode(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	web := httptest.NewServer(must(s.Handler(nil)))
	defer web.Close()
	over, err := transport.NewStreamableHTTP(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, over, mcp.ProtocolVersion20251125, mcp.ClientCapabilities{})
	_, err = must(c.AttachTool("unknown")).Result(t.Context())
	if _, ok := errors.AsType[*jsonrpc.Error](err); !ok || !errors.Is(err, mcp.ErrInvalidParams) {
		t.Errorf("got %v", err)
	}
}

func TestDecodeAndEncode(t *testing.T) {
	const text = `{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}`
	r, err := mcpgo.Decode[mcp.CallToolResult]([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := mcpgo.Encode(r); string(got) != text || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := mcpgo.Decode[mcp.CallToolResult]([]byte(`[]`)); err == nil {
		t.Error("an array was decoded")
	}
}
