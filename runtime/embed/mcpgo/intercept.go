package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

// carrier marks the context of requests over the wrapped transports. Only these requests are
// intercepted.
type carrier struct {
	t      *Tasks
	header http.Header // of the HTTP request, or nil
	// rewrites says that the transport wrapper replaces the texts that the SDK writes; see rewrite.
	// It is false for transports that do not write: HandleMessage and InProcess.
	rewrites bool
	special  atomic.Bool // what the SDK writes for the HTTP request may have to be replaced
	// request is the context of the HTTP request, or nil. A tasks/result may outlive it.
	request context.Context
	issued  string // ticket of the response to the HTTP request, or ""
}

type carrierKey struct{}

func withCarrier(ctx context.Context, c *carrier) context.Context {
	return context.WithValue(rerun.Detached(ctx), carrierKey{}, c)
}

// withoutCarrier returns a context whose requests are not intercepted.
func withoutCarrier(ctx context.Context) context.Context {
	return context.WithValue(ctx, carrierKey{}, (*carrier)(nil))
}

// carrierOf returns the carrier of t in ctx, or nil.
func carrierOf(ctx context.Context, t *Tasks) *carrier {
	c, _ := ctx.Value(carrierKey{}).(*carrier)
	if c == nil || c.t != t {
		return nil
	}
	return c
}

// intercept is the hook that sees each request before the SDK serves it. It serves requests about
// tasks. A hook cannot return a response, so intercept returns an error: its text is a ticket. The
// SDK responds with an error that has this text, and the wrapper of the transport sends the response
// instead.
func (t *Tasks) intercept(ctx context.Context, _ any, message any) error {
	c := carrierOf(ctx, t)
	text, ok := message.(json.RawMessage)
	if c == nil || !ok {
		return nil
	}
	if _, special := t.engine.Peek(text); !special {
		return nil
	}
	c.special.Store(true)
	response := t.respond(ctx, c, text)
	if response == nil {
		return nil
	}
	ticket := t.tickets.issue(response)
	if c.request != nil {
		c.issued = ticket
	}
	return errors.New(ticket)
}

// respond serves a request and returns the response. It returns nil if the SDK has to serve the
// request, and an empty response if the client has cancelled it.
func (t *Tasks) respond(ctx context.Context, c *carrier, message json.RawMessage) []byte {
	m, err := jsonrpc.ParseReceived(message)
	if err != nil {
		return nil // the SDK reports the fault
	}
	in, fault := t.incoming(ctx, c, &m)
	if in == nil && fault == nil {
		return nil
	}
	var result json.RawMessage
	if fault == nil {
		if c.request != nil && in.Method == wire.MethodTasksResult && in.Session != "" {
			base, resumable := ctx, t.resumable.Load()
			if resumable {
				base = context.WithoutCancel(ctx) // the context of the HTTP request
			}
			var done func()
			ctx, done = t.waits.Add(base, c.request, embedding.Waiter{Session: in.Session, Principal: in.Principal}, resumable)
			defer done()
		}
		if in.Session != "" || c.header == nil { // clients without sessions share the ids
			var remove func()
			ctx, remove = t.requests.add(ctx, requestKey{in.Session, jsonrpc.CanonicalID(m.ID)})
			defer remove()
		}
		var handled bool
		result, handled, err = t.serve(ctx, in, message)
		switch {
		case err == nil && !handled:
			return nil
		case err == nil:
		case c.request != nil && c.request.Err() != nil: // an EventStore may record the response
			fault = &errLost
		case errors.Is(err, context.Canceled): // by the client
			return []byte{}
		default:
			fault = boundary.WireError(err)
		}
	}
	response := jsonrpc.NewResponse(m.ID, result)
	if fault != nil {
		response = jsonrpc.NewErrorResponse(m.ID, fault)
	}
	text, err := codec.Marshal(&response)
	if err != nil {
		return nil
	}
	return text
}

// serve passes a request to the engine. handled is false if the SDK has to serve it.
func (t *Tasks) serve(ctx context.Context, in *embedding.Incoming, message json.RawMessage) (result json.RawMessage, handled bool, err error) {
	var l *listenSession
	if in.Method == wire.MethodSubscriptionsListen {
		l = newListenSession(server.ClientSessionFromContext(ctx))
		in.Send = l.notify
	}
	out, err := t.engine.Serve(ctx, in)
	switch {
	case err != nil:
		return nil, true, err
	case out.Handled:
		if out.Result == nil {
			result = json.RawMessage(`{}`)
		} else if result, err = boundary.Marshal(out.Result); err != nil {
			return nil, true, err
		}
		if in.Plain != nil {
			result = t.withInfo(result)
		}
		return result, true, nil
	case out.TaskIDs != nil && l != nil:
		defer out.Stop()
		result, err = t.listen(ctx, l, message, out.TaskIDs)
		return result, true, err
	}
	return nil, false, nil
}

