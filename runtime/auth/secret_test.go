package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

func TestSecretIsNotPrinted(t *testing.T) {
	type holder struct {
		Exported auth.Secret
		hidden   auth.Secret
	}
	s := auth.NewSecret("hunter2")
	h := holder{s, s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		for _, value := range []any{s, &s, h, &h, []auth.Secret{s}, map[string]any{"s": s}} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("a", "secret", s, "holder", h)
	}
	for _, form := range []string{"hunter2", fmt.Sprintf("%x", "hunter2"), fmt.Sprintf("%X", "hunter2")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q is in %s", form, out.String())
		}
	}
	if s.Reveal() != "hunter2" || !s.Equal(auth.NewSecret("hunter2")) || s.Equal(auth.NewSecret("hunter")) || s.Empty() || !auth.NewSecret("").Empty() {
		t.Error("the secret differs from its text")
	}
}

func TestSecretIsRevealedToItsRecipients(t *testing.T) {
	s := auth.NewSecret("hunter2").For("https://AS.example:443/tenant", "http://127.0.0.1:8080/mcp", "%")
	for _, c := range []struct {
		name   string
		secret auth.Secret
		url    string
		ok     bool
	}{
		{"origin", s, "https://as.example", true},
		{"another path", s, "https://as.example/token?a=b", true},
		{"default port and case", s, "https://as.EXAMPLE:443/", true},
		{"port", s, "http://127.0.0.1:8080/other", true},
		{"another host", s, "https://evil.example/tenant", false},
		{"a subdomain", s, "https://x.as.example/", false},
		{"a longer name", s, "https://as.example.evil.example/", false},
		{"user information", s, "https://as.example@evil.example/", false},
		{"another scheme", s, "http://as.example/", false},
		{"another port", s, "http://127.0.0.1:8081/mcp", false},
		{"no host", s, "https:", false},
		{"narrowed", s.For("https://as.example"), "http://127.0.0.1:8080/mcp", false},
		{"narrowed to its rest", s.For("https://as.example"), "https://as.example/", true},
		{"not widened", s.For("https://evil.example"), "https://evil.example/", false},
		{"for nobody", s.For(), "https://as.example", false},
		{"for everybody", auth.NewSecret("hunter2"), "https://evil.example/", true},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.secret.RevealTo(u)
		if c.ok != (err == nil && text == "hunter2") || !c.ok && (text != "" || !errors.Is(err, auth.ErrRecipient) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %q, %v", c.name, text, err)
		}
	}
	if !s.Equal(auth.NewSecret("hunter2")) || s.Reveal() != "hunter2" || !(auth.Secret{}).For("https://as.example").Empty() {
		t.Error("For changes the text")
	}
}
