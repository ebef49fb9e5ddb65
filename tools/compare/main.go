// Command compare sends small MCP documents through the Go types of several libraries, mcpwire's among them, and
// reports as Markdown what each of them loses, changes, refuses and accepts. With -hostile it does so for the inputs
// of the package internal/hostile, and for general JSON engines, too.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	file := flag.String("write", "", "write the report to `FILE` rather than to standard output")
	hostile := flag.Bool("hostile", false, "report on hostile inputs")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run . [-hostile] [-write FILE]\n\nFor example: go run . -write ../../docs/comparison.md")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := report(*hostile, *file); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func report(hostile bool, file string) error {
	text, err := page(hostile)
	if err != nil {
		return err
	}
	if file == "" {
		_, err = fmt.Print(text)
		return err
	}
	return os.WriteFile(file, []byte(text), 0o666)
}

func page(hostile bool) (string, error) {
	if hostile {
		return RunHostile().Markdown(), nil
	}
	r, err := Run()
	if err != nil {
		return "", err
	}
	return r.Markdown()
}
