package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Config configures a [Server]. Its zero value is useful.
type Config struct {
	// Info is the server info of the handshake, such as the title and icons. [New] sets its Name
	// and Version, which must be empty or equal to the arguments of New.
	Info mcp.Implementation
	// Instructions tell the model how to make good use of the server; "" for none.
	Instructions string

	// Capabilities may change the capabilities that the server declares when a session opens, and
	// to modern requests after features have changed. Its argument holds those of the current
	// features. Declare more to add the first feature of a kind later, or fewer to switch a kind
	// off. [Server.DeclareExtension] declares extensions.
	Capabilities func(*mcp.ServerCapabilities)

	// Caching is how long clients may use the results of modern requests again.
	Caching Caching
	// OmitServerInfo omits the server info from the results of modern requests, which otherwise
	// have the name, the title and the version of the server in their _meta.
	OmitServerInfo bool

	// Session is the configuration of each session. Its Handler receives the requests and
	// notifications that the server does not handle. If its Revisions has only revisions with
	// sessions, the server serves no others.
	Session session.Config
	// Methods are handlers of requests and notifications by method. They take precedence over the
	// server's handlers. Use them for methods of your own, see [Method] and [Notification], or for
	// raw access to methods of the protocol. Names that begin with tasks/ or notifications/tasks/
	// are reserved for tasks. A modern result may only have a resultType of its own if the server
	// and the client declare a common extension.
	Methods map[string]session.Handler

	// Visible decides which features exist for a call, in addition to the option [VisibleTo]. The
	// rules for the function of that option apply to Visible, too. Nil shows all features.
	Visible func(c *Call, f Feature) bool

	// Middleware, if set, is called once, by [New], and returns middleware that wraps the handling
	// of all requests and notifications, in sessions and without: it is outside of that of
	// Session.Receiving. Unlike that, it knows the server; see [Server.Has]. The results of modern
	// requests may have a method Unwrap, which returns the result without members that the server
	// adds.
	Middleware func(s *Server) session.Middleware

	// Scopes are the scopes that requests and notifications need, by method, such as "tools/call";
	// "*" stands for all methods. They add to those of the options [RequireScopes] and
	// [RequireScopesFor], and to those of the [auth.Protector]. Calls without an identity, such as
	// those over stdio, need none.
	Scopes map[string][]string

	// ToolMiddleware, PromptMiddleware and ResourceMiddleware wrap the handling of all requests for
	// features of their kind, the first one outermost. See [Middleware] for the order.
	ToolMiddleware     []ToolMiddleware
	PromptMiddleware   []PromptMiddleware
	ResourceMiddleware []ResourceMiddleware
	// StepMiddleware wraps the functions of all steps that run, the first one outermost; see
	// [Step].
	StepMiddleware []StepMiddleware

	// TaskStore stores the tasks that clients create. With a store, [Server.Start] makes a
	// [task.Manager] and recovers unfinished tasks, and the server declares tasks in sessions and
	// the Tasks extension to modern requests. Clients can list their tasks in sessions with a
	// principal. [Server.Shutdown] and [Server.Close] close the Manager, but not the store: close
	// it afterwards, or let the process end.
	TaskStore task.Store
	// Tasks configures the tasks. Its Store must be nil. Its Recover and its ToolLimit are called
	// for tasks whose tool the server does not have; see [MaxRunning] for the others. Without
	// Recover, a name in its Member.Tools that is not a tool of the server is logged as a warning.
	Tasks task.Config

	// Drain is the maximum time for which [Server.Shutdown] lets the work of tasks finish before it
	// ends the contexts of the work; see [task.Manager.Drain]. It begins with the shutdown, at the
	// same time as the end of the sessions. In a fleet, tasks that do not run move to other
	// processes at once. Give the context of Shutdown some seconds more, so that outcomes are
	// stored. The default is 0: the contexts of the work end once the sessions have ended.
	Drain time.Duration

	// Types are the schemas of Go types, wherever the server infers schemas: of arguments and
	// output of tools, of arguments of prompts, and of the forms of [Elicit]. See [DefineType].
	Types []TypeDefinition

	// PageSize is the number of features on a page of a list. The default is [DefaultPageSize].
	PageSize int
	// CursorKey is a secret that authenticates the cursors of a [ListFunc], so that a client cannot
	// forge one. The cursors of resources/list contain them. Servers with the same key, such as
	// those behind one load balancer, accept each other's cursors. The default is a random key:
	// after a restart of the server, clients must fetch such a list from its beginning.
	CursorKey []byte
	// Debounce merges list_changed notifications: one is sent when this time has passed after the
	// first change. Zero sends one for each change.
	Debounce time.Duration

	// Bus passes changes of lists and resources between the servers of several processes. The
	// server subscribes to it when it starts, and ends the subscription with [Server.Close] and
	// [Server.Shutdown]. Nil means that changes reach only the clients of this server.
	Bus Bus

	// InputTimeout limits how long a client may take to respond to an input request of a plain
	// call. After that, [Call.Sample], [Elicit], [Call.ElicitForm], [Call.ElicitURL] and
	// [Call.Roots] fail with [session.ErrTimeout], and the server cancels the request at the
	// client. The deadline of their context may be earlier. A task waits until its ttl has passed.
	// The default is [DefaultInputTimeout], and a negative value means no limit.
	//
	// In revisions without sessions, input requests end with the call. InputTimeout limits how long
	// the client may take to send the call again with the responses; no limit means 24 hours there.
	InputTimeout time.Duration
	// StateKeys are secrets that protect the state of calls in revisions without sessions, which
	// passes through the client while it collects input. Each has at least 32 random bytes. The
	// first one seals new state, and all of them open it. Servers with the same keys, such as those
	// behind one load balancer, continue each other's calls, whatever their version is; a tool with
	// another [Version] does not. To replace a key, first add the new one at the end on all
	// servers, then move it to the front, then remove the old one. The default is a random key,
	// which is kept in the TaskStore: servers with the same store have the same key, after a
	// restart or in a fleet. Without a TaskStore, calls that wait for input must be made again
	// after a restart.
	StateKeys [][]byte
	// MaxState limits the size of that state, in bytes. A call whose steps and responses take more
	// fails. The default is [DefaultMaxState].
	MaxState int
	// MaxRounds limits how often a call in revisions without sessions may ask for input. The
	// default is [DefaultMaxRounds], and a negative value means no limit.
	MaxRounds int
	// MaxToolRounds limits the rounds of tool calls since the last message of the user in a
	// conversation that [Call.Sample] sends. The default is [DefaultMaxToolRounds], and a negative
	// value means no limit.
	MaxToolRounds int

	// CallRate limits the requests that call a handler, per second and session, with bursts of
	// twice as many. For modern requests, it limits those of a principal, or of a network of clients
	// without a principal; see [streamable.HandlerOptions]. Further requests are rejected with
	// [session.CodeOverloaded]. A request for a task counts when it arrives; the work of the task
	// is not limited. Zero means no limit.
	CallRate float64
	// LogRate limits the log messages per second and session, with bursts of twice as many. For
	// modern requests, it limits those of a principal, as CallRate does. Further messages are
	// dropped. The default is [DefaultLogRate], and a negative value means no limit.
	LogRate float64
	// LogLevel is the least severe level that is sent in a session whose client has not set one.
	// The default is info. Modern requests say for themselves which messages they ask for.
	LogLevel mcp.LoggingLevel

	// MaxURI limits the length of a resource URI, in bytes. A request with a longer URI is rejected
	// before any other work on it. The default is [DefaultMaxURI].
	MaxURI int
	// MaxSubscriptions limits the subscriptions of a session. For modern requests, it limits those
	// of a principal: each subscriptions/listen counts, and each URI and each task in it.
	// Clients without a principal count by their network. The default is [DefaultMaxSubscriptions].
	MaxSubscriptions int
	// MaxSubscriptionBytes limits the total length of the URIs that a session subscribes to, in
	// bytes. For modern requests, it limits those of a principal, with the ids of tasks and the
	// _meta of its subscriptions/listen. The default is [DefaultMaxSubscriptionBytes].
	MaxSubscriptionBytes int
	// Subscribe is called when a session subscribes to a resource for the first time; its error
	// rejects the subscription. Unsubscribe is called when the session unsubscribes or has ended;
	// in the latter case, c is nil and ctx belongs to no call. Either function may be nil. Calls
	// for one resource of one session do not overlap, so the last call reflects the current state.
	//
	// After a restart, Subscribe is called again for each restored subscription; see
	// [Server.Serve]. Then c has a session and a principal, but cannot reach the client, and ctx
	// ends with the session. An error ends the subscription; it is not reported to the client.
	//
	// Each subscriptions/listen of a modern client subscribes to its resources when it begins and
	// unsubscribes when it ends, both with its call, which cannot reach the client. An error of
	// Subscribe omits the resource from the subscription.
	Subscribe   func(ctx context.Context, c *Call, uri string) error
	Unsubscribe func(ctx context.Context, c *Call, uri string)

	// SessionOpened is called when the server has opened a session, before the handshake. Requests
	// of the client may be served meanwhile. SessionClosed is called once for each such session,
	// when it has ended and its handlers have returned. Its cause is that of
	// [session.Session.Wait]: nil if a side has closed the session. [Server.Close] and
	// [Server.Shutdown] wait for both functions. The functions must return soon, and must not call
	// Close or Shutdown. Each POST to a Stateless [streamable.Handler] is a session, except for
	// modern requests, which need none. Over stdio, the connection is a session even if it carries
	// only modern requests.
	SessionOpened func(s *session.Session)
	SessionClosed func(s *session.Session, cause error)

	// HTTPRejected, if set, is called for the HTTP requests that a handler of the server rejects,
	// in addition to Rejected of [streamable.HandlerOptions], which describes it.
	HTTPRejected func(r *http.Request, status int)

	// Initialized is called once for each session whose client announces that the handshake is
	// complete (MCP lifecycle, "Initialization"). It is not called for restored sessions.
	// RootsChanged is called when the client announces that its roots have changed; [Call.Roots]
	// returns the new ones. Both may send requests to the client. Further notifications of the
	// client wait until they return. Their ctx ends with the session.
	Initialized  func(ctx context.Context, c *Call)
	RootsChanged func(ctx context.Context, c *Call)

	// Logger receives events that are not reported to the client. If it is nil, the Logger of
	// Session is used. If that is nil too, warnings and errors, such as panics of handlers, go to
	// [slog.Default], and other events are discarded.
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultPageSize             = 100
	DefaultLogRate              = 1000
	DefaultInputTimeout         = 10 * time.Minute
	DefaultMaxState             = 64 << 10
	DefaultMaxRounds            = 100
	DefaultMaxToolRounds        = 100
	DefaultMaxURI               = 8 << 10
	DefaultMaxSubscriptions     = 10000
	DefaultMaxSubscriptionBytes = 1 << 20
)

