// Package fleetmodel explores all states of a small model of how the members of a fleet hold and
// run one task; see [github.com/mcpwire/mcpwire/runtime/task.Store].
//
// The model has the record in the store, two or three processes, the changes and departures that
// have not been reported to them yet, and a number of faults: a process that pauses between a read
// and its write, that loses its lease, crashes or closes; a write whose acknowledgement is lost; a
// report that is doubled; an offer that is lost. Processes may lack the tool of the task until they
// are upgraded. Work may end processes: those that crash count as dead of the work that runs there,
// and it has trials. Each action names the function of package task
// that it stands for.
package fleetmodel

import (
	"fmt"
	"strings"
)

// maxProcesses and maxOps are the sizes of the arrays of a state.
const (
	maxProcesses = 3
	maxOps       = 3
)

// A state is all that the model knows at one time. States are compared with ==.
type state struct {
	alive     uint16 // set of the ids of the members whose lease has not ended
	rec       record // task.Record in the store
	acked     bool   // the requestor knows the task
	due       bool   // the time at which the sleep of the work ends has passed
	cancels   uint8  // number of cancellations that the requestors may still make
	faults    uint8  // number of faults that may still happen
	processes [maxProcesses]process
	lost      lostWrite
	missing   uint8 // set of the processes that have announced that they lack the tool
	history   history
}

// history is what rules are about, and no process knows.
type history struct {
	deaths  uint8 // number of processes that have died of the work since its journal has grown
	trial   bool  // the last of them has died during a trial
	refused uint8 // set of the processes that have refused the task since their tools have changed
	again   bool  // one of them was offered the task after it has announced that
}

// record is the part of a task.Record that the protocol depends on.
type record struct {
	exists  bool
	status  status
	holder  uint8         // Claim.Member; 0 is none
	epoch   uint8         // Claim.Epoch
	entries [maxOps]uint8 // journal: number of entries of each operation; an input request has 2 when it is answered
	values  [maxOps]uint8 // first recorded result of each operation
	parked  bool
	outcome [maxOps]uint8 // results that the outcome was computed from
	mark    mark          // Record.Phase
	reruns  uint8         // Record.Reruns
	lost    uint16        // Record.Lost, a set of ids
	twice   uint16        // those that it has twice
}

// mark is what the record says about the work, apart from being parked.
type mark uint8

const (
	runs mark = iota
	suspended
	inTrial
	isDoomed
)

type status uint8

const (
	working status = iota
	completed
	failed
	cancelled
)

func (r *record) terminal() bool { return r.status != working }

// process is a process with one Manager.
type process struct {
	up       bool
	id       uint8  // of its latest membership
	first    uint8  // of its first one: the process knows that all since then are its own
	members  uint16 // Membership.Members, which may be out of date
	missing  uint8  // which of them lack the tool according to that list
	lacks    bool   // Options.Recovery.Recover returns nil
	doubt    bool   // fleet.doubts has the task
	scan     bool   // fleet.scans: Departed was called, or the process has joined
	retry    bool   // the retry timer of fleet.run is set
	changed  bool   // Follower.Changed was called, and no inspection has begun
	deaf     bool   // nothing is reported to this process; set by mutations only
	closing  bool   // Close was called
	watching watching
	placing  bool // fleet.placing: the task was created here for others
	offered  bool // Offered was called
	run      run
	paused   write
}

// watching is the state of a requestor that follows the task at a process.
type watching uint8

const (
	absent     watching = iota
	connecting          // has read the record, but does not follow the task; set by mutations only
	following
	informed // knows the outcome
)

// run is a task.Run.
type run struct {
	phase  phase
	holder uint8 // run.claim
	epoch  uint8
	pc     uint8         // operation of the work
	got    [maxOps]uint8 // results that the work has
	cause  cause         // of the end of the context
	failed bool          // the work has returned an error
	missed bool          // run.missed
	unsure bool          // it is not known whether the latest entry was recorded
	starts uint8         // number of times that the work was started since it was parked
	trial  bool          // the run is a trial
	own    bool          // the claim replaces one of this process
}

type phase uint8

const (
	none      phase = iota
	claiming        // registered, but the record does not have the claim yet
	queued          // waits for its trial
	judged          // awaitVerdict
	starting        // the work is about to read its journal
	running         // the work is at operation pc
	waiting         // the work waits for an answer or for a time
	parking         // the work has returned ErrParked
	resting         // parked
	waking          // resume is about to write that the work is no longer parked
	publishes       // the work has returned
)

