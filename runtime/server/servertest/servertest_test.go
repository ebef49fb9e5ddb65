package servertest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// recorder is a test whose failures are recorded. End calls its cleanups.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) end() {
	for len(r.cleanups) > 0 {
		f := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		f()
	}
}

type none = struct{}

func connected(s *server.Server) bool {
	_, there := inmemory.Pair(inmemory.Options{})
	defer there.Close()
	_, err := s.Serve(there)
	return err == nil
}

func TestConnectServesAndCloses(t *testing.T) {
	s := server.New("s", "1", &server.Options{Tasks: task.Options{Store: memory.New()}})
	server.AddTool(s, "hi", "", func(context.Context, *server.Call, none) (string, error) { return "Hi!", nil }, server.Durable())
	r := &recorder{TB: t}
	c := servertest.Connect(r, s, nil)
	result, err := c.CallTool(t.Context(), "hi", nil)
	if err != nil || result.Content[0].(*mcp.TextContent).Text != "Hi!" {
		t.Errorf("got %+v, %v", result, err)
	}
	if h, err := c.StartTool(t.Context(), "hi", nil); err != nil {
		t.Error(err)
	} else if _, err := h.Result(t.Context()); err != nil {
		t.Error(err)
	}
	r.end()
	if len(r.failures) > 0 {
		t.Errorf("failures: %s", r.failures)
	}
	if connected(s) {
		t.Error("the server is not closed")
	}
}

// The server is closed with the last of several clients.
func TestServerIsClosedWithLastClient(t *testing.T) {
	s := server.New("s", "1", nil)
	server.AddTool(s, "hi", "", func(context.Context, *server.Call, none) (string, error) { return "Hi!", nil })
	first, second := &recorder{TB: t}, &recorder{TB: t}
	servertest.Connect(first, s, nil)
	c := servertest.Connect(second, s, nil)
	first.end()
	if _, err := c.CallTool(t.Context(), "hi", nil); err != nil {
		t.Errorf("after the end of another client: %v", err)
	}
	second.end()
	if connected(s) {
		t.Error("the server is not closed")
	}
	if failures := append(first.failures, second.failures...); len(failures) > 0 {
		t.Errorf("failures: %s", failures)
	}
}

// Each leak fails the test, and names the function that has not returned.
func TestLeaksFailTest(t *testing.T) {
	for name, tool := range map[string]func(release chan none) server.ToolFunc[none, string]{
		"goroutine of a handler": func(release chan none) server.ToolFunc[none, string] {
			return func(context.Context, *server.Call, none) (string, error) {
				go leak(release)
				return "", nil
			}
		},
		"handler that ignores its context": func(release chan none) server.ToolFunc[none, string] {
			return func(context.Context, *server.Call, none) (string, error) {
				leak(release)
				return "", nil
			}
		},
		"handler of the client": func(release chan none) server.ToolFunc[none, string] {
			return func(ctx context.Context, c *server.Call, _ none) (string, error) {
				_, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{}})
				return "", err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan none)
				s := server.New("s", "1", nil)
				server.AddTool(s, "leak", "", tool(release))
				r := &recorder{TB: t}
				c := servertest.Connect(r, s, &client.Options{Input: client.Input{Sample: func(context.Context, *client.SampleRequest) (*mcp.CreateMessageResult, error) {
					leak(release)
					return nil, context.Canceled
				}}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				c.CallTool(ctx, "leak", nil)
				r.end()
				if len(r.failures) != 1 || !strings.Contains(r.failures[0], "servertest_test.leak") {
					t.Errorf("failures: %s", r.failures)
				}
				close(release)
				s.Close()
			})
		})
	}
}

func leak(release chan none) { <-release }

// An idle connection of a handler is no leak.
func TestIdleConnectionsAreClosed(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	s := server.New("s", "1", nil)
	server.AddTool(s, "fetch", "", func(context.Context, *server.Call, none) (string, error) {
		response, err := http.Get(web.URL)
		if err != nil {
			return "", err
		}
		return response.Status, response.Body.Close()
	})
	r := &recorder{TB: t}
	c := servertest.Connect(r, s, nil)
	if _, err := c.CallTool(t.Context(), "fetch", nil); err != nil {
		t.Error(err)
	}
	r.end()
	if len(r.failures) > 0 {
		t.Errorf("failures: %s", r.failures)
	}
}

// A goroutine of the test itself is no leak.
func TestGoroutinesOfTestMayContinue(t *testing.T) {
	release := make(chan none)
	defer close(release)
	r := &recorder{TB: t}
	servertest.Connect(r, server.New("s", "1", nil), nil)
	go leak(release)
	r.end()
	if len(r.failures) > 0 {
		t.Errorf("failures: %s", r.failures)
	}
}
