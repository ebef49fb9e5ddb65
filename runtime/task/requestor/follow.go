package requestor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// MinPollInterval is the shortest interval at which a handle asks for the state of its task, whatever
// the receiver wishes.
const MinPollInterval = 100 * time.Millisecond

const (
	defaultInterval = time.Second    // if the receiver names none
	maxInterval     = 24 * time.Hour // longer ones count as this one

	// jitter is the largest part of an interval that is added at random, so that many requestors do not
	// ask at the same moment.
	jitter = 0.2

	// maxBackoff bounds the interval between failed tasks/result requests. A longer poll interval of the
	// receiver counts instead.
	maxBackoff = 30 * time.Second

	// resultPatience is how long the result of a finished task may be on its way before it is requested
	// once more. It doubles each time, so that a result of any length arrives over a slow line.
	resultPatience = 10 * time.Second

	// maxRepeats is how many further requests may be sent for the result of a finished task: with
	// resultPatience, it may be missing for 42 minutes.
	maxRepeats = 7

	// maxUnclear is how many responses in a row may leave the state of the task unclear.
	maxUnclear = 8
)

// ErrNoResult reports that the task is terminal, as far as is known, but its result did not arrive.
// The session may have dropped it because it is longer than the transport's MaxMessage.
var ErrNoResult = errors.New("requestor: the result of the task does not arrive")

// follower follows one task while it has users. It keeps one tasks/result request open, on which the
// task's input requests arrive too, and polls the state with tasks/get in case that request breaks and
// for the readers of Updates. Status notifications are used if they arrive; nothing depends on them.
//
// A task that ends within its poll interval costs one request and one goroutine.
type follower struct {
	tasks   *Tasks
	s       *session.Session
	id      string
	tracker *session.Tracker // nil without progress
	own     bool             // the tracker is closed with the task

	over chan struct{} // closed when out is set
	out  outcome

	life  sync.Mutex // held while following starts or ends
	users int
	stop  func() // ends following and waits for it; nil without users

	mu      sync.Mutex
	state   mcp.Task
	version uint64        // grows with every change of state
	changed chan struct{} // closed with the next one
	heard   time.Time     // when the receiver last said something of the task, or following began
	ended   bool          // out is set, or about to be
	gone    bool          // the receiver does not know the task any more
	cancels int           // requests to cancel the task that were not refused
	late    *time.Timer   // runs tick; nil unless the task is followed
	repeats int           // further requests for the result of the finished task
}

// outcome is how a task has ended, as far as can be known here.
type outcome struct {
	raw json.RawMessage
	err error
}

func newFollower(t *Tasks, s *session.Session, o options) *follower {
	return &follower{tasks: t, s: s, tracker: o.tracker, own: o.progress, over: make(chan struct{}), changed: make(chan struct{}), version: 1}
}

