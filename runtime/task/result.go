package task

import (
	"context"
	"errors"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Result waits until a task is terminal and returns its outcome (MCP tasks, "Result Retrieval"). It
// may be called any number of times, also concurrently.
//
// While it waits, Result sends the input requests of the work to the requestor through via, with
// ctx. If several callers wait, the latest receives the input requests. They are then cancelled at
// the earlier callers, and sent to an earlier caller again if the later one leaves. The first
// answer counts. Progress goes to the latest caller, too. If via is nil, Result only waits.
func (m *Manager) Result(ctx context.Context, principal, id string, via Requestor) (Outcome, error) {
	out, err := m.result(ctx, principal, id, via)
	if err != nil && ctx.Err() == nil { // a caller that stops waiting was not refused
		m.audit.refused(principal, id, mcp.MethodTasksResult, err)
	}
	return out, withID(id, err)
}

func (m *Manager) result(ctx context.Context, principal, id string, via Requestor) (Outcome, error) {
	if err := m.admit(ctx, principal); err != nil {
		return Outcome{}, err
	}
	var r Record
	err := m.persist(ctx, nil, func() error { return m.read(ctx, principal, id, &r) })
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
	if r.extension() {
		if r.Result, err = taskrules.RelateValid(r.Result, r.ID); err != nil {
			return Outcome{}, m.logFault("read task", err)
		}
	}
	return Outcome{Result: r.Result}, nil
}

// wait waits until the outcome of a task is stored, and sets r to the record with it.
func (m *Manager) wait(ctx context.Context, r *Record, via Requestor) error {
	m.audit.waiting.Add(1)
	defer m.audit.waiting.Add(-1)
	var run *Run
	if via != nil {
		var leave func()
		if run, leave = m.fleet.attend(ctx, r); run != nil {
			run.addWaiter(via)
			defer run.removeWaiter(via)
		}
		defer leave()
	}
	waiter := m.lastWaiter.Add(1)
	both := lazyctx.WithBoth(ctx, m.lifetime)
	var d *delivery
	defer func() { d.wait() }() // after both.Release, which ends every delivery
	defer both.Release()
	for !r.terminal() {
		until := both
		open := r.openInputRequests() > 0
		if run != nil && (open || run.attends) {
			// Called before start, so that a call of redeliver in between is not missed.
			until = lazyctx.WithBoth(both, run.undelivered())
		}
		if open && until != both {
			if d == nil {
				d = &delivery{waiter: waiter}
			}
			d.start(both, m, via, r)
		}
		// Frees the payloads while waiting, as a store may return a separate copy to each waiter.
		r.Params, r.InputRequests = nil, nil
		err := m.await(until, nil, r)
		again := until != both && until.Err() != nil
		if until != both {
			until.Release()
		}
		if err != nil && again && both.Err() == nil {
			err = m.persist(both, nil, func() error { return m.logFault("read task", m.store.get(both, r.ID, r)) })
		}
		if err != nil && both.Err() != nil {
			return both.Cause()
		}
		if errors.Is(err, ErrNotFound) || err == nil && r.undo() == taskrules.UndoExpired {
			return ErrExpired // only expired tasks are dropped
		}
		if err != nil {
			return err
		}
		r.show()
	}
	return nil
}

// delivery holds the deliveries of input requests by one call of Result.
type delivery struct {
	waiter uint64 // number of the call
	group  sync.WaitGroup
	mu     sync.Mutex
	// failed holds the numbers of the input requests whose delivery failed. This call does not
	// claim them again.
	failed map[uint64]bool
}

// wait waits until all deliveries have returned. The receiver may be nil.
func (d *delivery) wait() {
	if d != nil {
		d.group.Wait()
	}
}

// start claims the open input requests of a task, except those that a later waiter delivers. It
// delivers each in a separate goroutine, which ends with the answer or with ctx. If a delivery
// fails, the other waiters of the task may claim the input request.
func (d *delivery) start(ctx context.Context, m *Manager, via Requestor, r *Record) {
	d.mu.Lock()
	claims := m.claim(ctx, via, r, d.waiter, d.failed)
	d.mu.Unlock()
	id := r.ID
	for _, c := range claims {
		d.group.Go(func() {
			done := m.deliver(via, id, c)
			if !done && context.Cause(c.ctx) != errSuperseded {
				// Before releaseClaim, so that this call does not claim it again.
				d.markFailed(c.request.Number)
			}
			if m.releaseClaim(id, c) && !done {
				m.redeliver(id)
			}
		})
	}
}

// markFailed excludes an input request from further claims by this call of Result.
func (d *delivery) markFailed(number uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		d.failed = map[uint64]bool{}
	}
	d.failed[number] = true
}
