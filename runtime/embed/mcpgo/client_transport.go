package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
)

// clientTap wraps the transport of a client of mcp-go. The joined session sends its requests over
// the wrapped transport.
type clientTap struct {
	transport.Interface

	mu       sync.Mutex
	handler  transport.RequestHandler // of the client
	last     handshake                // the latest successful one
	conn     *joined.Conn             // nil until the joined session is open
	annotate map[string]mcp.Tool      // tools whose arguments are repeated in header fields
}

// handshake has the request and the result of a handshake.
type handshake struct {
	number int // 0 for none
	method string
	params json.RawMessage
	result json.RawMessage
}

// client returns the client info and the capabilities of the client.
func (h *handshake) client() (*wire.InitializeRequestParams, error) {
	params := h.params
	if h.method != wire.MethodInitialize {
		meta, _ := codec.Member(params, "_meta")
		parts := map[string]json.RawMessage{"protocolVersion": json.RawMessage(`""`), "clientInfo": json.RawMessage(`{"name":"","version":""}`)}
		for name, key := range map[string]string{"clientInfo": modern.MetaClientInfo, "capabilities": modern.MetaCapabilities} {
			if raw, ok := codec.Member(meta, key); ok {
				parts[name] = raw
			}
		}
		var err error
		if params, err = encode(parts); err != nil {
			return nil, err
		}
	}
	own := new(wire.InitializeRequestParams)
	if err := codec.Unmarshal(params, own, codec.AllowSize(params)...); err != nil {
		return nil, fmt.Errorf("mcpgo: params of %s: %w", h.method, err)
	}
	return own, nil
}

// newClientTap returns a clientTap of t, and the same tap as the transport for the client.
func newClientTap(t transport.Interface) (*clientTap, transport.Interface) {
	tap := &clientTap{Interface: t}
	if connection, ok := t.(transport.HTTPConnection); ok {
		return tap, httpTap{tap, connection}
	}
	return tap, tap
}

// httpTap is a clientTap of a transport over HTTP.
type httpTap struct {
	*clientTap
	connection transport.HTTPConnection
}

// SetProtocolVersion implements [transport.HTTPConnection].
func (t httpTap) SetProtocolVersion(version string) { t.connection.SetProtocolVersion(version) }

// RequiresLegacyProtocol reports whether the transport supports only revisions with sessions.
func (t *clientTap) RequiresLegacyProtocol() bool {
	inner, ok := t.Interface.(interface{ RequiresLegacyProtocol() bool })
	return ok && inner.RequiresLegacyProtocol()
}

// SetConnectionLostHandler passes the handler to the transport, if the transport has this method.
func (t *clientTap) SetConnectionLostHandler(handler func(error)) {
	if inner, ok := t.Interface.(interface{ SetConnectionLostHandler(func(error)) }); ok {
		inner.SetConnectionLostHandler(handler)
	}
}

// SetRequestHandler implements [transport.BidirectionalInterface]. The response to a request about
// a task names the task.
func (t *clientTap) SetRequestHandler(handler transport.RequestHandler) {
	t.mu.Lock()
	t.handler = handler
	t.mu.Unlock()
	inner, ok := t.Interface.(transport.BidirectionalInterface)
	if !ok {
		return
	}
	inner.SetRequestHandler(func(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		response, err := handler(ctx, request)
		if err != nil || response == nil || response.Error != nil {
			return response, err
		}
		params, err := encode(request.Params)
		if err != nil {
			return nil, err
		}
		if id := joined.RelatedTask(params); id != "" {
			response.Result, err = taskrules.Relate(response.Result, id)
		}
		return response, err
	})
}

// SetNotificationHandler implements [transport.Interface].
func (t *clientTap) SetNotificationHandler(handler func(mcp.JSONRPCNotification)) {
	t.Interface.SetNotificationHandler(func(n mcp.JSONRPCNotification) {
		t.mu.Lock()
		conn := t.conn
		t.mu.Unlock()
		if conn != nil && n.Method != string(wire.MethodNotificationsMessage) {
			if params, err := encode(n.Params); err == nil {
				m := jsonrpc.NewNotification(n.Method, params)
				conn.Take(&m)
			}
		}
		handler(n)
	})
}

