package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Defaults of [Upstream].
const (
	DefaultMaxConnections  = 1024
	DefaultMaxPerPrincipal = 256
	// DefaultMaxInputRequests is the default of MaxRequests in [Upstream].Session. It limits the
	// input requests of an upstream that a client has not responded to.
	DefaultMaxInputRequests = 256
)

// minHeld is how long a call may wait for input before it is ended because its connection is
// needed.
const minHeld = time.Minute

var errHeldDisplaced = errors.New("proxy: connection of the call was needed by another one")

// slots limits the connections to an upstream.
type slots struct {
	name         string // of the upstream
	max          int
	perPrincipal int

	mu     sync.Mutex
	all    int
	shares map[string]*share // by principal
}

// share is the part of a principal.
type share struct {
	all     int
	calls   int         // connections of single calls; at most a quarter of perPrincipal
	waiting []*heldCall // of calls with connections of their own that wait for input, the longest first
}

// take counts a connection of a principal that is about to be opened. If the limit is reached, a
// connection for a call takes the place of a call that has waited for input for more than minHeld.
func (s *slots) take(ctx context.Context, principal string, forCall bool) error {
	for {
		victim, err := s.tryTake(principal, forCall)
		if victim == nil {
			return err
		}
		victim.cancel(errHeldDisplaced)
		victim.c.release(victim)
		select {
		case <-victim.closed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryTake is take, but returns the call whose end gives way.
func (s *slots) tryTake(principal string, forCall bool) (victim *heldCall, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.shares[principal]
	if of == nil {
		of = new(share)
	}
	limit := ""
	switch {
	case s.all >= s.max:
		limit = fmt.Sprintf("%d connections", s.max)
	case of.all >= s.perPrincipal:
		limit = fmt.Sprintf("%d connections of a principal", s.perPrincipal)
	case forCall && of.calls >= max(1, s.perPrincipal/4):
		limit = fmt.Sprintf("%d connections of a principal for single calls", max(1, s.perPrincipal/4))
	default:
		s.all++
		of.all++
		if forCall {
			of.calls++
		}
		s.shares[principal] = of
		return nil, nil
	}
	if forCall && len(of.waiting) > 0 && time.Since(of.waiting[0].waits) >= minHeld {
		victim = of.waiting[0]
		of.waiting = of.waiting[1:]
		return victim, nil
	}
	return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "upstream " + s.name + ": limit of " + limit + " is reached"}
}

// give undoes take when the connection is closed.
func (s *slots) give(principal string, forCall bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.shares[principal]
	s.all--
	of.all--
	if forCall {
		of.calls--
	}
	if of.all == 0 {
		delete(s.shares, principal)
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
