package session

import (
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/mcpwire/mcpwire/mcp"
)

// trackers holds the Trackers of a session by token and by task. Its methods are safe for
// concurrent use.
type trackers struct {
	mu      sync.Mutex
	closed  bool
	byToken map[mcp.ProgressToken]tracked
	byTask  map[string][]weak.Pointer[tracker] // those without a token
}

func newTrackers() *trackers {
	return &trackers{byToken: map[mcp.ProgressToken]tracked{}, byTask: map[string][]weak.Pointer[tracker]{}}
}

// tracked is a reference to a Tracker. It is strong for the Tracker of a call, and weak for others.
type tracked struct {
	call *tracker
	weak weak.Pointer[tracker]
}

// get returns the Tracker, or nil if it has become unreachable.
func (t tracked) get() *tracker {
	if t.call != nil {
		return t.call
	}
	return t.weak.Value()
}

// add registers a new Tracker, or closes it if the session has ended. It returns false if the token
// is in use.
func (r *trackers) add(t *tracker) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.owner = r
	if t.task == "" && r.byToken[t.token].get() != nil {
		return false
	}
	if t.closed = r.closed; t.closed {
		return true
	}
	ref := weak.Make(t)
	if t.task != "" {
		r.byTask[t.task] = append(r.byTask[t.task], ref)
	} else {
		r.byToken[t.token] = tracked{weak: ref}
	}
	token, task := t.token, t.task
	t.forget = runtime.AddCleanup(t, func(ref weak.Pointer[tracker]) { r.remove(token, task, ref) }, ref)
	return true
}

// addCall registers the Tracker of one call. The call closes it.
func (r *trackers) addCall(t *tracker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.owner = r
	if t.closed = r.closed; !t.closed {
		r.byToken[t.token] = tracked{call: t}
	}
}

// drop removes a Tracker.
func (r *trackers) drop(t *tracker) {
	r.mu.Lock()
	ofCall := t.task == "" && r.byToken[t.token].call == t
	if ofCall {
		delete(r.byToken, t.token)
	}
	r.mu.Unlock()
	if !ofCall {
		t.forget.Stop()
		r.remove(t.token, t.task, weak.Make(t))
	}
}

// remove removes a weakly referenced Tracker.
func (r *trackers) remove(token mcp.ProgressToken, task string, ref weak.Pointer[tracker]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if task == "" {
		if r.byToken[token].weak == ref {
			delete(r.byToken, token)
		}
		return
	}
	rest := slices.DeleteFunc(r.byTask[task], func(x weak.Pointer[tracker]) bool { return x == ref })
	if r.byTask[task] = rest; len(rest) == 0 {
		delete(r.byTask, task)
	}
}

// find returns the Trackers of a token and, unless task is "", of a task.
func (r *trackers) find(token mcp.ProgressToken, task string) []*tracker {
	found := make([]*tracker, 0, 2)
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.byToken[token].get(); t != nil {
		found = append(found, t)
	}
	if task != "" {
		for _, ref := range r.byTask[task] {
			if t := ref.Value(); t != nil {
				found = append(found, t)
			}
		}
	}
	return found
}

// close closes all Trackers. Later ones are closed when they are added.
func (r *trackers) close() {
	var open []*tracker
	r.mu.Lock()
	r.closed = true
	for _, ref := range r.byToken {
		if t := ref.get(); t != nil {
			open = append(open, t)
		}
	}
	for _, refs := range r.byTask {
		for _, ref := range refs {
			if t := ref.Value(); t != nil {
				open = append(open, t)
			}
		}
	}
	r.mu.Unlock()
	for _, t := range open {
		t.Close()
	}
}
