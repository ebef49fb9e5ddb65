package streamable

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// place counts a POST without a session against Limits.Requests, from before its message is read
// until its response is written, or until its connection has ended if that is later. Otherwise
// clients that write or read slowly could hold any number of messages in memory. All POSTs of a
// Stateless handler and all modern requests have a place.
type place struct {
	usage *usage
	users int // the POST and the connection; guarded by the mu of the handler
	body  guard.Share
}

// usage counts what one account uses: a principal, or a network of clients without a principal.
// Limits of each session alone would not limit a client with many sessions.
type usage struct {
	account                  string
	h                        *Handler
	maxSessions, maxRequests int

	users int // the places, the sessions, and their POSTs; guarded by the mu of the handler

	requests  atomic.Int64 // unanswered requests of the sessions, and places
	exchanges atomic.Int64 // HTTP exchanges with requests or a stream, whose response may not be read
	posts     atomic.Int64 // POSTs without a place
	bodies    *guard.Room  // messages that are being received or served, or that sessions hold
	queued    *guard.Room  // bytes that are pending for the connections of the sessions
	answers   *guard.Room  // long responses, and those to batches, that are being written
	reads     *reads
}

// maxReads is how many reads of stored events of one account run at once. For each read, a store
// may copy a mebibyte or one long event. The copy counts for the account only after it was read.
const maxReads = 16

// reads limits the reads of stored events of an account that run at once. Further reads wait.
type reads struct {
	running chan struct{} // holds an item per read
	of      *reads        // the reads of all networks, for those of one; otherwise nil
}

func newReads(max int, of *reads) *reads { return &reads{make(chan struct{}, max), of} }

// begin waits until a read may run. It fails with the cause of ctx if ctx ends, and with
// [transport.ErrClosed] if over is closed. If it does not fail, call end after the read.
func (x *reads) begin(ctx context.Context, over <-chan struct{}) error {
	select {
	case x.running <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return transport.ErrClosed
	}
	if x.of == nil {
		return nil
	}
	err := x.of.begin(ctx, over)
	if err != nil {
		<-x.running
	}
	return err
}

// end records that a read has ended.
func (x *reads) end() {
	if x.of != nil {
		x.of.end()
	}
	<-x.running
}

// errUnread is the message of the error that replaces a long response for which there is no room.
const errUnread = "overloaded: the answer was dropped, because earlier ones are not read"

// networkShare divides the bytes and reads that all clients without a principal may use together:
// the clients of one network may use one part of them. A limit for each network alone would not be
// enough, because the number of networks is not limited.
const networkShare = 2

// maxBodies is the limit in bytes for the requests of an account, and the limit for the responses
// that it does not read.
func (h *Handler) maxBodies() int { return guard.MaxBodies * h.o.Limits.Message }

// use returns the usage of an account. Call unuse after the last use of it. mu must be held.
func (h *Handler) use(account string) *usage {
	u := h.usages[account]
	if u == nil {
		u = &usage{account: account, h: h, maxSessions: h.maxSessions(account)}
		u.maxRequests = h.guard.Limit(account, h.o.Limits.Requests, h.o.Limits.RequestsPerPrincipal)
		if h.guard.IsNetwork(account) {
			u.bodies = h.strangers.bodies.Part(h.maxBodies() / networkShare)
			u.queued = h.strangers.queued.Part(h.maxBodies() / networkShare)
			u.answers = h.strangers.answers.Part(h.maxBodies() / networkShare)
			u.reads = newReads(maxReads/networkShare, h.strangers.reads)
		} else {
			u.bodies, u.queued, u.answers = guard.NewRoom(h.maxBodies()), guard.NewRoom(h.maxBodies()), guard.NewRoom(h.maxBodies())
			u.reads = newReads(maxReads, nil)
		}
		h.usages[account] = u
	}
	u.users++
	return u
}

// unuse undoes use. mu must be held.
func (h *Handler) unuse(u *usage) {
	if u.users--; u.users == 0 {
		delete(h.usages, u.account)
	}
}

// enter is use for a POST without a place. free is how many bytes of its message do not count. It
// is 0 if the account sends more POSTs at once than maxExchanges.
func (h *Handler) enter(account string) (u *usage, free int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, free = h.use(account), h.o.Limits.Initialize
	if u.posts.Add(1) > u.maxExchanges() {
		free = 0
	}
	return u, free
}

// exit undoes enter.
func (h *Handler) exit(u *usage) {
	u.posts.Add(-1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unuse(u)
}

// serve counts n requests. It fails with errTooManyRequests or errFull, and counts nothing, if
// there are too many.
func (u *usage) serve(n int) error {
	if u.requests.Add(int64(n)) > int64(u.maxRequests) {
		u.requests.Add(int64(-n))
		return errTooManyRequests
	}
	if u.h.requests.Add(int64(n)) > int64(u.h.o.Limits.Requests) {
		u.served(n)
		return errFull
	}
	return nil
}

// served stops counting n requests.
func (u *usage) served(n int) {
	u.requests.Add(int64(-n))
	u.h.requests.Add(int64(-n))
}

// maxExchanges is the limit of the exchanges of the sessions that have requests or a stream.
func (u *usage) maxExchanges() int64 { return int64(u.maxRequests + u.maxSessions) }

// exchange counts an exchange of a session. It returns false without counting it if there are too
// many: in addition to those with requests, each session may have a standing stream.
func (u *usage) exchange() bool {
	if u.exchanges.Add(1) > u.maxExchanges() {
		u.exchanges.Add(-1)
		return false
	}
	return true
}

// takePlace returns a place for a POST. It fails with errFull or errTooManyRequests if there is
// none.
func (h *Handler) takePlace(account string) (*place, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.use(account)
	if err := u.serve(1); err != nil {
		h.unuse(u)
		return nil, err
	}
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
	p.usage.served(1)
	h.unuse(p.usage)
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

// checkEmpty closes empty if the handler is draining and nothing is left to wait for. It is called
// when either becomes true, with mu held.
func (h *Handler) checkEmpty() {
	if h.draining.Load() && len(h.conns) == 0 && h.answerers == nil && h.forwards == 0 && !h.emptied {
		h.emptied = true
		close(h.empty)
	}
}
