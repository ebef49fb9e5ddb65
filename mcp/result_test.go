package mcp_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

func TestCallToolResultFailed(t *testing.T) {
	var absent *mcp.CallToolResult
	for want, list := range map[bool][]*mcp.CallToolResult{
		false: {absent, {}, {IsError: new(false)}},
		true:  {{IsError: new(true)}},
	} {
		for _, r := range list {
			if got := r.Failed(); got != want {
				t.Errorf("%+v: got %t", r, got)
			}
		}
	}
}
