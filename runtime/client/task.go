package client

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// withoutTasksExtension is sending middleware. It removes the Tasks extension, which revisions with
// sessions do not have, from initialize.
func (c *Client) withoutTasksExtension(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if p, ok := call.Params.(*mcp.InitializeRequestParams); ok && call.Method == mcp.MethodInitialize {
			own := *p
			own.Capabilities.Extensions = c.options.Features.Capabilities.Extensions
			call.Params = &own
		}
		return next(ctx, call)
	}
}

// watchTask subscribes to changes of a task.
func (c *Client) watchTask(id string, reported func(bool)) (stop func()) {
	return c.taskListener.Task(id, reported)
}

// cancelLate cancels a task that a server has created for a cancelled call.
func (c *Client) cancelLate(result json.RawMessage, err error) {
	requestor.Internals(boundary.Caller{}).CancelLate(c.session, result, err)
}
