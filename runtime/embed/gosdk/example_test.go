package gosdk_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

type film struct {
	Title string `json:"title"`
}

// render is a handler as for any server made with the SDK.
func render(ctx context.Context, _ *mcp.CallToolRequest, in film) (*mcp.CallToolResult, any, error) {
	select {
	case <-time.After(time.Hour):
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Title + " is ready"}}}, nil, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// A server whose tool can be called as a task. The task survives a restart of the server.
func Example() {
	s := mcp.NewServer(&mcp.Implementation{Name: "studio", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "render", Description: "Renders a film."}, render)
	tasks, err := gosdk.Attach(s, embed.Options{Tasks: task.Options{Store: bolt.File("tasks.db")}, Tools: map[string]embed.Tool{"render": embed.Durable()}})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", tasks.Handler(nil)))
}

func ExampleTasks_Transport() {
	s := mcp.NewServer(&mcp.Implementation{Name: "studio", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "render", Description: "Renders a film."}, render)
	tasks, err := gosdk.Attach(s, embed.Options{Tasks: task.Options{Store: bolt.File("tasks.db")}, Tools: map[string]embed.Tool{"render": embed.Durable()}})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Run(context.Background(), tasks.Transport(&mcp.StdioTransport{})); err != nil {
		log.Fatal(err)
	}
}
