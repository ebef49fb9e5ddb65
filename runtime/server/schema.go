package server

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
)

// SchemaFor returns the JSON Schema of the values of a Go type, as package codec/value encodes
// them, in dialect 2020-12.
//
//   - A field is required unless its json tag says omitempty or omitzero, or it is a field of an
//     embedded pointer.
//   - The tag jsonschema is the description of a field. It cannot hold keywords: for other
//     constraints, write the schema by hand.
//   - Structs admit no other members. A pointer may be null. Nil slices and maps are not null: they
//     are encoded as [] and {}.
//   - A type with MarshalText or AppendText is a string. A type with MarshalJSON, such as
//     [json.RawMessage] and the types of package mcp, is any value, and so is an interface.
//   - [time.Time] is a string in the format date-time, [time.Duration] an integer of nanoseconds,
//     [json.Number] a number, [big.Int] an integer, and []byte a string in base64.
//
// It fails for a type that contains itself, a channel, a function, a complex number, a map whose
// keys are neither strings nor integers nor types with MarshalText, and a struct with json tags
// that encoding/json and its version 2 interpret differently.
func SchemaFor[T any]() (json.RawMessage, error) {
	text, err := schemaOf(reflect.TypeFor[T](), writing)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	return text, nil
}

// schemaOf returns the schema of a type in one direction.
func schemaOf(t reflect.Type, dir direction) (json.RawMessage, error) {
	s, err := (&inference{dir: dir}).schema(t)
	if err != nil {
		return nil, fmt.Errorf("no schema for type %v: %w; give the tool a schema, or change the type", t, err)
	}
	return codec.Marshal(value.Of(s))
}

// objectSchemaOf is schemaOf for arguments and output, which must be JSON objects.
func objectSchemaOf(t reflect.Type, dir direction) (json.RawMessage, error) {
	if (&inference{dir: dir}).form(t) != formKind {
		return nil, fmt.Errorf("no schema for type %v: its methods encode it, so that its JSON may not be an object; give the tool a schema", t)
	}
	return schemaOf(t, dir)
}

// Dialects returns the URIs of the JSON Schema dialects that schemas of tools may name in $schema,
// the default first. A schema that names another dialect is rejected (MCP, "JSON Schema Usage").
func Dialects() []string { return toolschema.Dialects() }
