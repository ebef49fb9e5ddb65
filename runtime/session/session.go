package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
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

	// life ends with the session, for the reason that is its cause.
	life context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup // goroutines of the session, handlers included
	done chan struct{}  // closed when they are gone and the connection is closed

	closeErr error    // of the connection; set before done is closed
	ended    bool     // done is closed; guarded by mu
	after    []func() // that are called then; guarded by mu

	ready    chan struct{} // closed when the peers have introduced themselves
	idPrefix string        // of the ids of requests; "" for ids that are numbers
	idle     sync.Pool     // of *pending that were answered, to be used again

	mu          sync.Mutex
	phase       phase
	opened      chan struct{} // closed when initialize was answered; nil unless it is being answered
	confirmed   bool          // initialized came while initialize was being answered
	draining    bool
	stopped     bool
	deaf        bool // the peer sends nothing any more
	revision    mcp.Revision
	client      *mcp.InitializeRequestParams
	server      *mcp.InitializeResult
	lastID      int64
	calls       map[jsonrpc.ID]*pending
	lateCalls   int          // of calls, those that have returned; see OnLate
	late        []jsonrpc.ID // of these, the oldest first, and of some that were answered
	serving     map[jsonrpc.ID]*serving
	bytes       int           // of requests that are being served, or whose answers wait for the transport
	answers     int           // answers that wait for the transport
	answerBytes int           // of these, and of those in batches
	busy        int           // requests and notifications being served or answered, and calls waiting
	quiet       chan struct{} // closed when busy is 0; nil unless something waits for that
	trackers    map[mcp.ProgressToken]tracked
	ofTasks     map[string][]weak.Pointer[Tracker] // by task, for those without a token
	replies     []transport.Message                // answers of the read loop itself that wait for the transport
	replyBytes  int                                // of these, and of one that is being handed over
	replying    bool                               // a goroutine passes them on
	replyRoom   sync.Cond                          // there is room for replies, or the session is over
	notices     []notice                           // notifications that wait for the handler
	noticeBytes int                                // of their messages
	noticing    bool                               // a goroutine passes them on
	warnings    quota
}

// phase is how far the opening handshake is.
type phase uint8

const (
	phaseNew     phase = iota // no initialize yet
	phaseOpening              // initialize is being answered
	phaseOpened               // initialize was answered; only the server knows this one
	phaseReady                // and initialized was sent
)

func newSession(conn transport.Conn, role Role, cfg *Config) *Session {
	s := &Session{
		conn:     conn,
		cfg:      cfg.withDefaults(),
		role:     role,
		done:     make(chan struct{}),
		ready:    make(chan struct{}),
		calls:    map[jsonrpc.ID]*pending{},
		serving:  map[jsonrpc.ID]*serving{},
		trackers: map[mcp.ProgressToken]tracked{},
		ofTasks:  map[string][]weak.Pointer[Tracker]{},
	}
	s.replyRoom.L = &s.mu
	s.life, s.end = context.WithCancelCause(context.Background())
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
	if c, ok := s.conn.(transport.Owned); ok {
		c.Own(owner{s})
	}
	if p, ok := s.conn.(transport.Pusher); !ok || !p.Push(s.conn, s.pushed) {
		s.work.Add(1)
		go s.read()
	}
	if s.cfg.KeepAlive > 0 {
		s.work.Add(1)
		go s.keepAlive()
	}
}

// Role returns the part that this side plays.
func (s *Session) Role() Role { return s.role }

// Revision returns the revision that was agreed on, or "" before that.
func (s *Session) Revision() mcp.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Client returns how the client introduced itself, or nil before that. It must not be changed.
func (s *Session) Client() *mcp.InitializeRequestParams {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client
}

// Server returns how the server introduced itself, or nil before that. It must not be changed. A client over HTTP may
// find another server behind its connection, after a restart: what that one has said is returned from then on.
func (s *Session) Server() *mcp.InitializeResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
}

// Ready waits until the peers have introduced themselves, which is so from the start for what [Connect] returns.
// It fails if ctx ends, or with [ErrClosed] if the session does.
func (s *Session) Ready(ctx context.Context) error {
	if s.life.Err() != nil {
		return s.closed()
	}
	select {
	case <-s.ready:
		return nil
	case <-s.life.Done():
		return s.closed()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Done is closed when the session is over and everything it has started has stopped.
func (s *Session) Done() <-chan struct{} { return s.done }

// AfterDone has f called once Done is closed, in a goroutine of its own or one that is shared with others who wait for
// that; at once if the session is over. It costs less than a goroutine that waits.
func (s *Session) AfterDone(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		go s.callAfter(f) // ends when f does, which is the caller's
		return
	}
	s.after = append(s.after, f)
}

// Wait waits until the session is over and everything it has started has stopped, and returns what ended it: nil
// if one of the sides closed it, as a server's standard input does by ending.
func (s *Session) Wait() error {
	<-s.done
	cause := context.Cause(s.life)
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
	<-s.done
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
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
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
	case <-s.done:
	case <-timer.C:
	}
	return context.Cause(ctx)
}

// lastPatience is how long Shutdown lets the connection take the last answers once its context has ended.
const lastPatience = 100 * time.Millisecond

// abandon answers what is being served with CodeClosing, as far as the peer takes the answers at once.
func (s *Session) abandon() {
	ctx, cancel := context.WithTimeout(s.life, time.Second)
	defer cancel()
	s.mu.Lock()
	open := map[*serving]*Reporter{}
	for _, st := range s.serving {
		if !st.over {
			st.over = true
			open[st] = st.reporter.Load()
		}
	}
	s.mu.Unlock()
	for st, reporter := range open {
		st.until.Cancel(ErrClosed)
		reporter.Stop()
		text, _, err := encodeAnswer(st.req.ID, nil, &jsonrpc.Error{Code: CodeClosing, Message: "session is shutting down"})
		if err != nil || st.deliver(ctx, text) != nil {
			return
		}
	}
	s.awaitReplies(ctx)
}

