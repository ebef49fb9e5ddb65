package transporttest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// office is a transport of a third party, made of what this module exports: clients send letters to
// a server. As over HTTP, each letter travels on its own, and the messages that belong to a request
// come back on a path of its own. A letter belongs to the session of its sender, or to none if it
// states its revision.
type office struct {
	open      func(transport.Conn)
	responder transport.Responder

	mu    sync.Mutex
	desks map[string]*desk // the sessions, by the name of the client
}

// restart gives the sessions of an office to another server.
func (o *office) restart(open func(transport.Conn), responder transport.Responder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open, o.responder = open, responder
	for name, old := range o.desks {
		if !old.suspended.Load() {
			delete(o.desks, name)
			continue
		}
		d := newDesk(old.client)
		d.revision, d.params, d.state, d.restored = old.revision, old.params, old.state, true
		o.desks[name] = d
		o.open(d)
	}
}

// sender is the end of a client: a [transport.Conn].
type sender struct {
	transport.Conn // of which it is only the reading end; others write to the far one
	o              *office
	name           string
	far            transport.Conn

	mu    sync.Mutex
	paths map[jsonrpc.ID]context.CancelFunc // of requests without a session
}

// client returns the end of a client with a name.
func (o *office) client(name string) *sender {
	near, far := inmemory.Pair(inmemory.Options{})
	return &sender{Conn: near, o: o, name: name, far: far, paths: map[jsonrpc.ID]context.CancelFunc{}}
}

func (s *sender) Write(_ context.Context, m transport.Message) error {
	parsed, err := m.Parse()
	if err != nil {
		return &transport.MessageError{Err: err}
	}
	m = transport.Message{Text: m.Text, Context: transport.WithPrincipal(context.Background(), s.name)}
	meta, _ := codec.Member(parsed.Params, "_meta")
	if _, stated := codec.Member(meta, "io.modelcontextprotocol/protocolVersion"); stated {
		s.stated(&parsed, m)
		return nil
	}
	if parsed.Method == mcp.MethodNotificationsCancelled {
		var p mcp.CancelledNotificationParams
		if codec.Unmarshal(parsed.Params, &p) == nil && s.cancel(p.RequestID) {
			return nil
		}
	}
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	d := s.o.desks[s.name]
	if d == nil {
		d = newDesk(s)
		s.o.desks[s.name] = d
		s.o.open(d)
	}
	if parsed.Kind == jsonrpc.KindRequest {
		p := &path{client: s, id: parsed.ID}
		if parsed.Method == mcp.MethodInitialize {
			d.params, p.desk = parsed.Params, d
		}
		m.Reply = p
	}
	d.in <- m
	return nil
}

// stated passes a message without a session to the server.
func (s *sender) stated(parsed *jsonrpc.Message, m transport.Message) {
	ctx, cancel := context.WithCancel(m.Context)
	s.mu.Lock()
	s.paths[parsed.ID] = cancel
	s.mu.Unlock()
	m.Context, m.Reply = ctx, &path{client: s, id: parsed.ID}
	go func() { // ends when the message is answered
		s.o.responder.Receive(m)
		s.cancel(parsed.ID)
	}()
}

// cancel ends the context of a request without a session. It returns false if there is none.
func (s *sender) cancel(id jsonrpc.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cancel, ok := s.paths[id]
	if ok {
		cancel()
		delete(s.paths, id)
	}
	return ok
}

// path is the Reply of a request.
type path struct {
	client   *sender
	id       jsonrpc.ID
	desk     *desk // that the request opens, or nil
	answered atomic.Bool
}

func (p *path) Send(ctx context.Context, text []byte) error {
	if p.answered.Load() {
		return transport.ErrAnswered
	}
	return p.client.far.Write(ctx, transport.Message{Text: text})
}

