package rerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// Retry is a policy for the attempts of a step. See the type of package server.
type Retry struct {
	Attempts   int
	Backoff    time.Duration
	MaxBackoff time.Duration
	Total      time.Duration
	Final      func(err *StepError) bool
}

// StepOption changes how a step runs. See the type of package server.
type StepOption interface{ apply(*stepOptions) }

type stepOptions struct{ retry *Retry }

func (r Retry) apply(o *stepOptions) { o.retry = &r }

// stepWith is [Log.Step] with options.
func (l *Log) stepWith(ctx context.Context, name string, f func(ctx context.Context) (json.RawMessage, error), options []StepOption) (json.RawMessage, error) {
	var o stepOptions
	for _, option := range options {
		if option != nil {
			option.apply(&o)
		}
	}
	if o.retry == nil {
		return l.Step(ctx, name, f)
	}
	return l.retry(ctx, name, *o.retry, f)
}

// The defaults of a Retry.
const (
	defaultAttempts   = 10
	defaultBackoff    = time.Second
	defaultMaxBackoff = time.Minute
)

// withDefaults returns the policy with its defaults, or an error for one that makes no sense.
func (r Retry) withDefaults() (Retry, error) {
	switch {
	case r.Attempts < 0:
		return r, fmt.Errorf("negative Attempts (%d)", r.Attempts)
	case r.Backoff < 0:
		return r, fmt.Errorf("negative Backoff (%v)", r.Backoff)
	case r.MaxBackoff < 0:
		return r, fmt.Errorf("negative MaxBackoff (%v)", r.MaxBackoff)
	case r.Total < 0:
		return r, fmt.Errorf("negative Total (%v)", r.Total)
	}
	if r.Attempts == 0 {
		r.Attempts = defaultAttempts
	}
	if r.Backoff == 0 {
		r.Backoff = defaultBackoff
	}
	if r.MaxBackoff == 0 {
		r.MaxBackoff = max(defaultMaxBackoff, r.Backoff)
	}
	return r, nil
}

// pause returns how long to wait after the n-th attempt: the backoff doubles with each attempt, and
// up to a half of it is left out at random, so that many calls do not repeat their steps together.
func (r *Retry) pause(n int) time.Duration {
	d := r.Backoff
	for ; n > 1 && d <= r.MaxBackoff/2; n-- {
		d *= 2
	}
	if n > 1 {
		d = r.MaxBackoff
	}
	d = min(d, r.MaxBackoff)
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

// retry runs the attempts of a step in a branch of their own: each attempt is a step, and each
// pause a sleep, so that both are recorded and a later run goes on counting. All attempts have the
// same idempotency key. The outcome is that of the last attempt.
func (l *Log) retry(ctx context.Context, name string, policy Retry, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	policy, err := policy.withDefaults()
	if err != nil {
		return nil, l.stepFault(name, fmt.Errorf("retry: %w", err))
	}
	if err := InStep(ctx, "step"); err != nil {
		return nil, err
	}
	b := l.branchOf(ctx)
	all := &Entry{Label: fmt.Sprintf("step %q", name), Position: -1}
	group, err := b.beginGroup(all, "attempts")
	if err != nil {
		return nil, err
	}
	attempts := group[0]
	attempts.attempts = true
	defer l.joined(b, attempts)
	defer b.end(all, nil)
	in := &scope{Context: ctx, branch: attempts}
	start := l.until(time.Now())
	var end time.Time // of the attempts, if Total limits them
	for n := 1; ; n++ {
		text, err := l.Step(in, name, f)
		failed, ok := errors.AsType[*StepError](err)
		if !ok || n == policy.Attempts || policy.Final != nil && policy.Final(failed) {
			return text, err
		}
		if n == 1 && policy.Total > 0 {
			if !failed.began.IsZero() { // otherwise an earlier version of this package has recorded the failure
				start = failed.began
			}
			if end, err = l.endOfAttempts(in, start.Add(policy.Total)); err != nil {
				return nil, err
			}
		}
		next, err := l.sleepUntil(in, name, func() time.Time {
			next := time.Now().Add(policy.pause(n))
			if !end.IsZero() && l.until(next).After(end) {
				return never
			}
			return next
		})
		switch {
		case err != nil:
			return nil, err
		case next.Equal(never):
			return nil, failed
		}
	}
}

// never is the recorded time of an attempt that the policy rules out. It has passed, so that
// nothing waits for it.
var never = time.Unix(0, 0)

// endOfAttempts returns the time after which no attempt of a step is due: that of the first run.
func (l *Log) endOfAttempts(in context.Context, end time.Time) (time.Time, error) {
	text, err := l.Step(in, "end of attempts", func(context.Context) (json.RawMessage, error) {
		return strconv.AppendInt(nil, end.UnixMicro(), 10), nil
	})
	if err != nil {
		return time.Time{}, err
	}
	micro, err := strconv.ParseInt(string(text), 10, 64)
	return time.UnixMicro(micro), err
}
