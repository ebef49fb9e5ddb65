package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func TestIsTemporary(t *testing.T) {
	retry := json.RawMessage(`{"retryAfter":1000}`)
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("broken"), false},
		{(*jsonrpc.Error)(nil), false},
		{&jsonrpc.Error{Code: session.CodeOverloaded}, true},
		{&jsonrpc.Error{Code: session.CodeClosing}, true},
		{&jsonrpc.Error{Code: -31050}, true},
		{&jsonrpc.Error{Code: -31051}, true},
		{&jsonrpc.Error{Code: jsonrpc.CodeInternalError}, false},
		{&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Data: json.RawMessage(`"retryAfter"`)}, false},
		{&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Data: retry}, true},
		{fmt.Errorf("call: %w", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Data: retry}), true},
		{&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Data: retry}, false},
	} {
		if got := session.IsTemporary(test.err); got != test.want {
			t.Errorf("IsTemporary(%#v) = %v", test.err, got)
		}
	}
}

// A request that is served again outside of any session fails with the errors of its revision.
func TestFailureHasTheCodesOfTheRevision(t *testing.T) {
	missing := &session.CapabilityError{Method: "roots/list", Capability: "roots"}
	for _, test := range []struct {
		revision mcp.Revision
		err      error
		want     int64
	}{
		{mcp.Revision20251125, &jsonrpc.Error{Code: session.CodeOverloaded}, session.CodeOverloaded},
		{mcp.Revision20260728, &jsonrpc.Error{Code: session.CodeOverloaded}, -31050},
		{mcp.Revision20251125, &jsonrpc.Error{Code: -32002}, -32002},
		{mcp.Revision20260728, &jsonrpc.Error{Code: -32002}, jsonrpc.CodeInvalidParams},
		{mcp.Revision20251125, missing, jsonrpc.CodeInternalError},
		{mcp.Revision20260728, missing, -32021},
	} {
		req := new(session.Request).Internals(boundary.Caller{}).Stored(codec.IntScalar(1), "tools/call", nil, test.revision)
		if got := req.Internals(boundary.Caller{}).Failure(test.err).Code; got != test.want {
			t.Errorf("%s: %v: code %d, want %d", test.revision, test.err, got, test.want)
		}
	}
}
