package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// client is the client end of a connection; see [Dial].
type client struct {
	end   *httpcore.End
	url   *url.URL
	close func()

	mu     sync.Mutex
	stream *stream                 // of the newest session; it may have ended
	calls  map[jsonrpc.ID]struct{} // unanswered requests that were posted on this stream
	// Requests that were reported as lost on this stream. An answer may still arrive.
	lost     map[jsonrpc.ID]struct{}
	failures int // attempts in a row without a message after the handshake
}

// stream is the event stream of a session, and the URL to post to.
type stream struct {
	*eventstream.Reader
	resp   *http.Response
	cancel context.CancelCauseFunc
	post   *url.URL
	retry  time.Duration // the delay that the server has asked for; used by the reading goroutine
	done   chan struct{} // closed when the stream has ended

	number uint32 // of the session; see [transport.Reopener]

	// Guarded by client.mu.
	ended        error // nil while the stream is open
	initializeID jsonrpc.ID
	// The negotiated revision as the value of a header; nil before initialize is answered.
	revision []string
}

func (s *stream) close() {
	s.cancel(nil)
	s.resp.Body.Close()
}

// errEndpoint is returned if the server's stream does not begin with a usable URL to post to.
var errEndpoint = errors.New("sse: no endpoint")

// Dial opens the stream of the server at serverURL, and returns when the server has sent the URL to
// post to. It fails with a [*httpclient.StatusError] if the server rejects the request, with an
// error that says why if the stream is invalid, with the cause of ctx, which bounds Dial alone, or
// with the error of the connection.
//
// Each written message is one POST, which is never repeated once the server may have received it.
// If the server rejects a message, Read returns a [*transport.DeliveryError], which may wrap a
// [*httpclient.StatusError], and the connection stays open. A request whose POST was sent waits for
// its answer on the stream, even if the response to the POST is lost. Write of a notification
// returns when the server has accepted it or it is lost. Write of a request or an answer does not
// wait for that. If notifications/initialized is lost or rejected, the connection sends it again,
// with the delays of [httpclient.Options], until the server accepts it.
//
// A broken stream cannot be resumed, and the server's session ends with it. The connection is a
// [transport.Reopener]: Read returns a [*transport.SessionLostError], requests that were sent fail,
// and Reopen opens another stream. It retries with increasing delays; see [httpclient.Options]. The
// connection also drops the session if the server answers a message with status 404. Reopen fails
// if the server rejects the new stream, but not because of a response that a proxy without a server
// gives: status 404 or 405, a page, or a redirect. If the stream of the first session breaks before
// initialize is answered, the connection ends.
//
// The query of the server's URLs, which names the session, does not appear in errors and logs.
func Dial(ctx context.Context, serverURL string, o httpclient.Options) (transport.Reopener, error) {
	u, err := httpcore.ParseURL(serverURL)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	end, err := httpcore.New(u, o)
	if err != nil {
		return nil, fmt.Errorf("sse: %w", err)
	}
	c := &client{
		end: end, url: u,
		calls: map[jsonrpc.ID]struct{}{}, lost: map[jsonrpc.ID]struct{}{},
	}
	c.close = sync.OnceFunc(func() { c.end.Close(nil) })
	streamCtx, cancel := c.end.Detach(ctx)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	s, err := c.open(streamCtx, cancel, mcp.MethodInitialize)
	stop()
	if err == nil {
		s.number = 1
		if c.start(s) {
			return c, nil
		}
	}
	c.Close()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, err
}

// Info implements [transport.Described].
func (c *client) Info() transport.Info { return c.end.Info() }

// open opens a stream and reads its first event. cancel ends ctx and the stream. message is the
// method of the message that needs the stream, or "" if none waits for it.
func (c *client) open(ctx context.Context, cancel context.CancelCauseFunc, message string) (*stream, error) {
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodGet, URL: c.url, Header: http.Header{"Accept": {httpcore.Events}}, Message: message})
	if err != nil {
		cancel(nil)
		return nil, err
	}
	s := &stream{Reader: eventstream.NewReader(resp.Body, c.end.Options.Limits.Message), resp: resp, cancel: cancel, done: make(chan struct{})}
	if s.post, err = s.endpoint(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		s.close()
		return nil, err
	}
	return s, nil
}

