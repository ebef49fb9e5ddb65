package jetstreamstore_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// node is a process with a server, a handler and a port of its own.
type node struct {
	*process
	name    string
	server  *server.Server
	handler *streamable.Handler
	http    *httptest.Server
	waiting chan struct{} // receives when the tool wait starts
	release chan struct{} // closed to end it
}

// startNode starts a process with common features and others.
func startNode(t *testing.T, servers *natstest.Cluster, name string, others ...func(*server.Server)) *node {
	t.Helper()
	n := &node{name: name, waiting: make(chan struct{}, 100), release: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.process = join(t, servers.JetStream(t), "http://"+listener.Addr().String()+"/mcp", noExpiry)
	n.server = server.New("fleet", "1", &server.Options{
		Shared: server.Shared{Bus: jetstreamstore.NewBus(n.js.Conn(), "")},
		Hooks:  server.Hooks{Subscribe: func(context.Context, *server.Call, string) error { return nil }},
	})
	server.AddTool(n.server, "where", "", func(context.Context, *server.Call, struct{}) (string, error) { return name, nil })
	server.AddTool(n.server, "ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var form struct{ City string }
		action, err := server.Elicit(ctx, c, "Which city?", &form)
		return fmt.Sprint(action, " ", form.City, " at ", name), err
	})
	server.AddTool(n.server, "count", "", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
		for i := range 5 {
			if err := c.Progress(float64(i+1), 5, ""); err != nil {
				return "", err
			}
		}
		return name, nil
	})
	server.AddTool(n.server, "wait", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
		n.waiting <- struct{}{}
		select {
		case <-n.release:
		case <-ctx.Done():
		}
		return name, nil
	})
	server.AddResource(n.server, "news://today", "news", func(context.Context, *server.Call, server.Resource) (string, error) { return "none", nil })
	for _, add := range others {
		add(n.server)
	}
	n.handler = must.Get(n.server.Handler(&streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: n.Store, Locator: n.Locator}, Streams: streamable.Streams{Retry: 10 * time.Millisecond, After: -1}, Logger: slog.New(slog.DiscardHandler),
		Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }},
	}))
	n.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: n.handler}}
	n.http.Start()
	t.Cleanup(n.stop)
	return n
}

// stop ends the process in order.
func (n *node) stop() {
	n.handler.Close()
	n.http.CloseClientConnections()
	n.http.Close()
	n.server.Close()
	n.Locator.Close()
}

// handOver ends the process in order, and leaves its sessions to the others.
func (n *node) handOver(t *testing.T, b *balancer) {
	t.Helper()
	b.remove(n)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := n.server.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := n.handler.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	n.stop()
}

// kill ends the process as the kernel would: its connections break, and it writes nothing more. Its
// lease ends when JetStream deletes it.
func (n *node) kill(t *testing.T) {
	t.Helper()
	n.js.Conn().Close()
	n.http.CloseClientConnections()
	n.http.Listener.Close()
}

// balancer sends each request to the next process.
type balancer struct {
	*httptest.Server
	mu    sync.Mutex
	nodes []*node
	next  int
}

func newBalancer(t *testing.T, nodes ...*node) *balancer {
	b := &balancer{nodes: nodes}
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{},
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.next++
			to, err := url.Parse(b.nodes[b.next%len(b.nodes)].http.URL)
			if err != nil {
				t.Error(err)
				return
			}
			r.SetURL(to)
			r.Out.URL.Path = "/mcp"
			r.Out.Host = r.In.Host
		},
	}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // the response may begin before the end of the body is read
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		b.CloseClientConnections()
		b.Close()
	})
	return b
}

// remove removes a process that does not respond.
func (b *balancer) remove(n *node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rest []*node
	for _, other := range b.nodes {
		if other != n {
			rest = append(rest, other)
		}
	}
	b.nodes = rest
}

// updates receives notifications.
type updates struct {
	mcp.UnimplementedClientNotificationHandler
	resources chan string
	tools     chan bool
}

func (u updates) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	u.tools <- true
	return nil
}

func (u updates) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	u.resources <- p.URI
	return nil
}

// dial opens a session over the balancer.
func dial(t *testing.T, b *balancer) (*client.Client, updates) {
	t.Helper()
	u := updates{resources: make(chan string, 100), tools: make(chan bool, 100)}
	o := client.Options{
		Notifications: u,
		Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Accept(map[string]any{"City": "Bern"})
		}},
	}
	o.HTTP.Header = http.Header{"Authorization": {"ann"}}
	o.HTTP.Retries.Delay = 5 * time.Millisecond
	o.HTTP.Retries.MaxDelay = 2 * time.Second
	o.HTTP.Retries.Max = 100
	o.Session.Revisions = session.Revisions()
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { t.Error("the session was lost") }
	c, err := client.Dial(t.Context(), b.URL, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, u
}

