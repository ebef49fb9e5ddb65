package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// Sample has the model of the client continue a conversation (MCP sampling, "Creating Messages").
// It fails
//
//   - if the conversation is invalid, such as a tool call without a result,
//   - with a [*session.CapabilityError] if params need a capability that the client has not
//     declared,
//   - with an error if the conversation has more than [Limits.ToolRounds] rounds of tool
//     calls,
//   - with [session.ErrTimeout] after [Limits.InputTimeout],
//   - with an [*InputRequiredError] in revisions without sessions, until there is a response,
//   - with [ErrAnswer] if the client's response is not a valid message,
//   - and with a [*jsonrpc.Error] if the client responds with one.
func (c *Call) Sample(ctx context.Context, params *mcp.CreateMessageRequestParams) (*mcp.CreateMessageResult, error) {
	var outcome mcp.CreateMessageOutcome
	var err error
	if params != nil && c.replays() {
		outcome, err = c.sampleInResult(ctx, params)
	} else if err = c.checkSampling(params); err == nil {
		err = c.recording().Direct(ctx, mcp.MethodSamplingCreateMessage, func() (err error) {
			outcome, err = c.client().CreateMessage(ctx, c.projectSampling(params))
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.CreateMessageResult)
	if !ok || result.Validate(latest()) != nil {
		return nil, fmt.Errorf("%w: invalid message", ErrAnswer)
	}
	return result, nil
}

// sampleInResult sends a conversation in the result of a plain modern call.
func (c *Call) sampleInResult(ctx context.Context, params *mcp.CreateMessageRequestParams) (mcp.CreateMessageOutcome, error) {
	answer, err := c.ask(ctx, mcp.MethodSamplingCreateMessage, params, false, func() (mcp.InputRequest, error) {
		if err := c.checkSampling(params); err != nil {
			return nil, err
		}
		return &mcp.CreateMessageRequest{Params: *c.projectSampling(params)}, nil
	})
	if err != nil {
		return nil, err
	}
	return codec.UnmarshalFunc(answer, mcp.DecodeCreateMessageOutcome, codec.AllowSize(answer)...)
}

// SampleTask is [Call.Sample] as a task of the client. It returns once the client has created the
// task; Result of the handle waits for the message, for as long as the client keeps the task.
// SampleTask fails with a [*session.CapabilityError] if the client does not run sampling as tasks.
func (c *Call) SampleTask(ctx context.Context, params *mcp.CreateMessageRequestParams, options ...requestor.Option) (*requestor.Handle[*mcp.CreateMessageResult], error) {
	if err := c.checkSampling(params); err != nil {
		return nil, err
	}
	sess, err := c.taskSession(mcp.MethodSamplingCreateMessage, "tasks.requests.sampling.createMessage")
	if err != nil {
		return nil, err
	}
	return c.p.s.clientTasks.CreateMessage(ctx, sess, params, options...)
}

// projectSampling converts a conversation to the revision of the session. In older revisions, a
// message has one block: a message with several blocks becomes several messages.
func (c *Call) projectSampling(params *mcp.CreateMessageRequestParams) *mcp.CreateMessageRequestParams {
	if c.Session() == nil && !c.traits().InputInResults {
		return params
	}
	rev := c.Revision()
	if rev.Defines("SamplingMessageContentBlock") {
		return mcp.Project(rev, params)
	}
	out := *params
	out.Messages = []mcp.SamplingMessage{}
	for _, m := range params.Messages {
		for _, block := range m.Content.Items {
			if content, ok := block.(mcp.ContentBlock); ok {
				if old, ok := results.DescribeBlock(rev, content).(mcp.SamplingMessageContentBlock); ok {
					block = old
				}
			}
			one := m
			one.Content = mcp.SamplingContent{Items: []mcp.SamplingMessageContentBlock{block}}
			out.Messages = append(out.Messages, one)
		}
	}
	return mcp.Project(rev, &out)
}

// taskSession returns the session for a request that the client shall run as a task. It fails with
// a [*session.CapabilityError] if the client has not declared that for the method.
func (c *Call) taskSession(method, capability string) (*session.Session, error) {
	sess := c.Session()
	switch {
	case sess == nil && c.traits().InputInResults:
		return nil, &session.CapabilityError{Method: method, Revision: c.Revision()}
	case sess == nil:
		return nil, session.ErrClosed
	}
	if !sess.Internals(boundary.Caller{}).PeerTakesTask(method) {
		return nil, &session.CapabilityError{Method: method, Capability: capability, Revision: sess.Revision()}
	}
	c.p.requestsTasks.Store(true)
	if !c.p.s.asksForTasks.Swap(true) {
		c.p.s.features.Add(1)
	}
	return sess, nil
}

// checkSampling rejects invalid conversations, and those that need a capability the client has not
// declared.
func (c *Call) checkSampling(params *mcp.CreateMessageRequestParams) error {
	if params == nil {
		return errors.New("server: sample: nil params")
	}
	if err := checkConversation(params.Messages); err != nil {
		return fmt.Errorf("server: sample: invalid conversation: %w", err)
	}
	if limit := c.p.s.cfg.Limits.ToolRounds; limit > 0 && toolRounds(params.Messages) > limit {
		return fmt.Errorf("server: too many rounds of tool calls: the limit is %d", limit)
	}
	return c.checkSamplingCapability(params)
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

// checkSamplingCapability rejects params that need a capability the client has not declared. If the
// capabilities of the client are unknown, it returns nil.
func (c *Call) checkSamplingCapability(params *mcp.CreateMessageRequestParams) error {
	client := c.ClientCapabilities()
	if client == nil {
		return nil
	}
	missing := ""
	include := params.IncludeContext
	switch {
	case client.Sampling == nil:
		missing = "sampling"
	case (params.Tools != nil || params.ToolChoice != nil) && client.Sampling.Tools == nil:
		missing = "sampling.tools"
	case include != nil && *include != mcp.IncludeContextNone &&
		client.Sampling.Context == nil && c.Revision() >= mcp.Revision20251125: // older revisions do not define the capability
		missing = "sampling.context"
	default:
		return nil
	}
	return &session.CapabilityError{Method: mcp.MethodSamplingCreateMessage, Capability: missing, Revision: c.Revision()}
}

// checkConversation rejects tool calls whose results are not in the next message, and messages with
// tool results and other content (MCP sampling, "Message Constraints").
func checkConversation(messages []mcp.SamplingMessage) error {
	open := map[string]bool{} // tool calls of the previous message
	for i, m := range messages {
		if m.Role != mcp.RoleUser && m.Role != mcp.RoleAssistant {
			return fmt.Errorf("message %d: role %q, want user or assistant", i, m.Role)
		}
		calls, results, others := map[string]bool{}, 0, 0
		for _, block := range m.Content.Items {
			if isNil(block) {
				return fmt.Errorf("message %d: nil content", i)
			}
			switch b := block.(type) {
			case *mcp.ToolUseContent:
				if m.Role != mcp.RoleAssistant {
					return fmt.Errorf("message %d: role %q with a tool call, want assistant", i, m.Role)
				}
				if calls[b.ID] {
					return fmt.Errorf("message %d: duplicate tool call id %q", i, b.ID)
				}
				calls[b.ID] = true
			case *mcp.ToolResultContent:
				results++
				if m.Role != mcp.RoleUser {
					return fmt.Errorf("message %d: role %q with a tool result, want user", i, m.Role)
				}
				if !open[b.ToolUseID] {
					return fmt.Errorf("message %d: result for tool call %q, which is not in the previous message", i, b.ToolUseID)
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
			return fmt.Errorf("message %d: other content beside tool results", i)
		}
		for id := range open {
			return fmt.Errorf("message %d: no result for tool call %q of the previous message", i, id)
		}
		open = calls
	}
	if len(open) > 0 {
		return fmt.Errorf("message %d: tool calls without results", len(messages)-1)
	}
	return nil
}
