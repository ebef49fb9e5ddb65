package proxy

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/pages"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// callTool passes a call of a tool to its upstream.
func (c *client) callTool(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	l, params := c.byName(ctx, req, tools, next, "name")
	if l == nil {
		return next(ctx, req)
	}
	if err := c.checkFields(ctx, req); err != nil {
		return nil, err
	}
	if _, asTask := req.Task(); asTask && !req.Modern() {
		return l.startTask(ctx, req, params)
	}
	return c.pass(ctx, req, l, params, next)
}

// startTask passes on a call that requests a task. Progress is also passed on after the result,
// until the task is terminal.
func (l *link) startTask(ctx context.Context, req *session.Request, params json.RawMessage) (codec.Encoder, error) {
	conn := l.conn.Load()
	if conn == nil {
		return nil, l.unavailable()
	}
	if !conn.session.PeerTakesTask(req.Method) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool cannot be called as a task"}
	}
	if !req.Keep() {
		return nil, context.Cause(ctx)
	}
	caller := conn.caller
	var tracker *session.Tracker
	token := req.ProgressToken()
	if !token.IsZero() && l.tracksMore() {
		tracker = conn.session.NewTracker()
		caller = conn.session.With(session.Timeout(0), session.Track(tracker))
	}
	result, err := l.callWith(ctx, conn, caller, req, params)
	id, ok := textOf(result, "task", "taskId")
	if err != nil || !ok {
		if tracker != nil {
			tracker.Close()
		}
		return session.Raw(result), err
	}
	id = l.clientID(id)
	l.c.addCreated(id)
	result = editText(result, l.clientID, "task", "taskId")
	if tracker != nil {
		l.mu.Lock()
		l.trackers[id] = tracker
		l.mu.Unlock()
		progress := l.c.session.NewReporter(context.WithoutCancel(ctx), token)
		l.c.p.upstream.Go(func() { // ends when the task is terminal, or with one of the sessions
			for p := range tracker.Updates(l.c.ctx) {
				progress.Report(p)
			}
			progress.Finish()
		})
		task, _ := codec.Member(result, "task")
		l.endProgress(task)
	}
	return session.Raw(result), nil
}

// tracksMore reports whether the progress of a further task can be passed on.
func (l *link) tracksMore() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.trackers) < maxTasks
}

// endProgress ends the progress of a task, whose description has the client's id, if it is
// terminal.
func (l *link) endProgress(task json.RawMessage) {
	status, _ := textOf(task, "status")
	switch mcp.TaskStatus(status) {
	case mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled:
		id, _ := textOf(task, "taskId")
		l.stopProgress(id)
	}
}

func (l *link) stopProgress(id string) {
	l.mu.Lock()
	tracker := l.trackers[id]
	delete(l.trackers, id)
	l.mu.Unlock()
	if tracker != nil {
		tracker.Close()
	}
}

// serveTask passes tasks/get, tasks/result or tasks/cancel to the upstream of the task.
func (c *client) serveTask(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	id, _ := textOf(req.Params, "taskId")
	name, _, ok := strings.Cut(id, ":")
	i := slices.IndexFunc(c.links, func(l *link) bool { return l.up.Name == name })
	if !ok || i < 0 {
		return next(ctx, req)
	}
	l := c.links[i]
	if req.Method == mcp.MethodTasksResult {
		req.EndOnShutdown() // the task continues
	}
	result, err := l.call(ctx, req, editText(req.Params, l.ownID, "taskId"))
	if req.Method == mcp.MethodTasksResult {
		if ctx.Err() == nil && l.conn.Load() != nil {
			l.stopProgress(id) // the task is terminal
		}
	} else {
		result = editText(result, l.clientID, "taskId")
		l.endProgress(result)
	}
	if err != nil {
		return nil, err
	}
	return session.Raw(result), nil
}

// listTasks lists the tasks that were created in this session, on one page, and then those of the
// server itself.
func (c *client) listTasks(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	cursor, _ := textOf(req.Params, "cursor")
	page := page{member: "tasks", hint: -1}
	if !strings.HasPrefix(cursor, ownList) {
		if cursor != "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid cursor"}
		}
		for _, l := range c.links {
			for _, task := range l.tasks(ctx, req) {
				page.add(task)
			}
		}
	}
	return page.addOwn(ctx, req, 0, strings.TrimPrefix(cursor, ownList), cursor != "", next)
}

// tasks returns the tasks that the upstream lists and that were created in this session.
func (l *link) tasks(ctx context.Context, req *session.Request) (list []json.RawMessage) {
	conn := l.conn.Load()
	if conn == nil || !conn.session.PeerServes(req.Method) || !l.c.hasCreated(l) {
		return nil
	}
	var cursors pages.Cursors
	for params := json.RawMessage(`{}`); ; {
		result, err := l.call(ctx, req, params)
		if err != nil {
			return list
		}
		for _, task := range elements(result, "tasks") {
			task = editText(task, l.clientID, "taskId")
			if id, _ := textOf(task, "taskId"); l.c.isCreated(id) {
				list = append(list, task)
			}
		}
		following, ok := textOf(result, "nextCursor")
		if !ok {
			return list
		}
		if more, err := cursors.Next(&following); err != nil || !more {
			return list
		}
		text, err := codec.Marshal(&mcp.PaginatedRequestParams{Cursor: &following})
		if err != nil {
			return list
		}
		params = text
	}
}

// addCreated records a task that an upstream has created for the client.
func (c *client) addCreated(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.created) >= maxTasks {
		c.created = slices.Delete(c.created, 0, 1)
	}
	c.created = append(c.created, id)
}

func (c *client) isCreated(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.created, id)
}

// hasCreated reports whether an upstream has created a task for the client.
func (c *client) hasCreated(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.created, func(id string) bool { return strings.HasPrefix(id, l.up.Name+":") })
}

// addTask records a task that the client has created for an upstream.
func (c *client) addTask(id string, l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.tasks) < maxTasks {
		c.tasks[strings.Clone(id)] = l
	}
}

// taskLink returns the upstream for which the client has created a task, or nil.
func (c *client) taskLink(id string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tasks[id]
}
