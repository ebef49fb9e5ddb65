package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// traced returns middleware for any kind of feature that adds its name to a list.
// handler is the handler of a kind of features.
type handler[Req, Res any] = func(ctx context.Context, c *server.Call, r Req) (Res, error)

func traced[Req, Res any](steps *[]string, name string) func(next handler[Req, Res]) handler[Req, Res] {
	return func(next handler[Req, Res]) handler[Req, Res] {
		return func(ctx context.Context, c *server.Call, req Req) (Res, error) {
			*steps = append(*steps, name)
			return next(ctx, c, req)
		}
	}
}

// The middleware of the sessions comes first, then that of the server, then that of the feature.
func TestMiddlewareRunsInOrder(t *testing.T) {
	var steps []string
	cfg := server.Options{
		Middleware: server.Middleware{
			Tools:     []func(server.ToolHandler) server.ToolHandler{traced[*server.ToolRequest, *mcp.CallToolResult](&steps, "all 1"), traced[*server.ToolRequest, *mcp.CallToolResult](&steps, "all 2")},
			Prompts:   []func(server.PromptHandler) server.PromptHandler{traced[*server.PromptRequest, *mcp.GetPromptResult](&steps, "all")},
			Resources: []func(server.ResourceHandler) server.ResourceHandler{traced[*server.ResourceRequest, *mcp.ReadResourceResult](&steps, "all")},
		},
		Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if !req.IsNotification() { // initialized may arrive during the first call
					steps = append(steps, req.Method)
				}
				return next(ctx, req)
			}
		}}}},
	}
	s := newServer(t, cfg)
	server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) (string, error) {
		steps = append(steps, "function")
		return "", nil
	}, server.WrapTool(traced[*server.ToolRequest, *mcp.CallToolResult](&steps, "own 1"), traced[*server.ToolRequest, *mcp.CallToolResult](&steps, "own 2")))
	server.AddTool(s, "plain", "", sayHi)
	server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) (string, error) { return "", nil },
		server.WrapPrompt(traced[*server.PromptRequest, *mcp.GetPromptResult](&steps, "own")))
	read := server.WrapResource(traced[*server.ResourceRequest, *mcp.ReadResourceResult](&steps, "own"))
	server.AddResource(s, "static:x", "x", readText, read)
	server.AddTemplate(s, "open://{x}", "x", readText, read)
	c := connect(t, s, clientConfig{})
	for _, test := range []struct {
		method, params string
		want           []string
	}{
		{"tools/call", `{"name":"x"}`, []string{"all 1", "all 2", "own 1", "own 2", "function"}},
		{"tools/call", `{"name":"plain"}`, []string{"all 1", "all 2"}},
		{"tools/call", `{"name":"unknown"}`, nil},
		{"prompts/get", `{"name":"x"}`, []string{"all", "own"}},
		{"resources/read", `{"uri":"static:x"}`, []string{"all", "own"}},
		{"resources/read", `{"uri":"open://x"}`, []string{"all", "own"}},
	} {
		steps = nil
		c.call(test.method, test.params)
		if diff := cmp.Diff(append([]string{test.method}, test.want...), steps); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", test.method, test.params, diff)
		}
	}
}

// toolMiddleware returns a server whose tool "add" has middleware.
func toolMiddleware(t *testing.T, serve func(ctx context.Context, c *server.Call, r *server.ToolRequest, next server.ToolHandler) (*mcp.CallToolResult, error)) *testClient {
	s := newServer(t, server.Options{Middleware: server.Middleware{Tools: []func(server.ToolHandler) server.ToolHandler{func(next server.ToolHandler) server.ToolHandler {
		return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
			return serve(ctx, c, r, next)
		}
	}}}})
	server.AddTool(s, "add", "", add)
	return connect(t, s, clientConfig{})
}

func TestToolMiddlewareReplacesArgumentsAndResult(t *testing.T) {
	c := toolMiddleware(t, func(ctx context.Context, c *server.Call, r *server.ToolRequest, next server.ToolHandler) (*mcp.CallToolResult, error) {
		if r.Tool.Name != "add" || string(r.Arguments) != `{"a":1,"b":2}` {
			t.Errorf("request: tool %q, arguments %s", r.Tool.Name, r.Arguments)
		}
		result, err := next(ctx, c, &server.ToolRequest{Tool: r.Tool, Arguments: json.RawMessage(`{"a":1,"b":"x"}`)})
		if err != nil || result.IsError == nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, "/b") {
			t.Errorf("invalid arguments: got %v, %v", result, err)
		}
		r.Arguments = json.RawMessage(`{"a":40,"b":2}`)
		return next(ctx, c, r)
	})
	result, _ := c.call("tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`)
	equalJSON(t, "result", `{"sum":42,"notes":[]}`, text(t, result))
}

