package task

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// Errors of [Run.Report].
var (
	// ErrNotIncreasing is returned for a value that is not finite or not greater than the previous
	// one.
	ErrNotIncreasing = errors.New("task: progress does not increase")
	// ErrProgressOver is returned once the task is terminal or its work has returned.
	ErrProgressOver = errors.New("task: progress after the end of the task")
)

// maxProgressMessage is the maximum length in bytes of the message of a report. Longer messages are
// truncated.
const maxProgressMessage = 4 << 10

// lastReportTimeout bounds how long an unsent report delays the outcome or the cancellation of a
// task.
const lastReportTimeout = 100 * time.Millisecond

// progress is the state of the progress reports of a task. Reports go to the current destination of
// the Run. They keep their order and their rate when the destination changes. It is guarded by the
// mu of the Run.
type progress struct {
	greatest float64         // greatest value that this run has reported
	sent     float64         // greatest value that was sent, also by earlier runs; -Inf if none
	pending  *Progress       // accepted and not yet sent; nil if none
	lastSent time.Duration   // when the latest report was sent, since Manager.started
	timer    *time.Timer     // sends the pending report; nil if not running
	sending  *progressReport // the report that is being sent; nil if none
	pauses   int32           // number of cancellations in progress; nothing is sent during them
	hasSent  bool            // lastSent is set
	ended    bool            // no report is accepted or sent
}

// progressReport is a report that is being sent. It is the context of the sending.
type progressReport struct {
	lazyctx.Cancellable
	to   Requestor
	sent chan struct{} // closed when it is sent; nil if no goroutine waits for it
}

// Report sends a progress report to the requestor, with the progress token of the request that
// created the task. At most one report is sent per [Updates.Progress]. If reports arrive
// faster, only the latest is sent.
//
// Report fails with [ErrNotIncreasing] or [ErrProgressOver]. It drops the report without an error
// if the requestor has not requested progress or cannot be reached, or if the work is re-run and an
// earlier run has sent an equal or greater value (MCP progress, "Progress Flow"). After a crash,
// values that were sent after the last write of the record may be sent again. Report omits a Total
// that is not finite.
func (run *Run) Report(p Progress) error {
	run.mu.Lock()
	switch {
	case run.progress.ended:
		run.mu.Unlock()
		return ErrProgressOver
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value <= run.progress.greatest:
		run.mu.Unlock()
		return ErrNotIncreasing
	}
	run.progress.greatest = p.Value
	if run.token.IsZero() || run.destination() == nil || p.Value <= run.progress.sent {
		run.mu.Unlock()
		return nil
	}
	if p.Total != nil && (math.IsNaN(*p.Total) || math.IsInf(*p.Total, 0)) {
		p.Total = nil
	}
	p.Message = boundary.Text(p.Message, maxProgressMessage)
	run.progress.pending = &p
	run.mu.Unlock()
	run.flushProgress()
	return nil
}

// flushProgress sends the pending report now, or later if the rate requires it. One goroutine at a
// time sends; it also sends the reports that arrive while it does.
func (run *Run) flushProgress() {
	run.mu.Lock()
	defer run.mu.Unlock()
	p := &run.progress
	for p.pending != nil && p.sending == nil && p.pauses == 0 && !p.ended {
		now := time.Since(run.m.started)
		if wait := run.m.cfg.Updates.Progress - (now - p.lastSent); wait > 0 && p.hasSent {
			if p.timer == nil {
				p.timer = time.AfterFunc(wait, func() {
					run.mu.Lock()
					p.timer = nil
					run.mu.Unlock()
					run.flushProgress()
				})
			}
			return
		}
		to, report := run.destination(), p.pending
		if p.pending = nil; to == nil {
			return
		}
		sending := &progressReport{to: to}
		p.lastSent, p.hasSent, p.sending, p.sent = now, true, sending, report.Value
		run.mu.Unlock()
		err := run.sendReport(sending, to, report)
		run.mu.Lock()
		if err != nil && p.pending == nil && !p.ended && run.destination() != to {
			p.pending = report // the destination changed while it was being sent
		}
		if p.sending = nil; sending.sent != nil {
			close(sending.sent)
		}
	}
}

