package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Role is the part that a side plays.
type Role uint8

// The roles.
const (
	RoleClient Role = iota + 1
	RoleServer
)

// String names the role.
func (r Role) String() string {
	if r == RoleServer {
		return "server"
	}
	return "client"
}

// Session is one side of a conversation with one peer. Its methods may be called by many goroutines. It is a
// [jsonrpc.Caller] and a [jsonrpc.Notifier], so that [mcp.ToServer] and the like send typed messages through it.
type Session struct {
	conn    transport.Conn
	cfg     Config
	role    Role
	handler Handler // with its middleware
	sender  Sender  // with its middleware

	life      *lifetime
	closeErr  error // of the connection; set before life.done is closed
	activity  activity
	handshake *handshake
	calls     calls   // requests to the peer
	inbound   inbound // requests of the peer
	trackers  *trackers
	replies   mailbox.Mailbox[transport.Message] // answers of the read loop itself
	notices   mailbox.Mailbox[*Request]          // notifications for the handler, once the session is open
	warnings
}

// Limits of the read loop's own answers that wait for the transport.
const (
	maxReplies    = 16384
	maxReplyBytes = 4 << 20
)

func newSession(conn transport.Conn, role Role, cfg *Config) *Session {
	s := &Session{
		conn:      conn,
		cfg:       cfg.withDefaults(),
		role:      role,
		life:      newLifetime(),
		handshake: newHandshake(role),
		trackers:  newTrackers(),
	}
	s.calls = calls{activity: &s.activity, byID: map[jsonrpc.ID]*pending{}, deliverLate: func(late lateFunc, a answer) {
		s.life.work.Add(1)
		go func() { // ends when late does
			defer s.life.exit()
			s.callLate(late, a)
		}()
	}}
	s.inbound = inbound{
		activity: &s.activity, byID: map[jsonrpc.ID]*serving{}, maxRequests: s.cfg.MaxRequests, maxBytes: s.cfg.MaxBytes,
	}
	s.replies = mailbox.Mailbox[transport.Message]{
		Handle: func(m transport.Message) { s.write(m) }, Spawn: s.spawnBusy, MaxItems: maxReplies, MaxBytes: maxReplyBytes,
	}
	s.notices = mailbox.Mailbox[*Request]{
		Handle: s.notify, Spawn: s.spawnBusy, MaxItems: s.cfg.MaxNotifications, MaxBytes: s.cfg.MaxBytes,
	}
	s.notices.Pause()
	s.warnings.log = s.cfg.Logger
	s.handler = s.base
	for i := len(s.cfg.Receiving) - 1; i >= 0; i-- {
		s.handler = s.cfg.Receiving[i](s.handler)
	}
	s.sender = s.send
	for i := len(s.cfg.Sending) - 1; i >= 0; i-- {
		s.sender = s.cfg.Sending[i](s.sender)
	}
	if sender := s.sender; len(s.cfg.Sending) > 0 {
		s.sender = func(ctx context.Context, call *Call) (result json.RawMessage, err error) {
			defer boundary.Catch(&err)
			return sender(ctx, call)
		}
	}
	return s
}

// start starts the session's goroutines; they end when it does.
func (s *Session) start() {
	if c, ok := transport.As[transport.Owned](s.conn); ok {
		c.Own(owner{s})
	}
	if p, ok := s.conn.(transport.Pusher); !ok || !p.Push(s.conn, s.pushed) {
		s.life.work.Add(1)
		go s.read()
	}
	if s.cfg.KeepAlive > 0 {
		s.life.work.Add(1)
		go s.keepAlive()
	}
}

// Role returns the part that this side plays.
func (s *Session) Role() Role { return s.role }

// Revision returns the revision that was agreed on, or "" before that.
func (s *Session) Revision() mcp.Revision { return s.handshake.current.Load().revision }

