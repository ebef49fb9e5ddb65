package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Changes of lists and of resources reach the client, those of upstreams and those of the server
// itself, and after an upstream has reconnected.
func TestChangesPassInBothEras(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			one := newUpstream(t, "one", up.serving(nil))
			addResource(t, one.Server, "memo://a", "one")
			addTool(t, one.Server, "x", echo(""))
			p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
			addTool(t, p.Server, "own", echo(""))
			addResource(t, p.Server, "memo://own", "own")
			var n notices
			c := connect(t, p, of.in(&client.Options{Notifications: &n}))
			equal(t, "tools", []string{"a_x", "own"}, toolNames(t, c))
			for _, uri := range []string{"memo://a", "memo://own"} {
				if err := c.Subscribe(t.Context(), uri); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Subscribe(t.Context(), "memo://none"); err == nil {
				t.Error("an unknown resource was subscribed")
			}
			synctest.Wait()
			n.take()

			addTool(t, one.Server, "y", echo("y"))
			synctest.Wait()
			equal(t, "notices of the upstream", []string{"tools"}, n.take())
			equal(t, "tools", []string{"a_x", "a_y", "own"}, toolNames(t, c))
			one.ResourceUpdated("memo://a")
			one.ResourceUpdated("memo://b")
			p.ResourceUpdated("memo://own")
			synctest.Wait()
			updated := n.take()
			slices.Sort(updated)
			equal(t, "updates", []string{"updated memo://a", "updated memo://own"}, updated)
			addTool(t, p.Server, "own2", echo(""))
			synctest.Wait()
			equal(t, "notices of the server itself", []string{"tools"}, n.take())

			one.setDown(true)
			one.setDown(false)
			time.Sleep(10 * time.Second)
			n.take()
			one.ResourceUpdated("memo://a")
			synctest.Wait()
			equal(t, "updates after a reconnect", []string{"updated memo://a"}, n.take())

			if err := c.Unsubscribe(t.Context(), "memo://a"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			n.take()
			one.ResourceUpdated("memo://a")
			synctest.Wait()
			equal(t, "updates after the end of the subscription", []string(nil), n.take())
		})
	})
}

// Two modern clients of one principal subscribe to the same resource. The subscription at the
// upstream lasts as long as one of them does.
func TestSubscriptionsAreShared(t *testing.T) {
	for _, up := range []era{sessions, modern} {
		t.Run("upstream "+up.name, func(t *testing.T) {
			var mu sync.Mutex
			subscribed := 0
			count := func(add int) {
				mu.Lock()
				defer mu.Unlock()
				subscribed += add
			}
			one := newUpstream(t, "one", up.serving(&server.Options{
				Hooks: server.Hooks{
					Subscribe:   func(context.Context, *server.Call, string) error { count(1); return nil },
					Unsubscribe: func(context.Context, *server.Call, string) { count(-1) },
				},
			}))
			addResource(t, one.Server, "memo://a", "one")
			p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
			url := serveHTTP(t, p.Server, nil)
			updates := make(chan string, 10)
			subscribe := func(name string) *client.Client {
				c := dial(t, url, modern.in(&client.Options{Notifications: updatesTo{updates: updates, name: name}}))
				if err := c.Subscribe(t.Context(), "memo://a"); err != nil {
					t.Fatal(err)
				}
				return c
			}
			ada, bob := subscribe("ada"), subscribe("bob")
			one.ResourceUpdated("memo://a")
			got := []string{<-updates, <-updates}
			slices.Sort(got)
			equal(t, "updates", []string{"ada", "bob"}, got)
			bob.Close()
			one.ResourceUpdated("memo://a")
			equal(t, "update", "ada", <-updates)
			ada.Close()
			p.Close() // waits for the upstreams
			one.Close()
			mu.Lock()
			defer mu.Unlock()
			equal(t, "subscriptions", 0, subscribed)
		})
	}
}

// updatesTo sends the name of a client for each updated resource.
type updatesTo struct {
	mcp.UnimplementedClientNotificationHandler
	updates chan<- string
	name    string
}

func (u updatesTo) ResourceUpdated(context.Context, *mcp.ResourceUpdatedNotificationParams) error {
	u.updates <- u.name
	return nil
}