// endpoint reads the first event, which has the URL to post to.
func (s *stream) endpoint() (*url.URL, error) {
	if s.resp.StatusCode/100 != 2 {
		status, _ := httpcore.Status(s.resp)
		return nil, status
	}
	if media := httpcore.ContentType(s.resp); media != httpcore.Events {
		return nil, fmt.Errorf("%w: %w: %q", errEndpoint, httpclient.ErrContent, media)
	}
	for {
		event, err := s.next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errEndpoint, err)
		case event.Name == "" && len(event.Data) == 0:
			continue // sets only a retry or an id
		case event.Name != "endpoint":
			return nil, fmt.Errorf("%w: the first event is %q", errEndpoint, event.Name)
		}
		base := s.resp.Request.URL
		post, err := base.Parse(string(event.Data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errEndpoint, errors.Unwrap(err)) // without the URL
		}
		if !httpcore.SameOrigin(base, post) {
			return nil, fmt.Errorf("%w: other origin %s://%s", errEndpoint, post.Scheme, post.Host)
		}
		return post, nil
	}
}

// next reads the next event.
func (s *stream) next() (eventstream.Event, error) {
	event, err := s.Next()
	if event.Retry > 0 {
		s.retry = event.Retry
	}
	return event, err
}

// start makes s the current stream and reads it in a goroutine. It returns false if the connection
// has ended.
func (c *client) start(s *stream) (ok bool) {
	c.mu.Lock()
	c.stream = s
	c.calls, c.lost = map[jsonrpc.ID]struct{}{}, map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	ok = c.end.Go(func() { // ends with the stream
		defer close(s.done)
		c.reportEnd(s, c.read(s))
	})
	if !ok {
		s.close()
	}
	return ok
}

// reportEnd reports the end of a stream and the requests that were lost with it.
func (c *client) reportEnd(s *stream, cause error) {
	c.mu.Lock()
	if s.number == 1 && s.revision == nil {
		c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, cause))
	}
	lost := &transport.SessionLostError{Session: s.number, Err: cause}
	s.ended = lost
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
func (c *client) Reopen(ctx context.Context) (session uint32, err error) {
	ctx, cancel := c.end.Bounded(ctx)
	defer cancel()
	c.mu.Lock()
	last := c.stream
	c.mu.Unlock()
	last.cancel(transport.ErrSessionLost)
	<-last.done
	for {
		c.mu.Lock()
		failures := c.failures
		c.failures++
		c.mu.Unlock()
		if !httpcore.Sleep(ctx, c.end.Backoff(last.retry, failures)) {
			return 0, context.Cause(ctx)
		}
		s, err := c.openWithTimeout(ctx)
		if err == nil {
			s.number = last.number + 1
			if !c.start(s) {
				return 0, transport.ErrClosed
			}
			return s.number, nil
		}
		if c.end.Err() != nil || !httpcore.RetryableOnReopen(err) {
			return 0, err
		}
		c.end.Options.Logger.Info("stream not opened", "error", err)
	}
}

// openWithTimeout is open with a timeout.
func (c *client) openWithTimeout(ctx context.Context) (*stream, error) {
	clock := new(lazyctx.Clock)
	life, cancel := c.end.Detach(lazyctx.WithClock(context.Background(), clock))
	stop := clock.AfterFunc(c.end.Options.Timeouts.Stall, func() { cancel(transport.ErrStalled) })
	defer stop()
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	return c.open(life, cancel, "")
}

