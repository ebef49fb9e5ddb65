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

// epoch is the state of a session: its id at the server, if the server has sessions, and the
// revision.
type epoch struct {
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

// newEpoch returns a new epoch. Before the answer to initialize, id and revision are empty and the
// epoch does not end.
func (c *Client) newEpoch(number uint32, id, revision string) *epoch {
	ep := &epoch{number: number, id: id, revision: revision, ctx: c.end.Life(), end: func(error) {}}
	if revision != "" {
		ep.ctx, ep.end = context.WithCancelCause(ep.ctx)
	}
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

// epochOf returns the epoch for a message. It fails with a [*transport.SessionLostError] if the
// session of the message is lost.
func (c *Client) epochOf(m transport.Message) (*epoch, error) {
	ep := c.current()
	switch {
	case m.Session != 0 && m.Session != ep.number:
		return nil, &transport.SessionLostError{Session: m.Session}
	case ep.lost.Load():
		return nil, ep.lostError()
	}
	return ep, nil
}

// opened sets the id and the revision from a result of initialize in the session of ep.
func (c *Client) opened(ep *epoch, result []byte, h http.Header) error {
	var info mcp.InitializeResult
	if err := codec.Unmarshal(result, &info); err != nil {
		return fmt.Errorf("streamable: result of initialize: %w", err)
	}
	id := h.Get("Mcp-Session-Id")
	if !visible(id) {
		return errors.New("streamable: session id has characters other than visible ASCII")
	}
	next := c.newEpoch(ep.number, id, info.ProtocolVersion)
	next.opened = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.epoch.number == ep.number {
		c.epoch = next
	}
	return nil
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

// lostError returns the error of messages of a lost session.
func (ep *epoch) lostError() *transport.SessionLostError {
	if err, ok := errors.AsType[*transport.SessionLostError](context.Cause(ep.ctx)); ok {
		return err
	}
	return &transport.SessionLostError{Session: ep.number}
}

// lose records that the server has lost the session of ep, and reports it. cause is the rejection
// of a message that has revealed the loss. lose returns the error for that message.
func (c *Client) lose(ep *epoch, cause error) error {
	err := &transport.SessionLostError{Session: ep.number, Err: cause}
	if !ep.lost.Swap(true) {
		ep.end(err)
		c.end.Report(err)
	}
	return err
}

// Reopen implements [transport.Reopener].
func (c *Client) Reopen(ctx context.Context) (session uint32, err error) {
	if old := c.old.Load(); old != nil {
		return old.Reopen(ctx)
	}
	ctx, cancel := c.end.Bounded(ctx)
	defer cancel()
	last := c.current()
	switch {
	case last.revision == "": // the server has not answered initialize
		c.unused = max(c.unused+1, 2)
	case last.used.Load() && time.Since(last.opened) >= c.end.Options.RetryDelay:
		c.unused = 0
	default:
		// The session was dropped unused or within RetryDelay. A host that restores its state uses
		// even such a session.
		c.unused++
	}
	if c.unused > 1 && !httpcore.Sleep(ctx, c.end.Backoff(0, c.unused-2)) {
		return 0, context.Cause(ctx)
	}
	last.lost.Store(true)
	last.end(last.lostError())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch = c.newEpoch(last.number+1, "", "")
	return c.epoch.number, nil
}
