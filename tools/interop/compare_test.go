package interop

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// compareEvidence matches the comment of a cell in docs/reference/compare.md: where an SDK has
// something, such as a file or a package, and the words there. Words after "absent:" are in none of
// its sources.
var compareEvidence = regexp.MustCompile(`<!-- (?:([^: ]+): )?(.+?) -->`)

// The cells of docs/reference/compare.md about other SDKs agree with the sources of the versions
// that these tests use.
func TestComparePageAgreesWithSources(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	peers := []struct {
		name, version string
		find          func(t *testing.T) func(where string) string // "" is all sources; returns "" if there is none
	}{
		{"go-sdk", "1.8.0", moduleSources("github.com/modelcontextprotocol/go-sdk", "v1.8.0")},
		{"mcp-go", "1.2.1", moduleSources("github.com/mark3labs/mcp-go", "v1.2.1")},
		{"TypeScript SDK", "2.4.0", packageSources},
	}
	for i, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			find, checked := peer.find(t), 0
			if !strings.Contains(string(page), peer.version) {
				t.Errorf("the page does not name version %s", peer.version)
			}
			for line := range strings.Lines(string(page)) {
				cells := strings.Split(line, " |")
				if len(cells) < 6 {
					continue
				}
				m := compareEvidence.FindStringSubmatch(cells[2+i])
				if m == nil || m[1] == "read" || m[1] == "" {
					continue // a link, a place that is read by people, or a page on the web
				}
				where, words, absent := m[1], m[2], false
				if where == "absent" {
					where, absent = "", true
				} else if rest, ok := strings.CutPrefix(words, "absent: "); ok {
					words, absent = rest, true
				}
				checked++
				text := find(where)
				if text == "" {
					t.Errorf("%s: no source %q", cells[0], where)
				}
				for word := range strings.SplitSeq(words, ", ") {
					if strings.Contains(text, strings.ToLower(word)) == absent {
						t.Errorf("%s: sources disagree with %q", cells[0], m[0])
					}
				}
			}
			if checked < 40 {
				t.Errorf("only %d cells were checked", checked)
			}
		})
	}
}

// typeScriptName matches a name of the TypeScript SDK in docs/howto/from-other-sdks.md.
var typeScriptName = regexp.MustCompile("`(?:\\w+\\.)*([\\w/-]+)`")

// The TypeScript SDK has the names that docs/howto/from-other-sdks.md gives the counterparts of.
func TestTypeScriptNamesExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/howto/from-other-sdks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The TypeScript SDK\n")
	section, _, _ = strings.Cut(section, "\n## ")
	find, names := packageSources(t), 0
	text := find("server") + find("client") + find("node") + "ext-tasks"
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) < 3 {
			continue
		}
		for _, m := range typeScriptName.FindAllStringSubmatch(cells[1], -1) {
			names++
			if !strings.Contains(text, strings.ToLower(m[1])) {
				t.Errorf("the TypeScript SDK has no %s", m[0])
			}
		}
	}
	if names < 30 {
		t.Errorf("only %d names were found", names)
	}
}

// moduleSources returns a function that reads a file of a Go module, or all its Go files but the
// tests, in lower case.
func moduleSources(path, version string) func(t *testing.T) func(string) string {
	return func(t *testing.T) func(string) string {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		used, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		if used != version {
			t.Errorf("version %s is in use", used)
		}
		all := sources(t, dir, func(name string) bool {
			return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		})
		return func(file string) string {
			if file == "" {
				return all
			}
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Error(err)
			}
			return strings.ToLower(string(text))
		}
	}
}

// packageSources returns a function that reads all sources of a package of the TypeScript SDK, in
// lower case.
func packageSources(t *testing.T) func(string) string {
	needSDK(t)
	read := make(map[string]string)
	return func(name string) string {
		if _, ok := read[name]; !ok {
			read[name] = sources(t, filepath.Join("typescript", "node_modules", "@modelcontextprotocol", name), func(name string) bool {
				return strings.HasSuffix(name, ".mjs") || strings.HasSuffix(name, ".js") || strings.HasSuffix(name, ".d.mts")
			})
		}
		return read[name]
	}
}

// sources returns the text of all files in a folder that match, in lower case.
func sources(t *testing.T, dir string, match func(name string) bool) string {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !match(path) {
			return err
		}
		text, err := os.ReadFile(path)
		all.WriteString(strings.ToLower(string(text)))
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return all.String()
}
