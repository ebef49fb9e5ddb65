package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// The servers here have the same tools: echo returns its text, progress reports 1, 2 and 3 of 3,
// hang waits until it is cancelled, and ask returns the response of the client's model.

// officialServer returns a server of the official Go SDK. It sends the names of cancelled tools to
// cancelled.
func officialServer(cancelled chan<- bool) *official.Server {
	s := official.NewServer(&official.Implementation{Name: "official", Version: "1"}, nil)
	text := func(text string) *official.CallToolResult {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: text}}}
	}
	for name, call := range map[string]func(context.Context, *official.CallToolRequest) (*official.CallToolResult, error){
		"echo": func(_ context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
			return text(string(r.Params.Arguments)), nil
		},
		"progress": func(ctx context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
			for i := range 3 {
				err := r.Session.NotifyProgress(ctx, &official.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
				if err != nil {
					return nil, err
				}
			}
			return text("done"), nil
		},
		"hang": func(ctx context.Context, _ *official.CallToolRequest) (*official.CallToolResult, error) {
			<-ctx.Done()
			cancelled <- true
			return nil, ctx.Err()
		},
		"ask": func(ctx context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
			result, err := r.Session.CreateMessage(ctx, &official.CreateMessageParams{MaxTokens: 10, Messages: []*official.SamplingMessage{}})
			if err != nil {
				return nil, err
			}
			return text(result.Content.(*official.TextContent).Text), nil
		},
	} {
		s.AddTool(&official.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, call)
	}
	return s
}

// mcpgoServer returns a server of mcp-go.
func mcpgoServer(cancelled chan<- bool) *mcpgoserver.MCPServer {
	s := mcpgoserver.NewMCPServer("mcp-go", "1")
	s.EnableSampling()
	for name, call := range map[string]mcpgoserver.ToolHandlerFunc{
		"echo": func(_ context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			return mcpgo.NewToolResultText(fmt.Sprintf(`{"n":%v}`, r.GetArguments()["n"])), nil
		},
		"progress": func(ctx context.Context, r mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			for i := range 3 {
				err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
					"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "total": 3,
				})
				if err != nil {
					return nil, err
				}
			}
			return mcpgo.NewToolResultText("done"), nil
		},
		"hang": func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			<-ctx.Done()
			cancelled <- true
			return nil, ctx.Err()
		},
		"ask": func(ctx context.Context, _ mcpgo.CallToolRequest) (*mcpgo.CallToolResult, error) {
			var r mcpgo.CreateMessageRequest
			r.MaxTokens, r.Messages = 10, []mcpgo.SamplingMessage{}
			result, err := s.RequestSampling(ctx, r)
			if err != nil {
				return nil, err
			}
			content, ok := result.Content.(mcpgo.TextContent)
			if !ok {
				return mcpgo.NewToolResultText(fmt.Sprintf("%T", result.Content)), nil
			}
			return mcpgo.NewToolResultText(content.Text), nil
		},
	} {
		s.AddTool(mcpgo.NewTool(name), call)
	}
	return s
}

func TestClientWithGoServersOverHTTP(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(cancelled chan<- bool) http.Handler
		lacks   string // tools that do not work over this transport; for progress, it may arrive after the response
	}{
		{"official, streams", func(c chan<- bool) http.Handler {
			s := officialServer(c)
			return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s },
				&official.StreamableHTTPOptions{EventStore: official.NewMemoryEventStore(nil)})
		}, ""},
		{"official, JSON", func(c chan<- bool) http.Handler {
			s := officialServer(c)
			return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{JSONResponse: true})
		}, "progress"},
		{"official, without sessions", func(c chan<- bool) http.Handler {
			s := officialServer(c)
			return official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{Stateless: true})
		}, "ask hang"},
		{"official, HTTP with SSE", func(c chan<- bool) http.Handler {
			s := officialServer(c)
			return official.NewSSEHandler(func(*http.Request) *official.Server { return s }, nil)
		}, ""},
		{"mcp-go", func(c chan<- bool) http.Handler {
			return mcpgoserver.NewStreamableHTTPServer(mcpgoServer(c), mcpgoserver.WithStateful(true))
		}, "progress"},
		{"mcp-go, HTTP with SSE", func(c chan<- bool) http.Handler {
			return mcpgoserver.NewSSEServer(mcpgoServer(c), mcpgoserver.WithSSEEndpoint("/mcp"), mcpgoserver.WithMessageEndpoint("/message"))
		}, "ask progress"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cancelled := make(chan bool, 1)
			server := httptest.NewServer(test.handler(cancelled))
			t.Cleanup(server.Close)
			revisions := session.Revisions()
			if strings.Contains(test.name, "SSE") { // the other servers are tested with the revisions that they speak
				revisions = both
			}
			overHTTP(t, server.URL+"/mcp", revisions, strings.Fields(test.lacks), cancelled)
		})
	}
}

// overHTTP tests our client with a server that has all tools except some.
func overHTTP(t *testing.T, serverURL string, revisions []mcp.Revision, lacks []string, cancelled <-chan bool) {
	ctx := t.Context()
	c, err := streamable.Dial(serverURL, streamable.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Connect(ctx, c, &mcp.InitializeRequestParams{
		Capabilities: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}},
		ClientInfo:   mcp.Implementation{Name: "mcpwire", Version: "1"},
	}, &session.Options{Limits: session.Limits{ProgressInterval: -1}, Revisions: revisions, Handler: sessiontest.ClientHandler(&host{}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	call := func(tool string, opts ...session.Option) string {
		t.Helper()
		outcome, err := mcp.ToServer{Caller: s.With(opts...)}.CallTool(ctx, &mcp.CallToolRequestParams{Name: tool, Arguments: []byte(`{"n":1.5}`)})
		if err != nil {
			return err.Error()
		}
		return outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
	}
	check := func(name, want, got string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if err := s.Ping(ctx); err != nil {
		t.Error(err)
	}
	check("echo", `{"n":1.5}`, call("echo"))
	var progress []string
	check("progress", "done", call("progress", session.OnProgress(func(p session.Progress) { progress = append(progress, fmt.Sprint(p.Value)) })))
	if !slices.Contains(lacks, "progress") {
		check("progress", "[1 2 3]", fmt.Sprint(progress))
	}
	if !slices.Contains(lacks, "ask") {
		check("ask", "forty-two", call("ask"))
	}
	if slices.Contains(lacks, "hang") {
		return
	}
	check("hang", session.ErrTimeout.Error(), call("hang", session.Timeout(200*time.Millisecond)))
	<-cancelled
}