// Log messages reach the client that has asked for their level, before the result of its call.
func TestLogMessagesPassInBothEras(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		one := newUpstream(t, "one", up.serving(nil))
		addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			return "", errors.Join(c.Log(ctx, mcp.LoggingLevelDebug, "", "low"), c.Log(ctx, mcp.LoggingLevelError, "", "high"))
		})
		p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.overHTTP(t, "a")}})
		for name, url := range map[string]string{"users": serveUsers(t, p), "clients without a principal": serveHTTP(t, p.Server, nil)} {
			got, none := make(chan string, 10), make(chan string, 10)
			c := dial(t, url, of.in(&client.Options{Notifications: logsTo{logs: got}}))
			if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelWarning); err != nil {
				t.Fatal(err)
			}
			other := dial(t, url, of.in(&client.Options{Notifications: logsTo{logs: none}}))
			if of.name == "sessions" {
				if err := other.SetLogLevel(t.Context(), mcp.LoggingLevelEmergency); err != nil {
					t.Fatal(err)
				}
			}
			for range 5 {
				mustCall(t, other, "a_log", nil)
				mustCall(t, c, "a_log", nil)
				equal(t, "message for "+name, "high", <-got)
			}
			equal(t, "messages for another client", 0, len(none))
		}
	})
}

// logsTo sends the data of each log message.
type logsTo struct {
	mcp.UnimplementedClientNotificationHandler
	logs chan<- string
}

func (l logsTo) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	var text string
	err := json.Unmarshal(p.Data, &text)
	l.logs <- text
	return err
}

// A log message arrives before the result of its call, also from an upstream that is a proxy: a
// client without sessions receives none after the result.
func TestLogMessagesPassThroughTwoProxies(t *testing.T) {
	for _, of := range []era{sessions, modern} {
		for _, between := range []era{sessions, modern} {
			t.Run(of.name+" "+between.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one := newUpstream(t, "one", nil)
					addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
						return "logged", c.Log(ctx, mcp.LoggingLevelError, "", "one")
					})
					near := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}, Server: *between.serving(nil)})
					p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{{Name: "b", Prefix: "b_", Connect: func(context.Context) (transport.Conn, error) {
						here, there := inmemory.Pair(inmemory.Options{})
						_, err := near.Serve(there)
						return here, err
					}}}})
					logs := make(chan string, 10)
					c := connect(t, p, of.in(&client.Options{Notifications: logsTo{logs: logs}}))
					if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelDebug); err != nil {
						t.Fatal(err)
					}
					for range 10 {
						equal(t, "result", "logged", mustCall(t, c, "b_a_log", nil))
						synctest.Wait()
						equal(t, "log messages", 1, len(logs))
						select {
						case <-logs:
						default:
						}
					}
					c.Close() // before the proxies
					p.Close()
				})
			})
		}
	}
}

// An upstream without sessions may know its lists to change without announcing it. They are fetched
// again when the hint has expired.
func TestListsAreFetchedWhenTheyExpire(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			quiet := func(c *mcp.ServerCapabilities) { c.Tools = new(mcp.ServerCapabilitiesTools) }
			one := newUpstream(t, "one", up.serving(&server.Options{Features: server.Features{Capabilities: quiet, Caching: server.Caching{Tools: time.Minute}}}))
			addTool(t, one.Server, "x", echo(""))
			p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
			c := connect(t, p, of.in(nil))
			equal(t, "tools", []string{"a_x"}, fetched(t, c))
			addTool(t, one.Server, "y", echo(""))
			time.Sleep(30 * time.Second)
			equal(t, "tools before the time", []string{"a_x"}, fetched(t, c))
			time.Sleep(time.Minute)
			want := []string{"a_x", "a_y"}
			if up.name == "sessions" {
				want = want[:1] // there are no hints
			}
			equal(t, "tools after the time", want, fetched(t, c))
		})
	})
}

