// Command requirements writes docs/requirements.md: what the protocol demands, and which tests prove that it is met.
// It is run by go generate from the root of the module.
//
// The requirements are the rows of 2025-11-25.yaml, our reading of the specification. A test names those that it
// proves in a comment inside it or on top of it, on lines of their own:
//
//	// Proves PING-01, JSONRPC-06.
//
// The test of this command fails if a requirement of a family that was built has no test, if a test names one that
// does not exist, and if the document is not up to date.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string) error {
	text, err := document(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, file), text, 0o644)
}
