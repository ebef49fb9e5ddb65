package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// addedTool, addedPrompt, addedResource and addedTemplate add a feature with a description.
func addedTool(name, description string, options ...server.ToolOption) func(*server.Server) {
	return func(s *server.Server) { server.AddTool(s, name, description, sayHi, options...) }
}

func addedPrompt(name string) func(*server.Server) {
	return func(s *server.Server) {
		server.AddPrompt(s, name, "", func(context.Context, *server.Call, map[string]string) (string, error) { return "", nil })
	}
}

func addedResource(uri string) func(*server.Server) {
	return func(s *server.Server) { server.AddResource(s, uri, "r", readText) }
}

func addedTemplate(uri string, options ...server.TemplateOption) func(*server.Server) {
	return func(s *server.Server) { server.AddTemplate(s, uri, "t", readText, options...) }
}

// announced returns the lists that a client was notified of.
func (c *testClient) announced() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lists []string
	for _, n := range c.notices {
		if list, ok := strings.CutSuffix(n.Method, "/list_changed"); ok {
			lists = append(lists, strings.TrimPrefix(list, "notifications/"))
		}
	}
	c.notices = nil
	return strings.Join(lists, " ")
}

func TestChangedListsAreAnnouncedAfterRestore(t *testing.T) {
	middleware := func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) { return next(ctx, req) }
	}
	edited := server.Options{Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{middleware}}}}
	own := server.Options{Features: server.Features{Methods: map[string]session.Handler{mcp.MethodToolsList: func(context.Context, *session.Request) (codec.Encoder, error) {
		return &mcp.ListToolsResult{}, nil
	}}}}
	some := server.VisibleTo(func(*server.Call) bool { return true })
	type build struct {
		version  string
		cfg      server.Options
		features []func(*server.Server)
	}
	of := func(version string, features ...func(*server.Server)) build {
		return build{version: version, features: features}
	}
	with := func(cfg server.Options, b build) build {
		b.cfg = cfg
		return b
	}
	a, b := addedTool("a", ""), addedTool("b", "")
	disabled := func(s *server.Server) {
		if err := server.AddTool(s, "b", "", sayHi).Disable(); err != nil {
			t.Fatal(err)
		}
	}
	files := server.ListFunc(func(context.Context, *server.Call, string) ([]mcp.Resource, string, error) { return nil, "", nil })
	for _, tt := range []struct {
		name         string
		older, newer build
		want         string
	}{
		{"same features", of("1", a, b, addedPrompt("p"), addedResource("x:r"), addedTemplate("x:{t}")), of("1", addedTemplate("x:{t}"), addedResource("x:r"), addedPrompt("p"), b, a), ""},
		{"other build", of("1", a), of("2", a), ""},
		{"tool added", of("1", a), of("1", a, b), "tools"},
		{"tool removed", of("1", a, b), of("1", a), "tools"},
		{"tool described in other words", of("1", a), of("1", addedTool("a", "better")), "tools"},
		{"tool disabled", of("1", a, b), of("1", a, disabled), "tools"},
		{"disabled tool added", of("1", a), of("1", a, disabled), ""},
		{"all tools removed", of("1", a), of("1"), "tools"},
		{"tools of a server without any", of("1", addedPrompt("p")), of("1", a, addedPrompt("p")), ""},
		{"no feature", of("1"), of("1", a), ""},
		{"prompt added", of("1", a, addedPrompt("p")), of("1", a, addedPrompt("p"), addedPrompt("q")), "prompts"},
		{"resource added", of("1", a, addedResource("x:r")), of("1", a, addedResource("x:r"), addedResource("x:s")), "resources"},
		{"template added", of("1", a, addedResource("x:r")), of("1", a, addedResource("x:r"), addedTemplate("x:{t}")), "resources"},
		{"everything", of("1", a, addedPrompt("p"), addedResource("x:r")), of("1", b, addedPrompt("q"), addedResource("x:s")), "tools resources prompts"},
		{"lists that differ between callers", of("1", addedTool("a", "", some), addedPrompt("p")), of("1", addedTool("a", "", some), addedPrompt("p")), "tools"},
		{"function lists the resources", of("1", addedTemplate("x:{t}", files)), of("1", addedTemplate("x:{t}", files)), "resources"},
		{"handler lists the tools", with(own, of("1", addedPrompt("p"))), with(own, of("1", addedPrompt("p"))), "tools"},
		{"middleware of one version", with(edited, of("1", a)), with(edited, of("1", a)), ""},
		{"middleware of two versions", with(edited, of("1", a)), with(edited, of("2", a)), "tools"},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := func(b build) *server.Server {
				s := server.New("test", b.version, &b.cfg)
				t.Cleanup(func() { s.Close() })
				for _, add := range b.features {
					add(s)
				}
				return s
			}
			c, k := connectWithState(t, start(tt.older), clientConfig{}, nil)
			if got := c.announced(); got != "" {
				t.Errorf("%s: announced in a new session: %q", tt.name, got)
			}
			newer := start(tt.newer)
			restored, _ := connectWithState(t, newer, clientConfig{}, k.state)
			if got := restored.announced(); got != tt.want {
				t.Errorf("%s: announced %q, want %q", tt.name, got, tt.want)
			}
		})
	}
}

