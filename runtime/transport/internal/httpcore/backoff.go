package httpcore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// minDelay is the shortest delay that a server may ask for, unless Retries.Delay is shorter.
const minDelay = 100 * time.Millisecond

// Backoff returns the delay before the next attempt after the given number of failures in a row.
// asked is the delay that the server has asked for, or 0; Backoff returns at least that. For the
// first attempt it adds up to a fifth of it, to spread the clients of a restarted server.
func (e *End) Backoff(asked time.Duration, failures int) time.Duration {
	if asked > 0 {
		asked = max(asked, min(minDelay, e.Options.Retries.Delay))
		asked += rand.N(asked/5 + 1)
	}
	if asked > 0 && failures == 0 {
		return asked
	}
	d := e.Options.Retries.Delay
	for ; failures > 0 && d < e.Options.Retries.MaxDelay; failures-- {
		d *= 2
	}
	d = min(d, e.Options.Retries.MaxDelay)
	return max(d/2+rand.N(d/2+1), asked)
}

// maxAfter limits the delay of a Retry-After header.
const maxAfter = 5 * time.Minute

// RetryAfter returns the delay of a Retry-After header in seconds, or 0 (RFC 9110, "Retry-After").
// It ignores dates.
func RetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 31)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxAfter)
}

// Sleep waits for d. It returns false if ctx ends first.
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

// Retryable reports whether a request that failed with err may succeed later. Rejections by the
// server are permanent, except for some statuses. Those of 500 and above are temporary even if HTTP
// does not define them: proxies have their own ones for a server that is down, such as 521. The
// exceptions are 501 and 505, which report that the server lacks a feature. A request whose answer
// was cut was not rejected.
func Retryable(err error) bool {
	if errors.Is(err, httpclient.ErrCut) {
		return true
	}
	if status, ok := errors.AsType[*httpclient.StatusError](err); ok {
		switch status.Code {
		case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
			http.StatusTooManyRequests:
			return true
		case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
			return false
		}
		return status.Code >= 500
	}
	return !errors.Is(err, httpclient.ErrContent) && !errors.Is(err, httpclient.ErrRedirect)
}

// Rejected reports whether err means that the server has not served a request: it has rejected it by
// its status. A status of 500 and above may come from a gateway whose server has received the request
// and does not answer, such as 504, or from a server that has failed while it served the request. The
// exceptions are those that report that the server lacks a feature, and 503 with a Retry-After or a
// JSON-RPC error. Without either, it may come from a gateway that has lost the connection to a server
// which had the request, as Envoy does.
func Rejected(err error) bool {
	status, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok {
		return false
	}
	switch status.Code {
	case http.StatusServiceUnavailable:
		return status.RPC != nil || status.Header.Get("Retry-After") != ""
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return status.Code < 500
}

// RetryableOnReopen is [Retryable] for a request that the server has accepted before: one that opens
// a session in place of a lost one, or a standing stream again. A proxy whose server is down may
// answer in its place: with status 404 or 405, with a page, or with a redirect to one. These
// responses are temporary, too.
func RetryableOnReopen(err error) bool {
	status, ok := errors.AsType[*httpclient.StatusError](err)
	return Retryable(err) || !ok || status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed
}
