package rerun

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Kind is the kind of a recorded outcome.
type Kind byte

// The kinds of recorded outcomes. The numbers are part of encoded states and of journals.
const (
	KindInput   Kind = 1 // the response to an input request
	KindStep    Kind = 2 // the outcome of a step
	KindSleep   Kind = 3 // the time at which a sleep ends
	KindGivenUp Kind = 4 // why the handler has given up a sleep, which has an entry of its own
	KindUndo    Kind = 5 // the number of a registered undo; equals [taskrules.KindUndo]
	KindUndone  Kind = 6 // how an undo has ended, which has an entry of its own
	KindWait    Kind = 7 // which of the events of a Select or an Await was the first
	KindTimer   Kind = 8 // when the timer of such a wait ends, which has an entry of its own
	// 9 is [taskrules.KindFailure].
)

// ID identifies a recorded outcome among those of one call.
type ID struct {
	Branch string // the path of the branch; "" is the handler itself
	Kind   Kind
	Key    string // see [InputKey] for input requests; the name of a step or of a sleep
	// Occurrence is 1 for the first operation with the kind and the key in a branch, 2 for the
	// second. It is 0 for all transient input requests.
	Occurrence int
}

// Entry is a recorded outcome.
type Entry struct {
	ID
	// Position is the place of the operation among those of its branch, from 1. It is 0 in entries
	// of versions of this package that knew no branches.
	Position int
	Label    string          // describes an input request in errors; "" for a step
	Result   json.RawMessage // the response, the result of the step, or its failure
	Failed   bool            // Result is a failure, or the error of the response
}

// transient reports whether the entry belongs to a transient [Request].
func (e *Entry) transient() bool { return e.Kind == KindInput && e.Occurrence == 0 }

// String names the operation in errors.
func (e *Entry) String() string {
	text := e.Label
	switch e.Kind {
	case KindStep:
		text = fmt.Sprintf("step %q", e.Key)
	case KindSleep, KindGivenUp:
		text = fmt.Sprintf("sleep %q", e.Key)
	case KindUndo, KindUndone:
		text = fmt.Sprintf("compensation %q", e.Key)
	case KindWait, KindTimer:
		text = fmt.Sprintf("wait %q", e.Key)
	}
	if e.Occurrence > 1 {
		text = fmt.Sprintf("%s (occurrence %d)", text, e.Occurrence)
	}
	if e.Branch != "" {
		text += " of branch " + e.Branch
	}
	return text
}

// Options describes a call.
type Options struct {
	Package string // the package that the handler uses, for errors

	// Task is the task that the call runs as, or nil for a plain call.
	Task *task.Run

	// Logger gets failures of undos; nil stands for the default of package boundary.
	Logger *slog.Logger

	// ID identifies a plain call in all of its runs. By default, it is random.
	ID string

	// Rounds says that input requests of a plain call end the run.
	Rounds bool
	// Promote makes a plain call with Rounds a task; see [Log.BeforeTask]. It is called before the
	// first new operation. If it fails, so does the operation. If it is nil, the call may become a
	// task at any time, or never.
	Promote func(ctx context.Context) error
	// Earlier are the outcomes of earlier runs of a plain call. Pending are the input requests of
	// the last run that have no response yet.
	Earlier []Entry
	Pending []Asked
}

