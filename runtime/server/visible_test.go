package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// forAnn is true for the calls of one principal.
func forAnn(c *server.Call) bool { return c.Principal() == "ann" }

// addFeatures adds two features of each kind, the second with an option.
func addFeatures(s *server.Server, o server.FeatureOption) {
	get := func(context.Context, *server.Call, map[string]string) (string, error) { return "p", nil }
	argument := server.DefinePrompt(func(p *mcp.Prompt) { p.Arguments = []mcp.PromptArgument{{Name: "a"}} })
	list := func(scheme string) server.ListFunc {
		return func(context.Context, *server.Call, string) ([]mcp.Resource, string, error) {
			return []mcp.Resource{{Name: "listed", URI: scheme + "://listed"}}, "", nil
		}
	}
	server.AddTool(s, "open", "", sayHi)
	server.AddTool(s, "secret", "", sayHi, o)
	server.AddPrompt(s, "open", "", get)
	server.AddPrompt(s, "secret", "", get, argument, server.Complete("a", server.OneOf("x")), o)
	server.AddResource(s, "static:open", "open", readText)
	server.AddResource(s, "static:secret", "secret", readText, o)
	server.AddTemplate(s, "open://{x}", "open", readText, list("open"))
	server.AddTemplate(s, "secret://{x}", "secret", readText, list("secret"), server.Complete("x", server.OneOf("y")), o)
}

// A hidden feature is not listed, and its errors are those of an unknown one, in sessions and for
// modern requests.
//
// Proves TOOL-13, M-TOOL-06, M-COMP-01.
func TestHiddenFeaturesDoNotExist(t *testing.T) {
	everything := server.VisibleTo(func(*server.Call) bool { return true })
	for name, test := range map[string]struct {
		cfg    server.Options
		option server.FeatureOption
	}{
		"option": {option: server.VisibleTo(forAnn)},
		"configuration": {server.Options{Features: server.Features{Visible: func(c *server.Call, f server.Feature) bool {
			return forAnn(c) || !slices.Contains([]server.Feature{
				{Kind: server.KindTool, Name: "secret"}, {Kind: server.KindPrompt, Name: "secret"},
				{Kind: server.KindResource, Name: "static:secret"}, {Kind: server.KindTemplate, Name: "secret://{x}"},
			}, f)
		}}}, everything},
		"panic": {option: server.VisibleTo(func(c *server.Call) bool { return forAnn(c) || panics() })},
	} {
		t.Run(name, func(t *testing.T) {
			for principal, visible := range map[string]bool{"ann": true, "bob": false} {
				test.cfg.Session.Principal = principal
				test.cfg.Session.Logger = nil
				s := newServer(t, test.cfg)
				addFeatures(s, test.option)
				inSession, inRounds := connect(t, s, clientConfig{}), connectRoundsAs(t, s, principal)
				call := func(method, params string) (result string, code int64) {
					result, code = inSession.call(method, params)
					if method == "resources/subscribe" {
						return result, code
					}
					answer, failed := inRounds.send(method, params, nil)
					if (failed != nil) != (code != 0) || failed == nil && strings.Contains(string(answer), "secret") != strings.Contains(result, "secret") {
						t.Errorf("%s: modern %s %s: got %s, %v", principal, method, params, answer, failed)
					}
					return result, code
				}
				for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
					result, _ := call(method, "{}")
					if !strings.Contains(result, "open") || strings.Contains(result, "secret") != visible {
						t.Errorf("%s: %s: %s", principal, method, result)
					}
				}
				for _, request := range []struct{ method, params, unknown string }{
					{"tools/call", `{"name":"secret"}`, "unknown"},
					{"prompts/get", `{"name":"secret"}`, "unknown"},
					{"resources/read", `{"uri":"static:secret"}`, "static:unknown"},
					{"resources/read", `{"uri":"secret://x"}`, "unknown://x"},
					{"resources/subscribe", `{"uri":"static:secret"}`, "static:unknown"},
					{"resources/subscribe", `{"uri":"secret://x"}`, "unknown://x"},
					{"completion/complete", `{"ref":{"type":"ref/prompt","name":"secret"},"argument":{"name":"a","value":""}}`, ""},
					{"completion/complete", `{"ref":{"type":"ref/resource","uri":"secret://{x}"},"argument":{"name":"x","value":""}}`, ""},
				} {
					got, code := call(request.method, request.params)
					if (code == 0) != visible {
						t.Errorf("%s: %s %s: %s", principal, request.method, request.params, got)
					}
					if visible {
						continue
					}
					unknown, want := call(request.method, strings.ReplaceAll(request.params, "secret", "unknown"))
					if strings.ReplaceAll(got, "secret", "unknown") != unknown || code != want {
						t.Errorf("%s: got %d %s, for an unknown feature %d %s", request.method, code, got, want, unknown)
					}
				}
			}
		})
	}
}

