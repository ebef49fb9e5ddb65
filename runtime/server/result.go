package server

import (
	"fmt"
	"reflect"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
)

// resultConverter returns the function that converts output of type Out to a result. T is the
// reflect type of Out.
func resultConverter[Out any](t reflect.Type) (func(Out) (*mcp.CallToolResult, error), error) {
	var give any
	switch any(*new(Out)).(type) {
	case *mcp.CallToolResult:
		give = func(r *mcp.CallToolResult) (*mcp.CallToolResult, error) { return r, nil }
	case string:
		give = func(text string) (*mcp.CallToolResult, error) { return Text(text), nil }
	case []mcp.ContentBlock:
		give = func(list []mcp.ContentBlock) (*mcp.CallToolResult, error) { return Content(list...), nil }
	default:
		switch {
		case t == reflect.TypeFor[mcp.ContentBlock]():
			give = func(block mcp.ContentBlock) (*mcp.CallToolResult, error) { return Content(block), nil }
		case objectType(t):
			return func(out Out) (*mcp.CallToolResult, error) { return Structured(out) }, nil
		default:
			hint := ""
			if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
				hint = " (wrap it in a struct)"
			}
			return nil, fmt.Errorf("want a struct, a map with string keys, string, content or *mcp.CallToolResult, got %v%s", t, hint)
		}
	}
	return give.(func(Out) (*mcp.CallToolResult, error)), nil
}

// Text returns a result with a text.
func Text(text string) *mcp.CallToolResult {
	r := &struct { // one allocation for all
		result  mcp.CallToolResult
		content [1]mcp.ContentBlock
		text    mcp.TextContent
	}{text: mcp.TextContent{Text: text}}
	r.content[0] = &r.text
	r.result.Content = r.content[:]
	return &r.result
}

// Content returns a result with content blocks.
func Content(blocks ...mcp.ContentBlock) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: blocks}
}

// Structured returns a result with structured output, and with the same JSON as a text block for
// clients without support for structured output. Package codec/value encodes out. Structured fails
// if its JSON is not an object.
func Structured(out any) (*mcp.CallToolResult, error) {
	text, err := codec.Marshal(value.Of(out))
	if err != nil {
		return nil, fmt.Errorf("server: structured output: %w", err)
	}
	if text[0] != '{' {
		return nil, fmt.Errorf("server: structured output: want a JSON object, got %T", out)
	}
	result := Text(string(text))
	result.StructuredContent = text
	return result, nil
}
