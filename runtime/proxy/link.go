package proxy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/follow"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// link is the connection of one client to one upstream.
type link struct {
	c     *client
	up    *Upstream
	known *known
	slots *slots
	conn  atomic.Pointer[connection] // nil while there is none
	tried chan struct{}              // closed after the first attempt to connect

	lists [kinds]*fetched // nil until fetched; guarded by client.mu

	fetching  [kinds]*worker // fetches a list
	following [kinds]*worker // fetches a list whose change the upstream has announced, at the pace of paces
	paces     [kinds]*pace   // of following
	passing   pace           // of the notifications that are passed on
	levels    *worker        // sets the log level of the client
	listing   *worker        // fetches the states of the tasks that were created in the session
	outbox    mailbox.Mailbox[notification]
	inputs    *rate.Limiter // of the input requests over the client's session

	slow      atomic.Bool                   // has not found a resource within patience; no other upstream waits for it any more
	searches  breaker                       // for resources that the upstream is not known to have
	follows   breaker                       // of resources, for modern clients
	subscribe chan struct{}                 // buffers one, which is there while subscriptions of modern clients change
	limited   atomic.Pointer[jsonrpc.Error] // why there is no connection, if a limit is reached

	mu       sync.Mutex
	trackers map[string]engine.Tracker[session.Progress] // of the progress of tasks, by the client's id
	creating int                                         // calls that create a task
	created  chan struct{}                               // closed when one of them has ended; nil if there are none
	asked    map[string]bool                             // ids of the tasks that the upstream has created at the client
	askedIDs []string                                    // the same, the oldest first
}

// notification is a notification of the client on its way to the upstream.
type notification struct {
	method string
	params json.RawMessage
}

// maxNotifications is how many notifications of an upstream a client receives per second, and half
// of how many at once.
const maxNotifications = 500

// maxOutbox limits the notifications that wait for an upstream.
const maxOutbox = 100

func newLink(c *client, i int) *link {
	up := &c.p.cfg.Upstreams[i]
	l := &link{
		c: c, up: up, known: &c.p.known[i], slots: &c.p.slots[i], tried: make(chan struct{}), subscribe: make(chan struct{}, 1),
		trackers: map[string]engine.Tracker[session.Progress]{}, asked: map[string]bool{}, inputs: newInputLimit(up.InputRequestsPerMinute),
	}
	spawn := func(f func()) { c.p.upstream.Go(f) } // runs of workers end with the connection
	for k := range kinds {
		l.fetching[k] = &worker{spawn: spawn, run: func() bool { return l.refresh(k) }}
		l.paces[k] = &pace{interval: time.Second, burst: 10}
		l.following[k] = &worker{spawn: spawn, run: func() bool { l.followList(k); return true }}
	}
	l.passing.interval, l.passing.burst = time.Second/maxNotifications, 2*maxNotifications
	l.levels = &worker{spawn: spawn, run: l.setLevel}
	l.listing = &worker{spawn: spawn, run: l.listTasks}
	l.outbox = mailbox.Mailbox[notification]{
		Handle: l.notify, Spawn: func(f func()) bool { spawn(f); return true }, MaxItems: maxOutbox, MaxBytes: maxOutboxBytes,
	}
	return l
}

// maxOutboxBytes limits the size of these notifications.
const maxOutboxBytes = 1 << 20

// put passes a notification of the client to the upstream. It does not wait.
func (l *link) put(n notification) {
	if l.ready() != nil && !l.outbox.TryPut(n, len(n.params)) {
		l.c.p.log.Warn("notification dropped", "upstream", l.up.Name, "method", n.method)
	}
}

// notify sends a notification of the client to the upstream.
func (l *link) notify(n notification) {
	conn := l.ready()
	if conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(l.c.ctx, sharedTimeout)
	defer cancel()
	var params codec.Encoder
	if n.params != nil {
		params = session.Raw(n.params)
	}
	if err := conn.session.Notify(ctx, n.method, params); err != nil {
		l.c.p.log.Debug("notification not passed on", "upstream", l.up.Name, "method", n.method, "error", boundary.ErrorText(err))
		conn.suspect()
	}
}

