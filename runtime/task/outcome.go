package task

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// publish stores the outcome of a task, and tries again while the store fails. It drops the outcome
// if the task is already terminal, has been dropped or has expired. It fails with errUndo as
// storeOutcome does, and with no other error that the caller must handle.
func (m *Manager) publish(run *Run, end finalState) error {
	run.finishProgress()
	failing := false
	err := m.persist(context.Background(), run, func() error {
		err := m.storeOutcome(run, &end)
		if err != nil {
			err = m.storeAgain(run, &end, err)
		}
		if unavailable(err) && !failing {
			failing = true
			m.unstored.Add(1)
			m.cfg.Logger.Error("task outcome not stored", "task", run.id, "error", err)
		}
		return err
	})
	if failing {
		m.unstored.Add(-1)
	}
	if err == nil || errors.Is(err, ErrNotFound) || err == run.over() || err == errUndo {
		return err
	}
	if _, illegal := errors.AsType[*MoveError](err); !illegal { // a status that a Manager never writes
		m.lostOutcomes.Add(1)
	}
	m.cfg.Logger.Error("task outcome lost", "task", run.id, "error", err)
	return err
}

// storeAgain handles the failure err of storeOutcome: it stores that the outcome is too large.
func (m *Manager) storeAgain(run *Run, end *finalState, err error) error {
	if limit, ok := errors.AsType[*LimitError](err); ok {
		*end = finalStateOf(run, nil, WireError(limit))
		err = m.storeRefusal(run, end)
	}
	if errors.Is(err, ErrCorrupt) { // neither the record nor the brief can be read, for now
		err = &storeError{ErrUnavailable}
	}
	return err
}

// errUndo reports that the work must undo what it has done, and does not know it.
var errUndo = errors.New("task: the work has to run again to undo what it has done")

// storeRefusal stores that a task has failed whose outcome is too large. It fails with errUndo if
// the task must be undone first.
func (m *Manager) storeRefusal(run *Run, end *finalState) error {
	if why, _ := run.whyUndo(); why != taskrules.UndoNone || !run.undoes.Load() {
		return m.storeOutcome(run, end)
	}
	_, err := run.tryChange(context.Background(), func(r *Record) error { return m.beginUndo(r, end.out) })
	if err == ErrCancelled { // the task has ended
		return nil
	}
	if err == nil {
		err = errUndo
	}
	return err
}

