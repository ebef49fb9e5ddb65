package instance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
)

func parse(t *testing.T, defs string) *load.Document {
	t.Helper()
	doc, err := load.Parse("r", "r.json", []byte(`{"$defs":{`+defs+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

const everything = `
	"Union": {"anyOf": [
		{"type": "object", "properties": {"kind": {"const": "a"}, "deep": {"$ref": "#/$defs/Union"}}, "required": ["kind"]},
		{"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "integer", "minimum": 0, "maximum": 9007199254740993}}, "required": ["kind", "n"]},
		{"type": "array", "items": {"$ref": "#/$defs/Union"}, "maxItems": 3},
		{"type": ["string", "null"]}, {"type": "number"}]},
	"Enum": {"type": "string", "enum": ["one", "two", "three"]},
	"Closed": {"type": "object", "properties": {"a": {"$ref": "#/$defs/Enum"}, "b": {"type": "boolean"}}, "additionalProperties": false},
	"Both": {"allOf": [{"$ref": "#/$defs/Closed2"}, {"type": "object", "properties": {"c": {"type": "string", "minLength": 3, "maxLength": 4}}, "required": ["c"]}]},
	"Closed2": {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "string"}},
	"Endless": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Endless"}, {"type": "null"}]}}, "required": ["next"]},
	"Free": {},
	"Never": {"not": {}}`

// A few hundred values cover all choices that the schema leaves.
func TestValuesCoverAllChoices(t *testing.T) {
	doc := parse(t, everything)
	for _, test := range []struct {
		name    string
		corners map[string]func(v any) bool
	}{
		{"Union", map[string]func(any) bool{
			"first variant":     func(v any) bool { return member(v, "kind") == "a" },
			"second variant":    func(v any) bool { return member(v, "kind") == "b" },
			"empty list":        func(v any) bool { l, ok := v.([]any); return ok && len(l) == 0 },
			"full list":         func(v any) bool { l, ok := v.([]any); return ok && len(l) == 3 },
			"empty string":      func(v any) bool { return v == "" },
			"null":              func(v any) bool { return v == nil },
			"optional member":   func(v any) bool { return member(v, "deep") != nil },
			"unknown member":    func(v any) bool { m, ok := v.(map[string]any); return ok && len(m) > 2 },
			"only what it must": func(v any) bool { m, ok := v.(map[string]any); return ok && len(m) == 1 },
			"many members":      func(v any) bool { m, ok := v.(map[string]any); return ok && len(m) > 20 },
			"integer with dot":  func(v any) bool { return member(v, "n") == json.Number("5.0") },
			"integer with e":    func(v any) bool { return member(v, "n") == json.Number("6e4") },
			"the bound itself":  func(v any) bool { return member(v, "n") == json.Number("9007199254740992") },
			"beyond 2^63":       func(v any) bool { return v == json.Number("18446744073709551616") },
			"many digits":       func(v any) bool { return v == json.Number("3.141592653589793238462643383279") },
		}},
		{"Enum", map[string]func(any) bool{
			"one": func(v any) bool { return v == "one" }, "two": func(v any) bool { return v == "two" }, "three": func(v any) bool { return v == "three" },
		}},
		{"Closed", map[string]func(any) bool{
			"empty": func(v any) bool { return len(v.(map[string]any)) == 0 }, "full": func(v any) bool { return len(v.(map[string]any)) == 2 },
		}},
		{"Both", map[string]func(any) bool{
			"additional": func(v any) bool { return len(v.(map[string]any)) > 2 },
			"short":      func(v any) bool { return len([]rune(member(v, "c").(string))) == 3 },
			"long":       func(v any) bool { return len([]rune(member(v, "c").(string))) == 4 },
		}},
		{"Endless", map[string]func(any) bool{
			"short": func(v any) bool { return member(v, "next") == nil },
			"long":  func(v any) bool { return member(member(member(v, "next"), "next"), "next") != nil },
		}},
		{"Free", map[string]func(any) bool{
			"array": func(v any) bool { _, ok := v.([]any); return ok }, "object": func(v any) bool { _, ok := v.(map[string]any); return ok },
			"boolean": func(v any) bool { return v == true },
		}},
	} {
		maker := instance.New(doc, 1)
		met := map[string]bool{}
		for range 2000 {
			v, err := maker.Value(test.name)
			if err != nil {
				t.Fatal(err)
			}
			x := decode(t, v.JSON())
			for corner, is := range test.corners {
				met[corner] = met[corner] || is(x)
			}
			if y := decode(t, v.Indent()); fmt.Sprint(x) != fmt.Sprint(y) {
				t.Fatalf("%s with white space is a different value:\n%s", v.JSON(), v.Indent())
			}
		}
		for corner := range test.corners {
			if !met[corner] {
				t.Errorf("%s: %s never occurs", test.name, corner)
			}
		}
	}
	if v, err := instance.New(doc, 1).Value("Never"); err == nil {
		t.Errorf("got %s for a schema that admits no value", v.JSON())
	}
	if _, err := instance.New(doc, 1).Value("None"); err == nil {
		t.Error("got a value for an unknown definition")
	}
}

// Mutants are well-formed, nearly always differ from the value, and do not change it.
func TestMutants(t *testing.T) {
	doc := parse(t, everything)
	maker := instance.New(doc, 1)
	same := 0
	const count = 2000
	for range count {
		v, err := maker.Value("Union")
		if err != nil {
			t.Fatal(err)
		}
		before := v.JSON()
		mutant := maker.Mutant(v).JSON()
		decode(t, mutant)
		if !bytes.Equal(before, v.JSON()) {
			t.Fatalf("the mutation changed the value\n%s\nto\n%s", before, v.JSON())
		}
		if bytes.Equal(before, mutant) {
			same++
		}
	}
	if same > count/20 {
		t.Errorf("%d of %d mutants equal the original value", same, count)
	}
}

// The same seed gives the same sequence of values.
func TestValuesAreReproducible(t *testing.T) {
	doc := parse(t, everything)
	values := func(seed uint64) (all []byte) {
		maker := instance.New(doc, seed)
		for range 100 {
			for _, name := range []string{"Union", "Both", "Free"} {
				v, err := maker.Value(name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, v.JSON()...)
				all = append(all, maker.Mutant(v).Indent()...)
			}
		}
		return all
	}
	if !bytes.Equal(values(7), values(7)) {
		t.Error("the same seed gives other values")
	}
	if bytes.Equal(values(7), values(8)) {
		t.Error("another seed gives the same values")
	}
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	if err := codec.Valid(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

func member(v any, name string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	return m[name]
}
