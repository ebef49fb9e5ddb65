// Package httpcore implements the common part of the clients of both HTTP transports: HTTP requests
// and their headers, the queue of received messages, limits on sending, and closing.
package httpcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// End is the client end of a connection.
type End struct {
	Options httpclient.Options // with defaults

	server *url.URL // of Operation
	client http.Client
	own    *http.Transport // the Transport of client if End owns it, otherwise nil
	plain  *http.Transport // the Transport of client if client adds only redirects, otherwise nil
	room   room
	posts  chan struct{} // buffers maxAnswers; holds an item per answer that is being posted
	posted atomic.Uint64 // number of answers posted or lost
	stalls atomic.Int32  // number of messages in a row that the server has not accepted in time

	stalled error // transport.ErrStalled with the timeout

	read sync.Once
	in   chan received                  // pending messages; made on first use
	take func(transport.Message, error) // replaces Read if set; set before any delivery
	turn chan struct{}                  // buffers one; full while take is running

	life context.Context // ends when all goroutines must return
	stop context.CancelCauseFunc

	mu      sync.Mutex
	closing atomic.Bool    // set by Close, after closed is closed
	closed  chan struct{}  // closed when the connection has ended
	err     error          // the cause of the end; set before closed is closed
	work    sync.WaitGroup // goroutines; none is added after closed is closed
	sending sync.WaitGroup // messages that Close flushes; none is added after closed is closed
}

// Info describes the connection.
func (e *End) Info() transport.Info {
	port, err := strconv.Atoi(e.server.Port())
	if err != nil { // the URL has none
		if port = 80; e.server.Scheme == "https" {
			port = 443
		}
	}
	return transport.Info{Network: "tcp", Protocol: "http", Host: e.server.Hostname(), Port: port}
}

// received is a result of Read.
type received struct {
	m   transport.Message
	err error
}

// maxPending is how many messages may be pending. Further deliveries wait.
const maxPending = 16

// New returns an open End of a connection to the server at a URL.
func New(server *url.URL, o httpclient.Options) (*End, error) {
	if o.Auth != nil && len(headerValues(o.Header, "Authorization")) > 0 {
		return nil, errors.New("options have both Auth and a Header with Authorization")
	}
	if err := complete(&o); err != nil {
		return nil, err
	}
	e := &End{Options: o, server: endpoint(server), closed: make(chan struct{})}
	e.room = room{max: e.Options.Limits.Queue, stall: e.Options.Timeouts.Stall}
	e.stalled = fmt.Errorf("%w: no answer within %v", transport.ErrStalled, e.Options.Timeouts.Stall)
	e.posts = make(chan struct{}, maxAnswers)
	e.life, e.stop = context.WithCancelCause(context.Background())
	if o.HTTP != nil {
		e.client = *o.HTTP
		e.client.Timeout = 0
	} else {
		e.own = ownTransport()
		e.client.Transport = e.own
	}
	if e.client.Jar == nil && len(e.Options.Header) == 0 && e.Options.Prepare == nil && e.Options.Auth == nil {
		e.plain, _ = cmp.Or(e.client.Transport, http.DefaultTransport).(*http.Transport)
	}
	switch check := e.client.CheckRedirect; {
	case check == nil:
		e.client.CheckRedirect = sameOrigin
	default:
		e.client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
			if !SameOrigin(req.URL, via[0].URL) {
				keepPublic(req.Header)
			}
			return check(req, via)
		}
	}
	return e, nil
}

