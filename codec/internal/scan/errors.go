package scan

import (
	"fmt"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Unexpected returns the error for the byte at offset i, where want was expected.
func Unexpected(data []byte, i int, want string) error {
	if i >= len(data) {
		return jsonfault.EOF
	}
	return fmt.Errorf("%w: want %s, got %q", jsonfault.Syntax, want, data[i:i+1])
}
