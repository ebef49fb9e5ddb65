package gen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/internal/schemadocs"
)

var update = flag.Bool("update", false, "rewrite the want sections of the golden cases")

// A golden case is a file testdata/NAME.txtar. Its head explains in prose a rule and the reason for
// it. These sections are the input of the generator:
//
//	REV.json        schema of revision REV, from the oldest to the newest
//	files/NAME      another file, which a $ref leads to
//	base.json       schema of a package generated before, for Options.Base
//	overrides.json  the overrides file
//	capabilities.json  table of the capabilities that messages need
//	messages.json   the table of messages
//	docs.md         documentation; by default the descriptions in the schemas
//
// these select the declarations and values to compare:
//
//	show            declarations to compare, by name: "T", "T.DecodeJSON", "*.isU"; "//F" shows
//	                the comment of a function
//	in.json         lines "DEFINITION VALUE" to decode and encode again
//	run.go          a file of the package, package p, with a func Run(w io.Writer)
//
// and these are the expected output:
//
//	want.go         the declarations; constants come with their type, functions without comment
//	want.json       for each line of in.json the Go type and the encoded value, or the place of the
//	                error
//	want.faults     the faults that Validate reports: line, revision, place and schema keyword
//	want.out        the output of Run
//	want.notes      the notes, and after them the keywords that had no effect
//	want.err        the error, in a case whose name starts with "error-", which is strict
//
// Every case also checks that each value is unchanged after a round trip.
type golden struct {
	name    string
	file    string
	archive *txtar.Archive
	config  gen.Options
	base    *gen.Options

	out, baseOut *gen.Output // nil if generation fails
	err          error
	changed      bool // a section was replaced
}

const module = "goldens" // the module that all cases are generated into

func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var cases []*golden
	for _, file := range files {
		c, err := readGolden(file)
		if err != nil {
			t.Fatal(err)
		}
		c.generate()
		cases = append(cases, c)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if fails := strings.HasPrefix(c.name, "error-"); fails != (c.err != nil) {
				t.Fatalf("got the error %v; only cases named error-… fail, and all of them do", c.err)
			}
			if c.err != nil {
				var e *gen.Error
				if !errors.As(c.err, &e) {
					t.Errorf("the error is a %T and names no place in a file: %[1]v", c.err)
				}
				c.compare(t, "want.err", c.err.Error()+"\n")
				return
			}
			if c.section("show") == "" {
				t.Error("the case has no section show")
			}
			c.compare(t, "want.go", c.shown(t))
			c.compare(t, "want.notes", c.notes())
			for _, f := range c.out.Files {
				for line := range strings.Lines(string(f.Src)) {
					line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")
					if strings.HasPrefix(strings.TrimSpace(line), "//") && utf8.RuneCountInString(line) > 100 && !strings.Contains(line, "://") {
						t.Errorf("%s has a comment wider than 100 columns: %s", f.Name, line)
					}
				}
			}
			again, err := gen.Generate(c.config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.out.Files, again.Files); diff != "" {
				t.Errorf("generated again, the output differs (-first +second):\n%s", diff)
			}
		})
	}
	t.Run("compiled", func(t *testing.T) {
		sound := slices.DeleteFunc(slices.Clone(cases), func(c *golden) bool { return c.err != nil })
		reports := run(t, sound)
		for _, c := range sound {
			t.Run(c.name, func(t *testing.T) {
				r, ok := reports[c.name]
				if !ok {
					t.Fatal("it did not run")
				}
				c.compare(t, "want.json", r.JSON)
				c.compare(t, "want.faults", r.Faults)
				c.compare(t, "want.out", r.Out)
			})
		}
	})
	for _, c := range cases {
		if c.changed {
			if err := os.WriteFile(c.file, txtar.Format(c.archive), 0o644); err != nil {
				t.Error(err)
			}
		}
	}
}

