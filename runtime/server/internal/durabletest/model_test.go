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
)

// check interprets the program and reports violations. Cut says that the call has no outcome of its
// own, because it was cancelled or lost. Otherwise, check returns the outcome that the call must
// have.
func (w *world) check(cut bool) (text string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &model{w, map[string]bool{}}
	text, _, err = m.do(w.program, "", 0, cut)
	if err == errCut && !cut {
		w.violate("the call has an outcome, although an operation has none")
	}
	for path, op := range w.ops {
		if !m.visited[path] && op.hasHappened() {
			w.violate("%s at %s must not happen", op.node.name(), path)
		}
	}
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
	return !op.until.IsZero() || slices.ContainsFunc(op.executions, func(e *execution) bool { return !e.lost })
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
	case all:
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
	}
	switch {
	case strings.HasPrefix(op.seen, "done "), strings.HasPrefix(op.seen, "answer "), op.seen == "decline", op.seen == "slept":
		return op.seen, op.firstSeen, nil
	case strings.HasPrefix(op.seen, "error: "):
		return "", op.firstSeen, errors.New(strings.TrimPrefix(op.seen, "error: "))
	}
	return "", op.firstSeen, errors.New(op.seen)
}

// step checks the outcome of a step.
func (m *model) step(op *operation) {
	n := op.node
	e := m.w.byToken[tokenPattern.FindString(op.seen)]
	if e == nil && op.seen == "timed out" && n.within > 0 && m.w.disturbed {
		return // before its function was called
	}
	if e == nil {
		m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen)
		return
	}
	takes, fails := n.takes, n.fails
	if e.number > 1 {
		takes, fails = 0, false
	}
	want := "done"
	switch {
	case n.within > 0 && n.within < takes && !n.deaf:
		want = "late"
	case fails:
		want = "failed"
	}
	if got, _, _ := strings.Cut(op.seen, " "); got != want && !(m.w.disturbed && n.within > 0 && got == "late") {
		m.w.violate("%s at %s has the outcome %q, want one that is %s", n.name(), op.path, op.seen, want)
	}
}

// ask checks the outcome of an input request.
func (m *model) ask(op *operation) {
	n := op.node
	q := m.w.questions[n.message(op.path)]
	switch {
	case op.seen == "timed out" && n.within > 0:
		if n.within > n.thinks && !m.w.disturbed && !m.w.fate.partial {
			m.w.violate("%s at %s timed out, although the user has answered in time", n.name(), op.path)
		}
	case q == nil:
		m.w.violate("%s at %s has the outcome %q, and the user was never asked", n.name(), op.path, op.seen)
	case op.seen == "decline" && n.fails:
	case strings.HasPrefix(op.seen, "answer ") && !n.fails && q.answers[tokenPattern.FindString(op.seen)] == op.seen:
		if n.within > 0 && n.within < n.thinks && !m.w.disturbed && !m.w.fate.rounds() {
			m.w.violate("%s at %s was answered after its deadline", n.name(), op.path)
		}
	default:
		m.w.violate("%s at %s has the outcome %q", n.name(), op.path, op.seen)
	}
}
