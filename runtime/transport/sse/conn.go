package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

// conn is the server end of a connection. It is a [transport.Conn].
type conn struct {
	principal string
	o         HandlerOptions
	in, out   *queue.Queue
	account   *usage

	requests *guard.Meter // the requests that are being served
	pending  *guard.Meter // the notifications and short answers that are pending in the session
	unread   *guard.Meter // the messages that are not written yet

	mu      sync.Mutex
	serving bool // the stream is being served, or was; guarded by mu
	once    sync.Once
	writing atomic.Bool        // whether serve is writing to the client
	ended   chan struct{}      // closed when the connection has ended
	served  chan struct{}      // closed when serving the stream has returned
	life    context.Context    // ends when the stream must end, even with pending messages
	stop    context.CancelFunc // ends life

	watching sync.Mutex
	watched  *auth.Identity // whose token keeps the connection open; nil if there is none
	ignore   func()         // ends the watch of that token
}

func newConn(principal string, o HandlerOptions) *conn {
	c := &conn{
		principal: principal, o: o,
		in:    queue.New(o.Limits.Queue, o.Timeouts.Stall),
		out:   queue.New(o.Limits.Queue, o.Timeouts.Stall),
		ended: make(chan struct{}), served: make(chan struct{}),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	return c
}

// begin sets the account of the connection, before the connection is used.
func (c *conn) begin(a *usage) {
	c.account = a
	c.requests = guard.NewMeter(a.requests, freeBytes)
	c.pending = guard.NewMeter(a.requests, freeBytes)
	c.unread = guard.NewMeter(a.unread, freeBytes)
	c.in.Limit(c.pending.Limit)
	c.out.Limit(c.unread.Limit)
}

// watch makes the connection end with the token of a request, if that is valid for longer than the
// current one.
func (c *conn) watch(gate *guard.Guard, ctx context.Context, r *http.Request) {
	i, ok := auth.FromContext(ctx)
	if gate.Auth == nil || !ok {
		return
	}
	c.watching.Lock()
	defer c.watching.Unlock()
	if c.watched != nil {
		if c.watched.Expiry.IsZero() || !i.Expiry.IsZero() && !i.Expiry.After(c.watched.Expiry) {
			return
		}
		c.ignore()
	}
	c.watched = i
	c.ignore = gate.Auth.Watch(r, i, func(err error) { c.fail(fmt.Errorf("%w: %w", transport.ErrClosed, err)) })
}

// unwatch ends the watch when the stream has ended.
func (c *conn) unwatch() {
	c.watching.Lock()
	defer c.watching.Unlock()
	if c.watched != nil {
		c.ignore()
	}
	c.watched, c.ignore = new(auth.Identity), func() {} // never replaced
}

// Info implements [transport.Described].
func (c *conn) Info() transport.Info { return transport.Info{Network: "tcp", Protocol: "http"} }

// Read returns the next posted message.
func (c *conn) Read() (transport.Message, error) { return c.in.Next() }

// Write sends m on the stream. It waits for room; see queue.
func (c *conn) Write(ctx context.Context, m transport.Message) error {
	c.unread.Add(sizeOf(&m))
	return c.put(ctx, m)
}

// put queues a message that counts as unread.
func (c *conn) put(ctx context.Context, m transport.Message) error {
	err := c.out.Put(ctx, m)
	if err != nil {
		c.unread.Add(-sizeOf(&m))
	}
	return err
}

// request is the Reply of a request.
type request struct {
	c  *conn
	id jsonrpc.ID
}

// Send implements [transport.Reply]. There is one stream for all messages.
func (r *request) Send(ctx context.Context, text []byte) error {
	return r.c.Write(ctx, transport.Message{Text: text})
}

// Answer implements [transport.Reply]. It replaces the answer by an error if there is no room for it,
// because the account does not read earlier messages.
func (r *request) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	if text == nil {
		return nil
	}
	m := transport.Message{Text: text}
	if !r.c.unread.Take(sizeOf(&m)) {
		failed := jsonrpc.NewErrorResponse(r.id, &jsonrpc.Error{Code: engine.CodeOverloaded, Message: "overloaded: the answer was dropped, because earlier ones are not read"})
		m.Text, _ = codec.Marshal(&failed) // strings of our own are always encoded
		r.c.unread.Add(sizeOf(&m))
	}
	return r.c.put(ctx, m)
}

// sizeOf returns the memory of a message that waits for its client, in bytes.
func sizeOf(m *transport.Message) int { return len(m.Text) + 128 }

// Meters implements [mailbox.Conn].
func (c *conn) Meters() (requests, pending mailbox.Meter) { return c.requests, c.pending }

