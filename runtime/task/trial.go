package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Work may end its process: it takes all memory, or calls code that crashes. Such work must not end
// one process after the other, and the tasks that share its processes must not fail with it.
//
// When a process has died, each task whose work ran there counts that in Reruns and is a suspect.
// The process that runs a suspect again gives it a trial: for some time, it begins no other work,
// and it does not begin the trial before the work that has begun last has lasted as long. So if the
// process dies during the trial, the suspect is the likely cause, and its task fails. If the
// suspect lasts, the trial ends and the next suspect has its turn. A suspect for which there is no
// room, because of a limit of its tool or of the process, waits without delaying other work. If a
// process dies outside of a trial, or for the first time, no task fails; the later trials of its
// tasks last longer.
//
// A member of a fleet that has lost its lease looks dead to the others. Once it has joined again,
// it removes itself from Lost of the tasks that they have taken over. A member that finds a trial
// ended by a death waits for that before it fails the task.
const (
	// trialWindow is the duration of the first trial of a task. It doubles with each further death
	// of a process, up to maxTrialWindow. All suspects of a process together take no longer than
	// allTrials in their first trials, unless each would have less than minTrialWindow.
	trialWindow    = 5 * time.Second
	minTrialWindow = 250 * time.Millisecond
	maxTrialWindow = time.Minute
	allTrials      = time.Minute

	// maxLost is the maximum length of Record.Lost.
	maxLost = 8
)

// trials are the part of a scheduler that gives suspects their trials. It is guarded by mu of the
// scheduler.
type trials struct {
	waiting []*ticket   // suspects that wait for their trial
	current *ticket     // suspect of the trial, which has its room; nil if there is none
	settled *time.Timer // calls settle once the work of current may begin
	held    int         // number of calls of hold without release
}

// hold lets no trial begin until release is called, so that the first one is chosen among all
// suspects.
func (s *scheduler) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials.held++
}

// release undoes hold.
func (s *scheduler) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trials.held--
	s.dispatch()
}

// suspected reports whether the next run of the work of a task needs a trial.
func (m *Manager) suspected(r *Record) bool {
	return r.Durable != nil && r.Reruns > 0 && m.cfg.Recovery.MaxReruns > 0
}

// countDeath applies the death of the process that held a task to the record. Member is its ID in a
// fleet.
func (m *Manager) countDeath(r *Record, member string) {
	if !r.running() {
		return
	}
	doomed := r.Phase == taskrules.PhaseTrial && m.cfg.Recovery.MaxReruns > 0 && r.Reruns >= m.cfg.Recovery.MaxReruns
	r.Reruns++
	r.Phase = taskrules.PhaseSuspended
	if doomed {
		r.Phase = taskrules.PhaseDoomed
	}
	if member != "" {
		r.Lost = append(slices.Clone(r.Lost[max(0, len(r.Lost)-maxLost+1):]), member)
	}
}

// grown notes that the journal has grown: the count of deaths starts again. A member that counted
// before must not lift the count of a later death. An answer lifts the verdict, too.
func (r *Record) grown() {
	if r.Reruns, r.Lost = 0, nil; r.Phase == taskrules.PhaseDoomed {
		r.Phase = taskrules.PhaseSuspended
	}
}

// acquit removes the members with the given IDs from those that have died while the work of a task
// ran.
func (m *Manager) acquit(r *Record, own func(member string) bool) {
	before := len(r.Lost)
	r.Lost = slices.DeleteFunc(slices.Clone(r.Lost), own)
	r.Reruns = max(r.Reruns-(before-len(r.Lost)), 0)
	if r.Phase == taskrules.PhaseDoomed && r.Reruns <= m.cfg.Recovery.MaxReruns {
		r.Phase = taskrules.PhaseSuspended
	}
}

// doomedText returns the text of the failure of a task in PhaseDoomed.
func doomedText(r *Record) string {
	const format = "the process that ran the task died %d times, and the last time shortly after it had begun the task alone: the task is probably the cause"
	return fmt.Sprintf(format, r.Reruns)
}

