package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expected files")

// A program of an earlier version is changed where it uses the old names, and nowhere else. The
// expected files are testdata/want: the test compares them without compiling them.
func TestProgramIsChanged(t *testing.T) {
	rules, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"mcpwire", "program"} { // in testdata, they are no modules
		file := filepath.Join(dir, module, "go.mod")
		if err := os.Rename(file+".txt", file); err != nil {
			t.Fatal(err)
		}
	}
	var notes strings.Builder
	files, err := migrate(filepath.Join(dir, "program"), string(rules), []string{"./..."}, &notes)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, f := range files {
		got[filepath.Base(f.name)+".txt"] = string(f.text)
	}
	got["notes.txt"] = strings.ReplaceAll(notes.String(), filepath.Join(dir, "program")+string(filepath.Separator), "")
	if *update {
		for name, text := range got {
			if err := os.WriteFile(filepath.Join("testdata/want", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"main.go.txt", "tasks_test.go.txt", "notes.txt"} {
		want, err := os.ReadFile(filepath.Join("testdata/want", name))
		if err != nil {
			t.Fatal(err)
		}
		if got[name] != string(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], want)
		}
	}
}

// A program that does not compile with the earlier version is not changed.
func TestProgramMustCompile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module x\n\ngo 1.26.0\n", "x.go": "package x\n\nvar _ = missing\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := migrate(dir, table, []string{"."}, os.Stderr); err == nil || len(files) > 0 {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestTableIsValid(t *testing.T) {
	if _, err := parse(table); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"field a.B.C", "field a.B.C D", "name a.B", "single", "other a.B"} {
		if _, err := parse(line); err == nil {
			t.Errorf("%q is no error", line)
		}
	}
}
