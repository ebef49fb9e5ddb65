package everything

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// ScopeWrite is the scope of the tools that change the server, if it demands authorization.
const ScopeWrite = "write"

// addChanging adds tools that change the lists of the server, and one that logs.
func addChanging(s *server.Server) {
	server.AddTool(s, "test_logging_tool", "Logs a message.", func(ctx context.Context, c *server.Call, _ none) (string, error) {
		return "A message was logged, if the client asked for it.", c.Log(ctx, mcp.LoggingLevelInfo, "everything", "At work.")
	})
	var changes atomic.Int64
	description := func() *string { return new(fmt.Sprintf("Is changed by a tool. Changes: %d.", changes.Add(1))) }
	tool := server.AddTool(s, "changing_tool", "Is changed by a tool.", func(context.Context, *server.Call, none) (string, error) {
		return fmt.Sprintf("Changes: %d.", changes.Load()), nil
	})
	prompt := server.AddPrompt(s, "changing_prompt", "Is changed by a tool.", func(context.Context, *server.Call, map[string]string) (string, error) {
		return "Please test this.", nil
	})
	server.AddTool(s, "test_trigger_tool_change", "Changes the description of a tool.", func(context.Context, *server.Call, none) (string, error) {
		return "Changed.", tool.Change(func(t *mcp.Tool) { t.Description = description() })
	}, server.RequireScopes(ScopeWrite))
	server.AddTool(s, "test_trigger_prompt_change", "Changes the description of a prompt.", func(context.Context, *server.Call, none) (string, error) {
		return "Changed.", prompt.Change(func(p *mcp.Prompt) { p.Description = description() })
	}, server.RequireScopes(ScopeWrite))
}
