package jetstreamstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
)

// Bus passes messages between the servers of a fleet, over a subject of core NATS. It implements the
// interface Bus of [runtime/server]. NATS delivers a message at most once: after the connection was
// broken, and after messages were dropped, the Bus reports that some may be lost.
//
// [runtime/server]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/server#Bus
type Bus struct {
	nc      *nats.Conn
	subject string
}

// DefaultBusSubject is the default subject of a [Bus].
const DefaultBusSubject = "mcp-bus"

// NewBus returns a Bus. All servers of a fleet use the same subject, and other fleets others. No
// stream needs to store it. If it is empty, it is [DefaultBusSubject].
func NewBus(nc *nats.Conn, subject string) *Bus {
	if subject == "" {
		subject = DefaultBusSubject
	}
	return &Bus{nc: nc, subject: subject}
}

// Publish sends a message. It returns when the message is in the buffer of the connection.
func (b *Bus) Publish(_ context.Context, message []byte) error {
	if err := b.nc.Publish(b.subject, message); err != nil {
		return fmt.Errorf("jetstreamstore: bus: %w", err)
	}
	return nil
}

// Subscribe calls receive with each message until stop is called, and with nil if messages may have
// been lost.
func (b *Bus) Subscribe(receive func(message []byte)) (stop func(), err error) {
	sub, err := b.nc.Subscribe(b.subject, func(m *nats.Msg) {
		if len(m.Data) > 0 {
			receive(m.Data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("jetstreamstore: bus: %w", err)
	}
	slow := sub.StatusChanged(nats.SubscriptionSlowConsumer)
	connected := b.nc.StatusChanged(nats.CONNECTED)
	go func() { // ends with stop
		for {
			select {
			case _, ok := <-connected:
				if !ok {
					return
				}
			case _, ok := <-slow:
				if !ok {
					slow = nil
					continue
				}
			}
			receive(nil)
		}
	}()
	return func() {
		b.nc.RemoveStatusListener(connected) // closes connected
		sub.Unsubscribe()                    // fails if the connection is closed
	}, nil
}
