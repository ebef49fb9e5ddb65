package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Tasks are the tasks of a server. Its methods are safe for concurrent use.
type Tasks struct {
	server    *server.MCPServer
	engine    *embedding.Engine
	tickets   tickets
	info      json.RawMessage // server info
	requests  requests
	resumable atomic.Bool // clients can resume streams; see EventStore
	warning   sync.Once   // about another EventStore
	waits     embedding.Waits
}

// Attach adds tasks to a server. Call it once for a server, before serving it and after adding its
// hooks: hooks that are added later do not see requests about tasks. Then serve it with
// [Tasks.Handler], [Tasks.ServeStdio], [Tasks.InProcess] or [Tasks.HandleMessage]. Over other
// transports, the server works as without Attach.
//
// A tool that was added before Attach and that Options.Tools does not name has the task support of
// its Execution. Over these transports, the tasks of the SDK itself are off, so tools of
// AddTaskTool cannot be called.
func Attach(s *server.MCPServer, o embed.Options) (*Tasks, error) {
	if s == nil {
		return nil, errors.New("mcpgo: the server is nil")
	}
	// The author may also have declared the task support of tools to the SDK.
	o.Tools = maps.Clone(o.Tools)
	if o.Tools == nil {
		o.Tools = make(map[string]embed.Tool)
	}
	for name, tool := range s.ListTools() {
		if _, named := o.Tools[name]; named || tool.Tool.Execution == nil {
			continue
		}
		switch tool.Tool.Execution.TaskSupport {
		case mcp.TaskSupportOptional:
			o.Tools[name] = embed.Tool{}
		case mcp.TaskSupportRequired:
			t := embed.Tool{}
			t.Mode = wire.TaskSupportRequired
			o.Tools[name] = t
		}
	}
	t := &Tasks{server: s}
	var err error
	if t.engine, err = embedding.New(o, backend{s}); err != nil {
		return nil, err
	}
	if t.info, err = serverInfo(s); err != nil {
		return nil, err
	}
	t.addHooks()
	s.Use(t.withPrincipal)
	return t, nil
}

// Start recovers the tasks of the store. The first HTTP request begins that in the background, so
// that plain requests do not depend on the store. To recover tasks earlier, call Start before
// serving. It returns the errors of [task.New]; the next call tries again.
func (t *Tasks) Start(ctx context.Context) error { return t.engine.Start(ctx) }

// Manager returns the [task.Manager], or nil before [Tasks.Start].
func (t *Tasks) Manager() *task.Manager { return t.engine.Manager() }

// Close ends all tasks. Durable tasks continue in the next process that opens the store; others
// fail. The store stays open.
func (t *Tasks) Close() error { return t.engine.Close() }

// withPrincipal is the middleware that adds the principal of a plain call to the context. The
// context of a task has that of the task.
func (t *Tasks) withPrincipal(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if c := carrierOf(ctx, t); c != nil {
			principal, err := t.engine.Principal(ctx, c.header, "")
			if err != nil {
				return nil, err
			}
			ctx = transport.WithPrincipal(ctx, principal)
		}
		return next(ctx, r)
	}
}

