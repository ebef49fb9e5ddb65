package client_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// cables are the connections of an HTTP client.
type cables struct {
	client *http.Client
	mu     sync.Mutex
	open   []net.Conn
}

func newCables(at *network) *cables {
	x := &cables{client: at.options().HTTP.HTTP}
	transport := x.client.Transport.(*http.Transport)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.open = append(x.open, conn)
		}
		return conn, err
	}
	return x
}

// cut breaks all connections.
func (x *cables) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, conn := range x.open {
		conn.Close()
	}
	x.open = nil
}

// requestLog is middleware that records requests by method, name and the header fields of
// arguments.
type requestLog struct {
	mu  sync.Mutex
	log []string
}

func (l *requestLog) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		line := r.Header.Get("Mcp-Method")
		if name := r.Header.Get("Mcp-Name"); name != "" {
			line += " " + name
		}
		var params []string
		for field, values := range r.Header {
			if strings.HasPrefix(field, "Mcp-Param-") {
				params = append(params, " "+strings.TrimPrefix(field, "Mcp-Param-")+"="+values[0])
			}
		}
		slices.Sort(params)
		l.mu.Lock()
		l.log = append(l.log, line+strings.Join(params, ""))
		l.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log
	l.log = nil
	return log
}

func noContent(context.Context, *server.Call, server.Resource) (string, error) { return "", nil }

func nothing(context.Context, *server.Call, struct{}) (string, error) { return "", nil }

// A client is told of changes as they happen, and, after its connection was broken or the server
// was replaced, of what it may have missed. It then fetches what it had cached.
func TestListenToOwnServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		start := func() (s *server.Server, stop func()) {
			s = server.New("s", "1", &server.Options{Features: server.Features{Caching: server.Caching{Tools: time.Hour, Contents: time.Hour}}})
			server.AddTool(s, "tool", "", nothing)
			server.AddPrompt(s, "prompt", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
			for _, uri := range []string{"x:one", "x:two", "x:three"} {
				server.AddResource(s, uri, uri, noContent)
			}
			return s, serveOwn(t, at, s, nil)
		}
		s, stop := start()
		wires := newCables(at)
		var changes changeLog
		o := client.Options{Notifications: &changes}
		o.HTTP.HTTP = wires.client
		c := dialOwn(t, at, o)
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, changes.take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		for _, uri := range []string{"x:one", "x:two"} {
			if err := c.Subscribe(t.Context(), uri); err != nil {
				t.Fatal(err)
			}
		}
		expect("before any change")
		s.ResourceUpdated("x:one")
		s.ResourceUpdated("x:three")
		expect("after updates", "x:one")
		if err := c.Unsubscribe(t.Context(), "x:one"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.ResourceUpdated("x:one")
		s.ResourceUpdated("x:two")
		expect("after unsubscribing", "x:two")
		server.AddTool(s, "second", "", nothing)
		expect("after a change of the list", "tools")

		sees := func(when string, tool string) {
			t.Helper()
			if list := names(t, c.Tools(t.Context()), toolName); !slices.Contains(list, tool) {
				t.Errorf("%s the client sees %q", when, list)
			}
		}
		sees("at first", "second")
		wires.cut()
		synctest.Wait()
		server.AddTool(s, "third", "", nothing) // while the client is not connected
		expect("before the client has reconnected")
		time.Sleep(time.Second)
		expect("after the connection was cut", "tools", "resources", "x:two")
		sees("after the connection was cut", "third")

		stop()
		time.Sleep(time.Hour)
		expect("without a server")
		s, _ = start()
		server.AddTool(s, "fourth", "", nothing)
		time.Sleep(time.Minute)
		expect("after the server was replaced", "tools", "resources", "x:two")
		sees("after the server was replaced", "fourth")
		server.AddTool(s, "fifth", "", nothing)
		expect("after a change on the new server", "tools")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The client follows the caching hints of the server, and keeps what a server tells one user from
// the others. Nothing is shared between users of a server that tells them apart, not even what is
// public.
func TestCacheOfOwnServer(t *testing.T) {
	type user struct{}
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		log := new(requestLog)
		s := server.New("s", "1", &server.Options{Features: server.Features{Caching: server.Caching{Tools: time.Minute, Contents: time.Minute}}})
		server.AddTool(s, "tool", "", nothing)
		who := func(_ context.Context, c *server.Call, _ server.Resource) (string, error) { return c.Principal(), nil }
		server.AddResource(s, "x:mine", "mine", who)
		server.AddResource(s, "x:all", "all", noContent, server.CacheContents(time.Minute, mcp.CacheScopePublic))
		server.AddResource(s, "x:live", "live", noContent, server.CacheContents(0, mcp.CacheScopePublic))
		serveOwn(t, at, s, &streamable.HandlerOptions{Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("User"), nil }}}, log.wrap)
		prepare := func(r *http.Request) error {
			name, _ := r.Context().Value(user{}).(string)
			r.Header.Set("User", name)
			return nil
		}
		var o client.Options
		o.HTTP.Prepare = prepare
		unpartitioned := dialOwn(t, at, o)
		o.Cache.Partition = func(ctx context.Context) string { name, _ := ctx.Value(user{}).(string); return name }
		c := dialOwn(t, at, o)
		synctest.Wait()
		log.take()
		expect := func(when string, c *client.Client, want ...string) {
			t.Helper()
			for _, name := range []string{"ann", "bob", "ann", "bob"} {
				ctx := context.WithValue(t.Context(), user{}, name)
				for _, uri := range []string{"x:mine", "x:all", "x:live"} {
					r, err := c.ReadResource(ctx, uri)
					if err != nil {
						t.Fatal(err)
					}
					if text := r.Contents[0].(*mcp.TextResourceContents).Text; uri == "x:mine" && text != name {
						t.Errorf("%s: %s reads the resource of %q", when, name, text)
					}
				}
				for _, err := range c.Tools(ctx) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			got := log.take()
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		const all, live, mine, list = "resources/read x:all", "resources/read x:live", "resources/read x:mine", "tools/list"
		expect("first", c, all, all, live, live, live, live, mine, mine, list, list)
		expect("cached", c, live, live, live, live)
		time.Sleep(time.Minute)
		expect("expired", c, all, all, live, live, live, live, mine, mine, list, list)
		expect("without partitions", unpartitioned, all, all, all, all, live, live, live, live, mine, mine, mine, mine, list, list, list, list)
	})
}

