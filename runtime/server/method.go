package server

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Method returns a handler for [Features.Methods], or for [Extension].Methods, that serves requests. P
// and R are structs or maps that encode as a JSON object, or types of package mcp; R may also be a
// pointer to one, and nil is the empty result. Params that do not fit P are rejected with
// [jsonrpc.CodeInvalidParams]; absent ones count as an empty object. F is called, cancelled and
// limited like the function of a tool, and its Call reports progress and reaches the client. An
// error that wraps a [*jsonrpc.Error] is sent with its code.
//
// By convention, the name of the method starts with a domain name of its author, as in
// "example.com/version".
func Method[P, R any](f func(ctx context.Context, c *Call, params P) (R, error)) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		p, ok := peerOf(ctx, req) // otherwise the handler is used outside of a server
		if !ok || req.IsNotification() {
			return nil, methodNotFound(req)
		}
		return methods.Serve(req.Params, func(params P) (R, error) { return f(ctx, newCall(ctx, p), params) })
	}
}

// Notification is [Method] for a notification. F is called for one notification of a session at a
// time, in the order in which the client sent them. Its error is logged.
func Notification[P any](f func(ctx context.Context, c *Call, params P) error) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		p, ok := peerOf(ctx, req)
		if !ok || !req.IsNotification() {
			return nil, methodNotFound(req)
		}
		return methods.Serve(req.Params, func(params P) (codec.Encoder, error) { return nil, f(ctx, newCall(ctx, p), params) })
	}
}

// Request sends a request that the protocol does not define to the client of a call, and decodes
// its result into an R. Params is a value as for [Method], or nil for none. Options are those of
// [session.Session.With], such as [session.Timeout]. Request fails with [session.ErrClosed] if the
// call has no client, and otherwise as [session.Session.Call] does.
func Request[R any](ctx context.Context, c *Call, method string, params any, options ...session.Option) (R, error) {
	var to jsonrpc.Caller = noClient{}
	if peer, ok := session.PeerFrom(c.ctx); ok {
		to = peer
	}
	if sess := c.Session(); sess != nil && len(options) > 0 {
		to = sess.With(options...)
	}
	return methods.Call[R](ctx, to, method, params)
}

// checkLogLevel rejects a modern request with an unknown log level (MCP logging, "Error Handling").
// For methods of the protocol, the validation of the params does it.
func checkLogLevel(req *session.Request) error {
	if !req.Traits().LogInRequests {
		return nil
	}
	meta, err := req.Meta()
	if err != nil {
		return invalidParams("_meta: %v", err)
	}
	if level := meta.LogLevel; level != nil {
		if _, ok := severity(*level); !ok {
			return invalidParams("_meta: unknown log level: %q", *level)
		}
	}
	return nil
}
