package otel_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// spanRows and metricRows list all names of spans and metrics, and the attributes that each may
// have. docs/howto/observability.md has the same names.
var (
	// The keys are patterns of names.
	spanRows = map[string]string{
		`client: tools/call \w+`:           "error.type gen_ai.operation.name gen_ai.tool.name jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.transport rpc.response.status_code server.address server.port",
		`client: prompts/get \w+`:          "gen_ai.prompt.name jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.transport server.address server.port",
		`client: resources/read`:           "error.type jsonrpc.request.id mcp.method.name mcp.protocol.version mcp.resource.uri network.protocol.name network.transport rpc.response.status_code server.address server.port",
		`client: [a-zA-Z_/]+`:              "error.type jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.transport rpc.response.status_code server.address server.port",
		`server: tools/call \w+`:           "client.address client.port error.type gen_ai.operation.name gen_ai.tool.name jsonrpc.request.id mcp.method.name mcp.protocol.version mcpwire.result.type network.protocol.name network.transport rpc.response.status_code",
		`server: prompts/get \w+`:          "client.address client.port gen_ai.prompt.name jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.transport",
		`server: resources/read`:           "client.address client.port jsonrpc.request.id mcp.method.name mcp.protocol.version mcp.resource.uri network.protocol.name network.transport rpc.response.status_code",
		`server: [a-z_/]+`:                 "client.address client.port error.type jsonrpc.request.id mcp.method.name mcp.protocol.version network.protocol.name network.transport rpc.response.status_code",
		`internal: mcpwire.task.run \w+`:   "gen_ai.tool.name mcp.method.name mcpwire.task.hash mcpwire.task.outcome mcpwire.task.reruns",
		`internal: mcpwire.task.input \S+`: "mcp.method.name mcpwire.task.hash",
		`internal: mcpwire.step`:           "error.type mcpwire.step.name mcpwire.task.hash",
	}
	metricRows = map[string]string{
		"mcp.client.operation.duration":         "error.type gen_ai.operation.name gen_ai.prompt.name gen_ai.tool.name mcp.method.name mcp.protocol.version network.protocol.name network.transport rpc.response.status_code server.address server.port",
		"mcp.server.operation.duration":         "error.type gen_ai.operation.name gen_ai.prompt.name gen_ai.tool.name mcp.method.name mcp.protocol.version network.protocol.name network.transport rpc.response.status_code",
		"mcp.client.session.duration":           "mcp.protocol.version network.protocol.name network.transport server.address server.port",
		"mcp.server.session.duration":           "mcp.protocol.version network.protocol.name network.transport",
		"mcpwire.client.active_requests":        "mcp.method.name",
		"mcpwire.server.active_requests":        "mcp.method.name",
		"mcpwire.client.active_sessions":        "",
		"mcpwire.server.active_sessions":        "",
		"mcpwire.server.active_streams":         "mcpwire.stream.type",
		"mcpwire.server.rejected_requests":      "error.type mcp.method.name",
		"mcpwire.server.rejected_http_requests": "http.request.method http.response.status_code",
		"mcpwire.fleet.members":                 "",
		"mcpwire.fleet.taken_over":              "",
		"mcpwire.fleet.lapsed_leases":           "",
		"mcpwire.tasks.active":                  "mcpwire.task.state",
		"mcpwire.tasks.waiting_calls":           "",
		"mcpwire.tasks.created":                 "",
		"mcpwire.tasks.ended":                   "mcpwire.task.status",
		"mcpwire.tasks.rejected_calls":          "error.type mcp.method.name",
		"mcpwire.task.run.duration":             "gen_ai.tool.name mcp.method.name mcpwire.task.outcome",
		"mcpwire.task.store.duration":           "error.type mcpwire.store.operation",
	}
)

// addFeatures adds features that make use of everything that has a span.
func addFeatures(s *server.Server) {
	server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		if _, err := server.Step(ctx, c, "charge", func(context.Context) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		server.Step(ctx, c, "break", func(context.Context) (int, error) { return 0, errors.New("broken") })
		var form struct{ Agree bool }
		action, err := server.Elicit(ctx, c, "Agree?", &form)
		return string(action), err
	}, server.Durable())
	server.AddTool(s, "fail", "", func(context.Context, *server.Call, struct{}) (string, error) { return "", errors.New("failed") })
	server.AddPrompt(s, "ask", "", func(context.Context, *server.Call, map[string]string) (string, error) { return "ask", nil })
	server.AddResource(s, "x:y", "y", func(context.Context, *server.Call, server.Resource) (string, error) { return "y", nil })
}

