package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Server serves any number of sessions with one set of features. Its methods may be called by many
// goroutines. [New] creates one; the zero Server is not usable: its methods panic.
type Server struct {
	cfg Options
	log *slog.Logger // of the configuration; may be nil

	handler session.Handler        // route, with the middleware for all methods
	routes  atomic.Pointer[routes] // see table

	tools     *set[*tool]
	resources *set[*resource]
	templates *set[*template]
	prompts   *set[*prompt]

	modern       *peer // for modern requests
	responder    responder
	completer    results.Completer         // of modern results
	features     atomic.Uint64             // number of changes of features and extensions
	scoped       atomic.Bool               // some feature needs scopes
	protected    atomic.Bool               // some handler needs authorization
	asksForTasks atomic.Bool               // some client has been asked to create a task
	discovered   atomic.Pointer[discovery] // the result of server/discover
	listeners    listeners
	limits       *principalLimits
	opened       atomic.Uint64 // number of peers so far
	detached     *peer         // for calls that belong to no session, such as those of recovered tasks

	keys  *stateKeys // for what passes through clients
	forms sync.Map   // of the types of Elicit; a [reflect.Type] has a [*schemas.Form]

	clientTasks    *requestor.Tasks // tasks that clients run
	taskMiddleware session.Options  // the middleware of clientTasks

	claiming sync.Mutex // held while an elicitation claims its id; taken before all other locks

	busID string      // identifies the server in messages of the Bus
	onBus atomic.Bool // the server has started, and publishes changes

	starting sync.Mutex // held while the server starts; taken before mu
	leaveBus func()     // guarded by starting; nil before the server has subscribed to the Bus
	// stopWaiting ends awaitStore; guarded by mu; nil unless another process uses the store.
	stopWaiting context.CancelFunc
	tasks       atomic.Pointer[task.Manager]

	mu         sync.Mutex
	mistakes   []error // of the configuration and of calls before the start
	checked    bool    // the server is starting, or has started, without mistakes
	started    bool
	peers      map[*peer]struct{}
	bySession  map[*session.Session]*peer // the peers whose sessions have opened
	timers     map[string]*time.Timer     // of debounced notices, by method
	extensions map[string]*extension      // by ID
	closed     bool
	handlers   []*streamable.Handler // made by Handler
	running    sync.WaitGroup        // sessions in peers, and goroutines that send notices
}

// New returns a server without features. Name and version are sent to clients in the handshake; the
// version may be the number of a build. The configuration cfg may be nil. Mistakes in the arguments
// are recorded; see [Server.Err].
func New(name, version string, cfg *Options) *Server {
	s := &Server{busID: rand.Text(), peers: map[*peer]struct{}{}, bySession: map[*session.Session]*peer{}, timers: map[string]*time.Timer{}}
	if cfg != nil {
		s.cfg = *cfg
	}
	s.log = cmp.Or(s.cfg.Logger, s.cfg.Session.Logger)
	for _, err := range s.cfg.complete(name, version) {
		s.record(err)
	}
	s.listeners.open = map[*listener]struct{}{}
	s.listeners.quota.Limit = modern.Size{Count: s.cfg.Limits.Subscriptions, Bytes: s.cfg.Limits.SubscriptionBytes}
	s.tools = newSet[*tool](s, KindTool, mcp.MethodNotificationsToolsListChanged)
	s.resources = newSet[*resource](s, KindResource, mcp.MethodNotificationsResourcesListChanged)
	s.templates = newSet[*template](s, KindTemplate, mcp.MethodNotificationsResourcesListChanged)
	s.prompts = newSet[*prompt](s, KindPrompt, mcp.MethodNotificationsPromptsListChanged)
	s.taskMiddleware.Logger = s.cfg.Session.Logger
	s.clientTasks = requestor.Attach(&s.taskMiddleware)
	s.keys = newStateKeys(&s.cfg)
	s.cfg.Shared.StateKeys = nil
	s.detached = newPeer(s)
	s.handler = s.route
	for _, m := range slices.Backward(s.cfg.Session.Hooks.Receiving) {
		s.handler = m(s.handler)
	}
	if s.cfg.Middleware.All != nil {
		if m := s.cfg.Middleware.All(s); m != nil {
			s.handler = m(s.handler)
		}
	}
	s.newResponder()
	return s
}

