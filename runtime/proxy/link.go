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
	"github.com/mcpwire/mcpwire/runtime/internal/follow"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/object"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
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
	eras  *eras
	conn  atomic.Pointer[connection] // nil while there is none
	tried chan struct{}              // closed after the first attempt to connect

	lists [kinds]*fetched // nil until fetched; guarded by client.mu

	refreshing  sync.Mutex // held while lists are fetched
	subscribing sync.Mutex // held while subscriptions of modern clients change

	mu       sync.Mutex
	trackers map[string]*session.Tracker // of the progress of tasks, by the client's id
}

// eras is what the proxy has learned about an upstream from earlier connections.
type eras struct {
	sessionsOnly, modernOnly atomic.Bool
}

// connection is a session with an upstream.
type connection struct {
	l        *link
	session  *session.Session
	caller   *session.Caller  // without a timeout: the client decides how long it waits
	listener *follow.Listener // in a revision without sessions
	overHTTP bool

	mu    sync.Mutex
	calls []*call // being served by the upstream
	level int     // of the latest logging/setLevel for modern requests

	levelSetAt *mcp.InitializeResult // of the session with that level; nil if there is none

	flushes  int64                   // calls of flush so far
	flushing map[int64]chan struct{} // calls of flush, by their number
}

// call is a request of the client that an upstream serves.
type call struct {
	req  *session.Request
	held *heldCall // nil if input requests do not end rounds
}

// request returns the request of the client that waits for the result. It returns nil for a call
// that waits for the next round.
func (c *call) request() *session.Request {
	if c.held != nil {
		return c.held.attached()
	}
	return c.req
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
	x, err := l.open(ctx, nil)
	if err != nil {
		return err
	}
	s := x.session
	if s.Modern() {
		fetched := func(string) bool { return true } // prepare fetches the lists at the same time
		x.listener = follow.New(s, fetched, l.c.p.log)
	}
	l.conn.Store(x)
	defer l.disconnect(s)
	connected()
	if s.Modern() {
		x.listener.Lists()
	}
	l.prepare(ctx)
	l.firstTried()
	l.c.p.log.Info("upstream connected", "upstream", l.up.Name, "revision", s.Revision())
	select {
	case <-s.Done():
		return errors.Join(errors.New("proxy: upstream has disconnected"), s.Wait())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open opens a connection. Known is the state of another one, or nil. The session of ctx must not
// end before the connection.
func (l *link) open(ctx context.Context, known *session.State) (*connection, error) {
	cfg := l.up.Session
	if known != nil {
		cfg.Known = known
		return l.connect(ctx, &cfg)
	}
	probes := cfg.Known == nil && (l.c.modern() || l.eras.modernOnly.Load()) && !l.eras.sessionsOnly.Load()
	sessions := session.Revisions()[0]
	if !l.c.modern() {
		sessions = l.c.revision()
	}
	if cfg.Known == nil && !probes {
		cfg.Known = &session.State{Revision: sessions}
	}
	x, err := l.connect(ctx, &cfg)
	if err != nil && probes && !l.overHTTP(x) && ctx.Err() == nil && len(cfg.Revisions) == 0 {
		// The upstream may have ended because of server/discover.
		cfg.Known = &session.State{Revision: sessions}
		x, err = l.connect(ctx, &cfg)
	}
	l.eras.sessionsOnly.Store(err == nil && l.c.modern() && !x.session.Modern())
	l.eras.modernOnly.Store(err == nil && !l.c.modern() && x.session.Modern())
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (l *link) overHTTP(x *connection) bool { return x != nil && x.overHTTP }

// connect calls Connect and opens a session. If that fails, it may also return a connection, which
// is closed.
func (l *link) connect(ctx context.Context, cfg *session.Config) (*connection, error) {
	var conn transport.Conn
	err := boundary.Run(func() (err error) {
		conn, err = l.up.Connect(l.c.opening)
		return err
	})
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errors.New("proxy: Connect returned nil")
	}
	x := &connection{l: l, flushing: map[int64]chan struct{}{}}
	_, x.overHTTP = transport.As[*streamable.Client](conn)
	own := *cfg
	own.Handler = x.handle
	own.Reopened = func(*mcp.InitializeResult) { l.prepare(ctx) }
	if own.Revisions == nil {
		own.Revisions = append(session.ModernRevisions(), preferred(l.c.revision())...)
	}
	if own.ProgressInterval == 0 {
		own.ProgressInterval = -1 // the client limits its progress
	}
	if own.Logger == nil {
		own.Logger = l.c.p.log
	}
	s, err := session.Connect(ctx, conn, l.c.initializeParams(), &own)
	if err != nil {
		return x, err
	}
	x.session, x.caller = s, s.With(session.Timeout(0))
	return x, nil
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

// restore sets the log level and the subscriptions of the client in a new session. It reports a
// change of each subscribed resource, because changes may have been missed.
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
		if conn.listener == nil {
			call(mcp.MethodResourcesSubscribe, &mcp.SubscribeRequestParams{URI: uri})
		} else if err := conn.listener.Subscribe(ctx, uri); err != nil && ctx.Err() == nil {
			l.c.p.log.Warn("state not restored", "upstream", l.up.Name, "uri", uri, "error", boundary.ErrorText(err))
		}
		l.c.updated(ctx, uri)
	}
}

// call passes a request of the client with other params to the upstream, and returns the result.
func (l *link) call(ctx context.Context, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	conn := l.conn.Load()
	if conn == nil {
		return nil, l.unavailable()
	}
	switch {
	case req.Modern():
		return l.callModern(ctx, conn, req, params)
	case !conn.session.Modern():
		return l.callWith(ctx, conn, conn.callerFor(req), req, params)
	}
	switch req.Method {
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return l.listenTo(ctx, conn, req)
	}
	return l.callInRounds(ctx, conn, req, params)
}

// callerFor returns a caller that passes on the progress of a request.
func (x *connection) callerFor(req *session.Request) *session.Caller {
	if req.ProgressToken().IsZero() {
		return x.caller
	}
	progress := req.Progress()
	return x.session.With(session.Timeout(0), session.OnProgress(func(p session.Progress) { progress.Report(p) }))
}

// callWith is call with a connection and a caller.
func (l *link) callWith(ctx context.Context, conn *connection, caller jsonrpc.Caller, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	return l.serveCall(ctx, conn, caller, &call{req: req}, params)
}

// serveCall passes a call to the upstream, and returns the result for the client.
func (l *link) serveCall(ctx context.Context, conn *connection, caller jsonrpc.Caller, call *call, params json.RawMessage) (json.RawMessage, error) {
	conn.begin(call)
	defer conn.end(call)
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	method := call.req.Method
	result, err := caller.Call(ctx, method, encoder)
	if wantsLogs(call.req) {
		conn.flush(ctx)
	}
	if err != nil {
		return nil, l.failure(ctx, method, err)
	}
	return l.c.convert(conn, method, l.toClient(result)), nil
}

// failure returns the error for a client whose request has failed. It hides from the client why the
// upstream has ended, because the reason may quote the standard error of a child process. It also
// hides errors that concern only the connection to the upstream.
func (l *link) failure(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code != modern.CodeHeaderMismatch && answer.Code != modern.CodeUnsupportedVersion {
		return answer
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return jsonrpc.MethodNotFound(method)
	}
	l.c.p.log.Warn("request not passed on", "upstream", l.up.Name, "method", method, "error", boundary.ErrorText(err))
	return l.unavailable()
}

func (l *link) unavailable() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "upstream " + l.up.Name + " is not available"}
}

