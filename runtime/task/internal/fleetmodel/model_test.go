package fleetmodel

import (
	"cmp"
	"fmt"
)

// operation is an operation of the work.
type operation uint8

const (
	step operation = iota
	ask
	sleep
)

// model says what is explored.
type model struct {
	processes int
	frontEnds int // number of processes that create tasks for others; they are the first
	work      []operation
	faults    uint8
	cancels   uint8
	lacking   uint8 // set of the processes whose Options.Recovery.Recover returns nil at first
	upgrades  bool  // these are upgraded sooner or later
	silent    bool  // they do not announce that they refuse the task, like earlier versions of package task
	trials    bool  // Options.Recovery.MaxReruns is 1; otherwise, there are no trials
	without   guard // guards that are removed
}

// guard is a set of rules of package task and of the contract of shared stores.
type guard uint64

// The guards, by the component that keeps them.
const (
	// Store.
	compareAndSwap    guard = 1 << iota // Update fails if the record has changed
	journalCurrent                      // Journal returns all entries that were stored before
	inspectCurrent                      // Get after Changed returns that change
	scanCurrent                         // Scan after Departed yields all tasks of the departed
	departedReported                    // Departed is called for each member that has ended
	membersFirst                        // Members does not list a member for which Departed was called
	refollowed                          // a membership reports changes to a member that has joined again
	uncertainReported                   // Changed is called for a task if the writer does not know whether its write has happened

	// Manager.
	claimCheck        // run.change compares the claim
	outcomeClaimCheck // storeOutcome compares the claim
	takeCheck         // take compares the claim with that of the member that was found dead
	aliveCheck        // departed calls Alive before a task is taken
	takenRetried      // adoptOrphans looks again after errTaken
	existsRetried     // adoptOrphans looks again after ErrExists
	ownTaken          // adoptOrphans takes its own tasks that have no run
	othersTaken       // after a while, adoptOrphans takes tasks for which another member is designated
	scanOnJoin        // fleet.run scans when it starts, and rejoin scans
	followFirst       // newRun follows the task before the claim is written
	watchFirst        // Watch.add follows the task before the record is read
	inspectOnJoin     // rejoin inspects all tasks that are followed
	missedInspected   // endClaiming inspects the task if a change came during the claim
	olderIgnored      // inspectRun ignores a record that is older than the claim of the run
	outcomeDropped    // interrupted drops the error of work that ended with ErrFenced
	requestKept       // Ask does not withdraw its input request after ErrFenced
	lapsedCheck       // Create fails if the lease has ended before the task was stored
	lapsedSame        // Create looks at the membership that the claim names
	placedAgain       // placeAgain offers a task again until it is claimed
	restingCheck      // unpark starts work only if it rests
	openCheck         // setAnswer answers only an open input request
	recordLooksUp     // Record looks into the journal after a failed write before it writes again

	// Trials and refusals.
	deathCounted     // recoverTask counts the death of the holder
	trialMarked      // beginning marks a trial
	trialUnmarked    // awaitTrial removes the mark
	trialOnly        // countDeath dooms a task in a trial only
	suspendMarked    // suspend marks work that has ended with its Manager
	acquitInspects   // inspect corrects the record of a task that was taken from this member
	acquitDoubts     // ownOrphans does
	acquitLifts      // acquit lifts the verdict
	verdictWaits     // awaitVerdict waits for the members that may live
	refusalAnnounced // refuse announces what the member lacks
	refusalForgotten // ToolsChanged announces that the member lacks nothing any longer
	toolsScan        // ToolsChanged looks for tasks
	wakeSuspends     // change marks parked work that a process without its run wakes
	parkSuspends     // resume marks work that was to be parked when its Manager has closed
	lastGuard        = parkSuspends
)

// action is what happens between two states.
type action struct {
	what    event
	process uint8
	kind    writeKind
	how     fate
}

type event uint8

const (
	writes     event = iota // a write that was begun in this state
	resumes                 // a write or an inspection that was paused
	arrives                 // a write that was reported as failed
	vanishes                // the same, but it does not happen
	startsWork              // Run.Journal
	reads                   // Run.Ask or Run.Sleep finds that the wait is over
	endsWork                // the work returns because its context has ended
	parks                   // waits.check
	timePasses              // the time at which a sleep ends
	wakes                   // wakeDue
	inspects                // fleet.inspect
	scans                   // adoptOrphans(false)
	retries                 // adoptOrphans(true)
	offers                  // fleet.offered
	losesOffer              // Offer is lost
	rejoins                 // fleet.rejoin
	endsLease               // the lease of a crashed process ends
	losesLease              // the lease of a running process ends
	crashes                 // the process ends
	closes                  // Manager.Close
	leaves                  // fleet.leave
	restarts                // a new process with a Manager
	watches                 // Manager.Watch
	follows                 // a mutation follows too late
	upgrades                // ToolsChanged
	judges                  // awaitVerdict
	doubles                 // Changed is called without a change
	scansAgain              // Departed is called although nothing has changed
)

// fate says what becomes of a write.
type fate uint8

const (
	happens    fate = iota
	pauses          // the process pauses between the read and the write
	isLost          // the store returns an error
	isLate          // the process pauses after the write, before it learns that the write has happened
	isStale         // a read returns an older record
	hasOldList      // Members returns an older list
)

