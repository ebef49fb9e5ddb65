package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Manager is the receiver's side of tasks: it creates them, runs their work, and answers what
// requestors ask about them. It is the only one that changes the tasks of its store. Its methods
// may be called by many goroutines.
//
// All of them take the principal on whose behalf they are called. A task of another principal
// does not exist, for any of them. The empty principal is one like any other: where nobody
// tells requestors apart they all are that one, and only the ids keep them from each other's
// tasks. Do not offer tasks/list there.
type Manager struct {
	cfg     Config
	store   guard
	release func() // gives up the store
	audit   audit

	life   context.Context // ends with Close
	end    context.CancelCauseFunc
	group  sync.WaitGroup // goroutines of the Manager, all work included
	nudge  chan struct{}  // holds one: a task expires before the sweeper would wake
	limits limiter
	past   graveyard

	waits      atomic.Uint64         // calls that have begun to wait for a result
	unstored   atomic.Int64          // outcomes that the store does not take
	lost       atomic.Int64          // outcomes that it has not taken when the Manager closed
	writeFault atomic.Pointer[error] // of the last write; nil if it succeeded

	mu     sync.Mutex
	closed bool
	runs   map[string]*Run       // work in this process, by task
	claims map[questionID]*claim // questions that are being delivered
	wake   time.Time             // when the sweeper wakes; zero for never
}

// questionID names a question among those of all tasks.
type questionID struct {
	task   string
	number uint64
}

// New returns a Manager for the tasks of a store, and takes up what the last one has left:
// work that is declared restartable, and jobs elsewhere, go on; other tasks that are not over are
// failed with a message that says why. It fails with [ErrInUse] if another Manager uses the store.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	release := func() {}
	if store, ok := cfg.Store.(Exclusive); ok {
		if release, err = store.Acquire(); err != nil {
			return nil, err
		}
	}
	m := &Manager{
		cfg:     cfg,
		store:   guard{cfg.Store},
		release: release,
		audit:   audit{hook: cfg.Audit, log: cfg.Logger},
		nudge:   make(chan struct{}, 1),
		limits:  limiter{limits: cfg.Limits, owners: map[string]*usage{}},
		runs:    map[string]*Run{},
		claims:  map[questionID]*claim{},
	}
	m.life, m.end = context.WithCancelCause(context.Background())
	if err := m.recover(ctx); err != nil {
		m.Close(ctx)
		return nil, err
	}
	m.group.Go(m.sweep) // ends with m.life
	return m, nil
}

