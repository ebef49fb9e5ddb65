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
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// ClientOptions say how a client reaches its server. The zero value means the defaults.
type ClientOptions struct {
	httpclient.Options

	// NoListen does without the standing stream, on which the server sends what belongs to no request.
	NoListen bool

	// NoFallback does without the older transport, HTTP with SSE, which is tried if the server does not take the
	// first message (MCP transports, "Backwards Compatibility").
	NoFallback bool
}

// Client is the client's end of a connection over Streamable HTTP. It is a [transport.Conn] for a session in the
// role of the client (MCP transports, "Streamable HTTP").
//
// Each message that is written is one POST, which is never repeated once the server may have got it. A message that
// is lost, or refused with an HTTP status, is reported by Read as a [*transport.DeliveryError], which may wrap a
// [*httpclient.StatusError]; the connection goes on. A stream that breaks is resumed. Write returns when a
// notification was taken by the server or is lost, so that what is written next comes behind it; it does not wait
// for the answer to a request, nor for an answer to be taken. The exception is notifications/initialized, without which
// the server sends nothing: a Client sends it again, with the delays of [httpclient.Options], until the server takes it.
//
// When the server answers with status 404 because it has dropped the session, the Client opens a new one with the
// initialize and the notifications/initialized that were written first, and goes on: the message that was refused is
// sent again, requests that the server had accepted before fail with [httpclient.ErrSessionLost], and requests of the server
// that have not been answered are cancelled. If the server does not want a new session, or changes the revision, the
// connection is over. Servers that drop one session after the other without taking anything are asked for new ones
// more and more slowly, as [httpclient.Options] say.
//
// Many servers answer with status 400 where it should be 404. It can mean something else too, so a server that does is
// pinged within the session: one that refuses even that, not as an answer to the ping but as a whole, has dropped it.
//
// The id of the session is a secret: it is in no error and no log.
type Client struct {
	end     *httpcore.End
	url     *url.URL
	options ClientOptions
	close   func() error

	old     atomic.Pointer[sse.Client]
	renewed func([]byte) // see [transport.Renewer]; nil if nobody wants to know

	mu        sync.Mutex
	epoch     *epoch
	renewal   *renewal                 // that is under way, or nil
	barren    int                      // sessions in a row that were dropped before they were of any use
	hello     []byte                   // the initialize request
	ready     []byte                   // the notification behind it
	exchanges map[jsonrpc.ID]*exchange // requests that wait for their answers
	asked     map[jsonrpc.ID]struct{}  // requests of the server that were not answered
}

// Dial returns a connection with the server at a URL. Nothing is sent before the first Write.
func Dial(serverURL string, o ClientOptions) (*Client, error) {
	u, err := httpcore.ParseURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("streamable: %w", err)
	}
	c := &Client{
		end: httpcore.New(o.Options), url: u, options: o,
		exchanges: map[jsonrpc.ID]*exchange{},
		asked:     map[jsonrpc.ID]struct{}{},
	}
	c.epoch = c.newEpoch("", "")
	c.close = sync.OnceValue(c.shutDown)
	return c, nil
}

// Read returns the next message from the server.
func (c *Client) Read() (transport.Message, error) { return c.end.Read() }

// Push is [transport.Pusher]: a message is taken by the goroutine that has read it.
func (c *Client) Push(of transport.Conn, take func(transport.Message, error)) bool {
	if of != transport.Conn(c) {
		return false
	}
	c.end.Push(take)
	return true
}

// Forget is [transport.Forgetter]. The stream of the request is left after a moment.
func (c *Client) Forget(id jsonrpc.ID) {
	c.mu.Lock()
	x := c.exchanges[id]
	c.mu.Unlock()
	if x != nil {
		time.AfterFunc(lateness, func() { x.cancel(errCancelled) })
	}
}

// Renewed is [transport.Renewer].
func (c *Client) Renewed(opened func(initializeResult []byte)) { c.renewed = opened }

// Write sends a message.
func (c *Client) Write(ctx context.Context, m transport.Message) error {
	if old := c.old.Load(); old != nil {
		return old.Write(ctx, m)
	}
	if m.Answer {
		return c.answer(ctx, m)
	}
	envelope, _ := httpcore.Parse(m.Text) // whatever is wrong with it, the server will tell
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		return c.request(ctx, m.Text, envelope)
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		m.For = envelope.ID
		return c.answer(ctx, m)
	}
	return c.notify(ctx, m.Text, envelope)
}

