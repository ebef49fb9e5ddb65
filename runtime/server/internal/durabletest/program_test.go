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
	register    kind = "register"    // a server.Compensate
	beside      kind = "beside"      // the last child, and the others in goroutines of the handler with a server.Branch each
	limited     kind = "limited"     // the child with a context that ends
	choose      kind = "choose"      // a server.Select of its children: input requests, times and signals
	after       kind = "after"       // a time, as a case
	signalled   kind = "signalled"   // a signal, as a case
	await       kind = "await"       // a server.Await
	overlap     kind = "overlap"     // the first child, and the second one while it runs, in one branch
	fail        kind = "fail"        // returns an error
	panics      kind = "panics"      // panics
	garbled     kind = "garbled"     // adds a text to the result that cannot be sent
)

// notText is not valid UTF-8, so that no client gets a result with it.
const notText = "caf\xe9"

// node is a statement of a program. A program is data, so that it can be generated, run as a
// handler, interpreted by the model, made smaller and printed.
type node struct {
	kind kind
	id   int // place in the program, from 1; see number
	body []*node
	n    int // number of tries or iterations

	// takes is how long the function of a step takes in its first execution, or how long a sleep or
	// a time is. Further executions of a step take a millisecond, and succeed unless failures says
	// something else: they show that the outcome of the first one was lost.
	takes time.Duration
	// within is the timeout of the context of a step, a sleep, an input request or a block; 0 for
	// none.
	within time.Duration
	// cancels says that the handler cancels the context after within, which is no deadline then.
	cancels bool
	// timeout and abandoned say that the context has a deadline, or that the handler cancels it:
	// that of the statement or of a block around it. See number.
	timeout, abandoned bool
	// inBlock says that this holds for a block around the statement.
	inBlock bool
	// quits makes a beside cancel the context of all its children when one of them fails, as an
	// errgroup.Group does, but only because of a suspension: other cancellations are outcomes.
	quits bool
	// fails makes the function of a step return an error, or the user decline.
	fails bool
	// attempts makes a step have a server.Retry with this number of attempts; 0 for none. The pause
	// after the first one is backoff at most, and that after later ones at most twice as long. If
	// total is not 0, no attempt begins later than that after the beginning.
	attempts       int
	backoff, total time.Duration
	// failures is the number of executions of a step with attempts, or of an undo, that fail.
	failures int
	// final makes the last of these failures one that is not tried again.
	final bool
	// sends are the times after the creation of the task at which a signal is sent.
	sends []time.Duration
	// chooser is the number of the choose that an input request is a case of; 0 for none.
	chooser int
	// panicking makes the function of a step panic, and that of an undo where it would fail.
	panicking bool
	// selects makes the function of an undo wait for several events, which is a mistake.
	selects bool
	// looks is how long the function of a case looks something up, with its context, before it makes
	// its input request; 0 if it does not. If the context ends, it makes none.
	looks time.Duration
	// unencodable makes the function of a step return a value that JSON cannot hold.
	unencodable bool
	// deaf makes the function of a step ignore its context.
	deaf bool
	// common gives a step or a signal the name that all such steps or signals have, and an input
	// request the same message in all iterations.
	common bool
	// thinks is how long the user thinks before the answer to an input request.
	thinks time.Duration
}

// number numbers the statements of a program in the order of its text.
func (n *node) number() *node {
	next := 0
	var visit func(n *node, timeout, abandoned bool)
	visit = func(n *node, timeout, abandoned bool) {
		next++
		n.id = next
		n.inBlock = timeout || abandoned
		n.timeout = timeout || n.within > 0 && !n.cancels
		n.abandoned = abandoned || n.within > 0 && n.cancels
		for _, child := range n.body {
			visit(child, n.timeout, n.abandoned)
			if child.chooser = 0; n.kind == choose {
				child.chooser = n.id
			}
		}
	}
	visit(n, false, false)
	return n
}

// delays reports whether a statement delays, in each run, what follows it.
func (n *node) delays() bool { return n.looks > 0 }

// failing reports whether an execution of the function of a step or an undo fails.
func (n *node) failing(number int) bool { return n.fails && number == 1 || number <= n.failures }

