package jsonedit_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

func TestEscape(t *testing.T) {
	for name, want := range map[string]string{"": "", "a": "a", "a/b": "a~1b", "~1": "~01", "/~/": "~1~0~1"} {
		if got := jsonedit.EscapeToken(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
		if got := jsonedit.UnescapeToken(want); got != name {
			t.Errorf("%q: got %q back, want %q", want, got, name)
		}
	}
}
