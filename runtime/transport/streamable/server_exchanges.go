package streamable

import (
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// exchanges counts the HTTP exchanges of a session that are being served, and records when the
// session was used. After end, no exchange can enter, and quiet is closed when the last one leaves.
type exchanges struct {
	max   int           // limit of the exchanges with requests or a stream, and of the others
	usage *usage        // counts the exchanges with requests or a stream
	quiet chan struct{} // closed when ended and no exchange is left

	mu      sync.Mutex
	total   int
	brief   int // how many of them have no request, and hold no stream
	ended   bool
	used    time.Time // when the last exchange ended
	touched time.Time // when isUsed was called last
}

// enter counts a new exchange. Exchanges without a request or a stream are brief. They have a limit
// of their own: requests that have reached theirs may wait for such an exchange, for example an
// answer or a cancellation. enter fails if there are too many, or after end.
func (x *exchanges) enter(brief bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.total - x.brief
	if brief {
		n = x.brief
	}
	switch {
	case x.ended:
		return transport.ErrClosed
	case n >= x.max:
		return errTooManyStreams
	case !brief && !x.usage.exchange():
		return errTooManyRequests
	}
	x.total++
	if brief {
		x.brief++
	}
	return nil
}

// leave records that an exchange has ended.
func (x *exchanges) leave(brief bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.total--
	if brief {
		x.brief--
	} else {
		x.usage.exchanges.Add(-1)
	}
	x.used = time.Now()
	if x.total == 0 && x.ended {
		close(x.quiet)
	}
}

// end rejects further exchanges. It is called once.
func (x *exchanges) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.total == 0 {
		close(x.quiet)
	}
}

// idleSince returns when the last exchange ended. ok is false if one is being served.
func (x *exchanges) idleSince() (t time.Time, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.used, x.total == 0
}

// isUsed reports whether an exchange was served since the last call of isUsed. It returns false
// after end.
func (x *exchanges) isUsed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	used := !x.ended && (x.total > 0 || !x.used.Before(x.touched))
	x.touched = time.Now()
	return used
}
