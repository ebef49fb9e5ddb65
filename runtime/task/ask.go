package task

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// Call asks the requestor and waits for the answer. The task is input_required from then on,
// until all of its questions have an answer. The question goes to the requestor when, and where,
// it calls tasks/result, be that later (MCP tasks, "Input Required Status").
//
// The error is a [*jsonrpc.Error] if the requestor answered with one. Otherwise it is the cause of
// ctx, or [ErrCancelled] or [ErrExpired].
func (run *Run) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	raw, err := related(params, run.id)
	if err != nil {
		return nil, err
	}
	number, r, err := run.ask(ctx, method, raw)
	for err == nil {
		q := r.question(number)
		switch {
		case q == nil: // over meanwhile
			return nil, ErrCancelled
		case !q.Open():
			run.take(number)
			return q.answer()
		}
		r, err = run.m.store.Wait(ctx, run.id, r.Revision)
	}
	run.withdraw(number)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if errors.Is(err, ErrNotFound) {
		return nil, ErrExpired
	}
	if _, over := errors.AsType[*MoveError](err); over {
		return nil, ErrCancelled
	}
	return nil, err
}

// ask stores a question, and drops the answers that were taken.
func (run *Run) ask(ctx context.Context, method string, params json.RawMessage) (number uint64, r Record, err error) {
	run.mu.Lock()
	run.asked++
	number = run.asked
	run.mu.Unlock()
	r, err = run.m.change(ctx, run.id, func(r *Record) error {
		r.Questions = append(run.untaken(r.Questions), Question{Number: number, Method: method, Params: params})
		r.Status = mcp.TaskStatusInputRequired
		return nil
	})
	return number, r, err
}

// withdraw takes a question back that nobody waits for any more.
func (run *Run) withdraw(number uint64) {
	run.m.change(context.Background(), run.id, func(r *Record) error {
		if r.over() || r.question(number) == nil {
			return errSame
		}
		r.Questions = slices.DeleteFunc(slices.Clone(r.Questions), func(q Question) bool { return q.Number == number })
		r.settle()
		return nil
	})
}

// settle moves a task that waits for nothing any more back to working.
func (r *Record) settle() {
	if r.Status == mcp.TaskStatusInputRequired && r.open() == 0 {
		r.Status = mcp.TaskStatusWorking
	}
}

func (run *Run) take(number uint64) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.taken == nil {
		run.taken = map[uint64]bool{}
	}
	run.taken[number] = true
}

// untaken returns a new slice of the questions whose answers were not taken.
func (run *Run) untaken(questions []Question) []Question {
	run.mu.Lock()
	defer run.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(questions), func(q Question) bool { return run.taken[q.Number] })
}

// question returns one of the questions, or nil.
func (r *Record) question(number uint64) *Question {
	for i := range r.Questions {
		if r.Questions[i].Number == number {
			return &r.Questions[i]
		}
	}
	return nil
}

// answer returns what the requestor said.
func (q *Question) answer() (json.RawMessage, error) {
	if q.Error != nil {
		return nil, decodeError(q.Error)
	}
	return q.Result, nil
}

// decodeError returns a stored error.
func decodeError(raw json.RawMessage) *jsonrpc.Error {
	e := new(jsonrpc.Error)
	if err := codec.Unmarshal(raw, e); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the stored error is damaged"}
	}
	return e
}

// claim returns the questions of a record that nobody is delivering, except some, and makes the
// caller who delivers them. The record may be out of date, see deliver.
func (m *Manager) claim(r *Record, except map[uint64]bool) (list []Question) {
	if len(r.Questions) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range r.Questions {
		name := questionID{r.ID, q.Number}
		if q.Open() && !m.claimed[name] && !except[q.Number] {
			m.claimed[name] = true
			list = append(list, q)
		}
	}
	return list
}

// deliver asks the requestor a question that was claimed, and stores the answer; it reports
// whether there is one.
func (m *Manager) deliver(ctx context.Context, via Requestor, id string, q Question) bool {
	// Whoever had the claim before has stored the answer by now, if there is one.
	r, err := m.store.Get(ctx, id)
	if err != nil {
		return false
	}
	if now := r.question(q.Number); now == nil || !now.Open() {
		return true
	}
	result, err := via.Call(ctx, q.Method, rawJSON(q.Params))
	var refused *jsonrpc.Error
	if err != nil {
		var ok bool
		if refused, ok = errors.AsType[*jsonrpc.Error](err); !ok {
			return false
		}
	}
	_, err = m.change(context.Background(), id, func(r *Record) error {
		if r.over() {
			return errSame
		}
		r.Questions = slices.Clone(r.Questions)
		asked := r.question(q.Number)
		if asked == nil || !asked.Open() {
			return errSame // taken back, or answered to another process
		}
		if refused != nil {
			asked.Error = encodeError(refused)
		} else {
			asked.Result = result
		}
		r.settle()
		return nil
	})
	return err == nil
}

func (m *Manager) unclaim(id string, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claimed, questionID{id, number})
}

// touch wakes all who wait for a task that is not over.
func (m *Manager) touch(id string) {
	m.change(context.Background(), id, func(r *Record) error {
		if r.over() {
			return errSame
		}
		return nil
	})
}
