package httpcore

import (
	"context"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// overhead is the memory of a pending message in addition to its text, in bytes.
const overhead = 128

// room limits the bytes of pending messages.
type room struct {
	max   int
	stall time.Duration

	mu    sync.Mutex
	used  int
	given uint64        // number of releases
	freed chan struct{} // closed on release; nil unless reserve waits
}

// reserve waits for room for n bytes. It fails if ctx ends, over is closed, or nothing is released
// for stall. If the room is empty, a message of any length fits.
func (r *room) reserve(ctx context.Context, over <-chan struct{}, n int) error {
	n += overhead
	var timer *time.Timer // started only if reserve must wait
	var given uint64
	for {
		r.mu.Lock()
		if r.used == 0 || r.used+n <= r.max {
			r.used += n
			r.mu.Unlock()
			return nil
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		progress := given != r.given
		given = r.given
		r.mu.Unlock()

		switch {
		case timer == nil:
			timer = time.NewTimer(r.stall)
			defer timer.Stop()
		case progress:
			timer.Reset(r.stall)
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			return transport.ErrClosed
		case <-timer.C:
			return transport.ErrStalled
		}
	}
}

func (r *room) release(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n + overhead
	r.given++
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
