package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// cancelGrace is how long the stream of an answered or cancelled request may continue.
const cancelGrace = time.Second

var (
	errCancelled = errors.New("streamable: request cancelled")
	errAnswered  = errors.New("streamable: request answered")
)

// exchange is a request and its answer.
type exchange struct {
	c            *client
	sess         *clientSession
	id           jsonrpc.ID
	text         []byte
	body         bytes.Reader // of the first HTTP request
	isInitialize bool
	isDiscover   bool
	header       http.Header // of a modern request; nil for a request of the session

	ctx    context.Context // derived from life, with trace
	cancel context.CancelCauseFunc
	life   lazyctx.Values
	trace  httptrace.ClientTrace // calls wrote

	settling sync.Mutex
	settled  bool          // the request was sent, or will not be sent
	waiting  chan struct{} // closed once settled is set; nil unless withdraw waits
	sent     atomic.Bool   // the request was sent
	unneeded atomic.Bool   // the answer is no longer needed

	accepted bool // the server has accepted the request
	answered bool
	answer   jsonrpc.Message // that was received
}

// request sends a request. Its goroutine ends with the answer or the connection.
func (c *client) request(ctx context.Context, sess *clientSession, text []byte, envelope jsonrpc.Message) error {
	if err := c.end.Reserve(ctx, len(text)); err != nil {
		return err
	}
	x := &exchange{c: c, sess: sess, id: envelope.ID, text: text, isInitialize: envelope.Method == mcp.MethodInitialize}
	x.header = modernHeader(ctx, envelope)
	if x.header != nil {
		c.end.AcceptGzip(x.header)
	}
	x.isDiscover = x.header != nil && envelope.Method == mcp.MethodServerDiscover
	if x.isInitialize && sess.revision != "" {
		x.sess = c.newSession(sess.number, "", "") // initialize names no session
	}
	x.life = lazyctx.Values{Context: c.end.Life(), Other: ctx}
	x.ctx, x.cancel = context.WithCancelCause(&x.life)
	x.trace.WroteRequest = x.wrote
	x.ctx = httptrace.WithClientTrace(x.ctx, &x.trace)
	c.mu.Lock()
	c.exchanges[x.id] = x
	c.mu.Unlock()
	if !c.end.Enter() {
		x.finish()
		return transport.ErrClosed
	}
	go x.run() // ends with the answer or the connection
	return nil
}

func (x *exchange) run() {
	defer x.c.end.Exit()
	lazyctx.GrowStack()
	err := boundary.Run(x.do)
	boundary.Report(x.c.end.Options.Logger, "HTTP request panicked", err)
	x.finish()
	switch {
	case err == nil:
	case (x.isInitialize || x.isDiscover) && x.sess.number > 1:
		x.c.end.ReportLostOnReopen(x.id, x.taken(err), err)
	case x.isDiscover:
		x.c.end.Report(&transport.DeliveryError{ID: x.id, Taken: x.taken(err), Refused: hasSessions(err), Err: err})
	default:
		x.c.end.ReportLost(x.id, x.taken(err), err)
	}
}

// taken reports whether the server may be serving the request that was lost because of err.
func (x *exchange) taken(err error) bool {
	if _, replaced := errors.AsType[*replacedError](err); replaced {
		return true
	}
	if x.accepted || errors.Is(err, transport.ErrSessionLost) {
		return x.accepted // whatever has lost the answer
	}
	return !httpcore.Unreached(err) && !httpcore.NotSent(err) && !httpcore.Rejected(err)
}

// replacedError is the error of a request that was sent, and not answered, before [client.Reopen]
// replaced the session of a server that did not respond.
type replacedError struct{ *transport.SessionLostError }

func (e *replacedError) Unwrap() error { return e.SessionLostError }

// finish ends the exchange.
func (x *exchange) finish() {
	x.settle()
	x.cancel(nil)
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exchanges[x.id] == x {
		delete(c.exchanges, x.id)
	}
}

// wrote is called when the request was written, possibly more than once or never.
func (x *exchange) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		x.markSent()
	}
}

// markSent records that the request was sent.
func (x *exchange) markSent() {
	x.sent.Store(true)
	x.settle()
}

// settle records that the request was sent, or will not be sent.
func (x *exchange) settle() {
	x.settling.Lock()
	defer x.settling.Unlock()
	if x.settled {
		return
	}
	x.settled = true
	if x.waiting != nil {
		close(x.waiting)
	}
	x.c.end.Release(len(x.text))
}

// whenSettled returns a channel that is closed once settle was called.
func (x *exchange) whenSettled() <-chan struct{} {
	x.settling.Lock()
	defer x.settling.Unlock()
	if x.waiting == nil {
		x.waiting = make(chan struct{})
		if x.settled {
			close(x.waiting)
		}
	}
	return x.waiting
}

// withdraw waits until a cancellation can be sent after the request. It returns false if the
// request was not sent and will not be.
func (x *exchange) withdraw(ctx context.Context) (ok bool) {
	x.unneeded.Store(true)
	timer := time.NewTimer(cancelGrace)
	defer timer.Stop()
	select {
	case <-x.whenSettled():
		return x.sent.Load()
	case <-ctx.Done():
	case <-timer.C: // sending blocks, or the HTTP client does not report it
	}
	return true
}

