package lazyctx

import (
	"context"
	"sync"
	"time"
)

// Clock counts time for timeouts, and can be held: timeouts do not run while they wait for
// something that may take longer, such as the login of a user. The zero value runs.
type Clock struct {
	mu   sync.Mutex
	held *hold // nil if it was never held
}

// hold is the part of a Clock that most clocks do not need.
type hold struct {
	count    int           // unreleased calls of Hold
	since    time.Time     // of the first of them
	total    time.Duration // without the current hold
	released []func()      // called at the end of the current hold
}

// Hold stops the clock until release is called. Further calls of release have no effect.
func (c *Clock) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = new(hold)
	}
	if c.held.count++; c.held.count == 1 {
		c.held.since = time.Now()
	}
	return sync.OnceFunc(c.release)
}

func (c *Clock) release() {
	c.mu.Lock()
	var released []func()
	if h := c.held; h.count == 1 {
		h.total += time.Since(h.since)
		released, h.released = h.released, nil
	}
	c.held.count--
	c.mu.Unlock()
	for _, f := range released {
		f()
	}
}

// Rest returns how much of a timeout that began at start is left. If the clock is held, Rest returns
// true, and f is called when it runs again.
func (c *Clock) Rest(start time.Time, timeout time.Duration, f func()) (rest time.Duration, held bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest = timeout - time.Since(start)
	switch h := c.held; {
	case h == nil:
		return rest, false
	case h.count > 0:
		h.released = append(h.released, f)
		return 0, true
	default:
		return rest + h.total, false
	}
}

// AfterFunc calls f in a goroutine of its own when the clock has counted d. stop prevents that. It
// returns false if the time has passed before.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	t := &timer{clock: c, start: time.Now(), timeout: d, f: f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(d, t.expire)
	return t.stop
}

// timer calls f once.
type timer struct {
	clock   *Clock
	start   time.Time
	timeout time.Duration
	f       func()

	mu    sync.Mutex
	timer *time.Timer
	over  bool // stopped, or f was called
}

func (t *timer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	rest, held := t.clock.Rest(t.start, t.timeout, t.expire)
	switch {
	case held:
	case rest > 0:
		t.timer.Reset(rest)
	default:
		t.over = true
		go t.f() // ends when f returns
	}
}

func (t *timer) stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	t.over = true
	t.timer.Stop()
	return true
}

// WithTimeout returns a context that carries the clock; see [Hold]. It ends with ctx, or with cause
// when the clock has counted d. Unlike a context of the context package it has no deadline of its
// own, because that may move.
func (c *Clock) WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	ctx, cancel := context.WithCancelCause(WithClock(ctx, c))
	stop := c.AfterFunc(d, func() { cancel(cause) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// clockKey is the key of the innermost carrier of a context.
type clockKey struct{}

// carrier is a context with a clock.
type carrier interface {
	// carried returns the clock, and the context in which this one was made.
	carried() (*Clock, context.Context)
}

// WithClock returns a context that carries c.
func WithClock(ctx context.Context, c *Clock) context.Context { return &clocked{ctx, c} }

type clocked struct {
	context.Context
	clock *Clock
}

func (c *clocked) carried() (*Clock, context.Context) { return c.clock, c.Context }

// Value implements [context.Context].
func (c *clocked) Value(key any) any {
	if key == (clockKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Hold holds all clocks that ctx carries until release is called.
func Hold(ctx context.Context) (release func()) {
	var releases []func()
	for {
		c, ok := ctx.Value(clockKey{}).(carrier)
		if !ok {
			break
		}
		var clock *Clock
		clock, ctx = c.carried()
		releases = append(releases, clock.Hold())
	}
	return func() {
		for _, f := range releases {
			f()
		}
	}
}