// longest returns the longest pause after the n-th attempt of a step.
func (n *node) longest(attempt int) time.Duration {
	if attempt > 1 {
		return 2 * n.backoff
	}
	return n.backoff
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

// steps returns the numbers of the steps that a change may concern: those with a name of their own.
// Without others, which may fail, the program would take another path.
func (n *node) steps(c change) (ids []int) {
	n.has(func(n *node) bool {
		mayFail := n.fails || n.panicking || n.attempts > 0 || n.unencodable || n.timeout || n.abandoned
		if n.kind == step && !n.common && (c != removed || !mayFail) {
			ids = append(ids, n.id)
		}
		return false
	})
	return ids
}

// takesSignal reports whether the statement waits for a signal, which has its name.
func (n *node) takesSignal() bool { return n.kind == await || n.kind == signalled }

func (n *node) name() string {
	if n.common && (n.kind == step || n.takesSignal()) {
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
		if n.cancels {
			limit = fmt.Sprintf("cancelled after %v: ", n.within)
		}
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
		if n.failures > 0 {
			does += fmt.Sprintf(", fails %d times", n.failures)
		}
		if n.final {
			does += ", then finally"
		}
		if n.unencodable {
			does += ", returns NaN"
		}
		if n.panicking {
			does += ", panics"
		}
		policy := ""
		if n.attempts > 0 {
			policy = fmt.Sprintf(", Retry{Attempts: %d, Backoff: %v, MaxBackoff: %v, Total: %v}", n.attempts, n.backoff, 2*n.backoff, n.total)
		}
		line("%sStep(%q%s) // takes %v%s", limit, n.name(), policy, n.takes, does)
	case sleep:
		line("%sSleep(%q, %v)", limit, n.name(), n.takes)
	case ask:
		does := ""
		if n.fails {
			does = ", and declines"
		}
		if n.looks > 0 {
			does += fmt.Sprintf(", after a lookup of %v", n.looks)
		}
		line("%sElicit(%q) // the user thinks for %v%s", limit, n.name(), n.thinks, does)
	case choose:
		line("%sSelect(%q,", limit, n.name())
		for _, child := range n.body {
			block(child)
		}
		line(")")
	case after:
		line("After(%v)", n.takes)
	case signalled:
		line("OnSignal(%q) // sent after %v", n.name(), n.sends)
	case await:
		line("%sAwait(%q) // sent after %v", limit, n.name(), n.sends)
	case register:
		does := ""
		if n.panicking {
			does = " with a panic"
		}
		if n.selects {
			does += ", calls Select"
		}
		line("Compensate(%q) // takes %v, fails %d times%s", n.name(), n.takes, n.failures, does)
	case beside:
		last := len(n.body) - 1
		for _, child := range n.body[:last] {
			line("go Branch(func() {")
			block(child)
			line("})")
		}
		block(n.body[last])
		if n.quits {
			line("wait() // the first suspension cancels all")
			return
		}
		line("wait()")
	case limited:
		line("%s{", limit)
		block(n.body[0])
		line("}")
	case overlap:
		line("go func() {")
		block(n.body[0])
		line("}()")
		block(n.body[1])
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
	case garbled:
		line("result += %q", notText)
	}
}

// smaller returns programs that are simpler than n by one change.
func (n *node) smaller() (out []*node) {
	var visit func(at *node, replace func(*node) *node)
	visit = func(at *node, replace func(*node) *node) {
		add := func(with *node) { out = append(out, replace(with).clone().number()) }
		for _, child := range at.body {
			if at.kind != choose || child.kind == ask {
				add(child)
			}
		}
		if at.kind == seq || at.kind == all || at.kind == beside || at.kind == choose {
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
		if at.within > 0 && at.kind != limited {
			change(func(n *node) { n.within = 0 })
		}
		if at.cancels {
			change(func(n *node) { n.cancels = false })
		}
		if at.attempts > 0 {
			change(func(n *node) { n.attempts, n.failures, n.total, n.final = 0, 0, 0, false })
		}
		if at.failures > 0 {
			change(func(n *node) { n.failures-- })
		}
		if at.total > 0 {
			change(func(n *node) { n.total = 0 })
		}
		if len(at.sends) > 1 {
			change(func(n *node) { n.sends = n.sends[:1] })
		}
		if at.unencodable {
			change(func(n *node) { n.unencodable = false })
		}
		if at.panicking {
			change(func(n *node) { n.panicking = false })
		}
		if at.selects {
			change(func(n *node) { n.selects = false })
		}
		if at.looks > 0 {
			change(func(n *node) { n.looks = 0 })
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
