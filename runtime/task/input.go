package task

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Call sends an input request to the requestor and waits for the answer. The task is input_required
// until all of its input requests are answered. The input request is delivered through the
// tasks/result calls of the requestor, now or later (MCP tasks, "Input Required Status").
//
// The error is a [*jsonrpc.Error] if the requestor answered with one. Otherwise it is the cause of
// ctx, [ErrCancelled] or [ErrExpired].
func (run *Run) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	return run.Ask(ctx, InputRequest{Method: method}, params)
}

// Ask is [Run.Call] for an input request of restartable work that later runs of the work know by
// its branch, its key and, among equal keys, its occurrence, which counts from 1. Of q, Ask uses
// Method, Key, Occurrence, Branch, Position and Deadline. If an earlier run has made the input
// request, Ask waits for its answer, or returns it. Other work makes the input request anew.
//
// Restartable work may be parked while it waits; Ask then returns [ErrParked], also if ctx is
// cancelled after that. Ask ends with the context of the work, whether ctx does or not.
//
// A task has at most MaxOpenInput open input requests. Ask waits until there is room for another
// one, in no particular order. The work is not parked while one with a deadline waits for room.
//
// If Deadline is zero, it is that of ctx. Later runs have the Deadline of the first one, at which
// parked work runs again. If restartable work gives the input request up, because the Deadline has
// passed or ctx has ended before the context of the work, Ask withdraws the input request and
// stores the reason as its Error. It then returns [context.DeadlineExceeded] or [context.Canceled],
// and so does Ask in later runs.
func (run *Run) Ask(ctx context.Context, q InputRequest, params codec.Encoder) (json.RawMessage, error) {
	raw, err := run.encodeParams(params)
	if err != nil {
		return nil, err
	}
	w := run.waits.Load()
	if q.Key == "" { // the next run would make the input request again
		w.hold(1)
		defer w.hold(-1)
		w = nil
	}
	w.begin()
	defer w.end()
	stored := run.newInputRequest(ctx, &q, raw)
	adding := ctx
	if stored.Key != "" { // so that it is stored why ctx has ended
		adding = context.WithoutCancel(ctx)
	}
	number, r, err := run.addInputRequest(adding, stored)
	if err == errTooManyOpen {
		number, r, err = run.addOnceRoom(ctx, adding, w, stored, &r)
	}
	if err == ErrParked {
		return nil, err
	}
	if run.m.cfg.Hooks.Observer == nil || err != nil {
		answer, err := run.awaitAnswer(ctx, w, stored, number, &r, err)
		return answer, run.endIfOver(err)
	}
	end := func(error) {}
	if added := r.inputRequest(number); added != nil && added.Open() {
		end = run.observeWait(ctx, q.Method)
	}
	answer, err := run.awaitAnswer(ctx, w, stored, number, &r, nil)
	end(err)
	return answer, run.endIfOver(err)
}

// newInputRequest returns the input request to store for q.
func (run *Run) newInputRequest(ctx context.Context, q *InputRequest, params json.RawMessage) *InputRequest {
	stored := &InputRequest{Method: q.Method, Params: params}
	if q.Key == "" || !run.durable {
		return stored
	}
	stored.Key, stored.Occurrence, stored.Branch, stored.Position, stored.Deadline = q.Key, q.Occurrence, q.Branch, q.Position, q.Deadline
	if deadline, ok := ctx.Deadline(); ok && q.Deadline.IsZero() {
		stored.Deadline = run.sharedTime(deadline)
	}
	if !stored.Deadline.IsZero() {
		stored.Deadline = stored.Deadline.UTC().Truncate(time.Microsecond)
	}
	return stored
}