// Server serves any number of sessions with one set of features. Its methods may be called by many
// goroutines. [New] creates one; the zero Server is not usable: its methods panic.
type Server struct {
	cfg Config
	log *slog.Logger // of the configuration; may be nil

	middleware []session.Middleware // of Config.Middleware; empty without it

	tools     *set[*tool]
	resources *set[*resource]
	templates *set[*template]
	prompts   *set[*prompt]

	modern     *peer // for modern requests
	responder  *session.Responder
	serverInfo []byte                    // the member of the _meta of modern results; nil for none
	features   atomic.Uint64             // number of changes of features and extensions
	scoped     atomic.Bool               // some feature needs scopes
	protected  atomic.Bool               // some handler needs authorization
	discovered atomic.Pointer[discovery] // the result of server/discover
	listeners  listeners
	limits     *principalLimits // of modern requests
	detached   *peer            // for calls that belong to no session, such as those of recovered tasks

	keys  *stateKeys // for what passes through clients
	forms sync.Map   // of the types of Elicit; a [reflect.Type] has a *typeForm

	clientTasks    *requestor.Tasks // tasks that clients run
	taskMiddleware session.Config   // the middleware of clientTasks

	claiming sync.Mutex // held while an elicitation claims its id; taken before all other locks

	busID string      // identifies the server in messages of the Bus
	onBus atomic.Bool // the server has started, and publishes changes

	starting sync.Mutex // held while the server starts; taken before mu
	leaveBus func()     // guarded by starting; nil before the server has subscribed to the Bus
	// stopWaiting ends awaitStore; guarded by mu; nil unless another process uses the store.
	stopWaiting context.CancelFunc
	tasks       atomic.Pointer[task.Manager]

	mu        sync.Mutex
	mistakes  []error // of the configuration and of calls before the start
	checked   bool    // the server is starting, or has started, without mistakes
	started   bool
	peers     map[*peer]struct{}
	bySession map[*session.Session]*peer // the peers whose sessions have opened
	timers    map[string]*time.Timer     // of debounced notices, by method
	// extensions are the settings of the declared extensions by identifier.
	extensions map[string]json.RawMessage
	closed     bool
	handlers   []*streamable.Handler // made by Handler
	running    sync.WaitGroup        // sessions in peers, and goroutines that send notices
}

