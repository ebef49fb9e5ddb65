package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func addResource(t *testing.T, s *server.Server, uri, text string) {
	t.Helper()
	err := server.AddResource(s, uri, uri, func(context.Context, *server.Call, server.Resource) (string, error) { return text, nil }).Err()
	if err != nil {
		t.Fatal(err)
	}
}

// addTemplate adds a template that knows one value of its variable x.
func addTemplate(t *testing.T, s *server.Server, uri, known, text string, options ...server.TemplateOption) {
	t.Helper()
	err := server.AddTemplate(s, uri, uri, func(_ context.Context, _ *server.Call, r server.Resource) (string, error) {
		if r.Vars.Get("x") != known {
			return "", server.NotFound(r.URI)
		}
		return text, nil
	}, options...).Err()
	if err != nil {
		t.Fatal(err)
	}
}

func TestResourcesAndTemplates(t *testing.T) {
	one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
	addResource(t, one.Server, "memo://a", "one")
	addResource(t, two.Server, "memo://a", "hidden")
	addResource(t, two.Server, "memo://b", "two")
	addTemplate(t, one.Server, "file:///{x}", "1", "file of one")
	addTemplate(t, two.Server, "file://{/x}", "2", "file of two")
	addTool(t, one.Server, "x", echo(""))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}})
	addResource(t, p.Server, "memo://own", "own")
	c := connect(t, p, nil)

	var uris []string
	for r, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
	for r, err := range c.ResourceTemplates(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URITemplate)
	}
	equal(t, "lists", []string{"memo://a", "memo://b", "memo://own", "file:///{x}", "file://{/x}"}, uris)
	for uri, want := range map[string]string{
		"memo://a": "one", "memo://b": "two", "memo://own": "own", "file:///1": "file of one", "file:///2": "file of two",
	} {
		r, err := c.ReadResource(t.Context(), uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		equal(t, uri, want, r.Contents[0].(*mcp.TextResourceContents).Text)
	}
	if _, err := c.ReadResource(t.Context(), "file:///3"); jsonrpc.CodeOf(err) != server.CodeResourceNotFound {
		t.Errorf("unknown resource: %v", err)
	}
}

func TestPromptsAndCompletion(t *testing.T) {
	one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
	addPrompt := func(s *server.Server, text string, options ...server.PromptOption) {
		t.Helper()
		err := server.AddPrompt(s, "ask", "", func(_ context.Context, _ *server.Call, in map[string]string) (string, error) {
			return text + in["who"], nil
		},
			append(options, server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = []mcp.PromptArgument{{Name: "who"}} }))...).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	addPrompt(one.Server, "one ", server.Complete("who", server.OneOf("ada", "alan")))
	addPrompt(two.Server, "two ")
	addTemplate(t, one.Server, "file:///{x}", "1", "", server.Complete("x", server.OneOf("1", "2")))
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), nil)
	var names []string
	for p, err := range c.Prompts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, p.Name)
	}
	equal(t, "prompts", []string{"a_ask", "b_ask"}, names)
	got, err := c.GetPrompt(t.Context(), "b_ask", map[string]string{"who": "bob"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "prompt", "two bob", got.Messages[0].Content.(*mcp.TextContent).Text)
	for _, tt := range []struct {
		ref  mcp.CompletionReference
		name string
		want []string
	}{
		{&mcp.PromptReference{Name: "a_ask"}, "who", []string{"ada", "alan"}},
		{&mcp.PromptReference{Name: "b_ask"}, "who", []string{}},
		{&mcp.ResourceTemplateReference{URI: "file:///{x}"}, "x", []string{"1", "2"}},
	} {
		got, err := c.Complete(t.Context(), tt.ref, tt.name, "", nil)
		if err != nil {
			t.Errorf("%v: %v", tt.ref, err)
			continue
		}
		equal(t, "completion", tt.want, got.Values)
	}
}

// The log level and the subscriptions reach the upstreams, including those that have reconnected.
// Log messages and updates reach the client.
func TestLogAndSubscriptionsSurviveReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
		addResource(t, one.Server, "memo://a", "one")
		addTool(t, two.Server, "x", echo(""))
		addTool(t, one.Server, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			err := errors.Join(c.Log(ctx, mcp.LoggingLevelDebug, "", "low"), c.Log(ctx, mcp.LoggingLevelInfo, "", "mid"), c.Log(ctx, mcp.LoggingLevelError, "", "high"))
			return "", err
		})
		var n notices
		c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{two.as("b"), one.as("a")}}), &client.Options{Notifications: &n})
		mustCall(t, c, "a_log", nil)
		synctest.Wait()
		equal(t, "log", []string{`log info "mid"`, `log error "high"`}, n.take())
		if err := errors.Join(c.SetLogLevel(t.Context(), mcp.LoggingLevelError), c.Subscribe(t.Context(), "memo://a")); err != nil {
			t.Fatal(err)
		}
		for _, when := range []string{"at first", "after the reconnect"} {
			mustCall(t, c, "a_log", nil)
			one.ResourceUpdated("memo://a")
			one.ResourceUpdated("memo://b")
			synctest.Wait()
			equal(t, when, []string{`log error "high"`, "updated memo://a"}, n.take())
			one.setDown(true)
			synctest.Wait()
			one.setDown(false)
			time.Sleep(10 * time.Second)
			n.take()
		}
		if err := c.Unsubscribe(t.Context(), "memo://a"); err != nil {
			t.Error(err)
		}
		one.ResourceUpdated("memo://a")
		synctest.Wait()
		equal(t, "after unsubscribe", []string(nil), n.take())
	})
}

