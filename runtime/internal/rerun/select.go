package rerun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// A wait is an operation that ends with the first of several events: input requests that are
// answered, a signal, a time. Its outcome says which event was the first, and has the value of a
// signal. The input requests belong to branches of their own. They are sent once it is clear that
// nothing has happened yet, and those that are open when the wait ends are given up.

// event is one of the events of a wait. Exactly one of its first three fields is set.
type event struct {
	ask    func(ctx context.Context) error // makes input requests
	signal string
	timer  bool
	after  time.Duration // of a timer
}

// noEvent is the index of none of the events.
const noEvent = -1

// selection is a wait that is running. The fields after changed are guarded by the mu of its log.
type selection struct {
	log     *Log
	entry   *Entry
	records bool                 // the run records outcomes
	open    chan struct{}        // closed when input requests may be sent, or must not begin any more
	settled chan struct{}        // closed once no function is unsettled that has recorded responses
	over    chan struct{}        // closed once all functions have ended
	own     []*branch            // those of the functions
	cancels []context.CancelFunc // end the contexts of the functions, by event; nil for other events
	changed context.CancelFunc   // ends the wait of first, which then looks again

	unsettled int    // functions that have not ended, and are not about to send their first request
	replaying int    // those of them that have recorded responses
	release   func() // ends the hold of the task for the unsettled functions
	left      int    // functions that have not ended
	decided   bool
	won       int     // the event that was first, if decided
	ready     []int   // events whose functions have ended with an outcome
	results   []error // of the functions, by event
	suspended bool    // a function has ended with an InputRequiredError
	failed    error   // the error of a function that is no outcome, or nil
}

// waitFor waits for the first of several events, and returns its index and the value of a signal. If
// it is an input request, err is that of its function.
func (l *Log) waitFor(ctx context.Context, name string, events []event) (won int, value json.RawMessage, err error) {
	if err := InStep(ctx, "wait"); err != nil {
		return noEvent, nil, err
	}
	b := l.branchOf(ctx)
	e := &Entry{ID: ID{Kind: KindWait, Key: name}}
	found, err := b.begin(ctx, e)
	if err != nil {
		l.passOver(b, events)
		return noEvent, nil, err
	}
	defer b.end(e, found)
	timer := timerOf{event: noEvent}
	if found == nil {
		if err := l.store(); err != nil {
			return noEvent, nil, err
		}
		if err := l.takesSignals(e, events); err != nil {
			return noEvent, nil, err
		}
		if timer, err = l.beginTimer(ctx, e, events); err != nil {
			return noEvent, nil, err
		}
	}
	s := &selection{log: l, entry: e, results: make([]error, len(events)), won: noEvent}
	s.open, s.settled, s.over = make(chan struct{}), make(chan struct{}), make(chan struct{})
	waiting, changed := context.WithCancel(context.WithoutCancel(ctx))
	defer changed()
	s.changed = changed
	if found != nil {
		if s.won, value, err = l.parseWait(e, found, events); err != nil {
			return noEvent, nil, err
		}
		s.decided = true
		s.begin()
	}
	if err := s.start(ctx, b, events); err != nil {
		return noEvent, nil, err
	}
	if found == nil {
		if value, err = s.first(ctx, waiting, events, timer); err != nil && l.ctx.Err() != nil {
			// The end of the execution has interrupted a read or a write of the store.
			l.mu.Lock()
			err = l.ending("")
			l.mu.Unlock()
		}
	}
	if _, required := err.(*InputRequiredError); required {
		s.suspend(err)
		<-s.over // by itself: the input requests stay open
		b.suspend()
		if len(s.ready) > 0 {
			l.goOn()
		}
		return noEvent, nil, err
	}
	s.fail(err)
	s.begin()
	s.cancelOthers()
	<-s.over
	s.leaveOthers()
	if found == nil {
		l.goOn()
	}
	if p, ok := s.failed.(*boundary.Panic); ok {
		panic(p) // in the goroutine of the handler
	}
	switch {
	case err != nil:
		return noEvent, nil, err
	case s.won == noEvent:
		return noEvent, nil, l.unfinished(e, e.Result)
	}
	return s.won, value, s.results[s.won]
}