var eventNames = [...]string{
	writes:     "",
	resumes:    "goes on with",
	arrives:    "the write that was reported as failed happens:",
	vanishes:   "the write that was reported as failed never happens:",
	startsWork: "starts the work (Run.Journal)",
	reads:      "the work finds that its wait is over (Run.Ask, Run.Sleep)",
	endsWork:   "the work returns because its context has ended",
	parks:      "the waits of the work end with ErrParked (waits.check)",
	timePasses: "the time comes at which the sleep ends",
	wakes:      "the time to wake has come (wakeDue)",
	inspects:   "reads the record after Changed (fleet.inspect)",
	scans:      "looks for orphans (adoptOrphans)",
	retries:    "looks for orphans again (adoptOrphans, all)",
	offers:     "is offered the task (fleet.offered)",
	losesOffer: "an offer to it is lost",
	rejoins:    "notices that its lease has ended and joins again (fleet.rejoin)",
	endsLease:  "the lease of the crashed process ends",
	losesLease: "its lease ends unnoticed",
	crashes:    "crashes",
	closes:     "closes (Manager.Close)",
	leaves:     "leaves the fleet (fleet.leave)",
	restarts:   "is started again and joins",
	watches:    "a requestor watches the task (Watch.add)",
	follows:    "follows the task",
	upgrades:   "is upgraded (ToolsChanged)",
	judges:     "the verdict is found (awaitVerdict)",
	doubles:    "Changed is called without a change",
	scansAgain: "Departed is called without a departure",
}

var fateNames = [...]string{"", ", but pauses before the write", ", but the store returns an error", ", and the process pauses", " and reads an older record", " with an older list of members"}

// String formats an action for a trace.
func (a action) String() string {
	text := eventNames[a.what]
	if a.kind != noWrite {
		if text != "" {
			text += " "
		}
		text += writeNames[a.kind]
	}
	return fmt.Sprintf("%c: %s%s", 'A'+a.process, text, fateNames[a.how])
}

// progress reports whether an action happens sooner or later without a fault and without the
// decision of a requestor to cancel.
func (a action) progress() bool {
	if a.how != happens {
		return false
	}
	switch a.what {
	case losesOffer, losesLease, crashes, closes, restarts, doubles, scansAgain, parks, vanishes:
		return false
	case writes:
		return a.kind != cancelWrite && a.kind != untrialWrite
	}
	return true
}

// successor is a state after an action. If the action breaks a rule, broken names it.
type successor struct {
	action
	state
	broken string
}

// stepper collects the successors of a state.
type stepper struct {
	*model
	from *state
	out  []successor
}

// add adds a successor and returns it. The caller changes its state.
func (x *stepper) add(what event, process int, kind writeKind, how fate) *successor {
	x.out = append(x.out, successor{action: action{what, uint8(process), kind, how}, state: *x.from})
	return &x.out[len(x.out)-1]
}

func (m *model) removed(g guard) bool { return m.without&g != 0 }

// id returns the id of a membership of a process. The first is number 0.
func id(process, number int) uint8 { return uint8(1 + process + maxProcesses*number) }

func processOf(id uint8) int { return int(id-1) % maxProcesses }

// serves reports whether a process runs the tool of the task and has its labels.
func (m *model) serves(process int) bool { return process >= m.frontEnds }

// start returns the initial state.
func (m *model) start() state {
	s := state{faults: m.faults, cancels: m.cancels}
	for i := range m.processes {
		p := &s.processes[i]
		p.up, p.id, p.first = true, id(i, 0), id(i, 0)
		p.lacks = m.lacking>>i&1 != 0
		s.alive |= 1 << p.id
	}
	for i := range m.processes {
		s.processes[i].members = s.alive
	}
	return s
}

// designated returns the member that should take the task over, according to a list of
// members.
func (m *model) designated(members uint16, missing uint8) uint8 {
	for member := uint8(1); member < 16; member++ {
		if inSet(members, member) && m.serves(processOf(member)) && missing>>processOf(member)&1 == 0 {
			return member
		}
	}
	return 0
}

// followed reports whether changes of the task are reported to the process.
func (p *process) followed() bool {
	return p.up && !p.deaf && (p.run.phase != none || p.watching == following || p.placing)
}

// fenced reports whether a record belongs to a later claim than that of a run.
func (r *run) fenced(rec *record) bool { return rec.epoch != r.epoch || rec.holder != r.holder }

// next appends the successors of a state to out.
func (m *model) next(from *state, out []successor) []successor {
	x := &stepper{m, from, out}
	x.environment()
	for i := range m.processes {
		p := &from.processes[i]
		if !p.up {
			x.down(i)
			continue
		}
		x.membership(i)
		x.requestor(i)
		if p.paused.kind != noWrite {
			x.resume(i)
		}
		if k := p.paused.kind; k == noWrite || k == answerWrite || k == cancelWrite || k == inspection {
			x.run(i)
		}
	}
	for i := range x.out {
		t := &x.out[i]
		x.noteLost(&t.state)
		x.settle(&t.state)
		if t.history.again && t.broken == "" {
			t.broken = "a task is offered again to a member that has refused it"
		}
	}
	return x.out
}

// settle handles all events that change nothing at once: if one of them is handled later and then
// changes something, another event for that is on its way. There are fewer states for that.
func (x *stepper) settle(s *state) {
	for i := range x.processes {
		p := &s.processes[i]
		if !p.up || p.closing || !p.changed && !p.scan && !p.retry {
			continue
		}
		before := *p
		if p.changed && !x.acquits(s, i) {
			p.changed = false
			if broken := x.inspect(s, i, &s.rec); broken != "" || p.differs(&before) {
				*p = before
			} else {
				before.changed = false
			}
		}
		if !p.scan && !p.retry {
			continue
		}
		idle := *s
		idle.processes[i].scan, idle.processes[i].retry = false, false
		useful := false
		for _, how := range x.listsAt(s, p) {
			t := idle
			x.readMembers(&t, i, how)
			x.adoptOrphans(&t, i, false, &t.rec)
			t.processes[i].members, t.processes[i].missing = before.members, before.missing
			useful = useful || t != idle
		}
		if !useful {
			*s = idle
		}
	}
}

