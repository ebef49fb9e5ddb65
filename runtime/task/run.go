package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
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
	ctx    context.Context
	cancel context.CancelCauseFunc

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
	run.ctx, run.cancel = context.WithCancelCause(NewContext(context.WithoutCancel(ctx), run))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		run.cancel(ErrClosed)
		return nil, ErrClosed
	}
	if m.runs[r.ID] != nil {
		run.cancel(ErrExists)
		return nil, ErrExists
	}
	m.runs[r.ID] = run
	m.group.Add(1)
	return run, nil
}

// forget ends what newRun has begun.
func (m *Manager) forget(run *Run) {
	run.cancel(context.Canceled)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, run.id)
}

type runKey struct{}

// NewContext returns a context with run in it.
func NewContext(ctx context.Context, run *Run) context.Context {
	return context.WithValue(ctx, runKey{}, run)
}

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
		if p := recover(); p != nil {
			m.cfg.Logger.Error("work panicked", "task", run.id, "panic", p, "stack", string(debug.Stack()))
		}
		if !m.interrupted(run, err) {
			m.publish(run, result, err)
		}
	}()
	result, err = work(run.ctx, run)
}

// interrupted reports whether the work ended because the Manager closes, and the task is one
// that the next Manager takes up.
func (m *Manager) interrupted(run *Run, err error) bool {
	if err == nil || context.Cause(run.ctx) != ErrClosed {
		return false
	}
	r, failed := m.store.Get(context.Background(), run.id)
	return failed == nil && !r.over() && (r.Restartable || r.Runner != "")
}

// publish stores the outcome of a task, and tries again as long as the store fails. If the task
// is over already, or gone, the outcome is dropped.
func (m *Manager) publish(run *Run, result codec.Encoder, failure error) {
	run.hush()
	ending := ended(run, result, failure)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		_, err := m.change(context.Background(), run.id, func(r *Record) error {
			if r.over() {
				return errSame
			}
			return ending(m, r)
		})
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

// errShutDown is the outcome of work that the Manager has stopped and that cannot be resumed.
var errShutDown = errors.New("the receiver was shut down while the task was running")

// ended returns what writes an outcome into a record.
func ended(run *Run, result codec.Encoder, failure error) func(m *Manager, r *Record) error {
	var out Outcome
	if failure == nil {
		out.Result, failure = encodeResult(result, run.id)
	}
	status, message := mcp.TaskStatusCompleted, ""
	if failure != nil {
		if context.Cause(run.ctx) == ErrClosed && (errors.Is(failure, context.Canceled) || errors.Is(failure, ErrClosed)) {
			failure = errShutDown
		}
		out.Error = asError(failure)
		status, message = mcp.TaskStatusFailed, out.Error.Message
	} else if text, isError := toolError(run.method, out.Result); isError {
		status, message = mcp.TaskStatusFailed, text
	}
	return func(m *Manager, r *Record) error {
		r.end(status, message, out)
		if more := r.size() - r.Bytes; m.limits.fits(r.Owner, more) != nil {
			limit := m.limits.fits(r.Owner, more)
			r.end(mcp.TaskStatusFailed, limit.Error(), Outcome{Error: WireError(limit)})
		}
		return nil
	}
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
		raw, err = Relate(raw, id)
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

// Why a report of progress is not taken.
var (
	ErrNotIncreasing = errors.New("task: progress does not increase")
	ErrProgressOver  = errors.New("task: progress is over")
)

// Report sends progress to the requestor under the token of the request that created the task.
// It fails with ErrNotIncreasing, or with ErrProgressOver once the task is over. Where nobody has
// asked for progress, or the requestor cannot be reached, a report is taken and goes nowhere.
func (run *Run) Report(p Progress) error {
	run.mu.Lock()
	switch {
	case run.silent:
		run.mu.Unlock()
		return ErrProgressOver
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value <= run.last:
		run.mu.Unlock()
		return ErrNotIncreasing
	}
	run.last = p.Value
	if run.token.IsZero() || run.via == nil {
		run.mu.Unlock()
		return nil
	}
	if run.reporter == nil {
		run.reporter = run.via.Reporter(run.id, run.token)
	}
	reporter := run.reporter
	run.mu.Unlock()
	return reporter.Report(p)
}

// hush ends progress: what was reported is sent, and nothing after that.
func (run *Run) hush() {
	run.mu.Lock()
	run.silent = true
	reporter := run.reporter
	run.mu.Unlock()
	if reporter != nil {
		reporter.Finish()
	}
}

// speak takes hush back.
func (run *Run) speak() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.silent, run.reporter = false, nil
}

// Notify sends a notification about the task, such as a log message, to the requestor. If that
// cannot be reached at the moment, the notification is dropped.
func (run *Run) Notify(ctx context.Context, method string, params codec.Encoder) error {
	raw, err := related(params, run.id)
	if err != nil {
		return err
	}
	run.mu.Lock()
	via, silent := run.via, run.silent
	run.mu.Unlock()
	if via == nil || silent {
		return nil
	}
	return via.Notify(ctx, method, rawJSON(raw))
}

// related encodes params, nil for none, with the task in _meta.
func related(params codec.Encoder, id string) (raw json.RawMessage, err error) {
	if params != nil {
		if raw, err = codec.Marshal(params); err != nil {
			return nil, err
		}
	}
	return Relate(raw, id)
}

// rawJSON is JSON text as an Encoder.
type rawJSON json.RawMessage

func (r rawJSON) EncodeJSON(w *codec.Writer) { w.Raw(json.RawMessage(r)) }

// statusTimeout is how long a requestor that takes nothing holds up who changes its task.
const statusTimeout = time.Second

// notify tells the requestor the state of the task, unless it has been told a later one.
func (run *Run) notify(r *Record) {
	run.mu.Lock()
	via := run.via
	run.mu.Unlock()
	if via == nil {
		return
	}
	run.order.Lock()
	defer run.order.Unlock()
	if r.Revision <= run.notified {
		return
	}
	run.notified = r.Revision
	ctx, cancel := context.WithTimeout(run.m.life, statusTimeout)
	defer cancel()
	t := r.Task()
	err := via.Notify(ctx, "notifications/tasks/status", &mcp.TaskStatusNotificationParams{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage,
		CreatedAt: t.CreatedAt, LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTL, PollInterval: t.PollInterval,
	})
	if err != nil {
		run.m.cfg.Logger.Log(ctx, slog.LevelDebug, "task status not sent", "task", r.ID, "error", err)
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