// complete sets defaults, and returns an error that names every number that is invalid. Retries.Max
// becomes 0 if it is Off.
func complete(o *httpclient.Options) error {
	faults := boundary.Faults{Package: "httpclient"}
	boundary.Default(&faults, "Limits.Message", &o.Limits.Message, transport.DefaultMaxMessage)
	boundary.Default(&faults, "Limits.Queue", &o.Limits.Queue, transport.DefaultMaxQueue)
	boundary.Default(&faults, "Timeouts.Stall", &o.Timeouts.Stall, transport.DefaultStallTimeout)
	boundary.Default(&faults, "Timeouts.Flush", &o.Timeouts.Flush, time.Second)
	boundary.Default(&faults, "Retries.Delay", &o.Retries.Delay, 500*time.Millisecond)
	boundary.Default(&faults, "Retries.MaxDelay", &o.Retries.MaxDelay, 30*time.Second)
	o.Retries.MaxDelay = max(o.Retries.MaxDelay, o.Retries.Delay)
	boundary.OrNone(&faults, "Retries.Max", &o.Retries.Max, 5)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return faults.Err()
}

// ownTransport returns a Transport for many concurrent requests to one host.
func ownTransport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if std, ok := http.DefaultTransport.(*http.Transport); ok {
		t = std.Clone()
	}
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 256
	// All requests share an HTTP/2 connection. Without pings, a connection that a network outage
	// has ended silently would be used until the operating system gives up, which may take 15
	// minutes.
	if t.HTTP2 == nil {
		t.HTTP2 = new(http.HTTP2Config)
	}
	if t.HTTP2.SendPingTimeout == 0 {
		t.HTTP2.SendPingTimeout, t.HTTP2.PingTimeout = pingAfter, pingTimeout
	}
	return t
}

// Limits of a silent HTTP/2 connection: the time without a frame before a ping is sent, and the
// time without an answer to it before the connection is closed.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// maxRedirects limits consecutive redirects.
const maxRedirects = 5

// sameOrigin follows a redirect only within the origin, because the session id and the user's
// headers are sent with it, and only if the method stays the same.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d in a row", httpclient.ErrRedirect, maxRedirects)
	case req.Method != first.Method:
		return fmt.Errorf("%w: method changes from %s to %s", httpclient.ErrRedirect, first.Method, req.Method)
	case !SameOrigin(req.URL, first.URL):
		return fmt.Errorf("%w: to another origin %s://%s", httpclient.ErrRedirect, req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// ParseURL parses the URL of a server.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("malformed URL") // the text of err may contain a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an HTTP URL", u.Redacted())
	}
	return u, nil
}

// inbox returns the channel of messages pending for Read. It is unused in push mode.
func (e *End) inbox() chan received {
	e.read.Do(func() { e.in = make(chan received, maxPending) })
	return e.in
}

// Read returns the next delivered message. After the connection has failed, it returns the pending
// messages first. It implements [transport.Conn].
func (e *End) Read() (transport.Message, error) {
	if e.closing.Load() {
		return transport.Message{}, e.err
	}
	in := e.inbox()
	select {
	case r := <-in:
		return r.m, r.err
	case <-e.closed:
	}
	if !e.closing.Load() {
		select {
		case r := <-in: // delivered before the end
			return r.m, r.err
		default:
		}
	}
	return transport.Message{}, e.err
}

// Push makes End call take with each delivered message, in the delivering goroutine, and with the
// error at the end. It must be called before the first delivery. It implements [ability.Pusher].
func (e *End) Push(take func(transport.Message, error)) {
	e.mu.Lock()
	e.take, e.turn = take, make(chan struct{}, 1)
	err := e.Err()
	e.mu.Unlock()
	if err != nil {
		take(transport.Message{}, err)
	}
}

// Deliver delivers a message of a session to Read or take. It returns false if ctx or the
// connection ends first.
func (e *End) Deliver(ctx context.Context, text []byte, session uint32) (ok bool) {
	return e.DeliverMessage(ctx, transport.Message{Text: text, Session: session})
}

// DeliverMessage is Deliver for a message whose content may be known.
func (e *End) DeliverMessage(ctx context.Context, m transport.Message) (ok bool) {
	return e.put(ctx, received{m: m})
}

