package server

import (
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

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
		return nil, fmt.Errorf("server: Options.Features.Capabilities: %w", err)
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
	if s.tasks.Load() != nil {
		c.Tasks = receiver.ServerCapabilities(true)
	}
	s.declare(&c, func(e *extension) bool { return e.in(latest()) })
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
