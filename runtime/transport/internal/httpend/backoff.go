package httpend

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Backoff returns how long to wait before the next attempt, after that many failures in a row. The server may have
// asked for a time, which the first attempt keeps exactly and later ones at least.
func (e *End) Backoff(asked time.Duration, failures int) time.Duration {
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
