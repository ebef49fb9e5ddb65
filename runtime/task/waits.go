package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// ErrParked is returned by [Run.Ask], [Run.Sleep] and waits for signals when the work has waited for
// [Recovery.ParkAfter]. The work then returns an error that wraps ErrParked. Its task keeps its
// status and has no goroutine. The work runs again when one of the answers or the time to wake has
// come.
var ErrParked = errors.New("task: parked: return this error, the work runs again when the wait is over")

// waits is the state of the waits of one run of work that can be parked. All waits of a run end
// with ErrParked at the same time. The methods of a nil *waits do nothing.
type waits struct {
	parkAfter time.Duration
	ended     lazyctx.Cancellable // ends when the waits end with ErrParked

	mu       sync.Mutex
	waiting  int         // number of current waits
	holds    int         // number of current holds
	lastBusy time.Time   // latest begin or end of a wait or a hold
	timer    *time.Timer // calls check; nil if not running
	parked   *awaited    // what the waits that have ended with ErrParked were for; nil if none has
}

// begin counts a wait.
func (w *waits) begin() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting++
	w.lastBusy = time.Now()
	if w.timer == nil && w.ended.Err() == nil {
		w.timer = time.AfterFunc(w.parkAfter, w.check)
	}
}

// end undoes begin.
func (w *waits) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	w.lastBusy = time.Now()
}

// hold adds n to the number of holds.
func (w *waits) hold(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holds += n
	w.lastBusy = time.Now()
}

// check ends all waits if the work has done nothing but wait for parkAfter. The timer calls it.
func (w *waits) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return // stopped
	}
	if w.timer = nil; w.waiting == 0 {
		return // the next wait starts the timer
	}
	left := w.parkAfter
	if w.holds == 0 {
		left -= time.Since(w.lastBusy)
	}
	if left > 0 {
		w.timer = time.AfterFunc(left, w.check)
		return
	}
	w.ended.Cancel(ErrParked)
}

// hurry lowers the time after which the waits end with ErrParked.
func (w *waits) hurry(parkAfter time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parkAfter = min(w.parkAfter, parkAfter)
	if w.timer != nil {
		w.timer.Stop()
		w.timer = time.AfterFunc(w.parkAfter, w.check)
	}
}

// stop stops the timer once the work has returned.
func (w *waits) stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

// addInput adds an input request whose wait ends with ErrParked.
func (w *waits) addInput(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaits().inputs = append(w.awaits().inputs, number)
}

// addSignals adds names of signals whose wait ends with ErrParked.
func (w *waits) addSignals(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaits().signals = append(w.awaits().signals, names...)
}

// addSleep adds a sleep that ends with ErrParked.
func (w *waits) addSleep(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.awaits(); a.wake.IsZero() || until.Before(a.wake) {
		a.wake = until
	}
}

// awaits returns what the waits that have ended with ErrParked wait for. The caller holds mu.
func (w *waits) awaits() *awaited {
	if w.parked == nil {
		w.parked = new(awaited)
	}
	return w.parked
}

// awaited is what the waits of a run that have ended with ErrParked wait for.
type awaited struct {
	inputs  []uint64  // numbers of input requests
	signals []string  // names of signals
	wake    time.Time // earliest end of a sleep, or zero
}

// any reports whether there is something to wait for.
func (a *awaited) any() bool { return len(a.inputs) > 0 || len(a.signals) > 0 || !a.wake.IsZero() }

// awaited returns what the waits that have ended with ErrParked wait for. The names of signals are
// in ascending order, without duplicates.
func (w *waits) awaited() (a awaited) {
	if w == nil {
		return a
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked == nil {
		return a
	}
	return awaited{w.parked.inputs, taskrules.Set(w.parked.signals), w.parked.wake}
}

// Sleep waits until a time and returns nil. Restartable work may be parked during the wait: Sleep
// then returns [ErrParked], and the work runs again at that time, or at the deadline of ctx if that
// comes first. If ctx ends first, Sleep returns its cause. It also ends with the context of the work,
// whether ctx does or not. A task that expires during the wait is logged as a warning when the wait
// begins.
func (run *Run) Sleep(ctx context.Context, until time.Time) error {
	w := run.waits.Load()
	var parked, over <-chan struct{}
	if work := run.ctx.Load(); work != nil {
		over = work.Done() // ctx may not end with it
	}
	if w != nil {
		w.begin()
		defer w.end()
		parked = w.ended.Done()
	}
	until = until.Round(0) // drop the monotonic clock: other processes share only the wall clock
	run.checkExpiry(ctx, until)
	for {
		left := until.Sub(run.m.now())
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, maxSweepInterval)) // the clock may be changed
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
		case <-over:
		case <-parked:
		}
		timer.Stop()
		switch cause := run.ending(); {
		case cause != nil:
			return cause
		case w == nil || w.ended.Err() == nil || ctx.Err() == context.DeadlineExceeded:
			return context.Cause(ctx)
		}
		// Parked work may cancel ctx because another wait has ended with ErrParked.
		if deadline, limited := ctx.Deadline(); limited && run.sharedTime(deadline).Before(until) {
			until = run.sharedTime(deadline)
		}
		w.addSleep(until)
		return ErrParked
	}
}

// checkExpiry logs a warning if the task expires before a long sleep ends.
func (run *Run) checkExpiry(ctx context.Context, until time.Time) {
	if why, _ := run.whyUndo(); why != taskrules.UndoNone || until.Sub(run.m.now()) < maxSweepInterval {
		return
	}
	var r Record
	if run.m.store.get(ctx, run.id, &r) == nil && r.expired(until) {
		run.m.cfg.Logger.Warn("sleep ends after the task expires", "task", run.id, "sleep_ends", until, "expires", r.Expires())
	}
}

// WakeAt makes work that is parked after this run run again at t or earlier. Work calls it if more
// can be done than to wait.
func (run runInternals) WakeAt(t time.Time) {
	if w := run.waits.Load(); w != nil {
		w.addSleep(run.sharedTime(t))
	}
}

// Hold keeps the work from being parked until release is called. Work calls it before a long
// operation that is not a wait, such as a step.
func (run runInternals) Hold() (release func()) {
	w := run.waits.Load()
	if w == nil {
		return func() {}
	}
	w.hold(1)
	return func() { w.hold(-1) }
}