// differs reports whether a process has changed since before, apart from what is reported to it.
func (p *process) differs(before *process) bool {
	return p.run != before.run || p.watching != before.watching || p.placing != before.placing
}

// environment adds what happens outside of all processes.
func (x *stepper) environment() {
	s := x.from
	if w := s.lost; w.kind != noWrite && !w.happened {
		t := x.add(arrives, int(w.process), w.kind, happens)
		t.lost = lostWrite{}
		t.broken = x.commit(&t.state, &w.write)
		x.countLate(&t.state, &w.write)
		t.lost = lostWrite{write: w.write, happened: true}
		if !t.processes[w.process].paused.lost {
			// The process has given up already. Its membership is told that it may have missed
			// this.
			t.lost = lostWrite{}
			if !x.removed(uncertainReported) && t.processes[w.process].followed() {
				t.processes[w.process].changed = true
			}
		}
		t = x.add(vanishes, int(w.process), w.kind, happens)
		t.lost = lostWrite{}
	}
	if !s.due {
		for i, op := range x.work {
			if op == sleep && s.rec.entries[i] > 0 {
				x.add(timePasses, 0, noWrite, happens).due = true
				break
			}
		}
	}
}

// down adds what happens to a process that does not run.
func (x *stepper) down(i int) {
	s := x.from
	p := &s.processes[i]
	if inSet(s.alive, p.id) {
		x.depart(&x.add(endsLease, i, noWrite, happens).state, p.id)
		return
	}
	if p.id != 0 && p.id+maxProcesses < 16 {
		t := x.add(restarts, i, noWrite, happens)
		t.missing &^= 1 << i
		t.history.refused &^= 1 << i
		x.join(&t.state, i)
		t.processes[i].up, t.processes[i].first = true, t.processes[i].id
	}
}

// join gives a process a new membership.
func (x *stepper) join(t *state, i int) {
	p := &t.processes[i]
	p.id += maxProcesses
	t.alive |= 1 << p.id
	p.members, p.missing = t.alive, t.missing
	p.scan = !x.removed(scanOnJoin)
}

// depart ends the lease of a member.
func (x *stepper) depart(t *state, member uint8) {
	t.alive &^= 1 << member
	for i := range t.processes {
		if p := &t.processes[i]; p.up && p.id != member && !x.removed(departedReported) {
			p.scan = true
			if !x.removed(membersFirst) {
				p.members &^= 1 << member
			}
		}
	}
}

// membership adds what happens to the membership of a process.
func (x *stepper) membership(i int) {
	s := x.from
	p := &s.processes[i]
	if !inSet(s.alive, p.id) && !p.closing && p.id+maxProcesses < 16 {
		t := x.add(rejoins, i, noWrite, happens)
		q := &t.processes[i]
		x.fence(&t.state, q)
		x.join(&t.state, i)
		if x.removed(refollowed) {
			q.deaf = true
		} else if q.followed() {
			q.changed = !x.removed(inspectOnJoin)
		}
	}
	if s.faulty() && (s.rec.exists || x.creating()) {
		if inSet(s.alive, p.id) {
			t := x.add(losesLease, i, noWrite, happens)
			t.faults--
			x.depart(&t.state, p.id)
		}
		t := x.add(crashes, i, noWrite, happens)
		t.faults--
		t.processes[i] = process{id: p.id, lacks: p.lacks}
		x.countKill(&t.state, i)
		if t.lost.happened && t.lost.process == uint8(i) {
			t.lost = lostWrite{}
		}
		if !p.closing {
			t = x.add(closes, i, noWrite, happens)
			t.faults--
			q := &t.processes[i]
			q.closing = true
			switch {
			case q.run.phase == resting:
				q.run = run{}
			case q.run.phase != none && q.run.cause == noCause:
				q.run.cause = isClosed
			}
		}
		if p.followed() && !p.changed {
			t = x.add(doubles, i, noWrite, happens)
			t.faults--
			t.processes[i].changed = true
		}
		if !p.scan {
			t = x.add(scansAgain, i, noWrite, happens)
			t.faults--
			t.processes[i].scan = true
		}
		if p.offered {
			t = x.add(losesOffer, i, noWrite, happens)
			t.faults--
			t.processes[i].offered = false
		}
	}
	if p.closing {
		if p.run.phase == none && p.paused.kind == noWrite {
			t := x.add(leaves, i, noWrite, happens)
			t.processes[i] = process{id: p.id, lacks: p.lacks}
			x.countLoss(&t.state, i)
			if inSet(t.alive, p.id) {
				x.depart(&t.state, p.id)
			}
		}
		return
	}
	if p.lacks && x.upgrades {
		x.upgrade(&x.add(upgrades, i, noWrite, happens).state, i)
	}
	if p.deaf && !x.removed(refollowed) {
		x.add(follows, i, noWrite, happens).processes[i].deaf = false
	}
	if p.changed && x.removed(inspectCurrent) && s.faulty() {
		t := x.add(inspects, i, noWrite, isStale)
		t.faults--
		t.processes[i].changed = false
	}
	if p.changed {
		t := x.add(inspects, i, noWrite, happens)
		t.processes[i].changed = false
		t.broken = x.inspect(&t.state, i, &s.rec)
		if s.faulty() && p.paused.kind == noWrite {
			t := x.add(inspects, i, noWrite, pauses)
			t.faults--
			q := &t.processes[i]
			q.changed = false
			q.paused = write{kind: inspection, process: uint8(i), read: s.rec}
		}
	}
	if p.offered {
		t := x.add(offers, i, noWrite, happens)
		t.processes[i].offered = false
		if s.rec.exists && !s.rec.terminal() && s.rec.holder == 0 {
			x.adopt(&t.state, i)
		}
	}
	for _, how := range x.lists(p) {
		if p.scan {
			t := x.add(scans, i, noWrite, how)
			q := &t.processes[i]
			q.scan, q.retry = false, false
			x.readMembers(&t.state, i, how)
			x.adoptOrphans(&t.state, i, false, &s.rec)
		}
		if p.retry {
			t := x.add(retries, i, noWrite, how)
			q := &t.processes[i]
			q.retry = false
			x.readMembers(&t.state, i, how)
			x.adoptOrphans(&t.state, i, !x.removed(othersTaken), &s.rec)
		}
	}
	if p.scan {
		if x.removed(scanCurrent) && s.faulty() {
			t := x.add(scans, i, noWrite, isStale)
			t.faults--
			t.processes[i].scan, t.processes[i].retry = false, false
		}
	}
}

