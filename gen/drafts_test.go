package gen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
	"github.com/mcpwire/mcpwire/schema"
)

// draft is one schema with the package generated from it.
type draft struct {
	name string // its label
	src  []byte
	out  *gen.Output
}

func (d *draft) pkg() string { return "x" + strings.NewReplacer("-", "", ".", "").Replace(d.name) }

// drafts returns the embedded schemas and, if MCPWIRE_SPEC is set, those of the specification's
// history.
func drafts(t *testing.T) []*draft {
	t.Helper()
	var all []*draft
	for _, rev := range append(schema.Revisions(), schema.Extensions()...) {
		src, err := schema.Read(rev)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &draft{name: rev, src: src})
	}
	history, err := filepath.Glob(filepath.Join(os.Getenv("MCPWIRE_SPEC"), "history", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(history) == 0 {
		t.Log("without the drafts of the specification; to include them, set MCPWIRE_SPEC to a folder with history/*.json")
	}
	for _, file := range history {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &draft{name: strings.TrimSuffix(filepath.Base(file), ".json"), src: src})
	}
	return all
}

// Every schema can be generated without overrides, and the output is deterministic. A module that
// requires only this one can use the packages, and values of every definition survive a round trip.
func TestEverySchemaGenerates(t *testing.T) {
	var sound []*draft
	for _, d := range drafts(t) {
		t.Run(d.name, func(t *testing.T) {
			config := gen.Options{Package: d.pkg(), Schemas: []gen.Schema{{Revision: d.name, File: d.name + ".json", Src: d.src}}}
			var err error
			if d.out, err = gen.Generate(config); err != nil {
				if broken := unsound(t, d.src); broken != nil {
					t.Skipf("%v; an independent validator refuses the schema, too: %v", err, broken)
				}
				t.Fatal(err)
			}
			again, err := gen.Generate(config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d.out.Files, again.Files); diff != "" {
				t.Errorf("generated again, the output differs (-first +second):\n%s", diff)
			}
			sound = append(sound, d)
		})
	}
	if testing.Short() {
		t.Skip("the rest runs the go command")
	}
	t.Run("compiled", func(t *testing.T) { tryDrafts(t, sound) })
}

// unsound returns the error of an independent validator for a schema, or nil.
func unsound(t *testing.T, src []byte) error {
	t.Helper()
	schemas, err := oracle.Compile(src)
	if err != nil {
		return err
	}
	var top struct {
		Defs        map[string]json.RawMessage `json:"$defs"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	if err := json.Unmarshal(src, &top); err != nil {
		return err
	}
	return schemas.Sound(append(slices.Collect(maps.Keys(top.Defs)), slices.Collect(maps.Keys(top.Definitions))...))
}

func tryDrafts(t *testing.T, all []*draft) {
	program := buildDrafts(t, all)
	count := 10
	if os.Getenv("MCPWIRE_LONG") != "" {
		count = 300
	}
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			suite := roundtrip.New(t, d.name, d.src)
			var cases []roundtrip.Case
			var in bytes.Buffer
			e := json.NewEncoder(&in)
			for c := range suite.Cases(t, count) {
				cases = append(cases, c)
				if err := e.Encode(map[string]any{"Package": d.pkg(), "Definition": c.Definition, "Text": c.Text}); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(program)
			cmd.Stdin = &in
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.Bytes())
			}
			outcomes := json.NewDecoder(bytes.NewReader(out))
			failed := 0
			for _, c := range cases {
				var o roundtrip.Outcome
				if err := outcomes.Decode(&o); err != nil {
					t.Fatal(err)
				}
				if err := suite.Judge(c, o); err != nil {
					t.Errorf("%s: %v\n%s", c.Definition, err, c.Text)
					if failed++; failed == 10 {
						t.Fatal("and more")
					}
				}
			}
			suite.Report(t)
		})
	}
}

// buildDrafts writes the packages into a module, vets them and builds the program that tests them.
// It returns the path of the program.
func buildDrafts(t *testing.T, all []*draft) string {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var importList, list bytes.Buffer
	for _, d := range all {
		for _, f := range d.out.Files {
			write(d.pkg()+"/"+f.Name, f.Src)
		}
		fmt.Fprintf(&importList, "\t\"drafts/%s\"\n", d.pkg())
		fmt.Fprintf(&list, "\t%q: of(%[1]s.Revision(%q), %[1]s.New, %[1]s.Validate, %[1]s.Value.Validate),\n", d.pkg(), d.name)
	}
	write("packages.go", fmt.Appendf(nil, "package main\n\nimport (\n%s)\n\nvar packages = map[string]pkg{\n%s}\n", &importList, &list))
	main, err := os.ReadFile("testdata/drafts/main.go")
	if err != nil {
		t.Fatal(err)
	}
	write("main.go", main)
	write("go.mod", fmt.Appendf(nil, "module drafts\n\ngo 1.26\n\nrequire github.com/mcpwire/mcpwire v0.0.0\n\nreplace github.com/mcpwire/mcpwire => %s\n", root))
	program := filepath.Join(dir, "drafts.exe") // a name that runs everywhere
	for _, args := range [][]string{{"vet", "-trimpath", "./..."}, {"build", "-trimpath", "-o", program}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args[0], err, out)
		}
	}
	return program
}
