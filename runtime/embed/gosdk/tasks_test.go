//lint:file-ignore SA1019 roots are deprecated, and tested as long as the SDK has them

package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// attach returns a server with tasks. All tools can be tasks; modern calls are tasks at once.
func attach(t *testing.T) (*mcp.Server, *gosdk.Tasks) {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	tasks, err := gosdk.Attach(s, embed.Options{
		Tasks: task.Options{Store: memory.New()}, Default: &embed.Tool{Support: receiver.Support{After: -1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tasks.Close() })
	return s, tasks
}

// dial connects a client over HTTP.
func dial(t *testing.T, h http.Handler, version string) *gosdk.Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := gosdk.Connect(t.Context(), newClient(), &mcp.StreamableClientTransport{Endpoint: web.URL}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// callTask calls a tool as a task and returns the text of its result.
func callTask(t *testing.T, c *gosdk.Client, tool string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := c.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
	if err != nil {
		return "", err
	}
	r, err := h.Result(ctx)
	return textOf(r), err
}

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func eachRevision(t *testing.T, test func(t *testing.T, version string)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { test(t, version) })
	}
}

type valueKey struct{}

func TestMiddlewareSeesRunsOfTasks(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "value", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, _ := ctx.Value(valueKey{}).(string)
			return textResult(text), nil
		})
		s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				return next(context.WithValue(ctx, valueKey{}, "of the middleware"), method, req)
			}
		})
		if got, err := callTask(t, dial(t, tasks.Handler(nil), version), "value"); err != nil || got != "of the middleware" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestHandlerRespondsWithJSON(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "ok", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult("done"), nil
		})
		if got, err := callTask(t, dial(t, tasks.Handler(&mcp.StreamableHTTPOptions{JSONResponse: true}), version), "ok"); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestWrapServesTasks(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "roots", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r, err := req.Session.ListRoots(ctx, nil)
			if err != nil {
				return nil, err
			}
			return textResult(r.Roots[0].URI), nil
		})
		h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: version == "2026-07-28"})
		mux := http.NewServeMux()
		mux.Handle("/", h)
		if got, err := callTask(t, dial(t, tasks.Wrap(mux), version), "roots"); err != nil || got != "file:///here" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestGoexitFailsTask(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "exit", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			runtime.Goexit()
			return nil, nil
		})
		_, err := callTask(t, dial(t, tasks.Handler(nil), version), "exit")
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Message != "internal error: the handler panicked" {
			t.Errorf("got %v", err)
		}
	})
}

