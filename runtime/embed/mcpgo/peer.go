package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	codecwire "github.com/mcpwire/mcpwire/codec/wire"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// sessionRequestor is the [task.Requestor] of the client of a session of the SDK. It implements
// [task.Capable].
type sessionRequestor struct {
	s        server.ClientSession
	t        *Tasks
	rewrites bool // as in carrier
}

// Supports implements [task.Capable]. It returns true if the SDK does not know the capabilities of
// the client.
func (r sessionRequestor) Supports(method string) bool {
	withInfo, ok := r.s.(server.SessionWithClientInfo)
	if !ok || withInfo.GetClientInfo().Name == "" {
		return true
	}
	c := withInfo.GetClientCapabilities()
	switch method {
	case wire.MethodElicitationCreate:
		return c.Elicitation != nil
	case wire.MethodSamplingCreateMessage:
		return c.Sampling != nil
	case wire.MethodRootsList:
		return c.Roots != nil
	}
	return false
}

// Call implements [jsonrpc.Caller]. ctx is the context of tasks/result, so the SDK sends the
// request on the stream of its response.
func (r sessionRequestor) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	raw, err := codec.Marshal(params)
	if err != nil {
		return nil, err
	}
	if c := carrierOf(ctx, r.t); c != nil && c.request != nil {
		// The SDK sends the request on the stream of the response, which ends with the HTTP request.
		both := lazyctx.WithBoth(ctx, c.request)
		defer both.Release()
		ctx = both
	}
	result, err := r.call(ctx, method, raw)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // no response yet: the next tasks/result sends the input request again
	case err != nil:
		return nil, responseError(method, err)
	}
	return json.Marshal(result)
}

// call sends a request with the method of the session for it.
func (r sessionRequestor) call(ctx context.Context, method string, params json.RawMessage) (result any, err error) {
	switch method {
	case wire.MethodElicitationCreate:
		if s, ok := r.s.(server.SessionWithElicitation); ok {
			q := mcp.ElicitationRequest{Request: mcp.Request{Method: method}}
			if err := json.Unmarshal(params, &q.Params); err != nil {
				return nil, err
			}
			if r.rewrites {
				q.Params.Message = r.t.tickets.issue(params)
				defer r.t.tickets.close(q.Params.Message)
			}
			return s.RequestElicitation(ctx, q)
		}
	case wire.MethodSamplingCreateMessage:
		if s, ok := r.s.(server.SessionWithSampling); ok {
			q := mcp.CreateMessageRequest{Request: r.request(method, params)}
			if err := json.Unmarshal(params, &q.CreateMessageParams); err != nil {
				return nil, err
			}
			if r.rewrites {
				ticket := r.t.tickets.issue(params)
				defer r.t.tickets.close(ticket)
				q.Metadata = ticket
			}
			return s.RequestSampling(ctx, q)
		}
	case wire.MethodRootsList:
		if s, ok := r.s.(server.SessionWithRoots); ok {
			return s.ListRoots(ctx, mcp.ListRootsRequest{Request: r.request(method, params)})
		}
	}
	return nil, jsonrpc.MethodNotFound(method)
}

// request returns the part of a request that has the _meta. Some transports of the SDK do not send
// it.
func (sessionRequestor) request(method string, params json.RawMessage) mcp.Request {
	q := mcp.Request{Method: method}
	json.Unmarshal(params, &q.Params) // the caller reports invalid params
	return q
}

// responseError converts the error of a request to the client. Over HTTP, the text of the error has
// the code of the error response. Over standard input and output, the SDK drops the code.
func responseError(method string, err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	if text, ok := strings.CutPrefix(e.Message, method+" error "); ok {
		code, message, _ := strings.Cut(text, ": ")
		if n, err := strconv.ParseInt(code, 10, 64); err == nil {
			e.Code, e.Message = n, message
		}
	}
	return e
}

// Notify implements [jsonrpc.Notifier]. It fails if the queue of the session is full.
func (r sessionRequestor) Notify(_ context.Context, method string, params codec.Encoder) error {
	n, err := notification(method, params)
	if err != nil {
		return err
	}
	select {
	case channel(r.s) <- n:
		return nil
	default:
		return server.ErrNotificationChannelBlocked
	}
}

// plainPeer is the [session.Peer] of a call that has not become a task, in revisions without
// sessions.
type plainPeer struct {
	ctx    context.Context // of the request
	s      server.ClientSession
	params json.RawMessage // of the request
}

// Call implements [session.Peer]. Clients of these revisions serve no requests.
func (p plainPeer) Call(_ context.Context, method string, _ codec.Encoder) (json.RawMessage, error) {
	return nil, jsonrpc.MethodNotFound(method)
}

// Notify implements [session.Peer].
func (p plainPeer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	n, err := notification(method, params)
	if err != nil {
		return err
	}
	both := lazyctx.WithBoth(ctx, p.ctx)
	defer both.Release()
	return send(both, p.s, n)
}

// Report implements [session.Peer].
func (p plainPeer) Report(r session.Progress) error {
	meta, _ := codec.Member(p.params, "_meta")
	token, ok := codec.Member(meta, "progressToken")
	if !ok {
		return nil
	}
	params := map[string]any{"progressToken": token, "progress": r.Value}
	if r.Total != nil {
		params["total"] = *r.Total
	}
	if r.Message != "" {
		params["message"] = r.Message
	}
	return p.Notify(p.ctx, wire.MethodNotificationsProgress, value.Of(params))
}

// send sends a notification. It waits while the queue of the session is full, and fails if ctx
// ends.
func send(ctx context.Context, s server.ClientSession, n mcp.JSONRPCNotification) error {
	select {
	case channel(s) <- n:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// channel returns the queue of a session for notifications, or nil if there is no session. Like the
// functions of the SDK, it turns a response over HTTP into a stream.
func channel(s server.ClientSession) chan<- mcp.JSONRPCNotification {
	if s == nil {
		return nil
	}
	if streaming, ok := s.(server.SessionWithStreamableHTTPConfig); ok {
		streaming.UpgradeToSSEWhenReceiveNotification()
	}
	return s.NotificationChannel()
}

// notification returns a notification of the SDK. The members of its params stay the same bytes.
func notification(method string, params codec.Encoder) (n mcp.JSONRPCNotification, err error) {
	n.JSONRPC, n.Method = mcp.JSONRPC_VERSION, method
	if params == nil {
		return n, nil
	}
	raw, err := codec.Marshal(params)
	if err != nil {
		return n, err
	}
	if n.Params.AdditionalFields, err = members(raw); err != nil {
		return n, err
	}
	if meta, ok := n.Params.AdditionalFields["_meta"].(json.RawMessage); ok {
		delete(n.Params.AdditionalFields, "_meta")
		n.Params.Meta, err = members(meta)
	}
	return n, err
}

// members returns the members of an object. They share the memory of text.
func members(text json.RawMessage) (map[string]any, error) {
	all := make(map[string]any)
	err := codec.ReadPart(text, func(r *codecwire.Reader) {
		for r.Object(); r.More(); {
			name := r.Key()
			all[name] = json.RawMessage(r.RawBytes())
		}
	})
	return all, err
}
