package client

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Method returns a handler for [Features].Methods. It serves a request of the server that the
// protocol does not define. P and R are structs or maps that encode as a JSON object, or types of
// package mcp; R may also be a pointer to one, and nil is the empty result. Params that do not fit P
// are rejected with [jsonrpc.CodeInvalidParams]; absent ones count as an empty object. The context of
// F ends when the server cancels the request. An error that wraps a [*jsonrpc.Error] is sent with its
// code. [session.FromContext] returns the request, for its progress.
func Method[P, R any](f func(ctx context.Context, params P) (R, error)) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return nil, nil
		}
		return methods.Serve(req.Params, func(params P) (R, error) { return f(ctx, params) })
	}
}

// Notification is [Method] for a notification. F is called for one notification at a time, in the
// order in which the server sent them. Its error is logged.
func Notification[P any](f func(ctx context.Context, params P) error) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if !req.IsNotification() {
			return nil, jsonrpc.MethodNotFound(req.Method)
		}
		return methods.Serve(req.Params, func(params P) (codec.Encoder, error) { return nil, f(ctx, params) })
	}
}

// Call sends a request that the protocol does not define to the server, and decodes its result into
// an R. Params is a struct or a map that encodes as a JSON object, a value of package mcp, or nil for
// none. Call fails as [session.Session.Call] does. Options are those of [session.Session.With], such
// as [session.Timeout] and [session.OnProgress].
func Call[R any](ctx context.Context, c *Client, method string, params any, options ...session.Option) (R, error) {
	return methods.Call[R](ctx, c.session.With(options...), method, params)
}

// Notify sends a notification to the server. Params are as for [Call].
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.session.Notify(ctx, method, methods.Encoder(params))
}
