package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// reopening replaces a session that the server has lost; see [transport.Reopener].
type reopening struct {
	conn    transport.Reopener // nil if the connection is not a Reopener
	current atomic.Uint32      // number of the open session; 0 if conn is nil

	// Number of the last session whose requests were withdrawn; used by the reading goroutine.
	withdrawn uint32

	mu          sync.Mutex
	initialize  *Call    // nil before it is sent
	initialized *Call    // nil before it is sent
	lost        uint32   // number of the last lost session
	attempt     *attempt // nil while a session is open
	reporting   bool     // Hooks.Reopened is being called
	// Result of initialize in the latest new session; nil once Hooks.Reopened is called with it.
	opened *mcp.InitializeResult
}

// attempt is an attempt to open a new session.
type attempt struct {
	done  chan struct{} // closed when err is set
	err   error
	clock lazyctx.Clock // of the handshake
}

func (r *reopening) init(conn transport.Conn) {
	if c, ok := transport.As[transport.Reopener](conn); ok {
		r.conn = c
		r.current.Store(1)
	}
}

// record stores the messages of the handshake, which repeatHandshake sends again.
func (r *reopening) record(call *Call) {
	if r.conn == nil {
		return
	}
	switch call.Method {
	case mcp.MethodInitialize:
		r.mu.Lock()
		r.initialize = call
		r.mu.Unlock()
	case mcp.MethodNotificationsInitialized:
		r.mu.Lock()
		r.initialized = call
		r.mu.Unlock()
	}
}

// reopen starts to open a new session to replace a lost one, unless that has started already. It
// returns the attempt, or nil if the lost session is replaced.
func (s *Session) reopen(lost *transport.SessionLostError) *attempt {
	r := &s.reopening
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = max(r.lost, lost.Session)
	if r.attempt == nil && lost.Session >= r.current.Load() {
		a := &attempt{done: make(chan struct{})}
		r.attempt = a
		started := s.life.spawn(func() { // ends when a session is open, or with the session
			for a != nil {
				a = s.try(a, lost)
			}
		})
		if !started {
			a.err = s.life.err()
			close(a.done)
		}
	}
	return r.attempt
}

// try is one attempt to replace a lost session. It returns the next attempt if this one has failed
// and a later one may succeed.
func (s *Session) try(a *attempt, lost error) (next *attempt) {
	r := &s.reopening
	session, err := s.nextSession()
	final := err != nil
	var server *mcp.InitializeResult
	if err == nil {
		server, err = s.repeatHandshake(lazyctx.WithClock(s.life.ctx, &a.clock), session)
		final = err != nil && isFinal(err)
	}
	if err == nil {
		s.handshake.set(func(a *agreement) { a.server = server })
	}
	r.mu.Lock()
	if err == nil && r.lost >= session {
		err = transport.ErrSessionLost
	}
	r.attempt = nil
	if err == nil {
		r.current.Store(session)
	} else {
		a.err = fmt.Errorf("%w: new session: %w", lost, err)
		next = &attempt{done: make(chan struct{})}
		r.attempt = next
	}
	r.mu.Unlock()
	if final {
		cause := fmt.Errorf("%w: %w", transport.ErrClosed, a.err)
		if errors.Is(err, errors.ErrUnsupported) && errors.Is(lost, ErrUnresponsive) {
			cause = ErrUnresponsive // the connection is for one session only
		}
		s.stop(cause)
		next.err = s.life.err()
		close(next.done)
		next = nil
	}
	close(a.done)
	if err != nil {
		s.cfg.Logger.Info("session not reopened", "error", boundary.ErrorText(err))
		return next
	}
	s.cfg.Logger.Info("session reopened")
	if s.cfg.Hooks.Reopened != nil {
		s.reportReopened(server)
	}
	return nil
}

// reportReopened calls Hooks.Reopened in a goroutine. If a call is running, that goroutine makes
// another call afterwards. Otherwise a server that keeps losing sessions could cause an unlimited
// number of goroutines.
func (s *Session) reportReopened(server *mcp.InitializeResult) {
	r := &s.reopening
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = server
	if r.reporting {
		return
	}
	r.reporting = true
	s.life.spawn(func() { // ends when the callback has the latest session
		r.mu.Lock()
		defer r.mu.Unlock()
		for r.opened != nil && !s.life.over() {
			latest := r.opened
			r.opened = nil
			r.mu.Unlock()
			s.panicked("Reopened", boundary.Run(func() error { s.cfg.Hooks.Reopened(latest); return nil }))
			r.mu.Lock()
		}
		r.reporting = false
	})
}

