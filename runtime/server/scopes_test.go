package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

const protectedURL = "https://mcp.example.com/mcp"

// newProtector returns a Protector whose tokens are a subject and scopes, separated by slashes. The
// subject "bad" has an invalid token, and "foreign" one for another server. Tokens with the scope
// "short" expire after ten minutes.
func newProtector(t testing.TB, c auth.Options) *auth.Protector {
	t.Helper()
	c.Resource, c.Issuers = protectedURL, []string{"https://as.example.com"}
	start := time.Now()
	c.Verifier = auth.VerifierFunc(func(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
		list := strings.Split(c.Token.Reveal(), "/")
		if list[0] == "bad" {
			return nil, auth.ErrInvalidToken
		}
		audience := protectedURL
		if list[0] == "foreign" {
			audience = "https://other.example.com"
		}
		i := &auth.Identity{Subject: list[0], Scopes: list[1:], Audience: []string{audience}, Claims: map[string]any{"team": "red"}}
		if slices.Contains(list, "short") {
			i.Expiry = start.Add(10 * time.Minute)
		}
		return i, nil
	})
	p, err := auth.NewProtector(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// protectedServer records the calls of its functions.
type protectedServer struct {
	mu    sync.Mutex
	calls []string
}

func (x *protectedServer) called(c *server.Call, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, ok := c.Identity()
	if !ok {
		i = new(auth.Identity)
	}
	for _, name := range []string{"Authorization", "Proxy-Authorization", "Dpop"} {
		if c.Header()[name] != nil {
			x.calls = append(x.calls, name)
		}
	}
	x.calls = append(x.calls, fmt.Sprintf("%s %s %v %v %s", name, c.Principal(), c.HasScopes("write"), i.Claims["team"], c.Header().Get("X-Other")))
}

func (x *protectedServer) take() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() { x.calls = nil }()
	return x.calls
}

func (x *protectedServer) add(s *server.Server) {
	tool := func(name string) server.ToolFunc[struct{}, string] {
		return func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
			x.called(c, name)
			return "done", nil
		}
	}
	server.AddTool(s, "read", "", tool("read"))
	server.AddTool(s, "write", "", tool("write"), server.RequireScopes("write"))
	server.AddTool(s, "path", "", func(_ context.Context, c *server.Call, in struct{ Path string }) (string, error) {
		x.called(c, "path")
		return "done", nil
	}, server.RequireScopesFor(func(_ context.Context, arguments json.RawMessage) []string {
		if strings.Contains(string(arguments), "panic") {
			panic(1)
		}
		if strings.Contains(string(arguments), "etc") {
			return []string{"admin", "mcp"}
		}
		return nil
	}))
	read := func(_ context.Context, c *server.Call, r server.Resource) (string, error) {
		x.called(c, r.URI)
		return "text", nil
	}
	server.AddPrompt(s, "prompt", "", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
		x.called(c, "prompt")
		return "text", nil
	}, server.RequireScopes("prompt"))
	server.AddResource(s, "file:///open", "open", read)
	server.AddResource(s, "file:///secret", "secret", read, server.RequireScopes("secret"))
	server.AddTemplate(s, "file:///a/{name}", "hidden", read, server.RequireScopes("hidden"), server.VisibleTo(func(c *server.Call) bool { return false }))
	server.AddTemplate(s, "file:///{+path}", "all", read, server.RequireScopes("files"))
}

// send sends a message of a session, or a modern one if session is "-". It returns the response.
func send(t testing.TB, h http.Handler, sessionID, token, method, params string) *httptest.ResponseRecorder {
	t.Helper()
	header := map[string]string{"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "X-Other": "kept"}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	switch sessionID {
	case "-":
		meta := `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + extensionOnly + `}`
		if params != "{}" {
			meta += ","
		}
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, meta+params[1:])
		header["Mcp-Protocol-Version"], header["Mcp-Method"] = "2026-07-28", method
		if name := cmp.Or(part(params, "name"), part(params, "uri"), part(params, "taskId")); name != "" && method != "completion/complete" {
			header["Mcp-Name"] = strings.Trim(name, `"`)
		}
	case "":
	default:
		header["Mcp-Session-Id"] = sessionID
	}
	if method == "[" {
		body = params
	}
	r := httptest.NewRequest("POST", protectedURL, strings.NewReader(body))
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
		r.Header.Set("DPoP", "secret")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// open opens a session.
