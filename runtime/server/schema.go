package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	infer "github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpwire/mcpwire/runtime/internal/toolschema"
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

// Dialects are those of JSON Schema that schemas of tools may name in $schema: their URIs, the default one first.
// A schema that names another one is refused (MCP, "JSON Schema Usage").
func Dialects() []string { return toolschema.Dialects() }