// cancelStaleReport cancels the sending of a report whose destination has changed. The caller holds
// mu.
func (run *Run) cancelStaleReport() {
	if p := &run.progress; p.sending != nil && p.sending.to != run.destination() {
		p.sending.Cancel(nil)
	}
}

// sendReport sends one report.
func (run *Run) sendReport(ctx context.Context, to Requestor, p *Progress) error {
	params := &mcp.ProgressNotificationParams{
		Meta:          &mcp.NotificationMetaObject{RelatedTask: &mcp.RelatedTaskMetadata{TaskID: run.id}},
		ProgressToken: run.token, Progress: p.Value, Total: p.Total,
	}
	if p.Message != "" {
		params.Message = &p.Message
	}
	err := notify(ctx, to, mcp.MethodNotificationsProgress, params)
	if err != nil && !boundary.Report(run.m.cfg.Logger, "requestor panicked", err, "task", run.id) {
		run.m.cfg.Logger.Debug("progress not sent", "task", run.id, "error", err)
	}
	return err
}

// saveProgress sets the Progress of a record that is about to be written.
func (run *Run) saveProgress(r *Record) {
	if !run.recoverable || run.token.IsZero() || r.terminal() {
		return
	}
	run.mu.Lock()
	sent := run.progress.sent
	run.mu.Unlock()
	if !math.IsInf(sent, 0) && (r.Progress == nil || *r.Progress < sent) {
		value := sent // so that sent stays on the stack
		r.Progress = &value
	}
}

// abortProgress ends progress at once: it drops the pending report and cancels the one that is
// being sent.
func (run *Run) abortProgress() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.progress.end()
	if run.progress.sending != nil {
		run.progress.sending.Cancel(nil)
	}
}

// end ends progress and returns the pending report. The caller holds the mu of the Run.
func (p *progress) end() (pending *Progress) {
	pending = p.pending
	p.ended, p.pending = true, nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	return pending
}

// restart lets the next run of the work report from the beginning. The caller holds the mu of the
// Run.
func (p *progress) restart() { p.greatest = math.Inf(-1) }

// whenSent returns a channel that is closed when the report is sent. The caller holds the mu of the
// Run.
func (r *progressReport) whenSent() <-chan struct{} {
	if r.sent == nil {
		r.sent = make(chan struct{})
	}
	return r.sent
}

// pauseProgress stops sending until unpauseProgress is called, because the task may be about to
// end. It waits for the report that is being sent. If that takes longer than lastReportTimeout, it
// cancels the report.
func (run *Run) pauseProgress() {
	run.mu.Lock()
	run.progress.pauses++
	sending := run.progress.sending
	if sending == nil {
		run.mu.Unlock()
		return
	}
	sent := sending.whenSent()
	run.mu.Unlock()
	timer := time.NewTimer(lastReportTimeout)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
		sending.Cancel(nil)
	}
}

// unpauseProgress undoes pauseProgress and sends the pending report.
func (run *Run) unpauseProgress() {
	run.mu.Lock()
	run.progress.pauses--
	run.mu.Unlock()
	run.flushProgress()
}

// finishProgress ends progress when the work has returned. It sends the last report, for at most
// lastReportTimeout.
func (run *Run) finishProgress() {
	run.mu.Lock()
	p := &run.progress
	last, to, sending := p.end(), run.destination(), p.sending
	if p.pauses > 0 || to == nil {
		last = nil
	}
	if last == nil && sending == nil {
		run.mu.Unlock()
		return
	}
	var sent <-chan struct{}
	if sending != nil {
		sent = sending.whenSent()
	}
	run.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastReportTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with ctx, provided that the requestor's Notify does
		defer close(done)
		if sent != nil {
			select {
			case <-sent:
			case <-ctx.Done():
				return
			}
		}
		if last != nil {
			run.sendReport(ctx, to, last)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		if sending != nil {
			sending.Cancel(nil)
		}
	}
}
