package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// modernClient sends modern requests over a connection without a session, and records what it
// receives. It works inside of a synctest bubble.
type modernClient struct {
	t    *testing.T
	conn transport.HalfCloser
	ctx  context.Context // of the messages, for their principal and header
	id   int

	mu     sync.Mutex
	got    []string
	paused chan struct{} // closed when reading goes on; nil if it is not paused
}

// connectModern returns a modern client of s.
func connectModern(t *testing.T, s *server.Server) *modernClient {
	t.Helper()
	return connectModernWith(t, s, inmemory.Options{})
}

func connectModernWith(t *testing.T, s *server.Server, o inmemory.Options) *modernClient {
	t.Helper()
	clientConn, serverConn := inmemory.Pair(o)
	c := &modernClient{t: t, conn: clientConn, ctx: t.Context()}
	if _, err := s.Serve(contextConn{serverConn, c}); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		for {
			m, err := clientConn.Read()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.got = append(c.got, string(m.Text))
			paused := c.paused
			c.mu.Unlock()
			if paused != nil {
				<-paused
			}
		}
	}()
	t.Cleanup(func() { clientConn.Close() })
	return c
}

// contextConn adds the context of a modernClient to each message.
type contextConn struct {
	transport.Conn
	client *modernClient
}

func (c contextConn) Read() (transport.Message, error) {
	m, err := c.Conn.Read()
	m.Context = c.client.ctx
	return m, err
}

// take waits until all goroutines are idle, and returns what was received since the last call.
func (c *modernClient) take() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// write sends a message.
func (c *modernClient) write(text string) {
	c.t.Helper()
	if err := c.conn.Write(c.t.Context(), transport.Message{Text: []byte(text)}); err != nil {
		c.t.Fatal(err)
	}
}

