package durabletest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// world is everything outside of the servers: the effects of steps, the user, and what the store
// has persisted. It records what happens in the order in which it happens. A process that has died
// changes nothing in the world any more.
type world struct {
	program  *node
	fate     fate
	began    time.Time
	duration time.Duration // of the call
	over     chan struct{} // closed at the end: what still runs returns

	mu          sync.Mutex
	clock       int // number of the latest event
	tokens      int
	ops         map[string]*operation // by path
	runs        int
	byToken     map[string]*execution
	writing     map[string]bool // by token, whether a write of it has begun and not returned
	recorded    map[string]int  // by token, the event at which it was persisted
	questions   map[string]*question
	history     []string
	violations  []string
	disturbed   bool              // something else than the handler, the user and the requestor has acted
	keys        map[string]string // by identity of the step or the undo
	identities  map[string]string // by idempotency key
	persisted   map[string]bool   // by identity, whether an operation is in the journal
	failed      bool              // a run of the handler has failed
	undoing     time.Time         // when the first undo has begun
	changed     bool              // a run has left out the step that the fate removes
	refused     bool              // a run was not valid
	overlapped  bool              // operations of one branch have overlapped
	cancelled   int               // the event at which the cancellation was acknowledged; 0 if never
	cancelledAt time.Time
	cancelling  bool               // the requestor has asked for it
	withdraw    context.CancelFunc // of the request that creates the task; nil before
	completed   bool               // the task has, although its request was cancelled
	processes   int
	taskID      string // "" as long as no task was created

	booted  []*process
	signals []*signal // in the order in which they were sent
	sending sync.WaitGroup

	store       func() task.Store // returns the store of a new process
	schedule    *schedule
	current     []*process // by slot
	old         []*process
	connections int
	roundEnd    int // the event at which the latest round ended
}

// operation is a step, a sleep or an input request of the call, in all runs of the handler. Its
// path is its place in the program, with the numbers of the iterations around it.
type operation struct {
	path       string
	node       *node
	branch     string       // the path of its branch
	identity   string       // see identityOf; "" for an input request and for a step with attempts
	executions []*execution // of the function of a step
	undos      []*execution // of the function of an undo
	started    int          // the event at which the handler first began it
	seen       string       // the outcome that the handler got; "" if it has got none
	firstSeen  int
	begun      time.Time // when the handler first began it
	until      time.Time // of a sleep
	began      int       // the event at which the function of the sleep returned that time
	// earliest is the earliest deadline of its context, and deadline that with which the user was
	// asked; zero if there is none, or it is unknown.
	earliest, deadline time.Time
	waits              time.Time // when a choose began to wait
	suspended          time.Time // when the handler last got the error that the run is suspended
}

// execution is one call of the function of a step or an undo.
type execution struct {
	op           *operation
	number       int
	run          *run
	key          string
	token        string
	began, ended int // events; ended is 0 while the function runs
	at, endedAt  time.Time
	outcome      string
	interrupted  bool // the function returned because the execution of the handler ended
	lost         bool // its round was lost
}

// signal is a signal that is sent to the task.
type signal struct {
	task  string // its id: a creation with an unknown outcome may be repeated
	name  string
	token string
	begun int       // event
	acked int       // the event at which it was stored; 0 if that is unknown
	taken time.Time // when the journal got it
}

// question is an input request as its user sees it.
type question struct {
	node    *node
	message string
	asked   []int             // events of the deliveries
	first   time.Time         // of the first delivery
	answers map[string]string // by token, the outcome
	at      map[string]time.Time
	open    int // deliveries that are neither answered nor withdrawn
}

// isRecorded reports whether an outcome was recorded.
func (op *operation) isRecorded(w *world) bool {
	return w.persisted[op.identity] && op.seen != "" || w.recorded[tokenPattern.FindString(op.seen)] > 0 || slices.ContainsFunc(op.executions, func(e *execution) bool { return w.recorded[e.token] > 0 })
}

func newWorld(p *node, f fate) *world {
	return &world{
		program: p, fate: f, began: time.Now(), over: make(chan struct{}),
		ops: map[string]*operation{}, byToken: map[string]*execution{}, recorded: map[string]int{}, writing: map[string]bool{}, questions: map[string]*question{},
		keys: map[string]string{}, identities: map[string]string{}, persisted: map[string]bool{},
	}
}

