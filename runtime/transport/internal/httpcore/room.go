package httpcore

import (
	"context"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// overhead is what a waiting message costs beside its text.
const overhead = 128

// room bounds the bytes that wait to be sent.
type room struct {
	max   int
	stall time.Duration

	mu    sync.Mutex
	used  int
	given uint64        // how often some was given back
	freed chan struct{} // closed when some is given back; nil while nobody waits for that
}

// take waits for room for n bytes, until ctx ends, over is closed, or nothing is given back for too long. One
// message has room whatever its length.
func (r *room) take(ctx context.Context, over <-chan struct{}, n int) error {
	n += overhead
	var timer *time.Timer // only who must wait pays for it
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

func (r *room) give(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n + overhead
	r.given++
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
