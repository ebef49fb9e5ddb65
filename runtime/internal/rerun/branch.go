package rerun

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// branch is a part of a handler whose operations follow one another: the handler itself, or a
// function that works concurrently with others. Its fields are guarded by the mu of its log.
type branch struct {
	log      *Log
	path     string
	parent   *branch      // that waits for the end of this one; nil for other branches
	recorded []recorded   // the outcomes of earlier runs, by position
	next     int          // the index in recorded below which all are used
	position int          // of the latest operation
	counts   []count      // how often each kind and key has occurred, if they are few
	countOf  map[name]int // the same if they are more
	running  *Entry       // the operation that is running, or nil
	groups   int          // number of calls of RunAll, and of steps with a [Retry]
	attempts bool         // its steps are the attempts of one
	// suspended says that an operation of the branch, or of one that it has waited for, has ended
	// the run.
	suspended bool
	refused   int // number of operations that were refused since
	// selection is the wait whose event with the given index is a function that runs in the branch,
	// or nil. Settled is for the selection. Answered says that an input request of the function has
	// an outcome.
	selection         *selection
	event             int
	settled, answered bool
}

// name is what operations of a branch have in common that differ only in their occurrence.
type name struct {
	kind Kind
	key  string
}

type count struct {
	name
	n int
}

// few is how many names are searched one by one.
const few = 16

// compare orders paths of branches.
func compare(a, b string) int { return cmp.Compare(a, b) }

// recordedOf returns the outcomes of a branch, which share the memory of l.recorded.
func (l *Log) recordedOf(path string) []recorded {
	all := l.recorded
	from := sort.Search(len(all), func(i int) bool { return all[i].Branch >= path })
	to := from + sort.Search(len(all)-from, func(i int) bool { return all[from+i].Branch > path })
	return all[from:to]
}

// scope is the context of a handler, of a branch or of a step.
type scope struct {
	context.Context
	branch *branch // nil outside of a handler
	step   runningStep
}

// inStep reports whether s, which may be nil, belongs to a step.
func (s *scope) inStep() bool { return s != nil && s.step.log != nil }

type scopeKey struct{}

// Value implements [context.Context].
func (s *scope) Value(key any) any {
	if key == (scopeKey{}) {
		return s
	}
	return s.Context.Value(key)
}

func scopeOf(ctx context.Context) *scope {
	s, _ := ctx.Value(scopeKey{}).(*scope)
	return s
}

// NewContext returns a context for a handler, from which [FromContext] returns l. The handler is
// not part of a step.
func NewContext(ctx context.Context, l *Log) context.Context {
	return &scope{Context: ctx, branch: &l.top}
}

// Detached returns a context for a request to another server in the process. That request belongs
// neither to the handler nor to the step of ctx.
func Detached(ctx context.Context) context.Context {
	if scopeOf(ctx) == nil {
		return ctx
	}
	return &scope{Context: ctx}
}

// FromContext returns the log of the handler that ctx belongs to, or nil.
func FromContext(ctx context.Context) *Log {
	if s := scopeOf(ctx); s != nil && s.branch != nil {
		return s.branch.log
	}
	return nil
}

// InStep returns an error if ctx belongs to the function of a step. Such a function must not do the
// operation.
func InStep(ctx context.Context, operation string) error {
	if s := scopeOf(ctx); s.inStep() {
		return s.step.log.faultf("%s in step %q: call it in the handler, before or after the step", operation, s.step.name)
	}
	return nil
}

// branchOf returns the branch of the log that ctx belongs to.
func (l *Log) branchOf(ctx context.Context) *branch {
	if s := scopeOf(ctx); s != nil && s.branch != nil && s.branch.log == l {
		return s.branch
	}
	return &l.top
}

// begin begins the operation e, of which the kind, the key and the label are set. It sets the
// others. If found is not nil, it is the outcome that an earlier run has recorded. The caller must
// call end unless begin fails, and must call record for a new operation that has an outcome.
func (b *branch) begin(ctx context.Context, e *Entry) (found *Entry, err error) {
	l := b.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	known := b
	if l.legacy {
		known = &l.top
	}
	if b.running != nil {
		e.Branch = b.path
		return nil, l.invalid(&OverlapError{l.pkg, b.running.String(), e.String()})
	}
	e.Branch = known.path
	known.position++
	e.Occurrence = known.occurrence(e.ID)
	if !l.legacy {
		e.Position = known.position
	}
	if e.Kind == KindWait {
		if timer := known.findTimer(e); timer != nil {
			e.Result = timer.Result
		}
	}
	if found = known.find(e.ID); found == nil {
		if b.selection != nil {
			if err := b.selection.admit(b, e); err != nil {
				return nil, err
			}
		}
		if err := b.refuse(e); err != nil {
			return nil, err
		}
		if err := known.inOrder(e); err != nil {
			return nil, err
		}
		if e.Kind == KindStep {
			l.beginStep()
		}
	}
	b.running = e
	return found, nil
}

