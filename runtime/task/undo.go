package task

import (
	"context"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Restartable work may register that it must undo something, with an entry of KindUndo. If it
// fails, it calls BeginUndo, undoes it and calls EndUndo before it returns. If the task
// is cancelled or expires, one write says so in the record, whose status is not terminal until all
// is undone: in all other respects, the task is an unfinished one. It has a holder, is recovered and
// taken over, may be parked, and is not dropped at its expiry. Its work ends and runs again, and
// learns from Undoing what it has to do. Then the record becomes terminal.
//
// Work may also fail before it has come so far: because middleware fails, or something that it needs
// is not there. So work that returns without EndUndo runs again, after a pause, for a day.

// undo returns why the work undoes what it has done.
func (r *Record) undo() taskrules.Undo {
	if r.Durable == nil {
		return taskrules.UndoNone
	}
	return r.Durable.Undo
}

// undoes reports whether the work has registered that it must undo something.
func (r *Record) undoes() bool { return r.Durable != nil && r.Durable.Undos > 0 && !r.terminal() }

// mustUndo reports whether the work has to run again to undo something if the task fails now.
func (r *Record) mustUndo() bool { return r.undoes() && r.undo() == taskrules.UndoNone }

// standing is the status of a record, the one that requestors see, and whether its work is parked.
type standing struct {
	status, shown mcp.TaskStatus
	parked        bool
}

func (r *Record) standing() standing { return standing{r.Status, r.shown(), r.parked()} }

// withdrawn reports whether the task was cancelled or has expired, and is being undone.
func (r *Record) withdrawn() bool { return r.undo() >= taskrules.UndoCancelled && !r.terminal() }

// shown returns the status that requestors see.
func (r *Record) shown() mcp.TaskStatus {
	if r.withdrawn() {
		return mcp.TaskStatusCancelled
	}
	return r.Status
}

// show makes r the record that requestors see.
func (r *Record) show() {
	if r.withdrawn() {
		r.setCancelled(r.StatusMessage)
	}
}

// setCancelled makes the record that of a cancelled task.
func (r *Record) setCancelled(message string) {
	r.setTerminal(mcp.TaskStatusCancelled, message)
	r.Result, r.Error = nil, cancelledError
}

// Retained reports whether [Store.Sweep] must not drop the task although it has expired at now: its
// work must undo something.
func (r *Record) Retained(now time.Time) bool {
	if !r.undoes() {
		return false
	}
	since := r.Expires()
	if undo := r.Durable.UndoSince; undo.After(since) { // by a clock that was set forward, perhaps
		since = undo
	}
	return now.Before(since.Add(taskrules.MaxRetained))
}

// withdraw makes the work undo what it has done, after the task was cancelled or has expired.
func (r *Record) withdraw(why taskrules.Undo, now time.Time, message string) {
	d := *r.Durable
	if d.Undo == taskrules.UndoNone {
		d.UndoSince = now.UTC().Truncate(time.Microsecond)
	}
	d.Undo, d.Parked, d.Wake, d.Awaits, d.Signals = why, false, time.Time{}, nil, nil
	r.Durable, r.StatusMessage, r.Status, r.Progress = &d, message, mcp.TaskStatusWorking, nil
	var answered []InputRequest
	for _, q := range r.InputRequests {
		if !q.Open() && q.Key != "" {
			answered = append(answered, q)
		}
	}
	if r.InputRequests = answered; r.running() || r.Phase == taskrules.PhaseDoomed {
		r.Phase = taskrules.PhaseSuspended
	}
}

// expireUndo makes the work undo what it has done if the task has expired. It reports whether it
// has changed the record.
func (m *Manager) expireUndo(r *Record) bool {
	if now := m.earlier(); r.undoes() && !r.withdrawn() && r.expired(now) {
		r.withdraw(taskrules.UndoExpired, m.now(), "the task has expired")
		return true
	}
	return false
}

// undoing is what a run that undoes knows. Most runs never do, so that it is not part of Run.
type undoing struct {
	why   taskrules.Undo
	since time.Time

	tried       int       // what this process is trying to undo; see [Run.undoTime]
	triedSince  time.Time // zero until the first call of UndoTime for an undo
	missed      bool      // UndoTime(0) was called since the journal was read
	missedSince time.Time // the first such call in a series of executions with one; zero for none
	ended       bool      // EndUndo was called
}

// whyUndo reports why the work runs the undos that earlier runs have registered, and since when. It
// returns taskrules.UndoNone if the work runs as usual. The result is valid once [Run.Journal] has
// returned.
func (run *Run) whyUndo() (why taskrules.Undo, since time.Time) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.undoing == nil {
		return taskrules.UndoNone, time.Time{}
	}
	return run.undoing.why, run.undoing.since
}

