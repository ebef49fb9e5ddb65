package otel_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A proxy does not know the tools of its upstreams. Their calls are reported by name once one has
// succeeded, and their results as those of the server itself. Names that clients make up are not.
func TestProxyReportsToolsOfUpstreams(t *testing.T) {
	for _, revisions := range [][]mcp.Revision{session.Revisions(), session.ModernRevisions()} {
		t.Run(string(revisions[0]), func(t *testing.T) {
			up := server.New("one", "1", nil)
			defer up.Close()
			fails := false
			err := server.AddTool(up, "work", "", func(context.Context, *server.Call, struct{}) (string, error) {
				if fails {
					return "", errors.New("busy")
				}
				return "done", nil
			}).Err()
			if err != nil {
				t.Fatal(err)
			}
			observed := newProcess(t)
			cfg := &proxy.Options{Server: server.Options{Logger: slog.New(slog.DiscardHandler)}, Upstreams: []proxy.Upstream{
				{Name: "a", Prefix: "a_", Connect: func(context.Context) (transport.Conn, error) {
					here, there := inmemory.Pair(inmemory.Options{})
					_, err := up.Serve(there)
					return here, err
				}},
			}}
			observed.Server(&cfg.Server)
			p, err := proxy.New("hub", "1", cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			here, there := inmemory.Pair(inmemory.Options{})
			if _, err := p.Serve(there); err != nil {
				t.Fatal(err)
			}
			o := new(client.Options)
			o.Session.Revisions = revisions
			c, err := client.Connect(t.Context(), here, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"a_none", "b_none", "a_work", "a_work", "a_none"} {
				c.CallTool(t.Context(), name, nil)
			}
			fails = true
			c.CallTool(t.Context(), "a_work", nil)
			c.Close()
			p.Close() // the spans have ended

			var calls, faults []string
			for _, s := range observed.exporter.GetSpans() {
				if value(s.Attributes, "mcp.method.name") == mcp.MethodToolsCall {
					calls = append(calls, s.Name)
					faults = append(faults, value(s.Attributes, "error.type"))
				}
			}
			want := []string{"tools/call _OTHER", "tools/call _OTHER", "tools/call a_work", "tools/call a_work", "tools/call _OTHER", "tools/call a_work"}
			if !slices.Equal(calls, want) {
				t.Errorf("spans: got %q, want %q", calls, want)
			}
			if want := []string{"", "", "", "", "", "tool_error"}; !slices.Equal(faults, want) {
				t.Errorf("errors: got %q, want %q", faults, want)
			}
			named := int64(0)
			for attrs, n := range observed.metrics()["mcp.server.operation.duration"] {
				if tool, ok := attrs.Value("gen_ai.tool.name"); ok && tool.AsString() == "a_work" {
					named += n
				}
			}
			if named != 3 {
				t.Errorf("the metric has %d calls of the tool, want 3", named)
			}
		})
	}
}