// known is what the proxy has learned about an upstream from earlier connections.
type known struct {
	sessionsOnly, modernOnly atomic.Bool
	late                     atomic.Bool // has not connected in time

	listBytes atomic.Int64 // size of its lists for all clients
}

// connection is a session with an upstream.
type connection struct {
	l        *link
	session  *session.Session
	caller   jsonrpc.Caller   // without a timeout: the client decides how long it waits
	listener *follow.Listener // in a revision without sessions
	overHTTP bool
	account  string // for which it counts
	alone    bool   // for a single call
	give     func() // undoes slots.take

	closed    chan struct{} // closed when the connection is closed and not counted any more
	displaced bool          // the place belongs to another connection; guarded by slots.mu

	suspended atomic.Bool // requests fail at once
	probing   atomic.Bool // probe is running

	mu     sync.Mutex
	calls  []*call   // being served by the upstream
	served time.Time // when calls was last empty
	level  int       // of the latest logging/setLevel for modern requests

	levelSetAt *mcp.InitializeResult // of the session with that level; nil if there is none

	flushes  int64                   // calls of flush so far
	flushing map[int64]chan struct{} // calls of flush, by their number
}

// call is a request of the client that an upstream serves.
type call struct {
	req  *session.Request
	held *heldCall                    // nil if input requests do not end rounds
	logs *mailbox.Mailbox[logMessage] // for a modern request that wants log messages, and otherwise nil
}

// newCall returns the call of a request. Held may be nil.
func (l *link) newCall(req *session.Request, held *heldCall) *call {
	c := &call{req: req, held: held}
	if wantsLogs(req) {
		c.logs = l.newLogs()
	}
	return c
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
	var delay backoff
	began := time.Now()
	for ctx.Err() == nil {
		err := l.serve(ctx, func() {
			delay = backoff{}
			if time.Since(began) <= l.c.p.cfg.ConnectTimeout {
				l.known.late.Store(false)
			}
		})
		l.firstTried()
		if ctx.Err() != nil {
			return
		}
		retry := delay.next()
		l.c.p.log.Warn("upstream not connected", "upstream", l.up.Name, "retry", retry, "error", boundary.ErrorText(err))
		select {
		case <-time.After(retry):
		case <-ctx.Done():
		}
	}
}

func (l *link) firstTried() {
	select {
	case <-l.tried:
	default:
		close(l.tried)
	}
}

