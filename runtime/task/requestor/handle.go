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

// Handle is a task of the peer whose result is an R. Its methods may be called by many goroutines.
// It does something only during calls of Result and Updates, and needs no closing.
type Handle[R any] struct {
	read      func(json.RawMessage) (R, error)
	immediate string
	f         *follower
}

// ID returns the task's id. It is "" if the receiver has answered at once, without a task.
func (h *Handle[R]) ID() string { return h.f.id }

// State returns what was last heard of the task. Of a task that was resumed that is nothing yet, and
// its Status "".
func (h *Handle[R]) State() mcp.Task { return h.f.last() }

// Immediate returns what the receiver suggests to tell a model until the task is over, or "".
func (h *Handle[R]) Immediate() string { return h.immediate }

// Refresh asks the receiver for the state of the task.
func (h *Handle[R]) Refresh(ctx context.Context) (mcp.Task, error) { return h.f.refresh(ctx) }

// Result waits until the task is terminal and returns its result. Input requests of the task are
// answered by the session's handler meanwhile.
//
// One tasks/result request stays open for as long as the task works. If it breaks it is sent again, with
// growing intervals; if the result of a finished task is overdue another one is sent beside it. Result
// has no timeout of its own: it waits as long as the receiver keeps the task.
//
// The error is a [*jsonrpc.Error] if that is how the request ended, and also if the receiver does not have
// such a task, or no longer. It is [task.ErrCancelled] if the task was cancelled, and the cause of ctx if
// that ended first. It is [session.ErrClosed] if the session ended first: the task goes on, and a
// handle for it can be made in another session. It wraps [transport.ErrTooLong] if the transport refuses the
// result, and [ErrNoResult] if the result of a finished task did not arrive.
func (h *Handle[R]) Result(ctx context.Context) (R, error) {
	var none R
	h.f.join()
	defer h.f.leave()
	select {
	case <-h.f.over:
	case <-ctx.Done():
		if !h.f.isOver() {
			return none, context.Cause(ctx)
		}
	}
	if h.f.out.err != nil {
		return none, h.f.out.err
	}
	return h.read(h.f.out.raw)
}

// Updates goes over the states of the task: the one that is known, and then each one that is heard
// of, to the last. When a state is input_required, questions are on the way to the session's
// handler. States may be missed, but not the last one. An error, as those of Result, ends it;
// that the task has failed is none.
func (h *Handle[R]) Updates(ctx context.Context) iter.Seq2[mcp.Task, error] {
	return func(yield func(mcp.Task, error) bool) {
		h.f.join()
		defer h.f.leave()
		if h.f.last().Status == "" && !h.f.isOver() {
			h.f.refresh(ctx) // an error shows in the result too
		}
		for seen := uint64(0); ; {
			state, version, changed := h.f.look()
			if version > seen {
				seen = version
				if !yield(state, nil) || task.Terminal(state.Status) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-h.f.over:
				h.end(ctx, yield, seen)
				return
			case <-ctx.Done():
				yield(state, context.Cause(ctx))
				return
			}
		}
	}
}

// end yields what is left when following has ended.
func (h *Handle[R]) end(ctx context.Context, yield func(mcp.Task, error) bool, seen uint64) {
	state, version, _ := h.f.look()
	if !task.Terminal(state.Status) && h.f.id != "" {
		// The result has come first. The state is no more than a courtesy then.
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

// abandonTimeout is how long it may take to cancel a task that is no longer wanted.
const abandonTimeout = 10 * time.Second

// ResultOrCancel is Result, but if ctx ends first it cancels the task. It waits for the response to that for
// up to ten seconds, and returns the cause of ctx; if the task could not be cancelled, the error names its id
// too.
func (h *Handle[R]) ResultOrCancel(ctx context.Context) (R, error) {
	result, err := h.Result(ctx)
	if err == nil || ctx.Err() == nil || h.f.id == "" || h.f.isOver() {
		return result, err
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	if _, failed := h.Cancel(late); failed != nil {
		err = fmt.Errorf("requestor: task %q is not cancelled (%w): %w", h.f.id, failed, err)
	}
	return result, err
}

// Cancel asks the receiver to cancel the task and returns its state then (MCP tasks, "Task
// Cancellation"). A task that is over cannot be cancelled; the error is the receiver's.
func (h *Handle[R]) Cancel(ctx context.Context) (mcp.Task, error) {
	if h.f.id == "" {
		return mcp.Task{}, errNoTask
	}
	h.f.cancelling(1)
	r, err := peer(h.f.s).CancelTask(ctx, &mcp.CancelTaskRequestParams{TaskID: h.f.id})
	if err != nil {
		if _, refused := errors.AsType[*jsonrpc.Error](err); refused {
			h.f.cancelling(-1)
		}
		return mcp.Task{}, err
	}
	state := mcp.Task{
		TaskID: r.TaskID, Status: r.Status, StatusMessage: r.StatusMessage, CreatedAt: r.CreatedAt,
		LastUpdatedAt: r.LastUpdatedAt, TTL: r.TTL, PollInterval: r.PollInterval,
	}
	h.f.cancelled(state)
	return state, nil
}

// Token returns the token under which progress comes, or the zero one. With it, and the id, a
// task can be followed through another session; see [Track].
func (h *Handle[R]) Token() (token mcp.ProgressToken) {
	if h.f.tracker != nil {
		token = h.f.tracker.Token()
	}
	return token
}

// Progress goes over the reports of progress as they come, until the task is over or ctx ends. It
// has none unless the handle was made with [Progress] or [Track]. It does not follow the task: without a
// call of Result or Updates at the same time, it does not notice the end.
func (h *Handle[R]) Progress(ctx context.Context) iter.Seq[session.Progress] {
	if h.f.tracker == nil {
		return func(func(session.Progress) bool) {}
	}
	return h.f.tracker.Updates(ctx)
}
