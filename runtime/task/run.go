package task

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
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
	m           *Manager
	id          string
	seq         uint64 // of the record; set before the work starts
	method      string
	token       mcp.ProgressToken
	recoverable bool      // it goes on after a restart
	creator     Requestor // where the task was created; nil if that is not known, as after a restart
	ctx         workContext
	usage       taskUsage

	mu               sync.Mutex
	lastSeen         Requestor    // where the requestor was last seen, nil if that is not known
	waiters          []Requestor  // where it waits in Result, the latest last
	waitersBuf       [1]Requestor // room for waiting
	progress         progress
	lastInputRequest uint64 // number of the last input request
	consumed         map[uint64]bool
	notifiedRevision uint64  // revision of the last status that was sent
	notifying        bool    // a status is being sent
	pendingStatus    *Record // the status to send behind that, or nil

	redelivery *lazyctx.Cancellable // ends when an input request needs another waiter; nil without a waiter
}

// newRun makes the work of a task known. The caller ends what m.group counts.
func (m *Manager) newRun(ctx context.Context, r *Record, via Requestor) (*Run, error) {
	run := &Run{
		m: m, id: r.ID, seq: r.Seq, method: r.Method, token: r.Token, lastSeen: via, creator: via,
		recoverable: r.Restartable || r.Runner != "",
		usage:       taskUsage{principal: r.Owner, bytes: r.Bytes, revision: r.Revision, requestBytes: int64(len(r.Params))},
	}
	run.waiters = run.waitersBuf[:0]
	run.progress.greatest = math.Inf(-1)
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
func (m *Manager) removeRun(run *Run) {
	run.ctx.Cancel(context.Canceled)
	m.mu.Lock()
	delete(m.runs, run.id)
	m.mu.Unlock()
	m.group.Done()
}

// workContext is the context of work: the task's own end, and the values of the request that it was created for.
type workContext struct {
	lazyctx.Cancellable
	values context.Context
	run    *Run
}

func (c *workContext) Value(key any) any {
	switch {
	case key == runKey{}:
		return c.run
	case lazyctx.IsCancelKey(key):
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

// work does the work of a task and publishes its outcome.
func (m *Manager) runWork(run *Run, work Work) {
	defer m.removeRun(run)
	var end finalState
	err := boundary.ErrGoexit // unless the work returns
	defer func() {
		if err == boundary.ErrGoexit {
			end = finalStateOf(run, nil, err)
		}
		if err != nil {
			boundary.Report(m.cfg.Logger, "work panicked", err, "task", run.id)
		}
		m.limits.workReturned(&run.usage)
		if !run.interrupted(err) {
			m.publish(run, end)
		}
	}()
	result, failure := run.callWork(work)
	stack.Grow() // not before: work that waits for days is often content with less
	end, err = finalStateOf(run, result, failure), failure
}

// call calls the work.
func (run *Run) callWork(work Work) (result codec.Encoder, err error) {
	defer boundary.Catch(&err)
	return work(&run.ctx, run)
}

// interrupted reports whether the work ended because the Manager closes, and the task is one
// that the next Manager takes up.
func (run *Run) interrupted(err error) bool {
	return err != nil && run.recoverable && run.ctx.Cause() == ErrClosed
}

// way returns where the requestor is to be reached, or nil. It is called with mu held.
func (run *Run) destination() Requestor {
	if n := len(run.waiters); n > 0 {
		return run.waiters[n-1]
	}
	return run.lastSeen
}

// reach notes where the requestor was last seen.
func (run *Run) setLastSeen(via Requestor) {
	if via == nil {
		return
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.lastSeen = via
	run.cancelStaleReport()
}

// await notes that the requestor waits at via, where it is reached until leave.
func (run *Run) addWaiter(via Requestor) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.waiters = append(run.waiters, via)
	run.cancelStaleReport()
}

// leave takes await back.
func (run *Run) removeWaiter(via Requestor) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for i := len(run.waiters) - 1; i >= 0; i-- {
		if run.waiters[i] == via {
			run.waiters = slices.Delete(run.waiters, i, i+1)
			break
		}
	}
	run.cancelStaleReport()
}

// SetStatusMessage says how far the work is, for people. It does not move the task.
func (run *Run) SetStatusMessage(ctx context.Context, message string) error {
	return run.set(ctx, func(r *Record) { r.StatusMessage = statusText(message) })
}

// SetPollInterval asks requestors to poll at another pace; 0 leaves it to them. It fails for
// less than nothing.
func (run *Run) SetPollInterval(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("task: a poll interval of %v", d)
	}
	return run.set(ctx, func(r *Record) { r.PollInterval = wholeMilliseconds(d) })
}

func (run *Run) set(ctx context.Context, f func(r *Record)) error {
	_, err := run.m.change(ctx, run.id, func(r *Record) error { f(r); return nil })
	return err
}
