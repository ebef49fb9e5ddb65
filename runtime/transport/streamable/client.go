package streamable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// ClientOptions configures a client. The zero value means the defaults.
type ClientOptions struct {
	httpclient.Options

	// NoListen disables the standing stream, on which the server sends messages that belong to no
	// request.
	NoListen bool

	// NoFallback disables the fallback to HTTP with SSE, which the client tries if the server
	// rejects the first message (MCP transports, "Backwards Compatibility").
	NoFallback bool
}

// client is the client end of a connection; see [Dial].
type client struct {
	end     *httpcore.End
	url     *url.URL
	options ClientOptions
	close   func()

	fallback atomic.Pointer[transport.Reopener]
	unused   int // sessions in a row that were dropped unused or at once; used by Reopen

	mu        sync.Mutex
	session   *clientSession
	exchanges map[jsonrpc.ID]*exchange // unanswered requests
}

// Dial returns a connection to the server at serverURL, for a session in the role of the client
// (MCP transports, "Streamable HTTP"). It sends nothing before the first Write.
//
// Each written message is one POST. It is not repeated once the server may have received it, except
// for messages that are harmless to receive twice: answers and notifications/initialized are sent
// again, with the delays and attempts of [httpclient.Retries]. A request is sent again if the
// server rejects it with status 503 and a Retry-After of at most Retries.MaxDelay, as a server does
// that is being restarted. If a message is lost, or rejected with another HTTP status, Read returns
// a [*transport.DeliveryError], which may wrap a [*httpclient.StatusError], and the connection
// stays open, even if the network is down for a long time. A broken stream is resumed. Write of a
// notification returns when the server has accepted it or it is lost, which takes Timeouts.Stall if
// the server does not respond, so that later messages arrive after it. Write of a request does not
// wait for its answer, and Write of an answer does not wait for the server to accept it. The server
// sends nothing before it has received notifications/initialized: the connection repeats that until
// the server accepts it.
//
// If the server answers with status 404 because it has dropped the session, Read returns a
// [*transport.SessionLostError], and requests that the server had accepted fail. If a server drops
// one session after another without accepting a message, or within Retries.Delay, the delay of Reopen
// increases; see [httpclient.Options]. After Reopen, status 404 or 405, a page or a redirect in
// response to initialize or server/discover is not a rejection: a proxy whose server is down may
// answer so. Nor does any of them but 405 end a standing stream that has been open before.
//
// Many servers answer with status 400 instead of 404. As that status has other meanings, the
// connection then sends a ping within the session: if the server rejects it with an HTTP status,
// and not with an answer to the ping, it has dropped the session.
//
// The id of the session is secret and does not appear in errors and logs.
//
// A request whose _meta names a revision without sessions belongs to no session. Its POST has the
// header fields that repeat parts of the request. The end of its stream of events is final: it is
// not resumed, and Read returns a [*transport.DeliveryError] that wraps [httpclient.ErrCut]. A
// notifications/cancelled for it closes the stream and is not sent. A rejection with status 401 or
// 403 is a [*httpclient.StatusError], even if its body is a JSON-RPC error. If server/discover is
// rejected in a way that shows a server of revisions with sessions, the DeliveryError has Refused
// set.
func Dial(serverURL string, o ClientOptions) (transport.Reopener, error) {
	u, err := httpcore.ParseURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("streamable: %w", err)
	}
	end, err := httpcore.New(u, o.Options)
	if err != nil {
		return nil, fmt.Errorf("streamable: %w", err)
	}
	c := &client{end: end, url: u, options: o, exchanges: map[jsonrpc.ID]*exchange{}}
	c.session = c.newSession(1, "", "")
	c.close = sync.OnceFunc(func() { c.end.Close(c.deleteSession) })
	return c, nil
}

// Info implements [transport.Described].
func (c *client) Info() transport.Info { return c.end.Info() }

// Read returns the next message from the server.
func (c *client) Read() (transport.Message, error) { return c.end.Read() }

// Push implements [ability.Pusher]. The goroutine that has read a message calls take.
func (c *client) Push(outer transport.Conn, take func(transport.Message, error)) bool {
	if outer != transport.Conn(c) {
		return false
	}
	c.end.Push(take)
	return true
}