// awaitAnswer waits for the answer to an input request that is stored in r, or handles err, the
// error of storing it. w is nil if the work is not parked meanwhile.
func (run *Run) awaitAnswer(ctx context.Context, w *waits, q *InputRequest, number uint64, r *Record, err error) (json.RawMessage, error) {
	parked := false
	if stored := r.inputRequest(number); err == nil && stored != nil && !stored.Deadline.IsZero() {
		q.Deadline = stored.Deadline
	}
	limited, until, release := run.limitWait(ctx, w, q.Deadline)
	defer release()
	for err == nil {
		stored := r.inputRequest(number)
		switch {
		case stored == nil:
			if recorded := run.recordedAnswer(q); recorded != nil {
				return recorded.answer()
			}
			return nil, ErrCancelled // the task has become terminal
		case !stored.Open():
			run.consume(number)
			return stored.answer()
		}
		r.Params, r.InputRequests = nil, nil // as in Manager.wait
		err = run.m.await(until, run, r)
		parked = err != nil && w != nil && w.ended.Err() != nil
		if err == nil && run.fenced(r) {
			err = ErrFenced
		}
	}
	// Parked work may cancel ctx because another wait has ended with ErrParked.
	ended := limited.Err() == context.DeadlineExceeded || limited.Err() != nil && !parked
	if number != 0 && q.Key != "" && ended && run.ending() == nil {
		return run.giveUp(number, limited.Err())
	}
	if parked {
		w.addInput(number)
		if !q.Deadline.IsZero() {
			w.addSleep(q.Deadline)
		}
	} else if !run.durable || !errors.Is(run.ending(), ErrClosed) { // otherwise the next run asks for it again
		run.withdraw(number, q)
	}
	switch cause := run.ending(); {
	case cause != nil:
		return nil, cause
	case parked:
		return nil, ErrParked
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrNotFound) {
		return nil, ErrExpired
	}
	if _, terminal := errors.AsType[*MoveError](err); terminal {
		return nil, ErrCancelled
	}
	return nil, err
}

// limitWait returns contexts of a wait: limited ends with ctx, with the work, and at the deadline
// unless that is zero. until also ends when the work is parked, unless w is nil.
func (run *Run) limitWait(ctx context.Context, w *waits, deadline time.Time) (limited, until context.Context, release func()) {
	var cancel context.CancelFunc
	if deadline.IsZero() {
		limited, cancel = context.WithCancel(ctx)
	} else {
		limited, cancel = context.WithTimeout(ctx, deadline.Sub(run.m.now()))
	}
	stop := func() bool { return true }
	if work := run.ctx.Load(); work != nil { // ctx may not end with it
		stop = context.AfterFunc(work, cancel)
	}
	if w == nil {
		return limited, limited, func() { stop(); cancel() }
	}
	both := lazyctx.WithBoth(limited, &w.ended)
	return limited, both, func() { both.Release(); stop(); cancel() }
}

// errTooManyOpen is the error of addInputRequest for a task without room for another open input
// request.
var errTooManyOpen = errors.New("task: too many open input requests")

// addOnceRoom is addInputRequest for an input request that has found no room in the record r. It
// waits until there is room, and fails with [ErrParked] if the work is parked before. If the
// input request is given up while it waits, it is stored with that outcome. Adding is the context for
// what is stored: a write that the end of the wait interrupted would leave open whether it was done.
func (run *Run) addOnceRoom(ctx, adding context.Context, w *waits, q *InputRequest, r *Record) (uint64, Record, error) {
	limited, until, release := run.limitWait(ctx, w, q.Deadline)
	defer release()
	if !q.Deadline.IsZero() { // the next run would not know it
		w.hold(1)
		defer w.hold(-1)
	}
	select { // one goroutine at a time watches the record for all
	case run.roomTurn() <- struct{}{}:
		defer func() { <-run.roomTurn() }()
	case <-until.Done():
	}
	for until.Err() == nil {
		number, added, err := run.addInputRequest(adding, q)
		if err != errTooManyOpen {
			return number, added, err
		}
		added.Params, added.InputRequests = nil, nil
		if err := run.m.await(until, run, &added); err != nil && until.Err() == nil {
			return 0, added, err
		}
	}
	switch parked := w != nil && w.ended.Err() != nil; {
	case run.ending() != nil:
		return 0, *r, run.ending()
	case limited.Err() == nil, parked && limited.Err() == context.Canceled:
		return 0, *r, ErrParked
	case q.Key == "":
		return 0, *r, context.Cause(limited)
	}
	q.Error = outcomeOf(limited.Err())
	return run.addInputRequest(adding, q)
}

