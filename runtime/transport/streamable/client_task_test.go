package streamable_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func TestTaskHandleSurvivesLossOfSession(t *testing.T) {
	// Proves HTTP-45.
	synctest.Test(t, func(t *testing.T) {
		manager, err := task.New(context.Background(), task.Options{Store: memory.New()})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close(context.Background())
		o := newTools()
		o.tasks = receiver.ServerCapabilities(true)
		o.configure = func(cfg *session.Options) { receiver.Attach(cfg, receiver.Options{Manager: manager}) }
		start := func() *testServer {
			return serveOver(t, streamable.HandlerOptions{}, o, func(l net.Listener) net.Listener { return l })
		}
		first := start()
		var running atomic.Pointer[testServer]
		running.Store(first)
		var reopened atomic.Int32
		cfg := &session.Options{Hooks: session.Hooks{Reopened: func(*mcp.InitializeResult) { reopened.Add(1) }}}
		tasks := requestor.Attach(cfg)
		options := streamable.ClientOptions{}
		options.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return running.Load().http.Transport.RoundTrip(r)
		})}
		c, err := streamable.Dial("http://localhost/mcp", options)
		if err != nil {
			t.Fatal(err)
		}
		s, err := session.Connect(t.Context(), c, &mcp.InitializeRequestParams{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		h, err := tasks.CallTool(t.Context(), s, &mcp.CallToolRequestParams{Name: "wait", Arguments: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		<-o.started
		type outcome struct {
			result *mcp.CallToolResult
			err    error
		}
		waiting := make(chan outcome)
		go func() {
			result, err := h.Result(t.Context())
			waiting <- outcome{result, err}
		}()
		time.Sleep(time.Second)
		first.stop() // ends its sessions
		time.Sleep(time.Minute)
		running.Store(start())
		time.Sleep(time.Minute)
		close(o.release)
		got := <-waiting
		if got.err != nil || got.result.Content[0].(*mcp.TextContent).Text != `{"n":1}` {
			t.Errorf("got %+v, %v", got.result, got.err)
		}
		if calls, sessions := o.calls.Load(), reopened.Load(); calls != 1 || sessions != 1 {
			t.Errorf("the tool ran %d times, %d sessions were reopened", calls, sessions)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("the session: %v", err)
		}
	})
}

// slowBody is a body that is read at 1 MiB per second.
type slowBody struct{ io.ReadCloser }

func (b slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), 16<<10)])
	time.Sleep(time.Duration(n) * time.Second >> 20)
	return n, err
}

// The status of a task may arrive before its large result, on another connection. The client still
// receives the result, and requests it once.
func TestLargeResultArrivesOverSlowConnection(t *testing.T) {
	for name, resume := range map[string]bool{"new handle": false, "resumed handle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				manager, err := task.New(context.Background(), task.Options{Store: memory.New()})
				if err != nil {
					t.Fatal(err)
				}
				defer manager.Close(context.Background())
				var requests atomic.Int32
				o := newTools()
				o.tasks = receiver.ServerCapabilities(true)
				o.configure = func(cfg *session.Options) {
					cfg.Hooks.Receiving = append(cfg.Hooks.Receiving, func(next session.Handler) session.Handler {
						return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
							if req.Method == "tasks/result" {
								requests.Add(1)
							}
							return next(ctx, req)
						}
					})
					receiver.Attach(cfg, receiver.Options{Manager: manager})
				}
				remote := serveOver(t, streamable.HandlerOptions{}, o, func(l net.Listener) net.Listener { return l })
				var options streamable.ClientOptions
				options.HTTP = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					resp, err := remote.http.Transport.RoundTrip(r)
					if err == nil {
						resp.Body = slowBody{resp.Body}
					}
					return resp, err
				})}
				conn, err := streamable.Dial("http://localhost/mcp", options)
				if err != nil {
					t.Fatal(err)
				}
				cfg := &session.Options{}
				tasks := requestor.Attach(cfg)
				s, err := session.Connect(t.Context(), conn, &mcp.InitializeRequestParams{}, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				large := `{"text":"` + strings.Repeat("a", 3<<20) + `"}`
				h, err := tasks.CallTool(t.Context(), s, &mcp.CallToolRequestParams{Name: "echo", Arguments: []byte(large)})
				if err != nil {
					t.Fatal(err)
				}
				if resume {
					h = tasks.AttachTool(s, h.ID())
				}
				began := time.Now()
				result, err := h.Result(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if text := result.Content[0].(*mcp.TextContent).Text; text != large {
					t.Errorf("got %d bytes, want %d", len(text), len(large))
				}
				if took := time.Since(began); took < 3*time.Second || took > 4*time.Second || requests.Load() != 1 {
					t.Errorf("took %v and %d requests for the result", took, requests.Load())
				}
			})
		})
	}
}
