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
	"github.com/mcpwire/mcpwire/internal/jsonpointer"
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	quick    *quick // nil if the schema has a keyword that quick does not support

	size    int                             // subschemas
	refers  bool                            // a subschema has a reference
	anchors map[string][]*jsonschema.Schema // targets of dynamic references, "" for recursive ones
}

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
// rejects numbers that Check would reject in a value.
func Compile(text json.RawMessage) (*Schema, error) {
	var doc any
	if err := codec.Unmarshal(text, value.Of(&doc)); err != nil {
		return nil, err
	}
	if n, ok := hugeNumber(doc); ok {
		return nil, errors.New(outOfRange(n))
	}
	object, _ := doc.(map[string]any)
	if dialect, ok := object["$schema"].(string); ok && !supported(dialect) {
		return nil, fmt.Errorf("schema dialect %q is not supported; supported: %s", dialect, strings.Join(Dialects(), ", "))
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(here, doc); err != nil {
		return nil, withoutAddress(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, withoutAddress(err)
	}
	out := &Schema{compiled: compiled, quick: newQuick(object)}
	out.measure()
	return out, nil
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
		if faults := explain(e.Err); faults != "" {
			return errors.New("invalid schema: " + strings.ReplaceAll(faults, "\n", "; "))
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

// noLoader is the loader for references to other schemas. It always fails, so that a peer cannot
// make this process read files.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("references to other schemas are not supported")
}

// Check validates a value. It returns one line for each fault, and "" if the value is valid. It
// reports a limited number of faults and shortens long ones. A value that takes too many steps to
// validate is a fault.
func (s *Schema) Check(text json.RawMessage) (faults string) {
	if s.quick != nil && s.quick.admits(text) {
		return ""
	}
	var v any
	if err := codec.Unmarshal(text, value.Of(&v), codec.AllowSize(text)...); err != nil {
		return err.Error()
	}
	if n, ok := hugeNumber(v); ok {
		return outOfRange(n)
	}
	if s.tooMuchWork(v, len(text)) {
		return "the value takes too many steps to check"
	}
	return explain(s.compiled.Validate(v))
}

// CheckMember is Check for one member of an object. It validates text against the property called
// name. A member without a property is valid.
func (s *Schema) CheckMember(name string, text json.RawMessage) (faults string) {
	member := s.At("properties", name)
	if member == nil {
		return ""
	}
	return member.Check(text)
}

// At returns the schema that the tokens of a JSON pointer lead to, through the keywords properties,
// additionalProperties and items. It returns nil if there is none.
func (s *Schema) At(tokens ...string) *Schema {
	at := s.compiled
	for i := 0; i < len(tokens) && at != nil; i++ {
		switch tokens[i] {
		case "properties":
			i++
			at = at.Properties[tokens[i]]
		case "additionalProperties":
			at, _ = at.AdditionalProperties.(*jsonschema.Schema)
		case "items":
			if list, ok := at.Items.(*jsonschema.Schema); ok { // before draft 2020-12
				at = list
			} else {
				at = at.Items2020
			}
		}
	}
	if at == nil {
		return nil
	}
	out := &Schema{compiled: at}
	out.measure()
	return out
}

// explain returns the faults in an error of the validator, or "" for nil.
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

// report lists the faults of a value.
type report struct {
	printer *message.Printer
	lines   []string
}

// describe adds the innermost causes, each with the JSON pointer to its value.
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

// choice reports whether the causes of a fault are alternatives. Those are reported together.
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
		where += "/" + jsonpointer.Escape(token)
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