// passOver marks the recorded outcomes of the functions of a wait as used, because the wait does not
// begin in a suspended run: the run would look as if it did not ask for them.
func (l *Log) passOver(b *branch, events []event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range events {
		for recorded, j := l.recordedOf(b.childPath(groupSegment(b.groups+1, strconv.Itoa(i+1)))), 0; j < len(recorded); j++ {
			recorded[j].used = true
		}
	}
}

// goOn makes a task run again at once if the run is suspended, although an operation of it has just
// got its outcome: what follows that can begin in the next run only.
func (l *Log) goOn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.suspended && l.task != nil {
		l.task.Internals(boundary.Caller{}).WakeAt(time.Now())
	}
}

// suspend makes the input requests that have not begun fail with err, which has ended the wait before
// any of them was sent.
func (s *selection) suspend(err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	select {
	case <-s.open:
	default:
		s.failed = err
		close(s.open)
	}
}

// fail notes the error of the wait, or nil.
func (s *selection) fail(err error) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// start calls the functions of the events, each in a goroutine and in a branch of its own.
func (s *selection) start(ctx context.Context, b *branch, events []event) error {
	l := s.log
	l.mu.Lock()
	s.records = l.task == nil && l.rounds || l.task != nil && l.task.Durable()
	if !s.records {
		s.openLocked()
	}
	var functions []int
	for i := range events {
		if events[i].ask != nil {
			functions = append(functions, i)
		}
	}
	s.cancels = make([]context.CancelFunc, len(events))
	s.left, s.unsettled, s.release = len(functions), len(functions), func() {}
	if len(functions) == 0 {
		close(s.over)
		close(s.settled)
		l.mu.Unlock()
		return nil
	}
	if s.records && l.task != nil {
		s.release = l.task.Internals(boundary.Caller{}).Hold()
	}
	b.groups++
	scopes := make([]*scope, len(events))
	for _, i := range functions {
		c, err := b.child(groupSegment(b.groups, strconv.Itoa(i+1)))
		if err != nil {
			s.release()
			l.mu.Unlock()
			return err
		}
		c.selection, c.event = s, i
		s.own = append(s.own, c)
		if s.replays(c) {
			s.replaying++
		}
		// The deadline of ctx is that of the wait, not of each input request. The end of ctx is for
		// first to see.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		s.cancels[i] = cancel
		scopes[i] = &scope{Context: own, branch: c}
	}
	if s.replaying == 0 {
		close(s.settled)
	}
	l.mu.Unlock()
	s.cancelOthers()
	stop := context.AfterFunc(l.ctx, s.cancelAll)
	for _, i := range functions {
		go func() { // ends with the function
			c := scopes[i].branch
			err := boundary.ErrGoexit // unless the function returns
			defer func() {
				if s.ended(c, err) {
					stop()
					s.cancelAll()
					close(s.over)
				}
			}()
			err = boundary.Run(func() error { return events[i].ask(scopes[i]) })
		}()
	}
	return nil
}

// cancelAll ends the contexts of all functions.
func (s *selection) cancelAll() {
	for _, cancel := range s.cancels {
		if cancel != nil {
			cancel()
		}
	}
}

// cancelOthers ends the contexts of the functions apart from that of the event that was first. It
// does nothing before that is decided, unless the wait has failed.
func (s *selection) cancelOthers() {
	s.log.mu.Lock()
	decided, won := s.decided || s.failed != nil, s.won
	s.log.mu.Unlock()
	for i, cancel := range s.cancels {
		if cancel != nil && decided && i != won {
			cancel()
		}
	}
}

// leaveOthers gives up the open input requests of the other functions that this run has not made
// again, or that a suspension has kept it from giving up, and leaves their outcomes unused. A
// function that has looked at its context, for example to look something up, makes none once another
// event was first.
func (s *selection) leaveOthers() {
	l := s.log
	l.mu.Lock()
	t := l.task
	var left []Asked
	for _, b := range s.own {
		if s.decided && b.event == s.won {
			continue
		}
		for i := range b.recorded {
			b.recorded[i].used = true
		}
		for _, a := range l.pending {
			if a.Branch == b.path && (a.Position > b.position || b.suspended) {
				left = append(left, a)
			}
		}
	}
	l.mu.Unlock()
	if t == nil || l.ctx.Err() != nil {
		return
	}
	for i := range left {
		t.Internals(boundary.Caller{}).GiveUp(inputRequestOf(&left[i])) // of an error, the next operation knows
	}
}

