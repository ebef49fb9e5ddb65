package toolschema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// maker makes random schemas and values. They use few names and numbers, so that most keywords
// apply.
type maker struct {
	*rand.Rand
	draft string
}

func (m maker) pick(list ...string) string { return list[m.IntN(len(list))] }

func (m maker) value(depth int) string {
	n := 8
	if depth == 0 {
		n = 6
	}
	switch m.IntN(n) {
	case 0:
		return "null"
	case 1:
		return m.pick("true", "false")
	case 2, 3:
		return m.pick("0", "1", "1.0", "10e-1", "2", "-0", "2.5", "3", "100", "1e2")
	case 4, 5:
		return m.pick(`"a"`, `"b"`, `"ab"`, `"é"`, `""`, `"1"`, `"2020-01-01"`)
	case 6:
		var list []string
		for range m.IntN(4) {
			list = append(list, m.value(depth-1))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	var list []string
	for _, name := range []string{"a", "b", "ab"} {
		if m.IntN(2) == 0 {
			list = append(list, fmt.Sprintf("%q:%s", name, m.value(depth-1)))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (m maker) schemas(depth int) string {
	var list []string
	for range 1 + m.IntN(3) {
		list = append(list, m.schema(depth-1))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (m maker) named(depth int, names ...string) string {
	var list []string
	for _, name := range names {
		if m.IntN(2) == 0 {
			list = append(list, fmt.Sprintf("%q:%s", name, m.schema(depth-1)))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func (m maker) schema(depth int) string {
	if m.draft != "04" && m.IntN(12) == 0 {
		return m.pick("true", "true", "false")
	}
	var list []string
	used := map[string]bool{}
	add := func(name, text string) {
		if !used[name] {
			list = append(list, fmt.Sprintf("%q:%s", name, text))
		}
		used[name] = true
	}
	for range m.IntN(4) {
		n := 38
		if depth == 0 {
			n = 20
		}
		switch m.IntN(n) {
		case 0, 1:
			add("type", m.pick(`"object"`, `"array"`, `"string"`, `"integer"`, `"number"`, `["null","boolean"]`, `["object","array","integer"]`))
		case 2:
			add("enum", fmt.Sprintf("[%s,%s]", m.value(1), `"only here"`))
		case 3:
			add("const", m.value(1))
		case 4:
			add("required", m.pick(`["a"]`, `["a","b"]`, `["ab"]`))
		case 5:
			add("minLength", m.pick("1", "2"))
		case 6:
			add("maxLength", m.pick("0", "1"))
		case 7:
			add("pattern", m.pick(`"^a"`, `"b$"`))
		case 8:
			add("minimum", m.pick("1", "2.5"))
		case 9:
			add("maximum", m.pick("1", "2.5"))
		case 10:
			add("multipleOf", m.pick("2", "0.5"))
		case 11:
			if m.draft != "04" {
				add("exclusiveMinimum", "1")
				add("exclusiveMaximum", "100")
			}
		case 12:
			add("minItems", m.pick("1", "2"))
		case 13:
			add("maxItems", m.pick("1", "2"))
		case 14, 15:
			add("uniqueItems", "true")
		case 16:
			add("minProperties", "1")
		case 17:
			add("maxProperties", "1")
		case 18:
			add("dependentRequired", `{"a":["b"]}`)
			add("dependencies", `{"b":["a"]}`)
		case 19:
			ref := m.pick(`"#/$defs/x"`, `"#/$defs/y"`)
			if m.draft < "1" { // other keywords beside it do not count
				return `{"$ref":` + ref + `}`
			}
			add("$ref", ref)
		case 20, 21:
			add("properties", m.named(depth, "a", "b"))
		case 22:
			add("additionalProperties", m.schema(depth-1))
		case 23:
			add("patternProperties", m.named(depth, "^a", "b"))
		case 24:
			add("propertyNames", m.schema(depth-1))
		case 25:
			if m.draft == "2020-12" {
				add("prefixItems", m.schemas(depth))
				add("items", m.schema(depth-1))
			} else {
				add("items", m.pick(m.schema(depth-1), m.schemas(depth)))
				add("additionalItems", m.schema(depth-1))
			}
		case 26:
			add("items", m.schema(depth-1))
		case 27:
			add("contains", m.schema(depth-1))
			if m.IntN(2) == 0 {
				add("minContains", m.pick("0", "2"))
				add("maxContains", "2")
			}
		case 28:
			add("not", m.schema(depth-1))
		case 29:
			add("allOf", m.schemas(depth))
		case 30, 31:
			add("anyOf", m.schemas(depth))
		case 32:
			add("oneOf", m.schemas(depth))
		case 33:
			add("if", m.schema(depth-1))
			add("then", m.schema(depth-1))
			add("else", m.schema(depth-1))
		case 34:
			add("dependentSchemas", m.named(depth, "a", "b"))
		case 35:
			add("unevaluatedProperties", m.schema(0))
		case 36:
			add("unevaluatedItems", m.schema(0))
		case 37:
			if m.draft == "2020-12" {
				add("$dynamicRef", m.pick(`"schema#n"`, `"inner#n"`))
			} else if m.draft != "2019-09" {
				add("format", m.pick(`"date"`, `"regex"`))
			}
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

// root returns a schema with definitions. Those refer to others only for members and elements, so
// that no schema refers to itself for the same value.
func (m maker) root() string {
	dialects := map[string]string{"04": Dialects()[4], "06": Dialects()[3], "07": Dialects()[2], "2019-09": Dialects()[1], "2020-12": Dialects()[0]}
	main := m.schema(3)
	for !strings.HasPrefix(main, `{"`) {
		main = m.schema(3)
	}
	anchor := ""
	if m.draft == "2020-12" {
		anchor = `"$dynamicAnchor":"n",`
	}
	inner := "{}"
	if m.draft == "2020-12" {
		inner = fmt.Sprintf(`{"$id":"inner",%s"properties":{"a":%s}}`, anchor, strings.ReplaceAll(m.schema(1), `"#/`, `"schema#/`))
	}
	return fmt.Sprintf(`{"$schema":%q,%s"$defs":{"x":{"type":["object","string"],"properties":{"a":%s}},"y":%s,"inner":%s},"properties":{"ab":%s}}`,
		dialects[m.draft], anchor, m.schema(1), m.pick("{}", `{"type":"integer"}`), inner, main)
}

// Check admits the same values as a validator of others, in all dialects.
func TestCheckAgreesWithOtherValidator(t *testing.T) {
	const rounds = 500
	for _, draft := range []string{"04", "06", "07", "2019-09", "2020-12"} {
		t.Run(draft, func(t *testing.T) {
			admitted, refused := 0, 0
			for seed := range rounds {
				m := maker{rand.New(rand.NewPCG(uint64(seed), 7)), draft}
				text := m.root()
				s, err := Compile(json.RawMessage(text))
				if err != nil {
					t.Fatalf("seed %d: %s: %v", seed, text, err)
				}
				other := compileOther(t, text)
				for range 30 {
					v := m.value(4)
					if m.IntN(4) > 0 {
						v = fmt.Sprintf(`{"ab":%s}`, v)
					}
					want := other.Validate(decoded(t, v))
					if want != nil && strings.Contains(want.Error(), "causing reference cycle") {
						continue // ends the check here, but not there
					}
					got := faults(t, s, v)
					if (got == "") != (want == nil) && got != errCycle.Error() {
						t.Fatalf("seed %d: %s\nof %s\ngot %q\nwant %v", seed, v, text, got, want)
					}
					if got == "" {
						admitted++
					} else {
						refused++
					}
				}
			}
			if admitted < rounds || refused < rounds {
				t.Errorf("%d values admitted, %d refused", admitted, refused)
			}
		})
	}
}

func compileOther(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource(here, decoded(t, text)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(here)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := codec.Unmarshal([]byte(text), value.Of(&v)); err != nil {
		t.Fatal(err)
	}
	return v
}

// A recursive reference of a tree leads back to the schema that extends the tree.
func TestDynamicReferences(t *testing.T) {
	for name, text := range map[string]string{
		"2020-12": `{"$dynamicAnchor":"node","$ref":"tree","required":["v"],"$defs":{"tree":{"$id":"tree","$dynamicAnchor":"node","properties":{"c":{"items":{"$dynamicRef":"#node"}}}}}}`,
		"2019-09": `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"$ref":"tree","required":["v"],"$defs":{"tree":{"$id":"tree","$recursiveAnchor":true,"properties":{"c":{"items":{"$recursiveRef":"#"}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(text))
			if err != nil {
				t.Fatal(err)
			}
			for v, want := range map[string]string{
				`{"v":1,"c":[{"v":2,"c":[{"v":3}]}]}`: "",
				`{"v":1,"c":[{"v":2,"c":[{"x":3}]}]}`: "/c/0/c/0: missing property 'v'",
			} {
				if got := faults(t, s, v); got != want {
					t.Errorf("%s: got %q, want %q", v, got, want)
				}
			}
		})
	}
}