// The client sees the capabilities and instructions of the upstreams. An upstream that is down
// counts as one with all capabilities.
func TestCapabilities(t *testing.T) {
	one := newUpstream(t, "one", &server.Options{Instructions: "Use one."})
	addTool(t, one.Server, "x", echo(""))
	for _, tt := range []struct {
		name string
		down bool
		want string
	}{
		{"connected", false, `{"capabilities":{"logging":{},"tools":{"listChanged":true}},"instructions":"Use all.\n\nUse one."}`},
		{"down", true, `{"capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},` +
			`"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}},"tools":{"listChanged":true}},"instructions":"Use all."}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one.setDown(tt.down)
			c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}, Server: server.Options{Instructions: "Use all."}}), nil)
			got, err := codec.Marshal(&mcp.InitializeResult{Capabilities: c.Server().Capabilities, Instructions: c.Server().Instructions})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "result", tt.want, string(got[:len(got)-len(`,"protocolVersion":"","serverInfo":{"name":"","version":""}}`)])+"}")
		})
	}
}

// The upstream has a newer revision than the client.
func TestResultsAreProjected(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addTool(t, one.Server, "x", func(context.Context, *server.Call, struct{}) (struct{ N int }, error) { return struct{ N int }{1}, nil },
		server.DefineTool(func(d *mcp.Tool) { d.Title = new("X") }))
	up := one.as("a")
	up.Session.Revisions = []mcp.Revision{mcp.Revision20251125}
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up}}), &client.Options{
		Session: session.Options{Revisions: []mcp.Revision{mcp.Revision20250326}}})
	list, err := c.Session().Call(t.Context(), mcp.MethodToolsList, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "list", `{"tools":[{"inputSchema":{"type":"object","additionalProperties":false},"name":"a_x"}]}`, string(list))
	result, err := c.Session().Call(t.Context(), mcp.MethodToolsCall, session.Raw(`{"name":"a_x"}`))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "result", `{"content":[{"type":"text","text":"{\"N\":1}"}]}`, string(result))
}

// A tool or prompt of the server itself may have a name that begins with the prefix of an upstream.
func TestOwnFeatureWithPrefixOfUpstream(t *testing.T) {
	up := newUpstream(t, "up", nil)
	addTool(t, up.Server, "x", echo("upstream"))
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{up.as("a")}, Server: server.Options{Features: server.Features{PageSize: 1}}})
	for _, name := range []string{"a_one", "a_two", "a_x"} {
		addTool(t, p.Server, name, echo("own"))
		err := server.AddPrompt(p.Server, name, "", func(context.Context, *server.Call, map[string]string) (string, error) { return "own", nil }).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, p, nil)
	for name, want := range map[string]string{"a_one": "own{}", "a_two": "own{}", "a_x": "upstream{}"} {
		equal(t, name, want, mustCall(t, c, name, nil))
	}
	if r, err := c.GetPrompt(t.Context(), "a_two", nil); err != nil {
		t.Error(err)
	} else {
		equal(t, "prompt", "own", r.Messages[0].Content.(*mcp.TextContent).Text)
	}
	if _, err := c.CallTool(t.Context(), "a_three", nil); err == nil || err.Error() != `jsonrpc: unknown tool: "three" (code -32602)` {
		t.Errorf("unknown tool: %v", err)
	}
}

// Some servers have codes of their own for an unknown resource.
func TestUnlistedResourceIsFoundAfterOtherErrors(t *testing.T) {
	one := newUpstream(t, "one", &server.Options{Features: server.Features{Methods: map[string]session.Handler{
		mcp.MethodResourcesRead: func(context.Context, *session.Request) (codec.Encoder, error) {
			return nil, &jsonrpc.Error{Message: "Unknown resource"}
		},
	}}})
	two := newUpstream(t, "two", nil)
	addTemplate(t, one.Server, "memo:///{x}", "1", "one")
	addTemplate(t, two.Server, "memo:///{x}{?y}", "2", "two")
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), nil)
	if r, err := c.ReadResource(t.Context(), "memo:///2"); err != nil {
		t.Error(err)
	} else {
		equal(t, "contents", "two", r.Contents[0].(*mcp.TextResourceContents).Text)
	}
	if _, err := c.ReadResource(t.Context(), "memo:///3"); err == nil || err.Error() != "jsonrpc: Unknown resource (code 0)" {
		t.Errorf("unknown resource: %v", err)
	}
}

// However many features of an upstream another one hides, the log has one line for them. It says
// which upstream serves them.
func TestHiddenFeaturesAreLoggedOnce(t *testing.T) {
	one, two := newUpstream(t, "one", nil), newUpstream(t, "two", nil)
	for i := range 3 {
		addResource(t, one.Server, fmt.Sprint("memo://", i), "one")
		addResource(t, two.Server, fmt.Sprint("memo://", i), "two")
	}
	addResource(t, two.Server, "memo://more", "two")
	var log bytes.Buffer
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}, Server: server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	c := connect(t, p, nil)
	uris := 0
	for _, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		uris++
	}
	equal(t, "resources", 4, uris)
	c.Close()
	p.Close()
	var lines []string
	for line := range strings.Lines(log.String()) {
		if _, text, ok := strings.Cut(line, "hidden"); ok {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	equal(t, "log", []string{`" kind=resources upstream=b number=3 key=memo://0 by=a`}, lines)
}