// withInfo adds the server info to the result of a modern request, like the SDK.
func (t *Tasks) withInfo(result json.RawMessage) json.RawMessage {
	meta, _ := codec.Member(result, "_meta")
	if _, ok := codec.Member(meta, modern.MetaServerInfo); ok {
		return result
	}
	return jsonedit.WithPath(result, t.info, "_meta", modern.MetaServerInfo)
}

// incoming describes a request for the engine. It returns an error to respond with, or nil and nil
// if the SDK has to serve the request.
func (t *Tasks) incoming(ctx context.Context, c *carrier, m *jsonrpc.Message) (*embedding.Incoming, *jsonrpc.Error) {
	s := server.ClientSessionFromContext(ctx)
	principal, err := t.engine.Principal(ctx, c.header, "")
	if err != nil {
		return nil, boundary.WireError(err)
	}
	in := &embedding.Incoming{ID: m.ID, Method: m.Method, Params: m.Params, Header: c.header, Principal: principal}
	if s != nil {
		in.Session = s.SessionID()
	}
	meta, named := modern.Meta(m.Params)
	if version, fault := meta.Version(); named && mcp.IsModernProtocol(version) {
		in.Revision = wire.Revision(version)
		if fault != nil || !in.Revision.Traits().Sessionless {
			return nil, nil // the SDK reports the fault
		}
		if fault := t.checkHeader(c.header, version, m); fault != nil {
			return nil, fault
		}
		in.Plain = plainPeer{ctx, s, m.Params}
		if m.Method == wire.MethodToolsCall {
			in.Client.Initialize = modernClient(version, m.Params)
		}
		return in, nil
	}
	in.Revision = sessionRevision(s, c.header)
	if !in.Revision.Has(wire.MethodTasksGet) {
		return nil, nil
	}
	in.Requestor = sessionRequestor{s, t, c.rewrites}
	if m.Method == wire.MethodToolsCall {
		in.Client.Initialize = sessionClient(s, in.Revision)
	}
	return in, nil
}

// sessionRevision returns the revision of a session. In stateless mode, the SDK does not know it,
// so it comes from the header.
func sessionRevision(s server.ClientSession, header http.Header) wire.Revision {
	version := ""
	if versioned, ok := s.(server.SessionWithProtocolVersion); ok {
		version = versioned.ProtocolVersion()
	}
	if version == "" {
		version = header.Get(modern.HeaderVersion)
	}
	if version == "" {
		version = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	}
	return wire.Revision(version)
}

// sessionClient returns the params of initialize of a session, or nil if the SDK does not know
// them.
func sessionClient(s server.ClientSession, rev wire.Revision) json.RawMessage {
	withInfo, ok := s.(server.SessionWithClientInfo)
	if !ok || withInfo.GetClientInfo().Name == "" {
		return nil
	}
	text, err := json.Marshal(struct {
		Version      wire.Revision          `json:"protocolVersion"`
		Info         mcp.Implementation     `json:"clientInfo"`
		Capabilities mcp.ClientCapabilities `json:"capabilities"`
	}{rev, withInfo.GetClientInfo(), withInfo.GetClientCapabilities()})
	if err != nil {
		return nil
	}
	return text
}

// modernClient returns the _meta of a modern request as params of initialize.
func modernClient(version string, params json.RawMessage) json.RawMessage {
	meta, _ := codec.Member(params, "_meta")
	client := jsonedit.With(nil, "protocolVersion", json.RawMessage(`"`+version+`"`)) // needs no escapes: it is a known version
	for _, member := range [][2]string{{"clientInfo", modern.MetaClientInfo}, {"capabilities", modern.MetaCapabilities}} {
		if value, ok := codec.Member(meta, member[1]); ok {
			client = jsonedit.With(client, member[0], value)
		}
	}
	return client
}

// checkHeader checks the header of a modern request over HTTP. The SDK would do so only after the
// hook.
func (t *Tasks) checkHeader(header http.Header, version string, m *jsonrpc.Message) *jsonrpc.Error {
	if header == nil {
		return nil
	}
	err := mcp.ValidateStandardHeaders(header.Get, version, mcp.MCPMethod(m.Method), m.Params)
	if err == nil && m.Method == wire.MethodToolsCall {
		var call struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(m.Params, &call) == nil {
			if tool := t.server.GetTool(call.Name); tool != nil {
				lookup := func(name string) (string, bool) {
					values := header.Values(name)
					return header.Get(name), len(values) > 0
				}
				err = mcp.ValidateParamHeadersLookup(lookup, &tool.Tool, m.Params)
			}
		}
	}
	if err != nil {
		return &jsonrpc.Error{Code: modern.CodeHeaderMismatch, Message: err.Error()}
	}
	return embedding.CheckName(m.Method, m.Params, header)
}
