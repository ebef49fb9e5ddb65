package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// A failure of the store only delays a task. The Manager repeats what it reads and writes for a
// task until the store works again, the task ends, or the Manager closes; see Manager.persist. What
// waits is bounded: while the store fails, no new tasks are created, and a task whose lifetime ends
// waits no longer.

// ErrUnavailable reports that the [Store] has failed, or that a [Manager] creates no tasks because
// the store has been failing for some time. The request may succeed later. The text of the error
// does not tell the cause, which the Manager logs and [Manager.Health] returns.
var ErrUnavailable = errors.New("task: the store of the tasks is not available at present")

// errRefused refuses new tasks while the store fails.
var errRefused error = &storeError{ErrUnavailable}

// storeError is a failure of the store. Its text is fixed, because the error may become the outcome
// of a task: what the store reports, such as the path of a file, must not reach the requestor.
type storeError struct{ cause error }

func (e *storeError) Error() string {
	if errors.Is(e.cause, ErrCorrupt) {
		return ErrCorrupt.Error()
	}
	return ErrUnavailable.Error()
}

func (e *storeError) Unwrap() error { return e.cause }

func (e *storeError) Is(target error) bool {
	return target == ErrUnavailable && !errors.Is(e.cause, ErrCorrupt)
}

// unavailable reports whether err is a failure of the store after which the operation may be
// repeated. Damaged data stays damaged.
func unavailable(err error) bool { return err != nil && errors.Is(err, ErrUnavailable) }

// Pauses between the attempts of an operation while the store fails. The first is firstRetry; each
// further one is twice as long, up to maxRetry.
const (
	firstRetry = 100 * time.Millisecond
	maxRetry   = 5 * time.Second
	// closeAttempts is the number of attempts once the Manager is closed.
	closeAttempts = 6
)

