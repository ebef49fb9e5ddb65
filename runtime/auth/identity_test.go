package auth_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

func TestPrincipalOf(t *testing.T) {
	const issuer = "https://as.example.com"
	long := strings.Repeat("x", 600)
	for _, test := range []struct {
		name     string
		identity auth.Identity
		want     string
	}{
		{"user", auth.Identity{Issuer: issuer, Subject: "ann", ClientID: "app"}, issuer + "#ann"},
		{"client", auth.Identity{Issuer: issuer, ClientID: "app"}, issuer + "#client_id=app"},
		{"neither", auth.Identity{Issuer: issuer}, ""},
		{"user with the name of a client", auth.Identity{Issuer: issuer, Subject: "client_id=app"}, ""},
	} {
		got, err := auth.PrincipalOf(&test.identity)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
	first, err := auth.PrincipalOf(&auth.Identity{Issuer: issuer, Subject: long})
	if err != nil || len(first) > 512 || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("long subject: %q, %v", first, err)
	}
	if second, _ := auth.PrincipalOf(&auth.Identity{Issuer: issuer, Subject: long + "y"}); second == first {
		t.Errorf("two long subjects have the principal %q", first)
	}
}
