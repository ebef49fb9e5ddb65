package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
	"github.com/mcpwire/mcpwire/schema"
)

// published returns the folder of the published schemas, which the environment variable
// MCPWIRE_SPEC names. They are not part of the project. If the variable is not set, published skips
// the test.
func published(t *testing.T) string {
	dir := os.Getenv("MCPWIRE_SPEC")
	if dir == "" {
		t.Skip("set MCPWIRE_SPEC to a folder with the published REVISION/schema.json")
	}
	return dir
}

func all() []string { return append(schema.Revisions(), schema.Extensions()...) }

func read(t *testing.T, rev string) []byte {
	t.Helper()
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestRevisionsAreInOrder(t *testing.T) {
	if got, want := schema.Revisions(), []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}; !slices.Equal(got, want) {
		t.Errorf("Revisions() = %v, want %v", got, want)
	}
	if got, want := schema.Extensions(), []string{"ext-skills", "ext-tasks"}; !slices.Equal(got, want) {
		t.Errorf("Extensions() = %v, want %v", got, want)
	}
}

func TestReadOfAnUnknownRevision(t *testing.T) {
	for _, rev := range []string{"2023-01-01", "", ".", "../schema", "docs.md"} {
		if _, err := schema.Read(rev); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read(%q): %v, want fs.ErrNotExist", rev, err)
		}
	}
}

func TestEmbeddedSchemasAreCanonical(t *testing.T) {
	for _, rev := range all() {
		src := read(t, rev)
		again, err := schemadocs.Canonical(src)
		if err != nil {
			t.Errorf("%s/schema.json:%v", rev, err)
		} else if !bytes.Equal(again, src) {
			t.Errorf("%s/schema.json is not in canonical form; run mcpwire schema sync", rev)
		}
	}
}

// The embedded schemas equal the published ones, keyword by keyword, except for the prose.
func TestEmbeddedSchemasEqualThePublished(t *testing.T) {
	dir := published(t)
	for _, rev := range all() {
		if rev == "ext-skills" {
			continue // no schema is published: that of the module is written by hand
		}
		t.Run(rev, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(dir, rev, "schema.json"))
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			compare(t, "", decode(t, src), decode(t, read(t, rev)), false, &left)
			if left == 0 {
				t.Error("the published schema has no prose: is it the published one?")
			}
		})
	}
}

// compare walks both values at once. named is whether their members are named by people (as
// those of properties are) and not by JSON Schema. left counts the keywords left out.
func compare(t *testing.T, at string, published, ours any, named bool, left *int) {
	p, ok := published.(map[string]any)
	if !ok {
		if list, ok := published.([]any); ok {
			o, _ := ours.([]any)
			if len(o) != len(list) {
				t.Errorf("%s: published %d items, have %d", at, len(list), len(o))
				return
			}
			for i := range list {
				compare(t, fmt.Sprintf("%s/%d", at, i), list[i], o[i], false, left)
			}
			return
		}
		if !reflect.DeepEqual(published, ours) {
			t.Errorf("%s: published %v, have %v", at, published, ours)
		}
		return
	}
	o, ok := ours.(map[string]any)
	if !ok {
		t.Errorf("%s: published an object, have %v", at, ours)
		return
	}
	for key := range o {
		if _, ok := p[key]; !ok {
			t.Errorf("%s/%s was not published", at, key)
		}
	}
	for key, v := range p {
		if _, kept := o[key]; !kept {
			if _, text := v.(string); text && !named && (key == "description" || key == "title") {
				*left++
			} else {
				t.Errorf("%s/%s is missing", at, key)
			}
			continue
		}
		switch {
		case !named && (key == "const" || key == "default" || key == "enum"):
			if !reflect.DeepEqual(v, o[key]) {
				t.Errorf("%s/%s: published %v, have %v", at, key, v, o[key])
			}
		default:
			names := !named && slices.Contains([]string{"$defs", "definitions", "properties"}, key)
			compare(t, at+"/"+key, v, o[key], names, left)
		}
	}
}

func decode(t *testing.T, src []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