// fetched returns the names of the tools on the first page, without the cache of the client.
func fetched(t *testing.T, c *client.Client) (names []string) {
	t.Helper()
	page, err := c.With().ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range page.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// hintOf returns the caching hint of a result.
func hintOf(t *testing.T, c *client.Client, method, params string) string {
	t.Helper()
	result, err := c.Session().Call(t.Context(), method, session.Raw(params))
	if err != nil {
		t.Fatal(err)
	}
	ttl, _ := codec.Member(result, "ttlMs")
	scope, _ := codec.Member(result, "cacheScope")
	return string(ttl) + string(scope)
}

func TestCachingHints(t *testing.T) {
	caching := server.Caching{Tools: time.Hour, Contents: time.Second}
	one := newUpstream(t, "one", modern.serving(&server.Options{Features: server.Features{Caching: caching}}))
	two := newUpstream(t, "two", sessions.serving(nil))
	addTool(t, one.Server, "x", echo(""))
	addTool(t, two.Server, "x", echo(""))
	addResource(t, one.Server, "memo://private", "one")
	err := server.AddResource(one.Server, "memo://public", "public", func(context.Context, *server.Call, server.Resource) (string, error) { return "", nil },
		server.CacheContents(time.Minute, mcp.CacheScopePublic)).Err()
	if err != nil {
		t.Fatal(err)
	}
	hints := func(cfg proxy.Options, of era) []string {
		t.Helper()
		c := connect(t, newProxy(t, &cfg), of.in(nil))
		return []string{
			hintOf(t, c, "tools/list", `{}`), hintOf(t, c, "resources/read", `{"uri":"memo://private"}`), hintOf(t, c, "resources/read", `{"uri":"memo://public"}`),
		}
	}
	a, b := one.as("a"), two.as("b")
	equal(t, "upstream without sessions", []string{`3600000"private"`, `1000"private"`, `60000"public"`},
		hints(proxy.Options{Upstreams: []proxy.Upstream{a}}, modern))
	equal(t, "both", []string{`0"private"`, `1000"private"`, `60000"public"`},
		hints(proxy.Options{Upstreams: []proxy.Upstream{a, b}}, modern))
	equal(t, "both, with a time for upstreams with sessions", []string{`60000"private"`, `1000"private"`, `60000"public"`},
		hints(proxy.Options{Upstreams: []proxy.Upstream{a, b}, Server: server.Options{Features: server.Features{Caching: server.Caching{Tools: time.Minute}}}}, modern))
	middleware := server.Options{Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler { return next }}}}}
	equal(t, "with middleware", []string{`3600000"private"`, `1000"private"`, `60000"private"`},
		hints(proxy.Options{Upstreams: []proxy.Upstream{a}, Server: middleware}, modern))
	principal := server.Options{Session: session.Options{Principal: "ada"}}
	equal(t, "with a principal", []string{`3600000"private"`, `1000"private"`, `60000"private"`},
		hints(proxy.Options{Upstreams: []proxy.Upstream{a}, Server: principal}, modern))
	equal(t, "client with a session", []string{"", "", ""}, hints(proxy.Options{Upstreams: []proxy.Upstream{a}}, sessions))
}

// Header fields that repeat arguments are checked at the front, and sent to the upstream.
func TestHeaderFieldsOfArguments(t *testing.T) {
	type in struct {
		Region string `json:"region" mcp-header:"Region"`
	}
	one := newUpstream(t, "one", modern.serving(nil))
	addTool(t, one.Server, "where", func(_ context.Context, c *server.Call, args in) (string, error) {
		return args.Region + " " + c.Header().Get("Mcp-Param-Region") + " " + c.Header().Get("Mcp-Name"), nil
	})
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.overHTTP(t, "a")}})
	var wrong bool
	url := serveHTTP(t, p.Server, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if wrong {
				r.Header.Set("Mcp-Param-Region", "us")
			}
			next.ServeHTTP(w, r)
		})
	})
	for _, of := range []era{sessions, modern} {
		c := dial(t, url, of.in(nil))
		toolNames(t, c)
		equal(t, "result for "+of.name, "eu eu where", mustCall(t, c, "a_where", in{"eu"}))
	}
	equal(t, "result from memory", "eu eu where", mustCall(t, connect(t, p, modern.in(nil)), "a_where", in{"eu"}))
	wrong = true
	c := dial(t, url, modern.in(nil))
	toolNames(t, c)
	if _, err := c.CallTool(t.Context(), "a_where", in{"eu"}); err == nil || !strings.Contains(err.Error(), "rejected the headers") {
		t.Errorf("wrong header field: %v", err)
	}
}

