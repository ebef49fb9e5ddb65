// Package calls records what the handler of a call obtains, so that the handler can run again from
// its top with the same results: the outcomes of steps, the ends of sleeps and the responses to
// input requests. Package server and the embeddings into other SDKs share it.
//
// A [Run] is one run of the handler. Where it records depends on the call:
//   - In a task, results go to the journal of the task. Only tasks that are durable have one.
//   - In a plain call with [Options].Rounds, the first input request ends the run, and [Run.End]
//     returns the results for the next run. The call may become a task while its handler is
//     running; see [Run.BeforeTask].
//   - In any other plain call, nothing is recorded.
//
// See package replay for how recorded results are found.
package calls

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/runtime/internal/replay"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Options describes a call.
type Options struct {
	Package string // the package that the handler uses, for errors

	// Task is the task that the call runs as, or nil for a plain call.
	Task *task.Run

	// ID identifies a plain call in all of its runs. By default, it is random.
	ID string

	// Rounds says that input requests of a plain call end the run.
	Rounds bool
	// Earlier are the results of earlier runs of a plain call. Pending are the input requests of the
	// last run that have no response yet.
	Earlier []replay.Entry
	Pending []replay.Asked
}

// Run is one run of the handler of a call. Its methods are safe for concurrent use. After
// [Run.End], they return recorded results, and fail for new operations.
type Run struct {
	ctx      context.Context // of the call
	pkg      string
	id       string
	recorder *replay.Recorder
	task     *task.Run // nil for a call that began as a plain one
	rounds   *handover // nil without Options.Rounds
	err      error     // why the journal of the task cannot be read, or nil
	// interrupted is set when a step, a sleep or an input request has failed because the Manager of
	// the task closes.
	interrupted atomic.Bool
}

// New returns a run of the handler of the call with context ctx. In a durable task, it reads the
// journal. If that fails, the methods of the Run return the error.
func New(ctx context.Context, o Options) *Run {
	r := &Run{ctx: ctx, pkg: o.Package, id: o.ID, task: o.Task}
	switch {
	case o.Task != nil:
		r.recorder, r.id, r.err = inTask{o.Task}.recorder(ctx)
		return r
	case o.Rounds:
		r.rounds = newHandover(o.Earlier)
		r.recorder = replay.New(r.rounds, o.Earlier, o.Pending)
	default:
		r.recorder = replay.New(nil, nil, nil)
	}
	if r.id == "" {
		r.id = rand.Text()
	}
	return r
}

// ID returns the id of the call, which is the same in all of its runs.
func (r *Run) ID() string { return r.id }

type runKey struct{}

// handlerContext is the context of a handler.
type handlerContext struct {
	context.Context
	run *Run
}

// NewContext returns a context for a handler, from which [FromContext] returns r. The handler is
// not part of a step.
func NewContext(ctx context.Context, r *Run) context.Context { return &handlerContext{ctx, r} }

// Detached returns a context for a request to another server in the process. That request belongs
// neither to the run nor to the step of ctx.
func Detached(ctx context.Context) context.Context {
	if FromContext(ctx) == nil && ctx.Value(stepKey{}) == nil {
		return ctx
	}
	return NewContext(ctx, nil)
}

// Value implements [context.Context].
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case runKey:
		return c.run
	case stepKey:
		return nil
	}
	return c.Context.Value(key)
}

// FromContext returns the run of the handler that ctx belongs to, or nil.
func FromContext(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// current returns the task that the call runs as, or nil while it is a plain call.
func (r *Run) current() *task.Run {
	if r.rounds != nil {
		return r.rounds.task()
	}
	return r.task
}

// Repeats reports whether the call is a durable task whose handler runs again and has not yet asked
// for all recorded results. Its messages were sent by an earlier run.
func (r *Run) Repeats() bool {
	t := r.current()
	return t != nil && t.Durable() && r.err == nil && r.recorder.Replaying()
}

// Ask returns the response to an input request of a task, or of a call with [Options].Rounds. It
// sends the request only if no response is recorded. The Params identify the request, so all runs
// must encode them in the same way. Prepare returns the [mcp.InputRequest] to send; if Prepare or
// its value is nil, Ask sends Params.
func (r *Run) Ask(ctx context.Context, q *replay.Request) (json.RawMessage, error) {
	if err := InStep(ctx, q.Method); err != nil {
		return nil, err
	}
	if r.err != nil {
		return nil, r.err
	}
	answer, err := r.recorder.Input(ctx, q)
	return answer, r.failed(err, q.Method)
}

// InputRequiredError ends a run. See the type of package server.
type InputRequiredError struct {
	Method string // of the input request, or "" for a step and a sleep
	pkg    string
}

// Error returns a text that tells the handler to return the error.
func (e *InputRequiredError) Error() string {
	const text = "input required: return this error, the handler is called again with the response"
	if e.pkg == "" {
		return text
	}
	return e.pkg + ": " + text
}

// failed converts an error of the Recorder. It returns nil for nil.
func (r *Run) failed(err error, method string) error {
	switch err {
	case nil:
		return nil
	case replay.ErrSuspended:
		return &InputRequiredError{method, r.pkg}
	case replay.ErrEnded:
		return errors.New(r.pkg + ": the handler of the call has returned")
	}
	if errors.Is(context.Cause(r.ctx), task.ErrClosed) {
		r.interrupted.Store(true)
	}
	if _, duplicate := errors.AsType[*replay.DuplicateError](err); duplicate {
		return fmt.Errorf("%s: %w", r.pkg, err)
	}
	return err
}

// End ends the run after the handler has returned. If End returns neither an error nor open input
// requests, the outcome of the call is that of the handler. Only a plain call with [Options].Rounds
// has open input requests: the handler then runs again with the entries and with the responses.
//
// End returns [task.ErrParked] if the task runs again later, and [task.ErrClosed] if it runs again
// in the next process. If the run is not valid, [Invalid] reports true for the error.
func (r *Run) End() (entries []replay.Entry, open []replay.Open, err error) {
	if r.err != nil {
		return nil, nil, r.err
	}
	err = r.recorder.End(r.ctx)
	t := r.current()
	switch {
	case t != nil && t.Durable() && r.interrupted.Load():
		return nil, nil, task.ErrClosed // the next process runs the handler again
	case err != nil:
		return nil, nil, err
	case t != nil && r.recorder.Suspended():
		return nil, nil, task.ErrParked
	case r.rounds == nil:
		return nil, nil, nil
	}
	entries, open = r.rounds.ended()
	return entries, open, nil
}

// Invalid reports whether an error of [Run.End] is the fault of the handler: the handler is not
// deterministic, or it ran two steps or sleeps of the same name at the same time.
func Invalid(err error) bool {
	if _, ok := errors.AsType[*replay.NondeterminismError](err); ok {
		return true
	}
	_, ok := errors.AsType[*replay.DuplicateError](err)
	return ok
}