// SendRequest implements [transport.Interface].
func (t *clientTap) SendRequest(ctx context.Context, request transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	response, err := t.Interface.SendRequest(ctx, request)
	if err != nil || response == nil || response.Error != nil {
		return response, err
	}
	switch request.Method {
	case wire.MethodInitialize, wire.MethodServerDiscover:
		params, err := encode(request.Params)
		if err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.last = handshake{t.last.number + 1, request.Method, params, response.Result}
		t.mu.Unlock()
	case wire.MethodToolsList:
		t.recordTools(response.Result)
	case wire.MethodToolsCall:
		id := joined.CreatedTask(response.Result)
		if id == "" {
			break
		}
		params, err := encode(request.Params)
		if err != nil {
			return nil, err
		}
		if _, asTask := codec.Member(params, "task"); !asTask {
			text := fmt.Sprintf("mcpgo: the call has created task %q: call the tool with mcpgo.Client.CallTool, or use AttachTool", id)
			return transport.NewJSONRPCErrorResponse(response.ID, mcp.INTERNAL_ERROR, text, nil), nil
		}
	}
	return response, err
}

// recordTools records the tools of a list whose arguments are repeated in header fields.
func (t *clientTap) recordTools(result json.RawMessage) {
	if !bytes.Contains(result, []byte(modern.Annotation)) {
		return
	}
	list, err := decode[mcp.ListToolsResult](result)
	if err != nil {
		return // the client reports it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := maps.Clone(t.annotate)
	if next == nil {
		next = map[string]mcp.Tool{}
	}
	for _, tool := range list.Tools {
		next[tool.Name] = tool
	}
	t.annotate = next
}

func (t *clientTap) handshake() handshake {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// input passes an input request of a task to the handler of the client.
func (t *clientTap) input(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	t.mu.Lock()
	handler := t.handler
	t.mu.Unlock()
	if handler == nil {
		return nil, errors.New("mcpgo: client is not started")
	}
	request := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId("mcpwire-input"), Method: method}
	if len(params) > 0 {
		request.Params = params
	}
	response, err := handler(ctx, request)
	switch {
	case err != nil:
		return nil, err
	case response.Error != nil:
		return nil, errorOf(response.Error)
	}
	return response.Result, nil
}

// open returns the connection of a joined session.
func (t *clientTap) open(version string, result json.RawMessage) *joined.Conn {
	s := &sender{tap: t, version: version, cancels: map[jsonrpc.ID]context.CancelFunc{}}
	o := joined.Options{Send: s.send, Close: s.close}
	if !mcp.IsModernProtocol(version) {
		o.Initialize = result
	}
	s.conn = joined.New(o)
	t.mu.Lock()
	t.conn = s.conn
	t.mu.Unlock()
	return s.conn
}

// sender sends the messages of a joined session.
type sender struct {
	tap     *clientTap
	version string
	conn    *joined.Conn

	mu      sync.Mutex
	cancels map[jsonrpc.ID]context.CancelFunc // of requests without response; nil once closed
}

type headerKey struct{}

func (s *sender) send(ctx context.Context, m wiretransport.Message) error {
	parsed, err := m.Parse()
	if err != nil {
		return err
	}
	switch parsed.Kind {
	case jsonrpc.KindRequest:
		return s.request(ctx, &parsed)
	case jsonrpc.KindNotification:
		return s.notify(ctx, &parsed, m.Text)
	}
	return nil // responses are sent by the request handler of the tap
}

// request sends a request. It does not wait for the response.
func (s *sender) request(ctx context.Context, m *jsonrpc.Message) error {
	if m.Method == wire.MethodSubscriptionsListen {
		// mcp-go would change the numbers of a result in a notification, so handles poll instead.
		out := jsonrpc.NewErrorResponse(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: m.Method})
		text, err := out.AppendJSON(nil)
		s.conn.Deliver(wiretransport.Message{Text: text}, err)
		return nil
	}
	id, _ := m.ID.Text()
	request := transport.JSONRPCRequest{
		JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(id), Method: m.Method, Header: s.header(ctx, m),
	}
	if m.Params != nil {
		request.Params = m.Params
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.mu.Lock()
	if s.cancels == nil {
		s.mu.Unlock()
		cancel()
		return wiretransport.ErrClosed
	}
	s.cancels[m.ID] = cancel
	s.mu.Unlock()
	go func() { // ends with the response, or with ctx
		response, err := s.tap.Interface.SendRequest(ctx, request)
		ended := ctx.Err() != nil
		s.cancel(m.ID)
		if !ended || err == nil {
			s.conn.Deliver(s.received(m, response, err))
		}
	}()
	return nil
}

// received converts the response to a request to a message.
func (s *sender) received(m *jsonrpc.Message, response *transport.JSONRPCResponse, err error) (wiretransport.Message, error) {
	switch {
	case errors.Is(err, transport.ErrTransportClosed), errors.Is(err, transport.ErrSessionTerminated) && !mcp.IsModernProtocol(s.version):
		return wiretransport.Message{}, fmt.Errorf("%w: %w", wiretransport.ErrClosed, err)
	case err == nil && response == nil:
		err = errors.New("mcpgo: no response")
	}
	var text []byte
	if err == nil {
		out := jsonrpc.NewResponse(m.ID, response.Result)
		if response.Error != nil {
			out = jsonrpc.NewErrorResponse(m.ID, errorOf(response.Error))
		} else if m.Method == wire.MethodToolsList {
			s.tap.recordTools(response.Result)
		}
		text, err = out.AppendJSON(nil)
	}
	if err != nil {
		// The status of a rejection is unknown.
		return wiretransport.Message{}, &wiretransport.DeliveryError{ID: m.ID, Taken: true, Err: err}
	}
	return wiretransport.Message{Text: text}, nil
}

// header returns the header fields of a request over HTTP.
func (s *sender) header(ctx context.Context, m *jsonrpc.Message) http.Header {
	h := http.Header{}
	if m.Method == wire.MethodToolsCall {
		if own, ok := ctx.Value(headerKey{}).(http.Header); ok {
			h = own.Clone()
		}
		s.tap.mu.Lock()
		tool, ok := s.tap.annotate[toolName(m.Params)]
		s.tap.mu.Unlock()
		if ok && mcp.IsModernProtocol(s.version) {
			for name, value := range mcp.GenerateParamHeaders(&tool, m.Params) {
				h.Set(name, value)
			}
		}
	}
	for name, value := range mcp.StandardHeaders(s.version, mcp.MCPMethod(m.Method), m.Params) {
		h.Set(name, value)
	}
	if repeated, ok := modern.Repeat(m.Method, m.Params); ok && repeated.Named {
		h.Set(modern.HeaderName, modern.EncodeHeader(repeated.Name))
	}
	return h
}

// toolName returns the name of the called tool.
func toolName(params json.RawMessage) string {
	repeated, _ := modern.Repeat(wire.MethodToolsCall, params)
	return repeated.Name
}

// notify sends a notification. notifications/cancelled also ends the request here. Over HTTP in
// revisions without sessions, that closes its stream, so the notification is not sent.
func (s *sender) notify(ctx context.Context, m *jsonrpc.Message, text []byte) error {
	if m.Method == wire.MethodNotificationsCancelled {
		var p wire.CancelledNotificationParams
		if err := codec.Unmarshal(m.Params, &p); err != nil {
			return err
		}
		s.cancel(p.RequestID)
		if _, overHTTP := s.tap.Interface.(transport.HTTPConnection); overHTTP && mcp.IsModernProtocol(s.version) {
			return nil
		}
	}
	n, err := decode[mcp.JSONRPCNotification](text)
	if err != nil {
		return err
	}
	return s.tap.Interface.SendNotification(ctx, *n)
}

// cancel ends a request.
func (s *sender) cancel(id jsonrpc.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[id]; cancel != nil {
		cancel()
		delete(s.cancels, id)
	}
}

// close ends all requests.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cancel := range s.cancels {
		cancel()
	}
	s.cancels = nil
}

// errorOf converts an error of mcp-go.
func errorOf(d *mcp.JSONRPCErrorDetails) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: int64(d.Code), Message: d.Message}
	if d.Data != nil {
		if data, err := encode(d.Data); err == nil {
			e.Data = data
		}
	}
	return e
}
