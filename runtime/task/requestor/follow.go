package requestor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// minPollInterval is the shortest interval between two polls of a handle. It takes precedence over
// a shorter poll interval of the receiver.
const minPollInterval = 100 * time.Millisecond

const (
	defaultInterval = time.Second    // if the receiver sets no poll interval
	maxInterval     = 24 * time.Hour // limits the poll interval of the receiver

	// jitter is the largest random addition to an interval, as a fraction of it. It prevents many
	// requestors from polling at the same moment.
	jitter = 0.2

	// maxBackoff limits the interval between failed tasks/result requests, unless the poll interval
	// of the receiver is longer.
	maxBackoff = 30 * time.Second

	// resultTimeout is the time after which the result of a terminal task is requested again. It
	// doubles each time, so that a large result can arrive over a slow connection.
	resultTimeout = 10 * time.Second

	// maxRepeats is the number of further requests for the result of a terminal task. With
	// resultTimeout, they take 42 minutes.
	maxRepeats = 7

	// maxUnclear is the number of consecutive responses that may leave the state of the task
	// unclear.
	maxUnclear = 8
)

// ErrNoResult is returned if the result of a terminal task did not arrive, or if the responses of
// the receiver leave the state of the task unclear. The session may have dropped a result that is
// longer than the transport's MaxMessage.
var ErrNoResult = errors.New("requestor: the result of the task did not arrive")

// follower follows one task while it has users. In a session, it keeps one tasks/result request
// open, during which the task's input requests arrive, too. It also polls the state with tasks/get,
// for Updates and in case the open request fails. For a task of the Tasks extension, it only polls;
// see extension. Status notifications are not required.
type follower struct {
	tasks       *Tasks
	s           *session.Session
	id          string
	tracker     engine.Tracker[session.Progress] // nil without progress
	ownsTracker bool                             // the tracker is closed at the end of the task

	finished chan struct{} // closed when out is set
	out      outcome

	ext *extension // nil for a task of a session

	next *follower // of the same task; guarded by tasks.mu

	startStop sync.Mutex // held while following starts or stops
	users     int
	period    *followPeriod // nil unless the task is followed; also guarded by mu

	mu           sync.Mutex
	state        mcp.Task
	version      uint64        // incremented with every change of state
	changed      chan struct{} // closed at the next change of state; nil unless Updates waits
	lastResponse time.Time     // last response about the task, or start of following
	ended        bool          // out is set, or about to be set
	unknown      bool          // the receiver no longer has the task
	cancels      int           // requests to cancel the task that were not refused
	repeats      int           // further requests for the result of the terminal task
}

// outcome is the result or the error of a task.
type outcome struct {
	raw json.RawMessage
	err error
}

func newFollower(t *Tasks, s *session.Session, o options) *follower {
	f := &follower{tasks: t, s: s, tracker: o.tracker, ownsTracker: o.progress, finished: make(chan struct{}), version: 1}
	if s.Traits().TasksByServer {
		f.ext = &extension{wake: make(chan struct{}, 1), running: map[string]*responding{}}
	}
	return f
}

// addUser adds a user, whose requests have the values of ctx. The first one starts following. It
// returns a channel that is closed if following fails, and the error then.
func (f *follower) addUser(ctx context.Context) (failed <-chan struct{}, failure func() error) {
	f.startStop.Lock()
	defer f.startStop.Unlock()
	if f.users++; f.users == 1 && !f.isFinished() {
		p := f.start(context.WithoutCancel(ctx))
		p.group.Go(p.run) // ends with p.ctx, or with the task
	}
	p := f.period // only changed with startStop held
	if p == nil {
		return nil, nil
	}
	return p.failed, func() error { return p.err }
}

// await adds a user, waits for the outcome or the end of ctx, and removes the user. If it is the
// first user, it sends tasks/result itself, or polls itself: a task that ends soon needs no further
// goroutine. It returns an error if there is no outcome.
func (f *follower) await(ctx context.Context) error {
	if f.id == "" && !f.isFinished() {
		return errNoTask
	}
	var err error
	if f.ext == nil {
		f.awaitInSession(ctx)
	} else {
		err = f.awaitExtension(ctx)
	}
	switch {
	case f.isFinished():
		return nil
	case err != nil:
		return err
	}
	return context.Cause(ctx)
}

