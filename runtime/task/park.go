package task

import (
	"container/heap"
	"context"
	"errors"
	"math"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// parked reports whether the record is that of parked work.
func (r *Record) parked() bool { return r.Durable != nil && r.Durable.Parked }

// unpark marks parked work as running. Manager.change then runs it.
func (r *Record) unpark() {
	if r.parked() {
		d := *r.Durable
		d.Parked, d.Wake, d.Awaits = false, time.Time{}, nil
		r.Durable = &d
	}
}

// due reports whether the time has come at which parked work runs again.
func (r *Record) due(now time.Time) bool {
	return r.parked() && !r.Durable.Wake.IsZero() && !r.Durable.Wake.After(now)
}

// anyAnswered reports whether one of the input requests with the given numbers is no longer open.
func (r *Record) anyAnswered(numbers []uint64) bool {
	for _, number := range numbers {
		if q := r.inputRequest(number); q == nil || !q.Open() {
			return true
		}
	}
	return false
}

// wakeRetry is the pause after a failure of the store to read or write the record of parked work.
const wakeRetry = time.Second

// park parks a run whose work has returned ErrParked. If an answer, a signal or the time to wake
// has come in the meantime, park returns the work for the caller to run. If it returns nil, the
// caller must not use the run again.
func (m *Manager) park(run *Run) Work { return m.parkFor(run, run.waits.Load().awaited()) }

// parkFor is park for work that waits for a.
func (m *Manager) parkFor(run *Run, a awaited) Work {
	if !a.wake.IsZero() {
		a.wake = a.wake.UTC().Truncate(time.Microsecond)                 // Sleep waits for the rest
		if !a.wake.After(m.now()) && run.interruptions < math.MaxUint8 { // see WakeAt
			run.interruptions++
		}
	}
	// If the write fails, resume finds out what to do.
	run.change(context.Background(), func(r *Record) error {
		if why, _ := run.whyUndo(); r.undo() != why { // since the work has begun
			return errUnchanged
		}
		if r.terminal() || r.Durable == nil || r.anyAnswered(a.inputs) || r.signalOf(a.signals) >= 0 || !a.wake.IsZero() && !a.wake.After(m.now()) {
			return errUnchanged
		}
		d := *r.Durable
		d.Parked, d.Wake, d.Awaits = true, a.wake, a.signals
		r.Durable, r.Phase = &d, taskrules.PhaseRunning
		return nil
	})
	work, _ := m.resume(run)
	return work
}

// pause waits for d. It returns false if the Manager closes.
func (m *Manager) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-m.lifetime.Done():
		return false
	}
}

// resume returns the work of a run that is neither running nor resting, and its record, if that is
// not parked or is due. Otherwise it returns nil: the run rests, or has been removed. If it was
// removed because the Manager has closed, or rests because there is no work for it, the record says
// that the work does not run.
func (m *Manager) resume(run *Run) (work Work, r Record) {
	for m.renew(run) && !run.lost.Load() {
		var err error
		r, err = run.tryChange(context.Background(), func(r *Record) error {
			if m.expireUndo(r) {
				return nil
			}
			due := r.due(m.now())
			if r.terminal() || r.parked() && !due {
				return errUnchanged
			}
			r.unpark()
			switch {
			case r.running() && (run.shelved.Load() || m.suspected(r) || m.crowded(r)):
				r.Phase = taskrules.PhaseSuspended // the end of this process is no death during the work
			case !due:
				return errUnchanged
			}
			return nil
		})
		var wake time.Time
		switch {
		case errors.Is(err, ErrCorrupt):
			m.failParked(run, "the stored record of the task is damaged")
			return nil, r
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrFenced), err == nil && r.terminal():
			if err == nil {
				m.limits.commit(&run.usage, &r, 0) // in case that recheck has called unpark
			}
			m.limits.workReturned(&run.usage)
			m.removeRun(run)
			return nil, r
		case err != nil: // a failure of the store, for which no goroutine waits
			wake = m.now().Add(wakeRetry)
			if m.refuses() != nil {
				wake = m.now().Add(maxRetry)
			}
		case r.parked():
			wake = r.Durable.Wake
		default:
			run.setUndo(&r)
			work = m.recoveredWork(r)
			switch {
			case work == nil && m.fleet.refused(run, &r):
				return nil, r
			case work == nil && run.shelved.Swap(true):
				if m.rest(run, time.Time{}) {
					return nil, r
				}
				continue
			case work == nil: // again, now that recheck leaves the run alone
				continue
			}
			run.shelved.Store(false)
			m.limits.setRequest(&run.usage, int64(len(r.Params)))
			if r.withdrawn() {
				run.abortProgress()
			}
			m.mu.Lock()
			run.rest = awake // the change above has called unpark
			m.mu.Unlock()
			return m.observed(&r, work), r
		}
		if m.rest(run, wake) {
			return nil, r
		}
	}
	if run.lost.Load() {
		m.limits.workReturned(&run.usage)
	} else {
		run.suspend()
	}
	m.removeRun(run)
	return nil, r
}

