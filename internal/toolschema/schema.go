// Package toolschema validates values against the JSON Schemas of tools: arguments on the server,
// and output on both sides.
package toolschema

import (
	"cmp"
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
)

// Schema is a JSON Schema that values are held against. It may be used by many goroutines.
type Schema struct {
	compiled *jsonschema.Schema
	quick    *quick // nil if the schema has keywords that it does not know

	size    int                             // subschemas
	refers  bool                            // a subschema refers to another one
	anchors map[string][]*jsonschema.Schema // targets of dynamic references, "" for recursive ones
}

// Dialects are those of JSON Schema that a schema may name in $schema: their URIs, the default one
// first.
func Dialects() []string {
	return []string{
		"https://json-schema.org/draft/2020-12/schema",
		"https://json-schema.org/draft/2019-09/schema",
		"http://json-schema.org/draft-07/schema#",
		"http://json-schema.org/draft-06/schema#",
		"http://json-schema.org/draft-04/schema#",
	}
}

// Compile checks a schema against its dialect and makes it ready. Nothing is loaded from elsewhere.
func Compile(text json.RawMessage) (*Schema, error) {
	var doc any
	if err := codec.Unmarshal(text, value.Of(&doc)); err != nil {
		return nil, err
	}
	object, _ := doc.(map[string]any)
	if dialect, ok := object["$schema"].(string); ok && !supported(dialect) {
		return nil, fmt.Errorf("the schema dialect %q is not supported, only %s", dialect, strings.Join(Dialects(), ", "))
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nothingElse{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, unplaced(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, unplaced(err)
	}
	out := &Schema{compiled: compiled, quick: newQuick(object)}
	out.measure()
	return out, nil
}

// here is the address under which a schema is compiled. A relative address would be read as a file
// in the working directory.
const (
	folder = "tool:///"
	here   = folder + "schema"
)

// unplaced removes the internal address from an error about a schema, as it means nothing to the
// schema's author.
func unplaced(err error) error {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if faults := explain(e.Err); faults != "" {
			return errors.New("the schema is not valid: " + strings.ReplaceAll(faults, "\n", "; "))
		}
	}
	return errors.New(strings.NewReplacer(here, "", folder, "").Replace(err.Error()))
}

func supported(dialect string) bool {
	for _, known := range Dialects() {
		if strings.TrimSuffix(known, "#") == strings.TrimSuffix(dialect, "#") {
			return true
		}
	}
	return false
}

// nothingElse is the loader for references to other schemas. It always fails: a peer must not make
// this side read files.
type nothingElse struct{}

func (nothingElse) Load(url string) (any, error) {
	return nil, errors.New("schemas elsewhere are not loaded")
}

// Check returns what is wrong with a value, one line for each fault, and "" if nothing is. It
// reports only the first of many faults, and shortens long ones. A value that takes too many steps
// to check is a fault.
func (s *Schema) Check(text json.RawMessage) (faults string) {
	if s.quick != nil && s.quick.admits(text) {
		return ""
	}
	var v any
	if err := codec.Unmarshal(text, value.Of(&v), codec.AllowSize(text)...); err != nil {
		return err.Error()
	}
	if n, ok := unwieldy(v); ok {
		return "the number " + n[:min(len(n), 20)] + " is out of range"
	}
	if s.tooMuchWork(v, len(text)) {
		return "the value takes too many steps to check"
	}
	return explain(s.compiled.Validate(v))
}

// CheckMember is Check for one member of an object. It validates text against the property called
// name. A member without a property is valid.
func (s *Schema) CheckMember(name string, text json.RawMessage) (faults string) {
	p := s.compiled.Properties[name]
	if p == nil {
		return ""
	}
	member := &Schema{compiled: p}
	member.measure()
	return member.Check(text)
}

// explain returns the faults in an error of the validator, and "" for nil.
func explain(err error) string {
	if err == nil {
		return ""
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	r := report{printer: message.NewPrinter(language.English)}
	r.describe(invalid)
	return strings.Join(r.lines, "\n")
}

// maxNumber limits the digits and the exponent of a number. It admits every float64. The validator
// calculates with fractions, whose size grows with the exponent.
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

// What a report is limited to. Values are quoted in it, and those are the peer's.
const (
	maxFaults = 20
	maxLine   = 300 // bytes
)

// report is what is wrong with a value.
type report struct {
	printer *message.Printer
	lines   []string
}

// describe adds the innermost causes, each with the JSON pointer of the value that it is about.
func (r *report) describe(e *jsonschema.ValidationError) {
	if len(r.lines) > maxFaults {
		return
	}
	if len(e.Causes) == 0 || choice(e.ErrorKind) {
		r.add(e)
	}
	for _, cause := range e.Causes {
		r.describe(cause)
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

// add adds a line, if there is room for it.
func (r *report) add(e *jsonschema.ValidationError) {
	if len(r.lines) == maxFaults {
		r.lines = append(r.lines, "and more")
		return
	}
	where := ""
	for _, token := range e.InstanceLocation {
		where += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
	}
	line := e.ErrorKind.LocalizedString(r.printer)
	if where != "" {
		line = where + ": " + line
	}
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "…"
	}
	r.lines = append(r.lines, line)
}