// The requestState of an upstream passes unchanged, with the input requests and the responses.
// Input reaches no other upstream, also if several could have the resource.
func TestRoundsAreOpaque(t *testing.T) {
	var mu sync.Mutex
	got := map[string][]string{}
	up := func(name string, answer func(params json.RawMessage) (codec.Encoder, error)) proxy.Upstream {
		u := newUpstream(t, name, modern.serving(&server.Options{Features: server.Features{Methods: map[string]session.Handler{
			mcp.MethodResourcesRead: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
				mu.Lock()
				defer mu.Unlock()
				state, _ := codec.Member(req.Params, "requestState")
				responses, _ := codec.Member(req.Params, "inputResponses")
				got[name] = append(got[name], string(state)+string(responses))
				return answer(req.Params)
			},
		}}}))
		addTemplate(t, u.Server, "file:///{x}", "1", "")
		return u.as(name)
	}
	unknown := up("one", func(json.RawMessage) (codec.Encoder, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown"}
	})
	round := 0
	asking := up("two", func(json.RawMessage) (codec.Encoder, error) {
		switch round++; round {
		case 1:
			return session.Raw(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}},"x":1.0}}},"requestState":"é\n:"}`), nil
		case 2:
			return session.Raw(`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}}}}`), nil
		}
		return session.Raw(`{"contents":[]}`), nil
	})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{unknown, asking}}), modern.in(user("Ada")))
	if _, err := c.ReadResource(t.Context(), "file:///1"); err != nil {
		t.Fatal(err)
	}
	response := `{"k":{"action":"accept","content":{"Name":"Ada"}}}`
	mu.Lock()
	defer mu.Unlock()
	equal(t, "requests", map[string][]string{"one": {""}, "two": {"", `"é\n:"` + response, response}}, got)
}

// A client with a session visits the page that an upstream without sessions asks for, and an input
// request that the client cannot respond to fails the call.
func TestInputOfModernUpstreamInSession(t *testing.T) {
	one := newUpstream(t, "one", modern.serving(nil))
	addTool(t, one.Server, "page", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		action, err := c.ElicitURL(ctx, "Sign in", "https://example.com/", "")
		return string(action), err
	})
	addAsking(t, one.Server)
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	c := connect(t, p, sessions.in(&client.Options{Input: client.Input{OpenURL: func(_ context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
		if u.ElicitationID == nil || u.URL != "https://example.com/" {
			return mcp.ElicitActionDecline, nil
		}
		return mcp.ElicitActionAccept, nil
	}}}))
	equal(t, "result", "accept", mustCall(t, c, "a_page", nil))
	if r, err := c.CallTool(t.Context(), "a_ask", nil); err == nil && (r.IsError == nil || !*r.IsError) {
		t.Errorf("client without forms: %v", r)
	}
	failing := connect(t, p, sessions.in(&client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return nil, &jsonrpc.Error{Code: -7, Message: "no"}
	}}}))
	if _, err := failing.CallTool(t.Context(), "a_ask", nil); jsonrpc.CodeOf(err) != -7 {
		t.Errorf("error of the client: %v", err)
	}
}

// A server may end when it is asked for its revisions. It is connected again, in the old way, and
// is not asked again.
func TestUpstreamEndsAtDiscover(t *testing.T) {
	one := newUpstream(t, "one", sessions.serving(nil))
	addTool(t, one.Server, "x", echo("one"))
	var mu sync.Mutex
	connections := 0
	up := one.as("a")
	up.Connect = func(context.Context) (transport.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		connections++
		a, b := inmemory.Pair(inmemory.Options{})
		m, first := &endsAtDiscover{Conn: b}, one.Server
		_, err := first.Serve(m)
		return a, err
	}
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}})
	equal(t, "result", "one{}", mustCall(t, connect(t, p, modern.in(nil)), "a_x", nil))
	equal(t, "connections", 2, connections)
	equal(t, "result", "one{}", mustCall(t, connect(t, p, modern.in(nil)), "a_x", nil))
	equal(t, "connections", 3, connections)
}

// endsAtDiscover is a connection that ends when it receives server/discover.
type endsAtDiscover struct{ transport.Conn }

func (c *endsAtDiscover) Read() (transport.Message, error) {
	m, err := c.Conn.Read()
	if err == nil && strings.Contains(string(m.Text), mcp.MethodServerDiscover) {
		c.Close()
		return transport.Message{}, transport.ErrClosed
	}
	return m, err
}

// A modern client discovers the features of all upstreams, without the extensions for tasks and
// skills.
func TestDiscoverMergesUpstreams(t *testing.T) {
	declare := func(extensions string) func(*mcp.ServerCapabilities) {
		return func(c *mcp.ServerCapabilities) { c.Extensions = json.RawMessage(extensions) }
	}
	one := newUpstream(t, "one", modern.serving(&server.Options{Instructions: "One.", Features: server.Features{Capabilities: declare(`{"io.modelcontextprotocol/tasks":{}}`)}}))
	two := newUpstream(t, "two", sessions.serving(&server.Options{Instructions: "Two.", Features: server.Features{Capabilities: declare(`{"example.com/x":{},"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{}}`)}}))
	addTool(t, one.Server, "x", echo(""))
	addResource(t, two.Server, "memo://a", "")
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), modern.in(nil))
	info := c.Server()
	equal(t, "instructions", "One.\n\nTwo.", *info.Instructions)
	equal(t, "extensions", `{"example.com/x":{}}`, string(info.Capabilities.Extensions))
	equal(t, "tools, prompts, resources, tasks", []bool{true, false, true, false}, []bool{
		info.Capabilities.Declares("tools"), info.Capabilities.Declares("prompts"), info.Capabilities.Declares("resources"), info.Capabilities.Tasks != nil,
	})
}