// Serve starts the server, as [Server.Start] does, opens a session over conn and returns at once.
// The session owns conn. If the server cannot start or is closed, Serve fails and closes conn.
//
// If conn is a [transport.Persister], the server persists the state that the client does not send
// again: its subscriptions, its log level and its open URL elicitations. The server rejects a
// request that changes this state if it cannot be persisted. After a restart, the next server that
// serves the session restores this state. Updates of resources in between are not reported. If the
// new server has other features than the lists that the client has fetched, it announces these
// lists. It also announces lists that it cannot compare: those with features of [VisibleTo],
// [DefineToolFor] or [Features.Visible], those of a [ListFunc] or of [Features.Methods], and all
// lists of another version of a server with receiving middleware.
func (s *Server) Serve(conn transport.Conn) (*session.Session, error) {
	return s.serve(context.Background(), conn, "")
}

// serve is [Server.Serve]. The session has the given principal unless [Options].Session names one.
func (s *Server) serve(ctx context.Context, conn transport.Conn, principal string) (*session.Session, error) {
	if conn == nil {
		return nil, errors.New("server: nil connection")
	}
	if err := s.Start(ctx); err != nil {
		if errors.Is(err, session.ErrClosed) {
			suspend(conn) // another process may serve it
		}
		conn.Close()
		return nil, err
	}
	p := newPeer(s)
	if persister, ok := transport.As[transport.Persister](conn); ok {
		p.restore(persister)
	}
	sess, err := s.openFor(p, func(result *mcp.InitializeResult, cfg *session.Options) *session.Session {
		cfg.Principal = cmp.Or(cfg.Principal, principal)
		return session.Serve(conn, result, cfg)
	})
	if err != nil {
		suspend(conn)
		conn.Close()
	}
	return sess, err
}

// openFor opens the session that start returns for a peer.
func (s *Server) openFor(p *peer, start func(*mcp.InitializeResult, *session.Options) *session.Session) (sess *session.Session, err error) {
	result, err := s.initializeResult()
	if err != nil {
		return nil, err
	}
	p.compareLists(&result.Capabilities)
	cfg := s.sessionConfig(p)
	if !s.addPeer(p) {
		return nil, session.ErrClosed
	}
	defer func() {
		if sess == nil { // also if start panics
			s.removePeer(p)
		}
	}()
	sess = start(result, cfg)
	p.session.Store(sess)
	s.mu.Lock()
	s.bySession[sess] = p
	s.mu.Unlock()
	if s.cfg.Hooks.SessionOpened != nil {
		err := boundary.Run(func() error {
			s.cfg.Hooks.SessionOpened(sess)
			return nil
		})
		boundary.Report(s.cfg.Logger, "SessionOpened panicked", err)
	}
	p.restoreSubscriptions()
	p.startNotices()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed { // endAll may have missed this session
		suspend(p.store)
		sess.Internals(boundary.Caller{}).StartClose()
	}
	sess.Internals(boundary.Caller{}).AfterDone(func() { s.removePeer(p) })
	return sess, nil
}

// addPeer adds a peer, which receives notices from then on. It returns false if the server is
// closed.
func (s *Server) addPeer(p *peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	s.peers[p] = struct{}{}
	return true
}

// removePeer removes a peer whose session has ended.
func (s *Server) removePeer(p *peer) {
	defer s.running.Done()
	s.mu.Lock()
	delete(s.peers, p)
	sess := p.session.Load()
	delete(s.bySession, sess)
	s.mu.Unlock()
	p.end()
	if sess != nil && s.cfg.Hooks.SessionClosed != nil {
		err := boundary.Run(func() error {
			s.cfg.Hooks.SessionClosed(sess, sess.Wait())
			return nil
		})
		boundary.Report(s.cfg.Logger, "SessionClosed panicked", err)
	}
}

// Run starts the server, as [Server.Start] does, and serves one connection until the client ends
// the session or ctx ends. Then it returns nil. If the connection fails, it returns the error. When
// ctx ends, running calls have 5 seconds to finish; after that they fail with
// [session.CodeClosing], see [session.Session.Shutdown]. Clients that wait in tasks/result do not
// delay Run: their tasks continue. For another limit, use Serve. Run does not close the server.
func (s *Server) Run(ctx context.Context, conn transport.Conn) error {
	return s.run(ctx, conn, "")
}

func (s *Server) run(ctx context.Context, conn transport.Conn, principal string) error {
	sess, err := s.serve(ctx, conn, principal)
	if err != nil {
		return err
	}
	select {
	case <-sess.Done():
		return sess.Wait()
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		sess.Shutdown(grace)
		return nil
	}
}

// shutdownGrace limits how long calls may run after the context of Run has ended.
const shutdownGrace = 5 * time.Second

