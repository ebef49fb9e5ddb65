package jetstreamstore

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Bus passes messages between the servers of a fleet, over a subject of core NATS. It implements
// the interface Bus of [runtime/server]. NATS delivers a message at most once. After the connection
// broke, and after messages were dropped, the Bus reports to its subscribers that messages may be
// lost.
//
// [runtime/server]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/server#Bus
type Bus struct {
	nc      *nats.Conn
	subject string

	sent       atomic.Uint64 // counts each message before and after it is in the buffer
	received   atomic.Uint64 // the count up to which the server has them
	confirming atomic.Bool   // a goroutine of confirm runs
}

// NewBus returns a Bus over a subject; the default is mcp-bus. All servers of a fleet
// use the same subject, and each fleet another one. The Bus needs no stream.
func NewBus(nc *nats.Conn, subject string) *Bus {
	if subject == "" {
		subject = "mcp-bus"
	}
	return &Bus{nc: nc, subject: subject}
}

// Publish sends a message. It returns when the message is in the buffer of the connection. If
// Publish fails, or if the connection breaks before the server has the message, the Bus reports to
// the subscribers after the next connect that messages may be lost.
func (b *Bus) Publish(_ context.Context, message []byte) error {
	// The connection may break before and after, and confirm may run in between.
	b.sent.Add(1)
	err := b.nc.Publish(b.subject, message)
	b.sent.Add(1)
	if err != nil {
		return fmt.Errorf("jetstreamstore: bus: %w", err)
	}
	b.confirm()
	return nil
}

// confirm waits in the background until the server has all messages.
func (b *Bus) confirm() {
	if b.confirming.Swap(true) {
		return
	}
	go func() { // ends when the server answers, or after the timeout
		for {
			sent := b.sent.Load()
			ok := b.nc.FlushTimeout(defaultTimeout) == nil
			if ok {
				b.received.Store(sent)
			}
			b.confirming.Store(false)
			// A message that was sent meanwhile has started no goroutine.
			if !ok || b.sent.Load() == sent || b.confirming.Swap(true) {
				return
			}
		}
	}()
}

// maxPending is the maximum number of messages that are pending for a subscriber. Further messages
// are dropped.
const maxPending = 8192

// Subscribe calls receive with each message until stop is called, and with nil if messages may have
// been lost.
func (b *Bus) Subscribe(receive func(message []byte)) (stop func(), err error) {
	dropped := 0 // messages for which the buffer of the subscription had no room
	sub, err := b.nc.Subscribe(b.subject, func(m *nats.Msg) {
		// A full buffer has further messages, so the last drop is noticed, too.
		n, err := m.Sub.Dropped()
		lost := err == nil && n != dropped || len(m.Data) == 0
		dropped = n
		if lost {
			receive(nil)
		}
		if len(m.Data) > 0 {
			receive(m.Data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("jetstreamstore: bus: %w", err)
	}
	sub.SetPendingLimits(maxPending, -1) // fails only if the connection is closed
	connected := b.nc.StatusChanged(nats.CONNECTED)
	go func() { // ends with stop
		for range connected {
			receive(nil)
			if b.received.Load() != b.sent.Load() {
				b.Publish(context.Background(), nil) // fails if the connection is lost again
			}
		}
	}()
	// Changes from now on are received. Without a connection, CONNECTED follows.
	b.nc.FlushTimeout(defaultTimeout)
	return func() {
		b.nc.RemoveStatusListener(connected) // closes connected
		sub.Unsubscribe()                    // fails if the connection is closed
	}, nil
}
