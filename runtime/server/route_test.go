package server_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// A message passes only the features that are on and concern its method. A call of a tool passes
// none.
func TestRoutesHaveOnlyFeaturesThatConcernThem(t *testing.T) {
	var got []string
	for _, tt := range []struct {
		name string
		cfg  server.Options
		add  func(*server.Server)
	}{
		{"no features", server.Options{}, func(*server.Server) {}},
		{"a tool", server.Options{}, addTo()},
		{"limited calls", server.Options{Limits: server.Limits{Calls: 1}}, addTo()},
		{"own methods, limited calls", server.Options{
			Limits:   server.Limits{Calls: 1},
			Features: server.Features{Methods: map[string]session.Handler{"example.com/x": serveNothing, "tools/call": serveNothing}},
		}, addTo()},
		{"scopes of methods", server.Options{Features: server.Features{Scopes: map[string][]string{"tools/call": {"a"}, "example.com/x": {"a"}}}}, addTo()},
		{"scopes of a tool", server.Options{}, addTo(server.RequireScopes("a"))},
		{"tasks", server.Options{Tasks: task.Options{Store: memory.New()}}, addTo()},
		{"all", server.Options{
			Limits: server.Limits{Calls: 1}, Tasks: task.Options{Store: memory.New()}, Features: server.Features{Scopes: map[string][]string{"*": {"a"}}},
		}, func(*server.Server) {}},
	} {
		s := newServer(t, tt.cfg)
		server.Routes(s) // compiled before the features are added
		tt.add(s)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		got = append(got, "# "+tt.name)
		got = append(got, server.Routes(s)...)
	}
	expectFile(t, "testdata/routes.txt", got)
}

// addTo returns a function that adds a tool.
func addTo(options ...server.ToolOption) func(*server.Server) {
	return func(s *server.Server) { server.AddTool(s, "do", "", sayHi, options...) }
}

// expectFile compares lines with those of a file.
func expectFile(t *testing.T, name string, got []string) {
	t.Helper()
	want, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func serveNothing(context.Context, *session.Request) (codec.Encoder, error) { return nil, nil }

// What rejects a message first: the middleware of the server, that of the sessions, the rate of
// calls, scopes, what the server has not declared or does not do for the client, tasks, and then the
// handler. Each message violates all of it, until it is let through.
func TestRequestIsRejectedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		methods := []string{"tools/call", "tasks/list", "tasks/get", "resources/read", "example.com/x", "other"}
		for _, era := range []string{"session", "sessionless"} {
			for _, violated := range []string{"middleware receiving rate scopes", "receiving rate scopes", "rate scopes", "scopes", ""} {
				rejects := func(name string) session.Middleware {
					return func(next session.Handler) session.Handler {
						return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
							if strings.Contains(violated, name) && !req.IsNotification() && req.Method != mcp.MethodInitialize {
								return nil, fmt.Errorf("rejected by %s", name)
							}
							return next(ctx, req)
						}
					}
				}
				cfg := server.Options{
					Middleware: server.Middleware{All: func(*server.Server) session.Middleware { return rejects("middleware") }},
					Session:    session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{rejects("receiving")}}},
					Tasks:      task.Options{Store: memory.New()},
					Features:   server.Features{Methods: map[string]session.Handler{"example.com/x": serveNothing}},
				}
				if strings.Contains(violated, "rate") {
					cfg.Limits.Calls = 0.001
				}
				if strings.Contains(violated, "scopes") {
					cfg.Features.Scopes = map[string][]string{}
					for _, method := range methods {
						cfg.Features.Scopes[method] = []string{"a"}
					}
				}
				s := newServer(t, cfg)
				server.AddTool(s, "only", "", sayHi, server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired}))
				for _, method := range methods {
					c := connectModern(t, s)
					c.ctx = auth.WithIdentity(t.Context(), &auth.Identity{Subject: "ann"})
					params := map[string]string{"tools/call": `{"name":"only"}`, "tasks/get": `{"taskId":"x"}`, "resources/read": `{"uri":"x:y"}`}[method]
					if params == "" {
						params = `{}`
					}
					ask := func() string {
						answer, _ := c.call(method, params, "")
						if answer.Error != nil {
							return answer.Error.Message
						}
						return string(answer.Result)
					}
					if era == "session" {
						ask = func() string {
							c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"x","method":%q,"params":%s}`, method, params))
							_, answer, _ := strings.Cut(strings.Join(c.take(), ""), `"id":"x",`)
							return answer
						}
						c.write(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
						c.take()
					}
					ask() // the only one that the rate allows
					got = append(got, fmt.Sprintf("%s, %s, %s: %s", era, violated, method, ask()))
				}
				s.Close()
			}
		}
		expectFile(t, "testdata/rejections.txt", got)
	})
}
