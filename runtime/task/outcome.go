package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// publish stores the outcome of a task, and tries again as long as the store fails. If the task
// is over already, or gone, the outcome is dropped.
func (m *Manager) publish(run *Run, result codec.Encoder, failure error) {
	run.hush()
	end := ended(run, result, failure)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := m.finish(run.id, end)
		if limit, ok := errors.AsType[*LimitError](err); ok {
			end = ended(run, nil, WireError(limit))
			continue
		}
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrClosed) {
			return
		}
		m.cfg.Logger.Error("outcome of a task not stored", "task", run.id, "error", err, "again in", wait)
		select {
		case <-time.After(wait):
		case <-m.life.Done():
			return
		}
	}
}

// finish writes an outcome into the record of a task, unless that is over.
func (m *Manager) finish(id string, end ending) error {
	for {
		r, err := m.store.Get(context.Background(), id)
		if err != nil {
			return m.fault("read task", err)
		}
		if r.over() {
			return nil
		}
		old := r
		r.end(end.status, end.message, end.out)
		if _, err = m.replace(context.Background(), &old, r); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// errShutDown is the outcome of work that the Manager has stopped and that cannot be resumed.
var errShutDown = errors.New("the receiver was shut down while the task was running")

// ending is how a task ends.
type ending struct {
	status  mcp.TaskStatus
	message string
	out     Outcome
}

// ended returns how the task of a run ends that has returned this.
func ended(run *Run, result codec.Encoder, failure error) ending {
	var out Outcome
	if failure == nil {
		out.Result, failure = encodeResult(result, run.id)
	}
	status, message := mcp.TaskStatusCompleted, ""
	if failure != nil {
		if run.ctx.Cause() == ErrClosed && (errors.Is(failure, context.Canceled) || errors.Is(failure, ErrClosed)) {
			failure = errShutDown
		}
		out.Error = asError(failure)
		status, message = mcp.TaskStatusFailed, out.Error.Message
	} else if text, isError := toolError(run.method, out.Result); isError {
		status, message = mcp.TaskStatusFailed, text
	}
	return ending{status, message, out}
}

// end writes an outcome into a record.
func (r *Record) end(status mcp.TaskStatus, message string, out Outcome) {
	r.close(status, shorten(message))
	r.Result, r.Error = out.Result, nil
	if out.Error != nil {
		r.Result, r.Error = nil, encodeError(out.Error)
	}
}

// encodeResult returns a result with its task in _meta.
func encodeResult(result codec.Encoder, id string) (json.RawMessage, error) {
	if result == nil {
		return nil, errors.New("work returned no result")
	}
	raw, err := codec.Marshal(result)
	if err == nil {
		raw, err = relate(raw, id)
	}
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be written"}
	}
	return raw, nil
}

// asError returns the error that a plain request would have been answered with.
func asError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: err.Error()}
}

func encodeError(e *jsonrpc.Error) json.RawMessage {
	raw, err := codec.Marshal(e)
	if err != nil {
		raw, _ = codec.Marshal(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the error of the work cannot be written"})
	}
	return raw
}

// cancelledError is the outcome of every task that was cancelled.
var cancelledError = encodeError(&jsonrpc.Error{Code: CodeCancelled, Message: "task was cancelled"})

// toolError returns what the result of a tool says if it is an error (MCP tasks, "Task Execution
// Errors").
func toolError(method string, result json.RawMessage) (text string, isError bool) {
	r := codec.Borrow(result)
	isError = method == "tools/call" && r.PeekBool("isError") == "true"
	r.Release()
	if !isError {
		return "", false
	}
	var tool mcp.CallToolResult
	if codec.Unmarshal(result, &tool) == nil {
		for _, c := range tool.Content {
			if c, ok := c.(*mcp.TextContent); ok && c.Text != "" {
				return c.Text, true
			}
		}
	}
	return "the tool reported an error", true
}

// shorten cuts a message that is too long for a status, between characters.
func shorten(message string) string {
	const most = 500
	if len(message) <= most {
		return message
	}
	cut := most
	for message[cut]&0xC0 == 0x80 {
		cut--
	}
	return message[:cut] + "…"
}
