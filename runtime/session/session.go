package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// role is the role of a side in a session.
type role uint8

const (
	roleClient role = iota + 1
	roleServer
)

// Session is one side of a session with a peer. Its methods may be called by many goroutines. It is
// a [jsonrpc.Caller] and a [jsonrpc.Notifier], so that [mcp.ToServer] and the like send typed
// messages through it.
type Session struct {
	side
	conn transport.Conn
	role role

	life      *lifetime
	closeErr  error // of the connection; set before life.done is closed
	activity  engine.Activity
	handshake *handshake
	reopening reopening
	calls     calls      // requests to the peer
	listens   listens    // the subscriptions of a client in revisions without sessions
	inbound   engine.Set // requests of the peer
	trackers  *trackers
	replies   mailbox.Mailbox[response] // answers of the read loop
	// Notifications for the handler; paused while initialize is not answered.
	notices mailbox.Mailbox[notice]
}

// Limits of pending answers of the read loop.
const (
	maxReplies    = 16384
	maxReplyBytes = 4 << 20
)

// newSession returns a session that has not started, and the error of an invalid configuration.
func newSession(conn transport.Conn, role role, cfg *Options) (s *Session, invalid error) {
	complete, invalid := cfg.complete()
	s = &Session{
		conn:      conn,
		side:      side{cfg: complete},
		role:      role,
		life:      newLifetime(),
		handshake: newHandshake(role),
		trackers:  newTrackers(),
	}
	s.calls = calls{activity: &s.activity, idPrefix: s.cfg.inner.IDPrefix, open: map[int64]*pending{}, deliverLate: func(late lateFunc, a answer) {
		s.life.work.Add(1)
		go func() { // ends when late returns
			defer s.life.exit()
			s.callLate(late, a)
		}()
	}}
	s.inbound = engine.Set{Activity: &s.activity, MaxRequests: s.cfg.Limits.Requests, MaxBytes: s.cfg.Limits.Bytes}
	s.replies = mailbox.Mailbox[response]{
		Handle: func(r response) { s.answer(s.life.ctx, r) }, Spawn: s.spawnBusy, MaxItems: maxReplies, MaxBytes: maxReplyBytes,
	}
	s.notices = mailbox.Mailbox[notice]{
		Handle: s.notify, Spawn: s.spawnBusy, MaxItems: s.cfg.Limits.Notifications, MaxBytes: s.cfg.Limits.Bytes,
	}
	if c, ok := transport.As[mailbox.Conn](conn); ok {
		requests, pending := c.Meters()
		s.inbound.Meter, s.replies.Meter, s.notices.Meter = requests, pending, pending
	}
	if role == roleClient {
		s.notices.Pause()
	}
	s.warnings.log = s.cfg.Logger
	s.handler = wrap(s.base, s.cfg.Hooks.Receiving)
	s.sender = wrap(s.send, s.cfg.Hooks.Sending)
	if sender := s.sender; len(s.cfg.Hooks.Sending) > 0 {
		s.sender = func(ctx context.Context, call *Call) (result json.RawMessage, err error) {
			defer boundary.Catch(&err)
			return sender(ctx, call)
		}
	}
	return s, invalid
}

// wrap returns f with its middleware, the first one outermost.
func wrap[F any, M ~func(F) F](f F, middleware []M) F {
	for _, m := range slices.Backward(middleware) {
		f = m(f)
	}
	return f
}

// start starts the goroutines of the session. They end with it. If the configuration is invalid,
// start ends the session instead.
func (s *Session) start(invalid error) {
	if invalid != nil {
		s.cfg.Logger.Error("invalid configuration", "error", invalid)
		s.stop(invalid)
		return
	}
	if c, ok := transport.As[ability.Owned](s.conn); ok {
		c.Own(owner{s})
	}
	if p, ok := s.conn.(ability.Pusher); !ok || !p.Push(s.conn, s.pushed) {
		s.life.work.Add(1)
		go s.read()
	}
	if s.cfg.Timeouts.KeepAlive > 0 {
		s.life.work.Add(1)
		go s.keepAlive()
	}
}

