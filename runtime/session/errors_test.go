package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
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