// call calls a tool, and waits at most two minutes.
func call(ctx context.Context, c *client.Client, tool string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	result, err := c.CallTool(ctx, tool, nil)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// mustCall calls a tool and returns the name of the process that has served the call.
func mustCall(t *testing.T, c *client.Client, tool string) string {
	t.Helper()
	text, err := call(t.Context(), c, tool)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return text
}

// Three processes behind a balancer serve sessions as one does. One of them is killed, and its
// sessions continue at the others: requests, streams, subscriptions, and requests of the server.
func TestFleet(t *testing.T) {
	servers := natstest.Run(t, 1)
	byName := map[string]*node{}
	var nodes []*node
	for _, name := range []string{"a", "b", "c"} {
		n := startNode(t, servers, name)
		byName[name] = n
		nodes = append(nodes, n)
	}
	b := newBalancer(t, nodes...)
	var clients []*client.Client
	var all []updates
	for range 6 {
		c, u := dial(t, b)
		clients, all = append(clients, c), append(all, u)
		if err := c.Subscribe(t.Context(), "news://today"); err != nil {
			t.Fatal(err)
		}
	}
	holder := func(c *client.Client) string {
		t.Helper()
		first := mustCall(t, c, "where")
		for range 4 {
			if got := mustCall(t, c, "where"); got != first {
				t.Errorf("a session is served by %s and %s", first, got)
			}
		}
		return first
	}
	check := func(when string) {
		t.Helper()
		for _, c := range clients { // restores the session and its subscriptions
			if err := c.Unsubscribe(t.Context(), "news://other"); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		for _, c := range clients {
			at := holder(c)
			if got := mustCall(t, c, "ask"); got != "accept Bern at "+at {
				t.Errorf("%s: elicitation: %s", when, got)
			}
			if got := mustCall(t, c, "count"); got != at {
				t.Errorf("%s: call with progress: %s", when, got)
			}
		}
		for _, n := range byName { // an update at any process reaches the sessions of all
			n.server.ResourceUpdated("news://today")
			for _, u := range all {
				natstest.Receive(t, "the update of "+n.name+" arrived", u.resources)
			}
		}
	}
	check("before")
	victim := byName[holder(clients[0])]
	stuck := make(chan error, 1)
	go func() { // ends with the answer
		_, err := call(t.Context(), clients[0], "wait")
		stuck <- err
	}()
	natstest.Receive(t, "the call began", victim.waiting)
	b.remove(victim)
	victim.kill(t)
	expireOf(t, nodes, victim)
	// If the process had not begun to respond, the load balancer responds in its place.
	if err := natstest.Receive(t, "the call ended", stuck); err == nil || !strings.Contains(err.Error(), "restarted") && !strings.Contains(err.Error(), "502") {
		t.Errorf("the call that the killed process has served: %v", err)
	}
	delete(byName, victim.name)
	check("after one process was killed")

	// A process that shuts down hands over.
	var leaver *node
	for _, n := range byName {
		leaver = n
	}
	leaver.handOver(t, b)
	delete(byName, leaver.name)
	check("after one process has shut down")
}

// Processes are replaced by an upgrade and by a roll-back. The client fetches the tools again when
// its session is in a process with others.
func TestChangedToolsAreAnnouncedByUpgradedProcess(t *testing.T) {
	servers := natstest.Run(t, 1)
	added := func(s *server.Server) {
		server.AddTool(s, "added", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	}
	current := startNode(t, servers, "first")
	b := newBalancer(t, current)
	c, u := dial(t, b)
	has := func(tool string) bool {
		t.Helper()
		found := false
		for each, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || each.Name == tool
		}
		return found
	}
	if has("added") {
		t.Error("the first process has the tool")
	}
	for _, step := range []struct {
		name     string
		features []func(*server.Server)
		changed  bool
	}{
		{"same", nil, false},
		{"upgraded", []func(*server.Server){added}, true},
		{"upgraded again", []func(*server.Server){added}, false},
		{"rolled back", nil, true},
	} {
		next := startNode(t, servers, step.name, step.features...)
		b.mu.Lock()
		b.nodes = append(b.nodes, next)
		b.mu.Unlock()
		current.handOver(t, b)
		if got := mustCall(t, c, "where"); got != step.name {
			t.Errorf("%s: served by %s", step.name, got)
		}
		if step.changed {
			natstest.Receive(t, "the notification of "+step.name+" arrived", u.tools)
		}
		if got, want := has("added"), len(step.features) > 0; got != want {
			t.Errorf("%s: the client has the tool: %t, want %t", step.name, got, want)
		}
		current = next
	}
	if len(u.tools) > 0 {
		t.Error("the tools were announced without a change")
	}
}

// expireOf deletes the lease of a process, as JetStream does when it is not renewed.
func expireOf(t *testing.T, nodes []*node, victim *node) {
	t.Helper()
	for _, n := range nodes {
		if n == victim {
			continue
		}
		if err := jetstreamstore.ExpireLease(t.Context(), processes(t, n.js), victim.Locator); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// A process that is cut off from JetStream, but not from its clients, can write nothing after
// another one has taken over, and its session ends there.
func TestPartitionedHolder(t *testing.T) {
	servers := natstest.Run(t, 1)
	a, b := startNode(t, servers, "a"), startNode(t, servers, "b")
	both := newBalancer(t, a)
	c, u := dial(t, both)
	if err := c.Subscribe(t.Context(), "news://today"); err != nil {
		t.Fatal(err)
	}
	if got := mustCall(t, c, "where"); got != "a" {
		t.Fatalf("served by %s", got)
	}
	expireOf(t, []*node{a, b}, a) // a does not know
	both.mu.Lock()
	both.nodes = []*node{b}
	both.mu.Unlock()
	if got := mustCall(t, c, "where"); got != "b" {
		t.Errorf("served by %s", got)
	}
	a.server.ResourceUpdated("news://today") // writes to the session
	wait(t, "end of the session at the old holder", func() bool { return len(a.server.Sessions()) == 0 })
	for range 3 {
		if got := mustCall(t, c, "where"); got != "b" {
			t.Errorf("served by %s", got)
		}
	}
	b.server.ResourceUpdated("news://today")
	natstest.Receive(t, "the update arrived", u.resources)
	both.mu.Lock()
	both.nodes = []*node{a, b}
	both.mu.Unlock()
	for range 4 { // a forwards to b
		if got := mustCall(t, c, "where"); got != "b" {
			t.Errorf("served by %s", got)
		}
	}
}
