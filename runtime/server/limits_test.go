package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// limitedClient sends requests of one era as a principal, each time over another one of its
// connections.
type limitedClient struct {
	*modernClient
	sessionless bool
}

func connectLimited(t *testing.T, s *server.Server, sessionless bool, principal string) *limitedClient {
	c := &limitedClient{connectModern(t, s), sessionless}
	c.ctx = transport.WithPrincipal(t.Context(), principal)
	if !sessionless {
		c.write(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + everyInput + `,"clientInfo":{"name":"c","version":"1"}}}`)
		synctest.Wait()
		c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.take()
	}
	return c
}

// ask sends a request. Its log messages are those of level error.
func (c *limitedClient) ask(method, params string) {
	c.t.Helper()
	if c.sessionless {
		c.start(method, params, declares(everyInput)+`"io.modelcontextprotocol/logLevel":"error","progressToken":1,`)
		return
	}
	c.id++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, strings.Replace(params, "{", `{"_meta":{"progressToken":1},`, 1)))
}

// expect sends a request, and checks that its answer contains a text.
func (c *limitedClient) expect(step, method, params, want string) {
	c.t.Helper()
	c.ask(method, params)
	if got := c.take(); len(got) == 0 || !strings.Contains(got[len(got)-1], want) {
		c.t.Errorf("%s: got %.300q, want %s", step, got, want)
	}
}

