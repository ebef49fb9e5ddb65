package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// DeclareExtension adds an extension to the capabilities that the server declares when a session
// opens (MCP extensions, "Negotiation"). Id has a prefix, such as
// "io.modelcontextprotocol/ui". Settings is a JSON object; nil means no settings. A second
// declaration of an extension replaces its settings. DeclareExtension fails if id or settings are
// invalid. The error is also recorded, see [Server.Err].
func (s *Server) DeclareExtension(id string, settings json.RawMessage) error {
	return s.record(s.declareExtension(id, settings))
}

func (s *Server) declareExtension(id string, settings json.RawMessage) error {
	if prefix, name, _ := strings.Cut(id, "/"); prefix == "" || name == "" || session.CheckMetaKey(id) != nil {
		return fmt.Errorf("server: extension %q: want an identifier with a prefix, such as \"com.example/name\"", id)
	}
	if settings == nil {
		settings = json.RawMessage(`{}`)
	}
	var members map[string]json.RawMessage
	if err := codec.Unmarshal(settings, value.Of(&members)); err != nil || members == nil {
		return fmt.Errorf("server: extension %q: settings are not a JSON object", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.extensions == nil {
		s.extensions = map[string]json.RawMessage{}
	}
	s.extensions[id] = bytes.Clone(settings)
	s.features.Add(1)
	return nil
}

// declaredExtensions returns the member extensions of the capabilities, or nil if there are none.
func (s *Server) declaredExtensions() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.extensions) == 0 {
		return nil
	}
	text, err := codec.Marshal(value.Of(s.extensions))
	if err != nil {
		panic(err) // not reached: ids are UTF-8, and settings are JSON
	}
	return text
}

// initializeResult returns the result of initialize. It fails if [Features.Capabilities] panics.
func (s *Server) initializeResult() (*mcp.InitializeResult, error) {
	result := &mcp.InitializeResult{ServerInfo: s.cfg.Info, Capabilities: s.capabilities()}
	if s.cfg.Instructions != "" {
		result.Instructions = &s.cfg.Instructions
	}
	if s.cfg.Features.Capabilities == nil {
		return result, nil
	}
	err := boundary.Run(func() error {
		s.cfg.Features.Capabilities(&result.Capabilities)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("server: Config.Features.Capabilities: %w", err)
	}
	return result, nil
}

// capabilities returns the capabilities for the features that the server has (MCP lifecycle,
// "Capability Negotiation"). They include tasks.list; see undeclareList.
func (s *Server) capabilities() mcp.ServerCapabilities {
	c := mcp.ServerCapabilities{Logging: json.RawMessage(`{}`)}
	if !s.tools.empty() || s.hasMethod(mcp.MethodToolsList, mcp.MethodToolsCall) {
		c.Tools = &mcp.ServerCapabilitiesTools{ListChanged: new(true)}
	}
	if !s.resources.empty() || !s.templates.empty() ||
		s.hasMethod(mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodResourcesTemplatesList) {
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)}
	}
	if !s.prompts.empty() || s.hasMethod(mcp.MethodPromptsList, mcp.MethodPromptsGet) {
		c.Prompts = &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)}
	}
	if s.hasCompletions() || s.hasMethod(mcp.MethodCompletionComplete) {
		c.Completions = json.RawMessage(`{}`)
	}
	c.Extensions = s.declaredExtensions()
	if s.tasks.Load() != nil {
		c.Tasks = receiver.ServerCapabilities(true)
	}
	return c
}

// undeclareList returns the result of initialize without the capability tasks.list. A client
// without a principal cannot be distinguished from others, and would list their tasks, too (MCP
// tasks, "Task Isolation and Access Control").
func undeclareList(result *mcp.InitializeResult) *mcp.InitializeResult {
	if result.Capabilities.Tasks == nil {
		return result
	}
	tasks := *result.Capabilities.Tasks
	tasks.List = nil
	out := *result // the session holds the original
	out.Capabilities.Tasks = &tasks
	return &out
}

// hasMethod reports whether [Features.Methods] has a handler for any of the methods.
func (s *Server) hasMethod(methods ...string) bool {
	for _, m := range methods {
		if s.cfg.Features.Methods[m] != nil {
			return true
		}
	}
	return false
}

// receive is the receiving middleware of a session. It removes members from the result of
// initialize that the negotiated revision does not define. It drops the cached roots when the
// client announces a change. It calls [Hooks.Initialized] and RootsChanged. It enforces
// [Limits.Calls] on requests, but not on the work of their tasks, which may run much later, or
// again. It rejects requests with too few scopes, and tasks/list of a client without a principal.
func (p *peer) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if err := p.admit(ctx, req); err != nil {
			return nil, err
		}
		switch req.Method {
		case mcp.MethodNotificationsInitialized:
			if f := p.s.cfg.Hooks.Initialized; f != nil && req.IsNotification() && p.initialized.CompareAndSwap(false, true) {
				f(ctx, newCall(ctx, p))
			}
		case mcp.MethodNotificationsRootsListChanged:
			p.roots.changed()
			if f := p.s.cfg.Hooks.RootsChanged; f != nil && req.IsNotification() {
				f(ctx, newCall(ctx, p))
			}
		case mcp.MethodTasksList:
			if session.Principal(ctx) == "" {
				return nil, jsonrpc.MethodNotFound(req.Method)
			}
		}
		result, err := next(ctx, req)
		if handshake, ok := result.(*mcp.InitializeResult); ok && err == nil {
			if session.Principal(ctx) == "" {
				handshake = undeclareList(handshake)
			}
			return results.ProjectInitialize(mcp.Revision(handshake.ProtocolVersion), handshake), nil
		}
		return result, err
	}
}

// admit returns an error if the client calls too often, or its token has too few scopes.
func (p *peer) admit(ctx context.Context, req *session.Request) error {
	if p.s.cfg.Limits.Calls > 0 && p.s.limited(req) && !allow(p.limitsOf(ctx).calls) {
		return &jsonrpc.Error{Code: session.CodeOverloaded, Message: "overloaded: too many calls, try again later"}
	}
	return p.s.permit(ctx, req.Method, req.Params)
}

// receiveTasks is the receiving middleware for tasks that the client runs. Sessions without such
// tasks bypass it.
func (p *peer) receiveTasks(next session.Handler) session.Handler {
	related := next
	for _, m := range p.s.taskMiddleware.Receiving {
		related = m(related)
	}
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if p.requestsTasks.Load() {
			return related(ctx, req)
		}
		return next(ctx, req)
	}
}

// sendTasks is the sending middleware for tasks that the client runs. Sessions without such tasks
// bypass it.
func (p *peer) sendTasks(next session.Sender) session.Sender {
	related := next
	for _, m := range p.s.taskMiddleware.Sending {
		related = m(related)
	}
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if p.requestsTasks.Load() {
			return related(ctx, call)
		}
		return next(ctx, call)
	}
}