func (p *path) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	p.answered.Store(true)
	if text == nil {
		return nil
	}
	if m, err := jsonrpc.ParseReceived(text); p.desk != nil && err == nil {
		var result mcp.InitializeResult
		if codec.Unmarshal(m.Result, &result) == nil {
			p.desk.revision = mcp.Revision(result.ProtocolVersion)
		}
	}
	return p.client.far.Write(ctx, transport.Message{Text: text})
}

// desk is the end of the server in a session.
type desk struct {
	client    *sender
	in        chan transport.Message
	closed    chan struct{}
	close     func()
	suspended atomic.Bool

	revision mcp.Revision // "" before the handshake
	params   []byte       // of initialize
	state    []byte
	restored bool
}

func newDesk(c *sender) *desk {
	d := &desk{client: c, in: make(chan transport.Message, 100), closed: make(chan struct{})}
	d.close = sync.OnceFunc(func() { close(d.closed) })
	return d
}

func (d *desk) Read() (transport.Message, error) {
	select {
	case m := <-d.in:
		return m, nil
	case <-d.closed:
		return transport.Message{}, transport.ErrClosed
	}
}

func (d *desk) Write(ctx context.Context, m transport.Message) error {
	select {
	case <-d.closed:
		return transport.ErrClosed
	default:
		return d.client.far.Write(ctx, m)
	}
}

func (d *desk) Close() error {
	d.close()
	return nil
}

func (d *desk) Info() transport.Info                   { return transport.Info{Network: "letters"} }
func (d *desk) Suspend()                               { d.suspended.Store(true) }
func (d *desk) Restored() (mcp.Revision, []byte, bool) { return d.revision, d.params, d.restored }
func (d *desk) PersistedState() ([]byte, bool)         { return d.state, true }

func (d *desk) PersistState(_ context.Context, state []byte) error {
	d.state = slices.Clone(state)
	return nil
}

var _ interface {
	transport.Described
	transport.Persister
} = (*desk)(nil)

// newServer returns a server with one tool for each thing that a transport carries.
func newServer(t *testing.T, ended chan<- string) *server.Server {
	s := server.New("post", "1", nil)
	t.Cleanup(func() { s.Close() })
	add := func(name string, f func(ctx context.Context, c *server.Call) (string, error)) {
		server.AddTool(s, name, "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) { return f(ctx, c) })
	}
	add("report", func(ctx context.Context, c *server.Call) (string, error) {
		err := c.Log(ctx, "info", "", "a log message")
		return "reported", errors.Join(err, c.Progress(1, 2, "half"), c.Progress(2, 2, "all"))
	})
	add("ask", func(ctx context.Context, c *server.Call) (string, error) {
		var p struct {
			Name string `json:"name"`
		}
		_, err := server.Elicit(ctx, c, "Who?", &p)
		return "hello, " + p.Name, err
	})
	add("principal", func(_ context.Context, c *server.Call) (string, error) { return c.Principal(), nil })
	add("wait", func(ctx context.Context, _ *server.Call) (string, error) {
		ended <- "begun"
		<-ctx.Done()
		ended <- "ended"
		return "", ctx.Err()
	})
	server.AddResource(s, "test://a", "a", func(context.Context, *server.Call, server.Resource) (string, error) { return "text", nil })
	return s
}

// events receives the notifications that a client gets.
type events struct {
	mcp.UnimplementedClientNotificationHandler
	got chan string
}

func (e events) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	e.got <- "log " + string(p.Data)
	return nil
}

func (e events) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	e.got <- "updated " + p.URI
	return nil
}

// options returns the options of a client in one era.
func options(revisions []mcp.Revision, got chan string) *client.Options {
	return &client.Options{
		Notifications: events{got: got},
		Session:       session.Options{Revisions: revisions, Limits: session.Limits{ProgressInterval: session.Off}},
		Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Accept(map[string]string{"name": "Ada"})
		}},
	}
}

