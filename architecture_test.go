package mcpwire_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const architecturePage = "docs/explain/architecture.md"

// No package imports one of a higher floor, and each is on exactly one.
func TestFloors(t *testing.T) {
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	floors := make(map[string]int) // by pattern
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) [^|]*\|[^|]*\|([^|]*)\|$`).FindAllStringSubmatch(string(page), -1) {
		floor, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, pattern := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[2], -1) {
			floors[pattern[1]] = floor
		}
	}
	if len(floors) < 20 {
		t.Fatalf("only %d patterns were found", len(floors))
	}
	used := make(map[string]bool)
	floorOf := func(p string) int {
		pattern := p
		for floors[pattern] == 0 {
			if p == "." || p == "/" {
				return 0
			}
			pattern, p = p+"/...", path.Dir(p)
		}
		used[pattern] = true
		return floors[pattern]
	}
	faults := upwardImports(t, floorOf)
	for _, fault := range faults {
		t.Error(fault)
	}
	for pattern := range floors {
		if !used[pattern] {
			t.Errorf("no package matches %s", pattern)
		}
		const shared, sessions = "runtime/internal/", 5
		exceptions := []string{shared + "rerun", shared + "memory", shared + "quota", shared + "watch"}
		if strings.HasPrefix(pattern, shared) && !slices.Contains(exceptions, pattern) && floors[pattern] > sessions {
			t.Errorf("%s is shared by all floors and on floor %d: move it beside its user", pattern, floors[pattern])
		}
	}

	// The comparison finds an import of the wrong direction: with the floors upside down, nearly all are.
	if upside := upwardImports(t, func(p string) int { return -cmp.Or(floorOf(p), -100) }); len(upside) < 100 {
		t.Errorf("upside down, only %d imports are wrong", len(upside))
	}
}

// The figure has the floors of the page but the last one, the highest at the top.
func TestFloorsOfFigure(t *testing.T) {
	var want []string
	for _, row := range regexp.MustCompile(`(?m)^\| (\d [^|]*) \|[^|]*\|[^|]*\|$`).FindAllStringSubmatch(readText(t, architecturePage), -1) {
		want = append(want, row[1])
	}
	var got []string
	for _, line := range regexp.MustCompile(`(?m)^(\d [^:]*): "(\d [^:]*): `).FindAllStringSubmatch(readText(t, "docs/figures/floors.d2"), -1) {
		if line[1] != line[2] {
			t.Errorf("%q is drawn as %q", line[1], line[2])
		}
		got = append(got, line[1])
	}
	slices.Reverse(got)
	if len(want) == 0 || !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("the figure has %q, and the page %q", got, want)
	}
}

// Package server is the largest one, so what does not need its Server, its Call or its features has a
// package of its own.
func TestServerImportsFewPackages(t *testing.T) {
	const most = 20
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, "./runtime/server").Output()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, imported := range strings.Fields(string(out)) {
		if strings.HasPrefix(imported, "github.com/mcpwire/mcpwire/") {
			own = append(own, imported)
		}
	}
	if len(own) == 0 || len(own) > most {
		t.Errorf("runtime/server imports %d packages of this module, want at most %d: %q", len(own), most, own)
	}
}

// upwardImports lists the packages that import one of a higher floor, or have none.
func upwardImports(t *testing.T, floorOf func(string) int) (faults []string) {
	t.Helper()
	const own = "github.com/mcpwire/mcpwire/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"./codec/...", "./gen/...", "./internal/...", "./mcp/...", "./runtime/...", "./schema/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		from := strings.TrimPrefix(fields[0], own)
		floor := floorOf(from)
		if floor == 0 {
			faults = append(faults, from+" is on no floor")
			continue
		}
		for _, imported := range fields[1:] {
			if to, ok := strings.CutPrefix(imported, own); ok && floorOf(to) > floor {
				faults = append(faults, from+" imports "+to+", which is on a higher floor")
			}
		}
	}
	return faults
}