// read delivers the messages of a stream until it ends.
func (c *client) read(s *stream) error {
	defer s.close()
	for {
		event, err := s.next()
		if errors.Is(err, transport.ErrTooLong) {
			if answer, ok := errors.AsType[*transport.DeliveryError](err); !ok || c.record(s, &jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: answer.ID}) {
				c.end.Forward(transport.Message{}, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("stream ended: %w", err)
		}
		if event.Name == "" && len(event.Data) > 0 && c.recordText(s, event.Data) {
			c.end.Deliver(c.end.Life(), event.Data, s.number)
		}
	}
}

// recordText records which requests a message completes. It returns false for the answer to a
// request that was reported as lost.
func (c *client) recordText(s *stream, text []byte) bool {
	m, err := httpcore.Parse(text)
	if errors.Is(err, jsonfault.Batch) {
		items, _ := jsonrpc.ParseReceivedBatch(text, codec.NoCopy())
		for i := range items {
			c.record(s, &items[i].Message)
		}
		return true
	}
	return c.record(s, &m)
}

func (c *client) record(s *stream, m *jsonrpc.Message) (deliver bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Kind == jsonrpc.KindResponse || m.Kind == jsonrpc.KindErrorResponse {
		id := m.ID
		if _, open := c.calls[id]; !open && id != s.initializeID {
			id = jsonrpc.CanonicalID(id)
		}
		if _, lost := c.lost[id]; lost {
			delete(c.lost, id)
			return false
		}
		delete(c.calls, id)
		if id == s.initializeID && s.revision == nil {
			s.revision = revisionOf(m.Result)
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

// header returns the header of a POST. client.mu must be held.
func (s *stream) header() http.Header {
	h := http.Header{"Content-Type": {httpcore.JSON}, "Accept": {httpcore.JSON + ", " + httpcore.Events}}
	if s.revision != nil {
		h["Mcp-Protocol-Version"] = s.revision
	}
	return h
}

// Read returns the next message from the server.
func (c *client) Read() (transport.Message, error) { return c.end.Read() }

// Write sends a message.
func (c *client) Write(ctx context.Context, m transport.Message) error {
	done, ok := c.end.BeginSend()
	if !ok {
		return transport.ErrClosed
	}
	w := inspect(m)
	room, releaseRoom := c.end.Reserve, c.end.Release
	if w.answer {
		room, releaseRoom = c.end.ReserveAnswer, c.end.ReleaseAnswer
	}
	err := room(ctx, len(m.Text))
	if err == nil {
		if err = c.bind(w, m.Session); err != nil {
			releaseRoom(len(m.Text))
		}
	}
	if err != nil {
		done()
		return err
	}
	go func() { // ends with ctx, or after Timeouts.Stall; Close waits for it
		defer done()
		defer releaseRoom(len(m.Text))
		defer close(w.done)
		w.err = boundary.Run(func() error { return c.send(ctx, w) })
	}()
	if w.answer {
		return nil
	}
	sent := w.sent
	if w.notice {
		sent = nil
	}
	select {
	case <-sent: // so that a later cancellation arrives after it
		return nil
	case <-w.done:
		return w.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outgoing is a message that is being sent.
type outgoing struct {
	text       []byte
	id         jsonrpc.ID // of a request
	initialize bool
	answer     bool       // an answer to a request of the server
	notice     bool       // neither a request nor an answer
	ready      bool       // notifications/initialized
	cancelled  jsonrpc.ID // the request that it cancels

	stream *stream
	header http.Header
	once   sync.Once     // closes sent
	sent   chan struct{} // closed when the message was sent
	// Closed when the server has accepted the message or it is lost; err is set before.
	done chan struct{}
	err  error // of the connection
}

// isSent reports whether the message was sent.
func (w *outgoing) isSent() bool {
	select {
	case <-w.sent:
		return true
	default:
		return false
	}
}

// inspect returns the properties of a message that sending it depends on.
func inspect(m transport.Message) *outgoing {
	w := &outgoing{text: m.Text, sent: make(chan struct{}), done: make(chan struct{})}
	envelope, _ := httpcore.Parse(m.Text) // the server reports faults
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		w.id = envelope.ID
		w.initialize = envelope.Method == mcp.MethodInitialize
	case jsonrpc.KindNotification:
		w.notice = true
		w.ready = envelope.Method == mcp.MethodNotificationsInitialized
		w.cancelled = cancelled(&envelope)
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		w.answer = true
	case jsonrpc.KindInvalid:
		w.notice = true
	}
	return w
}

// bind sets the stream of a message, and records the message. It fails with a
// [*transport.SessionLostError] if the session has ended; 0 means the current session.
func (c *client) bind(w *outgoing, session uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stream
	switch {
	case session != 0 && session != s.number:
		return &transport.SessionLostError{Session: session}
	case s.ended != nil:
		return s.ended
	}
	w.stream, w.header = s, s.header()
	if !w.id.IsZero() {
		c.calls[w.id] = struct{}{}
	}
	if w.initialize {
		s.initializeID = w.id
	}
	delete(c.calls, w.cancelled)
	return nil
}

// isOpen reports whether a stream is open.
func (c *client) isOpen(s *stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.ended == nil
}

// isInitialized reports whether initialize was answered on s.
func (c *client) isInitialized(s *stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.revision != nil
}

// lose reports a message as lost. It does nothing for a request that was answered, or whose stream
// has ended: reportEnd reports that one. taken says whether the server may have received the
// message.
func (c *client) lose(w *outgoing, taken bool, err error) {
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
	if w.initialize && w.stream.number > 1 {
		c.end.ReportLostOnReopen(w.id, taken, err)
		return
	}
	c.end.ReportLost(w.id, taken, err)
}

// confirm repeats notifications/initialized after it was lost or rejected, until the server accepts
// it or the stream ends. The server may send nothing before it has received it. Receiving it twice
// is harmless.
func (c *client) confirm(w *outgoing) {
	for failures := 0; httpcore.Sleep(c.end.Life(), c.end.Backoff(0, failures)) && c.isOpen(w.stream); failures++ {
		err := c.postAgain(w)
		if err == nil {
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not accepted", "error", err)
	}
}

// postAgain posts a message that was lost or rejected.
func (c *client) postAgain(w *outgoing) error {
	ctx, cancel := c.end.WithStallTimeout(c.end.Life())
	defer cancel()
	resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: w.stream.post, Header: w.header, Text: w.text})
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
func (c *client) send(values context.Context, w *outgoing) error {
	ctx, cancel := c.end.Detach(values)
	defer cancel(nil)
	ctx, release := c.end.WithStallTimeout(ctx)
	defer release()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			w.once.Do(func() { close(w.sent) })
		}
	}})
	for failures := 0; ; failures++ {
		resp, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: w.stream.post, Header: w.header, Text: w.text})
		if err == nil {
			defer httpcore.Discard(resp)
			if resp.StatusCode/100 != 2 {
				c.reportRejected(w, resp)
				c.repeat(w)
			}
			return nil
		}
		if httpcore.Unreached(err) && failures < c.end.Options.Retries.Max && httpcore.Sleep(ctx, c.end.Backoff(0, failures)) && c.isOpen(w.stream) {
			continue
		}
		if c.end.CountStall(err) {
			c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, err))
		}
		if c.end.Err() != nil {
			return err
		}
		if w.isSent() && !w.id.IsZero() {
			return nil // the server has the request, and answers on the stream
		}
		c.lose(w, !httpcore.NotSent(err), err)
		c.repeat(w)
		return nil
	}
}

// repeat sends notifications/initialized again in the background. It ignores other messages.
func (c *client) repeat(w *outgoing) {
	if w.ready {
		c.end.Go(func() { c.confirm(w) }) // ends with the stream
	}
}

// reportRejected reports a message as lost because the server has rejected it. With status 404, the
// session is lost, too. HTTP with SSE does not define that status, so the server may have received
// the message: it counts as taken and is not sent again.
func (c *client) reportRejected(w *outgoing, resp *http.Response) {
	status, _ := httpcore.Status(resp)
	if status.Code != http.StatusNotFound || !c.isInitialized(w.stream) {
		c.lose(w, !httpcore.Rejected(status), status)
		return
	}
	lost := &transport.SessionLostError{Session: w.stream.number, Err: status}
	c.lose(w, true, lost)
	w.stream.cancel(lost) // ends the stream
}

// Close ends the connection. It waits up to Timeouts.Flush for pending messages to be sent.
func (c *client) Close() error {
	c.close()
	return nil
}
