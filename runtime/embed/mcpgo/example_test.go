package mcpgo_test

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// render is a handler as for any server made with mcp-go.
func render(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	select {
	case <-time.After(time.Hour):
		return mcp.NewToolResultText(request.GetString("film", "") + " is ready"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A server whose tool can be called as a task. The task survives a restart of the server.
func Example() {
	s := server.NewMCPServer("studio", "1")
	s.AddTool(mcp.NewTool("render", mcp.WithDescription("Renders a film."), mcp.WithString("film")), render)
	tasks, err := mcpgo.Attach(s, embed.Options{Tasks: task.Options{Store: bolt.File("tasks.db")}, Tools: map[string]embed.Tool{"render": embed.Durable()}})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", tasks.Handler(server.NewStreamableHTTPServer(s))))
}

func ExampleTasks_ServeStdio() {
	s := server.NewMCPServer("studio", "1")
	s.AddTool(mcp.NewTool("render", mcp.WithString("film")), render)
	tasks, err := mcpgo.Attach(s, embed.Options{Tasks: task.Options{Store: bolt.File("tasks.db")}, Tools: map[string]embed.Tool{"render": embed.Durable()}})
	if err != nil {
		log.Fatal(err)
	}
	if err := tasks.ServeStdio(context.Background(), server.NewStdioServer(s), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}
