package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Work runs a task. It returns the result that the plain request would have had. An error that is
// not a [*jsonrpc.Error] becomes an internal error with its text.
//
// The context ends when the task is cancelled (its cause is then [ErrCancelled]), when the task
// expires ([ErrExpired]), when the Manager closes ([ErrClosed]) or when another member of the fleet
// may hold the task ([ErrFenced]). While the work runs, it ends for no other reason. A panic fails
// the task and nothing else.
type Work func(ctx context.Context, run *Run) (codec.Encoder, error)

// Outcome is the result or the error with which a task or a job ends.
type Outcome struct {
	Result json.RawMessage // an object, if Error is nil
	Error  *jsonrpc.Error
}

// Run is the running work of one task. The work uses it to report progress and to send
// notifications and input requests to its requestor. A Run is a [jsonrpc.Caller] and a
// [jsonrpc.Notifier], so that [mcp.ToClient] and the like send typed messages through it. Its
// methods may be called concurrently.
type Run struct {
	m  *Manager
	id string
	// seq is the Seq of the record. It is set before the work starts. It is 0 if the creation of
	// the task may have failed.
	seq    uint64
	method string
	token  mcp.ProgressToken
	// creator is the requestor that created the task. It is nil if unknown, for example after a
	// restart.
	creator Requestor
	usage   taskUsage
	// expires is when the task expires, in microseconds since 1970; 0 if it never does.
	expires int64
	// claim is that of the run. It never changes once claiming is claimStored.
	claim Claim
	// latest is the latest record that this process has written, if the store is shared, the task
	// is running and its payloads are small. A write that is based on it fails if it is out of
	// date.
	latest atomic.Pointer[Record]
	// ctx is the context of the work, and waits is the state of its waits. They are renewed when
	// parked work runs again, and nil while it rests. waits is nil if the work cannot be parked.
	ctx   atomic.Pointer[workContext]
	waits atomic.Pointer[waits]

	mu               sync.Mutex
	lastSeen         Requestor    // destination if there are no waiters; nil if unknown
	waiters          []Requestor  // requestors that wait in Result, the latest last
	waitersBuf       [1]Requestor // initial buffer of waiters
	progress         progress
	lastInputRequest uint64                    // number of the latest input request
	room             chan struct{}             // see roomTurn; nil until it is used
	consumed         map[uint64]bool           // numbers of the input requests whose answers were returned
	answers          map[inputKey]InputRequest // answers in the journal
	additions        []*addition               // entries to add to the journal with the next write
	notifiedRevision uint64                    // revision of the latest status that was sent
	pendingStatus    *Record                   // latest status to send after that one, or nil
	elsewhere        bool                      // requestors in other processes of the fleet may wait for messages, too
	answersRead      bool                      // answers has those of earlier runs
	adding           bool                      // a write of the journal is in progress

	// redelivery ends when an input request needs another waiter. It is nil until a waiter uses it.
	redelivery *lazyctx.Cancellable

	undoing *undoing    // nil unless this execution of the work undoes; guarded by mu
	undoes  atomic.Bool // the record has entries of KindUndo

	// wake is when the run rests until, in microseconds since 1970, and wakeIndex is its place in
	// the Manager's wakes; -1 if it has none. These fields are guarded by the Manager's mu.
	wake      int64
	wakeIndex int32
	rest      restState

	claiming atomic.Uint32 // claimStored, claimPending or claimMissed
	// shelved is set while the run rests because there is no work for it; see
	// [Manager.ToolsChanged].
	shelved atomic.Bool
	// lost is set when another member may hold the task. It stays set, whatever the run does next.
	lost atomic.Bool

	changed     int64 // when the record was changed last before the task was recovered, in microseconds since 1970; never changes
	attends     bool  // the run is an attendant; never changes
	recoverable bool  // the next Manager recovers the task; never changes
	durable     bool  // the record has a journal; never changes
	extension   bool  // see Record.Extension; never changes
	preparing   bool  // the record is being prepared for recovery; reset before the work starts
	notifying   bool  // a goroutine is sending a status; guarded by mu

	// interruptions is how often the work was parked although it had more to do than to wait. Only the
	// goroutine that runs the work uses it.
	interruptions uint8
}

