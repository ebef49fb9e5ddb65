package tables_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/tables"
)

// The random schemas combine all keywords. They have so few names and values that unions overlap
// and values match constants.
func TestTableAgreesOnRandomSchemas(t *testing.T) {
	count := 1500
	if *long {
		count *= 20
	}
	rng := rand.New(rand.NewPCG(*seed, 1))
	accepted, refused := 0, 0
	for range count {
		w := writer{rng}
		defs := map[string]any{}
		for i, name := range randomDefs {
			defs[name] = w.schema(3, i+1)
		}
		src, err := json.MarshalIndent(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		doc, err := load.Parse("random", "random.json", src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		tables, err := tables.Compile([]*load.Document{doc})
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		table := evaluate(t, tables.Source("table"))
		oracle := newOracleOf(t, src)
		for _, name := range randomDefs {
			root, _ := table.Root("random", name)
			schema := oracle.schema(t, name)
			for range 30 {
				if compare(t, table, root, schema, name, []byte(w.text(4))) {
					accepted++
				} else {
					refused++
				}
			}
		}
		if t.Failed() {
			t.Fatalf("in the schema\n%s", src)
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
}

var (
	randomDefs   = []string{"A", "B", "C", "D"}
	randomNames  = []string{"a", "b", "c", "~/"}
	randomValues = []string{
		`null`, `true`, `false`, `0`, `1`, `1.0`, `10e-1`, `2`, `1.5`, `-1`, `"a"`, `"b"`, `"\u0061"`, `"ab"`, `""`, `"é😀"`, `[]`, `[1]`, `{}`,
		`{"a":1}`, `{"b":[1.0,"a"],"a":1}`, `[1,{"a":"b"}]`, `[1e0,{"\u0061":"b"}]`,
	}
	randomPatterns = []string{"^a", "b$", ".", "^[^a]*$", "~"}
	randomTypes    = []string{"null", "boolean", "integer", "number", "string", "array", "object"}
)

type writer struct{ rng *rand.Rand }

func (w writer) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func pick[T any](w writer, list []T) T { return list[w.rng.IntN(len(list))] }

// schema returns a schema of at most the given depth. For the same place of the value, it refers
// only to definitions from next on, or checking would not end.
func (w writer) schema(depth, next int) any {
	if depth == 0 || w.oneIn(6) {
		switch w.rng.IntN(12) {
		case 0:
			return true
		case 1:
			return w.oneIn(2)
		case 2:
			return map[string]any{}
		case 3, 4:
			if next < len(randomDefs) {
				return map[string]any{"$ref": "#/$defs/" + pick(w, randomDefs[next:])}
			}
		case 5, 6:
			return map[string]any{"const": json.RawMessage(pick(w, randomValues))}
		}
		return map[string]any{"type": pick(w, randomTypes)}
	}
	s := map[string]any{}
	inner := func() any { return w.schema(depth-1, 0) }   // of a member or item
	same := func() any { return w.schema(depth-1, next) } // of the same place
	list := func() (out []any) {
		for range 1 + w.rng.IntN(4) {
			out = append(out, same())
		}
		return out
	}
	if w.oneIn(2) {
		types := []string{pick(w, randomTypes)}
		if other := pick(w, randomTypes); other != types[0] {
			types = append(types, other)
		}
		s["type"] = types
	}
	for range w.rng.IntN(3) {
		switch w.rng.IntN(29) {
		case 0, 1, 2, 3:
			props := map[string]any{}
			for range w.rng.IntN(4) {
				props[pick(w, randomNames)] = inner()
			}
			s["properties"] = props
		case 4, 5:
			s["required"] = []string{pick(w, randomNames)}
		case 6, 7:
			s["additionalProperties"] = inner()
		case 8:
			s["propertyNames"] = w.schema(1, len(randomDefs))
		case 9:
			s["items"] = inner()
		case 10:
			s["minItems"] = w.rng.IntN(3)
			s["maxItems"] = w.rng.IntN(4)
		case 11:
			s[pick(w, []string{"minimum", "exclusiveMinimum"})] = pick(w, []float64{-1, 0, 1, 1.5})
			s[pick(w, []string{"maximum", "exclusiveMaximum"})] = pick(w, []float64{0, 1, 1.5, 2})
		case 12:
			s["minLength"] = w.rng.IntN(3)
			s["maxLength"] = w.rng.IntN(4)
		case 13:
			s["enum"] = []any{json.RawMessage(pick(w, randomValues)), json.RawMessage(`"` + pick(w, randomNames) + `"`)}
		case 14:
			s["allOf"] = list()
		case 15:
			s["anyOf"] = list()
		case 16:
			s["oneOf"] = list()
		case 17:
			s["not"] = same()
		case 18:
			s["pattern"] = pick(w, randomPatterns)
		case 19, 20:
			s["patternProperties"] = map[string]any{pick(w, randomPatterns): inner(), pick(w, randomPatterns): inner()}
		case 21:
			s["minProperties"] = w.rng.IntN(3)
			s["maxProperties"] = w.rng.IntN(3)
		case 22:
			s["multipleOf"] = json.RawMessage(pick(w, []string{"1", "2", "0.5", "0.3", "5e-1", "1.50"}))
		case 23:
			s["uniqueItems"] = w.oneIn(2)
		case 24:
			s["contains"] = inner()
			if w.oneIn(2) {
				s["minContains"] = w.rng.IntN(3)
				s["maxContains"] = w.rng.IntN(3)
			}
		case 25:
			s["prefixItems"] = []any{inner(), inner()}
		case 26:
			s["if"] = same()
			s[pick(w, []string{"then", "else"})] = same()
			s[pick(w, []string{"then", "else"})] = same()
		case 27:
			s["dependentRequired"] = map[string]any{pick(w, randomNames): []string{pick(w, randomNames)}}
		case 28:
			s["dependentSchemas"] = map[string]any{pick(w, randomNames): same(), pick(w, randomNames): same()}
		}
	}
	return s
}

// text returns a JSON value of at most the given depth.
func (w writer) text(depth int) string {
	switch n := w.rng.IntN(10); {
	case depth == 0 || n < 4:
		return pick(w, randomValues)
	case n < 6:
		s := ""
		for i := range w.rng.IntN(4) {
			if i > 0 {
				s += ","
			}
			s += w.text(depth - 1)
		}
		return "[" + s + "]"
	}
	s := ""
	for _, i := range w.rng.Perm(len(randomNames))[:w.rng.IntN(4)] {
		if s != "" {
			s += " , "
		}
		s += fmt.Sprintf("%q:%s", randomNames[i], w.text(depth-1))
	}
	return "{" + s + "}"
}
