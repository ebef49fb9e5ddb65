package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Call is a request or a notification on its way to the peer.
type Call struct {
	Method       string
	Params       codec.Encoder // nil for none
	Notification bool
	Session      *Session // through which it is sent

	// ID is the id of a request, set when it is sent. It is the zero ID before that, and for a
	// notification. If the request is sent again in a new session, its ID changes.
	ID jsonrpc.ID

	opts options
	meta []methods.MetaMember

	limited *lazyctx.Timeout // the context of the first Write of a request; allocated with the Call, or nil
}

// newRequest returns a Call for a request.
func newRequest(s *Session, method string, params codec.Encoder) *Call {
	c := new(struct {
		call    Call
		limited lazyctx.Timeout
	})
	c.call = Call{Method: method, Params: params, Session: s, limited: &c.limited}
	return &c.call
}

// SetMeta adds a member to the _meta of the params, or replaces the member of that name. Params is
// not modified. The call fails if the name is not valid, as "com.example/trace" is (MCP base
// protocol, "_meta").
func (c *Call) SetMeta(name string, value codec.Encoder) {
	c.meta = slices.DeleteFunc(c.meta, func(m methods.MetaMember) bool { return m.Name == name })
	c.meta = append(c.meta, methods.MetaMember{Name: name, Value: value})
}

// asTask reports whether a request asks the peer for a task.
func (c *Call) asTask() bool {
	switch p := c.Params.(type) {
	case nil:
		return false
	case *mcp.CallToolRequestParams:
		return p.Task != nil
	case *mcp.CreateMessageRequestParams:
		return p.Task != nil
	case *mcp.ElicitRequestFormParams:
		return p.Task != nil
	case *mcp.ElicitRequestURLParams:
		return p.Task != nil
	}
	if m, ok := mcp.LookupMethod(c.Method); !ok || !m.Task {
		return false
	}
	raw, err := boundary.Marshal(c.Params)
	if err != nil {
		return false
	}
	_, ok := codec.Member(raw, "task")
	return ok
}

// Sender sends a request and waits for its result, or sends a notification and returns nil. It
// returns an error response as a [*jsonrpc.Error].
type Sender func(ctx context.Context, call *Call) (json.RawMessage, error)

// SendMiddleware wraps a [Sender].
type SendMiddleware func(next Sender) Sender

// options are the options of one call.
type options struct {
	timeout    time.Duration // 0 for none; a negative one has already expired
	timed      bool          // timeout was set by an option and replaces that of Options
	max        time.Duration // 0 unless progress restarts the timeout
	onProgress func(Progress)
	tracker    *tracker
	late       lateFunc

	subscription *subscription // of Session.Listen; nil for other calls
}

// Option changes how one request is sent; see [Session.With].
type Option func(*options)

// Timeout limits how long a request may take and overrides the timeouts of [Options]. Zero means no
// limit. When it expires, the call fails with [ErrTimeout] and the session cancels the request at
// the peer. A negative timeout has already expired: the request is not sent.
func Timeout(d time.Duration) Option {
	return func(o *options) { o.timeout, o.timed = d, true }
}

// ProgressExtends asks the peer for progress. Each report restarts the timeout, until the request
// has taken max in total.
func ProgressExtends(max time.Duration) Option { return func(o *options) { o.max = max } }

// OnProgress asks the peer for progress and calls f for each report, one at a time, in a separate
// goroutine. The call returns after the last call of f has returned. A slow f misses reports, but
// not the last report of a successful call. If the context of the call ends, the call does not wait
// for a running f. [Session.Close] waits for f.
func OnProgress(f func(Progress)) Option { return func(o *options) { o.onProgress = f } }

// Track asks the peer for progress and delivers it to t, a Tracker of a session. It is for progress
// that outlives the call, such as that of a task: the call does not close t. A Caller with this
// option may be used for one request at a time.
func (sessionInternals) Track(t engine.Tracker[Progress]) Option {
	return func(o *options) { o.tracker = t.(*tracker) }
}

