package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// property is what the schema of a tool says of one argument.
type property struct {
	Type        json.RawMessage `json:"type"` // a name, or a list of them
	Description string          `json:"description"`
}

// kind names the type for people.
func (p property) kind() string {
	if len(p.Type) == 0 {
		return "anything"
	}
	return strings.ReplaceAll(strings.Trim(string(p.Type), `[]"`), `","`, " or ")
}

// propertiesOf returns the arguments that a tool declares.
func propertiesOf(tool *mcp.Tool) (list map[string]property, err error) {
	if len(tool.InputSchema.Properties) > 0 {
		if err = json.Unmarshal(tool.InputSchema.Properties, &list); err != nil {
			err = fmt.Errorf("the schema of %s: %w", tool.Name, err)
		}
	}
	return list, err
}

// arguments reads KEY=VALUE pairs as a tool's schema says: what must be a text as it is, all else as
// JSON, and what is none as a text where that may be.
func arguments(tool *mcp.Tool, pairs []string) (map[string]json.RawMessage, error) {
	properties, err := propertiesOf(tool)
	if err != nil {
		return nil, err
	}
	args := map[string]json.RawMessage{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usagef("%q is not KEY=VALUE", pair)
		}
		p := properties[key]
		mayBeText := len(p.Type) == 0 || strings.Contains(string(p.Type), `"string"`)
		switch {
		case string(p.Type) != `"string"` && codec.Valid([]byte(value)) == nil:
			args[key] = json.RawMessage(value)
		case mayBeText:
			if args[key], err = codec.Marshal(codec.StringScalar(value)); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		default:
			return nil, usagef("%s: %q is no %s", key, value, p.kind())
		}
	}
	return args, nil
}
