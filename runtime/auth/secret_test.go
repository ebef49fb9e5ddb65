package auth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
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
