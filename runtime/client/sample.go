package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// SampleRequest is a conversation that a server asks a model of the host to continue (MCP
// sampling). Let the user review, change and reject both the request and the response.
type SampleRequest struct {
	Server mcp.Implementation // the server that sent the request
	Choice mcp.ToolChoiceMode // whether the model may, must or must not use tools (MCP sampling, "Tool Choice Modes")
	*mcp.CreateMessageRequestParams
}

// codeRefused is the error code of requests that the user rejected.
const codeRefused = -1

// CreateMessage handles sampling/createMessage.
func (h requestHandler) CreateMessage(ctx context.Context, p *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	if h.c.options.Input.Sample == nil {
		return nil, jsonrpc.MethodNotFound(mcp.MethodSamplingCreateMessage)
	}
	if (!h.c.options.Input.SampleTools || !knowsTools(ctx)) && (p.Tools != nil || p.ToolChoice != nil) {
		return nil, jsonrpc.InvalidParams(errors.New("sampling.tools was not declared by the client"))
	}
	if err := checkHistory(p.Messages); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if n, limit := toolRounds(p.Messages), h.c.options.Limits.ToolRounds; limit > 0 && n >= limit {
		return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: fmt.Sprintf("limit of %d rounds of tool use reached", limit)}
	}
	server, err := h.c.server(ctx)
	if err == nil {
		err = h.c.admit()
	}
	if err != nil {
		return nil, err
	}
	r := &SampleRequest{server, mcp.ToolChoiceModeAuto, p}
	if p.ToolChoice != nil && p.ToolChoice.Mode != nil {
		r.Choice = *p.ToolChoice.Mode
	}
	result, err := h.c.options.Input.Sample(ctx, r)
	switch {
	case errors.Is(err, ErrRefused):
		return nil, &jsonrpc.Error{Code: codeRefused, Message: "rejected by the user"}
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errors.New("client: sampling: Sample returned no message")
	case result.Role != mcp.RoleUser && result.Role != mcp.RoleAssistant:
		return nil, fmt.Errorf("client: sampling: unknown role %q", result.Role)
	case r.Choice == mcp.ToolChoiceModeNone && len(toolUses(result.Content)) > 0:
		return nil, errors.New(`client: sampling: message uses a tool, but the tool choice is "none"`)
	case r.Choice == mcp.ToolChoiceModeRequired && len(toolUses(result.Content)) == 0:
		return nil, errors.New(`client: sampling: message uses no tool, but the tool choice is "required"`)
	}
	return result, nil
}

// knowsTools reports whether the session's revision supports tools in sampling.
func knowsTools(ctx context.Context) bool {
	req, ok := session.FromContext(ctx)
	return !ok || req.Session == nil || req.Session.Revision().Defines("ToolChoice")
}

// checkHistory returns an error if the messages are not a valid conversation. Every tool use needs
// its result in the next message, and a message with tool results must contain nothing else (MCP
// sampling, "Message Content Constraints").
func checkHistory(messages []mcp.SamplingMessage) error {
	open := map[string]bool{} // ids of the tool uses in the previous message
	for i, m := range messages {
		results := 0
		for _, block := range m.Content.Items {
			r, ok := block.(*mcp.ToolResultContent)
			if !ok {
				continue
			}
			results++
			if !open[r.ToolUseID] {
				return fmt.Errorf("messages/%d: tool result for %q without a tool use in the previous message", i, r.ToolUseID)
			}
			delete(open, r.ToolUseID)
		}
		switch {
		case results > 0 && m.Role != mcp.RoleUser:
			return fmt.Errorf("messages/%d: tool results with role %q, want user", i, m.Role)
		case results > 0 && results < len(m.Content.Items):
			return fmt.Errorf("messages/%d: tool results mixed with other content", i)
		case len(open) > 0:
			return missingResults(i, open)
		}
		for _, id := range toolUses(m.Content) {
			open[id] = true
		}
	}
	if len(open) > 0 {
		return missingResults(len(messages), open)
	}
	return nil
}

// toolRounds counts the messages that contain tool uses.
func toolRounds(messages []mcp.SamplingMessage) (n int) {
	for _, m := range messages {
		if len(toolUses(m.Content)) > 0 {
			n++
		}
	}
	return n
}

func missingResults(i int, open map[string]bool) error {
	return fmt.Errorf("messages/%d: no tool results for %q", i, slices.Sorted(maps.Keys(open)))
}

// toolUses returns the ids of the tool uses in a message.
func toolUses(content mcp.SamplingContent) (ids []string) {
	for _, block := range content.Items {
		if use, ok := block.(*mcp.ToolUseContent); ok {
			ids = append(ids, use.ID)
		}
	}
	return ids
}

// Say returns a message of a model with one text, for [Input].Sample. Model is the name of the
// model. The stop reason is endTurn.
func Say(model, text string) *mcp.CreateMessageResult {
	return &mcp.CreateMessageResult{
		Model: model, Role: mcp.RoleAssistant, StopReason: new("endTurn"),
		Content: mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{&mcp.TextContent{Text: text}}},
	}
}

// PickModel returns the first of the models whose name contains a hint of p. Earlier hints take
// precedence, and letter case is ignored. It returns false if no hint matches; then choose by the
// priorities in p (MCP sampling, "Model Hints").
func PickModel(p *mcp.ModelPreferences, models []string) (model string, ok bool) {
	if p == nil {
		return "", false
	}
	for _, hint := range p.Hints {
		if hint.Name == nil || *hint.Name == "" {
			continue
		}
		for _, model := range models {
			if strings.Contains(strings.ToLower(model), strings.ToLower(*hint.Name)) {
				return model, true
			}
		}
	}
	return "", false
}
