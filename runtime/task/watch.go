package task

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// watch implements [taskrules.Watch].
type watch struct {
	m         *Manager
	principal string
	changed   func(id string)

	mu  sync.Mutex
	ids map[string]struct{}
}

// watches holds the open watches by task.
type watches struct {
	count  atomic.Int64 // number of tasks that are watched
	mu     sync.RWMutex
	byTask map[string][]*watch
}

// Watch calls changed with the id of a task whenever its status, status message, poll interval or
// open input requests have changed, and when the task has expired. It also calls changed at the
// start for each task whose status is not working. Changed must return at once, and must not call
// methods of the Watch. It may be called concurrently, even before Watch returns. Journals and
// progress do not count as changes.
//
// Known lists the ids that belong to tasks of the principal, without duplicates. Close the Watch
// after use.
func (m managerInternals) Watch(ctx context.Context, principal string, ids []string, changed func(id string)) (_ taskrules.Watch[Record], known []string, err error) {
	if err := m.admit(ctx, principal); err != nil {
		return nil, nil, err
	}
	w := &watch{m: m.Manager, principal: principal, changed: changed, ids: map[string]struct{}{}}
	for _, id := range taskrules.Set(ids) {
		w.add(id) // before the read, so that no change after it is missed
		var r Record
		if m.persist(ctx, nil, func() error { return m.read(ctx, principal, id, &r) }) != nil {
			w.Remove(id)
			if ctx.Err() != nil {
				w.Close()
				return nil, nil, context.Cause(ctx)
			}
			continue
		}
		known = append(known, id)
		if r.Status != mcp.TaskStatusWorking {
			changed(id)
		}
	}
	return w, known, nil
}

func (w *watch) add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ids[id] = struct{}{}
	w.m.fleet.follow(id)
	x := &w.m.watches
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byTask == nil {
		x.byTask = map[string][]*watch{}
	}
	x.byTask[id] = append(x.byTask[id], w)
	x.count.Store(int64(len(x.byTask)))
}

// Get returns the record of a task that the Watch has reported, as GetRecord does. It
// does not count as a call of the principal. If it fails with [ErrUnavailable], the Watch reports
// the task again after a second.
func (w *watch) Get(ctx context.Context, id, method string) (Record, error) {
	var r Record
	if err := w.m.read(ctx, w.principal, id, &r); err != nil {
		if unavailable(err) {
			time.AfterFunc(wakeRetry, func() { w.report(id) })
		}
		return Record{}, withID(id, err)
	}
	w.m.audit.read(&r, method)
	return r, nil
}

// report reports a task, unless it was removed.
func (w *watch) report(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.ids[id]; ok {
		w.call(id)
	}
}

// call calls changed and logs its panic.
func (w *watch) call(id string) {
	err := boundary.Run(func() error { w.changed(id); return nil })
	boundary.Report(w.m.cfg.Logger, "function of a Watch panicked", err, "task", id)
}

// Remove ends the reports of changes of one task.
func (w *watch) Remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(id)
}

// Close ends the Watch.
func (w *watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.ids {
		w.remove(id)
	}
}

// remove is Remove. The caller holds mu.
func (w *watch) remove(id string) {
	if _, ok := w.ids[id]; !ok {
		return
	}
	delete(w.ids, id)
	w.m.fleet.unfollow(id)
	x := &w.m.watches
	x.mu.Lock()
	defer x.mu.Unlock()
	rest := slices.DeleteFunc(x.byTask[id], func(other *watch) bool { return other == w })
	if len(rest) == 0 {
		delete(x.byTask, id)
	} else {
		x.byTask[id] = rest
	}
	x.count.Store(int64(len(x.byTask)))
}

// notify reports a change of a task.
func (x *watches) notify(id string) {
	if x.count.Load() == 0 {
		return
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, w := range x.byTask[id] {
		w.call(id)
	}
}

// view is the part of a task that is not terminal which requestors see. Views are compared to find
// changes.
type view struct {
	message string
	poll    time.Duration
	open    int    // number of open input requests
	numbers uint64 // sum of their numbers
}

func (r *Record) view() view {
	v := view{message: r.StatusMessage, poll: r.PollInterval}
	for i := range r.InputRequests {
		if q := &r.InputRequests[i]; q.Open() {
			v.open++
			v.numbers += q.Number
		}
	}
	return v
}
