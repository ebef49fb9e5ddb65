package load_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/toolschema"
)

// The table has the keywords of all drafts, sorted, and no others.
func TestKeywordsAreThoseOfAllDrafts(t *testing.T) {
	var names []string
	for _, k := range load.Keywords {
		names = append(names, k.Name)
	}
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Error("the table is not sorted")
	}
	slices.Sort(names)
	if want := toolschema.Keywords(); !slices.Equal(names, want) {
		t.Errorf("got the keywords\n%q\nwant\n%q", names, want)
	}
}

// Each keyword does what the table says: it is read, counted as ignored, or refused with a remedy.
func TestKeywordsHaveTheirEffects(t *testing.T) {
	const schema, list, named = `{"type": "string"}`, `[{"type": "string"}]`, `{"a": {"type": "string"}}`
	values := map[string]string{
		"$anchor": `"a"`, "$comment": `"c"`, "$defs": named, "$dynamicAnchor": `"a"`, "$dynamicRef": `"#/$defs/B"`, "$id": `"https://example.com/a"`,
		"$recursiveAnchor": `true`, "$recursiveRef": `"#/$defs/B"`, "$ref": `"#/$defs/B"`, "$schema": `"https://json-schema.org/draft/2020-12/schema"`,
		"$vocabulary": `{}`, "additionalItems": schema, "additionalProperties": schema, "allOf": list, "anyOf": list, "const": `1`, "contains": schema,
		"contentEncoding": `"base64"`, "contentMediaType": `"text/plain"`, "contentSchema": schema, "default": `null`, "definitions": named,
		"dependencies": `{"a": ["b"], "c": {"type": "object"}}`, "dependentRequired": `{"a": ["b"]}`, "dependentSchemas": named, "deprecated": `true`,
		"description": `"d"`, "else": schema, "enum": `[1]`, "examples": `[1]`, "exclusiveMaximum": `1`, "exclusiveMinimum": `1`, "format": `"uri"`,
		"id": `"https://example.com/a"`, "if": schema, "items": schema, "maxContains": `1`, "maximum": `1`, "maxItems": `1`, "maxLength": `1`,
		"maxProperties": `1`, "minContains": `1`, "minimum": `1`, "minItems": `1`, "minLength": `1`, "minProperties": `1`, "multipleOf": `2`,
		"not": schema, "oneOf": list, "pattern": `"^a"`, "patternProperties": `{"^a": {"type": "string"}}`, "prefixItems": list, "properties": named,
		"propertyNames": schema, "readOnly": `true`, "required": `["a"]`, "then": schema, "title": `"t"`, "type": `"string"`,
		"unevaluatedItems": `false`, "unevaluatedProperties": `false`, "uniqueItems": `true`, "writeOnly": `true`,
	}
	for _, k := range load.Keywords {
		t.Run(k.Name, func(t *testing.T) {
			value, ok := values[k.Name]
			if !ok {
				t.Fatal("the test has no value of the keyword")
			}
			// A reference beside the refused keywords is what makes them impossible to read.
			beside := ""
			if k.Effect == load.Refused {
				beside = `, "anyOf": [{"$ref": "#/$defs/B"}]`
			}
			src := fmt.Sprintf(`{"$defs": {"A": {%q: %s%s}, "B": {"type": "boolean"}}}`, k.Name, value, beside)
			doc, err := load.Parse("2025", "2025.json", []byte(src))
			var fault *load.Error
			switch {
			case k.Effect == load.Refused:
				if !errors.As(err, &fault) || fault.Pointer != "/$defs/A/"+k.Name || !strings.Contains(fault.Message, "ignore row") {
					t.Errorf("want an error at the keyword that names the remedy, got %v", err)
				}
				doc, err = load.Read("2025", "2025.json", []byte(src), load.Options{Ignore: []string{k.Name}})
				if err != nil || doc.Ignored[k.Name] != 1 {
					t.Errorf("ignored by a row: got %v, and the counts %v", err, doc)
				}
			case err != nil:
				t.Error(err)
			case (k.Effect == load.Ignored) != (doc.Ignored[k.Name] == 1) && k.Name != "additionalItems":
				t.Errorf("the effect is %q, and the counts of ignored keywords are %v", k.Effect, doc.Ignored)
			}
			// A value of a wrong kind is an error at its place.
			if k.Effect == load.Ignored || slices.Contains([]string{"$anchor", "$dynamicAnchor", "$recursiveAnchor", "$id", "id", "$schema", "$defs",
				"definitions", "title", "const", "default", "additionalItems"}, k.Name) {
				return
			}
			_, err = load.Parse("2025", "2025.json", fmt.Appendf(nil, `{"$defs": {"A": {%q: 1e-1}}}`, k.Name))
			if number := slices.Contains([]string{"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf"}, k.Name); number != (err == nil) {
				t.Errorf("the value 0.1: got the error %v", err)
			} else if err != nil && (!errors.As(err, &fault) || !strings.HasPrefix(fault.Pointer, "/$defs/A")) {
				t.Errorf("the value 0.1: the error names no place: %v", err)
			}
		})
	}
}