// answer sends an answer to a request of the server, without waiting for it to be taken.
func (c *Client) answer(ctx context.Context, m transport.Message) error {
	if !m.For.IsZero() && !c.unask(m.For) {
		return nil // the question was of a session that is gone
	}
	n := len(m.Text)
	if err := c.end.AnswerRoom(ctx, n); err != nil {
		return err
	}
	started := c.end.GoSend(func() { // ends after StallTimeout at the latest
		defer c.end.GiveAnswerRoom(n)
		ctx, cancel := c.end.Within(ctx)
		defer cancel(nil)
		if err := c.send(ctx, m.Text, false); err != nil {
			c.end.Lose(jsonrpc.ID{}, false, err)
		}
	})
	if !started {
		c.end.GiveAnswerRoom(n)
		return transport.ErrClosed
	}
	return nil
}

// notify sends a notification, or something that is no message, and waits until the server has taken it.
func (c *Client) notify(ctx context.Context, text []byte, envelope jsonrpc.Message) error {
	done, ok := c.end.Sending()
	if !ok {
		return transport.ErrClosed
	}
	defer done()
	if err := c.end.Room(ctx, len(text)); err != nil {
		return err
	}
	defer c.end.GiveRoom(len(text))
	switch envelope.Method {
	case mcp.MethodNotificationsInitialized:
		c.mu.Lock()
		c.ready = bytes.Clone(text) // which is kept, but not what it was written into
		c.mu.Unlock()
	case mcp.MethodNotificationsCancelled:
		if x := c.cancelled(envelope.Params); x != nil {
			if !x.withdraw(ctx) {
				return nil // the server has never got it
			}
			defer time.AfterFunc(lateness, func() { x.cancel(errCancelled) })
		}
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.end.Life(), func() { cancel(transport.ErrClosed) })()
	var err error
	if envelope.Method == mcp.MethodNotificationsInitialized {
		err = c.confirm(bounded)
	} else {
		err = c.send(bounded, text, true)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.end.Life().Err() != nil:
		return transport.ErrClosed
	case c.end.Stalled(err):
		return err
	}
	c.end.Lose(jsonrpc.ID{}, false, err)
	return nil
}

// confirm sends notifications/initialized, without which the server may send nothing. If it is lost or refused, confirm
// sends it again: the server takes it twice without harm. It waits for a failure that may pass, for MaxRetries
// attempts; what lasts longer goes on in the background, and confirm returns the error.
func (c *Client) confirm(ctx context.Context) error {
	for failures := 0; ; failures++ {
		c.mu.Lock()
		text := c.ready
		c.mu.Unlock()
		err := c.send(ctx, text, true)
		switch {
		case err == nil:
			c.listen(c.current())
			return nil
		case ctx.Err() != nil || errors.Is(err, transport.ErrStalled):
			return err
		case !httpcore.Passing(err) || failures >= c.end.Options.MaxRetries:
			c.end.Go(func() { c.confirmLater(c.current(), text, failures) }) // ends with the session at the server
			return err
		case !httpcore.Sleep(ctx, c.end.Backoff(0, failures)):
			return err
		}
	}
}

