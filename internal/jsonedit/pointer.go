package jsonedit

import "strings"

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// EscapeToken returns a member name as a reference token of a JSON pointer (RFC 6901, section 3).
func EscapeToken(name string) string { return escaper.Replace(name) }

// UnescapeToken returns the member name of a reference token.
func UnescapeToken(token string) string { return unescaper.Replace(token) }
