package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/toolschema"
)

// defaults are the defaults of the members of a value, and of the values in it. Nil means none.
type defaults struct {
	absent  []defaultMember      // sorted by name
	members map[string]*defaults // of the values of properties; nil for those without defaults
	others  *defaults            // of the values of other members
	items   *defaults            // of the elements of a list
}

// defaultMember is a member of an object that has a default.
type defaultMember struct {
	name string
	text []byte // the member as JSON, with its name
}

// location is the place of a value in the arguments.
type location struct {
	schema  []string // tokens of the pointer to its schema, from the root of the input schema
	pointer string   // to the value
	field   string   // the same for people
	// arguments returns arguments with the given value in that place.
	arguments func(value string) string
}

func (l location) member(name string) location {
	key, _ := json.Marshal(name) // a string
	in := l.inside(`{`+string(key)+`:`, `}`, "/"+jsonedit.EscapeToken(name), "properties", name)
	in.field = strings.TrimPrefix(l.field+"."+name, ".")
	return in
}

func (l location) other() location { return l.inside(`{"0":`, `}`, "/0", "additionalProperties") }
func (l location) item() location  { return l.inside(`[`, `]`, "/0", "items") }

func (l location) inside(before, after, pointer string, schema ...string) location {
	return location{append(slices.Clip(l.schema), schema...), l.pointer + pointer, l.field,
		func(value string) string { return l.arguments(before + value + after) }}
}

// finder finds the defaults in an input schema, and checks that the schema and the type of the
// arguments admit them. It follows the keywords properties, additionalProperties and items.
type finder struct {
	schema *toolschema.Schema
	decode func(json.RawMessage) error
}

// defaultsIn returns the defaults in the schema of the values at a location.
func (f *finder) defaultsIn(text json.RawMessage, at location) (*defaults, error) {
	if !isObject(text) {
		return nil, nil // no schema, a boolean, or a list of schemas
	}
	var schema struct {
		Properties           map[string]json.RawMessage `json:"properties"`
		AdditionalProperties json.RawMessage            `json:"additionalProperties"`
		Items                json.RawMessage            `json:"items"`
	}
	err := codec.Unmarshal(text, value.Of(&schema))
	d := &defaults{members: map[string]*defaults{}}
	if err == nil {
		d.others, err = f.defaultsIn(schema.AdditionalProperties, at.other())
	}
	if err == nil {
		d.items, err = f.defaultsIn(schema.Items, at.item())
	}
	if err != nil {
		return nil, err
	}
	some := d.others != nil || d.items != nil
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		inside, err := f.defaultsIn(property, at.member(name))
		if err != nil {
			return nil, err
		}
		d.members[name] = inside
		if preset, ok := codec.Member(property, "default"); ok {
			if err := f.checkDefault(preset, at.member(name)); err != nil {
				return nil, err
			}
			preset, _ = inside.addTo(preset)
			text, err := codec.Marshal(value.Of(map[string]json.RawMessage{name: preset}))
			if err != nil {
				return nil, err
			}
			d.absent = append(d.absent, defaultMember{name, text[1 : len(text)-1]})
		}
		some = some || inside != nil || d.absent != nil
	}
	if !some {
		return nil, nil
	}
	return d, nil
}

func isObject(text json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte{'{'})
}

// checkDefault returns an error unless the default of the value at a location complies with its
// schema and fits the type of the arguments.
func (f *finder) checkDefault(preset json.RawMessage, at location) error {
	if schema := f.schema.At(at.schema...); schema != nil { // nil in older dialects, beside a reference
		if faults, _ := schema.Check(context.Background(), preset); faults != "" {
			return fmt.Errorf("default of %q does not comply with its schema: %s", at.field, faults)
		}
	}
	if err := f.decode(json.RawMessage(at.arguments(string(preset)))); err != nil {
		// Other errors are about values around the default.
		if e, ok := errors.AsType[*codec.Error](err); ok && strings.HasPrefix(e.Pointer, at.pointer) {
			return fmt.Errorf("default of %q does not fit the type of the arguments: %w", at.field, e.Err)
		}
	}
	return nil
}

// addition is text to be inserted into the arguments.
type addition struct {
	offset int
	text   []byte
}

// addTo adds the defaults of absent members to a value. It reports whether it added any.
func (d *defaults) addTo(text json.RawMessage) (json.RawMessage, bool) {
	if d == nil {
		return text, false
	}
	var list []addition
	if err := codec.ReadPart(text, func(r *wire.Reader) { list = d.additions(r, nil) }); err != nil || list == nil {
		return text, false
	}
	size := len(text)
	for _, a := range list {
		size += len(a.text)
	}
	out, done := make([]byte, 0, size), 0
	for _, a := range list {
		out = append(append(out, text[done:a.offset]...), a.text...)
		done = a.offset
	}
	return append(out, text[done:]...), true
}

// additions reads a value and appends its additions to list, in the order of their offsets.
func (d *defaults) additions(r *wire.Reader, list []addition) []addition {
	switch kind := r.Kind(); {
	case d == nil:
		r.Skip()
	case kind == wire.KindArray:
		for r.Array(); r.More(); {
			list = d.items.additions(r, list)
		}
	case kind == wire.KindObject:
		offset, n := r.Offset()+1, len(list)
		present := make([]bool, len(d.absent))
		empty := true
		r.Object()
		for key, more := r.NextKey(); more; key, more = r.NextKey() {
			empty = false
			i, ok := slices.BinarySearchFunc(d.absent, string(key), func(m defaultMember, name string) int { return strings.Compare(m.name, name) })
			if ok {
				present[i] = true
			}
			inside, ok := d.members[string(key)]
			if !ok {
				inside = d.others
			}
			list = inside.additions(r, list)
		}
		var text []byte
		for i, m := range d.absent {
			if present[i] {
				continue
			}
			if text != nil {
				text = append(text, ',')
			}
			text = append(text, m.text...)
		}
		if text != nil && !empty {
			text = append(text, ',')
		}
		if text != nil {
			list = slices.Insert(list, n, addition{offset, text}) // before those of the members
		}
	default:
		r.Skip()
	}
	return list
}