// awaitExtension is await for a task of the Tasks extension. It returns the error with which
// following has failed, or nil.
func (f *follower) awaitExtension(ctx context.Context) error {
	f.startStop.Lock()
	var own *followPeriod
	if f.users++; f.users == 1 && !f.isFinished() {
		own = f.start(context.WithoutCancel(ctx))
	}
	p := f.period // only changed with startStop held
	f.startStop.Unlock()
	defer f.removeUser(own)
	if p == nil {
		return nil
	}
	if own != nil {
		p.poll(ctx)
	}
	select {
	case <-f.finished:
	case <-ctx.Done():
	case <-p.failed:
		return p.err
	}
	return nil
}

// awaitInSession is await for a task of a session.
func (f *follower) awaitInSession(ctx context.Context) {
	var p *followPeriod
	f.startStop.Lock()
	if f.users++; f.users == 1 && !f.isFinished() {
		p = f.start(ctx)
	}
	f.startStop.Unlock()
	defer f.removeUser(p)
	if p != nil {
		p.run()
		return
	}
	select {
	case <-f.finished:
	case <-ctx.Done():
	}
}

// start starts a period of following that ends with ctx at the latest. Its requests have the values
// of ctx. The caller holds startStop and must call run or poll of the period.
func (f *follower) start(ctx context.Context) *followPeriod {
	p := &followPeriod{f: f}
	p.ctx.Context, p.cancel = context.WithCancel(ctx)
	f.tasks.subscribe(f)
	if f.ext != nil {
		p.failed = make(chan struct{})
		if f.tasks.watch != nil {
			defer func() { p.unwatch = f.tasks.watch(f.id, f.setReported) }() // without holding mu
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastResponse, f.repeats, f.period = time.Now(), 0, p
	if f.isFinished() { // since the caller has checked it
		p.cancel()
	}
	if f.ext != nil {
		f.ext.reported, f.ext.settled = false, false
		f.ext.pollSoon = f.ext.pollSoon || f.state.Status == mcp.TaskStatusInputRequired
		return p
	}
	p.group.Add(1) // for the timer, until it has run or was stopped
	p.timer = time.AfterFunc(f.wait(), p.tick)
	return p
}

// stop ends the period of following, and waits until all its requests have ended. The caller holds
// startStop.
func (f *follower) stop() {
	f.mu.Lock()
	p := f.period
	f.period = nil
	p.cancel()
	if p.timer != nil && p.timer.Stop() {
		p.group.Done()
	}
	f.mu.Unlock()
	if p.unwatch != nil {
		p.unwatch()
	}
	p.group.Wait()
	f.tasks.unsubscribe(f)
}

// removeUser removes a user. The last one stops following. If another one has called run of a
// period itself, a new period takes over for the remaining users. If it has polled itself, the
// period continues with a goroutine that polls.
func (f *follower) removeUser(own *followPeriod) {
	f.startStop.Lock()
	defer f.startStop.Unlock()
	f.users--
	last := f.period
	if last == nil || f.users > 0 && own == nil {
		return
	}
	if f.users > 0 && f.ext != nil {
		own.group.Go(own.run) // ends with own.ctx, or with the task
		return
	}
	f.stop()
	if f.users > 0 && !f.isFinished() {
		p := f.start(context.WithoutCancel(last.ctx.Context))
		p.group.Go(p.run) // ends with p.ctx, or with the task
	}
}

// isFinished reports whether the outcome is set.
func (f *follower) isFinished() bool {
	select {
	case <-f.finished:
		return true
	default:
		return false
	}
}

// finish sets the outcome, unless it is already set.
func (f *follower) finish(out outcome) {
	f.mu.Lock()
	first := !f.ended
	f.ended = true
	f.mu.Unlock()
	if !first {
		return
	}
	f.out = out
	if log := f.tasks.log; f.id != "" && log.Enabled(context.Background(), slog.LevelInfo) {
		log.Info("task ended", "task", f.id, "error", out.err)
	}
	if f.ownsTracker {
		f.tracker.Close()
	}
	close(f.finished)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.period != nil {
		f.period.cancel() // its requests are no longer needed
	}
}

// addCancels adds n to the number of cancel requests: 1 for a request, -1 if it was refused.
func (f *follower) addCancels(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancels += n
}

// finishCancelled sets the outcome after the receiver has cancelled the task.
func (f *follower) finishCancelled(state mcp.Task) {
	f.observe(state, 0)
	f.finish(outcome{err: task.ErrCancelled})
}

// wasCancelled reports whether the task was cancelled. Either its status is cancelled, or the
// receiver has dropped it after a cancel request, which it may do at once (MCP tasks, "Task
// Cancellation").
func (f *follower) wasCancelled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Status == mcp.TaskStatusCancelled || f.cancels > 0 && f.unknown
}

// failedWith reports whether the known state shows that e is the outcome of the task. The work of a
// task may fail with any code, such as one that is otherwise temporary.
func (f *follower) failedWith(e *jsonrpc.Error) bool {
	state, message := f.lastState(), ""
	if state.StatusMessage != nil {
		message = *state.StatusMessage
	}
	if state.Status != mcp.TaskStatusFailed {
		return false
	}
	if message == e.Message {
		return true
	}
	start, cut := strings.CutSuffix(message, "\u2026") // as package task truncates messages
	return cut && start != "" && strings.HasPrefix(e.Message, start)
}

// lastState returns the latest known state.
func (f *follower) lastState() mcp.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// current returns the state, its version, and a channel that is closed at the next change. Without
// a state the version is 0.
func (f *follower) current() (mcp.Task, uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	if f.state.Status == "" {
		return f.state, 0, f.changed
	}
	return f.state, f.version, f.changed
}

// observe processes a state that the receiver has sent. version is that of the known state when the
// state was requested, or 0 for a notification. A terminal state is always accepted, and no state
// is accepted after it. A notification of another state is dropped if it is older than the known
// state. A response that is older is dropped only if the known state has changed since the request,
// because the receiver's clock may have been set back. observe returns false if it has dropped the
// state.
func (f *follower) observe(state mcp.Task, version uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastResponse = time.Now()
	ends := task.Terminal(state.Status)
	switch {
	case task.Terminal(f.state.Status):
		return false
	case sameState(&state, &f.state):
		return true
	case !ends && version != f.version && isBefore(state.LastUpdatedAt, f.state.LastUpdatedAt):
		return false
	}
	f.state = state
	f.version++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
	if p := f.period; ends && p != nil && p.timer != nil && p.timer.Stop() {
		p.timer.Reset(f.wait())
	}
	return true
}

// isBefore reports whether date a is before b. It returns false if either cannot be parsed.
func isBefore(a, b string) bool {
	x, errX := time.Parse(time.RFC3339Nano, a)
	y, errY := time.Parse(time.RFC3339Nano, b)
	return errX == nil && errY == nil && x.Before(y)
}

// sameState reports whether two states are equal.
func sameState(a, b *mcp.Task) bool {
	return a.Status == b.Status && a.LastUpdatedAt == b.LastUpdatedAt && equal(a.StatusMessage, b.StatusMessage) &&
		equal(a.PollInterval, b.PollInterval) && equal(a.TTL, b.TTL)
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// refresh requests the state and returns it.
func (f *follower) refresh(ctx context.Context) (mcp.Task, error) {
	if f.id == "" {
		return mcp.Task{}, errNoTask
	}
	if f.ext != nil {
		err := f.get(ctx)
		return f.lastState(), err
	}
	f.mu.Lock()
	version := f.version
	f.mu.Unlock()
	r, err := peer(f.s).GetTask(ctx, &mcp.GetTaskRequestParams{TaskID: f.id})
	if err != nil {
		return f.lastState(), err
	}
	f.observe(r.AsTask(), version)
	return f.lastState(), nil
}

// interval returns the poll interval of the receiver, within limits. The caller holds mu.
func (f *follower) interval() time.Duration {
	if ms := f.state.PollInterval; ms != nil && *ms > 0 {
		return max(time.Duration(min(*ms, maxInterval.Milliseconds()))*time.Millisecond, minPollInterval)
	}
	return defaultInterval
}

// wait returns the time until the next tick. The caller holds mu.
func (f *follower) wait() time.Duration {
	if task.Terminal(f.state.Status) {
		return resultTimeout << f.repeats
	}
	return jittered(f.interval())
}

// jittered returns d with a random addition.
func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*jitter*float64(d))
}