// The client repeats arguments in header fields as the tools of the server demand, also in later
// rounds, and finds out by itself that they have changed.
func TestHeadersOfOwnServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := new(network)
		log := new(requestLog)
		var runs atomic.Int32
		s := server.New("s", "1", &server.Options{Features: server.Features{Caching: server.Caching{Tools: time.Hour}}})
		ask := func(ctx context.Context, c *server.Call, region string) (string, error) {
			runs.Add(1)
			_, err := server.Elicit(ctx, c, "Name?", new(nameForm))
			return region, err
		}
		tool := server.AddTool(s, "route", "", func(ctx context.Context, c *server.Call, in struct {
			Region string `json:"region" mcp-header:"Region"`
		}) (string, error) {
			return ask(ctx, c, in.Region)
		})

		serveOwn(t, at, s, nil, log.wrap)
		c := dialOwn(t, at, client.Options{Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) { return fill(f, "Ada") }}})
		synctest.Wait()
		log.take()
		expect := func(when, region string, want ...string) {
			t.Helper()
			runs.Store(0)
			if got := callText(t, c, "route", map[string]string{"region": region}); got != region || runs.Load() != 2 {
				t.Errorf("%s: result %q after %d runs", when, got, runs.Load())
			}
			if diff := cmp.Diff(want, log.take()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		expect("unknown tool", "eu", "tools/call route", "tools/list", "tools/call route Region=eu", "tools/call route Region=eu")
		expect("known tool", "Köln", "tools/call route Region==?base64?S8O2bG4=?=", "tools/call route Region==?base64?S8O2bG4=?=")
		tool.Remove()
		server.AddTool(s, "route", "", func(ctx context.Context, c *server.Call, in struct {
			Region string `json:"region" mcp-header:"Area"`
		}) (string, error) {
			return ask(ctx, c, in.Region)
		})
		expect("changed tool", "eu", "tools/call route Region=eu", "tools/list", "tools/call route Area=eu", "tools/call route Area=eu")
	})
}