// lists returns what Members may return: the current list, and the latest one that was used before.
func (x *stepper) lists(p *process) []fate { return x.listsAt(x.from, p) }

// listsAt is lists in a state.
func (x *stepper) listsAt(s *state, p *process) []fate {
	if p.members == s.alive && p.missing == s.missing {
		return currentList
	}
	return bothLists
}

// readMembers makes a process call Members.
func (x *stepper) readMembers(t *state, i int, how fate) {
	if how == happens {
		t.processes[i].members, t.processes[i].missing = t.alive, t.missing
	}
}

var currentList, bothLists = []fate{happens}, []fate{happens, hasOldList}

// fence stands for Manager.fence: it ends a run.
func (x *stepper) fence(t *state, p *process) {
	switch p.run.phase {
	case none:
	case resting:
		p.run = run{}
		x.doubted(t, p)
	default:
		p.run.cause = isFenced
	}
}

// inspect stands for fleet.inspect after the record was read.
func (x *stepper) inspect(t *state, i int, rec *record) (broken string) {
	p := &t.processes[i]
	if x.acquits(t, i) && !x.removed(acquitInspects) {
		x.acquit(t, i)
		if rec == &x.from.rec { // not an older record
			rec = &t.rec
		}
	}
	if rec.terminal() && p.watching == following {
		p.watching = informed
	}
	if rec.terminal() || rec.holder != 0 {
		p.placing = false
	}
	r := &p.run
	older := rec.epoch < r.epoch && !x.removed(olderIgnored)
	switch {
	case r.phase == none:
	case r.phase == claiming:
		r.missed = true
	case older:
	case r.fenced(rec):
		x.fence(t, p)
	case rec.terminal():
		x.endRun(p, isCancelled)
	case r.phase == resting && !t.rec.parked: // resume reads the record again
		return x.wake(p)
	case !rec.parked && x.removed(restingCheck) && (r.phase == starting || r.phase == running):
		return x.wake(p)
	}
	return ""
}

// endRun ends the context of a run.
func (x *stepper) endRun(p *process, why cause) {
	switch {
	case p.run.phase == none:
	case p.run.phase == resting:
		p.run = run{}
	case p.run.cause == noCause:
		p.run.cause = why
	}
}

// wake stands for resume: it starts the work of a run that rests.
func (x *stepper) wake(p *process) (broken string) {
	r := &p.run
	if p.closing {
		*r = run{}
		return ""
	}
	if r.phase == parking {
		r.cause = noCause // renew comes before the record is read
	}
	r.phase = x.startPhase(p, r)
	if r.starts++; r.starts > 1 {
		return "parked work is woken twice for one cause"
	}
	return ""
}

// suspendParking stands for what resume does if the Manager has closed while the work was to be
// parked, and an answer or the time has come.
func (x *stepper) suspendParking(t *state, i int) (broken string) {
	p := &t.processes[i]
	w := write{kind: suspendWrite, process: uint8(i), holder: p.run.holder, epoch: p.run.epoch}
	if p.closing && x.trials && t.rec.counts() && !p.run.fenced(&t.rec) && !x.removed(parkSuspends) {
		broken = x.commit(t, &w)
	}
	return broken
}

// adoptOrphans stands for fleet.adoptOrphans.
func (x *stepper) adoptOrphans(t *state, i int, all bool, rec *record) {
	p := &t.processes[i]
	own := rec.holder == p.id
	if p.doubt {
		own = rec.holder != 0 && p.owns(i, rec.holder)
		p.doubt = false
		if x.acquits(t, i) && !x.removed(acquitDoubts) {
			x.acquit(t, i)
			if rec == &x.from.rec {
				rec = &t.rec
			}
		}
	}
	if p.placing && rec.exists && !rec.terminal() {
		if rec.holder == 0 {
			x.place(t, i)
			p.retry = !x.removed(placedAgain)
		} else {
			p.changed = true
		}
	}
	if !rec.exists || rec.terminal() || !x.serves(i) {
		return
	}
	own = own && p.run.phase == none && !x.removed(ownTaken)
	gone := own || rec.holder == 0 ||
		!inSet(p.members, rec.holder) && (x.removed(aliveCheck) || !inSet(t.alive, rec.holder))
	if !gone {
		return
	}
	if !own && t.missing>>i&1 != 0 {
		return
	}
	if own || all || x.designated(p.members, p.missing) == p.id {
		x.adopt(t, i)
	} else {
		p.retry = true
	}
}

