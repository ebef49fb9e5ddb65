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

// epoch is what holds from one initialize to the next: the session at the server, if it has sessions, and the
// revision.
type epoch struct {
	id       string      // of the session; "" for none
	revision string      // that was negotiated; "" before that
	posts    http.Header // the headers of POSTs
	result   []byte      // of initialize
	lost     atomic.Bool
	used     atomic.Bool // the server has taken something

	listening atomic.Bool // there is a standing stream

	ctx context.Context // ends when the session is gone
	end context.CancelCauseFunc
}

// newEpoch returns an epoch that begins; before the first answer to initialize neither is known, and it has no end.
func (c *Client) newEpoch(id, revision string) *epoch {
	ep := &epoch{id: id, revision: revision, ctx: c.end.Life(), end: func(error) {}}
	ep.posts = ep.headers()
	ep.posts["Accept"] = []string{httpcore.JSON + ", " + httpcore.Events}
	ep.posts["Content-Type"] = []string{httpcore.JSON}
	return ep
}

// headers returns those that name the session and the revision.
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
	var hello mcp.InitializeResult
	if err := codec.Unmarshal(result, &hello); err != nil {
		return nil, fmt.Errorf("streamable: result of initialize: %w", err)
	}
	id := h.Get("Mcp-Session-Id")
	if !visible(id) {
		return nil, errors.New("streamable: the id of the session has other characters than visible ASCII")
	}
	ep := c.newEpoch(id, hello.ProtocolVersion)
	ep.ctx, ep.end = context.WithCancelCause(ep.ctx)
	ep.result = slices.Clone(result)
	return ep, nil
}

// visible reports whether all bytes are in the range that session ids may have.
func visible(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return false
		}
	}
	return true
}

// dropped reports whether an answer within a session says that the server has dropped that.
func (c *Client) dropped(ctx context.Context, ep *epoch, resp *http.Response) bool {
	switch {
	case ep.id == "":
		return false
	case resp.StatusCode != http.StatusBadRequest:
		return resp.StatusCode == http.StatusNotFound
	}
	if _, id := httpcore.Status(resp); !id.IsZero() {
		return false // it is an answer to a request
	}
	ctx, cancel := c.end.WithStallTimeout(ctx)
	defer cancel()
	ping := jsonrpc.NewRequest(codec.StringScalar(rand.Text()), mcp.MethodPing, nil)
	text, err := ping.AppendJSON(nil)
	if err != nil {
		return false // cannot be
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

// renewal is the opening of a new session in the place of one that is gone.
type renewal struct {
	done chan struct{} // closed when err is there
	err  error
}

// renew opens a new session in the place of gone, unless that has happened already, and waits for that until ctx
// ends.
func (c *Client) renew(ctx context.Context, gone *epoch) error {
	c.mu.Lock()
	if c.epoch != gone {
		c.mu.Unlock()
		return nil
	}
	r := c.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		c.renewal = r
		started := c.end.Go(func() { // ends with the answers of the server, or the connection
			r.err = c.reopen(gone)
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

// reopen opens a new session. If the server refuses that for good, the connection is over.
func (c *Client) reopen(gone *epoch) error {
	gone.lost.Store(true)
	gone.end(httpclient.ErrSessionLost)
	c.mu.Lock()
	hello, ready := c.hello, c.ready
	if c.barren++; gone.used.Load() {
		c.barren = 0
	}
	barren := c.barren
	c.mu.Unlock()
	if hello == nil {
		return httpclient.ErrSessionLost
	}
	if barren > 1 && !httpcore.Sleep(c.end.Life(), c.end.Backoff(0, barren-2)) {
		return transport.ErrClosed
	}
	next, err := c.greet(hello, ready)
	if err == nil && next.revision != gone.revision {
		err = fmt.Errorf("%w from %s to %s", httpcore.ErrRevision, gone.revision, next.revision)
	}
	if err != nil {
		err = fmt.Errorf("%w, and gives no new one: %w", httpclient.ErrSessionLost, err)
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
	c.renewal = nil // or who loses this one too would wait for what is over
	stale := c.asked
	c.asked = map[jsonrpc.ID]struct{}{}
	c.mu.Unlock()
	for id := range stale {
		c.end.Withdraw(id, httpclient.ErrSessionLost)
	}
	c.listen(next)
	c.end.Options.Logger.Info("the server has dropped the session; a new one is open")
	if c.options.Renewed != nil {
		c.end.Go(func() { c.options.Renewed(next.result) }) // ends when the callback does
	}
	return nil
}

// greet introduces this side again, with what was sent first.
func (c *Client) greet(hello, ready []byte) (*epoch, error) {
	envelope, err := httpcore.Parse(hello)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(c.end.Life(), c.end.Options.StallTimeout, transport.ErrStalled)
	defer cancel()
	x := &exchange{c: c, id: envelope.ID, text: hello, first: true, again: true, out: make(chan struct{})}
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
