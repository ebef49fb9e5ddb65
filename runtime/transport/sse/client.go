package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// Client is the client end of a connection. It is a [transport.Conn] for a session in the role of
// the client.
//
// Each written message is one POST, which is never repeated once the server may have received it.
// If the server rejects a message, Read returns a [*transport.DeliveryError], which may wrap a
// [*httpclient.StatusError], and the connection stays open. A request whose POST was sent waits for
// its answer on the stream, even if the response to the POST is lost. Write of a notification
// returns when the server has accepted it or it is lost. Write of a request or an answer does not
// wait for that. If notifications/initialized is lost or rejected, the Client sends it again, with
// the delays of [httpclient.Options], until the server accepts it.
//
// A broken stream cannot be resumed, and the server's session ends with it. The Client then opens
// another stream, and repeats the initialize and notifications/initialized that were written first.
// Requests that were sent fail with [httpclient.ErrSessionLost], unanswered requests of the server
// are cancelled, and messages written in the meantime wait. The Client does the same when the
// server answers a message with status 404. It retries with increasing delays; see
// [httpclient.Options]. If the server rejects the new session or changes the revision, or if the
// stream breaks before initialize is answered, the connection ends.
//
// The query of the server's URLs, which names the session, does not appear in errors and logs.
type Client struct {
	end   *httpcore.End
	url   *url.URL
	close func() error

	mu           sync.Mutex
	line         *line                   // nil while there is none
	opened       chan struct{}           // closed when line is set again
	initialize   []byte                  // the initialize request
	initializeID jsonrpc.ID              // its id
	ready        []byte                  // the notifications/initialized message
	revision     []string                // the negotiated revision as the value of a header; nil before the answer to initialize
	calls        map[jsonrpc.ID]struct{} // unanswered requests that were posted on this line
	asked        map[jsonrpc.ID]struct{} // unanswered requests of the server
	lost         map[jsonrpc.ID]struct{} // requests that were reported as lost on this line; an answer may still arrive
	renewed      func([]byte)            // see [transport.Renewer]; may be nil

	failures int // attempts in a row without a message; used by the reading goroutine
}

// line is a stream from the server, and the URL to post to.
type line struct {
	*eventstream.Reader
	resp   *http.Response
	hangUp context.CancelCauseFunc
	post   *url.URL
	retry  time.Duration // the delay that the server has asked for
}

func (l *line) close() {
	l.hangUp(nil)
	l.resp.Body.Close()
}

// ErrEndpoint is returned if the server's stream does not begin with a usable URL to post to.
var ErrEndpoint = errors.New("sse: no endpoint")

// Dial opens the stream of the server at serverURL, and returns when the server has sent the URL to
// post to. It fails with a [*httpclient.StatusError] if the server rejects the request, with
// [ErrEndpoint] if the stream is invalid, with the cause of ctx, which bounds Dial alone, or with
// the error of the connection.
func Dial(ctx context.Context, serverURL string, o httpclient.Options) (*Client, error) {
	u, err := httpcore.ParseURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	c := &Client{
		end: httpcore.New(o), url: u,
		calls: map[jsonrpc.ID]struct{}{}, asked: map[jsonrpc.ID]struct{}{}, lost: map[jsonrpc.ID]struct{}{},
	}
	c.close = sync.OnceValue(func() error {
		c.end.Stop()
		c.end.Release()
		return nil
	})
	stop := context.AfterFunc(ctx, func() { c.end.Abort(context.Cause(ctx)) })
	l, err := c.open(c.end.Within(ctx))
	stop()
	if err == nil {
		c.line = l
		if c.end.Go(func() { c.run(l) }) { // ends with the connection
			return c, nil
		}
		l.close()
	}
	c.Close()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, err
}

