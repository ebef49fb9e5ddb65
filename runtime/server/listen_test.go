package server_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// listen sends subscriptions/listen with an id, and returns what is received then.
func (c *modernClient) listen(id, filter string) []string {
	c.t.Helper()
	c.write(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":` + filter + `,"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},
		"io.modelcontextprotocol/logLevel":"debug","progressToken":` + id + `}}}`)
	return c.take()
}

// expectMessages compares what was received with short forms of messages.
func (c *modernClient) expectMessages(got []string, want ...string) {
	c.t.Helper()
	short := []string{}
	for _, text := range got {
		line := strings.TrimPrefix(strings.Trim(part(text, "method"), `"`), "notifications/")
		if line == "" {
			line = "answer " + part(text, "id") + part(text, "error", "code") + part(text, "result", "resultType")
			text = part(text, "result")
		} else {
			text = part(text, "params")
		}
		if id := part(text, "_meta", "io.modelcontextprotocol/subscriptionId"); id != "" {
			line += " of " + id
		}
		for _, name := range []string{"notifications", "uri", "requestId"} {
			if value := part(text, name); value != "" {
				line += " " + value
			}
		}
		short = append(short, line)
	}
	if diff := cmp.Diff(append([]string{}, want...), short); diff != "" {
		c.t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// Proves M-SUBS-01, M-SUBS-03, M-SUBS-04, M-SUBS-05, M-SUBS-06, M-SUBS-08, M-SUBS-09, M-SUBS-10 and M-SUBS-12.
func TestListen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		c := connectModern(t, s)
		c.expectMessages(c.listen(`"none"`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:one"]}`),
			`subscriptions/acknowledged of "none" {}`)
		tool := server.AddTool(s, "hi", "", sayHi)
		server.AddPrompt(s, "p", "", givePrompt)
		server.AddResource(s, "x:one", "one", readText)
		server.AddResource(s, "x:two", "two", readText)
		server.AddTemplate(s, "t:{name}", "t", readText)
		server.AddResource(s, "x:hidden", "hidden", readText, server.VisibleTo(func(c *server.Call) bool { return c.Principal() == "ann" }))
		c.expectMessages(c.take())

		c.expectMessages(c.listen(`1`, `{"toolsListChanged":true,"promptsListChanged":false,"other":true}`),
			`subscriptions/acknowledged of 1 {"toolsListChanged":true}`)
		c.expectMessages(c.listen(`"1"`, `{"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}`),
			`subscriptions/acknowledged of "1" {"promptsListChanged":true,"resourcesListChanged":true,"toolsListChanged":true}`)
		c.expectMessages(c.listen(`2`, `{"resourceSubscriptions":["t:a","x:one","x:none","x:hidden","x:one","no URI","x:../a"]}`),
			`subscriptions/acknowledged of 2 {"resourceSubscriptions":["t:a","x:one"]}`)

		tool.Disable()
		got := c.take()
		slices.Sort(got)
		c.expectMessages(got, `tools/list_changed of "1"`, `tools/list_changed of 1`)
		s.ListChanged(mcp.MethodNotificationsPromptsListChanged)
		c.expectMessages(c.take(), `prompts/list_changed of "1"`)
		s.ListChanged(mcp.MethodNotificationsResourcesListChanged)
		c.expectMessages(c.take(), `resources/list_changed of "1"`)
		for _, uri := range []string{"x:one", "x:two", "x:hidden", "x:none", "t:a", "t:b"} {
			s.ResourceUpdated(uri)
		}
		got = c.take() // the first update can be sent before the second one
		slices.Sort(got)
		c.expectMessages(got, `resources/updated of 2 "t:a"`, `resources/updated of 2 "x:one"`)

		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`)
		c.take()
		tool.Enable()
		c.expectMessages(c.take(), `tools/list_changed of "1"`)
	})
}

// Proves M-SUBS-13, M-SUBS-14, M-CANC-06 and M-CANC-07.
func TestShutdownEndsSubscriptionsWithResults(t *testing.T) {
	for name, end := range map[string]func(s *server.Server) error{
		"Shutdown": func(s *server.Server) error { return s.Shutdown(context.Background()) },
		"Session":  func(s *server.Server) error { return s.Sessions()[0].Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newCatalog(t, server.Options{})
				c := connectModern(t, s)
				c.listen(`"a"`, `{"toolsListChanged":true}`)
				if err := end(s); err != nil {
					t.Error(err)
				}
				got := c.take()
				c.expectMessages(got, `cancelled "a"`, `answer "a""complete" of "a"`)
				equalJSON(t, "server info", testInfo, part(got[len(got)-1], "result", "_meta", "io.modelcontextprotocol/serverInfo"))
			})
		})
	}
}

// The functions for subscriptions are called with the call, and cannot send anything on the stream.
//
// Proves M-SUBS-11.
func TestListenCallsSubscribeAndUnsubscribe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var events []string
		s := newServer(t, server.Options{
			Hooks: server.Hooks{
				Subscribe: func(ctx context.Context, c *server.Call, uri string) error {
					c.Log(ctx, mcp.LoggingLevelError, "", "no")
					c.Logger("").Error("no")
					c.Progress(1, 2, "no")
					c.Notify(ctx, "com.example/no", nil)
					events = append(events, fmt.Sprint("+", c.Principal(), " ", uri, " ", c.Revision()))
					switch uri {
					case "t:bad":
						return fmt.Errorf("no")
					case "t:panic":
						panic("no")
					}
					return nil
				},
				Unsubscribe: func(ctx context.Context, c *server.Call, uri string) {
					c.Progress(3, 4, "no")
					events = append(events, fmt.Sprint("-", c.Principal(), " ", uri, " ", ctx.Err()))
				},
			},
		})
		server.AddTemplate(s, "t:{name}", "t", readText)
		c := connectModern(t, s)
		c.ctx = transport.WithPrincipal(t.Context(), "ann")
		c.expectMessages(c.listen(`1`, `{"resourceSubscriptions":["t:b","t:bad","t:a","t:panic"]}`), `subscriptions/acknowledged of 1 {"resourceSubscriptions":["t:a","t:b"]}`)
		s.ResourceUpdated("t:bad")
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.expectMessages(c.take())
		want := []string{"+ann t:a 2026-07-28", "+ann t:b 2026-07-28", "+ann t:bad 2026-07-28", "+ann t:panic 2026-07-28", "-ann t:a <nil>", "-ann t:b <nil>"}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestSubscriptionsOfAPrincipalAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Limits: server.Limits{Subscriptions: 4, SubscriptionBytes: 1000}})
		server.AddTemplate(s, "t:{name}", "t", readText)
		c := connectModern(t, s)
		as := func(principal string) { c.ctx = transport.WithPrincipal(t.Context(), principal) }
		refused := fmt.Sprint(jsonrpc.CodeInvalidRequest)
		as("ann")
		c.expectMessages(c.listen(`1`, `{"resourceSubscriptions":["t:a","t:b"]}`), `subscriptions/acknowledged of 1 {"resourceSubscriptions":["t:a","t:b"]}`)
		c.expectMessages(c.listen(`2`, `{"resourceSubscriptions":["t:a"]}`), `answer 2`+refused)
		c.expectMessages(c.listen(`3`, `{"resourceSubscriptions":["t:none"]}`), `answer 3`+refused)
		c.expectMessages(c.listen(`4`, `{}`), `subscriptions/acknowledged of 4 {}`)
		c.expectMessages(c.listen(`5`, `{}`), `answer 5`+refused)
		as("bob")
		c.expectMessages(c.listen(`6`, `{"resourceSubscriptions":["t:a"]}`), `subscriptions/acknowledged of 6 {"resourceSubscriptions":["t:a"]}`)
		c.expectMessages(c.listen(`7`, `{"resourceSubscriptions":["t:`+strings.Repeat("a", 900)+`"]}`), `answer 7`+refused)
		as("ann")
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		c.take()
		c.expectMessages(c.listen(`8`, `{"resourceSubscriptions":["t:a","t:b"]}`), `subscriptions/acknowledged of 8 {"resourceSubscriptions":["t:a","t:b"]}`)
	})
}

// A subscription that a function of the author ends does not count.
func TestGoexitOfSubscribeFreesSubscription(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var ended []string // guarded by mu
		s := newServer(t, server.Options{
			Limits: server.Limits{Subscriptions: 3},
			Hooks: server.Hooks{
				Subscribe: func(_ context.Context, _ *server.Call, uri string) error {
					if uri == "t:exit" {
						runtime.Goexit()
					}
					return nil
				},
				Unsubscribe: func(_ context.Context, _ *server.Call, uri string) {
					mu.Lock()
					defer mu.Unlock()
					ended = append(ended, uri)
				},
			},
		})
		server.AddTemplate(s, "t:{name}", "t", readText)
		c := connectModern(t, s)
		c.expectMessages(c.listen(`1`, `{"resourceSubscriptions":["t:a","t:exit"]}`), fmt.Sprint(`answer 1`, jsonrpc.CodeInternalError))
		c.expectMessages(c.listen(`2`, `{"resourceSubscriptions":["t:a","t:b"]}`), `subscriptions/acknowledged of 2 {"resourceSubscriptions":["t:a","t:b"]}`)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]string{"t:a"}, ended); diff != "" {
			t.Errorf("ended subscriptions (-want +got):\n%s", diff)
		}
	})
}

// Changes are merged while the client does not read, and during Options.Features.Debounce.
func TestListenMergesChanges(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Features: server.Features{Debounce: time.Second}})
		server.AddTemplate(s, "t:{name}", "t", readText)
		time.Sleep(2 * time.Second)
		c := connectModernWith(t, s, inmemory.Options{MaxQueue: 400, StallTimeout: time.Hour})
		c.listen(`1`, `{"resourcesListChanged":true,"resourceSubscriptions":["t:a","t:b"]}`)
		for range 10 {
			s.ListChanged(mcp.MethodNotificationsResourcesListChanged)
			time.Sleep(time.Millisecond)
		}
		c.expectMessages(c.take())
		time.Sleep(2 * time.Second)
		c.expectMessages(c.take(), `resources/list_changed of 1`)

		resume := make(chan struct{})
		c.mu.Lock()
		c.paused = resume
		c.mu.Unlock()
		for range 1000 {
			s.ResourceUpdated("t:a")
			s.ResourceUpdated("t:b")
			s.ListChanged(mcp.MethodNotificationsResourcesListChanged)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		c.mu.Lock()
		c.paused = nil
		c.mu.Unlock()
		close(resume)
		got := c.take()
		if len(got) < 3 || len(got) > 12 {
			t.Errorf("%d messages after the client had not read", len(got))
		}
	})
}
