// Command requirements writes docs/reference/requirements.md and
// docs/reference/evidence/requirements.md: the requirements of the protocol and the tests that
// prove them. go generate runs it in the root of the module.
//
// The requirements are the rows of one YAML file per revision, our reading of the specification. A
// test names the requirements that it proves in a comment in its body or above it, on separate
// lines:
//
//	// Proves PING-01, M-RPC-06.
//
// The tests of this command fail if a MUST has no test, if a test names an
// unknown requirement, and if a page is out of date.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	list, err := pages(root)
	if err != nil {
		return err
	}
	for file, text := range list {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
