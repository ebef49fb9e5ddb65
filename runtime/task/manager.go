package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Manager is the receiver's side of tasks: it creates them, runs their work, and serves requests
// about them. No other component changes the tasks of its store. Its methods may be called
// concurrently.
//
// Methods about tasks take the principal of the caller. A task of another principal does not exist
// for the caller. The empty principal is a principal like any other. If requestors cannot be
// distinguished, all of them have the empty principal, and each can use any task whose id it knows.
// Do not offer tasks/list in that case.
type Manager struct {
	cfg     Options
	store   safeStore
	outage  outage
	release func() // releases the store
	fleet   fleet
	started time.Time
	steady  steadyClock // the second clock if the store is not shared
	audit   audit

	background  context.Context // values of the contexts of work that runs again
	lifetime    context.Context // ends when Close is called
	endLifetime context.CancelCauseFunc
	group       sync.WaitGroup // goroutines of the Manager, all work included
	sweepSooner chan struct{}  // capacity 1; signals that nextSweep has become earlier
	limits      limiter
	expiredIDs  expiredSet
	watches     watches
	scheduler   scheduler

	skewed   bool        // whether checkClock has logged a difference
	draining atomic.Bool // Drain was called

	lastWaiter   atomic.Uint64 // number of the latest call that began to wait for a result
	returned     atomic.Int64  // runs whose work has returned, and whose outcome is being published
	unstored     atomic.Int64  // outcomes that wait to be stored because the store has failed
	lostOutcomes atomic.Int64  // outcomes that were not stored when the Manager closed

	mu        sync.Mutex
	closed    bool
	runs      map[string]*Run           // work in this process, by task id, parked work included
	undoable  map[string]*Run           // those that must undo something if the task expires
	claims    map[inputRequestID]*claim // input requests that are being delivered
	nextSweep time.Time                 // zero if no sweep is scheduled
	resting   int                       // number of runs that rest
	wakes     wakes                     // resting runs that have a time to wake
	wakeTimer *time.Timer               // calls wakeDue; nil until first used
	idle      chan struct{}             // see idleSignal; nil if nothing waits for it
}

// inputRequestID identifies an input request among those of all tasks.
type inputRequestID struct {
	task   string
	number uint64
}

// New returns a Manager for the tasks of a store, and recovers the unfinished tasks in it.
// Restartable work is re-run and external jobs are followed again; other unfinished tasks fail,
// with a message that says why. New returns [ErrInUse] if another Manager uses the store.
//
// If the store is shared, New joins its fleet instead; see [Store].Join. From then on, the Manager
// takes over the unfinished tasks of members that have ended, and recovers them.
func New(ctx context.Context, cfg Options) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	release, err := safeStore{store: cfg.Store}.acquire()
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg:         cfg,
		background:  context.WithoutCancel(ctx),
		release:     release,
		started:     time.Now(),
		audit:       audit{hook: cfg.Hooks.Audit, log: cfg.Logger},
		sweepSooner: make(chan struct{}, 1),
		limits:      limiter{limits: cfg.Limits, principals: map[string]*usage{}},
		runs:        map[string]*Run{},
		undoable:    map[string]*Run{},
		claims:      map[inputRequestID]*claim{},
	}
	m.store = safeStore{store: cfg.Store, outage: &m.outage}
	m.scheduler = scheduler{m: m, max: cfg.Limits.Running, pools: map[string]*pool{}, turns: map[string]*turn{}, calls: map[*ticket]context.CancelCauseFunc{}}
	m.scheduler.lastBegin.Store(-int64(maxTrialWindow)) // no work has begun
	m.lifetime, m.endLifetime = context.WithCancelCause(context.Background())
	switch f, err := m.joinFleet(ctx); {
	case err == nil:
		m.release = func() { f.leave(); release() }
		m.group.Go(f.run) // ends with m.lifetime
	case !errors.Is(err, errors.ErrUnsupported):
		m.endLifetime(ErrClosed)
		release()
		return nil, err
	default:
		if err := m.recover(ctx); err != nil {
			m.Close(ctx)
			return nil, err
		}
	}
	m.group.Go(m.sweepLoop) // ends with m.lifetime
	return m, nil
}

