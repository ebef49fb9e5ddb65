package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpend"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/sse"
)

// Client is the client's end of a connection. It is a [transport.Conn] for a session in the role of the client.
//
// Each message that is written is one POST, which is never repeated once the server may have got it. One that the
// server refuses is reported by Read as a [*transport.DeliveryError], which may wrap a [*httpclient.StatusError],
// and the connection goes on. Write returns when a notification was taken by the server or is lost; it does not wait
// for requests and answers to be taken. When the stream from the server ends, the connection is over.
type Client struct {
	end   *httpend.End
	post  *url.URL
	close func() error

	mu       sync.Mutex
	hello    jsonrpc.ID // of the initialize request that was not answered yet
	revision []string   // that was negotiated, as the value of a header; nil before that
}

// ErrEndpoint says that a server does not begin its stream with a usable URL to post to.
var ErrEndpoint = errors.New("sse: no endpoint")

// Dial opens the stream of the server at a URL, and returns when the server has said where to post to. It fails with a
// [*httpclient.StatusError] if the server refuses the stream, with [ErrEndpoint] if it is of another kind, with the
// cause of ctx, which bounds Dial alone, or with what has happened to the connection.
func Dial(ctx context.Context, serverURL string, o httpclient.Options) (*Client, error) {
	u, err := httpend.ParseURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	c := &Client{end: httpend.New(o)}
	c.close = sync.OnceValue(func() error {
		c.end.Stop()
		c.end.Release()
		return nil
	})
	stop := context.AfterFunc(ctx, func() { c.end.Abort(context.Cause(ctx)) })
	events, err := c.open(ctx, u)
	stop()
	if err == nil && c.end.Go(func() { c.read(events) }) { // ends with the stream
		return c, nil
	}
	if events != nil {
		events.close()
	}
	c.Close()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, err
}

// events is the stream from the server.
type events struct {
	*sse.Reader
	resp   *http.Response
	hangUp context.CancelCauseFunc
}

func (e *events) close() {
	e.hangUp(nil)
	e.resp.Body.Close()
}

// open opens the stream and reads its first event.
func (c *Client) open(values context.Context, u *url.URL) (*events, error) {
	ctx, hangUp := c.end.Within(values)
	resp, err := c.end.Do(ctx, httpend.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {httpend.Events}}})
	if err != nil {
		hangUp(nil)
		return nil, err
	}
	e := &events{sse.NewReader(resp.Body, c.end.Options.MaxMessage), resp, hangUp}
	if c.post, err = e.endpoint(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// endpoint reads the first event, which says where to post to.
func (e *events) endpoint() (*url.URL, error) {
	if e.resp.StatusCode/100 != 2 {
		status, _ := httpend.Status(e.resp)
		return nil, status
	}
	if media := httpend.ContentType(e.resp); media != httpend.Events {
		return nil, fmt.Errorf("%w: %w: %q", ErrEndpoint, httpclient.ErrContent, media)
	}
	for {
		event, err := e.Next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrEndpoint, err)
		case event.Name == "" && len(event.Data) == 0:
			continue // it sets the time to wait before connecting again, or an id
		case event.Name != "endpoint":
			return nil, fmt.Errorf("%w: the first event is %q", ErrEndpoint, event.Name)
		}
		base := e.resp.Request.URL
		post, err := base.Parse(string(event.Data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEndpoint, err)
		}
		if !httpend.SameOrigin(base, post) {
			return nil, fmt.Errorf("%w: %s is of another origin", ErrEndpoint, post.Redacted())
		}
		return post, nil
	}
}

// read brings what the server sends to who reads, until the stream ends.
func (c *Client) read(e *events) {
	defer e.close()
	for {
		event, err := e.Next()
		if long, ok := errors.AsType[*transport.MessageError](err); ok {
			c.end.Refuse(c.end.Life(), long)
			continue
		}
		if err != nil {
			c.end.Fail(fmt.Errorf("%w: the stream from the server has ended: %w", transport.ErrClosed, err))
			return
		}
		if event.Name == "" && len(event.Data) > 0 {
			c.learn(event.Data)
			c.end.Deliver(c.end.Life(), event.Data)
		}
	}
}