// open opens a stream and reads its first event. hangUp ends ctx and the stream.
func (c *Client) open(ctx context.Context, hangUp context.CancelCauseFunc) (*line, error) {
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodGet, URL: c.url, Header: http.Header{"Accept": {httpcore.Events}}})
	if err != nil {
		hangUp(nil)
		return nil, err
	}
	l := &line{Reader: eventstream.NewReader(resp.Body, c.end.Options.MaxMessage), resp: resp, hangUp: hangUp}
	if l.post, err = l.endpoint(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		l.close()
		return nil, err
	}
	return l, nil
}

// endpoint reads the first event, which has the URL to post to.
func (l *line) endpoint() (*url.URL, error) {
	if l.resp.StatusCode/100 != 2 {
		status, _ := httpcore.Status(l.resp)
		return nil, status
	}
	if media := httpcore.ContentType(l.resp); media != httpcore.Events {
		return nil, fmt.Errorf("%w: %w: %q", ErrEndpoint, httpclient.ErrContent, media)
	}
	for {
		event, err := l.next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrEndpoint, err)
		case event.Name == "" && len(event.Data) == 0:
			continue // sets only a retry or an id
		case event.Name != "endpoint":
			return nil, fmt.Errorf("%w: the first event is %q", ErrEndpoint, event.Name)
		}
		base := l.resp.Request.URL
		post, err := base.Parse(string(event.Data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEndpoint, errors.Unwrap(err)) // without the URL
		}
		if !httpcore.SameOrigin(base, post) {
			return nil, fmt.Errorf("%w: other origin %s://%s", ErrEndpoint, post.Scheme, post.Host)
		}
		return post, nil
	}
}

// next reads the next event.
func (l *line) next() (eventstream.Event, error) {
	event, err := l.Next()
	if event.Retry > 0 {
		l.retry = event.Retry
	}
	return event, err
}

// run reads streams until the connection ends.
func (c *Client) run(l *line) {
	for {
		err := c.read(l)
		if l, err = c.renew(l, err); err != nil {
			c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, err))
			return
		}
	}
}

// read delivers the messages of a stream until it ends.
func (c *Client) read(l *line) error {
	defer l.close()
	for {
		event, err := l.next()
		if errors.Is(err, transport.ErrTooLong) {
			if answer, ok := errors.AsType[*transport.DeliveryError](err); !ok || c.record(&jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: answer.ID}) {
				c.end.Forward(transport.Message{}, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("stream ended: %w", err)
		}
		if event.Name == "" && len(event.Data) > 0 {
			c.failures = 0
			if c.recordText(event.Data) {
				c.end.Deliver(c.end.Life(), event.Data)
			}
		}
	}
}

// recordText records which requests a message begins or completes. It returns false for the answer
// to a request that was reported as lost.
func (c *Client) recordText(text []byte) bool {
	m, err := httpcore.Parse(text)
	if errors.Is(err, jsonrpc.ErrBatch) {
		items, _ := jsonrpc.ParseBatch(text, append(codec.AllowSize(text), codec.NoCopy())...)
		for i := range items {
			c.record(&items[i].Message)
		}
		return true
	}
	return c.record(&m)
}

func (c *Client) record(m *jsonrpc.Message) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		if _, lost := c.lost[m.ID]; lost {
			delete(c.lost, m.ID)
			return false
		}
		delete(c.calls, m.ID)
		if m.ID == c.initializeID && c.revision == nil {
			c.revision = revisionOf(m.Result)
		}
	case jsonrpc.KindRequest, jsonrpc.KindInvalid:
		if !m.ID.IsZero() {
			c.asked[m.ID] = struct{}{}
		}
	case jsonrpc.KindNotification:
		delete(c.asked, cancelled(m))
	}
	return true
}

// revisionOf returns the revision in a result of initialize as the value of a header, or nil.
func revisionOf(result []byte) []string {
	r := codec.Borrow(result)
	defer r.Release()
	revision, kind, _ := r.PeekMember("protocolVersion")
	if kind != codec.KindString {
		return nil
	}
	return []string{revision}
}