// awaitReplies waits until the transport has the pending replies, those to batches among them.
func (s *Session) awaitReplies(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.replyRoom.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.replying && ctx.Err() == nil {
		s.replyRoom.Wait()
	}
}

// stop ends the session because of cause, unless it is over already, and does not wait.
func (s *Session) stop(cause error) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	s.replyRoom.Broadcast()
	s.end(cause)
	calls := s.takeCalls()
	trackers := s.takeTrackers()
	open := slices.Collect(maps.Values(s.serving)) // there will be no more
	s.fail(calls, s.closed())
	s.mu.Unlock()

	for _, st := range open {
		st.until.Cancel(cause)
	}
	for _, t := range trackers {
		t.Close()
	}
	go func() { // ends when everything else has
		s.closeErr = boundary.Run(s.conn.Close)
		s.panicked("transport", s.closeErr)
		s.work.Wait()
		close(s.done)
		s.mu.Lock()
		s.ended = true
		after := s.after
		s.after = nil
		s.mu.Unlock()
		for _, f := range after {
			s.callAfter(f)
		}
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

// takeTrackers returns the Trackers there are. It is called with mu held.
func (s *Session) takeTrackers() []*Tracker {
	var trackers []*Tracker
	for _, ref := range s.trackers {
		if t := ref.get(); t != nil {
			trackers = append(trackers, t)
		}
	}
	for _, refs := range s.ofTasks {
		for _, ref := range refs {
			if t := ref.Value(); t != nil {
				trackers = append(trackers, t)
			}
		}
	}
	return trackers
}

// takeCalls removes and returns the pending calls, for fail. mu must be held.
func (s *Session) takeCalls() map[jsonrpc.ID]*pending {
	calls := s.calls
	s.calls, s.late, s.lateCalls = map[jsonrpc.ID]*pending{}, nil, 0
	return calls
}

// fail ends calls that takeCalls has removed. mu must be held.
func (s *Session) fail(calls map[jsonrpc.ID]*pending, err error) {
	for _, c := range calls {
		if c.late != nil {
			s.takeLate(c.late, answer{err: err})
			continue
		}
		s.finished()
		c.answer <- answer{err: err} // has room
	}
}

// closed returns ErrClosed with what ended the session.
func (s *Session) closed() error {
	if cause := context.Cause(s.life); cause != nil && cause != ErrClosed {
		return fmt.Errorf("%w: %w", ErrClosed, cause)
	}
	return ErrClosed
}

// spawn runs f in a goroutine of the session, which ends when f does; ok is false if the session is over.
func (s *Session) spawn(f func()) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		f()
	}()
	return true
}

// finished notes that something busy is no longer so. It is called with mu held.
func (s *Session) finished() {
	s.busy--
	if s.busy == 0 && s.quiet != nil {
		select {
		case <-s.quiet:
		default:
			close(s.quiet)
		}
	}
}

// read takes messages from the connection until that is over.
func (s *Session) read() {
	defer s.work.Done()
	for s.life.Err() == nil && s.came(s.next()) {
	}
}

// next reads from the connection.
func (s *Session) next() (m transport.Message, err error) {
	defer boundary.Catch(&err)
	return s.conn.Read()
}

// pushed takes what a connection hands over by itself.
func (s *Session) pushed(m transport.Message, err error) {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
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
	s.mu.Lock()
	s.deaf = true
	s.draining = true
	s.fail(s.takeCalls(), fmt.Errorf("%w: %w", ErrClosed, io.EOF))
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.life, s.cfg.Grace)
	s.work.Add(1)
	go func() { // ends after the grace period, or with the session
		defer s.work.Done()
		defer cancel()
		if !s.rest(ctx) {
			s.abandon()
		}
		s.stop(io.EOF)
	}()
}

// rest waits until nothing is busy or the session is over; ok is false if ctx ends first.
func (s *Session) rest(ctx context.Context) (ok bool) {
	s.mu.Lock()
	if s.quiet == nil {
		s.quiet = make(chan struct{})
		if s.busy == 0 {
			close(s.quiet)
		}
	}
	quiet := s.quiet
	s.mu.Unlock()
	select {
	case <-quiet:
		return true
	case <-s.life.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// write hands a message to the transport. A connection that fails ends the session.
func (s *Session) write(m transport.Message) error { return s.writeUntil(s.life, m) }

func (s *Session) writeUntil(ctx context.Context, m transport.Message) error {
	if s.life.Err() != nil {
		return s.closed()
	}
	err := s.put(ctx, m)
	switch {
	case err == nil:
		return nil
	case s.life.Err() != nil:
		return s.closed()
	case ctx.Err() != nil:
		return err
	}
	if _, ok := errors.AsType[*transport.MessageError](err); ok {
		return err
	}
	s.panicked("transport", err)
	s.stop(err)
	return s.closed()
}

// put writes to the connection.
func (s *Session) put(ctx context.Context, m transport.Message) (err error) {
	defer boundary.Catch(&err)
	return s.conn.Write(ctx, m)
}

// keepAlive pings the peer now and then, until it does not answer or the session ends.
func (s *Session) keepAlive() {
	defer s.work.Done()
	ticker := time.NewTicker(s.cfg.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.life.Done():
			return
		}
		err := s.With(Timeout(s.cfg.KeepAlive)).Ping(s.life)
		if errors.Is(err, ErrTimeout) {
			s.cfg.Logger.Warn("peer does not answer pings", "timeout", s.cfg.KeepAlive)
			s.stop(ErrUnresponsive)
			return
		}
	}
}
