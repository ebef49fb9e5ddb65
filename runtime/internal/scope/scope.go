// Package scope checks the syntax of scopes.
package scope

import (
	"fmt"
	"strings"
)

// Check returns an error unless all scopes are valid (RFC 6749, section 3.3).
func Check(scopes []string) error {
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			return fmt.Errorf("scope %q is not a word of printable ASCII without quotes and backslashes", scope)
		}
	}
	return nil
}
