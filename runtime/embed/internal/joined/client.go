package joined

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Config configures [Open].
type Config struct {
	// Client holds the client info and the capabilities that the other client has declared.
	Client *mcp.InitializeRequestParams

	// Server is the result of initialize or server/discover that the other client has received. The
	// session uses its revision.
	Server *mcp.InitializeResult

	// Request passes an input request of the server to the handlers of the other client.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

	// Notify passes a notification of the server to the handlers of the other client.
	Notify func(method string, params json.RawMessage)

	Logger *slog.Logger
}

// Open opens the joined session. Its requests have no timeout other than their contexts. The Client
// owns conn, even if Open fails.
func Open(ctx context.Context, conn *Conn, c Config) (*client.Client, error) {
	revision := mcp.Revision(c.Server.ProtocolVersion)
	o := &client.Options{
		Info: c.Client.ClientInfo, Features: client.Features{Capabilities: c.Client.Capabilities, Methods: map[string]session.Handler{}},
		Session: session.Options{
			Revisions: []mcp.Revision{revision}, Timeouts: session.Timeouts{Request: -1}, Logger: c.Logger,
			Hooks: session.Hooks{Sending: []session.SendMiddleware{sendMeta}},
		},
	}
	in := o.Session.Internals(boundary.Caller{})
	in.IDPrefix = conn.prefix
	if revision.Traits().Sessionless {
		in.Known = &session.State{Revision: revision, Client: c.Client, Server: c.Server}
	}
	for _, method := range []string{mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage, mcp.MethodRootsList} {
		o.Features.Methods[method] = func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			result, err := c.Request(ctx, req.Method, req.Params)
			if err != nil {
				return nil, err
			}
			return session.Raw(result), nil
		}
	}
	for _, method := range []string{mcp.MethodNotificationsMessage, mcp.MethodNotificationsElicitationComplete} {
		o.Features.Methods[method] = func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			c.Notify(req.Method, req.Params)
			return nil, nil
		}
	}
	return client.Connect(ctx, conn, o)
}

// ReadServer returns the result of initialize or, for a revision without sessions, server/discover.
func ReadServer(revision string, result json.RawMessage) (*mcp.InitializeResult, error) {
	if !mcp.Revision(revision).Traits().Sessionless {
		server := new(mcp.InitializeResult)
		if err := codec.Unmarshal(result, server, codec.AllowSize(result)...); err != nil {
			return nil, fmt.Errorf("joined: result of initialize: %w", err)
		}
		return server, nil
	}
	var d mcp.DiscoverResult
	if err := codec.Unmarshal(result, &d, codec.AllowSize(result)...); err != nil {
		return nil, fmt.Errorf("joined: result of server/discover: %w", err)
	}
	server := &mcp.InitializeResult{ProtocolVersion: revision, Capabilities: d.Capabilities, Instructions: d.Instructions}
	if d.Meta != nil && d.Meta.ServerInfo != nil {
		server.ServerInfo = *d.Meta.ServerInfo
	}
	return server, nil
}

type metaKey struct{}

// WithMeta returns a context for calls of tools. Their _meta has the members of meta, an object.
// Members that the session sets are ignored.
func WithMeta(ctx context.Context, meta json.RawMessage) context.Context {
	if len(meta) == 0 {
		return ctx
	}
	return context.WithValue(ctx, metaKey{}, meta)
}

// sendMeta is the sending middleware that adds the members of [WithMeta].
func sendMeta(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		meta, ok := ctx.Value(metaKey{}).(json.RawMessage)
		if !ok || call.Method != mcp.MethodToolsCall {
			return next(ctx, call)
		}
		err := codec.ReadPart(meta, func(r *wire.Reader) {
			for r.Object(); r.More(); {
				name := r.Key()
				value := r.Raw()
				switch name {
				case "progressToken", modern.MetaVersion, modern.MetaCapabilities, modern.MetaClientInfo:
				default:
					call.SetMeta(name, session.Raw(value))
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("joined: _meta: %w", err)
		}
		return next(ctx, call)
	}
}
