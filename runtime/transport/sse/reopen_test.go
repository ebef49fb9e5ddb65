package sse_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// testServer is a server whose sessions the test can end.
type testServer struct {
	url        string
	sessions   chan *session.Session
	asked      chan bool    // receives when the tool sends an input request
	lists      atomic.Int32 // how often tools/list was served
	status     atomic.Int32 // of all responses; 0 for the usual ones
	rejected   chan bool    // receives when a stream is rejected with status
	rejectNext atomic.Bool  // the next message is rejected with status 404
	revision   atomic.Value // the only supported mcp.Revision; "" for all
}

func startTestServer(t *testing.T) *testServer {
	s := &testServer{sessions: make(chan *session.Session, 10), asked: make(chan bool, 10), rejected: make(chan bool, 1)}
	s.revision.Store(mcp.Revision(""))
	h := sse.NewHandler(func(_ *http.Request, conn transport.Conn) {
		cfg := &session.Options{Handler: s.handle}
		if r := s.revision.Load().(mcp.Revision); r != "" {
			cfg.Revisions = []mcp.Revision{r}
		}
		s.sessions <- session.Serve(conn, &mcp.InitializeResult{
			ServerInfo:   mcp.Implementation{Name: "test server", Version: "1"},
			Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
		}, cfg)
	}, sse.HandlerOptions{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := int(s.status.Load()); status != 0 {
			w.WriteHeader(status)
			if r.Method == "GET" {
				select {
				case s.rejected <- true:
				default:
				}
			}
			return
		}
		if r.Method == "POST" && s.rejectNext.Swap(false) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		h.Close()
		server.Close()
	})
	s.url = server.URL
	return s
}

// handle serves tools/list and tools/call. For the latter it sends roots/list to the client and
// waits for the answer.
func (s *testServer) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	switch req.Method {
	case "tools/list":
		s.lists.Add(1)
		return &mcp.ListToolsResult{Tools: []mcp.Tool{}}, nil
	case "tools/call":
		s.asked <- true
		_, err := req.Session.Call(ctx, "roots/list", nil)
		return nil, err
	}
	return nil, jsonrpc.MethodNotFound(req.Method)
}

// blockingClient is a client that does not answer roots/list. It waits until the request is
// cancelled.
type blockingClient struct {
	mcp.UnimplementedClientHandler
	asked, cancelled chan error
}

func (g blockingClient) ListRoots(ctx context.Context, _ *mcp.RequestParams) (*mcp.ListRootsResult, error) {
	g.asked <- nil
	<-ctx.Done()
	g.cancelled <- context.Cause(ctx)
	return nil, ctx.Err()
}

// connect opens a session with the server. It returns both sides, and a channel that receives the
// server's name when the session is reopened.
func (s *testServer) connect(t *testing.T, g blockingClient) (c *session.Session, server *session.Session, reopened chan string) {
	t.Helper()
	reopened = make(chan string, 10)
	o := httpclient.Options{Retries: httpclient.Retries{Delay: time.Millisecond, MaxDelay: 10 * time.Millisecond}}
	c, err := session.Connect(t.Context(), dial(t, s.url, o), &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "test client", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Roots: &mcp.ClientCapabilitiesRoots{}},
	}, &session.Options{
		Handler: sessiontest.ClientHandler(g, nil),
		Hooks:   session.Hooks{Reopened: func(result *mcp.InitializeResult) { reopened <- result.ServerInfo.Name }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	server = <-s.sessions
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, server, reopened
}

// When a stream breaks, the requests of its session are lost. The client opens another one. Each
// stream has its own endpoint for the messages of its session.
//
// Proves LEGACY-04.
func TestClientReopensAfterBrokenStream(t *testing.T) {
	s := startTestServer(t)
	g := blockingClient{asked: make(chan error, 10), cancelled: make(chan error, 10)}
	c, server, reopened := s.connect(t, g)
	lost := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "tools/call", session.Raw(`{"name":"x"}`))
		lost <- err
	}()
	<-g.asked
	server.Close()
	if err := <-lost; !errors.Is(err, transport.ErrSessionLost) {
		t.Errorf("the unanswered call: %v", err)
	}
	if err := <-g.cancelled; !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the unanswered input request: %v", err)
	}
	for range 3 { // before and after the new stream is open
		if _, err := (mcp.ToServer{Caller: c}).ListTools(t.Context(), nil); err != nil {
			t.Errorf("a call after the loss: %v", err)
		}
	}
	if got := <-reopened; got != "test server" {
		t.Errorf("reopened with %q", got)
	}
	second := <-s.sessions
	if err := second.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if err := second.Ping(t.Context()); err != nil {
		t.Errorf("a ping through the new session: %v", err)
	}
	if n := len(s.asked); n != 1 {
		t.Errorf("the tool was called %d times", n)
	}
}

