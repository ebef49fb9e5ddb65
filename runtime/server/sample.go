package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// Sample asks the model of the client to continue a conversation (MCP sampling, "Creating Messages"). It fails with a
// [*session.CapabilityError] if the client has not declared what is asked of it, with an error that says what is wrong
// if tool calls and their results do not fit together, with [ErrToolRounds] after [Config.MaxToolRounds] rounds of tool
// calls, with [session.ErrTimeout] after [Config.InputTimeout], and with a [*jsonrpc.Error] if the client answers with
// one.
func (c *Call) Sample(ctx context.Context, params *mcp.CreateMessageRequestParams) (*mcp.CreateMessageResult, error) {
	if err := c.maySend(params); err != nil {
		return nil, err
	}
	outcome, err := c.client().CreateMessage(ctx, c.projectSampling(params))
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.CreateMessageResult)
	if !ok || result.Validate(latest()) != nil {
		return nil, fmt.Errorf("%w: it is no message", ErrAnswer)
	}
	return result, nil
}

// SampleTask asks the model of the client as [Call.Sample] does, as a task of the client: it returns once the client has
// created the task, and the message is awaited by Result of the handle, for as long as the client keeps the task. It
// fails with a [*session.CapabilityError] if the client does not run sampling as tasks.
func (c *Call) SampleTask(ctx context.Context, params *mcp.CreateMessageRequestParams, options ...requestor.Option) (*requestor.Handle[*mcp.CreateMessageResult], error) {
	if err := c.maySend(params); err != nil {
		return nil, err
	}
	open, err := c.taskSession(mcp.MethodSamplingCreateMessage, "tasks.requests.sampling.createMessage")
	if err != nil {
		return nil, err
	}
	return c.p.s.clientTasks.CreateMessage(ctx, open, params, options...)
}

// projectSampling converts a conversation for the revision of the session. In older revisions, a
// message has one block: a message with several blocks becomes several messages.
func (c *Call) projectSampling(params *mcp.CreateMessageRequestParams) *mcp.CreateMessageRequestParams {
	if c.Session() == nil || c.Session().Revision().Defines("SamplingMessageContentBlock") {
		return params
	}
	out := *params
	out.Messages = []mcp.SamplingMessage{}
	for _, m := range params.Messages {
		for _, block := range m.Content.Items {
			if content, ok := block.(mcp.ContentBlock); ok {
				if old, ok := projectBlock(c.Session().Revision(), content).(mcp.SamplingMessageContentBlock); ok {
					block = old
				}
			}
			one := m
			one.Meta, one.Content = nil, mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{block}}
			out.Messages = append(out.Messages, one)
		}
	}
	return &out
}

// taskSession returns the session for a request that asks the client to create a task for a method.
func (c *Call) taskSession(method, capability string) (*session.Session, error) {
	open := c.Session()
	if open == nil {
		return nil, session.ErrClosed
	}
	if !open.PeerTakesTask(method) {
		return nil, &session.CapabilityError{Method: method, Capability: capability, Revision: open.Revision()}
	}
	c.p.asksForTasks.Store(true)
	return open, nil
}

// ErrToolRounds reports that a conversation has more rounds of tool calls than
// [Config.MaxToolRounds].
var ErrToolRounds = errors.New("server: the conversation has too many rounds of tool calls")

// maySend refuses a conversation that is not valid, or that needs a capability that the client has
// not declared.
func (c *Call) maySend(params *mcp.CreateMessageRequestParams) error {
	if params == nil {
		return errors.New("server: nil params of a sampling")
	}
	if err := checkConversation(params.Messages); err != nil {
		return fmt.Errorf("server: invalid conversation: %w", err)
	}
	if limit := c.p.s.cfg.MaxToolRounds; limit > 0 && toolRounds(params.Messages) > limit {
		return fmt.Errorf("%w: the limit is %d", ErrToolRounds, limit)
	}
	return c.maySample(params)
}

// toolRounds counts the messages with tool calls since the last user message that is not a tool
// result.
func toolRounds(messages []mcp.SamplingMessage) (n int) {
	for _, m := range messages {
		calls, results := false, false
		for _, block := range m.Content.Items {
			switch block.(type) {
			case *mcp.ToolUseContent:
				calls = true
			case *mcp.ToolResultContent:
				results = true
			}
		}
		switch {
		case calls:
			n++
		case m.Role == mcp.RoleUser && !results:
			n = 0
		}
	}
	return n
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
	case include != nil && *include != mcp.IncludeContextNone &&
		client.Sampling.Context == nil && c.Session().Revision() >= mcp.Revision20251125: // before, it was not declared
		lacking = "sampling.context"
	default:
		return nil
	}
	return &session.CapabilityError{Method: mcp.MethodSamplingCreateMessage, Capability: lacking, Revision: c.Session().Revision()}
}

// checkConversation refuses tool calls without their results right behind them, and results with anything else in
// their message (MCP sampling, "Message Constraints").
func checkConversation(messages []mcp.SamplingMessage) error {
	open := map[string]bool{} // tool calls of the message before
	for i, m := range messages {
		if m.Role != mcp.RoleUser && m.Role != mcp.RoleAssistant {
			return fmt.Errorf("message %d: role %q, want user or assistant", i, m.Role)
		}
		calls, results, others := map[string]bool{}, 0, 0
		for _, block := range m.Content.Items {
			if isNil(block) {
				return fmt.Errorf("message %d: it has nil content", i)
			}
			switch b := block.(type) {
			case *mcp.ToolUseContent:
				if m.Role != mcp.RoleAssistant {
					return fmt.Errorf("message %d: a tool call that is not the assistant's", i)
				}
				if calls[b.ID] {
					return fmt.Errorf("message %d: two tool calls have the id %q", i, b.ID)
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
				if content, ok := block.(mcp.ContentBlock); ok {
					if err := checkBlock(content); err != nil {
						return fmt.Errorf("message %d: %w", i, err)
					}
				}
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