// Close refuses new calls, ends blocked calls with [ErrClosed], and ends the contexts of all work;
// call [Manager.Drain] before to let work finish.
// It then waits until the work has returned or ctx ends. If ctx has already ended, like the context
// of [os/signal.NotifyContext] after the signal, Close does not wait, and outcomes are lost if the
// store is closed next.
//
// Tasks that can be recovered after a restart stay as they are, for the next Manager or for other
// members of the fleet; all others fail. Close waits until calls of [Run.Record] have stored their
// entries, and for cancellations, answers and signals that are being stored. If the store fails, Close waits for a few attempts, about three seconds. The error says
// how many outcomes were lost. Close may be called again.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	runs := slices.Collect(maps.Values(m.runs))
	m.setWakeTimer()
	m.mu.Unlock()
	for _, run := range runs { // first: work must not take what follows for a failure
		run.endContext(ErrClosed)
	}
	m.endLifetime(ErrClosed)
	done := make(chan struct{})
	go func() { // ends with the work
		m.group.Wait()
		m.release()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n := m.lostOutcomes.Load(); n > 0 {
		return fmt.Errorf("task: close: %d outcomes were not stored", n)
	}
	return nil
}

// spawn runs f in a goroutine. Close waits for it. spawn returns false if the Manager is closed.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.group.Go(f) // ends with f
	return true
}

// hold makes Close wait until the caller calls group.Done. It fails with [ErrClosed] if the Manager
// is closed. It is for changes from outside of the work: the next Manager of the store must find
// them, because it reads the records of parked tasks once.
func (m *Manager) hold() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return m.errClosed()
	}
	m.group.Add(1)
	m.mu.Unlock()
	return nil
}

// errClosed returns [ErrClosed] once Close has ended the contexts of all work.
func (m *Manager) errClosed() error {
	<-m.lifetime.Done()
	return ErrClosed
}

// Done returns a channel that is closed when the Manager is closed or, for a Manager of [New] that
// has failed, never. Tasks may still be ending then; see [Manager.Close].
func (m *Manager) Done() <-chan struct{} { return m.lifetime.Done() }

// Health returns nil if the Manager works, [ErrClosed] if it is closed, and otherwise the error
// that the store fails with, or that has ended the membership in a fleet. It calls [Store].Health.
// If the store accepts writes or does not know, Health returns the latest failure of an operation
// for a task, until one succeeds or none has failed for 6 seconds. It also returns an error if the
// store has not answered an operation for 30 seconds, as long as Health is called meanwhile. While
// the store has been failing for 2 seconds, or does not answer, the Manager creates no tasks. See
// also [Stats.Unstored].
func (m *Manager) Health() error {
	if m.lifetime.Err() != nil {
		return ErrClosed
	}
	if _, err := m.fleet.claim(Claim{}); err != nil {
		return err
	}
	if err := m.hangs(); err != nil {
		return err
	}
	if err := boundary.Run(m.cfg.Store.Health); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	err, _ := m.outage.current()
	return err
}

// admit counts a call of a principal, or of the network of ctx. It fails if the Manager is closed or
// the principal calls too often.
func (m *Manager) admit(ctx context.Context, principal string) error {
	if m.lifetime.Err() != nil {
		return ErrClosed
	}
	return m.limits.allowCall(principal, network.From(ctx))
}

// read reads the record of a principal's task into r.
func (m *Manager) read(ctx context.Context, principal, id string, r *Record) error {
	err := m.store.get(ctx, id, r)
	if err == nil && r.Owner != principal {
		err = errForeign
	}
	if err == nil && r.expired(m.earlier()) {
		err = ErrExpired
	}
	if errors.Is(err, ErrNotFound) && m.expiredIDs.contains(principal, id) {
		err = ErrExpired
	}
	if err == nil {
		r.show()
		m.explain(r)
	}
	return m.logFault("read task", err)
}

// explain sets the status message of a task that no process runs to the reason.
func (m *Manager) explain(r *Record) {
	if text := m.waitsFor(r); text != "" {
		r.StatusMessage = statusText(text)
	}
}

// errForeign wraps ErrNotFound for a task of another principal.
var errForeign = fmt.Errorf("%w: it belongs to another principal", ErrNotFound)

