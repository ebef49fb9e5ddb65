package httpcore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/stall"
)

// overhead is the memory of a pending message in addition to its text, in bytes.
const overhead = 128

// room limits the bytes of pending messages.
type room struct {
	max   int
	stall time.Duration

	mu    sync.Mutex
	used  int
	given atomic.Uint64 // number of releases
	freed chan struct{} // closed on release; nil unless reserve waits
}

// reserve waits for room for n bytes. It fails if ctx ends, over is closed, or nothing is released
// for stall. If the room is empty, a message of any length fits.
func (r *room) reserve(ctx context.Context, over <-chan struct{}, n int) error {
	n += overhead
	wait := stall.Wait{Timeout: r.stall, Progress: &r.given}
	defer wait.Stop()
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
		r.mu.Unlock()
		if err := wait.For(ctx, freed, over); err != nil {
			return err
		}
	}
}

func (r *room) release(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n + overhead
	r.given.Add(1)
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
