package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Defaults of [Upstream].
const (
	defaultMaxConnections  = 1024
	defaultMaxPerPrincipal = 256
	// defaultMaxInputRequests is the default of Limits.Requests in [Upstream].Session. It limits the
	// input requests of an upstream that a client has not responded to.
	defaultMaxInputRequests = 256
	// defaultInputRequestsPerMinute is half of that of package client.
	defaultInputRequestsPerMinute = 60
)

// minHeld is how long a call may wait for input before it is ended because its connection is
// needed.
const minHeld = time.Minute

// minIdle is how long a connection must have served no call before another principal may take its
// place.
const minIdle = 5 * time.Second

var errHeldDisplaced = errors.New("proxy: connection of the call was needed by another one")

// slots limits the connections to an upstream, and divides them between the principals. A network of
// clients without a principal counts as one. While no place is free, a principal that has less than
// its share gets the places of the one that has the most. The share of each principal is the same.
// Connections with running calls or tasks are not taken away, so the principal may have to wait.
// Meanwhile, no principal with more connections gets a place that becomes free.
type slots struct {
	name         string // of the upstream
	max          int
	perPrincipal int
	patience     time.Duration // how long a principal with less than its share waits

	mu     sync.Mutex
	all    int
	shares map[string]*share // by principal or network; see accountOf
	freed  chan struct{}     // closed when a place becomes free; nil if nothing waits for it
}

// share is what a principal has, or waits for.
type share struct {
	all     int
	calls   int           // connections of single calls; at most a quarter of perPrincipal
	waiting []*heldCall   // of calls with connections of their own that wait for input, the longest first
	open    []*connection // the other connections, as far as they are open
	wanting int           // callers of take that wait for a place
}

// place is the place of an open connection.
type place struct {
	x     *connection
	held  *heldCall // the call if the connection is for a single one, which waits for input
	since time.Time // when that began
}