// place stands for fleet.place.
func (x *stepper) place(t *state, i int) {
	p := &t.processes[i]
	member := x.designated(p.members, p.missing)
	if member == 0 {
		return
	}
	if p.members == t.alive && p.missing == t.missing && t.history.refused>>processOf(member)&1 != 0 {
		t.history.again = true
	}
	if to := &t.processes[processOf(member)]; to.up && to.id == member && !to.closing {
		to.offered = true
	}
}

// adopt stands for the beginning of fleet.adopt: newRun registers the run.
func (x *stepper) adopt(t *state, i int) {
	p := &t.processes[i]
	if p.run.phase != none { // ErrExists
		p.retry = !x.removed(existsRetried)
		return
	}
	if p.lacks {
		x.refuse(t, i)
		return
	}
	p.run = run{phase: claiming, holder: p.id, epoch: t.rec.epoch + 1, own: x.trials && t.rec.holder != 0 && p.owns(i, t.rec.holder)}
}

// faulty reports whether a fault may happen. None happens once the task has ended.
func (s *state) faulty() bool { return s.faults > 0 && !s.rec.terminal() }

// requestor adds what the requestors do at a process.
func (x *stepper) requestor(i int) {
	s := x.from
	p := &s.processes[i]
	if p.closing {
		return
	}
	if i == 0 && !s.rec.exists && s.lost.kind != createWrite && !x.creating() && inSet(s.alive, p.id) && p.run.phase == none {
		w := write{kind: createWrite, process: uint8(i), value: p.id}
		if x.serves(i) {
			w.holder, w.epoch = p.id, 1
		}
		x.write(w)
	}
	if !s.acked {
		return
	}
	watched := false
	for j := range s.processes {
		watched = watched || s.processes[j].watching != absent
	}
	if !watched {
		t := x.add(watches, i, noWrite, happens)
		q := &t.processes[i]
		switch {
		case x.removed(watchFirst) && !s.rec.terminal():
			q.watching = connecting
		case s.rec.terminal():
			q.watching = informed
		default:
			q.watching = following
		}
	}
	if p.watching == connecting {
		x.add(follows, i, noWrite, happens).processes[i].watching = following
	}
	if k := p.paused.kind; k == answerWrite || k == cancelWrite {
		return
	}
	for op, kind := range x.work {
		open := s.rec.entries[op] == 1 || s.rec.entries[op] == 2 && x.removed(openCheck)
		if kind == ask && open && p.watching != absent && !s.rec.terminal() {
			x.write(write{kind: answerWrite, process: uint8(i), op: uint8(op), value: uint8(i) + 1})
		}
	}
	if s.cancels > 0 && !s.rec.terminal() {
		n := len(x.out)
		x.write(write{kind: cancelWrite, process: uint8(i)})
		for j := n; j < len(x.out); j++ {
			x.out[j].cancels--
		}
	}
}

// creating reports whether a process is about to store the task.
func (x *stepper) creating() bool {
	for i := range x.from.processes {
		if p := &x.from.processes[i]; p.paused.kind == createWrite {
			return true
		}
	}
	return false
}

