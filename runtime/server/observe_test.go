package server_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// The middleware of the server is the outermost in both eras, and sees results as the tool has
// returned them.
func TestMiddlewareOfServerSeesAllRequests(t *testing.T) {
	var got []string
	record := func(format string, args ...any) { got = append(got, fmt.Sprintf(format, args...)) }
	var known *server.Server
	s := newServer(t, server.Options{
		Middleware: server.Middleware{All: func(s *server.Server) session.Middleware {
			known = s
			return func(next session.Handler) session.Handler {
				return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.IsNotification() || req.Method == mcp.MethodInitialize {
						return next(ctx, req)
					}
					record("begin %s", req.Method)
					result, err := next(ctx, req)
					if err != nil {
						record("end with %d", req.Internals(boundary.Caller{}).Failure(err).Code)
						return result, err
					}
					record("end with %T", result)
					return result, err
				}
			}
		}},
		Session: session.Options{Hooks: session.Hooks{Receiving: []session.Middleware{func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if !req.IsNotification() && req.Method != mcp.MethodInitialize {
					record("inner")
				}
				return next(ctx, req)
			}
		}}}},
	})
	addTool(s, func(context.Context, *server.Call) (string, error) { return "done", nil })
	server.AddResource(s, "x:y", "y", readText)
	if known != s {
		t.Error("the middleware was made for another server")
	}
	read := `{"uri":"x:z"}`
	c := connect(t, s, clientConfig{})
	c.call("tools/call", do)
	c.call("resources/read", read)
	modern := connectRounds(t, s)
	modern.send("tools/call", do, nil)
	modern.send("resources/read", read, nil)
	want := []string{
		"begin tools/call", "inner", "end with *mcp.CallToolResult",
		"begin resources/read", "inner", "end with -32002",
		"begin tools/call", "inner", "end with *mcp.CallToolResult",
		"begin resources/read", "inner", "end with -32602",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHas(t *testing.T) {
	s := newServer(t, server.Options{})
	addTool(s, func(context.Context, *server.Call) (string, error) { return "", nil })
	server.AddPrompt(s, "ask", "", func(context.Context, *server.Call, map[string]string) (string, error) { return "", nil })
	server.AddResource(s, "x:y", "y", readText)
	server.AddTemplate(s, "x:{y}", "y", readText)
	for f, want := range map[server.Feature]bool{
		{Kind: server.KindTool, Name: "do"}:        true,
		{Kind: server.KindTool, Name: "ask"}:       false,
		{Kind: server.KindPrompt, Name: "ask"}:     true,
		{Kind: server.KindResource, Name: "x:y"}:   true,
		{Kind: server.KindTemplate, Name: "x:{y}"}: true,
		{Kind: "other", Name: "do"}:                false,
	} {
		if got := s.Has(f); got != want {
			t.Errorf("%v: %v, want %v", f, got, want)
		}
	}
}

// Middleware wraps the runs of a step, and not the uses of its recorded result.
func TestStepMiddleware(t *testing.T) {
	var got []string
	traced := func(by string) server.StepMiddleware {
		return func(ctx context.Context, c *server.Call, name string, next func(context.Context) error) error {
			got = append(got, by+" begins "+name)
			err := next(context.WithValue(ctx, traceKey{}, by))
			got = append(got, fmt.Sprint(by, " ends ", name, " ", err))
			return err
		}
	}
	s := newServer(t, server.Options{Middleware: server.Middleware{Steps: []server.StepMiddleware{traced("outer"), traced("inner")}}})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		one, err := server.Step(ctx, c, "one", func(ctx context.Context) (string, error) { return fmt.Sprint(ctx.Value(traceKey{})), nil })
		if err != nil {
			return "", err
		}
		_, failed := server.Step(ctx, c, "two", func(context.Context) (int, error) { return 0, errors.New("broken") })
		name, err := askName(ctx, c, "Who?")
		return fmt.Sprint(one, ", ", failed, ", ", name), err
	})
	last, _ := connectRounds(t, s).finish("tools/call", do, respondToAll)
	equal(t, "result", "inner, broken, accept Ada", last.text)
	want := []string{
		"outer begins one", "inner begins one", "inner ends one <nil>", "outer ends one <nil>",
		"outer begins two", "inner begins two", "inner ends two broken", "outer ends two broken",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type traceKey struct{}
