package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// clientSession is a session as the client sees it: its id at the server, if the server has
// sessions, and the revision.
type clientSession struct {
	number   uint32 // of the session; see [transport.Reopener]
	id       string // "" without one, and before the answer to initialize
	revision string // the negotiated revision; "" before the answer to initialize
	posts    http.Header
	lost     atomic.Bool
	used     atomic.Bool // the server has accepted a request after the handshake
	opened   time.Time   // when the server answered initialize

	listening atomic.Bool // there is a standing stream

	ctx context.Context // ends when the session is lost
	end context.CancelCauseFunc
}

// newSession returns a new session. Before the answer to initialize, id and revision are empty, and
// its context ends only with the connection.
func (c *client) newSession(number uint32, id, revision string) *clientSession {
	sess := &clientSession{number: number, id: id, revision: revision, ctx: c.end.Life(), end: func(error) {}}
	if revision != "" {
		sess.ctx, sess.end = context.WithCancelCause(sess.ctx)
	}
	sess.posts = sess.headers()
	sess.posts["Accept"] = acceptBoth
	sess.posts["Content-Type"] = contentJSON
	c.end.AcceptGzip(sess.posts)
	return sess
}

// headers returns the headers that name the session and the revision.
func (sess *clientSession) headers() http.Header {
	h := http.Header{}
	if sess.id != "" {
		h["Mcp-Session-Id"] = []string{sess.id}
	}
	if sess.revision != "" {
		h["Mcp-Protocol-Version"] = []string{sess.revision}
	}
	return h
}

func (c *client) current() *clientSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// sessionFor returns the session for a message. It fails with a [*transport.SessionLostError] if
// that session is lost.
func (c *client) sessionFor(m transport.Message) (*clientSession, error) {
	sess := c.current()
	switch {
	case m.Session != 0 && m.Session != sess.number:
		return nil, &transport.SessionLostError{Session: m.Session}
	case sess.lost.Load():
		return nil, sess.lostError()
	}
	return sess, nil
}

// completeHandshake replaces sess by a session with the id and the revision from a result of
// initialize.
func (c *client) completeHandshake(sess *clientSession, result []byte, h http.Header) error {
	var info mcp.InitializeResult
	if err := codec.Unmarshal(result, &info); err != nil {
		return fmt.Errorf("streamable: result of initialize: %w", err)
	}
	id := h.Get("Mcp-Session-Id")
	if !isVisibleASCII(id) {
		return errors.New("streamable: session id has characters other than visible ASCII")
	}
	next := c.newSession(sess.number, id, info.ProtocolVersion)
	next.opened = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.number == sess.number {
		c.session = next
	}
	return nil
}

// isVisibleASCII reports whether id consists of the characters that session ids may have.
func isVisibleASCII(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// sessionDropped reports whether a response within a session means that the server has dropped the
// session.
func (c *client) sessionDropped(ctx context.Context, sess *clientSession, resp *http.Response) bool {
	switch {
	case sess.id == "":
		return false
	case resp.StatusCode != http.StatusBadRequest:
		return resp.StatusCode == http.StatusNotFound
	}
	if _, id := httpcore.Status(resp); !id.IsZero() {
		return false // an answer to a request
	}
	ctx, cancel := c.end.WithStallTimeout(ctx)
	defer cancel()
	ping := jsonrpc.NewRequest(codec.StringScalar(rand.Text()), mcp.MethodPing, nil)
	text, err := ping.AppendJSON(nil)
	if err != nil {
		return false // not reached
	}
	pong, err := c.end.Do(ctx, httpcore.Request{Method: http.MethodPost, URL: c.url, Header: sess.posts, Text: text})
	if err != nil {
		return false
	}
	defer pong.Body.Close()
	if pong.StatusCode != http.StatusBadRequest {
		return pong.StatusCode == http.StatusNotFound
	}
	_, id := httpcore.Status(pong)
	return id.IsZero()
}

// lostError returns the error of messages of a lost session.
func (sess *clientSession) lostError() *transport.SessionLostError {
	if err, ok := errors.AsType[*transport.SessionLostError](context.Cause(sess.ctx)); ok {
		return err
	}
	return &transport.SessionLostError{Session: sess.number}
}

// loseSession records that the server has lost a session, and reports it once. cause is the
// rejection of the message that has revealed the loss. loseSession returns the error for that
// message.
func (c *client) loseSession(sess *clientSession, cause error) error {
	if !sess.lost.Swap(true) {
		return c.reportLoss(sess, cause)
	}
	return &transport.SessionLostError{Session: sess.number, Err: cause}
}

// reportLoss reports the loss of a session, and ends its context.
func (c *client) reportLoss(sess *clientSession, cause error) error {
	err := &transport.SessionLostError{Session: sess.number, Err: cause}
	sess.end(err)
	c.end.Report(err)
	return err
}

// Reopen implements [transport.Reopener].
func (c *client) Reopen(ctx context.Context) (session uint32, err error) {
	if old := c.fallback.Load(); old != nil {
		return (*old).Reopen(ctx)
	}
	ctx, cancel := c.end.Bounded(ctx)
	defer cancel()
	last := c.current()
	switch {
	case last.revision == "": // the server has not answered initialize
		c.unused = max(c.unused+1, 2)
	case last.used.Load() && time.Since(last.opened) >= c.end.Options.Retries.Delay:
		c.unused = 0
	default:
		// The session was dropped unused or within Retries.Delay. A host that restores its state uses
		// even such a session.
		c.unused++
	}
	if c.unused > 1 && !httpcore.Sleep(ctx, c.end.Backoff(0, c.unused-2)) {
		return 0, context.Cause(ctx)
	}
	unresponsive := !last.lost.Swap(true)
	if unresponsive && last.revision != "" {
		c.reportLoss(last, errors.New("streamable: session replaced"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if unresponsive { // otherwise the server rejects each request that it has not received
		for _, x := range c.exchanges {
			if x.sess == last && x.sent.Load() { // others end when they find the session lost
				x.cancel(&replacedError{last.lostError()})
			}
		}
	}
	c.session = c.newSession(last.number+1, "", "")
	return c.session.number, nil
}