// run adds what the run of a process does.
func (x *stepper) run(i int) {
	s := x.from
	p := &s.processes[i]
	r := &p.run
	w := write{process: uint8(i), holder: r.holder, epoch: r.epoch, op: r.pc}
	switch r.phase {
	case claiming:
		w.kind, w.died = adoptWrite, s.rec.holder != 0 && !p.owns(i, s.rec.holder)
		if x.removed(takeCheck) {
			w.epoch = s.rec.epoch + 1
		}
		x.write(w)
	case queued:
		w.kind = trialWrite
		x.write(w)
	case judged:
		switch {
		case r.cause != noCause:
			x.add(endsWork, i, noWrite, happens).processes[i].run = run{}
		case s.rec.mark != isDoomed && !s.rec.terminal() && !r.fenced(&s.rec):
			q := &x.add(judges, i, noWrite, happens).processes[i]
			q.run.phase = x.startPhase(q, &q.run)
		case !x.livingLost(s) || x.removed(verdictWaits):
			q := &x.add(judges, i, noWrite, happens).processes[i].run
			q.phase, q.failed = publishes, true
		}
	case starting:
		for _, rec := range x.readable(journalCurrent) {
			how := happens
			if *rec != s.rec {
				how = isStale
			}
			t := x.add(startsWork, i, noWrite, how)
			switch h := &s.history; {
			case r.fenced(&s.rec):
			case h.deaths > 1 && h.trial:
				t.broken = "work runs again that has ended two processes"
			case h.deaths > 0 && !r.trial:
				t.broken = "work that has ended a process runs again without a trial"
			}
			q := &t.processes[i].run
			q.phase, q.pc, q.got = running, 0, [maxOps]uint8{}
			for op, kind := range x.work {
				if kind != ask && rec.entries[op] > 0 || kind == ask && rec.entries[op] == 2 {
					q.got[op] = rec.values[op]
				}
			}
			x.advance(&t.state, i)
		}
	case running:
		switch x.work[r.pc] {
		case step:
			w.kind, w.value = stepWrite, r.epoch
			x.write(w)
		case ask:
			w.kind = askWrite
			x.write(w)
		case sleep:
			w.kind, w.value = stepWrite, 1
			x.write(w)
		}
	case waiting:
		over := x.work[r.pc] == ask && s.rec.entries[r.pc] == 2 || x.work[r.pc] == sleep && s.due
		switch {
		case x.work[r.pc] == ask && (s.rec.terminal() || r.fenced(&s.rec)): // Store.Wait
			q := &x.add(reads, i, noWrite, happens).processes[i].run
			q.phase, q.failed = publishes, true
		case over:
			t := x.add(reads, i, noWrite, happens)
			q := &t.processes[i].run
			q.got[q.pc], q.phase = 1, running
			if x.work[q.pc] == ask {
				q.got[q.pc] = s.rec.values[q.pc]
			}
			x.advance(&t.state, i)
		case r.cause == noCause:
			x.add(parks, i, noWrite, happens).processes[i].run.phase = parking
		}
	case parking:
		w.kind = parkWrite
		x.write(w)
	case resting:
		if s.due && x.work[r.pc] == sleep {
			x.add(wakes, i, noWrite, happens).processes[i].run.phase = waking
		}
	case waking:
		w.kind = unparkWrite
		x.write(w)
	case publishes:
		w.kind, w.results = outcomeWrite, r.got
		if r.failed {
			w.value = uint8(r.cause) + 1
		}
		x.write(w)
	}
	if r.trial && r.cause == noCause && (r.phase == running || r.phase == waiting) {
		w.kind = untrialWrite
		t := x.add(writes, i, untrialWrite, happens)
		t.processes[i].run.trial = false
		if x.check(s, &w) == accepted && !x.removed(trialUnmarked) {
			t.broken = x.commit(&t.state, &w)
		}
	}
	if r.cause == noCause || r.phase != starting && r.phase != running && r.phase != waiting && r.phase != queued {
		return
	}
	t := x.add(endsWork, i, noWrite, happens)
	q := &t.processes[i].run
	switch {
	case r.cause == isFenced && r.phase == waiting && x.work[r.pc] == ask && x.removed(requestKept):
		t.processes[i].paused = write{kind: withdrawWrite, process: uint8(i), holder: r.holder, epoch: r.epoch, op: r.pc, fresh: !r.fenced(&s.rec), read: s.rec}
	case r.cause == isFenced && x.removed(outcomeDropped), r.cause == isCancelled:
		q.phase, q.failed = publishes, true
	default:
		*q = run{}
		w.kind = suspendWrite
		if r.cause == isClosed && x.trials && s.rec.counts() && !x.removed(suspendMarked) && x.check(s, &w) == accepted {
			t.broken = x.commit(&t.state, &w)
		}
	}
}

// readable returns the records that a read may return.
func (x *stepper) readable(g guard) []*record {
	list := []*record{&x.from.rec}
	if x.removed(g) && x.from.faulty() && x.from.rec.epoch > 1 {
		older := x.from.rec // as it was before the last entry was added
		for op := len(x.work) - 1; op >= 0; op-- {
			if older.entries[op] > 0 {
				older.entries[op], older.values[op] = 0, 0
				return append(list, &older)
			}
		}
	}
	return list
}

// advance moves a run over the operations whose results it has.
func (x *stepper) advance(t *state, i int) {
	r := &t.processes[i].run
	for r.phase == running {
		switch {
		case int(r.pc) == len(x.work):
			r.phase, r.pc = publishes, 0
		case r.got[r.pc] == 0:
			return
		case x.work[r.pc] == sleep && !t.due:
			r.phase = waiting
			return
		default:
			r.pc++
		}
	}
}

// write adds a compare-and-set whose record is read now: it happens at once, or after a pause, or
// the store returns an error.
func (x *stepper) write(w write) {
	s := x.from
	w.fresh = true
	if x.removed(compareAndSwap) {
		w.read = s.rec
	}
	i := int(w.process)
	if refusal := x.check(s, &w); refusal != accepted {
		t := x.add(writes, i, w.kind, happens)
		t.broken = x.refused(&t.state, &w, refusal)
		return
	}
	t := x.add(writes, i, w.kind, happens)
	x.begin(&t.state, &w)
	t.broken = x.executes(s, &w)
	if broken := x.commit(&t.state, &w); t.broken == "" {
		t.broken = broken
	}
	w.parked = t.rec.parked
	if broken := x.done(&t.state, &w); t.broken == "" {
		t.broken = broken
	}
	if !s.faulty() || s.processes[i].paused.kind != noWrite {
		return
	}
	t = x.add(writes, i, w.kind, pauses)
	t.faults--
	x.begin(&t.state, &w)
	t.processes[i].paused = w
	t = x.add(writes, i, w.kind, isLate)
	t.faults--
	x.begin(&t.state, &w)
	t.broken = x.commit(&t.state, &w)
	w.stored, w.parked = true, t.rec.parked
	t.processes[i].paused = w
	w.stored, w.parked = false, false
	if s.lost.kind == noWrite {
		t = x.add(writes, i, w.kind, isLost)
		t.faults--
		x.begin(&t.state, &w)
		t.lost = lostWrite{write: w}
		w.lost = true
		t.processes[i].paused = w
	}
}

// executes checks that a step may be executed. A run that was replaced, but has not noticed it, may
// execute a step that the later run has recorded; it cannot record it.
func (x *stepper) executes(s *state, w *write) (broken string) {
	if w.kind == stepWrite && x.work[w.op] == step && s.rec.entries[w.op] > 0 && s.rec.holder == w.holder && s.rec.epoch == w.epoch {
		return "a recorded step is executed again"
	}
	return ""
}

