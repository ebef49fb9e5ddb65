package proxy_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// addAsking adds a tool that asks the user for a name.
func addAsking(t *testing.T, s *server.Server, options ...server.ToolOption) {
	t.Helper()
	addTool(t, s, "ask", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		var in struct{ Name string }
		action, err := server.Elicit(ctx, c, "Name?", &in)
		return string(action) + " " + in.Name, err
	}, options...)
}

// user returns the options of a client whose user has a name.
func user(name string) *client.Options {
	return &client.Options{Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
		return client.Accept(map[string]any{"Name": name})
	}}}
}

func said(text string) mcp.SamplingContent {
	return mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: text}}}
}

// Input requests reach the client whose call they belong to, with its answer, roots and model.
func TestInputRequestsPass(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addAsking(t, one.Server)
	addTool(t, one.Server, "roots", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		roots, err := c.Roots(ctx)
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	addTool(t, one.Server, "sample", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		r, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
			Content: said("hi")}}})
		if err != nil {
			return "", err
		}
		return r.Model, nil
	})
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	o := user("Ada")
	o.Input.Sample = func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Model: "small", Role: mcp.RoleAssistant, Content: said("ho")}, nil
	}
	o.Input.Roots = new(client.Roots)
	o.Input.CheckRoot = func(context.Context, mcp.Root) error { return nil }
	if err := o.Input.Roots.Set(t.Context(), mcp.Root{URI: "file:///work"}); err != nil {
		t.Fatal(err)
	}
	ada, bob, none := connect(t, p, o), connect(t, p, user("Bob")), connect(t, p, nil)
	equal(t, "Ada's form", "accept Ada", mustCall(t, ada, "a_ask", nil))
	equal(t, "Bob's form", "accept Bob", mustCall(t, bob, "a_ask", nil))
	equal(t, "roots", "file:///work", mustCall(t, ada, "a_roots", nil))
	equal(t, "model", "small", mustCall(t, ada, "a_sample", nil))
	r, err := none.CallTool(t.Context(), "a_ask", nil)
	if err != nil || r.IsError == nil || !*r.IsError {
		t.Errorf("client without forms: %v, %v", r, err)
	}
}

// An upstream that makes input requests without end uses up what the client permits in a minute, but
// leaves room for those of others.
func TestFloodOfInputRequestsLeavesRoomForOthers(t *testing.T) {
	for _, up := range []era{sessions, modern} {
		t.Run(up.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := newUpstream(t, "one", up.serving(nil)), newUpstream(t, "two", nil)
				addAsking(t, one.Server)
				addAsking(t, two.Server)
				c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a"), two.as("b")}}), sessions.in(user("Ada")))
				const calls = 2 * 120
				rejected := 0
				for range calls {
					if result, err := c.CallTool(t.Context(), "a_ask", nil); err != nil || result.Failed() {
						rejected++
					}
				}
				equal(t, "rejected", calls-proxy.DefaultInputRequestsPerMinute, rejected)
				equal(t, "result", "accept Ada", mustCall(t, c, "b_ask", nil))
			})
		})
	}
}

func TestRootsChangeReachesUpstreams(t *testing.T) {
	changed := make(chan struct{}, 1)
	one := newUpstream(t, "one", &server.Options{Features: server.Features{Methods: map[string]session.Handler{
		mcp.MethodNotificationsRootsListChanged: func(context.Context, *session.Request) (codec.Encoder, error) {
			changed <- struct{}{}
			return nil, nil
		},
	}}})
	addTool(t, one.Server, "x", echo(""))
	o := &client.Options{Input: client.Input{Roots: new(client.Roots)}}
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), o)
	mustCall(t, c, "a_x", nil)
	if err := o.Input.Roots.Set(t.Context(), mcp.Root{URI: "file:///work"}); err != nil {
		t.Fatal(err)
	}
	<-changed
}

// The upstream cancels its input request: the client's handler ends.
func TestCancellationOfInputRequestPasses(t *testing.T) {
	one := newUpstream(t, "one", nil)
	asked := make(chan struct{})
	addTool(t, one.Server, "ask", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-asked
			cancel()
		}()
		_, err := c.ElicitForm(ctx, &mcp.ElicitRequestFormParams{Message: "?"})
		if !errors.Is(err, context.Canceled) {
			return "", err
		}
		return "cancelled", nil
	})
	ended := make(chan error, 1)
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), &client.Options{
		Input: client.Input{Fill: func(ctx context.Context, _ *client.FormRequest) (*mcp.ElicitResult, error) {
			close(asked)
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil, ctx.Err()
		}}})
	equal(t, "result", "cancelled", mustCall(t, c, "a_ask", nil))
	if err := <-ended; !errors.Is(err, session.ErrCancelled) {
		t.Errorf("the client's handler: %v", err)
	}
}

// An error of the client reaches the upstream with its code.
func TestErrorOfClientPasses(t *testing.T) {
	one := newUpstream(t, "one", nil)
	codes := make(chan int64, 1)
	addTool(t, one.Server, "ask", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		_, err := c.ElicitForm(ctx, &mcp.ElicitRequestFormParams{Message: "?"})
		codes <- int64(jsonrpc.CodeOf(err))
		return "", nil
	})
	c := connect(t, newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}}), &client.Options{
		Input: client.Input{Fill: func(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
			return nil, &jsonrpc.Error{Code: -7, Message: "no"}
		}}})
	mustCall(t, c, "a_ask", nil)
	equal(t, "code", int64(-7), <-codes)
}

// Over HTTP, an input request arrives on the stream of the call, because the client need not listen
// to any other.
func TestInputRequestArrivesOnStreamOfCall(t *testing.T) {
	one := newUpstream(t, "one", nil)
	addAsking(t, one.Server)
	p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{one.as("a")}})
	handler := must.Get(p.Handler(nil))
	t.Cleanup(func() { handler.Close() })
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	o := user("Ada")
	o.HTTP.NoListen = true
	c, err := client.Dial(t.Context(), web.URL, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	equal(t, "form", "accept Ada", mustCall(t, c, "a_ask", nil))
}
