package main

import (
	"bytes"
	"flag"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"
)

var update = flag.Bool("update", false, "draw the figures of docs again")

// maxPage is the limit for a page with its style sheet, its script and its pictures.
const maxPage = 300_000

// fontData matches the fonts in a figure. Their compression differs between versions of Go.
var fontData = regexp.MustCompile(`data:application/font-woff;base64,[\w+/=]+`)

// The figures are those of their sources.
func TestFigures(t *testing.T) {
	figures, err := drawFigures()
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) < 4 {
		t.Errorf("only %d figures", len(figures))
	}
	for file, want := range figures {
		if *update {
			if err := os.WriteFile(file, want, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(fontData.ReplaceAll(got, nil), fontData.ReplaceAll(want, nil)) {
			t.Errorf("%s is not drawn from its source (%v): run go -C tools/site run . figures", file, err)
		}
		if !bytes.Contains(want, []byte("prefers-color-scheme:dark")) {
			t.Errorf("%s has no dark colours", file)
		}
	}
}

var once = sync.OnceValues(allFiles)

// siteFiles returns the files of the site, which all tests share.
func siteFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func allFiles() (map[string][]byte, error) {
	s, err := load()
	if err != nil {
		return nil, err
	}
	return s.files()
}

// A document is what the tests want to know of a page.
type document struct {
	ids          map[string]bool
	links, loads []string // hrefs of links; what the browser loads by itself
}

func parse(t *testing.T, name string, text []byte) *document {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{ids: make(map[string]bool)}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				if d.ids[a.Val] {
					t.Errorf("%s has the id %q twice", name, a.Val)
				}
				d.ids[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				d.links = append(d.links, a.Val)
			case a.Key == "src" || a.Key == "href":
				d.loads = append(d.loads, a.Val)
			}
		}
	}
	return d
}

// Links lead to pages and anchors of the site, or to other sites; pages load nothing from other sites,
// and are small with all that they load.
func TestLinksAndSizes(t *testing.T) {
	files := siteFiles(t)
	pages := make(map[string]*document)
	for name, text := range files {
		if path.Ext(name) == ".html" {
			pages[name] = parse(t, name, text)
		}
	}
	if len(pages) < 80 {
		t.Errorf("only %d pages", len(pages))
	}
	total := 0
	for name, page := range pages {
		size := len(files[name])
		for _, load := range page.loads {
			if load == "data:," {
				continue
			}
			loaded := path.Join(path.Dir(name), load)
			if _, ok := files[loaded]; !ok {
				t.Errorf("%s loads %s", name, load)
			}
			size += len(files[loaded])
		}
		if size > maxPage {
			t.Errorf("%s has %d bytes with what it loads", name, size)
		}
		for _, link := range page.links {
			u, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if u.Scheme == "https" || u.Scheme == "http" {
				continue
			}
			total++
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if _, ok := files[to]; !ok {
				t.Errorf("%s has a link to %s", name, link)
			} else if u.Fragment != "" && !pages[to].ids[u.Fragment] {
				t.Errorf("%s has a link to %s, where no such anchor is", name, link)
			}
		}
	}
	if total < 5000 {
		t.Errorf("only %d links", total)
	}
}

// The four shelves, the packages and the table of features can be reached from the first page.
func TestFirstPage(t *testing.T) {
	files := siteFiles(t)
	index := string(files["index.html"])
	for _, want := range []string{
		`<h2>Tutorial</h2>`, `<h2>How to</h2>`, `<h2>Reference</h2>`, `<h2>Explanations</h2>`,
		`href="reference/compare.html"`, `href="go/index.html"`, `src="figures/demo-terminal.svg"`, `id="what-it-supports"`,
	} {
		if !strings.Contains(index, want) {
			t.Errorf("index.html has no %s", want)
		}
	}
	for name, want := range map[string]string{
		"explain/architecture.html": `src="../figures/floors.svg"`,
		"reference/tasks.html":      `src="../figures/task.svg"`,
		"tutorial/5-fleet.html":     `src="../figures/processes.svg"`,
		"reference/compare.html":    `TypeScript SDK</th>`,
		"go/index.html":             `href="runtime/server.html"`,
		"go/runtime/task/bolt.html": `id="Open"`,
	} {
		if !bytes.Contains(files[name], []byte(want)) {
			t.Errorf("%s has no %s", name, want)
		}
	}
}

// llms.txt names the Markdown of each page, and llms-full.txt has the pages that programs need. Each
// Go snippet in it stands in a page of the repository; TestDocsSnippetsAreTested in the root holds that
// the snippets of all pages are compiled.
func TestTextsForModels(t *testing.T) {
	files := siteFiles(t)
	links := regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(files["llms.txt"]), -1)
	if len(links) < 40 {
		t.Errorf("llms.txt has %d links", len(links))
	}
	for _, m := range links {
		if _, ok := files[m[1]]; !ok {
			t.Errorf("llms.txt: there is no %s", m[1])
		}
	}
	snippet := regexp.MustCompile("(?ms)^```go\n.*?^```$")
	var pages strings.Builder
	for _, pattern := range []string{"*.md", "docs/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			pages.Write(text)
		}
	}
	snippets := snippet.FindAllString(string(files["llms-full.txt"]), -1)
	if len(snippets) < 50 {
		t.Errorf("llms-full.txt has %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(pages.String(), s) {
			t.Errorf("no page has this snippet of llms-full.txt:\n%s", s)
		}
	}
	full := string(files["llms-full.txt"])
	for _, want := range []string{"# mcpwire\n", "# 1 A first tool", "# 6 In production", "# Authorization", "# What a handler may rely on"} {
		if !strings.Contains(full, want) {
			t.Errorf("llms-full.txt has no %q", want)
		}
	}
}

// A site replaces an older one, and nothing else.
func TestBuildReplacesOnlySites(t *testing.T) {
	dir := t.TempDir()
	if err := run([]string{"build", dir}); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(dir, "stale.html")
	if err := os.WriteFile(stale, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"build", dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a page of the older site is left")
	}
	for name, text := range siteFiles(t) { // made by another run, from the same bytes
		if got, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %v, or another text", name, err)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "letter.txt"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"build", other}); err == nil {
		t.Error("a folder with other files was emptied")
	}
}

// names returns the names of the pages, sorted.
func names(files map[string][]byte) (pages []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".html" {
			pages = append(pages, name)
		}
	}
	return pages
}
