package task

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// ErrFenced is the cause of the end of the context of work if another member of the fleet may hold
// the task. The work runs again there, and the store rejects its further writes from here.
// ErrFenced wraps [ErrClosed].
var ErrFenced = fmt.Errorf("%w here: another member of the fleet may hold the task", ErrClosed)

// errTaken reports that another member has claimed an orphan first.
var errTaken = errors.New("task: claimed by another member")

// errUnknownWork reports that Options.Recovery.Recover returned no work for an orphan. Another
// member may know its tool.
var errUnknownWork = errors.New("task: this member does not know the work")

// errNotMember reports that the lease of this member has ended, and that it has not joined again.
var errNotMember = fmt.Errorf("%w: this process is not a member of the fleet at present", ErrUnavailable)

// inspectors is the maximum number of goroutines that read the records that other members have
// changed.
const inspectors = 16

// fleet connects a Manager with the other processes that use its store. It is a shared if there may
// be others, and otherwise an alone.
type fleet interface {
	// others reports whether there may be other processes. Then a record that was read may be out
	// of date, and only a write detects that.
	others() bool
	// claim returns the claim with which this process takes over a task that has the claim from;
	// the zero Claim is that of a new task. It fails if other members may have taken over the tasks
	// of this process.
	claim(from Claim) (Claim, error)
	// follow makes the fleet inspect a task after each change by another member, until unfollow is
	// called as often as follow. Call it before the record is read, or a change may be missed.
	// changed reports that there may be a change.
	follow(id string)
	unfollow(id string)
	changed(id string)

	// wrote, dropped and removed are called when this process has written a record, has dropped a
	// task, and has removed a run. run is nil if the task has no run in this process.
	wrote(run *Run, r *Record)
	dropped(run *Run, r *Record)
	removed(run *Run)

	// attendant returns the attendant of a task, see attend.go, or nil if it has none. attend
	// returns the Run to which a requestor of the task must be added until leave is called, or nil.
	// leave passes on the messages that have arrived before. It must be called before the requestor
	// is removed.
	attendant(id string) *Run
	attend(ctx context.Context, r *Record) (to *Run, leave func())

	// createElsewhere stores a task that other members run. refused leaves a task for which this
	// process has no work to them, and removes its run, which may be nil. It returns false if the
	// task must stay. toolsChanged ends all refusals.
	createElsewhere(ctx context.Context, r *Record, via Requestor) error
	refused(run *Run, r *Record) bool
	toolsChanged()
	// drain hands over the tasks whose work is parked or queued to other members that run them.
	// handOverTicket and handOverParked do so for a task whose work was queued or parked after
	// that.
	drain()
	handOverTicket(t *ticket)
	handOverParked(run *Run)

	// granted returns how many permits of a pool this process has. settle starts goroutines that
	// request or return permits of all pools. The caller holds the mu of the scheduler.
	granted(p *pool) int64
	settle()

	// members, query and takeOver are for operators; see [Manager.Members], Query and TakeOver.
	members() []Member
	query(ctx context.Context, request []byte) (responses map[string][]byte, err error)
	takeOver(r *Record) error
}

// alone is the fleet of a Manager whose store is not shared. All claims are zero, and the tasks
// that the store has at the start are those of this process.
type alone struct{ m *Manager }

func (alone) others() bool                    { return false }
func (alone) claim(from Claim) (Claim, error) { return from, nil }
func (alone) follow(string)                   {}
func (alone) unfollow(string)                 {}
func (alone) changed(string)                  {}
func (alone) wrote(*Run, *Record)             {}
func (alone) removed(*Run)                    {}
func (alone) attendant(string) *Run           { return nil }
func (f alone) attend(_ context.Context, r *Record) (*Run, func()) {
	return f.m.findRun(r.ID), func() {}
}
func (alone) createElsewhere(context.Context, *Record, Requestor) error { return errors.ErrUnsupported }
func (alone) refused(*Run, *Record) bool                                { return false }
func (alone) toolsChanged()                                             {}
func (alone) drain()                                                    {}
func (alone) handOverTicket(*ticket)                                    {}
func (alone) handOverParked(*Run)                                       {}
func (alone) granted(p *pool) int64                                     { return p.max }
func (alone) settle()                                                   {}
func (alone) members() []Member                                         { return nil }
func (alone) query(context.Context, []byte) (map[string][]byte, error)  { return nil, nil }
func (alone) takeOver(*Record) error                                    { return taskrules.ErrNotMovable }

