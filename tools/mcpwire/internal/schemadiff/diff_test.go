package schemadiff_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
	"github.com/mcpwire/mcpwire/internal/gen/plan"
	"github.com/mcpwire/mcpwire/schema"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/schemadiff"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func parse(t *testing.T, rev, src string) *load.Document {
	t.Helper()
	doc, err := load.Parse(rev, rev+".json", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// A row has the definitions of the older and the newer schema and the expected changes, as
// "effect kind place: what". Breaking changes are checked against the generator: merging the
// newer schema must change an existing Go type if and only if the row has one.
var rules = []struct {
	name     string
	a, b     string
	want     []string
	override bool // the generator needs a row in the overrides, so the test does not run it
}{
	{name: "no change", a: `"T": {"properties": {"a": {"type": "string"}}}`, b: `"T": {"properties": {"a": {"type": "string", "description": "d"}}}`},
	{
		name: "a new definition",
		a:    `"T": {"type": "string"}`,
		b:    `"T": {"type": "string"}, "U": {"properties": {"a": {}, "b": {}}, "required": ["a"]}`,
		want: []string{"added definition U: new: object {a, b?}"},
	}, {
		name: "a new variant of a union changes the name of another variant",
		a:    `"O": {"properties": {"o": {}}, "required": ["o"]}, "T": {"properties": {"f": {"anyOf": [{"$ref": "#/$defs/O"}, {"type": "string"}]}}, "required": ["f"]}`,
		b:    `"O": {"properties": {"o": {}}, "required": ["o"]}, "T": {"properties": {"f": {"type": "integer"}}, "required": ["f"]}`,
		want: []string{"breaking type T: the Go name TFString goes", "widened type T.f: O | string → integer"},
	}, {
		name: "a removed definition",
		a:    `"T": {"type": "string"}, "U": {"properties": {"a": {}}}`,
		b:    `"T": {"type": "string"}`,
		want: []string{"none definition U: removed"},
	}, {
		name: "new optional and required fields",
		a:    `"T": {"properties": {"a": {"type": "string"}}, "required": ["a"]}`,
		b:    `"T": {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"items": {"type": "number"}, "type": "array"}}, "required": ["a", "b"]}`,
		want: []string{"added field T.b: new: integer, required, but missing in the older revision", "added field T.c: new: list of number, optional"},
	}, {
		name: "a removed optional field",
		a:    `"T": {"properties": {"a": {"type": "string"}, "b": {}}}`,
		b:    `"T": {"properties": {"a": {"type": "string"}}}`,
		want: []string{"none field T.b: removed"},
	}, {
		name: "a removed required plain field",
		a:    `"T": {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}`,
		b:    `"T": {"properties": {"b": {}}}`,
		want: []string{"breaking field T.a: removed"},
	}, {
		name: "a removed required list",
		a:    `"T": {"properties": {"a": {"type": "array", "items": {"type": "string"}}, "b": {}}, "required": ["a"]}`,
		b:    `"T": {"properties": {"b": {}}}`,
		want: []string{"widened field T.a: removed"},
	}, {
		name: "required plain fields become optional",
		a: `"T": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "e": {"enum": ["x", "y"]}, "o": {"properties": {"a": {}}}, "r": {"$ref": "#/$defs/S"}},
			"required": ["s", "n", "e", "o", "r"]}, "S": {"type": "string"}`,
		b: `"T": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}, "e": {"enum": ["x", "y"]}, "o": {"properties": {"a": {}}}, "r": {"$ref": "#/$defs/S"}}},
			"S": {"type": "string"}`,
		want: []string{"breaking presence T.e: required → optional", "breaking presence T.n: required → optional", "breaking presence T.o: required → optional",
			"breaking presence T.r: required → optional", "breaking presence T.s: required → optional"},
	}, {
		name: "required fields whose type has a nil become optional",
		a: `"T": {"properties": {"any": {}, "list": {"type": "array", "items": {"type": "string"}}, "map": {"type": "object", "additionalProperties": {"type": "string"}}, "open": {"type": "object"},
			"id": {"type": ["string", "integer"]}, "u": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}, "required": ["any", "id", "list", "map", "open", "u"]},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		b: `"T": {"properties": {"any": {}, "list": {"type": "array", "items": {"type": "string"}}, "map": {"type": "object", "additionalProperties": {"type": "string"}}, "open": {"type": "object"},
			"id": {"type": ["string", "integer"]}, "u": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		want: []string{"widened presence T.any: required → optional", "widened presence T.id: required → optional", "widened presence T.list: required → optional",
			"widened presence T.map: required → optional", "widened presence T.open: required → optional", "widened presence T.u: required → optional"},
	}, {
		name: "a required constant becomes optional",
		a:    `"T": {"properties": {"a": {"const": "x"}, "b": {}}, "required": ["a"]}`,
		b:    `"T": {"properties": {"a": {"const": "x"}, "b": {}}}`,
		want: []string{"added presence T.a: required → optional"},
	}, {
		name: "an optional field becomes required",
		a:    `"T": {"properties": {"a": {"type": "string"}}}`,
		b:    `"T": {"properties": {"a": {"type": "string"}}, "required": ["a"]}`,
		want: []string{"none presence T.a: optional → required"},
	}, {
		name: "a nested field becomes optional",
		a:    `"T": {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}, "required": ["b"]}, "type": "array"}}}`,
		b:    `"T": {"properties": {"a": {"items": {"properties": {"b": {"type": "string"}}}, "type": "array"}}}`,
		want: []string{"breaking presence T.a[].b: required → optional"},
	}, {
		name: "a new field in a part of an allOf",
		a:    `"S": {"properties": {"a": {}}}, "T": {"allOf": [{"$ref": "#/$defs/S"}, {"properties": {"b": {}}}]}`,
		b:    `"S": {"properties": {"a": {}, "c": {}}}, "T": {"allOf": [{"$ref": "#/$defs/S"}, {"properties": {"b": {}}}]}`,
		want: []string{"added field S.c: new: any value, optional", "added field T.c: new: any value, optional"},
	}, {
		name: "scalars change",
		a:    `"T": {"properties": {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": "string"}, "d": {"type": ["string", "integer"]}, "e": {"type": ["string", "integer"]}}}`,
		b:    `"T": {"properties": {"a": {"type": "number"}, "b": {"type": "integer"}, "c": {"type": ["string", "integer"]}, "d": {"type": "string"}, "e": {"type": ["string", "boolean"]}}}`,
		want: []string{"breaking type T.a: integer → number", "none type T.b: number → integer", "breaking type T.c: string → string | integer",
			"none type T.d: string | integer → string", "widened type T.e: string | integer → string | boolean"},
	}, {
		name: "changes without effect",
		a:    `"T": {"properties": {"b": {"type": "number"}, "d": {"type": ["string", "integer"]}, "e": {"type": ["string", "integer"]}, "f": {"type": ["string", "null"]}}}`,
		b:    `"T": {"properties": {"b": {"type": "integer"}, "d": {"type": "string"}, "e": {"type": ["string", "boolean"]}, "f": {"type": "string"}}}`,
		want: []string{"none type T.b: number → integer", "none type T.d: string | integer → string", "widened type T.e: string | integer → string | boolean",
			"none type T.f: null is no longer allowed"},
	}, {
		name: "a type becomes nullable",
		a:    `"T": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}`,
		b:    `"T": {"properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]}`,
		want: []string{"breaking type T.a: null is allowed"},
	}, {
		name: "a string becomes an object",
		a:    `"T": {"properties": {"a": {"type": "string"}}}`,
		b:    `"T": {"properties": {"a": {"properties": {"b": {}}}}}`,
		want: []string{"breaking type T.a: string → object {b?}"},
	}, {
		name: "a shape becomes any value",
		a:    `"T": {"properties": {"a": {"type": "string"}}}`,
		b:    `"T": {"properties": {"a": {}}}`,
		want: []string{"breaking type T.a: string → any value"},
	}, {
		name: "an open object becomes any value, and any value an object",
		a:    `"T": {"properties": {"a": {"type": "object"}, "b": {}}}`,
		b:    `"T": {"properties": {"a": {}, "b": {"properties": {"c": {}}}}}`,
		want: []string{"widened type T.a: any object → any value", "none type T.b: any value → object {c?}"},
	}, {
		name: "an open object gets named members",
		a:    `"T": {"properties": {"a": {"type": "object"}}}`,
		b:    `"T": {"properties": {"a": {"properties": {"c": {}}}}}`,
		want: []string{"breaking type T.a: any object → object {c?}"},
	}, {
		name: "an object becomes open",
		a:    `"T": {"properties": {"a": {"properties": {"c": {}}}}}`,
		b:    `"T": {"properties": {"a": {"type": "object"}}}`,
		want: []string{"none type T.a: object {c?} → any object"},
	}, {
		name: "other members are forbidden",
		a:    `"T": {"properties": {"a": {}}}, "U": {"properties": {"a": {}}, "additionalProperties": false}`,
		b:    `"T": {"properties": {"a": {}}, "additionalProperties": false}, "U": {"properties": {"a": {}}}`,
		want: []string{"none other members T: other members are forbidden", "widened other members U: other members are allowed"},
	}, {
		name: "a map's values change",
		a:    `"T": {"properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}}}`,
		b:    `"T": {"properties": {"m": {"type": "object", "additionalProperties": {"type": ["string", "integer"]}}}}`,
		want: []string{"breaking type T.m{}: string → string | integer"},
	}, {
		name: "names of scalars are aliases",
		a:    `"T": {"properties": {"a": {"$ref": "#/$defs/S"}, "b": {"type": "string"}}}, "S": {"type": "string"}`,
		b:    `"T": {"properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/S"}}}, "S": {"type": "string"}`,
	}, {
		name: "an inline object gets a name",
		a:    `"T": {"properties": {"params": {"properties": {"a": {}}}}}`,
		b:    `"T": {"properties": {"params": {"$ref": "#/$defs/Other"}}}, "Other": {"properties": {"a": {}, "b": {}}}`,
		want: []string{"added definition Other: new: object {a?, b?}", "breaking type T.params: object {a?} → Other", "added field T.params.b: new: any value, optional"},
	}, {
		name: "an inline object gets the name that it has in Go",
		a:    `"T": {"properties": {"params": {"properties": {"a": {}}}}}`,
		b:    `"T": {"properties": {"params": {"$ref": "#/$defs/TParams"}}}, "TParams": {"properties": {"a": {}, "b": {}}}`,
		want: []string{"added definition TParams: new: object {a?, b?}", "added field T.params.b: new: any value, optional"},
	}, {
		name: "a named object becomes inline",
		a:    `"T": {"properties": {"a": {"$ref": "#/$defs/O"}}}, "O": {"properties": {"b": {"type": "string"}}}`,
		b:    `"T": {"properties": {"a": {"properties": {"b": {"type": "string"}}}}}, "O": {"properties": {"b": {"type": "string"}}}`,
		want: []string{"none type T.a: O → object {b?}"},
	}, {
		name: "a reference changes its target",
		a:    `"T": {"properties": {"a": {"$ref": "#/$defs/O"}}}, "O": {"properties": {"b": {}}}, "P": {"properties": {"c": {}}}`,
		b:    `"T": {"properties": {"a": {"$ref": "#/$defs/P"}}}, "O": {"properties": {"b": {}}}, "P": {"properties": {"c": {}}}`,
		want: []string{"breaking type T.a: O → P"},
	}, {
		name:     "a definition is renamed",
		a:        `"T": {"properties": {"a": {"$ref": "#/$defs/Old"}}}, "Old": {"properties": {"b": {"const": "x"}}}`,
		b:        `"T": {"properties": {"a": {"$ref": "#/$defs/New"}}}, "New": {"properties": {"b": {"const": "x"}}}`,
		want:     []string{"added definition Old: renamed to New, same form"},
		override: true,
	}, {
		name: "new and removed values of an enum",
		a:    `"E": {"enum": ["a", "b"], "type": "string"}, "T": {"properties": {"e": {"enum": ["c", "d"]}}}`,
		b:    `"E": {"enum": ["b", "c"], "type": "string"}, "T": {"properties": {"e": {"enum": ["c", "d", "e"]}}}`,
		want: []string{`none value E: value "a" removed`, `added value E: value "c" new`, `added value T.e: value "e" new`},
	}, {
		name: "an enum becomes a string",
		a:    `"T": {"properties": {"e": {"enum": ["a", "b"], "type": "string"}}}`,
		b:    `"T": {"properties": {"e": {"type": "string"}}}`,
		want: []string{`breaking type T.e: "a" | "b" → string`},
	}, {
		name: "a string becomes an enum",
		a:    `"T": {"properties": {"e": {"type": "string"}}}`,
		b:    `"T": {"properties": {"e": {"enum": ["a", "b"], "type": "string"}}}`,
		want: []string{`breaking type T.e: string → "a" | "b"`},
	}, {
		name: "a constant changes",
		a:    `"T": {"properties": {"e": {"const": "a"}, "f": {}}}`,
		b:    `"T": {"properties": {"e": {"const": "b"}, "f": {}}}`,
		want: []string{`breaking value T.e: "a" → "b"`},
	}, {
		name: "new and removed variants of a union",
		a: `"U": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}, "A": {"properties": {"a": {}}, "required": ["a"]},
			"B": {"properties": {"b": {}}, "required": ["b"]}, "C": {"properties": {"c": {}}, "required": ["c"]}`,
		b: `"U": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/C"}]}, "A": {"properties": {"a": {}}, "required": ["a"]},
			"B": {"properties": {"b": {}}, "required": ["b"]}, "C": {"properties": {"c": {}}, "required": ["c"]}`,
		want: []string{"none variant U: variant B removed", "widened variant U: variant C new"},
	}, {
		name: "a type becomes a union, and a union a type",
		a: `"T": {"properties": {"x": {"$ref": "#/$defs/A"}}}, "S": {"properties": {"y": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		b: `"T": {"properties": {"x": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}}, "S": {"properties": {"y": {"$ref": "#/$defs/A"}}},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		want: []string{"none type S.y: A | B → A", "breaking type T.x: A → A | B"},
	}, {
		name: "a union becomes one of its types",
		a: `"S": {"properties": {"y": {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}}},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		b: `"S": {"properties": {"y": {"$ref": "#/$defs/A"}}},
			"A": {"properties": {"a": {}}, "required": ["a"]}, "B": {"properties": {"b": {}}, "required": ["b"]}`,
		want: []string{"none type S.y: A | B → A"},
	}, {
		name: "bounds change",
		a: `"T": {"properties": {"a": {"type": "integer", "minimum": 0, "maximum": 5}, "b": {"type": "array", "items": {"type": "string", "maxLength": 3}},
			"c": {"type": "string", "format": "uri", "default": "x"}}}`,
		b: `"T": {"properties": {"a": {"type": "integer", "minimum": 1, "maximum": 6}, "b": {"type": "array", "items": {"type": "string"}, "minItems": 1},
			"c": {"type": "string", "format": "email", "default": "y"}}}`,
		want: []string{"widened bound T.a: maximum: 5 → 6", "none bound T.a: minimum: 0 → 1", "none bound T.b: minItems: none → 1",
			"widened bound T.b[]: maxLength: 3 → none", `none bound T.c: default: "x" → "y"`, "none bound T.c: format: uri → email"},
	}, {
		name: "new, removed and changed methods",
		a: `"Result": {"properties": {"_meta": {}}}, "ARequest": {"properties": {"method": {"const": "a"}}, "required": ["method"]}, "BRequest": {"properties": {"method": {"const": "b"}}, "required": ["method"]},
			"ClientRequest": {"anyOf": [{"$ref": "#/$defs/ARequest"}, {"$ref": "#/$defs/BRequest"}]}`,
		b: `"Result": {"properties": {"_meta": {}}}, "ARequest": {"properties": {"method": {"const": "a"}}, "required": ["method"]}, "CNotification": {"properties": {"method": {"const": "c"}}, "required": ["method"]},
			"ClientRequest": {"$ref": "#/$defs/ARequest"}, "ServerRequest": {"$ref": "#/$defs/ARequest"}, "ServerNotification": {"$ref": "#/$defs/CNotification"}`,
		want: []string{"added method a: request of the client → request of either side", "none method b: removed: request of the client (BRequest)",
			"added method c: new: notification of the server (CNotification)", "none definition BRequest: removed", "added definition CNotification: new: object {method}",
			"added definition ServerNotification: new: CNotification", "added definition ServerRequest: new: ARequest",
			"none type ClientRequest: ARequest | BRequest → ARequest"},
	}, {
		name: "the definition of a method is renamed",
		a:    `"Result": {"properties": {"_meta": {}}}, "ARequest": {"properties": {"method": {"const": "a"}, "params": {"type": "object"}}, "required": ["method"]}`,
		b:    `"Result": {"properties": {"_meta": {}}}, "BRequest": {"properties": {"method": {"const": "a"}}, "required": ["method"]}`,
		want: []string{"breaking method a: definition ARequest → BRequest", "none definition ARequest: removed", "added definition BRequest: new: object {method}"},
	},
}

func TestRules(t *testing.T) {
	for _, tt := range rules {
		t.Run(tt.name, func(t *testing.T) {
			a := parse(t, "older", `{"$defs": {`+tt.a+`}}`)
			b := parse(t, "newer", `{"$defs": {`+tt.b+`}}`)
			diff, err := schemadiff.Compare(a, b)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range diff.Changes {
				at := c.Definition
				if c.Path != "" {
					at += "." + c.Path
				}
				got = append(got, fmt.Sprintf("%s %s %s: %s", c.Effect, c.Kind, at, c.Text))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
			if tt.override {
				return
			}
			if changed, how := generatorChanges(t, a, b); changed != (diff.Count(schemadiff.Breaking) > 0) {
				t.Errorf("%d breaking changes, but in the generated package: %s", diff.Count(schemadiff.Breaking), how)
			}
		})
	}
}

// randomShape returns a random schema for a member.
func randomShape(random *rand.Rand) string {
	const str, list = `{"type": "string"}`, `{"type": "array", "items": {"type": "string"}}`
	shapes := []string{
		str, `{"type": "integer"}`, `{"type": "number"}`, `{"type": "boolean"}`, list, `{"type": "array", "items": {"type": "integer"}}`, `{"type": "object"}`, `{}`,
		`{"type": "object", "additionalProperties": {"type": "string"}}`, `{"type": "object", "additionalProperties": true}`, `{"type": ["string", "null"]}`,
		`{"type": ["string", "integer"]}`, `{"$ref": "#/$defs/O"}`, `{"$ref": "#/$defs/P"}`, `{"$ref": "#/$defs/E"}`, `{"$ref": "#/$defs/U"}`, `{"$ref": "#/$defs/S"}`,
		`{"enum": ["a", "b"]}`, `{"enum": ["a", "c"]}`, `{"enum": ["a"]}`, `{"const": "k"}`, `{"const": "l"}`, `{"const": 1}`, `{"enum": [1, 2]}`,
		`{"anyOf": [{"$ref": "#/$defs/O"}, {"$ref": "#/$defs/P"}]}`, `{"anyOf": [{"$ref": "#/$defs/O"}, ` + str + `]}`, `{"anyOf": [{"$ref": "#/$defs/O"}, {"type": "null"}]}`,
		`{"type": "array", "items": {"$ref": "#/$defs/O"}}`, `{"type": "array", "items": {"$ref": "#/$defs/U"}}`, `{"type": "array"}`,
		`{"type": "object", "properties": {"q": ` + str + `}, "required": ["q"]}`, `{"type": "object", "properties": {"q": ` + str + `}}`,
		`{"type": "object", "properties": {"q": {"type": "integer"}}}`, `{"type": "object", "properties": {"q": ` + str + `, "r": ` + str + `}}`, `{"type": "null"}`, `{"not": {}}`,
		`{"type": "string", "minLength": 1}`, `{"type": "integer", "minimum": 0}`, `{"type": ["array", "null"], "items": ` + str + `}`,
		`{"type": "object", "additionalProperties": {"$ref": "#/$defs/O"}}`, `{"type": "object", "additionalProperties": false, "properties": {"q": ` + str + `}}`,
		`{"type": ["boolean", "string", "integer"]}`, `{"type": "array", "items": {"type": ["string", "null"]}}`, `{"anyOf": [` + str + `, ` + list + `]}`,
	}
	return shapes[random.IntN(len(shapes))]
}

// randomPair returns the definitions of two schemas that differ in a few places.
func randomPair(random *rand.Rand) (a, b string) {
	chance := func(percent int) bool { return random.IntN(100) < percent }
	object := func(f string, required bool) string {
		members, more := `"g": {"type": "string"}`, ""
		if f != "" {
			members = `"f": ` + f + `, ` + members
			if required {
				more = `, "required": ["f"]`
			}
		}
		if chance(10) {
			more += `, "additionalProperties": ` + []string{`false`, `true`, `{"type": "string"}`}[random.IntN(3)]
		}
		return `"T": {"type": "object", "properties": {` + members + `}` + more + `}`
	}
	fa := randomShape(random)
	fb := fa
	switch {
	case chance(10):
		fb = ""
	case chance(80):
		fb = randomShape(random)
	}
	defs := map[string]string{
		"O": `{"type": "object", "properties": {"o": {"type": "string"}}, "required": ["o"]}`, "P": `{"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]}`,
		"E": `{"enum": ["x", "y"]}`, "S": `{"type": "string"}`, "U": `{"anyOf": [{"$ref": "#/$defs/O"}, {"$ref": "#/$defs/P"}]}`,
	}
	write := func(t string) string {
		for _, name := range slices.Sorted(maps.Keys(defs)) {
			t += `, "` + name + `": ` + defs[name]
		}
		return t
	}
	if chance(30) {
		defs["V"] = randomShape(random)
	}
	a = write(object(fa, chance(50)))
	if defs["V"] != "" {
		defs["V"] = randomShape(random)
	}
	if chance(30) {
		defs[[]string{"O", "P", "E", "S", "U"}[random.IntN(5)]] = randomShape(random)
	}
	return a, write(object(fb, chance(50)))
}

// A change that is not reported as breaking can be merged and does not change any Go type.
func TestUnreportedChangesDoNotBreak(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	harmless := 0
	for i := range 1500 {
		textA, textB := randomPair(random)
		a, errA := load.Parse("2024", "2024.json", []byte(`{"$defs": {`+textA+`}}`))
		b, errB := load.Parse("2025", "2025.json", []byte(`{"$defs": {`+textB+`}}`))
		if errA != nil || errB != nil {
			continue // a definition that refers to itself
		}
		diff, err := schemadiff.Compare(a, b)
		if err != nil || diff.Count(schemadiff.Breaking) > 0 {
			continue
		}
		before, err := goTypes(a)
		if err != nil {
			continue // the older schema alone cannot be generated
		}
		after, err := goTypes(a, b)
		if err != nil {
			t.Errorf("seed %d, %d: cannot be merged: %v\n%s\n%s", seed, i, err, textA, textB)
			continue
		}
		harmless++
		for name, typ := range before {
			if after[name] != typ {
				t.Errorf("seed %d, %d: %s was %s, is %q\n%s\n%s", seed, i, name, typ, after[name], textA, textB)
			}
		}
		if harmless%20 != 0 {
			continue // generating takes long
		}
		if _, err := gen.Generate(gen.Options{Package: "p", Schemas: []gen.Schema{
			{Revision: "2024", File: "2024.json", Src: []byte(`{"$defs": {` + textA + `}}`)},
			{Revision: "2025", File: "2025.json", Src: []byte(`{"$defs": {` + textB + `}}`)},
		}}); err != nil {
			t.Errorf("seed %d, %d: cannot be generated: %v\n%s\n%s", seed, i, err, textA, textB)
		}
	}
	if harmless < 100 {
		t.Errorf("only %d pairs without breaking changes", harmless)
	}
}

// generatorChanges reports whether a Go type of the package made from a differs, or is missing,
// in the package made from a and b. how describes the difference.
func generatorChanges(t *testing.T, a, b *load.Document) (changed bool, how string) {
	t.Helper()
	before, err := goTypes(a)
	if err != nil {
		t.Fatalf("the older schema alone: %v", err)
	}
	after, err := goTypes(a, b)
	if err != nil {
		return true, err.Error()
	}
	how = "no type changes"
	for name, typ := range before {
		if after[name] != typ {
			changed, how = true, fmt.Sprintf("%s was %s, is %q", name, typ, after[name])
		}
	}
	return changed, how
}

// goTypes returns the types and the types of fields that the package generated from docs
// declares, by name.
func goTypes(docs ...*load.Document) (map[string]string, error) {
	graph, err := merge.Merge(docs, nil)
	if err != nil {
		return nil, err
	}
	pkg, err := plan.Build(graph, plan.Config{Name: "p"})
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	for _, s := range pkg.Structs {
		types[s.GoName] = "struct"
		for _, f := range s.Fields {
			if f.GoName != "" {
				types[s.GoName+"."+f.GoName] = strings.Repeat("*", int(f.Presence)%2) + goType(f.Type)
			}
		}
	}
	for _, u := range pkg.Unions {
		types[u.GoName] = "union"
	}
	for _, e := range pkg.Enums {
		types[e.GoName] = "enum"
	}
	for _, w := range pkg.Wrappers {
		types[w.GoName] = goType(w.Type)
	}
	for _, o := range pkg.OneOrMany {
		types[o.GoName] = goType(o.Elem)
	}
	return types, nil
}

// goType returns the name of a type with aliases resolved.
func goType(t ir.Type) string {
	switch t := t.(type) {
	case *ir.Struct:
		return t.GoName
	case *ir.Union:
		return t.GoName
	case *ir.Enum:
		return t.GoName
	case *ir.OneOrMany:
		return t.GoName
	case *ir.Wrapper:
		return t.GoName
	case *ir.Alias:
		return goType(t.Type)
	case *ir.List:
		return "[]" + goType(t.Elem)
	case *ir.Map:
		return "map[string]" + goType(t.Elem)
	case *ir.Nullable:
		return "nullable " + goType(t.Elem)
	case *ir.Scalar:
		return "scalar"
	case ir.Raw:
		return "raw"
	}
	return fmt.Sprintf("%T %v", t, t)
}

func embedded(t *testing.T, rev string) *load.Document {
	t.Helper()
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, rev, string(src))
}

func TestPrintGolden(t *testing.T) {
	diff, err := schemadiff.Compare(embedded(t, "2025-06-18"), embedded(t, "2025-11-25"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := diff.Print(&out); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "2025-06-18_2025-11-25.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("printed (-want +got):\n%s\nrun go test with -update if this is correct", d)
	}
}

func TestCompareIsDeterministicAndEmptyForEqualSchemas(t *testing.T) {
	revs := append(schema.Revisions(), schema.Extensions()...)
	for i, rev := range revs {
		same, err := schemadiff.Compare(embedded(t, rev), embedded(t, rev))
		if err != nil {
			t.Fatal(err)
		}
		if len(same.Changes) > 0 {
			t.Errorf("%s differs from itself: %v", rev, same.Changes[0])
		}
		if i == 0 {
			continue
		}
		first, err := schemadiff.Compare(embedded(t, revs[i-1]), embedded(t, rev))
		if err != nil {
			t.Fatal(err)
		}
		if len(first.Changes) == 0 {
			t.Errorf("%s → %s: no changes", revs[i-1], rev)
		}
		for range 3 {
			again, err := schemadiff.Compare(embedded(t, revs[i-1]), embedded(t, rev))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(first.Changes, again.Changes) {
				t.Errorf("%s → %s: the second result differs", revs[i-1], rev)
			}
		}
	}
}