// roomTurn returns a channel with room for the one goroutine that may wait until the task has room
// for another open input request.
func (run *Run) roomTurn() chan struct{} {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.room == nil {
		run.room = make(chan struct{}, 1)
	}
	return run.room
}

// outcomeOf returns the Error of an input request that is given up because its context has ended
// with cause.
func outcomeOf(cause error) json.RawMessage {
	if errors.Is(cause, context.DeadlineExceeded) {
		return json.RawMessage(taskrules.TimedOut)
	}
	return json.RawMessage(taskrules.GivenUp)
}

// giveUp stores that the work gives up an input request because its context has ended with cause,
// unless the answer was stored before. It returns what [Run.Ask] returns.
func (run *Run) giveUp(number uint64, cause error) (json.RawMessage, error) {
	r, err := run.change(context.Background(), func(r *Record) error {
		if r.terminal() || !r.setAnswer(number, nil, outcomeOf(cause)) {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	run.m.endClaim(inputRequestID{run.id, number}, nil)
	stored := r.inputRequest(number)
	if stored == nil {
		return nil, ErrCancelled
	}
	run.consume(number)
	return stored.answer()
}

// GiveUp withdraws an input request that an earlier run of the work has made, and that this run does
// not make: it stores GivenUp as its Error, which [Run.Journal] returns in later runs. Of q, GiveUp
// uses Key, Occurrence and Branch, as [Run.Ask] does. It does nothing if there is no such input
// request, or if it is not open. Like Ask, it tries again while the store fails, until the work
// ends, and then fails with [ErrCancelled], [ErrExpired] or [ErrFenced].
func (run runInternals) GiveUp(q InputRequest) error {
	number := uint64(0)
	_, err := run.change(context.Background(), func(r *Record) error {
		earlier := r.inputRequestByKey(&q)
		if r.terminal() || earlier == nil || !r.setAnswer(earlier.Number, nil, json.RawMessage(taskrules.GivenUp)) {
			return errUnchanged
		}
		number = earlier.Number
		return nil
	})
	run.m.endClaim(inputRequestID{run.id, number}, nil)
	return run.endIfOver(err)
}

// encodeParams encodes the params of an input request. They name the task, except for a task of the
// Tasks extension.
func (run *Run) encodeParams(params codec.Encoder) (json.RawMessage, error) {
	if !run.extension {
		return taskrules.RelateParams(params, run.id)
	}
	if params == nil {
		return nil, nil
	}
	return boundary.Marshal(params)
}

// addInputRequest stores a new input request, unless an earlier run has made it or its answer is in
// the journal. It removes those whose answers the work has consumed; if later runs need the
// answers, it moves them to the journal. It fails with errTooManyOpen if q is open and there is no
// room for it.
func (run *Run) addInputRequest(ctx context.Context, q *InputRequest) (number uint64, r Record, err error) {
	if q.Key != "" && run.durable {
		if err := run.readAnswers(ctx); err != nil {
			return 0, r, err
		}
	}
	run.mu.Lock()
	run.lastInputRequest++
	fresh := run.lastInputRequest
	run.mu.Unlock()
	r, err = run.change(ctx, func(r *Record) error {
		if r.withdrawn() {
			return ErrCancelled
		}
		if earlier := r.inputRequestByKey(q); earlier != nil {
			number = earlier.Number
			return errUnchanged
		}
		if r.inputRequest(fresh) != nil { // by an earlier attempt, which the store has reported as failed
			return errUnchanged
		}
		if run.recordedAnswer(q) != nil {
			number = 0
			return errUnchanged
		}
		if q.Open() && r.openInputRequests() >= taskrules.MaxOpenInput {
			return errTooManyOpen
		}
		number, q.Number = fresh, fresh
		answers := run.takeAnswers(r)
		r.InputRequests = append(run.unconsumed(r.InputRequests), *q)
		if q.Open() {
			r.Status = mcp.TaskStatusInputRequired
		}
		if r.Durable != nil {
			r.Durable = r.Durable.with(answers)
			r.Durable.LastInput = max(r.Durable.LastInput, fresh)
			return run.m.checkJournal(r)
		}
		return nil
	})
	return number, r, err
}

// inputRequestByKey returns the input request with the key and the occurrence of q, or nil.
func (r *Record) inputRequestByKey(q *InputRequest) *InputRequest {
	for i := range r.InputRequests {
		if other := &r.InputRequests[i]; q.Key != "" && other.Branch == q.Branch && other.Key == q.Key && other.Occurrence == q.Occurrence {
			return other
		}
	}
	return nil
}

// withdraw removes an input request whose answer the work no longer waits for. If the number is 0,
// the work has not begun to wait: withdraw removes the open one that an earlier run has made.
func (run *Run) withdraw(number uint64, q *InputRequest) {
	run.change(context.Background(), func(r *Record) error {
		if earlier := r.inputRequestByKey(q); number == 0 && earlier != nil && earlier.Open() {
			number = earlier.Number
		}
		if r.terminal() || r.inputRequest(number) == nil {
			return errUnchanged
		}
		r.InputRequests = slices.DeleteFunc(slices.Clone(r.InputRequests), func(q InputRequest) bool { return q.Number == number })
		r.leaveInputRequired()
		return nil
	})
	run.m.endClaim(inputRequestID{run.id, number}, nil)
}

// leaveInputRequired moves the task back to working if none of its input requests is open.
func (r *Record) leaveInputRequired() {
	if r.Status == mcp.TaskStatusInputRequired && r.openInputRequests() == 0 {
		r.Status = mcp.TaskStatusWorking
	}
}

// consume marks an input request whose answer was returned to the work.
func (run *Run) consume(number uint64) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.setConsumed(number)
}

// setConsumed is consume for a caller that holds mu.
func (run *Run) setConsumed(number uint64) {
	if run.consumed == nil {
		run.consumed = map[uint64]bool{}
	}
	run.consumed[number] = true
}

// unconsumed returns a new slice of the input requests whose answers the work has not consumed.
func (run *Run) unconsumed(requests []InputRequest) []InputRequest {
	run.mu.Lock()
	defer run.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(requests), func(q InputRequest) bool { return q.Key == "" && run.consumed[q.Number] })
}

// inputRequest returns the input request with the given number, or nil.
func (r *Record) inputRequest(number uint64) *InputRequest {
	for i := range r.InputRequests {
		if r.InputRequests[i].Number == number {
			return &r.InputRequests[i]
		}
	}
	return nil
}

// answer returns the stored answer, or the error of [Run.Ask].
func (q *InputRequest) answer() (json.RawMessage, error) {
	switch {
	case string(q.Error) == taskrules.TimedOut:
		return nil, context.DeadlineExceeded
	case string(q.Error) == taskrules.GivenUp:
		return nil, context.Canceled
	case q.Error != nil:
		return nil, decodeError(q.Error)
	}
	return q.Result, nil
}

// decodeError decodes a stored error.
func decodeError(raw json.RawMessage) *jsonrpc.Error {
	e := new(jsonrpc.Error)
	if err := codec.Unmarshal(raw, e, codec.AllowSize(raw)...); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the stored error is damaged"}
	}
	return e
}

