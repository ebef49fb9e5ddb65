package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Options configures a [Server]. Its zero value is useful. A number that is zero means the default,
// and a negative one is an error of [Server.Start] that names the field; [NoLimit] means no limit
// where the field says so.
type Options struct {
	// Info is the server info of the handshake, such as the title and icons. [New] sets its Name
	// and Version, which must be empty or equal to the arguments of New.
	Info mcp.Implementation
	// Instructions tell the model how to make good use of the server; "" for none.
	Instructions string

	// Features describe and restrict the features of the server.
	Features Features
	// Limits limit the work and the memory that a client can cause.
	Limits Limits
	// Middleware wraps the handling of requests, and steps.
	Middleware Middleware
	// Hooks are functions that the server calls when something happens.
	Hooks Hooks
	// Shared is what the processes of one server have in common.
	Shared Shared

	// Session is the configuration of each session. Its Handler receives the requests and
	// notifications that the server does not handle. If its Revisions has only revisions with
	// sessions, the server serves no others.
	Session session.Options

	// Tasks configures the tasks that clients create. With a Store, [Server.Start] makes a
	// [task.Manager] and recovers unfinished tasks, and the server declares tasks in sessions and the
	// Tasks extension to modern requests. Clients can list their tasks in sessions with a principal.
	// [Server.Shutdown] and [Server.Close] close the Manager, but not the Store: close it afterwards,
	// or let the process end. A store that closes with its Manager, such as that of [bolt.File], needs
	// no more.
	//
	// [bolt.File]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/task/bolt#File
	//
	// Recovery.Recover and Limits.Tool are called for tasks whose tool the server does not have; see
	// [MaxRunning] for the others. Without Recovery.Recover, a name in Member.Tools that is not a tool
	// of the server is logged as a warning.
	Tasks task.Options

	// Logger receives events that are not reported to the client. If it is nil, the Logger of
	// Session is used. If that is nil too, warnings and errors, such as panics of handlers, go to
	// [slog.Default], and other events are discarded.
	Logger *slog.Logger
}

// Features are the parts of an [Options] that describe and restrict what a server offers.
type Features struct {
	// Types are the schemas of Go types, wherever the server infers schemas: of arguments and
	// output of tools, of arguments of prompts, and of the forms of [Elicit]. See [DefineType].
	Types []TypeDefinition

	// Methods are handlers of requests and notifications by method. They take precedence over the
	// server's handlers. Use them for methods of your own, see [Method] and [Notification], or for
	// raw access to methods of the protocol. Names that begin with tasks/ or notifications/tasks/
	// are reserved for tasks. A modern result may only have a resultType of its own if the server
	// and the client declare a common extension.
	Methods map[string]session.Handler

	// Visible decides which features exist for a call, in addition to the option [VisibleTo]. The
	// rules for the function of that option apply to Visible, too. Nil shows all features.
	Visible func(c *Call, f Feature) bool
	// Scopes are the scopes that requests and notifications need, by method, such as "tools/call";
	// "*" stands for all methods. They add to those of the options [RequireScopes] and
	// [RequireScopesFor], and to those of the [auth.Protector]. Calls without an identity, such as
	// those over stdio, need none.
	Scopes map[string][]string

	// Capabilities may change the capabilities that the server declares when a session opens, and
	// to modern requests after features have changed. Its argument holds those of the current
	// features. Declare more to add the first feature of a kind later, or fewer to switch a kind
	// off. [Server.Extend] declares extensions.
	Capabilities func(*mcp.ServerCapabilities)

	// Caching is how long clients may use the results of modern requests again.
	Caching Caching
	// OmitServerInfo omits the server info from the results of modern requests, which otherwise
	// have the name, the title and the version of the server in their _meta.
	OmitServerInfo bool

	// PageSize is the number of features on a page of a list. The default is 100.
	PageSize int
	// Debounce merges list_changed notifications: one is sent when this time has passed after the
	// first change. Zero sends one for each change.
	Debounce time.Duration
	// LogLevel is the least severe level that is sent in a session whose client has not set one.
	// The default is info. Modern requests say for themselves which messages they ask for.
	LogLevel mcp.LoggingLevel
}

// NoLimit is the value of a field of [Limits] that sets no limit.
const NoLimit = boundary.None

