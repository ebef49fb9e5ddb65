package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// The tests of the client use a server that they control. They run in a synctest bubble:
// connections are pipes, time advances only while all goroutines wait, and a goroutine that is left
// at the end fails the test.

// fakeServer is a server that logs the requests that it receives. It follows the specification
// unless the test overrides it.
type fakeServer struct {
	t      *testing.T
	begin  time.Time
	client *http.Client

	// call handles a posted request other than initialize. If it is nil, the answer is an empty
	// result.
	call func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message)
	// other handles HTTP requests other than POST, and posted messages that are not requests. It
	// returns true if it has handled one. It may be nil.
	other func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool
	// initialize is called before initialize is answered. It returns true if it has answered. It
	// may be nil.
	initialize func(w http.ResponseWriter, r *http.Request) (done bool)

	// reject is called before a message of a dropped session is rejected. It may be nil.
	reject func(m jsonrpc.Message)

	revision string // supported revision; default 2025-11-25
	noID     bool   // the server has no sessions
	prefix   string // prefix of session ids
	tasks    bool   // the server declares tool calls as tasks

	mu       sync.Mutex
	sessions int    // number of opened sessions
	id       string // id of the open session
	log      []string
}

// newFakeServer returns a server and starts it.
func newFakeServer(t *testing.T) *fakeServer {
	f := &fakeServer{t: t, begin: time.Now(), revision: "2025-11-25"}
	listener, client := pipes(t)
	f.client = client
	server := &http.Server{Handler: f}
	done := make(chan struct{})
	go func() { // ends when the server is closed
		defer close(done)
		server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		client.CloseIdleConnections()
		<-done
		synctest.Wait()
	})
	return f
}

// pipes returns a listener, and a client that connects to it for any address.
func pipes(t *testing.T) (net.Listener, *http.Client) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return l, &http.Client{Transport: &http.Transport{DialContext: l.dial}}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
	case <-ctx.Done():
	}
	return nil, &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// logf adds a line to the log.
func (f *fakeServer) logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// takeLog waits until all goroutines are idle, returns the log and empties it.
func (f *fakeServer) takeLog() []string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

// since returns the time since the start, for the log.
func (f *fakeServer) since() time.Duration { return time.Since(f.begin).Round(time.Millisecond) }

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client was closed while it sent the body
	}
	m, _ := jsonrpc.Parse(body)
	line := r.Method
	if m.Method != "" {
		line += " " + m.Method
	} else if len(body) > 0 {
		line += " " + string(body)
	}
	for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version", "Last-Event-Id"} {
		if values, ok := r.Header[name]; ok {
			line += " " + strings.Join(values, "+")
		}
	}
	f.logf("%s", line)
	accept := map[string]string{
		"POST": "application/json, text/event-stream", "GET": "text/event-stream", "DELETE": "",
	}[r.Method]
	if got := r.Header.Get("Accept"); got != accept {
		f.t.Errorf("%s accepts %q, want %q", line, got, accept)
	}
	if r.Method == "POST" && r.Header.Get("Content-Type") != "application/json" {
		f.t.Errorf("%s has the type %q", line, r.Header.Get("Content-Type"))
	}
	switch {
	case m.Method == "initialize":
		if f.initialize == nil || !f.initialize(w, r) {
			f.answerInitialize(w, m)
		}
	case f.lost(r):
		if f.reject != nil {
			f.reject(m)
		}
		http.Error(w, "no such session", http.StatusNotFound)
	case m.Kind == jsonrpc.KindRequest && f.call != nil:
		f.call(w, r, m)
	case m.Kind == jsonrpc.KindRequest:
		f.answer(w, m, `{}`)
	case f.other != nil && f.other(w, r, m):
	case r.Method == "POST":
		w.WriteHeader(http.StatusAccepted)
	case r.Method == "DELETE":
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// answerInitialize answers initialize and opens a session.
func (f *fakeServer) answerInitialize(w http.ResponseWriter, m jsonrpc.Message) {
	f.mu.Lock()
	f.sessions++
	f.id = fmt.Sprint(f.prefix, "s", f.sessions)
	id := f.id
	f.mu.Unlock()
	if !f.noID {
		w.Header().Set("MCP-Session-Id", id)
	}
	tasks := ""
	if f.tasks {
		tasks = `"tasks":{"requests":{"tools":{"call":{}}}},`
	}
	f.answer(w, m, `{"protocolVersion":"`+f.revision+`","capabilities":{`+tasks+`"tools":{},"logging":{}},"serverInfo":{"name":"fake","version":"1"}}`)
}

// drop ends the session without notifying the client.
func (f *fakeServer) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = ""
}

// lost reports whether a request belongs to a session that was dropped.
func (f *fakeServer) lost(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.noID && r.Header.Get("Mcp-Session-Id") != f.id
}

// answer answers a request with one JSON object.
func (f *fakeServer) answer(w http.ResponseWriter, m jsonrpc.Message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, response(m, result))
}

// response returns the answer to a request.
func response(m jsonrpc.Message, result string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// stream begins an event stream. It returns a function that writes to it.
func stream(w http.ResponseWriter) func(format string, args ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	return func(format string, args ...any) {
		fmt.Fprintf(w, format, args...)
		http.NewResponseController(w).Flush()
	}
}

// options returns options for a client of the server, without random delays.
func (f *fakeServer) options() streamable.ClientOptions {
	var o streamable.ClientOptions
	o.HTTP = f.client
	return o
}

// dialed is a connection with its optional methods.
type dialed interface {
	transport.Reopener
	ability.Pusher
}

// dial returns a client of the server.
func (f *fakeServer) dial(o streamable.ClientOptions) dialed {
	c, err := streamable.Dial("http://server.example/mcp", o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c.(dialed)
}

// connect opens a session with the server, and empties the log. The session is closed at the end of
// the test.
func (f *fakeServer) connect(o streamable.ClientOptions, cfg *session.Options) *session.Session {
	f.t.Helper()
	s, err := session.Connect(f.t.Context(), f.dial(o), &mcp.InitializeRequestParams{
		ClientInfo:   mcp.Implementation{Name: "c", Version: "1"},
		Capabilities: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}, Roots: &mcp.ClientCapabilitiesRoots{ListChanged: new(true)}},
	}, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.t.Error(err)
		}
	})
	f.takeLog()
	return s
}