// event adds a line to the history. The caller holds mu.
func (w *world) event(format string, args ...any) int {
	w.clock++
	w.history = append(w.history, fmt.Sprintf("%4d %10v  %s", w.clock, time.Since(w.began).Round(time.Microsecond), fmt.Sprintf(format, args...)))
	return w.clock
}

// note is event for a caller that does not hold mu.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event(format, args...)
}

// violate records a violation of the model. The caller holds mu.
func (w *world) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.event("VIOLATION %s", text)
	if !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

func (w *world) operation(path string, n *node) *operation {
	op := w.ops[path]
	if op == nil {
		op = &operation{path: path, node: n, begun: time.Now()}
		w.ops[path] = op
	}
	return op
}

// token returns a text that occurs nowhere else. The caller holds mu.
func (w *world) token() string {
	w.tokens++
	return fmt.Sprintf("t%dz", w.tokens)
}

var tokenPattern = regexp.MustCompile(`t[0-9]+z`)

// begin begins an execution of the function of a step. It returns false if the process has died.
func (w *world) begin(r *run, b *branch, path string, n *node, identity, key string) (*execution, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.process.isDead() {
		return nil, false
	}
	op := w.operation(path, n)
	e := &execution{op: op, number: len(op.executions) + 1, run: r, key: key, token: w.token(), at: time.Now()}
	e.began = w.event("run %d: %s at %s begins, execution %d, %s", r.number, n.name(), path, e.number, e.token)
	switch {
	case w.isSuspended(r, b):
		w.violate("%s at %s begins after its run was suspended", n.name(), path)
	case r.process.shut.Load():
		w.violate("%s at %s begins after its server has shut down", n.name(), path)
	case b.ended || w.cancelled > 0 && !w.fate.fleet && time.Now().After(w.cancelledAt):
		w.violate("%s at %s begins after the end of its call", n.name(), path)
	case !w.undoing.IsZero() && !w.fate.fleet && w.fate.lost == 0:
		w.violate("%s at %s begins after the undos of its call", n.name(), path)
	}
	for _, other := range w.ops {
		for a := b; a != nil && other.node.attempts == 0; a = a.parent {
			if other.branch == a.path && !a.asked[other.path] && other.isRecorded(w) {
				w.violate("%s at %s begins, although %s at %s was recorded in its place", n.name(), path, other.node.name(), other.path)
			}
		}
	}
	for _, other := range op.executions {
		if other.ended == 0 && !other.run.process.gone() {
			w.violate("%s at %s runs while its execution %d still runs", n.name(), path, other.number)
		}
		if n.attempts > 0 && other.ended > 0 && !strings.HasPrefix(other.outcome, "done ") {
			continue // see attempt
		}
		if w.recorded[other.token] > 0 {
			w.violate("%s at %s runs again after its outcome was recorded", n.name(), path)
		}
		if other.ended > 0 && !other.interrupted && !other.run.process.gone() && !other.lost {
			w.violate("%s at %s runs again although its outcome could be recorded", n.name(), path)
		}
	}
	if n.attempts > 0 {
		w.attempt(op)
	}
	w.identify(identity, key)
	if w.fate.mode == promoted && w.taskID == "" {
		w.violate("%s at %s begins before the call is a task", n.name(), path)
	}
	op.executions = append(op.executions, e)
	w.byToken[e.token] = e
	return e, true
}

// identify checks the idempotency key of a step or an undo. The caller holds mu.
func (w *world) identify(identity, key string) {
	if key == "" {
		w.violate("%s has no idempotency key", identity)
	}
	if other, ok := w.keys[identity]; ok && other != key {
		w.violate("%s has the idempotency keys %q and %q", identity, other, key)
	}
	if other, ok := w.identities[key]; ok && other != identity {
		w.violate("%s and %s have the same idempotency key", other, identity)
	}
	w.keys[identity], w.identities[key] = key, identity
}

// attempts returns the executions of a step that count as attempts: those whose outcome is recorded
// or could be, and all of the run that has come to the outcome of the step. The caller holds mu.
func (w *world) attempts(op *operation) (some []*execution) {
	var last *run
	for _, e := range op.executions {
		if op.seen != "" && e.outcome == op.seen {
			last = e.run
		}
	}
	for _, e := range op.executions {
		if e.ended > 0 && !e.lost && (w.recorded[e.token] > 0 || !e.interrupted && !e.run.process.gone() || e.run == last) {
			some = append(some, e)
		}
	}
	return some
}

