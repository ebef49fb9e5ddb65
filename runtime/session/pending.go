package session

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
)

// answer is the result of a request, or the error if it has none.
type answer struct {
	result json.RawMessage
	err    error
}

// lateFunc receives an answer that arrives after its call has returned; see OnLate.
type lateFunc func(json.RawMessage, error)

// pending is a request that waits for its answer. The goroutine that removes it from calls must
// answer it.
type pending struct {
	answer chan answer // buffers one
	timer  *time.Timer // nil before the first start; stopped while the request is unused
	late   lateFunc    // nil until the call has returned; guarded by calls.mu

	number  int64  // of its id; guarded by calls.mu
	session uint32 // number of the session it was sent in; see reopening
}

// start starts the timer.
func (p *pending) start(d time.Duration) {
	if p.timer == nil {
		p.timer = time.NewTimer(d)
		return
	}
	p.timer.Reset(d)
}

// maxLate is how many calls may wait for a late answer.
const maxLate = 1024

// calls is the set of requests to the peer that have no answer yet. Its methods are safe for
// concurrent use.
type calls struct {
	activity *engine.Activity
	// deliverLate passes an answer to a function of OnLate, in a goroutine of the session. It is
	// called with mu held and before close has returned.
	deliverLate func(lateFunc, answer)
	idPrefix    string    // prefix of request ids; "" for numeric ids
	reuse       sync.Pool // of answered *pending

	mu        sync.Mutex
	closed    error // the error of add after close; nil before
	draining  bool  // add accepts only requests with inside set
	last      int64
	open      map[int64]*pending // by the number of the id
	lateCount int                // of open, the calls that have returned
	// Numbers of the returned calls, the oldest first. It may include calls that were answered.
	late []int64
}

// id returns the id of the request with a number.
func (c *calls) id(number int64) jsonrpc.ID {
	if c.idPrefix != "" {
		return codec.StringScalar(c.idPrefix + strconv.FormatInt(number, 10))
	}
	return codec.IntScalar(number)
}

// number returns the number of the request that a peer answers, or 0 if no request has the id. Some
// peers answer request 1 with id 1.0, which JSON-RPC calls the same value.
func (c *calls) number(id jsonrpc.ID) int64 {
	if c.idPrefix == "" {
		number, _ := id.Int()
		return number
	}
	text, _ := id.Text()
	digits, _ := strings.CutPrefix(text, c.idPrefix)
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || c.id(number) != id {
		return 0
	}
	return number
}

// add adds a request and returns its id. inside is true for a request that belongs to a request of
// the peer or is sent again in a new session: Shutdown waits for these. It fails with ErrClosed
// while the session shuts down, unless inside is true, and later with the error of close. session is
// the number of the session in which the request is sent.
func (c *calls) add(inside bool, session uint32) (jsonrpc.ID, *pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed != nil:
		return jsonrpc.ID{}, nil, c.closed
	case c.draining && !inside:
		return jsonrpc.ID{}, nil, ErrClosed
	}
	p, ok := c.reuse.Get().(*pending)
	if !ok {
		p = &pending{answer: make(chan answer, 1)}
	}
	c.last++
	p.number, p.session = c.last, session
	c.open[p.number] = p
	c.activity.Begin()
	return c.id(p.number), p, nil
}

// waiting reports whether a request with an id has no answer yet.
func (c *calls) waiting(id jsonrpc.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open[c.number(id)] != nil
}

// remove removes a request. It returns false if the request has been answered, or is about to be.
func (c *calls) remove(p *pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[p.number] != p {
		return false
	}
	delete(c.open, p.number)
	c.activity.End()
	return true
}

// deliver answers a request. It returns false if there is none with that number.
func (c *calls) deliver(number int64, a answer) bool {
	c.mu.Lock()
	p := c.open[number]
	if p == nil {
		c.mu.Unlock()
		return false
	}
	delete(c.open, number)
	if p.late != nil {
		c.lateCount--
		c.deliverLate(p.late, a)
		c.mu.Unlock()
		return true
	}
	c.activity.End()
	c.mu.Unlock()
	p.answer <- a // the channel is empty
	return true
}

// awaitLate makes late receive the answer to a request whose call returns without it. open is false
// if the answer is in p already, or about to be: then the caller must pass it on. If more than
// maxLate calls wait, the oldest one ends with ErrTimeout, and dropped is its id.
func (c *calls) awaitLate(p *pending, late lateFunc) (open bool, dropped jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[p.number] != p {
		return false, jsonrpc.ID{}
	}
	p.late = late
	c.lateCount++
	c.activity.End()
	c.late = append(c.late, p.number)
	if c.lateCount > maxLate || len(c.late) > 2*maxLate {
		c.late = slices.DeleteFunc(c.late, func(number int64) bool { return c.open[number] == nil })
	}
	if c.lateCount > maxLate {
		oldest := c.open[c.late[0]]
		dropped = c.id(oldest.number)
		delete(c.open, oldest.number)
		c.late = c.late[1:]
		c.lateCount--
		c.deliverLate(oldest.late, answer{err: ErrTimeout})
	}
	return true, dropped
}

// lose fails the open requests of a lost session and of earlier ones with err.
func (c *calls) lose(session uint32, err error) {
	c.mu.Lock()
	var lost []int64
	for number, p := range c.open {
		if p.session <= session {
			lost = append(lost, number)
		}
	}
	c.mu.Unlock()
	for _, number := range lost {
		c.deliver(number, answer{err: err})
	}
}

// drain rejects further requests, except those with inside set; see add.
func (c *calls) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
}

// close fails all open requests with err, and further ones with later.
func (c *calls) close(err, later error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = later
	for _, p := range c.open {
		if p.late != nil {
			c.deliverLate(p.late, answer{err: err})
			continue
		}
		c.activity.End()
		p.answer <- answer{err: err} // the channel is empty
	}
	c.open, c.late, c.lateCount = map[int64]*pending{}, nil, 0
}
