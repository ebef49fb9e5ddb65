package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
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
	if _, asTask := req.Internals(boundary.Caller{}).Task(); asTask && !req.Traits().TasksByServer {
		return l.startTask(ctx, req, params)
	}
	return c.pass(ctx, req, l, params, next)
}

// startTask passes on a call that requests a task. Progress is also passed on after the result,
// until the task is terminal.
func (l *link) startTask(ctx context.Context, req *session.Request, params json.RawMessage) (codec.Encoder, error) {
	conn := l.ready()
	if conn == nil {
		return nil, l.unavailable()
	}
	if !conn.session.Internals(boundary.Caller{}).PeerTakesTask(req.Method) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool cannot be called as a task"}
	}
	if !req.Internals(boundary.Caller{}).Keep() {
		return nil, context.Cause(ctx)
	}
	caller := conn.caller
	var tracker engine.Tracker[session.Progress]
	token := req.Internals(boundary.Caller{}).ProgressToken()
	if !token.IsZero() && l.tracksMore() {
		tracker = conn.session.Internals(boundary.Caller{}).NewTracker()
		caller = conn.session.With(session.Timeout(0), conn.session.Internals(boundary.Caller{}).Track(tracker))
	}
	created := l.create()
	defer created()
	result, err := l.callWith(ctx, conn, caller, req, params)
	own, ok := textOf(result, "task", "taskId")
	if err != nil || !ok {
		if tracker != nil {
			tracker.Close()
		}
		return session.Raw(result), err
	}
	id := l.newID(own)
	result = editText(result, func(string) string { return id }, "task", "taskId")
	state, _ := codec.Member(result, "task")
	l.c.addKnown(&knownTask{link: l, own: strings.Clone(own), id: id, created: true, state: slices.Clone(state)})
	if tracker != nil {
		l.mu.Lock()
		l.trackers[id] = tracker
		l.mu.Unlock()
		progress := l.c.session.Internals(boundary.Caller{}).NewReporter(context.WithoutCancel(ctx), token)
		l.c.p.upstream.Go(func() { // ends when the task is terminal, or with one of the sessions
			for p := range tracker.Updates(l.c.ctx) {
				conn.report(progress, p)
			}
			progress.Finish()
		})
		l.endProgress(state)
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
	if isTerminal(task) {
		id, _ := textOf(task, "taskId")
		l.stopProgress(id)
	}
}

// isTerminal reports whether the description of a task says that it is terminal.
func isTerminal(task json.RawMessage) bool {
	status, _ := textOf(task, "status")
	switch mcp.TaskStatus(status) {
	case mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled:
		return true
	}
	return false
}