// New returns a server without features. Name and version are sent to clients in the handshake; the
// version may be the number of a build. The configuration cfg may be nil. Mistakes in the arguments
// are recorded; see [Server.Err].
func New(name, version string, cfg *Config) *Server {
	s := &Server{busID: rand.Text(), peers: map[*peer]struct{}{}, bySession: map[*session.Session]*peer{}, timers: map[string]*time.Timer{}}
	if cfg != nil {
		s.cfg = *cfg
	}
	s.log = cmp.Or(s.cfg.Logger, s.cfg.Session.Logger)
	for _, err := range s.cfg.complete(name, version) {
		s.record(err)
	}
	s.listeners.open = map[*listener]struct{}{}
	s.listeners.quota.Limit = modern.Size{Count: s.cfg.MaxSubscriptions, Bytes: s.cfg.MaxSubscriptionBytes}
	s.tools = newSet[*tool](s, KindTool, mcp.MethodNotificationsToolsListChanged)
	s.resources = newSet[*resource](s, KindResource, mcp.MethodNotificationsResourcesListChanged)
	s.templates = newSet[*template](s, KindTemplate, mcp.MethodNotificationsResourcesListChanged)
	s.prompts = newSet[*prompt](s, KindPrompt, mcp.MethodNotificationsPromptsListChanged)
	s.taskMiddleware.Logger = s.cfg.Session.Logger
	s.clientTasks = requestor.Attach(&s.taskMiddleware)
	s.keys = newStateKeys(&s.cfg)
	s.cfg.StateKeys = nil
	s.detached = newPeer(s)
	if s.cfg.Middleware != nil {
		if m := s.cfg.Middleware(s); m != nil {
			s.middleware = []session.Middleware{m}
		}
	}
	s.newResponder()
	return s
}

