package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// A signal is in the record of its task until the work takes it. The work takes it with the write
// that adds its entry to the journal, so that it is taken once, whichever process runs the work.
// Parked work runs again only because of a signal that it waits for; its record has their names.

// Signal is a value for the work of a task, from outside of the work; see [Manager.Signal].
type Signal struct {
	// ID is random; the Manager sets it. The entry with which the work takes the signal has it in
	// its Result, so that a signal whose storing was in doubt is not stored twice.
	ID    string
	Name  string
	Value json.RawMessage
}

// Errors of signals.
var (
	// ErrNoSignals reports that a task can take no signals: its work is not restartable, or has
	// failed and undoes what it has done.
	ErrNoSignals = errors.New("task: the work takes no signals")
	// ErrTooManySignals reports that a task has 64 signals that its work has not taken, or that their
	// names and values take 256 KiB. It may take more later.
	ErrTooManySignals = errors.New("task: too many signals that the work has not taken")
)

// size returns the number of bytes of a signal in a record.
func (s *Signal) size() int64 {
	return entryOverhead + int64(len(s.ID)+len(s.Name)+len(s.Value))
}

// Signal delivers a value, which is JSON, to the work of a task with a restartable Work. When it
// returns nil, the signal is stored, durably if the store is durable. The work takes
// signals of one name in the order in which they were stored, each one once. Parked work that waits
// for the name runs again. A signal for which the work does not wait is kept until the work waits
// for it; see [ErrTooManySignals]. When the task ends, signals that the work has not taken are dropped. Requestors do not see signals.
//
// Any member of a fleet can signal any task. The principal of the task is not checked: Signal is
// for code of the receiver, not for requestors.
//
// While the store fails, Signal tries again until ctx ends. If it then fails, or fails because the
// task has ended meanwhile, the signal may have been stored. Signal fails with [ErrNotFound] or
// [ErrExpired] if there is no such task, with a [*MoveError] if the task is terminal, with
// [ErrNoSignals] or [ErrTooManySignals], with an error for a name that is empty, longer than 256
// bytes or not UTF-8, with a [*JournalError] if the journal would become too large, with a
// [*LimitError] if the principal of the task has no bytes left, and with [ErrClosed].
func (m *Manager) Signal(ctx context.Context, id, name string, value json.RawMessage) error {
	if err := taskrules.CheckSignalName(name); err != nil {
		return fmt.Errorf("task: %w", err)
	}
	if err := codec.Valid(value); err != nil {
		return fmt.Errorf("task: signal %q: value: %w", name, err)
	}
	if err := m.hold(); err != nil {
		return err
	}
	defer m.group.Done()
	s := Signal{ID: rand.Text(), Name: name, Value: value}
	doubtful := false // an earlier attempt may have stored the signal
	err := m.persist(ctx, nil, func() error {
		_, err := m.change(ctx, id, func(r *Record) error {
			if doubtful {
				if stored, err := m.hasSignal(r, s.ID); err != nil {
					return err
				} else if stored {
					return errUnchanged
				}
			}
			return m.addSignal(r, &s)
		})
		doubtful = doubtful || unavailable(err)
		return err
	})
	return withID(id, err)
}

// hasSignal reports whether a record has the signal with an ID, or its journal does because the work
// has taken it.
func (m *Manager) hasSignal(r *Record, id string) (bool, error) {
	if r.Durable == nil || r.terminal() {
		return false, nil
	}
	if slices.Contains(r.Durable.signalIDs(), id) {
		return true, nil
	}
	entries, err := m.entriesOf(context.Background(), r)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(entries, func(e Entry) bool { return strings.Contains(string(e.Result), id) }), nil
}

// addSignal adds a signal to a record.
func (m *Manager) addSignal(r *Record, s *Signal) error {
	switch {
	case r.expired(m.earlier()):
		return ErrExpired
	case r.terminal(), r.withdrawn():
		return fmt.Errorf("task: signal %q to a task that has ended: %w", s.Name, &MoveError{r.shown(), mcp.TaskStatusWorking})
	case r.Durable == nil, r.undo() != taskrules.UndoNone:
		return ErrNoSignals
	}
	bytes := len(s.Name) + len(s.Value)
	for i := range r.Durable.Signals {
		bytes += len(r.Durable.Signals[i].Name) + len(r.Durable.Signals[i].Value)
	}
	if len(r.Durable.Signals) >= taskrules.MaxSignals || bytes > taskrules.MaxSignalBytes {
		return fmt.Errorf("%w: the limits are %d signals and %d bytes", ErrTooManySignals, taskrules.MaxSignals, taskrules.MaxSignalBytes)
	}
	d := *r.Durable
	d.Signals = append(slices.Clip(d.Signals), *s)
	r.Durable = &d
	if slices.Contains(d.Awaits, s.Name) {
		r.unpark()
	}
	return m.checkJournal(r)
}

// signalOf returns the index of the oldest signal whose name is among names; -1 for none.
func (r *Record) signalOf(names []string) int {
	if r.Durable == nil {
		return -1
	}
	return slices.IndexFunc(r.Durable.Signals, func(s Signal) bool { return slices.Contains(names, s.Name) })
}

// signalIDs returns the IDs of the signals of d, which may be nil.
func (d *Durable) signalIDs() (ids []string) {
	if d != nil {
		for i := range d.Signals {
			ids = append(ids, d.Signals[i].ID)
		}
	}
	return ids
}

