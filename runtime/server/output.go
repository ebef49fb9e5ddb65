package server

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// Revisions with sessions require structured output to be an object. In sessions, the server sends
// other output as a member of an object.

// resultMember is the member that holds output that is not an object.
const resultMember = "result"

// wrapping is the schema of an object with the output of a tool as its member.
type wrapping struct {
	schema *toolschema.Schema
	def    *mcp.ToolOutputSchema
}

// setOutput compiles the output schema, and sets call to a function whose structured output has the
// form that the revision of the call requires.
func (t *tool) setOutput() error {
	t.out, t.wrapping = nil, nil
	if t.def.OutputSchema != nil {
		text, err := codec.Marshal(t.def.OutputSchema)
		if err != nil {
			return err
		}
		if t.out, err = toolschema.Compile(text); err != nil {
			return err
		}
		if kind, _ := codec.Member(text, "type"); string(kind) != `"object"` {
			if t.wrapping, err = newWrapping(text); err != nil {
				return err
			}
		}
	}
	if !t.plain && t.wrapping == nil {
		return nil
	}
	call, always := t.call, t.plain && t.out != nil && t.wrapping == nil // the author has described the object
	t.call = func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		result, err := call(ctx, c, arguments)
		if err != nil || result == nil || result.StructuredContent == nil || c.modern() && !always {
			return result, err
		}
		if !t.plain {
			result = new(*result) // the function may return it again
		}
		result.StructuredContent = slices.Concat([]byte(`{"`+resultMember+`":`), result.StructuredContent, []byte{'}'})
		return result, nil
	}
	return nil
}

// newWrapping returns the wrapping for an output schema.
func newWrapping(schema json.RawMessage) (*wrapping, error) {
	members, err := membersOf(schema)
	if err != nil {
		return nil, err
	}
	var dialect *string
	members = slices.DeleteFunc(members, func(m rawMember) bool {
		if m.name == "$schema" {
			codec.Unmarshal(m.value, value.Of(&dialect)) // Compile has checked it
		}
		return m.name == "$schema"
	})
	inner, err := marshalMembers(members)
	if err != nil {
		return nil, err
	}
	if bytes.Contains(inner, []byte(`"$ref"`)) {
		var doc any
		if err := codec.Unmarshal(inner, value.Of(&doc)); err != nil {
			return nil, err
		}
		moveRefs(doc, fragment([]string{"properties", resultMember}))
		if inner, err = codec.Marshal(value.Of(doc)); err != nil {
			return nil, err
		}
	}
	w := &wrapping{def: &mcp.ToolOutputSchema{
		Schema: dialect, Type: new("object"), Required: []string{resultMember},
		Properties: slices.Concat([]byte(`{"`+resultMember+`":`), inner, []byte{'}'}),
	}}
	w.def.Extra.Set("additionalProperties", json.RawMessage("false"))
	text, err := codec.Marshal(w.def)
	if err != nil {
		return nil, err
	}
	w.schema, err = toolschema.Compile(text)
	return w, err
}

// checkOutput rejects structured output that does not comply with the tool's output schema or, in a
// session, is not an object (MCP tools, "Structured Content" and "Output Schema").
func (t *tool) checkOutput(c *Call, result *mcp.CallToolResult) error {
	if text := result.StructuredContent; text != nil && !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte{'{'}) && !c.modern() {
		return internalError("structured output of the tool is not a JSON object")
	}
	schema := t.out
	if schema == nil || result.Failed() {
		return nil
	}
	if t.wrapping != nil && !c.modern() {
		schema = t.wrapping.schema
	}
	faults := "it is missing"
	if result.StructuredContent != nil {
		// A handler that has returned has its result, even if the call ends meanwhile.
		faults, _ = schema.Check(context.Background(), result.StructuredContent)
	}
	if faults == "" {
		return nil
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: structured output does not comply with the output schema of the tool: " + firstFault(faults)}
}