// take counts a connection of a principal that is about to be opened. If no place is free, it
// displaces another connection, and waits until that is closed: a connection for a call displaces a
// call of the principal that has waited for input for more than minHeld, and a principal with less
// than its share displaces one of another principal, which may have to become idle first.
func (s *slots) take(ctx context.Context, principal string, forCall bool) error {
	var late <-chan time.Time
	for {
		places, freed, err := s.tryTake(principal, forCall)
		if err == nil {
			return nil
		}
		if victim, ok := longestIdle(places); ok && s.transfer(victim, principal, forCall) {
			victim.displace(err)
			select {
			case <-victim.x.closed:
				return nil
			case <-ctx.Done():
				s.give(principal, forCall)
				return context.Cause(ctx)
			}
		}
		if freed == nil {
			return err
		}
		if late == nil {
			s.want(principal, 1)
			defer s.want(principal, -1)
			timer := time.NewTimer(s.patience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-time.After(time.Second): // a connection may have become idle
		case <-late:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryTake takes a place that is free. If it fails, it returns the places that may be taken instead.
// If the caller may wait for a place, freed is closed when one becomes free.
func (s *slots) tryTake(principal string, forCall bool) (instead []place, freed <-chan struct{}, err *jsonrpc.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(principal)
	defer s.drop(principal, of)
	limit, full := "", s.all >= s.max || s.isOvertaken(of)
	switch {
	case of.all >= s.perPrincipal:
		limit, full = fmt.Sprintf("%d connections of a principal", s.perPrincipal), false
	case forCall && of.calls >= max(1, s.perPrincipal/4):
		limit, full = fmt.Sprintf("%d connections of a principal for single calls", max(1, s.perPrincipal/4)), false
	case full:
		limit = fmt.Sprintf("%d connections", s.max)
	default:
		s.count(of, forCall, 1)
		return nil, nil, nil
	}
	err = &jsonrpc.Error{Code: session.CodeOverloaded, Message: "upstream " + s.name + ": limit of " + limit + " is reached"}
	if forCall {
		instead = of.calling()
	}
	if most := s.most(); full && most != nil && of.all < s.share() {
		instead = append(instead, most.calling()...)
		for _, x := range most.open {
			instead = append(instead, place{x: x})
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed = s.freed
	}
	return instead, freed, err
}

// calling returns the places of calls that wait for input.
func (of *share) calling() (places []place) {
	for _, h := range of.waiting {
		places = append(places, place{h.alone, h, h.waits})
	}
	return places
}

// share returns how many connections a principal may keep while another one wants some. The caller
// must hold mu.
func (s *slots) share() int { return max(1, s.max/len(s.shares)) }

// most returns the principal with the most connections, or nil if none has more than its share. The
// caller must hold mu.
func (s *slots) most() (most *share) {
	n := s.share()
	for _, of := range s.shares {
		if of.all > n {
			most, n = of, of.all
		}
	}
	return most
}

// isOvertaken reports whether a principal with fewer connections waits for one. The caller must hold
// mu.
func (s *slots) isOvertaken(of *share) bool {
	for _, other := range s.shares {
		if other.wanting > 0 && other.all < of.all {
			return true
		}
	}
	return false
}

// longestIdle returns the place whose connection may be closed in favor of another one: a call that
// has waited for input for the longest time, or else the connection that has been idle for the
// longest time. The caller must not hold mu.
func longestIdle(places []place) (best place, ok bool) {
	for _, p := range places {
		if p.held != nil && time.Since(p.since) >= minHeld && (!ok || p.since.Before(best.since)) {
			best, ok = p, true
		}
	}
	if ok {
		return best, true
	}
	for _, p := range places {
		if p.held != nil {
			continue
		}
		since, idle := p.x.idle()
		if idle && time.Since(since) >= minIdle && (!ok || since.Before(best.since)) {
			best, ok = place{x: p.x, since: since}, true
		}
	}
	return best, ok
}

// transfer gives the place of a connection to a principal, before that is closed. It returns false
// if the connection has ended meanwhile.
func (s *slots) transfer(p place, principal string, forCall bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	loser := p.x.account
	from, to := s.of(loser), s.of(principal)
	if p.held != nil {
		i := slices.Index(from.waiting, p.held)
		if i < 0 {
			return false
		}
		from.waiting = slices.Delete(from.waiting, i, i+1)
	} else {
		i := slices.Index(from.open, p.x)
		if i < 0 {
			return false
		}
		from.open = slices.Delete(from.open, i, i+1)
	}
	p.x.displaced = true
	s.count(from, p.x.alone, -1)
	s.count(to, forCall, 1)
	s.drop(loser, from)
	return true
}

// displace closes the connection of a place. Its clients get err until there is another one.
func (p place) displace(err *jsonrpc.Error) {
	if h := p.held; h != nil {
		h.cancel(errHeldDisplaced)
		h.c.release(h)
		return
	}
	p.x.l.c.p.log.Info("upstream connection given to another principal", "upstream", p.x.l.up.Name)
	p.x.l.limited.Store(err)
	p.x.session.Internals(boundary.Caller{}).StartClose()
}

// of returns the share of a principal. The caller must hold mu, and call drop.
func (s *slots) of(principal string) *share {
	of := s.shares[principal]
	if of == nil {
		of = new(share)
		s.shares[principal] = of
	}
	return of
}

// drop removes the share of a principal that has no connections and waits for none. The caller must
// hold mu.
func (s *slots) drop(principal string, of *share) {
	if of.all == 0 && of.wanting == 0 {
		delete(s.shares, principal)
	}
}

// count adds n connections of a principal. The caller must hold mu.
func (s *slots) count(of *share, forCall bool, n int) {
	s.all += n
	of.all += n
	if forCall {
		of.calls += n
	}
}

// want adds n callers of take that wait.
func (s *slots) want(principal string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(principal)
	of.wanting += n
	s.drop(principal, of)
}

// opened records a connection, which is not for a single call.
func (s *slots) opened(principal string, x *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(principal)
	of.open = append(of.open, x)
}

// closed undoes take, and opened, when a connection is closed.
func (s *slots) closed(principal string, x *connection) {
	s.mu.Lock()
	displaced := x.displaced
	if of := s.shares[principal]; of != nil {
		of.open = slices.DeleteFunc(of.open, func(other *connection) bool { return other == x })
	}
	s.mu.Unlock()
	if !displaced {
		s.give(principal, x.alone)
	}
	close(x.closed)
}

// give undoes take.
func (s *slots) give(principal string, forCall bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of(principal)
	s.count(of, forCall, -1)
	s.drop(principal, of)
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// begin records that a call with a connection of its own waits for input.
func (s *slots) begin(principal string, h *heldCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.shares[principal]; of != nil {
		h.waits = time.Now()
		of.waiting = append(of.waiting, h)
	}
}

// end undoes begin.
func (s *slots) end(principal string, h *heldCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.shares[principal]; of != nil {
		of.waiting = slices.DeleteFunc(of.waiting, func(other *heldCall) bool { return other == h })
	}
}
