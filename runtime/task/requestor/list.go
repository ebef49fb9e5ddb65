package requestor

import (
	"context"
	"fmt"
	"iter"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// List iterates over the tasks that the peer of a session runs for this side (MCP tasks, "Task
// Listing"). It requests pages as needed. Iteration stops at the first error. Cursors that lead
// back to an earlier page and lists of more than 10,000 pages are errors.
func List(ctx context.Context, s *session.Session) iter.Seq2[mcp.Task, error] {
	return func(yield func(mcp.Task, error) bool) {
		var cursors methods.Cursors
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
			more, err := cursors.Next(page.NextCursor)
			if err != nil {
				yield(mcp.Task{}, fmt.Errorf("requestor: tasks/list: %w", err))
				return
			}
			if !more {
				return
			}
			q.Cursor = page.NextCursor
		}
	}
}