func (x *connection) begin(call *call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls = append(x.calls, call)
}

func (x *connection) end(call *call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.Index(x.calls, call)
	x.calls = slices.Delete(x.calls, i, i+1)
}

// related returns the context for a message of the upstream to the client. If the client waits for
// an answer of the upstream, the message belongs to that request, so that it reaches the client on
// the stream of the request. An upstream does not say which request it serves, except for a task.
func (x *connection) related(ctx context.Context, params json.RawMessage) context.Context {
	var id string
	if mentionsTask(params) {
		id, _ = textOf(params, "_meta", task.RelatedTask, "taskId")
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var best *session.Request
	for _, call := range x.calls {
		req := call.request()
		if req == nil {
			continue
		}
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
func (x *connection) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	l := x.l
	switch {
	case req.IsNotification():
		x.notified(ctx, req)
		return nil, nil
	case l.c.modern():
		return x.ask(ctx, req)
	}
	if err := l.c.session.Ready(ctx); err != nil {
		return nil, err
	}
	params := l.toClient(req.Params)
	if _, asTask := req.Task(); asTask && !req.Keep() {
		return nil, context.Cause(ctx)
	}
	result, err := l.c.ask(x.related(ctx, params), req, params)
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

// ask passes a request of an upstream to the client, over its session.
func (c *client) ask(ctx context.Context, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	options := []session.Option{session.Timeout(0)}
	if !req.ProgressToken().IsZero() {
		progress := req.Progress()
		options = append(options, session.OnProgress(func(p session.Progress) { progress.Report(p) }))
	}
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	return c.session.With(options...).Call(ctx, req.Method, encoder)
}

// notified passes a notification of the upstream to the client, unless the proxy handles it.
func (x *connection) notified(ctx context.Context, req *session.Request) {
	l := x.l
	params := l.toClient(req.Params)
	switch req.Method {
	case mcp.MethodNotificationsCancelled, mcp.MethodNotificationsProgress, mcp.MethodNotificationsSubscriptionsAcknowledged:
		return // the session has handled it
	case methodFlush:
		x.flushed(req.Params)
		return
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
	case mcp.MethodNotificationsResourcesUpdated:
		if l.c.modern() {
			uri, _ := textOf(params, "uri")
			l.c.notifyListeners(req.Method, uri)
			return
		}
		if x.session.Modern() { // _meta has the id of the proxy's own subscription
			params = object.With(params, "_meta", nil)
		}
	case mcp.MethodNotificationsMessage:
		if l.c.modern() {
			x.logged(ctx, params)
			return
		}
	case mcp.MethodNotificationsTasksStatus:
		params = editText(params, l.clientID, "taskId")
		l.endProgress(params)
	}
	if l.c.modern() {
		return // revisions without sessions do not have it
	}
	l.c.notify(x.related(ctx, params), req.Method, params)
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
	rev := c.revision()
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
