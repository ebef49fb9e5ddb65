package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// routes is the table of a server, for all sessions and for requests without one. A handler in it
// finds the state of the client with [Server.peerFor].
type routes struct {
	*methods.Table[session.Handler]
	features uint64 // Server.features at the time
}

// handle serves a message of any client: it passes the middleware for all methods, then its route.
// Results of revisions that name their types are completed last, so that middleware sees them as
// the handler has returned them.
func (s *Server) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	result, err := s.handler(ctx, req)
	if err != nil || !req.Traits().ResultTypes || req.IsNotification() {
		return result, err
	}
	return s.complete(req, result), nil
}

// route serves a message by its route.
func (s *Server) route(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	return s.table().Route(req.Method, req.IsNotification()).Serve(ctx, req)
}

// table returns the current table. It compiles a new one only after a change of features.
func (s *Server) table() *routes {
	features := s.features.Load()
	if t := s.routes.Load(); t != nil && t.features == features {
		return t
	}
	on := s.offered()
	handler := func(m mcp.Method) session.Handler { return s.handlerOf(m, on) }
	t := &routes{methods.Compile(s.methods(on), handler, s.routeFeatures(on)), features}
	s.routes.Store(t)
	return t
}

// methods returns the methods with a route: those that clients may send, and those that the
// configuration or an extension names.
func (s *Server) methods(on []*extension) (list []mcp.Method) {
	for _, m := range mcp.Methods() {
		if m.From&mcp.FromClient != 0 {
			list = append(list, m)
		}
	}
	add := func(name string) {
		list = append(list, mcp.Method{Name: name}, mcp.Method{Name: name, Notification: true})
	}
	for name := range s.cfg.Features.Methods {
		add(name)
	}
	for name := range s.cfg.Features.Scopes {
		add(name)
	}
	for _, e := range on {
		for name := range e.Methods {
			add(name)
		}
	}
	return list
}

// served are the methods that [handler] serves. The value is true if [Limits.Calls] limits them,
// because they call a function of the server's author, or hold a subscription.
var served = map[string]bool{
	mcp.MethodCompletionComplete: true, mcp.MethodPromptsGet: true, mcp.MethodResourcesList: true, mcp.MethodResourcesRead: true,
	mcp.MethodResourcesSubscribe: true, mcp.MethodSubscriptionsListen: true, mcp.MethodToolsCall: true,
	mcp.MethodLoggingSetLevel: false, mcp.MethodPromptsList: false, mcp.MethodResourcesTemplatesList: false,
	mcp.MethodResourcesUnsubscribe: false, mcp.MethodServerDiscover: false, mcp.MethodToolsList: false,
}

// handlerOf returns the innermost handler of a method.
func (s *Server) handlerOf(m mcp.Method, on []*extension) session.Handler {
	if m.Name == mcp.MethodInitialize && !m.Notification {
		return s.initialize
	}
	if own := s.ownHandler(m.Name, on); own != nil {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if err := checkLogLevel(req); err != nil {
				return nil, err
			}
			return own(ctx, req)
		}
	}
	_, ok := served[m.Name]
	switch {
	case !ok || m.Notification:
		return s.rest
	case m.Name == mcp.MethodServerDiscover || m.Name == mcp.MethodSubscriptionsListen:
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.Revision().Has(req.Method) {
				return s.rest(ctx, req)
			}
			return s.dispatch(ctx, req)
		}
	}
	return s.dispatch
}

// ownHandler returns the handler of the configuration or of an extension for a method, or nil.
func (s *Server) ownHandler(method string, on []*extension) session.Handler {
	if own := s.cfg.Features.Methods[method]; own != nil {
		return own
	}
	for _, e := range on {
		if own := e.Methods[method]; own != nil {
			return e.serve(own)
		}
	}
	return nil
}

// rest serves the methods that the server does not know.
func (s *Server) rest(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	if s.cfg.Session.Handler == nil {
		return nil, methodNotFound(req)
	}
	return s.cfg.Session.Handler(ctx, req)
}

// initialize lets the session answer initialize, and removes members from the result that the
// negotiated revision does not define.
func (s *Server) initialize(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	base := s.peerFor(ctx, req).base
	if base == nil { // only a session answers it
		return s.rest(ctx, req)
	}
	result, err := base(ctx, req)
	handshake, ok := result.(*mcp.InitializeResult)
	if !ok || err != nil {
		return result, err
	}
	if session.Principal(ctx) == "" {
		handshake = undeclareList(handshake)
	}
	return results.ProjectInitialize(mcp.Revision(handshake.ProtocolVersion), handshake), nil
}

// dispatch serves the methods of the features of a server.
func (s *Server) dispatch(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	p, rev := s.peerFor(ctx, req), revision(req)
	if known, _ := session.FromContext(ctx); known != req { // a re-run task, or a copy of middleware
		ctx = req.Internals(boundary.Caller{}).NewContext(ctx)
	}
	list, print := p.beginList(req.Method)
	result, err := mcp.DispatchServer(ctx, &p.handler, rev, req.Method, req.Params)
	if err != nil {
		if result, err = p.handler.dispatchAgain(ctx, req, err); err != nil {
			return nil, err
		}
	}
	if list != "" {
		p.endList(ctx, list, print)
	}
	return results.Project(rev, result), nil
}

// peerFor returns the state of the client of a request: that of its session, or that of all
// requests without one. For a request that runs again outside of both, it is the one of calls that
// belong to no session.
func (s *Server) peerFor(ctx context.Context, req *session.Request) *peer {
	if p, ok := peerOf(ctx, req); ok {
		return p
	}
	return s.detached
}