func open(t testing.TB, h http.Handler, token, revision string) string {
	t.Helper()
	w := send(t, h, "", token, "initialize", `{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	id := w.Header().Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return id
}

// Proves AUTH-20, AUTH-21, AUTH-22, AUTH-23, M-AUTH-02, M-AUTH-03, M-AUTH-04.
func TestProtectedServer(t *testing.T) {
	x := new(protectedServer)
	s := newServer(t, server.Options{Features: server.Features{Scopes: map[string][]string{"prompts/list": {"list"}}}})
	x.add(s)
	h := must(s.Handler(&streamable.HandlerOptions{Auth: newProtector(t, auth.Options{Scopes: []string{"mcp"}})}))
	defer h.Close()
	sessions := map[string]string{}
	for _, test := range []struct {
		token, method, params string
		status                int
		want                  string // the scopes of the challenge, or the call
	}{
		{"", "tools/call", `{"name":"read"}`, 401, "mcp"},
		{"bad", "tools/call", `{"name":"read"}`, 401, "mcp"},
		{"foreign/mcp", "tools/call", `{"name":"read"}`, 401, "mcp"},
		{"ann", "tools/call", `{"name":"write"}`, 403, "mcp"},
		{"ann/mcp", "tools/call", `{"name":"read"}`, 200, "read"},
		{"ann/mcp", "tools/call", `{"name":"unknown"}`, 200, ""},
		{"ann/mcp", "tools/list", `{}`, 200, ""},
		{"ann/mcp", "prompts/list", `{}`, 403, "mcp list"},
		{"ann/mcp/list", "prompts/list", `{}`, 200, ""},
		{"ann/mcp", "tools/call", `{"name":"write"}`, 403, "mcp write"},
		{"ann/mcp/write", "tools/call", `{"name":"write"}`, 200, "write"},
		{"ann/mcp", "tools/call", `{"name":"path","arguments":{"Path":"/etc"}}`, 403, "mcp admin"},
		{"ann/mcp", "tools/call", `{"name":"path","arguments":{"Path":"/home"}}`, 200, "path"},
		{"ann/mcp", "tools/call", `{"name":"path","arguments":{"Path":"panic"}}`, 500, ""},
		{"ann/mcp/admin", "tools/call", `{"name":"path","arguments":{"Path":"/etc"}}`, 200, "path"},
		{"ann/mcp", "prompts/get", `{"name":"prompt"}`, 403, "mcp prompt"},
		{"ann/mcp/prompt", "prompts/get", `{"name":"prompt"}`, 200, "prompt"},
		{"ann/mcp", "completion/complete", `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`, 403, "mcp prompt"},
		{"ann/mcp", "resources/read", `{"uri":"file:///open"}`, 200, "file:///open"},
		{"ann/mcp", "resources/read", `{"uri":"file:///secret"}`, 403, "mcp secret"},
		{"ann/mcp/secret", "resources/read", `{"uri":"file:///secret"}`, 200, "file:///secret"},
		{"ann/mcp/files", "resources/read", `{"uri":"file:///b"}`, 200, "file:///b"},
		{"ann/mcp/files", "resources/read", `{"uri":"file:///a/b"}`, 403, "mcp hidden files"},
	} {
		for _, era := range []string{"2025-11-25", "-"} {
			id := "-"
			if era != "-" {
				if id = sessions[test.token]; id == "" && strings.Contains(test.token, "/mcp") && test.status != 401 {
					id = open(t, h, test.token, era)
					sessions[test.token] = id
				}
			}
			w := send(t, h, id, test.token, test.method, test.params)
			calls := x.take()
			if w.Code != test.status {
				t.Errorf("%+v in %s: status %d: %s", test, era, w.Code, w.Body)
				continue
			}
			if test.status == 200 {
				want := []string(nil)
				if test.want != "" {
					want = []string{fmt.Sprintf("%s https://as.example.com#ann %v red kept", test.want, strings.Contains(test.token, "write"))}
				}
				if !slices.Equal(calls, want) {
					t.Errorf("%+v in %s: called %q, want %q", test, era, calls, want)
				}
				continue
			}
			if len(calls) > 0 {
				t.Errorf("%+v in %s: called %q", test, era, calls)
			}
			if test.status == 500 {
				continue
			}
			c := w.Header()["Www-Authenticate"]
			if len(c) != 1 || !strings.HasPrefix(c[0], "Bearer ") || param(c[0], "scope") != test.want || param(c[0], "resource_metadata") == "" ||
				(param(c[0], "error") == "insufficient_scope") != (test.status == 403) {
				t.Errorf("%+v in %s: challenge %q", test, era, c)
			}
			if test.status == 403 && test.token != "ann" && part(w.Body.String(), "id") != "1" {
				t.Errorf("%+v in %s: %s", test, era, w.Body)
			}
		}
	}
	// A subscription needs the scopes of its resources.
	for token, want := range map[string]int{"ann/mcp": 403, "ann/mcp/secret": 200} {
		id := open(t, h, token, "2025-11-25")
		if w := send(t, h, id, token, "resources/subscribe", `{"uri":"file:///secret"}`); w.Code != want {
			t.Errorf("subscribe with %s: status %d: %s", token, w.Code, w.Body)
		}
	}
	w := send(t, h, "-", "ann/mcp", "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///open","file:///secret"]}}`)
	if w.Code != 403 || !strings.Contains(w.Header().Get("WWW-Authenticate"), `scope="mcp secret"`) {
		t.Errorf("listen: status %d: %s", w.Code, w.Body)
	}
	// A batch needs the scopes of all its messages.
	for token, want := range map[string]int{"ann/mcp": 403, "ann/mcp/write/prompt": 200} {
		id := open(t, h, token, "2025-03-26")
		w := send(t, h, id, token, "[", `[{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"prompt"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"write"}}]`)
		if w.Code != want || want == 403 && !strings.Contains(w.Header().Get("WWW-Authenticate"), `scope="mcp prompt write"`) {
			t.Errorf("batch with %s: status %d, %v: %s", token, w.Code, w.Header(), w.Body)
		}
	}
	// A session belongs to its principal, and needs a token for each request.
	id := open(t, h, "ann/mcp", "2025-11-25")
	for token, want := range map[string]int{"bob/mcp": 404, "": 401, "ann/mcp": 200} {
		if w := send(t, h, id, token, "tools/list", `{}`); w.Code != want {
			t.Errorf("session with token %q: status %d: %s", token, w.Code, w.Body)
		}
	}
}