// cancelled returns the id of the request that a notification cancels, or the zero ID.
func cancelled(m *jsonrpc.Message) jsonrpc.ID {
	var p mcp.CancelledNotificationParams
	if m.Method != mcp.MethodNotificationsCancelled || codec.Unmarshal(m.Params, &p) != nil {
		return jsonrpc.ID{}
	}
	return p.RequestID
}

// renew opens a new session after the stream of the last one has ended.
func (c *Client) renew(last *line, cause error) (*line, error) {
	c.mu.Lock()
	initialize, id, ready, revision := c.initialize, c.initializeID, c.ready, c.revision
	calls, asked := c.calls, c.asked
	c.line, c.opened = nil, make(chan struct{})
	c.calls, c.asked, c.lost = map[jsonrpc.ID]struct{}{}, map[jsonrpc.ID]struct{}{}, map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	if revision == nil || c.end.Err() != nil {
		return nil, cause
	}
	lost := fmt.Errorf("%w: %w", httpclient.ErrSessionLost, cause)
	for id := range calls {
		c.end.Lose(id, false, lost)
	}
	for id := range asked {
		c.end.Withdraw(id, lost)
	}
	for {
		if !httpcore.Sleep(c.end.Life(), c.end.Backoff(last.retry, c.failures)) {
			return nil, lost
		}
		c.failures++
		l, result, err := c.reopen(initialize, id, ready, revision)
		if err == nil {
			c.mu.Lock()
			opened := c.renewed
			c.mu.Unlock()
			if opened != nil {
				opened(result)
			}
			c.mu.Lock()
			c.line = l
			close(c.opened)
			c.mu.Unlock()
			c.end.Options.Logger.Info("session renewed")
			if renewed := c.end.Options.Renewed; renewed != nil {
				c.end.Go(func() { renewed(result) }) // ends when the callback returns
			}
			return l, nil
		}
		if c.end.Err() != nil || !httpcore.Passing(err) {
			return nil, fmt.Errorf("%w: new session: %w", lost, err)
		}
		c.end.Options.Logger.Info("stream not opened", "error", err)
	}
}

// reopen opens a stream and repeats the handshake. It returns the result of initialize.
func (c *Client) reopen(initialize []byte, id jsonrpc.ID, ready []byte, revision []string) (*line, []byte, error) {
	ctx, hangUp := c.end.Within(context.Background())
	timer := time.AfterFunc(c.end.Options.StallTimeout, func() { hangUp(transport.ErrStalled) })
	defer timer.Stop()
	l, err := c.open(ctx, hangUp)
	if err != nil {
		return nil, nil, err
	}
	result, err := c.handshake(ctx, l, initialize, id)
	if err == nil && !slices.Equal(revisionOf(result), revision) {
		err = httpcore.ErrRevision
	}
	if err == nil && ready != nil {
		err = c.postNow(ctx, l, ready, revision)
	}
	if err != nil {
		l.close()
		return nil, nil, err
	}
	return l, result, nil
}

// handshake sends initialize and returns its result. It delivers messages that arrive before the
// result.
func (c *Client) handshake(ctx context.Context, l *line, initialize []byte, id jsonrpc.ID) (result []byte, err error) {
	if err := c.postNow(ctx, l, initialize, nil); err != nil {
		return nil, err
	}
	for {
		event, err := l.next()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		case event.Name != "" || len(event.Data) == 0:
			continue
		}
		m, _ := httpcore.Parse(event.Data)
		switch {
		case m.ID == id && m.Kind == jsonrpc.KindErrorResponse:
			return nil, m.Error
		case m.ID == id && m.Kind == jsonrpc.KindResponse:
			return slices.Clone(m.Result), nil
		}
		c.record(&m)
		c.end.Deliver(ctx, event.Data)
	}
}

