package durabletest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// run is one run of the handler of a program.
type run struct {
	w       *world
	process *process
	c       *server.Call
	number  int
	handler context.Context
	refused atomic.Bool // an operation has reported that the run is not valid
	over    atomic.Bool // an operation has reported that the call has ended: the next ones may be other than in earlier runs

	// Guarded by mu of w:
	suspended time.Time // when an operation has reported it
	returned  bool      // the handler has returned, or has panicked
	failed    bool      // with an error, and the run was not suspended
}

// branch is a part of a run whose operations follow one another.
type branch struct {
	path      string         // as in the journal
	parent    *branch        // that waits for the end of this one in RunAll, or nil
	groups    int            // number of calls of RunAll, and of steps with attempts
	last      map[string]int // the last occurrence of a kind and a name
	asked     map[string]bool
	suspended bool // one of its operations has reported it
	ended     bool // one of its operations has reported that the call was cancelled, or that the run is not valid
}

// The kinds of operations in a journal.
const (
	stepKind   = 2
	sleepKind  = 3
	undoKind   = 5
	undoneKind = 6
	waitKind   = 7
	timerKind  = 8
)

// identityOf returns the identity of an operation: the branch, the kind, the name and the
// occurrence. Unlike its path, it does not depend on its place in the program.
func identityOf(branch string, kind int, name string, occurrence int) string {
	return fmt.Sprintf("branch %s: kind %d, %s, occurrence %d", branch, kind, name, occurrence)
}

// identity returns the identity of the next operation with a kind and a name.
func (b *branch) identity(kind int, name string) string {
	if b.last == nil {
		b.last = map[string]int{}
	}
	key := fmt.Sprint(kind, name)
	b.last[key]++
	return identityOf(b.path, kind, name, b.last[key])
}

// group returns the path of the next group of branches.
func (b *branch) group() string {
	b.groups++
	return b.child(fmt.Sprint(b.groups))
}

func (b *branch) child(segment string) string {
	if b.path == "" {
		return segment
	}
	return b.path + "/" + segment
}

// join ends branches that b has waited for.
func (b *branch) join(children []branch) {
	for i := range children {
		b.suspended, b.ended = b.suspended || children[i].suspended, b.ended || children[i].ended
	}
}

// durable reports whether the run has a journal.
func (r *run) durable() bool {
	t, ok := r.c.Task()
	return ok && t.Durable()
}

// isSuspended reports whether an operation has reported that the run is suspended.
func (r *run) isSuspended() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return !r.suspended.IsZero()
}

// errOver ends what still runs at the end of a test.
var errOver = errors.New("the test is over")

// handle runs the program of the world as the handler of a call.
func (w *world) handle(ctx context.Context, c *server.Call, p *process) (string, error) {
	w.mu.Lock()
	w.runs++
	r := &run{w: w, process: p, c: c, number: w.runs, handler: ctx}
	if !p.isDead() {
		w.event("run %d begins in process %d", r.number, p.number)
	}
	w.mu.Unlock()
	panicked := true
	var text string
	var err error
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.returned, r.failed = true, (panicked || err != nil || strings.Contains(text, notText) || r.refused.Load()) && r.suspended.IsZero()
		if !p.isDead() && r.failed && ctx.Err() == nil {
			w.failed = true
		}
	}()
	text, err = r.do(ctx, new(branch), w.program, "")
	panicked = false
	if !p.isDead() {
		w.note("run %d returns %q, %v", r.number, text, err)
	}
	return text, err
}

