package task

import (
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// Move is a legal change of a task's status.
type Move struct {
	From, To mcp.TaskStatus
	Why      string // cause of the move, human-readable
}

// moves lists all legal moves. A task is created as working. No move leads out of completed, failed
// and cancelled.
var moves = [...]Move{
	{mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, "the work sends an input request"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCompleted, "the work returns a result"},
	{mcp.TaskStatusWorking, mcp.TaskStatusFailed, "the work fails"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCancelled, "the requestor cancels"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusWorking, "all input requests are answered"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, "the work returns a result"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusFailed, "the work fails"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCancelled, "the requestor cancels"},
}

// Moves returns all legal moves of a task (MCP tasks, "Task Status Lifecycle").
func Moves() []Move {
	list := moves
	return list[:]
}

// Legal reports whether a task may move from one status to another. It returns false for equal or
// unknown statuses.
func Legal(from, to mcp.TaskStatus) bool {
	for i := range moves {
		if moves[i].From == from && moves[i].To == to {
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
