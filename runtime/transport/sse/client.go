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

// Client is the client's end of a connection. It is a [transport.Conn] for a session in the role of the client.
//
// Each message that is written is one POST, which is never repeated once the server may have got it. One that the
// server refuses is reported by Read as a [*transport.DeliveryError], which may wrap a [*httpclient.StatusError],
// and the connection goes on. A request whose POST has gone out waits for its answer on the stream, even if the answer to
// the POST is lost. Write returns when a notification was taken by the server or is lost; it does not wait for requests
// and answers to be taken. If notifications/initialized is lost or refused, the Client sends it again, with the delays of
// [httpclient.Options], until the server takes it.
//
// A stream that breaks cannot be resumed, and the server's session ends with it. The Client opens another one, with the
// initialize and the notifications/initialized that were written first, and goes on: requests that had gone out fail
// with [httpclient.ErrSessionLost], requests of the server that were not answered are cancelled, and what is written
// meanwhile waits. It does the same when the server answers a message with status 404. It tries until there is a new
// session, more and more slowly as [httpclient.Options] say; but if the server refuses, or changes the revision, the
// connection is over, and so it is if the stream breaks before initialize is answered.
//
// What follows the path in the URLs of the server, where the session is named, is in no error and no log.
type Client struct {
	end   *httpcore.End
	url   *url.URL
	close func() error

	mu       sync.Mutex
	line     *line                   // nil while there is none
	opened   chan struct{}           // closed when there is a line
	hello    []byte                  // the initialize request
	helloID  jsonrpc.ID              // its id
	ready    []byte                  // the notification behind it
	revision []string                // that was negotiated, as the value of a header; nil before that
	calls    map[jsonrpc.ID]struct{} // requests that were posted on this line, and not answered
	asked    map[jsonrpc.ID]struct{} // requests of the server that were not answered
	lost     map[jsonrpc.ID]struct{} // requests that were reported as lost on this line, though an answer may come
	renewed  func([]byte)            // see [transport.Renewer]; nil if nobody wants to know

	failures int // attempts in a row to have a line of which something came; of the goroutine that reads
}

// line is a stream from the server, and where to post to.
type line struct {
	*eventstream.Reader
	resp   *http.Response
	hangUp context.CancelCauseFunc
	post   *url.URL
	retry  time.Duration // that the server asks for
}

func (l *line) close() {
	l.hangUp(nil)
	l.resp.Body.Close()
}

// ErrEndpoint says that a server does not begin its stream with a usable URL to post to.
var ErrEndpoint = errors.New("sse: no endpoint")

// Dial opens the stream of the server at a URL, and returns when the server has said where to post to. It fails with a
// [*httpclient.StatusError] if the server refuses the stream, with [ErrEndpoint] if it is of another kind, with the
// cause of ctx, which bounds Dial alone, or with what has happened to the connection.
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

// open opens a stream and reads its first event. HangUp ends ctx, and the stream.
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

// endpoint reads the first event, which says where to post to.
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
			continue // it sets the time to wait before connecting again, or an id
		case event.Name != "endpoint":
			return nil, fmt.Errorf("%w: the first event is %q", ErrEndpoint, event.Name)
		}
		base := l.resp.Request.URL
		post, err := base.Parse(string(event.Data))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrEndpoint, errors.Unwrap(err)) // without the text
		}
		if !httpcore.SameOrigin(base, post) {
			return nil, fmt.Errorf("%w: %s://%s is another origin", ErrEndpoint, post.Scheme, post.Host)
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

// run brings what the server sends to who reads, over as many streams as it takes.
func (c *Client) run(l *line) {
	for {
		err := c.read(l)
		if l, err = c.renew(l, err); err != nil {
			c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, err))
			return
		}
	}
}

