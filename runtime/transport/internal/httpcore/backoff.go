package httpcore

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// minDelay is the shortest delay that a server may ask for, unless RetryDelay is shorter still.
const minDelay = 100 * time.Millisecond

// Backoff returns how long to wait before the next attempt, after that many failures in a row. The server may have asked
// for a delay, which is the least that Backoff returns. The first attempt adds up to a fifth to it, so that the clients of a
// server that was restarted do not all come at the same moment.
func (e *End) Backoff(asked time.Duration, failures int) time.Duration {
	if asked > 0 {
		asked = max(asked, min(minDelay, e.Options.RetryDelay))
		asked += rand.N(asked/5 + 1)
	}
	if asked > 0 && failures == 0 {
		return asked
	}
	d := e.Options.RetryDelay
	for ; failures > 0 && d < e.Options.MaxRetryDelay; failures-- {
		d *= 2
	}
	d = min(d, e.Options.MaxRetryDelay)
	return max(d/2+rand.N(d/2+1), asked)
}

// maxAfter is how much of a Retry-After is honoured.
const maxAfter = 5 * time.Minute

// RetryAfter returns how long an answer asks to wait, or 0 (RFC 9110, "Retry-After"). Dates are not looked at.
func RetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxAfter)
}

// Sleep waits; ok is false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) (ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