// Client returns how the client introduced itself, or nil before that. It must not be changed.
func (s *Session) Client() *mcp.InitializeRequestParams { return s.handshake.current.Load().client }

// Server returns how the server introduced itself, or nil before that. It must not be changed. A client over HTTP may
// find another server behind its connection, after a restart: what that one has said is returned from then on.
func (s *Session) Server() *mcp.InitializeResult { return s.handshake.current.Load().server }

// Ready waits until the peers have introduced themselves, which is so from the start for what [Connect] returns.
// It fails if ctx ends, or with [ErrClosed] if the session does.
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

// Done is closed when the session is over and everything it has started has stopped.
func (s *Session) Done() <-chan struct{} { return s.life.done }

// AfterDone has f called once Done is closed, in a goroutine of its own or one that is shared with others who wait for
// that; at once if the session is over. It costs less than a goroutine that waits.
func (s *Session) AfterDone(f func()) {
	if !s.life.afterDone(f) {
		go s.callAfter(f) // ends when f does, which is the caller's
	}
}

// Wait waits until the session is over and everything it has started has stopped, and returns what ended it: nil
// if one of the sides closed it, as a server's standard input does by ending.
func (s *Session) Wait() error {
	<-s.life.done
	cause := context.Cause(s.life.ctx)
	if cause == ErrClosed || cause == io.EOF || errors.Is(cause, transport.ErrClosed) {
		return s.closeErr
	}
	return cause
}

// Close ends the session at once: it cancels what is being served, gives up what it waits for, closes the
// connection, and waits until handlers have returned. It returns what went wrong when closing the connection. A
// handler calls [Session.Stop] instead.
func (s *Session) Close() error {
	s.stop(ErrClosed)
	<-s.life.done
	return s.closeErr
}

// Stop begins what Close does and does not wait.
func (s *Session) Stop() { s.stop(ErrClosed) }

// Shutdown ends the session in order. It refuses further requests with [CodeClosing], waits until
// those being served are answered, the notifications that have come are handled, and the requests
// that were sent have an answer, and then closes. When ctx ends first, requests that are still
// being served are answered with CodeClosing, and Shutdown returns the cause of ctx. Then it does
// not wait for handlers that ignore the end of their context; Wait does.
func (s *Session) Shutdown(ctx context.Context) error {
	s.inbound.drain()
	s.calls.drain()
	if s.rest(ctx) {
		return s.Close()
	}
	go func() { // ends when the peer has taken the answers, or soon
		s.abandon()
		s.stop(ErrClosed)
	}()
	timer := time.NewTimer(lastPatience)
	defer timer.Stop()
	select {
	case <-s.life.done:
	case <-timer.C:
	}
	return context.Cause(ctx)
}

// lastPatience is how long Shutdown lets the connection take the last answers once its context has ended.
const lastPatience = 100 * time.Millisecond

// abandon answers what is being served with CodeClosing, as far as the peer takes the answers at once.
func (s *Session) abandon() {
	ctx, cancel := context.WithTimeout(s.life.ctx, time.Second)
	defer cancel()
	for _, st := range s.inbound.abandon() {
		st.until.Cancel(ErrClosed)
		st.reporter.Load().Stop()
		text, _, err := encodeAnswer(st.req.ID, nil, &jsonrpc.Error{Code: CodeClosing, Message: "session is shutting down"})
		if err != nil || st.deliver(ctx, text) != nil {
			return
		}
	}
	s.replies.Wait(ctx) // those to batches
}

// stop ends the session because of cause, unless it is over already, and does not wait.
func (s *Session) stop(cause error) {
	if !s.life.stop(cause) {
		return
	}
	s.replies.Close()
	s.notices.Close()
	s.calls.close(s.life.err(), s.life.err())
	for _, st := range s.inbound.close() {
		st.until.Cancel(cause)
	}
	s.trackers.close()
	go func() { // ends when everything else has
		s.closeErr = boundary.Run(s.conn.Close)
		s.panicked("transport", s.closeErr)
		s.life.finish(s.callAfter)
	}()
}

