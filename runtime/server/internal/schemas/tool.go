package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// Dialects returns the URIs of the dialects that schemas of tools may name in $schema, the default
// first.
func Dialects() []string { return toolschema.Dialects() }

// Input is the compiled input schema of a tool. Its methods are safe for concurrent use, except
// FindDefaults.
type Input struct {
	text     json.RawMessage
	schema   *toolschema.Schema
	defaults *defaults // nil for none
}

// NewInput compiles the input schema of a tool.
func NewInput(text json.RawMessage) (in *Input, err error) {
	if kind, _ := codec.Member(text, "type"); string(kind) != `"object"` {
		return nil, errors.New(`type is not "object"`)
	}
	in = &Input{text: text}
	in.schema, err = toolschema.Compile(text)
	return in, err
}

// FindDefaults makes Complete add the defaults in the schema. It fails if the schema, or the type
// that decode decodes arguments into, does not admit one of them.
func (in *Input) FindDefaults(decode func(json.RawMessage) error) (err error) {
	f := &finder{in.schema, decode}
	in.defaults, err = f.defaultsIn(in.text, location{arguments: func(value string) string { return value }})
	return err
}

// Check returns the faults of arguments, one a line, or "" if there is none. It fails if ctx ends.
func (in *Input) Check(ctx context.Context, arguments json.RawMessage) (faults string, err error) {
	return in.schema.Check(ctx, arguments)
}

// Complete adds the defaults of absent members to arguments. It reports whether it added any.
func (in *Input) Complete(arguments json.RawMessage) (json.RawMessage, bool) {
	return in.defaults.addTo(arguments)
}

// ResultMember is the member that holds output that is not an object, in the object of sessions.
const ResultMember = "result"

// Output is the compiled output schema of a tool. Its methods are safe for concurrent use.
//
// Revisions with sessions require structured output to be an object. In sessions, the server sends
// other output as a member of an object.
type Output struct {
	// Wrapping is the schema of an object with the output as its member. It is nil if the output is
	// an object.
	Wrapping *mcp.ToolOutputSchema

	schema, wrapping *toolschema.Schema
}

// NewOutput compiles the output schema of a tool.
func NewOutput(text json.RawMessage) (out *Output, err error) {
	out = new(Output)
	if out.schema, err = toolschema.Compile(text); err != nil {
		return nil, err
	}
	if kind, _ := codec.Member(text, "type"); string(kind) == `"object"` {
		return out, nil
	}
	return out, out.wrap(text)
}

// wrap sets the schema of the object with the output.
func (o *Output) wrap(schema json.RawMessage) error {
	members, err := membersOf(schema)
	if err != nil {
		return err
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
		return err
	}
	if bytes.Contains(inner, []byte(`"$ref"`)) {
		var doc any
		if err := codec.Unmarshal(inner, value.Of(&doc)); err != nil {
			return err
		}
		moveRefs(doc, fragment([]string{"properties", ResultMember}))
		if inner, err = codec.Marshal(value.Of(doc)); err != nil {
			return err
		}
	}
	o.Wrapping = &mcp.ToolOutputSchema{
		Schema: dialect, Type: new("object"), Required: []string{ResultMember},
		Properties: slices.Concat([]byte(`{"`+ResultMember+`":`), inner, []byte{'}'}),
	}
	o.Wrapping.Extra.Set("additionalProperties", json.RawMessage("false"))
	text, err := codec.Marshal(o.Wrapping)
	if err != nil {
		return err
	}
	o.wrapping, err = toolschema.Compile(text)
	return err
}

// Check returns the faults of structured output, one a line, or "" if there is none. inSession says
// that output is in the object of sessions, if it is not one itself.
func (o *Output) Check(output json.RawMessage, inSession bool) string {
	schema := o.schema
	if o.wrapping != nil && inSession {
		schema = o.wrapping
	}
	// A handler that has returned has its result, even if the call ends meanwhile.
	faults, _ := schema.Check(context.Background(), output)
	return faults
}

// FirstFault returns the first of several faults and the number of the others, because the message
// of an error should be one sentence (JSON-RPC 2.0, Section 5.1).
func FirstFault(faults string) string {
	first, rest, more := strings.Cut(strings.TrimSpace(faults), "\n")
	if !more {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
}
