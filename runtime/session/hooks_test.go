package session

import (
	"context"
	"reflect"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Without middleware and Rejected, messages have no allocation for them.
func TestNoHooksAllocateNothing(t *testing.T) {
	handler := Handler(func(context.Context, *Request) (codec.Encoder, error) { return nil, nil })
	if wrapped := wrap(handler, []Middleware(nil)); reflect.ValueOf(wrapped).Pointer() != reflect.ValueOf(handler).Pointer() {
		t.Error("the handler is wrapped")
	}
	cfg, fault := new(Options), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest}
	if n := testing.AllocsPerRun(100, func() { cfg.rejected("tools/call", fault) }); n != 0 {
		t.Errorf("a rejected request has %v allocations", n)
	}
}
