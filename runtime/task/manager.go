package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
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
	store   Store
	release func() // gives up the store
	audit   audit

	life   context.Context // ends with Close
	end    context.CancelCauseFunc
	group  sync.WaitGroup // goroutines of the Manager, all work included
	nudge  chan struct{}  // holds one: a task expires before the sweeper would wake
	limits limiter
	past   graveyard

	mu      sync.Mutex
	closed  bool
	runs    map[string]*Run     // work in this process, by task
	claimed map[questionID]bool // questions that somebody is delivering
	wake    time.Time           // when the sweeper wakes; zero for never
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
		store:   cfg.Store,
		release: release,
		audit:   audit{hook: cfg.Audit, log: cfg.Logger},
		nudge:   make(chan struct{}, 1),
		limits:  limiter{limits: cfg.Limits, owners: map[string]*usage{}},
		runs:    map[string]*Run{},
		claimed: map[questionID]bool{},
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
// and the contexts of all work end. It waits until the work has returned, or ctx ends. Tasks that
// can go on after a restart stay as they are; those that cannot are failed.
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
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admit counts a call of a principal, and refuses it if the Manager is closed or the rate is too
// high.
func (m *Manager) admit(principal string) error {
	if m.life.Err() != nil {
		return ErrClosed
	}
	return m.limits.call(principal)
}

// read returns the record of a principal's task.
func (m *Manager) read(ctx context.Context, principal, id string) (Record, error) {
	r, err := m.store.Get(ctx, id)
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
		return Record{}, m.fault("read task", err)
	}
	return r, nil
}

// errForeign is what ErrNotFound is inside if the task belongs to somebody else.
var errForeign = fmt.Errorf("%w: another principal's", ErrNotFound)

// fault logs an error of the store that is no answer.
func (m *Manager) fault(what string, err error) error {
	for _, known := range []error{ErrNotFound, ErrExpired, ErrConflict, ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return err
		}
	}
	m.cfg.Logger.Error("task store", "doing", what, "error", err)
	return err
}

// errSame makes change leave a record as it is.
var errSame = errors.New("task: nothing to change")

// change applies f to the record of a task that is not over, and stores it. It tries again as
// long as others write in between. What f must not do is refused with a [*MoveError], and what takes
// too many bytes with a [*LimitError]; if f returns errSame nothing is stored, and the record is returned as it is.
func (m *Manager) change(ctx context.Context, id string, f func(r *Record) error) (Record, error) {
	for {
		r, err := m.store.Get(ctx, id)
		if err != nil {
			return r, m.fault("read task", err)
		}
		old := r
		if err := f(&r); err == errSame {
			return old, nil
		} else if err != nil {
			return old, err
		}
		r, err = m.replace(ctx, &old, r)
		if !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
}

// replace stores r in the place of old, the record as it was read, and returns it as it is then. It fails with
// ErrConflict if somebody else has written in between, and else as change does.
func (m *Manager) replace(ctx context.Context, old *Record, r Record) (Record, error) {
	if old.over() || r.Status != old.Status && !Legal(old.Status, r.Status) {
		return *old, &MoveError{old.Status, r.Status}
	}
	r.Updated = after(old.Updated)
	r.Bytes = r.size()
	// A task must be able to end, by an error, which is small; and nobody is to answer in vain.
	must := r.Error != nil || r.open() < old.open()
	if err := m.limits.grow(r.Owner, r.Bytes-old.Bytes, must); err != nil {
		return *old, err
	}
	stored, err := m.store.Update(ctx, r)
	if err != nil {
		m.limits.grow(r.Owner, old.Bytes-r.Bytes, true)
		return r, m.fault("write task", err)
	}
	m.changed(old.Status, &stored)
	return stored, nil
}

// after returns the time, which is later than t in any case.
func after(t time.Time) time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(t) {
		now = t.Add(time.Microsecond)
	}
	return now
}

// changed does what follows from a change of a task that was in a status.
func (m *Manager) changed(from mcp.TaskStatus, r *Record) {
	if r.Status == from {
		return
	}
	if r.over() {
		m.limits.finish(r.Owner)
	}
	m.audit.moved(from, r)
	if !m.cfg.Quiet {
		if run := m.run(r.ID); run != nil {
			if r.over() {
				runtime.Gosched() // the outcome, to those who wait for it, is of more use
			}
			run.notify(r)
		}
	}
}

// run returns the work of a task if it is done here, or nil.
func (m *Manager) run(id string) *Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[id]
}

// Get returns the state of a task (MCP tasks, "Getting Tasks"). Via, which may be nil, is where
// the requestor can be reached from now on.
func (m *Manager) Get(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	r, err := m.get(ctx, principal, id, via)
	if err != nil {
		m.audit.refused(principal, id, "tasks/get", err)
		return mcp.Task{}, err
	}
	m.audit.read(&r, "tasks/get")
	return r.Task(), nil
}

func (m *Manager) get(ctx context.Context, principal, id string, via Requestor) (Record, error) {
	if err := m.admit(principal); err != nil {
		return Record{}, err
	}
	r, err := m.read(ctx, principal, id)
	if err != nil {
		return r, err
	}
	if run := m.run(id); run != nil {
		run.reach(via)
	}
	return r, nil
}

// Cancel moves a task to cancelled, and then stops its work, without waiting for that to
// return; it returns the state (MCP tasks, "Task Cancellation"). Whatever the work still does,
// the task stays cancelled. It fails with a [*MoveError] if the task is over.
func (m *Manager) Cancel(ctx context.Context, principal, id string, via Requestor) (mcp.Task, error) {
	r, err := m.get(ctx, principal, id, via)
	if err == nil {
		r, err = m.cancel(ctx, id)
	}
	if err != nil {
		m.audit.refused(principal, id, "tasks/cancel", err)
		return mcp.Task{}, err
	}
	return r.Task(), nil
}

func (m *Manager) cancel(ctx context.Context, id string) (Record, error) {
	run := m.run(id)
	if run != nil {
		run.hush()
	}
	r, err := m.change(ctx, id, func(r *Record) error {
		r.close(mcp.TaskStatusCancelled, "cancelled by the requestor")
		r.Error = cancelledError
		return nil
	})
	if err != nil {
		if run != nil && !r.over() {
			run.speak()
		}
		return r, err
	}
	if run != nil {
		run.ctx.Cancel(ErrCancelled)
	}
	return r, nil
}

// close ends a task, but for its outcome.
func (r *Record) close(s mcp.TaskStatus, message string) {
	r.Status, r.StatusMessage = s, message
	r.Params, r.Questions = nil, nil
}
