package modern_test

import (
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// A revision is modern if and only if Revisions lists it.
func TestIsRevision(t *testing.T) {
	for _, rev := range append(mcp.Revisions(), "", "2099-01-01") {
		if got, want := modern.IsRevision(rev), slices.Contains(modern.Revisions(), rev); got != want {
			t.Errorf("IsRevision(%q) = %t, want %t", rev, got, want)
		}
	}
}
