package task

import (
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// Move is one step that a task may take.
type Move struct {
	From, To mcp.TaskStatus
	Why      string // what leads to it, for people
}

// moves is every legal step, and the one place that says so. A task starts as working;
// nothing leads out of completed, failed and cancelled.
var moves = [...]Move{
	{mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, "the work asks the requestor"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCompleted, "the work ends with a result"},
	{mcp.TaskStatusWorking, mcp.TaskStatusFailed, "the work ends with an error"},
	{mcp.TaskStatusWorking, mcp.TaskStatusCancelled, "the requestor cancels"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusWorking, "all answers are there"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted, "the work ends with a result"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusFailed, "the work ends with an error"},
	{mcp.TaskStatusInputRequired, mcp.TaskStatusCancelled, "the requestor cancels"},
}

// Moves returns every legal step of a task's life (MCP tasks, "Task Status Lifecycle").
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

// MoveError reports an illegal move of a task from one status to another.
type MoveError struct{ From, To mcp.TaskStatus }

// Error names both.
func (e *MoveError) Error() string {
	return fmt.Sprintf("task: no move from %s to %s", e.From, e.To)
}