// Log is one run of the handler of a call. Its methods are safe for concurrent use. After
// [Log.End], they return recorded outcomes, and fail for new operations.
type Log struct {
	ctx    context.Context // of the call; it ends with the execution
	pkg    string
	id     string
	log    *slog.Logger
	rounds bool  // input requests of a plain call end the run
	err    error // why the journal of the task cannot be read, or nil
	// promote is [Options].Promote.
	promote func(ctx context.Context) error
	// legacy says that a version of this package that knew no branches has begun the call. All
	// operations are then known by their occurrence in the whole handler, and the order of
	// recorded outcomes is unknown.
	legacy bool
	top    branch

	mu sync.Mutex
	// promoting is closed when BeforeTask knows whether the call has become a task; nil while it is
	// not running. See lockSettled.
	promoting chan struct{}
	plain     bool               // see StayPlain
	task      *task.Run          // nil for a plain call
	branches  map[string]*branch // those below top that this run has begun; nil for none
	// recorded is sorted by branch and position, unless the log is a legacy one.
	recorded    []recorded
	groups      map[string]int // the latest group of each branch in recorded; nil until it is used
	firstUnused int            // the index in recorded below which all are used
	transient   []Entry        // responses to transient input requests
	pending     []Asked        // of earlier runs, without a response
	entries     []Entry        // of all runs, until there is a journal
	open        []Open         // the input requests that end the round
	fresh       *Entry         // the first new operation of this run
	fault       error          // why the run is not valid, or nil

	places     chan struct{} // see placesToAsk; nil until it is used
	running    int           // number of running steps
	release    func()        // ends the hold of the task for the running steps; nil without
	recording  int           // number of outcomes that are being recorded
	suspended  bool          // see Suspended
	ended      bool          // the handler has returned
	closed     bool          // End waits no longer for steps
	suspension chan struct{} // closed when suspended is set; nil until it is used
	became     chan struct{} // closed when the call becomes a task; nil until it is used
	idle       chan struct{} // closed when ended and no step is running; nil if none was running
	flushed    chan struct{} // closed when closed and recording is 0; nil if it was 0
	// interrupted is set when an operation has failed because the Manager of the task closes.
	interrupted bool
	// unstored is why the call could not become a task when an operation was to begin, or nil.
	// Later operations fail, too: their outcomes would follow one that is not recorded.
	unstored error

	undos    []*undo        // that this run has registered
	lastUndo int            // number of the latest undo of all runs
	undoing  taskrules.Undo // why this run only registers the undos that are to run
	since    time.Time      // since when, if undoing is set
	failure  *task.Outcome  // how an earlier run has failed; nil if unknown
	// endHandler ends the context of the handler once all recorded outcomes were asked for, if
	// undoing is set. It is nil otherwise, and once it was called or is due.
	endHandler func()
}

type recorded struct {
	Entry
	used bool
}

// New returns the log of a run of the handler of the call with context ctx. In a durable task, it
// reads the journal. If that fails, the methods of the Log return the error.
func New(ctx context.Context, o Options) *Log {
	l := &Log{ctx: ctx, pkg: o.Package, id: o.ID, task: o.Task, log: boundary.Logger(o.Logger)}
	l.top.log = l
	switch {
	case o.Task != nil:
		var earlier []Entry
		earlier, l.err = l.readJournal()
		l.undoing, l.since = o.Task.Internals(boundary.Caller{}).Undoing()
		l.replay(earlier)
		return l
	case o.Rounds:
		l.rounds, l.promote = true, o.Promote
		l.entries, l.pending = slices.Clone(o.Earlier), o.Pending
		l.replay(o.Earlier)
	}
	if l.id == "" {
		l.id = rand.Text()
	}
	return l
}

// replay sets the outcomes of earlier runs.
func (l *Log) replay(earlier []Entry) {
	if len(earlier) == 0 && len(l.pending) == 0 {
		return
	}
	l.recorded = make([]recorded, 0, len(earlier))
	sorted := true
	for _, e := range earlier {
		if e.transient() {
			l.transient = append(l.transient, e)
			continue
		}
		l.legacy = l.legacy || e.Position == 0
		if e.Kind == KindUndo {
			number, _ := strconv.Atoi(string(e.Result)) // Compensate reports an error
			l.lastUndo = max(l.lastUndo, number)
		}
		if n := len(l.recorded); n > 0 {
			before := &l.recorded[n-1]
			sorted = sorted && (before.Branch < e.Branch || before.Branch == e.Branch && before.Position <= e.Position)
		}
		l.recorded = append(l.recorded, recorded{Entry: e})
	}
	for i := range l.pending {
		l.legacy = l.legacy || l.pending[i].Position == 0 && l.pending[i].Occurrence > 0
	}
	if l.legacy {
		l.top.recorded = l.recorded
		return
	}
	if !sorted {
		slices.SortStableFunc(l.recorded, func(a, b recorded) int {
			if a.Branch != b.Branch {
				return compare(a.Branch, b.Branch)
			}
			return a.Position - b.Position
		})
	}
	l.top.recorded = l.recordedOf("")
}

// ID returns the id of the call, which is the same in all of its runs.
func (l *Log) ID() string { return l.id }

// fault returns an error for a mistake of the handler.
func (l *Log) faultf(format string, args ...any) error {
	return fmt.Errorf(l.pkg+": "+format, args...)
}

// lockSettled locks mu while the call is not about to become a task: an outcome must be either among
// those that the journal begins with, or in the journal later.
func (l *Log) lockSettled() {
	l.mu.Lock()
	for l.promoting != nil {
		promoting := l.promoting
		l.mu.Unlock()
		<-promoting
		l.mu.Lock()
	}
}

// current returns the task that the call runs as, or nil while it is a plain call.
func (l *Log) current() *task.Run {
	l.lockSettled()
	defer l.mu.Unlock()
	return l.task
}

// Replays reports whether the handler runs again and has not yet asked for all recorded outcomes.
func (l *Log) Replays() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.replays()
}

