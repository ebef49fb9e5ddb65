package client

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// handler serves what the server asks and tells; methods that the protocol does not have go to rest,
// which may be nil.
func (c *Client) handler(rest session.Handler) session.Handler {
	own := session.ClientHandler(questions{c: c}, c.notices())
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if _, ok := mcp.LookupMethod(req.Method); !ok && rest != nil {
			return rest(ctx, req)
		}
		return own(ctx, req)
	}
}

// server returns who the server is. Questions may come before Connect has returned.
func (c *Client) server(ctx context.Context) (mcp.Implementation, error) {
	select {
	case <-c.opened:
		return c.session.Server().ServerInfo, nil
	case <-ctx.Done():
		return mcp.Implementation{}, context.Cause(ctx)
	}
}

// admit lets a question in, unless there were too many.
func (c *Client) admit() error {
	if !c.limit.Allow() {
		return &jsonrpc.Error{Code: session.CodeOverloaded, Message: "the user has been asked too often"}
	}
	return nil
}

// questions answers the requests of the server.
type questions struct {
	mcp.UnimplementedClientHandler
	c *Client
}

// ListRoots answers roots/list.
func (q questions) ListRoots(ctx context.Context, _ *mcp.RequestParams) (*mcp.ListRootsResult, error) {
	if q.c.options.Roots == nil {
		return nil, jsonrpc.MethodNotFound(mcp.MethodRootsList)
	}
	check := q.c.options.CheckRoot
	if check == nil {
		check = Accessible
	}
	exposed := []mcp.Root{}
	for _, root := range q.c.options.Roots.List() {
		if err := check(ctx, root); err != nil {
			q.c.log.Warn("root not exposed", "uri", root.URI, "error", err)
			continue
		}
		exposed = append(exposed, root)
	}
	return &mcp.ListRootsResult{Roots: exposed}, nil
}

// notices takes what the server tells, and hands it on to the host.
type notices struct {
	mcp.ClientNotificationHandler // of the host
	c                             *Client
}

func (c *Client) notices() notices {
	if c.options.Notifications == nil {
		return notices{mcp.UnimplementedClientNotificationHandler{}, c}
	}
	return notices{c.options.Notifications, c}
}

// ToolListChanged takes notifications/tools/list_changed.
func (n notices) ToolListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.tools.changed()
	return n.ClientNotificationHandler.ToolListChanged(ctx, p)
}

// ResourceListChanged takes notifications/resources/list_changed.
func (n notices) ResourceListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.resources.changed()
	n.c.templates.changed()
	return n.ClientNotificationHandler.ResourceListChanged(ctx, p)
}

// PromptListChanged takes notifications/prompts/list_changed.
func (n notices) PromptListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.prompts.changed()
	return n.ClientNotificationHandler.PromptListChanged(ctx, p)
}

// ElicitationComplete takes notifications/elicitation/complete. Those about an id that is not known,
// or done, mean nothing (MCP elicitation, "Completion Notifications for URL Mode Elicitation").
func (n notices) ElicitationComplete(ctx context.Context, p *mcp.ElicitationCompleteNotificationParams) error {
	if !n.c.urls.finish(p.ElicitationID) {
		return nil
	}
	return n.ClientNotificationHandler.ElicitationComplete(ctx, p)
}
