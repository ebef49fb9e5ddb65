package follow

import (
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
)

// taskIDs is the member of filters that names tasks (MCP tasks extension, "Task Status
// Notifications").
const taskIDs = "taskIds"

// followedTasks are the tasks that a Listener follows. The lock of the Listener guards it.
type followedTasks struct {
	byID    map[string]*followedTask
	refused bool // the server has rejected a subscription to tasks
}

// followedTask is a task with those that follow it.
type followedTask struct {
	followers []*taskFollower
	accepted  bool // the open subscription reports the task
}

// taskFollower is a call of Task.
type taskFollower struct{ changed func(reported bool) }

// Task follows a task of the Tasks extension until stop is called. The Listener calls changed with
// true each time that the server has accepted a subscription to the task. It may have missed
// changes before. It calls changed with false when that subscription is lost, and when the server
// does not report the task, which then is not followed any longer. Changed must return at once, and
// must not call methods of the Listener.
func (l *Listener) Task(id string, changed func(reported bool)) (stop func()) {
	f := &taskFollower{changed}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks.refused {
		return func() {}
	}
	t := l.tasks.byID[id]
	if t == nil {
		if l.tasks.byID == nil {
			l.tasks.byID = map[string]*followedTask{}
		}
		t = new(followedTask)
		l.tasks.byID[id] = t
		l.update()
	} else if t.accepted {
		changed(true)
	}
	t.followers = append(t.followers, f)
	return func() { l.leaveTask(id, f) }
}

// leaveTask undoes Task. The open subscription keeps the id until another one replaces it, so that
// a task costs one request, but ends if it was the last.
func (l *Listener) leaveTask(id string, f *taskFollower) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tasks.byID[id]
	if t == nil {
		return // not reported
	}
	if t.followers = slices.DeleteFunc(t.followers, func(x *taskFollower) bool { return x == f }); len(t.followers) > 0 {
		return
	}
	if delete(l.tasks.byID, id); !l.follows() {
		l.update()
	}
}

// filter adds the followed tasks to a filter.
func (x *followedTasks) filter(filter *mcp.SubscriptionFilter) {
	if len(x.byID) == 0 {
		return
	}
	text, err := codec.Marshal(value.Of(slices.Sorted(maps.Keys(x.byID))))
	if err == nil { // strings are always encoded
		filter.Extra.Set(taskIDs, text)
	}
}

// tasksOf returns the ids of the tasks in a filter.
func tasksOf(filter *mcp.SubscriptionFilter) (ids []string) {
	if text, ok := filter.Extra.Get(taskIDs); ok {
		codec.Unmarshal(text, value.Of(&ids)) // invalid ones count as none
	}
	return ids
}

// acceptTasks tells the followers which of the tasks in a filter the server has accepted. again
// reports whether there was no subscription for a time.
func (l *Listener) acceptTasks(wanted, accepted *mcp.SubscriptionFilter, again bool) {
	asked, reported := tasksOf(wanted), map[string]bool{}
	for _, id := range tasksOf(accepted) {
		reported[id] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range asked {
		t := l.tasks.byID[id]
		switch {
		case t == nil:
		case !reported[id]:
			delete(l.tasks.byID, id)
			t.set(false)
		case again || !t.accepted:
			t.set(true)
		}
	}
	if len(asked) > 0 && !l.follows() {
		l.update()
	}
}

// loseTasks tells the followers that no subscription is open.
func (l *Listener) loseTasks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks.byID {
		if t.accepted {
			t.set(false)
		}
	}
}

// refuseTasks stops following tasks, because the server has rejected a subscription. The waiters
// get the answer to the next one. It returns false if the subscription named no tasks.
func (l *Listener) refuseTasks(wanted *mcp.SubscriptionFilter) bool {
	if !wanted.Extra.Has(taskIDs) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks.byID {
		t.set(false)
	}
	l.tasks = followedTasks{refused: true}
	l.waiters, l.asked = append(l.asked, l.waiters...), nil
	return true
}

// set tells the followers whether the server reports the task.
func (t *followedTask) set(accepted bool) {
	t.accepted = accepted
	for _, f := range t.followers {
		f.changed(accepted)
	}
}