// startServing records that the stream is about to be served. It returns false if the connection has
// ended.
func (c *conn) startServing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		return false
	default:
		c.serving = true
		return true
	}
}

// Close ends the connection after pending messages were sent or Timeouts.Flush has passed. It does not
// wait for a stream that is not served yet: the function that opens the connection may call it.
func (c *conn) Close() error {
	c.mu.Lock()
	c.fail(transport.ErrClosed)
	serving := c.serving
	c.mu.Unlock()
	c.in.Discard()
	if !serving {
		c.stop()
		return nil
	}
	timer := time.NewTimer(c.o.Timeouts.Flush)
	defer timer.Stop()
	select {
	case <-c.served:
	case <-timer.C:
	}
	c.stop()
	<-c.served
	return nil
}

// fail ends the connection with err. Pending messages are still sent.
func (c *conn) fail(err error) {
	c.once.Do(func() {
		close(c.ended)
		c.in.Close(err)
		c.out.Close(err)
	})
}

// serve writes the stream, starting with the event first, until the connection ends or the client
// disconnects. ctx is that of the client's request.
func (c *conn) serve(w http.ResponseWriter, ctx context.Context, first eventstream.Event) {
	rc := http.NewResponseController(w)
	disconnected := func() { c.fail(fmt.Errorf("%w: client disconnected", transport.ErrClosed)) }
	defer context.AfterFunc(ctx, func() {
		// net/http ends ctx before a failing write returns; then serve knows the cause.
		if !c.writing.Load() {
			disconnected()
		}
	})()
	defer c.interruptBy(rc)()
	defer c.unread.End()
	var ticking sync.WaitGroup
	ticking.Go(c.tick) // ends when the connection is over
	defer ticking.Wait()
	defer c.fail(transport.ErrClosed) // if w panics

	buf, size := eventstream.Append(nil, first), 0 // size is that of the messages in buf; see sizeOf
	for {
		c.writing.Store(true)
		err := c.writeOut(w, rc, buf)
		c.writing.Store(false)
		if err != nil {
			switch {
			case errors.Is(err, errors.ErrUnsupported):
				boundary.Logger(nil).Error("stream not served", "error", "http.ResponseWriter has neither Flush nor Unwrap")
			case errors.Is(err, os.ErrDeadlineExceeded):
				err = fmt.Errorf("%w: %w", transport.ErrStalled, err)
			}
			c.fail(fmt.Errorf("%w: %w", transport.ErrClosed, err))
			c.out.Discard()
			return
		}
		c.unread.Add(-size)
		size = 0
		if ctx.Err() != nil {
			disconnected()
		}
		batch, err := c.out.Take()
		if err != nil {
			return
		}
		if cap(buf) > maxBuffer {
			buf = nil // grown for long messages
		}
		buf = buf[:0]
		for _, m := range batch {
			if m.Text == nil {
				buf = eventstream.AppendComment(buf, "")
				continue
			}
			size += sizeOf(&m)
			// Old clients may not know that "message" is the default.
			buf = append(buf, "event: message\n"...)
			buf = eventstream.Append(buf, eventstream.Event{Data: m.Text})
		}
	}
}

// interruptBy makes rc end the writes of the stream when the life of the connection ends. stop ends
// that, and waits for rc: package http does not allow its use after the handler has returned.
func (c *conn) interruptBy(rc *http.ResponseController) (stop func()) {
	done := make(chan struct{})
	cancel := context.AfterFunc(c.life, func() {
		defer close(done)
		rc.SetWriteDeadline(time.Now())
	})
	return func() {
		if !cancel() {
			<-done
		}
	}
}

// maxBuffer is the size of the buffer that a stream keeps between writes, and of one write.
const maxBuffer = 64 << 10

// writeOut writes and flushes text. It fails if the client accepts no bytes for Timeouts.Stall, or
// when the stream must end.
func (c *conn) writeOut(w http.ResponseWriter, rc *http.ResponseController, text []byte) error {
	// HTTP/2 resets a stream whose deadline passes, even if nothing is being written.
	defer rc.SetWriteDeadline(time.Time{})
	for part := range slices.Chunk(text, maxBuffer) {
		rc.SetWriteDeadline(time.Now().Add(c.o.Timeouts.Stall)) // not all writers support deadlines
		if c.life.Err() != nil {
			rc.SetWriteDeadline(time.Now())
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		c.out.Moved()
	}
	return rc.Flush()
}

// tick queues keep-alive comments, represented by messages without text.
func (c *conn) tick() {
	ticker := time.NewTicker(c.o.KeepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.out.Put(context.Background(), transport.Message{}) // fails after the end
		case <-c.ended:
			return
		}
	}
}