// begin lets the input requests be sent, or fail if the wait is decided.
func (s *selection) begin() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.openLocked()
}

// openLocked is begin for a caller that holds mu.
func (s *selection) openLocked() {
	select {
	case <-s.open:
	default:
		close(s.open)
	}
}

// settle says that the function of a branch has ended, or is about to send a request. The caller
// must hold mu.
func (s *selection) settle(b *branch) {
	if b.settled {
		return
	}
	b.settled = true
	if s.unsettled--; s.unsettled == 0 {
		s.release()
	}
	if !s.replays(b) {
		return
	}
	if s.replaying--; s.replaying == 0 {
		close(s.settled)
	}
}

// replays reports whether the function of a branch may end with responses that earlier runs have
// recorded. They come before all other events, so the wait looks at those afterwards.
func (s *selection) replays(b *branch) bool {
	return s.records && (s.log.legacy || len(b.recorded) > 0)
}

// admit returns an error if a new operation of a function must not begin. The caller must hold mu.
func (s *selection) admit(b *branch, e *Entry) error {
	l := s.log
	switch {
	case e.Kind != KindInput:
		return l.invalid(l.faultf("%s in a case of %s: it may only make input requests", e, s.entry))
	case !s.decided:
		b.answered = false
		return nil
	case s.won != b.event:
		if l.task != nil && l.pendingRequest(e.ID) != nil {
			return nil // to give it up
		}
		return s.errLost(e)
	}
	return l.invalid(&NondeterminismError{s.entry.String(), e.String()})
}

// errLost returns the error of an input request that has not begun before the wait ended.
func (s *selection) errLost(e *Entry) error {
	return s.log.faultf("%s: %s has ended: %w", e, s.entry, context.Canceled)
}

// ask waits until the input request e of a function may be sent. It returns an error if the wait
// has ended.
func (s *selection) ask(b *branch, e *Entry) error {
	l := s.log
	l.mu.Lock()
	s.settle(b)
	l.mu.Unlock()
	<-s.open
	l.mu.Lock()
	defer l.mu.Unlock()
	if required, ok := s.failed.(*InputRequiredError); ok {
		return required
	}
	if s.decided && s.won != b.event || s.failed != nil {
		return s.errLost(e)
	}
	return nil
}

// ended says that the function of a branch has ended with err. It reports whether it was the last.
func (s *selection) ended(b *branch, err error) (last bool) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	s.settle(b)
	s.results[b.event] = err
	_, panicked := err.(*boundary.Panic)
	_, required := errors.AsType[*InputRequiredError](err)
	switch {
	case s.decided:
		if panicked && s.failed == nil {
			s.failed = err
		}
	case panicked:
		s.failed = err
	case l.fault != nil:
		s.failed = l.fault
	case required, b.suspended, l.suspended && !b.answered:
		s.suspended = true
	case s.records && !b.answered && err == nil:
		s.failed = l.faultf("%s: case %d has made no input request", s.entry, b.event+1)
	case s.records && !b.answered || l.ctx.Err() != nil:
		s.failed = err
	default:
		s.ready = append(s.ready, b.event)
	}
	if len(s.ready) > 0 || s.failed != nil {
		s.changed()
	}
	s.left--
	return s.left == 0
}