// failParked fails the task of a run that cannot be resumed, and removes the run.
func (m *Manager) failParked(run *Run, message string) {
	defer m.removeRun(run)
	m.limits.workReturned(&run.usage)
	if run.undoes.Load() {
		m.cfg.Logger.Error("compensations not run", "task", run.id, "error", message)
	}
	m.publish(run, failedState(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}))
}

// renew prepares a run for the next run of its work. It must be called before the record is read,
// so that no cancellation and no answer is missed. It returns false if the Manager is closed.
func (m *Manager) renew(run *Run) bool {
	run.mu.Lock()
	run.progress.restart()
	run.answers, run.answersRead = nil, false
	run.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	run.rest = awake
	run.endContext(ErrParked)
	m.setContext(run, m.background)
	return !m.closed
}

// rest makes a run rest until the time wake or until unpark is called. If wake is zero, only unpark
// ends the rest. It returns false if unpark was called since renew. Otherwise the caller must not
// use the run again.
func (m *Manager) rest(run *Run, wake time.Time) bool {
	m.scheduler.endTrial(run)
	m.mu.Lock()
	defer m.mu.Unlock()
	if run.rest == woken {
		return false
	}
	run.endContext(ErrParked)
	run.ctx.Store(nil)
	run.waits.Store(nil)
	run.rest = resting
	m.resting++
	if run.wakeIndex = -1; !wake.IsZero() {
		run.wake = wake.UnixMicro()
		heap.Push(&m.wakes, run)
		m.setWakeTimer()
	}
	if m.draining.Load() {
		m.fleet.handOverParked(run)
	}
	m.checkIdle()
	m.group.Done()
	return true
}

// endRest undoes rest. The caller holds mu, and the Manager is not closed.
func (m *Manager) endRest(run *Run) {
	m.group.Add(1)
	run.rest = awake
	m.resting--
	if run.wakeIndex >= 0 {
		heap.Remove(&m.wakes, int(run.wakeIndex))
	}
}

// unpark runs the work of a task whose record is no longer parked, or removes its run if the task
// has ended. It returns false if the Manager is closed.
func (m *Manager) unpark(id string, ended bool) bool {
	m.mu.Lock()
	run := m.runs[id]
	if run == nil || m.closed {
		defer m.mu.Unlock()
		return !m.closed
	}
	if run.rest != resting {
		run.rest = woken
		m.mu.Unlock()
		return true
	}
	m.endRest(run)
	m.mu.Unlock()
	if ended {
		m.limits.workReturned(&run.usage)
		m.removeRun(run)
		return true
	}
	go m.resumeAndRun(run) // ends with the work
	return true
}

// recheck resumes the resting run of a task if the record r, which was just read, is not parked.
// The store may have made a change after it had reported a failure.
func (m *Manager) recheck(r *Record) {
	if r.Durable == nil || r.parked() {
		return
	}
	if run := m.findRun(r.ID); run != nil && !run.shelved.Load() {
		m.unpark(r.ID, false)
	}
}

// resumeAndRun resumes a run whose rest has ended.
func (m *Manager) resumeAndRun(run *Run) {
	if work, r := m.resume(run); work != nil {
		m.start(run, &r, false, work)
	}
}

// maxWakes is the maximum number of runs whose rest ends at once. The others follow after
// minSweepInterval.
const maxWakes = 256

// wakeDue resumes the runs that are due. The timer calls it.
func (m *Manager) wakeDue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	now := m.now().UnixMicro()
	for n := 0; n < maxWakes && len(m.wakes) > 0 && m.wakes[0].wake <= now; n++ {
		run := m.wakes[0]
		m.endRest(run)
		go m.resumeAndRun(run) // ends with the work
	}
	m.setWakeTimer()
}

// setWakeTimer sets the timer to the time at which the first run is due. The caller holds mu.
func (m *Manager) setWakeTimer() {
	if len(m.wakes) == 0 || m.closed {
		if m.wakeTimer != nil {
			m.wakeTimer.Stop()
		}
		return
	}
	// Look again after maxSweepInterval, because the wall clock may be changed.
	wait := min(max(time.UnixMicro(m.wakes[0].wake).Sub(m.now()), minSweepInterval), maxSweepInterval)
	if m.wakeTimer == nil {
		m.wakeTimer = time.AfterFunc(wait, m.wakeDue)
	} else {
		m.wakeTimer.Reset(wait)
	}
}

// wakes is a heap of the resting runs that have a time to wake, for package heap. Runs know their
// index.
type wakes []*Run

func (w wakes) Len() int           { return len(w) }
func (w wakes) Less(i, j int) bool { return w[i].wake < w[j].wake }

func (w wakes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].wakeIndex, w[j].wakeIndex = int32(i), int32(j)
}

// Push implements heap.Interface.
func (w *wakes) Push(x any) {
	run := x.(*Run)
	run.wakeIndex = int32(len(*w))
	*w = append(*w, run)
}

// Pop implements heap.Interface.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	run := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	run.wakeIndex = -1
	return run
}
