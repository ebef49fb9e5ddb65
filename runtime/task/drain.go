package task

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// drainParkAfter is the maximum of [Recovery.ParkAfter] while a Manager drains.
const drainParkAfter = time.Second

// Drain prepares the end of the process. Call it before [Manager.Close], which ends the contexts of
// work that still runs. Drain waits until no work runs, and returns nil. If ctx ends first, it
// returns the cause of ctx; if the Manager is closed, [ErrClosed]. Work that only waits is parked
// after a second, if it can be parked. The Manager continues to serve calls. Draining cannot be
// undone. Drain may be called again.
//
// A member of a fleet that drains takes over no more tasks. It hands over restartable work that
// waits for room or is parked, and it leaves new tasks to other members. It does both for a task
// only while another member that does not drain runs the tool and has the labels of the task.
// Otherwise the tasks stay here. Once the Manager is closed, the next such member takes them over.
func (m *Manager) Drain(ctx context.Context) error {
	m.draining.Store(true)
	handed := make(chan struct{})
	if !m.spawn(func() { // ends when everything is handed over, or the Manager closes
		defer close(handed)
		m.parkSoon()
		m.fleet.drain()
	}) {
		return ErrClosed
	}
	for _, done := range []func() <-chan struct{}{func() <-chan struct{} { return handed }, m.idleSignal} {
		select {
		case <-done():
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.lifetime.Done():
			return ErrClosed
		}
	}
	return nil
}

// idleSignal returns a channel that is closed once no work runs or waits for room.
func (m *Manager) idleSignal() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.idle == nil {
		m.idle = make(chan struct{})
	}
	idle := m.idle
	m.checkIdle()
	return idle
}

// checkIdle closes the channel of idleSignal if no work runs or waits for room. The caller holds
// mu.
func (m *Manager) checkIdle() {
	if m.idle != nil && len(m.runs) == m.resting {
		close(m.idle)
		m.idle = nil
	}
}

// parkSoon parks work that only waits within drainParkAfter.
func (m *Manager) parkSoon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, run := range m.runs {
		run.waits.Load().hurry(m.parkAfter(run))
	}
}

// parkAfter returns the time after which work that only waits is parked. It doubles, up to
// maxParkAfter, each time that parking has interrupted other work, such as that of a branch outside
// of a step: otherwise that work would begin again and again, and never come to what it could
// record.
func (m *Manager) parkAfter(run *Run) time.Duration {
	d := m.cfg.Recovery.ParkAfter
	if m.draining.Load() {
		return min(d, drainParkAfter)
	}
	for range run.interruptions {
		d = max(d, min(2*d, maxParkAfter))
	}
	return d
}

// maxParkAfter limits how long parkAfter gets because of interruptions.
const maxParkAfter = 24 * time.Hour

// drain calls Drain of a membership.
func drain(membership membership) {
	boundary.Run(func() error { membership.Drain(); return nil })
}

// othersServe reports whether another member runs a task.
func (m *Manager) othersServe(p placement) bool {
	self, _ := m.fleet.claim(Claim{})
	return slices.ContainsFunc(m.Members(), func(member Member) bool { return member.ID != self.Member && serves(&member, &p) })
}

// drain hands over the tasks whose work is parked or waits for room.
func (f *shared) drain() {
	drain(f.current())
	m := f.m
	var group sync.WaitGroup
	defer group.Wait()
	workers := make(chan struct{}, recoveryWorkers)
	start := func(handOver func(*Run), run *Run) {
		workers <- struct{}{}
		group.Go(func() { // ends with the write
			defer func() { <-workers }()
			handOver(run)
		})
	}
	// The tickets are withdrawn before the first write, so that their work does not start.
	for _, run := range m.scheduler.withdrawAll(m.othersServe) {
		start(f.handOverQueued, run)
	}
	m.mu.Lock()
	var parked []*Run
	for _, run := range m.runs {
		if run.rest == resting {
			parked = append(parked, run)
		}
	}
	m.mu.Unlock()
	for _, run := range parked {
		start(f.disclaimParked, run)
	}
}