// do sends the request and handles the response. It returns nil if the request was answered, or if
// the answer may arrive on another stream.
func (x *exchange) do() error {
	resp, err := x.post()
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	x.markSent()
	if resp.StatusCode/100 != 2 {
		return x.handleRejection(resp)
	}
	x.accepted = true
	if !x.sess.used.Load() {
		x.sess.used.Store(true)
	}
	if resp.StatusCode == http.StatusAccepted && x.header == nil && x.sess.listening.Load() {
		return nil // invalid, but the answer may arrive on the standing stream
	}
	switch media := httpcore.ContentType(resp); media {
	case httpcore.JSON:
		return x.readMessage(resp)
	case httpcore.Events:
		s := &stream{c: x.c, sess: x.sess, ctx: x.ctx, cancel: x.cancel, unwanted: x.unneeded.Load, final: x.header != nil}
		s.take = func(text []byte) bool { return x.take(text, resp.Header) }
		return s.follow(resp)
	default:
		return fmt.Errorf("%w: %q with status %d", httpclient.ErrContent, media, resp.StatusCode)
	}
}

// post sends the request. It sends it again if the server is unavailable and asks for that, for
// instance because it is being restarted.
func (x *exchange) post() (*http.Response, error) {
	o := &x.c.end.Options
	for failures := 0; ; failures++ {
		resp, err := x.c.post(postRequest{ctx: x.ctx, sess: x.sess, header: x.header, text: x.text, exchange: x})
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			return resp, err
		}
		asked := httpcore.RetryAfter(resp.Header)
		if asked == 0 || asked > o.Retries.MaxDelay || failures >= o.Retries.Max || x.unneeded.Load() {
			return resp, nil
		}
		httpcore.Discard(resp)
		if !httpcore.Sleep(x.ctx, x.c.end.Backoff(asked, failures)) {
			return nil, context.Cause(x.ctx)
		}
	}
}

// readMessage reads a response that consists of one message.
func (x *exchange) readMessage(resp *http.Response) error {
	text, err := x.c.end.ReadAll(resp)
	if err != nil {
		return err
	}
	if !x.take(text, resp.Header) {
		return fmt.Errorf("%w: response is not the answer to the request", httpclient.ErrContent)
	}
	return nil
}

// take processes a message that the server sends for the request, and reports whether the request
// is answered. h is the header of the response to its POST.
func (x *exchange) take(text []byte, h http.Header) (done bool) {
	m, err := httpcore.Parse(text) // the session reports faults
	if !x.isAnswer(&m) {
		if !x.answered && x.inBatch(text) {
			x.answered = true
			x.c.end.Deliver(x.c.end.Life(), text, x.sess.number)
		} else {
			x.c.end.Deliver(x.ctx, text, x.sess.number)
		}
		return x.answered
	}
	x.answered = true
	if x.isInitialize && m.Kind == jsonrpc.KindResponse {
		if err := x.c.completeHandshake(x.sess, m.Result, h); err != nil {
			x.c.end.ReportLost(x.id, true, err)
			return true
		}
	}
	answer := transport.Message{Text: text, Session: x.sess.number}
	if err == nil {
		x.answer = m
		answer.SetParsed(&x.answer)
	}
	// The loss of the session ends x.ctx. The caller would then wait for this answer in vain.
	x.c.end.DeliverMessage(x.c.end.Life(), answer)
	return true
}

func (x *exchange) isAnswer(m *jsonrpc.Message) bool {
	return (m.ID == x.id || jsonrpc.CanonicalID(m.ID) == x.id) && (m.Kind == jsonrpc.KindResponse || m.Kind == jsonrpc.KindErrorResponse)
}

// inBatch reports whether text is a batch that contains the answer. In revisions without batches,
// the session rejects such an answer.
func (x *exchange) inBatch(text []byte) bool {
	if !jsonrpc.IsBatch(text) {
		return false
	}
	items, err := jsonrpc.ParseReceivedBatch(text, codec.NoCopy())
	return err == nil && slices.ContainsFunc(items, func(i jsonrpc.Item) bool { return x.isAnswer(&i.Message) })
}

// handleRejection handles the rejection of the request by the server.
func (x *exchange) handleRejection(resp *http.Response) error {
	status, id := httpcore.Status(resp)
	var err error = status
	if x.header != nil {
		return x.handleModernRejection(status, id, resp.Header)
	}
	if x.isInitialize && x.sess.number == 1 && !x.c.options.NoFallback && !ofStreamable(status) {
		switch status.Code {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed:
			old, oldErr := x.fallBack()
			if oldErr == nil {
				return x.c.replaceBy(old, x)
			}
			err = fmt.Errorf("%w: HTTP with SSE: %w", status, oldErr)
		}
	}
	if status.RPC != nil && id == x.id {
		m := jsonrpc.NewErrorResponse(id, status.RPC)
		if text, err := m.AppendJSON(nil); err == nil {
			x.take(text, resp.Header)
			return nil
		}
	}
	return err
}

// fallbackTimeout is how long the client waits for the first event of HTTP with SSE.
const fallbackTimeout = 10 * time.Second

// fallBack connects over HTTP with SSE.
func (x *exchange) fallBack() (transport.Reopener, error) {
	ctx, cancel := context.WithTimeout(x.ctx, fallbackTimeout)
	defer cancel()
	return sse.Dial(ctx, x.c.url.String(), x.c.options.Options)
}

// replaceBy replaces the transport by HTTP with SSE, and sends the request x on it.
func (c *client) replaceBy(old transport.Reopener, x *exchange) error {
	started := c.end.Go(func() { // ends with the connection, or with old
		defer old.Close()
		defer context.AfterFunc(c.end.Life(), func() { boundary.Run(old.Close) })()
		for {
			m, err := old.Read()
			if !c.end.Forward(m, err) {
				return
			}
		}
	})
	if !started {
		old.Close()
		return transport.ErrClosed
	}
	c.fallback.Store(&old)
	return old.Write(x.ctx, transport.Message{Text: x.text, Session: x.sess.number})
}
