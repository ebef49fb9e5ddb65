package endpoint

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// Limits of what a connection reads ahead, in bytes: without one of the places of its listener, which
// limit the memory of all connections, and with one. A client that has sent more is served as net/http
// does it.
const (
	minAhead  = 1 << 10
	maxAhead  = 64 << 10
	maxPlaces = 64
)

// newListener returns a listener with the connections of l, which must be read by an [http.Server]
// whose ConnContext is connContext.
//
// It makes an HTTP/1.1 server notice that a client has disconnected while a request of it is being
// served, although the client has already sent a part of the next request. While a handler runs,
// package net/http waits for one byte of the connection, and ends the context of the request if the
// connection ends instead. If the byte is there, it does not read further, so that the context goes
// on until a write fails. From then on, a connection of this listener reads ahead, into memory,
// until net/http reads again.
//
// A connection with TLS is not wrapped, because net/http must know it: its clients can use HTTP/2,
// which tells the server when a request ends.
func newListener(l net.Listener) net.Listener {
	return listener{l, make(chan struct{}, maxPlaces)}
}

type listener struct {
	net.Listener
	places chan struct{} // holds an item for each place that is taken
}

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if tcp, ok := accepted.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp, places: l.places}, err
	}
	return accepted, err
}

// connContext returns a context for the requests of a connection. It ends with the connection.
func connContext(ctx context.Context, accepted net.Conn) context.Context {
	if c, ok := accepted.(*conn); ok {
		ctx, c.cancel = context.WithCancel(ctx)
	}
	return ctx
}

// conn is a connection that may read ahead. Its methods may be called concurrently, as those of any
// connection, but net/http calls Read by one goroutine at a time.
type conn struct {
	*net.TCPConn
	cancel context.CancelFunc // ends the context of the requests
	places chan struct{}      // of the listener

	mu       sync.Mutex
	deadline time.Time     // of Read
	ahead    chan struct{} // closed when the goroutine that reads ahead has ended; nil if there is none
	placed   bool          // the connection has a place
	closed   bool          // Close was called

	// What was read ahead, and the error after it. The goroutine that reads ahead owns them.
	text []byte
	err  error
}

// Read reads from the connection, after what was read ahead.
func (c *conn) Read(p []byte) (n int, err error) {
	c.stopAhead()
	switch {
	case len(c.text) > 0:
		n = copy(p, c.text)
		if c.text = c.text[n:]; len(c.text) == 0 {
			c.text = nil
			c.leavePlace(false)
		}
	case c.err != nil:
		return 0, c.err
	default:
		n, err = c.TCPConn.Read(p)
	}
	if n == 1 && len(p) == 1 && err == nil { // a handler is running
		c.startAhead()
	}
	return n, err
}

// startAhead starts to read ahead.
func (c *conn) startAhead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = make(chan struct{})
	go c.readAhead(c.ahead) // ends with the connection, or with stopAhead
}

// stopAhead waits until the connection no longer reads ahead.
func (c *conn) stopAhead() {
	c.mu.Lock()
	ahead := c.ahead
	if ahead != nil {
		c.TCPConn.SetReadDeadline(time.Unix(1, 0))
	}
	c.mu.Unlock()
	if ahead == nil {
		return
	}
	<-ahead
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = nil
	c.TCPConn.SetReadDeadline(c.deadline)
}

// readAhead reads until the connection ends, a deadline has passed, or there is no room.
func (c *conn) readAhead(ended chan<- struct{}) {
	defer close(ended)
	for limit := minAhead; c.err == nil && len(c.text) < maxAhead; {
		if len(c.text) >= limit {
			if !c.takePlace() {
				return
			}
			limit = maxAhead
		}
		c.text = slices.Grow(c.text, 512)
		n, err := c.TCPConn.Read(c.text[len(c.text):min(cap(c.text), limit)])
		c.text = c.text[:len(c.text)+n]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		c.err = err
	}
	if c.err != nil && c.cancel != nil {
		c.cancel()
	}
}

// SetReadDeadline sets the deadline of Read. It does not end reading ahead.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	if c.ahead != nil {
		return nil
	}
	return c.TCPConn.SetReadDeadline(t)
}

// SetDeadline sets the deadlines of Read and Write.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// takePlace takes a place of the listener, unless the connection has one. It returns false if there is
// none, or if the connection is closed.
func (c *conn) takePlace() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.placed {
		return c.placed
	}
	select {
	case c.places <- struct{}{}:
		c.placed = true
	default:
	}
	return c.placed
}

// leavePlace gives back the place of the connection, if it has one. It gets none any more if closed is
// set.
func (c *conn) leavePlace(closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = c.closed || closed
	if c.placed {
		c.placed = false
		<-c.places
	}
}

// Close closes the connection.
func (c *conn) Close() error {
	defer c.leavePlace(true)
	return c.TCPConn.Close()
}