// OnLate delivers to f an answer that arrives after the call has returned because of its context or
// timeout. f is called at most once, in a separate goroutine. Its error is [ErrTimeout] if 1024
// later calls of the session wait for a late answer, and that of the session if the session ends
// first. Without OnLate, late answers are dropped.
func (sessionInternals) OnLate(f func(result json.RawMessage, err error)) Option {
	return func(o *options) { o.late = f }
}

// caller is the result of [Session.With].
type caller struct {
	s    *Session
	opts options
}

// With returns a caller that sends requests with options. It may be used by many goroutines and for
// any number of requests:
//
//	peer := mcp.ToServer{Caller: s.With(session.Timeout(time.Hour))}
func (s *Session) With(opts ...Option) jsonrpc.Caller {
	c := &caller{s: s}
	for _, o := range opts {
		o(&c.opts)
	}
	return c
}

// Call implements [jsonrpc.Caller].
func (c *caller) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	call := newRequest(c.s, method, params)
	call.opts = c.opts
	return c.s.sender(ctx, call)
}

// Call sends a request and waits for its result. The caller owns the result. Params may be nil.
//
// The error is
//   - a [*jsonrpc.Error] if the peer answered with one,
//   - a [*CapabilityError] or [ErrNotInitialized] if the request must not be sent,
//   - [ErrTimeout] if no answer arrived within the timeout,
//   - the cause of ctx if ctx ended first,
//   - a [*transport.DeliveryError] if the transport lost the request or its answer, or if a lost
//     session was not replaced,
//   - [ErrClosed] if the session has ended.
//
// After a loss, a timeout or the end of ctx, the session sends notifications/cancelled, unless the
// request is initialize or asks for a task (MCP cancellation, "Behavior Requirements").
func (s *Session) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	return s.sender(ctx, newRequest(s, method, params))
}

// Notify sends a notification. Params may be nil. It fails as Call does. It returns nil once the
// transport has accepted the notification.
func (s *Session) Notify(ctx context.Context, method string, params codec.Encoder) error {
	_, err := s.sender(ctx, &Call{Method: method, Params: params, Notification: true, Session: s})
	return err
}

// Ping sends a ping and waits for the answer. It fails as Call does. In revisions without sessions,
// which have no ping, it sends server/discover.
func (s *Session) Ping(ctx context.Context) error {
	_, err := s.Call(ctx, s.pingMethod(), nil)
	return err
}

func (s *Session) pingMethod() string {
	if s.Traits().Sessionless {
		return mcp.MethodServerDiscover
	}
	return mcp.MethodPing
}

// send is the innermost sender.
func (s *Session) send(ctx context.Context, call *Call) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	related, inside := FromContext(ctx)
	inside = inside && related.Session == s
	if !inside {
		related = nil
	}
	if call.Notification {
		return nil, s.sendNotification(ctx, call, related)
	}
	return s.sendRequest(ctx, call, related, inside)
}

// sendNotification is send for a notification.
func (s *Session) sendNotification(ctx context.Context, call *Call, related *Request) error {
	if err := s.allowed(call); err != nil {
		return err
	}
	s.reopening.record(call)
	err := s.writeNotification(ctx, call, related, s.reopening.current.Load())
	if err != nil {
		s.activity.Begin() // Shutdown waits until the notification is sent again
		defer s.activity.End()
		if err = s.awaitReopened(ctx, call, time.Time{}, err); err == nil {
			err = s.writeNotification(ctx, call, related, s.reopening.current.Load())
		}
	}
	return err
}

