package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// streamConn is a connection with a separate stream for each request. It rejects messages that
// belong to no request.
type streamConn struct {
	transport.Conn
	unpersisted
	released   chan jsonrpc.ID
	revision   mcp.Revision
	initialize []byte
}

var errNoStream = errors.New("no stream for the message")

func (w *streamConn) Read() (transport.Message, error) {
	m, err := w.Conn.Read()
	if parsed, fault := m.Parse(); err == nil && fault == nil && parsed.Kind == jsonrpc.KindRequest {
		m.Reply = &requestStream{w, parsed.ID}
	}
	return m, err
}

func (w *streamConn) Write(context.Context, transport.Message) error {
	return &transport.MessageError{Err: errNoStream}
}

// requestStream is the stream of a request.
type requestStream struct {
	w  *streamConn
	id jsonrpc.ID
}

func (s *requestStream) Send(ctx context.Context, text []byte) error {
	return s.w.Conn.Write(ctx, transport.Message{Text: text})
}

func (s *requestStream) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	if text == nil {
		s.w.released <- s.id
		return nil
	}
	return s.Send(ctx, text)
}

func (w *streamConn) Restored() (mcp.Revision, []byte, bool) {
	return w.revision, w.initialize, w.revision != ""
}

// wrapped wraps a connection.
type wrapped struct{ transport.Conn }

func (w wrapped) Unwrap() transport.Conn { return w.Conn }

func TestConnWithRequestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := inmemory.Pair(inmemory.Options{})
		defer client.Close()
		conn := &streamConn{Conn: server, released: make(chan jsonrpc.ID, 10), revision: mcp.Revision20251125,
			initialize: []byte(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)}
		s := session.Serve(wrapped{conn}, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{ListChanged: new(true)}}},
			&session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}})
		defer s.Close()

		if err := s.Ready(t.Context()); err != nil || s.Revision() != mcp.Revision20251125 || s.Client().Capabilities.Roots == nil {
			t.Errorf("the session is not restored: %v, %v", err, s.Client())
		}
		if err := s.Notify(t.Context(), "notifications/tools/list_changed", nil); !errors.Is(err, errNoStream) {
			t.Errorf("a message without a request: %v", err)
		}
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		} {
			if err := client.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		if id := <-conn.released; id != codec.IntScalar(7) {
			t.Errorf("released %v", id)
		}
		if err := s.Notify(t.Context(), "notifications/tools/list_changed", nil); !errors.Is(err, errNoStream) {
			t.Errorf("a message after the cancellation: %v", err)
		}
	})
}
