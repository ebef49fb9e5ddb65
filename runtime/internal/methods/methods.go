// Package methods has what all callers and servers of methods share: a table of what happens to the
// messages of each method, params and results of methods that the protocol does not define as Go
// values, and the cursors of paginated lists.
//
// A [Table] has a [Route] for each method: its handler in the features that are on and concern the
// method. It is compiled when features change, so that a message costs one lookup and passes nothing
// that does not concern it.
package methods

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
)

// Serve decodes the params of a request or a notification, calls f with them, and returns its result
// for encoding. Absent params count as an empty object. If params do not fit P, the error is a
// [*jsonrpc.Error] with code [jsonrpc.CodeInvalidParams].
func Serve[P, R any](raw json.RawMessage, f func(params P) (R, error)) (codec.Encoder, error) {
	if raw == nil {
		raw = json.RawMessage(`{}`)
	}
	var params P
	if err := decode(raw, &params); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	result, err := f(params)
	if err != nil {
		return nil, err
	}
	return Encoder(result), nil
}

// Encoder returns v, a value of package mcp or another Go value, as params or as a result. Nil
// becomes nil, for none.
func Encoder(v any) codec.Encoder {
	if v == nil {
		return nil
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
		return nil
	}
	if e, ok := v.(codec.Encoder); ok {
		return e
	}
	return value.Of(v)
}

// Call sends a request and decodes its result.
func Call[R any](ctx context.Context, to jsonrpc.Caller, method string, params any) (result R, err error) {
	raw, err := to.Call(ctx, method, Encoder(params))
	if err != nil {
		return result, err
	}
	if err := decode(raw, &result); err != nil {
		return result, fmt.Errorf("result of %s: %w", method, err)
	}
	return result, nil
}

func decode(raw json.RawMessage, v any) error {
	if d, ok := v.(codec.Decoder); ok {
		return codec.Unmarshal(raw, d, codec.AllowSize(raw)...)
	}
	return value.Decode(raw, v)
}