func readGolden(file string) (*golden, error) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err
	}
	c := &golden{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), file: file, archive: a}
	c.config = gen.Options{Package: "p", Path: module + "/" + c.name, Strict: strings.HasPrefix(c.name, "error-"), Open: c.open}
	for _, f := range a.Files {
		switch f.Name {
		case "show", "in.json", "run.go", "want.go", "want.json", "want.faults", "want.out", "want.err", "want.notes":
		case "overrides.json":
			c.config.Overrides = gen.Overrides{File: f.Name, Src: f.Data}
		case "capabilities.json":
			c.config.Capabilities = gen.Capabilities{File: f.Name, Src: f.Data}
		case "messages.json":
			c.config.Messages = gen.File{Name: f.Name, Src: f.Data}
		case "docs.md":
			if c.config.Docs, err = schemadocs.ParseDocs(f.Data); err != nil {
				return nil, fmt.Errorf("%s: docs.md:%w", file, err)
			}
		case "base.json":
			c.base = &gen.Options{Package: "base", Path: c.config.Path + "/base",
				Schemas: []gen.Schema{{Revision: "base", File: f.Name, Src: f.Data}}}
		default:
			if strings.HasPrefix(f.Name, "files/") {
				continue
			}
			rev, ok := strings.CutSuffix(f.Name, ".json")
			if !ok {
				return nil, fmt.Errorf("%s: a case has no section %q", file, f.Name)
			}
			c.config.Schemas = append(c.config.Schemas, gen.Schema{Revision: rev, File: f.Name, Src: f.Data})
		}
	}
	return c, nil
}

func (c *golden) generate() {
	if c.err == nil && c.base != nil {
		c.baseOut, c.err = gen.Generate(*c.base)
		c.config.Base = c.baseOut
	}
	if c.err == nil {
		c.out, c.err = gen.Generate(c.config)
	}
}

// open returns one of the sections files/NAME.
func (c *golden) open(name string) ([]byte, error) {
	if text := c.section("files/" + name); text != "" {
		return []byte(text), nil
	}
	return nil, fmt.Errorf("there is no file %s", name)
}

// notes returns the notes and the ignored keywords.
func (c *golden) notes() string {
	var b strings.Builder
	for _, n := range c.out.Notes {
		fmt.Fprintln(&b, n)
	}
	for _, keyword := range slices.Sorted(maps.Keys(c.out.Ignored)) {
		if keyword != "format" {
			fmt.Fprintf(&b, "ignored: %s\n", keyword)
		}
	}
	return b.String()
}

func (c *golden) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// compare reports how got differs from a section of the case, or with -update replaces it.
func (c *golden) compare(t *testing.T, name, got string) {
	t.Helper()
	want := c.section(name)
	if got == want {
		return
	}
	if !*update {
		t.Errorf("%s of %s (-want +got):\n%s", name, c.file, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		return
	}
	i := slices.IndexFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		i = len(c.archive.Files)
		c.archive.Files = append(c.archive.Files, txtar.File{Name: name})
	}
	c.archive.Files[i].Data = []byte(got)
	if got == "" {
		c.archive.Files = slices.Delete(c.archive.Files, i, i+1)
	}
	c.changed = true
}