// serve opens a connection and returns the cause of its end. It calls connected once the upstream
// has responded to the first requests.
func (l *link) serve(ctx context.Context, connected func()) (err error) {
	x, err := l.open(ctx, nil)
	limited, _ := errors.AsType[*jsonrpc.Error](err)
	if limited != nil && limited.Code != session.CodeOverloaded {
		limited = nil
	}
	l.limited.Store(limited)
	if err != nil {
		return err
	}
	s := x.session
	if s.Traits().Listens {
		fetched := func(string) bool { return true } // prepare fetches the lists at the same time
		x.listener = follow.New(s, fetched, l.c.p.log)
	}
	l.conn.Store(x)
	defer l.disconnect(x)
	if s.Traits().Listens {
		x.listener.Lists()
	}
	if l.prepare(ctx) {
		connected()
	}
	l.firstTried()
	l.c.p.log.Info("upstream connected", "upstream", l.up.Name, "revision", s.Revision())
	select {
	case <-s.Done():
		return errors.Join(errors.New("proxy: upstream has disconnected"), s.Wait())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open opens a connection. Known is the state of another one if the connection is for a single call,
// whose context is ctx, and otherwise nil. The session of ctx must not end before the connection. It
// fails with [session.CodeOverloaded] if there are too many connections.
func (l *link) open(ctx context.Context, known *session.State) (x *connection, err error) {
	account, forCall := l.c.account, known != nil
	if forCall { // several clients may share l.c
		account = accountOf(ctx)
	}
	if err := l.slots.take(ctx, account, forCall); err != nil {
		return nil, err
	}
	if known != nil {
		cfg := l.up.Session
		cfg.Internals(boundary.Caller{}).Known = known
		x, err = l.connect(ctx, &cfg)
	} else {
		x, err = l.openFirst(ctx)
	}
	if err != nil {
		l.slots.give(account, forCall)
		return nil, err
	}
	x.account, x.alone, x.closed, x.served = account, forCall, make(chan struct{}), time.Now()
	x.give = sync.OnceFunc(func() { l.slots.closed(account, x) })
	if !forCall {
		l.slots.opened(account, x)
	}
	return x, nil
}

// close closes the connection and waits until it is closed.
func (x *connection) close() {
	x.session.Close()
	x.give()
}

// openFirst opens a connection to an upstream whose revision may be unknown.
func (l *link) openFirst(ctx context.Context) (*connection, error) {
	cfg := l.up.Session
	inner := cfg.Internals(boundary.Caller{})
	probes := inner.Known == nil && (l.c.traits().Sessionless || l.known.modernOnly.Load()) && !l.known.sessionsOnly.Load()
	sessions := session.Revisions()[0]
	if !l.c.traits().Sessionless {
		sessions = l.c.revision()
	}
	if inner.Known == nil && !probes {
		inner.Known = &session.State{Revision: sessions}
	}
	x, err := l.connect(ctx, &cfg)
	if err != nil && probes && !l.overHTTP(x) && ctx.Err() == nil && len(cfg.Revisions) == 0 {
		// The upstream may have ended because of server/discover.
		inner.Known = &session.State{Revision: sessions}
		x, err = l.connect(ctx, &cfg)
	}
	l.known.sessionsOnly.Store(err == nil && l.c.traits().Sessionless && !x.session.Traits().Sessionless)
	l.known.modernOnly.Store(err == nil && !l.c.traits().Sessionless && x.session.Traits().Sessionless)
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (l *link) overHTTP(x *connection) bool { return x != nil && x.overHTTP }

// connect calls Connect and opens a session. If that fails, it may also return a connection, which
// is closed.
func (l *link) connect(ctx context.Context, cfg *session.Options) (*connection, error) {
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
	if described, ok := transport.As[transport.Described](conn); ok {
		if err := boundary.Run(func() error { x.overHTTP = described.Info().Protocol == "http"; return nil }); err != nil {
			return nil, err
		}
	}
	own := *cfg
	own.Handler = x.handle
	own.Hooks.Sending = append(slices.Clone(own.Hooks.Sending), l.c.sendConnectTimeout)
	own.Hooks.Reopened = func(*mcp.InitializeResult) { l.prepare(ctx) }
	if own.Revisions == nil {
		own.Revisions = append(session.ModernRevisions(), preferred(l.c.revision())...)
	}
	if own.Limits.ProgressInterval == 0 {
		own.Limits.ProgressInterval = -1 // the client limits its progress
	}
	own.Limits.Requests = cmp.Or(own.Limits.Requests, defaultMaxInputRequests)
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
func (l *link) disconnect(x *connection) {
	l.conn.Store(nil)
	x.close() // ends the trackers, and the requests of workers
	l.mu.Lock()
	clear(l.trackers)
	l.mu.Unlock()
	for k := range kinds {
		l.c.setList(l, nil, k, nil)
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
// subscriptions of the client. It reports whether the upstream has lists, then.
func (l *link) prepare(ctx context.Context) (ok bool) {
	var pending []<-chan struct{}
	for k := range kinds {
		pending = append(pending, l.fetching[k].request())
	}
	if l.c.hasLevel() {
		pending = append(pending, l.levels.request())
	}
	l.restore(ctx)
	for _, done := range pending {
		<-done // ends with the session at the latest
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return !slices.Contains(l.lists[:], nil)
}

// refresh fetches a list. If that fails, the list stays as it is. It is the run of a worker.
func (l *link) refresh(k kind) (ok bool) {
	conn := l.ready()
	if conn == nil {
		return false
	}
	list, err := l.fetch(l.c.ctx, conn, k)
	if err == nil {
		l.c.setList(l, conn, k, list)
		return true
	}
	if l.c.ctx.Err() == nil {
		l.c.p.log.Warn("list not fetched", "upstream", l.up.Name, "method", lists[k].method, "error", boundary.ErrorText(err))
	}
	if errors.Is(err, session.ErrTimeout) {
		l.fetching[k].request() // again
		conn.suspect()
	}
	return answered(err)
}

// followList fetches a list whose change the upstream has announced. It is the run of a worker.
func (l *link) followList(k kind) {
	conn := l.conn.Load()
	if conn == nil {
		return
	}
	if l.paces[k].wait(conn.session.Done()) {
		<-l.fetching[k].request()
	}
}

// setLevel sets the log level of the client. It is the run of a worker.
func (l *link) setLevel() (ok bool) {
	conn := l.ready()
	if conn == nil || !conn.session.PeerServes(mcp.MethodLoggingSetLevel) {
		return false
	}
	l.c.mu.Lock()
	level := l.c.level
	l.c.mu.Unlock()
	_, err := conn.session.With(session.Timeout(sharedTimeout)).Call(l.c.ctx, mcp.MethodLoggingSetLevel, session.Raw(level))
	if err != nil && l.c.ctx.Err() == nil {
		l.c.p.log.Warn("log level not set", "upstream", l.up.Name, "error", boundary.ErrorText(err))
		conn.suspect()
	}
	return answered(err)
}

// restore restores the subscriptions of the client in a new session. It reports a change of each
// subscribed resource, because changes may have been missed.
func (l *link) restore(ctx context.Context) {
	for _, uri := range l.c.subscribedAt(l) {
		conn := l.ready()
		if conn == nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
		if err := conn.follow(ctx, uri); err != nil && l.c.ctx.Err() == nil {
			l.c.p.log.Warn("subscription not restored", "upstream", l.up.Name, "uri", uri, "error", boundary.ErrorText(err))
		}
		cancel()
		l.c.updated(l.c.ctx, uri)
	}
}

// call passes a request of the client with other params to the upstream, and returns the result.
func (l *link) call(ctx context.Context, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	conn := l.ready()
	if conn == nil {
		return nil, l.unavailable()
	}
	switch {
	case req.Traits().InputInResults:
		return l.callModern(ctx, conn, req, params)
	case !conn.session.Traits().InputInResults:
		return l.callWith(ctx, conn, conn.callerFor(req), req, params)
	}
	switch req.Method {
	case mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return l.listenTo(ctx, conn, req)
	}
	return l.callInRounds(ctx, conn, req, params)
}

// callerFor returns a caller that passes on the progress of a request.
func (x *connection) callerFor(req *session.Request) jsonrpc.Caller {
	if req.Internals(boundary.Caller{}).ProgressToken().IsZero() {
		return x.caller
	}
	progress := req.Internals(boundary.Caller{}).Progress()
	return x.session.With(session.Timeout(0), session.OnProgress(func(p session.Progress) { x.report(progress, p) }))
}

// report passes on progress of a call or of a task, which counts as a notification. Meanwhile, the
// session drops progress that is outdated.
func (x *connection) report(to engine.Reporter[session.Progress], p session.Progress) {
	if x.l.passing.wait(x.session.Done()) {
		to.Report(p)
	}
}

// callWith is call with a connection and a caller.
func (l *link) callWith(ctx context.Context, conn *connection, caller jsonrpc.Caller, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	return l.serveCall(ctx, conn, caller, l.newCall(req, nil), params)
}

// serveCall passes a call to the upstream, and returns the result for the client.
func (l *link) serveCall(ctx context.Context, conn *connection, caller jsonrpc.Caller, call *call, params json.RawMessage) (json.RawMessage, error) {
	if !conn.begin(call) {
		return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: fmt.Sprintf("upstream %s: limit of %d calls is reached", l.up.Name, maxCalls)}
	}
	defer conn.end(call)
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	method := call.req.Method
	result, err := caller.Call(ctx, method, encoder)
	if l.flushes(call.req) {
		conn.flush(ctx)
	}
	call.sendLogs(ctx)
	if err != nil {
		if !answered(err) || conn.overHTTP && mayBeReplaced(err) {
			conn.suspect()
		}
		return nil, l.failure(ctx, method, err)
	}
	return l.c.convert(conn, method, l.toClient(result, l.clientID)), nil
}

// failure returns the error for a client whose request has failed. It hides from the client why the
// upstream has ended, because the reason may quote the standard error of a child process. It also
// hides errors that concern only the connection to the upstream.
func (l *link) failure(ctx context.Context, method string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if answer, ok := errors.AsType[*jsonrpc.Error](err); ok && answer.Code != modern.CodeHeaderMismatch && answer.Code != modern.CodeUnsupportedVersion {
		return l.namedPages(answer)
	}
	if _, ok := errors.AsType[*session.CapabilityError](err); ok {
		return jsonrpc.MethodNotFound(method)
	}
	l.c.p.log.Warn("request not passed on", "upstream", l.up.Name, "method", method, "error", boundary.ErrorText(err))
	return l.unavailable()
}

func (l *link) unavailable() error {
	if limited := l.limited.Load(); limited != nil {
		return limited
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "upstream " + l.up.Name + " is not available"}
}

// maxCalls limits the calls of a client that an upstream serves at once. Without it, the calls that
// one upstream leaves without a response would reach the limits of the client's session.
const maxCalls = 1024

// begin records a call. It returns false if there are too many.
func (x *connection) begin(call *call) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.calls) >= maxCalls {
		return false
	}
	x.calls = append(x.calls, call)
	return true
}

func (x *connection) end(call *call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.Index(x.calls, call)
	x.calls = slices.Delete(x.calls, i, i+1)
	x.served = time.Now()
}

// idle reports whether the upstream serves no call, and runs no task, of the client, and since when
// it serves no call.
func (x *connection) idle() (since time.Time, ok bool) {
	if x.l.c.hasTasks(x.l) {
		return time.Time{}, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.served, len(x.calls) == 0
}

// related returns the context for a message of the upstream to the client. If the client waits for
// an answer of the upstream, the message belongs to that request, so that it reaches the client on
// the stream of the request. An upstream does not say which request it serves, except for a task.
func (x *connection) related(ctx context.Context, params json.RawMessage) context.Context {
	var id string
	if mentionsTask(params) {
		id, _ = textOf(params, "_meta", taskrules.RelatedTask, "taskId")
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
	return best.Internals(boundary.Caller{}).NewContext(ctx)
}

// handle serves requests and notifications of the upstream: it passes them to the client.
func (x *connection) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	l := x.l
	switch {
	case req.IsNotification():
		x.notified(ctx, req)
		return nil, nil
	case l.c.traits().InputInResults:
		return x.ask(ctx, req)
	}
	if err := l.c.session.Ready(ctx); err != nil {
		return nil, err
	}
	idOf := func(own string) (string, bool) { return l.awaitID(ctx, own) }
	params := l.named(req.Method, l.toClient(req.Params, idOf))
	if _, asTask := req.Internals(boundary.Caller{}).Task(); asTask {
		if !req.Internals(boundary.Caller{}).Keep() {
			return nil, context.Cause(ctx)
		}
		defer l.c.expectTask()()
	}
	switch req.Method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel:
		params = withoutAlike(params, "taskId")
		if id, _ := textOf(params, "taskId"); !l.hasAsked(id) {
			return nil, unknownTask(id)
		}
	}
	result, err := l.ask(x.related(ctx, params), req, params)
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
		l.addAsked(id)
		l.c.passEarly(l, id)
	}
	if req.Method == mcp.MethodTasksList {
		result = l.onlyAsked(result)
	}
	return session.Raw(l.fromClient(result)), nil
}

// newInputLimit returns the limiter of the input requests of an upstream to a client.
func newInputLimit(perMinute int) *rate.Limiter {
	if perMinute < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	perMinute = cmp.Or(perMinute, defaultInputRequestsPerMinute)
	return rate.NewLimiter(rate.Limit(perMinute)/60, perMinute)
}

// ask passes a request of the upstream to the client, over its session.
func (l *link) ask(ctx context.Context, req *session.Request, params json.RawMessage) (json.RawMessage, error) {
	switch req.Method {
	case mcp.MethodElicitationCreate, mcp.MethodSamplingCreateMessage:
		if !l.inputs.Allow() {
			return nil, &jsonrpc.Error{Code: session.CodeOverloaded, Message: "upstream " + l.up.Name + ": rate limit of input requests reached"}
		}
	}
	options := []session.Option{session.Timeout(0)}
	if !req.Internals(boundary.Caller{}).ProgressToken().IsZero() {
		progress := req.Internals(boundary.Caller{}).Progress()
		options = append(options, session.OnProgress(func(p session.Progress) { progress.Report(p) }))
	}
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	return l.c.session.With(options...).Call(ctx, req.Method, encoder)
}

// notified passes a notification of the upstream to the client, unless the proxy handles it.
func (x *connection) notified(ctx context.Context, req *session.Request) {
	l := x.l
	idOf := func(own string) (string, bool) { return l.awaitID(ctx, own) }
	params := l.toClient(withoutAlike(req.Params, "_meta", "uri", "logger", "taskId"), idOf)
	switch req.Method {
	case mcp.MethodNotificationsCancelled, mcp.MethodNotificationsProgress, mcp.MethodNotificationsSubscriptionsAcknowledged:
		return // the session has handled it
	case methodFlush:
		x.flushed(req.Params)
		return
	case mcp.MethodNotificationsToolsListChanged:
		l.following[tools].request()
		return
	case mcp.MethodNotificationsPromptsListChanged:
		l.following[prompts].request()
		return
	case mcp.MethodNotificationsResourcesListChanged:
		l.following[resources].request()
		l.following[templates].request()
		return
	}
	if !l.passing.wait(req.Session.Done()) { // meanwhile, the session drops what is too much
		return
	}
	switch req.Method {
	case mcp.MethodNotificationsResourcesUpdated:
		uri, _ := textOf(params, "uri")
		if !l.c.mayUpdate(l, uri) {
			return
		}
		if l.c.traits().Listens {
			l.c.notifyListeners(req.Method, uri)
			return
		}
		if req.Session.Traits().Listens { // _meta has the id of the proxy's own subscription
			params = jsonedit.With(params, "_meta", nil)
		}
	case mcp.MethodNotificationsMessage:
		params = l.namedLog(params)
		if l.c.traits().LogInRequests {
			x.logged(params)
			return
		}
	case mcp.MethodNotificationsElicitationComplete:
		params = l.withPageID(params)
	case mcp.MethodNotificationsTasksStatus:
		own, _ := textOf(params, "taskId")
		id, ok := idOf(own)
		if !ok {
			return // another client has created the task
		}
		params = editText(params, func(string) string { return id }, "taskId")
		l.endProgress(params)
		l.c.setTask(l, own, jsonedit.With(params, "_meta", nil))
	}
	if l.c.traits().Listens {
		return // revisions without sessions do not have it
	}
	l.c.notify(x.related(ctx, params), req.Method, params)
}

// mentionsTask reports whether a message may have related-task metadata, whose name may be escaped.
func mentionsTask(text json.RawMessage) bool {
	return bytes.Contains(text, relatedTask) || bytes.IndexByte(text, '\\') >= 0
}

var relatedTask = []byte(`"` + taskrules.RelatedTask + `"`)

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