func (f alone) dropped(run *Run, r *Record) {
	if run == nil {
		f.m.limits.dropTaskWithoutWork(r)
	}
}

// shared is the fleet of a Manager whose store is shared. It follows the tasks that have a run or a
// watch in this process, and takes over the tasks of members that have ended.
type shared struct {
	m     *Manager
	scans chan struct{} // capacity 1; signals that tasks may have lost their holder

	announcing sync.Mutex // held by announceMissing

	// mu may be locked while the Manager's mu is held, but not the other way round.
	mu         sync.Mutex
	membership membership
	own        map[string]bool      // IDs of all memberships of this process
	missing    []fleets.Missing     // the tasks that this member has refused
	followed   map[string]*followed // by task id
	changes    []string             // ids of tasks to inspect
	doubts     map[string]Claim     // see doubt; by task id
	inspecting int                  // number of goroutines that inspect tasks
}

// followed is a task that other members may change. It is guarded by the mu of the fleet.
type followed struct {
	users   int // number of runs and watches
	stop    func()
	pending bool // the id is in changes

	attendant *Run          // nil if there is none
	attending int           // number of users of attendant
	messages  []message     // for the requestors of attendant
	passed    chan struct{} // closed when the messages are passed on; nil if there are none
	// placing is set while a task that was created here for other members has no holder; stored is
	// set once the task is in the store. From then on, created is set until the task is terminal.
	placing         *placement // nil if not set
	stored, created bool

	least uint64 // revision of the latest record that was read or written here
	// outdatedSince and outdated are when the first and the latest outdated record was read, since
	// the latest one that was not outdated.
	outdatedSince, outdated time.Time
	// revision, status and seen are from the latest record that was read or written here.
	revision uint64
	status   mcp.TaskStatus
	seen     view
}

// joinFleet makes a Manager a member of the fleet of its store. It fails with errors.ErrUnsupported
// if the store is not shared.
func (m *Manager) joinFleet(ctx context.Context) (*shared, error) {
	f := &shared{m: m, scans: make(chan struct{}, 1), own: map[string]bool{}, followed: map[string]*followed{}, doubts: map[string]Claim{}}
	m.fleet, m.store.store, m.limits.shared = f, latestStore{m.cfg.Store, f}, true // before Join, whose events need them
	membership, err := f.join(ctx)
	if err != nil {
		m.fleet, m.store.store, m.limits.shared = alone{m}, m.cfg.Store, false
		return nil, err
	}
	f.set(membership)
	return f, nil
}

func (f *shared) others() bool { return true }

// claim implements [fleet]. If it fails because the lease has ended, it returns the claim all the
// same.
func (f *shared) claim(from Claim) (c Claim, err error) {
	membership := f.current()
	if membership == nil { // Join has not returned yet
		return c, errNotMember
	}
	if lapsed(membership) {
		err = errNotMember
	}
	return Claim{membership.Self().ID, from.Epoch + 1}, err
}

// set sets the membership, and returns the ids of the tasks that this member follows. It forgets
// the latest revisions that were seen: the lease may have ended because the store has lost its
// latest writes, and then an earlier revision is right. lost handles the case that the lease
// survives.
func (f *shared) set(membership membership) (ids []string) {
	f.mu.Lock()
	f.membership = membership
	f.own[membership.Self().ID] = true
	for id, each := range f.followed {
		each.stop = f.follower(id)
		each.least, each.revision = 0, 0
		ids = append(ids, id)
	}
	f.mu.Unlock()
	f.announceMissing()
	return ids
}

// isOwn reports whether an ID is that of a membership of this process.
func (f *shared) isOwn(member string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.own[member]
}

// acquit corrects the record of a task that another member has taken over because this one seemed
// to have died. It fails if the store does.
func (f *shared) acquit(r *Record) error {
	if r.terminal() || !slices.ContainsFunc(r.Lost, f.isOwn) {
		return nil
	}
	_, err := f.m.change(f.m.lifetime, r.ID, func(r *Record) error {
		if r.terminal() || !slices.ContainsFunc(r.Lost, f.isOwn) {
			return errUnchanged
		}
		f.m.acquit(r, f.isOwn)
		return nil
	})
	if unavailable(err) {
		return err
	}
	return nil
}