// shown returns the declarations that the section show names, in that order.
func (c *golden) shown(t *testing.T) string {
	var b strings.Builder
	before := false // the previous declaration is a single line
	decls := c.declarations(t)
	for pattern := range strings.FieldsSeq(c.section("show")) {
		found := false
		for _, d := range decls {
			ok, err := path.Match(pattern, d.name)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				found = true
				line := strings.Count(d.src, "\n") == 1
				if !line || !before { // no empty line between single lines
					b.WriteString("\n")
				}
				b.WriteString(d.src)
				before = line
			}
		}
		if !found {
			t.Errorf("the output declares no %s", pattern)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

type declaration struct{ name, src string }

// declarations lists the declarations of the output: types, constants under the name of their
// type, variables, functions, and methods as "T.Name".
func (c *golden) declarations(t *testing.T) []declaration {
	var out []declaration
	for _, file := range c.out.Files {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file.Name, file.Src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		source := func(from, to token.Pos) string {
			return string(file.Src[fset.Position(from).Offset:fset.Position(to).Offset]) + "\n"
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					recv := d.Recv.List[0].Type
					if p, ok := recv.(*ast.StarExpr); ok {
						recv = p.X
					}
					name = source(recv.Pos(), recv.End())[:recv.End()-recv.Pos()] + "." + name
				}
				out = append(out, declaration{name, source(d.Pos(), d.End())})
				if d.Doc != nil {
					out = append(out, declaration{"//" + name, source(d.Doc.Pos(), d.Doc.End())})
				}
			case *ast.GenDecl:
				from := d.Pos()
				if d.Doc != nil {
					from = d.Doc.Pos()
				}
				switch spec := d.Specs[0].(type) {
				case *ast.TypeSpec:
					out = append(out, declaration{spec.Name.Name, source(from, d.End())})
				case *ast.ValueSpec:
					name := spec.Names[0].Name
					if typ, ok := spec.Type.(*ast.Ident); ok {
						name = typ.Name
					}
					out = append(out, declaration{name, source(from, d.End())})
				}
			}
		}
	}
	return out
}

// report is the output of the driver for one case.
type report struct{ JSON, Faults, Out string }

// run writes all cases into one module that requires this one, checks them with go vet and
// runs the driver over them, all with one go command.
func run(t *testing.T, cases []*golden) map[string]report {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var list, importList bytes.Buffer
	for i, c := range cases {
		for _, f := range c.out.Files {
			write(c.name+"/"+f.Name, f.Src)
		}
		if c.baseOut != nil {
			for _, f := range c.baseOut.Files {
				write(c.name+"/base/"+f.Name, f.Src)
			}
		}
		fmt.Fprintf(&importList, "\tp%d %q\n", i, module+"/"+c.name)
		fmt.Fprintf(&list, "\tof(%q, p%d.New, p%[2]d.Value.Validate", c.name, i)
		for _, s := range c.config.Schemas {
			fmt.Fprintf(&list, ", %q", s.Revision)
		}
		list.WriteString(")")
		for _, name := range []string{"in.json", "run.go"} {
			if src := c.section(name); src != "" {
				write(c.name+"/"+name, []byte(src))
			}
		}
		if c.section("run.go") != "" {
			fmt.Fprintf(&list, ".with(p%d.Run)", i)
		}
		list.WriteString(",\n")
	}
	src, err := format.Source(fmt.Appendf(nil, "package %s\n\nimport (\n%s)\n\nvar cases = []golden{\n%s}\n", module, &importList, &list))
	if err != nil {
		t.Fatal(err)
	}
	write("cases_test.go", src)
	driver, err := os.ReadFile("testdata/driver/driver_test.go")
	if err != nil {
		t.Fatal(err)
	}
	write("driver_test.go", driver)
	write("go.mod", fmt.Appendf(nil, "module %s\n\ngo 1.26\n\nrequire github.com/mcpwire/mcpwire v0.0.0\n\nreplace github.com/mcpwire/mcpwire => %s\n", module, root))
	cmd := exec.Command("go", "test", "-trimpath", "-count=1", "-vet=all", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("go test: %v\n%s", err, out)
	}
	var reports map[string]report
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &reports); err != nil {
		t.Fatal(err)
	}
	return reports
}

// The comment of a union's decoder states its discriminator.
func TestUnionDecoderComment(t *testing.T) {
	out, err := gen.Generate(gen.Options{Package: "p", Schemas: []gen.Schema{{Revision: "2025", File: "2025.json", Src: []byte(`{"$defs": {
		"A": {"type": "object", "properties": {"type": {"const": "a"}}, "required": ["type"]},
		"B": {"type": "object", "properties": {"type": {"const": "b"}}, "required": ["type"]},
		"U": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}
	}}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n// DecodeU reads a [U]. It selects the variant by its member \"type\".\nfunc DecodeU("
	for _, f := range out.Files {
		if f.Name == "unions.go" && !bytes.Contains(f.Src, []byte(want)) {
			t.Errorf("%s lacks %q:\n%s", f.Name, want, f.Src)
		}
	}
}