func panics() bool { panic("no decision") }

// A hidden tool cannot be called as a task, whatever its task support.
func TestHiddenToolIsUnknownAsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := server.Options{Session: session.Options{Principal: "bob"}, Tasks: task.Options{Store: memory.New()}}
		s := newServer(t, cfg)
		required := server.DefineTool(func(t *mcp.Tool) { t.Execution = &mcp.ToolExecution{TaskSupport: new(mcp.TaskSupportRequired)} })
		server.AddTool(s, "forbidden", "", sayHi, server.VisibleTo(forAnn))
		server.AddTool(s, "required", "", sayHi, server.VisibleTo(forAnn), required)
		c := connect(t, s, clientConfig{})
		for _, name := range []string{"forbidden", "required", "missing"} {
			want := fmt.Sprintf("unknown tool: %q", name)
			if got, _ := c.call("tools/call", `{"name":"`+name+`"}`); got != want {
				t.Errorf("%s: %s", name, got)
			}
			if got, _ := c.call("tools/call", `{"name":"`+name+`","task":{}}`); got != want {
				t.Errorf("%s as a task: %s", name, got)
			}
		}
	})
}

// A recovered task has no header. Its tool is visible, because the task was admitted before.
func TestRecoveredTaskIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		hang := func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		known := server.VisibleTo(func(c *server.Call) bool { return c.ClientCapabilities() != nil })
		first, _ := withTasks(t, store, func(s *server.Server) { server.AddTool(s, "x", "", hang, server.Durable(), known) })
		created, _ := connect(t, first, clientConfig{}).call("tools/call", `{"name":"x","task":{}}`)
		synctest.Wait()
		first.Close()

		second, _ := withTasks(t, store, func(s *server.Server) { server.AddTool(s, "x", "", sayHi, server.Durable(), known) })
		result, _ := connect(t, second, clientConfig{}).call("tasks/result", `{"taskId":"`+taskID(t, created)+`"}`)
		if got := text(t, result); got != "hi" {
			t.Errorf("result %q", got)
		}
	})
}

// Pages are full although features are hidden, and a cursor names no hidden feature.
func TestPagesSkipHiddenFeatures(t *testing.T) {
	s := newServer(t, server.Options{Features: server.Features{PageSize: 3}})
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("t%02d", i)
		if i%3 == 0 {
			want = append(want, name)
		}
		server.AddTool(s, name, "", sayHi, server.VisibleTo(func(*server.Call) bool { return i%3 == 0 }))
	}
	c := connect(t, s, clientConfig{})
	if names, pages := c.toolNames(); !slices.Equal(names, want) || pages != 3 {
		t.Errorf("got %v on %d pages, want %v on 3", names, pages, want)
	}
	c.expectError("tools/list", `{"cursor":"AAAA"}`, jsonrpc.CodeInvalidParams)
}

// BenchmarkVisibleTools lists and calls one of 10,000 tools, which are visible to all calls, or all
// but each hundredth of which a function hides.
func BenchmarkVisibleTools(b *testing.B) {
	for _, test := range []struct {
		name   string
		option func(i int) []server.ToolOption
	}{
		{"no function", func(int) []server.ToolOption { return nil }},
		{"function", func(i int) []server.ToolOption {
			return []server.ToolOption{server.VisibleTo(func(c *server.Call) bool { return i%100 == 0 && c.Principal() == "ann" })}
		}},
	} {
		s := newServer(b, server.Options{Session: session.Options{Principal: "ann"}})
		for i := range 10_000 {
			s.AddRawTool(mcp.Tool{Name: fmt.Sprintf("t%05d", i)}, nothing, test.option(i)...)
		}
		c := connect(b, s, clientConfig{})
		for method, params := range map[string]codec.Encoder{"tools/list": nil, "tools/call": session.Raw(`{"name":"t05000"}`)} {
			b.Run(test.name+"/"+method, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Call(b.Context(), method, params); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func nothing(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{}}, nil
}