// Forget implements [ability.Forgetter]. It closes the stream of the request after cancelGrace.
func (c *client) Forget(id jsonrpc.ID) {
	c.mu.Lock()
	x := c.exchanges[id]
	c.mu.Unlock()
	if x != nil {
		time.AfterFunc(cancelGrace, func() { x.cancel(errCancelled) })
	}
}

// Write sends a message.
func (c *client) Write(ctx context.Context, m transport.Message) error {
	if old := c.fallback.Load(); old != nil {
		return (*old).Write(ctx, m)
	}
	sess, err := c.sessionFor(m)
	if err != nil {
		return err
	}
	envelope, _ := m.Parse() // the server reports faults
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		return c.request(ctx, sess, m.Text, envelope)
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		return c.answer(ctx, sess, m.Text)
	}
	return c.notify(ctx, sess, m.Text, envelope)
}

// answer sends an answer to a request of the server. It does not wait until the server has accepted
// it. If the answer is lost or rejected, it is sent again, because the server ignores a second one.
func (c *client) answer(ctx context.Context, sess *clientSession, text []byte) error {
	n := len(text)
	if err := c.end.ReserveAnswer(ctx, n); err != nil {
		return err
	}
	started := c.end.GoSend(func() { // ends after Timeouts.Stall at the latest
		defer c.end.ReleaseAnswer(n)
		ctx, cancel := c.end.Detach(ctx)
		defer cancel(nil)
		bounded, stop := c.end.WithStallTimeout(ctx)
		defer stop()
		if _, err := c.sendAgain(bounded, sess, text); err != nil {
			c.end.ReportLost(jsonrpc.ID{}, false, err)
		}
	})
	if !started {
		c.end.ReleaseAnswer(n)
		return transport.ErrClosed
	}
	return nil
}

// notify sends a notification, or an invalid message, and waits until the server has accepted it.
func (c *client) notify(ctx context.Context, sess *clientSession, text []byte, envelope jsonrpc.Message) error {
	done, ok := c.end.BeginSend()
	if !ok {
		return transport.ErrClosed
	}
	defer done()
	if err := c.end.Reserve(ctx, len(text)); err != nil {
		return err
	}
	defer c.end.Release(len(text))
	if envelope.Method == mcp.MethodNotificationsCancelled {
		x := c.cancelled(envelope.Params)
		if x != nil && x.header != nil {
			x.unneeded.Store(true)
			x.cancel(errCancelled) // closing the stream is the cancellation
		}
		if x != nil && x.header != nil || sess.revision == "" {
			return nil
		}
		if x != nil {
			if !x.withdraw(ctx) {
				return nil // the server has not received the request
			}
			defer time.AfterFunc(cancelGrace, func() { x.cancel(errCancelled) })
		}
	}
	bounded, cancel := c.end.Bounded(ctx)
	defer cancel()
	var err error
	if envelope.Method == mcp.MethodNotificationsInitialized {
		err = c.confirm(bounded, sess, text)
	} else {
		err = c.sendWith(bounded, sess, modernHeader(ctx, envelope), text)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.end.Life().Err() != nil:
		return transport.ErrClosed
	}
	if lost, ok := errors.AsType[*transport.SessionLostError](err); ok {
		return lost
	}
	c.end.ReportLost(jsonrpc.ID{}, false, err)
	return nil
}

// confirm sends notifications/initialized. The server may send nothing before it has received it.
// If all attempts of sendAgain fail, further attempts run in the background, and confirm returns
// the error.
func (c *client) confirm(ctx context.Context, sess *clientSession, text []byte) error {
	failures, err := c.sendAgain(ctx, sess, text)
	switch {
	case err == nil:
		c.listen(sess)
	case ctx.Err() == nil && !sess.lost.Load() && !errors.Is(err, transport.ErrStalled):
		// The session may reuse the memory of text.
		text := bytes.Clone(text)
		c.end.Go(func() { c.confirmLater(sess, text, failures) }) // ends with sess
	}
	return err
}

// sendAgain is send for a message that the server may receive twice without harm. If it is lost or
// rejected, and the failure may be temporary, sendAgain makes up to Retries.Max further attempts. It
// returns the number of failures before the last attempt.
func (c *client) sendAgain(ctx context.Context, sess *clientSession, text []byte) (failures int, err error) {
	for ; ; failures++ {
		err := c.send(ctx, sess, text)
		switch {
		case err == nil, ctx.Err() != nil, sess.lost.Load(), errors.Is(err, transport.ErrStalled),
			!httpcore.Retryable(err), failures >= c.end.Options.Retries.Max,
			!httpcore.Sleep(ctx, c.end.Backoff(0, failures)):
			return failures, err
		}
	}
}