// beginUndo stores that the work has failed with an outcome and undoes what it has done, unless it
// does so already. From then on, later runs only undo, and have an entry of KindFailure. It fails
// as [Run.Record] does, but not because of a limit.
func (run *Run) beginUndo(failure Outcome) error {
	r, err := run.change(context.Background(), func(r *Record) error { return run.m.beginUndo(r, failure) })
	if err != nil {
		return err
	}
	run.setUndo(&r)
	return nil
}

// beginUndo is the change of [Run.beginUndo].
func (m *Manager) beginUndo(r *Record, failure Outcome) error {
	switch {
	case r.terminal() || r.Durable == nil:
		return ErrCancelled
	case r.undo() != taskrules.UndoNone:
		return errUnchanged
	}
	e := Entry{Kind: taskrules.KindFailure, Occurrence: 1, Result: failure.Result}
	if failure.Error != nil {
		e.Result, e.Failed = encodeError(failure.Error), true
	}
	d := r.Durable
	if len(e.Result) <= smallError {
		d = d.with([]Entry{e})
	} else {
		d = d.with(nil)
	}
	d.Undo, d.UndoSince, d.Signals = taskrules.UndoFailed, m.now().UTC().Truncate(time.Microsecond), nil
	r.Durable = d
	return nil
}

// EndUndo says that the work has undone what it had to, or does not try it any longer. What the work
// then returns is the outcome of the task.
func (run runInternals) EndUndo() {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.undoing != nil {
		run.undoing.ended = true
	}
}

// mustUndo reports whether work that has returned must run again, because it has registered that it
// must undo something, and has not done so. End is what it has returned.
func (m *Manager) mustUndo(run *Run, end finalState) bool {
	why, _ := run.whyUndo()
	run.mu.Lock()
	undone := run.undoing != nil && run.undoing.ended
	run.mu.Unlock()
	switch {
	case m.cfg.Recovery.Recover == nil || run.over() != nil:
		return false
	case why == taskrules.UndoNone:
		return end.status == mcp.TaskStatusFailed && run.beginUndo(end.out) == nil
	case undone:
		return false
	case run.undoTime(0) < taskrules.MaxUndoTime:
		m.cfg.Logger.Warn("task not undone", "task", run.id, "error", end.message)
		return true
	}
	m.cfg.Logger.Error("compensations not run", "task", run.id, "error", end.message)
	return false
}

// undoLater parks work that has to run again to undo what it has done. It returns as park does.
func (m *Manager) undoLater(run *Run) Work {
	return m.parkFor(run, awaited{wake: m.now().Add(taskrules.UndoPause(run.undoTime(0)))})
}

// undoTime returns for how long this process has been trying to undo what has the given number,
// parked or not. The time begins with the first call for the number, and no clock that is set
// changes it. It begins again in the next process: no attempt is made while there is none. It is 0
// if the work does not undo. Number 0 is for work that does not come to what it must undo: that time
// goes on while the work comes to other undos, and ends with an execution that does not ask for it.
func (run *Run) undoTime(number int) time.Duration {
	run.mu.Lock()
	defer run.mu.Unlock()
	u := run.undoing
	if u == nil {
		return 0
	}
	if number == 0 {
		u.missed = true
		if u.missedSince.IsZero() {
			u.missedSince = time.Now()
		}
		return time.Since(u.missedSince)
	}
	if u.tried != number || u.triedSince.IsZero() {
		u.tried, u.triedSince = number, time.Now()
	}
	return time.Since(u.triedSince)
}

