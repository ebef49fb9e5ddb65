package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
)

// SchemaFor returns the JSON Schema of the values of a Go type, as package codec/value encodes
// them, in dialect 2020-12.
//
//   - A field is required unless its json tag says omitempty or omitzero, or it is a field of an
//     embedded pointer.
//   - The tag jsonschema is the description of a field. Other keywords have tags of their own, see
//     "Struct tags" below.
//   - Structs admit no other members. A pointer may be null. Nil slices and maps are not null: they
//     are encoded as [] and {}.
//   - A type with MarshalText or AppendText is a string. A type with MarshalJSON, such as
//     [json.RawMessage] and the types of package mcp, is any value, and so is an interface.
//   - [time.Time] is a string in the format date-time, [time.Duration] an integer of nanoseconds,
//     [json.Number] a number, [big.Int] an integer, and []byte a string in base64.
//   - A type with the method JSONSchema() [json.RawMessage] has the schema that the method returns
//     for the zero value. The arguments of SchemaFor are the schemas of further types, see
//     [DefineType].
//
// # Struct tags
//
// These tags of a field add the keyword of the same name to its schema:
//
//	type order struct {
//		Color string   `json:"color" jsonschema:"color of the paint" enum:"red,green"`
//		Liter int      `json:"liter" minimum:"1" maximum:"50" default:"5"`
//		Tags  []string `json:"tags,omitempty" maxItems:"9" pattern:"^[a-z]+$"`
//	}
//
// Each applies to fields of certain types:
//
//   - Strings: minLength, maxLength, pattern (a regular expression of package regexp), and format (a
//     format of JSON Schema, which is not validated).
//   - Numbers: minimum, maximum, exclusiveMinimum, exclusiveMaximum and multipleOf.
//   - Strings, numbers and booleans: enum, whose values are separated by commas. Values that contain
//     commas are written as a JSON array.
//   - Lists: minItems, maxItems and uniqueItems. The other keywords above apply to the elements of the
//     list.
//   - All fields: title, default, example and deprecated:"true". The values of default and example
//     are written like those of enum, and as JSON for fields that are not strings, numbers, booleans
//     or lists of these. The keyword of example is examples. An argument with a default is optional,
//     also in a nested struct.
//   - Strings, integers and booleans among the arguments of a tool, also in nested structs, but not
//     in lists and maps: mcp-header, whose keyword is x-mcp-header. Modern clients over HTTP repeat
//     the argument in a header field, for load balancers and proxies that do not read messages:
//     mcp-header:"Region" becomes Mcp-Param-Region. A call whose field is missing or differs is
//     rejected. The field is visible on its way, so it must not be a secret. Integers are limited to
//     ±(2^53-1).
//
// A tag whose keyword does not apply to the type of the field, or whose value is invalid, is an
// error, and so is a value of enum, default or example that does not comply with the rest of the
// schema.
//
// SchemaFor fails for a type that contains itself, a channel, a function, a complex number, a map whose
// keys are neither strings nor integers nor types with MarshalText, and a struct with json tags
// that encoding/json and its version 2 interpret differently.
func SchemaFor[T any](types ...TypeDefinition) (json.RawMessage, error) {
	t := reflect.TypeFor[T]()
	s, err := schemas.Infer(t, schemas.Writing, definitions(types))
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return codec.Marshal(value.Of(s))
}

// TypeDefinition is the JSON Schema of a Go type; see [DefineType].
type TypeDefinition struct{ schema schemas.Definition }

// DefineType sets the JSON Schema of the values of type T, wherever schemas are inferred: as an
// option of one tool, in [Features.Types] for all features of a server, or in [SchemaFor]. It is
// for types of other packages. Give a type of your own the method JSONSchema() json.RawMessage
// instead. The definition of a tool takes precedence over that of the configuration, and both take
// precedence over the method.
//
// The schema is a JSON object. It must admit the JSON that package codec/value encodes. A reference
// in it that begins with "#" refers to the schema itself.
func DefineType[T any](schema string) TypeDefinition {
	return TypeDefinition{schemas.Definition{Type: reflect.TypeFor[T](), Text: json.RawMessage(schema)}}
}

func (d TypeDefinition) forTool(t *tool) { t.types = append(t.types, d) }

// definitions returns the schemas of types.
func definitions(lists ...[]TypeDefinition) (out []schemas.Definition) {
	for _, types := range lists {
		for _, d := range types {
			out = append(out, d.schema)
		}
	}
	return out
}

// inferArguments sets the input schema of a tool to that of its arguments.
func (s *Server) inferArguments(t *tool, in reflect.Type) error {
	schema, err := schemas.Infer(in, schemas.Reading, definitions(s.cfg.Features.Types, t.types))
	if err != nil {
		return err
	}
	if !schema.IsObject() {
		return fmt.Errorf("no schema for type %v: its JSON may not be an object; give the tool a schema, or the type the method JSONSchema", in)
	}
	return schema.Into(&t.def.InputSchema)
}

// declareOutput sets the output schema of a tool to that of its output, unless the description has
// one. It reports whether the output is known not to be an object.
func (s *Server) declareOutput(t *tool, out reflect.Type) (plain bool, err error) {
	const want = "want a struct, a map with string keys, a slice, a number, a boolean, string, content or *mcp.CallToolResult"
	elem, types := schemas.WithoutPointers(out), definitions(s.cfg.Features.Types, t.types)
	switch {
	case elem == reflect.TypeFor[mcp.CallToolResult](), out.Implements(reflect.TypeFor[mcp.ContentBlock]()), reflect.PointerTo(out).Implements(reflect.TypeFor[mcp.ContentBlock]()):
		return false, fmt.Errorf("%s, got %v", want, out)
	case out.Kind() == reflect.Slice && out.Elem().Implements(reflect.TypeFor[mcp.ContentBlock]()):
		return false, fmt.Errorf("want []mcp.ContentBlock, got %v", out)
	case out == reflect.TypeFor[[]byte]():
		return false, errors.New("want string for text, or a content block for binary data, got []byte")
	}
	schema, err := schemas.Infer(elem, schemas.Writing, types)
	if t.def.OutputSchema != nil { // it takes precedence
		return err == nil && schema.TypeName() != "" && schema.TypeName() != "object", nil
	}
	switch {
	case err != nil:
		return false, err
	case schema.IsObject():
		t.def.OutputSchema = new(mcp.ToolOutputSchema)
		return false, schema.Into(t.def.OutputSchema)
	case schema.TypeName() == "" || schema.TypeName() == "object":
		return false, fmt.Errorf("%s, got %v, whose JSON may be of any type; give the tool a schema, or the type the method JSONSchema", want, out)
	}
	if schema, err = schemas.Infer(out, schemas.Writing, types); err != nil {
		return false, err
	}
	t.def.OutputSchema = new(mcp.ToolOutputSchema)
	return true, schema.Into(t.def.OutputSchema)
}

// Dialects returns the URIs of the JSON Schema dialects that schemas of tools may name in $schema,
// the default first. A schema that names another dialect is rejected (MCP, "JSON Schema Usage").
func Dialects() []string { return schemas.Dialects() }