// persist calls f until it returns nil or an error that is not a failure of the store. It returns
// the cause of ctx if that ends during a pause. If run is not nil, f is on behalf of its work:
// persist then returns [ErrCancelled], [ErrExpired] or [ErrFenced] if the store fails after the
// work has ended. Once the Manager is closed, persist returns the error of the last of
// closeAttempts attempts.
func (m *Manager) persist(ctx context.Context, run *Run, f func() error) error {
	for wait, closing := firstRetry, 0; ; wait = min(2*wait, maxRetry) {
		err := f()
		if !unavailable(err) {
			return err
		}
		var ended, closed <-chan struct{}
		if run != nil {
			if over := run.over(); over != nil {
				return over
			}
			if work := run.ctx.Load(); work != nil && work.Err() == nil {
				ended = work.Done()
			}
		}
		if m.lifetime.Err() == nil {
			closed = m.lifetime.Done()
		} else if closing++; closing == 1 {
			wait = firstRetry
		} else if closing == closeAttempts {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-closed:
		case <-ended: // the next attempt is the last one, unless the Manager closes
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// over returns why the work must not go on: [ErrCancelled], [ErrExpired] or [ErrFenced]. It returns
// nil for other work, also after Close. While the store fails, no task is dropped, so the lifetime
// of the task decides here.
func (run *Run) over() error {
	if run.lost.Load() {
		return ErrFenced
	}
	if cause := run.ending(); cause == ErrCancelled || cause == ErrExpired || cause == ErrFenced {
		return cause
	}
	if run.seq != 0 && run.expires != 0 && !run.undoes.Load() && run.m.earlier().UnixMicro() >= run.expires {
		return ErrExpired
	}
	return nil
}

// await sets r to a later revision of it. If the store fails, await reads the record again, which
// may have the same revision, but no earlier one: an input request that was just made would be
// missing there.
func (m *Manager) await(ctx context.Context, run *Run, r *Record) error {
	id, revision, failed := r.ID, r.Revision, false
	return m.persist(ctx, run, func() error {
		if !failed {
			failed = true
			return m.logFault("wait for task", m.store.wait(ctx, r))
		}
		err := m.store.get(ctx, id, r)
		if err == nil && r.Revision < revision {
			err = errOutdated
		}
		return m.logFault("read task", err)
	})
}

// An outage ends with a success. It also ends if nothing has failed for outageQuiet, which is
// longer than the pauses of persist: then nothing has used the store since. After longOutage, the
// Manager refuses new tasks.
const (
	longOutage  = 2 * time.Second
	outageQuiet = maxRetry + time.Second
	outageLog   = time.Second // minimum time between two logged failures
)

// A store may also hang: an operation neither succeeds nor fails, for example because a network disk
// does not answer. After hangTime, that is reported like a long outage, until the operation returns.
// The time is long because a store may make writes wait while it compacts a large file.
const hangTime = 30 * time.Second

// errHangs is the failure of a store that hangs.
var errHangs = fmt.Errorf("task: the store has not answered for %v", hangTime)

// outage is what a Manager knows of the failures of its store. The zero value is a store that
// works.
type outage struct {
	// pending holds the numbers of running operations, in two sets: new operations join the set
	// turn, until hangs lets them join the other one. So an operation costs no look at the clock.
	pending [2]atomic.Int64
	turn    atomic.Int32

	// writes is 0 while the store works, 1 if reads have failed, and 2 if writes have: then a read
	// that succeeds does not end the outage.
	writes atomic.Int32

	mu                    sync.Mutex
	err                   error     // the latest failure
	since, latest, logged time.Time // of the first and the latest failure, and of the latest one that was logged
	turned                time.Time // when turn has changed
	hanging               bool      // hangs has returned an error
}

// begin notes that an operation of the store runs, until end is called with the result.
func (o *outage) begin() (set int32) {
	set = o.turn.Load()
	o.pending[set].Add(1)
	return set
}

func (o *outage) end(set int32) { o.pending[set].Add(-1) }

// hangs returns errHangs if an operation has not returned for hangTime. It finds out by being called
// repeatedly: the operations of the set that is not turn are older than the latest change of turn.
// Began is set for the first error in a row.
func (o *outage) hangs() (err error, began bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, other := time.Now(), 1-o.turn.Load()
	switch age := now.Sub(o.turned); {
	case o.pending[other].Load() > 0 && age >= hangTime:
		began, o.hanging = !o.hanging, true
		return errHangs, began
	case o.pending[other].Load() == 0 && age >= time.Second:
		o.turn.Store(other)
		o.turned = now
	}
	o.hanging = false
	return nil, false
}

// note notes the outcome of an operation of the store.
func (o *outage) note(write bool, err error) {
	if err != nil {
		if !expectedError(err) && !errors.Is(err, ErrCorrupt) {
			o.failed(write, err)
		}
	} else if state := o.writes.Load(); state == 1 || state == 2 && write {
		o.writes.Store(0)
	}
}

func (o *outage) failed(write bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.writes.Load() == 0 || now.Sub(o.latest) > outageQuiet {
		o.since = now
		o.writes.Store(1)
	}
	if write {
		o.writes.Store(2)
	}
	o.err, o.latest = err, now
}

// current returns the latest failure of an outage, and whether the outage is long. It returns nil
// if the store works.
func (o *outage) current() (err error, long bool) {
	if o.writes.Load() == 0 {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.latest) > outageQuiet {
		return nil, false
	}
	return o.err, time.Since(o.since) >= longOutage
}

// logs reports whether a failure is to be logged. Many tasks may meet the same one.
func (o *outage) logs() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !o.logged.IsZero() && now.Sub(o.logged) < outageLog {
		return false
	}
	o.logged = now
	return true
}

// refuses returns an error while the store has been failing for so long that the Manager creates no
// tasks.
func (m *Manager) refuses() error {
	if _, long := m.outage.current(); long || m.hangs() != nil {
		return errRefused
	}
	return nil
}

// hangs returns an error while the store hangs, and logs when that begins.
func (m *Manager) hangs() error {
	err, began := m.outage.hangs()
	if began {
		m.cfg.Logger.Error("task store failed", "error", err)
	}
	return err
}

// logFault returns err, an error of the store in the given operation, as a storeError unless it is
// expected. It logs the failure, but at most one in outageLog unless data is damaged.
func (m *Manager) logFault(operation string, err error) error {
	if err == nil || expectedError(err) {
		return err
	}
	if _, logged := errors.AsType[*storeError](err); logged {
		return err
	}
	if (errors.Is(err, ErrCorrupt) || m.outage.logs()) && !boundary.Report(m.cfg.Logger, "task store panicked", err, "operation", operation) {
		m.cfg.Logger.Error("task store failed", "operation", operation, "error", err)
	}
	return &storeError{err}
}

// expectedError reports whether an error of the store is part of its contract and not a failure. A
// safeStore returns the errors of contexts only for the context of the caller.
func expectedError(err error) bool {
	for _, known := range []error{ErrNotFound, ErrExpired, ErrExists, ErrConflict, ErrClosed, errTaken, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, limit := errors.AsType[*LimitError](err)
	return limit
}