// nextSession calls Reopen of the connection. It returns a panic as an error.
func (s *Session) nextSession() (session uint32, err error) {
	defer boundary.Catch(&err)
	if s.reopening.conn == nil {
		return 0, errors.New("session: connection cannot reopen a session")
	}
	return s.reopening.conn.Reopen(s.life.ctx)
}

var errRevision = errors.New("session: server has changed its revision")

// isFinal reports whether the server would reject another attempt, too.
func isFinal(err error) bool {
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return lost.Refused
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return !IsTemporary(err)
	}
	return errors.Is(err, errRevision) || errors.Is(err, ErrClosed)
}

// repeatHandshake sends the messages of the handshake again, in a new session.
func (s *Session) repeatHandshake(ctx context.Context, session uint32) (*mcp.InitializeResult, error) {
	if s.Traits().Sessionless {
		return s.repeatDiscover(ctx, session)
	}
	r := &s.reopening
	r.mu.Lock()
	initialize, initialized := r.initialize, r.initialized
	r.mu.Unlock()
	timeout := s.cfg.timeout(mcp.MethodInitialize)
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	again := *initialize
	again.opts.timeout, again.opts.timed = timeout, true
	got, err := s.exchange(ctx, &again, exchange{session: session, inside: true, start: time.Now()})
	if err != nil {
		return nil, err
	}
	var result mcp.InitializeResult
	if err := codec.Unmarshal(got, &result); err != nil {
		return nil, fmt.Errorf("session: result of initialize: %w", err)
	}
	if revision := s.Revision(); revision != mcp.Revision(result.ProtocolVersion) {
		return nil, fmt.Errorf("%w from %s to %s", errRevision, revision, result.ProtocolVersion)
	}
	if initialized == nil {
		return &result, nil
	}
	text, _, err := encodeCall(jsonrpc.ID{}, initialized.Method, initialized.Params, initialized.meta, nil)
	if err != nil {
		return nil, err
	}
	limited := lazyctx.WithTimeout(ctx, timeout, ErrTimeout)
	defer limited.Cancel()
	return &result, s.writeUntil(limited, transport.Message{Text: text, Session: session})
}

// awaitReopened waits until the session of a message that failed with err is replaced. It returns
// nil if the message may be sent again. It returns err if the session was not lost, or if the
// server may have received the message.
func (s *Session) awaitReopened(ctx context.Context, call *Call, start time.Time, err error) error {
	lost, ok := errors.AsType[*transport.SessionLostError](err)
	delivery, sent := errors.AsType[*transport.DeliveryError](err)
	if !ok || sent && delivery.Taken || call.Method == mcp.MethodNotificationsCancelled {
		return err
	}
	a := s.reopen(lost)
	if a == nil {
		return nil
	}
	var timer *time.Timer
	var timedOut <-chan time.Time
	if d := call.opts.timeout; d > 0 {
		timer = time.NewTimer(d - time.Since(start))
		defer timer.Stop()
		timedOut = timer.C
	}
	for {
		select {
		case <-a.done:
			if a.err != nil {
				return &transport.DeliveryError{Err: a.err}
			}
			return nil
		case <-timedOut:
			rest, held := restOf(&a.clock, start, call.opts.timeout, timer)
			switch {
			case held:
			case rest > 0:
				timer.Reset(rest)
			default:
				return ErrTimeout
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.life.ctx.Done():
			return s.life.err()
		}
	}
}

// withdraw cancels the requests of the peer that belong to a lost session. They are not answered:
// the next session may reuse their ids.
func (s *Session) withdraw(lost *transport.SessionLostError) {
	reason := boundary.Text(boundary.ErrorText(lost), maxReason)
	s.reopening.withdrawn = max(s.reopening.withdrawn, lost.Session)
	for x, cancel := range s.inbound.Withdraw(lost.Session) {
		if cancel {
			s.interrupt(x, reason)
		} else {
			x.Reply.Answer(s.life.ctx, nil, nil)
		}
	}
}
