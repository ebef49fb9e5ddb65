package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Delays before an upstream is connected again. The delay doubles with each failure in a row.
const (
	minDelay = time.Second
	maxDelay = time.Minute
)

// link is the connection of one client to one upstream.
type link struct {
	c     *client
	up    *Upstream
	conn  atomic.Pointer[connection] // nil while there is none
	tried chan struct{}              // closed after the first attempt to connect

	lists [kinds][]*feature // guarded by client.mu

	refreshing sync.Mutex // held while lists are fetched

	mu       sync.Mutex
	requests []*session.Request          // of the client, being served by the upstream
	trackers map[string]*session.Tracker // of the progress of tasks, by the client's id
}

// connection is a session with an upstream.
type connection struct {
	session *session.Session
	caller  *session.Caller // without a timeout: the client decides how long it waits
}

// run connects, and connects again when the connection has failed, until the client's session ends.
func (l *link) run(ctx context.Context) {
	delay := minDelay
	for ctx.Err() == nil {
		err := l.serve(ctx, func() { delay = minDelay })
		l.firstTried()
		if ctx.Err() != nil {
			return
		}
		l.c.p.log.Warn("upstream not connected", "upstream", l.up.Name, "retry", delay, "error", boundary.ErrorText(err))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		delay = min(2*delay, maxDelay)
	}
}

func (l *link) firstTried() {
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
}

// serve opens a connection and returns the cause of its end. It calls connected once the connection
// is open.
func (l *link) serve(ctx context.Context, connected func()) (err error) {
	var conn transport.Conn
	err = boundary.Run(func() (err error) {
		conn, err = l.up.Connect(l.c.opening)
		return err
	})
	if err != nil {
		return err
	}
	if conn == nil {
		return errors.New("proxy: Connect returned nil")
	}
	cfg := l.up.Session
	cfg.Handler = l.handle
	cfg.Reopened = func(*mcp.InitializeResult) { l.prepare(ctx) }
	if cfg.Revisions == nil {
		cfg.Revisions = preferred(l.c.session.Revision())
	}
	if cfg.ProgressInterval == 0 {
		cfg.ProgressInterval = -1 // the client limits its progress
	}
	if cfg.Logger == nil {
		cfg.Logger = l.c.p.log
	}
	s, err := session.Connect(ctx, conn, l.c.session.Client(), &cfg)
	if err != nil {
		return err
	}
	l.conn.Store(&connection{s, s.With(session.Timeout(0))})
	defer l.disconnect(s)
	connected()
	l.prepare(ctx)
	l.firstTried()
	l.c.p.log.Info("upstream connected", "upstream", l.up.Name)
	select {
	case <-s.Done():
		return errors.Join(errors.New("proxy: upstream has disconnected"), s.Wait())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// disconnect closes a connection and removes its features.
func (l *link) disconnect(s *session.Session) {
	l.conn.Store(nil)
	s.Close() // ends the calls of refresh, and the trackers
	l.mu.Lock()
	clear(l.trackers)
	l.mu.Unlock()
	l.refreshing.Lock() // after it, refresh finds no connection
	defer l.refreshing.Unlock()
	for k := range kinds {
		l.c.setList(l, k, nil)
	}
}

// preferred returns the revisions that sessions support, rev first.
func preferred(rev mcp.Revision) []mcp.Revision {
	all := session.Revisions()
	i := slices.Index(all, rev)
	if i < 0 {
		return all
	}
	return slices.Insert(slices.Delete(all, i, i+1), 0, rev)
}

// prepare fetches the lists after a session was opened, and restores the log level and the
// subscriptions of the client.
func (l *link) prepare(ctx context.Context) {
	for k := range kinds {
		l.refresh(ctx, k)
	}
	l.restore(ctx)
}

// refresh fetches a list. If that fails, the list stays as it is.
func (l *link) refresh(ctx context.Context, k kind) {
	l.refreshing.Lock()
	defer l.refreshing.Unlock()
	conn := l.conn.Load()
	if conn == nil {
		return
	}
	list, err := l.fetch(ctx, conn, k)
	if err != nil {
		if ctx.Err() == nil {
			l.c.p.log.Warn("list not fetched", "upstream", l.up.Name, "method", lists[k].method, "error", boundary.ErrorText(err))
		}
		return
	}
	l.c.setList(l, k, list)
}

// restore sets the log level and the subscriptions of the client in a new session.
func (l *link) restore(ctx context.Context) {
	level, uris := l.c.stateOf(l)
	conn := l.conn.Load()
	if conn == nil {
		return
	}
	call := func(method string, params codec.Encoder) {
		if _, err := conn.session.Call(ctx, method, params); err != nil && ctx.Err() == nil {
			l.c.p.log.Warn("state not restored", "upstream", l.up.Name, "method", method, "error", boundary.ErrorText(err))
		}
	}
	if level != nil && conn.session.PeerServes(mcp.MethodLoggingSetLevel) {
		call(mcp.MethodLoggingSetLevel, session.Raw(level))
	}
	for _, uri := range uris {
		call(mcp.MethodResourcesSubscribe, &mcp.SubscribeRequestParams{URI: uri})
	}
}

// call passes a request of the client with other params to the upstream, and returns the result.
func (l *link) call(ctx context.Context, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	conn := l.conn.Load()
	if conn == nil {
		return nil, l.unavailable()
	}
	caller := conn.caller
	if !req.ProgressToken().IsZero() {
		progress := req.Progress()
		caller = conn.session.With(session.Timeout(0), session.OnProgress(func(p session.Progress) { progress.Report(p) }))
	}
	return l.callWith(ctx, conn, caller, req, params)
}

func (l *link) callWith(ctx context.Context, conn *connection, caller *session.Caller, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	l.begin(req)
	defer l.end(req)
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	result, err := caller.Call(ctx, req.Method, encoder)
	if err != nil {
		return nil, l.failure(ctx, req, err)
	}
	return l.c.convert(conn, req.Method, l.toClient(result)), nil
}

// failure returns the error for a client whose request has failed. It hides from the client why the
// upstream has ended, because the reason may quote the standard error of a child process.
func (l *link) failure(ctx context.Context, req *session.Request, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return jsonrpc.MethodNotFound(req.Method)
	}
	l.c.p.log.Warn("request not passed on", "upstream", l.up.Name, "method", req.Method, "error", boundary.ErrorText(err))
	return l.unavailable()
}

func (l *link) unavailable() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "upstream " + l.up.Name + " is not available"}
}