// learn looks for the answer to initialize, which tells the revision.
func (c *Client) learn(text []byte) {
	c.mu.Lock()
	hello := c.hello
	c.mu.Unlock()
	if hello.IsZero() {
		return
	}
	m, err := httpend.Parse(text)
	if err != nil || m.ID != hello || m.Kind != jsonrpc.KindResponse && m.Kind != jsonrpc.KindErrorResponse {
		return
	}
	r := codec.Borrow(m.Result)
	revision, kind, _ := r.PeekMember("protocolVersion")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hello = jsonrpc.ID{}
	if kind == codec.KindString {
		c.revision = []string{revision}
	}
	r.Release()
}

// Read returns the next message from the server.
func (c *Client) Read() (transport.Message, error) { return c.end.Read() }

// Write sends a message.
func (c *Client) Write(ctx context.Context, m transport.Message) error {
	done, ok := c.end.Sending()
	if !ok {
		return transport.ErrClosed
	}
	if err := c.end.Room(ctx, len(m.Text)); err != nil {
		done()
		return err
	}
	w := &writing{text: m.Text, out: make(chan struct{}), over: make(chan struct{})}
	notice := c.look(m, w)
	go func() { // ends after StallTimeout at the latest, and Close waits for it
		defer done()
		defer c.end.GiveRoom(len(m.Text))
		defer close(w.over)
		w.err = c.send(ctx, w)
	}()
	if m.Answer {
		return nil
	}
	out := w.out
	if notice {
		out = nil
	}
	select {
	case <-out: // so that a cancellation comes behind it
		return nil
	case <-w.over:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writing is a message on its way to the server.
type writing struct {
	text []byte
	id   jsonrpc.ID    // of a request
	once sync.Once     // closes out
	out  chan struct{} // closed when it has gone out
	over chan struct{} // closed when the server has taken it or it is lost; err is there then
	err  error         // the connection is over
}

// look finds out what a message is. Notice says that it is neither a request nor an answer.
func (c *Client) look(m transport.Message, w *writing) (notice bool) {
	if m.Answer {
		return false
	}
	envelope, _ := httpend.Parse(m.Text) // whatever is wrong with it, the server will tell
	switch envelope.Kind {
	case jsonrpc.KindNotification, jsonrpc.KindInvalid:
		return true
	case jsonrpc.KindRequest:
		w.id = envelope.ID
	}
	if envelope.Method == "initialize" {
		c.mu.Lock()
		c.hello = w.id
		c.mu.Unlock()
	}
	return false
}

// send posts a message. What happens to that message alone is for Read to tell; an error is the end of the
// connection.
func (c *Client) send(values context.Context, w *writing) error {
	ctx, cancel := c.end.Within(values)
	defer cancel(nil)
	ctx, release := c.end.Patience(ctx)
	defer release()
	h := http.Header{"Content-Type": {httpend.JSON}, "Accept": {httpend.JSON + ", " + httpend.Events}}
	c.mu.Lock()
	if c.revision != nil {
		h["Mcp-Protocol-Version"] = c.revision
	}
	c.mu.Unlock()
	sent := func() { w.once.Do(func() { close(w.out) }) }
	for failures := 0; ; failures++ {
		resp, err := c.end.Do(ctx, httpend.Request{Method: http.MethodPost, URL: c.post, Header: h, Text: w.text, Sent: sent})
		if err == nil {
			defer httpend.Discard(resp)
			if resp.StatusCode/100 != 2 {
				status, _ := httpend.Status(resp)
				c.end.Lose(w.id, false, status)
			}
			return nil
		}
		if httpend.Unreached(err) && failures < c.end.Options.MaxRetries && httpend.Sleep(ctx, c.end.Backoff(0, failures)) {
			continue
		}
		if c.end.Stalled(err) || c.end.Err() != nil {
			return err
		}
		c.end.Lose(w.id, true, err)
		return nil
	}
}

// Close ends the connection: it gives what was written time to be taken, and hangs up.
func (c *Client) Close() error { return c.close() }
