// Command generate writes the generated packages of this module. go generate runs it in the root
// of the module.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/internal/gen/protocol"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	packages, err := protocol.Generate()
	if err != nil {
		return err
	}
	for _, p := range packages {
		dir := filepath.Join(root, filepath.FromSlash(p.Dir))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, f := range p.Files {
			if err := os.WriteFile(filepath.Join(dir, f.Name), f.Src, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
