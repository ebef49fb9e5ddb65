package boundary

import (
	"fmt"
	"strings"
)

// CheckScopes returns an error that names the first scope that is not valid (RFC 6749, section
// 3.3), or nil if all are: a scope is a word of printable ASCII without quotes and backslashes.
func CheckScopes(scopes []string) error {
	for _, scope := range scopes {
		if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			return fmt.Errorf("scope %q is not a word of printable ASCII without quotes and backslashes", scope)
		}
	}
	return nil
}
