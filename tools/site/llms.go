package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fullPages are the shelves and pages of llms-full.txt: what a model needs to write programs with
// mcpwire.
var fullPages = []string{
	"README.md", "docs/tutorial/", "docs/howto/", "docs/explain/durable.md",
	"docs/reference/errors.md", "docs/reference/tasks.md", "docs/reference/generated.md", "docs/reference/generator.md", "docs/reference/stability.md",
}

// forModels adds llms.txt, llms-full.txt and the Markdown of the pages to the files.
func (s *site) forModels(files map[string][]byte) error {
	summary, err := opening()
	if err != nil {
		return err
	}
	var list, full strings.Builder
	shelf := ""
	for _, p := range s.pages {
		if filepath.Ext(p.source) != ".md" || strings.HasPrefix(p.source, "docs/reference/evidence/") || len(p.sections) == 0 || p.sections[0].level != 1 {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.source)))
		if err != nil {
			return err
		}
		if p.source == "docs/README.md" {
			fmt.Fprintf(&list, "# mcpwire\n\n> %s\n\n[llms-full.txt](llms-full.txt) has all pages that are needed to write programs. The documentation of packages is printed by `go doc`.\n", summary)
			continue
		}
		name := strings.TrimSuffix(p.name, ".html") + ".md"
		files[name] = src
		if p.shelf != shelf {
			shelf = p.shelf
			fmt.Fprintf(&list, "\n## %s\n\n", shelf)
		}
		// The first sentence says for whom the page is.
		first, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(p.sections[0].text), p.sections[0].title)), ". ")
		fmt.Fprintf(&list, "- [%s](%s): %s\n", p.title, name, strings.TrimSuffix(first, "."))
		for _, chosen := range fullPages {
			if p.source == chosen || strings.HasSuffix(chosen, "/") && strings.HasPrefix(p.source, chosen) {
				fmt.Fprintf(&full, "<!-- %s -->\n\n%s\n", p.source, src)
			}
		}
	}
	files["llms.txt"], files["llms-full.txt"] = []byte(list.String()), []byte(full.String())
	return nil
}

// opening returns the first paragraph of README.md.
func opening() (string, error) {
	src, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return "", err
	}
	for paragraph := range strings.SplitSeq(string(src), "\n\n") {
		if !strings.ContainsAny(paragraph[:1], "#[!") {
			return paragraph, nil
		}
	}
	return "", errors.New("README.md has no text")
}
