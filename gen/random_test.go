package gen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/mcpwire/mcpwire/gen"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
)

var (
	randomSchemas = flag.Int("schemas", 12, "how many random schemas TestRandomSchemas generates")
	randomValues  = flag.Int("values", 20, "how many random values of each of their definitions it tries, valid and changed")
	randomSeed    = flag.Uint64("seed", 1, "what the random schemas depend on")
)

// What an independent validator accepts, the types that are generated from a random schema decode,
// and encode to the same value. Validate accepts and refuses the same as the validator. More:
//
//	go test ./gen -run TestRandomSchemas -timeout 0 -schemas 20000 -values 100
func TestRandomSchemas(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the go command")
	}
	rng := rand.New(rand.NewPCG(*randomSeed, 7))
	const together = 40 // packages of one program
	refused := 0
	for first := 0; first < *randomSchemas; first += together {
		var all []*draft
		for i := first; i < min(first+together, *randomSchemas); i++ {
			d := &draft{name: fmt.Sprintf("random%d", i), src: randomSchema(t, rng)}
			out, err := gen.Generate(gen.Options{Package: d.pkg(), Schemas: []gen.Schema{{Revision: d.name, File: d.name + ".json", Src: d.src}}})
			if fault := (*gen.Error)(nil); errors.As(err, &fault) {
				refused++
				t.Logf("refused: %v", err)
				continue
			} else if err != nil {
				t.Fatalf("%v\n%s", err, d.src)
			}
			d.out = out
			all = append(all, d)
		}
		program := buildDrafts(t, all)
		for _, d := range all {
			t.Run(d.name, func(t *testing.T) { tryRandom(t, program, d) })
		}
	}
	if refused > *randomSchemas/10+1 {
		t.Errorf("%d of %d schemas were refused", refused, *randomSchemas)
	}
}