// begin applies what a process does before a write.
func (x *stepper) begin(t *state, w *write) {
	p := &t.processes[w.process]
	if w.kind == createWrite {
		if w.holder == 0 {
			p.placing = true
		} else {
			p.run = run{phase: claiming, holder: w.holder, epoch: 1}
		}
	}
}

// refusal is the reason why a function does not write the record that it has read.
type refusal uint8

const (
	accepted refusal = iota
	refusedFenced
	refusedTerminal
	refusedTaken
	refusedUnchanged
)

// check stands for the function that Manager.change calls with the record.
func (x *stepper) check(s *state, w *write) refusal {
	r := &s.rec
	fenced := r.holder != w.holder || r.epoch != w.epoch
	switch w.kind {
	case createWrite:
		return accepted
	case adoptWrite:
		if r.epoch+1 != w.epoch {
			return refusedTaken
		}
	case outcomeWrite:
		if fenced && !x.removed(outcomeClaimCheck) {
			return refusedFenced
		}
	case answerWrite:
		if r.entries[w.op] != 1 && !x.removed(openCheck) {
			return refusedUnchanged
		}
	case cancelWrite:
	default:
		if fenced && !x.removed(claimCheck) {
			return refusedFenced
		}
	}
	if r.terminal() {
		return refusedTerminal
	}
	switch w.kind {
	case askWrite:
		if r.entries[w.op] != 0 {
			return refusedUnchanged
		}
	case untrialWrite, suspendWrite:
		if w.kind == untrialWrite && r.mark != inTrial {
			return refusedUnchanged
		}
	case parkWrite:
		if x.work[w.op] == ask && r.entries[w.op] != 1 || x.work[w.op] == sleep && s.due {
			return refusedUnchanged
		}
	case unparkWrite:
		if !r.parked {
			return refusedUnchanged
		}
	case stepWrite:
		if s.processes[w.process].run.unsure && !x.removed(recordLooksUp) && r.entries[w.op] > 0 {
			return refusedUnchanged
		}
	}
	return accepted
}

// refused applies the consequences of a refusal.
func (x *stepper) refused(t *state, w *write, why refusal) (broken string) {
	p := &t.processes[w.process]
	r := &p.run
	switch w.kind {
	case adoptWrite:
		p.doubt = p.doubt || r.own
		*r = run{}
		if why == refusedTaken {
			p.retry = p.retry || !x.removed(takenRetried)
		}
	case stepWrite:
		if why == refusedUnchanged {
			r.unsure = false
			r.got[r.pc] = w.value
			x.advance(t, int(w.process))
			break
		}
		r.phase, r.failed = publishes, true
	case askWrite:
		if why != refusedUnchanged {
			r.phase, r.failed = publishes, true
			break
		}
		r.phase = waiting
	case parkWrite:
		if why == refusedUnchanged {
			r.starts = 0
			broken = x.suspendParking(t, int(w.process))
			return cmp.Or(broken, x.wake(p))
		}
		*r = run{}
	case unparkWrite:
		if why == refusedUnchanged {
			return x.wake(p)
		}
		*r = run{}
	case trialWrite:
		r.phase, r.failed = publishes, true
	case outcomeWrite, withdrawWrite:
		*r = run{}
	}
	return ""
}

// commit stores what a write says, and reports it to the other processes. It checks the rules that
// hold for every write.
func (x *stepper) commit(t *state, w *write) (broken string) {
	before := t.rec
	r := before
	if x.removed(compareAndSwap) {
		r = w.read
	}
	byRun := true
	switch w.kind {
	case createWrite:
		r, byRun = record{exists: true, holder: w.holder, epoch: w.epoch}, false
	case adoptWrite:
		r.holder, r.epoch, byRun = w.holder, w.epoch, false
		x.claimed(&r, before.holder, w.died)
		if inSet(t.alive, before.holder) && before.holder != w.holder {
			broken = "a task is taken from a living member"
		}
	case stepWrite:
		if r.entries[w.op]++; r.entries[w.op] > 1 {
			broken = "a step is recorded twice"
		} else {
			r.values[w.op] = w.value
		}
		x.grows(t, &r)
	case trialWrite:
		r.mark = runs
		if r.reruns > 0 && !x.removed(trialMarked) {
			r.mark = inTrial
		}
	case untrialWrite:
		r.mark = runs
	case suspendWrite:
		r.mark = suspended
	case acquitWrite:
		byRun = false
		x.acquitted(&r, w.process, t.processes[w.process].first)
	case askWrite:
		r.entries[w.op] = 1
	case withdrawWrite:
		r.entries[w.op] = 0
		broken = "an input request of an unfinished task is withdrawn"
	case parkWrite:
		r.parked, r.mark = true, runs
	case unparkWrite:
		r.parked = false
	case outcomeWrite:
		r.status, r.parked = completed, false
		if w.value != 0 {
			r.status = failed
			switch {
			case before.mark == isDoomed && !(t.history.deaths > 1 && t.history.trial):
				broken = "a task fails although it has not ended two processes"
			case before.mark != isDoomed && w.value == uint8(isFenced)+1 && t.acked:
				broken = "a task fails because its member has lost it"
			}
		}
		if got := w.results; w.value == 0 {
			r.outcome = got
			for op := range x.work {
				if got[op] != before.values[op] {
					broken = "the outcome differs from what the journal gives"
				}
			}
		}
	case answerWrite:
		if before.entries[w.op] == 2 {
			broken = "an input request is answered twice"
		}
		r.entries[w.op], r.values[w.op], r.parked, byRun = 2, w.value, false, false
		if before.parked && r.mark == runs && x.trials && t.processes[w.process].run.phase == none && !x.removed(wakeSuspends) {
			r.mark = suspended // until its member runs it, which may have died
		}
		x.grows(t, &r)
	case cancelWrite:
		r.status, r.parked, byRun = cancelled, false, false
	}
	switch {
	case broken != "" && before.status == working:
	case before.terminal():
		broken = "the outcome of a task changes"
	case byRun && (before.holder != w.holder || before.epoch != w.epoch):
		broken = "a write of an older claim is accepted after a later claim"
	case before.epoch > r.epoch:
		broken = "the epoch of a claim decreases"
	default:
		for op := range x.work {
			if r.entries[op] < before.entries[op] || before.values[op] != 0 && r.values[op] != before.values[op] {
				broken = "a recorded result is lost"
			}
		}
	}
	if r.terminal() {
		r.mark, r.lost, r.twice = runs, 0, 0
	}
	t.rec = r
	for i := range t.processes {
		p := &t.processes[i]
		if i != int(w.process) && p.followed() {
			p.changed = true
		}
		if p.paused.kind != inspection {
			p.paused.fresh = false
		}
	}
	if !x.removed(compareAndSwap) || t.lost.happened {
		t.lost = lostWrite{}
	}
	return broken
}

