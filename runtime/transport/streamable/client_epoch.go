package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// epoch is the state from one initialize to the next: the session at the server, if it has
// sessions, and the revision.
type epoch struct {
	id       string      // of the session; "" without one
	revision string      // the negotiated revision; "" before that
	posts    http.Header // headers of POSTs
	result   []byte      // result of initialize
	lost     atomic.Bool
	used     atomic.Bool // the server has accepted a message

	listening atomic.Bool // there is a standing stream

	ctx context.Context // ends when the session is lost
	end context.CancelCauseFunc
}

// newEpoch returns a new epoch. Before the answer to initialize, both arguments are empty and the
// epoch does not end.
func (c *Client) newEpoch(id, revision string) *epoch {
	ep := &epoch{id: id, revision: revision, ctx: c.end.Life(), end: func(error) {}}
	ep.posts = ep.headers()
	ep.posts["Accept"] = []string{httpcore.JSON + ", " + httpcore.Events}
	ep.posts["Content-Type"] = []string{httpcore.JSON}
	return ep
}

// headers returns the headers that name the session and the revision.
func (ep *epoch) headers() http.Header {
	h := http.Header{}
	if ep.id != "" {
		h["Mcp-Session-Id"] = []string{ep.id}
	}
	if ep.revision != "" {
		h["Mcp-Protocol-Version"] = []string{ep.revision}
	}
	return h
}

func (c *Client) current() *epoch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.epoch
}

// opened returns the epoch that begins with a result of initialize.
func (c *Client) opened(result []byte, h http.Header) (*epoch, error) {
	var info mcp.InitializeResult
	if err := codec.Unmarshal(result, &info); err != nil {
		return nil, fmt.Errorf("streamable: result of initialize: %w", err)
	}
	id := h.Get("Mcp-Session-Id")
	if !visible(id) {
		return nil, errors.New("streamable: session id has characters other than visible ASCII")
	}
	ep := c.newEpoch(id, info.ProtocolVersion)
	ep.ctx, ep.end = context.WithCancelCause(ep.ctx)
	ep.result = slices.Clone(result)
	return ep, nil
}

// visible reports whether id consists of the characters that session ids may have.
func visible(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// dropped reports whether a response within a session means that the server has dropped the
// session.
func (c *Client) dropped(ctx context.Context, ep *epoch, resp *http.Response) bool {
	switch {
	case ep.id == "":
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
	pong, err := c.postTo(ctx, ep, text, nil)
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

// renewal is the opening of a new session after the last one was lost.
type renewal struct {
	done chan struct{} // closed when err is set
	err  error
}

// renew opens a new session to replace ep, unless that is replaced already, and waits for it until
// ctx ends.
func (c *Client) renew(ctx context.Context, ep *epoch) error {
	c.mu.Lock()
	if c.epoch != ep {
		c.mu.Unlock()
		return nil
	}
	r := c.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		c.renewal = r
		started := c.end.Go(func() { // ends with the responses of the server, or with the connection
			r.err = c.reopen(ep)
			c.mu.Lock()
			if c.renewal == r {
				c.renewal = nil
			}
			c.mu.Unlock()
			close(r.done)
		})
		if !started {
			r.err = transport.ErrClosed
			c.renewal = nil
			close(r.done)
		}
	}
	c.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reopen opens a new session to replace last. If the server rejects it permanently, the connection
// ends.
func (c *Client) reopen(last *epoch) error {
	last.lost.Store(true)
	last.end(httpclient.ErrSessionLost)
	c.mu.Lock()
	initialize, ready := c.initialize, c.ready
	if c.unusedSessions++; last.used.Load() {
		c.unusedSessions = 0
	}
	unused := c.unusedSessions
	c.mu.Unlock()
	if initialize == nil {
		return httpclient.ErrSessionLost
	}
	if unused > 1 && !httpcore.Sleep(c.end.Life(), c.end.Backoff(0, unused-2)) {
		return transport.ErrClosed
	}
	next, err := c.handshake(initialize, ready)
	if err == nil && next.revision != last.revision {
		err = fmt.Errorf("%w from %s to %s", httpcore.ErrRevision, last.revision, next.revision)
	}
	if err != nil {
		err = fmt.Errorf("%w: new session: %w", httpclient.ErrSessionLost, err)
		if !httpcore.Passing(err) {
			c.end.Fail(fmt.Errorf("%w: %w", transport.ErrClosed, err))
		}
		return err
	}
	if c.renewed != nil {
		c.renewed(next.result)
	}
	c.mu.Lock()
	c.epoch = next
	c.renewal = nil // otherwise a caller that loses the new epoch would wait for this renewal
	stale := c.asked
	c.asked = map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	for id := range stale {
		c.end.Withdraw(id, httpclient.ErrSessionLost)
	}
	c.listen(next)
	c.end.Options.Logger.Info("session renewed")
	if c.options.Renewed != nil {
		c.end.Go(func() { c.options.Renewed(next.result) }) // ends when the callback returns
	}
	return nil
}

// handshake repeats the handshake with the messages that were sent first.
func (c *Client) handshake(initialize, ready []byte) (*epoch, error) {
	envelope, err := httpcore.Parse(initialize)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(c.end.Life(), c.end.Options.StallTimeout, transport.ErrStalled)
	defer cancel()
	x := &exchange{c: c, id: envelope.ID, text: initialize, first: true, again: true, out: make(chan struct{})}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	if err := x.do(); err != nil {
		return nil, err
	}
	if x.refused != nil {
		return nil, x.refused
	}
	if ready == nil {
		return x.opens, nil
	}
	resp, err := c.postTo(ctx, x.opens, ready, nil)
	if err != nil {
		return nil, err
	}
	defer httpcore.Discard(resp)
	if resp.StatusCode/100 != 2 {
		status, _ := httpcore.Status(resp)
		return nil, status
	}
	return x.opens, nil
}