// join calls Join of the store.
func (f *shared) join(ctx context.Context) (membership membership, err error) {
	defer boundary.Catch(&err)
	membership, err = f.m.cfg.Store.Join(ctx, f.m.cfg.Member, fleets.Events{
		Departed: func() { f.scan(); f.reapply(func(*pool) bool { return true }) }, // permits become free
		Shared:   func(quota string) { f.reapply(func(p *pool) bool { return p.quota() == quota }) },
		Offered:  func(id string) { f.m.spawn(func() { f.offered(id) }) },
		Load:     f.m.load,
		Queried:  f.m.queried,
	})
	if err != nil {
		return nil, err
	}
	return safeMembership{membership, f.m.cfg.Logger}, nil
}

// current returns the membership.
func (f *shared) current() membership {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.membership
}

// leave ends the membership.
func (f *shared) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	if err := f.current().Leave(ctx); err != nil {
		f.m.cfg.Logger.Warn("fleet not left", "error", err) // the lease ends by itself
	}
}

// lapsed reports whether the lease of a membership has ended.
func lapsed(membership membership) bool {
	select {
	case <-membership.Expired():
		return true
	default:
		return false
	}
}

// run takes over tasks until the Manager closes. When the lease ends, it ends all work and joins
// again.
func (f *shared) run() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	again := false
	looks := 2 // remaining; a server that was cut off may answer the first with an outdated index
	fenced := f.watchLease(f.current())
	for {
		select {
		case <-f.m.lifetime.Done():
			return
		case <-fenced:
			f.rejoin()
			fenced = f.watchLease(f.current())
			again, looks = false, 2
		case <-f.scans:
			again, looks = false, 2
		case <-retry.C:
		}
		retry.Stop()
		looks--
		// Members may differ in which of them takes over a task, and the store may fail.
		if again = f.adoptOrphans(again); again || looks > 0 {
			retry.Reset(f.current().Self().Lease)
		}
	}
}

// scan makes run look for tasks that have lost their holder.
func (f *shared) scan() {
	select {
	case f.scans <- struct{}{}:
	default:
	}
}

// watchLease ends all work once the lease of a membership has ended, and then closes the channel
// that it returns. It does not wait for the store, which may not respond.
func (f *shared) watchLease(membership membership) <-chan struct{} {
	fenced := make(chan struct{})
	f.m.spawn(func() { // ends with the membership or the Manager
		select {
		case <-f.m.lifetime.Done():
		case <-membership.Expired():
			f.fenceAll(membership)
			close(fenced)
		}
	})
	return fenced
}

// fenceAll ends all work after the lease of a membership has ended.
func (f *shared) fenceAll(membership membership) {
	m := f.m
	m.audit.nLapsed.Add(1)
	m.cfg.Logger.Warn("lease ended", "member", membership.Self().ID)
	m.mu.Lock()
	runs := make([]*Run, 0, len(m.runs))
	for _, run := range m.runs {
		runs = append(runs, run)
	}
	m.mu.Unlock()
	for _, run := range runs {
		m.fence(run)
	}
	m.scheduler.fence()
}

// rejoin joins the fleet again after the lease has ended.
func (f *shared) rejoin() {
	m := f.m
	var membership membership
	for {
		var err error
		if membership, err = f.join(m.lifetime); err == nil {
			break
		}
		m.cfg.Logger.Error("fleet not joined", "error", err, "retry_in", wakeRetry)
		if !m.pause(wakeRetry) {
			return
		}
	}
	ids := f.set(membership)
	if m.draining.Load() { // after the membership is set, because Drain sets draining first
		drain(membership)
	}
	m.scheduler.rejoined()
	for _, id := range ids {
		f.changed(id)
		m.redeliver(id) // waiters may have seen a later revision than the store has now
	}
	f.scan()
}

// follow implements [fleet].
func (f *shared) follow(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	each := f.followed[id]
	if each == nil {
		each = &followed{stop: f.follower(id)}
		f.followed[id] = each
	}
	each.users++
}