// errUnchanged makes change leave the record as it is.
var errUnchanged = errors.New("task: nothing to change")

// change applies f to the record of a task and stores it. If the record was written in between,
// change starts again. An illegal move fails with a [*MoveError], and too many bytes fail with a
// [*LimitError]. If f returns errUnchanged, change returns the record as it is, without a write; f
// must not have modified the record. If f unparks the record, change runs the work.
//
// The end of ctx interrupts change before the write, but not the write itself: it would be unknown
// whether an interrupted write has happened.
func (m *Manager) change(ctx context.Context, id string, f func(r *Record) error) (r Record, err error) {
	for {
		if err := m.store.get(ctx, id, &r); err != nil {
			return r, m.logFault("read task", err)
		}
		from, seen := r.standing(), r.view()
		if err := f(&r); err == errUnchanged {
			m.recheck(&r)
			return r, nil
		} else if err != nil {
			return r, err
		}
		if from.parked && !r.parked() && r.running() && m.findRun(id) == nil {
			r.Phase = taskrules.PhaseSuspended // until its member runs it, which may have died
		}
		if err = m.replace(from, &r); !errors.Is(err, ErrConflict) {
			if err == nil && r.shown() == from.shown && r.view() != seen { // afterChange reports another status
				m.watches.notify(id)
			}
			if err == nil && from.parked && !r.parked() && !m.unpark(id, r.terminal()) && !r.terminal() {
				return m.change(context.WithoutCancel(ctx), id, suspended)
			}
			return r, err
		}
	}
}

// suspended is a change that notes that the work does not run. The end of the process is no death
// during the work then.
func suspended(r *Record) error {
	if r.terminal() || !r.running() {
		return errUnchanged
	}
	r.Phase = taskrules.PhaseSuspended
	return nil
}

// replace stores r in place of the record that was read, whose standing was from. It then sets r to
// the stored record. Updated and Bytes of r must be those of the record that was read. replace
// fails with ErrConflict if the record has been written in between, and otherwise like change.
func (m *Manager) replace(from standing, r *Record) error {
	if Terminal(from.status) || r.Status != from.status && !legal(from.status, r.Status) {
		return &MoveError{from.status, r.Status}
	}
	run := m.findRun(r.ID) // before the write, after which the work may return
	if run != nil {
		run.saveProgress(r)
	}
	before := r.Bytes
	r.Updated = m.laterThan(r.Updated)
	r.Bytes = r.size()
	reserved := max(0, r.Bytes-before)
	owner := m.limits.owner(r)
	if reserved > 0 {
		// A small error is always stored, so that every task can become terminal, and so is what a
		// task notes while it undoes what it has done, and what its work waits for when it is parked:
		// otherwise it would run again and again instead. Recovery must not fail either: it adds
		// nothing, but this version may count more bytes for a record of an earlier version.
		must := len(r.Error) > 0 && len(r.Error) <= smallError || r.undo() != taskrules.UndoNone && reserved <= 2*smallError ||
			r.parked() && !from.parked && reserved <= smallError || run != nil && run.preparing
		if !must {
			m.measure(r.Owner, reserved)
		}
		if err := m.limits.reserve(&owner, reserved, must); err != nil {
			return err
		}
	}
	err := m.store.update(r)
	if err != nil && !expectedError(err) {
		err = m.confirmWrite(r, err)
	}
	if err != nil {
		if run != nil {
			run.latest.Store(nil)
		}
		m.limits.reserve(&owner, -reserved, true)
		return m.logFault("write task", err)
	}
	m.fleet.wrote(run, r)
	m.afterChange(run, from.shown, r, reserved)
	return nil
}

// maxLatest is the size in bytes of the payloads up to which a run keeps its latest record.
const maxLatest = 16 << 10

// setLatest sets the latest record that this member of a fleet has written, unless it is large or
// needs no write of running work.
func (run *Run) setLatest(r *Record) {
	payloads := r.Bytes
	if r.Durable != nil {
		payloads -= r.Durable.RecordedBytes
	}
	if payloads > maxLatest || r.terminal() || r.parked() || r.Claim != run.claim {
		run.latest.Store(nil)
		return
	}
	latest := *r
	run.latest.Store(&latest)
}