// do runs a statement. Prefix holds the numbers of the iterations around it. Every node returns a
// text that contains the outcomes of its operations, so that the result of the call shows whether
// the handler got the right ones.
func (r *run) do(ctx context.Context, b *branch, n *node, prefix string) (text string, err error) {
	path := fmt.Sprint(prefix, n.id)
	if r.w.fate.changes(n) && r.process.number > 1 {
		switch r.w.fate.change {
		case removed:
			r.w.hasChanged()
			return "removed", nil
		case inserted:
			r.do(ctx, b, &node{kind: step, id: -n.id, takes: time.Millisecond, timeout: n.timeout, abandoned: n.abandoned, inBlock: true}, prefix)
		}
	}
	switch n.kind {
	case seq:
		var parts []string
		for _, child := range n.body {
			part, err := r.do(ctx, b, child, prefix)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, " "), nil
	case all:
		parts := make([]string, len(n.body))
		var branches []func(context.Context) error
		within := make([]branch, len(n.body))
		group := b.group()
		for i, child := range n.body {
			within[i].path, within[i].parent = fmt.Sprintf("%s.%d", group, i+1), b
			branches = append(branches, func(ctx context.Context) (err error) {
				parts[i], err = r.do(ctx, &within[i], child, prefix)
				return err
			})
		}
		err := r.c.RunAll(ctx, branches...)
		b.join(within)
		if err != nil {
			return "", err
		}
		return "(" + strings.Join(parts, "|") + ")", nil
	case beside:
		return r.beside(ctx, b, n, path, prefix)
	case overlap:
		return r.overlap(ctx, b, n, path, prefix)
	case limited:
		ctx, cancel := n.limit(ctx)
		defer cancel()
		return r.do(ctx, b, n.body[0], prefix)
	case fallback:
		if text, err := r.do(ctx, b, n.body[0], prefix); err == nil {
			return text, nil
		}
		text, err := r.do(ctx, b, n.body[1], prefix)
		return "else " + text, err
	case retry, loop:
		var parts []string
		for i := range n.n {
			var part string
			part, err = r.do(ctx, b, n.body[0], fmt.Sprint(prefix, n.id, "#", i, "/"))
			if n.kind == retry && err == nil {
				return part, nil
			}
			if n.kind == loop && err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		if err != nil {
			return "", err
		}
		return strings.Join(parts, ","), nil
	case compensated:
		done, err := r.do(ctx, b, n.body[0], prefix)
		if err != nil {
			return "", err
		}
		defer func() {
			if err != nil {
				r.do(ctx, b, n.body[1], prefix)
			}
		}()
		text, err = r.do(ctx, b, n.body[2], prefix)
		return done + "+" + text, err
	case fail:
		return "", errors.New(n.name())
	case panics:
		panic(n.name())
	case garbled:
		return notText, nil
	}
	limited, cancel := n.limit(ctx)
	defer cancel()
	switch n.kind {
	case step:
		text, err = r.step(limited, b, n, path)
	case sleep:
		r.w.starts(r, b, path, n, b.identity(sleepKind, n.name()), limited)
		err = server.Sleep(limited, r.c, n.name(), func() time.Time {
			at := time.Now().Add(n.takes)
			r.w.until(r, b, path, n, at)
			return at
		})
		text = "slept"
	case ask:
		r.w.starts(r, b, path, n, "", limited)
		text, err = r.ask(limited, n, path)
	case choose:
		text, err = r.choose(limited, b, n, path, prefix)
	case await:
		r.w.starts(r, b, path, n, b.identity(waitKind, n.name()), limited)
		text, err = server.Await[string](limited, r.c, n.name())
		text = "signal " + text
	case register:
		identity := b.identity(undoKind, n.name())
		r.w.starts(r, b, path, n, identity, limited)
		err = server.Compensate(limited, r.c, n.name(), func(ctx context.Context) error {
			return r.undo(ctx, n, path, identity)
		})
		text = "registered"
	}
	return r.outcome(b, n, path, text, err)
}

// limit returns the context of a statement.
func (n *node) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case n.within == 0:
		return ctx, func() {}
	case !n.cancels:
		return context.WithTimeout(ctx, n.within)
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(n.within, cancel)
	return ctx, func() {
		timer.Stop()
		cancel()
	}
}

