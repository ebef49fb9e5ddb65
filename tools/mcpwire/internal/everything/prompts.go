package everything

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// addPrompts adds all kinds of prompts.
func addPrompts(s *server.Server) error {
	_, err := s.AddPrompt(mcp.Prompt{Name: "test_simple_prompt", Description: new("Asks for a test.")},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return server.Messages(server.UserText("Please test this.")), nil
		})
	_, err2 := s.AddPrompt(mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: new("Asks about two places."),
		Arguments: []mcp.PromptArgument{{Name: "arg1", Description: new("the first place"), Required: new(true)}, {Name: "arg2", Description: new("the second place"), Required: new(true)}},
	}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return server.Messages(server.UserText(fmt.Sprintf("What is the way from %s to %s?", args["arg1"], args["arg2"]))), nil
	}, server.Complete("arg1", server.OneOf("Paris", "Parma", "Prague")), server.Complete("arg2", elsewhere))
	_, err3 := s.AddPrompt(mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: new("Asks about a resource."),
		Arguments: []mcp.PromptArgument{{Name: "resourceUri", Description: new("the resource"), Required: new(true)}},
	}, func(_ context.Context, _ *server.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		return server.Messages(
			mcp.PromptMessage{Role: mcp.RoleUser, Content: embedded(args["resourceUri"], "text/plain", "A text inside of a prompt.")},
			server.UserText("Please sum up this text."),
		), nil
	})
	_, err4 := s.AddPrompt(mcp.Prompt{Name: "test_prompt_with_image", Description: new("Asks about a picture.")},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return server.Messages(mcp.PromptMessage{Role: mcp.RoleUser, Content: picture()}, server.UserText("What is on this picture?")), nil
		})
	return errors.Join(err, err2, err3, err4)
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
