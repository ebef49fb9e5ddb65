package client

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Limits of partial results.
const (
	maxParts      = 10_000
	maxPartsBytes = 64 << 20 // in all parts except the first
)

// fetchParts fetches the remaining parts of a result and returns the combined result. If the tool
// does not announce partial results, it returns first.
func (c *Client) fetchParts(ctx context.Context, k *call, first *mcp.CallToolResult) (*mcp.CallToolResult, error) {
	tool := c.cachedTool(k.params.Name)
	if tool == nil || tool.Meta == nil {
		return first, nil
	}
	if announced, _ := tool.Meta.Extra.Get(partial.PartialResultsMeta); string(announced) != "true" {
		return first, nil
	}
	token, more, err := partial.TokenOf(first)
	if err != nil || !more {
		return first, err
	}
	var opts []session.Option
	if k.progress != nil {
		opts = append(opts, session.OnProgress(k.progress))
	}
	if k.timeout != nil {
		opts = append(opts, session.Timeout(*k.timeout))
	}
	params := k.params
	params.Task = nil
	o, err := partial.Continue(c.waiting(opts...), mcp.MethodToolsCall, &params, token)
	if err != nil {
		return nil, err
	}
	content := first.Content
	received := 0
	for n := 2; ; n++ {
		if n > maxParts {
			return nil, fmt.Errorf("client: result of tool %q has more than %d parts", k.params.Name, maxParts)
		}
		raw, err := o.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("client: part %d of the result of tool %q: %w", n, k.params.Name, err)
		}
		if received += len(raw); received > maxPartsBytes {
			return nil, fmt.Errorf("client: parts of the result of tool %q have more than %d bytes", k.params.Name, maxPartsBytes)
		}
		part := new(mcp.CallToolResult)
		if err := codec.Unmarshal(raw, part, codec.AllowSize(raw)...); err != nil {
			return nil, fmt.Errorf("client: part %d of the result of tool %q: %w", n, k.params.Name, err)
		}
		content = append(content, part.Content...)
		if _, more := o.Token(); !more {
			part.Content = content
			return part, nil
		}
	}
}