// replaceLatest applies f to the latest record that this member of a fleet has written, and stores
// the result. It reads nothing. It returns false if there is no such record, if f fails, or if the
// record may be out of date: then nothing was written. F must not change what the record points to.
func (run *Run) replaceLatest(f func(r *Record) error) (r Record, done bool, err error) {
	latest := run.latest.Load()
	if latest == nil {
		return r, false, nil
	}
	return run.replaceFrom(latest, f)
}

// replaceFrom is replaceLatest for the latest record. It is a function of its own because its result
// is allocated on the heap.
func (run *Run) replaceFrom(latest *Record, f func(r *Record) error) (r Record, done bool, err error) {
	r = *latest
	if f(&r) != nil {
		return r, false, nil
	}
	err = run.m.replace(latest.standing(), &r)
	_, move := errors.AsType[*MoveError](err)
	_, limit := errors.AsType[*LimitError](err)
	return r, !move && !limit && !errors.Is(err, ErrConflict), err
}

// confirmWrite returns nil if the store has written r although Update failed with err. Otherwise it
// returns err.
func (m *Manager) confirmWrite(r *Record, err error) error {
	var stored Record
	if failed := m.store.get(context.Background(), r.ID, &stored); failed != nil || !wasWritten(&stored, r) {
		return err
	}
	m.outage.note(true, nil)
	*r = stored
	return nil
}

// smallError is the size in bytes up to which an error is stored even above the limit.
const smallError = 4 << 10

// wasWritten reports whether stored, the record in the store, is the result of Update(r). It may
// return false for one that is. Another change of the same record may have been stored instead, at the
// same time and with as many bytes, such as the answer to another input request.
func wasWritten(stored, r *Record) bool {
	return stored.Revision == r.Revision+1 && stored.Updated.Equal(r.Updated) && stored.Status == r.Status &&
		stored.StatusMessage == r.StatusMessage && stored.Bytes == r.Bytes &&
		stored.Phase == r.Phase && stored.Reruns == r.Reruns && stored.Claim == r.Claim &&
		slices.EqualFunc(stored.InputRequests, r.InputRequests, sameState) &&
		bytes.Equal(stored.Result, r.Result) && bytes.Equal(stored.Error, r.Error) &&
		slices.Equal(stored.Durable.signalIDs(), r.Durable.signalIDs()) && stored.Durable.sameWork(r.Durable)
}

// sameState reports whether two input requests of a task are the same, and have the same answer.
func sameState(q, other InputRequest) bool {
	return q.Number == other.Number && q.Branch == other.Branch && q.Key == other.Key && q.Occurrence == other.Occurrence &&
		bytes.Equal(q.Result, other.Result) && bytes.Equal(q.Error, other.Error)
}

// sameWork reports whether the work of a task has come as far in d as in other. Either may be nil.
func (d *Durable) sameWork(other *Durable) bool {
	if d == nil || other == nil {
		return d == other
	}
	return d.Recorded == other.Recorded && d.Parked == other.Parked && d.Undo == other.Undo
}

// laterThan returns the present time, or the microsecond after t if the clock has not passed t.
func (m *Manager) laterThan(t time.Time) time.Time {
	now := m.now().UTC().Truncate(time.Microsecond)
	if !now.After(t) {
		now = t.Add(time.Microsecond)
	}
	return now
}

// afterChange applies the consequences of a stored change: it counts the bytes, audits a move and
// notifies the requestor. The status that it has seen before is from, and reserved is the number of
// bytes that replace reserved for r.
func (m *Manager) afterChange(run *Run, from mcp.TaskStatus, r *Record, reserved int64) {
	to := r.shown()
	if to != from {
		defer m.watches.notify(r.ID)
	}
	if run == nil { // the Manager is closed and did not wait for the work
		owner := m.limits.owner(r)
		m.limits.reserve(&owner, -reserved, true)
	} else if !m.limits.commit(&run.usage, r, reserved) && !r.terminal() {
		// A later change was counted first, or the task has been dropped, so the status of r is out
		// of date. A terminal status is never out of date.
		return
	}
	if to == from {
		return
	}
	m.audit.moved(from, r)
	if run == nil || m.cfg.Updates.Quiet {
		return
	}
	if to == mcp.TaskStatusCancelled {
		// The requestor of the work may be slow, and the cancelling requestor must not wait for it.
		state := *r
		m.spawn(func() { run.notifyStatus(&state) }) // ends within statusTimeout
		return
	}
	run.notifyStatus(r)
}