// restState says whether the work of a run has a goroutine.
type restState uint8

const (
	awake   restState = iota
	woken             // awake, and unpark was called since renew
	resting           // the work is parked and has no goroutine
)

// Whether the record has the claim of the run.
const (
	claimStored  uint32 = iota
	claimPending        // the record may not have it yet
	claimMissed         // and another member has changed the record meanwhile
)

// newRun registers the run of a task. The caller must later call removeRun.
func (m *Manager) newRun(ctx context.Context, r *Record, via Requestor) (*Run, error) {
	var run *Run
	if r.Durable != nil {
		run = new(Run)
		run.durable = true
	} else {
		both := new(struct {
			Run
			ctx workContext
		})
		run = &both.Run
		both.ctx.values, both.ctx.run = ctx, run
		run.ctx.Store(&both.ctx)
	}
	run.m, run.id, run.seq, run.method, run.token, run.lastSeen, run.creator = m, r.ID, r.Seq, r.Method, r.Token, via, via
	run.recoverable, run.extension = r.Restartable || r.Runner != "", r.extension()
	run.usage = taskUsage{principal: r.Owner, bytes: r.Bytes, revision: r.Revision, requestBytes: int64(len(r.Params))}
	if r.TTL != 0 {
		run.expires = r.Expires().UnixMicro()
	}
	run.waiters = run.waitersBuf[:0]
	run.progress.greatest, run.progress.sent = math.Inf(-1), math.Inf(-1)
	if r.Progress != nil {
		run.progress.sent = *r.Progress
	}
	if r.Durable != nil {
		run.lastInputRequest = r.Durable.LastInput
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, m.errClosed()
	}
	defer m.mu.Unlock()
	if m.runs[r.ID] != nil {
		return nil, ErrExists
	}
	if run.durable {
		m.setContext(run, ctx) // while mu is held, so that parkSoon finds the run or Drain was called before
	}
	run.claim, run.elsewhere = r.Claim, via == nil && m.fleet.others()
	run.claiming.Store(claimPending)
	m.fleet.follow(r.ID)
	m.runs[r.ID] = run
	m.noteUndos(run, r)
	m.group.Add(1)
	return run, nil
}

// setContext gives a run of restartable work a new context, with the values of ctx.
func (m *Manager) setContext(run *Run, ctx context.Context) {
	both := new(struct {
		workContext
		waits
	})
	both.values, both.run = ctx, run
	run.ctx.Store(&both.workContext)
	if m.cfg.Recovery.ParkAfter > 0 && m.cfg.Recovery.Recover != nil {
		both.parkAfter = m.parkAfter(run)
		run.waits.Store(&both.waits)
	}
}

// endContext ends the context of the work with a cause. It does nothing while the run rests.
func (run *Run) endContext(cause error) {
	if ctx := run.ctx.Load(); ctx != nil {
		ctx.Cancel(cause)
	}
}

// endIfOver ends the context of the work if err, which it returns, says that the work must not go
// on: the work may see that in the store before the context ends, and would begin something else
// instead.
func (run *Run) endIfOver(err error) error {
	switch err {
	case ErrCancelled, ErrExpired:
		run.endContext(err)
	case ErrFenced:
		run.m.fence(run)
	}
	return err
}

// ending returns the cause with which the context of the work has ended, or nil.
func (run *Run) ending() error {
	if ctx := run.ctx.Load(); ctx != nil {
		return ctx.Cause()
	}
	return nil
}

// removeRun ends the context of a run and removes the run from the Manager.
func (m *Manager) removeRun(run *Run) {
	run.endContext(context.Canceled)
	m.scheduler.endTrial(run)
	m.mu.Lock()
	delete(m.runs, run.id)
	if m.undoable[run.id] == run {
		delete(m.undoable, run.id)
	}
	m.checkIdle()
	m.mu.Unlock()
	m.fleet.removed(run)
	m.group.Done()
}

