package server

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// hello is how the server introduces itself. It is called with mu held.
func (s *Server) hello() *mcp.InitializeResult {
	result := &mcp.InitializeResult{ServerInfo: s.cfg.Info, Capabilities: s.capabilities()}
	if s.cfg.Instructions != "" {
		result.Instructions = &s.cfg.Instructions
	}
	return result
}

// capabilities are those of the features that there are (MCP lifecycle, "Capability Negotiation"). It is called with
// mu held.
func (s *Server) capabilities() mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: json.RawMessage(`{}`)}
	if !s.tools.empty() || s.raw("tools/list", "tools/call") {
		c.Tools = &mcp.ServerCapabilitiesTools{ListChanged: new(true)}
	}
	if !s.resources.empty() || !s.templates.empty() || s.raw("resources/list", "resources/read", "resources/templates/list") {
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)}
	}
	if !s.prompts.empty() || s.raw("prompts/list", "prompts/get") {
		c.Prompts = &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)}
	}
	if s.completes() || s.raw("completion/complete") {
		c.Completions = json.RawMessage(`{}`)
	}
	if s.tasks != nil {
		c.Tasks = receiver.ServerCapabilities(s.list)
	}
	if s.cfg.Capabilities != nil {
		s.cfg.Capabilities(&c)
	}
	return c
}

// raw reports whether one of the methods has a handler of the author's.
func (s *Server) raw(methods ...string) bool {
	for _, m := range methods {
		if s.cfg.Methods[m] != nil {
			return true
		}
	}
	return false
}

// introduce is the middleware that leaves out of the answer to initialize what its revision does not know.
func introduce(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		result, err := next(ctx, req)
		if hello, ok := result.(*mcp.InitializeResult); ok && err == nil {
			return projectHello(mcp.Revision(hello.ProtocolVersion), hello), nil
		}
		return result, err
	}
}
