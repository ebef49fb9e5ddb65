package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
)

// All modules can be fetched, and their programs run, from empty folders and without replace
// directives: the README's first server, the examples of each module, and the command line.
func TestModulesCanBeFetched(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs with all modules")
	}
	const version = "v0.999.0-test"
	r, err := open(t.Context(), ".")
	if err != nil {
		t.Skip("without git:", err)
	}
	proxy := t.TempDir()
	if err := r.proxy(t.Context(), proxy, version, io.Discard); err != nil {
		t.Fatal(err)
	}
	modules, err := r.published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	env := userOf(t, r, proxy)
	inModule := func(t *testing.T) func(name string, args ...string) string {
		dir := t.TempDir()
		do := func(name string, args ...string) string {
			t.Helper()
			out, err := execute(t.Context(), dir, env, name, args...)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		do("go", "mod", "init", "example.com/program")
		return do
	}

	t.Run("README", func(t *testing.T) {
		readme, err := os.ReadFile(filepath.Join(r.root, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		program := regexp.MustCompile("(?ms)^```go\n(package main.*?)^```$").FindSubmatch(readme)
		if program == nil {
			t.Fatal("README.md has no program")
		}
		do := inModule(t)
		do("go", "get", "-tool", r.path+"/tools/mcpwire@"+version)
		writeFile(t, do("pwd"), "main.go", string(program[1]))
		do("go", "mod", "tidy")
		do("go", "build", "-o", "hello")
		if got := do("go", "tool", "mcpwire", "call", "./hello", "greet", "Name=World"); got != "Hi, World" {
			t.Errorf("the program answers %q", got)
		}
		if mod := do("cat", "go.mod"); strings.Contains(mod, "replace") || !strings.Contains(mod, r.path+" "+version) {
			t.Errorf("go.mod is\n%s", mod)
		}
	})
	t.Run("command line", func(t *testing.T) {
		bin := t.TempDir()
		out, err := execute(t.Context(), bin, append(env, "GOBIN="+bin), "go", "install", r.path+"/tools/mcpwire@"+version)
		if err != nil {
			t.Fatal(out, err)
		}
		got, err := execute(t.Context(), bin, nil, filepath.Join(bin, "mcpwire"), "version")
		if err != nil || !strings.HasPrefix(got, "mcpwire "+version+",") {
			t.Errorf("mcpwire version prints %q, %v", got, err)
		}
		dir := t.TempDir()
		if _, err := execute(t.Context(), dir, nil, filepath.Join(bin, "mcpwire"), "new", "hello"); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"mod", "tidy"}, {"test", "./..."}, {"build"}} {
			if _, err := execute(t.Context(), filepath.Join(dir, "hello"), env, "go", args...); err != nil {
				t.Fatal(err)
			}
		}
		got, err = execute(t.Context(), filepath.Join(dir, "hello"), env, "go", "tool", "mcpwire", "version")
		if err != nil || !strings.HasPrefix(got, "mcpwire "+version+",") {
			t.Errorf("in a new project, mcpwire version prints %q, %v", got, err)
		}
	})
	for _, m := range modules {
		if m.folder == "" {
			continue
		}
		t.Run(m.folder, func(t *testing.T) {
			example, err := os.ReadFile(filepath.Join(filepath.Dir(m.name), "example_test.go"))
			if err != nil {
				t.Fatalf("a module needs an example: %v", err)
			}
			do := inModule(t)
			do("go", "get", m.file.Module.Mod.Path+"@"+version)
			writeFile(t, do("pwd"), "example_test.go", string(example))
			do("go", "mod", "tidy")
			do("go", "vet", ".")
			do("go", "test", ".")
			if mod := do("cat", "go.mod"); strings.Contains(mod, "replace") || !strings.Contains(mod, r.path+" "+version) {
				t.Errorf("go.mod is\n%s", mod)
			}
		})
	}
}