// follower registers a task with the current membership. The caller holds mu.
func (f *shared) follower(id string) (stop func()) {
	return f.membership.Follow(id, fleets.Follower{
		Changed: func() { f.changed(id) },
		Message: func(message []byte) { f.received(id, message) },
	})
}

func (f *shared) unfollow(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	each := f.followed[id]
	if each.users--; each.users == 0 {
		delete(f.followed, id)
		each.stop()
	}
}

// changed makes a goroutine inspect a task.
func (f *shared) changed(id string) {
	f.mu.Lock()
	each := f.followed[id]
	if each == nil || each.pending {
		f.mu.Unlock()
		return
	}
	each.pending = true
	f.changes = append(f.changes, id)
	start := f.inspecting < inspectors
	if start {
		f.inspecting++
	}
	f.mu.Unlock()
	if start {
		f.m.spawn(f.inspectAll) // ends when nothing is left to inspect
	}
}

// inspectAll inspects tasks until none is left.
func (f *shared) inspectAll() {
	for {
		f.mu.Lock()
		if len(f.changes) == 0 {
			f.changes = nil
			f.inspecting--
			f.mu.Unlock()
			return
		}
		id := f.changes[0]
		f.changes = f.changes[1:]
		if each := f.followed[id]; each != nil {
			each.pending = false
		}
		f.mu.Unlock()
		if f.inspect(id) {
			continue
		}
		if !f.m.pause(wakeRetry) {
			return
		}
		f.changed(id)
	}
}

// inspect applies a change that another member has made to a task. It returns false if the record
// cannot be read now.
func (f *shared) inspect(id string) bool {
	m := f.m
	var r Record
	err := m.store.get(m.lifetime, id, &r)
	run := m.findRun(id)
	if run != nil && (run.claiming.CompareAndSwap(claimPending, claimMissed) || run.claiming.Load() == claimMissed) {
		run = nil // endClaiming calls changed
	}
	switch {
	case errors.Is(err, ErrNotFound):
		if run != nil {
			m.expiredIDs.add(run.usage.principal, id)
			m.expireRun(run)
		}
		f.inspectAttendant(id, nil)
		m.watches.notify(id)
		return true
	case errors.Is(err, ErrCorrupt):
		return true
	case err != nil:
		m.logFault("read task", err)
		return false
	}
	if f.acquit(&r) != nil {
		return false
	}
	if run != nil {
		m.inspectRun(run, &r)
	}
	f.inspectAttendant(id, &r)
	f.mu.Lock()
	each := f.followed[id]
	if each == nil || r.Revision <= each.revision {
		f.mu.Unlock()
		return true
	}
	differs := each.revision == 0 || each.status != r.shown() || each.seen != r.view()
	moved := each.revision != 0 && each.status != r.shown()
	each.set(&r)
	f.mu.Unlock()
	if moved && run != nil && !m.cfg.Updates.Quiet {
		run.notifyStatus(&r)
	}
	if differs {
		m.watches.notify(id)
	}
	return true
}

// set sets the record that was seen last.
func (each *followed) set(r *Record) {
	each.revision, each.status, each.seen = r.Revision, r.shown(), r.view()
}

// wrote sets the record that was seen last to one that this member has written.
func (f *shared) wrote(run *Run, r *Record) {
	if run != nil {
		run.setLatest(r)
	}
	f.mu.Lock()
	each := f.followed[r.ID]
	if each != nil && r.Revision > each.revision {
		each.set(r)
		each.least = max(each.least, r.Revision)
	}
	settled := each != nil && (each.placing != nil && r.Claim.Member != "" || each.places() && r.terminal())
	f.mu.Unlock()
	if settled {
		f.changed(r.ID) // the store reports only changes by other members
	}
}

// dropped makes a goroutine inspect a task that this member has dropped, if it was created here for
// other members.
func (f *shared) dropped(_ *Run, r *Record) {
	f.mu.Lock()
	each := f.followed[r.ID]
	places := each != nil && each.places()
	f.mu.Unlock()
	if places {
		f.changed(r.ID)
	}
}

