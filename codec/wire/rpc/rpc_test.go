package rpc

import (
	"context"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// A handler that returns neither a result nor an error is the receiver's fault, and must not
// bring it down when the result is written.
func TestServeRejectsMissingResult(t *testing.T) {
	pointer := func(context.Context, *codec.Scalar) (*jsonrpc.Message, error) { return nil, nil }
	union := func(context.Context, *codec.Scalar) (codec.Encoder, error) { return nil, nil }
	for name, serve := range map[string]func() (codec.Encoder, error){
		"a nil pointer":   func() (codec.Encoder, error) { return Serve(t.Context(), nil, true, pointer) },
		"a nil interface": func() (codec.Encoder, error) { return Serve(t.Context(), nil, true, union) },
	} {
		if result, err := serve(); result != nil || jsonrpc.CodeOf(err) != jsonrpc.CodeInternalError {
			t.Errorf("%s: result %v and error %v, want none and code %d", name, result, err, jsonrpc.CodeInternalError)
		}
	}
}
