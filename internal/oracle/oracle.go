// Package oracle holds references for tests: an independent JSON Schema validator, and a
// slow and simple comparison of JSON texts.
package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Schemas are the definitions of one schema file, compiled by an independent validator.
// Formats are annotations. Schemas is not safe for concurrent use.
type Schemas struct {
	compiler *jsonschema.Compiler
	home     string // "$defs" or "definitions"
	compiled map[string]*jsonschema.Schema
}

const url = "file:///schema.json"

// Compile reads the schema file src.
func Compile(src []byte) (*Schemas, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	s := &Schemas{compiler: jsonschema.NewCompiler(), home: "$defs", compiled: map[string]*jsonschema.Schema{}}
	if top, ok := doc.(map[string]any); ok && top["definitions"] != nil {
		s.home = "definitions"
	}
	s.annotate(doc)
	return s, s.compiler.AddResource(url, doc)
}

// annotate turns the formats in x into annotations; draft 7 would assert them.
func (s *Schemas) annotate(x any) {
	switch x := x.(type) {
	case []any:
		for _, item := range x {
			s.annotate(item)
		}
	case map[string]any:
		if name, ok := x["format"].(string); ok {
			s.compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
		}
		for _, item := range x {
			s.annotate(item)
		}
	}
}

// Sound returns an error if a definition cannot be compiled, for example because it refers
// to one that does not exist.
func (s *Schemas) Sound(definitions []string) error {
	for _, name := range definitions {
		if _, err := s.compiler.Compile(location(name, s.home)); err != nil {
			return err
		}
	}
	return nil
}

func location(definition, home string) string {
	return url + "#/" + home + "/" + jsonedit.EscapeToken(definition)
}

// Validate validates text as a value of the definition. It panics if there is no such
// definition or text is not JSON.
func (s *Schemas) Validate(definition string, text []byte) error {
	schema := s.compiled[definition]
	if schema == nil {
		schema = s.compiler.MustCompile(location(definition, s.home))
		s.compiled[definition] = schema
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(fmt.Sprintf("%v in %s", err, text))
	}
	return schema.Validate(value)
}

// Diff compares two JSON texts as values: the order of members does not matter, and
// numbers are compared by their exact value. It returns the first difference, or "".
func Diff(want, got []byte) string {
	w, err := parse(want)
	if err != nil {
		return fmt.Sprintf("want: %v", err)
	}
	g, err := parse(got)
	if err != nil {
		return fmt.Sprintf("got: %v", err)
	}
	return diff("", w, g)
}

func parse(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the value")
	}
	return x, nil
}

func diff(at string, want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		for name, value := range w {
			other, ok := g[name]
			if !ok {
				return fmt.Sprintf("%s: member %q is missing", at, name)
			}
			if d := diff(at+"/"+name, value, other); d != "" {
				return d
			}
		}
		for name := range g {
			if _, ok := w[name]; !ok {
				return fmt.Sprintf("%s: unexpected member %q", at, name)
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			if d := diff(fmt.Sprintf("%s/%d", at, i), w[i], g[i]); d != "" {
				return d
			}
		}
		return ""
	case json.Number:
		if g, ok := got.(json.Number); ok && plain(w.String()) == plain(g.String()) {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s: want %v, got %v", at, want, got)
}

// plain returns the canonical form of a number: its digits without zeros at either end,
// and the position of the point.
func plain(text string) string {
	text, neg := strings.CutPrefix(text, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if strings.Trim(digits, "0") == "" {
		return "0" // -0 too
	}
	// The value is 0.DIGITS × 10^point.
	point := big.NewInt(int64(len(whole) - (len(whole+fraction) - len(digits))))
	if e, ok := new(big.Int).SetString(exponent, 10); ok {
		point.Add(point, e)
	}
	sign := ""
	if neg {
		sign = "-"
	}
	return fmt.Sprintf("%s0.%se%v", sign, strings.TrimRight(digits, "0"), point)
}
