package task

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// reserveTimeout bounds a call of Reserve of a membership, so that it is repeated in a new membership.
const reserveTimeout = 10 * time.Second

// scheduler starts work once there is room for it: below [Limits.Running] in this process, and
// below [Limits.Tool] in the fleet. Until then, the work waits without a goroutine.
type scheduler struct {
	m   *Manager
	max int // Options.Limits.Running; 0 means no limit

	mu      sync.Mutex
	running int                                 // number of tickets that have started and count against max
	waiting int                                 // number of tasks that wait
	pools   map[string]*pool                    // by tool; the pool of "" serves tools without a limit
	turns   map[string]*turn                    // by principal; only principals with waiting tickets
	clock   uint64                              // number of the latest ticket or turn
	calls   map[*ticket]context.CancelCauseFunc // running calls of Acquire
	trials  trials

	closed    atomic.Bool  // a trial is prepared or runs: no other work of a task begins
	lastBegin atomic.Int64 // when the work of a task has begun last, in nanoseconds since the Manager has started
}

// turn records when a principal was last served, to choose among the first tickets of several
// pools.
type turn struct {
	tickets int
	served  uint64
}

// pool holds the permits of a tool that this process may use.
type pool struct {
	tool  string
	max   int64 // in the fleet; 0 means no limit
	inUse int64
	// tasks and calls hold the tickets that wait. Calls need no slot, so tasks that wait for one do
	// not delay them. Suspects is the number of suspects that wait for their trial; see trials.
	tasks, calls queue
	suspects     int

	// granted is the number of permits of this process. In a fleet, it is never more than the quota
	// grants to this member.
	granted int64
	// The fields below are used in a fleet only. reported and declared are the permits that this
	// member uses and wants according to the quota. contended and stale are fields of its Share.
	// While dirty is set, the quota must be written, because the permits that it grants are unknown
	// or more than granted.
	reported, declared      int64
	contended, stale, dirty bool
	syncing                 bool // a goroutine writes the quota
}

// queue returns the queue of a ticket.
func (t *ticket) queue() *queue {
	if t.slot {
		return &t.pool.tasks
	}
	return &t.pool.calls
}

// quota returns the name of the pool's quota.
func (p *pool) quota() string { return "tool " + p.tool }

// apply sets the latest share.
func (p *pool) apply(share fleets.Share) {
	p.granted, p.contended = share.Granted, share.Contended
}

// start starts the work of a task, at once or when there is room for it. The caller must not use
// the run again.
func (m *Manager) start(run *Run, r *Record, begun bool, work Work) {
	s := &m.scheduler
	t := &ticket{s: s, principal: run.usage.account(), slot: true, run: run, placement: placementOf(r)}
	if m.suspected(r) && !begun {
		t.deaths, t.changed = r.Reruns, run.changed
	} else {
		s.noteBegin() // before closed is read
	}
	if t.deaths > 0 || r.Phase != taskrules.PhaseRunning {
		work = m.beginning(work)
	}
	if t.deaths == 0 && !m.mayWait(r) && !s.closed.Load() {
		go m.runWork(run, work, nil) // ends with the work; calls removeRun
		return
	}
	ctx := run.ctx.Load()
	t.start = func() {
		if ctx.Err() != nil && !begun { // the goroutine of begun work waits for it
			work = ended
		}
		go m.runWork(run, work, t) // ends with the work; calls removeRun
	}
	if begun {
		s.begin(t)
	} else if !s.enter(t, r.Name) {
		context.AfterFunc(ctx, func() {
			if s.withdraw(t) {
				m.runWork(run, ended, nil)
			}
		})
		if m.draining.Load() { // Drain may have missed the ticket
			m.fleet.handOverTicket(t)
		}
	}
}

// mayWait reports whether the work of a task may have to wait for room. The external system of a
// job has its own limits.
func (m *Manager) mayWait(r *Record) bool {
	return r.Runner == "" && (m.cfg.Limits.Running > 0 || m.toolLimit(r.Name) > 0)
}

