package proxy

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// everything returns the capabilities for all features that the proxy can pass on.
func everything() mcp.ServerCapabilities {
	yes := json.RawMessage(`{}`)
	return mcp.ServerCapabilities{
		Tools:       &mcp.ServerCapabilitiesTools{ListChanged: new(true)},
		Prompts:     &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)},
		Resources:   &mcp.ServerCapabilitiesResources{ListChanged: new(true), Subscribe: new(true)},
		Completions: yes,
		Logging:     yes,
		Tasks:       receiver.ServerCapabilities(true),
	}
}

// add adds capabilities to c. It declares listChanged for all lists, because the lists of the proxy
// change when an upstream disconnects.
func add(c *mcp.ServerCapabilities, more mcp.ServerCapabilities) {
	all := everything()
	if more.Tools != nil {
		c.Tools = all.Tools
	}
	if more.Prompts != nil {
		c.Prompts = all.Prompts
	}
	if r := more.Resources; r != nil {
		subscribe := r.Subscribe != nil && *r.Subscribe || c.Resources != nil && c.Resources.Subscribe != nil && *c.Resources.Subscribe
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true)}
		if subscribe {
			c.Resources.Subscribe = new(true)
		}
	}
	if more.Completions != nil {
		c.Completions = more.Completions
	}
	if more.Logging != nil {
		c.Logging = more.Logging
	}
	c.Experimental = mergeObjects(c.Experimental, more.Experimental)
	c.Extensions = mergeObjects(c.Extensions, more.Extensions)
	addTasks(c, more.Tasks)
}

func addTasks(c *mcp.ServerCapabilities, more *mcp.ServerCapabilitiesTasks) {
	if more == nil {
		return
	}
	var tasks mcp.ServerCapabilitiesTasks
	if c.Tasks != nil {
		tasks = *c.Tasks
	}
	if more.List != nil {
		tasks.List = more.List
	}
	if more.Cancel != nil {
		tasks.Cancel = more.Cancel
	}
	if more.Requests != nil && more.Requests.Tools != nil && more.Requests.Tools.Call != nil {
		tasks.Requests = everything().Tasks.Requests
	}
	c.Tasks = &tasks
}

// describe returns the result of initialize with the capabilities and instructions of the upstreams
// and of the server itself.
func (c *client) describe(result *mcp.InitializeResult) *mcp.InitializeResult {
	out := *result
	out.Capabilities, out.Instructions = c.merge(result.Instructions)
	projected := mcp.Project(mcp.Revision(out.ProtocolVersion), &out)
	projected.Capabilities.Extensions = out.Capabilities.Extensions // negotiated in all revisions
	return projected
}

// discover serves server/discover.
func (c *client) discover(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	result, err := next(ctx, req)
	own, ok := result.(*mcp.DiscoverResult)
	if err != nil || !ok {
		return result, err
	}
	out := *own
	out.Capabilities, out.Instructions = c.merge(own.Instructions)
	out.Capabilities.Tasks = nil
	out.Capabilities.Extensions = withoutTasks(out.Capabilities.Extensions)
	return mcp.Project(req.Revision(), &out), nil
}

// merge returns the capabilities and instructions of the upstreams and of the server itself. For an
// upstream that is not connected, it declares all capabilities that the proxy can pass on.
func (c *client) merge(own *string) (all mcp.ServerCapabilities, merged *string) {
	all = *c.p.own.Load()
	var instructions []string
	if own != nil {
		instructions = append(instructions, *own)
	}
	for _, l := range c.links {
		conn := l.conn.Load()
		if conn == nil {
			add(&all, everything())
			continue
		}
		server := conn.session.Server()
		declared := server.Capabilities
		if conn.session.Traits().TasksByServer {
			declared.Extensions = withoutTasks(declared.Extensions)
		}
		// A server that declares the extension has its methods (Skills extension, "Capability
		// Negotiation"), and the proxy does not pass them on: skills of two upstreams may have one
		// URI.
		declared.Extensions = jsonedit.With(declared.Extensions, skills.ExtensionID, nil)
		add(&all, declared)
		if server.Instructions != nil && *server.Instructions != "" {
			instructions = append(instructions, *server.Instructions)
		}
	}
	if len(instructions) > 0 {
		merged = new(strings.Join(instructions, "\n\n"))
	}
	return all, merged
}

// withoutTasks returns the declared extensions without that for tasks, whose methods the proxy does
// not pass on.
func withoutTasks(extensions json.RawMessage) json.RawMessage {
	return jsonedit.With(extensions, tasks.ExtensionID, nil)
}
