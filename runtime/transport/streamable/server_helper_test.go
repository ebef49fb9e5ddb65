package streamable_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// The tests of the handler run it in a real http.Server, over pipes in a synctest bubble: time
// advances only while all goroutines wait, and a goroutine that is left at the end fails the test.

// testServer is a handler that an http.Server serves.
type testServer struct {
	t       *testing.T
	handler *streamable.Handler
	http    *http.Client
	tools   *tools
	stop    func() // ends the handler, the server and the client; called at the end of the test

	// wrap wraps the writers of the server; nil means no wrapper.
	wrap func(http.ResponseWriter) http.ResponseWriter
}

// tools implements the servers of the tests. The name of the called tool selects the behaviour.
type tools struct {
	mu       sync.Mutex
	sessions []*session.Session
	release  chan struct{} // closed to make "wait" return
	started  chan struct{} // receives when "wait" starts
	stopped  chan error    // receives the cause when "wait" is cancelled
	calls    atomic.Int32  // number of served calls

	configure func(*session.Options) // modifies the Options of each session; may be nil
	tasks     *mcp.ServerCapabilitiesTasks
}

// serve serves a handler until the test ends, and creates a client for it.
func serve(t *testing.T, o streamable.HandlerOptions) *testServer {
	t.Helper()
	return serveOver(t, o, newTools(), func(l net.Listener) net.Listener { return l })
}

func newTools() *tools {
	return &tools{release: make(chan struct{}), started: make(chan struct{}, 100), stopped: make(chan error, 100)}
}

// serveOver is serve with given tools and a given network.
func serveOver(t *testing.T, o streamable.HandlerOptions, tools *tools, network func(net.Listener) net.Listener) *testServer {
	t.Helper()
	s := &testServer{t: t, tools: tools, handler: streamable.NewHandler(tools.open, o)}
	s.serveHTTP(network)
	return s
}

// serveHTTP serves the handler until the test ends.
func (s *testServer) serveHTTP(network func(net.Listener) net.Listener) {
	s.serveBy(&http.Server{}, network)
}

// serveBy is serveHTTP with a given server.
func (s *testServer) serveBy(server *http.Server, network func(net.Listener) net.Listener) {
	listener, client := pipes(s.t)
	listener = network(listener)
	s.http = client
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.wrap != nil {
			w = s.wrap(w)
		}
		s.handler.ServeHTTP(w, r)
	})
	done := make(chan struct{})
	go func() { // ends when the server is closed
		defer close(done)
		server.Serve(listener)
	}()
	s.stop = sync.OnceFunc(func() {
		s.handler.Close()
		server.Close()
		client.CloseIdleConnections()
		<-done
	})
	s.t.Cleanup(s.stop)
}

func (o *tools) open(_ *http.Request, conn transport.Conn) {
	logging := mcp.ServerCapabilitiesTools{ListChanged: new(true)}
	cfg := &session.Options{Handler: o.handle, Limits: session.Limits{ProgressInterval: -1}}
	if o.configure != nil {
		o.configure(cfg)
	}
	s := session.Serve(conn, &mcp.InitializeResult{
		ServerInfo:   mcp.Implementation{Name: "test server", Version: "1"},
		Capabilities: mcp.ServerCapabilities{Tools: &logging, Logging: json.RawMessage("{}"), Tasks: o.tasks},
	}, cfg)
	o.mu.Lock()
	o.sessions = append(o.sessions, s)
	o.mu.Unlock()
}

// last returns the session that was opened last.
func (o *tools) last() *session.Session {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sessions[len(o.sessions)-1]
}

func (o *tools) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	if req.Method != "tools/call" {
		return nil, jsonrpc.MethodNotFound(req.Method)
	}
	var p mcp.CallToolRequestParams
	if err := codec.Unmarshal(req.Params, &p); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	o.calls.Add(1)
	peer, _ := session.PeerFrom(ctx)
	text := string(p.Arguments)
	switch p.Name {
	case "echo":
	case "principal":
		text = session.Principal(ctx)
	case "wait":
		o.started <- struct{}{}
		select {
		case <-o.release:
		case <-ctx.Done():
			o.stopped <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}
	case "slow":
		for i := range 5 {
			time.Sleep(time.Second)
			if err := peer.Report(session.Progress{Value: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
	case "progress":
		for i := range 5 {
			if err := peer.Report(session.Progress{Value: float64(i + 1)}); err != nil {
				return nil, err
			}
		}
	case "log":
		for i := range 3 {
			err := peer.Notify(ctx, "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: fmt.Appendf(nil, "%d", i)})
			if err != nil {
				return nil, err
			}
		}
	case "sample":
		raw, err := peer.Call(ctx, "sampling/createMessage", session.Raw(`{"messages":[],"maxTokens":1}`))
		if err != nil {
			return nil, err
		}
		text = string(raw)
	case "poll":
		if !streamable.Disconnect(ctx) {
			text = "not disconnected"
			break
		}
		o.started <- struct{}{}
		<-o.release
	default:
		return nil, jsonrpc.MethodNotFound(p.Name)
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}}, nil
}

// Messages that open a session.
const (
	initialize    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}}`
	initializeOld = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	initialized   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// call returns a request for a tool. Its progress token is the id.
func call(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d},"_meta":{"progressToken":%d}}}`, id, tool, id, id)
}

