package server

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// tasksExtension returns the Tasks extension for the tasks of a Manager. Its middleware also serves
// the tasks of sessions, which are no extension.
func (s *Server) tasksExtension(m *task.Manager) Extension {
	e := Extension{
		ID: tasks.ExtensionID, Since: mcp.Revision20260728,
		Offered: func(declared *mcp.ServerCapabilities) bool { return declared.Tasks != nil },
		Methods: map[string]session.Handler{},
		Wrap:    receiver.Middleware(receiver.Options{Manager: m, Support: s.support}),
		Wraps:   func(m mcp.Method) bool { return !m.Notification && (m.Task || strings.HasPrefix(m.Name, "tasks/")) },
		Listen: map[string]func(context.Context, *Call, json.RawMessage) (Subscription, error){
			"taskIds": func(ctx context.Context, _ *Call, member json.RawMessage) (Subscription, error) {
				req, _ := session.FromContext(ctx)
				ids, err := receiver.Internals(boundary.Caller{}).WatchedIDs(req, member)
				return &watchedTasks{m: m, principal: strings.Clone(session.Principal(ctx)), ids: ids}, err
			},
		},
	}
	for _, method := range tasks.Methods() {
		if !method.Notification {
			e.Methods[method.Name] = nil
		}
	}
	return e
}

// watchedTasks is the [Subscription] to some tasks.
type watchedTasks struct {
	m         *task.Manager
	principal string
	ids       []string
	watch     taskrules.Watch[task.Record]
}

func (w *watchedTasks) Names() []string { return w.ids }

// Open acknowledges the tasks that belong to the principal.
func (w *watchedTasks) Open(ctx context.Context, changed func(id string)) (json.RawMessage, error) {
	watch, known, err := w.m.Internals(boundary.Caller{}).Watch(ctx, w.principal, w.ids, changed)
	if err != nil {
		return nil, task.WireError(err)
	}
	w.watch, w.ids = watch, nil
	return codec.Marshal(value.Of(append([]string{}, known...)))
}

func (w *watchedTasks) Read(ctx context.Context, id string, meta *mcp.NotificationMetaObject) (string, codec.Encoder) {
	if state := receiver.Internals(boundary.Caller{}).WatchedTask(ctx, w.watch, id, meta); state != nil {
		return tasks.MethodNotificationsTasks, state
	}
	return "", nil
}

func (w *watchedTasks) Close() { w.watch.Close() }

// extensionSupport is support for a request without a session. It rejects a call whose header does
// not repeat its arguments, before the call can be a task.
func (s *Server) extensionSupport(ctx context.Context, req *session.Request) (receiver.Support, error) {
	t := s.calledTool(ctx, req)
	if t == nil || t.support.Mode == "" {
		return receiver.Support{Mode: mcp.TaskSupportForbidden}, nil
	}
	support, err := t.supportFor(ctx, s, req.Params)
	if err != nil || len(t.fields) == 0 {
		return support, err
	}
	arguments, _ := codec.Member(req.Params, "arguments")
	return support, t.checkFields(newCall(ctx, s.peerFor(ctx, req)), arguments)
}
