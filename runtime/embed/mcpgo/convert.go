package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// decode decodes JSON into a type of mcp-go. Members that the type does not have are dropped.
func decode[T any](raw json.RawMessage) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("mcpgo: decode: %w", err)
	}
	return v, nil
}

// encode encodes a value of mcp-go as JSON.
func encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: encode: %w", err)
	}
	return raw, nil
}

// TransportOf returns a transport over s for a client of mcp-go, which owns s. The client sends its
// requests through s; results are the bytes that the server has sent. The session s has made the
// handshake with the server, with its own client info and capabilities, and responds to initialize
// of the client itself. The handlers of s serve the requests and notifications of the server.
func TransportOf(s *session.Session) transport.Interface { return sessionTransport{s} }

type sessionTransport struct{ s *session.Session }

// Start implements [transport.Interface].
func (t sessionTransport) Start(context.Context) error { return nil }

// SendRequest implements [transport.Interface].
func (t sessionTransport) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	raw, err := t.call(ctx, request)
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: request.ID, Error: detailsOf(e)}, nil
	}
	if err != nil {
		return nil, err
	}
	return transport.NewJSONRPCResultResponse(request.ID, raw), nil
}

func (t sessionTransport) call(ctx context.Context, request transport.JSONRPCRequest) (json.RawMessage, error) {
	switch {
	case request.Method == wire.MethodInitialize && !t.s.Traits().Sessionless:
		return codec.Marshal(t.s.Server())
	case request.Method == wire.MethodInitialize, request.Method == wire.MethodServerDiscover && !t.s.Traits().Sessionless:
		return nil, jsonrpc.MethodNotFound(request.Method)
	case request.Params == nil:
		return t.s.Call(ctx, request.Method, nil)
	}
	params, err := encode(request.Params)
	if err != nil {
		return nil, err
	}
	return t.s.Call(ctx, request.Method, session.Raw(params))
}

// SendNotification implements [transport.Interface].
func (t sessionTransport) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	switch n.Method {
	case wire.MethodNotificationsInitialized:
		return nil
	case wire.MethodNotificationsCancelled: // names an id of the client; Call cancels the request of the session
		return nil
	}
	params, err := encode(n.Params)
	if err != nil {
		return err
	}
	return t.s.Notify(ctx, n.Method, session.Raw(params))
}

// SetNotificationHandler implements [transport.Interface]. The handlers of the session receive the
// notifications.
func (t sessionTransport) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// Close implements [transport.Interface]. It closes the session.
func (t sessionTransport) Close() error { return t.s.Close() }

// GetSessionId implements [transport.Interface].
func (t sessionTransport) GetSessionId() string { return "" }
