package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// reply is a response to a request of a client without a session.
type reply struct {
	Result struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]any
	}
	Error *struct {
		Code    int64
		Message string
	}
}

// postCall calls a tool over HTTP for a client without a session, without a principal, and with
// forms. Extra are further members of the params.
func postCall(handler http.Handler, tool, extra string) (r reply, err error) {
	return postFrom(handler, "", "", tool, extra)
}

// postFrom is postCall for a client with an address and a name.
func postFrom(handler http.Handler, address, name, tool, extra string) (r reply, err error) {
	revision := string(modern.revisions[0])
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"` + extra + `,"_meta":{` +
		`"io.modelcontextprotocol/clientInfo":{"name":"` + name + `","version":"1"},` +
		`"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	req.RemoteAddr = address
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	text := w.Body.Bytes()
	if i := bytes.LastIndex(text, []byte("data: {")); i >= 0 {
		text = text[i+len("data: "):]
	}
	return r, json.Unmarshal(text, &r)
}

// Calls of clients without a principal that need connections of their own have a quarter of those
// of a principal. Further calls are rejected.
func TestCallsOpenLimitedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		up := one.as()
		up.MaxPerPrincipal = 16
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		if r, err := postCall(handler, "a_echo", ""); err != nil || r.Result.ResultType != "complete" {
			t.Fatalf("%v, %v", r, err)
		}
		synctest.Wait() // its connection is closed
		one.set(slow)
		var group sync.WaitGroup
		var mu sync.Mutex
		served, rejected := 0, 0
		for range 100 {
			group.Go(func() {
				r, err := postCall(handler, "a_echo", "")
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case r.Error == nil:
					served++
				case r.Error.Code == -31050 && r.Error.Message == "upstream a: limit of 4 connections of a principal for single calls is reached":
					rejected++
				default:
					t.Errorf("got %v", *r.Error)
				}
			})
		}
		synctest.Wait()
		equal(t, "connections", int32(5), one.open.Load())
		group.Wait()
		equal(t, "served", 4, served)
		equal(t, "rejected", 96, rejected)
		synctest.Wait()
		equal(t, "connections after the calls", int32(1), one.open.Load())
	})
}

// Clients without a principal have the limits of one for each network: the number of their infos, and
// the connections for single calls, also if clients of other networks have the same info.
func TestStrangersShareNoLimits(t *testing.T) {
	const eve, ann = "203.0.113.7:1", "198.51.100.1:1"
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		up := one.as()
		up.MaxPerPrincipal = 200
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		for _, from := range []string{ann, eve} {
			if r, err := postFrom(handler, from, "common", "a_echo", ""); err != nil || r.Result.ResultType != "complete" {
				t.Fatalf("%v, %v", r, err)
			}
		}
		one.set(slow)
		var group sync.WaitGroup
		call := func(from, name, limit string) { // limit is the reached limit, or ""
			group.Go(func() {
				r, err := postFrom(handler, from, name, "a_echo", "")
				got := ""
				if r.Error != nil && r.Error.Message != "upstream a is not available" { // connects slowly
					got = r.Error.Message
				}
				if err != nil || got != limit {
					t.Errorf("%s, %s: %q, %v, want %q", from, name, got, err, limit)
				}
			})
			synctest.Wait()
		}
		for range 50 { // a quarter of 200
			call(eve, "common", "")
		}
		for i := range 31 {
			call(eve, fmt.Sprint("client ", i), "")
		}
		call(eve, "one more", "too many clients")
		call(ann, "another", "")
		call(eve, "common", "upstream a: limit of 50 connections of a principal for single calls is reached")
		call(ann, "common", "")
		group.Wait()
	})
}

// Calls that wait for input whose client has gone give way after a minute, the oldest first.
func TestAbandonedCallsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		up := one.as()
		up.MaxPerPrincipal = 8
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		ask := func() reply {
			t.Helper()
			r, err := postCall(handler, "a_ask", "")
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := ask()
		time.Sleep(10 * time.Second)
		second := ask()
		if third := ask(); third.Error == nil || third.Error.Code != -31050 {
			t.Fatalf("third call: %v", third)
		}
		time.Sleep(50 * time.Second)
		third := ask()
		synctest.Wait()
		equal(t, "third call after a minute", "input_required", third.Result.ResultType)
		equal(t, "connections", int32(3), one.open.Load())
		finish := func(r reply) reply {
			t.Helper()
			key := ""
			for key = range r.Result.InputRequests {
			}
			r, err := postCall(handler, "a_ask", `,"requestState":"`+r.Result.RequestState+`","inputResponses":{"`+key+`":`+accept+`}`)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := finish(first); r.Error == nil || !strings.Contains(r.Error.Message, "the call has ended") {
			t.Errorf("first call: %v, %v", r, r.Error)
		}
		for _, r := range []reply{second, third} {
			if r := finish(r); r.Error != nil || r.Result.ResultType != "complete" {
				t.Errorf("other call: %v, %v", r, r.Error)
			}
		}
		synctest.Wait()
		equal(t, "connections at the end", int32(1), one.open.Load())
	})
}

// userConn is a proxy's end of a connection to a client with a principal.
type userConn struct {
	transport.Conn
	principal string
}

func (c userConn) Read() (transport.Message, error) {
	m, err := c.Conn.Read()
	if m.Context == nil {
		m.Context = context.Background()
	}
	m.Context = transport.WithPrincipal(m.Context, c.principal)
	return m, err
}

// connectAs connects a client with a principal.
func connectAs(t *testing.T, p *proxy.Proxy, principal string, o *client.Options) *client.Client {
	t.Helper()
	a, b := inmemory.Pair(inmemory.Options{})
	if _, err := p.Serve(userConn{b, principal}); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Sessions beyond a limit see the other upstreams, and this one when there is room.
func TestConnectionsOfSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newFaulty(t, "a", sessions, false), newFaulty(t, "b", sessions, false)
		limited := one.as()
		limited.MaxPerPrincipal, limited.MaxConnections = 2, 3
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{limited, two.as()}, Server: server.Options{Logger: discard}})
		var clients []*client.Client
		for _, name := range []string{"ada", "ada", "ada", "eve", "eve"} {
			clients = append(clients, connectAs(t, p, name, sessions.in(nil)))
		}
		sees := func(c *client.Client) bool { return slices.Contains(toolNames(t, c), "a_echo") }
		var got []bool
		for _, c := range clients {
			got = append(got, sees(c))
			mustCall(t, c, "b_echo", nil)
		}
		equal(t, "clients that see the upstream", []bool{true, true, false, true, false}, got)
		for i, limit := range map[int]string{2: "2 connections of a principal", 4: "3 connections"} {
			_, err := clients[i].CallTool(t.Context(), "a_echo", nil)
			if want := fmt.Sprintf("jsonrpc: upstream a: limit of %s is reached (code %d)", limit, session.CodeOverloaded); i == 4 && (err == nil || err.Error() != want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
		equal(t, "connections", int32(3), one.open.Load())
		clients[0].Close()
		time.Sleep(2 * time.Minute)
		if !sees(clients[2]) && !sees(clients[4]) {
			t.Error("no other client has taken the place")
		}
		equal(t, "connections", int32(3), one.open.Load())
	})
}

// counted is an upstream whose connections are counted.
func counted(up proxy.Upstream, open *atomic.Int32, most *atomic.Int32) proxy.Upstream {
	connect := up.Connect
	up.Connect = func(ctx context.Context) (transport.Conn, error) {
		conn, err := connect(ctx)
		most.Store(max(most.Load(), open.Load()))
		return conn, err
	}
	return up
}

// A principal that has taken all connections to an upstream gives idle ones to others, until all
// have the same number.
func TestPrincipalsShareConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		var most atomic.Int32
		up := counted(one.as(), &one.open, &most)
		up.MaxPerPrincipal, up.MaxConnections = 8, 8
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
		sees := func(c *client.Client) bool { return slices.Contains(toolNames(t, c), "a_echo") }
		clients := map[string][]*client.Client{}
		connect := func(name string, n int) {
			for range n {
				clients[name] = append(clients[name], connectAs(t, p, name, sessions.in(nil)))
				time.Sleep(time.Second)
			}
		}
		counts := func() (n []int) {
			for _, name := range []string{"ada", "eve", "joe"} {
				n = append(n, 0)
				for _, c := range clients[name] {
					if sees(c) {
						n[len(n)-1]++
					}
				}
			}
			return n
		}
		connect("ada", 8)
		equal(t, "ada alone", []int{8, 0, 0}, counts())
		mustCall(t, clients["ada"][0], "a_echo", nil)
		time.Sleep(time.Minute)
		mustCall(t, clients["ada"][1], "a_echo", nil)
		time.Sleep(10 * time.Second)
		connect("eve", 6)
		equal(t, "ada and eve", []int{4, 4, 0}, counts())
		if !sees(clients["ada"][1]) {
			t.Error("the connection that was used last is taken away")
		}
		connect("joe", 3)
		equal(t, "ada, eve and joe", []int{3, 3, 2}, counts())
		time.Sleep(time.Hour)
		equal(t, "after an hour", []int{3, 3, 2}, counts())
		equal(t, "connections at once", int32(8), most.Load())
		for _, c := range clients["ada"] {
			c.Close()
		}
		time.Sleep(5 * time.Minute)
		equal(t, "without ada", []int{5, 3}, counts()[1:])
	})
}

// A principal with less than its share waits for a connection whose call has ended. It gets the
// place before principals that have more.
func TestPrincipalWaitsForBusyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		up := one.as()
		up.MaxPerPrincipal, up.MaxConnections = 8, 2
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, ConnectTimeout: time.Minute, Server: server.Options{Logger: discard}})
		first, second := connectAs(t, p, "ada", sessions.in(nil)), connectAs(t, p, "ada", sessions.in(nil))
		toolNames(t, first)
		toolNames(t, second)
		one.set(slow)
		var group sync.WaitGroup
		for _, c := range []*client.Client{first, second} {
			group.Go(func() {
				if _, err := c.CallTool(t.Context(), "a_echo", nil); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		one.set(none)
		began := time.Now()
		eve := connectAs(t, p, "eve", sessions.in(nil))
		if _, err := eve.CallTool(t.Context(), "a_echo", nil); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d < 30*time.Second || d > 40*time.Second {
			t.Errorf("eve has waited for %v", d)
		}
		group.Wait()
		equal(t, "connections", int32(2), one.open.Load())
	})
}

// The sessions of a proxy whose upstream ends do not connect again at the same time.
func TestReconnectsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 50
		one := newFaulty(t, "a", sessions, false)
		up := one.as()
		var mu sync.Mutex
		var ended time.Time
		var attempts []time.Duration
		connect := up.Connect
		up.Connect = func(ctx context.Context) (transport.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			attempts = append(attempts, time.Since(ended))
			return connect(ctx)
		}
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
		for range clients {
			connectAs(t, p, "ada", sessions.in(nil))
		}
		mu.Lock()
		attempts, ended = nil, time.Now()
		mu.Unlock()
		one.setDown(true)
		time.Sleep(20 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		in := map[time.Duration]int{}
		for _, at := range attempts {
			if at < time.Second/2 {
				t.Errorf("attempt after %v", at)
			}
			in[at/(100*time.Millisecond)]++
			if in[at/(100*time.Millisecond)] > clients/3 {
				t.Errorf("%d clients connect at about %v", clients/3, at)
			}
		}
		if n := len(attempts); n < 3*clients || n > 6*clients {
			t.Errorf("%d attempts of %d clients in 20 seconds", n, clients)
		}
	})
}

// Announcements are joined, and a list is fetched once per second in the long run. The last change
// is not lost.
func TestAnnouncementsAreJoined(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			one := newUpstream(t, "one", up.serving(nil))
			lists := 0
			addTool(t, one.Server, "x", echo(""))
			var mu sync.Mutex
			counted := proxy.Upstream{Name: "a", Prefix: "a_", Connect: one.connect, Session: session.Options{Hooks: session.Hooks{Sending: []session.SendMiddleware{
				func(next session.Sender) session.Sender {
					return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
						if call.Method == mcp.MethodToolsList {
							mu.Lock()
							lists++
							mu.Unlock()
						}
						return next(ctx, call)
					}
				},
			}}}}
			c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{counted}}), of.in(nil))
			toolNames(t, c)
			mu.Lock()
			lists = 0
			mu.Unlock()
			for i := range 100 {
				addTool(t, one.Server, fmt.Sprint("y", i), echo(""))
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if lists < 10 || lists > 24 {
				t.Errorf("%d lists in 10 seconds", lists)
			}
			equal(t, "tools", 101, len(toolNames(t, c)))
		})
	})
}

// A network that has reached its limits, and uses the client info of others, leaves them their
// connections and calls.
func TestStrangersDoNotUseUpSharedClientInfo(t *testing.T) {
	const eve, ann = "203.0.113.7:1", "198.51.100.1:1"
	for _, era := range []era{sessions, modern} {
		t.Run(era.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newFaulty(t, "a", era, false)
				up := one.as()
				up.MaxPerPrincipal = 4
				p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}, Server: server.Options{Logger: discard}})
				handler := must.Get(p.Handler(nil))
				defer handler.Close()
				for i := range 4 {
					if _, err := postFrom(handler, eve, fmt.Sprint("client ", i), "a_echo", ""); err != nil {
						t.Fatal(err)
					}
				}
				const limit = "upstream a: limit of 4 connections of a principal is reached"
				if r, err := postFrom(handler, eve, "common", "a_echo", ""); err != nil || r.Error == nil || r.Error.Message != limit {
					t.Fatalf("beyond the limit: %v, %v", r, err)
				}
				if r, err := postFrom(handler, ann, "common", "a_echo", ""); err != nil || r.Result.ResultType != "complete" {
					t.Errorf("another network: %v, %v, %v", r, r.Error, err)
				}
			})
		})
	}
}

// A client without a principal may continue a call from another network, with the same info.
func TestCallContinuesFromAnotherNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newFaulty(t, "a", sessions, false)
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as()}, Server: server.Options{Logger: discard}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		asked, err := postFrom(handler, "198.51.100.1:1", "phone", "a_ask", "")
		if err != nil || asked.Result.ResultType != "input_required" {
			t.Fatalf("%v, %v", asked, err)
		}
		answer := `,"requestState":"` + asked.Result.RequestState + `","inputResponses":{"input1":` + accept + `}`
		if r, err := postFrom(handler, "203.0.113.7:1", "tablet", "a_ask", answer); err != nil || r.Error == nil {
			t.Errorf("with other info: %v, %v", r, err)
		}
		if r, err := postFrom(handler, "203.0.113.7:1", "phone", "a_ask", answer); err != nil || r.Result.ResultType != "complete" {
			t.Errorf("%v, %v, %v", r, r.Error, err)
		}
	})
}
