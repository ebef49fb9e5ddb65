// Command site writes the documentation of this repository as a static web site, and draws the
// figures of docs.
//
//	go -C tools/site run . build DIR
//	go -C tools/site run . figures
//
// Build renders the Markdown pages of docs and of the root of the repository, and the documentation
// of all packages that users may import. The site needs no server and no network: all links are
// relative, and a script searches an index that is part of it. DIR also gets llms.txt, llms-full.txt
// and the Markdown of each page in docs, for language models. DIR is emptied before.
//
// Figures writes an SVG beside each D2 source in docs/figures.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// root is the folder of the repository, relative to that of this module.
const root = "../.."

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "build":
		return buildSite(args[1])
	case len(args) == 1 && args[0] == "figures":
		figures, err := drawFigures()
		if err != nil {
			return err
		}
		for file, svg := range figures {
			if err := os.WriteFile(file, svg, 0o666); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("want build DIR or figures")
}

// buildSite writes the site into dir.
func buildSite(dir string) error {
	s, err := load()
	if err != nil {
		return err
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	if err := empty(dir); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// empty empties dir, unless it has files of something that is not a site.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "llms-full.txt")); err != nil {
		return fmt.Errorf("%s is not empty, and has no site", dir)
	}
	return os.RemoveAll(dir)
}