// beginning returns work that writes the record before it begins: that the work runs and, if a
// member of a fleet begins it for the first time, in which version.
func (m *Manager) beginning(work Work) Work {
	return func(ctx context.Context, run *Run) (codec.Encoder, error) {
		window := m.scheduler.beginTrial(run)
		r, err := run.change(ctx, func(r *Record) error {
			phase := uint8(taskrules.PhaseRunning)
			if window > 0 && m.suspected(r) {
				phase = taskrules.PhaseTrial
			}
			if r.terminal() || r.Phase == phase {
				return errUnchanged
			}
			m.begin(r)
			r.Phase = phase
			return nil
		})
		if err != nil {
			return nil, err
		}
		if r.Phase == taskrules.PhaseTrial {
			m.spawn(func() { m.awaitTrial(ctx, run, window) }) // ends with the trial or the work
		} else {
			m.scheduler.endTrial(run)
		}
		return work(ctx, run)
	}
}

// markNew sets PhaseNew of a task that a front end has created for other members, until one claims
// it.
func (m *Manager) markNew(r *Record) {
	if m.fleet.others() && r.unclaimedNew() {
		r.Phase = taskrules.PhaseNew
	}
}

// crowded reports whether the work of a task, if it is no suspect, must wait before it begins.
func (m *Manager) crowded(r *Record) bool {
	s := &m.scheduler
	if s.closed.Load() {
		return true
	}
	if !m.mayWait(r) {
		return false
	}
	limit := m.toolLimit(r.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() || limit == 0 {
		return s.full()
	}
	p := s.pools[r.Name]
	if p == nil {
		p = &pool{tool: r.Name, max: int64(limit)}
	}
	return p.inUse >= min(m.fleet.granted(p), int64(limit))
}

// begin sets the phase and the version of work that is about to begin in this process.
func (m *Manager) begin(r *Record) {
	if !r.Begun() && m.cfg.Recovery.ToolVersion != nil {
		d := *r.Durable
		d.Version = m.toolVersion(r.Name)
		r.Durable = &d
	}
	r.Phase = taskrules.PhaseRunning
}

// toolVersion returns the version of a tool in this process.
func (m *Manager) toolVersion(tool string) (version string) {
	err := boundary.Run(func() error { version = m.cfg.Recovery.ToolVersion(tool); return nil })
	boundary.Report(m.cfg.Logger, "Options.Recovery.ToolVersion panicked", err, "tool", tool)
	return version
}

// awaitTrial ends the trial of a run after its time.
func (m *Manager) awaitTrial(ctx context.Context, run *Run, window time.Duration) {
	timer := time.NewTimer(window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // removeRun or rest ends the trial
		return
	}
	run.change(ctx, func(r *Record) error { // logs its error
		if r.Phase != taskrules.PhaseTrial {
			return errUnchanged
		}
		r.Phase = taskrules.PhaseRunning
		return nil
	})
	m.scheduler.endTrial(run)
}

// awaitVerdict fails a task in PhaseDoomed, unless the member that seemed to have died says in time
// that it lives. Then it starts the work.
func (m *Manager) awaitVerdict(run *Run, r Record, work Work) {
	const looks = 4
	ctx := run.ctx.Load()
	for range looks {
		timer := time.NewTimer(2 * cmp.Or(m.cfg.Member.Lease, DefaultLease) / looks)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			m.runWork(run, ended, nil)
			return
		}
		var latest Record
		if m.store.get(ctx, run.id, &latest) == nil && latest.Phase != taskrules.PhaseDoomed && !latest.terminal() && !run.fenced(&latest) {
			m.start(run, &latest, false, m.observed(&latest, work))
			return
		}
	}
	// The write decides: the verdict may have been lifted while the store failed.
	text := doomedText(&r)
	latest, err := run.change(ctx, func(r *Record) error {
		switch {
		case r.terminal() || r.Phase != taskrules.PhaseDoomed:
			return errUnchanged
		case r.mustUndo():
			m.undoSuspect(r)
			return nil
		}
		end := failedState(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text})
		r.setOutcome(end.status, end.message, end.out)
		return nil
	})
	switch {
	case err != nil:
		m.runWork(run, failing(text), nil)
	case latest.terminal():
		m.failParked(run, text)
	default:
		run.setUndo(&latest)
		m.start(run, &latest, false, m.observed(&latest, work))
	}
}