// first waits for the first event, and records it. It returns the value of a signal. If it returns
// an InputRequiredError, the functions end by themselves.
func (s *selection) first(ctx, waiting context.Context, events []event, timer timerOf) (value json.RawMessage, err error) {
	l := s.log
	defer context.AfterFunc(l.ctx, s.changed)()
	var names []string
	functions := false
	for i := range events {
		if events[i].signal != "" {
			names = append(names, events[i].signal)
		}
		functions = functions || events[i].ask != nil
	}
	select {
	case <-s.settled:
	case <-waiting.Done():
	}
	defer context.AfterFunc(ctx, s.changed)() // not earlier: a recorded response comes before it
	for sent := !functions || !s.records; ; sent = true {
		ended := ctx.Err() // before ending: the end of the execution ends ctx, too
		l.mu.Lock()
		won, failed, suspended, ending := noEvent, s.failed, s.suspended, l.ending("")
		if len(s.ready) > 0 {
			won = s.ready[0]
		}
		cutOff := l.suspended && ended == context.Canceled
		l.mu.Unlock()
		switch {
		case ending != nil:
			return nil, ending
		case failed != nil:
			return nil, failed
		case won != noEvent:
			return nil, s.record(won, fmt.Appendf(nil, "[%d]", won))
		case cutOff: // see branch.cutOff
			return nil, s.cutOff(names, timer, sent)
		}
		// What came before the end of ctx is first, although no process was running then: only look.
		name, due, err := s.next(waiting, names, timer, sent && ended == nil)
		switch {
		case name != "":
			value, taken, err := s.take(name, events)
			if taken || err != nil {
				return value, err
			}
		case err != nil && ended != nil:
			return nil, err
		case ended != nil && (!due || ended == context.Canceled):
			s.entry.Failed = true
			return nil, s.record(noEvent, outcomeOf(ended))
		case due && timer.event == len(events): // the deadline of ctx
			s.entry.Failed = true
			return nil, s.record(noEvent, timedOut)
		case due:
			return nil, s.record(timer.event, fmt.Appendf(nil, "[%d]", timer.event))
		case errors.Is(err, task.ErrParked):
			return nil, l.suspend("")
		case err != nil && waiting.Err() == nil:
			return nil, err
		case err == nil && sent && suspended: // nothing else can happen
			return nil, &InputRequiredError{"", l.pkg}
		}
		if !sent {
			s.begin()
		}
	}
}

// cutOff returns the error of a wait whose own context was cancelled in a suspended run. The next run
// begins with the first of the events, or at once if the input requests were not sent.
func (s *selection) cutOff(names []string, timer timerOf, sent bool) error {
	l := s.log
	t, err := l.current(), error(nil)
	switch {
	case t == nil: // the next round waits again
		return &InputRequiredError{"", l.pkg}
	case !sent:
	case len(names) > 0:
		_, err = t.Internals(boundary.Caller{}).AwaitSignal(l.ctx, names, timer.until)
	case timer.event != noEvent:
		err = t.Sleep(l.ctx, timer.until)
	default:
		err = task.ErrParked // the input requests wait
	}
	if err != task.ErrParked {
		t.Internals(boundary.Caller{}).WakeAt(time.Now())
	}
	return l.suspend("")
}

// next waits until there is a signal with one of the names, or the timer is due. Before the input
// requests are sent, it only looks whether that is so. Without signals and a timer, it waits until
// all functions have ended. It returns early if waiting ends.
func (s *selection) next(waiting context.Context, names []string, timer timerOf, sent bool) (name string, due bool, err error) {
	l := s.log
	t := l.current()
	switch {
	case !sent && len(names) > 0:
		if name, err = t.Internals(boundary.Caller{}).HasSignal(l.ctx, names); name != "" || err != nil {
			return name, false, err
		}
		fallthrough
	case !sent:
		return "", timer.event != noEvent && !timer.until.After(l.until(time.Now())), nil
	case len(names) > 0:
		name, err = t.Internals(boundary.Caller{}).AwaitSignal(waiting, names, timer.until)
		return name, name == "" && err == nil, err
	case timer.event != noEvent:
		err = l.waitUntil(waiting, timer.until)
		return "", err == nil, err
	}
	select {
	case <-s.over:
	case <-waiting.Done():
	}
	return "", false, nil
}

// record records the outcome of the wait, and decides it.
func (s *selection) record(won int, outcome json.RawMessage) error {
	s.entry.Result = outcome
	if err := s.log.record(s.entry); err != nil {
		return err
	}
	s.decide(won)
	return nil
}

func (s *selection) decide(won int) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.decided, s.won = true, won
}

// take takes a signal, and decides the wait. It returns false if another branch has taken the
// signal before.
func (s *selection) take(name string, events []event) (value json.RawMessage, taken bool, err error) {
	l := s.log
	won := 0
	for events[won].signal != name {
		won++
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, false, l.errEnded()
	}
	t := l.task
	l.recording++
	l.mu.Unlock()
	defer l.endRecord() // even if TakeSignal panics
	quoted, err := json.Marshal(name)
	if err != nil { // never: the name is valid UTF-8
		return nil, false, err
	}
	entry, taken, err := t.Internals(boundary.Caller{}).TakeSignal(name, journalEntry(s.entry), func(signal *task.Signal) json.RawMessage {
		return fmt.Appendf(nil, "[%d,%s,%q,%s]", won, string(signal.Value), signal.ID, quoted)
	})
	if err = l.checkRecorded(err); err != nil || !taken {
		return nil, false, err
	}
	s.entry.Result = entry.Result
	s.decide(won)
	_, value, _, err = parseOutcome(entry.Result)
	return value, true, err
}

