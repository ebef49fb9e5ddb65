package task

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// Why a report of progress is not taken.
var (
	ErrNotIncreasing = errors.New("task: progress does not increase")
	ErrProgressOver  = errors.New("task: progress is over")
)

// maxProgressMessage is how many bytes of the message of a report are sent.
const maxProgressMessage = 4 << 10

// lastReportTimeout is how long the last report of work may hold up its outcome.
const lastReportTimeout = 100 * time.Millisecond

// progress is the reports of a task. They take the way on which the requestor is at the moment, but
// keep their order and their rate on whatever way. The mu of the Run guards it.
type progress struct {
	last   float64     // greatest value so far
	held   *Progress   // taken and not yet sent; nil if none is
	sent   time.Time   // when the last one was
	timer  *time.Timer // sends what is held; nil if none is running
	paused int         // attempts to cancel the task: nothing is sent meanwhile
	over   bool        // nothing is taken or sent any more

	sending *lazyctx.Cancellable // context of the report on its way; nil if there is none
	to      Requestor            // where that goes
	idle    chan struct{}        // closed when it has returned; nil without a waiter
}

// Report sends progress to the requestor under the token of the request that created the task, at
// most as often as [Config.ProgressInterval] says; of reports that come faster the latest is sent.
// It fails with ErrNotIncreasing, or with ErrProgressOver once the task is terminal. A report is
// dropped without an error if the requestor has not requested progress or cannot be reached. A
// Total that is not finite is left out.
func (run *Run) Report(p Progress) error {
	run.mu.Lock()
	switch {
	case run.progress.over:
		run.mu.Unlock()
		return ErrProgressOver
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value <= run.progress.last:
		run.mu.Unlock()
		return ErrNotIncreasing
	}
	run.progress.last = p.Value
	if run.token.IsZero() || run.way() == nil {
		run.mu.Unlock()
		return nil
	}
	if p.Total != nil && (math.IsNaN(*p.Total) || math.IsInf(*p.Total, 0)) {
		p.Total = nil
	}
	p.Message = boundary.Text(p.Message, maxProgressMessage)
	run.progress.held = &p
	run.mu.Unlock()
	run.flush()
	return nil
}

// flush sends the held report, now or when the rate allows it. One goroutine at a time sends; it
// also sends reports that arrive meanwhile.
func (run *Run) flush() {
	run.mu.Lock()
	defer run.mu.Unlock()
	p := &run.progress
	for p.held != nil && p.sending == nil && p.paused == 0 && !p.over {
		if wait := run.m.cfg.ProgressInterval - time.Since(p.sent); wait > 0 && !p.sent.IsZero() {
			if p.timer == nil {
				p.timer = time.AfterFunc(wait, func() {
					run.mu.Lock()
					p.timer = nil
					run.mu.Unlock()
					run.flush()
				})
			}
			return
		}
		to, report := run.way(), p.held
		if p.held = nil; to == nil {
			return
		}
		p.sent, p.to, p.sending = time.Now(), to, new(lazyctx.Cancellable)
		ctx := p.sending
		run.mu.Unlock()
		err := run.sendReport(ctx, to, report)
		run.mu.Lock()
		if err != nil && p.held == nil && !p.over && run.way() != to {
			p.held = report // it was on its way to where the requestor is no more
		}
		p.sending, p.to = nil, nil
		if p.idle != nil {
			close(p.idle)
			p.idle = nil
		}
	}
}

// turn gives up a report that is on its way to where the requestor is no more. It is called with mu
// held.
func (run *Run) turn() {
	if p := &run.progress; p.sending != nil && p.to != run.way() {
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

// notify calls the Notify of a Requestor.
func notify(ctx context.Context, to Requestor, method string, params codec.Encoder) (err error) {
	defer boundary.Catch(&err)
	return to.Notify(ctx, method, params)
}

// silence ends progress at once: what is held is dropped, and what is on its way is given up.
func (run *Run) silence() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.progress.end()
	if run.progress.sending != nil {
		run.progress.sending.Cancel(nil)
	}
}

// end takes no more reports, and returns the one that is held. It is called with the mu of the Run
// held.
func (p *progress) end() (held *Progress) {
	held = p.held
	p.over, p.held = true, nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	return held
}

// settled returns a channel that is closed when no report is on its way. It is called with mu held.
func (p *progress) settled() <-chan struct{} {
	if p.idle == nil {
		idle := make(chan struct{})
		if p.sending == nil {
			close(idle)
			return idle
		}
		p.idle = idle
	}
	return p.idle
}

// pause holds progress back until unpause, as the task may be about to end. It waits for the report that
// is on its way, unless the requestor does not read.
func (run *Run) pause() {
	run.mu.Lock()
	run.progress.paused++
	sending := run.progress.sending
	if sending == nil {
		run.mu.Unlock()
		return
	}
	settled := run.progress.settled()
	run.mu.Unlock()
	timer := time.NewTimer(lastReportTimeout)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
		sending.Cancel(nil)
	}
}

// unpause takes pause back.
func (run *Run) unpause() {
	run.mu.Lock()
	run.progress.paused--
	run.mu.Unlock()
	run.flush()
}

// finish ends progress when the work has returned: the last report is sent, unless the requestor does
// not read.
func (run *Run) finish() {
	run.mu.Lock()
	p := &run.progress
	last, to, sending := p.end(), run.way(), p.sending
	if p.paused > 0 || to == nil {
		last = nil
	}
	if last == nil && sending == nil {
		run.mu.Unlock()
		return
	}
	settled := p.settled()
	run.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lastReportTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with ctx, if Notify of the requestor does
		defer close(done)
		select {
		case <-settled:
			if last != nil {
				run.sendReport(ctx, to, last)
			}
		case <-ctx.Done():
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

// Notify sends a notification about the task, such as a log message, to the requestor. Without a
// known requestor, and after the end of progress, it drops the notification and returns nil. It
// returns the error of the [Requestor], such as that of one that has disconnected.
func (run *Run) Notify(ctx context.Context, method string, params codec.Encoder) error {
	raw, err := related(params, run.id)
	if err != nil {
		return err
	}
	run.mu.Lock()
	via, over := run.way(), run.progress.over
	run.mu.Unlock()
	if via == nil || over {
		return nil
	}
	return notify(ctx, via, method, rawJSON(raw))
}

// related encodes params, nil for none, with the task in _meta.
func related(params codec.Encoder, id string) (raw json.RawMessage, err error) {
	if params != nil {
		if raw, err = boundary.Marshal(params); err != nil {
			return nil, err
		}
	}
	return relate(raw, id)
}

// rawJSON is JSON text as an Encoder.
type rawJSON json.RawMessage

func (r rawJSON) EncodeJSON(w *codec.Writer) { w.Raw(json.RawMessage(r)) }

// statusTimeout is how long a requestor that takes nothing holds up the work of its task.
const statusTimeout = time.Second

// notify tells the requestor the state of the task, unless it has been told a later one. One goroutine
// at a time tells; it takes on the latest of what comes meanwhile.
func (run *Run) notify(r *Record) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if r.Revision <= run.notified || run.way() == nil {
		return
	}
	run.notified = r.Revision
	if run.telling {
		later := *r
		run.untold = &later
		return
	}
	run.telling = true
	for r != nil {
		if via := run.way(); via != nil {
			run.mu.Unlock()
			run.tell(via, r)
			run.mu.Lock()
		}
		r, run.untold = run.untold, nil
	}
	run.telling = false
}

// tell sends one status.
func (run *Run) tell(via Requestor, r *Record) {
	ctx := lazyctx.WithTimeout(run.m.life, statusTimeout, nil)
	defer ctx.Cancel()
	t := r.Task()
	err := notify(ctx, via, mcp.MethodNotificationsTasksStatus, &mcp.TaskStatusNotificationParams{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage,
		CreatedAt: t.CreatedAt, LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTL, PollInterval: t.PollInterval,
	})
	if err != nil && !boundary.Report(run.m.cfg.Logger, "requestor panicked", err, "task", r.ID) {
		run.m.cfg.Logger.Debug("task status not sent", "task", r.ID, "error", err)
	}
}
