// Package rpc calls and serves methods for generated code: it decodes params and results, and
// reports what is wrong with them as JSON-RPC errors.
package rpc

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// DecodePayload decodes the params or the result of a method with read. Read returns the zero value
// and consumes nothing for a method that it does not know. The error is a [*codec.Error], or for an
// unknown method that of [jsonrpc.MethodNotFound].
func DecodePayload[V comparable](method string, data []byte, read func(r *wire.Reader, method string) V, opts ...codec.Option) (V, error) {
	var none V
	known := true
	v, err := codec.UnmarshalFunc(data, func(r *wire.Reader) V {
		v := read(r, method)
		if known = v != none; !known {
			r.Skip()
		}
		return v
	}, opts...)
	if err == nil && !known {
		err = jsonrpc.MethodNotFound(method)
	}
	return v, err
}

// Params returns params as an Encoder. It returns nil, which means no params, if params is a nil
// pointer or interface.
func Params[P interface {
	comparable
	codec.Encoder
}](params P) codec.Encoder {
	var none P
	if params == none {
		return nil
	}
	return params
}

// CallInto calls a method and decodes its result into v, which it returns.
func CallInto[T codec.Decoder](ctx context.Context, c jsonrpc.Caller, method string, params codec.Encoder, v T) (T, error) {
	var none T
	result, err := c.Call(ctx, method, params)
	if err != nil {
		return none, err
	}
	if err := codec.Unmarshal(result, v, codec.AllowSize(result)...); err != nil {
		return none, err
	}
	return v, nil
}

// CallFor calls a method and decodes its result with read.
func CallFor[T any](ctx context.Context, c jsonrpc.Caller, method string, params codec.Encoder, read func(*wire.Reader) T) (T, error) {
	result, err := c.Call(ctx, method, params)
	if err != nil {
		var none T
		return none, err
	}
	return codec.UnmarshalFunc(result, read, codec.AllowSize(result)...)
}

// Serve decodes the params of a request and answers it with handle. If optional is set, absent
// params are passed as nil; otherwise they fail with [jsonrpc.CodeInvalidParams]. If handle returns
// neither a result nor an error, Serve fails with [jsonrpc.CodeInternalError].
func Serve[P any, D interface {
	*P
	codec.Decoder
}, R interface {
	comparable
	codec.Encoder
}](ctx context.Context, params json.RawMessage, optional bool, handle func(context.Context, D) (R, error)) (codec.Encoder, error) {
	v, err := decodeParams(params, optional, read[P, D]) // not through ServeFor, because handle may keep the stack for long
	if err != nil {
		return nil, err
	}
	return served(handle(ctx, v))
}

// ServeFor is like [Serve], but decodes the params by calling read.
func ServeFor[P any, R interface {
	comparable
	codec.Encoder
}](ctx context.Context, params json.RawMessage, optional bool, read func(*wire.Reader) P, handle func(context.Context, P) (R, error)) (codec.Encoder, error) {
	v, err := decodeParams(params, optional, read)
	if err != nil {
		return nil, err
	}
	return served(handle(ctx, v))
}

// served returns what handle has returned to [ServeFor].
func served[R interface {
	comparable
	codec.Encoder
}](result R, err error) (codec.Encoder, error) {
	if err != nil {
		return nil, err
	}
	var none R
	if result == none {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the handler returned no result"}
	}
	return result, nil
}

// ServeNotification decodes the params of a notification as [Serve] does, and calls handle with
// them.
func ServeNotification[P any, D interface {
	*P
	codec.Decoder
}](ctx context.Context, params json.RawMessage, optional bool, handle func(context.Context, D) error) error {
	return ServeNotificationFor(ctx, params, optional, read[P, D], handle)
}

// ServeNotificationFor is like [ServeNotification], but decodes the params by calling read.
func ServeNotificationFor[P any](ctx context.Context, params json.RawMessage, optional bool, read func(*wire.Reader) P, handle func(context.Context, P) error) error {
	v, err := decodeParams(params, optional, read)
	if err != nil {
		return err
	}
	return handle(ctx, v)
}

// read reads params into a new variable.
func read[P any, D interface {
	*P
	codec.Decoder
}](r *wire.Reader) D {
	v := D(new(P))
	v.DecodeJSON(r)
	return v
}

// decodeParams decodes params. It returns a failure as [jsonrpc.InvalidParams] does.
func decodeParams[P any](params json.RawMessage, optional bool, read func(*wire.Reader) P) (P, error) {
	var none P
	if len(params) == 0 {
		if optional {
			return none, nil
		}
		return none, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: params are missing"}
	}
	v, err := codec.UnmarshalFunc(params, read, codec.AllowSize(params)...)
	if err != nil {
		return none, jsonrpc.InvalidParams(err)
	}
	return v, nil
}