func (l *Log) replays() bool { return l.err == nil && l.fresh == nil && l.unused() != nil }

// Repeats reports whether the call is a durable task whose handler replays. Its messages were sent by
// an earlier run.
func (l *Log) Repeats() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.task != nil && l.task.Durable() && l.replays()
}

// unused returns the first recorded outcome that the run has not asked for, or nil. The caller must
// hold mu.
func (l *Log) unused() *Entry {
	for ; l.firstUnused < len(l.recorded); l.firstUnused++ {
		if e := &l.recorded[l.firstUnused]; !e.used {
			return &e.Entry
		}
	}
	return nil
}

// InputRequiredError ends a run. See the type of package server.
type InputRequiredError struct {
	Method string // of the input request, or "" for a step and a sleep
	pkg    string
}

// Error returns a text that tells the handler to return the error.
func (e *InputRequiredError) Error() string {
	const text = "input required: return this error, the handler is called again with the response"
	if e.pkg == "" {
		return text
	}
	return e.pkg + ": " + text
}

// OverlapError reports that two operations of one branch overlapped.
type OverlapError struct {
	pkg          string
	First, Later string
}

// Error returns a text that says what to do.
func (e *OverlapError) Error() string {
	return fmt.Sprintf("%s: %s begins while %s is running in the same branch: operations of one branch follow one another; call functions concurrently with RunAll, or give a goroutine a branch of its own with Branch, and use the context that the function gets", e.pkg, e.Later, e.First)
}

// BranchError reports that a branch has the name of an earlier one.
type BranchError struct{ pkg, path string }

// Error returns a text that says what to do.
func (e *BranchError) Error() string {
	return fmt.Sprintf("%s: a second branch has the name %s: each branch below another one needs a name of its own", e.pkg, e.path)
}

// NondeterminismError reports that a run did not ask for a recorded outcome, and asked for
// something that no earlier run asked for instead.
type NondeterminismError struct {
	Recorded string // the recorded outcome that was not asked for
	New      string // what was asked for instead
}

// Error returns a text that names both.
func (e *NondeterminismError) Error() string {
	return fmt.Sprintf("handler is not deterministic: an earlier run asked for %s, this run asks for %s instead; a handler whose steps have changed needs another Version", e.Recorded, e.New)
}

// LoopError reports that a handler makes input requests again and again although the run has ended.
type LoopError struct{ pkg string }

// maxRefused is how many operations of a branch are refused before they are slowed down, and input
// requests make the run fail.
const maxRefused = 64

// Error returns a text that says what to do.
func (e *LoopError) Error() string {
	return fmt.Sprintf("%s: %d input requests after one that was not answered yet: return its error, the handler is called again with the response", e.pkg, maxRefused)
}

// Invalid reports whether an error of [Log.End] is the fault of the handler.
func Invalid(err error) bool {
	switch err.(type) {
	case *NondeterminismError, *OverlapError, *BranchError, *LoopError:
		return true
	}
	return exceeds(err)
}

// exceeds reports whether err says that an outcome is too large for the journal.
func exceeds(err error) bool {
	if _, ok := errors.AsType[*task.JournalError](err); ok {
		return true
	}
	_, ok := errors.AsType[*task.LimitError](err)
	return ok
}

// ending returns the error of an operation that the end of the execution has prevented or
// interrupted, or nil while the execution goes on. The caller must hold mu.
func (l *Log) ending(method string) error {
	if l.ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(l.ctx)
	if l.task != nil && l.task.Durable() && errors.Is(cause, task.ErrClosed) {
		l.interrupted = true // the next process runs the handler again
		return &InputRequiredError{method, l.pkg}
	}
	return cause
}

// suspend ends the run: the handler is run again later, and no new operation begins. It returns the
// error for the handler.
func (l *Log) suspend(method string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setSuspended()
	return &InputRequiredError{method, l.pkg}
}

// setSuspended is suspend for a caller that holds mu.
func (l *Log) setSuspended() {
	if l.suspension != nil && !l.suspended {
		close(l.suspension)
	}
	l.suspended = true
}

// record records an outcome before the handler gets it, unless the run has ended: the next run may
// have recorded the same outcome with another value by now.
func (l *Log) record(e *Entry) error {
	l.lockSettled()
	switch {
	case l.closed:
		l.mu.Unlock()
		return l.errEnded()
	case l.task == nil && l.rounds:
		l.entries = append(l.entries, *e)
		fallthrough
	case l.task == nil, !l.task.Durable():
		l.mu.Unlock()
		return nil
	}
	t := l.task
	l.recording++
	l.mu.Unlock()
	defer l.endRecord() // even if Record panics
	// The context of the operation may have ended already: its outcome is recorded nevertheless.
	return l.checkRecorded(t.Record(l.ctx, journalEntry(e)))
}

