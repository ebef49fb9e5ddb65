package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// What a [Manager] answers with beside the errors of its [Store], perhaps wrapped.
var (
	// ErrExpired says that there was such a task, and its time has passed. It is also the cause
	// of the context of work that is still running then.
	ErrExpired = errors.New("task: expired")
	// ErrCancelled is the cause of the context of work whose task was cancelled.
	ErrCancelled = errors.New("task: cancelled")
	// ErrCursor says that a cursor is none, or belongs to somebody else.
	ErrCursor = errors.New("task: invalid cursor")
	// ErrTTL says that a requested lifetime is not a positive number of milliseconds.
	ErrTTL = errors.New("task: ttl must be a positive number of milliseconds")
)

// Codes of errors for which the specification has none.
const (
	// CodeCancelled is the outcome of a task that was cancelled. The Language Server Protocol
	// uses it for the same.
	CodeCancelled = -32800
	// CodeTooManyTasks, CodeTooManyBytes and CodeTooManyCalls refuse what would go beyond a
	// limit of the principal. The data of CodeTooManyCalls say when to try again.
	CodeTooManyTasks = -32060
	CodeTooManyBytes = -32061
	CodeTooManyCalls = -32062
)

// LimitError says that a request would go beyond a limit of its principal.
type LimitError struct {
	Code  int64 // CodeTooManyTasks, CodeTooManyBytes or CodeTooManyCalls
	Limit int64 // the limit: tasks, bytes, or calls per second
	// RetryAfter is when a call will be taken again; 0 unless the Code is CodeTooManyCalls.
	RetryAfter time.Duration
}

// Error says which limit it is.
func (e *LimitError) Error() string {
	switch e.Code {
	case CodeTooManyTasks:
		return fmt.Sprintf("task: limit of %d unfinished tasks is reached", e.Limit)
	case CodeTooManyBytes:
		return fmt.Sprintf("task: limit of %d stored bytes is reached", e.Limit)
	}
	return fmt.Sprintf("task: limit of %d task calls per second is reached, try again in %v", e.Limit, e.RetryAfter)
}

// WireError returns what the peer is told about an error of a [Manager] (MCP tasks, "Protocol
// Errors"). An error that is a fault of this side is an internal error without details.
func WireError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return e
	}
	if e, ok := errors.AsType[*LimitError](err); ok {
		wire := &jsonrpc.Error{Code: e.Code, Message: e.Error()}
		if e.RetryAfter > 0 {
			wire.Data = json.RawMessage(`{"retryAfter":` + strconv.FormatInt(e.RetryAfter.Milliseconds()+1, 10) + `}`)
		}
		return wire
	}
	if e, ok := errors.AsType[*MoveError](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("task is already over: its status is %s", e.From)}
	}
	for _, known := range []error{ErrNotFound, ErrExpired, ErrCursor, ErrTTL} {
		if errors.Is(err, known) {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: known.Error()}
		}
	}
	if errors.Is(err, ErrClosed) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the receiver of tasks is shutting down"}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: tasks are not available"}
}