// An open stream ends in order when its token expires. A request that is being served does not.
func TestStreamsEndWithTheToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		server.AddTool(s, "slow", "", func(context.Context, *server.Call, struct{}) (string, error) {
			time.Sleep(20 * time.Minute)
			return "done", nil
		})
		h := must(s.Handler(&streamable.HandlerOptions{Auth: newProtector(t, auth.Options{})}))
		defer s.Close()
		defer h.Close()
		const short = "ann/short"
		id := open(t, h, short, "2025-11-25")
		start := time.Now()
		type outcome struct {
			after time.Duration
			body  string
		}
		outcomes := map[string]chan outcome{}
		run := func(name string, f func() *httptest.ResponseRecorder) {
			outcomes[name] = make(chan outcome, 1)
			go func() {
				w := f()
				if w.Code != 200 {
					t.Errorf("%s: status %d: %s", name, w.Code, w.Body)
				}
				outcomes[name] <- outcome{time.Since(start), w.Body.String()}
			}()
		}
		run("GET", func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", protectedURL, nil)
			r.Header = http.Header{"Authorization": {"Bearer " + short}, "Mcp-Session-Id": {id}, "Accept": {"text/event-stream"}}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		})
		run("listen", func() *httptest.ResponseRecorder {
			return send(t, h, "-", short, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		})
		for _, id := range []string{id, "-"} {
			run("call "+id, func() *httptest.ResponseRecorder { return send(t, h, id, short, "tools/call", `{"name":"slow"}`) })
		}
		for name, ended := range outcomes {
			got := <-ended
			want, text := 11*time.Minute, `"resultType":"complete"`
			switch {
			case strings.HasPrefix(name, "call"):
				want, text = 20*time.Minute, "done"
			case name == "GET":
				text = "retry:"
			}
			if got.after != want || !strings.Contains(got.body, text) || strings.Contains(got.body, `"error"`) {
				t.Errorf("%s: ended after %v with %s", name, got.after, got.body)
			}
		}
		for token, want := range map[string]int{short: 401, "ann/long": 200} {
			if w := send(t, h, id, token, "tools/list", "{}"); w.Code != want {
				t.Errorf("%s: status %d: %s", token, w.Code, w.Body)
			}
		}
	})
}