// confirmLater sends notifications/initialized again and again until the server takes it or drops the session. A new
// session has its own.
func (c *Client) confirmLater(ep *epoch, text []byte, failures int) {
	for httpcore.Sleep(ep.ctx, c.end.Backoff(0, failures)) && c.current() == ep {
		err := c.send(ep.ctx, text, false)
		if err == nil {
			c.listen(ep)
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not taken", "error", err)
		failures++
	}
}

// send posts a message that is not answered. Again says that it may go to a new session if its own is gone.
func (c *Client) send(ctx context.Context, text []byte, again bool) error {
	ctx, cancel := c.end.WithStallTimeout(ctx)
	defer cancel()
	resp, ep, err := c.post(posting{ctx: ctx, text: text, again: again})
	if err != nil {
		return err
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 == 2 {
		return nil
	}
	status, _ := httpcore.Status(resp)
	return c.judge(ep, status)
}

// judge says what the status of an answer means, in a session.
func (c *Client) judge(ep *epoch, status *httpclient.StatusError) error {
	if status.Code != http.StatusNotFound || ep.id == "" {
		return status
	}
	return c.lose(ep, status)
}

// lose opens a new session in the place of one that the server has dropped, as its status says, and does not wait.
func (c *Client) lose(ep *epoch, status *httpclient.StatusError) error {
	c.end.Go(func() { c.renew(c.end.Life(), ep) }) // ends when there is a new session, or none
	return fmt.Errorf("%w: %w", httpclient.ErrSessionLost, status)
}

// posting is a POST.
type posting struct {
	ctx   context.Context
	text  []byte
	sent  func()      // see [httpcore.Request]
	first bool        // it is an initialize, which belongs to no session
	again bool        // it may be sent to another session if its own is gone
	stop  func() bool // whether to give up rather than try again; nil for no
}

// post sends a message, again as long as the server was not reached, and returns the answer and the session that it
// was for.
func (c *Client) post(p posting) (*http.Response, *epoch, error) {
	for failures, renewed := 0, false; ; {
		ep := c.current()
		if ep.lost.Load() && !p.first {
			if !p.again || renewed {
				return nil, ep, httpclient.ErrSessionLost
			}
			renewed = true
			if err := c.renew(p.ctx, ep); err != nil {
				return nil, ep, err
			}
			continue
		}
		if p.first {
			ep = c.newEpoch("", "")
		}
		resp, err := c.postTo(p.ctx, ep, p.text, p.sent)
		switch {
		case err == nil && p.again && !renewed && c.dropped(p.ctx, ep, resp):
			httpcore.Discard(resp)
			ep.lost.Store(true)
		case err == nil:
			if resp.StatusCode/100 == 2 && !ep.used.Load() {
				ep.used.Store(true)
			}
			return resp, ep, nil
		case !httpcore.Unreached(err) || p.first || failures >= c.end.Options.MaxRetries || p.stop != nil && p.stop():
			return nil, ep, err
		default:
			if !httpcore.Sleep(p.ctx, c.end.Backoff(0, failures)) {
				return nil, ep, errors.Join(context.Cause(p.ctx), err)
			}
			if failures++; p.stop != nil && p.stop() {
				return nil, ep, err
			}
		}
	}
}

// postTo sends a message within a session.
func (c *Client) postTo(ctx context.Context, ep *epoch, text []byte, sent func()) (*http.Response, error) {
	return c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: c.url, Header: ep.posts, Text: text, Sent: sent})
}

// cancelled returns the exchange that a cancellation is about, or nil.
func (c *Client) cancelled(params json.RawMessage) *exchange {
	var p mcp.CancelledNotificationParams
	if codec.Unmarshal(params, &p) != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exchanges[p.RequestID]
}

// unask notes that a request of the server needs no answer any more; ok is false if that was so before.
func (c *Client) unask(id jsonrpc.ID) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok = c.asked[id]
	delete(c.asked, id)
	return ok
}

// receive hands on a message from the server, whose envelope was read; ok is false if ctx or the connection ended
// first.
func (c *Client) receive(ctx context.Context, text []byte, envelope jsonrpc.Message) (ok bool) {
	switch {
	case envelope.Kind == jsonrpc.KindNotification && envelope.Method == mcp.MethodNotificationsCancelled:
		var p mcp.CancelledNotificationParams
		if codec.Unmarshal(envelope.Params, &p) == nil {
			c.unask(p.RequestID)
		}
	case envelope.Kind == jsonrpc.KindRequest || envelope.Kind == jsonrpc.KindInvalid:
		if !envelope.ID.IsZero() {
			c.mu.Lock()
			c.asked[envelope.ID] = struct{}{}
			c.mu.Unlock()
		}
	}
	return c.end.Deliver(ctx, text)
}

// Close ends the connection: it gives answers and notifications that were written time to be taken, hangs up all
// streams, and ends the session at the server with DELETE, as far as the server lets it (MCP transports, "Session
// Management").
func (c *Client) Close() error { return c.close() }

func (c *Client) shutDown() error {
	c.end.Shut()
	var err error
	if old := c.old.Load(); old != nil {
		err = old.Close()
	}
	c.end.Stop()
	if ep := c.current(); ep.id != "" && !ep.lost.Load() {
		c.remove(ep)
	}
	c.end.Release()
	return err
}

// remove ends the session at the server. It is a courtesy: a server that is gone or refuses is left alone.
func (c *Client) remove(ep *epoch) {
	ctx, cancel := context.WithTimeout(context.Background(), c.end.Options.FlushTimeout)
	defer cancel()
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodDelete, URL: c.url, Header: ep.headers()})
	if err != nil {
		c.end.Options.Logger.Info("session not ended at the server", "error", err)
		return
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusMethodNotAllowed {
		status, _ := httpcore.Status(resp)
		c.end.Options.Logger.Info("session not ended at the server", "error", status)
	}
}