// result returns the answer to call.
func result(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"{\"n\":%d}"}]}}`, id, id)
}

// do sends a request with the header fields of a client. header has further fields as pairs of a
// name and a value. The value "-" removes a field.
func (s *testServer) do(method, body string, header ...string) *http.Response {
	s.t.Helper()
	// The limit ends requests that would otherwise wait forever in a bubble. It is no length of time for
	// which a test waits, because two timers of the same instant fire in any order.
	ctx, cancel := context.WithTimeout(s.t.Context(), 1000*time.Hour)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i+1] == "-":
			r.Header.Del(header[i])
		case header[i] == "Host":
			r.Host = header[i+1]
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := s.http.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v", method, err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return response
}

// status sends a request and returns the status of the response, after checking the body and the
// Cache-Control of a rejection.
func (s *testServer) status(method, body string, header ...string) int {
	s.t.Helper()
	response := s.do(method, body, header...)
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		text, err := io.ReadAll(response.Body)
		m, parseErr := jsonrpc.Parse(text)
		if err != nil || parseErr != nil || m.Kind != jsonrpc.KindErrorResponse || response.Header.Get("Content-Type") != "application/json" {
			s.t.Errorf("%s answered %d with %q, %v, %v", method, response.StatusCode, text, err, parseErr)
		}
		if cache := response.Header.Get("Cache-Control"); cache != "no-store" { // a cache could use it for other clients
			s.t.Errorf("%s answered %d with Cache-Control %q", method, response.StatusCode, cache)
		}
	}
	return response.StatusCode
}

// text sends a request whose response is JSON, and returns it.
func (s *testServer) text(body string, header ...string) string {
	s.t.Helper()
	response := s.do("POST", body, header...)
	text, err := io.ReadAll(response.Body)
	if err != nil || response.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("answered %d, %q with %q, %v", response.StatusCode, response.Header.Get("Content-Type"), text, err)
	}
	return string(text)
}

// openSession opens a session and returns its id once the server has handled
// notifications/initialized.
func (s *testServer) openSession(initialize string, header ...string) string {
	s.t.Helper()
	response := s.do("POST", initialize, header...)
	id := response.Header.Get("MCP-Session-Id")
	if response.StatusCode != 200 || id == "" {
		s.t.Fatalf("initialize answered with %d, session %q", response.StatusCode, id)
	}
	response.Body.Close()
	if status := s.status("POST", initialized, append(header, "MCP-Session-Id", id)...); status != 202 {
		s.t.Fatalf("initialized answered with %d", status)
	}
	// A request to the handler waits until the session is open. A ping does not.
	list := s.do("POST", `{"jsonrpc":"2.0","id":-1,"method":"tools/list"}`, append(header, "MCP-Session-Id", id)...)
	if _, err := io.Copy(io.Discard, list.Body); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// events is an event stream that is being read.
type events struct {
	t    *testing.T
	body io.ReadCloser
	r    *eventstream.Reader
	id   string // id of the last event
}

// events sends a request whose response is an event stream.
func (s *testServer) events(method, body string, header ...string) *events {
	s.t.Helper()
	response := s.do(method, body, header...)
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		s.t.Fatalf("%s answered with %d, %q: %s", method, response.StatusCode, response.Header.Get("Content-Type"), text)
	}
	return &events{t: s.t, body: response.Body, r: eventstream.NewReader(response.Body, 1<<20)}
}

// next returns the next event.
func (e *events) next() (eventstream.Event, error) {
	event, err := e.r.Next()
	if err == nil {
		e.id = event.ID
	}
	return event, err
}

// message returns the next event with a message, or "" at the end.
func (e *events) message() string {
	e.t.Helper()
	for {
		event, err := e.next()
		if err == io.EOF {
			return ""
		}
		if err != nil {
			e.t.Fatal(err)
		}
		if len(event.Data) > 0 {
			return string(bytes.TrimSpace(event.Data))
		}
	}
}

// messages returns the messages until the end.
func (e *events) messages() (list []string) {
	e.t.Helper()
	for {
		m := e.message()
		if m == "" {
			return list
		}
		list = append(list, m)
	}
}

// progress returns the notification that the tool "progress" sends for a token.
func progress(token, value int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d,"progressToken":%d}}`, value, token)
}

// testContext returns a context with a timeout of a minute, so that a test does not hang.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