// read brings what the server sends to who reads, until the stream ends.
func (c *Client) read(l *line) error {
	defer l.close()
	for {
		event, err := l.next()
		if errors.Is(err, transport.ErrTooLong) {
			if answer, ok := errors.AsType[*transport.DeliveryError](err); !ok || c.note(&jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: answer.ID}) {
				c.end.Forward(transport.Message{}, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("the stream from the server has ended: %w", err)
		}
		if event.Name == "" && len(event.Data) > 0 {
			c.failures = 0
			if c.learn(event.Data) {
				c.end.Deliver(c.end.Life(), event.Data)
			}
		}
	}
}

// learn notes what a message from the server means for a session that may be lost. It returns false for the answer to a
// request that was reported as lost.
func (c *Client) learn(text []byte) bool {
	m, err := httpcore.Parse(text)
	if errors.Is(err, jsonrpc.ErrBatch) {
		items, _ := jsonrpc.ParseBatch(text, append(codec.AllowSize(text), codec.NoCopy())...)
		for i := range items {
			c.note(&items[i].Message)
		}
		return true
	}
	return c.note(&m)
}

func (c *Client) note(m *jsonrpc.Message) (wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		if _, lost := c.lost[m.ID]; lost {
			delete(c.lost, m.ID)
			return false
		}
		delete(c.calls, m.ID)
		if m.ID == c.helloID && c.revision == nil {
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

// revisionOf returns the revision in a result of initialize, as the value of a header, or nil.
func revisionOf(result []byte) []string {
	r := codec.Borrow(result)
	defer r.Release()
	revision, kind, _ := r.PeekMember("protocolVersion")
	if kind != codec.KindString {
		return nil
	}
	return []string{revision}
}

// cancelled returns the request that a notification cancels, or the zero ID.
func cancelled(m *jsonrpc.Message) jsonrpc.ID {
	var p mcp.CancelledNotificationParams
	if m.Method != mcp.MethodNotificationsCancelled || codec.Unmarshal(m.Params, &p) != nil {
		return jsonrpc.ID{}
	}
	return p.RequestID
}

// renew opens a new session in the place of the one that has ended with its stream.
func (c *Client) renew(last *line, cause error) (*line, error) {
	c.mu.Lock()
	hello, id, ready, revision := c.hello, c.helloID, c.ready, c.revision
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
		l, result, err := c.reopen(hello, id, ready, revision)
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
			c.end.Options.Logger.Info("the stream from the server has broken; a new session is open")
			if renewed := c.end.Options.Renewed; renewed != nil {
				c.end.Go(func() { renewed(result) }) // ends when the callback does
			}
			return l, nil
		}
		if c.end.Err() != nil || !httpcore.Passing(err) {
			return nil, fmt.Errorf("%w, and there is no new one: %w", lost, err)
		}
		c.end.Options.Logger.Info("no stream from the server", "error", err)
	}
}

// reopen opens a stream and introduces this side again, with what was sent first. It returns the result of initialize.
func (c *Client) reopen(hello []byte, id jsonrpc.ID, ready []byte, revision []string) (*line, []byte, error) {
	ctx, hangUp := c.end.Within(context.Background())
	timer := time.AfterFunc(c.end.Options.StallTimeout, func() { hangUp(transport.ErrStalled) })
	defer timer.Stop()
	l, err := c.open(ctx, hangUp)
	if err != nil {
		return nil, nil, err
	}
	result, err := c.greet(ctx, l, hello, id)
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

// greet sends initialize and returns its result. What comes in front of that goes to who reads.
func (c *Client) greet(ctx context.Context, l *line, hello []byte, id jsonrpc.ID) (result []byte, err error) {
	if err := c.postNow(ctx, l, hello, nil); err != nil {
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
		c.note(&m)
		c.end.Deliver(ctx, event.Data)
	}
}

// postNow posts a message that belongs to the opening of a session.
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

// Renewed is [transport.Renewer].
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
	c.look(m, w)
	room, giveRoom := c.end.Room, c.end.GiveRoom
	if w.bound {
		room, giveRoom = c.end.AnswerRoom, c.end.GiveAnswerRoom
	}
	if err := room(ctx, len(m.Text)); err != nil {
		done()
		return err
	}
	go func() { // ends with ctx or after StallTimeout at the latest, and Close waits for it
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
	text   []byte
	id     jsonrpc.ID    // of a request
	notice bool          // it is neither a request nor an answer
	ready  bool          // it is notifications/initialized
	bound  bool          // it is an answer, which means something to one line alone
	line   *line         // that one, nil if it is gone
	once   sync.Once     // closes out
	out    chan struct{} // closed when it has gone out
	over   chan struct{} // closed when the server has taken it or it is lost; err is there then
	err    error         // the connection is over, or ctx
}

// isOut reports whether the message has gone out.
func (w *writing) isOut() bool {
	select {
	case <-w.out:
		return true
	default:
		return false
	}
}

// look finds out what a message is.
func (c *Client) look(m transport.Message, w *writing) {
	var envelope jsonrpc.Message
	if !m.Answer {
		envelope, _ = httpcore.Parse(m.Text) // whatever is wrong with it, the server will tell
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch envelope.Kind {
	case jsonrpc.KindRequest:
		w.id = envelope.ID
		if envelope.Method == mcp.MethodInitialize {
			c.hello, c.helloID = m.Text, envelope.ID
		}
	case jsonrpc.KindNotification:
		w.notice = true
		delete(c.calls, cancelled(&envelope))
		if envelope.Method == mcp.MethodNotificationsInitialized {
			c.ready, w.ready = m.Text, true
		}
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse: // of who hands on what others have said
		m.Answer, m.For = true, envelope.ID
	case jsonrpc.KindInvalid:
		w.notice = !m.Answer
	}
	if m.Answer {
		w.bound, w.line = true, c.line
		delete(c.asked, m.For)
	}
}

// lineFor waits for a line to send w on, and notes a request as sent on it; l is nil if w means nothing any more. It
// fails if ctx or the connection ends first.
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
		if ctx.Err() != nil { // maybe long before there was a line
			return nil, nil, context.Cause(ctx)
		}
	}
}

// isOn reports whether l is still the line.
func (c *Client) isOn(l *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.line == l
}

// isGreeted reports whether initialize was answered.
func (c *Client) isGreeted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision != nil
}