// Info describes the connection of the session. It is the zero Info if the connection is not a
// [transport.Described].
func (s *Session) Info() (info transport.Info) {
	c, ok := transport.As[transport.Described](s.conn)
	if !ok {
		return info
	}
	s.panicked("transport", boundary.Run(func() error { info = c.Info(); return nil }))
	return info
}

// Revision returns the negotiated revision, or "" before the handshake.
func (s *Session) Revision() mcp.Revision { return s.handshake.current.Load().revision }

// Client returns the params of initialize, or nil before the handshake. They must not be changed.
func (s *Session) Client() *mcp.InitializeRequestParams { return s.handshake.current.Load().client }

// Server returns the result of initialize, or nil before the handshake. It must not be changed. If
// a lost session was replaced, Server returns the result for the new one; see [Hooks].Reopened. In
// a revision without sessions, it returns the latest result of server/discover, which Ping sends,
// too.
func (s *Session) Server() *mcp.InitializeResult { return s.handshake.current.Load().server }

// Ready waits until the handshake is complete. It returns at once for a session of [Connect]. It
// fails with the cause of ctx if ctx ends, or with [ErrClosed] if the session ends.
func (s *Session) Ready(ctx context.Context) error {
	if s.life.over() {
		return s.life.err()
	}
	select {
	case <-s.handshake.ready:
		return nil
	case <-s.life.ctx.Done():
		return s.life.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done returns a channel that is closed when the session has ended and all its goroutines have
// returned.
func (s *Session) Done() <-chan struct{} { return s.life.done }

// AfterDone registers f to be called once Done is closed. It calls f at once if Done is closed
// already. f runs in a goroutine that other registered functions may share. AfterDone costs less
// than a goroutine that waits for Done.
func (s sessionInternals) AfterDone(f func()) {
	if !s.life.afterDone(f) {
		go s.callAfter(f) // ends when f returns
	}
}

// Wait waits until the session has ended and all its goroutines have returned. It returns the cause
// of the end. If a side has closed the session, for instance by closing the standard input of a
// server, it returns the error of closing the connection, or nil.
func (s *Session) Wait() error {
	<-s.life.done
	cause := context.Cause(s.life.ctx)
	if cause == ErrClosed || cause == io.EOF || errors.Is(cause, transport.ErrClosed) {
		return s.closeErr
	}
	return cause
}

// Close ends the session at once: it cancels the contexts of handlers, fails the calls that wait
// for an answer, closes the connection, and waits until handlers have returned. It returns the
// error of closing the connection. A handler must call it in a goroutine of its own.
func (s *Session) Close() error {
	s.stop(ErrClosed)
	<-s.life.done
	return s.closeErr
}

// StartClose is [Session.Close] without waiting.
func (s sessionInternals) StartClose() { s.stop(ErrClosed) }

// Shutdown ends the session in order. It rejects further requests with [CodeClosing], waits until
// requests of the peer are answered, notifications are handled and requests to the peer have an
// answer, and then closes. It does not wait for requests that only wait, such as
// subscriptions/listen. If ctx ends first, Shutdown answers open requests of the peer with
// CodeClosing and returns the cause of ctx. Then it does not wait for handlers that ignore the end
// of their context; Wait does.
func (s *Session) Shutdown(ctx context.Context) error {
	s.inbound.Shutdown()
	s.calls.drain()
	s.listens.end(ErrClosed)
	if s.rest(ctx) {
		s.stop(ErrClosed)
		select {
		case <-s.life.done:
			return s.closeErr
		case <-ctx.Done(): // the session has ended, and a handler ignores that
		}
	} else {
		go func() { // ends when the transport has accepted the answers, or after abandon's timeout
			s.abandon()
			s.stop(ErrClosed)
		}()
	}
	timer := time.NewTimer(shutdownGrace)
	defer timer.Stop()
	select {
	case <-s.life.done:
	case <-timer.C:
	}
	return context.Cause(ctx)
}

// shutdownGrace limits how long Shutdown waits for the last answers to be sent after its context
// has ended.
const shutdownGrace = 100 * time.Millisecond

// abandon answers open requests with CodeClosing, until the transport blocks for a second.
func (s *Session) abandon() {
	ctx, cancel := context.WithTimeout(s.life.ctx, time.Second)
	defer cancel()
	s.inbound.Abandon(ctx, ErrClosed)
	s.replies.Wait(ctx) // answers to batches
}

// stop ends the session with cause and does not wait. It does nothing if the session has ended.
func (s *Session) stop(cause error) {
	if !s.life.stop(cause) {
		return
	}
	s.replies.Close()
	s.notices.Close()
	s.calls.close(s.life.err(), s.life.err())
	s.inbound.Close(cause)
	s.trackers.close()
	go func() { // ends when all other goroutines of the session have
		s.closeErr = boundary.Run(s.conn.Close)
		s.panicked("transport", s.closeErr)
		s.life.finish(s.callAfter)
	}()
}

// callAfter calls a function that was passed to AfterDone.
func (s *Session) callAfter(f func()) {
	s.panicked("AfterDone", boundary.Run(func() error { f(); return nil }))
}

// panicked logs err if it is a panic. name is the function that panicked.
func (s *Session) panicked(name string, err error) {
	boundary.Report(s.cfg.Logger, name+" panicked", err)
}

// spawnBusy runs f in a goroutine of the session that Shutdown waits for. It returns false, and
// does not run f, if the session has ended.
func (s *Session) spawnBusy(f func()) bool {
	s.activity.Begin()
	ok := s.life.spawn(func() {
		defer s.activity.End()
		f()
	})
	if !ok {
		s.activity.End()
	}
	return ok
}

// read reads messages until the connection or the session ends.
func (s *Session) read() {
	defer s.life.exit()
	for !s.life.over() && s.dispatch(s.next()) {
	}
}

// next calls Conn.Read. It returns a panic as an error.
func (s *Session) next() (m transport.Message, err error) {
	defer boundary.Catch(&err)
	return s.conn.Read()
}

// pushed receives a message or an error from a connection in push mode.
func (s *Session) pushed(m transport.Message, err error) {
	if !s.life.enter() {
		return
	}
	defer s.life.exit()
	s.dispatch(m, err)
}

// dispatch processes a result of Conn.Read. It returns false if it is the last one.
func (s *Session) dispatch(m transport.Message, err error) (more bool) {
	if err == nil {
		s.receive(m)
		return true
	}
	return s.readFailed(err)
}

// readFailed processes an error of Conn.Read. It returns false if it is the last one.
func (s *Session) readFailed(err error) (more bool) {
	if refused, ok := errors.AsType[*transport.MessageError](err); ok {
		s.warn("message rejected", "error", boundary.ErrorText(refused.Err))
		s.reply(response{text: refusal(refused)})
		return true
	}
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		s.lost(lost)
		return true
	}
	if lost, ok := errors.AsType[*transport.SessionLostError](err); ok {
		s.withdraw(lost)
		if lost.Unanswered {
			s.calls.lose(lost.Session, &transport.DeliveryError{Taken: true, Err: lost})
		}
		s.reopen(lost)
		return true
	}
	if err == io.EOF {
		s.peerDone()
	} else {
		s.panicked("transport", err)
		s.stop(err)
	}
	return false
}

// lost fails the call whose answer can no longer arrive.
func (s *Session) lost(err *transport.DeliveryError) {
	if !err.ID.IsZero() {
		s.answered(err.ID, answer{err: err})
		return
	}
	s.warn("message lost", "error", boundary.ErrorText(err.Err))
}

// peerDone ends the session after the peer has closed its sending side. Handlers may run for the
// grace period.
func (s *Session) peerDone() {
	s.inbound.Refuse()
	s.calls.close(fmt.Errorf("%w: %w", ErrClosed, io.EOF), ErrClosed)
	ctx, cancel := context.WithTimeout(s.life.ctx, s.cfg.Timeouts.Grace)
	s.life.work.Add(1)
	go func() { // ends after the grace period, or with the session
		defer s.life.exit()
		defer cancel()
		if !s.rest(ctx) {
			s.abandon()
		}
		s.stop(io.EOF)
	}()
}

// rest waits until the session is idle or has ended. It returns false if ctx ends first.
func (s *Session) rest(ctx context.Context) (ok bool) {
	select {
	case <-s.activity.Done():
		return true
	case <-s.life.ctx.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// writeUntil passes a message to the transport. An error of the connection ends the session.
func (s *Session) writeUntil(ctx context.Context, m transport.Message) error {
	if s.life.over() {
		return s.life.err()
	}
	if err := s.put(ctx, m); err != nil {
		return s.writeFailed(ctx, err)
	}
	return nil
}

// writeFailed returns the error of a write that has failed with err.
func (s *Session) writeFailed(ctx context.Context, err error) error {
	switch {
	case s.life.over():
		return s.life.err()
	case ctx.Err() != nil:
		return err
	}
	if _, ok := errors.AsType[*transport.MessageError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*transport.SessionLostError](err); ok {
		return err
	}
	s.panicked("transport", err)
	s.stop(err)
	return s.life.err()
}

// put sends a message with its Reply or, without one and after the answer, calls Conn.Write. It
// returns a panic as an error.
func (s *Session) put(ctx context.Context, m transport.Message) (err error) {
	defer boundary.Catch(&err)
	if m.Reply != nil {
		if err := m.Reply.Send(ctx, m.Text); !errors.Is(err, transport.ErrAnswered) {
			return err
		}
		m.Reply = nil
	}
	return s.conn.Write(ctx, m)
}

// keepAlive pings the peer at intervals until the session ends, except while the peer is detached
// or has not opened a session. If Limits.MissedPings in a row are not answered, it replaces the session
// if the connection can reopen one, and otherwise ends it.
func (s *Session) keepAlive() {
	defer s.life.exit()
	ticker := time.NewTicker(s.cfg.Timeouts.KeepAlive)
	defer ticker.Stop()
	missed, last := 0, uint32(0)
	for {
		select {
		case <-ticker.C:
		case <-s.life.ctx.Done():
			return
		}
		session := s.reopening.current.Load()
		if session != last {
			missed, last = 0, session
		}
		if s.detached() || s.withoutSession() {
			missed = 0
			continue
		}
		_, err := s.With(Timeout(s.cfg.Timeouts.KeepAlive)).Call(lazyctx.Unattended(s.life.ctx), s.pingMethod(), nil)
		if !errors.Is(err, ErrTimeout) || s.detached() {
			missed = 0
			continue
		}
		missed++
		s.cfg.Logger.Warn("ping timed out", "timeout", s.cfg.Timeouts.KeepAlive, "missed", missed)
		switch {
		case missed < s.cfg.Limits.MissedPings:
		case session == 0 || s.handshake.current.Load().phase != phaseReady:
			s.stop(ErrUnresponsive)
			return
		default:
			s.reopen(&transport.SessionLostError{Session: session, Err: ErrUnresponsive})
		}
	}
}

// withoutSession reports whether the client has not opened a session, which it need not do to send
// modern requests. Such a client does not answer requests.
func (s *Session) withoutSession() bool {
	return s.cfg.responder != nil && s.handshake.isNew()
}

// detached reports whether the peer cannot receive pings now; see [ability.Detachable].
func (s *Session) detached() bool {
	yes := false
	err := boundary.Run(func() error {
		c, ok := transport.As[ability.Detachable](s.conn)
		yes = ok && c.Detached()
		return nil
	})
	boundary.Report(s.cfg.Logger, "transport panicked", err)
	return yes
}