// A server whose transport does not ask for the required scopes rejects calls itself.
func TestServerRejectsCallsWithTooFewScopes(t *testing.T) {
	x := new(protectedServer)
	s := newServer(t, server.Options{})
	x.add(s)
	h := must(s.Handler(&streamable.HandlerOptions{
		Auth:   newProtector(t, auth.Options{}),
		Access: streamable.Access{RequiredScopes: func(context.Context, string, []byte) []string { return nil }},
	}))
	defer h.Close()
	for _, era := range []string{"2025-11-25", "-"} {
		for token, want := range map[string]string{"ann": "too few scopes", "ann/write": "done"} {
			id := era
			if era != "-" {
				id = open(t, h, token, era)
			}
			w := send(t, h, id, token, "tools/call", `{"name":"write"}`)
			if calls := x.take(); w.Code != 200 || !strings.Contains(w.Body.String(), want) || len(calls) != strings.Count(want, "done") {
				t.Errorf("%s in %s: status %d: %s, called %q", token, era, w.Code, w.Body, calls)
			}
		}
	}
}

// Without authorization, as over stdio, calls have all scopes and no identity.
func TestScopesAreNotNeededWithoutAuthorization(t *testing.T) {
	x := new(protectedServer)
	s := newServer(t, server.Options{Features: server.Features{Scopes: map[string][]string{"*": {"mcp"}}}})
	x.add(s)
	h := must(s.Handler(nil))
	defer h.Close()
	r := send(t, h, "-", "", "tools/call", `{"name":"write"}`)
	if calls := x.take(); r.Code != 200 || !slices.Equal(calls, []string{"write  true <nil> kept"}) {
		t.Errorf("status %d: %s, called %q", r.Code, r.Body, calls)
	}
}

func TestResultsOfProtectedServersArePrivate(t *testing.T) {
	known := func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") == "" {
			return "", errors.New("no key")
		}
		return "ann", nil
	}
	for _, c := range []struct {
		caching server.Caching
		options streamable.HandlerOptions
		want    string
	}{
		{server.Caching{}, streamable.HandlerOptions{}, `"public"`},
		{server.Caching{}, streamable.HandlerOptions{Auth: newProtector(t, auth.Options{})}, `"private"`},
		{server.Caching{}, streamable.HandlerOptions{Access: streamable.Access{Principal: known}}, `"private"`},
		{server.Caching{Private: true}, streamable.HandlerOptions{}, `"private"`},
	} {
		s := newServer(t, server.Options{Features: server.Features{Caching: c.caching}})
		server.AddTool(s, "hi", "", sayHi)
		h := must(s.Handler(&c.options))
		for _, method := range []string{"server/discover", "tools/list"} {
			w := send(t, h, "-", "ann", method, "{}")
			if got := part(w.Body.String(), "result", "cacheScope"); got != c.want {
				t.Errorf("%s: cacheScope %s, want %s: %s", method, got, c.want, w.Body)
			}
		}
		h.Close()
	}
}

func TestInvalidScopesAreRejected(t *testing.T) {
	s := server.New("s", "1", &server.Options{Features: server.Features{Scopes: map[string][]string{"tools/call": {"a b"}}}})
	server.AddTool(s, "hi", "", sayHi, server.RequireScopes(""))
	server.AddTool(s, "nil", "", sayHi, server.RequireScopesFor(nil))
	for _, want := range []string{`Scopes of "tools/call": scope "a b"`, `tool "hi": scope ""`, `tool "nil"`} {
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Proves AUTH-03, AUTH-04, M-AUTH-01.
func TestListenAndServePublishesMetadata(t *testing.T) {
	l := listen(t, &server.Options{}, &server.ListenOptions{HandlerOptions: streamable.HandlerOptions{Auth: newProtector(t, auth.Options{})}}, func(s *server.Server) {})
	defer l.cancel()
	w, err := http.Post(l.url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	c := w.Header["Www-Authenticate"]
	if w.StatusCode != 401 || len(c) != 1 {
		t.Fatalf("status %d, challenges %v", w.StatusCode, c)
	}
	path, ok := strings.CutPrefix(param(c[0], "resource_metadata"), "https://mcp.example.com")
	if !ok {
		t.Fatalf("challenge %s", c[0])
	}
	base, ok := strings.CutSuffix(l.url, "/mcp") // the default path
	if !ok {
		t.Fatalf("URL %s", l.url)
	}
	w, err = http.Get(base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	var m auth.ResourceMetadata
	if err := json.NewDecoder(w.Body).Decode(&m); err != nil || m.Resource != protectedURL || len(m.AuthorizationServers) != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}

// A task goes on after the token that created it has expired. Its result needs a valid token of its
// principal.
func TestTaskOutlivesItsToken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Tasks: task.Options{Store: memory.New()}})
		server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			time.Sleep(20 * time.Minute)
			i, ok := c.Identity()
			if !ok || c.Header()["Authorization"] != nil {
				return "", errors.New("no identity, or a token in the header")
			}
			return i.Subject + " " + c.Principal(), nil
		}, server.Tasks(receiver.Support{After: -1}), server.RequireScopes("short"))
		h := must(s.Handler(&streamable.HandlerOptions{Auth: newProtector(t, auth.Options{})}))
		defer s.Close()
		defer h.Close()
		sessionOf := func(era, token string) string {
			if era == "-" {
				return era
			}
			return open(t, h, token, era)
		}
		ids := map[string]string{}
		for _, era := range []string{"2025-11-25", "-"} {
			w := send(t, h, sessionOf(era, "ann/short"), "ann/short", "tools/call", `{"name":"slow","task":{}}`)
			ids[era] = strings.Trim(cmp.Or(part(w.Body.String(), "result", "task", "taskId"), part(w.Body.String(), "result", "taskId")), `"`)
			if ids[era] == "" {
				t.Fatalf("%s: status %d: %s", era, w.Code, w.Body)
			}
		}
		time.Sleep(21 * time.Minute)
		for era, result := range map[string]string{"2025-11-25": "tasks/result", "-": "tasks/get"} {
			params := `{"taskId":"` + ids[era] + `"}`
			if w := send(t, h, "-", "ann/short", result, params); w.Code != 401 {
				t.Errorf("%s with an expired token: status %d: %s", result, w.Code, w.Body)
			}
			for token, want := range map[string]bool{"bob/mcp": false, "ann/mcp": true} {
				w := send(t, h, sessionOf(era, token), token, result, params)
				if got := strings.Contains(w.Body.String(), "ann https://as.example.com#ann"); w.Code != 200 || got != want {
					t.Errorf("%s with %s: status %d: %s", result, token, w.Code, w.Body)
				}
			}
		}
	})
}

