package embedding

import (
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

func TestEdit(t *testing.T) {
	s := newServer(t, tools{}, nil)
	for _, row := range []struct {
		method       string
		rev          mcp.Revision
		result, want string
	}{
		{"initialize", "", `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"x":1.0},"serverInfo":{}}`,
			`{"protocolVersion":"2025-11-25","serverInfo":{},"capabilities":{"tools":{},"x":1.0,"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}}`},
		{"initialize", "", `{"protocolVersion":"2025-06-18","capabilities":{}}`, `{"protocolVersion":"2025-06-18","capabilities":{}}`},
		{"initialize", "", `{"protocolVersion":7,"capabilities":{}}`, `{"protocolVersion":7,"capabilities":{}}`},
		{"server/discover", mcp.Revision20260728, `{"capabilities":{"tasks":{},"extensions":{"x/y":{}}}}`, `{"capabilities":{"extensions":{"x/y":{},"io.modelcontextprotocol/tasks":{}}}}`},
		{"server/discover", mcp.Revision20260728, `{"capabilities":{}}`, `{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`},
		{"server/discover", mcp.Revision20260728, `{"capabilities":[]}`, `{"capabilities":[]}`},
		{"tools/list", mcp.Revision20251125, `{"tools":[{"name":"a","inputSchema":{}},{"execution":{"x":1},"name":"a"},{"name":7}],"nextCursor":"n"}`,
			`{"nextCursor":"n","tools":[{"name":"a","inputSchema":{},"execution":{"taskSupport":"optional"}},{"name":"a","execution":{"x":1,"taskSupport":"optional"}},{"name":7}]}`},
		{"tools/list", mcp.Revision20260728, `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		{"tools/list", mcp.Revision20250618, `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		{"tools/list", "", `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		{"tools/list", mcp.Revision20251125, `{"tools":7}`, `{"tools":7}`},
		{"tools/list", mcp.Revision20251125, `{}`, `{}`},
		{"tools/call", mcp.Revision20251125, `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"}]}`},
		{"tools/list", mcp.Revision20251125, `[]`, ``},
		{"tools/list", mcp.Revision20251125, ``, ``},
		{"tools/list", mcp.Revision20251125, `{"tools":[}`, ``},
	} {
		got, err := s.Edit(row.method, row.rev, json.RawMessage(row.result))
		if string(got) != row.want || (err != nil) != (row.want == "") {
			t.Errorf("%s: got %s, %v, want %s", row.result, got, err, row.want)
		}
	}
	s.fallback = nil // tools are never tasks
	if got, err := s.Edit("tools/list", mcp.Revision20251125, json.RawMessage(`{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b"}]}`)); err != nil || string(got) != `{"tools":[{"name":"a","execution":{"taskSupport":"forbidden"}},{"name":"b"}]}` {
		t.Errorf("got %s, %v", got, err)
	}
}