// removed undoes the calls of newRun. A task that was lost may still have the claim of this member.
func (f *shared) removed(run *Run) {
	f.unfollow(run.id)
	f.m.limits.forget(&run.usage)
	f.m.limits.unsetNetwork(run.id)
	if run.lost.Load() {
		f.doubt(run.id, Claim{})
		f.scan()
	}
}

// places reports whether this process has created the task for other members, or handed it over,
// and the task has not ended as far as it knows.
func (each *followed) places() bool { return each.placing != nil || each.created }

// latestStore is a shared store whose Get fails with errOutdated if this process has read or
// written a later record, unless the store has lost that one.
type latestStore struct {
	Store
	f *shared
}

// Get implements [Store].
func (s latestStore) Get(ctx context.Context, id string) (Record, error) {
	least := s.f.least(id) // before the read, because others may write meanwhile
	r, err := s.Store.Get(ctx, id)
	if err != nil {
		return r, err
	}
	if r.Revision < least && !s.f.lost(id, r.Revision) {
		return r, errOutdated
	}
	s.f.saw(id, r.Revision)
	return r, nil
}

// least returns the least revision of a task that the store must return; 0 if any may be right.
func (f *shared) least(id string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if each := f.followed[id]; each != nil {
		return each.least
	}
	return 0
}

// saw records the revision of a record that was read.
func (f *shared) saw(id string, revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if each := f.followed[id]; each != nil {
		each.least = max(each.least, revision)
		each.outdated = time.Time{}
	}
}

// A server that was cut off returns outdated records for some seconds. If reads of a task, with no
// longer pauses than outdatedPause, return nothing else for longestOutdated, the store has lost the
// latest writes: for example, its servers were restarted from a copy of their files.
const (
	longestOutdated = time.Minute
	outdatedPause   = 30 * time.Second
)

// lost is called when an outdated record was read. It returns true if the store has lost the later
// ones. Then a run in this process ends, and is recovered from the record that the store has.
func (f *shared) lost(id string, revision uint64) bool {
	f.mu.Lock()
	each := f.followed[id]
	if each == nil || revision >= each.least {
		f.mu.Unlock()
		return true
	}
	now := time.Now()
	if now.Sub(each.outdated) > outdatedPause {
		each.outdatedSince = now
	}
	each.outdated = now
	if now.Sub(each.outdatedSince) < longestOutdated {
		f.mu.Unlock()
		return false
	}
	latest := each.least
	each.least, each.revision = revision, 0
	f.mu.Unlock()
	f.m.cfg.Logger.Error("writes lost by the store", "task", id, "revision", revision, "latest", latest)
	if run := f.m.findRun(id); run != nil && run.claiming.Load() == claimStored {
		f.m.fence(run)
	}
	f.m.redeliver(id)
	return true
}

// inspectRun applies a record that another member may have written to the run of its task.
func (m *Manager) inspectRun(run *Run, r *Record) {
	switch {
	case r.Claim.Epoch < run.claim.Epoch: // read before the claim of the run was written
	case r.Claim != run.claim:
		m.fence(run)
	case r.terminal():
		m.limits.commit(&run.usage, r, 0)
		run.abortProgress()
		run.endContext(ErrCancelled)
		m.unpark(run.id, true)
	default:
		if r.Reruns == 0 {
			m.scheduler.acquitted(run)
		}
		if r.withdrawn() && !r.parked() {
			m.withdrawn(run, r)
		}
		m.recheck(r)
	}
}

// fence ends a run whose task another member may hold.
func (m *Manager) fence(run *Run) {
	run.lost.Store(true)      // before the context ends, which renew may replace
	run.endContext(ErrFenced) // before progress ends: a failure of Report is not the work's
	run.abortProgress()
	m.unpark(run.id, true)
}

// fenced reports whether another member holds the task of a run.
func (run *Run) fenced(r *Record) bool { return r.Claim != run.claim }

// change is [Manager.change] for a write of the work. It repeats the write while the store fails;
// see Manager.persist. So f may be called again after a write whose outcome is unknown. Change
// fails with ErrFenced if another member holds the task.
func (run *Run) change(ctx context.Context, f func(r *Record) error) (r Record, err error) {
	err = run.m.persist(ctx, run, func() (err error) {
		r, err = run.tryChange(ctx, f)
		return err
	})
	return r, err
}

