package interop

import (
	"bufio"
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
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// fleetLease is the lease of the processes of a fleet.
const fleetLease = 2 * time.Second

// fleetProcess is a front end or a worker, with its own connection to the servers.
type fleetProcess struct {
	name    string
	js      natsjs.JetStream
	server  *server.Server
	handler *streamable.Handler
	http    *httptest.Server // nil in a worker
	waiting chan bool        // receives when the tool wait has reported its progress
	release chan bool        // ends it
}

// startFleetProcess starts a process. A front end runs no tasks.
func startFleetProcess(t *testing.T, servers *natstest.Cluster, name string, front bool) *fleetProcess {
	t.Helper()
	p := &fleetProcess{name: name, js: servers.JetStream(t), waiting: make(chan bool, 1), release: make(chan bool, 1)}
	store, err := jetstream.Open(t.Context(), p.js, jetstream.Options{Name: "interop"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	cfg := &server.Options{
		Shared: server.Shared{Bus: jetstreamstore.NewBus(p.js.Conn(), "")}, Logger: slog.New(slog.DiscardHandler),
		Tasks: task.Options{Store: store, Member: task.Member{Name: name, Lease: fleetLease}, Updates: task.Updates{Progress: -1}},
	}
	cfg.Session.Limits.ProgressInterval = -1
	if front {
		cfg.Tasks.Member.Tools = []string{}
	}
	p.server = server.New("fleet", "1", cfg)
	server.AddTool(p.server, "where", "", func(context.Context, *server.Call, struct{}) (string, error) { return name, nil })
	server.AddTool(p.server, "count", "", func(_ context.Context, c *server.Call, _ struct{}) (string, error) { return name, count(c) })
	server.AddTool(p.server, "wait", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := c.Progress(1, 2, ""); err != nil {
			return "", err
		}
		p.waiting <- true
		select {
		case <-p.release:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		return name, c.Progress(2, 2, "")
	})
	server.AddTool(p.server, "job", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if err := count(c); err != nil {
			return "", err
		}
		return server.Step(ctx, c, "step", func(context.Context) (string, error) { return name, nil })
	}, server.Durable())
	if err := p.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.server.Close() })
	if !front {
		return p
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := jetstreamstore.Open(t.Context(), p.js, jetstreamstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	locator, err := sessions.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://" + listener.Addr().String(), Lease: fleetLease})
	if err != nil {
		t.Fatal(err)
	}
	p.handler = must.Get(p.server.Handler(&streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: sessions, Locator: locator}, Streams: streamable.Streams{Retry: 20 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}))
	p.http = &httptest.Server{Listener: listener, Config: &http.Server{Handler: p.handler}}
	p.http.Start()
	t.Cleanup(func() {
		p.handler.Close()
		p.http.CloseClientConnections()
		p.http.Close()
		locator.Close()
	})
	return p
}

// count reports progress three times.
func count(c *server.Call) error {
	for i := range 3 {
		if err := c.Progress(float64(i+1), 3, ""); err != nil {
			return err
		}
	}
	return nil
}

// kill ends a front end as the kernel would: its connections break, and it writes nothing more.
func (p *fleetProcess) kill() {
	p.js.Conn().Close()
	p.http.Listener.Close()
	p.http.CloseClientConnections()
}

// fleet is two front ends behind a proxy that sends each request to the next of them, and a worker.
type fleet struct {
	url    string
	fronts map[string]*fleetProcess

	mu      sync.Mutex
	targets []*fleetProcess
	next    int
	served  map[string]int // number of requests by front end
	session string         // id of the latest session
	resumed int            // number of requests that resume a stream
}

func startFleet(t *testing.T) *fleet {
	servers := natstest.Run(t, 1)
	f := &fleet{fronts: map[string]*fleetProcess{}, served: map[string]int{}}
	for _, name := range []string{"a", "b"} {
		f.fronts[name] = startFleetProcess(t, servers, name, true)
	}
	startFleetProcess(t, servers, "worker", false)
	f.send("a", "b")
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: &http.Transport{}, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(f.pick(r.In).http.URL)
			if err != nil {
				t.Error(err)
				return
			}
			r.SetURL(to)
		},
		ModifyResponse: func(r *http.Response) error {
			if id := r.Header.Get("Mcp-Session-Id"); id != "" {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.session = id
			}
			return nil
		},
	}
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex() // the response may begin before the end of the body is read
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
	})
	f.url = balancer.URL
	return f
}

// send makes the proxy send all further requests to the given front ends.
func (f *fleet) send(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets = nil
	for _, name := range names {
		f.targets = append(f.targets, f.fronts[name])
	}
}

// pick returns the front end for a request.
func (f *fleet) pick(r *http.Request) *fleetProcess {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("Last-Event-Id") != "" {
		f.resumed++
	}
	f.next++
	p := f.targets[f.next%len(f.targets)]
	f.served[p.name]++
	return p
}

