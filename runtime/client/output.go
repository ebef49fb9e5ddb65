package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// OutputError is returned if the structured content of a result does not comply with the output
// schema of its tool (MCP tools, "Output Schema"), or if the check takes too many steps. A schema
// that does not compile, or that is too large, is ignored and logged.
type OutputError struct {
	Tool   string
	Faults string              // one per line
	Result *mcp.CallToolResult // the result as received
}

// Error returns the name of the tool and the faults.
func (e *OutputError) Error() string {
	return fmt.Sprintf("client: output of tool %q does not comply with its schema: %s", e.Tool, e.Faults)
}

// outputs caches the compiled output schemas of tools. The zero value is ready to use.
type outputs struct {
	mu       sync.Mutex
	compiled map[*mcp.Tool]*output // by cached tool
	weight   int                   // of all schemas
}

// output is the output schema of a tool. Its fields are set before done is closed.
type output struct {
	done   chan struct{}
	schema *toolschema.Schema // nil if it does not compile
	err    error
}

// Limits of the cached schemas. At a limit, all are dropped.
const (
	maxOutputs      = 1000
	maxOutputWeight = 16 << 20 // bytes, about
)

// clear drops the schemas of a replaced list of tools, because their keys keep the tools in memory.
func (x *outputs) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.compiled, x.weight = nil, 0
}

// schema returns the compiled output schema of a tool, or nil if the tool has none or if it does
// not compile. Only the first call for a tool returns the error of the compilation. A server chooses
// the schema, and compilation cannot be interrupted. So it runs in a goroutine of its own, and
// callers that need the schema leave when ctx ends.
func (x *outputs) schema(ctx context.Context, tool *mcp.Tool) (s *toolschema.Schema, fault, err error) {
	if tool.OutputSchema == nil {
		return nil, nil, nil
	}
	x.mu.Lock()
	o, known := x.compiled[tool]
	if !known {
		if x.compiled == nil || len(x.compiled) >= maxOutputs || x.weight >= maxOutputWeight {
			x.compiled, x.weight = map[*mcp.Tool]*output{}, 0
		}
		o = &output{done: make(chan struct{})}
		x.compiled[tool] = o
		go x.compile(o, tool)
	}
	x.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if known {
		return o.schema, nil, nil
	}
	return o.schema, o.err, nil
}

// compile compiles the output schema of a tool.
func (x *outputs) compile(o *output, tool *mcp.Tool) {
	defer close(o.done)
	defer boundary.Catch(&o.err)
	text, err := codec.Marshal(tool.OutputSchema)
	if err == nil {
		o.schema, err = toolschema.Compile(text)
	}
	if o.err = err; err != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.compiled[tool] == o {
		x.weight += o.schema.Weight()
	}
}

// checkOutput returns result if it complies with the output schema of its tool, and an
// [*OutputError] otherwise. It first uses the cached description of the tool. If the result does
// not comply with that, the tool may have changed: checkOutput fetches the list again and uses the
// new description.
func (c *Client) checkOutput(ctx context.Context, name string, result *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	tool := c.cachedTool(name)
	if tool == nil || result.Failed() {
		return result, nil
	}
	faults, err := c.faults(ctx, tool, result)
	if err != nil {
		return nil, err
	}
	if faults == "" {
		return result, nil
	}
	c.tools.changed()
	now, err := c.Tool(ctx, name)
	if err == nil {
		if faults, err = c.faults(ctx, now, result); err != nil {
			return nil, err
		}
	} else if errors.Is(err, ErrUnknown) {
		faults = "" // the tool was removed after the call; the schema it had then is unknown
	}
	if faults != "" {
		return nil, &OutputError{name, faults, result}
	}
	return result, nil
}

// cachedTool returns the cached description of a tool, or nil.
func (c *Client) cachedTool(name string) *mcp.Tool {
	return c.tools.cachedItem(name)
}

// faults returns the faults of a result under the output schema of its tool, or "". The error is
// that of ctx.
func (c *Client) faults(ctx context.Context, tool *mcp.Tool, result *mcp.CallToolResult) (string, error) {
	s, fault, err := c.outputs.schema(ctx, tool)
	if fault != nil {
		c.log.Warn("output schema ignored", "tool", tool.Name, "error", fault)
	}
	switch {
	case s == nil:
		return "", err
	case len(result.StructuredContent) == 0:
		return "no structured content", nil
	}
	return s.Check(ctx, result.StructuredContent)
}

// Text returns the text blocks of a result, separated by line feeds. It returns a [*ToolError] if the
// tool failed. Other content is skipped; see [mcp.CallToolResult].
func Text(r *mcp.CallToolResult) (string, error) {
	switch {
	case r == nil:
		return "", errors.New("client: text: no result")
	case r.Failed():
		return "", &ToolError{r}
	}
	var texts []string
	for _, block := range r.Content {
		if t, ok := block.(*mcp.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n"), nil
}

// Output decodes the structured content of a result into a T with package codec/value. If T is not
// an object, such as a slice, Output decodes the member result of the structured content instead:
// servers put output that is not an object there. Output returns a [*ToolError] if the tool failed.
func Output[T any](r *mcp.CallToolResult) (out T, err error) {
	switch {
	case r == nil:
		return out, errors.New("client: output: no result")
	case r.Failed():
		return out, &ToolError{r}
	case len(r.StructuredContent) == 0:
		return out, errors.New("client: output: no structured content")
	}
	if err := value.Decode(r.StructuredContent, &out); err != nil {
		var wrapped struct {
			Result *T `json:"result"`
		}
		if value.Decode(r.StructuredContent, &wrapped) == nil && wrapped.Result != nil {
			return *wrapped.Result, nil
		}
		return out, fmt.Errorf("client: output: structured content: %w", err)
	}
	return out, nil
}