// end ends an operation. E is that of begin, and found is what begin has returned.
func (b *branch) end(e, found *Entry) {
	l := b.log
	l.mu.Lock()
	defer l.mu.Unlock()
	b.running = nil
	if found == nil && e.Kind == KindStep {
		l.endStep()
	}
	if l.endHandler != nil && l.unused() == nil {
		time.AfterFunc(undoGrace, l.endHandler)
		l.endHandler = nil
	}
}

// beginStep keeps the task from being parked. The caller must hold mu.
func (l *Log) beginStep() {
	if l.running++; l.running == 1 && l.task != nil {
		l.release = l.task.Internals(boundary.Caller{}).Hold()
	}
}

// endStep undoes beginStep. The caller must hold mu.
func (l *Log) endStep() {
	if l.running--; l.running > 0 {
		return
	}
	if l.release != nil {
		l.release()
		l.release = nil
	}
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// refuse returns the error of a new operation that must not begin, or nil. The caller must hold mu.
func (b *branch) refuse(e *Entry) error {
	err := b.refusal(e)
	if err == nil {
		return nil
	}
	if b.refused++; b.refused < maxRefused {
		return err
	}
	if _, required := err.(*InputRequiredError); required && e.Kind == KindInput {
		err = b.log.invalid(&LoopError{b.log.pkg}) // the handler makes it again and again
	}
	b.pause()
	return err
}

// refusal is refuse without a limit.
func (b *branch) refusal(e *Entry) error {
	l := b.log
	method := ""
	if e.Kind == KindInput {
		method = e.Label
	}
	switch {
	case l.fault != nil:
		return l.fault
	case l.ended:
		return l.errEnded()
	case l.unstored != nil:
		return l.unstored
	}
	if l.undoing != taskrules.UndoNone {
		if e.Kind == KindUndo && !b.suspended {
			return nil // of something that an earlier run has recorded
		}
		b.suspended = true
		return l.errUndoing()
	}
	// The undos of a call that is not durable run after its end.
	if durable := l.task != nil && l.task.Durable(); e.Kind != KindUndo || durable {
		if err := l.ending(method); err != nil {
			return err
		}
	}
	// Other branches of a plain call add their input requests to the round.
	joins := (e.Kind == KindInput || e.Kind == KindWait) && l.task == nil
	if b.suspended || l.suspended && !joins {
		return b.suspendNew(method)
	}
	return nil
}

// suspend keeps further operations of the branch from beginning: what the handler does instead of
// one that the end of the run has interrupted.
func (b *branch) suspend() {
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	b.suspended = true
}

// pause slows down a handler that ignores in a loop that its operations are refused.
func (b *branch) pause() {
	const pause = 5 * time.Millisecond
	b.log.mu.Unlock()
	defer b.log.mu.Lock()
	time.Sleep(pause)
}

// inOrder returns an error if the branch has recorded something else in place of the new operation
// e. The caller must hold mu.
func (b *branch) inOrder(e *Entry) error {
	l := b.log
	if !l.legacy && b.next < len(b.recorded) { // find has advanced next
		if expected := &b.recorded[b.next].Entry; expected.Position <= e.Position {
			return l.invalid(&NondeterminismError{expected.String(), e.String()})
		}
	}
	// A parent that has recorded something after this branch has waited for the end of all its
	// steps, which would have recorded this one.
	for a := b.parent; a != nil && e.Kind == KindStep; a = a.parent {
		if a.advance(); a.next < len(a.recorded) {
			return l.invalid(&NondeterminismError{a.recorded[a.next].String(), e.String()})
		}
	}
	if l.fresh == nil && !slices.ContainsFunc(l.pending, func(a Asked) bool { return a.ID == e.ID }) {
		first := *e
		l.fresh = &first
	}
	return nil
}

// invalid makes the run fail, whatever the handler returns. It returns the error.
func (l *Log) invalid(err error) error {
	if l.fault == nil {
		l.fault = err
	}
	return err
}

// advance sets next. The caller must hold mu.
func (b *branch) advance() {
	for b.next < len(b.recorded) && b.recorded[b.next].used {
		b.next++
	}
}

// find returns the recorded outcome with an ID, or nil. The caller must hold mu.
func (b *branch) find(id ID) *Entry {
	b.advance()
	for i := b.next; i < len(b.recorded); i++ {
		if e := &b.recorded[i]; !e.used && e.Kind == id.Kind && e.Occurrence == id.Occurrence && e.Key == id.Key {
			e.used = true
			return &e.Entry
		}
	}
	return nil
}

// findTimer returns the recorded timer of the wait e, or nil. The caller must hold mu.
func (b *branch) findTimer(e *Entry) *Entry {
	id := e.ID
	id.Kind = KindTimer
	return b.find(id)
}

// occurrence returns the occurrence of the next operation with the kind and the key of id. The
// caller must hold mu.
func (b *branch) occurrence(id ID) int {
	op := name{id.Kind, id.Key}
	if b.countOf != nil {
		b.countOf[op]++
		return b.countOf[op]
	}
	i := slices.IndexFunc(b.counts, func(c count) bool { return c.name == op })
	if i < 0 {
		i = len(b.counts)
		b.counts = append(b.counts, count{name: op})
	}
	b.counts[i].n++
	n := b.counts[i].n
	if len(b.counts) > few {
		b.countOf = make(map[name]int, 2*few)
		for _, c := range b.counts {
			b.countOf[c.name] = c.n
		}
		b.counts = nil
	}
	return n
}

// Occurrence returns the path of the branch that ctx belongs to, and how often this run has called
// Occurrence there with the key, this time included. Both are the same in all runs of a
// deterministic handler.
func (l *Log) Occurrence(ctx context.Context, key string) (branch string, n int) {
	b := l.branchOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	return b.path, b.occurrence(ID{Key: key}) // no operation has the kind 0
}

// passed reports whether earlier runs have recorded something that follows the outcome e of b, in b
// or in a group of branches that b has waited for.
func (b *branch) passed(e *Entry) bool {
	l := b.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.legacy {
		return false
	}
	if n := len(b.recorded); n > 0 && b.recorded[n-1].Position > e.Position {
		return true
	}
	if l.groups == nil {
		l.groups = map[string]int{}
		for i := range l.recorded {
			addGroups(l.groups, l.recorded[i].Branch)
		}
	}
	return l.groups[b.path] > b.groups
}

// addGroups sets, for each branch that the branch with a path is in or below of, the number of its
// latest group. Segments of the path are numbers of groups with names, or names in quotes.
func addGroups(groups map[string]int, path string) {
	for i := 0; i < len(path); i++ { // at the beginning of a segment
		if quoted, err := strconv.QuotedPrefix(path[i:]); err == nil {
			i += len(quoted)
			continue
		}
		number, name, _ := strings.Cut(path[i:], ".")
		if n, err := strconv.Atoi(number); err == nil {
			parent := path[:max(i-1, 0)]
			groups[parent] = max(groups[parent], n)
		}
		name, _, _ = strings.Cut(name, "/")
		i += len(number) + 1 + len(name)
	}
}

// child begins a branch below b. The caller must hold mu.
func (b *branch) child(segment string) (*branch, error) {
	l := b.log
	if b.selection != nil {
		return nil, b.selection.admit(b, &Entry{Label: "branch " + segment})
	}
	path := b.childPath(segment)
	if l.branches[path] != nil {
		return nil, l.invalid(&BranchError{l.pkg, path})
	}
	if l.branches == nil {
		l.branches = map[string]*branch{}
	}
	c := &branch{log: l, path: path, suspended: b.suspended}
	if !l.legacy {
		c.recorded = l.recordedOf(path)
	}
	l.branches[path] = c
	return c, nil
}

// childPath returns the path of a branch below b.
func (b *branch) childPath(segment string) string {
	if b.path == "" {
		return segment
	}
	return b.path + "/" + segment
}

// groupSegment returns the segment of the branch with a name in a group.
func groupSegment(group int, name string) string { return strconv.Itoa(group) + "." + name }

// Branch calls f with a context for operations of a branch of its own. The name identifies it among
// the branches that were begun in the branch of ctx.
func (l *Log) Branch(ctx context.Context, name string, f func(ctx context.Context) error) error {
	switch {
	case name == "":
		return l.faultf("branch without a name")
	case f == nil:
		return l.faultf("branch %q: nil function", name)
	}
	if s := scopeOf(ctx); s.inStep() {
		return f(ctx) // which cannot do any operation
	}
	b := l.branchOf(ctx)
	l.mu.Lock()
	c, err := b.child(strconv.Quote(name))
	l.mu.Unlock()
	if err != nil {
		return err
	}
	defer l.joined(b, c)
	return f(&scope{Context: ctx, branch: c})
}

// joined ends branches that b has waited for.
func (l *Log) joined(b *branch, children ...*branch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range children {
		b.suspended = b.suspended || c.suspended
	}
}

// RunAll calls functions concurrently, each in a branch of its own. See the method of package
// server.
func (l *Log) RunAll(ctx context.Context, functions []func(ctx context.Context) error) error {
	in := make([]context.Context, len(functions))
	if s := scopeOf(ctx); s.inStep() {
		for i := range in {
			in[i] = ctx
		}
		return runAll(in, functions)
	}
	b := l.branchOf(ctx)
	all := &Entry{Label: "RunAll", Position: -1}
	names := make([]string, len(functions))
	for i := range names {
		names[i] = strconv.Itoa(i + 1)
	}
	children, err := b.beginGroup(all, names...)
	if err != nil {
		return err
	}
	defer l.joined(b, children...)
	defer b.end(all, nil)
	scopes := make([]scope, len(functions))
	for i := range in {
		scopes[i] = scope{Context: ctx, branch: children[i]}
		in[i] = &scopes[i]
	}
	return runAll(in, functions)
}

// beginGroup begins the operation e, which consists of branches with the given names.
func (b *branch) beginGroup(e *Entry, names ...string) (children []*branch, err error) {
	l := b.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.selection != nil {
		return nil, b.selection.admit(b, e)
	}
	if b.running != nil {
		return nil, l.invalid(&OverlapError{l.pkg, b.running.String(), e.String()})
	}
	b.groups++
	children = make([]*branch, len(names))
	for i, name := range names {
		if children[i], err = b.child(groupSegment(b.groups, name)); err != nil {
			return nil, err
		}
		children[i].parent = b
	}
	b.running = e
	return children, nil
}

// runAll calls functions concurrently, waits for all of them, and returns the first error in their
// order.
func runAll(in []context.Context, functions []func(ctx context.Context) error) error {
	failed := make([]error, len(functions))
	done := make(chan struct{})
	for i, f := range functions {
		go func() { // ends with f
			defer func() { done <- struct{}{} }()
			failed[i] = boundary.ErrGoexit // unless f returns
			failed[i] = boundary.Run(func() error { return f(in[i]) })
		}()
	}
	for range functions {
		<-done
	}
	var first error
	for _, err := range failed {
		switch p := err.(type) {
		case *boundary.Panic:
			panic(p) // in the goroutine of the handler
		case nil:
		default:
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// The outcomes of operations whose own context has ended before the execution.
var (
	timedOut = json.RawMessage(taskrules.TimedOut)
	givenUp  = json.RawMessage(taskrules.GivenUp)
)

// outcomeOf returns the outcome for the error of a context.
func outcomeOf(err error) json.RawMessage {
	if errors.Is(err, context.DeadlineExceeded) {
		return timedOut
	}
	return givenUp
}

// unfinished returns the error of an operation whose own context has ended, or nil if that is not
// the outcome.
func (l *Log) unfinished(e *Entry, outcome json.RawMessage) error {
	switch string(outcome) {
	case string(timedOut):
		return fmt.Errorf("%s: %s: %w", l.pkg, e, context.DeadlineExceeded)
	case string(givenUp):
		return fmt.Errorf("%s: %s: %w", l.pkg, e, context.Canceled)
	}
	return nil
}

// store makes a plain call a task before its first new operation, if [Options].Promote is set: what
// the operation obtains is then in the journal, and survives the process. It does not end with the
// context of the operation, whose end is an outcome to record.
func (l *Log) store() error {
	if l.promote == nil || l.current() != nil {
		return nil
	}
	err := l.promote(l.ctx)
	if err == nil {
		return nil
	}
	l.lockSettled() // the call may have become a task of a Manager that closes
	defer l.mu.Unlock()
	if ended := l.ending(""); ended != nil {
		err = ended
	}
	if l.unstored == nil {
		l.unstored = err
	}
	return err
}

// cutOff returns the error of an operation whose own context was cancelled in a suspended run, and
// nil for others. As a rule, the handler has cancelled it because an operation of another branch has
// failed with the suspension, as errgroup does. That is no outcome: the next run does it again.
func (b *branch) cutOff(ctx context.Context) error {
	l := b.log
	if ctx.Err() != context.Canceled {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.suspended || l.ctx.Err() != nil {
		return nil
	}
	return b.suspendNew("")
}

// suspendNew suspends a branch that does not wait for anything, and returns the error of its
// operation. The caller must hold mu.
func (b *branch) suspendNew(method string) error {
	l := b.log
	if !b.suspended && l.task != nil {
		l.task.Internals(boundary.Caller{}).WakeAt(time.Now()) // the branch goes on in the next run
	}
	b.suspended = true // what the handler does instead is no part of the run
	return &InputRequiredError{method, l.pkg}
}

// unbegun records that the own context of a new operation of b had ended when it was to begin. It
// returns the error for the handler, or nil if the context has not ended.
func (l *Log) unbegun(ctx context.Context, b *branch, e *Entry) error {
	if ctx.Err() == nil {
		return nil
	}
	if err := b.cutOff(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	err := l.ending("") // the end of the execution ends ctx, too
	l.mu.Unlock()
	if err != nil {
		return err
	}
	e.Result, e.Failed = outcomeOf(ctx.Err()), true
	if err := l.record(e); err != nil {
		return err
	}
	return l.unfinished(e, e.Result)
}
