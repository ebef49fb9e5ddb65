package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/replay"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Sleep waits until the time that f returns. F is called in the first run only: later runs wait for
// the rest. If ctx ends first, Sleep returns its cause.
func (r *Run) Sleep(ctx context.Context, name string, f func() time.Time) error {
	if name == "" {
		return errors.New(r.pkg + ": sleep without a name")
	}
	if f == nil {
		return fmt.Errorf("%s: sleep %q: nil function", r.pkg, name)
	}
	if err := InStep(ctx, "sleep"); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	err := r.recorder.Sleep(ctx, name, func() time.Time { return r.shared(f()) }, func(until time.Time) error { return r.wait(ctx, until) })
	if errors.Is(err, task.ErrParked) {
		r.recorder.Suspend()
		err = replay.ErrSuspended
	}
	return r.failed(err, "")
}

// shared converts a time of this process to that of all processes that may run the task.
func (r *Run) shared(until time.Time) time.Time {
	if t := r.current(); t != nil {
		return t.SharedTime(until)
	}
	return until
}

// wait waits until a time, or returns the cause of ctx. If a plain call becomes a task during the
// wait, the task waits for the rest. If an input request ends the round, the next round does.
func (r *Run) wait(ctx context.Context, until time.Time) error {
	if t := r.current(); t != nil {
		return t.Sleep(ctx, until)
	}
	var became, suspended <-chan struct{}
	if r.rounds != nil {
		became, suspended = r.rounds.became, r.recorder.Suspension()
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-became:
		return r.wait(ctx, until)
	case <-suspended:
		return replay.ErrSuspended
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