// findRun returns the work of a task in this process, or nil.
func (m *Manager) findRun(id string) *Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[id]
}

// Get returns the state of a task (MCP tasks, "Getting Tasks"). Via, which may be nil, receives
// messages about the task from now on, unless another Requestor waits in Result.
func (m *Manager) Get(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	var r Record
	if err := m.get(ctx, principal, id, via, &r); err != nil {
		m.audit.refused(principal, id, mcp.MethodTasksGet, err)
		return mcp.Task{}, withID(id, err)
	}
	m.audit.read(&r, mcp.MethodTasksGet)
	return r.Task(), nil
}

func (m *Manager) get(ctx context.Context, principal, id string, via Requestor, r *Record) error {
	if err := m.admit(ctx, principal); err != nil {
		return err
	}
	if err := m.read(ctx, principal, id, r); err != nil {
		return err
	}
	if run := m.findLocal(id); run != nil {
		run.setLastSeen(via)
	}
	if run := m.findRun(id); run != nil {
		run.setLastSeen(via)
	}
	m.recheck(r)
	return nil
}

// Cancel moves a task to cancelled and ends the context of its work, without waiting until the work
// returns. It returns the new state (MCP tasks, "Task Cancellation"). The task stays cancelled
// whatever the work returns. Cancel fails with a [*MoveError] if the task is terminal.
func (m *Manager) Cancel(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	var r Record
	err := m.get(ctx, principal, id, via, &r)
	if err == nil {
		r, err = m.cancel(ctx, id, "cancelled by the requestor")
	}
	if err != nil {
		m.audit.refused(principal, id, mcp.MethodTasksCancel, err)
		return mcp.Task{}, withID(id, err)
	}
	return r.Task(), nil
}

// CancelForOperator is [Manager.Cancel] for an operator of the receiver, who may cancel the tasks
// of every principal, without a limit on calls. The status message says so.
func (m *Manager) CancelForOperator(ctx context.Context, id string) (mcp.Task, error) {
	r, err := m.cancel(ctx, id, "cancelled by an operator of the receiver")
	if err != nil {
		return mcp.Task{}, withID(id, err)
	}
	return r.Task(), nil
}

// cancel moves a task to cancelled with a status message, and ends its work.
func (m *Manager) cancel(ctx context.Context, id, message string) (Record, error) {
	if err := m.hold(); err != nil {
		return Record{}, err
	}
	defer m.group.Done()
	run := m.findRun(id)
	if run != nil {
		run.pauseProgress()
		defer run.unpauseProgress()
	}
	parked := false
	r, err := m.change(ctx, id, func(r *Record) error {
		parked = r.parked()
		switch {
		case r.withdrawn():
			return &MoveError{mcp.TaskStatusCancelled, mcp.TaskStatusCancelled}
		case r.undoes():
			r.withdraw(taskrules.UndoCancelled, m.now(), message)
		default:
			r.setCancelled(message)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	switch {
	case run == nil || parked && r.withdrawn(): // change runs the work
	case r.withdrawn():
		m.withdrawn(run, &r)
	default:
		run.abortProgress()
		run.endContext(ErrCancelled)
		if run.shelved.Load() {
			m.unpark(id, true)
		}
	}
	return r, nil
}

// setTerminal sets a terminal status and removes the payloads that a terminal task does not need.
// The caller sets the outcome.
func (r *Record) setTerminal(s mcp.TaskStatus, message string) {
	r.Status, r.StatusMessage = s, message
	r.Params, r.InputRequests, r.Progress = nil, nil, nil
	r.Phase, r.Lost = taskrules.PhaseRunning, nil
	if d := r.Durable; d != nil && (d.Recorded > 0 || d.Parked || d.Undo != taskrules.UndoNone || d.Signals != nil) {
		r.Durable = &Durable{Version: d.Version, LastInput: d.LastInput}
	}
}
