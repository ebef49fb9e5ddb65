package everything

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// addPrompts adds all kinds of prompts.
func addPrompts(s *server.Server) {
	server.AddPrompt(s, "test_simple_prompt", "Asks for a test.", func(context.Context, *server.Call, map[string]string) (string, error) {
		return "Please test this.", nil
	})
	server.AddPrompt(s, "test_prompt_with_arguments", "Asks about two places.", func(_ context.Context, _ *server.Call, args map[string]string) (string, error) {
		return fmt.Sprintf("What is the way from %s to %s?", args["arg1"], args["arg2"]), nil
	}, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Arguments = []mcp.PromptArgument{{Name: "arg1", Description: new("the first place"), Required: new(true)}, {Name: "arg2", Description: new("the second place"), Required: new(true)}}
	}), server.Complete("arg1", server.OneOf("Paris", "Parma", "Prague")), server.Complete("arg2", elsewhere))
	server.AddPrompt(s, "test_prompt_with_embedded_resource", "Asks about a resource.", func(_ context.Context, _ *server.Call, args map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{
			{Role: mcp.RoleUser, Content: embedded(args["resourceUri"], "text/plain", "A text inside of a prompt.")},
			server.UserText("Please sum up this text."),
		}, nil
	}, server.DefinePrompt(func(p *mcp.Prompt) {
		p.Arguments = []mcp.PromptArgument{{Name: "resourceUri", Description: new("the resource"), Required: new(true)}}
	}))
	server.AddPrompt(s, "test_prompt_with_image", "Asks about a picture.", func(context.Context, *server.Call, map[string]string) ([]mcp.PromptMessage, error) {
		return []mcp.PromptMessage{{Role: mcp.RoleUser, Content: picture()}, server.UserText("What is on this picture?")}, nil
	})
}

// elsewhere suggests all places other than the value of arg1.
func elsewhere(ctx context.Context, c *server.Call, value string, others map[string]string) ([]string, error) {
	places, err := server.OneOf("Paris", "Parma", "Prague")(ctx, c, value, others)
	var rest []string
	for _, p := range places {
		if p != others["arg1"] {
			rest = append(rest, p)
		}
	}
	return rest, err
}
