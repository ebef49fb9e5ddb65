package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

var errCut = errors.New("connection cut")

// lossy is a connection that reports the messages with the ids from lose as lost.
type lossy struct {
	transport.Conn
	lose chan codec.Scalar
	in   chan transport.Message
	done chan struct{} // closed when pump has returned
}

func (l *lossy) Read() (transport.Message, error) {
	select {
	case m := <-l.in:
		return m, nil
	case id := <-l.lose:
		return transport.Message{}, &transport.DeliveryError{ID: id, Err: errCut}
	case <-l.done:
		return transport.Message{}, transport.ErrClosed
	}
}

func (l *lossy) Close() error {
	err := l.Conn.Close()
	<-l.done
	return err
}

// pump forwards the messages of the wrapped connection to Read.
func (l *lossy) pump() {
	defer close(l.done)
	for {
		m, err := l.Conn.Read()
		if err != nil {
			return
		}
		l.in <- m
	}
}

func TestLostMessageFailsOnlyItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		l := &lossy{conn, make(chan codec.Scalar), make(chan transport.Message), make(chan struct{})}
		go l.pump() // ends when conn is closed
		go func() { // ends with the last message
			p.take()
			p.send(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
			l.lose <- codec.Scalar{}     // a notification
			l.lose <- codec.IntScalar(7) // an unknown request
			p.take()
			l.lose <- codec.IntScalar(2)
			p.take()
			p.send(`{"jsonrpc":"2.0","id":3,"result":{}}`)
		}()
		s, err := session.Connect(t.Context(), l, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		lost, ok := errors.AsType[*transport.DeliveryError](s.Ping(context.Background()))
		if !ok || lost.Err != errCut {
			t.Errorf("a lost request fails with %v", lost)
		}
		if err := s.Ping(context.Background()); err != nil {
			t.Errorf("the request after the lost one: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
