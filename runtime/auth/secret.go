package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

// Secret is a token, key or password. Only Reveal and RevealTo return its text. With every verb of
// package fmt, in JSON and in logs, it prints as "[secret]"; stores write the text of Reveal. The
// zero value is an empty secret. Secrets are compared with Equal, not with ==.
//
// A secret that is sent to others knows its recipients: For names them where the secret is
// obtained, and RevealTo checks them where a request is sent. That a secret does not reach a wrong
// party then does not depend on the code in between.
type Secret struct {
	redacted
	text *string   // a pointer, because fmt ignores the methods of unexported fields
	to   *[]string // the canonical origins of the recipients; nil if any recipient may get the text
}

const hidden = "[secret]"

// ErrRecipient means that a secret was about to be sent to a party for which it is not meant.
var ErrRecipient = errors.New("secret is meant for another recipient")

// NewSecret returns a secret with the given text, which may be sent to every recipient.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// For returns a copy of s that is meant only for the origins of urls. It never adds a recipient: if
// s already has recipients, the copy has those that are also origins of urls. Malformed URLs are
// ignored. Equal ignores recipients.
func (s Secret) For(urls ...string) Secret {
	if s.Empty() {
		return s
	}
	var to []string
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		if origin := originOf(u); origin != "" && (s.to == nil || slices.Contains(*s.to, origin)) {
			to = append(to, origin)
		}
	}
	return Secret{text: s.text, to: &to}
}

// originOf returns the canonical origin of a URL, or "" if it has none.
func originOf(u *url.URL) string {
	origin, err := authtext.Canonical((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	if err != nil {
		return ""
	}
	return origin
}

// RevealTo returns the text for a request to u. It fails with ErrRecipient if s is not meant for
// the origin of u.
func (s Secret) RevealTo(u *url.URL) (string, error) {
	if s.Empty() || s.to == nil {
		return s.Reveal(), nil
	}
	for _, origin := range *s.to { // compares without building a string
		scheme, host, _ := strings.Cut(origin, "://")
		if scheme == u.Scheme && host == u.Host {
			return *s.text, nil
		}
	}
	if origin := originOf(u); origin != "" && slices.Contains(*s.to, origin) {
		return *s.text, nil
	}
	return "", fmt.Errorf("%w: it is for %q, not for %q", ErrRecipient, strings.Join(*s.to, " "), u.Scheme+"://"+u.Host)
}

// Reveal returns the text, whatever its recipients. It is for storing a secret. To send one, use
// RevealTo.
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

// redacted prints as "[secret]" everywhere.
type redacted struct{}

func (redacted) String() string               { return hidden }
func (redacted) Format(f fmt.State, _ rune)   { io.WriteString(f, hidden) }
func (redacted) MarshalText() ([]byte, error) { return []byte(hidden), nil }
func (redacted) LogValue() slog.Value         { return slog.StringValue(hidden) }
