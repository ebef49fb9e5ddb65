package server

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
)

// contentConverter returns the function that converts output of type Out to a result without
// structured output, or to the result that it is. It returns nil for all other types.
func contentConverter[Out any]() func(Out) (*mcp.CallToolResult, error) {
	var give any
	switch any(*new(Out)).(type) {
	case *mcp.CallToolResult:
		give = func(r *mcp.CallToolResult) (*mcp.CallToolResult, error) { return r, nil }
	case string:
		give = func(text string) (*mcp.CallToolResult, error) { return Text(text), nil }
	case []mcp.ContentBlock:
		give = func(list []mcp.ContentBlock) (*mcp.CallToolResult, error) { return Content(list...), nil }
	default:
		if reflect.TypeFor[Out]() != reflect.TypeFor[mcp.ContentBlock]() {
			return nil
		}
		give = func(block mcp.ContentBlock) (*mcp.CallToolResult, error) { return Content(block), nil }
	}
	return give.(func(Out) (*mcp.CallToolResult, error))
}

// Text returns a result with a text. Bytes that are not UTF-8, such as those of a file, become U+FFFD.
func Text(text string) *mcp.CallToolResult {
	r := &struct { // one allocation for all
		result  mcp.CallToolResult
		content [1]mcp.ContentBlock
		text    mcp.TextContent
	}{text: mcp.TextContent{Text: strings.ToValidUTF8(text, "\uFFFD")}}
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

// plainResult is Structured for output that is not an object.
func plainResult(out any) (*mcp.CallToolResult, error) {
	text, err := codec.Marshal(value.Of(out))
	if err != nil {
		return nil, fmt.Errorf("server: structured output: %w", err)
	}
	result := Text(string(text))
	result.StructuredContent = text
	return result, nil
}
