package durabletest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// model interprets a program with the outcomes that its operations had in a world, and compares
// what may and must have happened with what has happened.
type model struct {
	w       *world
	visited map[string]bool
}

var (
	// errCut ends a branch whose next operation has no outcome, because the call was cancelled or
	// lost. Nothing else of the branch has happened then, not even a fallback or a compensation.
	errCut = errors.New("cut")
	// errPanic is a panic of the handler.
	errPanic = errors.New("panic")
	// errGarbled is the failure of a call whose result cannot be sent.
	errGarbled = errors.New("garbled")
)

// check interprets the program and reports violations. Cut says that the call has no outcome of its
// own, because it was cancelled or lost. Otherwise, check returns the outcome that the call must
// have.
func (w *world) check(cut bool) (text string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &model{w, map[string]bool{}}
	text, _, err = m.do(w.program, "", 0, cut)
	if err == nil && strings.Contains(text, notText) {
		err = errGarbled
	}
	if err == errCut && !cut {
		w.violate("the call has an outcome, although an operation has none")
	}
	for path, op := range w.ops {
		// The end of a call that is not durable does not prevent it.
		plain := cut && (w.taskID == "" || w.fate.mode == relaxed) && op.node.kind == register
		if !m.visited[path] && op.hasHappened() && op.node.id > 0 && !plain {
			w.violate("%s at %s must not happen", op.node.name(), path)
		}
	}
	m.undos(err, cut)
	w.checkSignals()
	used := map[string]string{}
	for path, op := range w.ops {
		token := tokenPattern.FindString(op.seen)
		if other, ok := used[token]; ok && token != "" {
			w.violate("%s and %s have the same outcome %s", path, other, op.seen)
		}
		used[token] = path
	}
	return text, err
}

// hasHappened reports whether an operation has begun, apart from rounds that were lost.
func (op *operation) hasHappened() bool {
	return !op.until.IsZero() || op.node.kind == register && op.seen != "" || slices.ContainsFunc(op.executions, func(e *execution) bool { return !e.lost })
}

