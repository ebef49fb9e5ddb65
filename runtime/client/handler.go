package client

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// handler returns the handler of the server's requests and notifications. Those of
// [Features].Methods go to their handlers, and others that the protocol does not define to rest, if
// it is not nil.
func (c *Client) handler(rest session.Handler) session.Handler {
	requests, notifications := requestHandler{c: c}, c.notificationHandler()
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if h := c.options.Features.Methods[req.Method]; h != nil {
			return h(ctx, req)
		}
		if _, ok := mcp.LookupMethod(req.Method); !ok && rest != nil {
			return rest(ctx, req)
		}
		if req.IsNotification() && c.ignores(req.Method) {
			return nil, nil // without checking and decoding the params
		}
		if req.Method == mcp.MethodElicitationCreate {
			req = withSchema(req)
		}
		if req.IsNotification() {
			return nil, mcp.DispatchClientNotification(ctx, notifications, req.Revision(), req.Method, req.Params)
		}
		return mcp.DispatchClient(ctx, requests, req.Revision(), req.Method, req.Params)
	}
}

// withSchema returns a request for input with the schema of a form without fields if it has none.
// The protocol requires the schema, but servers of the official Go SDK leave it out if a form has
// no fields, and clients of that SDK accept it.
func withSchema(req *session.Request) *session.Request {
	if _, ok := codec.Member(req.Params, "requestedSchema"); ok {
		return req
	}
	if mode, ok := codec.Member(req.Params, "mode"); ok && string(mode) != `"form"` {
		return req
	}
	if _, ok := codec.Member(req.Params, "message"); !ok {
		return req // invalid anyway
	}
	copied := req.Clone()
	copied.Params = jsonedit.With(req.Params, "requestedSchema", json.RawMessage(`{"type":"object","properties":{}}`))
	return copied
}

// ignores reports whether a notification of the protocol has no effect: neither the client nor the
// host handles it.
func (c *Client) ignores(method string) bool {
	switch method {
	case mcp.MethodNotificationsToolsListChanged, mcp.MethodNotificationsResourcesListChanged, mcp.MethodNotificationsResourcesUpdated,
		mcp.MethodNotificationsPromptsListChanged, mcp.MethodNotificationsElicitationComplete:
		return false // see notificationHandler
	}
	return c.options.Notifications == nil
}

// server returns the server's name and version. It waits for them, because an input request may
// arrive before Connect has returned.
func (c *Client) server(ctx context.Context) (mcp.Implementation, error) {
	select {
	case <-c.opened:
		return c.session.Server().ServerInfo, nil
	case <-ctx.Done():
		return mcp.Implementation{}, context.Cause(ctx)
	}
}

// admit returns an error if the server has reached its limit of input requests.
func (c *Client) admit() error {
	if !c.limit.Allow() {
		return &jsonrpc.Error{Code: session.CodeOverloaded, Message: "rate limit of input requests reached"}
	}
	return nil
}

// requestHandler handles the requests of the server.
type requestHandler struct {
	mcp.UnimplementedClientHandler
	c *Client
}

// ListRoots handles roots/list.
func (h requestHandler) ListRoots(ctx context.Context, _ *mcp.RequestParams) (*mcp.ListRootsResult, error) {
	if h.c.options.Input.Roots == nil {
		return nil, jsonrpc.MethodNotFound(mcp.MethodRootsList)
	}
	check := h.c.options.Input.CheckRoot
	if check == nil {
		check = accessible
	}
	exposed := []mcp.Root{}
	for _, root := range h.c.options.Input.Roots.list() {
		if err := check(ctx, root); err != nil {
			h.c.log.Warn("root not exposed", "uri", root.URI, "error", err)
			continue
		}
		exposed = append(exposed, root)
	}
	return &mcp.ListRootsResult{Roots: exposed}, nil
}

// notificationHandler handles the server's notifications and forwards them to the host.
type notificationHandler struct {
	mcp.ClientNotificationHandler // of the host
	c                             *Client
}

func (c *Client) notificationHandler() notificationHandler {
	if c.options.Notifications == nil {
		return notificationHandler{mcp.UnimplementedClientNotificationHandler{}, c}
	}
	return notificationHandler{c.options.Notifications, c}
}

// ToolListChanged handles notifications/tools/list_changed.
func (n notificationHandler) ToolListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.tools.changed()
	return n.ClientNotificationHandler.ToolListChanged(ctx, p)
}

// ResourceListChanged handles notifications/resources/list_changed.
func (n notificationHandler) ResourceListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.resources.changed()
	n.c.templates.changed()
	return n.ClientNotificationHandler.ResourceListChanged(ctx, p)
}

// PromptListChanged handles notifications/prompts/list_changed.
func (n notificationHandler) PromptListChanged(ctx context.Context, p *mcp.NotificationParams) error {
	n.c.prompts.changed()
	return n.ClientNotificationHandler.PromptListChanged(ctx, p)
}

// ResourceUpdated handles notifications/resources/updated.
func (n notificationHandler) ResourceUpdated(ctx context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	n.c.cache.drop(mcp.MethodResourcesRead, p.URI)
	return n.ClientNotificationHandler.ResourceUpdated(ctx, p)
}

// ElicitationComplete handles notifications/elicitation/complete. It ignores ids that are unknown
// or already complete (MCP elicitation, "Completion Notifications for URL Mode Elicitation").
func (n notificationHandler) ElicitationComplete(ctx context.Context, p *mcp.ElicitationCompleteNotificationParams) error {
	if !n.c.urls.finish(p.ElicitationID) {
		return nil
	}
	return n.ClientNotificationHandler.ElicitationComplete(ctx, p)
}
