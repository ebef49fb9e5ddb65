package proxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// round is a result that asks for input.
type round struct {
	kind  string
	key   string // of the only input request, or ""
	state string
	text  string // of a complete result
}

// send sends one request of a call of a tool, as a client does that handles input itself. Response
// is that to the input request of the round before, or "".
func send(t *testing.T, c *client.Client, tool, arguments string, before round, response string) (round, error) {
	t.Helper()
	params := `{"name":"` + tool + `","arguments":` + arguments
	if before.state != "" {
		params += `,"requestState":"` + before.state + `"`
	}
	if response != "" {
		params += `,"inputResponses":{"` + before.key + `":` + response + `}`
	}
	result, err := c.Session().With(session.Timeout(0)).Call(t.Context(), mcp.MethodToolsCall, session.Raw(params+`}`))
	if err != nil {
		return round{}, err
	}
	var r struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]json.RawMessage
		Content       []struct{ Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	out := round{kind: r.ResultType, state: r.RequestState}
	for key := range r.InputRequests {
		out.key = key
	}
	if len(r.Content) > 0 {
		out.text = r.Content[0].Text
	}
	return out, nil
}

const accept = `{"action":"accept","content":{"Name":"Ada"}}`

// asks is a proxy before an upstream with sessions and a tool that asks for a name.
type asks struct {
	*proxy.Proxy
	calls atomic.Int32
	ended chan error // receives the error of each input request of the tool
}

func newAsks(t *testing.T, cfg server.Options) *asks {
	t.Helper()
	a := &asks{ended: make(chan error, 200)}
	one := newUpstream(t, "one", sessions.serving(nil))
	addTool(t, one.Server, "ask", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) {
		a.calls.Add(1)
		var in struct{ Name string }
		_, err := server.Elicit(ctx, c, "Name?", &in)
		a.ended <- err
		return in.Name, err
	})
	a.Proxy = newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}, Server: cfg})
	return a
}

// The upstream runs the tool once. A round that does not fit is rejected, and the call waits on.
func TestHeldCallTakesItsInput(t *testing.T) {
	a := newAsks(t, server.Options{})
	ada, bob := connect(t, a.Proxy, modern.in(user("Ada"))), connect(t, a.Proxy, modern.in(user("Bob")))
	first, err := send(t, ada, "a_ask", `{}`, round{}, "")
	if err != nil || first.kind != "input_required" || first.key == "" || first.state == "" {
		t.Fatalf("first round: %v, %v", first, err)
	}
	for name, try := range map[string]func() error{
		"another client":    func() error { _, err := send(t, bob, "a_ask", `{}`, first, accept); return err },
		"another call":      func() error { _, err := send(t, ada, "a_ask", `{"x":1}`, first, accept); return err },
		"another type":      func() error { _, err := send(t, ada, "a_ask", `{}`, first, `{"roots":[]}`); return err },
		"another upstream":  func() error { _, err := send(t, ada, "a_ask", `{}`, round{state: "b:s"}, ""); return err },
		"another process":   func() error { _, err := send(t, ada, "a_ask", `{}`, round{state: "a:hX.Y.1"}, ""); return err },
		"the wrong round":   func() error { _, err := send(t, ada, "a_ask", `{}`, round{state: first.state + "1"}, ""); return err },
		"the era before":    func() error { _, err := send(t, ada, "a_ask", `{}`, round{state: "a:sX"}, ""); return err },
		"no known upstream": func() error { _, err := send(t, ada, "a_ask", `{}`, round{state: "none"}, ""); return err },
	} {
		if err := try(); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", name, err)
		}
	}
	again, err := send(t, ada, "a_ask", `{}`, first, "") // without the response
	if err != nil || again.key != first.key || again.state == first.state {
		t.Fatalf("round without a response: %v, %v", again, err)
	}
	if _, err := send(t, ada, "a_ask", `{}`, first, accept); err == nil || !strings.Contains(err.Error(), "received before") {
		t.Errorf("state of an earlier round: %v", err)
	}
	last, err := send(t, ada, "a_ask", `{}`, again, accept)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", "complete Ada", last.kind+" "+last.text)
	equal(t, "calls", int32(1), a.calls.Load())
	if _, err := send(t, ada, "a_ask", `{}`, again, accept); err == nil || !strings.Contains(err.Error(), "the call has ended") {
		t.Errorf("state after the result: %v", err)
	}
	equal(t, "calls", int32(1), a.calls.Load())
}

func TestHeldCallEndsWithoutInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsks(t, server.Options{Limits: server.Limits{InputTimeout: time.Minute}})
		c := connect(t, a.Proxy, modern.in(user("Ada")))
		first, err := send(t, c, "a_ask", `{}`, round{}, "")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-a.ended; !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrCancelled) {
			t.Errorf("input request of the upstream: %v", err)
		}
		equal(t, "time", time.Minute, time.Since(start))
		synctest.Wait()
		if _, err := send(t, c, "a_ask", `{}`, first, accept); err == nil || !strings.Contains(err.Error(), "waited for input too long") {
			t.Errorf("late input: %v", err)
		}
	})
}

func TestHeldCallLimitsRounds(t *testing.T) {
	a := newAsks(t, server.Options{Limits: server.Limits{Rounds: 1}})
	c := connect(t, a.Proxy, modern.in(user("Ada")))
	first, err := send(t, c, "a_ask", `{}`, round{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, c, "a_ask", `{}`, first, ""); err == nil || !strings.Contains(err.Error(), "limit of input rounds") {
		t.Errorf("second round: %v", err)
	}
	<-a.ended
}

// The calls of a client that wait for input are limited.
func TestHeldCallsAreLimited(t *testing.T) {
	a := newAsks(t, server.Options{})
	c := connect(t, a.Proxy, modern.in(user("Ada")))
	for i := range 100 {
		if r, err := send(t, c, "a_ask", fmt.Sprintf(`{"i":%d}`, i), round{}, ""); err != nil || r.state == "" {
			t.Fatalf("call %d: %v, %v", i, r, err)
		}
	}
	if _, err := send(t, c, "a_ask", `{}`, round{}, ""); err == nil || !strings.Contains(err.Error(), "too many calls wait for input") {
		t.Errorf("one more call: %v", err)
	}
}

func TestCloseEndsHeldCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsks(t, server.Options{})
		c := connect(t, a.Proxy, modern.in(user("Ada")))
		if _, err := send(t, c, "a_ask", `{}`, round{}, ""); err != nil {
			t.Fatal(err)
		}
		a.Proxy.Close()
		if err := <-a.ended; err == nil {
			t.Error("the input request was answered")
		}
	})
}

// A client that disconnects cancels the call at the upstream, also in a later round.
func TestDisconnectReachesUpstream(t *testing.T) {
	for _, up := range []era{sessions, modern} {
		t.Run("upstream "+up.name, func(t *testing.T) {
			one := newUpstream(t, "one", up.serving(nil))
			started, ended := make(chan struct{}), make(chan error, 1)
			addTool(t, one.Server, "wait", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				var in struct{ Name string }
				if _, err := server.Elicit(ctx, c, "Name?", &in); err != nil {
					return "", err
				}
				close(started)
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return "", ctx.Err()
			})
			p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.overHTTP(t, "a")}})
			c := dial(t, serveHTTP(t, p.Server, nil), modern.in(user("Ada")))
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			if _, err := c.CallTool(ctx, "a_wait", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("call: %v", err)
			}
			if err := <-ended; err == nil {
				t.Error("the handler of the upstream was not cancelled")
			}
		})
	}
}

// bearer identifies clients by their bearer token.
func bearer(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }

// withToken returns options of a client with a bearer token.
func withToken(o *client.Options, token string) *client.Options {
	o.HTTP.Header = http.Header{"Authorization": {token}}
	return o
}