// tryChange is change with one attempt.
func (run *Run) tryChange(ctx context.Context, f func(r *Record) error) (Record, error) {
	return run.m.change(ctx, run.id, func(r *Record) error {
		if run.fenced(r) {
			return ErrFenced
		}
		return f(r)
	})
}

// take writes the claim of a run that recovers a task to the record, and takes the number of the
// latest input request from there: the previous holder may have written it since newRun. It fails
// with errTaken if the claim of the record is not from.
func (run *Run) take(r *Record, from Claim) error {
	if r.terminal() {
		return &MoveError{r.Status, mcp.TaskStatusWorking}
	}
	if r.Claim != from {
		return errTaken
	}
	r.Claim = run.claim
	if r.Durable != nil {
		run.mu.Lock()
		run.lastInputRequest = max(run.lastInputRequest, r.Durable.LastInput)
		run.mu.Unlock()
	}
	return nil
}

// adoptOrphans takes over the unfinished tasks that have no living holder: those that designated
// assigns to this member, or all of them if all is set. It reports whether it left a task that this
// member may have to take over later.
func (f *shared) adoptOrphans(all bool) (left bool) {
	membership := f.current()
	self, members := f.self(), membership.Members()
	f.m.scheduler.hold()
	defer f.m.scheduler.release()
	var failed atomic.Bool
	var group sync.WaitGroup
	defer func() {
		group.Wait()
		left = left || failed.Load()
	}()
	workers := make(chan struct{}, recoveryWorkers)
	adopt := func(r Record) {
		if now := f.m.earlier(); r.expired(now) && !r.Retained(now) {
			return
		}
		if r.terminal() {
			f.m.cancelLeftoverJob(r)
			return
		}
		workers <- struct{}{}
		group.Go(func() { // ends with the claim
			defer func() { <-workers }()
			if f.adopt(r) != nil {
				failed.Store(true)
			}
		})
	}
	own, open := f.ownOrphans(membership)
	left = open
	for _, r := range own {
		switch {
		case !f.m.draining.Load():
			adopt(r)
		case !f.isOwn(r.Claim.Member): // the others find it, too
		case r.Restartable && f.m.othersServe(placementOf(&r)):
			f.giveUp(&r)
		default:
			adopt(r)
		}
	}
	for r, err := range orphans(f.m.lifetime, membership) {
		if errors.Is(err, ErrCorrupt) {
			f.m.logFault("read orphans", err) // comes last, after all readable orphans
			break
		}
		if err != nil {
			f.m.logFault("read orphans", err)
			return f.m.lifetime.Err() == nil
		}
		p := placementOf(&r)
		if !serves(&self, &p) || f.m.draining.Load() {
			continue
		}
		if !all && designated(members, r.ID, &p) != self.ID {
			left = true
			continue
		}
		adopt(r)
	}
	f.placeAgain()
	return left
}

// orphans calls Orphans of a membership and returns its panics as errors.
func orphans(ctx context.Context, membership membership) iter.Seq2[Record, error] {
	return safely(func() iter.Seq2[Record, error] { return membership.Orphans(ctx) })
}

// doubt makes adoptOrphans check whether this member holds a task without a run. A write with an
// unknown outcome may still replace the claim from, which may be the zero Claim.
func (f *shared) doubt(id string, from Claim) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubts[id] = from
}

// ownOrphans returns the briefs of the tasks that this member holds without a run, and of the tasks
// that another member has taken from it before that member ended. It reports whether a pending
// write may still make this member the holder of a task.
func (f *shared) ownOrphans(membership membership) (briefs []Record, open bool) {
	self, members := membership.Self(), membership.Members()
	f.mu.Lock()
	doubts := f.doubts
	f.doubts = map[string]Claim{}
	f.mu.Unlock()
	for id, from := range doubts {
		var r Record
		err := f.m.store.get(f.m.lifetime, id, &r)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt) || err == nil && !fleets.NeedsHolder(r.Status, r.Job) {
			continue
		}
		if err == nil {
			err = f.acquit(&r)
		}
		held := r.Claim.Member != self.ID
		if err == nil && held {
			held = slices.ContainsFunc(members, func(m Member) bool { return m.ID == r.Claim.Member })
		}
		if err == nil && !held && r.Claim.Member != self.ID && r.Claim != from {
			held, err = membership.Alive(f.m.lifetime, r.Claim.Member)
		}
		switch {
		case err != nil, r.Claim == from && r.Claim.Member != self.ID:
			f.doubt(id, from)
			open = true
		case !held && f.m.findRun(id) == nil:
			briefs = append(briefs, r.Brief())
		}
	}
	return briefs, open
}