// confirmLater repeats notifications/initialized until the server accepts it or drops the session.
func (c *client) confirmLater(sess *clientSession, text []byte, failures int) {
	for httpcore.Sleep(sess.ctx, c.end.Backoff(0, failures)) && c.current() == sess {
		err := c.send(lazyctx.Unattended(sess.ctx), sess, text)
		if err == nil {
			c.listen(sess)
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not accepted", "error", err)
		failures++
	}
}

// send posts a message that has no answer.
func (c *client) send(ctx context.Context, sess *clientSession, text []byte) error {
	return c.sendWith(ctx, sess, nil, text)
}

// sendWith is send with the header of a modern message, or nil.
func (c *client) sendWith(ctx context.Context, sess *clientSession, header http.Header, text []byte) error {
	ctx, cancel := c.end.WithStallTimeout(ctx)
	defer cancel()
	resp, err := c.post(postRequest{ctx: ctx, sess: sess, header: header, text: text})
	if err != nil {
		return err
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	status, _ := httpcore.Status(resp)
	return status
}

// postRequest describes a POST.
type postRequest struct {
	ctx      context.Context
	sess     *clientSession
	header   http.Header // of a modern message; nil for a message of the session
	text     []byte
	exchange *exchange // of a request; nil for other messages
}

// begins reports whether the request is the first of a connection. If its connection is refused,
// the URL is probably wrong: retries would only delay the error.
func (p *postRequest) begins() bool {
	x := p.exchange
	return x != nil && (x.isDiscover || x.isInitialize) && x.sess.number <= 1
}

// stop reports whether to stop retrying.
func (p *postRequest) stop() bool { return p.exchange != nil && p.exchange.unneeded.Load() }

// post sends a message. It retries while the server cannot be reached, unless it refuses the
// connection of the first request. It fails with a
// [*transport.SessionLostError] if the server has not received the message because its session is
// lost.
func (c *client) post(p postRequest) (*http.Response, error) {
	for failures := 0; ; failures++ {
		if p.sess.lost.Load() {
			return nil, p.sess.lostError()
		}
		header := p.header
		if header == nil {
			header = p.sess.posts
		}
		r := httpcore.Request{Method: http.MethodPost, URL: c.url, Header: header, Text: p.text}
		if p.exchange != nil {
			r.Body = &p.exchange.body
		}
		resp, err := c.end.Do(p.ctx, r)
		switch {
		case err == nil && p.header == nil && c.sessionDropped(p.ctx, p.sess, resp):
			defer httpcore.Discard(resp)
			status, _ := httpcore.Status(resp)
			return nil, c.loseSession(p.sess, status)
		case err == nil:
			return resp, nil
		case !httpcore.Unreached(err) || failures >= c.end.Options.Retries.Max || p.stop():
			return nil, err
		case p.begins() && errors.Is(err, syscall.ECONNREFUSED):
			return nil, err
		case !httpcore.Sleep(p.ctx, c.end.Backoff(0, failures)):
			return nil, errors.Join(context.Cause(p.ctx), err)
		case p.stop():
			return nil, err
		}
	}
}

// cancelled returns the exchange that a notifications/cancelled refers to, or nil.
func (c *client) cancelled(params json.RawMessage) *exchange {
	var p mcp.CancelledNotificationParams
	if codec.Unmarshal(params, &p) != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchanges[p.RequestID]
}

// Close ends the connection. It waits up to Timeouts.Flush for pending answers and notifications to
// be accepted, closes all streams, and ends the session at the server with DELETE (MCP transports,
// "Session Management").
func (c *client) Close() error {
	c.close()
	return nil
}

// deleteSession ends the session at the server, if there is one. It is optional: failures are only
// logged.
func (c *client) deleteSession() {
	sess := c.current()
	if sess.id == "" || sess.lost.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.end.Options.Timeouts.Flush)
	defer cancel()
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodDelete, URL: c.url, Header: sess.headers()})
	if err != nil {
		c.end.Options.Logger.Info("session not deleted", "error", err)
		return
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusMethodNotAllowed {
		status, _ := httpcore.Status(resp)
		c.end.Options.Logger.Info("session not deleted", "error", status)
	}
}
