package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
)

// toMessage converts a message of the SDK. Params, results and the data of errors stay the same
// bytes.
func toMessage(m jsonrpc.Message) (*wirerpc.Message, error) {
	switch m := m.(type) {
	case *jsonrpc.Request:
		id, err := toID(m.ID)
		if err != nil {
			return nil, err
		}
		out := wirerpc.NewNotification(m.Method, absent(m.Params))
		if m.IsCall() {
			out = wirerpc.NewRequest(id, m.Method, absent(m.Params))
		}
		return &out, nil
	case *jsonrpc.Response:
		id, err := toID(m.ID)
		if err != nil {
			return nil, err
		}
		out := wirerpc.NewResponse(id, m.Result)
		if m.Error != nil {
			out = wirerpc.NewErrorResponse(id, toError(m.Error))
		}
		return &out, nil
	}
	return nil, fmt.Errorf("gosdk: message of type %T is not supported", m)
}

// absent returns nil for empty params. The SDK uses both.
func absent(params json.RawMessage) json.RawMessage {
	if len(params) == 0 {
		return nil
	}
	return params
}

func toID(id jsonrpc.ID) (wirerpc.ID, error) {
	switch v := id.Raw().(type) {
	case nil:
		return wirerpc.ID{}, nil
	case int64:
		return codec.IntScalar(v), nil
	case string:
		return codec.StringScalar(v), nil
	default:
		return wirerpc.ID{}, fmt.Errorf("gosdk: id of type %T is not supported", v)
	}
}

// toError returns the error that the SDK would send for err.
func toError(err error) *wirerpc.Error {
	e, ok := err.(*jsonrpc.Error)
	if !ok {
		e = &jsonrpc.Error{Message: err.Error()}
		if inner, ok := errors.AsType[*jsonrpc.Error](err); ok {
			e.Code = inner.Code
		}
	}
	return &wirerpc.Error{Code: e.Code, Message: e.Message, Data: absent(e.Data)}
}

// fromMessage converts a message to one of the SDK. Params, results and the data of errors stay the
// same bytes. Members that JSON-RPC does not define are dropped. It fails if the SDK cannot hold
// the id: the SDK holds strings, and integers of up to 53 bits in their shortest form.
func fromMessage(m *wirerpc.Message) (jsonrpc.Message, error) {
	id, err := fromID(m.ID)
	if err != nil {
		return nil, err
	}
	var payload json.RawMessage
	if m.Payload != nil {
		if payload, err = codec.Marshal(m.Payload); err != nil {
			return nil, err
		}
	}
	switch m.Kind {
	case wirerpc.KindRequest, wirerpc.KindNotification:
		if payload == nil {
			payload = m.Params
		}
		return &jsonrpc.Request{ID: id, Method: m.Method, Params: payload}, nil
	case wirerpc.KindResponse:
		if payload == nil {
			payload = m.Result
		}
		return &jsonrpc.Response{ID: id, Result: payload}, nil
	case wirerpc.KindErrorResponse:
		return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: m.Error.Code, Message: m.Error.Message, Data: m.Error.Data}}, nil
	}
	return nil, fmt.Errorf("gosdk: message of kind %q is not supported", m.Kind)
}

// maxInteger is the largest integer that the SDK accepts as an id.
const maxInteger = 1 << 53

func fromID(id wirerpc.ID) (jsonrpc.ID, error) {
	if id.IsZero() {
		return jsonrpc.ID{}, nil
	}
	if text, ok := id.Text(); ok {
		return jsonrpc.MakeID(text)
	}
	v, ok := id.Int()
	if !ok || v < -maxInteger || v > maxInteger || codec.IntScalar(v) != id {
		return jsonrpc.ID{}, fmt.Errorf("gosdk: id %s is not supported by the SDK", id)
	}
	return jsonrpc.MakeID(float64(v))
}

// decode decodes JSON into a type of the SDK. Members that the type does not have are dropped.
// Empty text, such as that of absent params, is the zero value.
func decode[T any](raw json.RawMessage) (*T, error) {
	v := new(T)
	if len(raw) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("gosdk: decode: %w", err)
	}
	return v, nil
}

// encode encodes a value of the SDK as JSON.
func encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("gosdk: encode: %w", err)
	}
	return raw, nil
}

// TransportOf returns a transport of the SDK over c, for one session. The session owns c.
func TransportOf(c wiretransport.Conn) mcp.Transport { return &connTransport{conn: c} }

type connTransport struct {
	conn wiretransport.Conn
	used atomic.Bool
}

// Connect implements [mcp.Transport].
func (t *connTransport) Connect(context.Context) (mcp.Connection, error) {
	if t.used.Swap(true) {
		return nil, errors.New("gosdk: connect: the transport is already connected")
	}
	return &sdkConn{conn: t.conn, replies: map[wirerpc.ID]wiretransport.Reply{}}, nil
}

