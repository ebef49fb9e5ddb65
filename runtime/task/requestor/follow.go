package requestor

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// defaultInterval is how often a task is looked at whose receiver does not say; jitter is by how
// much of an interval a look may come later, so that many requestors do not come at once.
const (
	defaultInterval = time.Second
	jitter          = 0.2
)

// follower follows one task, as long as somebody wants to know: it waits in tasks/result, which
// also brings the questions of the task, and looks at the state now and then, for the case that this
// breaks and for those who want to see. Notifications are welcome and nothing depends on them.
type follower struct {
	tasks   *Tasks
	s       *session.Session
	id      string
	tracker *session.Tracker // nil without progress
	own     bool             // the tracker is closed with the task

	over chan struct{} // closed when out is there
	out  outcome

	life  sync.Mutex // held while following starts or ends
	users int
	stop  func() // ends following and waits for it; nil if nobody wants to know

	mu      sync.Mutex
	state   mcp.Task
	version uint64        // grows with every change of state
	changed chan struct{} // closed with the next one
	ended   bool          // out is there, or about to be
	gone    bool          // the receiver does not know the task any more
	asked   bool          // it was asked to cancel the task
	again   func()        // gives up the present wait in tasks/result for another one
}

// outcome is how a task has ended, as far as can be known here.
type outcome struct {
	raw json.RawMessage
	err error
}

func newFollower(t *Tasks, s *session.Session, o options) *follower {
	return &follower{tasks: t, s: s, tracker: o.tracker, own: o.progress, over: make(chan struct{}), changed: make(chan struct{}), version: 1}
}

// join says that somebody wants to know, until leave.
func (f *follower) join() {
	f.life.Lock()
	defer f.life.Unlock()
	if f.users++; f.users > 1 || f.isOver() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.tasks.sign(f, true)
	var group sync.WaitGroup
	group.Go(func() { f.await(ctx) }) // both end with ctx, or with the task
	group.Go(func() { f.poll(ctx) })
	f.stop = func() {
		cancel()
		group.Wait()
		f.tasks.sign(f, false)
	}
}

func (f *follower) leave() {
	f.life.Lock()
	defer f.life.Unlock()
	if f.users--; f.users == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

func (f *follower) isOver() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// finish notes the outcome; the first one counts.
func (f *follower) finish(out outcome) {
	f.mu.Lock()
	first := !f.ended
	f.ended = true
	f.mu.Unlock()
	if !first {
		return
	}
	f.out = out
	if f.id != "" {
		f.tasks.log.Info("task ended", "task", f.id, "error", out.err)
	}
	if f.own {
		f.tracker.Close()
	}
	close(f.over)
}

// cancelling notes that the receiver is being asked to cancel the task.
func (f *follower) cancelling() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = true
}

// cancelled notes that the receiver has done so.
func (f *follower) cancelled(state mcp.Task) {
	f.saw(state)
	f.finish(outcome{err: task.ErrCancelled})
}

// wasCancelled reports whether the task was cancelled from here. Whether the receiver keeps it for
// long after that does not matter (MCP tasks, "Task Cancellation").
func (f *follower) wasCancelled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked && (f.gone || f.state.Status == mcp.TaskStatusCancelled)
}

func (f *follower) last() mcp.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// look returns the state, and what is closed when there is another one. Without a state the
// version is 0.
func (f *follower) look() (mcp.Task, uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Status == "" {
		return f.state, 0, f.changed
	}
	return f.state, f.version, f.changed
}

// saw notes a state, unless it is older than the one that is known, or the same.
func (f *follower) saw(state mcp.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if task.Terminal(f.state.Status) || older(state.LastUpdatedAt, f.state.LastUpdatedAt) || same(&state, &f.state) {
		return
	}
	f.state = state
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
}

// older compares two dates; where one is none, nobody knows.
func older(a, b string) bool {
	x, errX := time.Parse(time.RFC3339Nano, a)
	y, errY := time.Parse(time.RFC3339Nano, b)
	return errX == nil && errY == nil && x.Before(y)
}