type cause uint8

const (
	noCause     cause = iota
	isFenced          // ErrFenced
	isCancelled       // ErrCancelled
	isClosed          // ErrClosed
)

// writeKind says what a write does to the record.
type writeKind uint8

const (
	noWrite writeKind = iota
	createWrite
	adoptWrite
	stepWrite // Run.Record
	askWrite
	withdrawWrite
	parkWrite
	unparkWrite
	trialWrite
	untrialWrite
	suspendWrite
	acquitWrite
	outcomeWrite
	answerWrite
	cancelWrite
	inspection // not a write: an inspection that pauses after it has read the record
)

var writeNames = [...]string{"nothing", "Create", "take", "Record", "addInputRequest", "withdraw", "park", "resume", "beginning", "awaitTrial", "suspend", "acquit", "storeOutcome", "answer", "cancel", "inspect"}

// write is a compare-and-set that was read for, but has not happened.
type write struct {
	kind    writeKind
	process uint8
	holder  uint8 // claim of the run that writes
	epoch   uint8
	op      uint8 // operation of the work
	value   uint8
	results [maxOps]uint8 // that an outcome is computed from
	fresh   bool          // the record has not changed since it was read
	lost    bool          // the store has returned an error; the process is about to read the record
	stored  bool          // the write has happened; the process is about to learn it
	parked  bool          // and the record was parked then
	died    bool          // the holder that a claim replaces has ended
	read    record        // the record as it was read; set for inspections and without compare-and-set
}

// lostWrite is a write for which the store has returned an error although it may happen.
type lostWrite struct {
	write
	happened bool // and the record has not been changed since
}

// inSet reports whether a set of ids has id. Ids are 1 to 15; 0 is none.
func inSet(set uint16, id uint8) bool { return id != 0 && set&(1<<id) != 0 }

// String formats a state for a trace.
func (s *state) String() string {
	var b strings.Builder
	r := &s.rec
	if !r.exists {
		b.WriteString("no record")
	} else {
		fmt.Fprintf(&b, "%s claim %s/%d journal %v", [...]string{"working", "completed", "failed", "cancelled"}[r.status], memberName(r.holder), r.epoch, r.entries)
		if r.parked {
			b.WriteString(" parked")
		}
		b.WriteString([...]string{"", " suspended", " in trial", " doomed"}[r.mark])
		if r.reruns > 0 {
			fmt.Fprintf(&b, " reruns %d", r.reruns)
		}
	}
	for i := range s.processes {
		p := &s.processes[i]
		if !p.up {
			if p.id != 0 {
				fmt.Fprintf(&b, " | %c down", 'A'+i)
			}
			continue
		}
		fmt.Fprintf(&b, " | %s", memberName(p.id))
		if !inSet(s.alive, p.id) {
			b.WriteString(" (lease ended)")
		}
		if p.run.phase != none {
			fmt.Fprintf(&b, " %s %s/%d", [...]string{"", "claiming", "queued", "judged", "starting", "running", "waiting", "parking", "resting", "waking", "returned"}[p.run.phase], memberName(p.run.holder), p.run.epoch)
			if p.run.phase == running || p.run.phase == waiting {
				fmt.Fprintf(&b, " op %d", p.run.pc)
			}
			b.WriteString([...]string{"", " fenced", " cancelled", " closed"}[p.run.cause])
		}
		if p.paused.kind != noWrite {
			fmt.Fprintf(&b, " paused in %s", writeNames[p.paused.kind])
		}
		for _, flag := range []struct {
			set  bool
			name string
		}{{p.lacks, "lacks the tool"}, {p.doubt, "doubt"}, {p.run.trial, "trial"}, {p.scan, "scan"}, {p.retry, "retry"}, {p.changed, "changed"}, {p.offered, "offered"}, {p.placing, "placing"}, {p.closing, "closing"},
			{p.watching == following, "watched"}, {p.watching == informed, "watched to the end"}} {
			if flag.set {
				b.WriteString(" " + flag.name)
			}
		}
	}
	if s.lost.kind != noWrite {
		fmt.Fprintf(&b, " | write of %s under way", writeNames[s.lost.kind])
	}
	return b.String()
}

// memberName returns the name of a member: a letter for the process and the number of its
// membership.
func memberName(id uint8) string {
	if id == 0 {
		return "-"
	}
	return fmt.Sprintf("%c%d", 'A'+(id-1)%maxProcesses, (id-1)/maxProcesses+1)
}
