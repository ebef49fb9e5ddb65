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

// SampleRequest is a conversation that a server asks a model of the host to continue (MCP sampling).
// The user may see, change and refuse both it and the answer.
type SampleRequest struct {
	Server mcp.Implementation // who asks
	*mcp.CreateMessageRequestParams
}

// Choice returns whether the model may, must or must not use tools; it may if the server does not say
// (MCP sampling, "Tool Choice Modes").
func (r *SampleRequest) Choice() mcp.ToolChoiceMode {
	if r.CreateMessageRequestParams == nil || r.ToolChoice == nil || r.ToolChoice.Mode == nil {
		return mcp.ToolChoiceModeAuto
	}
	return *r.ToolChoice.Mode
}

// codeRefused tells that the user has refused.
const codeRefused = -1

// CreateMessage answers sampling/createMessage.
func (q questions) CreateMessage(ctx context.Context, p *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	if q.c.options.Sample == nil {
		return nil, jsonrpc.MethodNotFound(mcp.MethodSamplingCreateMessage)
	}
	if (!q.c.options.SampleTools || !knowsTools(ctx)) && (p.Tools != nil || p.ToolChoice != nil) {
		return nil, jsonrpc.InvalidParams(errors.New("the client has not declared sampling.tools"))
	}
	if err := checkHistory(p.Messages); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if n := toolRounds(p.Messages); n >= q.c.options.MaxToolRounds && q.c.options.MaxToolRounds >= 0 {
		return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: fmt.Sprintf("limit of %d rounds of tool use reached", q.c.options.MaxToolRounds)}
	}
	server, err := q.c.server(ctx)
	if err == nil {
		err = q.c.admit()
	}
	if err != nil {
		return nil, err
	}
	r := &SampleRequest{server, p}
	result, err := q.c.options.Sample(ctx, r)
	switch {
	case errors.Is(err, ErrRefused):
		return nil, &jsonrpc.Error{Code: codeRefused, Message: "the user has refused"}
	case err != nil:
		return nil, err
	case result == nil:
		return nil, errors.New("client: the model has given no message")
	case result.Role != mcp.RoleUser && result.Role != mcp.RoleAssistant:
		return nil, fmt.Errorf("client: message of the model: role %q, want assistant", result.Role)
	case r.Choice() == mcp.ToolChoiceModeNone && len(toolUses(result.Content)) > 0:
		return nil, errors.New("client: the model has used a tool, against the tool choice")
	case r.Choice() == mcp.ToolChoiceModeRequired && len(toolUses(result.Content)) == 0:
		return nil, errors.New("client: the model has used no tool, against the tool choice")
	}
	return result, nil
}

// knowsTools reports whether the session's revision supports tools in sampling.
func knowsTools(ctx context.Context) bool {
	req, ok := session.FromContext(ctx)
	return !ok || req.Session == nil || req.Session.Revision() == mcp.Revision20251125
}

// checkHistory tells why messages are no conversation: each use of a tool has its result in the very
// next message, and in a message with results there is nothing else (MCP sampling, "Message Content
// Constraints").
func checkHistory(messages []mcp.SamplingMessage) error {
	open := map[string]bool{} // ids of the uses in the message before
	for i, m := range messages {
		results := 0
		for _, block := range m.Content.Items {
			r, ok := block.(*mcp.ToolResultContent)
			if !ok {
				continue
			}
			results++
			if !open[r.ToolUseID] {
				return fmt.Errorf("messages/%d: result of %q, which the message before does not use", i, r.ToolUseID)
			}
			delete(open, r.ToolUseID)
		}
		switch {
		case results > 0 && m.Role != mcp.RoleUser:
			return fmt.Errorf("messages/%d: results of tools from the %s", i, m.Role)
		case results > 0 && results < len(m.Content.Items):
			return fmt.Errorf("messages/%d: results of tools mixed with other content", i)
		case len(open) > 0:
			return missing(i, open)
		}
		for _, id := range toolUses(m.Content) {
			open[id] = true
		}
	}
	if len(open) > 0 {
		return missing(len(messages), open)
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

func missing(i int, open map[string]bool) error {
	return fmt.Errorf("messages/%d: no results of %q", i, slices.Sorted(maps.Keys(open)))
}

// toolUses returns the ids of the uses of tools in a message.
func toolUses(content mcp.SamplingContent) (ids []string) {
	for _, block := range content.Items {
		if use, ok := block.(*mcp.ToolUseContent); ok {
			ids = append(ids, use.ID)
		}
	}
	return ids
}

// PickModel returns the first of the models whose name has the first hint in it, or else the next hint;
// ok is false if no hint fits, and the priorities are to decide. Letter case does not matter (MCP
// sampling, "Model Hints").
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