// subscribe subscribes to resources, in one request if there are no sessions.
func (c *limitedClient) subscribe(step, want string, uris ...string) {
	c.t.Helper()
	if c.sessionless {
		if want == "{}" {
			want = "acknowledged"
		}
		c.expect(step, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["`+strings.Join(uris, `","`)+`"]}}`, want)
		return
	}
	for i, uri := range uris {
		if i < len(uris)-1 {
			c.expect(step, "resources/subscribe", `{"uri":"`+uri+`"}`, "{}")
		} else {
			c.expect(step, "resources/subscribe", `{"uri":"`+uri+`"}`, want)
		}
	}
}

// overloaded is the code of an overloaded server.
func (c *limitedClient) overloaded() string {
	if c.sessionless {
		return `"code":-31050`
	}
	return `"code":-32050`
}

// Each limit means the same in sessions and without them, and a principal has it once for all of
// its connections.
func TestLimitsHoldInBothEras(t *testing.T) {
	const do, fine = `{"name":"do","arguments":{}}`, `"content":[`
	type clients struct{ ann, again, bob *limitedClient } // the first two are one principal
	for _, row := range []struct {
		name string
		cfg  server.Options
		tool func(ctx context.Context, c *server.Call) (string, error)
		test func(t *testing.T, x clients)
	}{
		{"Calls", server.Options{Limits: server.Limits{Calls: 1}}, nil, func(t *testing.T, x clients) {
			x.ann.expect("first", "tools/call", do, fine)
			x.again.expect("second", "tools/call", do, fine)
			x.ann.expect("third", "tools/call", do, x.ann.overloaded())
			x.again.expect("third over another connection", "tools/call", do, x.ann.overloaded())
			x.bob.expect("another principal", "tools/call", do, fine)
			time.Sleep(time.Second)
			x.again.expect("later", "tools/call", do, fine)
		}},
		{"Logs", server.Options{Limits: server.Limits{Logs: 5}}, func(ctx context.Context, c *server.Call) (string, error) {
			for range 100 {
				c.Log(ctx, "error", "", "x")
			}
			return "", nil
		}, func(t *testing.T, x clients) {
			for i, c := range []*limitedClient{x.ann, x.again, x.bob} {
				c.ask("tools/call", do)
				if got, want := len(c.take())-1, []int{10, 0, 10}[i]; got != want {
					t.Errorf("client %d got %d messages, want %d", i, got, want)
				}
			}
		}},
		{"Subscriptions", server.Options{Limits: server.Limits{Subscriptions: 4}}, nil, func(t *testing.T, x clients) {
			uris := []string{"t:a", "t:b", "t:c", "t:d"}
			if x.ann.sessionless { // the request counts, too
				uris = uris[:3]
			}
			x.ann.subscribe("within the limit", "{}", uris...)
			x.again.subscribe("one more", "limit of 4 subscriptions", "t:e")
			x.bob.subscribe("another principal", "{}", uris...)
			x.ann.conn.Close()
			synctest.Wait()
			x.again.subscribe("after the end of the connection", "{}", uris...)
		}},
		{"SubscriptionBytes", server.Options{Limits: server.Limits{SubscriptionBytes: 1000}}, nil, func(t *testing.T, x clients) {
			long := func(n int) string { return "t:" + strings.Repeat("x", n) }
			x.ann.subscribe("within the limit", "{}", long(500))
			x.again.subscribe("one more", "limit of 1000 bytes", long(501))
			x.bob.subscribe("another principal", "{}", long(501))
			x.ann.conn.Close()
			synctest.Wait()
			x.again.subscribe("after the end of the connection", "{}", long(501))
		}},
		{"URI", server.Options{Limits: server.Limits{URI: 100}}, nil, func(t *testing.T, x clients) {
			x.ann.expect("within the limit", "resources/read", `{"uri":"t:`+strings.Repeat("x", 98)+`"}`, `"contents":[`)
			x.ann.expect("longer", "resources/read", `{"uri":"t:`+strings.Repeat("x", 99)+`"}`, "the limit is 100")
		}},
		{"ToolRounds", server.Options{Limits: server.Limits{ToolRounds: 3}}, func(ctx context.Context, c *server.Call) (string, error) {
			params := &mcp.CreateMessageRequestParams{MaxTokens: 1}
			for range 5 {
				params.Messages = append(params.Messages, mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.ToolUseContent{ID: "1", Name: "x", Input: []byte("{}")}}}},
					mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.ToolResultContent{ToolUseID: "1", Content: []mcp.ContentBlock{}}}}})
			}
			_, err := c.Sample(ctx, params)
			return "", err
		}, func(t *testing.T, x clients) { x.ann.expect("too many", "tools/call", do, "the limit is 3") }},
		{"Session.Limits.Requests", server.Options{Session: session.Options{Limits: session.Limits{Requests: 2}}}, waitFor, func(t *testing.T, x clients) {
			x.ann.ask("tools/call", do)
			x.ann.ask("tools/call", do)
			x.ann.expect("one more", "tools/call", do, x.ann.overloaded())
			x.bob.ask("tools/call", do)
			if got := x.bob.take(); len(got) > 0 {
				t.Errorf("another connection: %q", got)
			}
		}},
		{"Session.Limits.Bytes", server.Options{Session: session.Options{Limits: session.Limits{Bytes: 2000}}}, waitFor, func(t *testing.T, x clients) {
			long := `{"name":"do","arguments":{"x":"` + strings.Repeat("x", 1000) + `"}}`
			x.ann.ask("tools/call", long)
			x.ann.expect("one more", "tools/call", long, x.ann.overloaded())
			x.bob.ask("tools/call", long)
			if got := x.bob.take(); len(got) > 0 {
				t.Errorf("another connection: %q", got)
			}
		}},
		{"Session.Limits.ProgressInterval", server.Options{Session: session.Options{Limits: session.Limits{ProgressInterval: time.Second}}}, func(ctx context.Context, c *server.Call) (string, error) {
			for i := range 100 {
				c.Progress(float64(i+1), 100, "")
			}
			return "", nil
		}, func(t *testing.T, x clients) {
			x.ann.ask("tools/call", do)
			if got := x.ann.take(); len(got) != 3 || !strings.Contains(got[1], `"progress":100`) {
				t.Errorf("got %q, want the first and the last report, and the answer", got)
			}
		}},
	} {
		for _, sessionless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sessionless %v", row.name, sessionless), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newServer(t, row.cfg)
					server.AddTool(s, "do", "", func(ctx context.Context, c *server.Call, _ struct {
						X string `json:"x,omitempty"`
					}) (string, error) {
						if row.tool == nil {
							return "", nil
						}
						return row.tool(ctx, c)
					})
					server.AddTemplate(s, "t:{name}", "t", readText)
					connect := func(principal string) *limitedClient { return connectLimited(t, s, sessionless, principal) }
					row.test(t, clients{connect("ann"), connect("ann"), connect("bob")})
				})
			})
		}
	}
}

// waitFor is a tool that waits for the end of its call.
func waitFor(ctx context.Context, _ *server.Call) (string, error) {
	<-ctx.Done()
	return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "ended"}
}
