package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
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
	anchor, inner, address := "", "{}", ""
	if m.draft == "2020-12" {
		anchor, address = `"$dynamicAnchor":"n",`, `"$id":"https://example.com/schema",`
		inner = fmt.Sprintf(`{"$id":"inner",%s"properties":{"a":%s}}`, anchor, strings.ReplaceAll(m.schema(1), `"#/`, `"schema#/`))
	}
	return fmt.Sprintf(`{"$schema":%q,%s%s"$defs":{"x":{"type":["object","string"],"properties":{"a":%s}},"y":%s,"inner":%s},"properties":{"ab":%s}}`,
		dialects[m.draft], address, anchor, m.schema(1), m.pick("{}", `{"type":"integer"}`), inner, main)
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

// Compile accepts the same schemas as a validator of others: those whose keywords have values of
// the right form, and whose references lead to something.
func TestCompileAgreesWithOtherValidator(t *testing.T) {
	names := []string{"id", "$id", "$ref", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor", "unknown"}
	for _, k := range keywords {
		if k.name != "$schema" && k.name != "$vocabulary" { // the other one checks the names of vocabularies, which have no effect
			names = append(names, k.name)
		}
	}
	for _, draft := range []string{"04", "06", "07", "2019-09", "2020-12"} {
		t.Run(draft, func(t *testing.T) {
			const rounds = 400
			accepted := 0
			for seed := range rounds {
				m := maker{rand.New(rand.NewPCG(uint64(seed), 8)), draft}
				keyword := m.pick(names...)
				mutant := fmt.Sprintf(`{%q:%s}`, keyword, m.pick(m.value(1), m.value(1), m.schema(1), "{}", `"#"`, `"#/$defs/x"`, `"#/$defs/y/properties"`, `"#/properties/ab/unknown"`,
					`"#a"`, `"other"`, `"b#"`, `"b#c"`, `"/p"`, `"#1"`, `":"`, `["a","a"]`, "[]", "[{}]", "[true]", `{"a":["b"]}`, `{"a":{}}`, `{"a":true}`, `{"a":[1]}`, `"string"`, `["null"]`, "-1", "0", "1.0", "1.5", "1e2", `"("`))
				text := strings.TrimSuffix(m.root(), "}}")
				text += fmt.Sprintf(`,"b":{"allOf":[%s,%s]}}}`, mutant, m.schema(1))
				s, err := Compile(json.RawMessage(text))
				other, want := tryOther(t, text)
				if (err == nil) != (want == nil) {
					t.Fatalf("seed %d: %s: got %v, want %v", seed, mutant, err, want)
				}
				if err != nil {
					continue
				}
				accepted++
				for range 5 {
					v := fmt.Sprintf(`{"b":%s}`, m.value(2))
					want := other.Validate(decoded(t, v))
					if got := faults(t, s, v); (got == "") != (want == nil) && got != errCycle.Error() {
						t.Fatalf("seed %d: %s of %s\ngot %q\nwant %v", seed, v, text, got, want)
					}
				}
			}
			if accepted < rounds/10 || accepted > rounds*9/10 {
				t.Errorf("%d of %d schemas accepted", accepted, rounds)
			}
		})
	}
}

// Formats that a dialect asserts admit the same texts as those of a validator of others.
func TestFormatsAgreeWithOtherValidator(t *testing.T) {
	seeds := map[string][]string{
		"date-time":             {"2024-02-29T23:59:60Z", "2026-11-29t00:00:00.25-23:59", "1998-12-31T15:59:60.123-08:00"},
		"date":                  {"2024-02-29", "2023-12-31"},
		"time":                  {"23:59:60z", "08:30:06+00:20", "01:29:60+01:30"},
		"duration":              {"P4DT12H30M5S", "P1Y2M", "P2W", "PT0S"},
		"email":                 {"joe.bloggs@example.com", `"joe bloggs"@example.com`, "a+b@[127.0.0.1]", "a@[IPv6:::1]"},
		"hostname":              {"www.example.com", "a-b.c1.", "xn--4gbwdl.xn--wgbh1c"},
		"ipv4":                  {"192.168.0.1", "255.255.255.255"},
		"ipv6":                  {"::ffff:192.168.0.1", "2001:db8::1", "1:2:3:4:5:6:7:8"},
		"uri":                   {"http://foo.bar/?baz=qux#quux", "urn:oasis:names", "http://[::1]:80/a%20b"},
		"iri":                   {"http://ƒøø.ßår/?∂éœ=πîx#πîüx"},
		"uri-reference":         {"/abc", "//foo.bar/x?y#z", "#frag"},
		"iri-reference":         {"/âππ"},
		"json-pointer":          {"/foo/bar~0/baz~1/%a", "/", ""},
		"relative-json-pointer": {"1", "0/foo/~0", "12#"},
		"uuid":                  {"2eb8aa08-AA98-11EA-b4aa-73b441d16380"},
		"regex":                 {"([abc])+\\s+$", "^a{2,3}$"},
	}
	// The other one admits an address without a name, and signs within an IPv4 address and a time.
	quirk := regexp.MustCompile(`^@|[:.+-][+-]`)
	for name := range formats {
		t.Run(name, func(t *testing.T) {
			m := maker{rand.New(rand.NewPCG(1, 9)), ""}
			if seeds[name] == nil && name != "uri-template" { // where the other one refuses {?a}
				t.Fatal("no texts")
			}
			text := fmt.Sprintf(`{"$schema":%q,"format":%q}`, Dialects()[2], name)
			s, err := Compile(json.RawMessage(text))
			if err != nil {
				t.Fatal(err)
			}
			other := compileOther(t, text)
			for _, seed := range seeds[name] {
				for i := range 200 {
					text := []rune(seed)
					for range i % 4 {
						at := m.IntN(len(text) + 1)
						end := min(at+m.IntN(2), len(text))
						text = slices.Concat(text[:at], []rune(m.pick("", "", "0", "1", "9", "a", "-", "/", "~", ".", ":", "@", "[", "]", "T", "Z", "é", " ", "%", "{")), text[end:])
					}
					if quirk.MatchString(string(text)) {
						continue
					}
					v := fmt.Sprintf("%q", string(text))
					want := other.Validate(decoded(t, v))
					if got := faults(t, s, v); (got == "") != (want == nil) {
						t.Errorf("%s: got %q, want %v", v, got, want)
					}
				}
			}
		})
	}
}

// here is the address under which the other validator compiles a schema.
const here = "https://example.com/schema"

func compileOther(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	s, err := tryOther(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func tryOther(t *testing.T, text string) (*jsonschema.Schema, error) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(here, decoded(t, text)); err != nil {
		t.Fatal(err)
	}
	return c.Compile(here)
}

// noLoader finds no schemas.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("not found") }

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
