package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// property is the schema of one argument of a tool. Members of the schema with an unexpected form
// are treated as absent, because the server checks the arguments anyway.
type property struct {
	schema      json.RawMessage
	Type        json.RawMessage `json:"type"` // a name, or a list of names
	AnyOf       json.RawMessage `json:"anyOf"`
	OneOf       json.RawMessage `json:"oneOf"`
	Description json.RawMessage `json:"description"`
}

// newProperty reads the schema of an argument. The schemas true and false have no members.
func newProperty(schema json.RawMessage) (p property) {
	if json.Unmarshal(schema, &p) != nil {
		p = property{}
	}
	p.schema = schema
	return p
}

// types returns the names of the JSON types that the schema admits, or nil if it does not limit
// them.
func (p property) types() (names []string) {
	var one string
	if json.Unmarshal(p.Type, &one) == nil {
		return []string{one}
	}
	if json.Unmarshal(p.Type, &names) == nil {
		return names
	}
	for _, text := range []json.RawMessage{p.AnyOf, p.OneOf} {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil {
			continue
		}
		names = nil
		for _, schema := range list {
			more := newProperty(schema).types()
			if len(more) == 0 {
				return nil
			}
			names = append(names, more...)
		}
		return names
	}
	return nil
}

// kind describes the types for messages and lists, such as "string or null".
func (p property) kind() string {
	names := p.types()
	if len(names) == 0 {
		return "anything"
	}
	return strings.Join(names, " or ")
}

// description returns the description, or "" if there is none.
func (p property) description() (text string) {
	if json.Unmarshal(p.Description, &text) != nil {
		return ""
	}
	return text
}

// constraints describes the other keywords of the schema, such as "one of red, green; default red".
func (p property) constraints() string {
	var members map[string]json.RawMessage
	if json.Unmarshal(p.schema, &members) != nil {
		return ""
	}
	var parts []string
	add := func(format, keyword string) {
		if v, ok := members[keyword]; ok {
			parts = append(parts, fmt.Sprintf(format, plain(v)))
		}
	}
	add("one of %s", "enum")
	add("at least %s", "minimum")
	add("more than %s", "exclusiveMinimum")
	add("at most %s", "maximum")
	add("less than %s", "exclusiveMaximum")
	add("a multiple of %s", "multipleOf")
	add("at least %s characters", "minLength")
	add("at most %s characters", "maxLength")
	add("matches %s", "pattern")
	add("format %s", "format")
	add("at least %s elements", "minItems")
	add("at most %s elements", "maxItems")
	if string(members["uniqueItems"]) == "true" {
		parts = append(parts, "all different")
	}
	if items := newProperty(members["items"]).constraints(); items != "" {
		parts = append(parts, "each "+items)
	}
	add("default %s", "default")
	add("such as %s", "examples")
	if string(members["deprecated"]) == "true" {
		parts = append(parts, "deprecated")
	}
	return strings.Join(parts, "; ")
}

// plain returns a string without quotes, the values of a list separated by commas, and any other
// value as JSON.
func plain(v json.RawMessage) string {
	var text string
	var list []json.RawMessage
	switch {
	case json.Unmarshal(v, &text) == nil && string(v) != "null" && text != "":
		return text
	case json.Unmarshal(v, &list) == nil && len(list) > 0:
		parts := make([]string, len(list))
		for i, e := range list {
			parts[i] = plain(e)
		}
		return strings.Join(parts, ", ")
	}
	return string(v)
}

// propertiesOf returns the arguments that a tool declares.
func propertiesOf(tool *mcp.Tool) (map[string]property, error) {
	if len(tool.InputSchema.Properties) == 0 {
		return nil, nil
	}
	var schemas map[string]json.RawMessage
	if err := json.Unmarshal(tool.InputSchema.Properties, &schemas); err != nil {
		return nil, fmt.Errorf("schema of tool %q: %w", tool.Name, err)
	}
	list := make(map[string]property, len(schemas))
	for name, schema := range schemas {
		list[name] = newProperty(schema)
	}
	return list, nil
}

// arguments converts KEY=VALUE pairs to JSON according to a tool's schema. A value becomes a string
// in three cases: the schema admits only strings, the value is not JSON, or the schema admits the
// string but not the value read as JSON. Any other value is passed on as JSON. arguments fails if a
// value is not JSON and cannot be a string.
func arguments(tool *mcp.Tool, pairs []string) (map[string]json.RawMessage, error) {
	properties, err := propertiesOf(tool)
	if err != nil {
		return nil, err
	}
	args := map[string]json.RawMessage{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("argument %q is not of the form KEY=VALUE", pair)
		}
		if _, duplicate := args[key]; duplicate {
			return nil, usagef("argument %q is given twice", key)
		}
		if args[key], err = argument(schemaOf(tool, properties[key], key), properties[key], key, value); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// schemaOf compiles a tool's schema with a single argument, so that faults in the schemas of other
// arguments have no effect. It returns nil if the argument has no schema or an invalid one.
func schemaOf(tool *mcp.Tool, p property, key string) *toolschema.Schema {
	if p.schema == nil {
		return nil
	}
	text, err := json.Marshal(map[string]json.RawMessage{key: p.schema})
	if err != nil {
		return nil
	}
	whole := tool.InputSchema
	whole.Properties = text
	if text, err = codec.Marshal(&whole); err != nil {
		return nil
	}
	schema, _ := toolschema.Compile(text)
	return schema
}

// argument returns the JSON of one argument. schema is the result of schemaOf.
func argument(schema *toolschema.Schema, p property, key, value string) (json.RawMessage, error) {
	text, err := codec.Marshal(codec.StringScalar(value))
	if err != nil {
		return nil, fmt.Errorf("argument %q: %w", key, err)
	}
	types := strings.Join(p.types(), ",")
	isJSON := codec.Valid([]byte(value)) == nil
	mayBeText := types == "" || strings.Contains(types, "string")
	admitted := func(v json.RawMessage) bool {
		if schema == nil {
			return true
		}
		faults, _ := schema.CheckMember(context.Background(), key, v)
		return faults == ""
	}
	switch {
	case types == "string":
		return text, nil
	case isJSON && (admitted(json.RawMessage(value)) || !mayBeText || !admitted(text)):
		return json.RawMessage(value), nil
	case mayBeText:
		return text, nil
	}
	return nil, usagef("argument %q: %q is not of type %s", key, value, p.kind())
}
