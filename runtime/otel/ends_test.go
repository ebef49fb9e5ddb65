package otel_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// A client that cancels a call, or closes its subscription, causes no internal error.
func TestOrdinaryEndsAreCancelled(t *testing.T) {
	for era, revisions := range map[string][]mcp.Revision{"sessions": session.Revisions(), "without sessions": session.ModernRevisions()} {
		t.Run(era, func(t *testing.T) {
			p := newProcess(t)
			cfg := new(server.Options)
			p.Server(cfg)
			s := server.New("x", "1", cfg)
			defer s.Close()
			server.AddResource(s, "x:///a", "a", func(ctx context.Context, c *server.Call, r server.Resource) (string, error) { return "a", nil })
			running := make(chan struct{})
			server.AddTool(s, "slow", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
				close(running)
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			web := httptest.NewServer(must.Get(s.Handler(nil)))
			defer web.Close()
			c, err := client.Dial(t.Context(), web.URL, &client.Options{Session: session.Options{Revisions: revisions}})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Subscribe(t.Context(), "x:///a"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			go func() { // ends with the handler
				<-running
				cancel()
			}()
			if _, err := c.CallTool(ctx, "slow", nil); err == nil {
				t.Error("the cancelled call has succeeded")
			}
			c.Close()
			ended := map[string]string{"tools/call": "cancelled"}
			if c.Session().Traits().Sessionless {
				ended["subscriptions/listen"] = "cancelled"
			}
			for len(ended) > 0 { // until the server has noticed
				for set := range p.metrics()["mcp.server.operation.duration"] {
					method, _ := set.Value("mcp.method.name")
					kind, _ := set.Value("error.type")
					if want, ok := ended[method.AsString()]; ok {
						delete(ended, method.AsString())
						if kind.AsString() != want {
							t.Errorf("%s: error.type is %q, want %q", method.AsString(), kind.AsString(), want)
						}
					} else if kind.Type() != attribute.INVALID && kind.AsString() != "cancelled" {
						t.Errorf("%s: error.type is %q", method.AsString(), kind.AsString())
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}