// done applies the consequences of a write that has happened and was acknowledged.
func (x *stepper) done(t *state, w *write) (broken string) {
	p := &t.processes[w.process]
	r := &p.run
	switch w.kind {
	case createWrite:
		stored := inSet(t.alive, w.value) || x.removed(lapsedCheck)
		if x.removed(lapsedSame) {
			stored = inSet(t.alive, p.id)
		}
		switch {
		case stored:
			t.acked = true
		case r.cause == isFenced:
			*r = run{}
			return ""
		}
		if w.holder == 0 {
			x.place(t, int(w.process))
			p.retry = !x.removed(placedAgain)
			return ""
		}
		if r.phase, r.starts = starting, 1; !stored {
			r.phase, r.failed = publishes, true
		}
		x.endClaiming(p)
	case adoptWrite:
		r.holder, r.epoch = w.holder, w.epoch
		switch {
		case !w.parked:
			r.phase, r.starts = x.startPhase(p, r), 1
			if t.rec.mark == isDoomed && !r.fenced(&t.rec) {
				r.phase = judged
			} else if x.trials && t.rec.reruns > 0 {
				r.phase = queued
			}
		case p.closing:
			*r = run{}
		default:
			r.phase = resting
		}
		p.deaf = p.deaf || x.removed(followFirst)
		x.endClaiming(p)
	case stepWrite:
		r.unsure = false
		r.got[r.pc] = w.value
		x.advance(t, int(w.process))
	case askWrite:
		r.phase = waiting
	case trialWrite:
		r.phase, r.trial = starting, t.rec.reruns > 0
	case withdrawWrite:
		*r = run{}
	case parkWrite:
		switch r.starts = 0; { // resume reads the record again
		case p.closing || r.fenced(&t.rec) || t.rec.terminal():
			*r = run{}
		case t.rec.parked:
			r.phase = resting
		default:
			return x.wake(p)
		}
	case unparkWrite:
		return x.wake(p)
	case outcomeWrite:
		*r = run{}
	case answerWrite:
		switch {
		case r.phase == resting && !t.rec.parked && !r.fenced(&t.rec):
			return x.wake(p)
		case r.phase == claiming:
			r.missed = true // run.wakePending
		}
	case cancelWrite:
		r.missed = r.missed || r.phase == claiming // run.wakePending
		x.endRun(p, isCancelled)
	}
	if t.rec.terminal() && p.watching == following {
		p.watching = informed
	}
	return ""
}

// endClaiming stands for Run.endClaiming.
func (x *stepper) endClaiming(p *process) {
	if p.run.missed && !x.removed(missedInspected) {
		p.changed = true
	}
	p.run.missed = false
}

// resume adds what a process does after a pause.
func (x *stepper) resume(i int) {
	s := x.from
	w := s.processes[i].paused
	t := x.add(resumes, i, w.kind, happens)
	t.processes[i].paused = write{}
	switch {
	case w.kind == inspection:
		t.broken = x.inspect(&t.state, i, &w.read)
	case w.stored:
		t.broken = x.done(&t.state, &w)
	case w.lost && s.lost.kind == w.kind && s.lost.process == w.process && s.lost.happened: // confirmWrite
		t.lost = lostWrite{}
		w.parked = s.rec.parked
		t.broken = x.done(&t.state, &w)
	case w.lost:
		x.failed(&t.state, &w)
	case w.fresh || x.removed(compareAndSwap):
		t.broken = x.commit(&t.state, &w)
		if w.parked = t.rec.parked; t.broken == "" {
			t.broken = x.done(&t.state, &w)
		}
	}
}

// failed applies the consequences of a write for which the store has returned an error, and that is
// not found in the record. All others than these are tried again.
func (x *stepper) failed(t *state, w *write) {
	p := &t.processes[w.process]
	r := &p.run
	switch w.kind {
	case createWrite:
		p.placing = false
		*r = run{}
	case adoptWrite:
		*r = run{}
		p.retry, p.doubt = true, x.trials
	case stepWrite:
		r.unsure = true
	}
}
