// Package inmemory is a transport within one process: two connected ends, for tests, for hosts that run a server
// themselves, and for gateways.
package inmemory

import (
	"context"
	"io"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// Options are the limits of a pair. The zero value means the defaults.
type Options struct {
	MaxQueue     int           // bytes that may wait in each direction; default [transport.DefaultMaxQueue]
	StallTimeout time.Duration // how long a writer waits for a peer that reads nothing; default [transport.DefaultStallTimeout]
}

// Pair returns two connected ends. What is written to one is read from the other, without a copy. Closing either
// ends the connection for both: the other end can still read what was written before, and gets
// [transport.ErrClosed] then. Close waits for the goroutines that hand over messages at its end.
func Pair(o Options) (a, b *Conn) {
	if o.MaxQueue <= 0 {
		o.MaxQueue = transport.DefaultMaxQueue
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = transport.DefaultStallTimeout
	}
	x, y := queue.New(o.MaxQueue, o.StallTimeout), queue.New(o.MaxQueue, o.StallTimeout)
	return &Conn{in: x, out: y}, &Conn{in: y, out: x}
}

// Conn is one end of a pair. It is a [transport.HalfCloser] and a [transport.Pusher].
type Conn struct {
	in, out *queue.Queue
	batch   []transport.Message // taken from in, not yet read
}

// Read returns the next message that was written to the other end.
func (c *Conn) Read() (transport.Message, error) {
	if len(c.batch) == 0 {
		var err error
		if c.batch, err = c.in.Take(); err != nil {
			return transport.Message{}, err
		}
	}
	m := c.batch[0]
	c.batch = c.batch[1:]
	c.in.Moved()
	return transport.Message{Text: m.Text}, nil
}

// Push implements [transport.Pusher]: a message is taken by the goroutine that writes it, as a rule.
func (c *Conn) Push(of transport.Conn, take func(transport.Message, error)) bool {
	if of != transport.Conn(c) {
		return false
	}
	c.in.Push(func(m transport.Message, err error) { take(transport.Message{Text: m.Text}, err) })
	return true
}

// Write hands m to the other end.
func (c *Conn) Write(ctx context.Context, m transport.Message) error {
	err := c.out.Put(ctx, m)
	if err == io.EOF {
		return transport.ErrClosed
	}
	return err
}

// CloseWrite lets the other end read [io.EOF] behind what was written before. It returns at once, and never fails.
func (c *Conn) CloseWrite() error {
	c.out.Close(io.EOF)
	return nil
}

// Close ends the connection for both ends. It never fails.
func (c *Conn) Close() error {
	c.in.Close(transport.ErrClosed)
	c.in.Discard()
	c.out.Close(transport.ErrClosed)
	c.in.Wait()
	return nil
}
