package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// upstream is an upstream in memory that can be disconnected.
type upstream struct {
	*server.Server
	mu    sync.Mutex
	down  bool
	conns []transport.Conn
}

func newUpstream(t *testing.T, name string, cfg *server.Options) *upstream {
	t.Helper()
	u := &upstream{Server: server.New(name, "1", cfg)}
	t.Cleanup(func() { u.Close() })
	return u
}

func (u *upstream) connect(context.Context) (transport.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.down {
		return nil, errors.New("upstream is down")
	}
	a, b := inmemory.Pair(inmemory.Options{})
	u.conns = append(u.conns, b)
	_, err := u.Serve(b)
	return a, err
}

// setDown disconnects the upstream, or lets it be connected again.
func (u *upstream) setDown(down bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down = down
	if down {
		for _, c := range u.conns {
			c.Close()
		}
		u.conns = nil
	}
}

func (u *upstream) as(name string) proxy.Upstream {
	return proxy.Upstream{Name: name, Prefix: name + "_", Connect: u.connect}
}

// newProxy returns a proxy that is closed at the end of the test.
func newProxy(t *testing.T, cfg *proxy.Options) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New("hub", "1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// connect connects a client to a proxy.
func connect(t *testing.T, p *proxy.Proxy, o *client.Options) *client.Client {
	t.Helper()
	a, b := inmemory.Pair(inmemory.Options{})
	if _, err := p.Serve(b); err != nil {
		t.Fatal(err)
	}
	c, err := client.Connect(t.Context(), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func echo(name string) server.ToolFunc[map[string]any, string] {
	return func(_ context.Context, _ *server.Call, in map[string]any) (string, error) {
		text, err := json.Marshal(in)
		return name + string(text), err
	}
}

func addTool[In, Out any](t *testing.T, s *server.Server, name string, f server.ToolFunc[In, Out], options ...server.ToolOption) *server.Handle[mcp.Tool] {
	t.Helper()
	h := server.AddTool(s, name, "", f, options...)

	return h
}

func toolNames(t *testing.T, c *client.Client) []string {
	t.Helper()
	var names []string
	for tool, err := range c.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// mustCall calls a tool and returns the text of its result.
func mustCall(t *testing.T, c *client.Client, name string, args any, options ...client.CallOption) string {
	t.Helper()
	r, err := c.CallTool(t.Context(), name, args, options...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func TestMergesToolsWithPrefixes(t *testing.T) {
	one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
	addTool(t, one.Server, "echo", echo("one"))
	addTool(t, two.Server, "echo", echo("two"))
	addTool(t, two.Server, "other", echo("other"))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}})
	addTool(t, p.Server, "own", echo("own"))
	c := connect(t, p, nil)
	equal(t, "tools", []string{"a_echo", "b_echo", "b_other", "own"}, toolNames(t, c))
	for name, want := range map[string]string{"a_echo": `one{"x":1}`, "b_echo": `two{"x":1}`, "own": `own{"x":1}`} {
		if got := mustCall(t, c, name, map[string]any{"x": 1}); got != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
	if _, err := c.CallTool(t.Context(), "echo", nil); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := c.CallTool(t.Context(), "b_none", nil); err == nil || !strings.Contains(err.Error(), `unknown tool: "none"`) {
		t.Errorf("tool that is unknown to the upstream: %v", err)
	}
}

// A single upstream needs no prefix.
func TestEmptyPrefix(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "echo", echo("one"))
	a := one.as("a")
	a.Prefix = ""
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{a}})
	addTool(t, p.Server, "own", echo("own"))
	c := connect(t, p, nil)
	equal(t, "tools", []string{"echo", "own"}, toolNames(t, c))
	equal(t, "result", "one{}", mustCall(t, c, "echo", nil))
	equal(t, "own result", "own{}", mustCall(t, c, "own", nil))
}

func TestPagesOfMergedLists(t *testing.T) {
	one, two := newUpstream(t, "one", &server.Options{Features: server.Features{PageSize: 2}}), newUpstream(t, "two", nil)
	var want []string
	for _, name := range []string{"t1", "t2", "t3", "t4", "t5"} {
		addTool(t, one.Server, name, echo(""))
		want = append(want, "a_"+name)
	}
	addTool(t, two.Server, "x", echo(""))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}, Server: server.Options{Features: server.Features{PageSize: 2}}})
	for _, name := range []string{"own1", "own2", "own3"} {
		addTool(t, p.Server, name, echo(""))
	}
	c := connect(t, p, nil)
	equal(t, "tools", append(want, "b_x", "own1", "own2", "own3"), toolNames(t, c))
	first, err := c.With().ListTools(t.Context(), nil)
	if err != nil || len(first.Tools) != 2 {
		t.Errorf("first page: %v, %v", first, err)
	}
	if _, err := c.With().ListTools(t.Context(), &mcp.PaginatedRequestParams{Cursor: new("x")}); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
		t.Errorf("unknown cursor: %v", err)
	}
}

