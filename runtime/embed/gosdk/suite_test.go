//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and tasks serve them as long as the SDK has them

package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedtest"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// subject makes servers of the SDK with tasks.
var subject = embedtest.Subject{Name: "go-sdk", Serve: serve}

func TestMain(m *testing.M) { embedtest.Main(m, subject) }

func TestEmbedding(t *testing.T) { embedtest.Run(t, subject) }

// kills makes a longer run possible:
//
//	go test -run Killed -kills 1000
var kills = flag.Int("kills", 0, "how often TestServerIsKilled kills a process; 0 means a few times")

func TestServerIsKilled(t *testing.T) { embedtest.Killed(t, subject, embedtest.Options{Kills: *kills}) }

// serve makes a server.
func serve(f embedtest.Fixture) (*embedtest.Endpoint, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "fixture", Version: "1"}, nil)
	tasks, err := gosdk.Attach(s, f.Options)
	if err != nil {
		return nil, err
	}
	ending, end := context.WithCancel(context.Background()) // a session over HTTP does not end its plain calls
	for _, t := range f.Tools {
		run := func(ctx context.Context, c *caller) (*mcp.CallToolResult, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			defer context.AfterFunc(ending, func() { cancel(context.Cause(ending)) })()
			return run(ctx, t, c)
		}
		if t.Typed {
			mcp.AddTool(s, &mcp.Tool{Name: t.Name, Description: t.Description}, func(ctx context.Context, req *mcp.CallToolRequest, in named) (*mcp.CallToolResult, any, error) {
				arguments, err := json.Marshal(in)
				if err != nil {
					return nil, nil, err
				}
				result, err := run(ctx, &caller{req: req, arguments: arguments})
				return result, nil, err
			})
			continue
		}
		s.AddTool(&mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return run(ctx, &caller{req: req, arguments: req.Params.Arguments})
		})
	}
	handler := tasks.Handler(&mcp.StreamableHTTPOptions{PropagateRequestCancellation: true})
	if f.Tokens {
		handler = auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
			return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
		}, nil)(handler)
	}
	var mu sync.Mutex
	var sessions []*mcp.ServerSession
	connect := func(wrap func(mcp.Transport) mcp.Transport) (transport.Conn, error) {
		requests, input := io.Pipe()
		output, responses := io.Pipe()
		ss, err := s.Connect(context.Background(), wrap(&mcp.IOTransport{Reader: requests, Writer: responses}), nil)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		sessions = append(sessions, ss)
		return stdio.New(output, input, stdio.Options{}), nil
	}
	return &embedtest.Endpoint{
		Handler: handler,
		Connect: func() (transport.Conn, error) { return connect(tasks.Transport) },
		Bare: func() (transport.Conn, error) {
			return connect(func(t mcp.Transport) mcp.Transport { return t })
		},
		Stdio: func(ctx context.Context) error { return s.Run(ctx, tasks.Transport(&mcp.StdioTransport{})) },
		CloseSessions: func() {
			for ss := range s.Sessions() {
				go ss.Close() // ends with the handlers
			}
		},
		Manager: tasks.Manager,
		Close: func() error {
			err := tasks.Close()
			end()
			mu.Lock()
			defer mu.Unlock()
			for _, ss := range sessions {
				ss.Close()
			}
			return err
		},
	}, nil
}

// named are the arguments of typed tools.
type named struct {
	Name string `json:"name"`
}

// run runs a tool.
func run(ctx context.Context, t embedtest.Tool, c *caller) (*mcp.CallToolResult, error) {
	r, err := t.Run(ctx, c)
	if e, ok := errors.AsType[*wirerpc.Error](err); ok {
		return nil, &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	if err != nil {
		return nil, err
	}
	if r.Ask != nil {
		requests := mcp.InputRequestMap{}
		for key, message := range r.Ask {
			requests[key] = form(message)
		}
		return &mcp.CallToolResult{InputRequests: requests}, nil
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Text}}, StructuredContent: r.Structured, IsError: r.IsError}, nil
}

// form is a request for a form.
func form(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(embedtest.FormSchema)}
}

// caller is the Caller of a call.
type caller struct {
	embedtest.Steps
	req       *mcp.CallToolRequest
	arguments json.RawMessage
}

func (c *caller) Arguments() json.RawMessage { return c.arguments }

func (c *caller) User() string {
	if c.req.Extra == nil || c.req.Extra.TokenInfo == nil {
		return ""
	}
	return c.req.Extra.TokenInfo.UserID
}

func (c *caller) Progress(ctx context.Context, value float64, message string) error {
	token := c.req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: value, Total: 10, Message: message})
}

func (c *caller) ProgressWithToken(ctx context.Context, token string, value float64) error {
	return c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: value, Total: 10})
}

func (c *caller) Log(ctx context.Context, text string) error {
	return c.req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: text})
}

func (c *caller) Elicit(ctx context.Context, message string) (action, name string, err error) {
	r, err := c.req.Session.Elicit(ctx, form(message))
	if err != nil {
		return "", "", callError(err)
	}
	name, _ = r.Content["name"].(string)
	return r.Action, name, nil
}

func (c *caller) Sample(ctx context.Context, text string) (string, error) {
	r, err := c.req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	})
	if err != nil {
		return "", callError(err)
	}
	content, ok := r.Content.(*mcp.TextContent)
	if !ok {
		return "", errors.New("the response has no text")
	}
	return content.Text, nil
}

func (c *caller) Roots(ctx context.Context) (list []string, err error) {
	r, err := c.req.Session.ListRoots(ctx, nil)
	if err != nil {
		return nil, callError(err)
	}
	for _, root := range r.Roots {
		list = append(list, root.URI)
	}
	return list, nil
}

// callError returns the error of a request to the client, with its code.
func callError(err error) error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &wirerpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return err
}

func (c *caller) Responses() map[string]string {
	if c.req.Params.InputResponses == nil {
		return nil
	}
	responses := map[string]string{}
	for key, r := range c.req.Params.InputResponses {
		responses[key] = ""
		if e, ok := r.(*mcp.ElicitResult); ok && e.Action == "accept" {
			responses[key], _ = e.Content["name"].(string)
		}
	}
	return responses
}
