package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Definition is the JSON Schema of a Go type.
type Definition struct {
	Type reflect.Type
	Text json.RawMessage
}

// CheckDefinitions returns an error for each invalid definition, and for each type with several
// definitions.
func CheckDefinitions(types []Definition) (mistakes []error) {
	for i, d := range types {
		if d.Type == nil {
			mistakes = append(mistakes, errors.New("zero TypeDefinition; use DefineType"))
			continue
		}
		if slices.ContainsFunc(types[:i], func(e Definition) bool { return e.Type == d.Type }) {
			mistakes = append(mistakes, fmt.Errorf("type %v is defined twice", d.Type))
		}
		if _, err := newOwnSchema(d.Type, d.Text, nil); err != nil {
			mistakes = append(mistakes, err)
		}
	}
	return mistakes
}

// schemaMethod is implemented by types that return their schema.
type schemaMethod interface{ JSONSchema() json.RawMessage }

// hasSchemaMethod reports whether a type, or a pointer to it, has the method JSONSchema.
func hasSchemaMethod(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(reflect.TypeFor[schemaMethod]())
}

// ownSchema returns the schema that is defined for a type or that its method returns, or nil if
// there is none.
func (x *inference) ownSchema(t reflect.Type) (*Schema, error) {
	for _, d := range slices.Backward(x.types) {
		if d.Type == t {
			return newOwnSchema(t, d.Text, x.path)
		}
	}
	if !hasSchemaMethod(t) || t.Kind() == reflect.Pointer {
		return nil, nil
	}
	text, err := callSchemaMethod(t)
	if err != nil {
		return nil, err
	}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if inner := WithoutPointers(f.Type); f.Anonymous && hasSchemaMethod(inner) {
				if other, err := callSchemaMethod(inner); err == nil && bytes.Equal(text, other) {
					return nil, fmt.Errorf("type %v has the method JSONSchema of the embedded type %v; give it one of its own, or name the field", t, inner)
				}
			}
		}
	}
	return newOwnSchema(t, text, x.path)
}

// callSchemaMethod calls JSONSchema of the zero value of a type.
func callSchemaMethod(t reflect.Type) (text json.RawMessage, err error) {
	err = boundary.Run(func() error {
		text = reflect.New(t).Interface().(schemaMethod).JSONSchema()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("method JSONSchema of type %v: %w", t, err)
	}
	return text, nil
}

// newOwnSchema returns the schema of a type with the given text. Path leads from the root of the
// whole schema to this one.
func newOwnSchema(t reflect.Type, text json.RawMessage, path []string) (*Schema, error) {
	if _, err := toolschema.Compile(text); err != nil {
		return nil, fmt.Errorf("schema of type %v: %w", t, err)
	}
	if len(path) > 0 && bytes.Contains(text, []byte(`"$ref"`)) {
		var doc any
		if err := codec.Unmarshal(text, value.Of(&doc)); err != nil {
			return nil, err
		}
		moveRefs(doc, fragment(path))
		var err error
		if text, err = codec.Marshal(value.Of(doc)); err != nil {
			return nil, err
		}
	}
	members, err := membersOf(text)
	if err != nil {
		return nil, fmt.Errorf("schema of type %v: want a JSON object: %w", t, err)
	}
	s := &Schema{own: members}
	for _, m := range members {
		if m.name == "type" {
			var one string
			var list []string
			if codec.Unmarshal(m.value, value.Of(&one)) == nil {
				s.Type = one
			} else if codec.Unmarshal(m.value, value.Of(&list)) == nil {
				s.Type = list
			}
		}
	}
	return s, nil
}

// fragment returns the URI fragment for the JSON pointer of a path.
func fragment(path []string) string {
	out := "#"
	for _, token := range path {
		out += "/" + url.PathEscape(jsonedit.EscapeToken(token))
	}
	return out
}

// moveRefs makes the references of a schema to itself start at a pointer. Schemas with an $id are
// roots of their own.
func moveRefs(v any, to string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			moveRefs(e, to)
		}
	case map[string]any:
		if _, root := v["$id"]; root {
			return
		}
		for name, e := range v {
			switch ref, ok := e.(string); {
			case name == "$ref" && ok && (ref == "#" || strings.HasPrefix(ref, "#/")):
				v[name] = to + ref[1:]
			case name != "enum" && name != "const" && name != "default" && name != "examples":
				moveRefs(e, to)
			}
		}
	}
}

// rawMember is a member of a JSON object.
type rawMember struct {
	name  string
	value json.RawMessage
}

// membersOf returns the members of a JSON object in their order.
func membersOf(text json.RawMessage) (list []rawMember, err error) {
	err = codec.ReadPart(text, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more; key, more = r.NextKey() {
			name := string(key)
			list = append(list, rawMember{name, bytes.Clone(r.RawBytes())})
		}
	})
	return list, err
}

// nullable returns a schema that also admits null.
func nullable(s *Schema) *Schema {
	if slices.ContainsFunc(s.own, func(m rawMember) bool { return slices.Contains(exclusive, m.name) }) {
		return &Schema{AnyOf: []*Schema{s, {Type: "null"}}}
	}
	switch t := s.Type.(type) {
	case string:
		if t != "null" {
			s.Type = []string{"null", t}
		}
	case []string:
		if !slices.Contains(t, "null") {
			s.Type = append([]string{"null"}, t...)
		}
	}
	return s
}

// exclusive holds the keywords that may reject null although the type admits it.
var exclusive = []string{"enum", "const", "not", "if", "allOf", "anyOf", "oneOf", "$ref", "$dynamicRef"}
