package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// SchemaFor returns the JSON Schema of the values of a Go type, as package codec/value writes them, in dialect 2020-12.
// A field is required unless its json tag says omitempty or omitzero, the tag jsonschema is its description, and a
// pointer may be null. Structs admit no other members.
func SchemaFor[T any]() (json.RawMessage, error) { return schemaOf(reflect.TypeFor[T]()) }

func schemaOf(t reflect.Type) (json.RawMessage, error) {
	s, err := infer.ForType(t, &infer.ForOptions{TypeSchemas: map[reflect.Type]*infer.Schema{
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[json.Number]():     {Type: "number"},
	}})
	if err != nil {
		return nil, fmt.Errorf("server: no schema for %v: %w", t, err)
	}
	neverNull(s)
	return json.Marshal(s)
}

// neverNull takes null out of what lists may be: package codec/value writes nil slices as [], and some models cannot
// cope with such a type.
func neverNull(s *infer.Schema) {
	if s == nil {
		return
	}
	if slices.Equal(s.Types, []string{"null", "array"}) {
		s.Type, s.Types = "array", nil
	}
	for _, p := range s.Properties {
		neverNull(p)
	}
	neverNull(s.Items)
	neverNull(s.AdditionalProperties)
}

// schema is a JSON Schema that values are held against.
type schema struct {
	compiled *jsonschema.Schema
	quick    *quick // nil if the schema has keywords that it does not know
}

// Dialects are those of JSON Schema that schemas of tools may name in $schema: their URIs, the default one first.
// A schema that names another one is refused (MCP, "JSON Schema Usage").
func Dialects() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-04/schema#",
	}
}

// compile checks a schema against its dialect and makes it ready. Nothing is loaded from elsewhere.
func compile(text json.RawMessage) (*schema, error) {
	var doc any
	if err := codec.Unmarshal(text, value.Of(&doc)); err != nil {
		return nil, err
	}
	object, _ := doc.(map[string]any)
	if dialect, ok := object["$schema"].(string); ok && !supported(dialect) {
		return nil, fmt.Errorf("the schema dialect %q is not supported, only %s", dialect, strings.Join(Dialects(), ", "))
	}
	const here = "schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothingElse{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, err
	}
	return &schema{compiled, newQuick(object)}, nil
}

func supported(dialect string) bool {
	for _, known := range Dialects() {
		if strings.TrimSuffix(known, "#") == strings.TrimSuffix(dialect, "#") {
			return true
		}
	}
	return false
}

// nothingElse is the loader of schemas that refer to others: a client must not make a server read files.
type nothingElse struct{}

func (nothingElse) Load(url string) (any, error) {
	return nil, errors.New("schemas elsewhere are not loaded")
}

// check returns what is wrong with a value, one line for each fault, and "" if nothing is.
func (s *schema) check(text json.RawMessage) (faults string) {
	if s.quick != nil && s.quick.admits(text) {
		return ""
	}
	var v any
	if err := codec.Unmarshal(text, value.Of(&v)); err != nil {
		return err.Error()
	}
	if n, ok := unwieldy(v); ok {
		return "the number " + n[:min(len(n), 20)] + " is out of range"
	}
	err := s.compiled.Validate(v)
	if err == nil {
		return ""
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	describe(&b, invalid, message.NewPrinter(language.English))
	return strings.TrimSuffix(b.String(), "\n")
}

// maxNumber is how many digits, and what exponent, numbers may have: more than any float64. The validator calculates
// with fractions, whose size is that of the exponent.
const maxNumber = 400

// unwieldy finds a number that would take the validator long.
func unwieldy(v any) (n string, ok bool) {
	switch v := v.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(cmp.Or(exponent, "0"))
		return string(v), err != nil || len(digits) > maxNumber || max(e, -e) > maxNumber
	case []any:
		for _, element := range v {
			if n, ok = unwieldy(element); ok {
				return n, ok
			}
		}
	case map[string]any:
		for _, member := range v {
			if n, ok = unwieldy(member); ok {
				return n, ok
			}
		}
	}
	return "", false
}

// describe writes the innermost causes, each with the JSON pointer of the value that it is about.
func describe(b *strings.Builder, e *jsonschema.ValidationError, p *message.Printer) {
	if choice(e.ErrorKind) {
		writeFault(b, e, e.ErrorKind.LocalizedString(p))
	}
	for _, cause := range e.Causes {
		describe(b, cause, p)
	}
	if len(e.Causes) == 0 && !choice(e.ErrorKind) {
		writeFault(b, e, e.ErrorKind.LocalizedString(p))
	}
}

// choice reports whether the causes of a fault are alternatives, which make sense together only.
func choice(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.AnyOf, *kind.OneOf:
		return true
	}
	return false
}

func writeFault(b *strings.Builder, e *jsonschema.ValidationError, what string) {
	where := ""
	for _, token := range e.InstanceLocation {
		where += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	if where == "" {
		where = "arguments"
	}
	b.WriteString(where + ": " + what + "\n")
}