// attempt checks that the policy of a step allows another attempt now. The caller holds mu.
func (w *world) attempt(op *operation) {
	n, before := op.node, w.attempts(op)
	if len(before) == 0 {
		return
	}
	strict := !w.disturbed && !w.fate.rounds() && !w.program.has((*node).delays)
	last := before[len(before)-1]
	paused, longest := time.Since(last.endedAt), n.longest(len(before))
	switch {
	case len(before) >= n.attempts:
		w.violate("%s at %s begins attempt %d", n.name(), op.path, len(before)+1)
	case strings.HasPrefix(last.outcome, "final "):
		w.violate("%s at %s begins after an error that is final", n.name(), op.path)
	case paused < longest/2-time.Microsecond, strict && paused > longest+time.Millisecond:
		w.violate("%s at %s begins attempt %d after a pause of %v", n.name(), op.path, len(before)+1, paused)
	case strict && n.total > 0 && time.Since(op.executions[0].at) > n.total+time.Microsecond:
		w.violate("%s at %s begins attempt %d %v after the first one", n.name(), op.path, len(before)+1, time.Since(op.executions[0].at))
	}
}

// beginUndo begins an execution of the function of an undo. It returns false if the process has
// died.
func (w *world) beginUndo(r *run, path string, n *node, identity, key string) (*execution, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.process.isDead() {
		return nil, false
	}
	op := w.operation(path, n)
	e := &execution{op: op, number: len(op.undos) + 1, run: r, key: key, token: w.token(), at: time.Now()}
	e.began = w.event("run %d: the undo of %s at %s begins, execution %d", r.number, n.name(), path, e.number)
	durable := r.durable()
	switch {
	case !r.returned:
		w.violate("the undo of %s at %s begins before the handler has returned", n.name(), path)
	case !w.failed && !w.withdrawn() && !w.mayBeInvalid() && (durable || r.handler.Err() == nil):
		w.violate("the undo of %s at %s begins, although the call has not failed", n.name(), path)
	case durable && !r.suspended.IsZero() && !w.withdrawn() && !w.mayBeInvalid():
		w.violate("the undo of %s at %s begins in a run that was suspended", n.name(), path)
	case r.process.shut.Load():
		w.violate("the undo of %s at %s begins after its server has shut down", n.name(), path)
	}
	for _, other := range op.undos {
		done := strings.HasPrefix(other.outcome, "done ")
		if done && (w.persisted[undoneOf(identity)] || !other.interrupted && !other.run.process.gone() && other.run.handler.Err() == nil) {
			w.violate("the undo of %s at %s runs again", n.name(), path)
		}
		if other.ended == 0 && !other.run.process.gone() && !w.fate.fleet && w.fate.lost == 0 {
			w.violate("the undo of %s at %s runs while its execution %d still runs", n.name(), path, other.number)
		}
	}
	for _, later := range w.ops {
		if later.node.kind == register && later.seen == "registered" && op.firstSeen > 0 && later.started > op.firstSeen && !later.isUndone() && w.fate.lost == 0 && w.fate.changed == 0 && !w.givesUpUndos() {
			w.violate("the undo of %s at %s begins before that of %s, which was registered later", n.name(), path, later.path)
		}
	}
	w.identify("undo: "+identity, key)
	if w.undoing.IsZero() {
		w.undoing = time.Now()
	}
	op.undos = append(op.undos, e)
	return e, true
}

// undoneOf returns the identity in the journal of the end of an undo.
func undoneOf(identity string) string {
	return strings.Replace(identity, fmt.Sprint("kind ", undoKind), fmt.Sprint("kind ", undoneKind), 1)
}

// givesUpUndos reports whether the undos of a plain call have taken as long as they may. The caller
// holds mu.
func (w *world) givesUpUndos() bool {
	return w.taskID == "" && !w.undoing.IsZero() && time.Since(w.undoing) >= 30*time.Second
}

// isUndone reports whether the undo has succeeded.
func (op *operation) isUndone() bool {
	return slices.ContainsFunc(op.undos, func(e *execution) bool { return strings.HasPrefix(e.outcome, "done ") })
}

// withdrawn reports whether the requestor may have cancelled the call, or it may have expired. The
// caller holds mu.
func (w *world) withdrawn() bool {
	return w.cancelling || w.fate.expires > 0 && time.Since(w.began) >= w.fate.expires
}

// refuses reports whether err says that a run is not valid, or that an earlier one was not.
func (w *world) refuses(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := err.Error()
	switch {
	case strings.Contains(text, overlaps):
	case strings.Contains(text, nondeterministic) && w.fate.changed > 0:
	case strings.Contains(text, undoing) && w.mayBeInvalid():
	default:
		return false
	}
	w.refused = true
	return true
}

