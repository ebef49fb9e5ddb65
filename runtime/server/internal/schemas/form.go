package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
)

// Form is the form with the fields of a struct. It is immutable.
type Form struct {
	schema    json.RawMessage
	requested mcp.ElicitRequestFormParamsRequestedSchema // the same; without defaults from values
	zero      json.RawMessage                            // the zero value of the type
}

// NewForm returns the form for a type, which has the zero value.
func NewForm(t reflect.Type, zero any, types []Definition) (*Form, error) {
	schema, err := formSchema(t, types)
	if err != nil {
		return nil, err
	}
	f := new(Form)
	if f.schema, err = codec.Marshal(value.Of(schema)); err != nil {
		return nil, err
	}
	if f.zero, err = codec.Marshal(value.Of(zero)); err != nil {
		f.zero = json.RawMessage(`{}`) // the zero value of a type may have no JSON
	}
	if f.schema, err = withDefaults(f.schema, json.RawMessage(`{}`), f.zero); err != nil { // sorts the members
		return nil, err
	}
	if err := codec.Unmarshal(f.schema, &f.requested); err != nil {
		return nil, err
	}
	if f.requested.Properties == nil { // a struct without fields; the protocol requires the member
		f.requested.Properties = map[string]mcp.PrimitiveSchemaDefinition{}
	}
	return f, nil
}

// With returns the schema of the form. Values that differ from those of the zero value are its
// defaults.
func (f *Form) With(values json.RawMessage) (requested mcp.ElicitRequestFormParamsRequestedSchema, err error) {
	if bytes.Equal(values, f.zero) {
		return f.requested, nil
	}
	text, err := withDefaults(f.schema, values, f.zero)
	if err != nil {
		return requested, err
	}
	err = codec.Unmarshal(text, &requested)
	return requested, err
}

// CheckForm returns an error unless the content of a form complies with its schema.
func CheckForm(s *mcp.ElicitRequestFormParamsRequestedSchema, content map[string]form.Value) error {
	return form.Check(s, content)
}

// CopyWithout returns a copy of the fields of a form. In the copy, the fields that the content sets
// are zero. The copy shares lists and pointees with the original, and perhaps with other calls:
// decoding into zero fields does not change them.
func CopyWithout[T, V any](fields *T, content map[string]V) *T {
	out := new(*fields)
	members, err := (&inference{dir: Reading, forForm: true}).fieldsOf(reflect.TypeFor[T]())
	if err != nil {
		return out // the methods of T decode it
	}
	for _, f := range members {
		if _, ok := content[f.name]; !ok {
			continue
		}
		v := reflect.ValueOf(out).Elem()
		for _, i := range f.index[:len(f.index)-1] { // embedded structs
			if v = v.Field(i); v.Kind() == reflect.Pointer {
				shared := v.Elem()
				v.Set(reflect.New(v.Type().Elem()))
				if v = v.Elem(); shared.IsValid() {
					v.Set(shared)
				}
			}
		}
		v.Field(f.index[len(f.index)-1]).SetZero()
	}
	return out
}

// formSchema returns the schema of a form with the fields of a struct.
func formSchema(t reflect.Type, types []Definition) (*Schema, error) {
	x := &inference{dir: Reading, types: types, forForm: true}
	s, err := x.of(t)
	if err != nil {
		return nil, err
	}
	if !s.IsObject() {
		return nil, fmt.Errorf("the JSON of type %v may not be an object", t)
	}
	s.AdditionalProperties = nil // not a keyword of forms
	for _, p := range s.Properties {
		if err := p.schema.toField(); err != nil {
			return nil, fmt.Errorf("field %q: %w", p.name, err)
		}
	}
	return s, nil
}

// toField removes what forms do not have from the schema of a field: null, which stands for an
// absent value, and annotations. It returns an error for constraints that forms do not have.
func (s *Schema) toField() error {
	s.Deprecated, s.Examples = false, nil
	if name := s.TypeName(); name != "" {
		s.Type = name
	}
	s.Enum = slices.DeleteFunc(s.Enum, func(v json.RawMessage) bool { return string(v) == "null" })
	switch {
	case s.Header != "":
		return errors.New("forms have no header fields")
	case s.ExclusiveMinimum != "":
		return errors.New("forms have no exclusiveMinimum")
	case s.ExclusiveMaximum != "":
		return errors.New("forms have no exclusiveMaximum")
	case s.MultipleOf != "":
		return errors.New("forms have no multipleOf")
	case s.Format != "" && !slices.Contains(formFormats, mcp.StringSchemaFormat(s.Format)):
		return fmt.Errorf("forms have no format %s", s.Format)
	case len(s.Enum) > 0 && s.Type != "string":
		return fmt.Errorf("the values of an enum in a form are strings, not of type %v", s.Type)
	case s.Items != nil && (len(s.Items.Enum) == 0 || s.Items.Type != "string"):
		return errors.New("a list in a form must be of strings with the tag enum")
	}
	s.UniqueItems = false // choices are unique
	return nil
}

// formFormats holds the formats of text in forms.
var formFormats = []mcp.StringSchemaFormat{mcp.StringSchemaFormatEmail, mcp.StringSchemaFormatURI, mcp.StringSchemaFormatDate, mcp.StringSchemaFormatDateTime}

// withDefaults adds values that are not zero to the properties of a schema as defaults.
func withDefaults(schema, values, zero json.RawMessage) (json.RawMessage, error) {
	var s, v, z map[string]any
	if err := errors.Join(codec.Unmarshal(schema, value.Of(&s)), codec.Unmarshal(values, value.Of(&v)), codec.Unmarshal(zero, value.Of(&z))); err != nil {
		return nil, err
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		property, ok := p.(map[string]any)
		if ok && v[name] != nil && !reflect.DeepEqual(v[name], z[name]) {
			property["default"] = v[name]
		}
	}
	return codec.Marshal(value.Of(s))
}