// sdkConn adapts a connection of this module to the SDK.
type sdkConn struct {
	conn wiretransport.Conn

	mu      sync.Mutex
	replies map[wirerpc.ID]wiretransport.Reply // of requests without an answer
}

// answer sends the answer to a request.
func (c *sdkConn) answer(ctx context.Context, id wirerpc.ID, text []byte, failed *wirerpc.Error) error {
	c.mu.Lock()
	to := c.replies[id]
	delete(c.replies, id)
	c.mu.Unlock()
	if to == nil {
		return c.conn.Write(ctx, wiretransport.Message{Text: text})
	}
	return to.Answer(ctx, text, failed)
}

// Read implements [mcp.Connection]. It ignores the end of ctx; Close ends it. It rejects requests
// whose id the SDK cannot hold.
func (c *sdkConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.conn.Read()
		if lost, ok := errors.AsType[*wiretransport.DeliveryError](err); ok {
			if id, err := fromID(lost.ID); err == nil && id.IsValid() {
				return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: lost.Error()}}, nil
			}
			continue
		}
		if _, rejected := errors.AsType[*wiretransport.MessageError](err); rejected {
			continue
		}
		if errors.Is(err, wiretransport.ErrClosed) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		parsed, err := m.Parse()
		if err != nil {
			return nil, err
		}
		if m.Reply != nil {
			c.mu.Lock()
			c.replies[parsed.ID] = m.Reply
			c.mu.Unlock()
		}
		out, err := fromMessage(&parsed)
		if err == nil {
			return out, nil
		}
		if parsed.Kind == wirerpc.KindRequest {
			response := wirerpc.NewErrorResponse(parsed.ID, &wirerpc.Error{Code: wirerpc.CodeInvalidRequest, Message: err.Error()})
			text, err := response.AppendJSON(nil)
			if err == nil {
				err = c.answer(ctx, parsed.ID, text, response.Error)
			}
			if err != nil {
				return nil, err
			}
		}
	}
}

// Write implements [mcp.Connection].
func (c *sdkConn) Write(ctx context.Context, m jsonrpc.Message) error {
	out, err := toMessage(m)
	if err != nil {
		return err
	}
	text, err := out.AppendJSON(nil)
	if err != nil {
		return err
	}
	if out.Kind == wirerpc.KindResponse || out.Kind == wirerpc.KindErrorResponse {
		return c.answer(ctx, out.ID, text, out.Error)
	}
	return c.conn.Write(ctx, wiretransport.Message{Text: text})
}

// Close implements [mcp.Connection].
func (c *sdkConn) Close() error { return c.conn.Close() }

// SessionID implements [mcp.Connection].
func (c *sdkConn) SessionID() string { return "" }

// ConnOf returns a connection of this module over c, and owns c. Read and Write return a
// [*wiretransport.MessageError] for a message that cannot be converted.
func ConnOf(c mcp.Connection) wiretransport.Conn {
	ctx, cancel := context.WithCancel(context.Background())
	return &wireConn{conn: c, ctx: ctx, close: sync.OnceValue(func() error {
		cancel()
		return c.Close()
	})}
}

type wireConn struct {
	conn  mcp.Connection
	ctx   context.Context // ends with Close
	close func() error
}

// Read implements [wiretransport.Conn].
func (c *wireConn) Read() (wiretransport.Message, error) {
	m, err := c.conn.Read(c.ctx)
	switch {
	case c.ctx.Err() != nil:
		return wiretransport.Message{}, wiretransport.ErrClosed
	case err == io.EOF:
		return wiretransport.Message{}, io.EOF
	case err != nil:
		return wiretransport.Message{}, fmt.Errorf("%w: %w", wiretransport.ErrClosed, err)
	}
	out, err := toMessage(m)
	if err != nil {
		return wiretransport.Message{}, &wiretransport.MessageError{Err: err}
	}
	text, err := out.AppendJSON(nil)
	if err != nil {
		return wiretransport.Message{}, &wiretransport.MessageError{ID: out.ID, Err: err}
	}
	return wiretransport.Message{Text: text}, nil
}

// Write implements [wiretransport.Conn].
func (c *wireConn) Write(ctx context.Context, m wiretransport.Message) error {
	if c.ctx.Err() != nil {
		return wiretransport.ErrClosed
	}
	parsed, err := m.Parse()
	if err != nil {
		return &wiretransport.MessageError{ID: parsed.ID, Err: err}
	}
	out, err := fromMessage(&parsed)
	if err != nil {
		return &wiretransport.MessageError{ID: parsed.ID, Err: err}
	}
	err = c.conn.Write(ctx, out)
	if errors.Is(err, mcp.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", wiretransport.ErrClosed, err)
	}
	return err
}

// Close implements [wiretransport.Conn].
func (c *wireConn) Close() error { return c.close() }