// slowToListen is a connection on which subscriptions/listen is a second late.
type slowToListen struct{ transport.Conn }

func (c *slowToListen) Write(ctx context.Context, m transport.Message) error {
	if !strings.Contains(string(m.Text), mcp.MethodSubscriptionsListen) {
		return c.Conn.Write(ctx, m)
	}
	text := slices.Clone(m.Text)
	time.AfterFunc(time.Second, func() { c.Conn.Write(context.Background(), transport.Message{Text: text}) })
	return nil
}

// A change after the proxy has fetched the list, and before the upstream has accepted the
// subscription, reaches the client.
func TestChangeBeforeSubscriptionReachesClient(t *testing.T) {
	for _, of := range []era{sessions, modern} {
		t.Run("client "+of.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newUpstream(t, "one", modern.serving(nil))
				addTool(t, one.Server, "x", echo(""))
				up := one.as("a")
				up.Connect = func(ctx context.Context) (transport.Conn, error) {
					conn, err := one.connect(ctx)
					return &slowToListen{conn}, err
				}
				c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}}), of.in(nil))
				equal(t, "tools at first", []string{"a_x"}, toolNames(t, c))
				addTool(t, one.Server, "y", echo(""))
				time.Sleep(10 * time.Second)
				equal(t, "tools", []string{"a_x", "a_y"}, toolNames(t, c))
			})
		})
	}
}

// A resource may have changed while its upstream was not connected.
func TestUpdatesAreReportedAfterReconnect(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			one := newUpstream(t, "one", up.serving(nil))
			addResource(t, one.Server, "memo://a", "one")
			var n notices
			c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), of.in(&client.Options{Notifications: &n}))
			if err := c.Subscribe(t.Context(), "memo://a"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			n.take()
			one.setDown(true)
			one.ResourceUpdated("memo://a")
			one.setDown(false)
			time.Sleep(10 * time.Second)
			equal(t, "updates", []string{"updated memo://a"}, n.take())
		})
	})
}

// A modern client receives log messages after an upstream has dropped the session of the proxy.
func TestLogMessagesPassInReplacedSession(t *testing.T) {
	one := newUpstream(t, "one", sessions.serving(nil))
	addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return "", c.Log(ctx, mcp.LoggingLevelDebug, "", "done")
	})
	var serving atomic.Pointer[streamable.Handler]
	restart := func() {
		h := must.Get(one.Handler(nil))
		t.Cleanup(func() { h.Close() })
		serving.Store(h)
	}
	restart()
	url := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serving.Load().ServeHTTP(w, r) }))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{proxy.Dial("a", url, streamable.ClientOptions{})}})
	got := make(chan string, 10)
	c := connect(t, p, modern.in(&client.Options{Notifications: logsTo{logs: got}}))
	if err := c.SetLogLevel(t.Context(), mcp.LoggingLevelDebug); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at first", "after a restart"} {
		mustCall(t, c, "a_log", nil)
		equal(t, "message "+when, "done", <-got)
		restart()
		toolNames(t, c)
		if _, err := c.CallTool(t.Context(), "a_unknown", nil); err == nil { // after it, the session is replaced
			t.Error("an unknown tool was called")
		}
	}
}

// The progress of calls counts as notifications of the upstream, which reach a client at a limited
// rate. The last one arrives.
func TestFloodOfProgressIsLimited(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			one := newUpstream(t, "one", up.serving(&server.Options{Session: session.Options{Limits: session.Limits{ProgressInterval: -1}}}))
			const reports = 10_000
			addTool(t, one.Server, "work", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
				for i := range reports {
					c.Progress(float64(i+1), reports, "")
					time.Sleep(100 * time.Microsecond)
				}
				return "done", nil
			})
			c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), of.in(nil))
			var received, last atomic.Int64
			equal(t, "result", "done", mustCall(t, c, "a_work", nil, client.OnProgress(func(p session.Progress) {
				received.Add(1)
				last.Store(int64(p.Value))
			})))
			if n := received.Load(); n < 500 || n > 1600 { // 1,000 at once, and 500 in a second
				t.Errorf("%d reports have arrived", n)
			}
			equal(t, "last report", int64(reports), last.Load())
		})
	})
}
