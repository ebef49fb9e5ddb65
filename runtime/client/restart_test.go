package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// newspaper is a server with resources, each of which has a name alone, and a tool that logs.
type newspaper struct {
	*server.Server
	subscribed chan string
}

// openNewspaper starts a newspaper at an address; close ends everything of it. Serve returns a handler for a server, and
// what closes that.
func openNewspaper(t *testing.T, serve func(*server.Server) (http.Handler, func()), address string, names ...string) (n newspaper, at string, close func()) {
	t.Helper()
	n.subscribed = make(chan string, 10)
	var err error
	n.Server, err = server.New(server.Config{
		Info: mcp.Implementation{Name: "newspaper", Version: "1"},
		Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
			n.subscribed <- uri
			return nil
		},
		Capabilities: func(c *mcp.ServerCapabilities) { c.Logging = json.RawMessage(`{}`) },
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
		return server.TextContents("old news"), nil
	}
	for _, name := range names {
		if _, err := n.AddResource(mcp.Resource{Name: name, URI: "news://" + name}, read); err != nil {
			t.Fatal(err)
		}
	}
	_, err = server.AddTool(n.Server, mcp.Tool{Name: "write"}, func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelDebug, "", "a detail")
		return "", c.Log(ctx, mcp.LoggingLevelError, "", "a fault")
	})
	if err != nil {
		t.Fatal(err)
	}
	at, close = listen(t, serve, n.Server, address)
	return n, at, close
}

// listen serves a server at an address; close ends everything of it.
func listen(t *testing.T, serve func(*server.Server) (http.Handler, func()), s *server.Server, address string) (at string, close func()) {
	t.Helper()
	handler, closeHandler := serve(s)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	httpServer := &http.Server{Handler: handler}
	over := make(chan struct{})
	go func() { // ends when httpServer is closed
		defer func() { over <- struct{}{} }()
		httpServer.Serve(listener)
	}()
	return listener.Addr().String(), func() {
		httpServer.Close()
		closeHandler()
		s.Close()
		<-over
	}
}

// reader notes what the newspaper tells.
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

// overHTTP runs a test for each of the transports over HTTP.
func overHTTP(t *testing.T, test func(t *testing.T, serve func(*server.Server) (http.Handler, func()))) {
	t.Run("Streamable HTTP", func(t *testing.T) {
		test(t, func(s *server.Server) (http.Handler, func()) {
			h := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, streamable.HandlerOptions{})
			return h, func() { h.Close() }
		})
	})
	t.Run("HTTP with SSE", func(t *testing.T) {
		test(t, func(s *server.Server) (http.Handler, func()) {
			h := sse.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, sse.HandlerOptions{})
			return h, h.Close
		})
	})
}

// A server that is started anew knows neither subscriptions nor levels; the client asks for them again.
func TestWhatAServerWasAskedForSurvivesItsRestart(t *testing.T) { overHTTP(t, testRestart) }

// A server that is started anew may be another one: what it says of itself counts, and what it declares.
func TestAServerThatWasReplacedIntroducesItselfAnew(t *testing.T) {
	overHTTP(t, func(t *testing.T, serve func(*server.Server) (http.Handler, func())) {
		open := func(version, address string, add func(*server.Server) error) (at string, stop func()) {
			t.Helper()
			s, err := server.New(server.Config{
				Info:         mcp.Implementation{Name: "shop", Version: version},
				Instructions: "version " + version,
				Capabilities: func(c *mcp.ServerCapabilities) {
					if version == "2" {
						c.Tasks = receiver.ServerCapabilities(false)
					}
				},
			})
			if err == nil {
				err = add(s)
			}
			if err != nil {
				t.Fatal(err)
			}
			at, stop = listen(t, serve, s, address)
			stop = sync.OnceFunc(stop)
			t.Cleanup(stop)
			return at, stop
		}
		address, stop := open("1", "127.0.0.1:0", func(s *server.Server) error {
			_, err := server.AddTool(s, mcp.Tool{Name: "buy"}, func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
			return err
		})
		var o client.Options
		o.HTTP.RetryDelay = time.Millisecond
		c, err := client.Dial(t.Context(), "http://"+address, &o)
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
			for what, got := range map[string]struct {
				err error
				may bool
			}{"tool": {tool, tools}, "prompt": {prompt, prompts}} {
				_, undeclared := errors.AsType[*session.CapabilityError](got.err)
				if undeclared == got.may || got.may && got.err != nil {
					t.Errorf("with version %s the %s fails with %v", version, what, got.err)
				}
			}
			if got := c.Session().PeerTakesTask("tools/call"); got != (version == "2") {
				t.Errorf("with version %s tools are run as tasks: %v", version, got)
			}
		}
		check("1", true, false)
		stop()
		open("2", address, func(s *server.Server) error {
			_, err := s.AddPrompt(mcp.Prompt{Name: "advise"}, func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, nil
			})
			return err
		})
		for c.Ping(t.Context()) != nil && t.Context().Err() == nil { // what goes out on a connection to the first one is lost
		}
		check("2", false, true)
	})
}

func testRestart(t *testing.T, serve func(*server.Server) (http.Handler, func())) {
	first, address, stop := openNewspaper(t, serve, "127.0.0.1:0", "today", "weather", "sports")
	stopped := false
	defer func() {
		if !stopped {
			stop()
		}
	}()
	told := reader{updated: make(chan string, 10), logged: make(chan string, 10)}
	renewed := make(chan bool, 1)
	o := client.Options{Notifications: told}
	o.HTTP.RetryDelay = time.Millisecond
	o.HTTP.Renewed = func(json.RawMessage) { renewed <- true }
	c, err := client.Dial(t.Context(), "http://"+address, &o)
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
		t.Error("what is not there was subscribed to")
	}
	if err := c.SetLogLevel(t.Context(), "loud"); err == nil {
		t.Error("a level was set that there is not")
	}
	if len(first.subscribed) != 3 {
		t.Errorf("%d subscriptions", len(first.subscribed))
	}
	stop()
	stopped = true

	second, _, stop := openNewspaper(t, serve, address, "today", "weather") // which has no sports
	defer stop()
	for t.Context().Err() == nil { // what goes out on a connection to the first one is lost
		if _, err := c.CallTool(t.Context(), "write", struct{}{}); err == nil {
			break
		}
	}
	<-renewed
	if got := <-second.subscribed; got != "news://today" || len(second.subscribed) != 0 {
		t.Errorf("subscribed to %s and %d others", got, len(second.subscribed))
	}
	second.ResourceUpdated("news://today")
	<-told.updated // and what was said before it
	for len(told.logged) > 0 {
		<-told.logged // the call may have been in front of the level
	}
	if _, err := c.CallTool(t.Context(), "write", struct{}{}); err != nil {
		t.Fatal(err)
	}
	if got := <-told.logged; got != `"a fault"` {
		t.Errorf("logged %s", got)
	}
	second.ResourceUpdated("news://weather")
	second.ResourceUpdated("news://today")
	if diff := cmp.Diff("news://today", <-told.updated); diff != "" {
		t.Errorf("told of an update (-want +got):\n%s", diff)
	}
}
