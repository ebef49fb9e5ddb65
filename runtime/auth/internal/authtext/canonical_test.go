package authtext_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

// Proves AUTH-17.
func TestCanonical(t *testing.T) {
	for from, want := range map[string]string{
		"HTTPS://Host:443/mcp":    "https://host/mcp",
		"https://host":            "https://host",
		"https://host/":           "https://host",
		"https://host/?":          "https://host",
		"https://host/?a=B":       "https://host?a=B",
		"https://host:/Mcp/":      "https://host/Mcp/",
		"http://host:0080/mcp":    "http://host/mcp",
		"http://host:443/mcp":     "http://host:443/mcp",
		"https://[2001:DB8::1]:8": "https://[2001:db8::1]:8",
		"https://host/a%2Fb/%41":  "https://host/a%2Fb/%41",
	} {
		if got, err := authtext.Canonical(from); got != want || err != nil {
			t.Errorf("Canonical(%q): %q, %v; want %q", from, got, err, want)
		}
	}
	for _, from := range []string{"", "mcp.example.com", "/mcp", "mailto:a", "ftp://host", "https:///mcp", "https://:80/",
		"https://host/mcp#part", "https://host/mcp#", "https://u:sesame@host/", "https://u:sesame@ho st/", "https://host/a/../b", "https://host/%2e%2e/b", "https://host:65536/", "https://host:0/"} {
		got, err := authtext.Canonical(from)
		if err == nil {
			t.Errorf("Canonical(%q): %q, want an error", from, got)
		} else if strings.Contains(err.Error(), "sesame") {
			t.Errorf("Canonical(%q) shows the password: %v", from, err)
		}
	}
}
