package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// stream is a stream of events. It uses one connection after another.
type stream struct {
	c      *client
	sess   *clientSession
	ctx    context.Context
	cancel context.CancelCauseFunc // ends ctx; unused for the standing stream
	// Processes a message. It returns true if no further message is needed.
	take     func(text []byte) (done bool)
	standing bool        // belongs to no request
	final    bool        // is not resumed
	unwanted func() bool // whether further messages are unneeded; nil means false

	done       bool
	tooLong    error         // set if the answer was too long
	connected  bool          // at least one connection was made
	lastID     string        // id of the last event
	retry      time.Duration // the delay that the server has asked for
	retryAfter time.Duration // the Retry-After of the last response
	failures   int           // attempts in a row without an event
	idle       int           // attempts in a row without a message
}

// maxPolls is how many connections in a row may have no message before the client increases its
// delay. A server may close streams and let the client poll, with the delay that it asks for.
const maxPolls = 5

// follow reads the stream until it is done, and reconnects when a connection ends. It begins with
// resp unless that is nil.
func (s *stream) follow(resp *http.Response) error {
	ctx := s.ctx
	if !s.standing {
		defer context.AfterFunc(s.sess.ctx, func() { s.cancel(context.Cause(s.sess.ctx)) })()
	}
	var err error
	for {
		if resp != nil {
			err = s.read(ctx, resp)
			switch {
			case s.done:
				return nil
			case s.tooLong != nil:
				return s.tooLong
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.unwanted != nil && s.unwanted():
			return errCancelled
		case s.final || !s.standing && s.lastID == "":
			return fmt.Errorf("%w: not resumable: %w", httpclient.ErrCut, err)
		case !s.standing && s.failures >= s.c.end.Options.Retries.Max:
			return fmt.Errorf("%w: not resumed: %w", httpclient.ErrCut, err)
		}
		failures := max(s.failures, s.idle-maxPolls)
		if !httpcore.Sleep(ctx, max(s.c.end.Backoff(s.retry, failures), s.retryAfter)) {
			return context.Cause(ctx)
		}
		s.failures++
		s.idle++
		resp, err = s.connect(ctx)
		if err != nil && !s.retryable(err) {
			if s.standing || errors.Is(err, transport.ErrSessionLost) {
				return err
			}
			return fmt.Errorf("%w: not resumed: %w", httpclient.ErrCut, err)
		}
	}
}

// retryable reports whether connect may succeed later, after it has failed with err.
func (s *stream) retryable(err error) bool {
	if !s.standing || !s.connected {
		return httpcore.Retryable(err)
	}
	status, ok := errors.AsType[*httpclient.StatusError](err)
	noStream := ok && status.Code == http.StatusMethodNotAllowed // the server no longer offers a stream
	return !noStream && httpcore.RetryableOnReopen(err)
}

// read reads the events of one connection.
func (s *stream) read(ctx context.Context, resp *http.Response) error {
	defer resp.Body.Close()
	s.connected = true
	r := eventstream.NewReader(resp.Body, s.c.end.Options.Limits.Message)
	defer r.Release()
	for {
		event, err := r.Next()
		long := errors.Is(err, transport.ErrTooLong)
		if err != nil && !long {
			if s.done {
				return nil
			}
			return fmt.Errorf("stream ended: %w", err)
		}
		s.failures = 0
		if event.ID != "" {
			s.lastID = event.ID
		}
		if strings.ContainsFunc(event.ID, unicode.IsControl) { // no header field can have it
			s.lastID = ""
		}
		if event.Retry > 0 {
			s.retry = event.Retry
		}
		switch {
		case long:
			s.idle = 0
			if answer, ok := errors.AsType[*transport.DeliveryError](err); ok && !s.standing {
				s.tooLong = answer.Err // the stream of a request has only one answer
				return s.tooLong
			}
			s.c.end.Forward(transport.Message{}, err)
		case event.Name == "" && len(event.Data) > 0:
			s.idle = 0
			if s.take(event.Data) && !s.done {
				s.done = true
				defer time.AfterFunc(cancelGrace, func() { s.cancel(errAnswered) }).Stop()
			}
		}
	}
}

// connect resumes the stream, or opens the standing one.
func (s *stream) connect(ctx context.Context) (*http.Response, error) {
	s.retryAfter = 0
	h := s.sess.headers()
	h["Accept"] = []string{httpcore.Events}
	if s.lastID != "" {
		h["Last-Event-Id"] = []string{s.lastID}
	}
	do := s.c.end.DoWithTimeout
	if s.standing {
		do = s.c.end.Do // some servers send the response header with their first message
	}
	resp, err := do(ctx, httpcore.Request{Method: http.MethodGet, URL: s.c.url, Header: h})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		if media := httpcore.ContentType(resp); media != httpcore.Events {
			httpcore.Discard(resp)
			return nil, fmt.Errorf("%w: %q for a stream", httpclient.ErrContent, media)
		}
		return resp, nil
	}
	defer httpcore.Discard(resp)
	status, _ := httpcore.Status(resp)
	s.retryAfter = httpcore.RetryAfter(resp.Header)
	if s.connected && s.c.sessionDropped(ctx, s.sess, resp) { // some servers answer every GET with 404
		return nil, s.c.loseSession(s.sess, status)
	}
	if s.standing && s.lastID != "" && status.Code == http.StatusBadRequest {
		s.lastID = "" // the server has dropped that event
		return nil, errEventDropped
	}
	return nil, status
}

var errEventDropped = errors.New("streamable: server has dropped the last event")

// listen opens the standing stream. It ends with the session or the connection. A server need not
// offer one (MCP transports, "Listening for Messages from the Server").
//
// listen waits up to listenTimeout for the server's response: many servers lose messages that they
// send before the stream is open, so later requests should arrive after it.
func (c *client) listen(sess *clientSession) {
	if c.options.NoListen || sess.listening.Swap(true) {
		return
	}
	answered := make(chan struct{})
	started := c.end.Go(func() { // ends with the session, or when the server offers no stream
		s := &stream{c: c, sess: sess, ctx: sess.ctx, standing: true}
		s.take = func(text []byte) bool {
			c.end.Deliver(sess.ctx, text, sess.number)
			return false
		}
		resp, err := s.connect(sess.ctx)
		close(answered)
		if err == nil || httpcore.Retryable(err) {
			err = s.follow(resp)
		}
		sess.listening.Store(false)
		if sess.ctx.Err() == nil {
			c.end.Options.Logger.Info("standing stream ended", "error", err)
		}
	})
	if !started {
		return
	}
	timer := time.NewTimer(listenTimeout)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C: // some servers send the response header with their first message
	case <-sess.ctx.Done():
	}
}

// listenTimeout is how long requests wait for the standing stream.
const listenTimeout = 250 * time.Millisecond