// Forward delivers a Read result of another connection. If that result was terminal, Forward closes
// this connection with the same error. It returns false if the connection has ended.
func (e *End) Forward(m transport.Message, err error) (ok bool) {
	_, rejected := errors.AsType[*transport.MessageError](err)
	_, lost := errors.AsType[*transport.DeliveryError](err)
	_, session := errors.AsType[*transport.SessionLostError](err)
	if err != nil && !rejected && !lost && !session {
		e.Fail(err)
		return false
	}
	return e.put(e.life, received{m, err})
}

// ReportLost delivers a [*transport.DeliveryError] for a lost message. It does not wait. id is that
// of a request, or zero. taken reports whether the server may have received the message.
func (e *End) ReportLost(id jsonrpc.ID, taken bool, err error) {
	e.Report(&transport.DeliveryError{ID: id, Taken: taken, Refused: !Retryable(err), Err: err})
}

// ReportLostOnReopen is ReportLost for the initialize of a session in place of a lost one.
func (e *End) ReportLostOnReopen(id jsonrpc.ID, taken bool, err error) {
	e.Report(&transport.DeliveryError{ID: id, Taken: taken, Refused: !RetryableOnReopen(err), Err: err})
}

// Report delivers an error of a connection that stays open. It does not wait.
func (e *End) Report(err error) {
	r := received{err: err}
	if !e.offer(r) {
		e.Go(func() { e.put(e.life, r) }) // ends with the connection
	}
}

// offer delivers r if that is possible without waiting.
func (e *End) offer(r received) (ok bool) {
	if e.take == nil {
		select {
		case e.inbox() <- r:
			return true
		default:
			return false
		}
	}
	select {
	case e.turn <- struct{}{}:
		e.push(r)
		return true
	default:
		return false
	}
}

// put delivers r. It returns false if ctx or the connection ends first.
func (e *End) put(ctx context.Context, r received) (ok bool) {
	if e.take == nil {
		select {
		case e.inbox() <- r:
			return true
		case <-e.closed:
		case <-ctx.Done():
		}
		return false
	}
	select {
	case e.turn <- struct{}{}:
		return e.push(r)
	case <-e.closed:
	case <-ctx.Done():
	}
	return false
}

// push calls take with r and releases the turn, which the caller has acquired. It returns false if
// the connection has ended.
func (e *End) push(r received) (ok bool) {
	defer func() { <-e.turn }()
	if e.Err() != nil {
		return false
	}
	e.take(r.m, r.err)
	return true
}

// Closed returns a channel that is closed when the connection has ended.
func (e *End) Closed() <-chan struct{} { return e.closed }

// Err returns the cause of the end, or nil if the connection is open.
func (e *End) Err() error {
	select {
	case <-e.closed:
		return e.err
	default:
		return nil
	}
}

// Go runs f in a goroutine that Close waits for. It returns false if the connection has ended.
func (e *End) Go(f func()) (ok bool) { return e.run(&e.work, f) }

// GoSend is Go for a function that sends an answer: Close lets it finish until Timeouts.Flush.
func (e *End) GoSend(f func()) (ok bool) { return e.run(&e.sending, f) }

// Enter makes Close wait for the calling goroutine, or one that it starts, until Exit is called. It
// returns false if the connection has ended.
func (e *End) Enter() (ok bool) { return e.enter(&e.work) }

// Exit ends what Enter has begun.
func (e *End) Exit() { e.work.Done() }

func (e *End) run(group *sync.WaitGroup, f func()) (ok bool) {
	if !e.enter(group) {
		return false
	}
	go func() { // ends when f returns, with the connection
		defer group.Done()
		f()
	}()
	return true
}

func (e *End) enter(group *sync.WaitGroup) (ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		return false
	}
	group.Add(1)
	return true
}

// BeginSend registers a message that Close lets finish until Timeouts.Flush. The caller must call
// done after sending it. ok is false if the connection has ended.
func (e *End) BeginSend() (done func(), ok bool) {
	if !e.enter(&e.sending) {
		return nil, false
	}
	return e.sending.Done, true
}

