package everything

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// none is the type of empty arguments.
type none = struct{}

// terms and sum are the arguments and the output of the tool add.
type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

// location are the arguments of the tool located.
type location struct {
	Region string `json:"region" mcp-header:"Region" jsonschema:"the name of a region"`
	Shard  int    `json:"shard,omitempty" mcp-header:"Shard" jsonschema:"the number of a shard"`
}

// strict is a tool whose schema has many keywords of JSON Schema 2020-12.
const strict = `{
	"name": "json_schema_2020_12_tool",
	"description": "Reports whether a contact is complete.",
	"inputSchema": {
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"},
			"address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"},
			"email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]},
		"else": {"required": ["email"]},
		"additionalProperties": false
	}
}`

// addTools adds tools that respond at once.
func addTools(s *server.Server) {
	var raw mcp.Tool
	if err := codec.Unmarshal([]byte(strict), &raw); err != nil {
		panic(err) // strict is a constant
	}
	s.AddRawTool(raw, func(context.Context, *server.Call, json.RawMessage) (*mcp.CallToolResult, error) {
		return server.Text("The contact is complete."), nil
	})
	server.AddTool(s, "add", "Adds two numbers.", func(_ context.Context, _ *server.Call, in terms) (sum, error) { return sum{in.A + in.B}, nil }, server.DefineTool(func(t *mcp.Tool) {
		t.Title = new("Add")
		t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: new(true), IdempotentHint: new(true), OpenWorldHint: new(false)}
	}))
	server.AddTool(s, "located", "Returns its arguments, which HTTP clients repeat in header fields.", func(_ context.Context, _ *server.Call, in location) (string, error) {
		return fmt.Sprintf("%s, shard %d", in.Region, in.Shard), nil
	})
	server.AddTool(s, "test_error_handling", "Fails.", func(context.Context, *server.Call, none) (string, error) {
		return "", errors.New("this tool always fails")
	})
	for name, blocks := range map[string][]mcp.ContentBlock{
		"test_simple_text":       {&mcp.TextContent{Text: "A text."}},
		"test_image_content":     {picture()},
		"test_audio_content":     {sound()},
		"test_embedded_resource": {embedded("test://embedded-resource", "text/plain", "A text inside of a result.")},
		"test_multiple_content_types": {
			&mcp.TextContent{Text: "A text, a picture, a resource and a link."}, picture(),
			embedded("test://mixed-content-resource", "application/json", `{"answer":42}`),
			&mcp.ResourceLink{Name: "static-text", URI: "test://static-text"},
		},
	} {
		server.AddTool(s, name, "Returns content.", func(context.Context, *server.Call, none) ([]mcp.ContentBlock, error) { return blocks, nil })
	}
}
