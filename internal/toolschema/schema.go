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

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// Schema is a compiled JSON Schema. It is safe for concurrent use.
type Schema struct {
	root    *node
	dynamic bool   // a reference depends on the way to it
	size    int    // subschemas
	weight  int    // bytes of memory, about
	quick   *quick // nil if the schema has a keyword that quick does not support
}

// Weight returns about the memory of the schema in bytes.
func (s *Schema) Weight() int { return s.weight }

// Compile checks a schema against its dialect and compiles it. It does not load other schemas, and
// rejects numbers that Check would reject in a value. The size of a schema is limited.
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
	if err := e.add(doc); err != nil {
		return nil, err
	}
	object, _ := doc.(map[string]any)
	d := dialects[0].draft
	if dialect, ok := object["$schema"].(string); ok {
		if d = draftOf(dialect); d == 0 {
			return nil, fmt.Errorf("schema dialect %q is not supported; supported: %s", dialect, strings.Join(Dialects(), ", "))
		}
	}
	c := compiler{vocabulary: vocabularyOf(d), draft: d}
	if faults := c.faultsOf(doc); faults != "" {
		return nil, errors.New("invalid schema: " + faults)
	}
	s, err := c.compile(doc)
	if err != nil {
		return nil, err
	}
	if object != nil {
		s.quick = newQuick(object, &c.patterns)
	}
	s.weight = 16*len(text) + 512*s.size + 64*c.patterns.Size()
	return s, nil
}

// Limits of a schema.
const (
	maxBytes   = 1 << 20
	maxValues  = 100_000
	maxObjects = 10_000
)

// extent is the size of a schema.
type extent struct{ values, objects int }

// add adds a part of the schema. It returns an error if the schema exceeds a limit.
func (e *extent) add(v any) error {
	if e.values++; e.values > maxValues {
		return fmt.Errorf("the schema has more than %d values", maxValues)
	}
	switch v := v.(type) {
	case map[string]any:
		if e.objects++; e.objects > maxObjects {
			return fmt.Errorf("the schema has more than %d objects", maxObjects)
		}
		for _, member := range v {
			if err := e.add(member); err != nil {
				return err
			}
		}
	case []any:
		for _, element := range v {
			if err := e.add(element); err != nil {
				return err
			}
		}
	}
	return nil
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
	return &Schema{root: at, dynamic: s.dynamic, size: s.size}
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
	var lines []string
	for i, f := range faults {
		if i == maxFaults {
			lines = append(lines, "and more")
			break
		}
		line := fmt.Sprintf(f.format, f.args...)
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

// alternatives are texts of which one is wanted.
type alternatives []string

func (a alternatives) String() string { return strings.Join(a, " or ") }

// quotes are names and other texts from a peer.
type quotes []string

func (q quotes) String() string {
	list := make([]string, len(q))
	for i, text := range q {
		text = strings.ReplaceAll(strconv.Quote(text), `\"`, `"`)
		list[i] = "'" + strings.ReplaceAll(text[1:len(text)-1], "'", `\'`) + "'"
	}
	return strings.Join(list, ", ")
}

// displays are values without members and elements.
type displays []any

func (d displays) String() string {
	list := make([]string, len(d))
	for i, v := range d {
		switch v := v.(type) {
		case nil:
			list[i] = "null"
		case string:
			list[i] = quotes{v}.String()
		default:
			list[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(list, ", ")
}

// plural returns the noun for a number of missing members.
func plural(missing []string) string {
	if len(missing) == 1 {
		return "property"
	}
	return "properties"
}