// followPeriod is one period of following, as a rule from the first user of a handle to the last.
type followPeriod struct {
	f      *follower
	ctx    bare
	cancel context.CancelFunc
	timer  *time.Timer // calls tick; nil for a task of the Tasks extension
	group  sync.WaitGroup

	// For a task of the Tasks extension:
	failing sync.Once
	failed  chan struct{} // closed when err is set
	err     error         // ends the period; not the outcome of the task
	unwatch func()        // may be nil

	// repeat cancels the last repeated tasks/result. It is nil before the first. Only tick uses it.
	repeat context.CancelFunc
}

// bare is a context that belongs to no request, but has the other values, such as the user on whose
// authority Result was called. The requests of a period do not belong to the request within which
// Result was called: other users may need them, and they may be sent again later.
type bare struct{ context.Context }

// Value implements [context.Context].
func (b *bare) Value(key any) any {
	v := b.Context.Value(key)
	if _, ok := v.(*session.Request); ok {
		return nil
	}
	return v
}

// AfterFunc makes derived contexts end without a goroutine that waits for it.
func (b *bare) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(b.Context, f) }

// tick runs when the poll interval has passed, or when the result of a terminal task is overdue. In
// the first case it requests the state, in the second the result, while the earlier tasks/result is
// still open.
func (p *followPeriod) tick() {
	defer p.group.Done()
	f := p.f
	switch {
	case p.ctx.Err() != nil || f.isFinished():
		return
	case !task.Terminal(f.lastState().Status):
		_, err := f.refresh(&p.ctx)
		if lifetime := f.unresponsive(err); lifetime > 0 {
			f.finish(outcome{err: fmt.Errorf("requestor: task %q: no response for the %v that the task is kept: %w", f.id, lifetime, err)})
			return
		}
	case f.countRepeat() > maxRepeats:
		f.finish(outcome{err: fmt.Errorf("%w: no response to tasks/result for task %q", ErrNoResult, f.id)})
		return
	default:
		if p.repeat != nil {
			p.repeat() // at most two requests are open: the first and the latest
		}
		ctx, cancel := context.WithCancel(&p.ctx)
		p.repeat = cancel
		p.group.Go(func() { // ends with ctx, or with the response
			defer cancel()
			p.request(ctx)
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ctx.Err() == nil && f.period == p {
		p.group.Add(1)
		p.timer.Reset(f.wait())
	}
}

// countRepeat counts a repeated request for the result and returns the number so far.
func (f *follower) countRepeat() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.repeats++
	return f.repeats
}

// unresponsive returns the lifetime of the task if err of tasks/get shows that the receiver has not
// responded for that long. The task has expired by then. Otherwise, and for a task without TTL, it
// returns 0.
func (f *follower) unresponsive(err error) time.Duration {
	if err == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		f.lastResponse = time.Now()
	}
	if f.state.TTL == nil || time.Since(f.lastResponse).Milliseconds() <= *f.state.TTL {
		return 0
	}
	return time.Duration(*f.state.TTL) * time.Millisecond
}

// run follows the task until there is an outcome, or the period ends.
func (p *followPeriod) run() {
	if p.f.ext != nil {
		p.poll(context.Background())
		return
	}
	p.awaitResult()
}

// awaitResult keeps a tasks/result request open, and sends it again if it fails, until there is an
// outcome.
func (p *followPeriod) awaitResult() {
	unclear := 0
	for failures := 0; ; failures++ {
		retryable, err := p.request(&p.ctx)
		if err == nil || p.ctx.Err() != nil {
			return
		}
		if unclear++; retryable {
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

// request sends tasks/result and waits for the response. If it sets the outcome, err is nil.
// Otherwise retryable is true if there was no response, the error is temporary, or the task is not
// terminal. It is false if the response leaves the state of the task unclear, or if a temporary
// error may be the outcome of a failed task. tick limits how often the request is repeated without
// a response once the task is terminal.
func (p *followPeriod) request(ctx context.Context) (retryable bool, err error) {
	f := p.f
	raw, err := f.s.With(session.Timeout(0)).Call(ctx, mcp.MethodTasksResult, &mcp.GetTaskPayloadRequestParams{TaskID: f.id})
	switch {
	case err == nil && f.wasCancelled():
		f.finish(outcome{err: task.ErrCancelled}) // a cancelled task has no result
	case err == nil:
		f.finish(outcome{raw: raw})
	case ctx.Err() != nil:
		return true, err
	default:
		return p.classify(ctx, err)
	}
	return false, nil
}

// classify handles an error of tasks/result. The error is the outcome of the task, or it reports
// that the task or the session does not exist, or it is temporary. Only the state of the task shows
// whether the error is its outcome. The results are those of request.
func (p *followPeriod) classify(ctx context.Context, err error) (retryable bool, _ error) {
	f := p.f
	_, undeclared := errors.AsType[*session.CapabilityError](err)
	if undeclared || errors.Is(err, session.ErrClosed) || errors.Is(err, transport.ErrTooLong) {
		f.finish(outcome{err: err})
		return false, nil
	}
	e, answered := errors.AsType[*jsonrpc.Error](err)
	if answered && f.failedWith(e) {
		f.finish(outcome{err: err})
		return false, nil
	}
	if _, lost := errors.AsType[*transport.DeliveryError](err); lost {
		return true, err
	}
	if answered && temporary(e) {
		// The error may be the outcome of a failed task whose status message has another text.
		return f.lastState().Status != mcp.TaskStatusFailed, err
	}
	if !answered {
		return false, err // for example an invalid response
	}
	state, failed := f.refresh(ctx)
	switch refusal, _ := errors.AsType[*jsonrpc.Error](failed); {
	case failed == nil && !task.Terminal(state.Status):
		return true, err
	case failed == nil && state.Status == mcp.TaskStatusCompleted:
		return false, err // its outcome is no error
	case failed == nil:
	case refusal == nil, temporary(refusal):
		return true, err
	case refusal.Code != jsonrpc.CodeInvalidParams:
		return false, err
	default:
		f.mu.Lock()
		f.unknown = true
		f.mu.Unlock()
	}
	if f.wasCancelled() {
		err = task.ErrCancelled
	}
	f.finish(outcome{err: err})
	return false, nil
}

// temporary reports whether an error of a receiver is temporary.
func temporary(e *jsonrpc.Error) bool {
	return session.IsTemporary(e) || e.Code == task.CodeTooManyCalls || e.Code == modern.MapCode(task.CodeTooManyCalls)
}

// pause waits before a request is sent again, longer with each failure. If the state becomes
// terminal or input_required, it returns early, but not before minPollInterval. It returns false if
// following has stopped.
func (p *followPeriod) pause(failures int) bool {
	f := p.f
	f.mu.Lock()
	interval := f.interval()
	f.mu.Unlock()
	wait := jittered(max(min(interval<<min(failures, 16), maxBackoff), interval))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	floor := time.NewTimer(min(minPollInterval, wait))
	defer floor.Stop()
	_, before, _ := f.current()
	var changed <-chan struct{}
	for {
		select {
		case <-timer.C:
			return true
		case <-floor.C:
		case <-changed:
		case <-f.finished:
			return false
		case <-p.ctx.Done():
			return false
		}
		var state mcp.Task
		var version uint64
		state, version, changed = f.current()
		if version != before && (task.Terminal(state.Status) || state.Status == mcp.TaskStatusInputRequired) {
			return true
		}
	}
}