// visit uses each feature that the transport carries, and returns the results.
func visit(t *testing.T, c *client.Client, s *server.Server, got, ended <-chan string) (seen []string) {
	t.Helper()
	call := func(ctx context.Context, tool string) {
		result, err := c.CallTool(ctx, tool, nil, client.OnProgress(func(p session.Progress) { seen = append(seen, fmt.Sprint("progress ", p.Value, p.Message)) }))
		text, textErr := client.Text(result)
		seen = append(seen, fmt.Sprintf("%s: %q, %v, %v", tool, text, err, textErr))
	}
	seen = append(seen, string(c.Revision()))
	for tool, err := range c.Tools(t.Context()) {
		seen = append(seen, fmt.Sprint(tool.Name, err))
	}
	if err := c.SetLogLevel(t.Context(), "info"); err != nil {
		t.Error(err)
	}
	call(t.Context(), "report")
	seen = append(seen, <-got)
	call(t.Context(), "ask")
	call(t.Context(), "principal")
	call(t.Context(), "nothing")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends when the tool has begun
		<-ended
		cancel()
	}()
	call(ctx, "wait")
	seen = append(seen, <-ended)
	if err := c.Subscribe(t.Context(), "test://a"); err != nil {
		t.Error(err)
	}
	s.ResourceUpdated("test://a")
	seen = append(seen, <-got)
	return seen
}

// A transport of a third party carries all that Streamable HTTP does, in revisions with sessions
// and without.
func TestTransportOfThirdParty(t *testing.T) {
	for _, revisions := range [][]mcp.Revision{session.Revisions(), session.ModernRevisions()} {
		t.Run(string(revisions[0]), func(t *testing.T) {
			ended, got := make(chan string, 1), make(chan string, 10)
			s := newServer(t, ended)
			o := &office{open: func(c transport.Conn) { s.Serve(c) }, responder: s.Responder(), desks: map[string]*desk{}}
			c, err := client.Connect(t.Context(), o.client("ann"), options(revisions, got))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			letters := visit(t, c, s, got, ended)

			over := newServer(t, ended)
			h, err := over.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: func(*http.Request) (string, error) { return "ann", nil }}})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			web := httptest.NewServer(h)
			defer web.Close()
			other := make(chan string, 10)
			dialed, err := client.Dial(t.Context(), web.URL, options(revisions, other))
			if err != nil {
				t.Fatal(err)
			}
			defer dialed.Close()
			if diff := cmp.Diff(visit(t, dialed, over, other, ended), letters); diff != "" {
				t.Errorf("letters differ from HTTP (-HTTP +letters):\n%s", diff)
			}
			if len(letters) < 15 {
				t.Errorf("only %d things were seen: %q", len(letters), letters)
			}
		})
	}
}

// A session is restored at the next server, with its subscriptions and its log level.
func TestTransportOfThirdPartyRestoresSessions(t *testing.T) {
	ended, got := make(chan string, 1), make(chan string, 10)
	first := newServer(t, ended)
	o := &office{open: func(c transport.Conn) { first.Serve(c) }, responder: first.Responder(), desks: map[string]*desk{}}
	c, err := client.Connect(t.Context(), o.client("ann"), options(session.Revisions(), got))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	visit(t, c, first, got, ended)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := first.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	second := newServer(t, ended)
	o.restart(func(c transport.Conn) { second.Serve(c) }, second.Responder())
	second.ResourceUpdated("test://a")
	if event := <-got; event != "updated test://a" {
		t.Errorf("got %q after the restart", event)
	}
	if seen := visit(t, c, second, got, ended); !slices.Contains(seen, `ask: "hello, Ada", <nil>, <nil>`) {
		t.Errorf("got %q after the restart", seen)
	}
}

// The transport above uses nothing that another module could not use.
func TestTransportOfThirdPartyIsPublic(t *testing.T) {
	text, err := os.ReadFile("host_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if imports, _, _ := strings.Cut(string(text), ")"); strings.Contains(imports, "/internal/") || !strings.Contains(imports, "runtime/transport") {
		t.Errorf("imports: %s", imports)
	}
}