func (l *link) begin(req *session.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, req)
}

func (l *link) end(req *session.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.requests, req)
	l.requests = slices.Delete(l.requests, i, i+1)
}

// related returns the context for a message of the upstream to the client. If the client waits for
// an answer of the upstream, the message belongs to that request, so that it reaches the client on
// the stream of the request. An upstream does not say which request it serves, except for a task.
func (l *link) related(ctx context.Context, params json.RawMessage) context.Context {
	var id string
	if mentionsTask(params) {
		id, _ = textOf(params, "_meta", task.RelatedTask, "taskId")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var best *session.Request
	for _, req := range l.requests {
		of := ""
		if req.Method == mcp.MethodTasksResult {
			of, _ = textOf(req.Params, "taskId")
		}
		if of == id {
			best = req
			break
		}
		if best == nil {
			best = req
		}
	}
	if best == nil {
		return ctx
	}
	return session.NewContext(ctx, best)
}

// handle serves requests and notifications of the upstream: it passes them to the client.
func (l *link) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	if req.IsNotification() {
		l.notified(ctx, req)
		return nil, nil
	}
	if err := l.c.session.Ready(ctx); err != nil {
		return nil, err
	}
	options := []session.Option{session.Timeout(0)}
	if !req.ProgressToken().IsZero() {
		progress := req.Progress()
		options = append(options, session.OnProgress(func(p session.Progress) { progress.Report(p) }))
	}
	params := l.toClient(req.Params)
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	if _, asTask := req.Task(); asTask && !req.Keep() {
		return nil, context.Cause(ctx)
	}
	result, err := l.c.session.With(options...).Call(l.related(ctx, params), req.Method, encoder)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, ok := errors.AsType[*session.CapabilityError](err); ok {
			return nil, jsonrpc.MethodNotFound(req.Method)
		}
		return nil, err
	}
	if id, ok := textOf(result, "task", "taskId"); ok {
		l.c.addTask(id, l)
	}
	return session.Raw(l.fromClient(result)), nil
}

// notified passes a notification of the upstream to the client, unless the proxy handles it.
func (l *link) notified(ctx context.Context, req *session.Request) {
	params := l.toClient(req.Params)
	switch req.Method {
	case mcp.MethodNotificationsCancelled, mcp.MethodNotificationsProgress:
		return // the session has handled it
	case mcp.MethodNotificationsToolsListChanged:
		l.refresh(ctx, tools)
		return
	case mcp.MethodNotificationsPromptsListChanged:
		l.refresh(ctx, prompts)
		return
	case mcp.MethodNotificationsResourcesListChanged:
		l.refresh(ctx, resources)
		l.refresh(ctx, templates)
		return
	case mcp.MethodNotificationsTasksStatus:
		params = editText(params, l.clientID, "taskId")
		l.endProgress(params)
	}
	l.c.notify(l.related(ctx, params), req.Method, params)
}

// mentionsTask reports whether a message may have related-task metadata.
func mentionsTask(text json.RawMessage) bool { return bytes.Contains(text, relatedTask) }

var relatedTask = []byte(`"` + task.RelatedTask + `"`)

// clientID returns the id that the client knows a task of the upstream by.
func (l *link) clientID(id string) string { return l.up.Name + ":" + id }

// ownID returns the id that the upstream knows a task by. It does not change ids of the client's
// own tasks.
func (l *link) ownID(id string) string { return strings.TrimPrefix(id, l.up.Name+":") }

// toClient replaces the id of the related task in a message of the upstream by that for the client.
func (l *link) toClient(text json.RawMessage) json.RawMessage {
	if !mentionsTask(text) {
		return text
	}
	if id, ok := textOf(text, "_meta", task.RelatedTask, "taskId"); ok && l.c.taskLink(id) == l {
		return text // a task of the client
	}
	return editText(text, l.clientID, "_meta", task.RelatedTask, "taskId")
}

// fromClient replaces the id of the related task in a message of the client by that of the
// upstream.
func (l *link) fromClient(text json.RawMessage) json.RawMessage {
	if !mentionsTask(text) {
		return text
	}
	return editText(text, l.ownID, "_meta", task.RelatedTask, "taskId")
}

// convert returns a result of an upstream for the client's revision. It is the result itself if the
// upstream has the same revision, or the method is unknown.
func (c *client) convert(conn *connection, method string, result json.RawMessage) json.RawMessage {
	rev := c.session.Revision()
	if conn.session.Revision() == rev {
		return result
	}
	typed, err := codec.UnmarshalFunc(result, func(r *wire.Reader) mcp.Value {
		v := mcp.ReadMethodResult(r, method)
		if v == nil {
			r.Skip()
		}
		return v
	}, codec.AllowSize(result)...)
	if err != nil || typed == nil {
		return result
	}
	projected, err := codec.Marshal(mcp.Project[codec.Encoder](rev, typed))
	if err != nil {
		return result
	}
	return projected
}