// start sends a modern request with the next id. Params is an object without _meta, and meta has
// further members of _meta, each followed by a comma.
func (c *modernClient) start(method, params, meta string) {
	c.t.Helper()
	c.id++
	params = strings.TrimPrefix(strings.TrimSpace(params), "{")
	if params == "" {
		params = "}"
	}
	if params != "}" {
		params = "," + params
	}
	if !strings.Contains(meta, modern.MetaCapabilities) {
		meta += `"` + modern.MetaCapabilities + `":{},`
	}
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"_meta":{%s%q:"2026-07-28"}%s}`, c.id, method, meta, modern.MetaVersion, params))
}

// declares is the member of _meta with capabilities of the client.
func declares(capabilities string) string {
	return fmt.Sprintf("%q:%s,", modern.MetaCapabilities, capabilities)
}

// call sends a request, and returns its answer and the notifications before it.
func (c *modernClient) call(method, params, meta string) (answer jsonrpc.Message, before []string) {
	c.t.Helper()
	c.start(method, params, meta)
	before = c.take()
	if len(before) == 0 {
		c.t.Fatalf("%s %s: no answer", method, params)
	}
	last := before[len(before)-1]
	answer, err := jsonrpc.ParseReceived([]byte(last))
	if err != nil || answer.ID.String() != fmt.Sprint(c.id) {
		c.t.Fatalf("%s %s: got %s, %v", method, params, last, err)
	}
	return answer, before[:len(before)-1]
}

// result sends a request, and returns its result.
func (c *modernClient) result(method, params, meta string) string {
	c.t.Helper()
	answer, _ := c.call(method, params, meta)
	if answer.Error != nil {
		c.t.Fatalf("%s %s: %v", method, params, answer.Error)
	}
	return string(answer.Result)
}

// fails sends a request and checks its error. It returns the data of the error.
func (c *modernClient) fails(method, params, meta string, code int64, message string) (data string) {
	c.t.Helper()
	answer, _ := c.call(method, params, meta)
	switch {
	case answer.Error == nil:
		c.t.Errorf("%s %s: got %s, want error %d", method, params, answer.Result, code)
		return ""
	case answer.Error.Code != code || !strings.Contains(answer.Error.Message, message):
		c.t.Errorf("%s %s: got error %d: %s, want %d: %s", method, params, answer.Error.Code, answer.Error.Message, code, message)
	}
	return string(answer.Error.Data)
}

// inBubble runs a test in a synctest bubble.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// part returns a member of a JSON object, "" for none.
func part(object string, names ...string) string {
	for _, name := range names {
		value, _ := codec.Member([]byte(object), name)
		object = string(value)
	}
	return object
}

// A client that does not read delays neither the cancellation of a request that sends messages, nor
// other requests on the connection.
func TestCancellationWhileModernClientDoesNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		calls := make(chan string, 2)
		server.AddTool(s, "chat", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			for ctx.Err() == nil {
				c.Notify(ctx, "com.example/text", session.Raw(`{"text":"`+strings.Repeat("x", 1000)+`"}`))
			}
			calls <- "cancelled"
			return "", ctx.Err()
		})
		server.AddTool(s, "hi", "", func(context.Context, *server.Call, struct{}) (string, error) {
			calls <- "called"
			return "", nil
		})
		c := connectModernWith(t, s, inmemory.Options{MaxQueue: 4000})
		c.paused = make(chan struct{})
		c.start("tools/call", `{"name":"chat"}`, "")
		synctest.Wait() // until the connection has no room
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if got := <-calls; got != "cancelled" {
			t.Errorf("got %s", got)
		}
		c.start("tools/call", `{"name":"hi"}`, "")
		if got := <-calls; got != "called" {
			t.Errorf("got %s", got)
		}
		close(c.paused)
		synctest.Wait()
	})
}

// A handshake agrees on a revision with sessions. Without one, the error names those that the
// server speaks.
func TestInitializeOfServerWithModernRevisions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, test := range []struct {
			revisions       []mcp.Revision
			requested, want string
		}{
			{[]mcp.Revision{"2026-07-28", "2025-11-25"}, "2024-11-05", `"protocolVersion":"2025-11-25"`},
			{[]mcp.Revision{"2026-07-28", "2025-11-25"}, "2026-07-28", `"protocolVersion":"2025-11-25"`},
			{[]mcp.Revision{"2026-07-28"}, "2025-11-25", `revisions without sessions only: [\"2026-07-28\"]`},
			{[]mcp.Revision{"2026-07-28"}, "2026-07-28", `revisions without sessions only: [\"2026-07-28\"]`},
		} {
			s := newServer(t, server.Options{Session: session.Options{Revisions: test.revisions}})
			c := connectModern(t, s)
			c.write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"` + test.requested + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if got := c.take(); len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("%s of %v: got %s, want %s", test.requested, test.revisions, got, test.want)
			}
			c.result("server/discover", "", "")
		}
	})
}

const testInfo = `{"name":"test","version":"1"}`

