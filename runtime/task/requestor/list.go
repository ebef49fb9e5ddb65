package requestor

import (
	"context"
	"iter"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// List goes over the tasks that the peer of a session has for this side, page by page as they are
// wanted (MCP tasks, "Task Listing"). An error ends it.
func List(ctx context.Context, s *session.Session) iter.Seq2[mcp.Task, error] {
	return func(yield func(mcp.Task, error) bool) {
		for q := new(mcp.PaginatedRequestParams); ; {
			page, err := peer(s).ListTasks(ctx, q)
			if err != nil {
				yield(mcp.Task{}, err)
				return
			}
			for _, t := range page.Tasks {
				if !yield(t, nil) {
					return
				}
			}
			if page.NextCursor == nil {
				return
			}
			q.Cursor = page.NextCursor
		}
	}
}
