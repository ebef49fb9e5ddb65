package rerun

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Request is an input request.
type Request struct {
	Method string
	Params json.RawMessage // nil for none
	// Transient marks a request whose response is for the next run alone. Later runs may make the
	// request again, or not. It has no place in the order of operations.
	Transient bool
	// Prepare is called if the request has no recorded response. It returns the [mcp.InputRequest]
	// to send, or nil to send Params, and a label that describes the request in errors. Its error
	// is that of [Log.Ask]. It may be nil.
	Prepare func() (value any, label string, err error)
}

// prepare sets what is not recorded of an input request.
func (q *Request) prepare(a *Asked) (value any, err error) {
	a.Method, a.Params, a.Label = q.Method, q.Params, q.Method
	if q.Prepare == nil {
		return nil, nil
	}
	value, label, err := q.Prepare()
	if err == nil {
		a.Label = label
	}
	return value, err
}

// Ask returns the response to an input request of a task, or of a call with [Options].Rounds. It
// sends the request only if no response is recorded. The Params identify the request, so all runs
// must encode them in the same way. If ctx ends before the execution, the request is given up, in
// later runs as well.
func (l *Log) Ask(ctx context.Context, q *Request) (json.RawMessage, error) {
	if err := InStep(ctx, q.Method); err != nil {
		return nil, err
	}
	a := &Asked{ID: ID{Kind: KindInput, Key: InputKey(q.Method, q.Params)}}
	if q.Transient {
		return l.askOnce(ctx, q, a)
	}
	b := l.branchOf(ctx)
	e := &Entry{ID: a.ID, Label: q.Method}
	found, err := b.begin(ctx, e)
	if other, ok := err.(*NondeterminismError); ok {
		q.prepare(a)
		err = l.rename(other, e, a.Label)
	}
	if err != nil {
		return nil, err
	}
	defer b.end(e, found)
	if found != nil {
		l.answer(b)
		return l.response(e, found)
	}
	value, err := q.prepare(a)
	if err != nil {
		return nil, err
	}
	a.ID, a.Position = e.ID, e.Position
	l.describe(e, a.Label)
	if err := l.store(); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		a.Deadline = l.until(deadline)
	}
	pending := l.pendingRequest(a.ID)
	if pending != nil {
		// Later runs have the deadline of the first one, and withdraw the request if ctx has ended.
		a.Deadline = pending.Deadline
	} else if err := l.unbegun(ctx, b, e); err != nil {
		l.answer(b)
		return nil, err
	}
	if b.selection != nil {
		// In a task, askInTask gives up a request of an earlier run, once ctx ends.
		if err := b.selection.ask(b, e); err != nil && (l.current() == nil || pending == nil) {
			return nil, err
		}
	}
	if run := l.current(); run != nil {
		answer, err := l.askInTask(ctx, run, e, a, value)
		if _, required := err.(*InputRequiredError); required {
			b.suspend()
		} else if outcome(err) {
			l.answer(b)
			l.goOn()
		}
		return answer, err
	}
	if !a.Deadline.IsZero() && !time.Now().Before(a.Deadline) {
		l.answer(b)
		e.Result, e.Failed = timedOut, true
		if err := l.record(e); err != nil {
			return nil, err
		}
		return l.response(e, e)
	}
	return nil, l.askInRound(ctx, b, a, value)
}

// Direct calls f, which makes an input request of a plain call whose handler runs only once, under
// the rules for input requests that are recorded.
func (l *Log) Direct(ctx context.Context, method string, f func() error) error {
	if err := InStep(ctx, method); err != nil {
		return err
	}
	b := l.branchOf(ctx)
	e := &Entry{ID: ID{Kind: KindInput, Key: method}, Label: method}
	found, err := b.begin(ctx, e)
	if err != nil {
		return err
	}
	defer b.end(e, found)
	if b.selection != nil {
		if err := b.selection.ask(b, e); err != nil {
			return err
		}
	}
	if b != &l.top { // whose operations follow one another
		places := l.placesToAsk()
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
	}
	return f()
}

// placesToAsk returns a channel that has room for the input requests that may be open in branches.
func (l *Log) placesToAsk() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places == nil {
		l.places = make(chan struct{}, taskrules.MaxOpenInput)
	}
	return l.places
}