// sendRequest is send for a request. inside is set if it belongs to a request of the peer.
func (s *Session) sendRequest(ctx context.Context, call *Call, related *Request, inside bool) (json.RawMessage, error) {
	if !call.opts.timed {
		call.opts.timeout = s.cfg.timeout(call.Method)
	}
	if call.opts.timeout < 0 {
		return nil, ErrTimeout
	}
	tracker, err := s.track(ctx, call)
	if err != nil {
		return nil, err
	}
	defer tracker.drop(ctx)
	if err = s.allowed(call); err != nil && s.relearn(ctx, err) {
		err = s.allowed(call)
	}
	if err != nil {
		return nil, err
	}
	s.reopening.record(call)
	e := exchange{related: related, inside: inside, tracking: tracker, start: time.Now(), session: s.reopening.current.Load()}
	result, err := s.exchange(ctx, call, e)
	if err != nil {
		s.activity.Begin() // Shutdown waits until the request is sent again and answered
		defer s.activity.End()
		if err = s.awaitReopened(ctx, call, e.start, err); err == nil {
			e.again, e.session = true, s.reopening.current.Load()
			result, err = s.exchange(ctx, call, e)
		}
	}
	if s.handshake.current.Load().states() {
		return s.modernResult(ctx, call, e, result, err)
	}
	return result, err
}

// writeNotification sends a notification in a session.
func (s *Session) writeNotification(ctx context.Context, call *Call, related *Request, session uint32) error {
	text, err := s.encodeNotification(call)
	if err != nil {
		return err
	}
	return s.writeUntil(ctx, transport.Message{Text: text, Reply: related.reply(), Session: session})
}

// encodeNotification returns the text of a notification.
func (s *Session) encodeNotification(call *Call) (text []byte, err error) {
	meta := call.meta
	if a := s.handshake.current.Load(); a.states() && call.Method != mcp.MethodNotificationsCancelled {
		// Over HTTP, the header of the notification needs it.
		meta = append(slices.Clone(meta), methods.MetaMember{Name: modern.MetaVersion, Value: codec.StringScalar(string(a.revision))})
	}
	text, _, err = encodeCall(jsonrpc.ID{}, call.Method, call.Params, meta, nil)
	return text, err
}

// exchange describes how a request is sent.
type exchange struct {
	related  *Request // the request of the peer that it belongs to; nil for none
	inside   bool     // it belongs to a request of the peer
	again    bool     // it is sent again, in a new session
	session  uint32   // the session that it belongs to; see reopening
	tracking tracking
	start    time.Time // when the timeout began
}

// exchange sends a request and waits for its result.
func (s *Session) exchange(ctx context.Context, call *Call, e exchange) (json.RawMessage, error) {
	id, p, err := s.calls.add(e.inside || e.again, e.session)
	if err != nil {
		return nil, err
	}
	call.ID = id
	out := transport.Message{Reply: e.related.reply(), Session: e.session}
	timeout := call.opts.timeout
	if e.again && timeout > 0 {
		timeout = max(timeout-time.Since(e.start), 1)
	}
	if call.Method == mcp.MethodSubscriptionsListen {
		defer s.listens.remove(id)
		s.listens.add(id, call.opts.subscription)
	}
	var encoded json.RawMessage
	var clock *lazyctx.Clock
	if out.Text, encoded, err = encodeCall(id, call.Method, call.Params, call.meta, s.handshake.current.Load().meta); err == nil {
		if encoded != nil {
			out.SetParsed(new(jsonrpc.NewRequest(id, call.Method, encoded)))
		}
		clock, err = s.writeWithin(ctx, call, timeout, out)
	}
	if err != nil {
		s.calls.remove(p)
		return nil, err
	}
	if e.related != nil && e.related.state != nil {
		e.related.state.BeginAsking()
		defer e.related.state.EndAsking()
	}
	got, err := s.await(ctx, call, e.start, clock, p, e.tracking.tracker)
	if err != nil {
		return nil, s.giveUp(ctx, call, id, p, err)
	}
	s.calls.reuse.Put(p) // deliver does not use p after it has sent the answer
	if lost, ok := errors.AsType[*transport.DeliveryError](got.err); ok {
		_, session := errors.AsType[*transport.SessionLostError](lost)
		switch {
		case session && !lost.Taken:
			return nil, lost // it may be sent again
		case !session && lost.Taken && !errors.Is(lost, transport.ErrTooLong): // the peer has answered
			s.tellCancelled(ctx, call, id, lost)
		}
	}
	e.tracking.wait(ctx)
	return got.result, got.err
}

