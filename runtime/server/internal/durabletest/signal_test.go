package durabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// beginSignals begins to send signals to the task: at the times that the program says, and from time
// to time as long as the handler waits for more of them. The caller holds mu.
func (w *world) beginSignals() {
	names := map[string]bool{}
	w.program.has(func(n *node) bool {
		if n.takesSignal() {
			names[n.name()] = true
			for _, at := range n.sends {
				time.AfterFunc(at, func() { w.send(n.name()) })
			}
		}
		return false
	})
	if len(names) == 0 {
		return
	}
	go func() { // ends at the end of the test
		ticker := time.NewTicker(1300*time.Millisecond + 977*time.Nanosecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-w.over:
				return
			}
			for name := range names {
				if w.lacks(name) {
					go w.send(name) // ends when the signal is stored, or at the end of the test
				}
			}
		}
	}()
}

// lacks reports whether an operation waits for a signal with a name.
func (w *world) lacks(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, op := range w.ops {
		waits := op.node.takesSignal() && op.node.name() == name
		for _, child := range op.node.body {
			waits = waits || op.node.kind == choose && child.takesSignal() && child.name() == name
		}
		if waits && op.seen == "" {
			return true
		}
	}
	return false
}

// send sends a signal with a name through one of the processes that serve.
func (w *world) send(name string) {
	if w.schedule.ended() {
		return
	}
	w.mu.Lock()
	var through *process
	for _, p := range w.booted {
		if !p.ending() && p.s.Tasks() != nil {
			through = p
		}
	}
	if through == nil {
		w.mu.Unlock()
		time.AfterFunc(100*time.Millisecond+time.Microsecond, func() { w.send(name) })
		return
	}
	s := &signal{task: w.taskID, name: name, token: w.token()}
	s.begun = w.event("signal %q is sent through process %d: %s", name, through.number, s.token)
	w.signals = append(w.signals, s)
	w.sending.Add(1)
	defer w.sending.Done()
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := through.s.Signal(ctx, s.task, name, s.token)
	w.mu.Lock()
	defer w.mu.Unlock()
	if through.isDead() || w.schedule.ended() {
		return
	}
	now := w.event("signal %s is sent: %v", s.token, err)
	_, ended := errors.AsType[*task.MoveError](err)
	switch {
	case err == nil:
		s.acked = now
	case ended, errors.Is(err, task.ErrNoSignals), errors.Is(err, task.ErrNotFound), errors.Is(err, task.ErrExpired):
	case !w.disturbed:
		w.violate("signal %s: %v", s.token, err)
	}
}

// checkSignals checks that no signal was lost, and that the handler got signals of one name in
// their order. The caller holds mu.
func (w *world) checkSignals() {
	for i, s := range w.signals {
		for _, later := range w.signals[i+1:] {
			if later.name != s.name || later.task != s.task || s.acked == 0 || later.begun < s.acked || later.taken.IsZero() {
				continue
			}
			if s.taken.IsZero() || s.taken.After(later.taken) {
				w.violate("the handler has got signal %s, and not %s before it", later.token, s.token)
			}
		}
	}
}

// takesNoSignals checks that a task that has ended takes no signals.
func (w *world) takesNoSignals() {
	id := w.task()
	if id == "" || !w.program.has((*node).takesSignal) {
		return
	}
	p := w.living(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.s.Signal(ctx, id, "late", "late"); err == nil && !p.ending() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.violate("a task that has ended takes a signal")
	}
}

// timer returns after which time a choose ends without another event; 0 if it does not.
func (n *node) timer() time.Duration {
	end := time.Duration(0)
	for _, child := range n.body {
		if child.kind == after && (end == 0 || child.takes < end) {
			end = child.takes
		}
	}
	return end
}

// chosen checks the outcome of a choose when the handler gets it first. The caller holds mu.
func (w *world) chosen(op *operation) {
	n, prefix := op.node, op.path[:strings.LastIndex(op.path, "/")+1]
	won := 0
	fmt.Sscanf(op.seen, "first %d:", &won)
	end := n.timer()
	for i, child := range n.body {
		if child.kind != ask {
			continue
		}
		message := child.message(fmt.Sprint(prefix, child.id))
		q := w.questions[message]
		if i+1 != won && q != nil && !w.fate.modern() {
			time.AfterFunc(time.Second, func() { w.isWithdrawn(message) })
		}
		if q == nil || w.disturbed || won == 0 || n.body[won-1].kind != after {
			continue
		}
		for token, at := range q.at {
			if at.Before(op.begun.Add(end - time.Millisecond)) {
				w.violate("%s at %s ends with a time, although the user has answered with %s before", n.name(), op.path, token)
			}
		}
	}
	if won == 0 || end == 0 {
		return
	}
	if early := time.Until(op.begun.Add(end)); n.body[won-1].kind == after && early > time.Microsecond {
		w.violate("%s at %s ends %v before its time", n.name(), op.path, early)
	}
	if late := time.Since(op.waits.Add(end)); late > time.Millisecond && !w.disturbed && !w.fate.rounds() && !w.program.has((*node).delays) {
		w.violate("%s at %s ends %v after its time", n.name(), op.path, late)
	}
}

// choose checks the outcome of a choose or an await.
func (m *model) choose(op *operation) {
	n := op.node
	takes := n.has((*node).takesSignal)
	bad := func() { m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen) }
	if takes && !m.w.fate.tasks() || op.seen == noSignals {
		if op.seen != noSignals || !takes || m.w.fate.tasks() {
			bad()
		}
		return
	}
	if n.mayEnd(op.seen) {
		return
	}
	token := tokenPattern.FindString(op.seen)
	child, want := n, "signal "+token
	if n.kind == choose {
		won := 0
		if fmt.Sscanf(op.seen, "first %d:", &won); won < 1 || won > len(n.body) {
			bad()
			return
		}
		child = n.body[won-1]
		switch child.kind {
		case ask:
			want = "answer " + token
			if child.fails {
				want = "decline"
			}
			q := m.w.questions[child.message(fmt.Sprint(op.path[:strings.LastIndex(op.path, "/")+1], child.id))]
			if q == nil || !child.fails && q.answers[token] == "" {
				bad()
			}
		case after:
			want = "time"
		}
		want = fmt.Sprintf("first %d: %s", won, want)
	}
	if op.seen != want {
		bad()
	}
	if !child.takesSignal() {
		return
	}
	for _, s := range m.w.signals {
		if s.token == token && s.name == child.name() {
			return
		}
	}
	bad()
}