// userOf returns the environment of a user of the modules in a proxy, who has an empty module cache.
func userOf(t *testing.T, r *repository, proxy string) []string {
	t.Helper()
	fetching, err := r.fetching(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, variable := range fetching {
		name, value, _ := strings.Cut(variable, "=")
		switch name {
		case "GOFLAGS":
			env = append(env, variable+" -ldflags=-w") // linking takes most of the time
		case "GOMODCACHE", "GOWORK", "GONOSUMDB":
			env = append(env, variable)
		case "GOPROXY":
			env = append(env, "GOPROXY="+fileURL(proxy)+","+value)
		}
	}
	return append(env, "GOPRIVATE=", "GONOPROXY=")
}

// A small repository goes through two releases.
func TestPrepare(t *testing.T) {
	r := newRepository(t)
	ctx := t.Context()
	day := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)

	check := func(version string, want ...string) {
		t.Helper()
		var out strings.Builder
		err := r.check(ctx, "", version, &out)
		if len(want) == 0 {
			if err != nil {
				t.Errorf("check of %q: %v", version, err)
			}
			return
		}
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("check of %q reports %v, not %q", version, err, text)
			}
		}
	}
	prepare := func(version string) {
		t.Helper()
		if err := r.prepare(ctx, version, day, io.Discard); err != nil {
			t.Fatalf("prepare %s: %v", version, err)
		}
	}
	commit := func(message string) {
		t.Helper()
		mustGit(t, r, "add", "--all")
		mustGit(t, r, "commit", "--quiet", "-m", message)
	}
	note := func(text string) {
		t.Helper()
		edit(t, r, "CHANGELOG.md", unreleased, unreleased+"\n- "+text+"\n")
	}

	check("1.0.0", `"1.0.0" is no version: want vX.Y.Z`)
	check("v1.0.0", errNoChanges.Error())
	note("A function.")
	check("v1.0.0", "these changes are not committed", "CHANGELOG.md")
	if err := r.prepare(ctx, "v1.0.0", day, io.Discard); err == nil {
		t.Error("a work tree with changes is released")
	}
	commit("Add a function")
	prepare("v1.0.0")

	// The release has requirements without replace directives; the commit after it has both.
	for _, test := range []struct{ commit, file, want string }{
		{"v1.0.0", "nested/go.mod", "module github.com/example/lib/nested\n\ngo 1.26\n\nrequire github.com/example/lib v1.0.0\n"},
		{"HEAD", "nested/go.mod", "module github.com/example/lib/nested\n\ngo 1.26\n\nrequire github.com/example/lib v1.0.0\n\nreplace github.com/example/lib => ../\n"},
		{"HEAD", "tools/x/go.mod", "module github.com/example/lib/tools/x\n\ngo 1.26\n\nrequire github.com/example/lib/nested v1.0.0\n\n" +
			"require github.com/example/lib v1.0.0 // indirect\n\nreplace (\n\tgithub.com/example/lib => ../..\n\tgithub.com/example/lib/nested => ../../nested\n)\n"},
		{"v1.0.0", "CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 1.0.0 - 2030-01-02\n\n- A function.\n"},
	} {
		if diff := cmp.Diff(canonical(t, test.file, test.want), canonical(t, test.file, mustGit(t, r, "show", test.commit+":"+test.file)+"\n")); diff != "" {
			t.Errorf("%s in %s (-want +got):\n%s", test.file, test.commit, diff)
		}
	}
	if sum := mustGit(t, r, "show", "v1.0.0:nested/go.sum"); strings.Count(sum, "github.com/example/lib v1.0.0") != 2 {
		t.Errorf("go.sum of the release is\n%s", sum)
	}
	if got := mustGit(t, r, "tag", "--list"); got != "nested/v1.0.0\nv1.0.0" {
		t.Errorf("the tags are %q", got)
	}
	if a, b := mustGit(t, r, "rev-parse", "v1.0.0^{commit}"), mustGit(t, r, "rev-parse", "nested/v1.0.0^{commit}"); a != b {
		t.Error("the tags are on different commits")
	}

	// A correction, an addition, and what breaks users.
	note("Something.")
	commit("Note a change")
	check("v1.0.1")
	edit(t, r, "lib.go", "package lib\n", "package lib\n\nconst Added = 1\n")
	commit("Add a constant")
	check("v1.0.1", "v1.0.1 must be at least v1.1.0", "lib: Added: added")
	check("v1.1.0")
	var count strings.Builder
	if err := r.names(ctx, "", &count); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(count.String()), " "); got != "github.com/example/lib 2 +1 since v1.0.0 nested 1 +0 since v1.0.0 all 3 +1 since v1.0.0" {
		t.Errorf("the names are counted as %q", got)
	}
	edit(t, r, "nested/nested.go", "func Twice(", "func Double(")
	edit(t, r, "nested/experimental/e.go", "const Idea", "const Better")
	commit("Rename a function")
	check("v1.1.0", "v1.1.0 must be at least v2.0.0", "nested: Twice: removed")
	check("v2.0.0", "the path github.com/example/lib does not fit v2.0.0")
	edit(t, r, "nested/nested.go", "func Double(", "func Twice(")
	commit("Name it as before")
	prepare("v1.1.0")
	if got := mustGit(t, r, "show", "v1.1.0:CHANGELOG.md"); !strings.Contains(got, "## 1.1.0 - 2030-01-02\n\n- Something.\n\n## 1.0.0 - 2030-01-02") {
		t.Errorf("the changelog is\n%s", got)
	}
	if status := mustGit(t, r, "status", "--porcelain"); status != "" {
		t.Errorf("the work tree has changes:\n%s", status)
	}

	// The proxy has both versions, and a program can use them.
	proxy := t.TempDir()
	for _, version := range []string{"v1.2.0", "v1.1.1"} {
		if err := r.proxy(ctx, proxy, version, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	program := t.TempDir()
	writeFile(t, program, "go.mod", "module program\n")
	writeFile(t, program, "main.go", "package main\n\nimport \"github.com/example/lib/nested\"\n\nfunc main() { print(nested.Twice(21)) }\n")
	env := userOf(t, r, proxy)
	for _, args := range [][]string{{"get", "github.com/example/lib/nested@latest"}, {"run", "."}} {
		if _, err := execute(ctx, program, env, "go", args...); err != nil {
			t.Fatal(err)
		}
	}
	mod, err := os.ReadFile(filepath.Join(program, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/example/lib/nested v1.2.0") {
		t.Errorf("go.mod of the program is\n%s", mod)
	}
}

func TestNextVersion(t *testing.T) {
	breaks, adds := diff{incompatible: []string{"x"}}, diff{compatible: []string{"x"}}
	for _, test := range []struct {
		base string
		d    diff
		want string
	}{
		{"v0.3.4", breaks, "v0.4.0"},
		{"v0.3.4", adds, "v0.4.0"},
		{"v0.3.4", diff{}, "v0.3.5"},
		{"v1.3.4", breaks, "v2.0.0"},
		{"v1.3.4", adds, "v1.4.0"},
		{"v1.3.4", diff{}, "v1.3.5"},
		{"v1.4.0-rc.1", diff{}, "v1.4.0"},
	} {
		if got := test.d.next(test.base); got != test.want {
			t.Errorf("after %s with %v comes %s, want %s", test.base, test.d, got, test.want)
		}
	}
}

// newRepository returns a repository with a module, a nested one, and one that is not published.
func newRepository(t *testing.T) *repository {
	t.Helper()
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GOFLAGS": "", "GOTOOLCHAIN": "local",
	} {
		t.Setenv(name, value)
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                       "module github.com/example/lib\n\ngo 1.26\n",
		"lib.go":                       "package lib\n\nfunc Double(n int) int { return 2 * n }\n",
		"LICENSE":                      "None.\n",
		"CHANGELOG.md":                 "# Changes\n" + unreleased,
		"nested/go.mod":                "module github.com/example/lib/nested\n\ngo 1.26\n\nrequire github.com/example/lib v0.0.0\n\nreplace github.com/example/lib => ../\n",
		"nested/nested.go":             "package nested\n\nimport \"github.com/example/lib\"\n\nfunc Twice(n int) int { return lib.Double(n) }\n",
		"nested/experimental/e.go":     "package experimental\n\nconst Idea = 1\n",
		"nested/internal/secret/s.go":  "package secret\n\nconst Secret = 1\n",
		"tools/x/go.mod":               "module github.com/example/lib/tools/x\n\ngo 1.26\n\nrequire github.com/example/lib/nested v0.0.0\n\nrequire github.com/example/lib v0.0.0 // indirect\n\nreplace (\n\tgithub.com/example/lib => ../..\n\tgithub.com/example/lib/nested => ../../nested\n)\n",
		"tools/x/main.go":              "package main\n\nimport \"github.com/example/lib/nested\"\n\nfunc main() { print(nested.Twice(1)) }\n",
		"nested/experimental/.ignored": "",
	} {
		writeFile(t, root, name, text)
	}
	if _, err := git(t.Context(), root, "init", "--quiet", "-b", "main"); err != nil {
		t.Skip("without git:", err)
	}
	r, err := open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	mustGit(t, r, "config", "user.name", "Author")
	mustGit(t, r, "config", "user.email", "author@example.com")
	mustGit(t, r, "add", "--all")
	mustGit(t, r, "commit", "--quiet", "-m", "Begin")
	return r
}

func mustGit(t *testing.T, r *repository, args ...string) string {
	t.Helper()
	out, err := git(context.Background(), r.root, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, r *repository, name, old, replacement string) {
	t.Helper()
	err := r.editFile(name, func(text string) (string, error) { return strings.Replace(text, old, replacement, 1), nil })
	if err != nil {
		t.Fatal(err)
	}
}

// canonical returns the text of a go.mod file as the go command formats it.
func canonical(t *testing.T, name, text string) string {
	t.Helper()
	if filepath.Base(name) != "go.mod" {
		return text
	}
	file, err := modfile.Parse(name, []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	file.Cleanup()
	out, err := file.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
