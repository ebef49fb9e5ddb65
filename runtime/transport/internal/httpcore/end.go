// Package httpcore is the part of a client over HTTP that does not depend on which of the two transports it is:
// HTTP requests with their headers, what was received and waits to be read, bounds on what is sent, and the end of
// it all.
package httpcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// End is the client's end of a connection.
type End struct {
	Options httpclient.Options // with defaults

	client http.Client
	own    *http.Transport // the client's, if it is ours to close
	plain  *http.Transport // the client's, if that adds nothing to it but redirects
	room   room
	posts  chan struct{} // full while maxAnswers are being posted
	posted atomic.Uint64 // answers that were posted or lost
	stalls atomic.Int32  // messages in a row that the server left untouched

	read sync.Once
	in   chan received                  // what waits for Read; made when read was done
	take func(transport.Message, error) // in the place of Read; set before anything is delivered
	turn chan struct{}                  // full while take is being called

	life context.Context // ends when everything has to stop
	stop context.CancelCauseFunc

	mu      sync.Mutex
	shut    atomic.Bool    // Shut was called, which comes after closed is closed
	closed  chan struct{}  // closed when nothing is read or written any more
	err     error          // why; set before closed is closed
	work    sync.WaitGroup // what runs; nothing is added once closed is
	sending sync.WaitGroup // messages that Close lets go out; like work
}

// received is what Read returns.
type received struct {
	m   transport.Message
	err error
}

// waiting is how many messages may wait to be read. Each of those who have more waits with one.
const waiting = 16

// New returns an end.
func New(o httpclient.Options) *End {
	e := &End{Options: o.WithDefaults(), closed: make(chan struct{})}
	e.room = room{max: e.Options.MaxQueue, stall: e.Options.StallTimeout}
	e.posts = make(chan struct{}, maxAnswers)
	e.life, e.stop = context.WithCancelCause(context.Background())
	if o.HTTP != nil {
		e.client = *o.HTTP
		e.client.Timeout = 0
	} else {
		e.own = ownTransport()
		e.client.Transport = e.own
	}
	if e.client.Jar == nil && len(e.Options.Header) == 0 && e.Options.Prepare == nil {
		e.plain, _ = cmp.Or(e.client.Transport, http.DefaultTransport).(*http.Transport)
	}
	if e.client.CheckRedirect == nil {
		e.client.CheckRedirect = sameOrigin
	}
	return e
}

// ownTransport returns a transport for many requests to one host at once.
func ownTransport() *http.Transport {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if std, ok := http.DefaultTransport.(*http.Transport); ok {
		t = std.Clone()
	}
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 256
	return t
}

// maxRedirects is how many redirects in a row are followed.
const maxRedirects = 5

// sameOrigin lets redirects lead only where the session id and the headers of the user may be sent as well, and only
// if the request stays what it is.
func sameOrigin(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("%w: more than %d in a row", httpclient.ErrRedirect, maxRedirects)
	case req.Method != first.Method:
		return fmt.Errorf("%w: it makes %s of %s", httpclient.ErrRedirect, req.Method, first.Method)
	case !SameOrigin(req.URL, first.URL):
		return fmt.Errorf("%w: it leads to another origin, %s://%s", httpclient.ErrRedirect, req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// SameOrigin reports whether two URLs have scheme, host and port in common.
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
		return nil, errors.New("malformed URL") // the text of err may hold a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a server", u.Redacted())
	}
	return u, nil
}

// inbox returns what holds what waits for Read. Who has Push does without.
func (e *End) inbox() chan received {
	e.read.Do(func() { e.in = make(chan received, waiting) })
	return e.in
}

// Read returns what was delivered, in order, also what is left of it when the connection has failed. It is the Read of a [transport.Conn].
func (e *End) Read() (transport.Message, error) {
	if e.shut.Load() {
		return transport.Message{}, e.err
	}
	in := e.inbox()
	select {
	case r := <-in:
		return r.m, r.err
	case <-e.closed:
	}
	if !e.shut.Load() {
		select {
		case r := <-in: // came before the end
			return r.m, r.err
		default:
		}
	}
	return transport.Message{}, e.err
}

// Push makes the connection call take with what is delivered, in the goroutine that delivers it, and with the end.
// Nothing has been delivered before. It is the Push of a [transport.Pusher].
func (e *End) Push(take func(transport.Message, error)) {
	e.mu.Lock()
	e.take, e.turn = take, make(chan struct{}, 1)
	err := e.Err()
	e.mu.Unlock()
	if err != nil {
		take(transport.Message{}, err)
	}
}

// Deliver brings a message to who reads; ok is false if ctx or the connection ended first.
func (e *End) Deliver(ctx context.Context, text []byte) (ok bool) {
	return e.put(ctx, received{m: transport.Message{Text: text}})
}

// Forward brings what another connection was read to yield to who reads; ok is false if that was its end, which is
// the end of this one too.
func (e *End) Forward(m transport.Message, err error) (ok bool) {
	_, refused := errors.AsType[*transport.MessageError](err)
	_, lost := errors.AsType[*transport.DeliveryError](err)
	if err != nil && !refused && !lost {
		e.Fail(err)
		return false
	}
	return e.put(e.life, received{m, err})
}

// Lose tells who reads that a message was lost. It does not wait; ID is that of a request, which the server may have
// taken, or zero.
func (e *End) Lose(id jsonrpc.ID, taken bool, err error) {
	lost := received{err: &transport.DeliveryError{ID: id, Taken: taken, Err: err}}
	if !e.offer(lost) {
		e.Go(func() { e.put(e.life, lost) }) // ends with the connection
	}
}