// complete sets the name and the version of the server, and the defaults of all fields. It replaces
// each invalid value by the default and returns an error for it.
func (cfg *Config) complete(name, version string) (mistakes []error) {
	for _, member := range []struct {
		name  string
		own   *string
		value string
	}{{"name", &cfg.Info.Name, name}, {"version", &cfg.Info.Version, version}} {
		switch {
		case member.value == "":
			mistakes = append(mistakes, fmt.Errorf("server: empty %s", member.name))
		case *member.own != "" && *member.own != member.value:
			mistakes = append(mistakes, fmt.Errorf("server: %s %q differs from %q in Config.Info", member.name, member.value, *member.own))
		}
		*member.own = member.value
	}
	if invalid := schemas.CheckDefinitions(definitions(cfg.Types)); len(invalid) > 0 {
		for _, mistake := range invalid {
			mistakes = append(mistakes, fmt.Errorf("server: Config.Types: %w", mistake))
		}
		cfg.Types = nil
	}
	cfg.Types = slices.Clone(cfg.Types)
	if cfg.Debounce < 0 {
		mistakes = append(mistakes, fmt.Errorf("server: negative Debounce (%v)", cfg.Debounce))
		cfg.Debounce = 0
	}
	if cfg.Drain < 0 {
		mistakes = append(mistakes, fmt.Errorf("server: negative Drain (%v)", cfg.Drain))
		cfg.Drain = 0
	}
	mistakes = append(mistakes, cfg.Caching.check()...)
	if cfg.CallRate < 0 {
		mistakes = append(mistakes, fmt.Errorf("server: negative CallRate (%v)", cfg.CallRate))
		cfg.CallRate = 0
	}
	for _, limit := range []struct {
		name  string
		value *int
		def   int
	}{
		{"PageSize", &cfg.PageSize, DefaultPageSize},
		{"MaxState", &cfg.MaxState, DefaultMaxState},
		{"MaxURI", &cfg.MaxURI, DefaultMaxURI},
		{"MaxSubscriptions", &cfg.MaxSubscriptions, DefaultMaxSubscriptions},
		{"MaxSubscriptionBytes", &cfg.MaxSubscriptionBytes, DefaultMaxSubscriptionBytes},
	} {
		if *limit.value < 0 {
			mistakes = append(mistakes, fmt.Errorf("server: negative %s (%d)", limit.name, *limit.value))
		}
		if *limit.value <= 0 {
			*limit.value = limit.def
		}
	}
	switch {
	case cfg.InputTimeout == 0:
		cfg.InputTimeout = DefaultInputTimeout
	case cfg.InputTimeout < 0:
		cfg.InputTimeout = 0 // session.Timeout takes 0 as no limit
	}
	if cfg.MaxRounds == 0 {
		cfg.MaxRounds = DefaultMaxRounds
	}
	for i, key := range cfg.StateKeys {
		if len(key) < rerun.MinKey {
			mistakes = append(mistakes, fmt.Errorf("server: StateKeys: key %d has %d bytes, want at least %d", i, len(key), rerun.MinKey))
		}
	}
	if cfg.MaxToolRounds == 0 {
		cfg.MaxToolRounds = DefaultMaxToolRounds
	}
	if cfg.LogRate == 0 {
		cfg.LogRate = DefaultLogRate
	}
	if cfg.LogLevel == "" {
		cfg.LogLevel = mcp.LoggingLevelInfo
	}
	if _, ok := severity(cfg.LogLevel); !ok {
		mistakes = append(mistakes, fmt.Errorf("server: unknown LogLevel (%q)", cfg.LogLevel))
		cfg.LogLevel = mcp.LoggingLevelInfo
	}
	if cfg.Logger == nil {
		cfg.Logger = cfg.Session.Logger
	}
	cfg.Logger = boundary.Logger(cfg.Logger)
	if cfg.Tasks.Store != nil {
		mistakes = append(mistakes, errors.New("server: Config.Tasks has a Store: set Config.TaskStore instead"))
	}
	if cfg.Tasks.Logger == nil {
		cfg.Tasks.Logger = cfg.Logger
	}
	if len(cfg.CursorKey) == 0 {
		cfg.CursorKey = []byte(rand.Text())
	}
	cfg.CursorKey = bytes.Clone(cfg.CursorKey)
	cfg.Scopes = maps.Clone(cfg.Scopes)
	for method, scopes := range cfg.Scopes {
		if err := auth.CheckScopes(scopes); err != nil {
			mistakes = append(mistakes, fmt.Errorf("server: Scopes of %q: %w", method, err))
		}
	}
	cfg.Methods = maps.Clone(cfg.Methods)
	for _, method := range slices.Sorted(maps.Keys(cfg.Methods)) {
		if isReserved(method) {
			mistakes = append(mistakes, fmt.Errorf("server: method %q: the name is reserved for tasks", method))
			delete(cfg.Methods, method)
		}
	}
	return mistakes
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
// [DefineToolFor] or [Config].Visible, those of a [ListFunc] or of [Config].Methods, and all lists
// of another version of a server with receiving middleware.
func (s *Server) Serve(conn transport.Conn) (*session.Session, error) {
	return s.serve(context.Background(), conn, "")
}

// serve is [Server.Serve]. The session has the given principal unless [Config].Session names one.
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
	sess, err := s.openFor(p, func(result *mcp.InitializeResult, cfg *session.Config) *session.Session {
		cfg.Principal = cmp.Or(cfg.Principal, principal)
		return session.Serve(conn, result, cfg)
	})
	if err != nil {
		suspend(conn)
		conn.Close()
	}
	return sess, err
}

