package durabletest

import (
	"fmt"
	"strings"
	"time"
)

// kind is the kind of a statement.
type kind string

const (
	seq         kind = "seq"         // runs its children one after the other until one fails
	step        kind = "step"        // a server.Step
	sleep       kind = "sleep"       // a server.Sleep
	ask         kind = "ask"         // a server.Elicit
	all         kind = "all"         // Call.RunAll of its children
	fallback    kind = "fallback"    // the first child and, if that fails, the second one
	retry       kind = "retry"       // the child, again if it fails, n times in all
	loop        kind = "loop"        // the child, n times
	compensated kind = "compensated" // the first child, a deferred second one if the third one fails, the third one
	fail        kind = "fail"        // returns an error
	panics      kind = "panics"      // panics
)

// node is a statement of a program. A program is data, so that it can be generated, run as a
// handler, interpreted by the model, made smaller and printed.
type node struct {
	kind kind
	id   int // place in the program, from 1; see number
	body []*node
	n    int // number of tries or iterations

	// takes is how long the function of a step takes in its first execution, or how long a sleep
	// is. Further executions of a step take a millisecond and succeed: they show that the outcome
	// of the first one was lost.
	takes time.Duration
	// within is the timeout of the context of a step, a sleep or an input request; 0 for none.
	within time.Duration
	// fails makes the function of a step return an error, or the user decline.
	fails bool
	// deaf makes the function of a step ignore its context.
	deaf bool
	// common gives a step the name that all such steps have, and an input request the same message
	// in all iterations.
	common bool
	// thinks is how long the user thinks before the answer to an input request.
	thinks time.Duration
}

// number numbers the statements of a program in the order of its text.
func (n *node) number() *node {
	next := 0
	var visit func(n *node)
	visit = func(n *node) {
		next++
		n.id = next
		for _, child := range n.body {
			visit(child)
		}
	}
	visit(n)
	return n
}

// clone returns a deep copy.
func (n *node) clone() *node {
	out := *n
	out.body = nil
	for _, child := range n.body {
		out.body = append(out.body, child.clone())
	}
	return &out
}

// has reports whether the program has a statement for which match returns true.
func (n *node) has(match func(*node) bool) bool {
	if match(n) {
		return true
	}
	for _, child := range n.body {
		if child.has(match) {
			return true
		}
	}
	return false
}

// steps returns the numbers of the steps.
func (n *node) steps() (ids []int) {
	n.has(func(n *node) bool {
		if n.kind == step {
			ids = append(ids, n.id)
		}
		return false
	})
	return ids
}

func (n *node) name() string {
	if n.common && n.kind == step {
		return "common"
	}
	return fmt.Sprintf("%s %d", n.kind, n.id)
}

// message returns the message of an input request at a path. It ends with the number of the
// statement.
func (n *node) message(path string) string {
	if n.common {
		path = fmt.Sprint(n.id)
	}
	return "Who is " + path + "?"
}

// String returns the program as text that resembles Go.
func (n *node) String() string {
	var b strings.Builder
	n.print(&b, 0)
	return b.String()
}

func (n *node) print(b *strings.Builder, depth int) {
	line := func(format string, args ...any) {
		fmt.Fprintf(b, "%s%s\n", strings.Repeat("\t", depth), fmt.Sprintf(format, args...))
	}
	block := func(child *node) { child.print(b, depth+1) }
	limit := ""
	if n.within > 0 {
		limit = fmt.Sprintf("within %v: ", n.within)
	}
	switch n.kind {
	case seq:
		for _, child := range n.body {
			child.print(b, depth)
		}
	case step:
		does := ""
		if n.deaf {
			does += ", ignores its context"
		}
		if n.fails {
			does += ", fails"
		}
		line("%sStep(%q) // takes %v%s", limit, n.name(), n.takes, does)
	case sleep:
		line("%sSleep(%q, %v)", limit, n.name(), n.takes)
	case ask:
		does := ""
		if n.fails {
			does = ", and declines"
		}
		line("%sElicit(%q) // the user thinks for %v%s", limit, n.name(), n.thinks, does)
	case all:
		line("RunAll(")
		for _, child := range n.body {
			line("func() {")
			block(child)
			line("},")
		}
		line(")")
	case fallback:
		line("if err := func() error {")
		block(n.body[0])
		line("}(); err != nil {")
		block(n.body[1])
		line("}")
	case retry:
		line("for range %d { // until it succeeds", n.n)
		block(n.body[0])
		line("}")
	case loop:
		line("for range %d {", n.n)
		block(n.body[0])
		line("}")
	case compensated:
		line("func() (err error) {")
		block(n.body[0])
		line("\tdefer func() { if err != nil {")
		n.body[1].print(b, depth+2)
		line("\t} }()")
		block(n.body[2])
		line("}()")
	case fail:
		line("return errors.New(%q)", n.name())
	case panics:
		line("panic(%q)", n.name())
	}
}

// smaller returns programs that are simpler than n by one change.
func (n *node) smaller() (out []*node) {
	var visit func(at *node, replace func(*node) *node)
	visit = func(at *node, replace func(*node) *node) {
		add := func(with *node) { out = append(out, replace(with).clone().number()) }
		for _, child := range at.body {
			add(child)
		}
		if at.kind == seq || at.kind == all {
			for i := range at.body {
				if len(at.body) > 1 {
					with := *at
					with.body = append(append([]*node(nil), at.body[:i]...), at.body[i+1:]...)
					add(&with)
				}
			}
		}
		change := func(f func(*node)) {
			with := *at
			f(&with)
			add(&with)
		}
		if at.n > 1 {
			change(func(n *node) { n.n-- })
		}
		if at.within > 0 {
			change(func(n *node) { n.within = 0 })
		}
		if at.fails {
			change(func(n *node) { n.fails = false })
		}
		if at.deaf {
			change(func(n *node) { n.deaf = false })
		}
		if at.common {
			change(func(n *node) { n.common = false })
		}
		for i, child := range at.body {
			visit(child, func(other *node) *node {
				with := *at
				with.body = append([]*node(nil), at.body...)
				with.body[i] = other
				return replace(&with)
			})
		}
	}
	visit(n, func(n *node) *node { return n })
	return out
}
