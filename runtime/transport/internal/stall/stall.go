// Package stall waits for a peer that must not stop making progress.
package stall

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Wait is the wait of one goroutine, for example until a queue has room. The goroutine checks its
// condition before and after each call of For. The timer runs from the first call, and restarts
// when the peer makes progress.
type Wait struct {
	Timeout  time.Duration  // how long the peer may make no progress
	Progress *atomic.Uint64 // changes with each progress of the peer

	timer *time.Timer // nil before the first wait
	seen  uint64      // Progress when the timer was started
}

// For waits until changed is closed, and returns nil. It also returns nil if the timer expires after
// progress. It fails with the cause of ctx if ctx ends, with [transport.ErrClosed] if over is
// closed, and with [transport.ErrStalled] if there is no progress for Timeout. After ErrStalled, call
// Restart before the next wait. A nil over is never closed.
func (w *Wait) For(ctx context.Context, changed, over <-chan struct{}) error {
	now := w.Progress.Load()
	switch {
	case w.timer == nil:
		w.timer = time.NewTimer(w.Timeout)
	case now != w.seen:
		w.timer.Reset(w.Timeout)
	}
	w.seen = now
	select {
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return transport.ErrClosed
	case <-w.timer.C:
		if w.Progress.Load() == w.seen {
			return transport.ErrStalled
		}
	}
	return nil
}

// Restart makes the next call of For allow the whole Timeout.
func (w *Wait) Restart() {
	if w.timer != nil {
		w.timer.Reset(w.Timeout)
	}
}

// Stop releases the timer.
func (w *Wait) Stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