// callAfter calls a function that was passed to AfterDone.
func (s *Session) callAfter(f func()) {
	s.panicked("AfterDone", boundary.Run(func() error { f(); return nil }))
}

// panicked logs err if it is a panic. Name is the function that panicked.
func (s *Session) panicked(name string, err error) {
	boundary.Report(s.cfg.Logger, name+" panicked", err)
}

// spawnBusy runs f in a goroutine of the session that Shutdown waits for. It returns false, and does
// not run f, if the session has ended.
func (s *Session) spawnBusy(f func()) bool {
	s.activity.begin()
	ok := s.life.spawn(func() {
		defer s.activity.end()
		f()
	})
	if !ok {
		s.activity.end()
	}
	return ok
}

// read takes messages from the connection until that is over.
func (s *Session) read() {
	defer s.life.exit()
	for !s.life.over() && s.came(s.next()) {
	}
}

// next reads from the connection.
func (s *Session) next() (m transport.Message, err error) {
	defer boundary.Catch(&err)
	return s.conn.Read()
}

// pushed takes what a connection hands over by itself.
func (s *Session) pushed(m transport.Message, err error) {
	if !s.life.enter() {
		return
	}
	defer s.life.exit()
	s.came(m, err)
}

// came takes a message, or what else a connection yields; more is false if nothing comes any more.
func (s *Session) came(m transport.Message, err error) (more bool) {
	if err == nil {
		s.receive(m)
		return true
	}
	if refused, ok := errors.AsType[*transport.MessageError](err); ok {
		s.warn("message refused", "error", boundary.ErrorText(refused.Err))
		s.reply(transport.Message{Text: refusal(refused), For: refused.ID, Answer: !refused.ID.IsZero()})
		return true
	}
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		s.lost(lost)
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

// peerDone ends the session because the peer sends nothing any more: what is being served has the grace period to
// be answered.
func (s *Session) peerDone() {
	s.inbound.drain()
	s.calls.close(fmt.Errorf("%w: %w", ErrClosed, io.EOF), ErrClosed)
	ctx, cancel := context.WithTimeout(s.life.ctx, s.cfg.Grace)
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

// rest waits until the session does nothing or is over; ok is false if ctx ends first.
func (s *Session) rest(ctx context.Context) (ok bool) {
	select {
	case <-s.activity.done():
		return true
	case <-s.life.ctx.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// write hands a message to the transport. A connection that fails ends the session.
func (s *Session) write(m transport.Message) error { return s.writeUntil(s.life.ctx, m) }

func (s *Session) writeUntil(ctx context.Context, m transport.Message) error {
	if s.life.over() {
		return s.life.err()
	}
	err := s.put(ctx, m)
	switch {
	case err == nil:
		return nil
	case s.life.over():
		return s.life.err()
	case ctx.Err() != nil:
		return err
	}
	if _, ok := errors.AsType[*transport.MessageError](err); ok {
		return err
	}
	s.panicked("transport", err)
	s.stop(err)
	return s.life.err()
}

// put writes to the connection.
func (s *Session) put(ctx context.Context, m transport.Message) (err error) {
	defer boundary.Catch(&err)
	return s.conn.Write(ctx, m)
}

// keepAlive pings the peer now and then, until it does not answer or the session ends.
func (s *Session) keepAlive() {
	defer s.life.exit()
	ticker := time.NewTicker(s.cfg.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.life.ctx.Done():
			return
		}
		err := s.With(Timeout(s.cfg.KeepAlive)).Ping(s.life.ctx)
		if errors.Is(err, ErrTimeout) {
			s.cfg.Logger.Warn("peer does not answer pings", "timeout", s.cfg.KeepAlive)
			s.stop(ErrUnresponsive)
			return
		}
	}
}
