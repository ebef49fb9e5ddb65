package jetstream

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// clock estimates the time of the servers from the times of their messages, and from the monotonic
// clock of this process between them. The zero value is ready to use.
type clock struct {
	mu     sync.Mutex
	server time.Time // zero if unknown
	at     time.Time // local time, with a monotonic reading, at which the servers had that time
}

// clockTolerance is more than the error of a sample, which is half the time of its request.
const clockTolerance = attemptTimeout

// now returns the time of the servers, or the local time if it is unknown.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server.IsZero() {
		return time.Now()
	}
	return c.server.Add(time.Since(c.at))
}

// sample adds the time at which a server processed a request that has just ended. If the server's
// clock seems to have been set, and the clock of this process disagrees with that, the sample is
// ignored: of three clocks, two are right.
func (c *clock) sample(begun, server time.Time) {
	took := time.Since(begun)
	if took > attemptTimeout || server.IsZero() {
		return // this process may have been suspended after the response
	}
	at := begun.Add(took / 2)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.server.IsZero() {
		estimate := c.server.Add(at.Sub(c.at))
		if server.Sub(estimate).Abs() > clockTolerance && apart(estimate, time.Now()) < apart(server, time.Now()) {
			return
		}
	}
	c.server, c.at = server.Round(0), at
}

// apart returns the difference of two wall clocks.
func apart(a, b time.Time) time.Duration { return a.Round(0).Sub(b.Round(0)).Abs() }

// Now implements [task.Store]: it returns the time of the servers. [Open] and each renewal of the
// lease of a member compare the clocks.
func (s *store) Now() time.Time { return s.clock.now() }

// earlier returns the earlier of the times of the servers and of this process. So nothing is
// removed too early unless both clocks are wrong.
func (s *store) earlier() time.Time {
	now := s.clock.now()
	if local := time.Now(); local.Round(0).Before(now) {
		return local
	}
	return now
}

// headerBegun has the time between the start of the membership and that of a renewal.
const headerBegun = "Mcpwire-Begun"

// sampleRenewal compares the clocks by the announcement of a renewal of this member.
func (m *membership) sampleRenewal(header nats.Header) {
	since, err := time.ParseDuration(header.Get(headerBegun))
	if err != nil {
		return // an operator has written the message
	}
	if at, err := time.Parse(time.RFC3339Nano, header.Get(headerTime)); err == nil {
		m.s.clock.sample(m.started.Add(since), at)
	}
}
