package mcpgo

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
)

// responder is a transport that responds to all requests except those of x/wait.
type responder struct{ transport.Interface }

func (responder) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	if r.Method == "x/wait" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &transport.JSONRPCResponse{ID: r.ID, Result: json.RawMessage(`{}`)}, nil
}

func (responder) SendNotification(context.Context, mcp.JSONRPCNotification) error { return nil }

// After the response or the cancellation of a request, the sender holds nothing of it, and delivers
// no error for a cancelled one.
func TestSenderForgetsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sender{tap: &clientTap{Interface: responder{}}, version: mcp.ProtocolVersion20251125, cancels: map[jsonrpc.ID]context.CancelFunc{}}
		s.conn = joined.New(joined.Options{Send: s.send, Close: s.close})
		defer s.conn.Close()
		for _, text := range []string{
			`{"jsonrpc":"2.0","id":"a","method":"x/any"}`,
			`{"jsonrpc":"2.0","id":"b","method":"x/wait"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`,
		} {
			if err := s.conn.Write(t.Context(), wiretransport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(s.cancels) > 0 {
			t.Errorf("the sender holds %d requests", len(s.cancels))
		}
		s.conn.Deliver(wiretransport.Message{Text: []byte("next")}, nil)
		for _, want := range []string{`{"jsonrpc":"2.0","id":"a","result":{}}`, "next"} {
			if m, err := s.conn.Read(); string(m.Text) != want || err != nil {
				t.Errorf("got %s, %v", m.Text, err)
			}
		}
	})
}