// undoSuspect fails a task in PhaseDoomed whose work must undo something. The work runs again to do
// so, and stays a suspect: if its process dies again during a trial, the undos are given up.
func (m *Manager) undoSuspect(r *Record) {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: doomedText(r)}
	m.beginUndo(r, Outcome{Error: e}) // cannot fail
	r.Phase, r.Reruns, r.Lost = taskrules.PhaseSuspended, 1, nil
}

// nextSuspect returns the suspect whose trial can begin, or nil. Suspects for which there is no
// room wait without delaying other work, because that may take long. The caller holds mu.
func (s *scheduler) nextSuspect(leaseEnded bool) (next *ticket) {
	x := &s.trials
	if x.current != nil || len(x.waiting) == 0 || x.held > 0 || s.full() {
		return nil
	}
	for _, t := range x.waiting {
		// Work that has begun shortly before the death of its process is more likely to be its
		// cause.
		if t.pool.permits(leaseEnded) && (next == nil || t.deaths > next.deaths || t.deaths == next.deaths && t.changed > next.changed) {
			next = t
		}
	}
	return next
}

// nextTrial makes the next suspect the current one. The caller holds mu.
func (s *scheduler) nextTrial(leaseEnded bool) {
	x := &s.trials
	next := s.nextSuspect(leaseEnded)
	if next == nil {
		return
	}
	window := min(trialWindow, max(allTrials/time.Duration(len(x.waiting)), minTrialWindow))
	for n := 1; n < next.deaths && window < maxTrialWindow; n++ {
		window *= 2
	}
	next.window = min(window, maxTrialWindow)
	s.removeSuspect(next)
	s.occupy(next)
	x.current = next
	s.closed.Store(true)
	x.settled = time.AfterFunc(time.Until(s.begunLast().Add(next.window)), func() { s.settle(next) })
}

// begunLast returns when the work that has begun last in this process has begun.
func (s *scheduler) begunLast() time.Time { return s.m.started.Add(time.Duration(s.lastBegin.Load())) }

// noteBegin notes that work other than that of a trial begins.
func (s *scheduler) noteBegin() { s.lastBegin.Store(int64(time.Since(s.m.started))) }

// removeSuspect removes a ticket from those that wait for their trial, if it is one of them. The
// caller holds mu.
func (s *scheduler) removeSuspect(t *ticket) {
	x := &s.trials
	if i := slices.Index(x.waiting, t); i >= 0 {
		x.waiting = slices.Delete(x.waiting, i, i+1)
		t.pool.suspects--
	}
}

// settle starts the work of the current suspect.
func (s *scheduler) settle(t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trials.current == t && !t.started {
		t.started = true
		t.start()
	}
}

// beginTrial returns the duration of the trial of a run whose work is about to begin; 0 if it has
// none.
func (s *scheduler) beginTrial(run *Run) (window time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.trials.current; t != nil && t.run == run {
		return t.window
	}
	return 0
}

// endTrial ends the trial of a run, if it is the current one. Then other work begins.
func (s *scheduler) endTrial(run *Run) {
	if !s.closed.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.trials.current; t != nil && t.run == run && t.started {
		s.cancelTrial()
		s.dispatch()
	}
}

// cancelTrial removes the current suspect. The caller holds mu.
func (s *scheduler) cancelTrial() {
	s.trials.settled.Stop()
	s.trials.current = nil
	s.closed.Store(false)
}

// acquitted starts the work of a suspect that is none any longer as other work, and ends its trial
// if it has begun.
func (s *scheduler) acquitted(run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &s.trials
	if x.current == nil && len(x.waiting) == 0 {
		return
	}
	if i := slices.IndexFunc(x.waiting, func(t *ticket) bool { return t.run == run }); i >= 0 {
		t := x.waiting[i]
		s.removeSuspect(t)
		t.deaths = 0
		s.enqueue(t)
	} else if t := x.current; t != nil && t.run == run && t.started {
		s.cancelTrial()
	}
	s.dispatch()
}