func same(a, b *mcp.Task) bool {
	return a.Status == b.Status && a.LastUpdatedAt == b.LastUpdatedAt && equal(a.StatusMessage, b.StatusMessage) &&
		equal(a.PollInterval, b.PollInterval) && equal(a.TTL, b.TTL)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// refresh asks for the state.
func (f *follower) refresh(ctx context.Context) (mcp.Task, error) {
	if f.id == "" {
		return mcp.Task{}, errNoTask
	}
	r, err := peer(f.s).GetTask(ctx, &mcp.GetTaskRequestParams{TaskID: f.id})
	if err != nil {
		return f.last(), err
	}
	f.saw(mcp.Task{
		TaskID: r.TaskID, Status: r.Status, StatusMessage: r.StatusMessage, CreatedAt: r.CreatedAt,
		LastUpdatedAt: r.LastUpdatedAt, TTL: r.TTL, PollInterval: r.PollInterval,
	})
	return f.last(), nil
}

// poll looks at the state at the pace that the receiver asks for, until the task is over.
func (f *follower) poll(ctx context.Context) {
	if f.last().Status == "" {
		f.refresh(ctx)
	}
	for f.pause(ctx, nil) {
		if !task.Terminal(f.last().Status) {
			f.refresh(ctx) // an error shows in tasks/result too
			continue
		}
		// The task has been over for an interval, and who waits for its result has not got it:
		// that wait is broken in a way that nobody noticed.
		f.mu.Lock()
		again := f.again
		f.mu.Unlock()
		if again != nil {
			again()
		}
	}
}

// pause waits for an interval, or until something happens; ok is false if following has ended.
func (f *follower) pause(ctx context.Context, happens <-chan struct{}) (ok bool) {
	interval := defaultInterval
	if ms := f.last().PollInterval; ms != nil && *ms > 0 {
		interval = time.Duration(min(*ms, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
	}
	timer := time.NewTimer(interval + time.Duration(rand.Float64()*jitter*float64(interval)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-happens:
	case <-f.over:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// await waits in tasks/result, again and again if that breaks, until there is an outcome.
func (f *follower) await(ctx context.Context) {
	call := f.s.With(session.Timeout(0)) // it takes as long as the task does
	for {
		_, _, changed := f.look()
		wait, again := context.WithCancel(ctx)
		f.mu.Lock()
		f.again = again
		f.mu.Unlock()
		raw, err := call.Call(wait, "tasks/result", &mcp.GetTaskPayloadRequestParams{TaskID: f.id})
		broken := wait.Err() != nil
		again()
		if ctx.Err() != nil {
			return
		}
		if err != nil && broken {
			continue
		}
		if err == nil {
			f.finish(outcome{raw: raw})
			return
		}
		if f.final(ctx, err) {
			if f.wasCancelled() {
				err = task.ErrCancelled
			}
			f.finish(outcome{err: err})
			return
		}
		if !f.pause(ctx, changed) {
			return
		}
	}
}

// final reports whether an error of tasks/result is the end: the outcome of the task, or that there
// is no such task, or no session. Only the state tells whether the error is the task's own.
func (f *follower) final(ctx context.Context, err error) bool {
	if _, ok := errors.AsType[*session.CapabilityError](err); ok || errors.Is(err, session.ErrClosed) {
		return true
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || passing(e.Code) {
		return false
	}
	state, failed := f.refresh(ctx)
	if failed == nil {
		return task.Terminal(state.Status)
	}
	e, ok := errors.AsType[*jsonrpc.Error](failed)
	if !ok || e.Code != jsonrpc.CodeInvalidParams {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	return true
}

// passing reports whether an error says no more than that it is a bad moment.
func passing(code int64) bool {
	return code == session.CodeOverloaded || code == session.CodeClosing || code == task.CodeTooManyCalls
}
