package durabletest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// run is one run of the handler of a program.
type run struct {
	w         *world
	process   *process
	c         *server.Call
	number    int
	suspended time.Time   // when an operation has reported it; guarded by mu of w
	refused   atomic.Bool // an operation has reported that the handler is not deterministic
	handler   context.Context
}

// branch is a part of a run whose operations follow one another.
type branch struct {
	path      string
	groups    int            // number of calls of RunAll
	steps     map[string]int // number of steps with a name
	suspended bool           // one of its operations has reported it
	ended     bool           // one of its operations has reported that the call was cancelled, or that the run is not valid
}

// identity returns the identity of the next step with a name: the branch, the name and the
// occurrence. Unlike the path of a step, it does not depend on its place in the program.
func (b *branch) identity(name string) string {
	if b.steps == nil {
		b.steps = map[string]int{}
	}
	b.steps[name]++
	return fmt.Sprintf("%s: %s, occurrence %d", b.path, name, b.steps[name])
}

// durable reports whether the run has a journal.
func (r *run) durable() bool {
	t, ok := r.c.Task()
	return ok && t.Durable()
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
	text, err := r.do(ctx, new(branch), w.program, "")
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
		b.groups++
		for i, child := range n.body {
			within[i].path = fmt.Sprintf("%s/%d.%d", b.path, b.groups, i+1)
			branches = append(branches, func(ctx context.Context) (err error) {
				parts[i], err = r.do(ctx, &within[i], child, prefix)
				return err
			})
		}
		err := r.c.RunAll(ctx, branches...)
		for i := range within {
			b.suspended, b.ended = b.suspended || within[i].suspended, b.ended || within[i].ended
		}
		if err != nil {
			return "", err
		}
		return "(" + strings.Join(parts, "|") + ")", nil
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
	}
	r.w.starts(r, path, n)
	if n.within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, n.within)
		defer cancel()
	}
	switch n.kind {
	case step:
		text, err = r.step(ctx, b, n, path)
	case sleep:
		err = server.Sleep(ctx, r.c, n.name(), func() time.Time {
			at := time.Now().Add(n.takes)
			r.w.until(r, b, path, n, at)
			return at
		})
		text = "slept"
	case ask:
		text, err = r.ask(ctx, n, path)
	}
	return r.outcome(b, n, path, text, err)
}

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
		r.w.saw(r, path, n, failed.Text)
		return "", errors.New(failed.Text)
	case err == nil && n.kind == sleep:
		r.w.woke(r, path, n)
		return text, nil
	case err == nil:
		r.w.saw(r, path, n, text)
		return text, nil
	case r.handler.Err() != nil || errors.Is(err, task.ErrCancelled):
		b.ended = true
		if !r.process.isDead() {
			r.w.note("run %d: %s at %s ends with the handler's context: %v", r.number, n.name(), path, err)
		}
		return "", err
	case r.w.fate.renamed > 0 && strings.Contains(err.Error(), "not deterministic"):
		r.refused.Store(true)
		b.ended = true
		return "", err
	case n.within > 0 && errors.Is(err, context.DeadlineExceeded):
		r.w.saw(r, path, n, "timed out")
		return "", errors.New("timed out")
	}
	r.w.saw(r, path, n, "error: "+err.Error())
	return "", err
}

func (r *run) step(ctx context.Context, b *branch, n *node, path string) (string, error) {
	name := n.name()
	if r.w.fate.renames(n) && r.process.number > 1 {
		name += " renamed"
	}
	identity := b.identity(name)
	return server.Step(ctx, r.c, name, func(ctx context.Context) (string, error) {
		e, ok := r.w.begin(r, b, path, n, identity, server.IdempotencyKey(ctx))
		if !ok {
			<-r.w.over
			return "", errOver
		}
		takes, fails := n.takes, n.fails
		if e.number > 1 {
			takes, fails = time.Millisecond, false
		}
		done := ctx.Done()
		if n.deaf {
			done = nil
		}
		outcome := "done " + e.token
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			if fails {
				outcome = "failed " + e.token
			}
		case <-done:
			outcome = "late " + e.token
		case <-r.w.over:
			return "", errOver
		}
		// The end of the handler's context is the end of its execution, and may leave the step
		// open.
		interrupted := r.handler.Err() != nil && !strings.HasPrefix(outcome, "done")
		r.w.end(e, outcome, interrupted)
		if !strings.HasPrefix(outcome, "done") {
			return "", errors.New(outcome)
		}
		return outcome, nil
	})
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
