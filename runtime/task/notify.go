package task

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Notify sends a notification about the task to the requestor, such as a log message. It drops the
// notification and returns nil if no requestor is known or progress has ended. It returns the error
// of the [Requestor], for example after a disconnect.
func (run *Run) Notify(ctx context.Context, method string, params codec.Encoder) error {
	raw, err := taskrules.RelateParams(params, run.id)
	if err != nil {
		return err
	}
	run.mu.Lock()
	via, ended := run.destination(), run.progress.ended
	run.mu.Unlock()
	if via == nil || ended {
		return nil
	}
	return notify(ctx, via, method, rawJSON(raw))
}

// notify calls the Notify method of a Requestor and returns a panic as an error.
func notify(ctx context.Context, to Requestor, method string, params codec.Encoder) (err error) {
	defer boundary.Catch(&err)
	return to.Notify(ctx, method, params)
}

// statusTimeout bounds how long one status notification delays the work of its task.
const statusTimeout = time.Second

// notifyStatus sends the status of the task to the requestor, unless a later status was already
// sent. One goroutine at a time sends. When it is done, it sends the latest status that arrived in
// the meantime.
func (run *Run) notifyStatus(r *Record) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if r.Revision <= run.notifiedRevision || run.destination() == nil {
		return
	}
	run.notifiedRevision = r.Revision
	if run.notifying {
		later := *r
		run.pendingStatus = &later
		return
	}
	run.notifying = true
	for r != nil {
		if via := run.destination(); via != nil {
			run.mu.Unlock()
			run.sendStatus(via, r)
			run.mu.Lock()
		}
		r, run.pendingStatus = run.pendingStatus, nil
	}
	run.notifying = false
}

// statusParams returns the params of a status notification.
func (r *Record) statusParams() *mcp.TaskStatusNotificationParams {
	t := r.Task()
	return t.AsTaskStatusNotificationParams()
}

// sendStatus sends one status notification.
func (run *Run) sendStatus(via Requestor, r *Record) {
	ctx := lazyctx.WithTimeout(run.m.lifetime, statusTimeout, nil)
	defer ctx.Cancel()
	err := notify(ctx, via, mcp.MethodNotificationsTasksStatus, r.statusParams())
	if err != nil {
		run.m.logUnsent(r.ID, err)
	}
}

func (m *Manager) logUnsent(id string, err error) {
	if !boundary.Report(m.cfg.Logger, "requestor panicked", err, "task", id) {
		m.cfg.Logger.Debug("task status not sent", "task", id, "error", err)
	}
}

// rawJSON is JSON text that implements [codec.Encoder].
type rawJSON json.RawMessage

func (r rawJSON) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }
