package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// client is the proxy's state for one session of a client, or for the modern requests of one.
type client struct {
	p         *Proxy
	key       clientKey
	principal string                       // who has opened the session, or makes the modern requests
	account   string                       // key of the limits: the principal, or the network of a client without one
	session   *session.Session             // nil if requests are modern
	params    *mcp.InitializeRequestParams // what modern requests say of the client; nil if there is a session
	anonymous bool                         // several clients may send the modern requests
	ctx       context.Context              // ends when the connections to upstreams are to be closed
	cancel    context.CancelFunc
	opening   context.Context // ctx with values of the first request
	links     []*link
	began     time.Time
	settled   chan struct{} // closed when all links have tried to connect, or ConnectTimeout has passed
	table     atomic.Pointer[table]

	uses int         // modern requests and held calls; guarded by Proxy.mu
	left time.Time   // when uses was last 0; guarded by Proxy.mu
	idle *time.Timer // runs while uses is 0 over HTTP; guarded by Proxy.mu

	mu            sync.Mutex
	level         json.RawMessage          // params of the latest logging/setLevel; nil if there was none
	subscriptions map[string]*subscription // at upstreams, by URI
	listeners     map[*listener]struct{}   // of modern requests
	held          map[string]*heldCall     // by id
	known         map[taskKey]*knownTask   // tasks of upstreams that belong to the client
	order         []taskKey                // of known, the oldest first
	states        int                      // size of the states in known
	creating      int                      // requests of upstreams that create a task at the client
	early         map[string]notification  // of tasks that these may have created, by id
}

// Limits of the state of a client. The oldest tasks are forgotten.
const (
	maxSubscriptions = boundary.DefaultMaxSubscriptions
	maxTasks         = 10_000
	maxTaskBytes     = 16 << 20 // of their states
)

// settle closes settled when all links have tried to connect, or after ConnectTimeout. It waits for
// an upstream that was late for the latest client no longer than patience.
func (c *client) settle() {
	defer close(c.settled)
	began := time.Now()
	for _, l := range c.links {
		limit := c.p.cfg.ConnectTimeout
		if l.known.late.Load() {
			limit = min(limit, patience)
		}
		select {
		case <-l.tried:
			continue
		default:
		}
		select {
		case <-l.tried:
		case <-time.After(limit - time.Since(began)):
			l.known.late.Store(true)
		case <-c.ctx.Done():
			return
		}
	}
}

// wait waits until the upstreams that a request concerns have tried to connect, or until settled is
// closed. It fails when ctx ends.
func (c *client) wait(ctx context.Context, req *session.Request) error {
	var tried <-chan struct{}
	name, ok := "", false
	switch req.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		name, ok = textOf(req.Params, "name")
	case mcp.MethodCompletionComplete:
		name, ok = textOf(req.Params, "ref", "name")
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel:
		id, _ := textOf(req.Params, "taskId")
		upstream, _, _ := strings.Cut(id, ":")
		l := c.linkOf(upstream)
		if l == nil {
			return nil
		}
		tried = l.tried
	}
	if ok {
		l := c.byPrefix(name)
		if l == nil {
			return nil // it is a feature of the server itself
		}
		tried = l.tried
	}
	var late <-chan time.Time
	if d, ok := connectTimeoutOf(req); ok {
		timer := time.NewTimer(d)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-tried:
		return nil
	case <-c.settled:
		return nil
	case <-late:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// metaConnectTimeout is the member of the _meta of a request that has the number of milliseconds
// that it may wait until the upstreams are connected. A proxy sends it to its upstreams, which may
// be proxies, so that their first response arrives within its own ConnectTimeout.
const metaConnectTimeout = "io.github.mcpwire/connectTimeout"

// waitsForUpstreams reports whether a request of a proxy opens a connection or fetches a list.
func waitsForUpstreams(method string) bool {
	switch method {
	case mcp.MethodInitialize, mcp.MethodServerDiscover,
		mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		return true
	}
	return false
}

// connectTimeoutOf returns how long a request may wait until the upstreams are connected. ok is
// false if it does not say so.
func connectTimeoutOf(req *session.Request) (d time.Duration, ok bool) {
	if !waitsForUpstreams(req.Method) {
		return 0, false
	}
	meta, _ := codec.Member(req.Params, "_meta")
	raw, _ := codec.Member(meta, metaConnectTimeout)
	ms, ok := codec.Number(raw).Int()
	return time.Duration(min(max(ms, 0), int64(time.Hour/time.Millisecond))) * time.Millisecond, ok
}

// sendConnectTimeout is the sending middleware for an upstream. A request may take half of the time
// that is left until the client gets its first response, so that further ones have time, too.
func (c *client) sendConnectTimeout(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if left := c.p.cfg.ConnectTimeout - time.Since(c.began); left > 0 && waitsForUpstreams(call.Method) {
			call.SetMeta(metaConnectTimeout, codec.IntScalar((left / 2).Milliseconds()))
		}
		return next(ctx, call)
	}
}

// linkOf returns the link to the upstream with a name, or nil.
func (c *client) linkOf(name string) *link {
	if i := slices.IndexFunc(c.links, func(l *link) bool { return l.up.Name == name }); i >= 0 {
		return c.links[i]
	}
	return nil
}

// byPrefix returns the link to the upstream whose prefix begins the name of a tool or a prompt, or
// nil. No prefix begins another one.
func (c *client) byPrefix(name string) *link {
	if i := slices.IndexFunc(c.links, func(l *link) bool { return strings.HasPrefix(name, l.up.Prefix) }); i >= 0 {
		return c.links[i]
	}
	return nil
}

// notify sends a notification to the client. In revisions without sessions, it belongs to the
// request of ctx.
func (c *client) notify(ctx context.Context, method string, params json.RawMessage) {
	var encoder codec.Encoder
	if params != nil {
		encoder = session.Raw(params)
	}
	var to jsonrpc.Notifier = c.session
	if c.traits().Listens {
		peer, ok := session.PeerFrom(ctx)
		if !ok {
			return
		}
		to = peer
	}
	if err := to.Notify(ctx, method, encoder); err != nil && c.ctx.Err() == nil {
		c.p.log.Debug("notification not passed on", "method", method, "error", boundary.ErrorText(err))
	}
}

// updated reports an updated resource to the client.
func (c *client) updated(ctx context.Context, uri string) {
	const method = mcp.MethodNotificationsResourcesUpdated
	if c.traits().Listens {
		c.notifyListeners(method, uri)
		return
	}
	if params, err := codec.Marshal(&mcp.ResourceUpdatedNotificationParams{URI: uri}); err == nil {
		c.notify(ctx, method, params)
	}
}

// receive is the receiving middleware for clients. Next is the server itself.
func (p *Proxy) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if passes(req.Method) {
			req = unambiguous(req)
		}
		if req.Traits().Sessionless {
			return p.receiveModern(ctx, req, next)
		}
		if req.Session == nil || !passes(req.Method) {
			return next(ctx, req)
		}
		if req.Method == mcp.MethodInitialize {
			return p.initialize(ctx, req, next)
		}
		c, err := p.clientOf(ctx, req.Session)
		if err != nil {
			return nil, err
		}
		if req.IsNotification() {
			c.notified(req)
			return next(ctx, req)
		}
		if err := c.wait(ctx, req); err != nil {
			return nil, err
		}
		return c.serve(ctx, req, next)
	}
}

// unambiguous returns the request of a client without members alike those that the proxy, or
// middleware before it, has checked.
func unambiguous(req *session.Request) *session.Request {
	params := withoutAlike(req.Params, "_meta", "name", "arguments", "uri", "ref", "level", "task", "taskId", "requestState", "inputResponses")
	if len(params) == len(req.Params) {
		return req
	}
	req = req.Clone()
	req.Params = params
	return req
}

// passes reports whether the proxy handles messages of a method.
func passes(method string) bool {
	switch method {
	case mcp.MethodInitialize,
		mcp.MethodToolsList, mcp.MethodToolsCall, mcp.MethodPromptsList, mcp.MethodPromptsGet,
		mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList, mcp.MethodResourcesRead,
		mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
		mcp.MethodCompletionComplete, mcp.MethodLoggingSetLevel,
		mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel, mcp.MethodTasksList,
		mcp.MethodNotificationsRootsListChanged, mcp.MethodNotificationsTasksStatus:
		return true
	}
	return false
}

// initialize serves the request that opens the session.
func (p *Proxy) initialize(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	result, err := next(ctx, req)
	opened, ok := result.(*mcp.InitializeResult)
	if err != nil || !ok {
		return result, err
	}
	c, err := p.clientOf(ctx, req.Session)
	if err == nil {
		err = c.wait(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return c.describe(opened), nil
}

// notified passes a notification of the client to the upstreams that it concerns. It does not wait
// for them.
func (c *client) notified(req *session.Request) {
	n := notification{req.Method, req.Params}
	if req.Method == mcp.MethodNotificationsTasksStatus {
		id, _ := textOf(req.Params, "taskId")
		kept := c.keepEarly(id, n)
		switch l := c.creator(id); {
		case l == nil:
		case kept:
			c.passEarly(l, id)
		default:
			l.put(n)
		}
		return
	}
	for _, l := range c.links {
		l.put(n)
	}
}

// serve serves a request of the client.
func (c *client) serve(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	switch req.Method {
	case mcp.MethodToolsList:
		return c.list(ctx, req, tools, next)
	case mcp.MethodPromptsList:
		return c.list(ctx, req, prompts, next)
	case mcp.MethodResourcesList:
		return c.list(ctx, req, resources, next)
	case mcp.MethodResourcesTemplatesList:
		return c.list(ctx, req, templates, next)
	case mcp.MethodToolsCall:
		return c.callTool(ctx, req, next)
	case mcp.MethodPromptsGet:
		l, params := c.byName(ctx, req, prompts, next, "name")
		return c.pass(ctx, req, l, params, next)
	case mcp.MethodResourcesRead:
		return c.read(ctx, req, next)
	case mcp.MethodResourcesSubscribe:
		return c.subscribe(ctx, req, next)
	case mcp.MethodResourcesUnsubscribe:
		return c.unsubscribe(ctx, req, next)
	case mcp.MethodCompletionComplete:
		return c.complete(ctx, req, next)
	case mcp.MethodLoggingSetLevel:
		return c.setLevel(ctx, req, next)
	case mcp.MethodTasksList:
		return c.listTasks(ctx, req, next)
	}
	return c.serveTask(ctx, req, next)
}

// pass passes a request to the upstream of l, or to the server itself if l is nil.
func (c *client) pass(ctx context.Context, req *session.Request, l *link, params json.RawMessage, next session.Handler) (codec.Encoder, error) {
	if l == nil {
		return next(ctx, req)
	}
	result, err := l.call(ctx, req, params)
	if err != nil {
		return nil, err
	}
	return session.Raw(result), nil
}

// byName returns the upstream whose prefix begins the name at a path of the params, and the params
// for it. The upstream may be disconnected. The link is nil if there is no such upstream, or if the
// upstream does not list the feature but the server itself does.
func (c *client) byName(ctx context.Context, req *session.Request, k kind, next session.Handler, path ...string) (*link, json.RawMessage) {
	params := req.Params
	name, ok := textOf(params, path...)
	if !ok {
		return nil, nil
	}
	l := c.byPrefix(name)
	if l == nil || c.table.Load().get(k, name) == nil && c.hasOwn(ctx, req, k, name, next) {
		return nil, nil
	}
	if l.up.Prefix == "" {
		return l, params
	}
	return l, editText(params, func(string) string { return strings.TrimPrefix(name, l.up.Prefix) }, path...)
}

// hasOwn reports whether the server itself lists a feature for the client.
func (c *client) hasOwn(ctx context.Context, req *session.Request, k kind, key string, next session.Handler) bool {
	own := req.Clone()
	own.Method, own.Params = lists[k].method, ownParams(req, "", false)
	for {
		result, err := next(ctx, own)
		if err != nil {
			return false
		}
		text, err := codec.Marshal(result)
		if err != nil {
			return false
		}
		for _, element := range elements(text, lists[k].member) {
			if other, ok := textOf(element, lists[k].key); ok && other == key {
				return true
			}
		}
		cursor, ok := textOf(text, "nextCursor")
		if !ok {
			return false
		}
		own.Params = ownParams(req, cursor, true)
	}
}

// byURI returns the upstreams that may have a resource, the most likely one first.
func (c *client) byURI(uri string) []candidate {
	table := c.table.Load()
	if f := table.get(resources, uri); f != nil {
		return []candidate{{f.link, true}}
	}
	var all []candidate
	for _, l := range c.links {
		if slices.ContainsFunc(table[templates], func(f *feature) bool {
			literal, _, _ := strings.Cut(f.key, "{")
			return f.link == l && strings.HasPrefix(uri, literal)
		}) {
			all = append(all, candidate{l, true})
		}
	}
	for _, l := range c.links {
		if conn := l.conn.Load(); conn != nil && conn.session.PeerServes(mcp.MethodResourcesRead) && !slices.Contains(all, candidate{l, true}) {
			all = append(all, candidate{l, false})
		}
	}
	return all
}

// read serves a request for a resource.
func (c *client) read(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	result, by, err := c.askByURI(ctx, req, next)
	if text, ok := result.(session.Raw); ok && by != nil && c.traits().CacheHints && c.edits() {
		if scope, _ := textOf(json.RawMessage(text), "cacheScope"); scope == string(mcp.CacheScopePublic) {
			result = session.Raw(jsonedit.With(json.RawMessage(text), "cacheScope", quote(string(mcp.CacheScopePrivate))))
		}
	}
	return result, err
}

// edits reports whether a result may differ between callers for reasons that its upstream does not
// know.
func (c *client) edits() bool {
	cfg := &c.p.cfg.Server
	return c.key.principal != "" || len(cfg.Session.Hooks.Receiving) > 0 || cfg.Features.Visible != nil || len(cfg.Features.Methods) > 0
}

// askByURI passes a request with a URI to the upstreams that may have the resource, until one knows
// it, and then to the server itself. By is the upstream that has served the request; nil stands for
// the server itself.
func (c *client) askByURI(ctx context.Context, req *session.Request, next session.Handler) (result codec.Encoder, by *link, err error) {
	uri, ok := textOf(req.Params, "uri")
	if !ok {
		result, err = next(ctx, req)
		return result, nil, err
	}
	candidates := c.byURI(uri)
	if state, ok := textOf(req.Params, "requestState"); ok { // of an upstream that has asked for input
		name, _, _ := strings.Cut(state, ":")
		if l := c.linkOf(name); l != nil {
			candidates = []candidate{{l, true}}
		}
	}
	text, by, err := c.search(ctx, req, candidates)
	if by != nil {
		return session.Raw(text), by, nil
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); err != nil && !ok {
		return nil, nil, err
	}
	result, own := next(ctx, req)
	if own != nil && err != nil {
		return nil, nil, err
	}
	return result, nil, own
}

// meansUnknown reports whether an error may be that of a server without the requested resource.
// Servers differ in the code that they return.
func meansUnknown(err error) bool {
	switch jsonrpc.CodeOf(err) {
	case server.CodeResourceNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeMethodNotFound:
		return true
	}
	return false
}

func (c *client) subscribe(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	c.mu.Lock()
	full := len(c.subscriptions) >= maxSubscriptions
	c.mu.Unlock()
	if full {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("limit of %d subscriptions is reached", maxSubscriptions)}
	}
	result, by, err := c.askByURI(ctx, req, next)
	if uri, ok := textOf(req.Params, "uri"); ok && err == nil && by != nil {
		c.mu.Lock()
		c.subscriptions[strings.Clone(uri)] = &subscription{by, 1}
		c.mu.Unlock()
	}
	return result, err
}

func (c *client) unsubscribe(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	uri, _ := textOf(req.Params, "uri")
	c.mu.Lock()
	var l *link
	if sub := c.subscriptions[uri]; sub != nil {
		l = sub.link
	}
	delete(c.subscriptions, uri)
	c.mu.Unlock()
	return c.pass(ctx, req, l, req.Params, next)
}

// complete serves a request for completions. It returns no values for an upstream that does not
// support completion.
func (c *client) complete(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	l, params := c.byName(ctx, req, prompts, next, "ref", "name")
	if uri, ok := textOf(req.Params, "ref", "uri"); ok {
		params = editText(req.Params, func(uri string) string { return uri }, "ref", "uri")
		if f := c.table.Load().get(templates, uri); f != nil {
			l = f.link
		} else if f := c.table.Load().get(resources, uri); f != nil {
			l = f.link
		}
	}
	if l != nil {
		if conn := l.conn.Load(); conn != nil && !conn.session.PeerServes(req.Method) {
			return &mcp.CompleteResult{Completion: mcp.CompleteResultCompletion{Values: []string{}}}, nil
		}
	}
	return c.pass(ctx, req, l, params, next)
}

// setLevel sets the log level of the server itself and of all upstreams. An upstream that rejects
// the level does not fail the request.
func (c *client) setLevel(ctx context.Context, req *session.Request, next session.Handler) (codec.Encoder, error) {
	result, err := next(ctx, req)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.level = slices.Clone(req.Params)
	c.mu.Unlock()
	var group sync.WaitGroup
	for _, l := range c.links {
		if conn := l.ready(); conn != nil && conn.session.PeerServes(req.Method) {
			group.Go(func() { l.levels.await(ctx) })
		}
	}
	group.Wait()
	return result, nil
}

func (c *client) hasLevel() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level != nil
}

// mayUpdate reports whether an upstream may report updates of a resource: the client has not
// subscribed to it at another one.
func (c *client) mayUpdate(l *link, uri string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sub := c.subscriptions[uri]
	return sub == nil || sub.link == l
}

// subscribedAt returns the resources that the client has subscribed to at an upstream.
func (c *client) subscribedAt(l *link) (uris []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, uri := range slices.Sorted(maps.Keys(c.subscriptions)) {
		if c.subscriptions[uri].link == l {
			uris = append(uris, uri)
		}
	}
	return uris
}
