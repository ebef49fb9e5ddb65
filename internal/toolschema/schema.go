// Package toolschema validates values against the JSON Schemas of tools: arguments on the server,
// and output on both sides.
package toolschema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/pattern"
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	root   *node
	size   int    // subschemas
	weight int    // bytes of memory, about
	quick  *quick // nil if the schema has a keyword that quick does not support
}

// Weight returns about the memory of the schema in bytes.
func (s *Schema) Weight() int { return s.weight }

// Dialects returns the URIs of the JSON Schema dialects that a schema may name in $schema, the
// default first.
func Dialects() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-04/schema#",
	}
}

// Compile checks a schema against its dialect and compiles it. It does not load other schemas, and
// rejects numbers that Check would reject in a value. The size of a schema is limited, because
// compilation can take time in proportion to the square of it.
func Compile(text json.RawMessage) (*Schema, error) {
	if len(text) > maxBytes {
		return nil, fmt.Errorf("the schema has more than %d bytes", maxBytes)
	}
	var doc any
	if err := codec.Unmarshal(text, value.Of(&doc)); err != nil {
		return nil, err
	}
	if n, ok := hugeNumber(doc); ok {
		return nil, errors.New(outOfRange(n))
	}
	var e extent
	if err := e.add(doc, 0); err != nil {
		return nil, err
	}
	if e.addresses*e.objects > maxLookups {
		return nil, fmt.Errorf("the schema has %d references and addresses, too many for %d objects", e.addresses, e.objects)
	}
	object, _ := doc.(map[string]any)
	if dialect, ok := object["$schema"].(string); ok && !supported(dialect) {
		return nil, fmt.Errorf("schema dialect %q is not supported; supported: %s", dialect, strings.Join(Dialects(), ", "))
	}
	var p pattern.Set
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) { return p.Compile(text) })
	if err := c.AddResource(here, doc); err != nil {
		return nil, withoutAddress(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, cmp.Or(p.Limit(), withoutAddress(err))
	}
	b := builder{nodes: map[*jsonschema.Schema]*node{}}
	b.resources(c, doc)
	s := &Schema{root: b.node(compiled), size: len(b.nodes), quick: newQuick(object, &p)}
	s.weight = 16*len(text) + 512*s.size + 64*p.Size()
	return s, nil
}

// Limits of a schema.
const (
	maxBytes    = 1 << 20
	maxValues   = 100_000
	maxObjects  = 10_000
	maxElements = 1_000   // objects and arrays in one array, which the compiler compares in pairs
	maxPointers = 8 << 20 // bytes of the JSON pointers of all objects together
	// maxLookups limits the objects times the references and addresses. For each of these, the
	// compiler may visit all objects.
	maxLookups = 20_000_000
)

// extent is the size of a schema.
type extent struct{ values, objects, pointers, addresses int }

// add adds a part of the schema whose JSON pointer has a length. It returns an error if the schema
// exceeds a limit.
func (e *extent) add(v any, pointer int) error {
	if e.values++; e.values > maxValues {
		return fmt.Errorf("the schema has more than %d values", maxValues)
	}
	switch v := v.(type) {
	case map[string]any:
		e.pointers += pointer
		if e.objects++; e.objects > maxObjects {
			return fmt.Errorf("the schema has more than %d objects", maxObjects)
		}
		if e.pointers > maxPointers {
			return fmt.Errorf("the JSON pointers of the objects in the schema have more than %d bytes", maxPointers)
		}
		for _, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor"} {
			if _, ok := v[keyword].(string); ok {
				e.addresses++
			}
		}
		for name, member := range v {
			if err := e.add(member, pointer+1+len(name)); err != nil {
				return err
			}
		}
	case []any:
		composite := 0
		for _, element := range v {
			if k := kindOf(element); k == isArray || k == isObject {
				composite++
			}
			if err := e.add(element, pointer+1); err != nil {
				return err
			}
		}
		if composite > maxElements {
			return fmt.Errorf("an array in the schema has more than %d objects and arrays", maxElements)
		}
	}
	return nil
}

// here is the address under which a schema is compiled. The validator would resolve a relative
// address to a file in the working directory.
const (
	folder = "tool:///"
	here   = folder + "schema"
)

// withoutAddress removes the internal address from an error about a schema, because it is
// meaningless to the schema's author.
func withoutAddress(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if faults := describe(faultsOf(e.Err)); faults != "" {
			return errors.New("invalid schema: " + strings.ReplaceAll(faults, "\n", "; "))
		}
	}
	return errors.New(shorten(strings.NewReplacer(here, "", folder, "").Replace(err.Error())))
}

