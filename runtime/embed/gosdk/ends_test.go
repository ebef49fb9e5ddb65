package gosdk_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// broken is a value whose encoding panics.
type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { panic("broken") }

// A task ends with the outcome of its handler, whatever has become of its session, and its place is
// free again.
func TestTaskEndsWithoutResponseOfSDK(t *testing.T) {
	result := func(change func(r *mcp.CallToolResult)) mcp.ToolHandler {
		return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := textResult("done")
			change(r)
			return r, nil
		}
	}
	closing := func(next mcp.ToolHandler) mcp.ToolHandler {
		return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			closed := make(chan struct{})
			go func() { defer close(closed); req.Session.Close() }() // ends after the handler
			for err := error(nil); err == nil; {
				err = req.Session.Ping(ctx, nil) // fails once the session is closing
			}
			return next(ctx, req)
		}
	}
	tools := map[string]struct {
		handler mcp.ToolHandler
		want    string // text of the result, or a part of the error
	}{
		"closed":              {closing(result(func(*mcp.CallToolResult) {})), "done"},
		"NaN":                 {result(func(r *mcp.CallToolResult) { r.StructuredContent = math.NaN() }), "the result cannot be encoded: json: "},
		"NaN in _meta":        {result(func(r *mcp.CallToolResult) { r.Meta = mcp.Meta{"x": math.NaN()} }), "the result cannot be encoded: json: "},
		"NaN, closed":         {closing(result(func(r *mcp.CallToolResult) { r.StructuredContent = math.NaN() })), "the result cannot be encoded: json: "},
		"panic of a value":    {result(func(r *mcp.CallToolResult) { r.StructuredContent = broken{} }), "the handler panicked"},
		"panic of a block":    {result(func(r *mcp.CallToolResult) { r.Content[0].(*mcp.TextContent).Meta = mcp.Meta{"x": broken{}} }), "the handler panicked"},
		"structured content":  {result(func(r *mcp.CallToolResult) { r.StructuredContent = map[string]any{"a": 1} }), "done"},
		"faulty notification": {faultyNotification, "done"},
	}
	eachRevision(t, func(t *testing.T, version string) {
		s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		tasks, err := gosdk.Attach(s, embed.Options{
			Tasks: task.Options{Store: memory.New(), Limits: task.Limits{Running: 1}}, Default: &embed.Tool{Support: receiver.Support{After: -1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer tasks.Close()
		for name, tool := range tools {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, tool.handler)
		}
		c := dial(t, tasks.Handler(nil), version)
		for name, tool := range tools {
			text, err := callTask(t, c, name)
			if err != nil {
				text = err.Error()
			}
			if text != tool.want && (err == nil || !strings.Contains(text, tool.want)) {
				t.Errorf("%s: got %q", name, text)
			}
		}
	})
}

// faultyNotification sends a notification that the task refuses.
func faultyNotification(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: []int{1}, Progress: 1})
	return textResult("done"), nil
}

// Middleware that is added after the first request is outside of the tasks.
func TestLateMiddlewareChangesResultsOfTasks(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "ok", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult("secret"), nil
		})
		c := dial(t, tasks.Handler(nil), version)
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, req)
				if r, ok := result.(*mcp.CallToolResult); ok {
					r.Content[0].(*mcp.TextContent).Text = "hidden"
				}
				return result, err
			}
		})
		if got, err := callTask(t, c, "ok"); err != nil || got != "hidden" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// A panic of Principal fails the request, and nothing else.
func TestPrincipalPanics(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	panics := true
	tasks, err := gosdk.Attach(s, embed.Options{
		Tasks: task.Options{Store: memory.New()}, Default: &embed.Tool{Support: receiver.Support{After: -1}},
		Principal: func(context.Context, http.Header) string {
			if panics {
				panic("no header")
			}
			return "ada"
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	s.AddTool(&mcp.Tool{Name: "ok", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult(embed.Principal(ctx)), nil
	})
	here, there := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), tasks.Transport(there), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	inMemory, err := gosdk.Connect(t.Context(), newClient(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inMemory.Close()
	for name, c := range map[string]*gosdk.Client{
		"memory": inMemory, "2025-11-25": dial(t, tasks.Handler(nil), "2025-11-25"), "2026-07-28": dial(t, tasks.Handler(nil), "2026-07-28"),
	} {
		panics = true
		if _, err := callTask(t, c, "ok"); err == nil || !strings.Contains(err.Error(), "the principal of the request is unknown") {
			t.Errorf("%s: task: got %v", name, err)
		}
		if _, err := c.Session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ok"}); err == nil || !strings.Contains(err.Error(), "the principal of the request is unknown") {
			t.Errorf("%s: plain call: got %v", name, err)
		}
		panics = false
		if got, err := callTask(t, c, "ok"); err != nil || got != "ada" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// The end of a session ends its requests for results. The SDK responds to DELETE after that.
func TestEndOfSessionDoesNotWaitForTasks(t *testing.T) {
	for name, options := range map[string]*mcp.StreamableHTTPOptions{
		"plain": nil, "with events": {EventStore: mcp.NewMemoryEventStore(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			s, tasks := attach(t)
			s.AddTool(&mcp.Tool{Name: "endless", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			web := httptest.NewServer(tasks.Handler(options))
			defer web.Close()
			c, err := gosdk.Connect(t.Context(), newClient(), &mcp.StreamableClientTransport{Endpoint: web.URL}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			h, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "endless"})
			if err != nil {
				t.Fatal(err)
			}
			waited := make(chan error)
			go func() { // ends with the session
				_, err := h.Result(t.Context())
				waited <- err
			}()
			for tasks.Manager().Stats().Waiting == 0 {
				runtime.Gosched()
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, web.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Mcp-Session-Id", c.Session.ID())
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusNoContent {
				t.Errorf("got status %s", response.Status)
			}
			if err := <-waited; err == nil {
				t.Error("the task has a result")
			}
		})
	}
}