// storeOutcome stores an outcome in the record of a task, unless the record is already terminal. It
// fails with errUndo if the task was cancelled or has expired just before, and must be undone.
func (m *Manager) storeOutcome(run *Run, end *finalState) error {
	if done, err := run.endLatest(end); done {
		return err
	}
	for {
		var r Record
		if err := m.readForOutcome(run, &r); err != nil {
			return err
		}
		if run.fenced(&r) {
			m.logFenced(run, r.Claim.Member)
			return nil
		}
		if r.terminal() {
			m.limits.commit(&run.usage, &r, 0)
			return nil
		}
		if why, _ := run.whyUndo(); r.undo() != why {
			return errUndo
		}
		from := r.standing()
		r.setOutcome(end.status, end.message, end.out)
		if err := m.replace(from, &r); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func (m *Manager) logFenced(run *Run, holder string) {
	m.cfg.Logger.Warn("task outcome dropped: another member holds the task", "task", run.id, "member", holder)
}

// readForOutcome sets r to the record of a task, or to its brief if the payloads are damaged, which
// the outcome does not need.
func (m *Manager) readForOutcome(run *Run, r *Record) error {
	err := m.store.get(context.Background(), run.id, r)
	if errors.Is(err, ErrCorrupt) {
		err = m.readBrief(run, err, r)
	}
	return m.logFault("read task", err)
}

// endLatest is storeOutcome for the latest record of the run. done is false if the record must be
// read first.
func (run *Run) endLatest(end *finalState) (done bool, err error) {
	_, done, err = run.replaceLatest(func(r *Record) error {
		if why, _ := run.whyUndo(); r.undo() != why {
			return errUnchanged // see storeOutcome
		}
		r.setOutcome(end.status, end.message, end.out)
		return nil
	})
	return done, err
}

// readBrief sets r to the brief of a task whose record cannot be read because of err. It returns
// err if the brief cannot be read either.
func (m *Manager) readBrief(run *Run, err error, r *Record) error {
	if run.seq == 0 {
		return err
	}
	list, failed := m.store.list(context.Background(), run.usage.principal, run.seq-1, 1)
	if failed != nil || len(list) == 0 || list[0].ID != run.id {
		return err
	}
	*r = list[0]
	return nil
}

// errShutDown is the outcome of work that was ended by Close and cannot be recovered.
var errShutDown = errors.New("the receiver was shut down while the task was running")

// finalState is the final status of a task, its status message and its outcome.
type finalState struct {
	status  mcp.TaskStatus
	message string
	out     Outcome
}

// finalStateOf returns the final state of a task whose work has returned result and failure.
func finalStateOf(run *Run, result codec.Encoder, failure error) (end finalState) {
	defer func() {
		if recover() != nil { // a method of failure panicked
			end = failedState(boundary.WireError(failure))
		}
	}()
	var out Outcome
	if failure == nil {
		out.Result, failure = encodeResult(run, result)
	}
	if failure != nil {
		if run.ending() == ErrClosed && (errors.Is(failure, context.Canceled) || errors.Is(failure, ErrClosed)) {
			failure = errShutDown
		}
		return failedState(boundary.WireError(failure))
	}
	if text, isError := toolError(run.method, out.Result); isError {
		return finalState{mcp.TaskStatusFailed, text, out}
	}
	return finalState{mcp.TaskStatusCompleted, "", out}
}

// failedState returns the final state of a task that failed with e.
func failedState(e *jsonrpc.Error) finalState {
	return finalState{mcp.TaskStatusFailed, e.Message, Outcome{Error: e}}
}

// setOutcome makes a record terminal, with the given outcome. A task that was cancelled or has
// expired stays so.
func (r *Record) setOutcome(status mcp.TaskStatus, message string, out Outcome) {
	if r.withdrawn() {
		r.setCancelled(r.StatusMessage)
		return
	}
	r.setTerminal(status, statusText(message))
	r.Result, r.Error = out.Result, nil
	if out.Error != nil {
		r.Result, r.Error = nil, encodeError(out.Error)
	}
}

// encodeResult encodes a result, with the related task in its _meta unless the task is one of the
// Tasks extension.
func encodeResult(run *Run, result codec.Encoder) (json.RawMessage, error) {
	if result == nil {
		return nil, errors.New("work returned no result")
	}
	raw, err := boundary.Marshal(result)
	if err == nil && !run.extension {
		raw, err = taskrules.RelateValid(raw, run.id)
	}
	if err != nil {
		if !boundary.Report(run.m.cfg.Logger, "encoding of a result panicked", err, "task", run.id) {
			run.m.cfg.Logger.Error("result not encoded", "task", run.id, "error", err)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be encoded"}
	}
	return raw, nil
}

// encodeError encodes an error of the work. If that fails, it encodes an internal error instead.
func encodeError(e *jsonrpc.Error) json.RawMessage {
	raw, err := codec.Marshal(e)
	if err != nil {
		raw, _ = codec.Marshal(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the error of the work cannot be encoded"})
	}
	return raw
}

// cancelledError is the encoded error of every cancelled task.
var cancelledError = encodeError(&jsonrpc.Error{Code: CodeCancelled, Message: "task was cancelled"})

// toolError reports whether the result of a tool is an error, and returns its text (MCP tasks,
// "Task Execution Errors").
func toolError(method string, result json.RawMessage) (text string, isError bool) {
	if method != mcp.MethodToolsCall {
		return "", false
	}
	if value, _ := codec.Member(result, "isError"); string(value) != "true" {
		return "", false
	}
	var tool mcp.CallToolResult
	if codec.Unmarshal(result, &tool, codec.AllowSize(result)...) == nil {
		for _, c := range tool.Content {
			if c, ok := c.(*mcp.TextContent); ok && c.Text != "" {
				return c.Text, true
			}
		}
	}
	return "the tool reported an error", true
}

// statusText returns text as a status message: valid UTF-8, truncated to a length that requestors
// can display.
func statusText(text string) string {
	const maxBytes = 500
	return boundary.Text(text, maxBytes)
}
