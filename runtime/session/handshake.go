package session

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// phase is the progress of the handshake.
type phase uint8

const (
	phaseNew     phase = iota // no initialize yet
	phaseOpening              // the server is handling initialize
	phaseOpened               // the server has answered initialize
	phaseReady                // the client has sent initialized, or knows the server's answer to server/discover
)

// agreement is the outcome of the handshake so far. It is immutable: an update replaces it.
type agreement struct {
	role     role // of this side
	phase    phase
	revision mcp.Revision
	client   *mcp.InitializeRequestParams
	server   *mcp.InitializeResult
	meta     *requestMeta // what each request of a client adds to its _meta; nil in a session
	asked    time.Time    // when the server has answered server/discover; zero if that is unknown
}

// states reports whether a client states its revision and its capabilities in each request.
func (a *agreement) states() bool { return a.meta != nil }

// handshake is the initialization of a session (MCP lifecycle, "Initialization"). Its methods are
// safe for concurrent use.
type handshake struct {
	ready chan struct{} // closed when the phase is phaseReady

	current atomic.Pointer[agreement]

	mu        sync.Mutex
	answered  chan struct{} // closed when initialize is answered; nil unless it is being handled
	confirmed bool          // initialized arrived while initialize was being handled
}

func newHandshake(role role) *handshake {
	h := &handshake{ready: make(chan struct{})}
	h.current.Store(&agreement{role: role})
	return h
}

// update replaces the agreement by a copy that f has modified. mu must be held.
func (h *handshake) update(f func(*agreement)) {
	next := *h.current.Load()
	f(&next)
	h.current.Store(&next)
}

// set modifies the agreement by f.
func (h *handshake) set(f func(*agreement)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.update(f)
}

// begin starts handling initialize. It fails if initialize was sent before.
func (h *handshake) begin() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current.Load().phase != phaseNew {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "initialize was sent before"}
	}
	h.update(func(a *agreement) { a.phase = phaseOpening })
	h.answered = make(chan struct{})
	return nil
}

// isNew reports whether no initialize has arrived, or none that succeeded.
func (h *handshake) isNew() bool { return h.current.Load().phase == phaseNew }

// opening returns a channel that is closed when initialize has been answered, or nil if initialize
// is not being handled.
func (h *handshake) opening() <-chan struct{} {
	if h.current.Load().phase != phaseOpening {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered
}

// end ends the handling of initialize. ok reports whether the answer is a result.
func (h *handshake) end(ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := phaseNew
	switch {
	case ok && h.confirmed:
		next = phaseReady
	case ok:
		next = phaseOpened
	}
	h.update(func(a *agreement) { a.phase = next })
	if next == phaseReady {
		close(h.ready)
	}
	h.confirmed = false
	close(h.answered)
	h.answered = nil
}

// confirm handles the client's initialized. Some clients send it before they have the answer to
// initialize.
func (h *handshake) confirm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch h.current.Load().phase {
	case phaseOpened:
		h.update(func(a *agreement) { a.phase = phaseReady })
		close(h.ready)
	case phaseOpening:
		h.confirmed = true
	}
}
