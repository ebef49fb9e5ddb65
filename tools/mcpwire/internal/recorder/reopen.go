package recorder

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// reopening is a connection to a server that replaces a lost session by repeating the client's
// handshake. A client of a bridge does not notice the loss, apart from errors for its requests.
type reopening struct {
	transport.Reopener
	lost func(error) // called for each lost session

	early []readResult // of a handshake; used by Read

	mu          sync.Mutex
	opening     bool // a session is being opened
	initialize  []byte
	id          jsonrpc.ID // of initialize
	initialized []byte
}

// Unwrap implements [transport.Unwrapper].
func (c *reopening) Unwrap() transport.Conn { return c.Reopener }

// readResult is a result of Read.
type readResult struct {
	m   transport.Message
	err error
}

// Write sends a message. It fails with a [*transport.DeliveryError] while there is no session.
func (c *reopening) Write(ctx context.Context, m transport.Message) error {
	envelope, _ := jsonrpc.Parse(m.Text) // the server reports faults
	c.mu.Lock()
	switch envelope.Method {
	case mcp.MethodInitialize:
		c.initialize, c.id = bytes.Clone(m.Text), envelope.ID
	case mcp.MethodNotificationsInitialized:
		c.initialized = bytes.Clone(m.Text)
	}
	opening := c.opening
	c.mu.Unlock()
	var err error = &transport.SessionLostError{}
	if !opening {
		err = c.Reopener.Write(ctx, m)
	}
	if lost, ok := errors.AsType[*transport.SessionLostError](err); ok {
		return &transport.DeliveryError{ID: envelope.ID, Err: lost}
	}
	return err
}

// Read returns the next message. It replaces a session that is lost.
func (c *reopening) Read() (transport.Message, error) {
	if len(c.early) > 0 {
		r := c.early[0]
		c.early = c.early[1:]
		return r.m, r.err
	}
	m, err := c.Reopener.Read()
	if lost, ok := errors.AsType[*transport.SessionLostError](err); ok {
		c.lost(lost)
		c.setOpening(true)
		if err := c.reopen(); err != nil {
			return transport.Message{}, errors.Join(lost, err)
		}
		c.setOpening(false)
		return c.Read()
	}
	return m, err
}

func (c *reopening) setOpening(opening bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening = opening
}

// reopen opens a session. It tries again after a failure that may be temporary.
func (c *reopening) reopen() error {
	c.mu.Lock()
	initialize, id, initialized := c.initialize, c.id, c.initialized
	c.mu.Unlock()
	for {
		if _, err := c.Reopener.Reopen(context.Background()); err != nil {
			return err
		}
		err := c.Reopener.Write(context.Background(), transport.Message{Text: initialize})
		if err == nil {
			err = c.await(id)
		}
		if err == nil && initialized != nil {
			err = c.Reopener.Write(context.Background(), transport.Message{Text: initialized})
		}
		delivery, temporary := errors.AsType[*transport.DeliveryError](err)
		if !errors.Is(err, transport.ErrSessionLost) && (!temporary || delivery.Refused) {
			return err
		}
	}
}

// await reads messages until the answer to a request has arrived.
func (c *reopening) await(id jsonrpc.ID) error {
	for {
		m, err := c.Reopener.Read()
		if lost, ok := errors.AsType[*transport.DeliveryError](err); ok && lost.ID != id {
			c.early = append(c.early, readResult{err: err})
			continue
		}
		if err != nil {
			return err
		}
		switch envelope, _ := jsonrpc.Parse(m.Text); {
		case envelope.ID == id && envelope.Kind == jsonrpc.KindResponse:
			return nil
		case envelope.ID == id && envelope.Kind == jsonrpc.KindErrorResponse:
			return envelope.Error
		}
		c.early = append(c.early, readResult{m: m})
	}
}
