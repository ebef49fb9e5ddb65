package streamable

import (
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

func TestHandshakeIsCompletedByAResultOnly(t *testing.T) {
	for answer, want := range map[string]mcp.Revision{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}`:                                                              "",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}`:                                                                      "",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`: "2025-06-18",
	} {
		var h handshake
		revision, ok := h.complete([]byte(answer))
		if revision != want || ok != (want != "") || h.isOpen() != ok || h.negotiated() != want {
			t.Errorf("%s: got %q, %v; then %q", answer, revision, ok, h.negotiated())
		}
	}
}
