package tables_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

// One case per rule: the printed nodes of a schema, without the first two, which are always
// present.
func TestCompile(t *testing.T) {
	for _, test := range []struct {
		name, defs, want string
	}{
		{
			name: "Annotations are ignored, and a node without keywords is the first.",
			defs: `"A": {"description": "d", "default": 1, "format": "byte"},
				"B": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": "string", "format": "uri", "default": ""}}, "additionalProperties": {}}`,
			want: `
/* 2 string */ {Types: jsonschema.String},
/* 3 B r */ {Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "a"}, {Name: "b", Node: 2}}},`,
		}, {
			name: "Nodes with types only come first; all seven types are no constraint.",
			defs: `"A": {"enum": ["x"]},
				"B": {"type": ["null", "integer"]}, "C": {"type": ["null", "boolean", "number", "string", "array", "object"]}, "D": {"items": {"$ref": "#/$defs/C"}}`,
			want: `
/* 2 null or integer */ {Types: jsonschema.Null | jsonschema.Integer},
/* 3 A r */ {Enum: []string{` + "`\"x\"`" + `}},`,
		}, {
			name: "A $ref alone is its target; beside other keywords it is one more schema.",
			defs: `"A": {"$ref": "#/$defs/B", "description": "d"}, "B": {"minLength": 1}, "C": {"items": {"$ref": "#/$defs/A"}, "minItems": 1, "$ref": "#/$defs/B"}`,
			want: `
/* 2 B r */ {Bounds: []jsonschema.Bound{{Keyword: jsonschema.MinLength, Limit: "1"}}},
/* 3 C r */ {Bounds: []jsonschema.Bound{{Keyword: jsonschema.MinItems, Limit: "1"}}, Items: 2, All: []int32{2}},`,
		}, {
			name: "Bounds keep their order and their value.",
			defs: `"A": {"minimum": -9007199254740991, "maximum": 9007199254740991, "exclusiveMinimum": 0.1, "exclusiveMaximum": 1e300}`,
			want: `
/* 2 A r */ {Bounds: []jsonschema.Bound{{Keyword: jsonschema.Minimum, Limit: "-9007199254740991"}, {Keyword: jsonschema.Maximum, Limit: "9007199254740991"}, {Keyword: jsonschema.ExclusiveMinimum, Limit: "0.1"}, {Keyword: jsonschema.ExclusiveMaximum, Limit: "1e+300"}}},`,
		}, {
			name: "Constants are compact and minimally escaped; const beside enum is one more schema.",
			defs: `"A": {"const": {"a": [1.0, "\u003c\u00e9` + "`" + `"]}}, "B": {"enum": ["a", "\u0061", "b"], "const": "a"}`,
			want: `
/* 2 A r */ {Enum: []string{"{\"a\":[1.0,\"<é` + "`" + `\"]}"}},
/* 3 B r */ {Enum: []string{` + "`\"a\"`" + `}, All: []int32{4}},
/* 4 B */ {Enum: []string{` + "`\"a\"`, `\"b\"`" + `}},`,
		}, {
			name: "A required member without a property is checked as an additional one.",
			defs: `"A": {"required": ["b", "a"], "properties": {"b": {"type": "null"}}, "additionalProperties": {"type": "string"}}`,
			want: `
/* 2 string */ {Types: jsonschema.String},
/* 3 null */ {Types: jsonschema.Null},
/* 4 A r */ {Props: []jsonschema.Prop{{Name: "a", Node: 2, Required: true}, {Name: "b", Node: 3, Required: true}}, Rest: 2},`,
		}, {
			name: "false and not of the empty schema admit no value.",
			defs: `"A": {"additionalProperties": false}, "B": {"additionalProperties": {"not": {}}, "items": {"type": "null", "not": {}}}, "C": {"not": false}, "D": {"not": {"$ref": "#/$defs/D2"}}, "D2": {"additionalProperties": {"$ref": "#/$defs/D2"}}`,
			want: `
/* 2 A r */ {Rest: 1},
/* 3 B r */ {Rest: 1, Items: 4},
/* 4 B[] */ {Types: jsonschema.Null, All: []int32{1}},
/* 5 D r */ {All: []int32{1}},`,
		}, {
			name: "A propertyNames that every name satisfies is dropped.",
			defs: `"A": {"propertyNames": {"type": "string"}, "minItems": 1}, "B": {"propertyNames": {"type": "string", "maxLength": 3}}`,
			want: `
/* 2 A r */ {Bounds: []jsonschema.Bound{{Keyword: jsonschema.MinItems, Limit: "1"}}},
/* 3 B r */ {Names: 4},
/* 4 B names */ {Types: jsonschema.String, Bounds: []jsonschema.Bound{{Keyword: jsonschema.MaxLength, Limit: "3"}}},`,
		}, {
			name: "A union of constants is an enum.",
			defs: `"A": {"anyOf": [{"type": "string", "const": "a"}, {"type": "string", "enum": ["b", "a"]}, {"type": "string", "const": 1}]},
				"B": {"oneOf": [{"const": "a"}, {"const": null}]}, "C": {"oneOf": [{"const": 1}, {"const": 1.0}]}`,
			want: `
/* 2 A r */ {Types: jsonschema.String, Enum: []string{` + "`\"a\"`, `\"b\"`" + `}},
/* 3 B r */ {Enum: []string{` + "`\"a\"`, `null`" + `}},
/* 4 C r */ {Union: []jsonschema.Variant{{Node: 5, Kinds: jsonschema.Number}, {Node: 6, Kinds: jsonschema.Number}}, Exact: true},
/* 5 C/0 */ {Enum: []string{` + "`1`" + `}},
/* 6 C/1 */ {Enum: []string{` + "`1.0`" + `}},`,
		}, {
			name: "An anyOf inside an anyOf is flattened; inside a oneOf it is not.",
			defs: `"A": {"anyOf": [{"type": "null"}, {"anyOf": [{"type": "string"}, {"type": "array"}]}]}, "B": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}`,
			want: `
/* 2 null */ {Types: jsonschema.Null},
/* 3 string */ {Types: jsonschema.String},
/* 4 array */ {Types: jsonschema.Array},
/* 5 A r */ {Union: []jsonschema.Variant{{Node: 2, Kinds: jsonschema.Null}, {Node: 3, Kinds: jsonschema.String}, {Node: 4, Kinds: jsonschema.Array}}},
/* 6 B r */ {Union: []jsonschema.Variant{{Node: 2, Kinds: jsonschema.Null}, {Node: 5, Kinds: jsonschema.Null | jsonschema.String | jsonschema.Array}}, Exact: true},`,
		}, {
			name: "anyOf beside oneOf is one more schema.",
			defs: `"A": {"anyOf": [{"type": "null"}, {"type": "string"}], "oneOf": [{"minLength": 1}, {"type": "null"}]}`,
			want: `
/* 2 null */ {Types: jsonschema.Null},
/* 3 string */ {Types: jsonschema.String},
/* 4 A r */ {All: []int32{5}, Union: []jsonschema.Variant{{Node: 2, Kinds: jsonschema.Null}, {Node: 3, Kinds: jsonschema.String}}},
/* 5 A */ {Union: []jsonschema.Variant{{Node: 6}, {Node: 2, Kinds: jsonschema.Null}}, Exact: true},
/* 6 A/0 */ {Bounds: []jsonschema.Bound{{Keyword: jsonschema.MinLength, Limit: "1"}}},`,
		}, {
			name: "The tag is the member with the most values, also through allOf; a member with one value in all variants is no tag.",
			defs: `"A": {"anyOf": [
				{"type": "object", "properties": {"jsonrpc": {"const": "2.0"}, "method": {"const": "a"}}},
				{"type": "object", "allOf": [{"properties": {"jsonrpc": {"const": "2.0"}}}, {"properties": {"method": {"enum": ["b", "c"]}}}]},
				{"type": "object", "properties": {"method": {"type": "string"}}},
				{"type": "array"}]}`,
			want: `
/* 2 string */ {Types: jsonschema.String},
/* 3 array */ {Types: jsonschema.Array},
/* 4 A r */ {Union: []jsonschema.Variant{{Node: 5, Kinds: jsonschema.Object, Tags: []string{` + "`\"a\"`" + `}}, {Node: 8, Kinds: jsonschema.Object, Tags: []string{` + "`\"b\"`, `\"c\"`" + `}}, {Node: 12, Kinds: jsonschema.Object}, {Node: 3, Kinds: jsonschema.Array}}, Tag: "method"},
/* 5 A/0 */ {Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "jsonrpc", Node: 6}, {Name: "method", Node: 7}}},
/* 6 A/0.jsonrpc */ {Enum: []string{` + "`\"2.0\"`" + `}},
/* 7 A/0.method */ {Enum: []string{` + "`\"a\"`" + `}},
/* 8 A/1 */ {Types: jsonschema.Object, All: []int32{9, 10}},
/* 9 A/1/0 */ {Props: []jsonschema.Prop{{Name: "jsonrpc", Node: 6}}},
/* 10 A/1/1 */ {Props: []jsonschema.Prop{{Name: "method", Node: 11}}},
/* 11 A/1/1.method */ {Enum: []string{` + "`\"b\"`, `\"c\"`" + `}},
/* 12 A/2 */ {Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "method", Node: 2}}},`,
		}, {
			name: "Equal definitions are one node, also if they are recursive.",
			defs: `"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"type": "object", "properties": {"b": {"$ref": "#/$defs/A"}}}, "C": {"items": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}}`,
			want: `
/* 2 A r */ {Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "b", Node: 2}}},
/* 3 C r */ {Items: 2},`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tables, err := tables.Compile([]*load.Document{parse(t, "r", test.defs)})
			if err != nil {
				t.Fatal(err)
			}
			source := tables.Source("table")
			evaluate(t, source) // fails unless it is gofmt-clean Go
			_, got, _ := strings.Cut(nodes(source), "{Types: jsonschema.Never},\n")
			if diff := cmp.Diff(strings.TrimSpace(test.want), strings.TrimSpace(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Revisions share equal nodes, and the index locates them.
func TestRevisionsShareNodes(t *testing.T) {
	a := parse(t, "1", `"T": {"type": "object", "properties": {"s": {"$ref": "#/$defs/S"}, "next": {"$ref": "#/$defs/T"}}}, "S": {"enum": ["x"]}, "Old": {"type": "null"}`)
	b := parse(t, "2", `"T": {"type": "object", "properties": {"s": {"$ref": "#/$defs/S"}, "next": {"$ref": "#/$defs/T"}}}, "S": {"enum": ["x", "y"]}, "Same": {"enum": ["x"]}`)
	tables, err := tables.Compile([]*load.Document{a, b})
	if err != nil {
		t.Fatal(err)
	}
	source := tables.Source("table")
	table := evaluate(t, source)
	want := []jsonschema.Definition{
		{Name: "Old", Nodes: []int32{2, -1}},
		{Name: "S", Nodes: []int32{3, 5}},
		{Name: "Same", Nodes: []int32{-1, 3}},
		{Name: "T", Nodes: []int32{4, 6}},
	}
	if diff := cmp.Diff(want, table.Definitions); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1", "2"}, tables.Revisions()); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Old", "S", "Same", "T"}, tables.Definitions()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for _, d := range table.Definitions {
		for i, rev := range table.Revisions {
			root, ok := tables.Root(rev, d.Name)
			if ok != (d.Nodes[i] >= 0) || ok && root != d.Nodes[i] {
				t.Errorf("%s in %s: %d, %t", d.Name, rev, root, ok)
			}
		}
	}
	if _, ok := tables.Root("3", "T"); ok {
		t.Error("there is no revision 3")
	}
}

// A schema that cannot be compiled is an error at its place, from loading or from compiling.
func TestCompileErrors(t *testing.T) {
	var many []string
	for range jsonschema.MaxVariants + 1 {
		many = append(many, `{"properties": {"a": {"minLength": 1}}}`)
	}
	for _, test := range []struct{ name, defs, pointer string }{
		{"a $ref in a circle", `"A": {"$ref": "#/$defs/B"}, "B": {"allOf": [{"$ref": "#/$defs/A"}]}`, "/$defs/A"},
		{"a union that contains itself", `"A": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/A"}]}`, "/$defs/A"},
		{"an allOf that contains itself", `"A": {"type": "null", "allOf": [{"minItems": 1}, {"$ref": "#/$defs/A"}]}`, "/$defs/A"},
		{"a not of itself", `"A": {"type": "null", "not": {"$ref": "#/$defs/A"}}`, "/$defs/A"},
		{"too many variants", `"A": {"items": {"anyOf": [` + strings.Join(many, ",") + `]}}`, "/$defs/A/items"},
	} {
		doc, err := load.Parse("r", "r.json", []byte(`{"$defs":{`+test.defs+`}}`)) // load reports the cycles
		if err == nil {
			_, err = tables.Compile([]*load.Document{doc})
		}
		var at *load.Error
		if !errors.As(err, &at) || at.Pointer != test.pointer || at.File != "r.json" {
			t.Errorf("%s: got %v, want an error at %s", test.name, err, test.pointer)
		}
	}
	a := parse(t, "r", `"A": {}`)
	if _, err := tables.Compile([]*load.Document{a, a}); err == nil {
		t.Error("the same revision twice: no error")
	}
}

// The table of all revisions stays readable, and its source is deterministic.
func TestSource(t *testing.T) {
	current, _ := published(t)
	source := func() string {
		var docs []*load.Document
		for _, name := range current {
			docs = append(docs, read(t, name))
		}
		tables, err := tables.Compile(docs)
		if err != nil {
			t.Fatal(err)
		}
		return tables.Source("table")
	}
	first := source()
	if n := strings.Count(first, "\n"); n > 1200 {
		t.Errorf("%d lines", n)
	}
	for range 5 {
		if source() != first {
			t.Fatal("the source differs from run to run")
		}
	}
}
