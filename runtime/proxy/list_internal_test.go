package proxy

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	user "github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// The lists that one upstream sends for all clients do not take all memory: further clients see the
// other upstreams. The lists of clients that have gone do not count.
func TestListsOfUpstreamAreLimitedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var upstreams []Upstream
		for _, name := range []string{"a", "b"} {
			s := server.New(name, "1", nil)
			defer s.Close()
			server.AddTool(s, "t", "A tool.", func(context.Context, *server.Call, struct{}) (string, error) { return "", nil })
			upstreams = append(upstreams, Upstream{Name: name, Prefix: name + "_", Connect: func(context.Context) (transport.Conn, error) {
				near, far := inmemory.Pair(inmemory.Options{})
				_, err := s.Serve(far)
				return near, err
			}})
		}
		p, err := New("hub", "1", &Options{Upstreams: upstreams})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		connect := func() *user.Client {
			near, far := inmemory.Pair(inmemory.Options{})
			if _, err := p.Serve(far); err != nil {
				t.Fatal(err)
			}
			c, err := user.Connect(t.Context(), near, nil)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		names := func(c *user.Client) (list string) {
			for tool, err := range c.Tools(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				list += tool.Name + " "
			}
			return list
		}
		first := connect()
		if got := names(first); got != "a_t b_t " {
			t.Errorf("the first client sees %q", got)
		}
		size := p.known[0].listBytes.Load()
		if size == 0 {
			t.Fatal("the lists are not counted")
		}
		p.known[0].listBytes.Add(maxListBytes - size) // as if the list had that size
		second := connect()
		if got := names(second); got != "b_t " {
			t.Errorf("the second client sees %q", got)
		}
		second.Close()
		p.known[0].listBytes.Add(size - maxListBytes)
		third := connect()
		if got := names(third); got != "a_t b_t " {
			t.Errorf("the third client sees %q", got)
		}
		for _, c := range []*user.Client{first, third} {
			c.Close()
		}
		p.Close()
		for i := range p.known {
			if left := p.known[i].listBytes.Load(); left != 0 {
				t.Errorf("%d bytes of upstream %d are counted at the end", left, i)
			}
		}
	})
}

// A list counts for the limit as its pages arrive, so that many lists that an upstream does not end
// do not take all memory. Lists that failed do not count.
func TestListsCountWhileTheyArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New("a", "1", &server.Options{Features: server.Features{Methods: map[string]session.Handler{
			mcp.MethodToolsList: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if cursor, _ := codec.Member(req.Params, "cursor"); string(cursor) == `"2"` {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
				return session.Raw(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"nextCursor":"2"}`), nil
			},
		}}})
		defer s.Close()
		p, err := New("hub", "1", &Options{Upstreams: []Upstream{{Name: "a", Connect: func(context.Context) (transport.Conn, error) {
			near, far := inmemory.Pair(inmemory.Options{})
			_, err := s.Serve(far)
			return near, err
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		near, far := inmemory.Pair(inmemory.Options{})
		if _, err := p.Serve(far); err != nil {
			t.Fatal(err)
		}
		c, err := user.Connect(t.Context(), near, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p.known[0].listBytes.Load() == 0 {
			t.Error("the first page is not counted")
		}
		c.Close()
		p.Close()
		if left := p.known[0].listBytes.Load(); left != 0 {
			t.Errorf("%d bytes are counted at the end", left)
		}
	})
}