// Fail ends the connection with err. Read returns the pending messages, and then err. Fail does not
// wait. It does nothing if the connection has ended.
func (e *End) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		return
	}
	e.err = err
	if e.take != nil {
		e.work.Go(func() { // ends when take returns
			e.turn <- struct{}{}
			e.take(transport.Message{}, err)
			<-e.turn
		})
	}
	close(e.closed)
}

// Close ends the connection: Read and Write fail from now on, and messages pending for Read are
// dropped. It waits until messages are sent or Timeouts.Flush has passed, ends all goroutines, and
// waits for them. Then it calls last, which may send a last request and may be nil, and closes idle
// HTTP connections.
func (e *End) Close(last func()) {
	e.Fail(transport.ErrClosed)
	e.closing.Store(true)
	sent := make(chan struct{})
	go func() { // ends after life has ended
		defer close(sent)
		e.sending.Wait()
	}()
	flush, cancel := context.WithTimeout(context.Background(), e.Options.Timeouts.Flush)
	defer cancel()
	select {
	case <-sent:
	case <-flush.Done():
	}
	e.stop(transport.ErrClosed)
	<-sent
	e.work.Wait()
	if last != nil {
		last()
	}
	if e.own != nil {
		e.own.CloseIdleConnections()
	}
}

// Detach returns a context with the values of ctx that ends with the connection and not with ctx.
func (e *End) Detach(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(&lazyctx.Values{Context: e.life, Other: ctx})
}

// Bounded returns a context that ends with ctx or with the connection.
func (e *End) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.life, func() { cancel(transport.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// maxStalls is how many messages in a row the server may not accept in time before the connection
// fails.
const maxStalls = 2

// WithStallTimeout returns a context that ends with [transport.ErrStalled] after Timeouts.Stall,
// which [transport.Hold] pauses.
func (e *End) WithStallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return new(lazyctx.Clock).WithTimeout(ctx, e.Options.Timeouts.Stall, e.stalled)
}

// CountStall counts err if it is [transport.ErrStalled]. It returns true if the count has reached
// maxStalls. Any response of the server resets the count.
func (e *End) CountStall(err error) bool {
	return errors.Is(err, transport.ErrStalled) && e.stalls.Add(1) >= maxStalls
}

// Life returns the context of all goroutines of the connection.
func (e *End) Life() context.Context { return e.life }

// Reserve waits for room for a message of n bytes, and reserves it until Release.
func (e *End) Reserve(ctx context.Context, n int) error { return e.room.reserve(ctx, e.closed, n) }

// maxAnswers is how many answers to requests of the server are posted concurrently. Each one uses
// an HTTP connection. A server that sends many requests and accepts no answers must not make the
// client open an unlimited number.
const maxAnswers = 64

// ReserveAnswer is [End.Reserve] for an answer of n bytes. It also waits while maxAnswers are being
// posted. It reserves the room until ReleaseAnswer.
func (e *End) ReserveAnswer(ctx context.Context, n int) error {
	if err := e.awaitPost(ctx); err != nil {
		return err
	}
	err := e.Reserve(ctx, n)
	if err != nil {
		e.donePost()
	}
	return err
}

// awaitPost waits until an answer may be posted. Each finished post wakes one waiter, because a
// server can cause many. It fails with [transport.ErrStalled] if no answer is posted within
// Timeouts.Stall.
func (e *End) awaitPost(ctx context.Context) error {
	select {
	case e.posts <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(e.Options.Timeouts.Stall)
	defer timer.Stop()
	for {
		posted := e.posted.Load()
		select {
		case e.posts <- struct{}{}:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.closed:
			return transport.ErrClosed
		case <-timer.C:
			if e.posted.Load() == posted {
				return transport.ErrStalled
			}
			timer.Reset(e.Options.Timeouts.Stall)
		}
	}
}

func (e *End) donePost() {
	e.posted.Add(1)
	<-e.posts
}

// ReleaseAnswer releases room for an answer of n bytes.
func (e *End) ReleaseAnswer(n int) {
	e.Release(n)
	e.donePost()
}

// Release releases room for a message of n bytes.
func (e *End) Release(n int) { e.room.release(n) }