// mayBeInvalid reports whether a run may fail whatever its handler returns. The caller holds mu.
func (w *world) mayBeInvalid() bool { return w.refused || w.fate.changed > 0 }

// hasChanged records that a run has left out a step.
func (w *world) hasChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = true
}

// overlaps reports whether a step runs now. If so, another operation of its branch overlaps it.
func (w *world) overlaps(r *run, path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	op := w.ops[path]
	if op == nil || r.process.isDead() || len(op.executions) == 0 {
		return false
	}
	e := op.executions[len(op.executions)-1]
	if e.run != r || e.ended > 0 {
		return false
	}
	w.overlapped = true
	return true
}

// anonymous returns the outcome of a step whose result JSON cannot hold, or that panics: the error
// does not say which execution it belongs to.
func (w *world) anonymous(path string) (outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op := w.ops[path]; op != nil {
		for _, e := range op.executions {
			if isAnonymous(e.outcome) {
				outcome = e.outcome
				if w.recorded[e.token] > 0 {
					break
				}
			}
		}
	}
	return outcome
}

// isAnonymous reports whether what is recorded of an outcome does not have its token.
func isAnonymous(outcome string) bool {
	return strings.HasPrefix(outcome, "unencodable ") || strings.HasPrefix(outcome, "panicked ")
}

// end ends an execution with an outcome.
func (w *world) end(e *execution, outcome string, interrupted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.run.process.isDead() {
		return
	}
	e.outcome, e.interrupted, e.endedAt = outcome, interrupted, time.Now()
	e.ended = w.event("run %d: %s at %s returns %s", e.run.number, e.op.node.name(), e.op.path, outcome)
}

// saw records that the handler got the outcome of an operation.
func (w *world) saw(r *run, path string, n *node, outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.process.isDead() || r.refused.Load() || w.schedule.ended() {
		return
	}
	op := w.operation(path, n)
	now := w.event("run %d: %s at %s: the handler gets %s", r.number, n.name(), path, outcome)
	if op.seen == "" {
		op.seen, op.firstSeen = outcome, now
	} else if op.seen != outcome && !r.over.Load() {
		w.violate("%s at %s: the handler gets %q, an earlier run got %q", n.name(), path, outcome, op.seen)
	}
	token := tokenPattern.FindString(outcome)
	if outcome == timedOut && op.firstSeen == now {
		if early := time.Until(op.earliest); early > time.Microsecond {
			w.violate("%s at %s times out %v before its deadline", n.name(), path, early)
		}
		if late := w.late(op); late > time.Millisecond && !w.fate.rounds() && !w.program.has((*node).delays) {
			w.violate("%s at %s times out %v after its deadline", n.name(), path, late)
		}
	}
	ended := outcome == timedOut || outcome == givenUp
	if ended && n.kind == ask && !n.common && !w.fate.modern() {
		time.AfterFunc(time.Second, func() { w.isWithdrawn(n.message(path)) })
	}
	if n.kind == step {
		// The context may have ended before the function is called, or between two attempts.
		early := ended && (n.attempts > 0 || len(op.executions) == 0 && (w.disturbed || n.inBlock))
		if e := w.byToken[token]; !early && (e == nil || e.op != op) {
			w.violate("%s at %s: the handler gets %q, the outcome of another step", n.name(), path, outcome)
		}
	}
	if n.kind == choose && op.firstSeen == now {
		w.chosen(op)
	}
	if (n.kind == choose || n.kind == await) && r.durable() && !w.persisted[op.identity] && outcome != noSignals {
		w.violate("%s at %s: the handler gets %q before it is recorded", n.name(), path, outcome)
	}
	if outcome == "registered" && r.durable() && !w.persisted[op.identity] {
		w.violate("%s at %s: the handler goes on before the undo is recorded", n.name(), path)
	}
	if token != "" && r.durable() && w.recorded[token] == 0 && !w.writing[token] {
		w.violate("%s at %s: the handler gets %q before it is recorded", n.name(), path, outcome)
	}
}

// isWithdrawn checks that the user no longer sees an input request that has timed out.
func (w *world) isWithdrawn(message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q := w.questions[message]; q != nil && q.open > 0 && !w.disturbed {
		w.violate("the user still sees %q after it has timed out", message)
	}
}

