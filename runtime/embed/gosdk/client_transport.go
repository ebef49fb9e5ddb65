package gosdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// sharing is what the session of the SDK and the joined session share.
type sharing struct {
	conn atomic.Pointer[joined.Conn] // nil until the joined session is open

	mu         sync.Mutex
	handshakes map[jsonrpc.ID]bool // handshake requests without response
	result     json.RawMessage     // of the latest handshake
}

func newSharing() *sharing {
	return &sharing{handshakes: map[jsonrpc.ID]bool{}}
}

// server returns the result of the handshake.
func (x *sharing) server() json.RawMessage {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.result
}

// setServer records a result of the handshake.
func (x *sharing) setServer(result json.RawMessage) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.result = result
}

// take passes a message of the server to the joined session if the message concerns it. It returns
// true if the session of the SDK must not receive the message.
func (x *sharing) take(m *wirerpc.Message) bool {
	conn := x.conn.Load()
	return conn != nil && conn.Take(m)
}

// createdError returns the error of a call of the SDK that has created a task. The SDK cannot
// follow the task.
func createdError(id string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("gosdk: the call has created task %q: call the tool with gosdk.Client.CallTool, or use AttachTool", id),
	}
}

// transport is connTransport or, for Streamable HTTP, httpTransport.
func (x *sharing) transport(t mcp.Transport) (mcp.Transport, func(*mcp.ClientSession) (*joined.Conn, error)) {
	switch t := t.(type) {
	case *mcp.StreamableClientTransport:
		return x.httpTransport(t)
	case *mcp.LoggingTransport:
		if logsHTTP(t) {
			own, open := x.transport(t.Transport)
			return &mcp.LoggingTransport{Transport: own, Writer: t.Writer}, open
		}
	}
	return x.connTransport(t)
}

// logsHTTP reports whether a transport logs one for Streamable HTTP.
func logsHTTP(t *mcp.LoggingTransport) bool {
	switch inner := t.Transport.(type) {
	case *mcp.StreamableClientTransport:
		return true
	case *mcp.LoggingTransport:
		return logsHTTP(inner)
	}
	return false
}

// connTransport returns a transport that wraps t, and the function that opens the connection of the
// joined session.
func (x *sharing) connTransport(t mcp.Transport) (mcp.Transport, func(*mcp.ClientSession) (*joined.Conn, error)) {
	wrapped := &clientTransport{Transport: t, shared: x}
	return wrapped, func(s *mcp.ClientSession) (*joined.Conn, error) {
		o := joined.Options{Send: wrapped.send}
		if s.InitializeResult().ProtocolVersion < string(wire.Revision20260728) {
			o.Initialize = x.server()
		}
		return joined.New(o), nil
	}
}

// clientTransport is a transport of the SDK that shares its connection with the joined session.
type clientTransport struct {
	mcp.Transport
	shared *sharing
	conn   mcp.Connection
}

// Connect implements [mcp.Transport].
func (t *clientTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.conn = conn
	return &clientConn{conn, t.shared}, nil
}

// send sends a message of the joined session.
func (t *clientTransport) send(ctx context.Context, m wiretransport.Message) error {
	parsed, err := m.Parse()
	if err != nil {
		return err
	}
	out, err := fromMessage(&parsed)
	if err != nil {
		return err
	}
	return t.conn.Write(ctx, out)
}

type clientConn struct {
	mcp.Connection
	shared *sharing
}

// Write implements [mcp.Connection].
func (c *clientConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && (r.Method == wire.MethodInitialize || r.Method == wire.MethodServerDiscover) {
		c.shared.mu.Lock()
		c.shared.handshakes[r.ID] = true
		c.shared.mu.Unlock()
	}
	return c.Connection.Write(ctx, m)
}