// offer brings r to who reads if that is possible at once.
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

// put brings r to who reads; ok is false if ctx or the connection ended first.
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

// push has r taken, and gives the turn back, which the caller has; ok is false if the connection is over.
func (e *End) push(r received) (ok bool) {
	defer func() { <-e.turn }()
	if e.Err() != nil {
		return false
	}
	e.take(r.m, r.err)
	return true
}

// Closed is closed when nothing is read or written any more.
func (e *End) Closed() <-chan struct{} { return e.closed }

// Err returns why the connection is over, or nil if it is not.
func (e *End) Err() error {
	select {
	case <-e.closed:
		return e.err
	default:
		return nil
	}
}

// Go runs f in a goroutine that Close waits for; ok is false if the connection is over.
func (e *End) Go(f func()) (ok bool) { return e.run(&e.work, f) }

// GoSend is Go for what sends an answer, which Close gives time to do so.
func (e *End) GoSend(f func()) (ok bool) { return e.run(&e.sending, f) }

func (e *End) run(group *sync.WaitGroup, f func()) (ok bool) {
	if !e.enter(group) {
		return false
	}
	go func() { // ends with f, which ends with the connection
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

// Sending notes that the caller sends something, until done is called, so that Close gives it time to do so; ok is
// false if the connection is over.
func (e *End) Sending() (done func(), ok bool) {
	if !e.enter(&e.sending) {
		return nil, false
	}
	return e.sending.Done, true
}

// Fail ends the connection because of err, which Read and Write return from now on, without waiting for anything;
// first is false if it is over already.
func (e *End) Fail(err error) (first bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Err() != nil {
		return false
	}
	e.err = err
	if e.take != nil {
		e.work.Go(func() { // ends when it was taken
			e.turn <- struct{}{}
			e.take(transport.Message{}, err)
			<-e.turn
		})
	}
	close(e.closed)
	return true
}

// Abort is Fail, and stops everything that runs.
func (e *End) Abort(err error) {
	e.Fail(err)
	e.stop(err)
}

// Shut ends the connection; nothing is read any more, not even what was delivered.
func (e *End) Shut() {
	e.Fail(transport.ErrClosed)
	e.shut.Store(true)
}

// Stop is Shut, waits for what is being sent, for a while, stops all the rest, and waits until nothing runs any more.
func (e *End) Stop() {
	e.Shut()
	sent := make(chan struct{})
	go func() { // ends when life has
		defer close(sent)
		e.sending.Wait()
	}()
	flush, cancel := context.WithTimeout(context.Background(), e.Options.FlushTimeout)
	defer cancel()
	select {
	case <-sent:
	case <-flush.Done():
	}
	e.stop(transport.ErrClosed)
	<-sent
	e.work.Wait()
}

// Release gives up connections that are kept for later.
func (e *End) Release() {
	if e.own != nil {
		e.own.CloseIdleConnections()
	}
}

// Within returns a context with the values of ctx that ends with the connection, rather than with ctx.
func (e *End) Within(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(&valued{e.life, ctx})
}

// valued is a context that has the values of another one as well.
type valued struct {
	context.Context
	values context.Context
}

func (c *valued) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// maxStalls is how many messages in a row the server may leave untouched until it is taken for gone.
const maxStalls = 2

// Patience returns a context that ends when a server should have taken a message long ago.
func (e *End) Patience(ctx context.Context) (context.Context, context.CancelFunc) {
	stall := e.Options.StallTimeout
	return context.WithTimeoutCause(ctx, stall, fmt.Errorf("%w: no answer within %v", transport.ErrStalled, stall))
}

// Stalled counts err if it says that the server took no message for too long, and reports whether it must be taken
// for gone. An answer of any kind ends the count.
func (e *End) Stalled(err error) (gone bool) {
	return errors.Is(err, transport.ErrStalled) && e.stalls.Add(1) >= maxStalls
}

// Life ends when everything has to stop.
func (e *End) Life() context.Context { return e.life }

// Room waits for room for a message of n bytes; GiveRoom gives it back.
func (e *End) Room(ctx context.Context, n int) error { return e.room.take(ctx, e.closed, n) }

// maxAnswers is how many answers to requests of the server are posted at the same time. Each has a connection, of which a
// server that asks much and takes nothing must not make the client open any number.
const maxAnswers = 64

// AnswerRoom is [End.Room] for an answer of n bytes, and waits while maxAnswers are being posted; GiveAnswerRoom gives the
// room back.
func (e *End) AnswerRoom(ctx context.Context, n int) error {
	if err := e.awaitPost(ctx); err != nil {
		return err
	}
	err := e.Room(ctx, n)
	if err != nil {
		e.donePost()
	}
	return err
}

// awaitPost waits until an answer may be posted. Waiters take turns, as a server can make them many: one that has posted
// wakes one other. It fails with [transport.ErrStalled] if no answer is posted within StallTimeout.
func (e *End) awaitPost(ctx context.Context) error {
	select {
	case e.posts <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(e.Options.StallTimeout)
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
			timer.Reset(e.Options.StallTimeout)
		}
	}
}

func (e *End) donePost() {
	e.posted.Add(1)
	<-e.posts
}

// GiveAnswerRoom gives room for an answer of n bytes back.
func (e *End) GiveAnswerRoom(n int) {
	e.GiveRoom(n)
	e.donePost()
}

// GiveRoom gives room for a message of n bytes back.
func (e *End) GiveRoom(n int) { e.room.give(n) }
