package auth

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Secret is a token, key or password. Only Reveal returns its text. With every verb of package fmt,
// in JSON and in logs, it prints as "[secret]". The zero value is an empty secret.
// Secrets are compared with Equal, not with ==.
type Secret struct{ text *string } // a pointer, because fmt ignores the methods of unexported fields

const hidden = "[secret]"

// NewSecret returns a secret with the given text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether the text is empty.
func (s Secret) Empty() bool { return s.text == nil }

// Equal compares the texts in constant time.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns "[secret]".
func (Secret) String() string { return hidden }

// Format writes "[secret]" for each verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, hidden) }

// MarshalText returns "[secret]". Stores write the text of Reveal.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue returns "[secret]".
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
