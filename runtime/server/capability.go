package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
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
