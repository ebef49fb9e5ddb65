// Package joinedtest tests clients of other SDKs whose tasks come from package joined, against a
// server of this module.
package joinedtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// Client is a connected client of another SDK. Its handlers accept elicitation with the colour
// blue, return the text forty-two for sampling, and have the root file:///here.
type Client interface {
	Call(ctx context.Context, tool string, meta map[string]any, o ...requestor.Option) (Handle, error)
	Invoke(ctx context.Context, tool string) (text string, err error)
	Plain(ctx context.Context, tool string) (text string, err error) // the call of the SDK
	Attach(id string, o ...requestor.Option) Handle
	List(ctx context.Context) iter.Seq2[mcp.Task, error]
	Close() error
}

// Handle is the handle of a task.
type Handle interface {
	ID() string
	Text(ctx context.Context) (text string, isError bool, err error) // of the result as a type of the SDK
	Raw(ctx context.Context) (json.RawMessage, error)
	Updates(ctx context.Context) iter.Seq2[mcp.Task, error]
	Progress(ctx context.Context) iter.Seq[session.Progress]
	Cancel(ctx context.Context) (mcp.Task, error)
}

// Endpoint is a way to reach the server. Either URL or the pipe is set.
type Endpoint struct {
	URL    string
	Reader io.ReadCloser
	Writer io.WriteCloser
}

// NewServer returns the server of the tests.
func NewServer() *server.Server {
	s := server.New("studio", "1", &server.Options{
		Tasks: task.Options{Store: memory.New(), Updates: task.Updates{Poll: minPoll}}, Session: session.Options{Limits: session.Limits{ProgressInterval: -1}, Principal: "ann"},
	})
	asTask := server.Tasks(receiver.Support{After: -1}) // a task at once, in revisions without sessions
	add := func(name string, f func(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error), o ...server.ToolOption) {
		server.AddTool(s, name, "", func(ctx context.Context, c *server.Call, _ struct{}) (*mcp.CallToolResult, error) { return f(ctx, c) }, o...)
	}
	add("plain", func(context.Context, *server.Call) (*mcp.CallToolResult, error) { return server.Text("plain"), nil })
	add("ask", ask) // not a task
	add("job", func(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
		for i := range 2 {
			if err := c.Progress(float64(i+1), 2, ""); err != nil {
				return nil, err
			}
		}
		return ask(ctx, c)
	}, asTask)
	add("only", func(context.Context, *server.Call) (*mcp.CallToolResult, error) { return server.Text("only"), nil },
		server.Tasks(receiver.Support{Mode: mcp.TaskSupportRequired, After: -1}))
	add("think", func(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
		r, err := c.Sample(ctx, &mcp.CreateMessageRequestParams{MaxTokens: 10, Messages: []mcp.SamplingMessage{{
			Role: mcp.RoleUser, Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: "how much?"}}},
		}}})
		if err != nil {
			return nil, err
		}
		return server.Text(r.Content.Items[0].(*mcp.TextContent).Text), nil
	}, asTask)
	add("where", func(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
		roots, err := c.Roots(ctx)
		if err != nil {
			return nil, err
		}
		return server.Text(roots[0].URI), nil
	}, asTask)
	add("meta", func(_ context.Context, c *server.Call) (*mcp.CallToolResult, error) {
		value, _ := c.Meta().Extra.Get("example.com/trace")
		return server.Text(string(value)), nil
	}, asTask)
	add("choose", choose, server.Durable())
	add("choose-early", func(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
		_, err := server.Step(ctx, c, "signal", func(context.Context) (bool, error) {
			run, _ := c.Task()
			return true, s.Signal(ctx, run.ID(), "go", "early")
		})
		if err != nil {
			return nil, err
		}
		return choose(ctx, c)
	}, server.Durable())
	add("fail-inside", func(context.Context, *server.Call) (*mcp.CallToolResult, error) { return nil, errors.New("no luck") }, asTask)
	add("fail", func(context.Context, *server.Call) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: -7, Message: "no way", Data: json.RawMessage(`{"why":1}`)}
	}, asTask)
	add("forever", func(ctx context.Context, _ *server.Call) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}, asTask)
	add("big", func(context.Context, *server.Call) (*mcp.CallToolResult, error) {
		r := server.Text("big")
		r.StructuredContent = json.RawMessage(BigContent)
		r.Extra.Set("example", json.RawMessage(`[1.0,{"b":1,"a":2}]`))
		return r, nil
	}, asTask)
	return s
}

// BigContent is the structured content of the tool big.
const BigContent = `{"n":12345678901234567890,"f":1.50}`

// minPoll is the poll interval of the server.
const minPoll = 100 * time.Millisecond

func ask(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
	var in struct {
		Colour string `json:"colour"`
	}
	action, err := server.Elicit(ctx, c, "which colour?", &in)
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprint(action, " ", in.Colour)), nil
}

// choose waits for the first of an answer, a signal and a time.
func choose(ctx context.Context, c *server.Call) (*mcp.CallToolResult, error) {
	asked := server.OnAnswer(func(ctx context.Context) (*mcp.CallToolResult, error) { return ask(ctx, c) })
	sent := server.OnSignal[string]("go")
	switch first, err := server.Select(ctx, c, "choice", asked, sent, server.After(time.Hour)); {
	case err != nil:
		return nil, err
	case first == asked:
		return asked.Value, nil
	case first == sent:
		return server.Text("signal " + sent.Value), nil
	}
	return server.Text("late"), nil
}

