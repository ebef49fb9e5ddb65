package streamable

import (
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// place counts a POST without a session against MaxSessions, from before its message is read until
// its answer is written, or until its connection is over if that is later. Otherwise clients that
// write or read slowly could hold any number of messages in memory. All POSTs of a Stateless handler
// have a place, and modern requests.
type place struct {
	usage *usage
	users int         // the POST and the connection; guarded by the mu of the handler
	body  guard.Share // of a modern request
}

// usage is what the places of one account use: of a principal, or of a network of clients without a
// principal. The mu of the handler guards it.
type usage struct {
	account string
	places  int
	answers int         // bytes of long answers that are being written
	bodies  *guard.Room // of modern requests
	of      *usage      // for a network, what all clients without a principal use
}

// networkShare is the part of the bytes of all clients without a principal, one divided by it, that
// those of one network may use. The number of networks is not limited, and so is not what they
// would use if each had a limit of its own.
const networkShare = 2

// maxBodies is how many bytes the bodies of an account's modern requests may have, and the answers
// that it does not read.
func (h *Handler) maxBodies() int { return guard.MaxBodies * h.o.MaxMessage }

func (h *Handler) newUsage(account string) *usage {
	if !h.guard.IsNetwork(account) {
		return &usage{account: account, bodies: guard.NewRoom(h.maxBodies())}
	}
	return &usage{account: account, bodies: h.strangers.bodies.Part(h.maxBodies() / networkShare), of: &h.strangers}
}

// takePlace returns a place for a POST. It fails with errFull or errTooManyRequests if there is
// none.
func (h *Handler) takePlace(account string) (*place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.places >= h.o.MaxSessions {
		return nil, errFull
	}
	u := h.usages[account]
	if u == nil {
		u = h.newUsage(account)
		h.usages[account] = u
	}
	if u.places >= h.limitOf(account) {
		return nil, errTooManyRequests
	}
	h.places++
	u.places++
	return &place{usage: u, users: 1}, nil
}

// leavePlace records that the POST of a place has ended.
func (h *Handler) leavePlace(p *place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leave(p)
}

// leave frees a place after its last user. mu must be held.
func (h *Handler) leave(p *place) {
	if p.users--; p.users > 0 {
		return
	}
	h.places--
	if p.usage.places--; p.usage.places == 0 {
		delete(h.usages, p.usage.account)
	}
}

// holdAnswer counts n bytes of a long answer that is being written. It returns false if the
// account does not read earlier ones.
func (h *Handler) holdAnswer(p *place, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := p.usage; u.of == nil && u.answers >= h.maxBodies() || u.of != nil && (u.answers >= h.maxBodies()/networkShare || u.of.answers >= h.maxBodies()) {
		return false
	}
	for u := p.usage; u != nil; u = u.of {
		u.answers += n
	}
	return true
}

func (h *Handler) releaseAnswer(p *place, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for u := p.usage; u != nil; u = u.of {
		u.answers -= n
	}
}

// enlist adds a to the requests that Shutdown waits for. It returns false if the handler is shutting
// down.
func (h *Handler) enlist(a *answerer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining.Load() {
		return false
	}
	if a.next = h.answerers; a.next != nil {
		a.next.previous = a
	}
	h.answerers, a.listed = a, true
	return true
}

// delist removes a from the list, if it is there. After that, interrupt has no effect on it.
func (h *Handler) delist(a *answerer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !a.listed {
		return
	}
	if a.next != nil {
		a.next.previous = a.previous
	}
	if a.previous != nil {
		a.previous.next = a.next
	} else {
		h.answerers = a.next
	}
	a.previous, a.next, a.listed = nil, nil, false
	h.checkEmpty()
}

// interrupt ends the writes of a listed answerer, and later ones.
func (h *Handler) interrupt(a *answerer) {
	a.moved.interrupted.Store(true)
	h.mu.Lock() // delays the end of the response, after which its ResponseWriter is reused
	defer h.mu.Unlock()
	if a.listed {
		a.conn.SetWriteDeadline(time.Now())
	}
}

// openAnswerers returns the listed answerers.
func (h *Handler) openAnswerers() (list []*answerer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := h.answerers; a != nil; a = a.next {
		list = append(list, a)
	}
	return list
}

// checkEmpty closes empty if the handler is draining and nothing is left. It is called when one of
// both becomes true, with mu held.
func (h *Handler) checkEmpty() {
	if h.draining.Load() && len(h.conns) == 0 && h.answerers == nil && h.forwards == 0 && !h.emptied {
		h.emptied = true
		close(h.empty)
	}
}