// starts records that the handler begins an operation of a branch with an identity and a context.
func (w *world) starts(r *run, b *branch, path string, n *node, identity string, ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.asked == nil {
		b.asked = map[string]bool{}
	}
	b.asked[path] = true
	if r.process.isDead() {
		return
	}
	op := w.operation(path, n)
	op.branch, op.identity = b.path, identity
	if op.started == 0 {
		w.clock++
		op.started = w.clock
	}
	if deadline, ok := ctx.Deadline(); ok {
		if op.earliest.IsZero() || deadline.Before(op.earliest) {
			op.earliest = deadline
		}
		switch n.kind {
		case ask:
			if !n.common && w.questions[n.message(path)] == nil {
				op.deadline = deadline
			}
		case choose, await:
			if !w.persisted[timerOf(identity)] {
				op.deadline = deadline
			}
		}
	}
	if !w.persisted[timerOf(identity)] {
		op.waits = time.Now()
	}
}

// timerOf returns the identity in the journal of the timer of a wait.
func timerOf(identity string) string {
	return strings.Replace(identity, fmt.Sprint("kind ", waitKind), fmt.Sprint("kind ", timerKind), 1)
}

// until records that the function of a sleep was called.
func (w *world) until(r *run, b *branch, path string, n *node, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.process.isDead() {
		return
	}
	op := w.operation(path, n)
	w.event("run %d: %s at %s is to end %v", r.number, n.name(), path, at.Sub(w.began))
	if w.isSuspended(r, b) {
		w.violate("%s at %s begins after its run was suspended", n.name(), path)
	}
	if op.until.IsZero() || !w.disturbed {
		if !op.until.IsZero() {
			w.violate("%s at %s begins again", n.name(), path)
		}
		op.until, op.began = at, w.clock
	}
}

// woke records that a sleep ended.
func (w *world) woke(r *run, path string, n *node) {
	w.mu.Lock()
	op := w.operation(path, n)
	if !r.process.isDead() && !r.refused.Load() && !r.over.Load() && (op.until.IsZero() || time.Now().Before(op.until.Truncate(time.Microsecond))) {
		w.violate("%s at %s ends %v too early", n.name(), path, time.Until(op.until))
	}
	w.mu.Unlock()
	w.saw(r, path, n, "slept")
}

// suspend records that an operation of a run reported that the run is suspended. A handler is
// parked only while it does nothing but wait, and waits for an input request no longer than its
// deadline.
func (w *world) suspend(r *run, path string, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.process.isDead() {
		return
	}
	op := w.operation(path, n)
	op.suspended = time.Now()
	// A round that has ended before is not that of the operation, which may not be in it.
	if late := w.late(op); late > time.Millisecond && (r.suspended.IsZero() || !w.fate.rounds()) {
		w.violate("%s at %s waits, although its deadline was %v ago", n.name(), path, late)
	}
	if !r.suspended.IsZero() {
		return
	}
	w.event("run %d: suspended at %s", r.number, path)
	r.suspended = time.Now()
	for _, e := range w.byToken {
		if w.disturbed { // the handler may have got the outcome of a wait that took too long
			break
		}
		if e.run == r && e.ended == 0 && e.at.Before(r.suspended) && r.durable() && !r.process.ending() {
			w.violate("the handler is parked while %s at %s runs", e.op.node.name(), e.op.path)
		}
	}
}

// late returns for how long the deadline of an operation has passed, or 0 if that is unknown. It does
// not count the time before a wait for several events has begun. The caller holds mu.
func (w *world) late(op *operation) time.Duration {
	if op.deadline.IsZero() || op.node.kind == ask && w.questions[op.node.message(op.path)] == nil || w.disturbed {
		return 0
	}
	if op.node.kind != ask && op.waits.After(op.deadline) {
		return time.Since(op.waits)
	}
	return time.Since(op.deadline)
}

// isSuspended reports whether nothing may begin in a branch, because an operation has reported that
// the run is suspended: one of the branch, or any one at an earlier time. The caller holds mu.
func (w *world) isSuspended(r *run, b *branch) bool {
	return b.suspended || !r.suspended.IsZero() && time.Now().After(r.suspended)
}

