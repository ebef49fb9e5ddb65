package streamable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// sweepLater makes sure that idle sessions will be looked for. It is called with mu held.
func (h *Handler) sweepLater() {
	if h.sweep == nil && h.o.IdleTimeout > 0 && !h.draining.Load() {
		h.sweep = time.AfterFunc(h.o.IdleTimeout/4, h.sweepIdle) // its goroutine ends by itself
	}
}

// sweepIdle ends the sessions in which nothing has happened for long.
func (h *Handler) sweepIdle() {
	h.mu.Lock()
	h.sweep = nil
	conns := make([]*serverConn, 0, len(h.sessions))
	for _, c := range h.sessions {
		conns = append(conns, c)
	}
	if len(conns) > 0 {
		h.sweepLater()
	}
	h.mu.Unlock()
	for _, c := range conns {
		if t, idle := c.idleSince(); idle && time.Since(t) >= h.o.IdleTimeout {
			h.o.Logger.Info("session expired", logged(c.id))
			c.end()
		}
	}
}

// load restores a session from the store and returns its connection. Of many requests that want the same session at once,
// one loads it.
func (h *Handler) load(ctx context.Context, r *http.Request, store SessionStore, id, principal string) (*serverConn, error) {
	for {
		h.mu.Lock()
		c, busy := h.sessions[id], h.loading[id]
		if c == nil && busy == nil {
			busy = make(chan struct{})
			h.loading[id] = busy
			h.mu.Unlock()
			c, err := h.loadNow(ctx, r, store, id, principal)
			h.mu.Lock()
			delete(h.loading, id)
			h.mu.Unlock()
			close(busy)
			return c, err
		}
		h.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-busy:
		case <-r.Context().Done():
			return nil, errStore
		}
	}
}

func (h *Handler) loadNow(ctx context.Context, r *http.Request, store SessionStore, id, principal string) (*serverConn, error) {
	opening, streams, err := store.Load(ctx, id)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, ErrUnknown
	case err != nil:
		h.o.Logger.Error("session not loaded", logged(id), "error", err)
		return nil, errStore // it may be there the next time
	case opening.Principal != principal:
		return nil, ErrUnknown
	}
	c, err := h.newConn(r, id, principal, func(c *serverConn) {
		c.resumed, c.revision, c.client, c.state = true, opening.Revision, opening.Client, opening.State
		for _, kept := range streams {
			c.restore(ctx, kept)
		}
	})
	if err != nil {
		h.o.Logger.Warn("session not loaded", logged(id), "error", err)
		return nil, err
	}
	if !c.speaks(opening.Revision) { // the server has changed: the client has to agree on a revision anew
		c.end()
		return nil, ErrUnknown
	}
	h.o.Logger.Info("session loaded", logged(id))
	return c, nil
}

// restore goes on with a stream from the store. Requests that were not answered never will be: whoever has sent them is
// told so.
func (c *serverConn) restore(ctx context.Context, kept KeptStream) {
	if n, err := strconv.ParseUint(kept.Stream, 36, 64); err == nil {
		c.nextStream = max(c.nextStream, n+1)
	}
	if kept.Stream == standing {
		st := c.streams[standing]
		st.last, st.taken = kept.Last.Number, kept.Last.Number
		return
	}
	if kept.Last.Last {
		return
	}
	p, _, err := parsePosted(kept.Message)
	if err != nil || len(p.requests) == 0 {
		return
	}
	st := newServerStream(kept.Stream)
	st.kept, st.last = true, kept.Last.Number
	for i, id := range p.requests {
		m := jsonrpc.NewErrorResponse(id, &jsonrpc.Error{Code: codeClosed, Message: "the server was restarted while it served the request"})
		text, err := codec.Marshal(&m)
		if err != nil {
			return // cannot be: the id was read
		}
		st.last++
		c.keep(ctx, st, false, Event{Number: st.last, Text: text, Last: i == len(p.requests)-1})
	}
}
