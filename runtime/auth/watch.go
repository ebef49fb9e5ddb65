package auth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// ErrExpired is the cause of the end of an open stream whose access token has expired or was
// revoked.
var ErrExpired = errors.New("auth: access token has expired or was revoked")

// verifyTimeout limits one verification of a token, and one of a proof.
const verifyTimeout = 30 * time.Second

// Watch calls end once when the credentials of r expire, or the verifier rejects them or names
// another principal. The error wraps [ErrExpired]. Watch verifies the credentials every
// [Options].Recheck; while the verifier is unavailable, they stay valid. i is the identity that
// Authenticate returned for r. Call stop when the stream has ended: after stop has returned, end is
// not called. end must not call stop.
func (p *Protector) Watch(r *http.Request, i *Identity, end func(error)) (stop func()) {
	scheme, token, err := p.token(r)
	var c *Credentials
	if err == nil {
		c, err = p.credentials(r, scheme, token)
	}
	if err != nil { // r has changed
		end(fmt.Errorf("%w: %w", ErrExpired, err))
		return func() {}
	}
	w := &watch{p: p, key: keyOf(scheme, token), credentials: c, end: end}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.identity = i
	w.schedule()
	return w.stop
}

// watch verifies the credentials of an open stream repeatedly.
type watch struct {
	p           *Protector
	key         cacheKey
	credentials *Credentials
	end         func(error)
	ctx         context.Context // ends with stop
	cancel      context.CancelFunc

	mu      sync.Mutex // held while end runs
	stopped bool
	timer   *time.Timer // calls check; nil if the credentials are valid forever
	// identity is the result of the last verification. Only Watch and check use it.
	identity *Identity
}

// schedule sets the timer for the next check. mu must be held.
func (w *watch) schedule() {
	recheck := w.p.c.Recheck
	if left, ok := w.left(); ok && (recheck < 0 || left <= recheck) {
		w.timer = time.AfterFunc(left, w.check)
		return
	}
	if recheck > 0 { // the random part spreads the checks of streams that began together
		w.timer = time.AfterFunc(recheck-rand.N(recheck/8+1), w.check)
	}
}

// left returns how long the credentials are valid. ok is false if they do not expire.
func (w *watch) left() (left time.Duration, ok bool) {
	if w.identity.Expiry.IsZero() {
		return 0, false
	}
	return max(w.identity.Expiry.Add(w.p.c.Skew).Sub(w.p.c.Now()), 0), true
}

// check ends the stream if the credentials are no longer valid. It runs in a goroutine of a timer.
func (w *watch) check() {
	err := boundary.Run(func() error {
		if left, ok := w.left(); ok && left == 0 {
			return ErrExpired
		}
		return w.verify()
	})
	boundary.Report(w.p.c.Logger, "check of credentials panicked", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopped:
	case err != nil:
		w.stopped = true
		w.cancel()
		fault := boundary.Run(func() error { w.end(err); return nil })
		boundary.Report(w.p.c.Logger, "function of Watch panicked", fault)
	default:
		w.schedule()
	}
}

// verify verifies the credentials without reading the cache.
func (w *watch) verify() error {
	ctx, cancel := context.WithTimeout(w.ctx, verifyTimeout)
	defer cancel()
	i, err := w.p.identify(ctx, &w.key, w.credentials)
	if err == nil {
		err = w.p.Permit(i)
	}
	denied, ok := errors.AsType[*Denied](err)
	switch {
	case err == nil && i.Principal != w.identity.Principal:
		return fmt.Errorf("%w: it is now that of another principal", ErrExpired)
	case err == nil:
		w.identity = i
		return nil
	case ok && denied.Status < http.StatusInternalServerError:
		return fmt.Errorf("%w: %w", ErrExpired, err)
	}
	if w.ctx.Err() == nil {
		w.p.c.Logger.Warn("stream credentials not verified", "error", err)
	}
	return nil
}

// stop ends the checks.
func (w *watch) stop() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
