package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Sample asks the model of the client to continue a conversation (MCP sampling, "Creating Messages"). It fails with a
// [*session.CapabilityError] if the client has not declared what is asked of it, with an error that says what is wrong
// if tool calls and their results do not fit together, and with a [*jsonrpc.Error] if the client answers with one.
// Only ctx limits how long it waits.
func (c *Call) Sample(ctx context.Context, params *mcp.CreateMessageRequestParams) (*mcp.CreateMessageResult, error) {
	if err := checkConversation(params.Messages); err != nil {
		return nil, fmt.Errorf("server: invalid conversation: %w", err)
	}
	if err := c.maySample(params); err != nil {
		return nil, err
	}
	outcome, err := c.client().CreateMessage(ctx, params)
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.CreateMessageResult)
	if !ok || result.Validate(mcp.Revision20251125) != nil {
		return nil, fmt.Errorf("%w: it is no message", ErrAnswer)
	}
	return result, nil
}

// maySample refuses what the client has not declared, as far as that is known.
func (c *Call) maySample(params *mcp.CreateMessageRequestParams) error {
	client := c.capabilities()
	if client == nil {
		return nil
	}
	lacking := ""
	include := params.IncludeContext
	switch {
	case client.Sampling == nil:
		lacking = "sampling"
	case (params.Tools != nil || params.ToolChoice != nil) && client.Sampling.Tools == nil:
		lacking = "sampling.tools"
	case include != nil && *include != mcp.CreateMessageRequestParamsIncludeContextNone &&
		client.Sampling.Context == nil && c.Session().Revision() >= mcp.Revision20251125: // before, it was not declared
		lacking = "sampling.context"
	default:
		return nil
	}
	return &session.CapabilityError{Method: "sampling/createMessage", Capability: lacking, Revision: c.Session().Revision()}
}

// checkConversation refuses tool calls without their results right behind them, and results with anything else in
// their message (MCP sampling, "Message Constraints").
func checkConversation(messages []mcp.SamplingMessage) error {
	open := map[string]bool{} // tool calls of the message before
	for i, m := range messages {
		calls, results, others := map[string]bool{}, 0, 0
		for _, block := range m.Content.Items {
			switch b := block.(type) {
			case *mcp.ToolUseContent:
				if m.Role != mcp.RoleAssistant {
					return fmt.Errorf("message %d: a tool call that is not the assistant's", i)
				}
				calls[b.ID] = true
			case *mcp.ToolResultContent:
				results++
				if m.Role != mcp.RoleUser || !open[b.ToolUseID] {
					return fmt.Errorf("message %d: a result for no tool call in the message before: %q", i, b.ToolUseID)
				}
				delete(open, b.ToolUseID)
			default:
				others++
			}
		}
		if results > 0 && others > 0 {
			return fmt.Errorf("message %d: results of tools and other content", i)
		}
		for id := range open {
			return fmt.Errorf("message %d: no result for the tool call %q in the message before", i, id)
		}
		open = calls
	}
	if len(open) > 0 {
		return errors.New("the last message has tool calls without results")
	}
	return nil
}