func tryRandom(t *testing.T, program string, d *draft) {
	doc, err := load.Parse(d.name, d.name+".json", d.src)
	if err != nil {
		t.Fatal(err)
	}
	suite := roundtrip.New(t, d.name, d.src)
	maker := instance.New(doc, *randomSeed)
	var cases []roundtrip.Case
	var in bytes.Buffer
	e := json.NewEncoder(&in)
	for _, name := range doc.Names() {
		for range *randomValues / 2 {
			v, err := maker.Value(name)
			if err != nil {
				break // there may be none
			}
			// The maker does not know all keywords, so that the validator judges its values, too.
			for _, text := range [][]byte{v.JSON(), maker.Mutant(v).JSON()} {
				cases = append(cases, roundtrip.Case{Definition: name, Text: text, Mutant: true})
				if err := e.Encode(map[string]any{"Package": d.pkg(), "Definition": name, "Text": text}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cmd := exec.Command(program)
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	outcomes := json.NewDecoder(bytes.NewReader(out))
	excused := 0
	for _, c := range cases {
		var o roundtrip.Outcome
		if err := outcomes.Decode(&o); err != nil {
			t.Fatal(err)
		}
		if err := suite.Judge(c, o); err != nil && o.Refused != "" && bytes.Contains(d.src, []byte("Of\":")) {
			// A union is decoded as the variant whose members the value has. If one of these is
			// wrong, decoding fails, although another variant may admit any further member; see
			// docs/reference/generated.md.
			if excused++; excused > len(cases)/10 {
				t.Fatalf("%d of %d values are refused in unions; the last: %s: %v\n%s\nin the schema\n%s", excused, len(cases), c.Definition, err, c.Text, d.src)
			}
		} else if err != nil {
			t.Fatalf("%s: %v\n%s\nin the schema\n%s", c.Definition, err, c.Text, d.src)
		}
	}
}

// schemaWriter writes random schemas of the language of docs/reference/generator.md: those that say
// which type their members and items belong to.
type schemaWriter struct {
	rng  *rand.Rand
	defs int
}

func randomSchema(t *testing.T, rng *rand.Rand) []byte {
	w := schemaWriter{rng, 2 + rng.IntN(5)}
	defs := map[string]any{}
	for i := range w.defs {
		defs[fmt.Sprintf("D%d", i)] = w.object(3, i+1)
		if w.oneIn(3) {
			defs[fmt.Sprintf("D%d", i)] = w.schema(3, i+1)
		}
	}
	src, err := json.Marshal(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": defs})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func (w schemaWriter) oneIn(n int) bool { return w.rng.IntN(n) == 0 }

func choice[T any](w schemaWriter, list ...T) T { return list[w.rng.IntN(len(list))] }

func (w schemaWriter) name() string {
	return choice(w, "name", "type", "value", "items", "kind", "extra", "Validate", "a/b", "a~b", "é", "error")
}

// ref refers to one of the definitions from next on.
func (w schemaWriter) ref(next int) any {
	if next >= w.defs {
		return map[string]any{"type": "string"}
	}
	return map[string]any{"$ref": fmt.Sprintf("#/$defs/D%d", next+w.rng.IntN(w.defs-next))}
}

// schema returns a schema of at most the given depth. For the same place of a value, and for those
// inside of it that every value has, it refers only to definitions from next on, or values would
// not end.
func (w schemaWriter) schema(depth, next int) any {
	kinds := 15
	if depth == 0 {
		kinds = 8
	}
	raw := func(texts ...string) any { return json.RawMessage(choice(w, texts...)) }
	switch w.rng.IntN(kinds) {
	case 0, 1:
		return raw(`{"type":"string"}`, `{"type":"string","minLength":2}`, `{"const":"a"}`, `{"enum":["a","b","c"]}`, `{"type":"string","pattern":"^a"}`, `{"type":"string","format":"uri"}`)
	case 2:
		return raw(`{"type":"integer"}`, `{"type":"number","exclusiveMaximum":10}`, `{"type":"integer","multipleOf":2}`, `{"enum":[1,2]}`, `{"const":7}`, `{"const":1.5}`, `{"enum":["a",1,null]}`)
	case 3:
		return raw(`{"type":"boolean"}`, `{"const":true}`, `{"type":"null"}`)
	case 4:
		return raw(`{}`, `true`, `{"type":"object"}`, `{"type":"array"}`, `{"not":{"type":"string"}}`)
	case 5:
		return raw(`{"type":["string","null"]}`, `{"type":["string","integer"]}`, `{"type":["object","null"]}`, `{"type":["number","boolean","string","null"]}`)
	case 6, 7:
		return w.ref(next)
	case 8:
		s := map[string]any{"type": "array", "items": w.schema(depth-1, 0)}
		switch w.rng.IntN(5) {
		case 0:
			s["uniqueItems"] = true
		case 1:
			s["prefixItems"] = []any{w.schema(depth-1, 0)}
		case 2:
			s["contains"] = w.schema(0, next)
		case 3:
			s["maxItems"] = 2
		}
		return s
	case 9:
		return map[string]any{"type": "object", "additionalProperties": w.schema(depth-1, 0)}
	case 10, 11:
		return w.object(depth, next)
	case 12, 13:
		var list []any
		for range 1 + w.rng.IntN(3) {
			list = append(list, w.schema(depth-1, next))
		}
		return map[string]any{choice(w, "anyOf", "oneOf"): list}
	}
	return map[string]any{"allOf": []any{w.ref(next)}, "description": "x"}
}

func (w schemaWriter) object(depth, next int) any {
	props := map[string]any{}
	required := []string{}
	for range w.rng.IntN(5) {
		name := w.name()
		if props[name] != nil {
			continue
		}
		from := 0
		if w.oneIn(2) {
			required = append(required, name)
			from = next
		}
		if props[name] = w.schema(depth-1, from); name == "type" || name == "kind" {
			props[name] = map[string]any{"const": fmt.Sprintf("%s%d", name, w.rng.IntN(6))}
		}
	}
	s := map[string]any{"type": "object", "properties": props, "required": required}
	switch w.rng.IntN(12) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = w.schema(0, 0)
	case 2:
		s["patternProperties"] = map[string]any{choice(w, "^a", "e$"): w.schema(0, 0)}
	case 3:
		s["dependentRequired"] = map[string]any{w.name(): []string{w.name()}}
	case 4:
		s["if"] = map[string]any{"required": []string{w.name()}}
		s["then"] = map[string]any{"required": []string{w.name()}}
	case 5:
		s["maxProperties"] = 3
	}
	return s
}
