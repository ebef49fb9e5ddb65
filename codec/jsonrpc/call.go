package jsonrpc

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Caller sends a request to the peer and waits for its result. Params are nil if the
// request has none. An error response comes back as an [*Error].
type Caller interface {
	Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error)
}

// Notifier sends a notification to the peer. Params are nil if it has none.
type Notifier interface {
	Notify(ctx context.Context, method string, params codec.Encoder) error
}

// MethodNotFound returns the error that answers a request for a method that does not exist.
func MethodNotFound(method string) error {
	return &Error{Code: CodeMethodNotFound, Message: "method not found: " + method}
}

// InvalidParams returns the error that answers a request whose params are refused because
// of err. An [*Error] stays as it is.
func InvalidParams(err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Code: CodeInvalidParams, Message: "invalid params: " + err.Error()}
}

// DecodePayload decodes the params or the result of a method with read. Read returns the zero value
// and consumes nothing for a method that it does not know. The error is a [*codec.Error], or that
// of [MethodNotFound].
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
		err = MethodNotFound(method)
	}
	return v, err
}

// Params is params as an Encoder, where a nil pointer or interface means that there are
// none.
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
func CallInto[T codec.Decoder](ctx context.Context, c Caller, method string, params codec.Encoder, v T) (T, error) {
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
func CallFor[T any](ctx context.Context, c Caller, method string, params codec.Encoder, read func(*wire.Reader) T) (T, error) {
	result, err := c.Call(ctx, method, params)
	if err != nil {
		var none T
		return none, err
	}
	return codec.UnmarshalFunc(result, read, codec.AllowSize(result)...)
}

// Serve decodes the params of a request and answers it with handle. Absent params are nil
// if they are optional, and refused otherwise. No result, which is a nil pointer or interface,
// without an error is an [*Error] with [CodeInternalError].
func Serve[P any, D interface {
	*P
	codec.Decoder
}, R interface {
	comparable
	codec.Encoder
}](ctx context.Context, params json.RawMessage, optional bool, handle func(context.Context, D) (R, error)) (codec.Encoder, error) {
	return ServeFor(ctx, params, optional, read[P, D], handle)
}

// ServeFor is [Serve] for params that read returns.
func ServeFor[P any, R interface {
	comparable
	codec.Encoder
}](ctx context.Context, params json.RawMessage, optional bool, read func(*wire.Reader) P, handle func(context.Context, P) (R, error)) (codec.Encoder, error) {
	v, err := decodeParams(params, optional, read)
	if err != nil {
		return nil, err
	}
	result, err := handle(ctx, v)
	if err != nil {
		return nil, err
	}
	var none R
	if result == none {
		return nil, &Error{Code: CodeInternalError, Message: "internal error: the handler returned no result"}
	}
	return result, nil
}

// Notice decodes the params of a notification and hands it to handle, as [Serve] does.
func Notice[P any, D interface {
	*P
	codec.Decoder
}](ctx context.Context, params json.RawMessage, optional bool, handle func(context.Context, D) error) error {
	return NoticeFor(ctx, params, optional, read[P, D], handle)
}

// NoticeFor is [Notice] for params that read returns.
func NoticeFor[P any](ctx context.Context, params json.RawMessage, optional bool, read func(*wire.Reader) P, handle func(context.Context, P) error) error {
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

// decodeParams decodes params; what is wrong with them comes back as [InvalidParams].
func decodeParams[P any](params json.RawMessage, optional bool, read func(*wire.Reader) P) (P, error) {
	var none P
	if len(params) == 0 {
		if optional {
			return none, nil
		}
		return none, &Error{Code: CodeInvalidParams, Message: "invalid params: no params"}
	}
	v, err := codec.UnmarshalFunc(params, read, codec.AllowSize(params)...)
	if err != nil {
		return none, InvalidParams(err)
	}
	return v, nil
}