// Limits limit the work and the memory that a client can cause.
type Limits struct {
	// Calls limits the requests of a principal that call a handler, per second, with bursts of
	// twice as many, in all its sessions and without them. Clients without a principal count by
	// their network, see [streamable.HandlerOptions], or else by their session. Further requests
	// are rejected with [session.CodeOverloaded]. A request for a task counts when it arrives; the
	// work of the task is not limited. Zero means no limit.
	Calls float64
	// Logs limits the log messages during the calls of a principal, as Calls does. Those of
	// [Server.Logger] count for each session apart. Further messages are dropped. The default is
	// 1,000. It may be [NoLimit].
	Logs float64

	// InputTimeout limits how long a client may take to respond to an input request of a plain
	// call. After that, [Call.Sample], [Elicit], [Call.ElicitForm], [Call.ElicitURL] and
	// [Call.Roots] fail with [session.ErrTimeout], and the server cancels the request at the
	// client. The deadline of their context may be earlier. A task waits until its ttl has passed.
	// The default is 10 minutes. It may be [NoLimit].
	//
	// In revisions without sessions, input requests end with the call. InputTimeout limits how long
	// the client may take to send the call again with the responses; no limit means 24 hours there.
	InputTimeout time.Duration
	// Rounds limits how often a call in revisions without sessions may ask for input. The
	// default is 100. It may be [NoLimit].
	Rounds int
	// ToolRounds limits the rounds of tool calls since the last message of the user in a
	// conversation that [Call.Sample] sends. The default is 100. It may be
	// [NoLimit].
	ToolRounds int
	// State limits the size of the state of a call in revisions without sessions, in bytes; see
	// [Shared]. A call whose steps and responses take more fails. The default is 64 KiB.
	State int

	// URI limits the length of a resource URI, in bytes. A request with a longer URI is rejected
	// before any other work on it. The default is 8 KiB.
	URI int
	// Subscriptions limits the subscriptions of a principal, in all its sessions and without them:
	// each resource counts and, in revisions without sessions, each subscriptions/listen and each
	// task in it. Clients without a principal count by their network, or else by their session. All
	// networks have as many together, and each has half of them. The default is 10,000.
	Subscriptions int
	// SubscriptionBytes limits the total length of the URIs that a principal subscribes to, with
	// the ids of tasks and the _meta of its subscriptions/listen, in bytes, as Subscriptions limits
	// their number. The default is 1 MiB.
	SubscriptionBytes int

	// Drain is the maximum time for which [Server.Shutdown] lets the work of tasks finish before it
	// ends the contexts of the work; see [task.Manager.Drain]. It begins with the shutdown, at the
	// same time as the end of the sessions. In a fleet, tasks that do not run move to other
	// processes at once. Give the context of Shutdown some seconds more, so that outcomes are
	// stored. The default is 0: the contexts of the work end once the sessions have ended.
	Drain time.Duration
}

// Middleware wraps the handling of requests, notifications and steps.
type Middleware struct {
	// All, if set, returns middleware that wraps the handling of all requests and notifications, in
	// sessions and without. It is outside of that of Session.Hooks.Receiving, and knows the server; see
	// [Server.Has]. [New] makes the middleware of both once, for all clients. It gets results as the
	// handler has returned them, before the server adds members to those of modern requests.
	All func(s *Server) session.Middleware

	// Tools, Prompts and Resources wrap the handling of all requests for features of their kind, the
	// first one outermost; see [ToolHandler].
	Tools     []func(next ToolHandler) ToolHandler
	Prompts   []func(next PromptHandler) PromptHandler
	Resources []func(next ResourceHandler) ResourceHandler
	// Steps wrap the functions of all steps that run, the first one outermost; see [Step].
	Steps []StepMiddleware
}

// Hooks are functions that a server calls when something happens. Each may be nil.
type Hooks struct {
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

	// Initialized is called once for each session whose client announces that the handshake is
	// complete (MCP lifecycle, "Initialization"). It is not called for restored sessions.
	// RootsChanged is called when the client announces that its roots have changed; [Call.Roots]
	// returns the new ones. Both may send requests to the client. Further notifications of the
	// client wait until they return. Their ctx ends with the session.
	Initialized  func(ctx context.Context, c *Call)
	RootsChanged func(ctx context.Context, c *Call)

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

	// HTTPRejected, if set, is called for the HTTP requests that a handler of the server rejects,
	// in addition to Rejected of [streamable.HandlerOptions], which describes it.
	HTTPRejected func(r *http.Request, status int)
}

// Shared is what the processes of one server have in common, such as those behind one load
// balancer, and a process with the one before it.
type Shared struct {
	// Bus passes changes of lists and resources between the servers of several processes. The
	// server subscribes to it when it starts, and ends the subscription with [Server.Close] and
	// [Server.Shutdown]. Nil means that changes reach only the clients of this server.
	Bus Bus

	// StateKeys are secrets that protect the state of calls in revisions without sessions, which
	// passes through the client while it collects input. Each has at least 32 random bytes. The
	// first one seals new state, and all of them open it. Servers with the same keys, such as those
	// behind one load balancer, continue each other's calls, whatever their version is; a tool with
	// another [Version] does not. To replace a key, first add the new one at the end on all
	// servers, then move it to the front, then remove the old one. The default is a random key,
	// which is kept in the Store of the tasks: servers with the same store have the same key, after a
	// restart or in a fleet. Without a Store, calls that wait for input must be made again
	// after a restart.
	StateKeys [][]byte

	// CursorKey is a secret that authenticates the cursors of a [ListFunc], so that a client cannot
	// forge one. The cursors of resources/list contain them. Servers with the same key, such as
	// those behind one load balancer, accept each other's cursors. The default is a random key:
	// after a restart of the server, clients must fetch such a list from its beginning.
	CursorKey []byte
}