// HasSignal returns the name of the oldest signal of the task whose name is among names, or "" if
// there is none. It fails as AwaitSignal does.
func (run runInternals) HasSignal(ctx context.Context, names []string) (name string, err error) {
	var r Record
	if err := run.readSignals(ctx, &r); err != nil {
		return "", err
	}
	return run.signalIn(&r, names)
}

// readSignals reads the record of the task.
func (run *Run) readSignals(ctx context.Context, r *Record) error {
	if !run.durable {
		return ErrNoSignals
	}
	err := run.m.persist(ctx, run, func() error { return run.m.logFault("read task", run.m.store.get(ctx, run.id, r)) })
	return run.endIfOver(overError(err))
}

// overError returns [ErrExpired] for the error of a task that was dropped.
func overError(err error) error {
	if errors.Is(err, ErrNotFound) {
		return ErrExpired
	}
	return err
}

// signalIn is HasSignal for a record.
func (run *Run) signalIn(r *Record, names []string) (string, error) {
	switch {
	case run.fenced(r):
		return "", run.endIfOver(ErrFenced)
	case r.terminal(), r.withdrawn():
		return "", run.endIfOver(ErrCancelled)
	}
	if i := r.signalOf(names); i >= 0 {
		return r.Durable.Signals[i].Name, nil
	}
	return "", nil
}

// AwaitSignal waits until the task has a signal whose name is among names, and returns the name of
// the oldest one. The signal stays in the record; see TakeSignal. If the time until comes
// first, AwaitSignal returns ""; the zero time never comes.
//
// Restartable work may be parked during the wait: AwaitSignal then returns [ErrParked], and the
// work runs again when such a signal is stored, or at the time until. If ctx ends first,
// AwaitSignal returns its cause. It fails with [ErrNoSignals] for work without a journal, and with
// [ErrCancelled], [ErrExpired] or [ErrFenced] if the work must not go on.
func (run runInternals) AwaitSignal(ctx context.Context, names []string, until time.Time) (name string, err error) {
	w := run.waits.Load()
	w.begin()
	defer w.end()
	either := ctx
	if w != nil {
		both := lazyctx.WithBoth(ctx, &w.ended)
		defer both.Release()
		either = both
	}
	until = until.Round(0) // drop the monotonic clock: other processes share only the wall clock
	if !until.IsZero() {
		run.checkExpiry(ctx, until)
	}
	var r Record
	if err := run.readSignals(ctx, &r); err != nil {
		return "", err
	}
	for {
		if w != nil && w.ended.Err() != nil {
			w.addSignals(names)
			if !until.IsZero() {
				w.addSleep(until)
			}
			return "", ErrParked
		}
		if name, err := run.signalIn(&r, names); name != "" || err != nil {
			return name, err
		}
		left := maxSweepInterval // the clock may be changed
		if !until.IsZero() {
			if left = min(left, until.Sub(run.m.now())); left <= 0 {
				return "", nil
			}
		}
		r.Params, r.InputRequests = nil, nil // as in Manager.wait
		limited, cancel := context.WithTimeout(either, left)
		err := run.m.await(limited, run.Run, &r)
		ended := limited.Err() != nil
		cancel()
		switch {
		case err == nil:
		case w != nil && w.ended.Err() != nil && run.ending() == nil:
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		case !ended:
			return "", run.endIfOver(overError(err))
		}
	}
}

// TakeSignal removes the oldest signal with a name from the record, and adds the entry e to the
// journal with the same write. The Result of the entry is that of result, which must contain the
// [Signal].ID. TakeSignal returns the entry, or ok false if there is no such signal, for example
// because another branch of the work has taken it. When it returns, the entry is stored as
// [Run.Record] stores it, and it fails as Record does.
func (run runInternals) TakeSignal(name string, e Entry, result func(s *Signal) json.RawMessage) (taken Entry, ok bool, err error) {
	if !run.durable {
		return e, false, ErrNoSignals
	}
	if run.m.enter(run.Run) {
		defer run.m.group.Done()
	} else if run.m.lifetime.Err() != nil {
		return e, false, ErrClosed
	}
	ctx := context.Background()
	doubtful := false // an earlier attempt may have taken a signal
	err = run.m.persist(ctx, run.Run, func() error {
		_, err := run.tryChange(ctx, func(r *Record) error {
			ok = false
			if r.terminal() || r.withdrawn() {
				return ErrCancelled
			}
			if doubtful {
				entries, err := run.m.entriesOf(ctx, r)
				if err != nil {
					return err
				}
				if i := slices.IndexFunc(entries, e.same); i >= 0 {
					taken, ok = entries[i], true
					return errUnchanged
				}
			}
			i := r.signalOf([]string{name})
			if i < 0 {
				return errUnchanged
			}
			taken, ok = e, true
			taken.Result = result(&r.Durable.Signals[i])
			d := *r.Durable
			d.Signals = slices.Delete(slices.Clone(d.Signals), i, i+1)
			r.Durable = d.with(append(run.takeAnswers(r), taken))
			r.grown()
			return run.m.checkJournal(r)
		})
		doubtful = doubtful || unavailable(err)
		return err
	})
	if err == nil && ok {
		run.m.scheduler.endTrial(run.Run)
	}
	return taken, ok && err == nil, run.endIfOver(overError(err))
}
