package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

func TestProjectDoesNotCopyUnchangedValues(t *testing.T) {
	result := &mcp.CallToolResult{Content: []mcp.ContentBlock{
		&mcp.TextContent{Text: "a", Annotations: &mcp.Annotations{Priority: new(0.5)}},
		&mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: "x://y"}},
	}}
	tools := &mcp.ListToolsResult{Tools: []mcp.Tool{{Name: "a"}, {Name: "b", Description: new("d")}}}
	for _, rev := range mcp.Revisions() {
		allocs := testing.AllocsPerRun(10, func() {
			if mcp.Project(rev, result) != result || mcp.Project(rev, tools) != tools {
				t.Errorf("%s: a copy was returned", rev)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations", rev, allocs)
		}
	}
}

func TestProjectKeepsMetadata(t *testing.T) {
	params := &mcp.CallToolRequestParams{Name: "n"}
	if err := json.Unmarshal([]byte(`{"name":"n","_meta":{"progressToken":1,"example.com/x":2}}`), params); err != nil {
		t.Fatal(err)
	}
	for _, rev := range mcp.Revisions() {
		if mcp.Project(rev, params).Meta != params.Meta {
			t.Errorf("%s: _meta was changed", rev)
		}
	}
}

func TestProjectToUnknownRevision(t *testing.T) {
	tool := &mcp.Tool{Name: "a", Title: new("T")}
	if mcp.Project("2000-01-01", tool) != tool {
		t.Error("the tool was changed")
	}
}