// The client of a restored session keeps the list that it has fetched last, which may be that of an
// earlier change.
func TestFetchedListIsComparedAfterRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := func(features ...func(*server.Server)) *server.Server {
			s := newServer(t, server.Options{})
			for _, add := range features {
				add(s)
			}
			return s
		}
		a, b, p := addedTool("a", ""), addedTool("b", ""), addedPrompt("p")
		s := start(a, p)
		c, k := connectWithState(t, s, clientConfig{}, nil)
		c.toolNames()
		if k.writes != 1 {
			t.Errorf("the state was written %d times, want only for the handshake", k.writes)
		}
		b(s)
		equal(t, "change in the process", "tools", c.announced())
		changed := k.state
		c.toolNames()
		c.toolNames()
		if k.writes != 2 {
			t.Errorf("the state was written %d times, want once for the new list", k.writes)
		}
		c.expect("prompts/list", "", `{"prompts":[{"name":"p"}]}`)
		for _, tt := range []struct {
			name     string
			state    []byte
			features []func(*server.Server)
			want     string
		}{
			{"the list that was fetched", k.state, []func(*server.Server){a, b, p}, ""},
			{"the list of the handshake", k.state, []func(*server.Server){a, p}, "tools"},
			{"not fetched after the change, list of the handshake", changed, []func(*server.Server){a, p}, ""},
			{"not fetched after the change", changed, []func(*server.Server){a, b, p}, "tools"},
			{"state of an earlier version of this module", []byte(`{"level":"error"}`), []func(*server.Server){a, p}, "tools prompts"},
			{"fingerprints of a later version of this module", []byte(`{"lists":{"tools":1,"agents":2}}`), []func(*server.Server){a, p}, "tools"},
		} {
			c, next := connectWithState(t, start(tt.features...), clientConfig{}, tt.state)
			equal(t, tt.name, tt.want, c.announced())
			if next.writes > 0 {
				t.Errorf("%s: the state was written %d times before a list was fetched", tt.name, next.writes)
			}
			c.toolNames()
			c, _ = connectWithState(t, start(tt.features...), clientConfig{}, next.state)
			if want := strings.TrimPrefix(strings.TrimPrefix(tt.want, "tools"), " "); want != c.announced() {
				t.Errorf("%s: announced again after the tools were fetched, want %q", tt.name, want)
			}
		}
	})
}

func TestListThatClientDoesNotExpectIsNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		addedPrompt("p")(s)
		_, k := connectWithState(t, s, clientConfig{}, nil)
		next := newServer(t, server.Options{})
		addedTool("a", "")(next)
		addedPrompt("p")(next)
		c, _ := connectWithState(t, next, clientConfig{}, k.state)
		addedTool("b", "")(next)
		addedPrompt("q")(next)
		equal(t, "announced", "prompts", c.announced())
	})
}

// upgraded is an endpoint whose server is replaced by others with the same store.
type upgraded struct {
	t       *testing.T
	file    string
	events  chan streamable.Event // appended to the streams for messages that belong to no request
	current atomic.Pointer[http.Handler]
	stop    func()
}

// recordedStore sends the events of standing streams to a channel.
type recordedStore struct {
	*boltstore.Store
	events chan streamable.Event
}

func (s recordedStore) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	err := s.Store.Append(ctx, session, stream, e)
	if stream == "0" {
		s.events <- e
	}
	return err
}