func TestProtectedStatelessServer(t *testing.T) {
	x := new(protectedServer)
	s := newServer(t, server.Options{})
	x.add(s)
	h := must(s.Handler(&streamable.HandlerOptions{
		Auth: newProtector(t, auth.Options{}), Stateless: true,
		Access: streamable.Access{Principal: func(*http.Request) (string, error) { return "ignored", nil }},
	}))
	defer h.Close()
	for token, want := range map[string]int{"": 401, "ann": 403, "ann/write": 200} {
		w := send(t, h, "", token, "tools/call", `{"name":"write"}`)
		if calls := x.take(); w.Code != want || slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "write https://as.example.com#ann ") }) != (want == 200) {
			t.Errorf("token %q: status %d: %s, called %q", token, w.Code, w.Body, calls)
		}
	}
}

// The scopes of many subscriptions are found without much work: a list of scopes does not grow with
// the URIs, and URIs beyond the limit are not looked up, because the request is rejected. Repeated
// URIs count once.
func TestScopesOfManySubscriptions(t *testing.T) {
	const limit = 50
	s := newServer(t, server.Options{Limits: server.Limits{Subscriptions: limit}})
	new(protectedServer).add(s)
	h := must(s.Handler(&streamable.HandlerOptions{Auth: newProtector(t, auth.Options{})}))
	defer h.Close()
	for _, test := range []struct {
		distinct, repeated int // URIs
		scopes             []string
		status             int
		text               string
	}{
		{limit - 1, 1, []string{"files"}, 403, "too few scopes"},
		{limit - 1, 3, []string{"files"}, 403, "too few scopes"},
		{limit, 1, nil, 200, "limit of 50 subscriptions"},
	} {
		var uris []string
		for i := range test.distinct * test.repeated {
			uris = append(uris, fmt.Sprintf("file:///%d", i%test.distinct))
		}
		list, _ := json.Marshal(uris)
		params := fmt.Sprintf(`{"notifications":{"resourceSubscriptions":%s}}`, list)
		if got := s.RequiredScopes(t.Context(), "subscriptions/listen", []byte(params)); !slices.Equal(got, test.scopes) {
			t.Errorf("%d URIs, each %d times: scopes %q, want %q", test.distinct, test.repeated, got, test.scopes)
		}
		if w := send(t, h, "-", "ann", "subscriptions/listen", params); w.Code != test.status || !strings.Contains(w.Body.String(), test.text) {
			t.Errorf("%d URIs, each %d times: status %d: %s", test.distinct, test.repeated, w.Code, w.Body)
		}
	}
}

// param returns a parameter of a challenge, or "".
func param(challenge, name string) string {
	_, rest, _ := strings.Cut(challenge, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