// Run tests a client over pipes in the stdio format and over HTTP, in revisions with and without
// sessions. Connect returns a client that is connected to the endpoint.
func Run(t *testing.T, connect func(t *testing.T, e Endpoint, revision mcp.Revision) Client) {
	for _, revision := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(fmt.Sprint(transport, " ", revision), func(t *testing.T) {
				s := NewServer()
				defer s.Close()
				if err := s.Err(); err != nil {
					t.Fatal(err)
				}
				RunClient(t, connect(t, serve(t, s, transport), revision), revision)
			})
		}
	}
}

// serve serves s and returns the endpoint.
func serve(t *testing.T, s *server.Server, transport string) Endpoint {
	if transport == "http" {
		handler, err := s.Handler(nil)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(handler)
		t.Cleanup(web.Close)
		return Endpoint{URL: web.URL}
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go s.Run(context.Background(), stdio.New(in, out, stdio.Options{})) // ends with the pipe
	return Endpoint{Reader: fromServer, Writer: toServer}
}

// RunClient tests a client that is connected to the server of [NewServer].
func RunClient(t *testing.T, c Client, revision mcp.Revision) {
	defer c.Close()
	ctx := t.Context()
	sessions := revision != mcp.Revision20260728
	call := func(t *testing.T, tool string, o ...requestor.Option) Handle {
		t.Helper()
		h, err := c.Call(ctx, tool, map[string]any{"example.com/trace": "a"}, o...)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	expect := func(t *testing.T, h Handle, want string, wantError bool) {
		t.Helper()
		if got, isError, err := h.Text(ctx); got != want || isError != wantError || err != nil {
			t.Errorf("got %q, %t, %v; want %q, %t", got, isError, err, want, wantError)
		}
	}
	t.Run("results", func(t *testing.T) {
		for _, row := range []struct {
			tool, want string
			isError    bool
		}{
			{"job", "accept blue", false}, {"think", "forty-two", false}, {"where", "file:///here", false},
			{"choose", "accept blue", false}, {"choose-early", "signal early", false},
			{"meta", `"a"`, false}, {"fail-inside", "no luck", true}, {"only", "only", false},
		} {
			h := call(t, row.tool)
			if h.ID() == "" {
				t.Errorf("%s is not a task", row.tool)
			}
			expect(t, h, row.want, row.isError)
		}
	})
	t.Run("plain calls", func(t *testing.T) {
		for tool, f := range map[string]func(context.Context, string) (string, error){"plain": c.Plain, "ask": c.Plain, "only": c.Invoke, "job": c.Invoke} {
			want := map[string]string{"plain": "plain", "ask": "accept blue", "only": "only", "job": "accept blue"}[tool]
			if got, err := f(ctx, tool); got != want || err != nil {
				t.Errorf("%s: got %q, %v", tool, got, err)
			}
		}
		if got, err := c.Invoke(ctx, "ask"); got != "accept blue" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("tool without tasks", func(t *testing.T) {
		h, err := c.Call(ctx, "plain", nil)
		if sessions {
			if !errors.Is(err, requestor.ErrNotAsTask) {
				t.Errorf("got %v", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.ID() != "" {
			t.Errorf("the call is task %q", h.ID())
		}
		expect(t, h, "plain", false)
	})
	t.Run("raw result", func(t *testing.T) {
		raw, err := call(t, "big").Raw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := codec.Member(raw, "structuredContent"); string(got) != BigContent {
			t.Errorf("got %s", got)
		}
		if got, _ := codec.Member(raw, "example"); string(got) != `[1.0,{"b":1,"a":2}]` {
			t.Errorf("got %s", got)
		}
	})
	t.Run("failed task", func(t *testing.T) {
		_, _, err := call(t, "fail").Text(ctx)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -7 || e.Message != "no way" || string(e.Data) != `{"why":1}` {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled task", func(t *testing.T) {
		h := call(t, "forever")
		if _, err := h.Cancel(ctx); err != nil {
			t.Error(err)
		}
		if _, _, err := h.Text(ctx); !errors.Is(err, task.ErrCancelled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("attached task", func(t *testing.T) {
		first := call(t, "job")
		h := c.Attach(first.ID())
		var states []mcp.TaskStatus
		for state, err := range h.Updates(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, state.Status)
		}
		if len(states) == 0 || states[len(states)-1] != mcp.TaskStatusCompleted {
			t.Errorf("states are %v", states)
		}
		expect(t, h, "accept blue", false)
		expect(t, first, "accept blue", false)
	})
	t.Run("unknown task", func(t *testing.T) {
		if _, _, err := c.Attach("unknown").Text(ctx); jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("got %v", err)
		}
	})
	if !sessions { // these have no progress of tasks, and no list
		return
	}
	t.Run("progress", func(t *testing.T) {
		h := call(t, "job", requestor.Progress())
		reports := make(chan []float64)
		go func() { // ends with the task
			var values []float64
			for p := range h.Progress(ctx) {
				values = append(values, p.Value)
			}
			reports <- values
		}()
		expect(t, h, "accept blue", false)
		if got := <-reports; len(got) == 0 || !slices.IsSorted(got) || got[len(got)-1] != 2 { // a report may replace an earlier one
			t.Errorf("got %v", got)
		}
	})
	t.Run("list", func(t *testing.T) {
		var ids []string
		for state, err := range c.List(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, state.TaskID)
		}
		if len(ids) < 8 {
			t.Errorf("the list has %d tasks", len(ids))
		}
	})
}