// Without a session above it, the client reports the loss, and Reopen and a further handshake
// continue on the same connection. A message of the lost session is not sent.
func TestClientReportsLostSessionAndReopens(t *testing.T) {
	s := startTestServer(t)
	c := dial(t, s.url, httpclient.Options{Retries: httpclient.Retries{Delay: time.Millisecond}})
	write := func(text string) {
		t.Helper()
		if err := c.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (m jsonrpc.Message, session uint32) {
		t.Helper()
		text, err := c.Read()
		if err == nil {
			m, err = jsonrpc.Parse(text.Text)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m, text.Session
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`
	write(initialize)
	read()
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	server := <-s.sessions
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := server.Call(t.Context(), "roots/list", nil)
		answered <- err
	}()
	request, _ := read()
	// Answer is not set: a proxy may forward answers without it.
	write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, request.ID))
	if err := <-answered; err != nil {
		t.Error(err)
	}
	server.Close()
	_, err := c.Read()
	if lost, ok := errors.AsType[*transport.SessionLostError](err); !ok || lost.Session != 1 || !errors.Is(err, transport.ErrSessionLost) {
		t.Fatalf("got %v", err)
	}
	ping := transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`), Session: 1}
	lost := func() {
		t.Helper()
		if err, ok := errors.AsType[*transport.SessionLostError](c.Write(t.Context(), ping)); !ok || err.Session != 1 {
			t.Errorf("writing in the lost session: %v", err)
		}
	}
	lost()
	if n, err := c.Reopen(t.Context()); n != 2 || err != nil {
		t.Fatalf("reopened as %d, %v", n, err)
	}
	lost()
	write(initialize)
	read()
	write(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if m, session := read(); m.Kind != jsonrpc.KindResponse || session != 2 {
		t.Errorf("got %+v in session %d", m, session)
	}
}

// While the server is not available, messages wait until their timeout. A proxy may answer for the
// server meanwhile.
func TestCallWaitsForUnavailableServer(t *testing.T) {
	for _, status := range []int32{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusOK} {
		t.Run(http.StatusText(int(status)), func(t *testing.T) { testUnavailableServer(t, status) })
	}
}

func testUnavailableServer(t *testing.T, status int32) {
	s := startTestServer(t)
	c, server, reopened := s.connect(t, blockingClient{})
	s.status.Store(status)
	server.Close()
	<-s.rejected // the client has tried to open a new stream
	if _, err := c.With(session.Timeout(time.Millisecond)).Call(t.Context(), "tools/list", nil); !errors.Is(err, session.ErrTimeout) {
		t.Errorf("a call with a short timeout: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), "tools/list", nil)
		done <- err
	}()
	s.status.Store(0)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	<-reopened
	if got := s.lists.Load(); got != 1 {
		t.Errorf("tools/list was served %d times", got)
	}
}

// A server may drop a session while its stream is open.
func TestClientReopensAfterStatus404(t *testing.T) {
	s := startTestServer(t)
	c, _, reopened := s.connect(t, blockingClient{})
	s.rejectNext.Store(true)
	_, err := c.Call(t.Context(), "tools/list", nil)
	status, _ := errors.AsType[*httpclient.StatusError](err)
	if !errors.Is(err, transport.ErrSessionLost) || status == nil || status.Code != http.StatusNotFound {
		t.Errorf("got %v", err)
	}
	<-reopened
	if _, err := c.Call(t.Context(), "tools/list", nil); err != nil {
		t.Errorf("a call after the loss: %v", err)
	}
}

func TestClientEndsIfReopenFails(t *testing.T) {
	for name, setUp := range map[string]func(*testServer){
		"stream is rejected":   func(s *testServer) { s.status.Store(http.StatusForbidden) },
		"revision has changed": func(s *testServer) { s.revision.Store(mcp.Revision20241105) },
	} {
		t.Run(name, func(t *testing.T) {
			s := startTestServer(t)
			c, server, _ := s.connect(t, blockingClient{})
			setUp(s)
			server.Close()
			if err := c.Wait(); err != nil {
				t.Error(err)
			}
			_, err := c.Call(t.Context(), "tools/list", nil)
			if !errors.Is(err, session.ErrClosed) || !errors.Is(err, transport.ErrSessionLost) || strings.Contains(err.Error(), "sessionId") {
				t.Errorf("a call after the end fails with %v", err)
			}
		})
	}
}