// join adds a user, until leave.
func (f *follower) join() {
	f.life.Lock()
	defer f.life.Unlock()
	if f.users++; f.users > 1 || f.isOver() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.tasks.sign(f, true)
	p := &pursuit{f: f, ctx: ctx}
	p.group.Add(1) // for the timer, until it has run or was stopped
	f.mu.Lock()
	f.heard, f.repeats = time.Now(), 0
	f.late = time.AfterFunc(f.wait(), p.tick)
	f.mu.Unlock()
	p.group.Go(p.await) // ends with ctx, or with the task
	f.stop = func() {
		cancel()
		f.mu.Lock()
		if f.late.Stop() {
			p.group.Done()
		}
		f.late = nil
		f.mu.Unlock()
		p.group.Wait()
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

// finish sets the outcome; the first one counts.
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

// cancelling counts a request to cancel the task, or takes back the count of one that was refused.
func (f *follower) cancelling(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancels += n
}

// cancelled sets the outcome after the receiver has cancelled the task.
func (f *follower) cancelled(state mcp.Task) {
	f.saw(state, 0)
	f.finish(outcome{err: task.ErrCancelled})
}

// wasCancelled reports whether the task was cancelled: the receiver says so, or it has dropped the task
// after a request to cancel it, which it may do at once (MCP tasks, "Task Cancellation").
func (f *follower) wasCancelled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Status == mcp.TaskStatusCancelled || f.cancels > 0 && f.gone
}

func (f *follower) last() mcp.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// look returns the state, its version, and a channel that is closed with the next one. Without a state
// the version is 0.
func (f *follower) look() (mcp.Task, uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state.Status == "" {
		return f.state, 0, f.changed
	}
	return f.state, f.version, f.changed
}

// saw takes a state of the receiver. A terminal one always counts, and is the last. Another one is
// dropped if it is dated before the known state, unless it answers a request that was sent when version
// was the known one: clocks can be set back. Version is 0 for a state that was not requested.
func (f *follower) saw(state mcp.Task, version uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = time.Now()
	ends := task.Terminal(state.Status)
	switch {
	case task.Terminal(f.state.Status), same(&state, &f.state):
		return
	case !ends && version != f.version && older(state.LastUpdatedAt, f.state.LastUpdatedAt):
		return
	}
	f.state = state
	f.version++
	close(f.changed)
	f.changed = make(chan struct{})
	if ends && f.late != nil && f.late.Stop() {
		f.late.Reset(f.wait())
	}
}

// older reports whether date a is before b. It returns false if either cannot be parsed.
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

// refresh asks for the state and returns it.
func (f *follower) refresh(ctx context.Context) (mcp.Task, error) {
	if f.id == "" {
		return mcp.Task{}, errNoTask
	}
	f.mu.Lock()
	version := f.version
	f.mu.Unlock()
	r, err := peer(f.s).GetTask(ctx, &mcp.GetTaskRequestParams{TaskID: f.id})
	if err != nil {
		return f.last(), err
	}
	f.saw(mcp.Task{
		TaskID: r.TaskID, Status: r.Status, StatusMessage: r.StatusMessage, CreatedAt: r.CreatedAt,
		LastUpdatedAt: r.LastUpdatedAt, TTL: r.TTL, PollInterval: r.PollInterval,
	}, version)
	return f.last(), nil
}

// interval returns the pace that the receiver asks for. It is called with mu held.
func (f *follower) interval() time.Duration {
	if ms := f.state.PollInterval; ms != nil && *ms > 0 {
		return max(time.Duration(min(*ms, maxInterval.Milliseconds()))*time.Millisecond, MinPollInterval)
	}
	return defaultInterval
}

// wait returns how long to wait before the next tick. It is called with mu held.
func (f *follower) wait() time.Duration {
	if task.Terminal(f.state.Status) {
		return resultPatience << f.repeats
	}
	return jittered(f.interval())
}

func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitter*float64(d))
}

// pursuit follows a task from the first user of the handle to the last one.
type pursuit struct {
	f     *follower
	ctx   context.Context
	group sync.WaitGroup

	repeat context.CancelFunc // ends the last repetition of tasks/result; nil before the first one; tick's alone
}

