package schema_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	if got, want := schema.Extensions(), []string{"ext-tasks"}; !slices.Equal(got, want) {
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

func TestCanonical(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{
			"prose goes wherever it is a keyword",
			`{"title": "T", "description": "d", "$comment": "c", "properties": {"a": {"description": "d", "examples": [1]}},
			  "items": {"title": "t"}, "anyOf": [{"description": "d"}], "not": {"description": "d"}}`,
			`{"anyOf":[{}],"items":{},"not":{},"properties":{"a":{}}}`,
		}, {
			"prose in one of a list of items goes",
			`{"items": [{"description": "d"}, true]}`,
			`{"items":[{},true]}`,
		}, {
			"properties and definitions named like prose stay",
			`{"properties": {"title": {"type": "string"}, "description": {"title": "t"}}, "$defs": {"examples": {}}}`,
			`{"$defs":{"examples":{}},"properties":{"description":{},"title":{"type":"string"}}}`,
		}, {
			"values stay whole, whatever their members are called",
			`{"const": {"title": "t"}, "default": {"description": "d", "a": null}, "enum": [{"title": 1}]}`,
			`{"const":{"title":"t"},"default":{"a":null,"description":"d"},"enum":[{"title":1}]}`,
		}, {
			"members are sorted by byte, lists keep their order",
			`{"required": ["b", "a", "B"], "properties": {"b": {}, "a": {}, "B": {}, "é": true}}`,
			`{"properties":{"B":{},"a":{},"b":{},"é":true},"required":["b","a","B"]}`,
		}, {
			"numbers and characters keep their text",
			`{"maximum": 9007199254740993, "minimum": -1.50e+2, "const": "<a&b>"}`,
			`{"const":"<a&b>","maximum":9007199254740993,"minimum":-1.50e+2}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := schemadocs.Canonical([]byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, got); err != nil {
				t.Fatal(err)
			}
			if compact.String() != tt.want {
				t.Errorf("got  %s\nwant %s", &compact, tt.want)
			}
			if again, err := schemadocs.Canonical(got); err != nil || !bytes.Equal(again, got) {
				t.Errorf("not its own canonical form: %v\n%s", err, again)
			}
		})
	}
}

func TestCanonicalIsIndentedByTwoAndEndsWithANewline(t *testing.T) {
	got, err := schemadocs.Canonical([]byte("{\"type\":\n[\"a\"],\"properties\":{}}"))
	if want := "{\n  \"properties\": {},\n  \"type\": [\n    \"a\"\n  ]\n}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestCanonicalRefuses(t *testing.T) {
	tests := []struct {
		name, src string
		line, col int
		pointer   string
	}{
		{"an unknown keyword", "{\n \"properties\": {\"a/b\": {\n  \"x-order\": 1}}}", 3, 14, "/properties/a~1b/x-order"},
		{"an unknown keyword in a list", `{"anyOf": [{}, {"a~": 1}]}`, 1, 23, "/anyOf/1/a~0"},
		{"a schema that is a number", `{"$defs": {"T": 5}}`, 1, 17, "/$defs/T"},
		{"properties that are a list", `{"properties": []}`, 1, 16, "/properties"},
		{"anyOf that is an object", `{"anyOf": {}}`, 1, 11, "/anyOf"},
		{"items that are text", `{"items": "a"}`, 1, 11, "/items"},
		{"a name given twice", `{"$defs": {"T": {}, "T": {}}}`, 1, 21, "/$defs/T"},
		{"a missing comma", "{\"type\": \"a\"\n \"const\": 1}", 2, 2, ""},
		{"a cut file", `{"$defs": {"T": {`, 1, 18, "/$defs/T"},
		{"a bad literal", `{"default": nul}`, 1, 16, "/default"},
		{"text behind the schema", "{}\n{}", 2, 1, ""},
		{"nothing", "", 1, 1, ""},
		{"a web page", "<html>", 1, 1, ""},
		{"invalid UTF-8", "{\"const\": \"\xff\"}", 1, 12, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schemadocs.Canonical([]byte(tt.src))
			e, ok := errors.AsType[*schemadocs.Error](err)
			if !ok {
				t.Fatalf("error %v, want a *schemadocs.Error", err)
			}
			if e.Line != tt.line || e.Column != tt.col || e.Pointer != tt.pointer {
				t.Errorf("error %q, want it at %d:%d: %s", err, tt.line, tt.col, tt.pointer)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	const src = `{"$defs": {
		"Level": {"enum": ["low", 1, null], "type": "string"},
		"Plain": {"type": "string"},
		"Deep": {"allOf": [{"$ref": "#/$defs/Plain"}, {"properties": {
			"mode": {"anyOf": [{"const": "a"}, {"const": "b"}]},
			"a.b/c": {"properties": {"d": false}},
			"list": {"items": {"properties": {"title": {}}}},
			"map": {"additionalProperties": {"properties": {"text": {"items": {"enum": [""]}}}}},
			"ref": {"$ref": "#/$defs/Deep"}
		}}]}
	}}`
	members, err := schemadocs.Members([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range members {
		got[m.String()] = true
	}
	want := []string{
		"Deep", "Deep.a.b/c", "Deep.a.b/c.d", "Deep.list", "Deep.list[].title", "Deep.map", "Deep.map{}.text",
		"Deep.map{}.text[]=", "Deep.mode", "Deep.mode=a", "Deep.mode=b", "Deep.ref",
		"Level", "Level=1", "Level=low", "Level=null", "Plain",
	}
	if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, want) {
		t.Errorf("got  %q\nwant %q", have, want)
	}
	if len(members) != len(want) {
		t.Errorf("%d members, %d of them distinct", len(members), len(got))
	}
}