// Limited reports whether [Limits.Tool] limits a tool.
func (m managerInternals) Limited(tool string) bool { return m.toolLimit(tool) > 0 }

// ended is the work of a task whose work was to start after its context has ended.
func ended(ctx context.Context, _ *Run) (codec.Encoder, error) { return nil, context.Cause(ctx) }

// Acquire waits until a call of a tool may run below [Limits.Tool]. Use it for calls that are
// not tasks, and for those whose task is created with [Request].Begun. The call uses the returned
// context, which also ends with [ErrFenced] if this process loses its place in the fleet, and calls
// release when it has returned. The principals that wait have turns. Acquire fails with the cause
// of ctx, or with [ErrClosed]. [Manager.Close] neither ends the context of such a call nor waits for
// it: end the calls before.
func (m managerInternals) Acquire(ctx context.Context, principal, tool string) (_ context.Context, release func(), err error) {
	s := &m.scheduler
	if m.toolLimit(tool) == 0 {
		return ctx, func() {}, nil
	}
	ready := make(chan struct{})
	t := &ticket{s: s, principal: (&taskUsage{principal: principal, network: network.From(ctx)}).account()}
	ctx, cancel := context.WithCancelCause(ctx)
	t.start = func() {
		s.calls[t] = cancel
		close(ready)
	}
	release = func() {
		cancel(context.Canceled)
		s.mu.Lock()
		delete(s.calls, t)
		s.mu.Unlock()
		t.release()
	}
	s.enter(t, tool)
	select {
	case <-ready:
		return ctx, release, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-m.lifetime.Done():
		err = ErrClosed
	}
	s.withdraw(t)
	release()
	return nil, nil, err
}

// toolLimit returns the maximum number of calls of a tool at once; 0 means no limit.
func (m *Manager) toolLimit(tool string) (limit int) {
	if m.cfg.Limits.Tool == nil {
		return 0
	}
	err := boundary.Run(func() error { limit = m.cfg.Limits.Tool(tool); return nil })
	if err != nil { // outside of this branch the argument would cost an allocation
		boundary.Report(m.cfg.Logger, "Options.Limits.Tool panicked", err, "tool", tool)
	}
	return max(limit, 0)
}

