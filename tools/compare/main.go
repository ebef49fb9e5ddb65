// Command compare sends small MCP documents through the Go types of several libraries, mcpwire
// among them. It writes pages about what each library loses, changes, refuses and accepts, for
// ordinary documents and for the hostile inputs of package internal/hostile.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run . DOCS\n\ncompare writes its pages to the folder DOCS, for example ../../docs/reference.")
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := writePages(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// writePages writes all pages to the folder docs.
func writePages(docs string) error {
	r, err := Run()
	if err != nil {
		return err
	}
	comparison, err := r.pages()
	if err != nil {
		return err
	}
	for _, p := range append(comparison, RunHostile().pages()...) {
		if err := os.WriteFile(filepath.Join(docs, filepath.FromSlash(p.file)), []byte(p.text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// page is a generated Markdown file.
type page struct {
	file string // relative to the folder of the docs, with slashes
	text string
}