// Open starts the server, as [Server.Start] does, and opens a session with the caller's function,
// which may call [session.Restore], for example. That function receives the result of the handshake
// and the configuration of the session, and returns the session. If the server cannot start, Open
// fails with the error of Start. If the server is closed, it fails with [session.ErrClosed]. Open
// does not restore persisted state; use Serve for that.
func (s *Server) Open(open func(result *mcp.InitializeResult, cfg *session.Config) *session.Session) (*session.Session, error) {
	if open == nil {
		return nil, errors.New("server: open a session: nil function")
	}
	if err := s.Start(context.Background()); err != nil {
		return nil, err
	}
	return s.openFor(newPeer(s), open)
}

func (s *Server) openFor(p *peer, start func(*mcp.InitializeResult, *session.Config) *session.Session) (sess *session.Session, err error) {
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
	if sess = start(result, cfg); sess == nil {
		return nil, errors.New("server: open a session: the function returned nil")
	}
	p.session.Store(sess)
	s.mu.Lock()
	s.bySession[sess] = p
	s.mu.Unlock()
	if s.cfg.SessionOpened != nil {
		err := boundary.Run(func() error {
			s.cfg.SessionOpened(sess)
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
		sess.StartClose()
	}
	sess.AfterDone(func() { s.removePeer(p) })
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
	if sess != nil && s.cfg.SessionClosed != nil {
		err := boundary.Run(func() error {
			s.cfg.SessionClosed(sess, sess.Wait())
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

// suspend makes a connection preserve its session when it is closed, so that another process can
// restore it.
func suspend(conn transport.Conn) {
	if c, ok := transport.As[transport.Suspender](conn); ok {
		c.Suspend()
	}
}

// Close ends all sessions and modern requests at once and waits for their handlers. Then it closes
// the task.Manager of the server and waits for the work of its tasks; tasks that can be recovered
// continue after a restart. It does not close the store of the tasks. A connection that is a
// [transport.Suspender] preserves its session for another process. A handler must not call Close.
func (s *Server) Close() error {
	return s.endAll(context.Background(), 0, func(sess *session.Session) error { return sess.Close() }, s.responder.Close)
}

// Shutdown ends all sessions in order, see [session.Session.Shutdown], and modern requests, see
// [session.Responder.Shutdown], and waits for their handlers. Each open subscriptions/listen ends
// with its result. Meanwhile, the work of tasks has the time of [Config].Drain to finish. Then it
// closes the task.Manager of the server. If ctx ends first, Shutdown stops
// waiting for handlers and tasks that ignore the end of their context. Connections preserve their
// sessions as with Close.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.endAll(ctx, s.cfg.Drain, func(sess *session.Session) error { return sess.Shutdown(ctx) }, func() error { return s.responder.Shutdown(ctx) })
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
func (s *Server) sessionConfig(p *peer) *session.Config {
	cfg := s.cfg.Session
	cfg.Handler = p.methods(p.handler())
	if s.servesModern() {
		cfg.Responder = s.responder
	}
	cfg.Receiving = slices.Concat(s.middleware, cfg.Receiving, []session.Middleware{p.receive, p.receiveTasks})
	cfg.Sending = append(append([]session.SendMiddleware(nil), cfg.Sending...), p.sendTasks)
	if tasks := s.tasks.Load(); tasks != nil {
		receiver.Attach(&cfg, receiver.Options{Manager: tasks, Support: p.support})
	}
	return &cfg
}
