package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
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
// A broken stream cannot be resumed, and the server's session ends with it. The Client is a
// [transport.Reopener]: Read returns a [*transport.SessionLostError], requests that were sent fail,
// and Reopen opens another stream. It retries with increasing delays; see [httpclient.Options]. The
// Client also drops the session if the server answers a message with status 404. Reopen fails if
// the server rejects the new stream. If the stream of the first session breaks before initialize is
// answered, the connection ends.
//
// The query of the server's URLs, which names the session, does not appear in errors and logs.
type Client struct {
	end   *httpcore.End
	url   *url.URL
	close func()

	mu    sync.Mutex
	line  *line                   // of the newest session; it may have ended
	calls map[jsonrpc.ID]struct{} // unanswered requests that were posted on this line
	// Requests that were reported as lost on this line. An answer may still arrive.
	lost     map[jsonrpc.ID]struct{}
	failures int // attempts in a row without a message after the handshake
}

// line is a session: a stream from the server, and the URL to post to.
type line struct {
	*eventstream.Reader
	resp   *http.Response
	hangUp context.CancelCauseFunc
	post   *url.URL
	retry  time.Duration // the delay that the server has asked for; used by the reading goroutine
	done   chan struct{} // closed when the line has ended

	number uint32 // of the session; see [transport.Reopener]

	// Guarded by Client.mu.
	ended        error // nil while the line is open
	initializeID jsonrpc.ID
	// The negotiated revision as the value of a header; nil before initialize is answered.
	revision []string
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
		calls: map[jsonrpc.ID]struct{}{}, lost: map[jsonrpc.ID]struct{}{},
	}
	c.close = sync.OnceFunc(func() { c.end.Close(nil) })
	streamCtx, hangUp := c.end.Detach(ctx)
	stop := context.AfterFunc(ctx, func() { hangUp(context.Cause(ctx)) })
	l, err := c.open(streamCtx, hangUp)
	stop()
	if err == nil {
		l.number = 1
		if c.start(l) {
			return c, nil
		}
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
	l := &line{Reader: eventstream.NewReader(resp.Body, c.end.Options.MaxMessage), resp: resp, hangUp: hangUp, done: make(chan struct{})}
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

// start makes l the current line and reads it in a goroutine. It returns false if the connection
// has ended.
func (c *Client) start(l *line) (ok bool) {
	c.mu.Lock()
	c.line = l
	c.calls, c.lost = map[jsonrpc.ID]struct{}{}, map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	ok = c.end.Go(func() { // ends with the line
		defer close(l.done)
		c.hungUp(l, c.read(l))
	})
	if !ok {
		l.close()
	}
	return ok
}

// hungUp reports the end of a line and the requests that were lost with it.
func (c *Client) hungUp(l *line, cause error) {
	c.mu.Lock()
	if l.number == 1 && l.revision == nil {
		c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, cause))
	}
	lost := &transport.SessionLostError{Session: l.number, Err: cause}
	l.ended = lost
	calls := c.calls
	c.calls = map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	if c.end.Err() != nil {
		return
	}
	for id := range calls {
		c.end.ReportLost(id, true, lost)
	}
	c.end.Report(lost)
}

// Reopen implements [transport.Reopener]. It returns when the server has sent the URL to post to.
func (c *Client) Reopen(ctx context.Context) (session uint32, err error) {
	ctx, cancel := c.end.Bounded(ctx)
	defer cancel()
	c.mu.Lock()
	last := c.line
	c.mu.Unlock()
	last.hangUp(transport.ErrSessionLost)
	<-last.done
	for {
		c.mu.Lock()
		failures := c.failures
		c.failures++
		c.mu.Unlock()
		if !httpcore.Sleep(ctx, c.end.Backoff(last.retry, failures)) {
			return 0, context.Cause(ctx)
		}
		l, err := c.openSoon(ctx)
		if err == nil {
			l.number = last.number + 1
			if !c.start(l) {
				return 0, transport.ErrClosed
			}
			return l.number, nil
		}
		if c.end.Err() != nil || !httpcore.Passing(err) {
			return 0, err
		}
		c.end.Options.Logger.Info("stream not opened", "error", err)
	}
}

