package task

import (
	"context"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// lookInterval is how often a job is polled that names no interval. cancelTimeout limits one
// attempt to stop a job, and cancelAttempts is how often that is tried, at first after a
// lookInterval.
const (
	jobPollInterval   = time.Second
	jobCancelTimeout  = 30 * time.Second
	jobCancelAttempts = 8
)

// follow is the work of a task that stands for a job: it starts that, unless it has been
// started before, and looks at it until it is done.
func jobWork(jobs Jobs) Work {
	return func(ctx context.Context, run *Run) (codec.Encoder, error) {
		job, err := run.startJob(ctx, jobs)
		if err != nil {
			return nil, err
		}
		out, err := run.pollJob(ctx, jobs, job)
		switch cause := context.Cause(ctx); {
		case cause == ErrCancelled || cause == ErrExpired:
			run.m.cancelJob(jobs, run.id, job)
			return nil, cause
		case err != nil:
			return nil, err
		case out.Error != nil:
			return nil, out.Error
		}
		return rawJSON(out.Result), nil
	}
}

// startJob returns the name of the task's job, which it starts and stores if it has none.
func (run *Run) startJob(ctx context.Context, jobs Jobs) (string, error) {
	var r Record
	if err := run.m.store.get(ctx, run.id, &r); err != nil || r.Job != "" {
		return r.Job, err
	}
	job, err := jobs.Start(ctx, r)
	if err != nil {
		return "", err
	}
	_, err = run.m.change(context.WithoutCancel(ctx), run.id, func(r *Record) error { r.Job = job; return nil })
	if err != nil { // nobody would know of it: the task is over, or the store fails
		run.m.cancelJob(jobs, run.id, job)
		return "", err
	}
	return job, nil
}

// watchJob looks at a job until it is done or ctx ends.
func (run *Run) pollJob(ctx context.Context, jobs Jobs, job string) (Outcome, error) {
	for {
		look, err := jobs.Look(ctx, job)
		switch {
		case err != nil:
			run.m.cfg.Logger.Warn("job not seen", "task", run.id, "job", job, "error", err)
		case look.Done:
			return look.Outcome, nil
		default:
			run.reportJob(ctx, look)
		}
		wait := look.After
		if wait <= 0 {
			wait = jobPollInterval
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Outcome{}, context.Cause(ctx)
		}
	}
}

// showJob tells the requestor how far a job is.
func (run *Run) reportJob(ctx context.Context, look Look) {
	if look.Progress != nil {
		run.Report(*look.Progress) // one that does not grow is no news
	}
	if look.Message == "" {
		return
	}
	message := statusText(look.Message)
	run.m.change(ctx, run.id, func(r *Record) error { // a failure is logged, and tried again with the next look
		if r.terminal() || r.StatusMessage == message {
			return errUnchanged
		}
		r.StatusMessage = message
		return nil
	})
}

// stopJob cancels a job whose task is terminal. If that fails it tries again, until the Manager
// closes.
func (m *Manager) cancelJob(jobs Jobs, id, job string) {
	wait := jobPollInterval
	for range jobCancelAttempts {
		err := tryCancelJob(jobs, job)
		if err == nil {
			return
		}
		if !boundary.Report(m.cfg.Logger, "Jobs.Cancel panicked", err, "task", id, "job", job) {
			m.cfg.Logger.Warn("job not cancelled", "task", id, "job", job, "error", err)
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-m.lifetime.Done():
			return // the next Manager tries again, if the task was cancelled
		}
	}
}

func tryCancelJob(jobs Jobs, job string) (err error) {
	defer boundary.Catch(&err)
	ctx, cancel := context.WithTimeout(context.Background(), jobCancelTimeout)
	defer cancel()
	return jobs.Cancel(ctx, job)
}