// Close stops the Manager: it takes no more calls, those that are blocked fail with [ErrClosed],
// and the contexts of all work end. It waits until the work has returned, or ctx ends. If ctx has
// ended before, as that of [os/signal.NotifyContext] has after the signal, it does not wait, and outcomes
// are lost if the store is closed next. Tasks that can go on after a restart stay as they are; those
// that cannot are failed. An outcome that the store refuses is tried again for some seconds; the error
// says how many were lost.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	runs := slices.Collect(maps.Values(m.runs))
	m.mu.Unlock()
	m.end(ErrClosed)
	for _, run := range runs {
		run.ctx.Cancel(ErrClosed)
	}
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
	if n := m.lost.Load(); n > 0 {
		return fmt.Errorf("task: close: %d outcomes were not stored", n)
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for. It reports false if the Manager has closed.
func (m *Manager) spawn(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.group.Go(f) // ends with f
	return true
}

// Health returns nil if the Manager works, [ErrClosed] if it was closed, and otherwise the error
// that prevents writes to the store. It calls a store that is a [HealthChecker]; for other stores
// it returns the error of the last write. See also [Stats.Unstored].
func (m *Manager) Health() error {
	if m.life.Err() != nil {
		return ErrClosed
	}
	if checker, ok := m.cfg.Store.(HealthChecker); ok {
		return boundary.Run(checker.Health)
	}
	if err := m.writeFault.Load(); err != nil {
		return *err
	}
	return nil
}

// admit counts a call of a principal, and refuses it if the Manager is closed or the rate is too
// high.
func (m *Manager) admit(principal string) error {
	if m.life.Err() != nil {
		return ErrClosed
	}
	return m.limits.call(principal)
}

// read reads the record of a principal's task into r.
func (m *Manager) read(ctx context.Context, principal, id string, r *Record) error {
	err := m.store.get(ctx, id, r)
	if err == nil && r.Owner != principal {
		err = errForeign
	}
	if err == nil && r.expired(time.Now()) {
		err = ErrExpired
	}
	if errors.Is(err, ErrNotFound) && m.past.holds(principal, id) {
		err = ErrExpired
	}
	if err != nil {
		return m.fault("read task", err)
	}
	return nil
}

// errForeign is what ErrNotFound is inside if the task belongs to somebody else.
var errForeign = fmt.Errorf("%w: another principal's", ErrNotFound)

// fault logs an error of the store that is no answer.
func (m *Manager) fault(what string, err error) error {
	if answer(err) {
		return err
	}
	if !boundary.Report(m.cfg.Logger, "task store panicked", err, "doing", what) {
		m.cfg.Logger.Error("task store", "doing", what, "error", err)
	}
	return err
}

// answer reports whether an error of the store is an expected answer and not a fault.
func answer(err error) bool {
	for _, known := range []error{ErrNotFound, ErrExpired, ErrExists, ErrConflict, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// wrote records the outcome of a write for Health.
func (m *Manager) wrote(err error) {
	if err != nil && !answer(err) {
		fault := err // so that err itself is on the heap only here
		m.writeFault.Store(&fault)
	} else if m.writeFault.Load() != nil {
		m.writeFault.Store(nil)
	}
}

// errSame makes change leave a record as it is.
var errSame = errors.New("task: nothing to change")

// change applies f to the record of a task that is not over, and stores it. It tries again as long
// as others write in between. What f must not do is refused with a [*MoveError], and what takes too
// many bytes with a [*LimitError]; if f returns errSame, having changed nothing, nothing is stored, and
// the record is returned as it is. The end of ctx ends it before the record is written, but not the write, whose
// outcome would be unknown.
func (m *Manager) change(ctx context.Context, id string, f func(r *Record) error) (r Record, err error) {
	for {
		if err := m.store.get(ctx, id, &r); err != nil {
			return r, m.fault("read task", err)
		}
		from := r.Status
		if err := f(&r); err == errSame {
			return r, nil
		} else if err != nil {
			return r, err
		}
		if err = m.replace(from, &r); !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
}

// replace stores r in the place of the record that was read, whose status was from, and makes r what
// the store has then. Updated and Bytes of r are those of the record that was read. It fails with
// ErrConflict if the record has changed in between, and otherwise as change does.
func (m *Manager) replace(from mcp.TaskStatus, r *Record) error {
	if Terminal(from) || r.Status != from && !Legal(from, r.Status) {
		return &MoveError{from, r.Status}
	}
	run := m.run(r.ID) // now: its work may have returned when the record is written
	before := r.Bytes
	r.Updated = after(r.Updated)
	r.Bytes = r.size()
	reserved := max(0, r.Bytes-before)
	if reserved > 0 {
		// A task must be able to end, by an error, if that is small.
		must := len(r.Error) > 0 && len(r.Error) <= smallError
		if err := m.limits.reserve(r.Owner, reserved, must); err != nil {
			return err
		}
	}
	err := m.store.update(r)
	if err != nil && !answer(err) {
		err = m.confirm(r, err)
	}
	m.wrote(err)
	if err != nil {
		m.limits.reserve(r.Owner, -reserved, true)
		return m.fault("write task", err)
	}
	m.changed(run, from, r, reserved)
	return nil
}

// confirm returns nil if the store has r all the same, although Update has failed with err.
func (m *Manager) confirm(r *Record, err error) error {
	var now Record
	if failed := m.store.get(context.Background(), r.ID, &now); failed != nil || !wasWritten(&now, r) {
		return err
	}
	*r = now
	return nil
}

// smallError is how long an error may be that is stored beyond the limit.
const smallError = 4 << 10

// wasWritten reports whether now, what the store has, is what Update made of r.
func wasWritten(now, r *Record) bool {
	return now.Revision == r.Revision+1 && now.Updated.Equal(r.Updated) && now.Status == r.Status &&
		now.StatusMessage == r.StatusMessage && now.Bytes == r.Bytes && len(now.InputRequests) == len(r.InputRequests)
}

// after returns the time, which is later than t in any case.
func after(t time.Time) time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(t) {
		now = t.Add(time.Microsecond)
	}
	return now
}

// changed handles the consequences of a stored change: from is the earlier status, and reserved the
// bytes that were reserved for r.
func (m *Manager) changed(run *Run, from mcp.TaskStatus, r *Record, reserved int64) {
	if run == nil { // its work could not be stopped in time: the Manager is closed
		m.limits.reserve(r.Owner, -reserved, true)
	} else if !m.limits.settle(&run.share, r, reserved) && !r.over() {
		return // a later change was faster, or the task is gone; nothing comes after a terminal status
	}
	if r.Status == from {
		return
	}
	m.audit.moved(from, r)
	if run == nil || m.cfg.Quiet {
		return
	}
	switch r.Status {
	case mcp.TaskStatusCancelled:
		// The requestor of the work may be slow, and may not be the one that cancels.
		told := *r
		m.spawn(func() { run.notify(&told) }) // ends within statusTimeout
		return
	case mcp.TaskStatusCompleted, mcp.TaskStatusFailed:
		runtime.Gosched() // waiters for the outcome go first
	}
	run.notify(r)
}

// run returns the work of a task if it is done here, or nil.
func (m *Manager) run(id string) *Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[id]
}

// Get returns the state of a task (MCP tasks, "Getting Tasks"). Via, which may be nil, is where
// the requestor can be reached from now on, as long as none waits in Result.
func (m *Manager) Get(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	var r Record
	if err := m.get(ctx, principal, id, via, &r); err != nil {
		m.audit.refused(principal, id, mcp.MethodTasksGet, err)
		return mcp.Task{}, err
	}
	m.audit.read(&r, mcp.MethodTasksGet)
	return r.Task(), nil
}

func (m *Manager) get(ctx context.Context, principal, id string, via Requestor, r *Record) error {
	if err := m.admit(principal); err != nil {
		return err
	}
	if err := m.read(ctx, principal, id, r); err != nil {
		return err
	}
	if run := m.run(id); run != nil {
		run.reach(via)
	}
	return nil
}

// Cancel moves a task to cancelled, and then stops its work, without waiting for that to
// return; it returns the state (MCP tasks, "Task Cancellation"). Whatever the work still does,
// the task stays cancelled. It fails with a [*MoveError] if the task is over.
func (m *Manager) Cancel(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	var r Record
	err := m.get(ctx, principal, id, via, &r)
	if err == nil {
		r, err = m.cancel(ctx, id)
	}
	if err != nil {
		m.audit.refused(principal, id, mcp.MethodTasksCancel, err)
		return mcp.Task{}, err
	}
	return r.Task(), nil
}

func (m *Manager) cancel(ctx context.Context, id string) (Record, error) {
	run := m.run(id)
	if run != nil {
		run.pause()
		defer run.unpause()
	}
	r, err := m.change(ctx, id, func(r *Record) error {
		r.close(mcp.TaskStatusCancelled, "cancelled by the requestor")
		r.Error = cancelledError
		return nil
	})
	if err != nil {
		return r, err
	}
	if run != nil {
		run.silence()
		run.ctx.Cancel(ErrCancelled)
	}
	return r, nil
}

// close ends a task, but for its outcome.
func (r *Record) close(s mcp.TaskStatus, message string) {
	r.Status, r.StatusMessage = s, message
	r.Params, r.InputRequests = nil, nil
}
