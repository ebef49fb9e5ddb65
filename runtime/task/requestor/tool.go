package requestor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// ErrNotAsTask is returned if a tool does not support tasks. Nothing was sent.
var ErrNotAsTask = errors.New("requestor: tool does not support tasks")

// Tool makes [Tasks.CallTool] respect the task support that tool declares in tools/list. If it does
// not support tasks, the call fails with [ErrNotAsTask] (MCP tasks, "Tool-Level Negotiation").
func Tool(tool *mcp.Tool) Option { return func(o *options) { o.tool = tool } }

// Invoke calls a tool and waits for the result. It calls the tool as a task if tool requires that
// in tools/list and the server declares tasks for tools/call. Otherwise it makes a plain call (MCP
// tasks, "Tool-Level Negotiation"). If ctx ends first, the call and the task are cancelled; see
// [Handle.ResultOrCancel].
func (t *Tasks) Invoke(ctx context.Context, s *session.Session, tool *mcp.Tool, p *mcp.CallToolRequestParams, opts ...Option) (*mcp.CallToolResult, error) {
	if s.Traits().TasksByServer || taskSupport(tool) == mcp.TaskSupportRequired && s.Internals(boundary.Caller{}).PeerTakesTask(mcp.MethodToolsCall) {
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
		return nil, fmt.Errorf("requestor: invoke: plain call of %q returned %T", p.Name, outcome)
	}
	return result, nil
}

func taskSupport(tool *mcp.Tool) mcp.TaskSupport {
	if tool == nil || tool.Execution == nil || tool.Execution.TaskSupport == nil {
		return mcp.TaskSupportForbidden
	}
	return *tool.Execution.TaskSupport
}

// asTask reports whether the tool may be called as a task. It returns true if the tool is unknown.
func (o *options) asTask() bool {
	if o.tool == nil {
		return true
	}
	support := taskSupport(o.tool)
	return support == mcp.TaskSupportOptional || support == mcp.TaskSupportRequired
}