// serveUsers serves a proxy over HTTP to users with tokens, and returns its URL.
func serveUsers(t *testing.T, p *proxy.Proxy) string {
	t.Helper()
	handler := must.Get(p.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: bearer}}))
	t.Cleanup(func() { handler.Close() })
	return serveHandler(t, handler)
}

// post sends a call of a tool without a client and without a session. Info describes the client.
func post(t *testing.T, handler http.Handler, tool string, info map[string]any) round {
	t.Helper()
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": string(modern.revisions[0]), "io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	if info != nil {
		meta["io.modelcontextprotocol/clientInfo"] = info
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "_meta": meta}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", bytes.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": string(modern.revisions[0]), "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.Result.Content) == 0 {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return round{text: answer.Result.Content[0].Text}
}

func TestHeldCallBelongsToPrincipal(t *testing.T) {
	a := newAsks(t, server.Options{})
	url := serveUsers(t, a.Proxy)
	ada, eve := dial(t, url, withToken(modern.in(user("Ada")), "ada")), dial(t, url, withToken(modern.in(user("Ada")), "eve"))
	first, err := send(t, ada, "a_ask", `{}`, round{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send(t, eve, "a_ask", `{}`, first, accept); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("another principal: %v", err)
	}
	last, err := send(t, ada, "a_ask", `{}`, first, accept)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", "Ada", last.text)
}

// Modern requests of one principal share connections; those of others do not. Clients without a
// principal share one for requests that reach no other client, and have their own for others.
func TestConnectionsOfModernRequests(t *testing.T) {
	one := newUpstream(t, "one", sessions.serving(nil))
	addTool(t, one.Server, "session", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
		return fmt.Sprintf("%p", c.Session()), nil
	})
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	users, all := serveUsers(t, p), serveHTTP(t, p.Server, nil)
	call := func(url, token string, o *client.Options) string {
		t.Helper()
		return mustCall(t, dial(t, url, withToken(modern.in(o), token)), "a_session", nil)
	}
	ada := call(users, "ada", user("Ada"))
	equal(t, "connection of the same principal", ada, call(users, "ada", user("Ada")))
	if eve := call(users, "eve", user("Ada")); eve == ada {
		t.Error("two principals share a connection")
	}
	if other := call(users, "ada", nil); other == ada {
		t.Error("two clients with different capabilities share a connection")
	}
	plain := call(all, "", nil)
	equal(t, "connection of another client", plain, call(all, "", nil))
	asked := call(all, "", user("Ada"))
	if again := call(all, "", user("Ada")); asked == again {
		t.Error("two clients without a principal share a connection over which they may be asked")
	}
}

// Connect gets nothing of a request but its principal, because other requests use the connection,
// too.
func TestConnectSeesPrincipalOnly(t *testing.T) {
	type key struct{}
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "x", echo("one"))
	up := one.as("a")
	var mu sync.Mutex
	var seen []string
	connectOne := up.Connect
	up.Connect = func(ctx context.Context) (transport.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		header, _ := transport.HTTP(ctx)
		seen = append(seen, fmt.Sprintf("%s %v %v", session.Principal(ctx), header != nil, ctx.Value(key{})))
		return connectOne(ctx)
	}
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}})
	handler := must.Get(p.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: bearer}}))
	t.Cleanup(func() { handler.Close() })
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "secret")))
	}))
	mustCall(t, dial(t, url, withToken(modern.in(nil), "ada")), "a_x", nil)
	mustCall(t, dial(t, url, withToken(sessions.in(nil), "ada")), "a_x", nil)
	mu.Lock()
	defer mu.Unlock()
	equal(t, "what Connect sees", []string{"ada false <nil>", "ada true secret"}, seen)
}

