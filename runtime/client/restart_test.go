package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// newspaper is a server with resources and with a tool that logs.
type newspaper struct {
	*server.Server
	subscribed chan string
}

// network is an in-memory network with at most one listening server. It works in a synctest bubble.
type network struct {
	mu       sync.Mutex
	listener *listener // nil if no server listens
}

// options returns client options that connect to the network for any URL.
func (n *network) options() (o client.Options) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		n.mu.Lock()
		l := n.listener
		n.mu.Unlock()
		refused := &net.OpError{Op: "dial", Net: "pipe", Err: net.ErrClosed}
		if l == nil {
			return nil, refused
		}
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-l.closed:
			return nil, refused
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	o.HTTP.HTTP = &http.Client{Transport: transport}
	return o
}

// listener is the listener of one server.
type listener struct {
	n      *network
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *network) listen() net.Listener {
	l := &listener{n: n, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		l.n.mu.Lock()
		defer l.n.mu.Unlock()
		l.n.listener = nil
		close(l.closed)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// openNewspaper starts a newspaper with a resource for each name; stop closes it.
func openNewspaper(t *testing.T, at *network, serve serveFunc, names ...string) (n newspaper, stop func()) {
	t.Helper()
	n.subscribed = make(chan string, 10)
	n.Server = server.New("newspaper", "1", &server.Options{
		Hooks: server.Hooks{Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
			n.subscribed <- uri
			return nil
		}},
		Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { c.Logging = json.RawMessage(`{}`) }},
	})
	read := func(context.Context, *server.Call, server.Resource) (string, error) {
		return "old news", nil
	}
	for _, name := range names {
		server.AddResource(n.Server, "news://"+name, name, read)
	}
	err := server.AddTool(n.Server, "write", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelDebug, "", "a detail")
		return "", c.Log(ctx, mcp.LoggingLevelError, "", "a fault")
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
	return n, listen(at, serve, n.Server)
}

// listen serves s on the network; stop closes the server and its listener.
func listen(at *network, serve serveFunc, s *server.Server) (stop func()) {
	handler, closeHandler := serve(s)
	listener := at.listen()
	httpServer := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { // ends when httpServer is closed
		defer close(done)
		httpServer.Serve(listener)
	}()
	return sync.OnceFunc(func() {
		httpServer.Close()
		closeHandler()
		s.Close()
		<-done
	})
}

// reader records the notifications of the newspaper.
type reader struct {
	mcp.UnimplementedClientNotificationHandler
	updated, logged chan string
}

func (r reader) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	r.updated <- p.URI
	return nil
}

func (r reader) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	r.logged <- string(p.Data)
	return nil
}

// serveFunc returns an HTTP handler for a server, and the function that closes the handler.
type serveFunc func(*server.Server) (http.Handler, func())

// overHTTP runs a test for each of the HTTP transports, in a synctest bubble.
func overHTTP(t *testing.T, test func(t *testing.T, serve serveFunc)) {
	run := func(name string, serve serveFunc) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, serve) }) })
	}
	run("Streamable HTTP", streamableHTTP)
	run("HTTP with SSE", func(s *server.Server) (http.Handler, func()) {
		h := sse.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, sse.HandlerOptions{})
		return h, h.Close
	})
}

func streamableHTTP(s *server.Server) (http.Handler, func()) {
	h := must.Get(s.Handler(nil))
	return h, func() { h.Close() }
}

