package client

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// fieldsOf returns the arguments of a tool that a client over HTTP repeats in header fields. It
// fails if an annotation of the schema is invalid.
func fieldsOf(tool *mcp.Tool) ([]modern.Field, error) {
	text, err := codec.Marshal(&tool.InputSchema)
	if err != nil {
		return nil, err
	}
	return modern.ReceivedFields(text)
}

// mirrors caches the arguments of tools that are repeated in header fields. The zero value is ready
// to use.
type mirrors struct {
	mu    sync.Mutex
	known map[*mcp.Tool][]modern.Field
}

// clear drops the arguments of a replaced list of tools.
func (x *mirrors) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known = nil
}

// of returns the fields of a cached tool.
func (x *mirrors) of(tool *mcp.Tool) []modern.Field {
	x.mu.Lock()
	defer x.mu.Unlock()
	found, ok := x.known[tool]
	if !ok {
		found, _ = fieldsOf(tool) // the list has no invalid tools
		if x.known == nil {
			x.known = map[*mcp.Tool][]modern.Field{}
		}
		x.known[tool] = found
	}
	return found
}

// mirrorsHeaders reports whether arguments are repeated in header fields.
func (c *Client) mirrorsHeaders() bool { return c.overHTTP && c.session.Traits().ParamHeaders }

// withMirrors returns a context for a call with the header fields of its arguments. It returns ctx
// itself if the list of tools is not cached.
func (c *Client) withMirrors(ctx context.Context, p *mcp.CallToolRequestParams) context.Context {
	if !c.mirrorsHeaders() {
		return ctx
	}
	tool := c.cachedTool(p.Name)
	if tool == nil {
		return ctx
	}
	h := modern.FieldHeader(c.mirrors.of(tool), p.Arguments)
	if h == nil {
		return ctx
	}
	return modern.WithParamHeaders(ctx, h)
}

// usableTools removes the tools whose schema a client over HTTP must reject (MCP Streamable HTTP,
// "Schema Extension").
func (c *Client) usableTools(tools []mcp.Tool) []mcp.Tool {
	if !c.mirrorsHeaders() {
		return tools
	}
	usable := tools[:0]
	for i := range tools {
		if _, err := fieldsOf(&tools[i]); err != nil {
			c.log.Warn("invalid tool dropped", "tool", tools[i].Name, "error", err)
			continue
		}
		usable = append(usable, tools[i])
	}
	return usable
}
