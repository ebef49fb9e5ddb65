package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// Options sets the limits of a connection. The zero value means the defaults.
type Options struct {
	// MaxMessage is the maximum size in bytes of a received line; default
	// [transport.DefaultMaxMessage].
	MaxMessage int
	// MaxQueue is the maximum size in bytes of pending messages; default
	// [transport.DefaultMaxQueue].
	MaxQueue int
	// StallTimeout is how long Write waits for a peer that does not read; default
	// [transport.DefaultStallTimeout].
	StallTimeout time.Duration
	// FlushTimeout is how long Close waits for the peer to read pending messages; default one
	// second.
	FlushTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxMessage <= 0 {
		o.MaxMessage = transport.DefaultMaxMessage
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = transport.DefaultMaxQueue
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = transport.DefaultStallTimeout
	}
	if o.FlushTimeout <= 0 {
		o.FlushTimeout = time.Second
	}
	return o
}

// conn is a connection over two streams.
type conn struct {
	r     io.ReadCloser
	w     io.WriteCloser
	lines *lines
	out   *queue.Queue
	flush time.Duration

	written chan struct{} // closed when the writing goroutine has returned
	failure atomic.Value  // the error of a failed write; nil before
	closed  chan struct{} // closed when Close was called
	close   func() error
}

// New returns a connection that reads from r and writes to w, and closes both in the end. Closing
// them must end a concurrent Read or Write, as it does for pipes and sockets.
func New(r io.ReadCloser, w io.WriteCloser, o Options) transport.HalfCloser {
	return newConn(r, w, o)
}

func newConn(r io.ReadCloser, w io.WriteCloser, o Options) *conn {
	o = o.withDefaults()
	c := &conn{
		r: r, w: w,
		lines:   newLines(r, o.MaxMessage),
		out:     queue.New(o.MaxQueue, o.StallTimeout),
		flush:   o.FlushTimeout,
		written: make(chan struct{}),
		closed:  make(chan struct{}),
	}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		return errors.Join(c.flushAndCloseWriter(), ignoreClosed(c.r.Close()))
	})
	go c.write() // ends with the connection
	return c
}

// Info implements [transport.Described].
func (c *conn) Info() transport.Info { return transport.Info{Network: "pipe"} }

// Read returns the next non-empty line.
func (c *conn) Read() (transport.Message, error) {
	for {
		text, err := c.lines.next()
		select {
		case <-c.closed:
			return transport.Message{}, transport.ErrClosed
		default:
		}
		if failure, failed := c.failure.Load().(error); failed && err != nil && isInterrupted(err) {
			return transport.Message{}, failure
		}
		if err != nil {
			return transport.Message{}, err
		}
		if len(bytes.TrimSpace(text)) > 0 {
			return transport.Message{Text: text}, nil
		}
	}
}

// Write queues m.
func (c *conn) Write(ctx context.Context, m transport.Message) error { return c.out.Put(ctx, m) }

// CloseWrite closes the writer after all pending messages were written.
func (c *conn) CloseWrite() error {
	c.out.Close(transport.ErrClosed)
	select {
	case <-c.written:
		return ignoreClosed(c.w.Close())
	case <-c.closed:
		return transport.ErrClosed
	}
}

// Close ends the connection after pending messages were written or FlushTimeout has passed. If
// closing the writer does not end a concurrent Write, that goroutine stays until the peer reads or
// closes.
func (c *conn) Close() error { return c.close() }

// flushAndCloseWriter waits up to FlushTimeout for pending messages to be written, closes the
// writer, and waits again for the writing goroutine.
func (c *conn) flushAndCloseWriter() error {
	c.out.Close(transport.ErrClosed)
	timer := time.NewTimer(c.flush)
	defer timer.Stop()
	select {
	case <-c.written:
		return ignoreClosed(c.w.Close())
	case <-timer.C:
	}
	err := ignoreClosed(c.w.Close())
	timer.Reset(c.flush)
	select {
	case <-c.written:
	case <-timer.C:
	}
	return err
}

// Sizes of a write. Messages are collected up to maxBatch and written in one system call to a fast
// peer. A slow peer receives less at a time, so that it is not mistaken for one that has stopped
// reading.
const (
	maxBatch  = 64 << 10
	slowBatch = 1 << 10
	slow      = time.Second // duration of a system call with a slow peer
)

// write writes queued messages until the queue is closed.
func (c *conn) write() {
	defer close(c.written)
	buf := make([]byte, 0, 4<<10)
	step := 4 << 10
	for {
		batch, err := c.out.Take()
		if err != nil {
			return
		}
		for i, m := range batch {
			buf = appendLine(buf, m.Text)
			if i < len(batch)-1 && len(buf) < maxBatch {
				continue
			}
			if err := c.writeSteps(buf, &step); err != nil {
				c.fail(fmt.Errorf("%w: peer does not read: %w", transport.ErrClosed, err))
				return
			}
			if buf = buf[:0]; cap(buf) > 2*maxBatch {
				buf = nil // grown for one long message
			}
		}
	}
}

// fail ends the connection after a failed write. A peer that has closed its input may live on, and
// answers no pending request. Read returns what the peer has written before, and then err.
func (c *conn) fail(err error) {
	c.failure.Store(err)
	c.out.Close(err)
	c.out.Discard()
	if r, ok := c.r.(interface{ SetReadDeadline(time.Time) error }); ok && r.SetReadDeadline(time.Now().Add(waitDelay)) == nil {
		return
	}
	time.AfterFunc(waitDelay, func() { c.r.Close() }) // its goroutine ends by itself
}

// isInterrupted reports whether err is that of a read that fail has ended.
func isInterrupted(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

// writeSteps writes text, at most step bytes at a time, and adapts step to the speed of the peer.
func (c *conn) writeSteps(text []byte, step *int) error {
	for len(text) > 0 {
		n := min(len(text), *step)
		start := time.Now()
		if _, err := c.w.Write(text[:n]); err != nil {
			return err
		}
		c.out.Moved()
		if text = text[n:]; time.Since(start) >= slow {
			*step = slowBatch
		} else if *step < maxBatch {
			*step *= 2
		}
	}
	return nil
}

// appendLine appends a message as a line. It replaces line breaks by spaces: in JSON text they can
// only occur between tokens.
func appendLine(dst, text []byte) []byte {
	at := len(dst)
	dst = append(dst, text...)
	if line := dst[at:]; bytes.IndexByte(line, '\n') >= 0 {
		for i, b := range line {
			if b == '\n' {
				line[i] = ' '
			}
		}
	}
	return append(dst, '\n')
}

// ignoreClosed returns err, or nil if err reports that a stream was already closed.
func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
