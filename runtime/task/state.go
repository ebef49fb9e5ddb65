package task

import (
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// move is a legal change of a task's status.
type move struct {
	from, to mcp.TaskStatus
	why      string // cause of the move, human-readable
}

// moves lists all legal moves (MCP tasks, "Task Status Lifecycle"). A task is
// created as working. No move leads out of completed, failed and cancelled.
var moves = [...]move{
	{mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, "the work sends an input request"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCompleted, "the work returns a result"},
	{mcp.TaskStatusWorking, mcp.TaskStatusFailed, "the work fails"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCancelled, "the requestor cancels"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusWorking, "all input requests are answered"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, "the work returns a result"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusFailed, "the work fails"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCancelled, "the requestor cancels"},
}

// legal reports whether a task may move from one status to another. It returns false for equal or
// unknown statuses.
func legal(from, to mcp.TaskStatus) bool {
	for i := range moves {
		if moves[i].from == from && moves[i].to == to {
			return true
		}
	}
	return false
}

// Terminal reports whether a status is terminal: completed, failed or cancelled.
func Terminal(s mcp.TaskStatus) bool {
	switch s {
	case mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled:
		return true
	}
	return false
}

// MoveError reports an illegal move of a task.
type MoveError struct{ From, To mcp.TaskStatus }

// Error returns a text with both statuses.
func (e *MoveError) Error() string {
	return fmt.Sprintf("task: no move from %s to %s", e.From, e.To)
}
