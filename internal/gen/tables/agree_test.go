package tables_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/slowtest"
)

var (
	long = flag.Bool("long", false, "make ten times as many instances")
	seed = flag.Uint64("seed", 1, "seed of the random instances")
)

// published returns the schema files of the repository. It also returns those of the
// specification's history, if the folder in MCPWIRE_SPEC has them.
func published(t *testing.T) (current, history []string) {
	t.Helper()
	current, err := filepath.Glob("../../../schema/*/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(current) == 0 {
		t.Fatal("no schemas")
	}
	if history, err = filepath.Glob(filepath.Join(os.Getenv("MCPWIRE_SPEC"), "history/*.json")); err != nil {
		t.Fatal(err)
	}
	return current, history
}

func read(t testing.TB, file string) *load.Document {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	revision := filepath.Base(filepath.Dir(file))
	if revision == "history" {
		revision = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	doc, err := load.Parse(revision, file, src)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// A table agrees with an independent validator on random instances and mutants of every definition,
// and finds at least the same faults.
func TestTableAgreesWithJSONSchema(t *testing.T) {
	current, history := published(t)
	if len(history) == 0 {
		t.Log("without the history of the specification: set MCPWIRE_SPEC to include it")
	}
	for _, files := range []struct {
		names []string
		count int
	}{{current, 200}, {history, 30}} {
		for _, name := range files.names {
			doc := read(t, name)
			count := files.count
			switch {
			case *long:
				count *= 10
			case !slowtest.Enabled():
				count /= 5
			}
			t.Run(doc.Revision, func(t *testing.T) {
				t.Parallel()
				agree(t, doc, table(t, doc), count)
			})
		}
	}
}

// The table of all revisions together agrees with the validator, too.
func TestTableOfAllRevisionsAgreesWithJSONSchema(t *testing.T) {
	current, _ := published(t)
	var docs []*load.Document
	for _, name := range current {
		docs = append(docs, read(t, name))
	}
	all := table(t, docs...)
	for _, doc := range docs {
		t.Run(doc.Revision, func(t *testing.T) {
			t.Parallel()
			agree(t, doc, all, 20)
		})
	}
}

func agree(t *testing.T, doc *load.Document, table *jsonschema.Table, count int) {
	oracle := newOracle(t, doc.File)
	accepted, refused, still := 0, 0, 0
	for _, name := range doc.Names() {
		h := fnv.New64()
		h.Write([]byte(doc.Revision + name))
		root, ok := table.Root(doc.Revision, name)
		if !ok {
			t.Fatalf("%s is not in the table", name)
		}
		schema := oracle.schema(t, name)
		if unsatisfiable(doc, name) {
			continue
		}
		maker := instance.New(doc, h.Sum64()+*seed)
		for i := range count {
			v, err := maker.Value(name)
			if err != nil {
				t.Fatal(err)
			}
			text := v.JSON()
			if i%16 == 0 {
				text = v.Indent()
			}
			if !compare(t, table, root, schema, name, text) {
				t.Errorf("%s: an instance is not valid:\n%s", name, text)
			}
			accepted++
			text = maker.Mutant(v).JSON()
			if compare(t, table, root, schema, name, text) {
				still++
			} else {
				refused++
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d instances, %d mutants refused, %d still valid", accepted, refused, still)
	if refused < accepted/4 {
		t.Error("too few mutants are refused")
	}
}

// unsatisfiable reports whether the definition obviously admits no value.
func unsatisfiable(doc *load.Document, name string) bool { return doc.Defs[name].False }

// compare fails t unless table and schema agree about text, and reports whether they
// accept it.
func compare(t *testing.T, table *jsonschema.Table, root int32, schema *santhosh.Schema, name string, text []byte) bool {
	t.Helper()
	value, err := santhosh.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	got := table.Check(root, text)
	want := schema.Validate(value)
	if (got == nil) != (want == nil) {
		t.Errorf("%s: the table says %v\nthe validator says %v\n%s", name, got, want, text)
		return want == nil
	}
	if want == nil {
		return true
	}
	var faults jsonschema.Faults
	if !errors.As(got, &faults) {
		t.Fatalf("%s: want Faults, got %T", name, got)
	}
	places := map[string]bool{}
	for _, f := range faults {
		places[f.Pointer] = true
	}
	var cause *santhosh.ValidationError
	if !errors.As(want, &cause) {
		t.Fatalf("%s: want a ValidationError, got %T", name, want)
	}
	for _, p := range leaves(cause, nil) {
		if !places[p] {
			t.Errorf("%s: no fault at %q among\n%v\nthe validator says %v\n%s", name, p, got, want, text)
		}
	}
	return false
}

// leaves appends to list the places of all faults that are not inside of a union.
func leaves(e *santhosh.ValidationError, list []string) []string {
	at := ""
	for _, token := range e.InstanceLocation {
		at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return list
	case *kind.Contains, *kind.MinContains, *kind.MaxContains: // the causes are those of single items
		return append(list, at)
	case *kind.PropertyNames: // later steps of v6.0.3 overwrite the place
		return list
	case *kind.AdditionalProperties: // the validator reports it at the object, the table at the member
		for _, name := range k.Properties {
			list = append(list, at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		}
		return list
	}
	if len(e.Causes) == 0 {
		return append(list, at)
	}
	for _, c := range e.Causes {
		list = leaves(c, list)
	}
	return list
}

// oracle is the independent validator.
type oracle struct {
	compiler *santhosh.Compiler
	url      string
	home     string
}

func newOracle(t *testing.T, file string) *oracle {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return newOracleOf(t, src)
}

func newOracleOf(t *testing.T, src []byte) *oracle {
	t.Helper()
	doc, err := santhosh.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	o := &oracle{compiler: santhosh.NewCompiler(), url: "file:///schema.json", home: "$defs"}
	if _, ok := doc.(map[string]any)["definitions"]; ok {
		o.home = "definitions"
	}
	o.annotate(doc)
	if err := o.compiler.AddResource(o.url, doc); err != nil {
		t.Fatal(err)
	}
	return o
}

// annotate makes all formats in x annotations; draft 7 would assert them.
func (o *oracle) annotate(x any) {
	switch x := x.(type) {
	case []any:
		for _, item := range x {
			o.annotate(item)
		}
	case map[string]any:
		if name, ok := x["format"].(string); ok {
			o.compiler.RegisterFormat(&santhosh.Format{Name: name, Validate: func(any) error { return nil }})
		}
		for _, item := range x {
			o.annotate(item)
		}
	}
}

func (o *oracle) schema(t *testing.T, name string) *santhosh.Schema {
	t.Helper()
	s, err := o.compiler.Compile(fmt.Sprintf("%s#/%s/%s", o.url, o.home, name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}
