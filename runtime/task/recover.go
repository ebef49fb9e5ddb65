package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// takers is how many tasks are taken up at once: their writes then share transactions, in a store
// that can do that.
const takers = 64

// recover takes up the tasks that the last Manager has left.
func (m *Manager) recover(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ids := make(chan string)
	var group sync.WaitGroup
	for range takers { // they end with the scan
		group.Go(func() {
			for id := range ids {
				if err := m.takeUp(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
					cancel(err)
				}
			}
		})
	}
	err := m.scan(ctx, ids)
	close(ids)
	group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// scan counts all tasks, and sends the ids of those that are to be taken up.
func (m *Manager) scan(ctx context.Context, ids chan<- string) error {
	for r, err := range m.store.Scan(ctx) {
		if err != nil {
			return err
		}
		m.limits.adopt(r.Owner, r.Bytes, !r.over())
		if r.over() || r.expired(time.Now()) {
			continue
		}
		select {
		case ids <- r.ID:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// takeUp goes on with a task, or fails it.
func (m *Manager) takeUp(ctx context.Context, id string) error {
	r, err := m.store.Get(ctx, id)
	if err != nil {
		return err
	}
	var work Work
	switch {
	case r.Runner != "":
		if jobs := m.cfg.Jobs[r.Runner]; jobs != nil {
			work = follow(jobs)
		}
	case r.Restartable && m.cfg.Resume != nil:
		work = m.cfg.Resume(r)
	}
	if work == nil {
		return m.abandon(ctx, id)
	}
	run, err := m.newRun(context.WithoutCancel(ctx), &r, nil)
	if err != nil {
		return err
	}
	// Questions of the work that is gone have nobody who waits for the answers.
	_, err = m.change(ctx, id, func(r *Record) error {
		if r.Questions == nil {
			return errSame
		}
		r.Questions = nil
		r.settle()
		return nil
	})
	if err != nil {
		m.forget(run)
		m.group.Done()
		return err
	}
	m.audit.resumed(&r)
	go m.work(run, work) // ends with the work; counted by newRun
	return nil
}

// abandon fails a task that cannot go on.
func (m *Manager) abandon(ctx context.Context, id string) error {
	const message = "the receiver was restarted while the task was running, and the work cannot be resumed"
	_, err := m.change(ctx, id, func(r *Record) error {
		r.end(mcp.TaskStatusFailed, message, Outcome{Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}})
		return nil
	})
	return err
}