func supported(dialect string) bool {
	for _, known := range Dialects() {
		if strings.TrimSuffix(known, "#") == strings.TrimSuffix(dialect, "#") {
			return true
		}
	}
	return false
}

// noLoader is the loader for references to other schemas. It always fails, so that a peer cannot
// make this process read files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("references to other schemas are not supported")
}

// Check validates a value. It returns one line for each fault, and "" if the value is valid. It
// reports a limited number of faults and shortens long ones. A value that takes too many steps to
// validate is a fault. The error is that of ctx, which ends a long check.
func (s *Schema) Check(ctx context.Context, text json.RawMessage) (faults string, err error) {
	if s.quick != nil && s.quick.admits(text) {
		return "", nil
	}
	return s.validate(ctx, text)
}

// validate is Check without the quick check.
func (s *Schema) validate(ctx context.Context, text json.RawMessage) (faults string, err error) {
	var v any
	if err := codec.Unmarshal(text, value.Of(&v), codec.AllowSize(text)...); err != nil {
		return err.Error(), nil
	}
	if n, ok := hugeNumber(v); ok {
		return outOfRange(n), nil
	}
	list, err := s.evaluate(ctx, v, len(text))
	switch {
	case ctx.Err() != nil && err == ctx.Err():
		return "", err
	case err != nil:
		return err.Error(), nil
	}
	return describe(list), nil
}

// CheckMember is Check for one member of an object. It validates text against the property called
// name. A member without a property is valid.
func (s *Schema) CheckMember(ctx context.Context, name string, text json.RawMessage) (faults string, err error) {
	member := s.At("properties", name)
	if member == nil {
		return "", nil
	}
	return member.Check(ctx, text)
}

// At returns the schema that the tokens of a JSON pointer lead to, through the keywords properties,
// additionalProperties and items. It returns nil if there is none.
func (s *Schema) At(tokens ...string) *Schema {
	at := s.root
	for i := 0; i < len(tokens) && at != nil; i++ {
		switch tokens[i] {
		case "properties":
			i++
			at = at.properties[tokens[i]]
		case "additionalProperties":
			at = at.additional
		case "items":
			at = at.items
		}
	}
	if at == nil {
		return nil
	}
	return &Schema{root: at, size: s.size}
}

// maxNumber limits the digits and the exponent of a number. It admits every float64. The validator
// calculates with fractions, whose size grows with the exponent.
const maxNumber = 400

// hugeNumber returns a number in v that would make the validator panic or take too long.
func hugeNumber(v any) (n string, ok bool) {
	switch v := v.(type) {
	case json.Number:
		digits, exponent, _ := strings.Cut(strings.ToLower(string(v)), "e")
		e, err := strconv.Atoi(cmp.Or(exponent, "0"))
		return string(v), err != nil || len(digits) > maxNumber || e > maxNumber || e < -maxNumber
	case []any:
		for _, element := range v {
			if n, ok = hugeNumber(element); ok {
				return n, ok
			}
		}
	case map[string]any:
		for _, member := range v {
			if n, ok = hugeNumber(member); ok {
				return n, ok
			}
		}
	}
	return "", false
}

// outOfRange returns the fault of a number that hugeNumber has found.
func outOfRange(n string) string { return "the number " + n[:min(len(n), 20)] + " is out of range" }

// Limits of a report. It quotes values, whose length the peer controls.
const (
	maxFaults = 20
	maxLine   = 300 // bytes
)

// describe returns one line for each fault, with the JSON pointer of its value.
func describe(faults []fault) string {
	printer := message.NewPrinter(language.English)
	var lines []string
	for i, f := range faults {
		if i == maxFaults {
			lines = append(lines, "and more")
			break
		}
		line := f.kind.LocalizedString(printer)
		if where := pointer(f.path); where != "" {
			line = where + ": " + line
		}
		lines = append(lines, shorten(line))
	}
	return strings.Join(lines, "\n")
}

// shorten limits the length of a line.
func shorten(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return strings.ToValidUTF8(line[:maxLine], "") + "…"
}

// faultsOf returns the innermost causes of an error of the compiler. Alternatives are listed after
// the fault of the keyword that combines them.
func faultsOf(err error) (list []fault) {
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		if len(list) > maxFaults {
			return
		}
		_, any := e.ErrorKind.(*kind.AnyOf)
		_, one := e.ErrorKind.(*kind.OneOf)
		if len(e.Causes) == 0 || any || one {
			f := fault{kind: e.ErrorKind}
			for _, token := range e.InstanceLocation {
				f.path = append(f.path, step{token, -1})
			}
			list = append(list, f)
		}
		for _, cause := range e.Causes {
			visit(cause)
		}
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		visit(invalid)
	}
	return list
}
