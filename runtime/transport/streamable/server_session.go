package streamable

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// maxSweep is the longest interval between two calls of Touch.
const maxSweep = 5 * time.Minute

// sweepLater schedules the search for idle sessions. mu must be held.
func (h *Handler) sweepLater() {
	interval := h.o.Timeouts.Idle / 4
	if _, ok := h.o.Sessions.Store.(SessionStore); ok && (interval == 0 || interval > maxSweep) {
		interval = maxSweep
	}
	if h.sweep == nil && interval > 0 && !h.draining.Load() {
		h.sweep = time.AfterFunc(interval, h.sweepIdle) // its goroutine ends by itself
	}
}

// sweepIdle ends the sessions that have been idle for Timeouts.Idle, and calls touch for the
// others.
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
		if t, idle := c.idleSince(); idle && h.o.Timeouts.Idle > 0 && time.Since(t) >= h.o.Timeouts.Idle {
			h.o.Logger.Info("session expired", logged(c.id))
			c.end()
		}
	}
	h.touch(usedSince(conns))
}

// usedSince returns the ids of the sessions that were used since the last call. It leaves out those
// that have ended.
func usedSince(conns []*serverConn) (used []string) {
	for _, c := range conns {
		if c.exchanges.isUsed() {
			used = append(used, c.id)
		}
	}
	return used
}

// touch calls Touch of the store with the sessions that were used.
func (h *Handler) touch(used []string) {
	store, ok := h.o.Sessions.Store.(SessionStore)
	if !ok || len(used) == 0 {
		return
	}
	if err := store.Touch(h.stores, used); err != nil {
		h.o.Logger.Error("use of sessions not persisted", "sessions", len(used), "error", err)
	}
}

// loading is a session that is being loaded.
type loading struct {
	done chan struct{} // closed at the end
	err  error         // set before; nil unless it concerns other requests of the session, too
}

// load restores a session from the store and returns its connection. Concurrent calls for the same
// session load it once.
func (h *Handler) load(ctx context.Context, r *http.Request, store SessionStore, id, principal string) (*serverConn, error) {
	for {
		h.mu.Lock()
		c, busy := h.sessions[id], h.loading[id]
		if c == nil && busy == nil {
			busy = &loading{done: make(chan struct{})}
			h.loading[id] = busy
			h.mu.Unlock()
			c, err := h.loadNow(ctx, r, store, id, principal)
			// Other errors depend on the principal, or their cause is that the client of r has gone.
			if _, held := errors.AsType[heldError](err); held || err == errStore && r.Context().Err() == nil {
				busy.err = err
			}
			h.mu.Lock()
			delete(h.loading, id)
			h.mu.Unlock()
			close(busy.done)
			return c, err
		}
		h.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-busy.done:
			if busy.err != nil {
				return nil, busy.err
			}
		case <-r.Context().Done():
			return nil, errStore
		}
	}
}

// loadNow is load without regard to concurrent calls.
func (h *Handler) loadNow(ctx context.Context, r *http.Request, store SessionStore, id, principal string) (*serverConn, error) {
	waiting, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.stores, cancel)()
	loading := &storeContext{waiting, ctx, guard.Account(ctx)}
	claim, err := h.claim(loading, id)
	if err != nil {
		return nil, err
	}
	c, err := h.restore(ctx, loading, r, store, id, principal)
	if err != nil {
		h.release(id)
		return nil, err
	}
	if !claim.bind(c) {
		claim.lose()
		return nil, errStore
	}
	return c, nil
}

// restore opens a connection for a session in the store. loading is the context of Load.
func (h *Handler) restore(ctx, loading context.Context, r *http.Request, store SessionStore, id, principal string) (*serverConn, error) {
	opening, streams, err := store.Load(loading, id)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, ErrUnknown
	case err != nil && loading.Err() != nil:
		return nil, errStore
	case err != nil:
		h.o.Logger.Error("session not loaded", logged(id), "error", err)
		return nil, errStore // not ErrUnknown: the next attempt may succeed
	case opening.Principal != principal:
		return nil, ErrUnknown
	}
	c, err := h.newConn(ctx, r, id, func(c *serverConn) {
		c.handshake.restore(opening.Revision, opening.Client)
		c.journal.restored, c.journal.opened = opening.State, true
		c.streams.restore(streams)
		for _, stream := range streams {
			c.journal.interrupt(ctx, stream)
		}
	})
	if err != nil {
		h.o.Logger.Warn("session not loaded", logged(id), "error", err)
		return nil, err
	}
	if !c.speaks(opening.Revision) { // the server was replaced: the client must negotiate again
		c.end()
		return nil, ErrUnknown
	}
	h.o.Logger.Info("session loaded", logged(id))
	return c, nil
}