// beside runs the last child in the branch b, and the others in goroutines with branches of their
// own. It waits for all of them.
func (r *run) beside(ctx context.Context, b *branch, n *node, path, prefix string) (string, error) {
	last := len(n.body) - 1
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quit := func(err error) {
		if _, suspended := errors.AsType[*server.InputRequiredError](err); suspended && n.quits {
			cancel()
		}
	}
	parts, failed, panicked := make([]string, len(n.body)), make([]error, len(n.body)), make([]any, len(n.body))
	within := make([]branch, last)
	var group sync.WaitGroup
	for i, child := range n.body[:last] {
		name := fmt.Sprintf("%s.%d", path, i+1)
		within[i].path = b.child(strconv.Quote(name))
		group.Go(func() {
			defer func() { panicked[i] = recover() }()
			failed[i] = server.Branch(ctx, r.c, name, func(ctx context.Context) (err error) {
				parts[i], err = r.do(ctx, &within[i], child, prefix)
				return err
			})
			quit(failed[i])
		})
	}
	func() {
		defer group.Wait()
		parts[last], failed[last] = r.do(ctx, b, n.body[last], prefix)
		quit(failed[last])
	}()
	b.join(within)
	for i := range n.body {
		if panicked[i] != nil {
			panic(panicked[i])
		}
	}
	for _, err := range failed {
		if err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(parts, "|") + ")", nil
}

// overlap runs the first child in a goroutine and, if that has begun a step, the second one in the
// same branch. That makes the run fail.
func (r *run) overlap(ctx context.Context, b *branch, n *node, path, prefix string) (string, error) {
	var group sync.WaitGroup
	group.Go(func() { r.do(ctx, b, n.body[0], prefix) })
	time.Sleep(time.Millisecond / 2) // when no execution of a step ends
	if !r.w.overlaps(r, fmt.Sprint(prefix, n.body[0].id)) {
		group.Wait()
		return r.do(ctx, b, n.body[1], prefix)
	}
	_, err := r.do(ctx, &branch{path: b.path}, n.body[1], prefix)
	group.Wait()
	if err == nil || !strings.Contains(err.Error(), overlaps) {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		r.w.violate("%s at %s overlaps another operation of its branch, and ends with %v", n.body[1].name(), path, err)
	}
	return "", err
}

// What errors say about a run that is not valid.
const (
	nondeterministic = "not deterministic"
	overlaps         = "in the same branch"
	undoing          = "an earlier run of the handler has failed"
)

// outcome returns the outcome of an operation, and tells the world.
func (r *run) outcome(b *branch, n *node, path, text string, err error) (string, error) {
	suspended, isSuspended := errors.AsType[*server.InputRequiredError](err)
	failed, isFailed := errors.AsType[*server.StepError](err)
	switch {
	case isSuspended:
		b.suspended = true
		r.w.suspend(r, path, n)
		return "", suspended
	case isFailed:
		text := failed.Text
		if n.unencodable && tokenPattern.FindString(text) == "" {
			text = r.w.anonymous(path)
		}
		r.w.saw(r, path, n, text)
		return "", errors.New(text)
	case err == nil && n.kind == sleep:
		r.w.woke(r, path, n)
		return text, nil
	case err == nil:
		r.w.saw(r, path, n, text)
		return text, nil
	case r.handler.Err() != nil || errors.Is(err, task.ErrCancelled) || errors.Is(err, task.ErrExpired):
		b.ended = true
		r.over.Store(true)
		if !r.process.isDead() {
			r.w.note("run %d: %s at %s ends with the handler's context: %v", r.number, n.name(), path, err)
		}
		return "", err
	case r.w.refuses(err):
		r.refused.Store(true)
		b.ended = true
		return "", err
	case n.timeout && errors.Is(err, context.DeadlineExceeded):
		r.w.saw(r, path, n, timedOut)
		return "", errors.New(timedOut)
	case n.abandoned && errors.Is(err, context.Canceled):
		r.w.saw(r, path, n, givenUp)
		return "", errors.New(givenUp)
	}
	text = "error: " + err.Error()
	if strings.Contains(text, "no signal can reach") {
		text = noSignals
	}
	r.w.saw(r, path, n, text)
	return "", errors.New(strings.TrimPrefix(text, "error: "))
}

// noSignals is the outcome of a wait for a signal in a call that is not a task.
const noSignals = "no signals"

// Outcomes of operations whose context has ended.
const (
	timedOut = "timed out"
	givenUp  = "given up"
)

func (r *run) step(ctx context.Context, b *branch, n *node, path string) (string, error) {
	if n.panicking {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if outcome := r.w.anonymous(path); r.handler.Err() == nil && outcome != "" {
				r.w.saw(r, path, n, outcome)
			}
			panic(v)
		}()
	}
	name := n.name()
	if r.w.fate.changes(n) && r.w.fate.change == renamed && r.process.number > 1 {
		name += " renamed"
	}
	var options []server.StepOption
	identity := ""
	if n.attempts > 0 {
		options = append(options, server.Retry{
			Attempts: n.attempts, Backoff: n.backoff, MaxBackoff: 2 * n.backoff, Total: n.total,
			Final: func(err *server.StepError) bool { return strings.HasPrefix(err.Text, "final ") },
		})
		identity = identityOf(b.group()+".attempts", stepKind, name, 1)
		r.w.starts(r, b, path, n, "", ctx)
	} else {
		identity = b.identity(stepKind, name)
		r.w.starts(r, b, path, n, identity, ctx)
	}
	f := func(ctx context.Context) (outcome string, err error) {
		e, ok := r.w.begin(r, b, path, n, identity, server.IdempotencyKey(ctx))
		if !ok {
			<-r.w.over
			return "", errOver
		}
		takes := n.takes
		if e.number > 1 {
			takes = time.Millisecond
		}
		done := ctx.Done()
		if n.deaf {
			done = nil
		}
		outcome = "done "
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			switch {
			case n.failing(e.number) && n.final && e.number == n.failures:
				outcome = "final "
			case n.failing(e.number):
				outcome = "failed "
			case n.unencodable:
				outcome = "unencodable "
			case n.panicking:
				outcome = "panicked "
			}
		case <-done:
			outcome = "late "
		case <-r.w.over:
			return "", errOver
		}
		// The end of the handler's context is the end of its execution, and may leave the step
		// open. So does a cancellation in a suspended run.
		succeeds := outcome == "done "
		outcome += e.token
		cutOff := ctx.Err() == context.Canceled && r.isSuspended()
		r.w.end(e, outcome, (r.handler.Err() != nil || cutOff) && !succeeds)
		if strings.HasPrefix(outcome, "panicked ") {
			panic(outcome)
		}
		if !succeeds && !strings.HasPrefix(outcome, "unencodable ") {
			return "", errors.New(outcome)
		}
		return outcome, nil
	}
	if !n.unencodable {
		return server.Step(ctx, r.c, name, f, options...)
	}
	result, err := server.Step(ctx, r.c, name, func(ctx context.Context) (any, error) {
		outcome, err := f(ctx)
		if strings.HasPrefix(outcome, "unencodable ") {
			return math.NaN(), nil
		}
		return outcome, err
	})
	text, _ := result.(string)
	return text, err
}

