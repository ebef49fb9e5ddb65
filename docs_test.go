package mcpwire_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fence = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]+`") // code has no links
	link  = regexp.MustCompile(`(?m)\[([^\[\]]*)\](?:\(|: )([^()\s]+)(?:\)|$)`)
	// reader matches a page whose first line says for whom it is. A generated page begins with a comment.
	reader = regexp.MustCompile(`^(<!-- .* -->\n\n)?# .*\n\nFor `)
)

// Links lead to files of this repository, headings of them, and tests in them.
func TestDocsLinksExist(t *testing.T) {
	links := 0
	for _, page := range pages(t, ".") {
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(readText(t, page), "code"), -1) {
			text, target := m[1], m[2]
			if strings.HasPrefix(target, "https://") || strings.HasPrefix(target, "http://") {
				continue
			}
			links++
			name, heading, _ := strings.Cut(target, "#")
			file := page
			if name != "" {
				file = filepath.Join(filepath.Dir(page), name)
			}
			info, err := os.Stat(file)
			switch {
			case err != nil:
				t.Errorf("%s: [%s](%s): %v", page, text, target, err)
			case heading != "" && !slices.Contains(anchors(readText(t, file)), heading):
				t.Errorf("%s: [%s](%s): no such heading", page, text, target)
			case strings.HasPrefix(text, "Test") && (info.IsDir() || !strings.Contains(readText(t, file), "\nfunc "+text+"(t *testing.T)")):
				t.Errorf("%s: [%s](%s): no such test", page, text, target)
			}
		}
	}
	if links < 250 {
		t.Errorf("only %d links were found", links)
	}
}

// Each page of docs says in its first line for whom it is, and the index links to it.
func TestDocsSayForWhomTheyAre(t *testing.T) {
	index := readText(t, "docs/README.md")
	for _, page := range pages(t, "docs") {
		if !reader.MatchString(readText(t, page)) {
			t.Errorf("the first line of %s does not say for whom the page is", page)
		}
		name := strings.TrimPrefix(page, "docs/")
		if name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md has no link to %s", name)
		}
	}
}

// A test compiles the Go blocks of each page: TestGuide, or one whose file names the page.
func TestDocsSnippetsAreTested(t *testing.T) {
	others := map[string]string{
		"README.md":                     "readme_test.go",
		"docs/howto/embedding.md":       "embedding_test.go",
		"docs/howto/fleet.md":           "examples/fleet/main_test.go",
		"docs/howto/from-other-sdks.md": "tools/compare/servers/servers_test.go",
		"docs/howto/observability.md":   "observability_test.go",
		"docs/tutorial/5-fleet.md":      "examples/fleet/main_test.go",
	}
	for _, page := range pages(t, ".") {
		if !strings.Contains(readText(t, page), "```go\n") || slices.Contains(guidePages, page) {
			continue
		}
		file, ok := others[page]
		name := path.Join(path.Base(path.Dir(page)), path.Base(page))
		if !ok || !strings.Contains(readText(t, file), name) {
			t.Errorf("no test compiles the snippets of %s: add it to guidePages", page)
		}
	}
}

// pages returns the Markdown files in dir, as paths with slashes, without those of modules of npm.
func pages(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git"):
			return filepath.SkipDir
		case filepath.Ext(file) == ".md":
			all = append(all, filepath.ToSlash(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all = append(all, anchor(strings.TrimSpace(heading)))
		}
	}
	return all
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