// postNow posts a message of the handshake.
func (c *Client) postNow(ctx context.Context, l *line, text []byte, revision []string) error {
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: l.post, Header: postHeader(revision), Text: text})
	if err != nil {
		return err
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 != 2 {
		status, _ := httpcore.Status(resp)
		return status
	}
	return nil
}

// postHeader returns the header of a POST.
func postHeader(revision []string) http.Header {
	h := http.Header{"Content-Type": {httpcore.JSON}, "Accept": {httpcore.JSON + ", " + httpcore.Events}}
	if revision != nil {
		h["Mcp-Protocol-Version"] = revision
	}
	return h
}

// Renewed implements [transport.Renewer].
func (c *Client) Renewed(opened func(initializeResult []byte)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewed = opened
}

// Read returns the next message from the server.
func (c *Client) Read() (transport.Message, error) { return c.end.Read() }

// Write sends a message.
func (c *Client) Write(ctx context.Context, m transport.Message) error {
	done, ok := c.end.Sending()
	if !ok {
		return transport.ErrClosed
	}
	w := &writing{text: m.Text, out: make(chan struct{}), over: make(chan struct{})}
	c.inspect(m, w)
	room, giveRoom := c.end.Room, c.end.GiveRoom
	if w.bound {
		room, giveRoom = c.end.AnswerRoom, c.end.GiveAnswerRoom
	}
	if err := room(ctx, len(m.Text)); err != nil {
		done()
		return err
	}
	go func() { // ends with ctx, or after StallTimeout; Close waits for it
		defer done()
		defer giveRoom(len(m.Text))
		defer close(w.over)
		w.err = c.send(ctx, w)
	}()
	if w.bound {
		return nil
	}
	out := w.out
	if w.notice {
		out = nil
	}
	select {
	case <-out: // so that a later cancellation arrives after it
		return nil
	case <-w.over:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writing is a message that is being sent.
type writing struct {
	text   []byte
	id     jsonrpc.ID    // of a request
	notice bool          // neither a request nor an answer
	ready  bool          // notifications/initialized
	bound  bool          // an answer: only valid on line
	line   *line         // the line of the request; nil if that has ended
	once   sync.Once     // closes out
	out    chan struct{} // closed when the message was sent
	over   chan struct{} // closed when the server has accepted the message or it is lost; err is set before
	err    error         // the connection has ended, or ctx
}

// isOut reports whether the message was sent.
func (w *writing) isOut() bool {
	select {
	case <-w.out:
		return true
	default:
		return false
	}
}

// inspect sets the fields of w for a message, and records the message.
func (c *Client) inspect(m transport.Message, w *writing) {
	var envelope jsonrpc.Message
	if !m.Answer {
		envelope, _ = httpcore.Parse(m.Text) // the server reports faults
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		w.id = envelope.ID
		if envelope.Method == mcp.MethodInitialize {
			c.initialize, c.initializeID = m.Text, envelope.ID
		}
	case jsonrpc.KindNotification:
		w.notice = true
		delete(c.calls, cancelled(&envelope))
		if envelope.Method == mcp.MethodNotificationsInitialized {
			c.ready, w.ready = m.Text, true
		}
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse: // forwarded by a proxy, without the field Answer
		m.Answer, m.For = true, envelope.ID
	case jsonrpc.KindInvalid:
		w.notice = !m.Answer
	}
	if m.Answer {
		w.bound, w.line = true, c.line
		delete(c.asked, m.For)
	}
}

// lineFor waits for a line to send w on, and records a request as sent on it. l is nil if w is an
// answer whose line has ended. It fails if ctx or the connection ends first.
func (c *Client) lineFor(ctx context.Context, w *writing) (l *line, header http.Header, err error) {
	for {
		c.mu.Lock()
		l, opened := c.line, c.opened
		switch {
		case w.bound && l != w.line:
			l, opened = nil, nil
		case l != nil && !w.id.IsZero():
			c.calls[w.id] = struct{}{}
		}
		header := postHeader(c.revision)
		c.mu.Unlock()
		if l != nil || opened == nil {
			return l, header, nil
		}
		select {
		case <-opened:
		case <-ctx.Done():
		case <-c.end.Closed():
			return nil, nil, transport.ErrClosed
		}
		if ctx.Err() != nil { // possibly before the line was opened
			return nil, nil, context.Cause(ctx)
		}
	}
}

// isOn reports whether l is the current line.
func (c *Client) isOn(l *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line == l
}

// isInitialized reports whether initialize was answered.
func (c *Client) isInitialized() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision != nil
}

// lose reports a message as lost, unless it is a request that was answered or whose line has
// broken: the broken line reports it. taken reports whether the server may have received the
// message.
func (c *Client) lose(w *writing, taken bool, err error) {
	if !w.id.IsZero() {
		c.mu.Lock()
		_, open := c.calls[w.id]
		if delete(c.calls, w.id); open && taken {
			c.lost[w.id] = struct{}{}
		}
		c.mu.Unlock()
		if !open {
			return
		}
	}
	c.end.Lose(w.id, taken, err)
}

// confirm repeats notifications/initialized after it was lost or rejected, until the server accepts
// it or l is not the current line. The server may send nothing before it has received it. Receiving
// it twice is harmless.
func (c *Client) confirm(l *line, text []byte, header http.Header) {
	for failures := 0; httpcore.Sleep(c.end.Life(), c.end.Backoff(0, failures)) && c.isOn(l); failures++ {
		ctx, cancel := c.end.WithStallTimeout(c.end.Life())
		err := c.postNow(ctx, l, text, header["Mcp-Protocol-Version"])
		cancel()
		if err == nil {
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not accepted", "error", err)
	}
}

// send posts a message. If the message is lost, it reports that to Read. It fails if the connection
// ends, or if ctx ends before there is a line.
func (c *Client) send(values context.Context, w *writing) error {
	l, header, err := c.lineFor(values, w)
	if l == nil {
		return err
	}
	ctx, cancel := c.end.Within(values)
	defer cancel(nil)
	ctx, release := c.end.WithStallTimeout(ctx)
	defer release()
	sent := func() { w.once.Do(func() { close(w.out) }) }
	for failures := 0; ; failures++ {
		resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: l.post, Header: header, Text: w.text, Sent: sent})
		if err == nil {
			defer httpcore.Discard(resp)
			if resp.StatusCode/100 != 2 {
				c.refused(w, l, resp)
				c.repeat(w, l, header)
			}
			return nil
		}
		if httpcore.Unreached(err) && failures < c.end.Options.MaxRetries && httpcore.Sleep(ctx, c.end.Backoff(0, failures)) && c.isOn(l) {
			continue
		}
		if c.end.Stalled(err) || c.end.Err() != nil {
			return err
		}
		if w.isOut() && !w.id.IsZero() {
			return nil // the server has the request, and answers on the stream
		}
		c.lose(w, true, err)
		c.repeat(w, l, header)
		return nil
	}
}

// repeat sends notifications/initialized again in the background. It ignores other messages.
func (c *Client) repeat(w *writing, l *line, header http.Header) {
	if w.ready {
		c.end.Go(func() { c.confirm(l, w.text, header) }) // ends with the line
	}
}

// refused reports a message as lost because the server has rejected it.
func (c *Client) refused(w *writing, l *line, resp *http.Response) {
	status, _ := httpcore.Status(resp)
	var err error = status
	if status.Code == http.StatusNotFound && c.isInitialized() {
		err = fmt.Errorf("%w: %w", httpclient.ErrSessionLost, status)
		defer l.hangUp(err) // makes run open a new session
	}
	c.lose(w, false, err)
}

// Close ends the connection. It waits up to FlushTimeout for pending messages to be sent.
func (c *Client) Close() error { return c.close() }