// workContext is the context of work. It ends with the task, and has the values of the request that
// created the task.
type workContext struct {
	lazyctx.Cancellable
	values context.Context
	run    *Run
}

func (c *workContext) Value(key any) any {
	if key == (runKey{}) {
		return c.run
	}
	if v := c.Cancellable.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

type runKey struct{}

// FromContext returns the Run of the work that ctx belongs to. If there is none, ok is false.
func FromContext(ctx context.Context) (run *Run, ok bool) {
	run, ok = ctx.Value(runKey{}).(*Run)
	return run, ok
}

// ID returns the id of the task.
func (run *Run) ID() string { return run.id }

// runWork runs the work of a task and publishes its outcome, unless the work is parked. It releases
// the ticket of the work, which may be nil.
//
// Work that blocks keeps its stack, so runWork has a small frame: what follows the work is in
// functions of its own.
func (m *Manager) runWork(run *Run, work Work, t *ticket) {
	var end *workEnd // nil while the work runs
	defer func() {
		if end == nil { // the work has called runtime.Goexit
			if work, end = m.afterWork(run, work, nil, boundary.ErrGoexit); end == nil {
				go m.runWork(run, work, t) // ends with the work
				return
			}
		}
		t.release()
		if work != nil {
			m.workReturned(run, end)
		}
	}()
	for end == nil {
		result, failure := callWork(run.ctx.Load(), run, work)
		work, end = m.afterWork(run, work, result, failure)
	}
}

// workEnd is how the work of a task ends.
type workEnd struct {
	state finalState
	err   error
}

// afterWork decides what follows after work has returned a result or a failure. It returns the work
// that runs next, or how the work ends. With an end, the work is nil if the task is parked or runs
// again elsewhere.
func (m *Manager) afterWork(run *Run, work Work, result codec.Encoder, failure error) (Work, *workEnd) {
	w := run.waits.Load()
	w.stop()
	if cause := run.ending(); run.undoes.Load() && (cause == ErrCancelled || cause == ErrExpired) {
		boundary.Report(m.cfg.Logger, "work panicked", failure, "task", run.id)
		m.runAgain(run)
		return nil, new(workEnd)
	}
	if a := w.awaited(); a.any() && (errors.Is(failure, ErrParked) || failure == boundary.ErrGoexit) {
		return next(m.park(run))
	}
	lazyctx.GrowStack() // not earlier, because work that blocks for days often needs less stack
	state := finalStateOf(run, result, failure)
	if run.undoes.Load() && !run.interrupted(failure) && m.mustUndo(run, state) {
		boundary.Report(m.cfg.Logger, "work panicked", failure, "task", run.id)
		return next(m.undoLater(run))
	}
	return work, &workEnd{state, failure}
}

// next returns work as the work that runs next. If it is nil, the work ends.
func next(work Work) (Work, *workEnd) {
	if work == nil {
		return nil, new(workEnd)
	}
	return work, nil
}

// workReturned publishes the outcome of work that has ended.
func (m *Manager) workReturned(run *Run, end *workEnd) {
	m.returned.Add(1)
	again := false
	defer func() {
		m.returned.Add(-1)
		if again {
			m.runAgain(run)
		} else {
			m.removeRun(run)
		}
	}()
	err := end.err
	if err != nil {
		boundary.Report(m.cfg.Logger, "work panicked", err, "task", run.id)
	}
	m.limits.workReturned(&run.usage)
	if run.interrupted(err) {
		run.suspend()
		return
	}
	again = m.publish(run, end.state) == errUndo
	if run.undoes.Load() && run.expires != 0 {
		m.scheduleSweep(time.UnixMicro(run.expires)) // which may have passed
	}
}

// callWork calls work and returns a panic as an error.
func callWork(ctx context.Context, run *Run, work Work) (result codec.Encoder, err error) {
	defer boundary.Catch(&err)
	return work(ctx, run)
}

// interrupted reports whether the work ended because the Manager closed and the next Manager
// recovers the task, or because another member may hold the task.
func (run *Run) interrupted(err error) bool {
	cause := run.ending()
	return err != nil && (run.recoverable && cause == ErrClosed || cause == ErrFenced)
}

// suspend prepares the record for the next Manager, after the Manager has closed: it stores the
// progress, and that the work does not run any longer.
func (run *Run) suspend() {
	if !run.durable && run.token.IsZero() || run.ending() == ErrFenced {
		return
	}
	run.abortProgress() // no progress follows the write
	// If this fails, the error is logged, and the end of the process counts as its death.
	run.change(context.Background(), func(r *Record) error {
		before := r.Progress
		run.saveProgress(r)
		if r.terminal() || r.Progress == before && !r.running() {
			return errUnchanged
		}
		if r.running() {
			r.Phase = taskrules.PhaseSuspended
		}
		return nil
	})
}

// destination returns the Requestor for the next message, or nil. In a fleet, it includes those of
// other processes that may wait for it. The caller holds mu.
func (run *Run) destination() Requestor {
	here := run.here()
	if !run.elsewhere {
		return here
	}
	return remote{run.m.fleet.(*shared), run.id, here}
}

// here returns the Requestor in this process for the next message, or nil. In a fleet, the waiters
// are those of the attendant, which stays when the task moves from one member to another. The caller
// holds mu.
func (run *Run) here() Requestor {
	var attendant *Run
	if !run.attends {
		attendant = run.m.fleet.attendant(run.id)
	}
	if attendant != nil {
		attendant.mu.Lock()
		defer attendant.mu.Unlock()
		if n := len(attendant.waiters); n > 0 {
			return attendant.waiters[n-1]
		}
		if run.lastSeen == nil {
			return attendant.lastSeen
		}
	}
	if n := len(run.waiters); n > 0 {
		return run.waiters[n-1]
	}
	return run.lastSeen
}

// requestor returns the requestor in this process that the next message of the work would be sent
// to, or nil if there is none.
func (run *Run) requestor() Requestor {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.here()
}

// setElsewhere makes requestors in other processes destinations, too.
func (run *Run) setElsewhere() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.elsewhere = true
	run.cancelStaleReport()
}

