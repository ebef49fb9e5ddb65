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

var errCut = errors.New("the line was cut")

// lossy is a connection that reports messages as lost, by their ids.
type lossy struct {
	transport.Conn
	lose chan codec.Scalar
	in   chan transport.Message
	over chan struct{}
}

func (l *lossy) Read() (transport.Message, error) {
	select {
	case m := <-l.in:
		return m, nil
	case id := <-l.lose:
		return transport.Message{}, &transport.DeliveryError{ID: id, Err: errCut}
	case <-l.over:
		return transport.Message{}, transport.ErrClosed
	}
}

func (l *lossy) Close() error {
	err := l.Conn.Close()
	<-l.over
	return err
}

// pump forwards the messages of the wrapped connection to Read.
func (l *lossy) pump() {
	defer close(l.over)
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
			t.Errorf("the request after it: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// renewing is a connection that repeats the handshake when the test calls opened.
type renewing struct {
	transport.Conn
	opened func(initializeResult []byte)
}

func (r *renewing) Renewed(opened func(initializeResult []byte)) { r.opened = opened }

// The capabilities of the latest handshake apply at once.
func TestLaterHandshakeReplacesCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		r := &renewing{Conn: conn}
		go func() { // ends with the last message
			p.take()
			p.send(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
			p.take()
			p.take()
			p.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		}()
		s, err := session.Connect(t.Context(), r, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "c", Version: "1"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		undeclared := func(method string) bool {
			_, err := s.Call(t.Context(), method, nil)
			_, is := errors.AsType[*session.CapabilityError](err)
			return is
		}
		if !undeclared("prompts/list") {
			t.Error("prompts were not declared")
		}
		r.opened([]byte(`{"protocolVersion":"2025-11-25","capabilities":{"prompts":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"s","version":"2"}}`))
		r.opened([]byte(`{`)) // invalid
		if got := s.Server().ServerInfo.Version; got != "2" {
			t.Errorf("the server has version %s", got)
		}
		if !undeclared("tools/list") || undeclared("prompts/list") || !s.PeerTakesTask("tools/call") {
			t.Error("what the server declares now does not count")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