// openSoon is open with a timeout.
func (c *Client) openSoon(ctx context.Context) (*line, error) {
	life, hangUp := c.end.Detach(context.Background())
	timer := time.AfterFunc(c.end.Options.StallTimeout, func() { hangUp(transport.ErrStalled) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { hangUp(context.Cause(ctx)) })()
	return c.open(life, hangUp)
}

// read delivers the messages of a stream until it ends.
func (c *Client) read(l *line) error {
	defer l.close()
	for {
		event, err := l.next()
		if errors.Is(err, transport.ErrTooLong) {
			if answer, ok := errors.AsType[*transport.DeliveryError](err); !ok || c.record(l, &jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: answer.ID}) {
				c.end.Forward(transport.Message{}, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("stream ended: %w", err)
		}
		if event.Name == "" && len(event.Data) > 0 && c.recordText(l, event.Data) {
			c.end.Deliver(c.end.Life(), event.Data, l.number)
		}
	}
}

// recordText records which requests a message completes. It returns false for the answer to a
// request that was reported as lost.
func (c *Client) recordText(l *line, text []byte) bool {
	m, err := httpcore.Parse(text)
	if errors.Is(err, jsonrpc.ErrBatch) {
		items, _ := jsonrpc.ParseBatch(text, append(codec.AllowSize(text), codec.NoCopy())...)
		for i := range items {
			c.record(l, &items[i].Message)
		}
		return true
	}
	return c.record(l, &m)
}

func (c *Client) record(l *line, m *jsonrpc.Message) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Kind == jsonrpc.KindResponse || m.Kind == jsonrpc.KindErrorResponse {
		if _, lost := c.lost[m.ID]; lost {
			delete(c.lost, m.ID)
			return false
		}
		delete(c.calls, m.ID)
		if m.ID == l.initializeID && l.revision == nil {
			l.revision = revisionOf(m.Result)
			return true
		}
	}
	c.failures = 0
	return true
}

// revisionOf returns the revision in a result of initialize as the value of a header, or nil.
func revisionOf(result []byte) []string {
	var revision string
	var kind wire.Kind
	codec.ReadPart(result, func(r *wire.Reader) { revision, kind, _ = r.PeekMember("protocolVersion") })
	if kind != wire.KindString {
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

// header returns the header of a POST. Client.mu must be held.
func (l *line) header() http.Header {
	h := http.Header{"Content-Type": {httpcore.JSON}, "Accept": {httpcore.JSON + ", " + httpcore.Events}}
	if l.revision != nil {
		h["Mcp-Protocol-Version"] = l.revision
	}
	return h
}

// Read returns the next message from the server.
func (c *Client) Read() (transport.Message, error) { return c.end.Read() }

// Write sends a message.
func (c *Client) Write(ctx context.Context, m transport.Message) error {
	done, ok := c.end.BeginSend()
	if !ok {
		return transport.ErrClosed
	}
	w := inspect(m)
	room, giveRoom := c.end.Reserve, c.end.Release
	if w.answer {
		room, giveRoom = c.end.ReserveAnswer, c.end.ReleaseAnswer
	}
	err := room(ctx, len(m.Text))
	if err == nil {
		if err = c.bind(w, m.Session); err != nil {
			giveRoom(len(m.Text))
		}
	}
	if err != nil {
		done()
		return err
	}
	go func() { // ends with ctx, or after StallTimeout; Close waits for it
		defer done()
		defer giveRoom(len(m.Text))
		defer close(w.over)
		w.err = c.send(ctx, w)
	}()
	if w.answer {
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
	text       []byte
	id         jsonrpc.ID // of a request
	initialize bool
	answer     bool       // an answer to a request of the server
	notice     bool       // neither a request nor an answer
	ready      bool       // notifications/initialized
	cancelled  jsonrpc.ID // the request that it cancels

	line   *line
	header http.Header
	once   sync.Once     // closes out
	out    chan struct{} // closed when the message was sent
	// Closed when the server has accepted the message or it is lost; err is set before.
	over chan struct{}
	err  error // of the connection
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

// inspect returns the properties of a message that sending it depends on.
func inspect(m transport.Message) *writing {
	w := &writing{text: m.Text, answer: m.Answer, out: make(chan struct{}), over: make(chan struct{})}
	if m.Answer {
		return w
	}
	envelope, _ := httpcore.Parse(m.Text) // the server reports faults
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		w.id = envelope.ID
		w.initialize = envelope.Method == mcp.MethodInitialize
	case jsonrpc.KindNotification:
		w.notice = true
		w.ready = envelope.Method == mcp.MethodNotificationsInitialized
		w.cancelled = cancelled(&envelope)
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse: // a proxy does not set Answer
		w.answer = true
	case jsonrpc.KindInvalid:
		w.notice = true
	}
	return w
}

// bind sets the line of a message, and records the message. It fails with a
// [*transport.SessionLostError] if the session has ended; 0 means the current session.
func (c *Client) bind(w *writing, session uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.line
	switch {
	case session != 0 && session != l.number:
		return &transport.SessionLostError{Session: session}
	case l.ended != nil:
		return l.ended
	}
	w.line, w.header = l, l.header()
	if !w.id.IsZero() {
		c.calls[w.id] = struct{}{}
	}
	if w.initialize {
		l.initializeID = w.id
	}
	delete(c.calls, w.cancelled)
	return nil
}

// isOpen reports whether a line is open.
func (c *Client) isOpen(l *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.ended == nil
}

// isInitialized reports whether initialize was answered.
func (c *Client) isInitialized(l *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.revision != nil
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
	c.end.ReportLost(w.id, taken, err)
}

// confirm repeats notifications/initialized after it was lost or rejected, until the server accepts
// it or the line ends. The server may send nothing before it has received it. Receiving it twice is
// harmless.
func (c *Client) confirm(w *writing) {
	for failures := 0; httpcore.Sleep(c.end.Life(), c.end.Backoff(0, failures)) && c.isOpen(w.line); failures++ {
		err := c.postAgain(w)
		if err == nil {
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not accepted", "error", err)
	}
}

// postAgain posts a message that was lost or rejected.
func (c *Client) postAgain(w *writing) error {
	ctx, cancel := c.end.WithStallTimeout(c.end.Life())
	defer cancel()
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: w.line.post, Header: w.header, Text: w.text})
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

// send posts a message. If the message is lost, it reports that to Read. It fails if the connection
// ends.
func (c *Client) send(values context.Context, w *writing) error {
	ctx, cancel := c.end.Detach(values)
	defer cancel(nil)
	ctx, release := c.end.WithStallTimeout(ctx)
	defer release()
	sent := func() { w.once.Do(func() { close(w.out) }) }
	for failures := 0; ; failures++ {
		resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: w.line.post, Header: w.header, Text: w.text, Sent: sent})
		if err == nil {
			defer httpcore.Discard(resp)
			if resp.StatusCode/100 != 2 {
				c.refused(w, resp)
				c.repeat(w)
			}
			return nil
		}
		if httpcore.Unreached(err) && failures < c.end.Options.MaxRetries && httpcore.Sleep(ctx, c.end.Backoff(0, failures)) && c.isOpen(w.line) {
			continue
		}
		if c.end.CountStall(err) || c.end.Err() != nil {
			return err
		}
		if w.isOut() && !w.id.IsZero() {
			return nil // the server has the request, and answers on the stream
		}
		c.lose(w, true, err)
		c.repeat(w)
		return nil
	}
}

// repeat sends notifications/initialized again in the background. It ignores other messages.
func (c *Client) repeat(w *writing) {
	if w.ready {
		c.end.Go(func() { c.confirm(w) }) // ends with the line
	}
}

// refused reports a message as lost because the server has rejected it. With status 404, the
// session is lost, too. HTTP with SSE does not define that status, so that the server may have
// received the message: it counts as taken and is not sent again.
func (c *Client) refused(w *writing, resp *http.Response) {
	status, _ := httpcore.Status(resp)
	if status.Code != http.StatusNotFound || !c.isInitialized(w.line) {
		c.lose(w, false, status)
		return
	}
	lost := &transport.SessionLostError{Session: w.line.number, Err: status}
	c.lose(w, true, lost)
	w.line.hangUp(lost) // ends the line
}

// Close ends the connection. It waits up to FlushTimeout for pending messages to be sent.
func (c *Client) Close() error {
	c.close()
	return nil
}
