package mcpgo_test

import (
	"context"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/mcpgo"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// The client and the server are both of mcp-go, and both have tasks.
func TestClientCallsTasksInProcess(t *testing.T) {
	for _, revision := range []wire.Revision{wire.Revision20251125, wire.Revision20260728} {
		t.Run(string(revision), func(t *testing.T) {
			s := server.NewMCPServer("s", "1", server.WithElicitation())
			s.AddTool(mcp.NewTool("job"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				r, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
					Message: "which colour?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"colour": map[string]any{"type": "string"}}},
				}})
				if err != nil {
					return nil, err
				}
				content, _ := r.Content.(map[string]any)
				return mcp.NewToolResultText(string(r.Action) + " " + content["colour"].(string)), nil
			})
			tasks, err := mcpgo.Attach(s, embed.Options{
				Tasks: task.Options{Store: memory.New(), Updates: task.Updates{Poll: 100 * time.Millisecond}},
				Tools: map[string]embed.Tool{"job": {Support: receiver.Support{After: -1}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer tasks.Close()
			c := connect(t, tasks.InProcess(transport.WithElicitationHandler(answers{})), string(revision), mcp.ClientCapabilities{})
			h, err := c.CallTool(t.Context(), callOf("job", nil))
			if err != nil {
				t.Fatal(err)
			}
			if h.ID() == "" {
				t.Error("the call is not a task")
			}
			if got, _, err := (testHandle{h}).Text(t.Context()); got != "accept blue" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
