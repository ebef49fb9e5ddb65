package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
)

// setOutput compiles the output schema, and sets call to a function whose structured output has the
// form that the revision of the call requires.
func (t *tool) setOutput() error {
	t.out = nil
	if t.def.OutputSchema != nil {
		text, err := codec.Marshal(t.def.OutputSchema)
		if err != nil {
			return err
		}
		if t.out, err = schemas.NewOutput(text); err != nil {
			return err
		}
	}
	wrapped := t.wrapping() != nil
	if !t.plain && !wrapped {
		return nil
	}
	call, always := t.call, t.plain && t.out != nil && !wrapped // the author has described the object
	t.call = func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, err := call(ctx, c, arguments)
		if err != nil || result == nil || result.StructuredContent == nil || c.traits().AnyOutput && !always {
			return result, err
		}
		if !t.plain {
			result = new(*result) // the function may return it again
		}
		result.StructuredContent = slices.Concat([]byte(`{"`+schemas.ResultMember+`":`), result.StructuredContent, []byte{'}'})
		return result, nil
	}
	return nil
}

// wrapping returns the output schema for sessions, or nil if they have the same as other revisions.
func (t *tool) wrapping() *mcp.ToolOutputSchema {
	if t.out == nil {
		return nil
	}
	return t.out.Wrapping
}

// checkOutput rejects structured output that does not comply with the tool's output schema or, in a
// session, is not an object (MCP tools, "Structured Content" and "Output Schema").
func (t *tool) checkOutput(c *Call, result *mcp.CallToolResult) error {
	if text := result.StructuredContent; text != nil && !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte{'{'}) && !c.traits().AnyOutput {
		return internalError("structured output of the tool is not a JSON object")
	}
	if t.out == nil || result.Failed() {
		return nil
	}
	faults := "it is missing"
	if result.StructuredContent != nil {
		faults = t.out.Check(result.StructuredContent, !c.traits().AnyOutput)
	}
	if faults == "" {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: structured output does not comply with the output schema of the tool: " + schemas.FirstFault(faults)}
}
