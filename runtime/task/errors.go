package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Errors of a [Manager], possibly wrapped. A Manager also returns the errors of its [Store].
var (
	// ErrExpired reports that the task existed and has expired. It is also the cause of the context
	// of the task's work after the expiry.
	ErrExpired = errors.New("task: expired")
	// ErrCancelled is the cause of the context of work whose task was cancelled.
	ErrCancelled = errors.New("task: cancelled")
	// ErrDoubtful reports that [Manager.Create] has failed and that it is unknown whether the store
	// has the task, because the store did not answer. The Manager fails the task as soon as the
	// store answers. Until then, or if the process ends before, the work may run: do not repeat the
	// request if that would do harm. Other errors of Create mean that the task does not exist.
	ErrDoubtful = errors.New("task: it is unknown whether the task was created")
)

// Errors of requests that the requestor has to change.
var (
	errCursor = errors.New("task: invalid cursor") // malformed, or of another principal
	errTTL    = errors.New("task: ttl must be a positive number of milliseconds")
	errToken  = fmt.Errorf("task: progress token is longer than %d bytes", maxToken)
)

// maxToken is the maximum length of the progress token of a task in bytes. Each change of a task
// writes the token.
const maxToken = 1024

// Error codes that the specification does not define. From revision 2026-07-28 on, -31060 to -31063
// are sent instead of -32060 to -32063, which these revisions reserve.
const (
	// CodeCancelled is the code of the outcome of a cancelled task. The Language Server Protocol
	// has the same code for cancelled requests.
	CodeCancelled = -32800
	// CodeTooManyTasks, CodeTooManyBytes and CodeTooManyCalls report that a limit of the principal
	// is reached. The data of CodeTooManyCalls has a member retryAfter, in milliseconds.
	// [WireError] adds the same member to some internal errors.
	CodeTooManyTasks = -32060
	CodeTooManyBytes = -32061
	CodeTooManyCalls = -32062
	// CodeDoubtful reports an [ErrDoubtful].
	CodeDoubtful = -32063
)

// doubtError is an ErrDoubtful with its cause, a storeError or errNotMember.
type doubtError struct {
	cause   error
	settled chan struct{}
}

// Settled returns a channel that is closed once the Manager has abandoned the task. For package
// receiver, which does not create another task for the same call before.
func (e *doubtError) Settled() <-chan struct{} { return e.settled }

func (e *doubtError) Error() string        { return fmt.Sprintf("%v: %v", ErrDoubtful, e.cause) }
func (e *doubtError) Unwrap() error        { return e.cause }
func (e *doubtError) Is(target error) bool { return target == ErrDoubtful }

// LimitError reports that a limit of the principal is reached, or that a task is too large for its
// [Store].
type LimitError struct {
	Code  int64 // CodeTooManyTasks, CodeTooManyBytes or CodeTooManyCalls
	Limit int64 // the limit: tasks, bytes, or calls per second
	// RetryAfter is the time after which a call is accepted again; 0 unless Code is
	// CodeTooManyCalls.
	RetryAfter time.Duration
}

// Error returns a text that names the limit.
func (e *LimitError) Error() string {
	switch e.Code {
	case CodeTooManyTasks:
		return fmt.Sprintf("task: limit of %d unfinished tasks is reached", e.Limit)
	case CodeTooManyBytes:
		return fmt.Sprintf("task: limit of %d stored bytes is reached", e.Limit)
	}
	return fmt.Sprintf("task: limit of %d task calls per second is reached, try again in %v", e.Limit, e.RetryAfter)
}

// missingError adds the id to an error that wraps [ErrNotFound] or [ErrExpired].
type missingError struct {
	id  string
	err error
}

// withID returns err with the id of the task, if err says that there is no such task.
func withID(id string, err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) {
		return &missingError{id, err}
	}
	return err
}

func (e *missingError) Unwrap() error { return e.err }

func (e *missingError) Error() string { return fmt.Sprintf("%v: %q", e.err, e.id) }

// message returns a text that does not tell whether the task belongs to another principal.
func (e *missingError) message() string {
	kind := ErrNotFound
	if errors.Is(e.err, ErrExpired) {
		kind = ErrExpired
	}
	return fmt.Sprintf("%v: %q", kind, boundary.Text(e.id, maxAuditedID)) // the peer chooses the id
}

// unavailableRetry is the time after which a peer may repeat a request that has failed because the
// store or the Manager was not available.
const unavailableRetry = time.Second

// WireError returns the JSON-RPC error that the peer receives for an error of a [Manager] (MCP
// tasks, "Protocol Errors"). Failures of the receiver become an internal error without details. Its
// data has a member retryAfter, a number of milliseconds, if the request may succeed later: the
// store has failed, or the Manager is closed. It is absent if the store has panicked or is corrupt,
// and if the [Request] has a mistake.
func WireError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return e
	}
	if errors.Is(err, ErrDoubtful) {
		return &jsonrpc.Error{Code: CodeDoubtful, Message: "it is unknown whether the task was created: it may have begun; it fails as soon as the store of the tasks answers"}
	}
	if e, ok := errors.AsType[*LimitError](err); ok {
		wire := &jsonrpc.Error{Code: e.Code, Message: e.Error()}
		if e.RetryAfter > 0 {
			wire.Data = retryAfter(e.RetryAfter + time.Millisecond)
		}
		return wire
	}
	if e, ok := errors.AsType[*MoveError](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("task is already terminal: its status is %s", e.From)}
	}
	if e, ok := errors.AsType[*missingError](err); ok {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: e.message()}
	}
	for _, known := range []error{ErrNotFound, ErrExpired, errCursor, errTTL, errToken} {
		if errors.Is(err, known) {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: known.Error()}
		}
	}
	wire := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: tasks are not available"}
	if errors.Is(err, ErrClosed) {
		wire.Message = "internal error: the receiver of tasks is shutting down"
	}
	_, panicked := errors.AsType[*boundary.Panic](err)
	_, mistake := errors.AsType[*requestError](err)
	_, journal := errors.AsType[*JournalError](err)
	switch {
	case mistake || journal:
		wire.Message = "internal error: the request cannot become a task"
	case !panicked && !errors.Is(err, ErrCorrupt):
		wire.Data = retryAfter(unavailableRetry)
	}
	return wire
}

// retryAfter returns the data of an error of a request that may succeed after d.
func retryAfter(d time.Duration) json.RawMessage {
	return json.RawMessage(`{"retryAfter":` + strconv.FormatInt(d.Milliseconds(), 10) + `}`)
}