// setLastSeen makes via the destination while there are no waiters.
func (run *Run) setLastSeen(via Requestor) {
	if via == nil {
		return
	}
	run.mu.Lock()
	run.lastSeen = via
	run.mu.Unlock()
	run.redirect()
}

// addWaiter adds a Requestor that waits in Result. It is the destination until a later one is added
// or removeWaiter is called.
func (run *Run) addWaiter(via Requestor) {
	run.mu.Lock()
	run.waiters = append(run.waiters, via)
	run.mu.Unlock()
	run.redirect()
}

// removeWaiter undoes addWaiter.
func (run *Run) removeWaiter(via Requestor) {
	run.mu.Lock()
	for i := len(run.waiters) - 1; i >= 0; i-- {
		if run.waiters[i] == via {
			run.waiters = slices.Delete(run.waiters, i, i+1)
			break
		}
	}
	run.mu.Unlock()
	run.redirect()
}

// redirect cancels a report of the work in this process that is being sent to another requestor
// than the present destination.
func (run *Run) redirect() {
	if run.attends {
		if run = run.m.findRun(run.id); run == nil {
			return
		}
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	run.cancelStaleReport()
}

// SetStatusMessage sets the status message of the task, a text for people. It does not change the
// status.
func (run *Run) SetStatusMessage(ctx context.Context, message string) error {
	return run.set(ctx, func(r *Record) { r.StatusMessage = statusText(message) })
}

// SetPollInterval changes the interval of polling that is suggested to requestors; 0 suggests none.
// It fails if d is negative.
func (run *Run) SetPollInterval(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("task: negative poll interval (%v)", d)
	}
	return run.set(ctx, func(r *Record) { r.PollInterval = wholeMilliseconds(d) })
}

// set applies f to the record of the task.
func (run *Run) set(ctx context.Context, f func(r *Record)) error {
	_, err := run.change(ctx, func(r *Record) error { f(r); return nil })
	return err
}