func (u *upgraded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*u.current.Load()).ServeHTTP(w, r)
}

// start replaces the server.
func (u *upgraded) start(version string, features ...func(*server.Server)) *server.Server {
	u.t.Helper()
	if u.stop != nil {
		u.stop()
	}
	store, err := boltstore.Open(u.file, boltstore.Options{})
	if err != nil {
		u.t.Fatal(err)
	}
	s := server.New("test", version, nil)
	for _, add := range features {
		add(s)
	}
	handler := must(s.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: recordedStore{store, u.events}}, Streams: streamable.Streams{Retry: time.Millisecond}}))
	var h http.Handler = handler
	u.current.Store(&h)
	u.stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Shutdown(ctx)
		handler.Shutdown(ctx)
		store.Close()
	}
	return s
}

func newUpgraded(t *testing.T) (u *upgraded, url string) {
	u = &upgraded{t: t, file: filepath.Join(t.TempDir(), "sessions.db"), events: make(chan streamable.Event, 100)}
	t.Cleanup(func() { u.stop() })
	web := httptest.NewServer(u)
	t.Cleanup(web.Close)
	return u, web.URL
}

// listWatcher sends the notifications of changed lists to channels.
type listWatcher struct {
	mcp.UnimplementedClientNotificationHandler
	tools, prompts chan bool
}

func (w listWatcher) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	w.tools <- true
	return nil
}

func (w listWatcher) PromptListChanged(context.Context, *mcp.NotificationParams) error {
	w.prompts <- true
	return nil
}

func TestClientFetchesChangedToolsAfterUpgrade(t *testing.T) {
	u, url := newUpgraded(t)
	older, both, newer, p := addedTool("old", ""), addedTool("both", ""), addedTool("new", ""), addedPrompt("p")
	u.start("1", older, both, p)
	w := listWatcher{tools: make(chan bool, 100), prompts: make(chan bool, 100)}
	o := client.Options{Notifications: w}
	o.Session.Revisions = []mcp.Revision{mcp.Revision20251125}
	o.Session.Hooks.Reopened = func(*mcp.InitializeResult) { t.Error("the session was lost") }
	o.HTTP.Retries.Delay = time.Millisecond
	c, err := client.Dial(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	names := func() string {
		var names []string
		for tool, err := range c.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return strings.Join(names, " ")
	}
	equal(t, "first version", "both old", names())
	for _, step := range []struct {
		name, version, want string
		features            []func(*server.Server)
	}{
		{"upgrade", "2", "both new", []func(*server.Server){both, newer, p}},
		{"roll-back", "1", "both old", []func(*server.Server){older, both, p}},
		{"upgrade again", "2", "both new", []func(*server.Server){both, newer, p}},
	} {
		u.start(step.version, step.features...)
		if _, err := c.CallTool(t.Context(), "both", nil); err != nil {
			t.Fatal(err)
		}
		<-w.tools
		equal(t, step.name, step.want, names())
	}
	s := u.start("3", both, newer, p)
	if _, err := c.CallTool(t.Context(), "both", nil); err != nil {
		t.Fatal(err)
	}
	s.ListChanged(mcp.MethodNotificationsPromptsListChanged) // notifications arrive in order
	<-w.prompts
	if len(w.tools) > 0 {
		t.Error("another build with the same tools has announced them")
	}
}

// The client has no stream for the notification until the server is replaced again.
func TestChangedListsAreAnnouncedInEventLog(t *testing.T) {
	u, url := newUpgraded(t)
	session := ""
	send := func(method, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode >= 300 {
			text, _ := io.ReadAll(response.Body)
			t.Fatalf("%s: %s: %s", body, response.Status, text)
		}
		return response
	}
	post := func(body string) {
		response := send(http.MethodPost, body)
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if id := response.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
	}
	u.start("1", addedTool("old", ""))
	post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	u.start("2", addedTool("new", ""))
	post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	<-u.events
	u.start("1", addedTool("old", "")) // no change for a client that has fetched nothing since
	stream := send(http.MethodGet, "")
	defer stream.Body.Close()
	for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
			var m struct{ Method string }
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			equal(t, "first message", mcp.MethodNotificationsToolsListChanged, m.Method)
			return
		}
	}
	t.Error("the stream ended without a message")
}