// enter starts a ticket if there is room for it, and returns true. Otherwise the ticket waits.
func (s *scheduler) enter(t *ticket, tool string) (started bool) {
	limit := s.m.toolLimit(tool)
	if limit == 0 {
		tool = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[tool]
	if p == nil {
		p = &pool{tool: tool}
		s.pools[tool] = p
	}
	if p.max != int64(limit) {
		p.dirty = p.max != 0 // the quota may have room now
		p.max = int64(limit)
	}
	p.granted = s.m.fleet.granted(p)
	t.pool = p
	if t.deaths > 0 {
		s.trials.waiting = append(s.trials.waiting, t)
		p.suspects++
	} else {
		s.enqueue(t)
	}
	s.dispatch()
	return t.started
}

// enqueue adds a ticket to the queue of its pool. The caller holds mu.
func (s *scheduler) enqueue(t *ticket) {
	t.queue().push(t)
	if t.slot {
		s.waiting++
	}
	s.clock++
	t.number = s.clock
	of := s.turns[t.principal]
	if of == nil {
		of = &turn{served: s.clock}
		s.turns[t.principal] = of
	}
	of.tickets++
}

// begin starts a ticket regardless of the limits.
func (s *scheduler) begin(t *ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	t.started = true
	t.start()
}

// withdraw removes a waiting ticket. It returns false if the ticket has started.
func (s *scheduler) withdraw(t *ticket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.started || t.released {
		return false
	}
	if t.place != nil {
		s.remove(t)
	}
	if s.trials.current == t {
		s.cancelTrial()
		s.leave(t)
	}
	s.removeSuspect(t)
	t.released = true
	s.dispatch() // gives up permits that only this ticket wanted
	return true
}

// withdrawAll withdraws the tickets of restartable work if accepts returns true for their
// placement. It returns the runs of the tasks. The caller must remove the runs.
func (s *scheduler) withdrawAll(accepts func(placement) bool) (runs []*Run) {
	var tickets []*ticket
	s.mu.Lock()
	tickets = append(tickets, s.trials.waiting...)
	if t := s.trials.current; t != nil {
		tickets = append(tickets, t)
	}
	for _, p := range s.pools {
		for _, l := range p.tasks.lines {
			for e := l.tickets.Front(); e != nil; e = e.Next() {
				if t := e.Value.(*ticket); t.run.durable {
					tickets = append(tickets, t)
				}
			}
		}
	}
	s.mu.Unlock()
	for _, t := range tickets {
		if accepts(t.placement) && s.withdraw(t) {
			runs = append(runs, t.run)
		}
	}
	return runs
}

// remove removes a ticket from its queue. The caller holds mu.
func (s *scheduler) remove(t *ticket) {
	t.queue().remove(t)
	if t.slot {
		s.waiting--
	}
	of := s.turns[t.principal]
	if of.tickets--; of.tickets == 0 {
		delete(s.turns, t.principal)
	}
}

// release ends a ticket that has started, once. It does nothing for nil.
func (t *ticket) release() {
	if t == nil {
		return
	}
	s := t.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.released {
		return
	}
	t.released = true
	s.leave(t)
	s.dispatch()
}

// occupy takes the room of a ticket. The caller holds mu.
func (s *scheduler) occupy(t *ticket) {
	if t.pool.inUse++; t.slot {
		s.running++
	}
}

// leave undoes occupy. The caller holds mu.
func (s *scheduler) leave(t *ticket) {
	if t.slot {
		s.running--
	}
	if p := t.pool; p != nil {
		if p.inUse--; p.contended && p.granted > p.inUse {
			p.granted, p.dirty = p.inUse, true // another member has the next turn
		}
	}
}

// full reports whether the process has no room for another ticket with a slot.
func (s *scheduler) full() bool { return s.max > 0 && s.running >= s.max }

// permits reports whether a pool has a permit for another ticket. If the lease has ended, tools
// with a limit have none. The caller holds mu.
func (p *pool) permits(leaseEnded bool) bool {
	return p.max == 0 || p.inUse < min(p.granted, p.max) && !leaseEnded
}

// next returns the next ticket that can start, or nil. It leaves the last room to the next suspect.
// The caller holds mu.
func (s *scheduler) next(leaseEnded bool) *ticket {
	var best *ticket
	suspect := s.nextSuspect(leaseEnded)
	for _, p := range s.pools {
		if !p.permits(leaseEnded) || suspect != nil && suspect.pool == p && p.max > 0 && p.inUse+1 == min(p.granted, p.max) {
			continue
		}
		for _, q := range []*queue{&p.tasks, &p.calls} {
			if q.size == 0 || q == &p.tasks && (s.full() || s.closed.Load() || suspect != nil && s.max > 0 && s.running+1 == s.max) {
				continue
			}
			if t := q.first(); best == nil || s.before(t, best) {
				best = t
			}
		}
	}
	return best
}

// before reports whether ticket a is to start before ticket b of another queue. The caller holds
// mu.
func (s *scheduler) before(a, b *ticket) bool {
	if a.principal == b.principal {
		return a.number < b.number
	}
	return s.turns[a.principal].served < s.turns[b.principal].served
}

// dispatch starts the tickets for which there is room, and starts goroutines that write the
// unsettled quotas. The caller holds mu.
func (s *scheduler) dispatch() {
	_, err := s.m.fleet.claim(Claim{})
	leaseEnded := err != nil
	for t := s.next(leaseEnded); t != nil; t = s.next(leaseEnded) {
		s.clock++
		s.turns[t.principal].served = s.clock
		s.remove(t)
		s.occupy(t)
		if t.slot {
			s.noteBegin()
		}
		t.started = true
		t.start()
	}
	s.nextTrial(leaseEnded)
	s.m.fleet.settle()
}

// granted implements [fleet].
func (f *shared) granted(p *pool) int64 { return p.granted }

// settle implements [fleet].
func (f *shared) settle() {
	s := &f.m.scheduler
	for _, p := range s.pools {
		if !p.syncing && s.unsettled(p) {
			p.syncing = s.m.spawn(func() { f.sync(p) }) // ends when nothing is left to write
		}
	}
}

// wants returns the number of permits that a pool can use now. The caller holds mu.
func (s *scheduler) wants(p *pool) int64 {
	// A permit that the pool cannot use at once would go back and forth between the members.
	more := 0
	if !s.closed.Load() {
		more = p.tasks.size
		if p.suspects > 0 && s.trials.held == 0 {
			more++
		}
	}
	if s.max > 0 {
		more = min(more, max(s.max-s.running, 0))
	}
	return max(p.inUse, min(p.inUse+int64(more+p.calls.size), p.max))
}

// unsettled reports whether the quota of a pool must be written. The caller holds mu.
func (s *scheduler) unsettled(p *pool) bool {
	if p.max == 0 {
		return p.dirty
	}
	want, has, had := s.wants(p), max(p.granted, p.inUse), max(p.granted, p.reported)
	return p.dirty ||
		want > has && (p.stale || p.declared <= had) || // the quota does not say that the member waits
		want <= has && p.declared > had || // the quota says that the member waits
		p.reported > p.granted && p.inUse < p.reported || // work of an earlier membership has returned
		p.contended && p.granted > p.inUse
}

// sync writes the quota of a pool until it is settled.
func (f *shared) sync(p *pool) {
	s := &f.m.scheduler
	for {
		membership := f.current()
		s.mu.Lock()
		if !s.unsettled(p) {
			p.syncing = false
			s.mu.Unlock()
			return
		}
		r := fleets.Reservation{Used: p.inUse, Want: s.wants(p), Max: p.max}
		// Reserve may give back the rest. Permits that work of an earlier membership uses are not
		// granted.
		p.granted, p.dirty = min(p.granted, p.inUse), true
		p.stale = false // unless a member departs meanwhile
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.m.lifetime, reserveTimeout)
		err := boundary.Run(func() error { return membership.Reserve(ctx, p.quota(), r) })
		cancel()
		s.mu.Lock()
		if err == nil && f.current() == membership && !lapsed(membership) {
			p.dirty, p.reported, p.declared = false, r.Used, r.Want
			p.apply(membership.Share(p.quota()))
			s.dispatch()
		}
		s.mu.Unlock()
		if err == nil {
			continue
		}
		s.m.cfg.Logger.Warn("quota not reserved", "quota", p.quota(), "error", err, "retry_in", wakeRetry)
		if !s.m.pause(wakeRetry) {
			return
		}
	}
}

