package session

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// Progress is one report about an operation (MCP progress).
type Progress struct {
	Value   float64  // must increase with every report
	Total   *float64 // the Value at completion, or nil if unknown
	Message string   // for people; may be empty
}

// Errors of the Report of a [Peer].
var (
	// ErrNotIncreasing is returned for a value that is not greater than the previous one.
	ErrNotIncreasing = errors.New("session: progress does not increase")
	// ErrProgressOver is returned after the operation has ended or was cancelled.
	ErrProgressOver = errors.New("session: progress is over")
)

// reporter sends the progress of one operation to the peer, at most once per
// [Limits].ProgressInterval. It always sends the last report, unless Stop is called, and sends
// nothing after the end. Methods of a nil Reporter, and of one without a token, accept reports and
// send nothing. It may be used by many goroutines.
type reporter struct {
	to    jsonrpc.Notifier
	cfg   *Options        // of the sender
	ctx   context.Context // has the request that notifications belong to
	token mcp.ProgressToken

	order sync.Mutex // held while a notification is written, to keep their order

	mu    sync.Mutex
	last  float64
	any   bool        // there was a report
	held  *Progress   // accepted and not yet sent
	sent  time.Time   // when the last notification was sent
	timer *time.Timer // calls flush; nil if held is not delayed
	over  bool
}

// NewReporter returns a Reporter for an operation that the peer knows by token. Use it for
// operations that outlive their request; for others see [Request.Progress]. Its notifications
// belong to the request of ctx, if there is one, and pass through the sending middleware. The end
// of ctx does not end the Reporter.
func (s sessionInternals) NewReporter(ctx context.Context, token mcp.ProgressToken) *reporter {
	return newReporter(s.Session, &s.cfg, context.WithoutCancel(ctx), token)
}

func newReporter(to jsonrpc.Notifier, cfg *Options, ctx context.Context, token mcp.ProgressToken) *reporter {
	return &reporter{to: to, cfg: cfg, ctx: ctx, token: token}
}

// Report accepts a report. It is sent when ProgressInterval has passed, unless a later report
// replaces it. It fails with [ErrNotIncreasing] or [ErrProgressOver]. It blocks only while the
// connection has no room.
func (r *reporter) Report(p Progress) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	switch {
	case r.over:
		r.mu.Unlock()
		return ErrProgressOver
	case math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || r.any && p.Value <= r.last:
		r.mu.Unlock()
		return ErrNotIncreasing
	}
	r.last, r.any = p.Value, true
	if r.token.IsZero() {
		r.mu.Unlock()
		return nil
	}
	p.Message = strings.ToValidUTF8(p.Message, "\uFFFD")
	if p.Total != nil && (math.IsNaN(*p.Total) || math.IsInf(*p.Total, 0)) {
		p.Total = nil
	}
	r.held = &p
	wait := r.cfg.Limits.ProgressInterval - time.Since(r.sent)
	if r.timer == nil && wait > 0 && !r.sent.IsZero() {
		r.timer = time.AfterFunc(wait, r.flush)
	}
	armed := r.timer != nil
	r.mu.Unlock()
	if !armed {
		r.flush()
	}
	return nil
}

// flush sends the held report.
func (r *reporter) flush() {
	r.order.Lock()
	defer r.order.Unlock()
	r.mu.Lock()
	p := r.held
	r.held = nil
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if p != nil {
		r.sent = time.Now()
	}
	r.mu.Unlock()
	if p == nil {
		return
	}
	params := &mcp.ProgressNotificationParams{ProgressToken: r.token, Progress: p.Value, Total: p.Total}
	if p.Message != "" {
		params.Message = &p.Message
	}
	if err := r.to.Notify(r.ctx, mcp.MethodNotificationsProgress, params); err != nil {
		r.cfg.Logger.Debug("progress not sent", "error", err)
	}
}

// Finish sends the held report and ends the Reporter.
func (r *reporter) Finish() { r.close(true) }

// Stop drops the held report and ends the Reporter.
func (r *reporter) Stop() { r.close(false) }

func (r *reporter) close(deliver bool) {
	if r == nil {
		return
	}
	if deliver {
		r.mu.Lock()
		r.over = true
		r.mu.Unlock()
	} else {
		r.silence()
	}
	r.flush() // waits for a notification that is being written
}

// progress is a Reporter as an exchange uses it.
type progress struct{ *reporter }

func (p progress) Silence() { p.silence() }

// silence is Stop without waiting for a notification that is being written.
func (r *reporter) silence() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.over, r.held = true, nil
	r.mu.Unlock()
}
