package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	mcpgosdk "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	official "github.com/modelcontextprotocol/go-sdk/mcp"

	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// embedOptions returns the options of servers of Go SDKs with tasks. Their tools are those of
// typescript/tasks-server.mjs and of newTaskServer.
func embedOptions() embed.Options {
	atOnce := embed.Tool{Support: receiver.Support{After: -1}}
	return embed.Options{
		List:  true,
		Tasks: task.Options{Store: memory.New(), TTL: task.TTL{Default: time.Minute}, Updates: task.Updates{Poll: 50 * time.Millisecond, Progress: -1}, Limits: task.Limits{PageSize: 2}},
		Tools: map[string]embed.Tool{
			"quick": {Support: receiver.Support{After: time.Minute}},
			"job":   {Support: receiver.Support{After: -1, Restartable: true}},
			"fail":  atOnce, "fail-inside": atOnce, "fail inside": atOnce, "forever": atOnce,
		},
	}
}

// embeddedServer is a server of a Go SDK with tasks.
type embeddedServer struct {
	handler http.Handler
	stdio   func(ctx context.Context) error
	close   func() error
}

// newOfficialTaskServer returns a server of the official Go SDK with tasks.
func newOfficialTaskServer() (*embeddedServer, error) {
	s := official.NewServer(&official.Implementation{Name: "official", Version: "1"}, nil)
	add := func(name string, f func(ctx context.Context, r *official.CallToolRequest) (string, error)) {
		s.AddTool(&official.Tool{Name: name, InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
			text, err := f(ctx, r)
			failed := errors.Is(err, errInside)
			if failed {
				text, err = err.Error(), nil
			}
			return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: text}}, IsError: failed}, err
		})
	}
	add("quick", func(context.Context, *official.CallToolRequest) (string, error) { return "quick", nil })
	add("job", func(ctx context.Context, r *official.CallToolRequest) (string, error) {
		for i := range 2 {
			err := r.Session.NotifyProgress(ctx, &official.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 2})
			if err != nil {
				return "", err
			}
		}
		first, err := embed.Step(ctx, "first", func(context.Context) (string, error) { return "one", nil })
		if err != nil {
			return "", err
		}
		answer, err := r.Session.Elicit(ctx, &official.ElicitParams{Message: "which colour?", RequestedSchema: askSchema("colour")})
		if err != nil {
			return "", err
		}
		if err := embed.Sleep(ctx, "nap", func() time.Time { return time.Now().Add(100 * time.Millisecond) }); err != nil {
			return "", err
		}
		return fmt.Sprint(first, " ", answer.Action, " ", answer.Content["colour"]), nil
	})
	inside := func(context.Context, *official.CallToolRequest) (string, error) { return "", errInside }
	add("fail-inside", inside)
	add("fail inside", inside)
	add("fail", func(context.Context, *official.CallToolRequest) (string, error) {
		return "", &jsonrpc.Error{Code: -32050, Message: "broken", Data: []byte(`{"part":7}`)}
	})
	add("forever", func(ctx context.Context, _ *official.CallToolRequest) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	add("think", func(ctx context.Context, r *official.CallToolRequest) (string, error) {
		result, err := r.Session.CreateMessage(ctx, &official.CreateMessageParams{MaxTokens: 10, Messages: []*official.SamplingMessage{{
			Role: "user", Content: &official.TextContent{Text: "how much?"},
		}}})
		if err != nil {
			return "", err
		}
		return result.Content.(*official.TextContent).Text, nil
	})
	tasks, err := gosdk.Attach(s, embedOptions())
	if err != nil {
		return nil, err
	}
	return &embeddedServer{
		tasks.Handler(nil), func(ctx context.Context) error { return s.Run(ctx, tasks.Transport(&official.StdioTransport{})) }, tasks.Close,
	}, nil
}

// newMCPGoTaskServer returns a server of mcp-go with tasks.
func newMCPGoTaskServer() (*embeddedServer, error) {
	s := mcpgoserver.NewMCPServer("mcp-go", "1", mcpgoserver.WithToolCapabilities(true), mcpgoserver.WithElicitation())
	s.EnableSampling()
	add := func(name string, f func(ctx context.Context, r mcpgosdk.CallToolRequest) (string, error)) {
		s.AddTool(mcpgosdk.NewTool(name), func(ctx context.Context, r mcpgosdk.CallToolRequest) (*mcpgosdk.CallToolResult, error) {
			text, err := f(ctx, r)
			if errors.Is(err, errInside) {
				return mcpgosdk.NewToolResultError(err.Error()), nil
			}
			return mcpgosdk.NewToolResultText(text), err
		})
	}
	add("quick", func(context.Context, mcpgosdk.CallToolRequest) (string, error) { return "quick", nil })
	add("job", func(ctx context.Context, r mcpgosdk.CallToolRequest) (string, error) {
		for i := range 2 {
			if r.Params.Meta == nil || r.Params.Meta.ProgressToken == nil {
				break
			}
			err := s.SendNotificationToClient(ctx, "notifications/progress", map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1, "total": 2})
			if err != nil {
				return "", err
			}
		}
		first, err := embed.Step(ctx, "first", func(context.Context) (string, error) { return "one", nil })
		if err != nil {
			return "", err
		}
		answer, err := s.RequestElicitation(ctx, mcpgosdk.ElicitationRequest{Params: mcpgosdk.ElicitationParams{Message: "which colour?", RequestedSchema: askSchema("colour")}})
		if err != nil {
			return "", err
		}
		if err := embed.Sleep(ctx, "nap", func() time.Time { return time.Now().Add(100 * time.Millisecond) }); err != nil {
			return "", err
		}
		content, _ := answer.Content.(map[string]any)
		return fmt.Sprint(first, " ", answer.Action, " ", content["colour"]), nil
	})
	inside := func(context.Context, mcpgosdk.CallToolRequest) (string, error) { return "", errInside }
	add("fail-inside", inside)
	add("fail inside", inside)
	add("fail", func(context.Context, mcpgosdk.CallToolRequest) (string, error) {
		return "", &wirerpc.Error{Code: -32050, Message: "broken", Data: []byte(`{"part":7}`)}
	})
	add("forever", func(ctx context.Context, _ mcpgosdk.CallToolRequest) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	add("think", func(ctx context.Context, _ mcpgosdk.CallToolRequest) (string, error) {
		result, err := s.RequestSampling(ctx, mcpgosdk.CreateMessageRequest{CreateMessageParams: mcpgosdk.CreateMessageParams{
			MaxTokens: 10, Messages: []mcpgosdk.SamplingMessage{{Role: mcpgosdk.RoleUser, Content: mcpgosdk.NewTextContent("how much?")}},
		}})
		if err != nil {
			return "", err
		}
		return mcpgosdk.GetTextFromContent(result.Content), nil
	})
	tasks, err := mcpgo.Attach(s, embedOptions())
	if err != nil {
		return nil, err
	}
	return &embeddedServer{
		tasks.Handler(mcpgoserver.NewStreamableHTTPServer(s)),
		func(ctx context.Context) error {
			return tasks.ServeStdio(ctx, mcpgoserver.NewStdioServer(s), os.Stdin, os.Stdout)
		}, tasks.Close,
	}, nil
}

// errInside is the error of a tool that fails inside.
var errInside = errors.New("no luck")
