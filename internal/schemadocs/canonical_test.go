package schemadocs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
)

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