// Defaults of [Options].
const (
	defaultLogRate              = 1000
	defaultMaxState             = 64 << 10
	defaultMaxToolRounds        = 100
	defaultMaxURI               = 8 << 10
	defaultMaxSubscriptionBytes = 1 << 20
)

// complete sets the name and the version of the server, and the defaults of all fields. It replaces
// each invalid value by the default and returns an error for it.
func (cfg *Options) complete(name, version string) []error {
	faults := boundary.Faults{Package: "server"}
	for _, member := range []struct {
		name  string
		own   *string
		value string
	}{{"name", &cfg.Info.Name, name}, {"version", &cfg.Info.Version, version}} {
		switch {
		case member.value == "":
			faults.Add(fmt.Errorf("server: empty %s", member.name))
		case *member.own != "" && *member.own != member.value:
			faults.Add(fmt.Errorf("server: %s %q differs from %q in Options.Info", member.name, member.value, *member.own))
		}
		*member.own = member.value
	}
	if invalid := schemas.CheckDefinitions(definitions(cfg.Features.Types)); len(invalid) > 0 {
		for _, mistake := range invalid {
			faults.Add(fmt.Errorf("server: Options.Features.Types: %w", mistake))
		}
		cfg.Features.Types = nil
	}
	cfg.Features.Types = slices.Clone(cfg.Features.Types)
	boundary.Default(&faults, "Features.PageSize", &cfg.Features.PageSize, boundary.DefaultPageSize)
	boundary.Default(&faults, "Features.Debounce", &cfg.Features.Debounce, 0)
	boundary.Default(&faults, "Limits.Drain", &cfg.Limits.Drain, 0)
	boundary.OrNone(&faults, "Limits.Calls", &cfg.Limits.Calls, 0)
	boundary.OrNone(&faults, "Limits.Logs", &cfg.Limits.Logs, defaultLogRate)
	boundary.OrNone(&faults, "Limits.InputTimeout", &cfg.Limits.InputTimeout, boundary.DefaultInputTimeout)
	boundary.OrNone(&faults, "Limits.Rounds", &cfg.Limits.Rounds, boundary.DefaultMaxRounds)
	boundary.OrNone(&faults, "Limits.ToolRounds", &cfg.Limits.ToolRounds, defaultMaxToolRounds)
	boundary.Default(&faults, "Limits.State", &cfg.Limits.State, defaultMaxState)
	boundary.Default(&faults, "Limits.URI", &cfg.Limits.URI, defaultMaxURI)
	boundary.Default(&faults, "Limits.Subscriptions", &cfg.Limits.Subscriptions, boundary.DefaultMaxSubscriptions)
	boundary.Default(&faults, "Limits.SubscriptionBytes", &cfg.Limits.SubscriptionBytes, defaultMaxSubscriptionBytes)
	for name, ttl := range cfg.Features.Caching.times() {
		boundary.Default(&faults, "Features.Caching."+name, ttl, 0)
	}
	for i, key := range cfg.Shared.StateKeys {
		if len(key) < rerun.MinKey {
			faults.Add(fmt.Errorf("server: Shared.StateKeys: key %d has %d bytes, want at least %d", i, len(key), rerun.MinKey))
		}
	}
	if cfg.Features.LogLevel == "" {
		cfg.Features.LogLevel = mcp.LoggingLevelInfo
	}
	if _, ok := severity(cfg.Features.LogLevel); !ok {
		faults.Add(fmt.Errorf("server: unknown Features.LogLevel (%q)", cfg.Features.LogLevel))
		cfg.Features.LogLevel = mcp.LoggingLevelInfo
	}
	if invalid := cfg.Session.Internals(boundary.Caller{}).Check(); invalid != nil {
		faults.Add(fmt.Errorf("server: Options.Session: %w", invalid))
	}
	if cfg.Logger == nil {
		cfg.Logger = cfg.Session.Logger
	}
	cfg.Logger = boundary.Logger(cfg.Logger)
	if cfg.Tasks.Logger == nil {
		cfg.Tasks.Logger = cfg.Logger
	}
	if len(cfg.Shared.CursorKey) == 0 {
		cfg.Shared.CursorKey = []byte(rand.Text())
	}
	cfg.Shared.CursorKey = bytes.Clone(cfg.Shared.CursorKey)
	cfg.Features.Scopes = maps.Clone(cfg.Features.Scopes)
	for method, scopes := range cfg.Features.Scopes {
		if err := boundary.CheckScopes(scopes); err != nil {
			faults.Add(fmt.Errorf("server: Features.Scopes of %q: %w", method, err))
		}
	}
	cfg.Features.Methods = maps.Clone(cfg.Features.Methods)
	for _, method := range slices.Sorted(maps.Keys(cfg.Features.Methods)) {
		if modern.IsReserved(method) {
			faults.Add(fmt.Errorf("server: method %q: the name is reserved for tasks", method))
			delete(cfg.Features.Methods, method)
		}
	}
	return faults.All()
}
