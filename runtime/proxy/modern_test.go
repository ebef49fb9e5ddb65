package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// era is a kind of revisions that one side speaks.
type era struct {
	name      string
	revisions []mcp.Revision
}

var (
	sessions = era{"sessions", session.Revisions()}
	modern   = era{"modern", session.ModernRevisions()}
)

// inEras runs a test for each pair of eras of the client and of the upstream.
func inEras(t *testing.T, test func(t *testing.T, of, up era)) {
	for _, of := range []era{sessions, modern} {
		for _, up := range []era{sessions, modern} {
			t.Run("client "+of.name+" upstream "+up.name, func(t *testing.T) { test(t, of, up) })
		}
	}
}

// in returns options of a client, or empty ones, for an era.
func (e era) in(o *client.Options) *client.Options {
	if o == nil {
		o = new(client.Options)
	}
	o.Session.Revisions = e.revisions
	return o
}

// serving returns the configuration of a server, or an empty one, for an era.
func (e era) serving(cfg *server.Options) *server.Options {
	if cfg == nil {
		cfg = new(server.Options)
	}
	cfg.Session.Revisions = e.revisions
	return cfg
}

// overHTTP returns an upstream over HTTP.
func (u *upstream) overHTTP(t *testing.T, name string) proxy.Upstream {
	t.Helper()
	return proxy.Dial(name, serveHTTP(t, u.Server, nil), streamable.ClientOptions{})
}

// serveHTTP serves a server over HTTP and returns its URL. Wrap may be nil.
func serveHTTP(t *testing.T, s *server.Server, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	handler := must.Get(s.Handler(nil))
	t.Cleanup(func() { handler.Close() })
	if wrap != nil {
		return serveHandler(t, wrap(handler))
	}
	return serveHandler(t, handler)
}

// serveHandler serves a handler and returns its URL.
func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL
}

// dial connects a client to a proxy over HTTP.
func dial(t *testing.T, url string, o *client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// model returns the options of a client that responds to all input requests.
func model(t *testing.T, name string) *client.Options {
	t.Helper()
	o := user(name)
	o.Input.Sample = func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Model: "small", Role: mcp.RoleAssistant, Content: said("ho")}, nil
	}
	o.Input.Roots = new(client.Roots)
	o.Input.CheckRoot = func(context.Context, mcp.Root) error { return nil }
	if err := o.Input.Roots.Set(t.Context(), mcp.Root{URI: "file:///work"}); err != nil {
		t.Fatal(err)
	}
	return o
}

// addInput adds a tool that makes input requests of all kinds, and counts in how many calls it
// begins to run.
func addInput(t *testing.T, s *server.Server, calls *atomic.Int32) {
	t.Helper()
	addTool(t, s, "input", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if _, err := server.Step(ctx, c, "begin", func(context.Context) (int, error) { return int(calls.Add(1)), nil }); err != nil {
			return "", err
		}
		var in struct{ Name string }
		if _, err := server.Elicit(ctx, c, "Name?", &in); err != nil {
			return "", err
		}
		roots, err := c.Roots(ctx)
		if err != nil {
			return "", err
		}
		sampled, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: said("hi")}}})
		if err != nil {
			return "", err
		}
		return in.Name + " " + roots[0].URI + " " + sampled.Model, nil
	})
}

func TestErasOfClientAndUpstream(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		for _, over := range []string{"memory", "HTTP"} {
			t.Run(over, func(t *testing.T) {
				one := newUpstream(t, "one", up.serving(nil))
				addTool(t, one.Server, "echo", echo("one"))
				addTool(t, one.Server, "revision", func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
					return c.ClientInfo().Name, c.Progress(1, 2, string(c.Revision()))
				})
				addResource(t, one.Server, "memo://a", "one")
				addTemplate(t, one.Server, "file:///{x}", "1", "file", server.Complete("x", server.OneOf("1", "2")))
				var calls atomic.Int32
				addInput(t, one.Server, &calls)
				upstream := one.as("a")
				if over == "HTTP" {
					upstream = one.overHTTP(t, "a")
				}
				p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{upstream}})
				addTool(t, p.Server, "own", echo("own"))
				o := of.in(model(t, "Ada"))
				o.Info = mcp.Implementation{Name: "ada", Version: "1"}
				var c *client.Client
				if over == "HTTP" {
					c = dial(t, serveHTTP(t, p.Server, nil), o)
				} else {
					c = connect(t, p, o)
				}
				equal(t, "modern", of.name == "modern", c.Session().Traits().Sessionless)
				equal(t, "tools", []string{"a_echo", "a_input", "a_revision", "own"}, toolNames(t, c))
				equal(t, "result", `one{"x":1}`, mustCall(t, c, "a_echo", map[string]any{"x": 1}))
				equal(t, "own result", `own{"x":1}`, mustCall(t, c, "own", map[string]any{"x": 1}))
				equal(t, "result with input", "Ada file:///work small", mustCall(t, c, "a_input", nil))
				equal(t, "calls", int32(1), calls.Load())
				var progress []string
				name := mustCall(t, c, "a_revision", nil, client.OnProgress(func(p session.Progress) { progress = append(progress, p.Message) }))
				equal(t, "client info at the upstream", "ada", name)
				equal(t, "revision at the upstream", []string{string(up.revisions[0])}, progress)
				for uri, want := range map[string]string{"memo://a": "one", "file:///1": "file"} {
					r, err := c.ReadResource(t.Context(), uri)
					if err != nil {
						t.Fatal(err)
					}
					equal(t, uri, want, r.Contents[0].(*mcp.TextResourceContents).Text)
				}
				done, err := c.Complete(t.Context(), &mcp.ResourceTemplateReference{URI: "file:///{x}"}, "x", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "completion", []string{"1", "2"}, done.Values)
				if _, err := c.CallTool(t.Context(), "a_none", nil); err == nil {
					t.Error("an unknown tool was called")
				}
			})
		}
	})
}
