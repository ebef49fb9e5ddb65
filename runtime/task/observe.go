package task

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Observer observes the work of tasks, for example to trace it. Its methods, and the functions that
// they return, are called concurrently, in the goroutine of what they observe, and must return
// quickly. They cannot make a task fail: a panic of them is logged.
type Observer interface {
	// Trace is called with the context of the request that creates a task, before the task is
	// stored. It returns the [Record].Trace, which is truncated to 1024 bytes.
	Trace(ctx context.Context) string

	// Run is called before each run of the work of a task: after its creation, when the work is
	// re-run, possibly in another process, and when parked work runs again. It gets the record
	// without its payloads; see [Record.Brief]. The work gets the returned context, which must be
	// derived from ctx. When the work has returned, end is called with its result and its error,
	// which is [ErrParked] if the work is parked. End may be nil.
	Run(ctx context.Context, r Record) (derived context.Context, end func(result codec.Encoder, err error))

	// Wait is called when work begins to wait for the answer to an input request with a method. Ctx
	// is the context of the input request. When the wait has ended, end is called with its error,
	// which is nil or that of the requestor if there is an answer. End may be nil.
	Wait(ctx context.Context, run *Run, method string) (end func(err error))
}

// maxTrace is the maximum length of a [Record].Trace in bytes.
const maxTrace = 1024

// observe calls f, which calls the Observer, and logs its panic.
func (m *Manager) observe(f func()) {
	err := boundary.Run(func() error { f(); return nil })
	boundary.Report(m.cfg.Logger, "Options.Hooks.Observer panicked", err)
}

// trace returns the trace of a task that is created under ctx.
func (m *Manager) trace(ctx context.Context) (text string) {
	if o := m.cfg.Hooks.Observer; o != nil {
		m.observe(func() { text = boundary.Text(o.Trace(ctx), maxTrace) })
	}
	return text
}

// observed returns work that reports its run to the Observer, if there is one.
func (m *Manager) observed(r *Record, work Work) Work {
	o := m.cfg.Hooks.Observer
	if o == nil {
		return work
	}
	brief := r.Brief()
	return func(ctx context.Context, run *Run) (result codec.Encoder, err error) {
		var end func(codec.Encoder, error)
		m.observe(func() {
			var derived context.Context
			if derived, end = o.Run(ctx, brief); derived != nil {
				ctx = derived
			}
		})
		err = boundary.ErrGoexit // stays so if the work calls runtime.Goexit
		defer func() {
			if end != nil {
				m.observe(func() { end(result, err) })
			}
		}()
		result, err = callWork(ctx, run, work)
		return result, err
	}
}

// observeWait reports to the Observer, which is not nil, that work waits for the answer to an input
// request. The caller calls end when the wait has ended.
func (run *Run) observeWait(ctx context.Context, method string) (end func(error)) {
	var observed func(error)
	run.m.observe(func() { observed = run.m.cfg.Hooks.Observer.Wait(ctx, run, method) })
	return func(err error) {
		if observed != nil {
			run.m.observe(func() { observed(err) })
		}
	}
}
