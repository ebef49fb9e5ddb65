package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// Time limits of requests that concern several upstreams, and of those that the proxy makes itself.
const (
	patience      = time.Second      // how long such a request waits for one upstream
	sharedTimeout = 10 * time.Second // how long the proxy waits for the response
	listTimeout   = time.Minute      // the same, for a page of a list
	pingTimeout   = 10 * time.Second
)

// maxPings is how many pings in a row a suspended upstream may leave without a response before the
// proxy connects again.
const maxPings = 5

// Delays before an upstream is tried again. The delay doubles with each failure in a row.
const (
	minDelay = time.Second
	maxDelay = time.Minute
)

// backoff is the delay before the next attempt. The zero value is that before the first failure.
type backoff struct{ delay time.Duration }

// next returns how long to wait after a failure. The times are spread, so that the connections of
// many clients do not return to an upstream at once.
func (b *backoff) next() time.Duration {
	b.delay = min(max(2*b.delay, minDelay), maxDelay)
	return b.delay/2 + rand.N(b.delay)
}

// breaker keeps requests that concern several upstreams from one that has not responded to such a
// request in time. It is open for a delay after each failure, and closed otherwise: the next
// request tests the upstream.
type breaker struct {
	mu    sync.Mutex
	delay backoff
	until time.Time
}

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

func (b *breaker) failed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = time.Now().Add(b.delay.next())
}

func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay, b.until = backoff{}, time.Time{}
}

// worker runs a function in the background, one run after the other. Requests for a run that arrive
// during a run are joined: they get one more.
type worker struct {
	run   func() (ok bool) // reports whether the upstream has responded
	spawn func(func())

	late atomic.Bool // the latest run did not end within patience

	mu      sync.Mutex
	running bool
	next    chan struct{} // closed when the next run has ended; nil if none was requested
}

// request requests a run, and returns a channel that is closed when it has ended.
func (w *worker) request() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = make(chan struct{})
	}
	if !w.running {
		w.running = true
		w.spawn(w.loop)
	}
	return w.next
}

// loop runs the function until no run is requested.
func (w *worker) loop() {
	for {
		w.mu.Lock()
		done := w.next
		w.next = nil
		w.running = done != nil
		w.mu.Unlock()
		if done == nil {
			return
		}
		began := time.Now()
		if w.run() && time.Since(began) <= patience {
			w.late.Store(false)
		}
		close(done)
	}
}

// await requests a run and waits for its end, but no longer than patience. After it has given up,
// later calls do not wait before the upstream is punctual again. It reports whether the run has
// ended.
func (w *worker) await(ctx context.Context) bool {
	done := w.request()
	if w.late.Load() {
		return false
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		w.late.Store(true)
	case <-ctx.Done():
	}
	return false
}

// pace limits how often something may happen: burst times at once, and once per interval in the
// long run.
type pace struct {
	interval time.Duration
	burst    int

	mu   sync.Mutex
	next time.Time
}

// wait waits until it may happen the next time. It returns false if done is closed first.
func (p *pace) wait(done <-chan struct{}) bool {
	d := p.reserve()
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-done:
		return false
	}
}

// reserve returns how long the next time must wait.
func (p *pace) reserve() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(p.interval)
	return max(0, p.next.Sub(now)-time.Duration(p.burst)*p.interval)
}

// answered reports whether the outcome of a request is a response of the upstream.
func answered(err error) bool {
	if err == nil {
		return true
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return true
	}
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// ready returns the connection to the upstream, or nil while there is none or it is suspended.
func (l *link) ready() *connection {
	if x := l.conn.Load(); x != nil && !x.suspended.Load() {
		return x
	}
	return nil
}

// suspect finds out in the background whether the upstream still responds. It is called when a
// request was given up.
func (x *connection) suspect() {
	if x.l.conn.Load() == x && x.probing.CompareAndSwap(false, true) {
		x.l.c.p.upstream.Go(x.probe) // ends with a response or the session
	}
}

// probe pings the upstream until it responds. It suspends the connection if a ping remains without
// a response while the upstream serves no call: an upstream that does one thing at a time does not
// respond during a call.
func (x *connection) probe() {
	defer x.probing.Store(false)
	l, log := x.l, x.l.c.p.log
	var delay backoff
	for missed := 0; ; {
		ctx, cancel := context.WithTimeoutCause(l.c.ctx, pingTimeout, session.ErrTimeout)
		err := x.session.Ping(ctx)
		cancel()
		replaced := x.overHTTP && isReplaced(err, x.session.Traits().Sessionless)
		if !replaced && answered(err) {
			if x.suspended.CompareAndSwap(true, false) {
				log.Info("upstream responds again", "upstream", l.up.Name)
				l.prepare(l.c.ctx)
			}
			return
		}
		if !replaced && !errors.Is(err, session.ErrTimeout) {
			return // the session has ended, or reports that the upstream cannot be reached
		}
		switch {
		case x.busy():
			missed = 0
		case replaced:
			log.Warn("upstream replaced", "upstream", l.up.Name, "error", boundary.ErrorText(err))
			x.session.Internals(boundary.Caller{}).StartClose() // the next connection begins with the revisions of the other server
			return
		default:
			missed++
			if x.suspended.CompareAndSwap(false, true) {
				log.Warn("upstream suspended", "upstream", l.up.Name)
			}
			if missed >= maxPings {
				x.session.Internals(boundary.Caller{}).StartClose()
				return
			}
		}
		select {
		case <-time.After(delay.next()):
		case <-x.session.Done():
			return
		}
	}
}

// isReplaced reports whether the error of a ping shows that another server has taken the place of
// the one at the URL of an upstream, and that it does not speak the revision of the connection.
func isReplaced(err error, modernConn bool) bool {
	if _, ok := errors.AsType[*session.VersionError](err); ok {
		return true
	}
	if status, ok := errors.AsType[*httpclient.StatusError](err); ok && status.RPC == nil {
		return status.Code == http.StatusBadRequest || status.Code == http.StatusNotFound || status.Code == http.StatusMethodNotAllowed
	}
	switch jsonrpc.CodeOf(err) {
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, modern.CodeUnsupportedVersion, modern.CodeHeaderMismatch:
		return true
	case jsonrpc.CodeMethodNotFound:
		return modernConn // some servers with sessions have no ping
	}
	return false
}

// mayBeReplaced reports whether the error response to a request may be that of another server than
// the one to which the upstream was connected. A ping finds out.
func mayBeReplaced(err error) bool {
	switch jsonrpc.CodeOf(err) {
	case jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound, modern.CodeUnsupportedVersion, modern.CodeHeaderMismatch:
		return true
	}
	return false
}

// busy reports whether the upstream serves a call.
func (x *connection) busy() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.calls) > 0
}
