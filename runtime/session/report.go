package session

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
)

// Progress is one report about an operation (MCP progress).
type Progress struct {
	Value   float64  // how much is done; it grows with every report
	Total   *float64 // the Value at which all is done, or nil if that is unknown
	Message string   // for people; may be empty
}

// Why a report is not taken.
var (
	// ErrNotIncreasing says that the value is not greater than that of the report before.
	ErrNotIncreasing = errors.New("session: progress does not increase")
	// ErrProgressOver says that the operation has ended, or was cancelled.
	ErrProgressOver = errors.New("session: progress is over")
)

// Reporter sends progress of one operation to the peer: strictly increasing, at most as often as
// [Config.ProgressInterval] says, with the last report always delivered, and nothing after the end. A nil Reporter,
// and one without a token, takes reports and sends nothing. It may be used by many goroutines.
type Reporter struct {
	s     *Session
	ctx   context.Context // what is sent belongs to its request
	token mcp.ProgressToken

	order sync.Mutex // held while a notification is handed over, so that they stay in order

	mu    sync.Mutex
	last  float64
	any   bool        // there was a report
	held  *Progress   // taken and not yet sent
	sent  time.Time   // when the last one was sent
	timer *time.Timer // sends what is held; nil if nothing is
	over  bool
}

// NewReporter returns a Reporter for an operation that the peer knows by token. What it sends belongs to the request
// of ctx, if there is one, and passes through the sending middleware under ctx, whose end alone does not end it.
// It is for operations that outlive their request; see [Request.Progress] for others.
func (s *Session) NewReporter(ctx context.Context, token mcp.ProgressToken) *Reporter {
	return newReporter(s, context.WithoutCancel(ctx), token)
}

func newReporter(s *Session, ctx context.Context, token mcp.ProgressToken) *Reporter {
	return &Reporter{s: s, ctx: ctx, token: token}
}

// Report takes a report, and sends it when the rate allows it and no later one has come. It fails with
// [ErrNotIncreasing] or [ErrProgressOver], and waits only while the connection has no room.
func (r *Reporter) Report(p Progress) error {
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
	wait := r.s.cfg.ProgressInterval - time.Since(r.sent)
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

// flush sends what is held.
func (r *Reporter) flush() {
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
	if err := r.s.Notify(r.ctx, mcp.MethodNotificationsProgress, params); err != nil {
		r.s.cfg.Logger.Debug("progress not sent", "error", err)
	}
}

// Finish sends what is held back, and ends the reporting. After it nothing is sent any more.
func (r *Reporter) Finish() { r.close(true) }

// Stop ends the reporting at once: what is held back is dropped, and after it nothing is sent any more.
func (r *Reporter) Stop() { r.close(false) }

func (r *Reporter) close(deliver bool) {
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
	r.flush() // waits for one that is being sent
}

// silence is Stop without waiting for a report that is being sent.
func (r *Reporter) silence() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.over, r.held = true, nil
	r.mu.Unlock()
}
