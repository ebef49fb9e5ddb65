package task

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazy"
)

// Why a report of progress is not taken.
var (
	ErrNotIncreasing = errors.New("task: progress does not increase")
	ErrProgressOver  = errors.New("task: progress is over")
)

// Report sends progress to the requestor under the token of the request that created the task.
// It fails with ErrNotIncreasing, or with ErrProgressOver once the task is over. Where nobody has
// asked for progress, or the requestor cannot be reached, a report is taken and goes nowhere.
func (run *Run) Report(p Progress) error {
	run.mu.Lock()
	switch {
	case run.silent:
		run.mu.Unlock()
		return ErrProgressOver
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || p.Value <= run.last:
		run.mu.Unlock()
		return ErrNotIncreasing
	}
	run.last = p.Value
	if run.token.IsZero() || run.via == nil {
		run.mu.Unlock()
		return nil
	}
	if run.reporter == nil {
		run.reporter = run.via.Reporter(run.id, run.token)
	}
	reporter := run.reporter
	run.mu.Unlock()
	return reporter.Report(p)
}

// hush ends progress: what was reported is sent, and nothing after that.
func (run *Run) hush() {
	run.mu.Lock()
	run.silent = true
	reporter := run.reporter
	run.mu.Unlock()
	if reporter != nil {
		reporter.Finish()
	}
}

// speak takes hush back.
func (run *Run) speak() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.silent, run.reporter = false, nil
}

// Notify sends a notification about the task, such as a log message, to the requestor. If that
// cannot be reached at the moment, the notification is dropped.
func (run *Run) Notify(ctx context.Context, method string, params codec.Encoder) error {
	raw, err := related(params, run.id)
	if err != nil {
		return err
	}
	run.mu.Lock()
	via, silent := run.via, run.silent
	run.mu.Unlock()
	if via == nil || silent {
		return nil
	}
	return via.Notify(ctx, method, rawJSON(raw))
}

// related encodes params, nil for none, with the task in _meta.
func related(params codec.Encoder, id string) (raw json.RawMessage, err error) {
	if params != nil {
		if raw, err = codec.Marshal(params); err != nil {
			return nil, err
		}
	}
	return relate(raw, id)
}

// rawJSON is JSON text as an Encoder.
type rawJSON json.RawMessage

func (r rawJSON) EncodeJSON(w *codec.Writer) { w.Raw(json.RawMessage(r)) }

// statusTimeout is how long a requestor that takes nothing holds up who changes its task.
const statusTimeout = time.Second

// notify tells the requestor the state of the task, unless it has been told a later one.
func (run *Run) notify(r *Record) {
	run.mu.Lock()
	via := run.via
	run.mu.Unlock()
	if via == nil {
		return
	}
	run.order.Lock()
	defer run.order.Unlock()
	if r.Revision <= run.notified {
		return
	}
	run.notified = r.Revision
	ctx := lazy.WithTimeout(run.m.life, statusTimeout, nil)
	defer ctx.Cancel()
	t := r.Task()
	err := via.Notify(ctx, "notifications/tasks/status", &mcp.TaskStatusNotificationParams{
		TaskID: t.TaskID, Status: t.Status, StatusMessage: t.StatusMessage,
		CreatedAt: t.CreatedAt, LastUpdatedAt: t.LastUpdatedAt, TTL: t.TTL, PollInterval: t.PollInterval,
	})
	if err != nil {
		run.m.cfg.Logger.Log(ctx, slog.LevelDebug, "task status not sent", "task", r.ID, "error", err)
	}
}