// choose waits for the first of several events.
func (r *run) choose(ctx context.Context, b *branch, n *node, path, prefix string) (string, error) {
	r.w.starts(r, b, path, n, b.identity(waitKind, n.name()), ctx)
	if n.has(func(n *node) bool { return n.kind == ask }) {
		b.group()
	}
	cases, values := make([]server.Case, len(n.body)), make([]func() string, len(n.body))
	for i, child := range n.body {
		switch child.kind {
		case ask:
			c := server.OnAnswer(func(ctx context.Context) (string, error) {
				if err := r.lookUp(ctx, child); err != nil {
					return "", err
				}
				return r.ask(ctx, child, fmt.Sprint(prefix, child.id))
			})
			cases[i], values[i] = c, func() string { return c.Value }
		case after:
			cases[i], values[i] = server.After(child.takes), func() string { return "time" }
		case signalled:
			c := server.OnSignal[string](child.name())
			cases[i], values[i] = c, func() string { return "signal " + c.Value }
		}
	}
	first, err := server.Select(ctx, r.c, n.name(), cases...)
	if err != nil {
		return "", err
	}
	i := slices.Index(cases, first)
	return fmt.Sprintf("first %d: %s", i+1, values[i]()), nil
}

// lookUp looks something up for the input request of a case, unless its context ends.
func (r *run) lookUp(ctx context.Context, n *node) error {
	if n.looks == 0 {
		return nil
	}
	timer := time.NewTimer(n.looks)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// undo is the function of a registered undo.
func (r *run) undo(ctx context.Context, n *node, path, identity string) error {
	e, ok := r.w.beginUndo(r, path, n, identity, server.IdempotencyKey(ctx))
	if !ok {
		<-r.w.over
		return errOver
	}
	if n.selects {
		first, err := server.Select(ctx, r.c, n.name(), server.After(time.Second))
		if _, suspended := errors.AsType[*server.InputRequiredError](err); err == nil || suspended {
			r.w.mu.Lock()
			r.w.violate("the undo of %s at %s waits for several events, and gets %v, %v", n.name(), path, first, err)
			r.w.mu.Unlock()
		}
	}
	outcome := "done "
	timer := time.NewTimer(n.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		if n.failing(e.number) {
			outcome = "failed "
		}
	case <-ctx.Done():
		outcome = "late "
	case <-r.w.over:
		return errOver
	}
	r.w.end(e, outcome+e.token, ctx.Err() != nil)
	if outcome == "failed " && n.panicking {
		panic(outcome)
	}
	if outcome != "done " {
		return errors.New(outcome)
	}
	return nil
}

func (r *run) ask(ctx context.Context, n *node, path string) (string, error) {
	var in struct {
		Name string `json:"name"`
	}
	action, err := server.Elicit(ctx, r.c, n.message(path), &in)
	switch {
	case err != nil:
		return "", err
	case action != mcp.ElicitActionAccept:
		return string(action), nil
	}
	return "answer " + in.Name, nil
}
