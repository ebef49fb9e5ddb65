package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/rpc"
)

// greeting has one member.
type greeting struct{ text string }

func (g *greeting) DecodeJSON(r *wire.Reader) {
	for r.Object(); r.More(); {
		if r.Key() == "text" {
			g.text = r.Text()
		} else {
			r.Skip()
		}
	}
}

func (g *greeting) EncodeJSON(w *wire.Writer) {
	w.Begin()
	w.KeyText(`,"text":"`, g.text)
	w.End()
}

// local is a [jsonrpc.Caller] that calls functions of the same process.
type local struct{}

func (local) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	if method != "greet" {
		return nil, jsonrpc.MethodNotFound(method)
	}
	text, err := codec.Marshal(params)
	if err != nil {
		return nil, err
	}
	result, err := rpc.Serve(ctx, text, false, func(_ context.Context, p *greeting) (*greeting, error) {
		return &greeting{"Hello, " + p.text + "!"}, nil
	})
	if err != nil {
		return nil, err
	}
	return codec.Marshal(result)
}

// A method with types of your own: the receiver calls Serve, and the sender calls CallInto.
func ExampleServe() {
	ctx := context.Background()
	result, err := rpc.CallInto(ctx, local{}, "greet", &greeting{"Ada"}, new(greeting))
	fmt.Println(result.text, err)
	_, err = rpc.CallInto(ctx, local{}, "curse", nil, new(greeting))
	fmt.Println(err)
	// Output:
	// Hello, Ada! <nil>
	// jsonrpc: method not found: curse (code -32601)
}