// writeWithin is writeUntil with a timeout. It fails with ErrTimeout. Zero means no timeout. It
// returns the clock that the transport holds with [transport.Hold].
func (s *Session) writeWithin(ctx context.Context, call *Call, timeout time.Duration, out transport.Message) (*lazyctx.Clock, error) {
	if timeout == 0 {
		clock := new(lazyctx.Clock)
		return clock, s.writeUntil(lazyctx.WithClock(ctx, clock), out)
	}
	limited := call.limited
	if limited == nil || !limited.Begin(ctx, timeout, ErrTimeout) { // the transport may still use the context of an earlier Write
		limited = lazyctx.WithTimeout(ctx, timeout, ErrTimeout)
	}
	defer limited.Cancel()
	return &limited.Clock, s.writeUntil(limited, out)
}

// await waits for the answer. It fails if ctx ends or the timeout expires first. The timeout began
// at start, and does not run while clock is held.
func (s *Session) await(ctx context.Context, call *Call, start time.Time, clock *lazyctx.Clock, p *pending, t *tracker) (answer, error) {
	var timedOut, ended <-chan time.Time
	began := start
	if d := call.opts.timeout; d > 0 {
		p.start(d - time.Since(start))
		defer p.timer.Stop()
		timedOut = p.timer.C
	}
	var progress <-chan struct{}
	var end *time.Timer
	if d := call.opts.max; d > 0 && t != nil {
		end = time.NewTimer(d - time.Since(start))
		defer end.Stop()
		ended = end.C
		if timedOut != nil {
			progress = t.touched
		}
	}
	for {
		select {
		case got := <-p.answer:
			return got, nil
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		case <-timedOut:
			rest, held := restOf(clock, began, call.opts.timeout, p.timer)
			if held {
				continue
			}
			if rest = max(rest, s.extension(call, start)); rest <= 0 {
				return answer{}, ErrTimeout
			}
			p.timer.Reset(rest)
		case <-ended:
			rest, held := restOf(clock, start, call.opts.max, end)
			if held {
				continue
			}
			if rest <= 0 {
				return answer{}, ErrTimeout
			}
			end.Reset(rest)
		case <-progress:
			began = time.Now()
			p.timer.Reset(call.opts.timeout)
		}
	}
}

// restOf is [lazyctx.Clock.Rest]. If the clock is held, the timer expires again when it is
// released, perhaps after the call has returned: a reused timer may expire too early.
func restOf(clock *lazyctx.Clock, start time.Time, timeout time.Duration, timer *time.Timer) (rest time.Duration, held bool) {
	return clock.Rest(start, timeout, func() { timer.Reset(0) })
}

// extension returns how much longer a client waits for the answer to a request whose timeout has
// expired, because the user or the model has worked on an input request of the server. See
// Timeouts.Request of [Options].
func (s *Session) extension(call *Call, start time.Time) time.Duration {
	if call.opts.timed || s.role != roleClient {
		return 0
	}
	last := s.inbound.LastInput()
	if last.IsZero() {
		return 0
	}
	rest := call.opts.timeout - time.Since(last)
	if limit := s.cfg.Timeouts.Input; limit > 0 {
		rest = min(rest, limit-time.Since(start))
	}
	return rest
}

// callLate calls the function of the option OnLate.
func (s *Session) callLate(late lateFunc, a answer) {
	s.panicked("OnLate", boundary.Run(func() error { late(a.result, a.err); return nil }))
}