// other returns the name of the other front end.
func (f *fleet) other(name string) string {
	if name == "a" {
		return "b"
	}
	return "a"
}

// check checks that the client has resumed a stream and ended its session.
func (f *fleet) check(t *testing.T) {
	t.Helper()
	if !f.ended(t) {
		t.Error("the session has not ended")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resumed == 0 {
		t.Error("the client has resumed no stream")
	}
}

// ended reports whether the session has ended at the front end that is left.
func (f *fleet) ended(t *testing.T) bool {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", f.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	r.Header.Set("Mcp-Session-Id", f.session)
	f.mu.Unlock()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode == http.StatusNotFound
}

// breakStream kills the front end that carries the stream of a call of wait, which another front end
// serves, and lets the call end. The requests before were sent to both.
func (f *fleet) breakStream(t *testing.T, holder string) {
	t.Helper()
	f.mu.Lock()
	if f.served["a"] == 0 || f.served["b"] == 0 {
		t.Errorf("the front ends have served %v", f.served)
	}
	f.mu.Unlock()
	f.send(holder)
	f.fronts[f.other(holder)].kill()
	f.fronts[holder].release <- true
}

// A client of the official Go SDK uses a fleet as it uses one server.
func TestOfficialClientWithFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	progress, changed := make(chan float64, 100), make(chan bool, 100)
	c := official.NewClient(&official.Implementation{Name: "official", Version: "1"}, &official.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *official.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		ToolListChangedHandler:      func(context.Context, *official.ToolListChangedRequest) { changed <- true },
	})
	s, err := c.Connect(t.Context(), &official.StreamableClientTransport{Endpoint: f.url, MaxRetries: 50}, &official.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if want := []string{"count", "job", "wait", "where"}; !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("tools %v, want %v", names, want)
	}
	call := func(tool string) (string, error) {
		p := &official.CallToolParams{Name: tool, Meta: official.Meta{}}
		p.SetProgressToken(tool)
		result, err := s.CallTool(t.Context(), p)
		if err != nil {
			return "", err
		}
		return result.Content[0].(*official.TextContent).Text, nil
	}
	mustCall := func(tool string) string {
		t.Helper()
		text, err := call(tool)
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return text
	}
	holder := mustCall("where")
	for _, tool := range []string{"count", "job"} {
		if got := mustCall(tool); got != holder { // the call of the client cannot be a task
			t.Errorf("%s is served by %s, want %s", tool, got, holder)
		}
		for i := range 3 {
			if got := <-progress; got != float64(i+1) {
				t.Errorf("%s: progress %v", tool, got)
			}
		}
	}
	f.send(f.other(holder))
	type outcome struct {
		text string
		err  error
	}
	ended := make(chan outcome)
	go func() { // ends with the call
		text, err := call("wait")
		ended <- outcome{text, err}
	}()
	<-f.fronts[holder].waiting
	<-progress
	f.send("a", "b")
	for range 4 { // at both front ends
		if got := mustCall("where"); got != holder {
			t.Errorf("a call is served by %s, want %s", got, holder)
		}
	}
	f.breakStream(t, holder)
	if got := <-ended; got.err != nil || got.text != holder {
		t.Errorf("wait: %q, %v", got.text, got.err)
	}
	if got := <-progress; got != 2 {
		t.Errorf("progress %v", got)
	}
	server.AddTool(f.fronts[holder].server, "late", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
	<-changed // over the stream that does not belong to a call
	if f.ended(t) {
		t.Error("the session has ended before its client has closed it")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	f.check(t)
}

// A client of the official TypeScript SDK uses a fleet as it uses one server.
func TestTypeScriptClientWithFleet(t *testing.T) {
	needSDK(t)
	t.Parallel()
	f := startFleet(t)
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("typescript", "fleet-client.mjs"), f.url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var got []string
	holder := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "where "):
			holder = strings.TrimPrefix(line, "where ")
			f.send(f.other(holder)) // for the call of wait
			fmt.Fprintln(in)
		case line == "wait progress 1":
			<-f.fronts[holder].waiting
			f.send("a", "b")
			fmt.Fprintln(in)
		case line == "also "+holder:
			f.breakStream(t, holder)
		case line == "waited "+holder:
			if f.ended(t) {
				t.Error("the session has ended before its client has closed it")
			}
			server.AddTool(f.fronts[holder].server, "late", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
		}
		got = append(got, line)
	}
	want := []string{
		"tools count job wait where", "count " + holder + " 1 2 3", "job worker 1 2 3", "where " + holder, "wait progress 1", "also " + holder, "wait progress 2", "waited " + holder,
		"changed", "done",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the client prints (-want +got):\n%s", diff)
	}
	f.check(t)
}