// lose reports a message as lost, unless it is a request that was answered or whose line has
// broken: the broken line reports it. Taken says that the server may have the message.
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

// confirm sends notifications/initialized again and again, which was lost or refused, until the server takes it or l is
// not the line any more. The server may send nothing before it has it, and takes it twice without harm.
func (c *Client) confirm(l *line, text []byte, header http.Header) {
	for failures := 0; httpcore.Sleep(c.end.Life(), c.end.Backoff(0, failures)) && c.isOn(l); failures++ {
		ctx, cancel := c.end.Patience(c.end.Life())
		err := c.postNow(ctx, l, text, header["Mcp-Protocol-Version"])
		cancel()
		if err == nil {
			return
		}
		c.end.Options.Logger.Info("notifications/initialized not taken", "error", err)
	}
}

// send posts a message. What happens to that message alone is for Read to tell; an error is the end of the
// connection, or of ctx before there was a stream.
func (c *Client) send(values context.Context, w *writing) error {
	l, header, err := c.lineFor(values, w)
	if l == nil {
		return err
	}
	ctx, cancel := c.end.Within(values)
	defer cancel(nil)
	ctx, release := c.end.Patience(ctx)
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

// repeat sends notifications/initialized again in the background; other messages it does not.
func (c *Client) repeat(w *writing, l *line, header http.Header) {
	if w.ready {
		c.end.Go(func() { c.confirm(l, w.text, header) }) // ends with the line
	}
}

// refused tells who waits that the server has refused a message.
func (c *Client) refused(w *writing, l *line, resp *http.Response) {
	status, _ := httpcore.Status(resp)
	var err error = status
	if status.Code == http.StatusNotFound && c.isGreeted() {
		err = fmt.Errorf("%w: %w", httpclient.ErrSessionLost, status)
		defer l.hangUp(err) // which makes a new one
	}
	c.lose(w, false, err)
}

// Close ends the connection: it gives what was written time to be taken, and hangs up.
func (c *Client) Close() error { return c.close() }
