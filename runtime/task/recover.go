package task

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// recoveryWorkers is the number of tasks that are recovered concurrently. A store can combine their
// writes into shared transactions.
const recoveryWorkers = 64

// recover recovers the unfinished tasks in the store.
func (m *Manager) recover(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m.scheduler.hold()
	defer m.scheduler.release()
	briefs := make(chan Record)
	var group sync.WaitGroup
	for range recoveryWorkers { // the goroutines end with the scan
		group.Go(func() {
			for r := range briefs {
				err := m.recoverTask(ctx, r, true)
				if _, ended := errors.AsType[*MoveError](err); err != nil && !ended && !errors.Is(err, ErrNotFound) {
					cancel(err)
				}
			}
		})
	}
	err := m.scan(ctx, briefs)
	close(briefs)
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// scan counts all tasks, recovers the parked ones, and sends the briefs of the other unfinished
// ones. Those that have expired by the wall clock come last. Whether they have is decided by the
// time of the latest write: the steadyClock begins with it, because the wall clock may be wrong.
func (m *Manager) scan(ctx context.Context, briefs chan<- Record) error {
	now := m.now()
	var latest time.Time
	var late []Record
	for r, err := range m.store.scan(ctx) {
		if err != nil {
			return err
		}
		m.limits.addExisting(r.Owner, r.Bytes, !r.terminal())
		if r.Updated.After(latest) && r.Updated.Before(now) {
			latest = r.Updated
		}
		switch {
		case r.terminal():
			if r.Job != "" && r.Status == mcp.TaskStatusCancelled {
				m.cancelLeftoverJob(r)
			}
		case r.expired(now):
			late = append(late, r)
		default:
			if err := m.recoverScanned(ctx, r, briefs); err != nil {
				return err
			}
		}
	}
	if latest.IsZero() {
		latest = now
	}
	m.steady.begin(latest, time.Since(m.started))
	for _, r := range late {
		if now := m.earlier(); !r.expired(now) || r.Retained(now) {
			if err := m.recoverScanned(ctx, r, briefs); err != nil {
				return err
			}
		} else if r.Job != "" {
			m.cancelLeftoverJob(r)
		}
	}
	return nil
}

// recoverScanned recovers a parked task, or sends its brief.
func (m *Manager) recoverScanned(ctx context.Context, r Record, briefs chan<- Record) error {
	if r.parked() && m.cfg.Recovery.Recover != nil {
		brief := r // so that only the records of parked tasks move to the heap
		return m.recoverParked(ctx, &brief)
	}
	select {
	case briefs <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// recoverTask starts the work that recovers a task, or fails the task. Died is set if the process
// that held the task last has ended, and this one has not.
func (m *Manager) recoverTask(ctx context.Context, brief Record, died bool) error {
	var r Record
	err := m.store.get(ctx, brief.ID, &r)
	if errors.Is(err, ErrCorrupt) {
		m.cfg.Logger.Error("damaged task found", "task", brief.ID, "error", err)
		return m.failUnrecoverable(ctx, &brief, "the stored record of the task is damaged")
	}
	if err != nil {
		return err
	}
	if r.terminal() {
		return &MoveError{r.Status, mcp.TaskStatusWorking}
	}
	if r.Claim != brief.Claim {
		return errTaken // not the claim whose member was found to be dead
	}
	if r.Status != mcp.TaskStatusWorking && r.Status != mcp.TaskStatusInputRequired {
		return m.failUnrecoverable(ctx, &r, "the stored record of the task is damaged")
	}
	changed := r.Updated
	m.markNew(&r)
	certain := died && r.Claim.Member == "" // no other process can have run the work
	if certain {
		if m.countDeath(&r, ""); r.Phase == taskrules.PhaseDoomed && !r.mustUndo() {
			return m.failUnrecoverable(ctx, &r, doomedText(&r))
		}
	}
	work := m.recoveredWork(r)
	if work == nil && (r.Restartable || r.Runner != "") && m.fleet.refused(nil, &r) {
		return errUnknownWork
	}
	if work == nil && r.Durable == nil {
		return m.failUnrecoverable(ctx, &r, "the receiver was restarted while the task was running, and the task cannot be recovered")
	}
	run, err := m.newRun(context.WithoutCancel(ctx), &r, nil)
	if err != nil {
		return err
	}
	run.preparing, run.changed = true, changed.UnixMicro()
	from, expired := m.prepareClaim(run, &r), false
	r, err = m.change(ctx, r.ID, func(r *Record) error {
		m.markNew(r)
		if err := run.take(r, from); err != nil {
			return err
		}
		before := *r
		if died {
			m.countDeath(r, from.Member)
		}
		if certain && r.Phase == taskrules.PhaseDoomed {
			m.undoSuspect(r)
		}
		expired = m.expireUndo(r)
		switch {
		case r.Durable == nil || r.Phase == taskrules.PhaseDoomed:
		case work != nil && !m.suspected(r) && !m.crowded(r):
			m.begin(r)
		case r.Begun():
			r.Phase = taskrules.PhaseSuspended
		}
		if run.claim == from && r.InputRequests == nil && r.Phase == before.Phase && r.Reruns == before.Reruns && !expired {
			return errUnchanged
		}
		// The work that waited for the answers to these input requests has ended with its process.
		// Durable work will ask for them again.
		r.InputRequests = slices.DeleteFunc(slices.Clone(r.InputRequests), func(q InputRequest) bool { return q.Key == "" })
		r.leaveInputRequired()
		return nil
	})
	if err != nil {
		m.removeRun(run)
		return err
	}
	run.preparing = false
	run.setUndo(&r)
	if r.withdrawn() {
		run.abortProgress()
	}
	run.endClaiming()
	m.audit.recovered(&r)
	if work == nil {
		run.shelved.Store(true)
		if !m.rest(run, time.Time{}) {
			go m.resumeAndRun(run) // ends with the work
		}
		return nil
	}
	if r.Phase == taskrules.PhaseDoomed {
		go m.awaitVerdict(run, r, work) // ends with the work
		return nil
	}
	m.start(run, &r, false, m.observed(&r, work))
	return nil
}

// recoverParked makes the run of a parked task rest. Its brief suffices for that.
func (m *Manager) recoverParked(ctx context.Context, brief *Record) error {
	run, err := m.newRun(ctx, brief, nil)
	if err != nil {
		return err
	}
	if from := m.prepareClaim(run, brief); from != run.claim {
		r, err := m.change(ctx, brief.ID, func(r *Record) error { return run.take(r, from) })
		if err != nil {
			m.removeRun(run)
			return err
		}
		*brief = r.Brief()
		run.setUndo(&r)
		run.endClaiming()
		if !brief.parked() { // answered meanwhile
			go m.resumeAndRun(run) // ends with the work
			return nil
		}
	}
	m.audit.recovered(brief)
	if !m.rest(run, brief.Durable.Wake) {
		go m.resumeAndRun(run) // ends with the work
	}
	return nil
}

// recoveredWork returns the work that recovers an unfinished task, or nil if the task cannot be
// recovered. If Options.Recovery.Recover panics, it returns work that fails: so the Manager tries
// again to undo what the task has done.
func (m *Manager) recoveredWork(r Record) (work Work) {
	err := boundary.Run(func() error {
		switch {
		case r.Runner != "":
			if jobs := m.cfg.Jobs[r.Runner]; jobs != nil {
				work = jobWork(jobs)
			}
		case r.Restartable && m.cfg.Recovery.Recover != nil:
			work = m.cfg.Recovery.Recover(r)
		}
		return nil
	})
	if boundary.Report(m.cfg.Logger, "Options.Recovery.Recover panicked", err, "task", r.ID) {
		return failing("the receiver can no longer run the task")
	}
	return work
}

// failing returns work that fails with an internal error.
func failing(message string) Work {
	return func(context.Context, *Run) (codec.Encoder, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
	}
}

// cancelLeftoverJob cancels the job of a task that became terminal or expired while no Manager was
// running, or shortly before.
func (m *Manager) cancelLeftoverJob(r Record) {
	if jobs := m.cfg.Jobs[r.Runner]; jobs != nil {
		m.spawn(func() { m.cancelJob(jobs, r.ID, r.Job) }) // ends when the Manager closes
	}
}

// failUnrecoverable fails a task that cannot be recovered. The record may be a brief.
func (m *Manager) failUnrecoverable(ctx context.Context, r *Record, message string) error {
	run, err := m.newRun(ctx, r, nil)
	if err != nil {
		return err
	}
	defer m.removeRun(run)
	m.limits.addHeld(&run.usage)
	m.limits.workReturned(&run.usage)
	from := r.standing()
	if r.undoes() {
		m.cfg.Logger.Error("compensations not run", "task", r.ID, "error", message)
	}
	r.setOutcome(mcp.TaskStatusFailed, message, Outcome{Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}})
	err = m.replace(from, r)
	if _, illegal := errors.AsType[*MoveError](err); illegal || errors.Is(err, ErrCorrupt) {
		// The task keeps its status until it expires. The recovery of the other tasks continues.
		m.cfg.Logger.Error("damaged task not failed", "task", r.ID, "error", err)
		return nil
	}
	return err
}