func TestTaskSessionRespondsToPings(t *testing.T) {
	s, tasks := attach(t)
	s.AddTool(&mcp.Tool{Name: "ping", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		for range 10 {
			if err := req.Session.Ping(ctx, nil); err != nil {
				return nil, err
			}
		}
		return textResult("alive"), nil
	})
	server, client := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), tasks.Transport(server), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	c, err := gosdk.Connect(t.Context(), newClient(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := callTask(t, c, "ping"); err != nil || got != "alive" {
		t.Errorf("got %q, %v", got, err)
	}
}

// Each of the requests gets a response, although a client must not use an id twice.
func TestTransportServesRequestsWithSameID(t *testing.T) {
	s, tasks := attach(t)
	s.AddTool(&mcp.Tool{Name: "forever", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	server, client := mcp.NewInMemoryTransports()
	ss, err := s.Connect(t.Context(), tasks.Transport(server), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	conn, err := client.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	send := func(id float64, method, params string) {
		t.Helper()
		m := &jsonrpc.Request{Method: method, Params: json.RawMessage(params)}
		if m.ID, err = jsonrpc.MakeID(id); err == nil {
			err = conn.Write(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	receive := func() *jsonrpc.Response { // skips notifications
		t.Helper()
		for {
			m, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r, ok := m.(*jsonrpc.Response); ok {
				return r
			}
		}
	}
	send(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	receive()
	if err := conn.Write(t.Context(), &jsonrpc.Request{Method: "notifications/initialized"}); err != nil {
		t.Fatal(err)
	}
	send(2, "tools/call", `{"name":"forever","arguments":{},"task":{}}`)
	var created wire.CreateTaskResult
	if err := codec.Unmarshal(receive().Result, &created); err != nil {
		t.Fatal(err)
	}
	params := `{"taskId":"` + created.Task.TaskID + `"}`
	send(3, "tasks/result", params)
	send(3, "tasks/result", params)
	send(4, "tasks/cancel", params)
	got := map[any]int{}
	for range 3 {
		got[receive().ID.Raw()]++
	}
	if got[int64(3)] != 2 || got[int64(4)] != 1 {
		t.Errorf("got responses %v", got)
	}
}

func TestServerForgetsTaskSessions(t *testing.T) {
	s, tasks := attach(t)
	s.AddTool(&mcp.Tool{Name: "ok", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult("done"), nil
	})
	c := dial(t, tasks.Handler(nil), "2025-11-25")
	for range 10 {
		if _, err := callTask(t, c, "ok"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tasks.Close(); err != nil { // waits for the runs
		t.Fatal(err)
	}
	if n := len(slices.Collect(s.Sessions())); n != 1 {
		t.Errorf("got %d sessions, want that of the client", n)
	}
}

func TestHandlerRejectsLongBody(t *testing.T) {
	_, tasks := attach(t)
	h := tasks.Handler(&mcp.StreamableHTTPOptions{MaxRequestBodyBytes: 1000})
	for _, test := range []struct{ size, status int }{{900, http.StatusOK}, {2000, http.StatusRequestEntityTooLarge}} {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body+strings.Repeat(" ", test.size-len(body))))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.status {
			text, _ := io.ReadAll(w.Body)
			t.Errorf("%d bytes: got status %d, want %d: %s", test.size, w.Code, test.status, text)
		}
	}
}

// A client cannot use the header that carries tickets: plain calls do not see it, and calls of
// tasks have their own.
func TestTicketHeaderOfClientIsDropped(t *testing.T) {
	s, tasks := attach(t)
	mcp.AddTool(s, &mcp.Tool{Name: "header"}, func(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		return textResult(strings.Join(req.Extra.Header.Values("Mcpwire-Ticket"), " ")), nil, nil
	})
	web := httptest.NewServer(tasks.Handler(nil))
	t.Cleanup(web.Close)
	const forged = "forged"
	transport := &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header["mcpwire-TICKET"] = []string{forged}
		return http.DefaultTransport.RoundTrip(r)
	})}}
	c, err := gosdk.Connect(t.Context(), newClient(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	plain, err := c.Session.CallTool(t.Context(), &mcp.CallToolParams{Name: "header", Arguments: map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(plain); got != "" {
		t.Errorf("a plain call has the header %q", got)
	}
	if got, err := callTask(t, c, "header"); err != nil || strings.Contains(got, forged) {
		t.Errorf("a task has the header %q, %v", got, err)
	}
}

type roundTripFunc func(r *http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A client whose transport logs its messages is one over HTTP.
func TestClientOverLoggingTransport(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Which colour?", RequestedSchema: json.RawMessage(`{"type":"object"}`)})
			if err != nil {
				return nil, err
			}
			return textResult(r.Content["colour"].(string)), nil
		})
		web := httptest.NewServer(tasks.Handler(nil))
		defer web.Close()
		var over mcp.Transport = &mcp.StreamableClientTransport{Endpoint: web.URL}
		for range 2 {
			over = &mcp.LoggingTransport{Transport: over, Writer: io.Discard}
		}
		c, err := gosdk.Connect(t.Context(), newClient(), over, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, err := callTask(t, c, "ask"); err != nil || got != "blue" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// tokenTransport is a transport whose messages carry the token of the user of the connection, as
// those of Streamable HTTP do.
type tokenTransport struct {
	mcp.Transport
	user string
}

func (t tokenTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return tokenConn{c, t.user}, err
}

type tokenConn struct {
	mcp.Connection
	user string
}

func (c tokenConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok {
		r.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: c.user, Scopes: []string{"read"}}, Header: http.Header{"X-User": {c.user}}}
	}
	return m, err
}

func TestTransportPassesTokens(t *testing.T) {
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: "user", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			token := req.Extra.TokenInfo
			return textResult(strings.Join([]string{embed.Principal(ctx), token.UserID, token.Scopes[0], req.Extra.Header.Get("X-User")}, " ")), nil
		})
		connect := func(user string) *gosdk.Client {
			server, client := mcp.NewInMemoryTransports()
			if _, err := s.Connect(t.Context(), tasks.Transport(tokenTransport{server, user}), nil); err != nil {
				t.Fatal(err)
			}
			c, err := gosdk.Connect(t.Context(), newClient(), client, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		alice, bob := connect("alice"), connect("bob")
		h, err := alice.CallTool(t.Context(), &mcp.CallToolParams{Name: "user", Arguments: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := h.Result(t.Context()); err != nil || textOf(r) != "alice alice read alice" {
			t.Errorf("got %q, %v", textOf(r), err)
		}
		if r, err := bob.AttachTool(h.ID()).Result(t.Context()); err == nil {
			t.Errorf("another user got %q", textOf(r))
		}
	})
}

// The SDK does not decode the name in the header of a request.
func TestNamesInAllScripts(t *testing.T) {
	const name = "größe 尺寸"
	eachRevision(t, func(t *testing.T, version string) {
		s, tasks := attach(t)
		s.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return textResult("done"), nil
		})
		s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "done"}, nil
		})
		web := httptest.NewServer(tasks.Handler(nil))
		defer web.Close()
		c, err := client.Dial(t.Context(), web.URL, &client.Options{Session: session.Options{Revisions: []wire.Revision{wire.Revision(version)}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		h, err := c.StartTool(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(t.Context()); err != nil || h.ID() == "" {
			t.Errorf("task %q: %v", h.ID(), err)
		}
		if _, err := c.GetPrompt(t.Context(), name, nil); err != nil {
			t.Error(err)
		}
	})
}

// stuckStore does not list its tasks before the context ends.
type stuckStore struct{ task.Store }

func (s stuckStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		<-ctx.Done()
		yield(task.Record{}, context.Cause(ctx))
	}
}

func TestPlainCallsNeedNoStore(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	tasks, err := gosdk.Attach(s, embed.Options{Tasks: task.Options{Store: stuckStore{memory.New()}}, Default: &embed.Tool{}})
	if err != nil {
		t.Fatal(err)
	}
	defer tasks.Close()
	s.AddTool(&mcp.Tool{Name: "ok", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return textResult("done"), nil
	})
	c := dial(t, tasks.Handler(nil), "2025-11-25")
	if r, err := c.Session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ok", Arguments: map[string]any{}}); err != nil || textOf(r) != "done" {
		t.Errorf("got %v, %v", r, err)
	}
}
