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

// ways is a connection with a separate stream for each request, and none for messages without a
// request.
type ways struct {
	transport.Conn
	released chan jsonrpc.ID
	revision mcp.Revision
	client   []byte
}

var errNoWay = errors.New("no way")

func (w *ways) Write(ctx context.Context, m transport.Message) error {
	if m.For.IsZero() {
		return &transport.MessageError{Err: errNoWay}
	}
	return w.Conn.Write(ctx, m)
}

func (w *ways) Release(id jsonrpc.ID) { w.released <- id }

func (w *ways) Restored() (mcp.Revision, []byte, bool) { return w.revision, w.client, w.revision != "" }

// wrapped wraps a connection.
type wrapped struct{ transport.Conn }

func (w wrapped) Unwrap() transport.Conn { return w.Conn }

func TestRequestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := inmemory.Pair(inmemory.Options{})
		defer here.Close()
		conn := &ways{Conn: there, released: make(chan jsonrpc.ID, 10), revision: mcp.Revision20251125,
			client: []byte(`{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}`)}
		s := session.Serve(wrapped{conn}, &mcp.InitializeResult{Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{ListChanged: new(true)}}},
			&session.Config{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}})
		defer s.Close()

		if err := s.Ready(t.Context()); err != nil || s.Revision() != mcp.Revision20251125 || s.Client().Capabilities.Roots == nil {
			t.Errorf("the session is not restored: %v, %v", err, s.Client())
		}
		if err := s.Notify(t.Context(), "notifications/tools/list_changed", nil); !errors.Is(err, errNoWay) {
			t.Errorf("a message without a stream: %v", err)
		}
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		} {
			if err := here.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		if id := <-conn.released; id != codec.IntScalar(7) {
			t.Errorf("released %v", id)
		}
		if err := s.Notify(t.Context(), "notifications/tools/list_changed", nil); !errors.Is(err, errNoWay) {
			t.Errorf("a message after the cancellation: %v", err)
		}
	})
}
