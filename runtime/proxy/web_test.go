package proxy_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// web is an HTTP server without a network, for the bubbles of synctest.
type web struct {
	handler atomic.Value // http.Handler
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
	client  *http.Client
}

// newWeb returns a web server that ends with the test.
func newWeb(t *testing.T, h http.Handler) *web {
	w := &web{conns: make(chan net.Conn), done: make(chan struct{})}
	w.set(h)
	dial := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case w.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-w.done:
			return nil, net.ErrClosed
		}
	}}
	w.client = &http.Client{Transport: dial}
	s := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		(*w.handler.Load().(*http.Handler)).ServeHTTP(rw, r)
	})}
	go s.Serve(w) // ends with the test
	t.Cleanup(func() {
		dial.CloseIdleConnections()
		s.Close()
	})
	return w
}

// set replaces the handler.
func (w *web) set(h http.Handler) { w.handler.Store(&h) }

// options returns the options of a client of the server.
func (w *web) options() httpclient.Options { return httpclient.Options{HTTP: w.client} }

func (w *web) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

func (w *web) Close() error {
	w.once.Do(func() { close(w.done) })
	return nil
}

func (w *web) Addr() net.Addr { return &net.TCPAddr{} }

// A server may be replaced, at its URL, by one that speaks only the other kind of revisions. The
// proxy connects again, and restores the subscriptions.
func TestUpstreamIsReplacedByOneOfAnotherEra(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			serve := func(e era) (*server.Server, *streamable.Handler) {
				s := server.New("one", "1", e.serving(&server.Options{Logger: discard}))
				addTool(t, s, "echo", echo("one"))
				addResource(t, s, "memo://one", "one")
				return s, must.Get(s.Handler(nil))
			}
			later := sessions
			if up.name == sessions.name {
				later = modern
			}
			s, h := serve(up)
			w := newWeb(t, h)
			p := newProxy(t, &proxy.Options{Server: server.Options{Logger: discard}, Upstreams: []proxy.Upstream{
				proxy.Dial("a", "http://localhost/", streamable.ClientOptions{Options: w.options()}),
			}})
			updates := new(notices)
			c := connect(t, p, of.in(&client.Options{Notifications: updates}))
			if err := c.Subscribe(t.Context(), "memo://one"); err != nil {
				t.Fatal(err)
			}
			mustCall(t, c, "a_echo", nil)

			replacement, replaced := serve(later)
			w.set(replaced)
			h.Close()
			s.Close()
			defer replacement.Close()
			defer replaced.Close()
			if _, err := c.CallTool(t.Context(), "a_echo", nil); err == nil {
				t.Error("the server with the other revisions has served a call")
			}
			time.Sleep(10 * time.Second)
			equal(t, "result", "one{}", mustCall(t, c, "a_echo", nil))
			updates.take()
			replacement.ResourceUpdated("memo://one")
			time.Sleep(time.Second)
			equal(t, "notices", []string{"updated memo://one"}, updates.take())
			c.Close()
			p.Close()
		})
	})
}

// slowToClose is a connection that takes long to be closed, such as a child process that ignores the
// end of its standard input.
type slowToClose struct{ transport.Conn }

func (c slowToClose) Close() error {
	time.Sleep(time.Minute)
	return c.Conn.Close()
}

// The result of a call with a connection of its own does not wait until that is closed.
func TestResultDoesNotWaitForTheEndOfTheConnection(t *testing.T) {
	for _, up := range []era{sessions, modern} {
		t.Run(up.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newUpstream(t, "one", up.serving(nil))
				addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
					return "logged", c.Log(ctx, mcp.LoggingLevelError, "", 1)
				})
				a := one.as("a")
				connect := a.Connect
				a.Connect = func(ctx context.Context) (transport.Conn, error) {
					conn, err := connect(ctx)
					return slowToClose{conn}, err
				}
				p := newProxy(t, &proxy.Options{Server: server.Options{Logger: discard}, Upstreams: []proxy.Upstream{a}})
				h := must.Get(p.Handler(nil))
				defer h.Close()
				o := modern.in(new(client.Options))
				o.HTTP.Options = newWeb(t, h).options()
				c := dial(t, "http://localhost/", o)
				if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelDebug); err != nil { // log messages need a connection of the call
					t.Fatal(err)
				}
				began := time.Now()
				equal(t, "result", "logged", mustCall(t, c, "a_log", nil))
				if d := time.Since(began); d > time.Second {
					t.Errorf("the call took %v", d)
				}
				c.Close()
				p.Close()
			})
		})
	}
}

// A client that does not read its log messages delays no other client of its principal, although
// both share the connection to the upstream.
func TestUnreadLogMessagesDelayNoOtherClient(t *testing.T) {
	for _, up := range []era{sessions, modern} {
		t.Run(up.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newUpstream(t, "one", up.serving(nil))
				addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, in struct{ Times int }) (string, error) {
					for range in.Times {
						if err := c.Log(ctx, mcp.LoggingLevelError, "", strings.Repeat("x", 10_000)); err != nil {
							return "", err
						}
					}
					return "logged", nil
				})
				p := newProxy(t, &proxy.Options{Server: server.Options{Logger: discard}, Upstreams: []proxy.Upstream{one.as("a")}})
				h := must.Get(p.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: func(*http.Request) (string, error) { return "ann", nil }}}))
				w := newWeb(t, h)
				post := func(times int) *http.Response {
					revision := string(modern.revisions[0])
					req, err := http.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
						`"name":"a_log","arguments":{"Times":`+strconv.Itoa(times)+`},"_meta":{"io.modelcontextprotocol/logLevel":"debug",`+
						`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{},`+
						`"io.modelcontextprotocol/protocolVersion":"`+revision+`"}}}`))
					if err != nil {
						t.Fatal(err)
					}
					for name, value := range map[string]string{
						"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
						"Mcp-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": "a_log",
					} {
						req.Header.Set(name, value)
					}
					r, err := w.client.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					return r
				}
				unread := post(100)
				time.Sleep(time.Second)
				began := time.Now()
				r := post(0)
				text, err := io.ReadAll(r.Body)
				if err != nil || !strings.Contains(string(text), `"logged"`) {
					t.Errorf("%s, %v", text, err)
				}
				if d := time.Since(began); d > 100*time.Millisecond {
					t.Errorf("the other call took %v", d)
				}
				r.Body.Close()
				all, err := io.ReadAll(unread.Body) // before the stall timeout
				if n := strings.Count(string(all), "notifications/message"); n != 100 || err != nil || !strings.Contains(string(all), `"logged"`) {
					t.Errorf("%d log messages, %v", n, err)
				}
				unread.Body.Close()
				h.Close()
				p.Close()
			})
		})
	}
}