// reapply applies the latest shares of the pools for which accepts returns true, and starts the
// work that then has room.
func (f *shared) reapply(accepts func(p *pool) bool) {
	s := &f.m.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		if accepts(p) {
			f.reapplyTo(p)
		}
	}
	s.dispatch()
}

// reapplyTo applies the latest share of a pool, unless it is unknown. The caller holds the mu of
// the scheduler.
func (f *shared) reapplyTo(p *pool) {
	membership := f.current()
	if p.max == 0 || membership == nil || lapsed(membership) {
		return
	}
	share := membership.Share(p.quota())
	if p.stale = share.Stale; !p.dirty {
		p.apply(share)
	}
}

// fence forgets the shares of a membership whose lease has ended, and ends the contexts of the
// calls that run after Acquire. Work that has not returned counts in the next membership.
func (s *scheduler) fence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pools {
		p.granted, p.reported, p.declared, p.contended, p.stale, p.dirty = 0, 0, 0, false, false, p.inUse > 0
	}
	for _, cancel := range s.calls {
		cancel(ErrFenced)
	}
}

// rejoined reserves permits in a new membership.
func (s *scheduler) rejoined() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dispatch()
}

// queued returns the number of tasks that wait for room.
func (s *scheduler) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting + len(s.trials.waiting)
	if t := s.trials.current; t != nil && !t.started {
		waiting++
	}
	return waiting
}
