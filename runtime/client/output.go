package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/mcp"
)

// OutputError says that the structured content of a result does not comply with the output schema of
// its tool (MCP tools, "Output Schema").
type OutputError struct {
	Tool   string
	Faults string              // a line for each
	Result *mcp.CallToolResult // as it came
}

// Error says what is wrong.
func (e *OutputError) Error() string {
	return fmt.Sprintf("client: the output of tool %s does not comply with its schema: %s", e.Tool, e.Faults)
}

// outputs holds results against the output schemas of tools. The zero value is ready.
type outputs struct {
	mu       sync.Mutex
	compiled map[*mcp.Tool]*toolschema.Schema // by the tool as it is kept; nil if the schema is none
}

// maxOutputs is how many schemas are kept.
const maxOutputs = 1000

// clear drops the schemas of a replaced list of tools, as they keep its tools in memory.
func (x *outputs) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.compiled = nil
}

// schema returns the output schema of a tool, or nil if it has none that can be used.
func (x *outputs) schema(tool *mcp.Tool) (*toolschema.Schema, error) {
	if tool.OutputSchema == nil {
		return nil, nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if s, ok := x.compiled[tool]; ok {
		return s, nil
	}
	text, err := codec.Marshal(tool.OutputSchema)
	var s *toolschema.Schema
	if err == nil {
		s, err = toolschema.Compile(text)
	}
	if x.compiled == nil || len(x.compiled) >= maxOutputs {
		x.compiled = map[*mcp.Tool]*toolschema.Schema{}
	}
	x.compiled[tool] = s
	return s, err
}

// checked returns a result of a tool, or an [*OutputError]. It first uses the cached description of
// the tool. If the result does not comply with that, the tool may have changed: checked fetches the
// list anew and decides by that.
func (c *Client) checked(ctx context.Context, name string, result *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	tool := c.knownTool(name)
	if tool == nil || isTrue(result.IsError) {
		return result, nil
	}
	faults := c.faults(tool, result)
	if faults == "" {
		return result, nil
	}
	c.tools.changed()
	now, err := c.Tool(ctx, name)
	if err == nil {
		faults = c.faults(now, result)
	} else if errors.Is(err, ErrUnknown) {
		faults = "" // the tool existed when it was called, with a schema that the client has not received
	}
	if faults != "" {
		return nil, &OutputError{name, faults, result}
	}
	return result, nil
}

// knownTool returns the cached description of a tool, or nil.
func (c *Client) knownTool(name string) *mcp.Tool {
	return c.tools.known(func(t *mcp.Tool) bool { return t.Name == name })
}

// faults returns the faults of a result under the output schema of its tool, or "".
func (c *Client) faults(tool *mcp.Tool, result *mcp.CallToolResult) string {
	s, err := c.outputs.schema(tool)
	if err != nil {
		c.log.Warn("output schema not used", "tool", tool.Name, "error", err)
	}
	switch {
	case s == nil:
		return ""
	case len(result.StructuredContent) == 0:
		return "there is no structured content"
	}
	return s.Check(result.StructuredContent)
}

// Output reads the structured content of a result into a T, as package codec/value reads it. The error
// is a [*ToolError] if the tool has failed.
func Output[T any](r *mcp.CallToolResult) (out T, err error) {
	switch {
	case r == nil:
		return out, errors.New("client: output: there is no result")
	case isTrue(r.IsError):
		return out, &ToolError{r}
	case len(r.StructuredContent) == 0:
		return out, errors.New("client: the result has no structured content")
	}
	if err := value.Decode(r.StructuredContent, &out); err != nil {
		return out, fmt.Errorf("client: structured content: %w", err)
	}
	return out, nil
}