// Proves M-DISC-01, M-DISC-02, M-DISC-04, M-META-07, M-VER-02 and M-EXT-03.
func TestDiscover(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{
			Instructions: "Be brief.", Info: mcp.Implementation{Title: new("A test"), WebsiteURL: new("https://example.com")},
			Features: server.Features{Caching: server.Caching{Discover: time.Minute, Tools: time.Hour}},
		})
		c := connectModern(t, s)
		versions := `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
		want := func(capabilities string) string {
			return `{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","title":"A test","version":"1","websiteUrl":"https://example.com"}},
				"cacheScope":"public","capabilities":` + capabilities + `,"instructions":"Be brief.","resultType":"complete",
				"supportedVersions":` + versions + `,"ttlMs":60000}`
		}
		equalJSON(t, "without features", want(`{"logging":{}}`), c.result("server/discover", "", ""))
		server.AddTool(s, "hi", "", sayHi)
		tools := `{"logging":{},"tools":{"listChanged":true}}`
		equalJSON(t, "with a tool", want(tools), c.result("server/discover", "", ""))
		equalJSON(t, "from memory", want(tools), c.result("server/discover", "", ""))
		s.Extend(server.Extension{ID: "com.example/x"})
		equalJSON(t, "with an extension", want(`{"extensions":{"com.example/x":{}},"logging":{},"tools":{"listChanged":true}}`), c.result("server/discover", "", ""))

		all := connectModern(t, newCatalog(t, server.Options{})).result("server/discover", "", "")
		equalJSON(t, "with a feature of each kind", `{"completions":{},"logging":{},"prompts":{"listChanged":true},
			"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`, part(all, "capabilities"))

		c.write(`{"jsonrpc":"2.0","id":"v","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"v9","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		got := c.take()
		equalJSON(t, "unsupported version", `{"requested":"v9","supported":`+versions+`}`, part(got[0], "error", "data"))
	})
}

// The result of server/discover is made anew only after a change.
func TestDiscoverIsAnsweredFromMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		made := 0
		s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { made++ }}})
		h := server.AddTool(s, "hi", "", sayHi)
		c := connectModern(t, s)
		made = 0 // it was called for the session of the connection
		for range 3 {
			c.result("server/discover", "", "")
			c.result("tools/list", "", "")
		}
		if made != 1 {
			t.Errorf("the capabilities were made %d times", made)
		}
		h.Remove()
		c.result("server/discover", "", "")
		c.fails("tools/list", "", "", jsonrpc.CodeMethodNotFound, "tools/list")
		if made != 2 {
			t.Errorf("after a change, the capabilities were made %d times", made)
		}
	})
}

// Proves M-DISC-05, M-DISC-03.
func TestModernMethodsOfMissingFeaturesAreUnknown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{Capabilities: func(c *mcp.ServerCapabilities) { c.Completions = nil }}})
		c := connectModern(t, s)
		for method, params := range map[string]string{
			"tools/list": "", "tools/call": `{"name":"hi"}`, "prompts/list": "", "prompts/get": `{"name":"p"}`,
			"resources/list": "", "resources/templates/list": "", "resources/read": `{"uri":"x:y"}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
			"com.example/own":     "",
			// Methods of sessions.
			"initialize": "", "ping": "", "logging/setLevel": "", "resources/subscribe": "", "resources/unsubscribe": "", "tasks/list": "",
		} {
			c.fails(method, params, "", jsonrpc.CodeMethodNotFound, "")
		}
		server.AddTool(s, "hi", "", sayHi)
		if got := c.result("tools/list", "", ""); !strings.Contains(got, `"hi"`) {
			t.Errorf("got %s", got)
		}
		c.fails("prompts/list", "", "", jsonrpc.CodeMethodNotFound, "")
	})
}