// retry calls f repeatedly until it succeeds. Messages sent to a server that has ended are lost.
func retry(t *testing.T, f func() error) {
	t.Helper()
	var err error
	for range 1000 {
		if err = f(); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal(err)
}

// A restarted server knows neither subscriptions nor the log level; the client restores them.
func TestSubscriptionsAndLogLevelSurviveServerRestart(t *testing.T) { overHTTP(t, testRestart) }

// A restarted server may reject requests for a moment. The client then repeats those that restore
// its subscriptions.
func TestRestoringSubscriptionsOutlastsTemporaryFailures(t *testing.T) {
	overHTTP(t, func(t *testing.T, serve serveFunc) {
		at := new(network)
		open := func(cfg server.Options, unavailable int) (subscribed chan string, stop func()) {
			t.Helper()
			subscribed = make(chan string, 10)
			cfg.Hooks.Subscribe = func(_ context.Context, _ *server.Call, uri string) error {
				subscribed <- uri
				return nil
			}
			s := server.New("shop", "1", &cfg)
			read := func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
				return nil, nil
			}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				server.AddResource(s, "shop://"+name, name, read)
			}
			stop = listen(at, func(s *server.Server) (http.Handler, func()) {
				handler, closeHandler := serve(s)
				var requests atomic.Int32
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					if bytes.Contains(body, []byte(mcp.MethodResourcesSubscribe)) && requests.Add(1) <= int32(unavailable) {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					handler.ServeHTTP(w, r)
				}), closeHandler
			}, s)
			t.Cleanup(stop)
			return subscribed, stop
		}
		_, stop := open(server.Options{}, 0)
		o := at.options()
		o.Session.Revisions = session.Revisions()
		c, err := client.Dial(t.Context(), "http://localhost/", &o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want := []string{"shop://a", "shop://b", "shop://c", "shop://d", "shop://e"}
		for _, uri := range want {
			if err := c.Subscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		restored, _ := open(server.Options{Limits: server.Limits{Calls: 1}}, 3)
		retry(t, func() error { return c.Ping(t.Context()) })
		time.Sleep(time.Minute)
		var got []string
		for len(restored) > 0 {
			got = append(got, <-restored)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A restarted server may be a different one: its new server info and capabilities apply.
func TestServerInfoFollowsReplacedServer(t *testing.T) {
	overHTTP(t, func(t *testing.T, serve serveFunc) { testServerInfoFollows(t, serve, session.Revisions()) })
	t.Run("without sessions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testServerInfoFollows(t, streamableHTTP, session.ModernRevisions()) })
	})
}

func testServerInfoFollows(t *testing.T, serve serveFunc, revisions []mcp.Revision) {
	at := new(network)
	open := func(version string, add func(*server.Server)) (stop func()) {
		t.Helper()
		s := server.New("shop", version, &server.Options{
			Instructions: "version " + version,
			Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) {
				if version == "2" {
					c.Tasks = receiver.ServerCapabilities(false)
				}
			}},
		})
		add(s)
		stop = listen(at, serve, s)
		t.Cleanup(stop)
		return stop
	}
	stop := open("1", func(s *server.Server) {
		server.AddTool(s, "buy", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	})
	o := at.options()
	o.Session.Revisions = revisions
	c, err := client.Dial(t.Context(), "http://localhost/", &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	check := func(version string, tools, prompts bool) {
		t.Helper()
		if s := c.Server(); s.ServerInfo.Version != version || *s.Instructions != "version "+version {
			t.Errorf("the server is %+v: %s", s.ServerInfo, *s.Instructions)
		}
		_, tool := c.CallTool(t.Context(), "buy", nil)
		_, prompt := c.GetPrompt(t.Context(), "advise", nil)
		for feature, got := range map[string]struct {
			err      error
			declared bool
		}{"tool": {tool, tools}, "prompt": {prompt, prompts}} {
			_, undeclared := errors.AsType[*session.CapabilityError](got.err)
			if undeclared == got.declared || got.declared && got.err != nil {
				t.Errorf("version %s: the %s fails with %v", version, feature, got.err)
			}
		}
		if got := c.Session().Internals(boundary.Caller{}).PeerTakesTask("tools/call"); got != (version == "2" && !c.Session().Traits().Sessionless) {
			t.Errorf("version %s: tools run as tasks: %v", version, got)
		}
	}
	check("1", true, false)
	stop()
	open("2", func(s *server.Server) {
		server.AddPrompt(s, "advise", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	})
	retry(t, func() error { return c.Ping(t.Context()) })
	check("2", false, true)
}

// A cursor is valid only in its session: if the server restarts between two pages, the list ends
// with an error.
//
// Proves PAGE-04.
func TestListFailsIfSessionIsReplacedBetweenPages(t *testing.T) {
	overHTTP(t, func(t *testing.T, serve serveFunc) {
		at := new(network)
		open := func() (stop func()) { return listenWithTools(t, at, serve, "a", "b", "c") }
		stop := open()
		o := at.options()
		o.Session.Revisions = session.Revisions()
		c, err := client.Dial(t.Context(), "http://localhost/", &o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var got []string
		for tool, failed := range c.Tools(t.Context()) {
			if err = failed; err != nil {
				break
			}
			got = append(got, tool.Name)
			if len(got) == 1 {
				stop()
				open()
				retry(t, func() error { return c.Ping(t.Context()) })
			}
		}
		if !errors.Is(err, client.ErrListCut) || len(got) != 1 {
			t.Errorf("got %q and %v", got, err)
		}
		if got := names(t, c.Tools(t.Context()), toolName); len(got) != 3 {
			t.Errorf("fetched again: got %q", got)
		}
	})
}

// listenWithTools starts a server that lists one tool on each page.
func listenWithTools(t *testing.T, at *network, serve serveFunc, names ...string) (stop func()) {
	t.Helper()
	s := server.New("shop", "1", &server.Options{Features: server.Features{PageSize: 1}})
	for _, name := range names {
		server.AddTool(s, name, "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	}
	stop = listen(at, serve, s)
	t.Cleanup(stop)
	return stop
}

// A list also ends if the client is still busy with an earlier replacement of the session.
func TestListFailsIfSessionIsReplacedDuringReopened(t *testing.T) {
	overHTTP(t, func(t *testing.T, serve serveFunc) {
		at := new(network)
		open := func() (stop func()) { return listenWithTools(t, at, serve, "a", "b") }
		stop := open()
		o := at.options()
		o.Session.Revisions = session.Revisions()
		reopened, release := make(chan struct{}, 10), make(chan struct{})
		o.Session.Hooks.Reopened = func(*mcp.InitializeResult) {
			reopened <- struct{}{}
			<-release
		}
		c, err := client.Dial(t.Context(), "http://localhost/", &o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		defer close(release)
		restart := func() {
			stop()
			stop = open()
			retry(t, func() error { return c.Ping(t.Context()) })
		}
		restart()
		<-reopened
		for _, failed := range c.Tools(t.Context()) {
			if err = failed; err != nil {
				break
			}
			restart()
		}
		if !errors.Is(err, client.ErrListCut) {
			t.Errorf("got %v", err)
		}
	})
}

func testRestart(t *testing.T, serve serveFunc) {
	at := new(network)
	first, stop := openNewspaper(t, at, serve, "today", "weather", "sports")
	defer stop()
	events := reader{updated: make(chan string, 10), logged: make(chan string, 10)}
	reopened := make(chan bool, 1)
	o := at.options()
	o.Session.Revisions = session.Revisions()
	o.Notifications = events
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { reopened <- true }
	c, err := client.Dial(t.Context(), "http://localhost/", &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"today", "weather", "sports"} {
		must(c.Subscribe(t.Context(), "news://"+name))
	}
	must(c.Unsubscribe(t.Context(), "news://weather"))
	must(c.SetLogLevel(t.Context(), mcp.LoggingLevelError))
	if err := c.Subscribe(t.Context(), "news://nothing"); err == nil {
		t.Error("subscribed to an unknown resource")
	}
	if err := c.SetLogLevel(t.Context(), "loud"); err == nil {
		t.Error("set an unknown log level")
	}
	if len(first.subscribed) != 3 {
		t.Errorf("%d subscriptions", len(first.subscribed))
	}
	stop()

	second, stopSecond := openNewspaper(t, at, serve, "today", "weather") // without sports
	defer stopSecond()
	retry(t, func() error {
		_, err := c.CallTool(t.Context(), "write", struct{}{})
		return err
	})
	<-reopened
	if got := <-second.subscribed; got != "news://today" || len(second.subscribed) != 0 {
		t.Errorf("subscribed to %s and %d others", got, len(second.subscribed))
	}
	second.ResourceUpdated("news://today")
	<-events.updated // all earlier notifications have arrived
	for len(events.logged) > 0 {
		<-events.logged // the call may have run before the level was restored
	}
	if _, err := c.CallTool(t.Context(), "write", struct{}{}); err != nil {
		t.Fatal(err)
	}
	if got := <-events.logged; got != `"a fault"` {
		t.Errorf("logged %s", got)
	}
	second.ResourceUpdated("news://weather")
	second.ResourceUpdated("news://today")
	if diff := cmp.Diff("news://today", <-events.updated); diff != "" {
		t.Errorf("updated resource (-want +got):\n%s", diff)
	}
}
