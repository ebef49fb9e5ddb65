// Package inmemory is a transport within one process. A pair of connected ends serves tests, hosts
// that run a server themselves, and gateways.
package inmemory

import (
	"context"
	"io"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// Options sets the limits of a pair. The zero value means the defaults.
type Options struct {
	// MaxQueue is the maximum size in bytes of pending messages, in each direction; default
	// [transport.DefaultMaxQueue].
	MaxQueue int
	// StallTimeout is how long Write waits for a peer that does not read; default
	// [transport.DefaultStallTimeout].
	StallTimeout time.Duration
}

// Pair returns two connected ends. A message written to one end is read from the other, without a
// copy. Closing either end closes the connection for both: Read of the other end returns the
// pending messages, and then [transport.ErrClosed]. Close waits for the goroutines that deliver
// messages at its end.
func Pair(o Options) (a, b transport.HalfCloser) {
	if o.MaxQueue <= 0 {
		o.MaxQueue = transport.DefaultMaxQueue
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = transport.DefaultStallTimeout
	}
	x, y := queue.New(o.MaxQueue, o.StallTimeout), queue.New(o.MaxQueue, o.StallTimeout)
	return &conn{in: x, out: y}, &conn{in: y, out: x}
}

// conn is one end of a pair.
type conn struct {
	in, out *queue.Queue
}

// Read returns the next message that was written to the other end.
func (c *conn) Read() (transport.Message, error) { return c.in.Next() }

// Push implements [ability.Pusher]. As a rule, the goroutine that writes a message calls take.
func (c *conn) Push(outer transport.Conn, take func(transport.Message, error)) bool {
	if outer != transport.Conn(c) {
		return false
	}
	c.in.Push(take)
	return true
}

// Write passes the text of m to the other end.
func (c *conn) Write(ctx context.Context, m transport.Message) error {
	err := c.out.Put(ctx, transport.Message{Text: m.Text})
	if err == io.EOF {
		return transport.ErrClosed
	}
	return err
}

// CloseWrite closes the sending direction: the other end reads the pending messages, and then
// [io.EOF]. It returns at once, and never fails.
func (c *conn) CloseWrite() error {
	c.out.Close(io.EOF)
	return nil
}

// Close closes the connection for both ends. It never fails.
func (c *conn) Close() error {
	c.in.Close(transport.ErrClosed)
	c.in.Discard()
	c.out.Close(transport.ErrClosed)
	c.in.Wait()
	return nil
}
