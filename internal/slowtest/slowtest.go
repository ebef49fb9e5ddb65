// Package slowtest lets tests that take long run only when they are asked for, so that
// "go test ./..." is short enough to run between two changes. Set the environment variable
// MCPWIRE_SLOW=1 to run them, as .ci/check does.
package slowtest

import (
	"os"
	"testing"
)

// Enabled reports whether slow tests are to run.
func Enabled() bool { return os.Getenv("MCPWIRE_SLOW") != "" }

// Require skips the rest of a test unless slow tests are to run. What the rest does is for the
// message, such as "builds all projects".
func Require(t *testing.T, does string) {
	t.Helper()
	if !Enabled() {
		t.Skipf("this test %s; set MCPWIRE_SLOW=1 to run it, as .ci/check does", does)
	}
}