// takesSignals returns an error if no signal can reach the call, although it waits for one.
func (l *Log) takesSignals(e *Entry, events []event) error {
	for i := range events {
		if events[i].signal == "" {
			continue
		}
		if err := taskrules.CheckSignalName(events[i].signal); err != nil {
			return l.faultf("%s: %w", e, err)
		}
		switch t := l.current(); {
		case t == nil:
			return l.faultf("%s: the call is not a task, so that no signal can reach it: signals need a durable tool, and a client that calls it as a task or has declared the Tasks extension", e)
		case !t.Durable():
			return l.faultf("%s: the task is not durable, so that no signal can reach it", e)
		}
	}
	return nil
}

// timerOf is the first of the timers of a wait.
type timerOf struct {
	event int // index of the event; the number of events for the deadline of the context; noEvent for none
	until time.Time
}

// beginTimer returns the timer of a new wait. Its time is recorded, so that later runs have the same
// one.
func (l *Log) beginTimer(ctx context.Context, e *Entry, events []event) (t timerOf, err error) {
	if e.Result != nil { // of an earlier run, by begin
		if t, err = parseTimer(e.Result); err != nil || t.event > len(events) || t.event < len(events) && !events[max(t.event, 0)].timer {
			return t, l.invalid(&NondeterminismError{e.String() + " with other cases", e.String()})
		}
		e.Result = nil
		return t, nil
	}
	t.event = noEvent
	add := func(i int, until time.Time) {
		if until = l.until(until); t.event == noEvent || until.Before(t.until) {
			t.event, t.until = i, until
		}
	}
	now := time.Now()
	for i := range events {
		if events[i].timer {
			add(i, now.Add(events[i].after))
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		add(len(events), deadline)
	}
	if t.event == noEvent || ctx.Err() != nil {
		return t, nil
	}
	begun := &Entry{ID: e.ID, Position: e.Position, Result: fmt.Appendf(nil, "[%d,%d]", t.until.UnixMicro(), t.event)}
	begun.Kind = KindTimer
	return t, l.record(begun)
}

// parseTimer parses the entry of a timer: a list of the microseconds from 1970 to its end, and the
// index of its event.
func parseTimer(text json.RawMessage) (t timerOf, err error) {
	micro := int64(0)
	_, err = fmt.Sscanf(string(text), "[%d,%d]", &micro, &t.event)
	t.until = time.UnixMicro(micro)
	return t, err
}

// parseWait returns the recorded outcome of a wait.
func (l *Log) parseWait(e, found *Entry, events []event) (won int, value json.RawMessage, err error) {
	timer := e.Result // of an earlier run, by begin
	if e.Result = found.Result; found.Failed {
		return noEvent, nil, nil
	}
	won, value, name, err := parseOutcome(found.Result)
	if err != nil {
		return noEvent, nil, l.faultf("%s: damaged entry: %w", e, err)
	}
	if name != "" {
		won = slices.IndexFunc(events, func(other event) bool { return other.signal == name })
	}
	switch timed, err := parseTimer(timer); {
	case won < 0 || won >= len(events) || (events[won].signal != "") != (value != nil):
	case timer == nil, err == nil && (timed.event == won) == events[won].timer: // of the timers, only that one can be first
		return won, value, nil
	}
	return noEvent, nil, l.invalid(&NondeterminismError{e.String() + " with other cases", e.String()})
}

// parseOutcome parses the outcome of a wait: a list of the index of the event and, for a signal, its
// value, its ID and its name. Earlier versions of this package have not recorded the name.
func parseOutcome(text json.RawMessage) (won int, signal json.RawMessage, name string, err error) {
	var list []json.RawMessage
	options := append(codec.AllowSize(text), codec.MaxDepth(wire.DefaultDepth+1)) // the list and the value
	if err := codec.Unmarshal(text, value.Of(&list), options...); err != nil {
		return noEvent, nil, "", err
	}
	if len(list) == 0 {
		return noEvent, nil, "", errors.New("no index")
	}
	won, err = strconv.Atoi(string(list[0]))
	if len(list) > 1 {
		signal = bytes.Clone(list[1])
	}
	if len(list) > 3 && err == nil {
		err = json.Unmarshal(list[3], &name)
	}
	return won, signal, name, err
}

// outcome reports whether the error of an input request is one that later runs get, too.
func outcome(err error) bool {
	if err == nil {
		return true
	}
	_, response := errors.AsType[*jsonrpc.Error](err)
	return response || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Case is an event that [Select] waits for.
type Case interface {
	check() error
	event() event
	set(signal json.RawMessage) error // when it was the first
}

// AnswerCase is a [Case]. See the type of package server.
type AnswerCase[T any] struct {
	Value T
	f     func(ctx context.Context) (T, error)
	got   T // Value, if the case is the first
}

// OnAnswer returns a case for the end of f, which makes input requests.
func OnAnswer[T any](f func(ctx context.Context) (T, error)) *AnswerCase[T] {
	return &AnswerCase[T]{f: f}
}

func (c *AnswerCase[T]) check() error {
	if c == nil || c.f == nil {
		return errNilFunction
	}
	return nil
}

func (c *AnswerCase[T]) event() event {
	return event{ask: func(ctx context.Context) (err error) {
		c.got, err = c.f(ctx)
		return err
	}}
}

func (c *AnswerCase[T]) set(json.RawMessage) error {
	c.Value = c.got
	return nil
}

// TimerCase is a [Case]. See the type of package server.
type TimerCase struct{ after time.Duration }

// After returns a case for the time d after the beginning of the wait.
func After(d time.Duration) *TimerCase { return &TimerCase{d} }

func (c *TimerCase) check() error {
	if c == nil {
		return errNilCase
	}
	return nil
}

func (c *TimerCase) event() event { return event{timer: true, after: c.after} }

func (c *TimerCase) set(json.RawMessage) error { return nil }

// SignalCase is a [Case]. See the type of package server.
type SignalCase[T any] struct {
	Value T
	name  string
}

// OnSignal returns a case for a signal.
func OnSignal[T any](name string) *SignalCase[T] { return &SignalCase[T]{name: name} }

func (c *SignalCase[T]) check() error {
	if c == nil {
		return errNilCase
	}
	if err := taskrules.CheckSignalName(c.name); err != nil {
		return err
	}
	return Recordable[T]()
}

func (c *SignalCase[T]) event() event { return event{signal: c.name} }

func (c *SignalCase[T]) set(signal json.RawMessage) error {
	v := new(T)
	if err := decode(signal, value.Of(v)); err != nil {
		return fmt.Errorf("value of signal %q: %w", c.name, err)
	}
	c.Value = *v
	return nil
}

var errNilCase = errors.New("nil case")

// Select waits for the first of several events. See the function of package server.
func Select(ctx context.Context, l *Log, name string, cases ...Case) (Case, error) {
	switch {
	case name == "":
		return nil, l.faultf("select without a name")
	case len(cases) == 0:
		return nil, l.faultf("select %q: no cases", name)
	}
	events, seen := make([]event, len(cases)), make(map[Case]bool, len(cases))
	for i, c := range cases {
		if c == nil || seen[c] {
			return nil, l.faultf("select %q: case %d is nil, or an earlier one", name, i+1)
		}
		if err := c.check(); err != nil {
			return nil, l.faultf("select %q: case %d: %w", name, i+1, err)
		}
		seen[c], events[i] = true, c.event()
	}
	won, signal, err := l.waitFor(ctx, name, events)
	if won == noEvent {
		return nil, err
	}
	if failed := cases[won].set(signal); failed != nil && err == nil {
		err = l.faultf("select %q: %w", name, failed)
	}
	return cases[won], err
}

// Await waits for a signal. See the function of package server.
func Await[T any](ctx context.Context, l *Log, name string) (T, error) {
	c := OnSignal[T](name)
	if err := c.check(); err != nil {
		return c.Value, l.faultf("await %q: %w", name, err)
	}
	won, signal, err := l.waitFor(ctx, name, []event{c.event()})
	if won == noEvent {
		return c.Value, err
	}
	if err := c.set(signal); err != nil {
		return c.Value, l.faultf("await: %w", err)
	}
	return c.Value, nil
}