// adopt takes over one task. It fails if the task may still need a holder afterwards: with
// ErrExists if earlier work has not returned yet, and with errTaken if another member has claimed
// the task, because that member may be dead already.
func (f *shared) adopt(brief Record) error {
	err := errUnknownWork
	// This member may have refused such a task since the caller has chosen this one.
	if self, p := f.self(), placementOf(&brief); self.has(&p) {
		err = f.recover(brief, brief.Claim.Member != "" && !f.isOwn(brief.Claim.Member))
	}
	if err == errUnknownWork && f.isOwn(brief.Claim.Member) {
		// No other member looks for the tasks of a living one. The holder of an earlier membership
		// of this process has not died, but would count as dead.
		f.giveUp(&brief)
	} else if err != nil && f.isOwn(brief.Claim.Member) {
		f.doubt(brief.ID, Claim{}) // another member may have found this one dead, which acquit corrects
	}
	if _, ended := errors.AsType[*MoveError](err); ended || errors.Is(err, ErrNotFound) || err == errUnknownWork {
		return nil
	}
	if err != nil {
		f.m.logFault("take over task", err)
	}
	return err
}

// recover claims a task and runs its work. It fails with errTaken if another member was faster.
// Died is set if the holder of the task has ended.
func (f *shared) recover(brief Record, died bool) (err error) {
	from := brief.Claim
	if brief.parked() && f.m.cfg.Recovery.Recover != nil {
		err = f.m.recoverParked(f.m.lifetime, &brief)
	} else {
		err = f.m.recoverTask(f.m.lifetime, brief, died)
	}
	if err == nil && from.Member != "" && from.Member != f.current().Self().ID {
		f.m.audit.nTakenOver.Add(1)
	}
	_, ended := errors.AsType[*MoveError](err)
	if err != nil && !ended && err != errUnknownWork && !expectedError(err) {
		f.doubt(brief.ID, from) // the acknowledgement may have been lost
	}
	return err
}

// offered takes over a task that another member offers.
func (f *shared) offered(id string) {
	if f.current() == nil || f.m.draining.Load() {
		return // run looks for tasks once this process has joined
	}
	var r Record
	if f.m.store.get(f.m.lifetime, id, &r) != nil || r.terminal() || r.Claim.Member != "" {
		return
	}
	p := placementOf(&r)
	if self := f.self(); !serves(&self, &p) {
		return
	}
	if f.adopt(r.Brief()) != nil {
		f.scan()
	}
}

// designated returns the ID of the member that should take over a task, or "" if none serves it.
// All members with the same list get the same result, and the tasks are spread evenly (rendezvous
// hashing).
func designated(members []Member, task string, p *placement) (id string) {
	var greatest uint64
	for i := range members {
		if !serves(&members[i], p) {
			continue
		}
		h := fnv.New64a()
		io.WriteString(h, task)
		io.WriteString(h, "\x00")
		io.WriteString(h, members[i].ID)
		if sum := mix(h.Sum64()); id == "" || sum > greatest {
			id, greatest = members[i].ID, sum
		}
	}
	return id
}

// mix spreads the bits of a hash evenly. FNV leaves those of the last bytes close together.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}

// prepareClaim sets the claim of a run that recovers a task, and returns the claim that it
// replaces.
func (m *Manager) prepareClaim(run *Run, r *Record) (from Claim) {
	m.limits.addHeld(&run.usage)
	run.claim, _ = m.fleet.claim(r.Claim) // if the lease has ended, the run is fenced
	if run.claim == r.Claim {
		run.endClaiming() // the record has it already
	}
	return r.Claim
}

// endClaiming ends the time in which the record may not have the claim of the run.
func (run *Run) endClaiming() {
	if run.claiming.Swap(claimStored) == claimMissed {
		run.m.fleet.changed(run.id)
	}
}