// claim is one attempt to deliver an input request.
type claim struct {
	request InputRequest
	waiter  uint64 // number of the call of Result that makes the attempt
	ctx     context.Context
	cancel  context.CancelCauseFunc
}

// errSuperseded ends the delivery of an input request that was answered or withdrawn, or that a
// later waiter delivers.
var errSuperseded = errors.New("task: input request no longer pending at this waiter")

// claim claims the open input requests of a record for a waiter, unless a later waiter holds the
// claim. It cancels the deliveries of earlier waiters. The record may be out of date; deliver
// checks it again.
func (m *Manager) claim(ctx context.Context, via Requestor, r *Record, waiter uint64, except map[uint64]bool) (claims []*claim) {
	run := m.findLocal(r.ID)
	var open []InputRequest
	for _, q := range r.InputRequests {
		if q.Open() && !except[q.Number] && (run == nil || !run.leavesToOthers(via, q.Method)) {
			open = append(open, q)
		}
	}
	var superseded []*claim
	m.mu.Lock()
	for _, q := range open {
		key := inputRequestID{r.ID, q.Number}
		previous := m.claims[key]
		if previous != nil && previous.waiter >= waiter {
			continue
		}
		if previous != nil {
			superseded = append(superseded, previous)
		}
		c := &claim{request: q, waiter: waiter}
		c.ctx, c.cancel = context.WithCancelCause(ctx)
		m.claims[key] = c
		claims = append(claims, c)
	}
	m.mu.Unlock()
	for _, c := range superseded {
		c.cancel(errSuperseded)
	}
	return claims
}