// All names on the page exist.
func TestArchitectureNames(t *testing.T) {
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	declared := declaredNames(t)
	found := 0
	for _, name := range regexp.MustCompile("`([a-z][a-z0-9]*\\.[A-Za-z0-9_.]+)`").FindAllStringSubmatch(string(page), -1) {
		found++
		if !declared[name[1]] {
			t.Errorf("%s does not exist", name[1])
		}
	}
	if found < 50 {
		t.Errorf("only %d names were found", found)
	}
	for _, folder := range regexp.MustCompile("`((?:runtime|internal|gen|schema|mcp|codec)(?:/[a-z0-9/]+)?)`").FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(folder[1]); err != nil {
			t.Error(err)
		}
	}
}

// declaredNames returns the names that packages of this module declare: package.Name and
// package.Type.Method.
func declaredNames(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{$p := .}}{{range .GoFiles}}{{$p.Dir}}/{{.}} {{end}}`,
		"./codec/...", "./gen/...", "./internal/...", "./mcp/...", "./runtime/...", "./schema/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	files := token.NewFileSet()
	for _, name := range strings.Fields(string(out)) {
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		prefix := file.Name.Name + "."
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[prefix+receiverOf(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						names[prefix+s.Name.Name] = true
					}
				}
			}
		}
	}
	if len(names) < 1000 {
		t.Fatalf("only %d names, such as %q", len(names), slices.Sorted(maps.Keys(names))[:3])
	}
	return names
}

// receiverOf returns the type of the receiver of a method, with a dot.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	for {
		switch e := of.(type) {
		case *ast.StarExpr:
			of = e.X
		case *ast.IndexExpr:
			of = e.X
		case *ast.IndexListExpr:
			of = e.X
		case *ast.Ident:
			return e.Name + "."
		default:
			return ""
		}
	}
}

// Only negotiation, what recognizes messages of revisions without sessions, and what connects peers
// of both kinds ask whether a revision has sessions. All other code asks for the difference that it
// acts on, so that a new revision is a row of the table of traits.
func TestArchitectureOfRevisions(t *testing.T) {
	asks := regexp.MustCompile(`\bmodern\.(Is|Split|Revisions|Meta|Read|Repeat)\(|\.Sessionless\b|ModernRevisions\(\)|Has\((mcp|wire)\.Method(Initialize|ServerDiscover)\)`)
	want := []string{
		// Negotiation, and what belongs to a connection instead of a request.
		"runtime/client/list.go", "runtime/client/servers.go", "runtime/server/modern.go", "runtime/session/call.go",
		"runtime/session/config.go", "runtime/session/discover.go", "runtime/session/lifecycle.go", "runtime/session/modernclient.go",
		"runtime/session/owner.go", "runtime/session/reopen.go", "runtime/transport/streamable/server.go",

		// Recognition of messages, and of their header.
		"runtime/internal/modern/modern.go", "runtime/session/client.go", "runtime/session/modern.go", "runtime/session/serve.go",
		"runtime/transport/streamable/client_modern.go", "runtime/transport/streamable/server_modern.go", "runtime/transport/streamable/server_post.go",

		// Bridges between peers of both kinds.
		"runtime/embed/internal/embedtest/kill.go", "runtime/embed/gosdk/attach.go", "runtime/embed/gosdk/task_session.go", "runtime/embed/gosdk/transport.go",
		"runtime/embed/mcpgo/client_transport.go", "runtime/embed/mcpgo/convert.go", "runtime/embed/mcpgo/intercept.go", "runtime/embed/mcpgo/task_session.go",
		"runtime/embed/internal/embedding/edit.go", "runtime/embed/internal/embedding/rounds.go", "runtime/embed/internal/joined/client.go",
		"runtime/proxy/client.go", "runtime/proxy/health.go", "runtime/proxy/link.go",
	}
	var got []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		top, _, _ := strings.Cut(name, "/")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && !slices.Contains([]string{"codec", "mcp", "runtime"}, top):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && asks.MatchString(readText(t, name)):
			got = append(got, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	for _, name := range got {
		if _, allowed := slices.BinarySearch(want, name); !allowed {
			t.Errorf("%s asks whether a revision has sessions: let it ask for one of mcp.Traits instead", name)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s no longer asks: remove it from the list", name)
		}
	}
}