// runsHere reports whether this process runs the restartable tasks of a tool that it creates, if they
// require labels. It returns false if [Options].Member leaves the tool to other members of the
// fleet or lacks a label, and while this member drains and another one runs the tasks.
func (m *Manager) runsHere(tool string, labels ...string) bool {
	p := placement{tool: tool, labels: labels}
	return !m.fleet.others() || serves(&m.cfg.Member, &p) && !(m.draining.Load() && m.othersServe(p))
}

// Members returns the living members of the fleet, this one included, in ascending order of their
// IDs. The list may be out of date, but for the Load of this member. It is nil if the store is not
// shared.
func (m *Manager) Members() []Member { return m.fleet.members() }

func (f *shared) members() []Member {
	membership := f.current()
	self, list := membership.Self().ID, membership.Members()
	for i := range list {
		if list[i].ID == self {
			list[i].Load = f.m.load()
		}
	}
	return list
}

// load returns the load of this member.
func (m *Manager) load() fleets.Load {
	s := m.Stats()
	return fleets.Load{Running: s.Running, Queued: s.Queued, Parked: s.Parked}
}

// Query sends a request to all living members of the fleet, this one included, and returns what
// their [Hooks.Queried] has returned, by the ID of the member. It returns once all have responded,
// or ctx ends: then those that have not responded are missing, without an error. Requests and
// responses may be lost. Query returns nil if the store is not shared.
func (m managerInternals) Query(ctx context.Context, request []byte) (responses map[string][]byte, err error) {
	return m.fleet.query(ctx, request)
}

func (f *shared) query(ctx context.Context, request []byte) (responses map[string][]byte, err error) {
	membership := f.current()
	if responses, err = membership.Query(ctx, request); err == nil {
		responses[membership.Self().ID] = f.m.queried(request)
	}
	return responses, err
}

// queried responds to a request of Query.
func (m *Manager) queried(request []byte) (response []byte) {
	if m.cfg.Hooks.Queried == nil {
		return nil
	}
	err := boundary.Run(func() error { response = m.cfg.Hooks.Queried(request); return nil })
	boundary.Report(m.cfg.Logger, "Options.Hooks.Queried panicked", err)
	return response
}

// TakeOver makes this member of a fleet the holder of an unfinished task, for an operator: the work
// ends in the other process, and runs again here from its journal. If this member holds the task
// already, TakeOver ends the context of the work and returns; the next run starts once the work has
// returned.
//
// TakeOver fails with [ErrNotFound], with [ErrClosed], with a [*MoveError] if the task is terminal,
// and with taskrules.ErrNotMovable if the work is not restartable, if this member drains, does not
// have the tool or lacks a label of the task, or if the task is about to fail because of
// [Recovery.MaxReruns].
func (m managerInternals) TakeOver(ctx context.Context, id string) error {
	var r Record
	if err := m.store.get(ctx, id, &r); err != nil {
		return withID(id, m.logFault("read task", err))
	}
	switch {
	case m.lifetime.Err() != nil:
		return ErrClosed
	case r.terminal():
		return &MoveError{r.Status, mcp.TaskStatusWorking}
	case !r.Restartable:
		return taskrules.ErrNotMovable
	case m.draining.Load():
		return fmt.Errorf("%w: this member drains", taskrules.ErrNotMovable)
	case m.lacks(r.Labels...) != "":
		return fmt.Errorf("%w: this member does not have the label %q", taskrules.ErrNotMovable, m.lacks(r.Labels...))
	case r.Phase == taskrules.PhaseDoomed:
		return fmt.Errorf("%w: %s", taskrules.ErrNotMovable, doomedText(&r))
	}
	return m.fleet.takeOver(&r)
}

func (f *shared) takeOver(r *Record) error {
	if run := f.m.findRun(r.ID); run != nil {
		f.m.fence(run) // removeRun looks for the task again
		return nil
	}
	err := f.recover(r.Brief(), false)
	if err == errUnknownWork {
		return fmt.Errorf("%w: this member does not have its tool", taskrules.ErrNotMovable)
	}
	if errors.Is(err, errTaken) {
		return fmt.Errorf("%w: another member has just claimed it", taskrules.ErrNotMovable)
	}
	return err
}