// Members that no revision defines, numbers and the order of members pass unchanged, in both
// directions.
func TestCallsAreLossless(t *testing.T) {
	const params = `{"x": 1.0,"name":"A","arguments":{"n":1.00000000000000000001,"é":null},"_meta":{"a/b":[]}}`
	const result = `{"y": 1e2,"content":[{"type":"from the future","n":1.0}],"structuredContent":{"z":1,"a":2}}`
	var got string
	methods := map[string]session.Handler{
		"tools/call": func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			got = string(req.Params)
			return session.Raw(result), nil
		},
		"tools/list": func(context.Context, *session.Request) (codec.Encoder, error) {
			return session.Raw(`{"tools":[{"x":1.0,"name":"t","inputSchema":{"type":"object"}}]}`), nil
		},
	}
	one := newUpstream(t, "one", &server.Options{Features: server.Features{Methods: methods}})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), nil)
	list, err := c.Session().Call(t.Context(), "tools/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "list", `{"tools":[{"x":1.0,"name":"a_t","inputSchema":{"type":"object"}}]}`, string(list))
	back, err := c.Session().Call(t.Context(), "tools/call", session.Raw(strings.Replace(params, `"A"`, `"a_t"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "params", strings.Replace(params, `"A"`, `"t"`, 1), got)
	equal(t, "result", result, string(back))
}

func TestErrorsPass(t *testing.T) {
	want := &jsonrpc.Error{Code: -32042, Message: "open a URL", Data: json.RawMessage(`{"elicitations":[]}`)}
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "fail", func(context.Context, *server.Call, struct{}) (string, error) { return "", want })
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), nil)
	_, err := c.CallTool(t.Context(), "a_fail", nil)
	got, _ := errors.AsType[*jsonrpc.Error](err)
	equal(t, "error", want.Data, got.Data)
	equal(t, "code", want.Code, got.Code)
	equal(t, "message", want.Message, got.Message)
}

func TestProgressPasses(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "work", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
		return "done", c.Progress(1, 2, "half")
	})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), nil)
	var got []session.Progress
	mustCall(t, c, "a_work", nil, client.OnProgress(func(p session.Progress) { got = append(got, p) }))
	equal(t, "progress", []session.Progress{{Value: 1, Total: new(2.0), Message: "half"}}, got)
}

func TestCancellationPasses(t *testing.T) {
	one := newUpstream(t, "one", nil)
	started, ended := make(chan struct{}), make(chan error, 1)
	addTool(t, one.Server, "wait", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return "", ctx.Err()
	})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-started
		cancel(errors.New("enough"))
	}()
	if _, err := c.CallTool(ctx, "a_wait", nil); err == nil || err.Error() != "enough" {
		t.Errorf("call: %v", err)
	}
	if err := <-ended; !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the upstream's handler: %v", err)
	}
}

// notices records notifications.
type notices struct {
	mcp.UnimplementedClientNotificationHandler
	mu   sync.Mutex
	list []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

// take returns the notices so far and removes them.
func (n *notices) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := n.list
	n.list = nil
	return list
}

func (n *notices) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	n.add("tools")
	return nil
}

func (n *notices) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	n.add("updated " + p.URI)
	return nil
}

func (n *notices) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	n.add("log " + string(p.Level) + " " + string(p.Data))
	return nil
}

func TestUpstreamReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
		addTool(t, one.Server, "echo", echo("one"))
		addTool(t, one.Server, "hang", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		release := make(chan struct{})
		addTool(t, two.Server, "slow", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
			<-release
			return "slow", nil
		})
		var n notices
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), &client.Options{Notifications: &n})
		all := []string{"a_echo", "a_hang", "b_slow"}
		equal(t, "tools", all, toolNames(t, c))
		slow, hang := make(chan string, 1), make(chan error, 1)
		go func() { slow <- mustCall(t, c, "b_slow", nil) }()
		go func() {
			_, err := c.CallTool(t.Context(), "a_hang", nil)
			hang <- err
		}()
		synctest.Wait()

		one.setDown(true)
		synctest.Wait()
		if err := <-hang; err == nil || !strings.Contains(err.Error(), "upstream a is not available") {
			t.Errorf("call of an upstream that died: %v", err)
		}
		equal(t, "notices", []string{"tools"}, n.take())
		equal(t, "tools", []string{"b_slow"}, toolNames(t, c))
		if _, err := c.CallTool(t.Context(), "a_echo", nil); err == nil || !strings.Contains(err.Error(), "upstream a is not available") {
			t.Errorf("call of an upstream that is down: %v", err)
		}
		time.Sleep(10 * time.Second)
		one.setDown(false)
		time.Sleep(40 * time.Second)
		equal(t, "notices", []string{"tools"}, n.take())
		equal(t, "tools", all, toolNames(t, c))
		equal(t, "result", "one{}", mustCall(t, c, "a_echo", nil))
		close(release)
		equal(t, "result of the other upstream", "slow", <-slow)
	})
}

// A client waits for slow upstreams until the timeout. It receives list_changed when they connect
// later.
func TestUpstreamThatIsSlowToConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
		addTool(t, one.Server, "echo", echo("one"))
		addTool(t, two.Server, "echo", echo("two"))
		slow := two.as("b")
		slow.Connect = func(ctx context.Context) (transport.Conn, error) {
			time.Sleep(30 * time.Second)
			return two.connect(ctx)
		}
		var n notices
		start := time.Now()
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), slow}}), &client.Options{Notifications: &n})
		equal(t, "time to connect", proxy.DefaultConnectTimeout, time.Since(start))
		equal(t, "tools", []string{"a_echo"}, toolNames(t, c))
		time.Sleep(time.Minute)
		equal(t, "notices", []string{"tools"}, n.take())
		equal(t, "tools", []string{"a_echo", "b_echo"}, toolNames(t, c))
	})
}

func TestListChangedIsForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newUpstream(t, "one", nil)
		h := addTool(t, one.Server, "x", echo(""))
		var n notices
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), &client.Options{Notifications: &n})
		equal(t, "tools", []string{"a_x"}, toolNames(t, c))
		addTool(t, one.Server, "y", echo("y"))
		synctest.Wait()
		equal(t, "notices", []string{"tools"}, n.take())
		equal(t, "tools", []string{"a_x", "a_y"}, toolNames(t, c))
		h.Disable()
		synctest.Wait()
		equal(t, "tools", []string{"a_y"}, toolNames(t, c))
	})
}

// Each client has its own connection, with its own info and capabilities, and the connection ends
// with the session.
func TestConnectionsBelongToClients(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "who", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
		p := c.Session().Client()
		text, err := codec.Marshal(&p.Capabilities)
		return p.ClientInfo.Name + string(text), err
	})
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	ada := connect(t, p, &client.Options{Info: mcp.Implementation{Name: "ada", Version: "1"}})
	bob := connect(t, p, &client.Options{Info: mcp.Implementation{Name: "bob", Version: "1"}, Input: client.Input{Roots: new(client.Roots)}})
	equal(t, "client", "ada{}", mustCall(t, ada, "a_who", nil))
	equal(t, "client", `bob{"roots":{"listChanged":true}}`, mustCall(t, bob, "a_who", nil))
	equal(t, "connections", 2, len(one.Sessions()))
	sessions := slices.Clone(one.Sessions())
	ada.Close()
	bob.Close()
	for _, s := range sessions {
		<-s.Done()
	}
}

func TestNewRejectsUpstreams(t *testing.T) {
	connect := func(context.Context) (transport.Conn, error) { return nil, errors.New("no") }
	for want, list := range map[string][]proxy.Upstream{
		"proxy: upstream 0: empty Name":           {{Connect: connect}},
		`proxy: upstream "a:b": Name has a colon`: {{Name: "a:b", Connect: connect}},
		`proxy: upstream "a": Name is not unique`: {{Name: "a", Connect: connect}, {Name: "a", Prefix: "b_", Connect: connect}},
		`proxy: upstreams "a/b" and "a": the first Name begins with the second and a slash: choose another Name`: {
			{Name: "a", Prefix: "x_", Connect: connect}, {Name: "a/b", Prefix: "y_", Connect: connect},
		},
		`proxy: upstreams "c/d" and "c": the first Name begins with the second and a slash: choose another Name`: {
			{Name: "c/d", Prefix: "x_", Connect: connect}, {Name: "c", Prefix: "y_", Connect: connect},
		},
		`proxy: upstream "a": nil Connect`:                   {{Name: "a"}},
		`proxy: upstream "a": negative MaxConnections (-1)`:  {{Name: "a", Connect: connect, MaxConnections: -1}},
		`proxy: upstream "a": negative MaxPerPrincipal (-1)`: {{Name: "a", Connect: connect, MaxPerPrincipal: -1}},
		`proxy: upstreams "git_hub" and "git": Prefix "git_hub_" begins with Prefix "git_": choose prefixes of which none begins another`: {
			{Name: "git", Prefix: "git_", Connect: connect}, {Name: "git_hub", Prefix: "git_hub_", Connect: connect},
		},
		`proxy: upstreams "git" and "all": Prefix "git_" begins with Prefix "": choose prefixes of which none begins another`: {
			{Name: "git", Prefix: "git_", Connect: connect}, {Name: "all", Connect: connect},
		},
	} {
		if _, err := proxy.New("hub", "1", &proxy.Options{Upstreams: list}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Mistakes in Options.Server have the line of the call of New.
func TestMistakesHaveLineOfNew(t *testing.T) {
	_, _, line, _ := runtime.Caller(0)
	p, err := proxy.New("hub", "1", &proxy.Options{Server: server.Options{Features: server.Features{PageSize: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mistakes", fmt.Sprintf("proxy_test.go:%d: server: negative Features.PageSize (-1)", line+1), fmt.Sprint(p.Err()))
}

var discard = slog.New(slog.DiscardHandler)