// serverInfo returns the server info. The SDK exports it only in results of initialize.
func serverInfo(s *server.MCPServer) (json.RawMessage, error) {
	// The author's hooks must not see this request, which is of no client.
	hooks := s.GetHooks()
	server.WithHooks(nil)(s)
	defer server.WithHooks(hooks)(s)
	response := s.HandleMessage(context.Background(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcpwire","version":""}}}`))
	r, ok := response.(mcp.JSONRPCResponse)
	if !ok {
		return nil, fmt.Errorf("mcpgo: server info: %v", response)
	}
	result, ok := r.Result.(mcp.InitializeResult)
	if !ok {
		return nil, fmt.Errorf("mcpgo: server info: unexpected result of type %T", r.Result)
	}
	return json.Marshal(result.ServerInfo)
}

// addHooks adds the hooks that intercept requests and declare tasks.
func (t *Tasks) addHooks() {
	hooks := t.server.GetHooks()
	if hooks == nil {
		hooks = new(server.Hooks)
		server.WithHooks(hooks)(t.server)
	}
	hooks.AddOnRequestInitialization(t.intercept)
	hooks.AddBeforeCallTool(func(ctx context.Context, _ any, request *mcp.CallToolRequest) {
		if carrierOf(ctx, t) != nil {
			request.Params.Task = nil // the SDK would run a task of its own
		}
	})
	hooks.AddOnError(func(ctx context.Context, id any, _ mcp.MCPMethod, _ any, err error) {
		// Notifications of the handler that cannot be sent also have its context, but no id.
		if s, ok := server.ClientSessionFromContext(ctx).(*taskSession); ok && s.server == t.server && id == s.id {
			s.failure = err
		}
	})
	hooks.AddAfterInitialize(func(ctx context.Context, _ any, _ *mcp.InitializeRequest, result *mcp.InitializeResult) {
		if carrierOf(ctx, t) != nil {
			t.editCapabilities(wire.MethodInitialize, wire.Revision(result.ProtocolVersion), &result.Capabilities)
		}
	})
	hooks.AddAfterDiscover(func(ctx context.Context, _ any, _ *mcp.DiscoverRequest, result *mcp.DiscoverResult) {
		if carrierOf(ctx, t) != nil {
			t.editCapabilities(wire.MethodServerDiscover, "", &result.Capabilities)
		}
	})
	hooks.AddAfterListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest, result *mcp.ListToolsResult) {
		c := carrierOf(ctx, t)
		if c == nil {
			return
		}
		var rev wire.Revision // "" for those without sessions
		if !server.IsModernRequest(ctx) {
			rev = sessionRevision(server.ClientSessionFromContext(ctx), c.header)
		}
		t.editTools(rev, result.Tools, result.NextCursor)
	})
}

// editCapabilities declares tasks. Only a part of the result passes through the engine, because the
// types of the SDK drop unknown members.
func (t *Tasks) editCapabilities(method string, version wire.Revision, c *mcp.ServerCapabilities) {
	type result struct {
		Version      wire.Revision           `json:"protocolVersion,omitempty"`
		Capabilities *mcp.ServerCapabilities `json:"capabilities"`
	}
	c.Tasks = nil // the tasks of the SDK itself are off
	text, err := json.Marshal(result{version, c})
	if err == nil {
		text, err = t.engine.Edit(method, version, text)
	}
	edited := result{Capabilities: new(mcp.ServerCapabilities)}
	if err == nil {
		err = json.Unmarshal(text, &edited)
	}
	if err != nil {
		return
	}
	c.Tasks = edited.Capabilities.Tasks
	c.Extensions = edited.Capabilities.Extensions
}

// editTools sets the task support of tools. Only their names pass through the engine, because the
// types of the SDK drop unknown members.
func (t *Tasks) editTools(rev wire.Revision, tools []mcp.Tool, next mcp.Cursor) {
	type tool struct {
		Name      string             `json:"name"`
		Execution *mcp.ToolExecution `json:"execution,omitempty"`
	}
	var list struct {
		Tools []tool     `json:"tools"`
		Next  mcp.Cursor `json:"nextCursor,omitempty"`
	}
	list.Next = next
	for i := range tools {
		list.Tools = append(list.Tools, tool{Name: tools[i].Name})
	}
	text, err := json.Marshal(list)
	if err == nil {
		text, err = t.engine.Edit(wire.MethodToolsList, rev, text)
	}
	if err != nil || json.Unmarshal(text, &list) != nil || len(list.Tools) != len(tools) {
		return
	}
	for i := range tools {
		tools[i].Execution = list.Tools[i].Execution
	}
}