// A client without requests for five minutes is forgotten.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newUpstream(t, "one", sessions.serving(nil))
		addTool(t, one.Server, "x", echo("one"))
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		call := func() {
			t.Helper()
			equal(t, "result", "one{}", post(t, handler, "a_x", nil).text)
		}
		call()
		equal(t, "connections", 1, len(one.Sessions()))
		time.Sleep(4 * time.Minute)
		call()
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		equal(t, "connections", 1, len(one.Sessions()))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		equal(t, "connections", 0, len(one.Sessions()))
		call()
	})
}

// The number of clients of a principal is limited: the one that has had no request for longest is
// forgotten.
func TestClientsOfPrincipalAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newUpstream(t, "one", sessions.serving(nil))
		addTool(t, one.Server, "x", echo("one"))
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
		handler := must.Get(p.Handler(nil))
		defer handler.Close()
		for i := range 40 {
			post(t, handler, "a_x", map[string]any{"name": fmt.Sprint(i), "version": "1"})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		equal(t, "connections", 32, len(one.Sessions()))
	})
}

// The user must visit a page before the call: the upstream is called again when the user has
// agreed.
func TestPagesOfUpstreamWithSessions(t *testing.T) {
	one := newUpstream(t, "one", sessions.serving(nil))
	var calls, pages atomic.Int32
	addTool(t, one.Server, "page", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if calls.Add(1) == 1 {
			return "", c.RequireURL(ctx, "Sign in", "https://example.com/{id}", fmt.Sprint(pages.Add(1)))
		}
		return "done", nil
	})
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	var visited []string
	answer := mcp.ElicitActionAccept
	o := &client.Options{Input: client.Input{OpenURL: func(_ context.Context, v *client.URLRequest) (mcp.ElicitAction, error) {
		visited = append(visited, v.URL)
		return answer, nil
	}}}
	c := connect(t, p, modern.in(o))
	equal(t, "result", "done", mustCall(t, c, "a_page", nil))
	equal(t, "pages", []string{"https://example.com/1"}, visited)
	calls.Store(0)
	answer = mcp.ElicitActionDecline
	if _, err := c.CallTool(t.Context(), "a_page", nil); err == nil || !strings.Contains(err.Error(), "has not agreed") {
		t.Errorf("declined: %v", err)
	}
	equal(t, "calls", int32(1), calls.Load())
}

// An upstream with sessions does not say which call an input request belongs to. If the call that
// has passed it to the client ends, another one passes it.
func TestInputRequestOutlivesAnotherCall(t *testing.T) {
	up, release := make(chan struct{}), make(chan struct{})
	one := newUpstream(t, "two", sessions.serving(nil))
	addTool(t, one.Server, "wait", func(context.Context, *server.Call, map[string]any) (string, error) {
		close(up)
		<-release
		return "waited", nil
	})
	addTool(t, one.Server, "ask", func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) {
		var in struct{ Name string }
		_, err := server.Elicit(ctx, c, "Name?", &in)
		return in.Name, err
	})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), modern.in(user("Ada")))
	type outcome struct {
		round
		err error
	}
	start := func(tool string, before round) chan outcome {
		done := make(chan outcome, 1)
		go func() { // ends with the round
			r, err := send(t, c, tool, `{}`, before, "")
			done <- outcome{r, err}
		}()
		return done
	}
	waiting := start("a_wait", round{})
	<-up
	asking := start("a_ask", round{})
	other := <-waiting // the first call that waits for its result
	if other.err != nil || other.kind != "input_required" {
		t.Fatalf("other call: %v", other)
	}
	close(release)
	own := <-asking
	if own.err != nil || own.kind != "input_required" {
		t.Fatalf("own call: %v", own)
	}
	last, err := send(t, c, "a_ask", `{}`, own.round, accept)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", "complete Ada", last.kind+" "+last.text)
	if ended := <-start("a_wait", other.round); ended.err != nil || ended.text != "waited" {
		t.Errorf("other call: %v", ended)
	}
}
