package methods_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/methods"
)

// Proves META-02, META-03, M-META-09.
func TestCheckMetaKey(t *testing.T) {
	for _, test := range []struct {
		key          string
		ok, reserved bool
	}{
		{"progressToken", true, false},
		{"", true, false},
		{"a.b_c-9", true, false},
		{"com.example/trace", true, false},
		{"com.example/", true, false},
		{"com.example.mcp/x", true, false},
		{"x/y", true, false},
		{"com.mcp.tools/x", true, true},
		{"io.modelcontextprotocol/related-task", true, true},
		{"mcp/x", true, false},
		{"1a/x", false, false},
		{"a-/x", false, false},
		{"a/-x", false, false},
		{"a/x-", false, false},
		{"a/b/c", false, false},
		{"a..b/x", false, false},
		{"/x", false, false},
		{"-x", false, false},
		{"ä/x", false, false},
		{"a b", false, false},
	} {
		if err := methods.CheckMetaKey(test.key); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.key, err)
		}
		if got := methods.ReservedMetaKey(test.key); got != test.reserved {
			t.Errorf("%q: reserved is %v", test.key, got)
		}
	}
}
