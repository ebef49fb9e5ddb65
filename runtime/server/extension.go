package server

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// extensionTasks returns the Manager of the tasks for modern requests, or nil if the server has not
// declared the Tasks extension.
func (s *Server) extensionTasks() *task.Manager {
	m := s.tasks.Load()
	if m == nil {
		return nil
	}
	if d, err := s.discovery(); err != nil || !d.tasks {
		return nil
	}
	return m
}

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

// watchedTasks returns the ids of tasks in the filter of a subscriptions/listen, or nil if there
// are none. It fails if the client has not declared the Tasks extension.
func (h *handler) watchedTasks(req *session.Request, filter *mcp.SubscriptionFilter) ([]string, error) {
	raw, ok := filter.Extra.Get("taskIds")
	if !ok || h.p.s.extensionTasks() == nil {
		return nil, nil
	}
	return receiver.WatchedIDs(req, raw)
}

// watchTasks makes l report changes of the tasks with the given ids. It sets the taskIds of the
// acknowledged filter to the ids of the tasks that l reports.
func (h *handler) watchTasks(ctx context.Context, l *listener, ids []string, filter *mcp.SubscriptionFilter) error {
	watch, known, err := h.p.s.extensionTasks().Internals(taskrules.Caller{}).Watch(ctx, l.principal, ids, l.taskChanged)
	if err != nil {
		return task.WireError(err)
	}
	l.tasks = watch
	text, err := codec.Marshal(value.Of(append([]string{}, known...)))
	filter.Extra.Set("taskIds", text)
	return err
}