// Read implements [mcp.Connection]. It returns only the messages for the session of the SDK.
func (c *clientConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			if conn := c.shared.conn.Load(); conn != nil {
				conn.Deliver(wiretransport.Message{}, fmt.Errorf("%w: %w", wiretransport.ErrClosed, err))
			}
			return nil, err
		}
		if r, ok := m.(*jsonrpc.Response); ok {
			c.shared.mu.Lock()
			if c.shared.handshakes[r.ID] {
				delete(c.shared.handshakes, r.ID)
				c.shared.result = r.Result
			}
			c.shared.mu.Unlock()
			if id := joined.CreatedTask(r.Result); id != "" && !c.owns(r.ID) {
				return &jsonrpc.Response{ID: r.ID, Error: createdError(id)}, nil
			}
		}
		if parsed, err := toMessage(m); err != nil || !c.shared.take(parsed) {
			return m, nil
		}
	}
}

// owns reports whether a response is for the joined session.
func (c *clientConn) owns(id jsonrpc.ID) bool {
	conn := c.shared.conn.Load()
	wireID, err := toID(id)
	return err == nil && conn != nil && conn.Owns(wireID)
}

// httpTransport is connTransport for Streamable HTTP. The joined session sends its requests with an
// HTTP client of its own, in the session of the SDK.
func (x *sharing) httpTransport(t *mcp.StreamableClientTransport) (mcp.Transport, func(*mcp.ClientSession) (*joined.Conn, error)) {
	own := *t
	hc := http.Client{}
	if own.HTTPClient != nil {
		hc = *own.HTTPClient
	}
	base := cmp.Or(hc.Transport, http.DefaultTransport)
	shared := hc
	shared.Transport = &joined.Tap{Base: base, Filter: x.filter}
	own.HTTPClient = &shared
	return &own, func(s *mcp.ClientSession) (*joined.Conn, error) {
		o := streamable.ClientOptions{NoListen: true, NoFallback: true}
		hc.Transport = &joined.RoundTripper{Base: base, Session: s.ID(), Initialize: x.server()}
		o.HTTP = &hc
		if o.Limits.Message = own.MaxEventSize; o.Limits.Message < 0 { // no limit
			o.Limits.Message = math.MaxInt32
		}
		if own.OAuthHandler != nil {
			o.Auth = authorizer{own.OAuthHandler}
		}
		over, err := streamable.Dial(own.Endpoint, o)
		if err != nil {
			return nil, err
		}
		return joined.New(joined.Options{Over: over}), nil
	}
}

// filter returns the message that the session of the SDK receives instead of text, or nil for none.
func (x *sharing) filter(method string, text []byte) []byte {
	m, err := wirerpc.ParseReceived(text)
	if err != nil {
		return text
	}
	if m.Kind != wirerpc.KindResponse {
		if method == "" && x.take(&m) {
			return nil
		}
		return text
	}
	if method == wire.MethodInitialize || method == wire.MethodServerDiscover {
		x.setServer(m.Result)
		return text
	}
	id := joined.CreatedTask(m.Result)
	if id == "" {
		return text
	}
	m = wirerpc.NewErrorResponse(m.ID, toError(createdError(id)))
	if out, err := m.AppendJSON(nil); err == nil {
		return out
	}
	return text
}

// authorizer adapts an OAuth handler of the SDK to this module.
type authorizer struct{ handler auth.OAuthHandler }

// Authorize implements [httpclient.Authorizer].
func (a authorizer) Authorize(req *http.Request, _ httpclient.Operation) error {
	source, err := a.handler.TokenSource(req.Context())
	if err != nil || source == nil {
		return err
	}
	token, err := source.Token()
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
		return nil // the server demands authorization
	}
	if err != nil || token == nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token.AccessToken)
	return nil
}

// Challenged implements [httpclient.Authorizer].
func (a authorizer) Challenged(ctx context.Context, resp *http.Response, op httpclient.Operation) (again bool, err error) {
	if op.Attempt > 0 {
		return false, nil
	}
	if err := a.handler.Authorize(ctx, resp.Request, resp); err != nil {
		return false, err
	}
	return true, nil
}
