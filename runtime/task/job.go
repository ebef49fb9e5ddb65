package task

import (
	"context"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Intervals and limits of jobs.
const (
	jobPollInterval   = time.Second      // between two polls of a job, unless Look.After is set
	jobCancelTimeout  = 30 * time.Second // for one attempt to cancel a job
	jobCancelAttempts = 8                // with pauses that start at jobPollInterval and double
)

// jobWork returns the work of a task that stands for a job. The work starts the job, unless the job
// is already started, and polls it until it is done.
func jobWork(jobs Jobs) Work {
	return func(ctx context.Context, run *Run) (codec.Encoder, error) {
		job, err := run.startJob(ctx, jobs)
		if err != nil {
			return nil, err
		}
		polled := false
		defer func() {
			if !polled { // Look panicked: the task fails, but the job still runs
				run.m.spawn(func() { run.m.cancelJob(jobs, run.id, job) }) // ends when the Manager closes
			}
		}()
		out, err := run.pollJob(ctx, jobs, job)
		polled = true
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

// startJob returns the name of the task's job. If the task has none, it starts the job and stores
// the name.
func (run *Run) startJob(ctx context.Context, jobs Jobs) (string, error) {
	r, err := run.change(ctx, func(*Record) error { return errUnchanged })
	if err != nil || r.Job != "" {
		return r.Job, err
	}
	job, err := jobs.Start(ctx, r)
	if err != nil {
		return "", err
	}
	_, err = run.change(context.WithoutCancel(ctx), func(r *Record) error { r.Job = job; return nil })
	if unavailable(err) { // the Manager closes, and the next one starts the job by the same id
		return "", err
	}
	if err != nil { // the task is terminal, so nothing refers to the job
		run.m.cancelJob(jobs, run.id, job)
		return "", err
	}
	return job, nil
}

// pollJob polls a job until it is done or ctx ends.
func (run *Run) pollJob(ctx context.Context, jobs Jobs, job string) (Outcome, error) {
	for {
		look, err := jobs.Look(ctx, job)
		switch {
		case err != nil:
			run.m.cfg.Logger.Warn("job not polled", "task", run.id, "job", job, "error", err)
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

// reportJob reports the progress and the message of a job to the requestor.
func (run *Run) reportJob(ctx context.Context, look Look) {
	if look.Progress != nil {
		run.Report(*look.Progress) // an error means that the progress has not increased
	}
	if look.Message == "" {
		return
	}
	message := statusText(look.Message)
	// An error is logged, and the next poll tries again.
	run.m.change(ctx, run.id, func(r *Record) error {
		if r.terminal() || r.StatusMessage == message {
			return errUnchanged
		}
		r.StatusMessage = message
		return nil
	})
}

// cancelJob cancels a job whose task has ended. It makes at most jobCancelAttempts attempts and
// stops when the Manager closes.
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
			return // the next Manager tries again if the task was cancelled
		}
	}
}

// tryCancelJob makes one attempt to cancel a job.
func tryCancelJob(jobs Jobs, job string) (err error) {
	defer boundary.Catch(&err)
	ctx, cancel := context.WithTimeout(context.Background(), jobCancelTimeout)
	defer cancel()
	return jobs.Cancel(ctx, job)
}