// write writes a record, and records the outcomes in it unless that fails. A waiter may get them
// before the function returns.
func (w *world) write(r *task.Record, f func() error) error {
	var texts, identities []string
	if r.Durable != nil {
		for i := range r.Durable.Entries {
			e := &r.Durable.Entries[i]
			texts = append(texts, string(e.Result))
			identities = append(identities, identityOf(e.Branch, int(e.Kind), e.Key, e.Occurrence))
		}
	}
	for i := range r.InputRequests {
		texts = append(texts, string(r.InputRequests[i].Result))
	}
	tokens := tokenPattern.FindAllString(strings.Join(texts, " "), -1)
	set := func(writing bool) {
		for _, token := range tokens {
			w.writing[token] = writing
		}
	}
	w.mu.Lock()
	set(true)
	w.mu.Unlock()
	err := f()
	w.mu.Lock()
	defer w.mu.Unlock()
	set(false)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if w.recorded[token] == 0 {
			w.recorded[token] = w.event("recorded: %s", token)
			for _, s := range w.signals {
				if s.token == token {
					s.taken = time.Now()
				}
			}
		}
	}
	for _, identity := range identities {
		if !w.persisted[identity] {
			w.persist(identity)
		}
	}
	return nil
}

// persist records that an operation is in the journal. The caller holds mu.
func (w *world) persist(identity string) {
	w.persisted[identity] = true
	for _, op := range w.ops {
		if op.identity != identity || op.node.kind != step {
			continue
		}
		for _, e := range op.executions {
			if isAnonymous(e.outcome) {
				w.recorded[e.token] = w.event("recorded: %s", e.token) // the latest one
			}
		}
	}
}

// roundEnds records that the client has the state of a round, or sends responses: it repeats what
// it has got.
func (w *world) roundEnds(open int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.roundEnd = w.event("a round ends with %d open input requests", open)
	for token, e := range w.byToken {
		if e.ended > 0 && !e.lost && !e.interrupted && w.recorded[token] == 0 {
			w.recorded[token] = w.clock
		}
	}
	for _, q := range w.questions {
		for token := range q.answers {
			if w.recorded[token] == 0 {
				w.recorded[token] = w.clock
			}
		}
	}
}

// forget records that what has happened since the end of the latest round is lost.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disturbed = true
	w.event("a round is lost")
	for _, op := range w.ops {
		if op.firstSeen > w.roundEnd {
			op.seen, op.firstSeen = "", 0
		}
		if op.started > w.roundEnd {
			op.started = 0
		}
		if op.began > w.roundEnd {
			op.until = time.Time{}
		}
		for _, e := range op.executions {
			e.lost = e.lost || w.recorded[e.token] == 0
		}
	}
}

// asks records that an input request is delivered to the user.
func (w *world) asks(message string) *question {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.questions[message]
	path := strings.TrimSuffix(message[strings.LastIndex(message, " ")+1:], "?")
	if q == nil {
		q = &question{message: message, first: time.Now(), answers: map[string]string{}, at: map[string]time.Time{}}
		id := 0
		fmt.Sscan(path[strings.LastIndex(path, "/")+1:], &id)
		w.program.has(func(n *node) bool {
			if n.id == id {
				q.node = n
			}
			return false
		})
		w.questions[message] = q
	}
	if chooser := w.chooser(q.node, path); chooser != nil && chooser.seen != "" && !w.disturbed {
		w.violate("the user is asked %q, although %s at %s has ended", message, chooser.node.name(), chooser.path)
	}
	if op := w.ops[path]; op != nil && len(q.asked) > 0 && !op.deadline.IsZero() && op.suspended.After(op.deadline.Add(time.Millisecond)) && !w.disturbed {
		w.violate("the user is asked %q again after its deadline", message)
	}
	got, places := map[string]bool{}, 0 // what the handler has got, and the places in the program that ask
	for _, op := range w.ops {
		if op.node == q.node || op == w.chooser(q.node, path) {
			got[tokenPattern.FindString(op.seen)] = true
			places++
		}
	}
	for token := range q.answers {
		if w.recorded[token] > 0 && (!got[token] || !q.node.common) {
			w.violate("the user is asked %q again after the answer was recorded", message)
		}
	}
	if len(q.asked) >= places && !w.disturbed && !w.fate.partial {
		w.violate("the user is asked %q again", message)
	}
	q.open++
	q.asked = append(q.asked, w.event("the user is asked %q", message))
	return q
}

// answers records that the user answers.
func (w *world) answers(q *question) (token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	token = w.token()
	q.answers[token], q.at[token] = "answer "+token, time.Now()
	w.event("the user answers %q with %s", q.message, token)
	return token
}

// chooser returns the choose that an input request is a case of, or nil. The caller holds mu.
func (w *world) chooser(n *node, path string) *operation {
	if n.chooser == 0 {
		return nil
	}
	return w.ops[fmt.Sprint(path[:strings.LastIndex(path, "/")+1], n.chooser)]
}
