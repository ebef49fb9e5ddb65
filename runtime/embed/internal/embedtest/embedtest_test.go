package embedtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedtest"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// own is mcpwire's own server.
var own = embedtest.Subject{Name: "mcpwire", Serve: serveOwn}

func TestMain(m *testing.M) { embedtest.Main(m, own) }

// TestOwnServerIsKilled kills a server: a few times by default, and a thousand times with
//
//	go test ./runtime/embed/internal/embedtest -run Killed -kills 1000
var kills = flag.Int("kills", 0, "how often TestOwnServerIsKilled kills a process; 0 means a few times")

func TestOwnServerIsKilled(t *testing.T) { embedtest.Killed(t, own, embedtest.Options{Kills: *kills}) }

func TestOwnServer(t *testing.T) { embedtest.Run(t, own) }

// serveOwn makes a server.
func serveOwn(f embedtest.Fixture) (*embedtest.Endpoint, error) {
	tasks := f.Options.Tasks
	cfg := server.Options{Tasks: tasks, Logger: tasks.Logger}
	principal := f.Options.Principal
	if principal != nil {
		cfg.Session.Principal = principal(context.Background(), nil)
	}
	s := server.New("fixture", "1", &cfg)
	for _, t := range f.Tools {
		var options []server.ToolOption
		if support, ok := f.Options.Tools[t.Name]; ok {
			options = append(options, server.Tasks(support.Support), server.Version(support.Version, support.Accepts...))
		}
		if t.Typed {
			type named struct {
				Name string `json:"name"`
			}
			server.AddTool(s, t.Name, t.Description, func(ctx context.Context, c *server.Call, in named) (*mcp.CallToolResult, error) {
				arguments, err := json.Marshal(in)
				if err != nil {
					return nil, err
				}
				return runOwn(ctx, t, &caller{c, arguments, nil})
			}, options...)
			continue
		}
		var schema mcp.ToolInputSchema
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil {
			return nil, err
		}
		s.AddRawTool(mcp.Tool{Name: t.Name, Description: &t.Description, InputSchema: schema}, func(ctx context.Context, c *server.Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
			return runOwn(ctx, t, &caller{c, arguments, nil})
		}, options...)
	}
	if err := s.Start(context.Background()); err != nil {
		return nil, err
	}
	handler := must.Get(s.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: func(r *http.Request) (string, error) {
		switch {
		case f.Tokens:
			user, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return "", errors.New("no token")
			}
			return user, nil
		case principal != nil:
			return principal(r.Context(), r.Header), nil
		}
		return "", nil
	}}}))
	var running sync.WaitGroup
	return &embedtest.Endpoint{
		Handler: handler,
		Connect: func() (transport.Conn, error) {
			here, there := inmemory.Pair(inmemory.Options{})
			running.Go(func() { s.Run(context.Background(), there) }) // ends with the connection
			return here, nil
		},
		Stdio: s.ServeStdio,
		CloseSessions: func() {
			for _, each := range s.Sessions() {
				go each.Close() // ends with the handlers
			}
		},
		Manager: s.Tasks,
		Close: func() error {
			handler.Close()
			err := s.Close()
			running.Wait()
			return err
		},
	}, nil
}

// runOwn runs a tool. It sends the input requests of its result.
func runOwn(ctx context.Context, t embedtest.Tool, c *caller) (*mcp.CallToolResult, error) {
	for {
		r, err := t.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		if r.Ask == nil {
			result := server.Text(r.Text)
			if r.Structured != nil {
				if result.StructuredContent, err = json.Marshal(r.Structured); err != nil {
					return nil, err
				}
			}
			if r.IsError {
				result.IsError = &r.IsError
			}
			return result, nil
		}
		var mu sync.Mutex
		responses := map[string]string{}
		var ask []func(context.Context) error
		for _, key := range slices.Sorted(maps.Keys(r.Ask)) {
			message := r.Ask[key]
			ask = append(ask, func(ctx context.Context) error {
				_, name, err := c.Elicit(server.InputName(ctx, key), message)
				mu.Lock()
				defer mu.Unlock()
				responses[key] = name
				return err
			})
		}
		if err := c.RunAll(ctx, ask...); err != nil {
			return nil, err
		}
		c.responses = responses
	}
}

// caller is the Caller of a call.
type caller struct {
	*server.Call
	arguments json.RawMessage
	responses map[string]string
}

func (c *caller) Arguments() json.RawMessage { return c.arguments }

func (c *caller) User() string { return c.Principal() }

func (c *caller) Responses() map[string]string { return c.responses }

func (c *caller) Progress(_ context.Context, value float64, message string) error {
	return c.Call.Progress(value, 10, message)
}

func (c *caller) ProgressWithToken(context.Context, string, float64) error { return nil }

func (c *caller) Log(ctx context.Context, text string) error {
	return c.Call.Log(ctx, mcp.LoggingLevelInfo, "", text)
}

func (c *caller) Elicit(ctx context.Context, message string) (action, name string, err error) {
	var form struct {
		Name string `json:"name"`
	}
	got, err := server.Elicit(ctx, c.Call, message, &form)
	return string(got), form.Name, err
}

func (c *caller) Sample(ctx context.Context, text string) (string, error) {
	got, err := c.Call.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{
		Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: text}}},
	}}})
	if err != nil {
		return "", err
	}
	if len(got.Content.Items) == 1 {
		if content, ok := got.Content.Items[0].(*mcp.TextContent); ok {
			return content.Text, nil
		}
	}
	return "", errors.New("the response has no text")
}

func (c *caller) Roots(ctx context.Context) (list []string, err error) {
	roots, err := c.Call.Roots(ctx)
	for _, root := range roots {
		list = append(list, root.URI)
	}
	return list, err
}

func (c *caller) Step(ctx context.Context, name string, f func(ctx context.Context) (string, error), options ...server.StepOption) (string, error) {
	return server.Step(ctx, c.Call, name, f, options...)
}

func (c *caller) Sleep(ctx context.Context, name string, f func() time.Time) error {
	return server.Sleep(ctx, c.Call, name, f)
}

func (c *caller) Select(ctx context.Context, name string, cases ...server.Case) (server.Case, error) {
	return server.Select(ctx, c.Call, name, cases...)
}

func (c *caller) IdempotencyKey(ctx context.Context) string { return server.IdempotencyKey(ctx) }

func (c *caller) Compensate(ctx context.Context, name string, undo func(ctx context.Context) error) error {
	return server.Compensate(ctx, c.Call, name, undo)
}