// newCatalog returns a server with a feature of each kind.
func newCatalog(t *testing.T, cfg server.Options) *server.Server {
	s := newServer(t, cfg)
	server.AddTool(s, "hi", "", sayHi)
	server.AddPrompt(s, "p", "", func(context.Context, *server.Call, struct {
		A string `json:"a" enum:"x,y"`
	}) (string, error) {
		return "prompt", nil
	})
	server.AddResource(s, "x:one", "one", readText)
	server.AddTemplate(s, "x:t/{name}", "t", readText)
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// requests holds a request of each method with a result, by method.
var requests = map[string]string{
	"server/discover": "", "tools/list": "", "prompts/list": "", "resources/list": "", "resources/templates/list": "",
	"resources/read": `{"uri":"x:one"}`, "tools/call": `{"name":"hi"}`, "prompts/get": `{"name":"p","arguments":{"a":"x"}}`,
	"completion/complete": `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
	"com.example/own":     "", "com.example/raw": "", "com.example/nil": "",
}

// ownMethods are handlers of the author's own methods.
func ownMethods() map[string]session.Handler {
	raw := func(text string) session.Handler {
		return func(context.Context, *session.Request) (codec.Encoder, error) { return session.Raw(text), nil }
	}
	return map[string]session.Handler{
		"com.example/own": server.Method(func(context.Context, *server.Call, struct{}) (map[string]int, error) {
			return map[string]int{"n": 1}, nil
		}),
		"com.example/raw":   raw(`{ "_meta" : {"a":1} }`),
		"com.example/kind":  raw(`{"resultType":"com.example/later","n":1}`),
		"com.example/info":  raw(`{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"other","version":"2"}}}`),
		"com.example/empty": raw(`{ }`),
		"com.example/list":  raw(`[1]`),
		"com.example/nil":   func(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil },
	}
}

// Proves M-RPC-06, M-META-07, M-CACHE-01 and M-CACHE-02.
func TestModernResultsAreComplete(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{Features: server.Features{Methods: ownMethods()}})
		c := connectModern(t, s)
		for method, params := range requests {
			result := c.result(method, params, "")
			if got := part(result, "resultType"); got != `"complete"` {
				t.Errorf("%s: resultType %s in %s", method, got, result)
			}
			equalJSON(t, method, testInfo, part(result, "_meta", "io.modelcontextprotocol/serverInfo"))
			cacheable := strings.HasSuffix(method, "/list") || method == "server/discover" || method == "resources/read"
			if hints := part(result, "ttlMs") + part(result, "cacheScope"); cacheable != (hints != "") {
				t.Errorf("%s: caching hints %s", method, hints)
			}
			if err := codec.Valid([]byte(result)); err != nil {
				t.Errorf("%s: %v in %s", method, err, result)
			}
		}
		equalJSON(t, "raw", `{"resultType":"complete","_meta":{"a":1,"io.modelcontextprotocol/serverInfo":`+testInfo+`}}`, c.result("com.example/raw", "", ""))
		equalJSON(t, "a server info of its own", `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"other","version":"2"}}}`, c.result("com.example/info", "", ""))
		c.fails("com.example/list", "", "", jsonrpc.CodeInternalError, "")
	})
}

// Proves M-RPC-07.
func TestKindsOfResultsBelongToExtensions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		methods := ownMethods()
		methods["com.example/ask"] = func(context.Context, *session.Request) (codec.Encoder, error) {
			state := "s"
			return &mcp.InputRequiredResult{ResultType: modern.ResultInputRequired, RequestState: &state}, nil
		}
		s := newCatalog(t, server.Options{Features: server.Features{Methods: methods}})
		c := connectModern(t, s)
		extends := declares(`{"extensions":{"com.example/x":{}}}`)
		c.fails("com.example/kind", "", extends, jsonrpc.CodeInternalError, "")
		s.Extend(server.Extension{ID: "com.example/x"})
		c.fails("com.example/kind", "", "", jsonrpc.CodeInternalError, "")
		c.fails("com.example/kind", "", declares(`{"extensions":{"com.example/y":{}}}`), jsonrpc.CodeInternalError, "")
		want := `{"resultType":"com.example/later","n":1,"_meta":{"io.modelcontextprotocol/serverInfo":` + testInfo + `}}`
		equalJSON(t, "with the extension", want, c.result("com.example/kind", "", extends))
		c.fails("com.example/ask", "", extends, jsonrpc.CodeInternalError, "") // not a method that takes input
	})
}

func TestServerInfoCanBeOmitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{Features: server.Features{Methods: ownMethods(), OmitServerInfo: true}})
		c := connectModern(t, s)
		for method, params := range requests {
			if result := c.result(method, params, ""); strings.Contains(result, "serverInfo") || part(result, "resultType") != `"complete"` {
				t.Errorf("%s: %s", method, result)
			}
		}
		equalJSON(t, "no members", `{"resultType":"complete"}`, c.result("com.example/empty", "", ""))
	})
}

// A result with a _meta keeps it, and the handler's value does not change.
//
// Proves M-META-09.
func TestModernResultKeepsItsMeta(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		shared := server.Text("hi")
		shared.Meta = new(mcp.ResultMetaObject)
		shared.Meta.Extra.Set("com.example/a", json.RawMessage("1"))
		bad := server.Text("hi")
		bad.Meta = new(mcp.ResultMetaObject)
		bad.Meta.Extra.Set("com.example/", json.RawMessage("1"))
		bad.Meta.Extra.Set("9/a", json.RawMessage("1"))
		s := newServer(t, server.Options{})
		server.AddTool(s, "good", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) { return shared, nil })
		server.AddTool(s, "bad", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) { return bad, nil })
		c := connectModern(t, s)
		for range 2 {
			equalJSON(t, "result", `{"resultType":"complete","content":[{"type":"text","text":"hi"}],
				"_meta":{"com.example/a":1,"io.modelcontextprotocol/serverInfo":`+testInfo+`}}`, c.result("tools/call", `{"name":"good"}`, ""))
		}
		if shared.Meta.ServerInfo != nil || shared.ResultType != nil {
			t.Error("the result of the handler was changed")
		}
		c.fails("tools/call", `{"name":"bad"}`, "", jsonrpc.CodeInternalError, "")
	})
}

// Proves M-CACHE-02, M-CACHE-04, M-CACHE-06.
func TestCacheScopeIsPrivateWhereResultsDiffer(t *testing.T) {
	anyone := server.VisibleTo(func(*server.Call) bool { return true })
	lists := []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
	for name, test := range map[string]struct {
		cfg     server.Options
		add     func(s *server.Server)
		private []string
	}{
		"nothing":   {private: []string{"resources/read"}},
		"a tool":    {add: func(s *server.Server) { server.AddTool(s, "x", "", sayHi, anyone) }, private: []string{"tools/list", "resources/read"}},
		"a prompt":  {add: func(s *server.Server) { server.AddPrompt(s, "x", "", givePrompt, anyone) }, private: []string{"prompts/list", "resources/read"}},
		"a URI":     {add: func(s *server.Server) { server.AddResource(s, "x:x", "x", readText, anyone) }, private: []string{"resources/list", "resources/read"}},
		"templates": {add: func(s *server.Server) { server.AddTemplate(s, "y:{x}", "x", readText, anyone) }, private: []string{"resources/templates/list", "resources/read"}},
		"DefineToolFor": {add: func(s *server.Server) {
			server.AddTool(s, "x", "", sayHi, server.DefineToolFor(func(*server.Call, *mcp.Tool) {}))
		}, private: []string{"tools/list", "resources/read"}},
		"ListFunc": {add: func(s *server.Server) {
			server.AddTemplate(s, "y:{x}", "x", readText, server.ListFunc(func(context.Context, *server.Call, string) ([]mcp.Resource, string, error) { return nil, "", nil }))
		}, private: []string{"resources/list", "resources/read"}},
		"Visible": {cfg: server.Options{Features: server.Features{Visible: func(*server.Call, server.Feature) bool { return true }}}, private: append(lists, "resources/read")},
		"middleware": {cfg: server.Options{Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler { return next }}}}},
			private: append(lists, "resources/read", "server/discover")},
		"a method": {cfg: server.Options{Features: server.Features{Methods: map[string]session.Handler{"tools/list": func(context.Context, *session.Request) (codec.Encoder, error) {
			return &mcp.ListToolsResult{}, nil
		}}}}, private: []string{"tools/list", "resources/read"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				cfg := test.cfg
				cfg.Features.PageSize = 1
				cfg.Features.Caching = server.Caching{Tools: time.Second, Prompts: 2 * time.Second, Resources: 3 * time.Second, Templates: 4 * time.Second, Contents: 5 * time.Second, Discover: 6*time.Second + 7}
				s := newCatalog(t, cfg)
				if test.add != nil {
					test.add(s)
				}
				c := connectModern(t, s)
				for i, method := range append(lists, "resources/read", "server/discover") {
					want := `"public"`
					if strings.Contains(strings.Join(test.private, " "), method) {
						want = `"private"`
					}
					params := requests[method]
					for { // all pages
						result := c.result(method, params, "")
						if scope, ttl := part(result, "cacheScope"), part(result, "ttlMs"); scope != want || ttl != fmt.Sprint(1000*(i+1)) {
							t.Errorf("%s: scope %s, ttl %s, want %s", method, scope, ttl, want)
						}
						next := part(result, "nextCursor")
						if next == "" {
							break
						}
						params = `{"cursor":` + next + `}`
					}
				}
			})
		})
	}
}

func givePrompt(context.Context, *server.Call, struct{}) (string, error) { return "prompt", nil }

// Proves M-CACHE-05, M-CACHE-06.
func TestCacheContents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{Caching: server.Caching{Contents: time.Second}}})
		public := server.CacheContents(time.Minute, mcp.CacheScopePublic)
		server.AddResource(s, "x:default", "a", readText)
		server.AddResource(s, "x:public", "a", readText, public)
		server.AddResource(s, "x:private", "a", readText, server.CacheContents(0, mcp.CacheScopePrivate))
		server.AddResource(s, "x:hidden", "a", readText, public, server.VisibleTo(forAnn))
		server.AddResource(s, "x:wrapped", "a", readText, public, server.WrapResource(func(next server.ResourceHandler) server.ResourceHandler { return next }))
		server.AddTemplate(s, "t:{x}", "t", readText, public)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		c := connectModern(t, s)
		c.ctx = transport.WithPrincipal(t.Context(), "ann")
		for uri, want := range map[string]string{
			"x:default": `1000"private"`, "x:public": `60000"public"`, "x:private": `0"private"`, "x:hidden": `60000"private"`, "x:wrapped": `60000"private"`, "t:y": `60000"public"`,
		} {
			result := c.result("resources/read", `{"uri":"`+uri+`"}`, "")
			if got := part(result, "ttlMs") + part(result, "cacheScope"); got != want {
				t.Errorf("%s: got %s, want %s", uri, got, want)
			}
		}
		c.ctx = transport.WithPrincipal(t.Context(), "bob")
		c.fails("resources/read", `{"uri":"x:hidden"}`, "", jsonrpc.CodeInvalidParams, "resource not found")
	})
	s := server.New("test", "1", &server.Options{Features: server.Features{Caching: server.Caching{Tools: -1}}})
	server.AddResource(s, "x:a", "a", readText, server.CacheContents(-1, mcp.CacheScopePublic))
	server.AddTemplate(s, "x:{a}", "a", readText, server.CacheContents(1, "shared"))
	for _, want := range []string{"negative Features.Caching.Tools (-1ns)", "negative time (-1ns)", `scope "shared", want private or public`} {
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Caching hints are sent to modern clients only.
func TestSessionsReceiveNoModernMembers(t *testing.T) {
	s := newCatalog(t, server.Options{Features: server.Features{Caching: server.Caching{Tools: time.Second}}})
	server.AddResource(s, "x:two", "two", readText, server.CacheContents(time.Minute, mcp.CacheScopePublic))
	c := connect(t, s, clientConfig{})
	for _, request := range [][2]string{{"tools/list", ""}, {"resources/read", `{"uri":"x:two"}`}, {"tools/call", `{"name":"hi"}`}} {
		result, _ := c.call(request[0], request[1])
		if strings.Contains(result, "ttlMs") || strings.Contains(result, "resultType") || strings.Contains(result, "serverInfo") {
			t.Errorf("%s: %s", request[0], result)
		}
	}
}

// Proves M-RES-01, M-ERR-05, M-TOOL-05, M-PAGE-02 and M-PROMPT-01.
func TestModernErrors(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{})
		server.AddResource(s, "x:gone", "gone", func(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
			return "", fmt.Errorf("read: %w", server.NotFound(r.URI))
		})
		server.AddTool(s, "gone", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", server.NotFound("x:y") })
		server.AddTool(s, "fail", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", errors.New("failed") })
		c := connectModern(t, s)
		for _, uri := range []string{"x:none", "x:gone"} {
			data := c.fails("resources/read", `{"uri":"`+uri+`"}`, "", jsonrpc.CodeInvalidParams, "resource not found")
			equalJSON(t, uri, `{"uri":"`+uri+`"}`, data)
		}
		c.fails("tools/call", `{"name":"gone"}`, "", jsonrpc.CodeInvalidParams, "resource not found")
		c.fails("tools/call", `{"name":"none"}`, "", jsonrpc.CodeInvalidParams, "unknown tool")
		c.fails("tools/call", `{"name":"hi","arguments":[]}`, "", jsonrpc.CodeInvalidParams, "arguments")
		for _, arguments := range []string{`{}`, `{"x":1}`} { // the handler fails, and the arguments are invalid
			if got := c.result("tools/call", `{"name":"fail","arguments":`+arguments+`}`, ""); part(got, "isError") != "true" {
				t.Errorf("%s: got %s", arguments, got)
			}
		}
		c.fails("prompts/get", `{"name":"none"}`, "", jsonrpc.CodeInvalidParams, "unknown prompt")
		c.fails("prompts/get", `{"name":"p"}`, "", jsonrpc.CodeInvalidParams, "a")
		c.fails("tools/list", `{"cursor":"garbage"}`, "", jsonrpc.CodeInvalidParams, "invalid cursor")
		c.fails("resources/list", `{"cursor":"garbage"}`, "", jsonrpc.CodeInvalidParams, "invalid cursor")

		old := connect(t, s, clientConfig{})
		old.expectError("resources/read", `{"uri":"x:none"}`, server.CodeResourceNotFound)
	})
}

// Proves M-META-06, M-EXT-02.
func TestModernCallWithoutNeededCapability(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		lacks := func(own bool) func(context.Context, *server.Call, struct{}) (string, error) {
			return func(context.Context, *server.Call, struct{}) (string, error) {
				return "", fmt.Errorf("ask: %w", &session.CapabilityError{Method: "sampling/createMessage", Capability: "sampling.tools", Own: own})
			}
		}
		server.AddTool(s, "ask", "", lacks(false))
		server.AddTool(s, "own", "", lacks(true))
		server.AddPrompt(s, "p", "", lacks(false))
		c := connectModern(t, s)
		equalJSON(t, "tool", `{"requiredCapabilities":{"sampling":{"tools":{}}}}`, c.fails("tools/call", `{"name":"ask"}`, "", modern.CodeMissingCapability, "sampling.tools"))
		equalJSON(t, "prompt", `{"requiredCapabilities":{"sampling":{"tools":{}}}}`, c.fails("prompts/get", `{"name":"p"}`, "", modern.CodeMissingCapability, "sampling.tools"))
		if got := c.result("tools/call", `{"name":"own"}`, ""); part(got, "isError") != "true" {
			t.Errorf("got %s", got)
		}
		old := connect(t, s, clientConfig{})
		if got, _ := old.call("tools/call", `{"name":"ask"}`); part(got, "isError") != "true" {
			t.Errorf("session: got %s", got)
		}
	})
}

// Proves M-META-03, M-META-04, M-STDIO-04, M-ERA-02 and M-ERA-03.
func TestRequestsWithoutMetaNeedASession(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{})
		c := connectModern(t, s)
		send := func(params string) string {
			t.Helper()
			c.id++
			c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"%s}`, c.id, params))
			got := c.take()
			if len(got) != 1 || part(got[0], "id") != fmt.Sprint(c.id) {
				t.Fatalf("%s: got %q", params, got)
			}
			return got[0]
		}
		for _, params := range []string{
			``, `,"params":{}`, `,"params":{"_meta":{}}`, `,"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`,
			`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`,
			`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}}}`,
			`,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}`,
		} {
			if got := send(params); part(got, "error", "code") != "-32602" {
				t.Errorf("%s: got %s", params, got)
			}
		}
		c.write(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		if got := c.take(); len(got) != 1 || part(got[0], "result", "protocolVersion") != `"2025-11-25"` {
			t.Fatalf("initialize: got %q", got)
		}
		if got := send(""); part(got, "result", "tools") == "" || strings.Contains(got, "resultType") {
			t.Errorf("in the session: got %s", got)
		}
		if got := c.result("tools/list", "", ""); part(got, "resultType") == "" {
			t.Errorf("a modern request beside the session: got %s", got)
		}
		if got := send(`,"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}`); part(got, "result", "tools") == "" {
			t.Errorf("in the session, with a member of modern requests: got %s", got)
		}
	})
}

// A server for revisions with sessions treats a modern request as one before initialize.
func TestServerOfSessionsServesNoModernRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newCatalog(t, server.Options{Session: session.Options{Revisions: session.Revisions()}})
		connectModern(t, s).fails("server/discover", `{}`, "", jsonrpc.CodeInvalidRequest, "session is not initialized")
	})
}
