package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// hello returns the result of initialize. It fails if the author's function for the capabilities
// panics.
func (s *Server) hello(tasks *task.Manager, list bool) (*mcp.InitializeResult, error) {
	result := &mcp.InitializeResult{ServerInfo: s.cfg.Info, Capabilities: s.capabilities(tasks, list)}
	if s.cfg.Instructions != "" {
		result.Instructions = &s.cfg.Instructions
	}
	if s.cfg.Capabilities == nil {
		return result, nil
	}
	err := boundary.Run(func() error {
		s.cfg.Capabilities(&result.Capabilities)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("server: capabilities: %w", err)
	}
	return result, nil
}

// capabilities returns the capabilities for the features that the server has (MCP lifecycle,
// "Capability Negotiation").
func (s *Server) capabilities(tasks *task.Manager, list bool) mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: json.RawMessage(`{}`)}
	if !s.tools.empty() || s.raw(mcp.MethodToolsList, mcp.MethodToolsCall) {
		c.Tools = &mcp.ServerCapabilitiesTools{ListChanged: new(true)}
	}
	if !s.resources.empty() || !s.templates.empty() ||
		s.raw(mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodResourcesTemplatesList) {
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)}
	}
	if !s.prompts.empty() || s.raw(mcp.MethodPromptsList, mcp.MethodPromptsGet) {
		c.Prompts = &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)}
	}
	if s.completes() || s.raw(mcp.MethodCompletionComplete) {
		c.Completions = json.RawMessage(`{}`)
	}
	if tasks != nil {
		c.Tasks = receiver.ServerCapabilities(list)
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

// receive is the middleware that removes members from the result of initialize that its revision
// does not have, drops cached roots when the client announces changes, and enforces
// [Config.CallRate]. The limit applies to the request and not to the work of its task, which may
// run long after it, or again.
func (p *peer) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if p.calls != nil && p.s.limited(req) && !p.calls.Allow() {
			return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "overloaded: too many calls, try again later"}
		}
		if req.Method == mcp.MethodNotificationsRootsListChanged {
			p.roots.changed()
		}
		result, err := next(ctx, req)
		if hello, ok := result.(*mcp.InitializeResult); ok && err == nil {
			return projectHello(mcp.Revision(hello.ProtocolVersion), hello), nil
		}
		return result, err
	}
}

// receiveTasks and sendTasks are the middleware for tasks that the client runs. Sessions without
// such tasks bypass them.
func (p *peer) receiveTasks(next session.Handler) session.Handler {
	related := next
	for _, m := range p.s.ofTasks.Receiving {
		related = m(related)
	}
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if p.asksForTasks.Load() {
			return related(ctx, req)
		}
		return next(ctx, req)
	}
}

func (p *peer) sendTasks(next session.Sender) session.Sender {
	related := next
	for _, m := range p.s.ofTasks.Sending {
		related = m(related)
	}
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if p.asksForTasks.Load() {
			return related(ctx, call)
		}
		return next(ctx, call)
	}
}
