package requestor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Handle stands for a task of the peer whose result is an R. Its methods may be called
// concurrently. It follows the task only during calls of Result and Updates, and needs no Close.
type Handle[R any] struct {
	read      func(json.RawMessage) (R, error)
	immediate string
	f         *follower
}

// ID returns the task's id. It is "" if the receiver returned the result without creating a task.
func (h *Handle[R]) ID() string { return h.f.id }

// State returns the last known state of the task. Its Status is "" if none is known yet, as for a
// newly attached handle.
func (h *Handle[R]) State() mcp.Task { return h.f.lastState() }

// Immediate returns the text that the receiver suggests for a model until the task is terminal, or
// "".
func (h *Handle[R]) Immediate() string { return h.immediate }

// Refresh requests the state of the task from the receiver and returns it.
func (h *Handle[R]) Refresh(ctx context.Context) (mcp.Task, error) { return h.f.refresh(ctx) }

// Result waits until the task is terminal and returns its result. Until then, the session's handler
// handles the input requests of the task.
//
// In a session, one tasks/result request stays open while the task runs. If it fails, Result sends
// it again, at growing intervals. If the result of a terminal task is overdue, Result sends another
// request beside the open one. Result has no timeout: it waits as long as the receiver keeps the
// task.
//
// The error is a [*jsonrpc.Error] if the task ended with an error, or if the receiver does not have
// the task. It is [task.ErrCancelled] if the task was cancelled, and the cause of ctx if ctx ended
// first. It is [session.ErrClosed] if the session ended first: the task continues, and a handle of
// another session can be attached to it. It wraps [transport.ErrTooLong] if the transport refuses
// the result, and [ErrNoResult] if the result of a terminal task did not arrive.
//
// In a revision without sessions, Result polls the state at the interval that the server asks for,
// and once a minute while the server reports changes. It responds to each input request once, and
// sends each response as soon as it has it. If there is no response, for example because the user's
// handler fails, Result returns that error. The task continues, and a further call of Result asks
// for the input again. Result does not wait for a handler that ignores the end of its context. Once
// the task is known, responses that are not from the server, such as the error page of a gateway,
// count as temporary for five minutes. The error after that is not the outcome of the task, either.
//
// The requests and the handlers have the values of ctx. Concurrent calls share them, with the
// values of the first.
func (h *Handle[R]) Result(ctx context.Context) (R, error) {
	var none R
	if err := h.f.await(ctx); err != nil {
		return none, err
	}
	if h.f.out.err != nil {
		return none, h.f.out.err
	}
	return h.read(h.f.out.raw)
}

// Updates iterates over the states of the task: the known state first, then each new one until the
// task is terminal. It may miss states, but not the last. In state input_required, the session's
// handler receives the input requests. Iteration stops at the first error (see Result). A failed
// task is a state, not an error.
func (h *Handle[R]) Updates(ctx context.Context) iter.Seq2[mcp.Task, error] {
	return func(yield func(mcp.Task, error) bool) {
		if h.f.id == "" && !h.f.isFinished() {
			yield(mcp.Task{}, errNoTask)
			return
		}
		failed, failure := h.f.addUser(ctx)
		defer h.f.removeUser(nil)
		if h.f.ext == nil && h.f.lastState().Status == "" && !h.f.isFinished() {
			h.f.refresh(ctx) // ignore the error: tasks/result returns it, too
		}
		for seen := uint64(0); ; {
			state, version, changed := h.f.current()
			if version > seen {
				seen = version
				if !yield(state, nil) || task.Terminal(state.Status) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-h.f.finished:
				h.yieldLast(ctx, yield, seen)
				return
			case <-failed:
				yield(state, failure())
				return
			case <-ctx.Done():
				yield(state, context.Cause(ctx))
				return
			}
		}
	}
}

// yieldLast yields the last state, or the error, once the follower has an outcome.
func (h *Handle[R]) yieldLast(ctx context.Context, yield func(mcp.Task, error) bool, seen uint64) {
	state, version, _ := h.f.current()
	if !task.Terminal(state.Status) && h.f.id != "" && h.f.ext == nil {
		// The result arrived before the terminal state. An error of refresh does not matter.
		if last, err := h.f.refresh(ctx); err == nil {
			state, version = last, seen+1
		}
	}
	switch {
	case task.Terminal(state.Status) && version > seen:
		yield(state, nil)
	case !task.Terminal(state.Status) && h.f.out.err != nil:
		yield(state, h.f.out.err)
	}
}

// cancelTimeout is the timeout for cancelling a task after the context of its call has ended.
const cancelTimeout = 10 * time.Second

// ResultOrCancel is like Result, but cancels the task if ctx ends first, or if Result fails before
// the task is terminal. It waits up to ten seconds for the response to tasks/cancel and returns the
// cause of ctx. If the task could not be cancelled, the error also contains its id.
func (h *Handle[R]) ResultOrCancel(ctx context.Context) (R, error) {
	result, err := h.Result(ctx)
	if err == nil || h.f.id == "" || h.f.isFinished() {
		return result, err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	var failed error
	if h.f.ext != nil {
		failed = h.f.sendCancel(late)
	} else {
		_, failed = h.Cancel(late)
	}
	if failed != nil {
		err = fmt.Errorf("requestor: task %q was not cancelled (%w): %w", h.f.id, failed, err)
	}
	return result, err
}

// Cancel cancels the task at the receiver and returns its state (MCP tasks, "Task Cancellation").
// It fails with the receiver's error if the task is terminal. In a revision without sessions, it
// does not, and the returned state need not be terminal: the task may still complete.
func (h *Handle[R]) Cancel(ctx context.Context) (mcp.Task, error) {
	if h.f.id == "" {
		return mcp.Task{}, errNoTask
	}
	if h.f.ext != nil {
		err := h.f.cancelExtension(ctx)
		return h.f.lastState(), err
	}
	h.f.addCancels(1)
	r, err := peer(h.f.s).CancelTask(ctx, &mcp.CancelTaskRequestParams{TaskID: h.f.id})
	if err != nil {
		if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
			h.f.addCancels(-1)
		}
		return mcp.Task{}, err
	}
	state := r.AsTask()
	h.f.finishCancelled(state)
	return state, nil
}

// Token returns the progress token, or the zero token. With the token and the id, a task can be
// followed through another session; see [Track].
func (h *Handle[R]) Token() (token mcp.ProgressToken) {
	if h.f.tracker != nil {
		token = h.f.tracker.Token()
	}
	return token
}

// Progress iterates over progress reports as they arrive, until the task is terminal or ctx ends.
// It yields none unless the handle was created with [Progress] or [Track]. Progress does not follow
// the task: it notices the end only while Result or Updates is called.
func (h *Handle[R]) Progress(ctx context.Context) iter.Seq[session.Progress] {
	if h.f.tracker == nil {
		return func(func(session.Progress) bool) {}
	}
	return h.f.tracker.Updates(ctx)
}