// do interprets a statement that begins after an event. It returns the event after which it has
// ended. Its errors are those of the handler, errCut and errPanic.
func (m *model) do(n *node, prefix string, after int, cut bool) (text string, ended int, err error) {
	path := fmt.Sprint(prefix, n.id)
	switch n.kind {
	case seq:
		var parts []string
		for _, child := range n.body {
			var part string
			if part, after, err = m.do(child, prefix, after, cut); err != nil {
				return "", after, err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "), after, nil
	case all, beside:
		parts := make([]string, len(n.body))
		last := after
		var first error
		panicked, isCut := false, false
		for i, child := range n.body {
			var end int
			parts[i], end, err = m.do(child, prefix, after, cut)
			last = max(last, end)
			panicked = panicked || err == errPanic
			isCut = isCut || err == errCut
			if first == nil {
				first = err
			}
		}
		switch {
		case isCut: // RunAll waits for the branch that is cut
			return "", last, errCut
		case panicked:
			return "", last, errPanic
		case first != nil:
			return "", last, first
		}
		return "(" + strings.Join(parts, "|") + ")", last, nil
	case fallback:
		text, after, err = m.do(n.body[0], prefix, after, cut)
		if err == nil || err == errCut || err == errPanic {
			return text, after, err
		}
		text, after, err = m.do(n.body[1], prefix, after, cut)
		return "else " + text, after, err
	case retry, loop:
		var parts []string
		for i := range n.n {
			text, after, err = m.do(n.body[0], fmt.Sprint(prefix, n.id, "#", i, "/"), after, cut)
			if err == errCut || err == errPanic || n.kind == loop && err != nil {
				return "", after, err
			}
			if n.kind == retry && err == nil {
				return text, after, nil
			}
			parts = append(parts, text)
		}
		if err != nil {
			return "", after, err
		}
		return strings.Join(parts, ","), after, nil
	case limited:
		return m.do(n.body[0], prefix, after, cut)
	case overlap: // which has not happened
		if _, after, err = m.do(n.body[0], prefix, after, cut); err == errCut {
			return "", after, err
		}
		return m.do(n.body[1], prefix, after, cut)
	case compensated:
		done, after, err := m.do(n.body[0], prefix, after, cut)
		if err != nil {
			return "", after, err
		}
		text, after, err := m.do(n.body[2], prefix, after, cut)
		if err != nil && err != errCut && err != errPanic {
			if _, end, undo := m.do(n.body[1], prefix, after, cut); undo == errCut || undo == errPanic {
				return "", end, undo
			} else {
				after = end
			}
		}
		return done + "+" + text, after, err
	case fail:
		return "", after, errors.New(n.name())
	case panics:
		return "", after, errPanic
	case garbled:
		return notText, after, nil
	}
	m.visited[path] = true
	op := m.w.ops[path]
	if op == nil || op.seen == "" {
		if !cut {
			m.w.violate("%s at %s must happen, and the handler must get its outcome", n.name(), path)
		}
		if op != nil {
			for _, e := range op.executions {
				after = max(after, e.ended)
			}
		}
		return "", after, errCut
	}
	for _, e := range op.executions {
		if e.began < after && !e.lost {
			m.w.violate("%s at %s begins before the operations before it have ended", n.name(), path)
		}
	}
	switch n.kind {
	case step:
		m.step(op)
	case ask:
		m.ask(op)
	case sleep:
		m.sleep(op)
	case choose, await:
		m.choose(op)
	case register:
		if op.seen != "registered" {
			m.w.violate("%s at %s has the outcome %q", n.name(), path, op.seen)
		}
	}
	switch {
	case strings.HasPrefix(op.seen, "done "), strings.HasPrefix(op.seen, "answer "), op.seen == "decline", op.seen == "slept", op.seen == "registered",
		strings.HasPrefix(op.seen, "first "), strings.HasPrefix(op.seen, "signal "):
		return op.seen, op.firstSeen, nil
	case strings.HasPrefix(op.seen, "panicked "):
		return "", op.firstSeen, errPanic
	case strings.HasPrefix(op.seen, "error: "):
		return "", op.firstSeen, errors.New(strings.TrimPrefix(op.seen, "error: "))
	}
	return "", op.firstSeen, errors.New(op.seen)
}

// mayEnd reports whether the outcome of an operation may be that its context has ended.
func (n *node) mayEnd(outcome string) bool {
	return outcome == timedOut && n.timeout || outcome == givenUp && n.abandoned
}

// step checks the outcome of a step.
func (m *model) step(op *operation) {
	n := op.node
	e := m.w.byToken[tokenPattern.FindString(op.seen)]
	if e == nil {
		if !n.mayEnd(op.seen) || !n.inBlock && n.attempts == 0 && !m.w.disturbed { // before its function was called
			m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen)
		}
		return
	}
	takes, want := n.takes, "done"
	if e.number > 1 {
		takes = 0
	}
	ends := n.within
	if n.inBlock {
		ends = 0
	}
	switch {
	case ends > 0 && ends < takes && !n.deaf:
		want = "late"
	case n.failing(e.number) && n.final && e.number == n.failures:
		want = "final"
	case n.failing(e.number):
		want = "failed"
	case n.unencodable:
		want = "unencodable"
	case n.panicking:
		want = "panicked"
	}
	got, _, _ := strings.Cut(op.seen, " ")
	if got != want && !(got == "late" && !n.deaf && (n.inBlock || m.w.disturbed && ends > 0 || n.attempts > 0 && ends > 0)) {
		m.w.violate("%s at %s has the outcome %q, want one that is %s", n.name(), op.path, op.seen, want)
	}
	if n.attempts == 0 {
		return
	}
	attempts := m.w.attempts(op)
	if len(attempts) > 0 && attempts[len(attempts)-1] != e {
		m.w.violate("%s at %s has the outcome %q, which is not that of the last attempt", n.name(), op.path, op.seen)
	}
	over := n.total > 0 && (m.w.disturbed || e.endedAt.Add(n.longest(len(attempts))).Sub(op.executions[0].at) > n.total)
	if (got == "failed" || got == "late") && len(attempts) < n.attempts && !over {
		m.w.violate("%s at %s has the outcome %q after %d attempts", n.name(), op.path, op.seen, len(attempts))
	}
}

// sleep checks the outcome of a sleep.
func (m *model) sleep(op *operation) {
	n := op.node
	late := n.within > 0 && n.within < n.takes
	switch {
	case op.seen == "slept":
		if late && !n.cancels && !m.w.disturbed {
			m.w.violate("%s at %s has not timed out", n.name(), op.path)
		}
	case !n.mayEnd(op.seen), !n.inBlock && !late && !m.w.disturbed && !m.w.fate.rounds():
		m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen)
	}
}

// ask checks the outcome of an input request.
func (m *model) ask(op *operation) {
	n := op.node
	q := m.w.questions[n.message(op.path)]
	switch {
	case n.mayEnd(op.seen):
		if n.within > n.thinks && !n.inBlock && !m.w.disturbed && !m.w.fate.partial {
			m.w.violate("%s at %s timed out, although the user has answered in time", n.name(), op.path)
		}
	case q == nil:
		m.w.violate("%s at %s has the outcome %q, and the user was never asked", n.name(), op.path, op.seen)
	case op.seen == "decline" && n.fails:
	case strings.HasPrefix(op.seen, "answer ") && !n.fails && q.answers[tokenPattern.FindString(op.seen)] == op.seen:
		if n.within > 0 && n.within < n.thinks && !n.cancels && !m.w.disturbed && !m.w.fate.rounds() {
			m.w.violate("%s at %s was answered after its deadline", n.name(), op.path)
		}
	default:
		m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen)
	}
}

// undos checks which undos have run, for a call with the outcome err.
func (m *model) undos(err error, cut bool) {
	durable := m.w.fate.tasks() && m.w.fate.mode != relaxed && m.w.taskID != ""
	succeeded := err == nil && !cut || m.w.completed
	for path, op := range m.w.ops {
		switch {
		case op.node.kind != register || m.w.fate.lost > 0 || m.w.givesUpUndos():
		case succeeded && len(op.undos) > 0:
			m.w.violate("the undo of %s at %s has run, although the call has succeeded", op.node.name(), path)
		case succeeded || op.seen == "" || cut && !durable && m.w.fate.mode != inSession:
		case !op.isUndone():
			m.w.violate("the undo of %s at %s has not run", op.node.name(), path)
		}
	}
}
