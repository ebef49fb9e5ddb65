package gosdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// TestMiddlewareFiltersTools lists tools through middleware that was added after Attach. The
// response is that of the SDK alone, apart from the task support.
func TestMiddlewareFiltersTools(t *testing.T) {
	list := func(attach bool) string {
		s := mcp.NewServer(&mcp.Implementation{Name: "studio", Version: "1"}, nil)
		options := &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}
		var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, options)
		if attach {
			tasks, err := gosdk.Attach(s, embed.Options{Tasks: task.Options{Store: memory.New()}, Tools: map[string]embed.Tool{"public": {}}})
			if err != nil {
				t.Fatal(err)
			}
			defer tasks.Close()
			handler = tasks.Handler(options)
		}
		for _, name := range []string{"public", "secret"} {
			s.AddTool(&mcp.Tool{Name: name, Description: "a < b && c > d", InputSchema: map[string]any{"type": "object"}}, nil)
		}
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, req)
				if tools, ok := result.(*mcp.ListToolsResult); ok {
					tools.Tools = slices.DeleteFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == "secret" })
				}
				return result, err
			}
		})
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	got, removed := list(true), `,"execution":{"taskSupport":"optional"}`
	if !strings.Contains(got, removed) {
		t.Errorf("the tool has no task support: %s", got)
	}
	if got, want := strings.Replace(got, removed, "", 1), list(false); got != want || strings.Contains(got, "secret") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAttachRejectsNilServer(t *testing.T) {
	if _, err := gosdk.Attach(nil, embed.Options{}); err == nil || err.Error() != "gosdk: the server is nil" {
		t.Errorf("got %v", err)
	}
}
