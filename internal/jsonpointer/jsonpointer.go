// Package jsonpointer escapes the reference tokens of JSON pointers (RFC 6901, section 3).
package jsonpointer

import "strings"

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// Escape returns a member name as a reference token.
func Escape(name string) string { return escaper.Replace(name) }

// Unescape returns the member name of a reference token.
func Unescape(token string) string { return unescaper.Replace(token) }