// answer notes that an input request of the branch has an outcome.
func (l *Log) answer(b *branch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b.answered = true
}

// describe sets the label of a new input request for errors.
func (l *Log) describe(e *Entry, label string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fresh != nil && l.fresh.ID == e.ID {
		l.fresh.Label = label
	}
}

// rename returns err with the label of the input request e, which says more, unless err is about
// another operation. It does not change err, which other branches may have.
func (l *Log) rename(err *NondeterminismError, e *Entry, label string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err.New != e.String() {
		return err
	}
	e.Label = label
	renamed := &NondeterminismError{err.Recorded, e.String()}
	if l.fault == error(err) {
		l.fault = renamed
	}
	return renamed
}

// pendingRequest returns the input request of earlier runs without a response that has an ID, or
// nil.
func (l *Log) pendingRequest(id ID) *Asked {
	if i := slices.IndexFunc(l.pending, func(a Asked) bool { return a.ID == id }); i >= 0 {
		return &l.pending[i]
	}
	return nil
}

// response returns the recorded response to the input request e, or its error.
func (l *Log) response(e, recorded *Entry) (json.RawMessage, error) {
	if !recorded.Failed {
		return recorded.Result, nil
	}
	if err := l.unfinished(e, recorded.Result); err != nil {
		return nil, err
	}
	failed := new(jsonrpc.Error)
	if err := codec.Unmarshal(recorded.Result, failed, codec.AllowSize(recorded.Result)...); err != nil {
		return nil, l.faultf("damaged response: %w", err)
	}
	return nil, failed
}

// askOnce is Ask for a transient request.
func (l *Log) askOnce(ctx context.Context, q *Request, a *Asked) (json.RawMessage, error) {
	e := &Entry{ID: a.ID, Label: q.Method}
	found, err := l.beginOnce(e)
	if err != nil {
		return nil, err
	}
	if found != nil {
		return l.response(e, found)
	}
	value, err := q.prepare(a)
	if err != nil {
		return nil, err
	}
	l.describe(e, a.Label)
	if run := l.current(); run != nil {
		return run.Call(ctx, a.Method, paramsOf(a, value))
	}
	return nil, l.askInRound(ctx, &l.top, a, value)
}

// beginOnce is begin for a transient request, whose response it consumes.
func (l *Log) beginOnce(e *Entry) (found *Entry, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	if i := slices.IndexFunc(l.transient, func(other Entry) bool { return other.Key == e.Key }); i >= 0 {
		response := l.transient[i]
		l.transient = slices.Delete(l.transient, i, i+1)
		return &response, nil
	}
	if err := l.top.refuse(e); err != nil {
		return nil, err
	}
	if l.fresh == nil && l.pendingRequest(e.ID) == nil {
		first := *e
		l.fresh = &first
	}
	return nil, nil
}

// askInTask makes an input request of a task. A task that waits long is parked: its handler
// returns, and runs again later.
func (l *Log) askInTask(ctx context.Context, run *task.Run, e *Entry, a *Asked, value any) (json.RawMessage, error) {
	answer, err := run.Ask(ctx, inputRequestOf(a), paramsOf(a, value))
	err = l.checkRecorded(err)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, task.ErrParked):
		return nil, l.suspend(a.Method)
	case err == context.DeadlineExceeded, err == context.Canceled:
		if run.Durable() && l.ctx.Err() == nil {
			return nil, l.unfinished(e, outcomeOf(err))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if required, ok := errors.AsType[*InputRequiredError](l.ending(a.Method)); ok {
		return nil, required
	}
	return nil, err
}

// inputRequestOf returns an input request as the task knows it.
func inputRequestOf(a *Asked) task.InputRequest {
	return task.InputRequest{Method: a.Method, Key: journalKey(a.ID), Occurrence: a.Occurrence, Branch: a.Branch, Position: a.Position, Deadline: a.Deadline}
}

// paramsOf returns the params of an input request as they are sent.
func paramsOf(a *Asked, value any) codec.Encoder {
	switch request := value.(type) {
	case *mcp.ElicitRequest:
		return request.Params
	case *mcp.CreateMessageRequest:
		return &request.Params
	}
	if value == nil && a.Params != nil {
		return session.Raw(a.Params)
	}
	return nil
}