// handOverTicket hands over the task of a ticket that waits, unless no other member serves it.
func (f *shared) handOverTicket(t *ticket) {
	f.m.spawn(func() { // ends with the write
		if t.run.durable && f.m.othersServe(t.placement) && f.m.scheduler.withdraw(t) {
			f.handOverQueued(t.run)
		}
	})
}

// handOverQueued hands over the task of a run whose ticket was withdrawn, and removes the run.
func (f *shared) handOverQueued(run *Run) {
	m := f.m
	r, err := f.disclaim(run.id, run.claim, func(*Record) bool { return true })
	if err == nil && !r.terminal() {
		f.attendForeign(run.requestor(), &r)
	}
	if err == nil {
		m.limits.commit(&run.usage, &r, 0) // the task may be terminal
	}
	m.limits.workReturned(&run.usage)
	m.removeRun(run)
	if err == nil && !r.terminal() {
		f.placeForeign(&r)
	}
}

// handOverParked implements [fleet]. The caller holds the mu of the Manager.
func (f *shared) handOverParked(run *Run) {
	f.m.group.Go(func() { f.disclaimParked(run) }) // ends with the write
}

// disclaimParked hands over the task of a run that rests, and removes the run. It does nothing if
// the work runs again, or if no other member serves it.
func (f *shared) disclaimParked(run *Run) {
	r, err := f.disclaim(run.id, run.claim, func(r *Record) bool { return r.parked() && f.m.othersServe(placementOf(r)) })
	if err == nil && r.Claim.Member == "" {
		f.attendForeign(run.requestor(), &r)
		f.m.unpark(run.id, true)
		f.placeForeign(&r)
	}
}

// disclaim removes the holder from the record of an unfinished task, and returns the record. It
// returns the record unchanged if ready returns false. It fails with ErrFenced if the record has
// another claim. If the store fails, disclaim tries again until the Manager closes.
func (f *shared) disclaim(id string, claim Claim, ready func(r *Record) bool) (r Record, err error) {
	for {
		r, err = f.m.change(context.Background(), id, func(r *Record) error {
			disclaimed := r.Claim == Claim{Epoch: claim.Epoch} // by a write whose acknowledgement was lost
			if r.Claim != claim && !disclaimed {
				return ErrFenced
			}
			if disclaimed || r.terminal() || !ready(r) {
				return errUnchanged
			}
			if r.Claim.Member = ""; r.running() {
				r.Phase = taskrules.PhaseSuspended
			}
			return nil
		})
		if err == nil || expectedError(err) || errors.Is(err, ErrCorrupt) || !f.m.pause(wakeRetry) {
			return r, err
		}
	}
}

// attendForeign prepares a task that this member has disclaimed like a task of createElsewhere:
// this member offers it until another member claims it, and its requestor in this process, which may
// be nil, receives the messages of the work.
func (f *shared) attendForeign(via Requestor, r *Record) {
	f.addAttendant(r).setLastSeen(via)
	f.mu.Lock()
	each := f.followed[r.ID]
	again := each.places()
	each.placing, each.stored, each.created = new(placementOf(r)), true, false
	f.mu.Unlock()
	if again {
		f.unattend(r.ID) // one call of addAttendant lasts until the task has ended
	}
}

// placeForeign offers a task after attendForeign, once its run, if it has one, is removed.
func (f *shared) placeForeign(r *Record) {
	f.changed(r.ID) // for a claim before placing was set
	f.place(r)
	f.placeLater(r.ID)
}

// giveUp disclaims a task that this member holds without a run, and offers it to another member.
func (f *shared) giveUp(brief *Record) {
	if r, err := f.disclaim(brief.ID, brief.Claim, func(*Record) bool { return true }); err == nil && !r.terminal() {
		f.attendForeign(nil, &r)
		f.placeForeign(&r)
	}
}
