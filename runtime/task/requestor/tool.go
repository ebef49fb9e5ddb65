package requestor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// ErrNotAsTask says that a tool cannot be called as a task. Nothing was sent.
var ErrNotAsTask = errors.New("requestor: the tool cannot be called as a task")

// Tool makes [Tasks.CallTool] keep to what a tool says of itself in tools/list: where that does not
// let it be called as a task, the call fails with [ErrNotAsTask] (MCP tasks, "Tool-Level
// Negotiation").
func Tool(tool *mcp.Tool) Option { return func(o *options) { o.tool = tool } }

// Invoke calls a tool in the way that it asks for in tools/list, and waits for the result: as a task
// if it must be one and the server runs tools as tasks, else plainly (MCP tasks, "Tool-Level
// Negotiation"). If ctx ends first the call is cancelled, and so is the task; see [Handle.ResultOrCancel].
func (t *Tasks) Invoke(ctx context.Context, s *session.Session, tool *mcp.Tool, p *mcp.CallToolRequestParams, opts ...Option) (*mcp.CallToolResult, error) {
	if taskSupport(tool) == mcp.ToolExecutionTaskSupportRequired && s.PeerTakesTask(mcp.MethodToolsCall) {
		h, err := t.CallTool(ctx, s, p, opts...)
		if err != nil {
			return nil, err
		}
		return h.ResultOrCancel(ctx)
	}
	q := *p
	q.Task = nil
	outcome, err := mcp.ToServer{Caller: s}.CallTool(ctx, &q)
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.CallToolResult)
	if !ok {
		return nil, fmt.Errorf("requestor: a plain call of %s was answered with a %T", p.Name, outcome)
	}
	return result, nil
}

func taskSupport(tool *mcp.Tool) mcp.ToolExecutionTaskSupport {
	if tool == nil || tool.Execution == nil || tool.Execution.TaskSupport == nil {
		return mcp.ToolExecutionTaskSupportForbidden
	}
	return *tool.Execution.TaskSupport
}

// asTask reports whether a tool may be called as a task, as far as is known.
func (o *options) asTask() bool {
	if o.tool == nil {
		return true
	}
	support := taskSupport(o.tool)
	return support == mcp.ToolExecutionTaskSupportOptional || support == mcp.ToolExecutionTaskSupportRequired
}