// peerOf returns the state of the client of a request, if it belongs to a session of a server or to
// requests without one.
func peerOf(ctx context.Context, req *session.Request) (p *peer, ok bool) {
	if p, ok = req.Internals(boundary.Caller{}).State().(*peer); ok {
		return p, ok
	}
	if served, found := session.FromContext(ctx); found { // req may be one that middleware has made
		p, ok = served.Internals(boundary.Caller{}).State().(*peer)
	}
	return p, ok
}

// named returns a concern of the methods with some names.
func named(names ...string) func(mcp.Method) bool {
	return func(m mcp.Method) bool { return slices.Contains(names, m.Name) }
}

// routeFeatures returns the features of the server's routes that are on, the outermost first. A
// feature that can be turned on later increases [Server.features] when that happens.
func (s *Server) routeFeatures(extensions []*extension) (on []methods.Feature[session.Handler]) {
	add := func(name string, concerns func(mcp.Method) bool, wrap func(session.Handler) session.Handler) {
		on = append(on, methods.Feature[session.Handler]{Name: name, Concerns: concerns, Wrap: wrap})
	}
	before := func(name string, concerns func(mcp.Method) bool, check func(context.Context, *session.Request) error) {
		add(name, concerns, func(next session.Handler) session.Handler {
			return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if err := check(ctx, req); err != nil {
					return nil, err
				}
				return next(ctx, req)
			}
		})
	}
	if s.cfg.Limits.Calls > 0 {
		before("rate", func(m mcp.Method) bool { return s.limited(m, extensions) }, s.limitRate)
	}
	before("scopes", s.needsScopes, s.permit)
	before("declared", s.undeclared, s.checkDeclared)
	before("notices", named(mcp.MethodNotificationsInitialized, mcp.MethodNotificationsRootsListChanged), s.noticed)
	before("principal", named(mcp.MethodTasksList), func(ctx context.Context, req *session.Request) error {
		if session.Principal(ctx) == "" { // it would see the tasks of all such clients
			return jsonrpc.MethodNotFound(req.Method)
		}
		return nil
	})
	if s.asksForTasks.Load() {
		add("asked", func(m mcp.Method) bool { return !m.Notification || m.Name == mcp.MethodNotificationsTasksStatus }, s.receiveTasks)
	}
	for _, e := range extensions {
		if e.Wrap != nil {
			_, name, _ := strings.Cut(e.ID, "/")
			add(name, e.Wraps, e.Wrap)
		}
	}
	return on
}

// limited reports whether [Limits.Calls] limits a method.
func (s *Server) limited(m mcp.Method, on []*extension) bool {
	if m.Notification {
		return false
	}
	if s.ownHandler(m.Name, on) != nil {
		_, defined := mcp.LookupMethod(m.Name)
		return !defined
	}
	return served[m.Name]
}

// limitRate rejects a request of a client that calls too often. The work of a task does not count:
// it may run much later, or again.
func (s *Server) limitRate(ctx context.Context, req *session.Request) error {
	if allow(s.limits.of(s.peerFor(ctx, req).account(ctx)).calls) {
		return nil
	}
	return &jsonrpc.Error{Code: session.CodeOverloaded, Message: "overloaded: too many calls, try again later"}
}

// undeclared reports whether a method belongs to a feature that the server has not declared, in a
// revision without sessions.
func (s *Server) undeclared(m mcp.Method) bool {
	if !s.servesModern() {
		return false
	}
	return slices.ContainsFunc(s.responder.Revisions(), func(rev mcp.Revision) bool {
		name := m.Needs(rev)
		if name == "" || !m.In(rev) {
			return false
		}
		d, err := s.discovery()
		return err != nil || !d.result.Capabilities.Declares(name)
	})
}

// checkDeclared rejects a request without a session for a feature that the server has not declared
// (MCP, "Server Discovery"). A session rejects such requests itself.
func (s *Server) checkDeclared(_ context.Context, req *session.Request) error {
	m, _ := mcp.LookupMethod(req.Method)
	if req.Session != nil || m.Needs(req.Revision()) == "" {
		return nil
	}
	if _, err := s.discovery(); err != nil {
		return err
	}
	return jsonrpc.MethodNotFound(req.Method)
}

// noticed drops the cached roots when the client of a session announces a change, and calls
// [Hooks.Initialized] and RootsChanged.
func (s *Server) noticed(ctx context.Context, req *session.Request) error {
	if req.Session == nil {
		return nil
	}
	p, hooks := s.peerFor(ctx, req), &s.cfg.Hooks
	if req.Method == mcp.MethodNotificationsInitialized {
		if hooks.Initialized != nil && p.initialized.CompareAndSwap(false, true) {
			hooks.Initialized(ctx, newCall(ctx, p))
		}
		return nil
	}
	p.roots.changed()
	if hooks.RootsChanged != nil {
		hooks.RootsChanged(ctx, newCall(ctx, p))
	}
	return nil
}

// receiveTasks is the middleware for tasks that the client of a session runs. Other sessions bypass
// it.
func (s *Server) receiveTasks(next session.Handler) session.Handler {
	related := next
	for _, m := range s.taskMiddleware.Hooks.Receiving {
		related = m(related)
	}
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if s.peerFor(ctx, req).requestsTasks.Load() {
			return related(ctx, req)
		}
		return next(ctx, req)
	}
}

// sendTasks is the sending middleware of a session for tasks of both sides. Sessions whose client
// runs no task bypass its part.
func (p *peer) sendTasks(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		related := next
		if p.requestsTasks.Load() {
			for _, m := range p.s.taskMiddleware.Hooks.Sending {
				related = m(related)
			}
		}
		return related(ctx, call)
	}
}