// setUndo sets what this execution of the work knows of the record. It notes undos, too: the write
// that added them may be one of the previous holder, or one that the store has reported as failed.
func (run *Run) setUndo(r *Record) {
	if r.undoes() {
		run.m.mu.Lock()
		run.m.noteUndos(run, r)
		run.m.mu.Unlock()
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if r.undo() == taskrules.UndoNone {
		run.undoing = nil
		return
	}
	if run.undoing == nil {
		run.undoing = new(undoing)
	}
	run.undoing.why, run.undoing.since, run.undoing.ended = r.undo(), r.Durable.UndoSince, false
}

// beginUndoing begins what UndoTime(0) measures anew, unless the execution before this one has asked
// for it.
func (run *Run) beginUndoing() {
	run.mu.Lock()
	defer run.mu.Unlock()
	u := run.undoing
	if u == nil {
		return
	}
	if !u.missed {
		u.missedSince = time.Time{}
	}
	u.missed = false
}

// noteUndos makes undoExpired look whether the task has expired, once its work must undo something.
// The caller holds mu.
func (m *Manager) noteUndos(run *Run, r *Record) {
	if r.undoes() && !run.undoes.Swap(true) {
		m.undoable[run.id] = run
	}
}

// withdrawn ends the execution of work that does not know yet that the task was cancelled or has
// expired. The work then runs again to undo what it has done.
func (m *Manager) withdrawn(run *Run, r *Record) {
	if why, _ := run.whyUndo(); why == r.undo() {
		return
	}
	run.abortProgress()
	if r.undo() == taskrules.UndoExpired {
		run.endContext(ErrExpired)
	} else {
		run.endContext(ErrCancelled)
	}
	m.unpark(run.id, false)
}

// runAgain runs work again that has returned. The caller must not use the run again.
func (m *Manager) runAgain(run *Run) {
	m.scheduler.endTrial(run)
	go m.resumeAndRun(run) // ends with the work
}

// undoExpired makes the work of expired tasks undo what it has done. It returns when the next such
// task expires, or the zero time.
func (m *Manager) undoExpired() (next time.Time) {
	now := m.earlier()
	var due []*Run
	m.mu.Lock()
	for id, run := range m.undoable {
		switch at := time.UnixMicro(run.expires); {
		case run.expires == 0:
			delete(m.undoable, id)
		case !now.Before(at):
			due = append(due, run)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	m.mu.Unlock()
	for _, run := range due {
		if !m.undoExpiredTask(run) {
			next = now.Add(wakeRetry)
			continue
		}
		m.mu.Lock()
		if m.undoable[run.id] == run {
			delete(m.undoable, run.id)
		}
		m.mu.Unlock()
	}
	return next
}

// undoExpiredTask is undoExpired for one task. It returns false if the store fails.
func (m *Manager) undoExpiredTask(run *Run) bool {
	if run.claiming.Load() != claimStored {
		return false
	}
	changed, parked := false, false
	r, err := run.tryChange(context.Background(), func(r *Record) error {
		parked = r.parked()
		if changed = m.expireUndo(r); !changed {
			return errUnchanged
		}
		return nil
	})
	switch {
	case err == nil && changed:
		if !parked { // otherwise change has run the work
			m.withdrawn(run, &r)
		}
	case err == nil && !r.terminal() && !r.withdrawn(): // the clock was set back
		return false
	}
	return err == nil || expectedError(err) || errors.Is(err, ErrFenced) || errors.Is(err, ErrCorrupt)
}