// checkRecorded makes the run fail if err says that an outcome is too large for the journal:
// otherwise the next run would obtain it again.
func (l *Log) checkRecorded(err error) error {
	if !exceeds(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.invalid(err)
}

func (l *Log) endRecord() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recording--; l.recording == 0 && l.flushed != nil {
		close(l.flushed)
	}
}

func (l *Log) errEnded() error { return l.faultf("the handler of the call has returned") }

// close refuses to record more outcomes, and waits until those that are being recorded are stored.
func (l *Log) close() {
	l.lockSettled()
	l.closed = true
	if l.recording > 0 && l.flushed == nil {
		l.flushed = make(chan struct{})
	}
	flushed := l.flushed
	l.mu.Unlock()
	if flushed != nil {
		<-flushed
	}
}

// End ends the run after the handler has returned. It may be called again. If the run was suspended,
// End first waits for steps that are still running, until the execution ends. When End has returned,
// nothing is recorded any more.
//
// If End returns neither an error nor open input requests, the outcome of the call is that of the
// handler. Only a plain call with [Options].Rounds has open input requests: the handler then runs
// again with the entries and with the responses.
//
// End returns [task.ErrParked] if the task runs again later, and [task.ErrClosed] if it runs again
// in the next process. If the run is not valid, [Invalid] reports true for the error.
func (l *Log) End() (entries []Entry, open []Open, err error) {
	if l.err != nil {
		return nil, nil, l.err
	}
	err = l.wait()
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	durable := l.task != nil && l.task.Durable()
	switch e := l.unused(); {
	case durable && l.interrupted:
		return nil, nil, task.ErrClosed
	case err != nil:
		return nil, nil, err
	case l.fault != nil:
		return nil, nil, l.fault
	case l.fresh != nil && e != nil:
		return nil, nil, &NondeterminismError{e.String(), l.fresh.String()}
	case l.task != nil && l.suspended:
		return nil, nil, task.ErrParked
	case l.task != nil || !l.rounds:
		return nil, nil, nil
	}
	return slices.DeleteFunc(l.entries, func(e Entry) bool { return e.transient() }), l.open, nil
}

// wait waits for the running steps of a suspended run, until the execution ends.
func (l *Log) wait() error {
	l.mu.Lock()
	l.ended = true
	if l.suspended && l.running > 0 {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// BeforeTask turns a plain call with [Options].Rounds into a task, unless an input request of the
// call has no response yet. The result of the call then asks for the input. Promote creates the
// task with what the journal begins with, and returns nil if the call stays a plain one. While it
// runs, the handler can record nothing.
func (l *Log) BeforeTask(promote Promote) {
	l.lockSettled()
	defer l.mu.Unlock()
	if !l.rounds || l.plain || len(l.open) > 0 || l.closed {
		return
	}
	entries := make([]task.Entry, 0, 1+len(l.entries))
	entries = append(entries, callEntry(l.id))
	for i := range l.entries {
		if !l.entries[i].transient() {
			entries = append(entries, journalEntry(&l.entries[i]))
		}
	}
	if l.task = l.promoted(promote, entries); l.task == nil {
		return
	}
	if l.running > 0 {
		l.release = l.task.Internals(boundary.Caller{}).Hold()
	}
	if l.became != nil {
		close(l.became)
	}
}

// StayPlain reports whether the call is a plain one, which can then no longer become a task. If it
// is about to become one, StayPlain waits until that is decided.
func (l *Log) StayPlain() bool {
	l.lockSettled()
	defer l.mu.Unlock()
	l.plain = l.task == nil
	return l.plain
}

// promoted calls promote, which writes to the store, without mu. The caller holds mu.
func (l *Log) promoted(promote func(entries []task.Entry) *task.Run, entries []task.Entry) *task.Run {
	l.promoting = make(chan struct{})
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		close(l.promoting)
		l.promoting = nil
	}()
	return promote(entries)
}

// until converts a time of this process to that of all processes that may run the call, as it is
// recorded.
func (l *Log) until(t time.Time) time.Time {
	if run := l.current(); run != nil {
		t = run.Internals(boundary.Caller{}).SharedTime(t)
	}
	// Beyond these times, microseconds since 1970 do not fit an int64.
	switch t = t.Round(0); {
	case t.After(latest):
		return latest
	case t.Before(time.Unix(0, 0)):
		return time.Unix(0, 0)
	}
	return t.Truncate(time.Microsecond)
}

// latest is the latest time that is recorded.
var latest = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
