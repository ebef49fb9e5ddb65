package task

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// Result waits until a task is over and returns its outcome, which it can do any number of times
// (MCP tasks, "Result Retrieval"). Meanwhile it brings the input requests of the work to the
// requestor, through via, with ctx. If there are several callers, the latest receives input
// requests. They are cancelled at an earlier caller, and sent to it again if the later one goes
// away. The first answer counts. Progress goes to the latest caller too. Via may be nil: then it
// only waits.
func (m *Manager) Result(ctx context.Context, principal, id string, via Requestor) (Outcome, error) {
	out, err := m.result(ctx, principal, id, via)
	if err != nil && ctx.Err() == nil { // to give up waiting is no refusal
		m.audit.refused(principal, id, mcp.MethodTasksResult, err)
	}
	return out, err
}

func (m *Manager) result(ctx context.Context, principal, id string, via Requestor) (Outcome, error) {
	if err := m.admit(principal); err != nil {
		return Outcome{}, err
	}
	var r Record
	err := m.read(ctx, principal, id, &r)
	if err == nil && !r.terminal() {
		err = m.wait(ctx, &r, via)
	}
	if err != nil {
		return Outcome{}, err
	}
	m.audit.read(&r, mcp.MethodTasksResult)
	if r.Error != nil {
		return Outcome{Error: decodeError(r.Error)}, nil
	}
	return Outcome{Result: r.Result}, nil
}

// wait replaces the record of a task by the one with its outcome, once that is there.
func (m *Manager) wait(ctx context.Context, r *Record, via Requestor) error {
	m.audit.waiting.Add(1)
	defer m.audit.waiting.Add(-1)
	run := m.findRun(r.ID)
	if run != nil && via != nil {
		run.addWaiter(via)
		defer run.removeWaiter(via)
	}
	waiter := m.lastWaiter.Add(1)
	both := lazyctx.WithBoth(ctx, m.lifetime)
	var d *delivery
	defer func() { d.wait() }() // after the context has ended, which ends every delivery
	defer both.Release()
	for !r.terminal() {
		until := both
		if via != nil && run != nil && r.openInputRequests() > 0 {
			if d == nil {
				d = &delivery{waiter: waiter}
			}
			until = lazyctx.WithBoth(both, run.undelivered()) // before start, which may find all claimed
			d.start(both, m, via, r)
		}
		r.Params, r.InputRequests = nil, nil // a store may give each waiter a copy of its own
		err := m.store.wait(until, r)
		again := until != both && until.Err() != nil
		if until != both {
			until.Release()
		}
		if err != nil && again && both.Err() == nil {
			err = m.store.get(both, r.ID, r)
		}
		if err != nil && both.Err() != nil {
			return both.Cause()
		}
		if errors.Is(err, ErrNotFound) {
			return ErrExpired // nothing else makes a task go
		}
		if err != nil {
			return m.logFault("wait for task", err)
		}
	}
	return nil
}

// delivery is the questions that one caller brings to the requestor.
type delivery struct {
	waiter uint64 // number of the caller
	group  sync.WaitGroup
	mu     sync.Mutex
	failed map[uint64]bool // not to be tried again here
}

// wait waits until nothing is being brought any more. A nil delivery has brought nothing.
func (d *delivery) wait() {
	if d != nil {
		d.group.Wait()
	}
}

// start delivers the input requests of a task that no later waiter delivers. Each has a goroutine,
// which ends with its answer or with ctx. One that finds no answer is left to other waiters, which
// this wakes.
func (d *delivery) start(ctx context.Context, m *Manager, via Requestor, r *Record) {
	d.mu.Lock()
	list := m.claim(ctx, via, r, d.waiter, d.failed)
	d.mu.Unlock()
	id := r.ID
	for _, c := range list {
		d.group.Go(func() {
			done := m.deliver(via, id, c)
			if !done && context.Cause(c.ctx) != errSuperseded {
				d.markFailed(c.request.Number) // before unclaim, so that it is not claimed here again
			}
			if m.releaseClaim(id, c) && !done {
				m.redeliver(id)
			}
		})
	}
}

func (d *delivery) markFailed(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = map[uint64]bool{}
	}
	d.failed[number] = true
}