func TestMiddlewareErrorsAndInvalidResults(t *testing.T) {
	type outcome func(next func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error)
	for name, test := range map[string]struct {
		outcome outcome
		code    int64  // of the error, or 0
		want    string // part of the message, or of the text of a result with isError
	}{
		"error": {func(func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
			return nil, errors.New("no way")
		}, 0, "no way"},
		"protocol error": {func(func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: -32000, Message: "denied"}
		}, -32000, "denied"},
		"no result": {func(func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) { return nil, nil }, jsonrpc.CodeInternalError, "returned no result"},
		"output that violates the schema": {func(next func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) {
			result, err := next()
			result.StructuredContent = json.RawMessage(`{"sum":"x"}`)
			return result, err
		}, jsonrpc.CodeInternalError, "output schema"},
		"panic": {func(func() (*mcp.CallToolResult, error)) (*mcp.CallToolResult, error) { panic("broken") }, jsonrpc.CodeInternalError, "panicked"},
	} {
		c := toolMiddleware(t, func(ctx context.Context, c *server.Call, r *server.ToolRequest, next server.ToolHandler) (*mcp.CallToolResult, error) {
			return test.outcome(func() (*mcp.CallToolResult, error) { return next(ctx, c, r) })
		})
		got, code := c.call("tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`)
		if code != test.code || !strings.Contains(got, test.want) || code == 0 && !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: got %d %s", name, code, got)
		}
	}
}

// Middleware sees the error of a tool whose output is invalid.
func TestMiddlewareSeesInvalidOutput(t *testing.T) {
	var seen error
	s := newServer(t, server.Options{})
	s.AddRawTool(mcp.Tool{Name: "x"}, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) { return nil, nil },
		server.WrapTool(func(next server.ToolHandler) server.ToolHandler {
			return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (result *mcp.CallToolResult, err error) {
				result, seen = next(ctx, c, r)
				return result, seen
			}
		}))
	connect(t, s, clientConfig{}).expectError("tools/call", `{"name":"x"}`, jsonrpc.CodeInternalError)
	if seen == nil || !strings.Contains(seen.Error(), "returned no result") {
		t.Errorf("middleware sees %v", seen)
	}
}

func TestMiddlewareOfPromptsAndResources(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddPrompt(s, "x", "", func(_ context.Context, _ *server.Call, in map[string]string) (string, error) { return in["a"], nil },
		server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = []mcp.PromptArgument{{Name: "a", Required: new(true)}} }),
		server.WrapPrompt(func(next server.PromptHandler) server.PromptHandler {
			return func(ctx context.Context, c *server.Call, r *server.PromptRequest) (*mcp.GetPromptResult, error) {
				if r.Prompt.Name != "x" {
					t.Errorf("prompt %q", r.Prompt.Name)
				}
				if _, err := next(ctx, c, r); err == nil {
					t.Error("middleware does not see that an argument is missing")
				}
				r.Arguments["a"] = "added"
				return next(ctx, c, r)
			}
		}))
	var seen []server.ResourceRequest
	invalid := server.WrapResource(func(next server.ResourceHandler) server.ResourceHandler {
		return func(ctx context.Context, c *server.Call, r *server.ResourceRequest) (*mcp.ReadResourceResult, error) {
			seen = append(seen, *r)
			result, err := next(ctx, c, r)
			if err == nil && r.Template != nil {
				result.Contents = append(result.Contents, &mcp.BlobResourceContents{URI: r.URI, Blob: "%"})
			}
			return result, err
		}
	})
	server.AddResource(s, "static:x", "x", readText, invalid)
	server.AddTemplate(s, "open://{v}", "y", readText, invalid)
	c := connect(t, s, clientConfig{})
	if got, _ := c.call("prompts/get", `{"name":"x"}`); !strings.Contains(got, "added") {
		t.Errorf("prompt: %s", got)
	}
	if got, code := c.call("resources/read", `{"uri":"static:x"}`); code != 0 {
		t.Errorf("resource: %s", got)
	}
	c.expectError("resources/read", `{"uri":"open://1"}`, jsonrpc.CodeInternalError)
	if len(seen) != 2 || seen[0].Resource == nil || seen[0].Resource.Name != "x" || seen[1].Template.Name != "y" || seen[1].Vars.Get("v") != "1" {
		t.Errorf("requests: %+v", seen)
	}
}

// Middleware runs in the work of a task.
func TestMiddlewareRunsInTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inTask := false
		s := newServer(t, server.Options{Tasks: task.Options{Store: memory.New()}, Middleware: server.Middleware{Tools: []func(server.ToolHandler) server.ToolHandler{func(next server.ToolHandler) server.ToolHandler {
			return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
				_, inTask = c.Task()
				return next(ctx, c, r)
			}
		}}}})
		server.AddTool(s, "x", "", sayHi, server.Durable())
		c := connect(t, s, clientConfig{})
		created, _ := c.call("tools/call", `{"name":"x","task":{}}`)
		result, _ := c.call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
		if text(t, result) != "hi" || !inTask {
			t.Errorf("result %s, middleware ran in a task: %v", result, inTask)
		}
	})
}

func TestAddToolRejectsInvalidMiddleware(t *testing.T) {
	for name, m := range map[string]func(server.ToolHandler) server.ToolHandler{
		"nil":                     nil,
		"returned a nil function": func(server.ToolHandler) server.ToolHandler { return nil },
	} {
		err := server.AddTool(newServer(t, server.Options{}), "x", "", sayHi, server.WrapTool(m)).Err()
		if err == nil || !strings.Contains(err.Error(), `server: tool "x": `) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