// responder serves requests without a session; see NewResponder of the internals of a
// [session.Options].
type responder interface {
	transport.Responder
	Shutdown(context.Context) error
	Close() error
}

// suspend makes a connection preserve its session when it is closed, so that another process can
// restore it.
func suspend(conn transport.Conn) {
	if c, ok := transport.As[transport.Persister](conn); ok {
		c.Suspend()
	}
}

// Close ends all sessions and modern requests at once and waits for their handlers. Then it closes
// the task.Manager of the server and waits for the work of its tasks; tasks that can be recovered
// continue after a restart. It does not close the store of the tasks. A connection that is a
// [transport.Persister] preserves its session for another process. A handler must not call Close.
func (s *Server) Close() error {
	return s.endAll(context.Background(), 0, func(sess *session.Session) error { return sess.Close() }, s.responder.Close)
}

// Shutdown ends all sessions in order, see [session.Session.Shutdown], and requests without a
// session, and waits for their handlers. Each open subscriptions/listen ends with its result.
// Meanwhile, the work of tasks has the time of [Limits.Drain] to finish. Then Shutdown closes the
// task.Manager of the server. If ctx ends first, Shutdown stops waiting for handlers and tasks that
// ignore the end of their context. Connections preserve their sessions as with Close.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.endAll(ctx, s.cfg.Limits.Drain, func(sess *session.Session) error { return sess.Shutdown(ctx) }, func() error { return s.responder.Shutdown(ctx) })
}

// endAll ends all sessions with end and the modern requests with endModern, and waits for their
// handlers until ctx ends, and for the work of tasks as long as drain. Then it closes the Manager.
func (s *Server) endAll(ctx context.Context, drain time.Duration, end func(*session.Session) error, endModern func() error) error {
	s.mu.Lock()
	s.closed = true
	handlers := s.handlers
	for _, timer := range s.timers {
		timer.Stop()
	}
	clear(s.timers)
	if s.stopWaiting != nil {
		s.stopWaiting()
	}
	s.mu.Unlock()
	for _, h := range handlers {
		h.Drain()
	}
	for _, p := range s.allPeers() {
		suspend(p.store)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
	}
	for _, sess := range s.Sessions() {
		group.Go(func() { note(end(sess)) })
	}
	group.Go(func() { note(endModern()) })
	if drain > 0 {
		group.Go(func() { s.drainTasks(ctx, drain) })
	}
	group.Wait()
	left := make(chan struct{})
	go func() { // ends when the last handler has returned
		defer close(left)
		s.running.Wait()
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
	s.starting.Lock() // after it, no Manager is made
	m := s.tasks.Load()
	leave := s.leaveBus
	s.leaveBus = nil
	s.starting.Unlock()
	if leave != nil {
		leave()
	}
	if m != nil {
		failed = errors.Join(failed, m.Close(ctx))
	}
	return failed
}

// drainTasks drains the Manager for a time, unless ctx ends first.
func (s *Server) drainTasks(ctx context.Context, limit time.Duration) {
	s.starting.Lock() // a Manager may be being made
	m := s.tasks.Load()
	s.starting.Unlock()
	if m != nil {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		m.Drain(ctx) // what is left over ends with Close
	}
}

// Sessions returns the sessions that are open, in no particular order.
func (s *Server) Sessions() []*session.Session {
	var list []*session.Session
	for _, p := range s.allPeers() {
		if sess := p.session.Load(); sess != nil {
			list = append(list, sess)
		}
	}
	return list
}

// peerOf returns the peer of a session, or nil if the session is not open.
func (s *Server) peerOf(sess *session.Session) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bySession[sess]
}

func (s *Server) allPeers() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*peer, 0, len(s.peers))
	for p := range s.peers {
		list = append(list, p)
	}
	return list
}

// sessionConfig returns the configuration for the session of p.
func (s *Server) sessionConfig(p *peer) *session.Options {
	cfg := s.cfg.Session
	in := cfg.Internals(boundary.Caller{})
	in.State, cfg.Handler, cfg.Hooks.Receiving = p, nil, []session.Middleware{p.receive}
	if s.servesModern() {
		in.Responder = s.responder
	}
	cfg.Hooks.Sending = append(slices.Clone(cfg.Hooks.Sending), p.sendTasks)
	if s.tasks.Load() != nil {
		cfg.Hooks.Sending = append(cfg.Hooks.Sending, receiver.Internals(boundary.Caller{}).Relate)
	}
	return &cfg
}
