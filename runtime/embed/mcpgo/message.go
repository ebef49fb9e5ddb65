package mcpgo

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// HandleMessage serves a message, with tasks. Transports of your own call it in place of the method
// of the server. As for that method, ctx must have the session of the client; see
// [server.MCPServer.WithContext]. It returns nil if there is no response.
func (t *Tasks) HandleMessage(ctx context.Context, message json.RawMessage) json.RawMessage {
	if t.requests.open.Load() > 0 {
		t.requests.cancelNamed(sessionID(ctx), message)
	}
	response := t.server.HandleMessage(withCarrier(ctx, &carrier{t: t}), message)
	if response == nil {
		return nil
	}
	if e, ok := response.(mcp.JSONRPCError); ok {
		if response, ok := t.tickets.take(e.Error.Message); ok {
			if len(response) == 0 { // the request was cancelled
				return nil
			}
			return response
		}
	}
	text, err := json.Marshal(response)
	if err != nil {
		text, _ = json.Marshal(mcp.NewJSONRPCError(mcp.NewRequestId(nil), mcp.INTERNAL_ERROR, err.Error(), nil))
	}
	return text
}

// sessionID returns the id of the session in ctx, or "".
func sessionID(ctx context.Context) string {
	if s := server.ClientSessionFromContext(ctx); s != nil {
		return s.SessionID()
	}
	return ""
}

// InProcess returns a transport to the server, with tasks, for a client in the same process. Use it
// in place of [transport.NewInProcessTransportWithOptions].
func (t *Tasks) InProcess(options ...transport.InProcessOption) transport.Interface {
	return &inProcess{transport.NewInProcessTransportWithOptions(t.server, options...), t}
}

type inProcess struct {
	*transport.InProcessTransport
	t *Tasks
}

// Start implements [transport.Interface].
func (p *inProcess) Start(ctx context.Context) error {
	if err := p.t.Start(ctx); err != nil {
		return err
	}
	return p.InProcessTransport.Start(ctx)
}

// SendRequest implements [transport.Interface].
func (p *inProcess) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := p.InProcessTransport.SendRequest(withCarrier(ctx, &carrier{t: p.t}), request)
	if err != nil || response.Error == nil {
		return response, err
	}
	text, ok := p.t.tickets.take(response.Error.Message)
	if !ok {
		return response, nil
	}
	if len(text) == 0 {
		return nil, context.Cause(ctx)
	}
	response = new(transport.JSONRPCResponse)
	if err := json.Unmarshal(text, response); err != nil {
		return nil, err
	}
	return response, nil
}
