package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// Nil arguments and the zero Handle cause errors, not panics.
func TestNilArgumentsAreErrors(t *testing.T) {
	s := newServer(t, server.Options{})
	get := func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil }
	h := server.AddTool(s, "x", "", sayHi)
	for name, do := range map[string]func() error{
		"server": func() error {
			err := server.AddTool(nil, "y", "", sayHi).Err()
			return err
		},
		"tool option": func() error {
			err := server.AddTool(s, "y", "", sayHi, nil).Err()
			return err
		},
		"prompt option": func() error {
			err := server.AddPrompt(s, "y", "", get, nil).Err()
			return err
		},
		"template option": func() error {
			err := server.AddTemplate(s, "y://{z}", "y", readText, nil).Err()
			return err
		},
		"connection": func() error {
			_, err := s.Serve(nil)
			return err
		},
		"function to change": func() error { return h.Change(nil) },
	} {
		if err := do(); err == nil || !strings.HasPrefix(err.Error(), "server: ") || !strings.Contains(err.Error(), ": nil ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, h := range []*server.Handle[mcp.Tool]{nil, {}} { // nil is the handle of a feature that was not added
		for _, err := range []error{h.Change(func(*mcp.Tool) {}), h.Disable(), h.Enable(), h.Remove()} {
			if !errors.Is(err, server.ErrRemoved) {
				t.Errorf("a nil or zero Handle: got %v", err)
			}
		}
	}
	callTool(t, clientConfig{}, func(ctx context.Context, c *server.Call) (string, error) {
		if _, err := c.Sample(ctx, nil); err == nil {
			t.Error("sampling without params: no error")
		}
		if _, err := c.ElicitForm(ctx, nil); err == nil {
			t.Error("a form without params: no error")
		}
		return "", nil
	})
}

// If Options.Features.Capabilities panics, Serve fails, and the server can open further sessions.
func TestCapabilitiesPanicFailsServe(t *testing.T) {
	panics := true
	s := newServer(t, server.Options{Features: server.Features{Capabilities: func(*mcp.ServerCapabilities) {
		if panics {
			panic("no")
		}
	}}})
	_, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err == nil || !strings.Contains(err.Error(), "Options.Features.Capabilities") {
		t.Errorf("got %v", err)
	}
	panics = false
	if err := connect(t, s, clientConfig{}).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A fault of an author's function fails only the request that it serves.
func TestPanicFailsOnlyItsRequest(t *testing.T) {
	var nilError *jsonrpc.Error
	fault := func(name string) error {
		switch name {
		case "nil error":
			return nilError
		case "error that panics":
			return (*levelFault)(nil)
		case "panic":
			panic("no")
		case "nil dereference":
			var c *server.Call
			return c.Progress(1, 1, "")
		}
		return nil
	}
	for _, name := range []string{"nil error", "error that panics", "panic", "nil dereference", "output"} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := withTasks(t, memory.New(), func(s *server.Server) {
				server.AddTool(s, "x", "", func(context.Context, *server.Call, struct{}) (map[string]any, error) {
					return map[string]any{"a": badMarshaler{}}, fault(name)
				}, server.Tasks(receiver.Support{Mode: mcp.TaskSupportOptional}))
				server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
					return nil, fault(name)
				}, server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = []mcp.PromptArgument{{Name: "a"}} }), server.Complete("a", func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
					return nil, fault(name)
				}))
				server.AddTemplate(s, "x:{a}", "x", func(context.Context, *server.Call, server.Resource) ([]mcp.AnyResourceContents, error) {
					return nil, fault(name)
				}, server.ListFunc(func(context.Context, *server.Call, string) ([]mcp.Resource, string, error) {
					return nil, "", fault(name)
				}))
			})
			c := connect(t, s, clientConfig{})
			c.expectFailure("tools/call", `{"name":"x"}`)
			created, _ := c.call("tools/call", `{"name":"x","task":{}}`)
			var task mcp.CreateTaskResult
			if err := codec.Unmarshal([]byte(created), &task); err != nil {
				t.Fatal(err)
			}
			c.expectFailure("tasks/result", fmt.Sprintf(`{"taskId":%q}`, task.Task.TaskID))
			if name != "output" {
				c.expectFailure("prompts/get", `{"name":"x"}`)
				c.expectFailure("resources/read", `{"uri":"x:1"}`)
				c.expectFailure("resources/list", ``)
				c.expectFailure("completion/complete", `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}`)
			}
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// expectFailure sends a request and checks that it fails, with an error or a result with isError.
func (c *testClient) expectFailure(method, params string) {
	c.t.Helper()
	if result, code := c.call(method, params); code == 0 && !strings.Contains(result, `"isError":true`) {
		c.t.Errorf("%s %s: got %s", method, params, result)
	}
}

// Errors truncate the names that a client has sent.
func TestErrorsQuoteLittleOfRequest(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	s := newServer(t, server.Options{})
	server.AddTool(s, "x", "", sayHi)
	server.AddPrompt(s, "x", "", func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) { return nil, nil })
	c := connect(t, s, clientConfig{})
	for method, params := range map[string]string{
		"tools/call": `{"name":%q}`, "prompts/get": `{"name":%q}`, "logging/setLevel": `{"level":%q}`,
	} {
		message, code := c.call(method, fmt.Sprintf(params, long))
		if code != jsonrpc.CodeInvalidParams || len(message) > 300 {
			t.Errorf("%s: got code %d and a message of %d bytes", method, code, len(message))
		}
	}
}