// tick runs when the poll interval has passed, or when the result of a finished task is overdue. It asks
// for the state, or for the result once more, beside the request that is open.
func (p *pursuit) tick() {
	defer p.group.Done()
	f := p.f
	switch {
	case p.ctx.Err() != nil || f.isOver():
		return
	case !task.Terminal(f.last().Status):
		_, err := f.refresh(p.ctx)
		if lifetime := f.silent(err); lifetime > 0 {
			f.finish(outcome{err: fmt.Errorf("requestor: task %q: no response for the %v that the task is kept: %w", f.id, lifetime, err)})
			return
		}
	case f.repeated() > maxRepeats:
		f.finish(outcome{err: fmt.Errorf("%w: no response to tasks/result for task %q", ErrNoResult, f.id)})
		return
	default:
		if p.repeat != nil {
			p.repeat() // the first request and the newest one share the line
		}
		ctx, cancel := context.WithCancel(p.ctx)
		p.repeat = cancel
		p.group.Go(func() { // ends with ctx, or with the response
			defer cancel()
			p.request(ctx)
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ctx.Err() == nil && f.late != nil {
		p.group.Add(1)
		f.late.Reset(f.wait())
	}
}

// repeated returns how often the result was requested again, this time included.
func (f *follower) repeated() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repeats++
	return f.repeats
}

// silent returns the lifetime of the task if the receiver has been silent for that long, which err of
// tasks/get tells, and else 0: by then the task is gone. A task without a limit is waited for while the
// session lasts.
func (f *follower) silent(err error) time.Duration {
	if err == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		f.heard = time.Now()
	}
	if f.state.TTL == nil || time.Since(f.heard).Milliseconds() <= *f.state.TTL {
		return 0
	}
	return time.Duration(*f.state.TTL) * time.Millisecond
}

// await keeps a tasks/result request open, and sends it again if it breaks, until there is an outcome.
func (p *pursuit) await() {
	unclear := 0
	for failures := 0; ; failures++ {
		hopeful, err := p.request(p.ctx)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if unclear++; hopeful {
			unclear = 0
		}
		if unclear == maxUnclear {
			p.f.finish(outcome{err: fmt.Errorf("%w: %w", ErrNoResult, err)})
			return
		}
		if !p.pause(failures) {
			return
		}
	}
}

// request sends tasks/result and waits for the response. If that sets the outcome, err is nil; else
// hopeful reports whether the receiver may bring the result to another request: its answers make sense, or there
// are none. Tick bounds how long they may be missing after the end of the task.
func (p *pursuit) request(ctx context.Context) (hopeful bool, err error) {
	f := p.f
	raw, err := f.s.With(session.Timeout(0)).Call(ctx, mcp.MethodTasksResult, &mcp.GetTaskPayloadRequestParams{TaskID: f.id})
	switch {
	case err == nil && f.wasCancelled():
		f.finish(outcome{err: task.ErrCancelled}) // whatever the receiver returns for it
	case err == nil:
		f.finish(outcome{raw: raw})
	case ctx.Err() != nil:
		return true, err
	default:
		return p.judge(ctx, err)
	}
	return false, nil
}

// judge decides what an error of tasks/result means: that it is the outcome of the task, that there is
// no such task or no session, or that the request is to be sent again. Only the state tells whether the
// error is the task's own. The results are those of request.
func (p *pursuit) judge(ctx context.Context, err error) (hopeful bool, _ error) {
	f := p.f
	_, undeclared := errors.AsType[*session.CapabilityError](err)
	if undeclared || errors.Is(err, session.ErrClosed) || errors.Is(err, transport.ErrTooLong) {
		f.finish(outcome{err: err})
		return false, nil
	}
	e, answered := errors.AsType[*jsonrpc.Error](err)
	if _, lost := errors.AsType[*transport.DeliveryError](err); lost || answered && passing(e.Code) {
		return true, err
	}
	if !answered {
		return false, err // the response was not valid, for one
	}
	state, failed := f.refresh(ctx)
	switch refusal, _ := errors.AsType[*jsonrpc.Error](failed); {
	case failed == nil && !task.Terminal(state.Status):
		return true, err
	case failed == nil:
	case refusal == nil, passing(refusal.Code):
		return true, err
	case refusal.Code != jsonrpc.CodeInvalidParams:
		return false, err
	default:
		f.mu.Lock()
		f.gone = true
		f.mu.Unlock()
	}
	if f.wasCancelled() {
		err = task.ErrCancelled
	}
	f.finish(outcome{err: err})
	return false, nil
}

// passing reports whether an error of a receiver is temporary.
func passing(code int64) bool {
	return code == session.CodeOverloaded || code == session.CodeClosing || code == task.CodeTooManyCalls
}

// pause waits before a request is sent again, longer with each failure. It ends early, but not before
// MinPollInterval has passed, if the state says that a request has something to bring. It returns false
// if following has ended.
func (p *pursuit) pause(failures int) bool {
	f := p.f
	f.mu.Lock()
	interval := f.interval()
	f.mu.Unlock()
	wait := jittered(max(min(interval<<min(failures, 16), maxBackoff), interval))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	floor := time.NewTimer(min(MinPollInterval, wait))
	defer floor.Stop()
	_, before, _ := f.look()
	var changed <-chan struct{}
	for {
		select {
		case <-timer.C:
			return true
		case <-floor.C:
		case <-changed:
		case <-f.over:
			return false
		case <-p.ctx.Done():
			return false
		}
		var state mcp.Task
		var version uint64
		state, version, changed = f.look()
		if version != before && (task.Terminal(state.Status) || state.Status == mcp.TaskStatusInputRequired) {
			return true
		}
	}
}