// hasTasks reports whether an upstream runs tasks that were created in the client's session.
func (c *client) hasTasks(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.known {
		if t.link == l && t.created && t.state != nil && !isTerminal(t.state) {
			return true
		}
	}
	return false
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

// knownTask is a task of an upstream that belongs to the client.
type knownTask struct {
	link    *link
	own     string          // the id at the upstream
	id      string          // that for the client
	created bool            // in this session
	state   json.RawMessage // of a created task, as of the latest message; nil if the upstream does not list it
}

// taskKey identifies a task.
type taskKey struct {
	link *link
	own  string
}

// The id of a task for clients is the name of the upstream, a colon, a tag, a colon and the id at
// the upstream. The tag binds the task to the principal that has created it.
func (l *link) newID(own string) string { return l.up.Name + ":" + l.bind(boundTask, own) + ":" + own }

// taskOf returns the upstream of a task and its id there. l is nil if the id is not that of a task
// of the client's principal.
func (c *client) taskOf(id string) (l *link, own string) {
	name, rest, _ := strings.Cut(id, ":")
	tag, own, ok := strings.Cut(rest, ":")
	if l = c.linkOf(name); l == nil || !ok || !l.isBound(boundTask, own, tag) {
		return nil, ""
	}
	return l, own
}

// serveTask passes tasks/get, tasks/result or tasks/cancel to the upstream of the task. The server
// itself serves requests for all other ids: it knows none of a task of another principal.
func (c *client) serveTask(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	id, _ := textOf(req.Params, "taskId")
	l, own := c.taskOf(id)
	if l == nil || req.Traits().TasksByServer {
		result, err := next(ctx, req)
		if jsonrpc.CodeOf(err) == jsonrpc.CodeMethodNotFound && !req.Traits().TasksByServer {
			return nil, unknownTask(id) // the server itself has no tasks
		}
		return result, err
	}
	c.addKnown(&knownTask{link: l, own: strings.Clone(own), id: strings.Clone(id)})
	if req.Method == mcp.MethodTasksResult {
		req.Internals(boundary.Caller{}).EndOnShutdown() // the task continues
	}
	result, err := l.call(ctx, req, editText(req.Params, func(string) string { return own }, "taskId"))
	if req.Method == mcp.MethodTasksResult {
		if ctx.Err() == nil && l.conn.Load() != nil {
			l.stopProgress(id) // the task is terminal
		}
	} else if err == nil {
		result = editText(result, func(string) string { return id }, "taskId")
		l.endProgress(result)
		c.setTask(l, own, result)
	}
	if err != nil {
		return nil, err
	}
	return session.Raw(result), nil
}

// unknownTask is the error of a server with tasks for an id that it does not know.
func unknownTask(id string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%v: %q", task.ErrNotFound, boundary.Text(id, 64))}
}

// listTasks lists the tasks that were created in this session, on one page, and then those of the
// server itself. Those of an upstream that does not respond within patience are in their latest
// known state.
func (c *client) listTasks(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	cursor, _ := textOf(req.Params, "cursor")
	page := page{member: "tasks", hint: -1}
	if !strings.HasPrefix(cursor, ownList) {
		if cursor != "" {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid cursor"}
		}
		var group sync.WaitGroup
		for _, l := range c.links {
			if l.ready() != nil && c.hasCreated(l) {
				group.Go(func() { l.listing.await(ctx) })
			}
		}
		group.Wait()
		for _, l := range c.links {
			if conn := l.conn.Load(); conn != nil && conn.session.PeerServes(req.Method) {
				for _, t := range c.statesAt(l) {
					page.add(t.state)
				}
			}
		}
	}
	return page.addOwn(ctx, req, 0, strings.TrimPrefix(cursor, ownList), cursor != "", next)
}

// listTasks fetches the states of the tasks that were created in this session. It is the run of a
// worker.
func (l *link) listTasks() (ok bool) {
	conn := l.ready()
	if conn == nil || !conn.session.PeerServes(mcp.MethodTasksList) {
		return false
	}
	listed := map[string]bool{}
	before := l.c.statesAt(l)
	var cursors methods.Cursors
	for params := new(mcp.PaginatedRequestParams); ; {
		result, err := conn.session.With(session.Timeout(sharedTimeout)).Call(l.c.ctx, mcp.MethodTasksList, params)
		if err != nil {
			if errors.Is(err, session.ErrTimeout) {
				conn.suspect()
			}
			return answered(err)
		}
		for _, task := range elements(l.c.convert(conn, mcp.MethodTasksList, result), "tasks") {
			own, _ := textOf(task, "taskId")
			if id, ok := l.clientID(own); ok {
				listed[own] = true
				l.c.setTask(l, own, editText(task, func(string) string { return id }, "taskId"))
			}
		}
		var next *string
		if text, ok := textOf(result, "nextCursor"); ok {
			next = &text
		}
		if more, err := cursors.Next(next); err != nil || !more {
			break
		}
		params = &mcp.PaginatedRequestParams{Cursor: next}
	}
	for _, t := range before {
		if !listed[t.own] {
			l.c.setTask(l, t.own, nil)
		}
	}
	return true
}

// addKnown records a task that belongs to the client. A task that is known keeps its state.
func (c *client) addKnown(t *knownTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := taskKey{t.link, t.own}
	if known := c.known[key]; known != nil {
		known.id = t.id
		return
	}
	c.known[key] = t
	c.order = append(c.order, key)
	c.states += len(t.state)
	c.forgetTasks()
}

// forgetTasks forgets the oldest tasks while there are too many. mu must be held.
func (c *client) forgetTasks() {
	for len(c.order) > maxTasks || c.states > maxTaskBytes {
		c.states -= len(c.known[c.order[0]].state)
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

// setTask records the state of a task that was created in this session. Nil stands for a task that
// the upstream does not list.
func (c *client) setTask(l *link, own string, state json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.known[taskKey{l, own}]; t != nil && t.created {
		c.states += len(state) - len(t.state)
		t.state = slices.Clone(state)
		c.forgetTasks()
	}
}

// statesAt returns the tasks of an upstream that were created in this session and have a state.
func (c *client) statesAt(l *link) (list []knownTask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.order {
		if t := c.known[key]; t.link == l && t.state != nil {
			list = append(list, *t)
		}
	}
	return list
}

// hasCreated reports whether the client has created tasks at an upstream in this session.
func (c *client) hasCreated(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.order, func(key taskKey) bool { return key.link == l && c.known[key].created })
}

// clientID returns the id of a task for the client. ok is false if the task does not belong to it.
func (l *link) clientID(own string) (id string, ok bool) {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if t := l.c.known[taskKey{l, own}]; t != nil {
		return t.id, true
	}
	return "", false
}

// awaitID is clientID for a message that may arrive before the result that creates the task: while
// the client creates tasks at the upstream, awaitID waits for at most patience.
func (l *link) awaitID(ctx context.Context, own string) (id string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		l.mu.Lock()
		created := l.created
		l.mu.Unlock()
		if id, ok := l.clientID(own); ok || created == nil {
			return id, ok
		}
		select {
		case <-created:
		case <-ctx.Done():
			return "", false
		}
	}
}

// create records that the client creates a task. The caller calls the result when the upstream has
// responded.
func (l *link) create() (created func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.creating++
	if l.created == nil {
		l.created = make(chan struct{})
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.creating--
		close(l.created)
		l.created = nil
		if l.creating > 0 {
			l.created = make(chan struct{})
		}
	}
}

// toClient replaces the id of the related task in a message of the upstream by that for the client,
// which idOf returns. It removes a task that does not belong to the client.
func (l *link) toClient(text json.RawMessage, idOf func(own string) (string, bool)) json.RawMessage {
	if !mentionsTask(text) {
		return text
	}
	own, ok := textOf(text, "_meta", taskrules.RelatedTask, "taskId")
	if !ok || l.hasAsked(own) {
		return text // a task of the client
	}
	id, ok := idOf(own)
	if !ok {
		return jsonedit.WithPath(text, nil, "_meta", taskrules.RelatedTask)
	}
	return editText(text, func(string) string { return id }, "_meta", taskrules.RelatedTask, "taskId")
}

// fromClient replaces the id of the related task in a message of the client by that of the
// upstream.
func (l *link) fromClient(text json.RawMessage) json.RawMessage {
	if !mentionsTask(text) {
		return text
	}
	return editText(text, func(id string) string {
		if of, own := l.c.taskOf(id); of == l {
			return own
		}
		return id
	}, "_meta", taskrules.RelatedTask, "taskId")
}

// addAsked records a task that the upstream has created at the client. If there are too many, the
// oldest one is forgotten.
func (l *link) addAsked(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id = strings.Clone(id)
	l.asked[id] = true
	if l.askedIDs = append(l.askedIDs, id); len(l.askedIDs) > maxTasks {
		delete(l.asked, l.askedIDs[0])
		l.askedIDs = l.askedIDs[1:]
	}
}

// hasAsked reports whether the upstream has created a task at the client. The client knows all
// upstreams as one, so the proxy keeps the tasks of each from the others.
func (l *link) hasAsked(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[id]
}

// onlyAsked removes the tasks that others have created from a list of tasks of the client.
func (l *link) onlyAsked(result json.RawMessage) json.RawMessage {
	list := []byte{'['}
	for _, task := range elements(result, "tasks") {
		if id, _ := textOf(task, "taskId"); l.hasAsked(id) {
			if len(list) > 1 {
				list = append(list, ',')
			}
			list = append(list, task...)
		}
	}
	return jsonedit.With(result, "tasks", append(list, ']'))
}

// expectTask records that an upstream creates a task at the client. The caller calls the result once
// the task is recorded.
func (c *client) expectTask() (created func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creating++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.creating--; c.creating == 0 {
			c.early = nil
		}
	}
}

// keepEarly keeps the latest notification of a task at the client for passEarly, because it may
// arrive before the response that names the task is handled. It returns false if no upstream is
// creating a task, or if there are too many notifications.
func (c *client) keepEarly(id string, n notification) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.early[id]; c.creating == 0 || !ok && len(c.early) >= maxOutbox || len(n.params) > maxOutboxBytes/maxOutbox {
		return false
	}
	if c.early == nil {
		c.early = map[string]notification{}
	}
	c.early[strings.Clone(id)] = n
	return true
}

// passEarly passes the notification of a task to the upstream that has created it, if there is one.
func (c *client) passEarly(l *link, id string) {
	c.mu.Lock()
	n, ok := c.early[id]
	delete(c.early, id)
	c.mu.Unlock()
	if ok {
		l.put(n)
	}
}

// creator returns the upstream that has created a task at the client, or nil.
func (c *client) creator(id string) *link {
	if i := slices.IndexFunc(c.links, func(l *link) bool { return l.hasAsked(id) }); i >= 0 {
		return c.links[i]
	}
	return nil
}