// leavesToOthers reports whether a waiter leaves input requests of a method to other requestors. It
// does so if it does not support the method, but another waiter or the creator of the task does. An
// unknown creator counts as supporting it. If no requestor supports the method, the waiter takes
// the input request, which then fails.
func (run *Run) leavesToOthers(via Requestor, method string) bool {
	if supports(via, method) {
		return false
	}
	run.mu.Lock()
	others := slices.Clone(run.waiters)
	run.mu.Unlock()
	return run.creator == nil || supports(run.creator, method) ||
		slices.ContainsFunc(others, func(other Requestor) bool { return supports(other, method) })
}

// supports reports whether a requestor supports input requests of a method. It returns true if that
// is unknown.
func supports(via Requestor, method string) (yes bool) {
	capable, ok := via.(Capable)
	if !ok {
		return true
	}
	err := boundary.Run(func() error { yes = capable.Supports(method); return nil })
	return yes || err != nil
}

// endClaim cancels the delivery of an input request, unless that delivery belongs to the claim own.
func (m *Manager) endClaim(key inputRequestID, own *claim) {
	m.mu.Lock()
	c := m.claims[key]
	if c == own {
		c = nil
	}
	m.mu.Unlock()
	if c != nil {
		c.cancel(errSuperseded)
	}
}

// releaseClaim ends a claim. It returns false if the claim had been superseded.
func (m *Manager) releaseClaim(id string, c *claim) bool {
	key := inputRequestID{id, c.request.Number}
	m.mu.Lock()
	if m.claims[key] == c {
		delete(m.claims, key)
	}
	m.mu.Unlock()
	superseded := context.Cause(c.ctx) == errSuperseded
	c.cancel(nil)
	return !superseded
}

// deliver sends a claimed input request to the requestor and stores the answer. It returns true if
// the input request needs no further delivery.
func (m *Manager) deliver(via Requestor, id string, c *claim) bool {
	q := &c.request
	// The previous holder of the claim may have stored an answer before it released the claim.
	var r Record
	if err := m.persist(c.ctx, nil, func() error { return m.logFault("read task", m.store.get(c.ctx, id, &r)) }); err != nil {
		return errors.Is(err, ErrNotFound)
	}
	if stored := r.inputRequest(q.Number); stored == nil || !stored.Open() {
		return true
	}
	result, err := m.call(c.ctx, via, id, q)
	var failure *jsonrpc.Error
	switch {
	case err == nil && len(result) == 0:
		failure = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the answer is empty"}
	case err != nil:
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e == nil {
			return false
		}
		failure = boundary.WireError(err)
	}
	err = m.storeAnswer(c, id, result, failure)
	m.endClaim(inputRequestID{id, q.Number}, c)
	return err == nil
}