func fill(context.Context, *client.FormRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitActionDecline}, nil
}

// All names of spans, metrics and attributes that the module uses are in the lists, each of the lists
// is used, and the docs have all of them.
func TestNames(t *testing.T) {
	usedSpans, usedMetrics := map[string][]string{}, map[string][]string{}
	for _, era := range slices.Sorted(maps.Keys(eras)) {
		p := newProcess(t)
		fail := func(context.Context, *session.Request) (codec.Encoder, error) { return nil, errors.New("failed") }
		s := p.newServer(server.Options{Tasks: task.Options{Store: memory.NewFleet().Store()}, Features: server.Features{Methods: map[string]session.Handler{"x/fail": fail}}}, addFeatures)
		c := p.connect(transports["HTTP"](t, s), client.Options{
			Input: client.Input{Fill: fill}, Session: session.Options{Revisions: eras[era]},
		})
		ctx := t.Context()
		for _, err := range c.Tools(ctx) {
			if err != nil {
				t.Fatal(err)
			}
		}
		h, err := c.StartTool(ctx, "order", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(ctx); err != nil {
			t.Fatal(err)
		}
		c.CallTool(ctx, "order", nil)
		c.CallTool(ctx, "fail", nil)
		c.With().CallTool(ctx, &mcp.CallToolRequestParams{Name: "unknown"})
		c.GetPrompt(ctx, "ask", nil)
		c.ReadResource(ctx, "x:y")
		c.ReadResource(ctx, "x:z")
		c.AttachTool("missing").Result(ctx)
		c.Session().Call(ctx, "x/fail", nil)
		c.Session().Call(ctx, strings.Repeat("x", 2000), nil) // too long
		open := p.metrics()                                   // of the open server
		end(c)
		s.Close()
		for _, span := range p.exporter.GetSpans() {
			name := span.SpanKind.String() + ": " + span.Name
			usedSpans[name] = append(usedSpans[name], keys(span.Attributes)...)
		}
		for _, metrics := range []map[string]map[attribute.Set]int64{open, p.metrics()} {
			for name, points := range metrics {
				usedMetrics[name] = append(usedMetrics[name], "")
				for set := range points {
					usedMetrics[name] = append(usedMetrics[name], keys(set.ToSlice())...)
				}
			}
		}
	}
	gotSpans, gotMetrics := map[string][]string{}, map[string]string{}
	for name, attrs := range usedSpans {
		row := ""
		for _, pattern := range slices.Sorted(maps.Keys(spanRows)) {
			if regexp.MustCompile("^"+pattern+"$").MatchString(name) && len(pattern) > len(row) {
				row = pattern
			}
		}
		if row == "" {
			t.Errorf("no row for the span %q", name)
		}
		gotSpans[row] = append(gotSpans[row], attrs...)
	}
	spans := map[string]string{}
	for row, attrs := range gotSpans {
		spans[row] = sorted(attrs)
	}
	for name, attrs := range usedMetrics {
		gotMetrics[name] = sorted(attrs)
	}
	if diff := cmp.Diff(spanRows, spans); diff != "" {
		t.Errorf("attributes of spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(metricRows, gotMetrics); diff != "" {
		t.Errorf("attributes of metrics (-want +got):\n%s", diff)
	}
	page, err := os.ReadFile("../../docs/howto/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(name string) {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/howto/observability.md does not have %s", name)
		}
	}
	for _, rows := range []map[string]string{spanRows, metricRows} {
		for name, attrs := range rows {
			if strings.HasPrefix(name, "mcp") {
				documented(name)
			}
			for _, attr := range strings.Fields(attrs) {
				documented(attr)
			}
		}
	}
	for _, span := range []string{"mcpwire.task.run", "mcpwire.task.input", "mcpwire.step"} {
		documented(span)
	}
}

func sorted(names []string) string {
	slices.Sort(names)
	return strings.TrimSpace(strings.Join(slices.Compact(names), " "))
}