// answered delivers an answer to the pending call. It returns false, and drops the answer, if the
// call has returned.
func (s *Session) answered(id jsonrpc.ID, a answer) (ok bool) {
	if s.calls.deliver(s.calls.number(id), a) {
		return true
	}
	if s.cfg.Logger.Enabled(s.life.ctx, slog.LevelDebug) {
		s.cfg.Logger.Debug("answer dropped", "id", boundary.Text(id.String(), maxID), "error", boundary.ErrorText(a.err))
	}
	return false
}

// forget lets the transport release its resources for a request whose answer is not needed. It does
// nothing for the zero id.
func (s *Session) forget(id jsonrpc.ID) {
	err := boundary.Run(func() error {
		if f, ok := transport.As[ability.Forgetter](s.conn); ok && !id.IsZero() {
			f.Forget(id)
		}
		return nil
	})
	boundary.Report(s.cfg.Logger, "transport panicked", err)
}

// cancelGrace limits how long a cancelled call waits until the transport has accepted the
// cancellation.
const cancelGrace = 100 * time.Millisecond

// giveUp stops waiting for an answer because of cause, cancels the request at the peer, and returns
// cause. If the answer has just arrived, it sends no cancellation.
func (s *Session) giveUp(ctx context.Context, call *Call, id jsonrpc.ID, p *pending, cause error) error {
	open, dropped := false, jsonrpc.ID{}
	if late := call.opts.late; late != nil {
		if open, dropped = s.calls.awaitLate(p, late); !open {
			go func() { s.callLate(late, <-p.answer) }() // ends when late returns
		}
		s.forget(dropped)
	} else {
		open = s.calls.remove(p)
	}
	if open {
		s.tellCancelled(ctx, call, id, cause)
	}
	return cause
}

// tellCancelled sends notifications/cancelled for a request, with cause as the reason.
func (s *Session) tellCancelled(ctx context.Context, call *Call, id jsonrpc.ID, cause error) {
	if call.Method == mcp.MethodInitialize || call.asTask() || call.Method == mcp.MethodServerDiscover && !s.handshake.current.Load().states() {
		if call.opts.late == nil {
			s.forget(id)
		}
		return
	}
	sent := make(chan struct{})
	started := s.life.spawn(func() { // ends when the notification is written
		defer close(sent)
		reason := boundary.ErrorText(cause)
		err := s.Notify(&lazyctx.Values{Context: s.life.ctx, Other: ctx}, mcp.MethodNotificationsCancelled,
			&mcp.CancelledNotificationParams{RequestID: id, Reason: &reason})
		if err != nil {
			s.cfg.Logger.Debug("cancellation not sent", "method", call.Method, "error", err)
		}
	})
	// The caller's next message must come after the cancellation, unless writing blocks.
	if started {
		timer := time.NewTimer(cancelGrace)
		defer timer.Stop()
		select {
		case <-sent:
		case <-timer.C:
		}
	}
}

// allowed returns an error if a message must not be sent now.
func (s *Session) allowed(call *Call) error {
	a := s.handshake.current.Load()
	switch {
	case s.life.over():
		return s.life.err()
	case call.Method == mcp.MethodPing && !a.states(),
		(call.Method == mcp.MethodInitialize || call.Method == mcp.MethodServerDiscover) && a.role == roleClient && a.phase == phaseNew,
		call.Method == mcp.MethodNotificationsCancelled && call.Notification:
		return nil
	case a.phase == phaseOpened && call.Method == mcp.MethodNotificationsMessage && call.Notification:
		// The server may log before the client has confirmed.
	case a.phase != phaseReady:
		return ErrNotInitialized
	}
	if extended := s.cfg.inner.ExtensionMethods; extended != nil && a.states() && !call.Notification && extended(call.Method) {
		return nil
	}
	if err := a.missing(call.Method, call.Notification, true); err != nil {
		return err
	}
	if err := a.missingDetail(call.Method, call.Params); err != nil {
		return err
	}
	if !call.Notification && call.asTask() {
		return a.missingTask(call.Method)
	}
	return nil
}