// storeAnswer stores the answer to a claimed input request. If the store fails, it tries again
// until the claim ends, because the answer of the user would be lost otherwise.
func (m *Manager) storeAnswer(c *claim, id string, result json.RawMessage, failure *jsonrpc.Error) error {
	if err := m.hold(); err != nil {
		return err
	}
	defer m.group.Done()
	return m.persist(c.ctx, nil, func() error {
		err := m.answer(id, c.request.Number, result, failure)
		if limit, ok := errors.AsType[*LimitError](err); ok {
			err = m.answer(id, c.request.Number, nil, WireError(limit))
		}
		return err
	})
}

// call sends an input request. Its context holds the Run, so that messages about it, such as its
// cancellation, name the task.
func (m *Manager) call(ctx context.Context, via Requestor, id string, q *InputRequest) (result json.RawMessage, err error) {
	defer func() { boundary.Report(m.cfg.Logger, "requestor panicked", err, "task", id) }()
	defer boundary.Catch(&err)
	if run := m.findLocal(id); run != nil {
		ctx = context.WithValue(ctx, runKey{}, run)
	}
	return via.Call(ctx, q.Method, rawJSON(q.Params))
}

// answer stores the answer to an input request, unless the input request was already answered or
// withdrawn.
func (m *Manager) answer(id string, number uint64, result json.RawMessage, failure *jsonrpc.Error) error {
	_, err := m.change(context.Background(), id, func(r *Record) error {
		if r.terminal() || !m.setAnswer(r, number, result, failure) {
			return errUnchanged
		}
		return nil
	})
	return err
}

// setAnswer is Record.setAnswer, except that a result that is too large for the journal becomes an
// error for the work.
func (m *Manager) setAnswer(r *Record, number uint64, result json.RawMessage, failure *jsonrpc.Error) bool {
	if failure != nil {
		return r.setAnswer(number, nil, encodeError(failure))
	}
	before := *r
	if !r.setAnswer(number, result, nil) {
		return false
	}
	if r.Durable == nil {
		return true
	}
	if err := m.checkJournal(r); err != nil {
		*r = before
		return r.setAnswer(number, nil, encodeError(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}))
	}
	return true
}

// setAnswer sets the answer to an input request: the Error or, if that is nil, a result. It returns
// false if there is no such open input request.
func (r *Record) setAnswer(number uint64, result, failure json.RawMessage) bool {
	if q := r.inputRequest(number); q == nil || !q.Open() {
		return false
	}
	r.InputRequests = slices.Clone(r.InputRequests)
	q := r.inputRequest(number)
	if failure != nil {
		q.Error = failure
		q.Params = nil // frees bytes for the error, in case the limit is reached
	} else {
		q.Result = bytes.Clone(result) // the message that contains it may be much larger
	}
	if q.Key != "" {
		q.Params = nil // later runs need only the answer
		r.grown()
	}
	r.leaveInputRequired()
	r.unpark()
	return true
}

// redeliver makes the waiters of a task claim the input requests that are not being delivered. It
// does not write the record: otherwise each peer that connects and disconnects would cause a write
// of the whole record.
func (m *Manager) redeliver(id string) {
	if run := m.findLocal(id); run != nil {
		run.mu.Lock()
		undelivered := run.redelivery
		run.redelivery = nil
		run.mu.Unlock()
		if undelivered != nil {
			undelivered.Cancel(nil)
		}
	}
}

// undelivered returns a context that ends with the next call of redeliver.
func (run *Run) undelivered() context.Context {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.redelivery == nil {
		run.redelivery = new(lazyctx.Cancellable)
	}
	return run.redelivery
}
