package task

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazy"
	"github.com/mcpwire/mcpwire/runtime/internal/stack"
)

// Work does what a task is for and returns what a plain request would have been answered with.
// An error that is no [*jsonrpc.Error] becomes an internal error with its text.
//
// The context ends when the task is cancelled ([ErrCancelled]), expires ([ErrExpired]) or the
// Manager closes ([ErrClosed]), with the error in brackets as its cause; it has no other end. A
// panic fails the task alone.
type Work func(ctx context.Context, run *Run) (codec.Encoder, error)

// Outcome is what a task, or a job, ends with: a result or an error.
type Outcome struct {
	Result json.RawMessage // an object, if Error is nil
	Error  *jsonrpc.Error
}

// Run is the work of one task under way: what it can tell its requestor, and ask. It is a
// [jsonrpc.Caller] and a [jsonrpc.Notifier], so that [mcp.ToClient] and the like send typed
// messages through it. Its methods may be called by many goroutines.
type Run struct {
	m      *Manager
	id     string
	method string
	token  mcp.ProgressToken
	ctx    workContext

	mu       sync.Mutex
	via      Requestor // where the requestor is, nil if that is not known
	reporter Reporter  // to via, nil as long as there was nothing to report
	last     float64   // greatest progress so far
	silent   bool      // nothing is reported any more
	asked    uint64    // number of the last question
	taken    map[uint64]bool

	order    sync.Mutex // held while a status is sent, so that they stay in order
	notified uint64     // revision of the last one
}

// newRun makes the work of a task known. Whoever starts it, or not, ends what m.group counts.
func (m *Manager) newRun(ctx context.Context, r *Record, via Requestor) (*Run, error) {
	run := &Run{m: m, id: r.ID, method: r.Method, token: r.Token, via: via, last: math.Inf(-1)}
	run.ctx.values, run.ctx.run = ctx, run
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if m.runs[r.ID] != nil {
		return nil, ErrExists
	}
	m.runs[r.ID] = run
	m.group.Add(1)
	return run, nil
}

// forget ends what newRun has begun.
func (m *Manager) forget(run *Run) {
	run.ctx.Cancel(context.Canceled)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, run.id)
}

// workContext is the context of work: the task's own end, and the values of the request that it was created for.
type workContext struct {
	lazy.Cancellable
	values context.Context
	run    *Run
}

func (c *workContext) Value(key any) any {
	switch {
	case key == runKey{}:
		return c.run
	case lazy.IsCancelKey(key):
		return c.Cancellable.Value(key)
	}
	return c.values.Value(key)
}

type runKey struct{}

// FromContext returns the task that ctx is the work of; ok is false if it is of none.
func FromContext(ctx context.Context) (run *Run, ok bool) {
	run, ok = ctx.Value(runKey{}).(*Run)
	return run, ok
}

// ID returns the task's id.
func (run *Run) ID() string { return run.id }

// errNoOutcome is what is left of work that panics, or ends its goroutine. A plain request is
// answered with the same.
var errNoOutcome = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the handler panicked"}

// work does the work of a task and publishes its outcome.
func (m *Manager) work(run *Run, work Work) {
	defer m.group.Done()
	defer m.forget(run)
	var result codec.Encoder
	var err error = errNoOutcome
	defer func() {
		stack.Grow() // not before: work that waits for days is often content with less
		if p := recover(); p != nil {
			m.cfg.Logger.Error("work panicked", "task", run.id, "panic", p, "stack", string(debug.Stack()))
		}
		if !m.interrupted(run, err) {
			m.publish(run, result, err)
		}
	}()
	result, err = work(&run.ctx, run)
}

// interrupted reports whether the work ended because the Manager closes, and the task is one
// that the next Manager takes up.
func (m *Manager) interrupted(run *Run, err error) bool {
	if err == nil || run.ctx.Cause() != ErrClosed {
		return false
	}
	r, failed := m.store.Get(context.Background(), run.id)
	return failed == nil && !r.over() && (r.Restartable || r.Runner != "")
}

// reach notes where the requestor is now, and returns where it was.
func (run *Run) reach(via Requestor) (before Requestor) {
	run.mu.Lock()
	defer run.mu.Unlock()
	before = run.via
	if via != nil && via != before {
		run.via, run.reporter = via, nil
	}
	return before
}

// leave takes back that the requestor is at via.
func (run *Run) leave(via, before Requestor) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.via == via && via != before {
		run.via, run.reporter = before, nil
	}
}

// SetStatusMessage says how far the work is, for people. It does not move the task.
func (run *Run) SetStatusMessage(ctx context.Context, message string) error {
	return run.set(ctx, func(r *Record) { r.StatusMessage = shorten(message) })
}

// SetPollInterval asks requestors to poll at another pace; 0 leaves it to them. It fails for
// less than nothing.
func (run *Run) SetPollInterval(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("task: a poll interval of %v", d)
	}
	return run.set(ctx, func(r *Record) { r.PollInterval = d })
}

func (run *Run) set(ctx context.Context, f func(r *Record)) error {
	_, err := run.m.change(ctx, run.id, func(r *Record) error { f(r); return nil })
	return err
}
