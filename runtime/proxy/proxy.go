// Package proxy puts one MCP server in front of many others, its upstreams: child processes, URLs,
// or any other connection. A client sees the tools, prompts, resources and tasks of all of them.
//
//	p, err := proxy.New("hub", "1.0.0", &proxy.Options{Upstreams: []proxy.Upstream{
//		proxy.Command("files", stdio.Command{Path: "files-server"}),
//		proxy.Dial("web", "https://example.com/mcp", streamable.ClientOptions{}),
//	}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	err = p.ServeStdio(ctx) // or p.ListenAndServe, p.Handler, p.Serve
//
// Nothing that one upstream does or fails to do affects the requests to the others, and nothing of
// one client reaches another.
//
// # Connections
//
// Each session of a client has its own connections to the upstreams, opened with the client's own
// info and capabilities. So an upstream sees the client that it serves, its input requests reach
// that client and no other, and clients share no state. The connections end with the session. If
// one fails, its features disappear from the lists, and the proxy connects again. The number of
// connections to an upstream, which are processes for a [Command], is limited: in total by
// MaxConnections, and for each principal by MaxPerPrincipal. While a limit is reached, the clients
// that come later see the other upstreams only. The principals with connections to an upstream have
// equal shares of MaxConnections. One may have more while there is room. When there is none, a
// principal with less than its share gets the place of the principal with the most: that of a call
// that has waited for input for more than a minute, or else of the connection that has been idle for
// the longest time, without a call and a running task, and for five seconds at least. While all are
// busy, it waits up to the ConnectTimeout, and is tried again later. The client whose connection was
// taken sees the other upstreams only, until there is room again.
//
// Over HTTP without sessions ([streamable.HandlerOptions].Stateless), the proxy connects for each
// request of a revision with sessions. Do not set [streamable.HandlerOptions].Sessions.Store: a
// session that is restored after a restart of the proxy has lost its subscriptions, its log level
// and its list of tasks. Without a store, clients open new sessions and send their subscriptions
// and log levels again.
//
// # Revisions
//
// The proxy serves revisions with and without sessions, and speaks both to upstreams. It prefers
// the kind that the client speaks, and uses the other one if the upstream has only that.
//
// Modern requests, those of revisions without sessions, share connections: over standard input and
// output, those of one client; over HTTP, those of one principal whose clients have the same info
// and capabilities, and without a principal those of one network. Over HTTP, the connections are
// closed five minutes after the last request. A principal can have requests with 32 different infos
// and capabilities at the same time, and all principals together with 1,000: the proxy rejects
// further ones with status 503. Without [streamable.HandlerOptions].Access.Principal, all clients
// over HTTP are one principal: an upstream with sessions must not keep anything in a session that
// they may not share. Each network of these clients has its own limits, as in the
// [streamable.Handler], and its own connections, so that strangers do not use up what others need.
// A call of such a client whose messages could reach the wrong client has a connection of its own:
// the client wants log messages, or can be asked for input and the upstream has sessions. If the
// upstream is a child process, that starts one for each such call, up to a quarter of
// MaxPerPrincipal at once. Further calls are rejected with [session.CodeOverloaded], unless one of
// these calls has waited for input for more than a minute: it ends in favor of the new call. Set a
// Principal where that is too slow.
//
// Input requests pass in all combinations:
//
//   - From an upstream without sessions to a client without: the requests and the requestState
//     pass, and any process with the same configuration and StateKeys may serve any round. The
//     proxy adds to the requestState the Name of the upstream, so that the input reaches no other
//     upstream, and a tag, so that no other principal can continue the call.
//   - From an upstream without sessions to a client with one: the proxy sends the requests over the
//     session, and the responses in further rounds.
//   - From an upstream with sessions to a client without: the request to the upstream stays open
//     between the rounds, and the upstream runs the tool once. The call waits for input for the
//     InputTimeout in [server.Limits], in at most Rounds rounds; a client can have 100 waiting
//     calls. Only the process that holds the call can serve the next round, for a client with the
//     same principal, info and capabilities, and with the same params. A load balancer must
//     therefore send the requests of a client to one process. Another process, or the same after
//     the call has ended, rejects the round with an error that says so; it does not run the tool
//     again. A client that disconnects during a round cancels the call. The upstream does not say
//     which call an input request belongs to: of several calls at once, any may ask for it. If the
//     upstream fails with [server.CodeURLElicitationRequired], the client is asked to visit the
//     pages, and the call is made again, as clients of sessions do it.
//
// A client without sessions follows changes with subscriptions/listen. The proxy subscribes at each
// upstream in the way of its revision. If an upstream without sessions does not announce changes,
// and the caching hint of its list has expired, the proxy fetches the list again when a client
// requests it. A merged list has the shortest time of these hints, or that of [server.Caching] for
// features of the server itself and of upstreams with sessions; its scope is private. The hint of a
// resource passes, but its scope is private if the proxy has middleware or the request has a
// principal.
//
// When an upstream is connected again, the proxy reports a change of each resource that the client
// has subscribed to there, because changes may have been missed.
//
// # Upstreams that do not respond
//
// A request for a feature of one upstream waits for that upstream as long as the client does.
// Requests that concern several upstreams do not wait for one that does not respond:
//
//   - An expired list that an upstream does not send within a second is served as it was. The list
//     is fetched in the background, and list_changed follows. The same holds for the states of
//     tasks in tasks/list and for logging/setLevel. Until the upstream has responded within a
//     second again, further requests do not wait for it at all.
//   - A resource that no upstream lists is looked for in one upstream after the other, and each has
//     a head start of a second, the next time none if it was late. A search ends after ten seconds,
//     unless a template of the upstream begins like the URI. An upstream that has not responded in time
//     is left out for a while.
//   - A subscription of subscriptions/listen that an upstream does not accept within a second is
//     missing in the acknowledgment.
//   - Announcements of changed lists that arrive while a list is being fetched are joined. After
//     ten announcements at once, a list is fetched once per second.
//   - A list has 64 MiB and 100,000 features at most, and the lists of an upstream for all clients
//     together have 1 GiB, with those that have arrived in part. Further clients see the other upstreams only.
//   - The first response to a client waits for the ConnectTimeout, but only for a second if the
//     same upstream was late for the client before. A call of a tool waits for its own upstream
//     only.
//   - Of an upstream, 500 other notifications per second reach a client, and 1,000 at once. The
//     session with the upstream drops further ones when Limits.Notifications are pending, and progress
//     that is outdated. Log messages for a modern request are dropped while its client has not read
//     1,000 of them, or 4 MiB.
//   - An upstream serves at most 1,024 calls of a client at once, may have 256 input requests (see
//     Limits.Requests of its Session) without a response, and make 60 per minute to the session of a
//     client, see InputRequestsPerMinute. Others are rejected with [session.CodeOverloaded].
//
// For each client, the connection to an upstream is in one of these states, as in a circuit
// breaker:
//
//   - connected (closed): requests pass. When a request was given up without a response, the proxy
//     sends a ping.
//   - suspended (open): the ping had no response for ten seconds while the upstream served no call.
//     Requests fail at once, and lists stay as they were. The proxy sends further pings after 1
//     second, 2 seconds and so on, up to a minute. A response ends the suspension, and the lists
//     are fetched again. After five pings without a response, the proxy closes the connection.
//   - disconnected (open): requests fail at once, and lists do not have the features. The proxy
//     connects again after the same delays.
//   - connecting (half-open): requests fail at once until the upstream has responded.
//
// If an upstream over HTTP rejects a request as invalid, the proxy pings it, too: another server may
// have taken its place that has other revisions. If it rejects the ping, the proxy connects again.
//
// The delays are multiplied with a random number between 0.5 and 1.5, so that the connections of
// many clients do not return at once. An upstream that serves one request at a time does not
// respond to pings during a call, so it is not suspended then.
//
// # What is passed on
//
// Messages pass as JSON text: members that the proxy does not know are kept. It changes only these:
//
//   - The names of tools and prompts get the Prefix of their upstream.
//   - The ids of tasks get the Name of their upstream and a tag, and the ids of pages to visit the
//     Name.
//   - Input requests and log messages name their upstream: the message of a form or a page begins
//     with its Name in brackets, the _meta of all input requests has it in [MetaUpstream], and the
//     logger of a log message begins with it. A client should show the user who asks.
//   - Progress tokens, request ids and subscription ids belong to one connection, so they are
//     replaced.
//   - Members are removed whose names differ only in case, underscores and dashes from that of a
//     member that the proxy has checked or replaced, such as taskID or task_id beside taskId,
//     because some decoders take them for it.
//   - An update of a resource to which the client has subscribed at another upstream is dropped.
//   - If a client and an upstream have different revisions, [mcp.Project] removes the members of
//     results that the client's revision does not define.
//
// Resources keep their URIs, which may also occur in texts. If several upstreams list the same URI,
// the first upstream serves it. A URI that no upstream lists goes to the upstreams with a template
// that begins like it, and then to the others, in their order, until one knows it.
//
// The proxy passes on calls with their progress and cancellation, completion, log messages and the
// log level, subscriptions, input requests in the other direction (elicitation, sampling, roots),
// tasks in both, and all notifications of upstreams. It sends list_changed if a merged list has
// changed. Header fields that repeat arguments of tools are checked, and sent to upstreams over
// HTTP. It does not pass on requests of clients that the protocol does not define, nor the
// extension for tasks of revisions without sessions.
//
// # Tasks
//
// A task belongs to the principal that has created it, because an upstream may know all clients of
// the proxy as one. For other principals, its id is that of no task. Its principal can get, cancel
// and await it by id in later sessions, too, if the upstream outlives the session. The tag in the
// id proves that. It is made with the StateKeys in the configuration of the server: set them so
// that ids outlive the process, and that other processes know them. Without them, the key is
// random. The list of tasks has those that were created in the same session, and notifications of
// the status arrive for these and for those that the session has asked for.
//
// A task that an upstream has created at a client, such as a form, belongs to that upstream, and to
// the session of the client: the other upstreams cannot list it, cancel it or read its result.
package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// Upstream is a server behind the proxy. [Command] and [Dial] return one.
type Upstream struct {
	// Name identifies the upstream in logs, errors and the ids of its tasks. It is required, unique
	// and has no colon. No Name and a slash may begin that of another upstream, because an upstream
	// chooses what follows its Name and a slash in [MetaUpstream] and in the loggers of log messages.
	Name string
	// Prefix is prepended to the names of tools and prompts, such as "files_". No Prefix may begin
	// that of another upstream, so that no upstream can offer a feature in the name of another one.
	// It may only be empty if there is no other upstream.
	Prefix string
	// Connect opens a connection. It is called for each session of a client or group of modern
	// requests, and again after a connection has failed; the delays are in the package
	// documentation, "Upstreams that do not respond". If an upstream ends when it is asked for its
	// revisions, it is called again at once. Connect is called by several goroutines at once. Ctx
	// ends with the session of the client, and has the values of the request that opened the
	// session. For modern requests over HTTP, which share the connection, it has the principal and
	// no other values.
	Connect func(ctx context.Context) (transport.Conn, error)
	// Session configures the sessions with the upstream. The proxy sets Handler and Reopened. If
	// Revisions is nil, the proxy requests the revision of the client, and speaks any other
	// revision that the upstream supports. The default of Limits.Requests is 256.
	Session session.Options
	// MaxConnections limits the connections to the upstream, of all clients together, which are
	// processes for a [Command]. Principals share them, see "Connections" in the package
	// documentation. The default is 1,024.
	MaxConnections int
	// MaxPerPrincipal limits those of one principal, or of one network of clients without a
	// principal; see ClientAddress in [streamable.HandlerOptions]. At most a quarter of them are
	// connections of single calls, see "Connections" in the package documentation. The default is
	// 256.
	MaxPerPrincipal int
	// InputRequestsPerMinute limits the elicitation and sampling requests of the upstream that reach
	// the session of a client, so that a client that limits them has room for those of other
	// upstreams. Further ones are rejected with [session.CodeOverloaded]. The default is
	// 60; a negative value means no limit.
	InputRequestsPerMinute int
}

// Command returns an upstream that is a child process, started for each session of a client. Its
// Prefix is the name and an underscore.
func Command(name string, c stdio.Command) Upstream {
	return Upstream{Name: name, Prefix: name + "_", Connect: func(context.Context) (transport.Conn, error) {
		process, err := stdio.Start(c)
		if err != nil {
			return nil, err // not a nil Process as a Conn
		}
		return process, nil
	}}
}

// Dial returns an upstream at a URL. Its Prefix is the name and an underscore.
func Dial(name, serverURL string, o streamable.ClientOptions) Upstream {
	return Upstream{Name: name, Prefix: name + "_", Connect: func(context.Context) (transport.Conn, error) {
		conn, err := streamable.Dial(serverURL, o)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}}
}

// Options configures a [Proxy].
type Options struct {
	// Upstreams are the servers behind the proxy. Their order is that of the instructions, and
	// decides between resources of the same URI: put those first that you trust most.
	Upstreams []Upstream
	// ConnectTimeout limits how long the first response to a client waits until all upstreams are
	// connected and their lists are fetched. The features of slower upstreams appear later, with a
	// list_changed notification. An upstream that is a proxy itself is told how much of this time is
	// left. The default is 10 seconds.
	ConnectTimeout time.Duration
	// Server configures the server for the clients. It may have features of its own: those of
	// upstreams take precedence, and come first in lists. Its Features.Visible, its Middleware, its
	// Limits.Calls and its limits of resources apply to its own features only. All requests pass
	// through the middleware in Session.Hooks.Receiving, which may reject those for features of
	// upstreams. Its Shared.StateKeys also protect the ids of tasks and the requestState of
	// upstreams; a key in its store of tasks does not.
	Server server.Options
}

// defaultConnectTimeout is the default of [Options].ConnectTimeout.
const defaultConnectTimeout = 10 * time.Second

// Proxy is a server whose features are those of its upstreams, and those that are added to the
// Server. Its methods are safe for concurrent use. [New] creates one.
type Proxy struct {
	// Server serves the clients.
	*server.Server

	cfg Options
	log *slog.Logger
	own atomic.Pointer[mcp.ServerCapabilities] // of the server's own features

	process string // a random name of the process
	keys    *rerun.Keys
	known   []known // of the upstreams
	slots   []slots // of the upstreams

	mu       sync.Mutex
	clients  map[clientKey]*client
	closed   bool
	upstream sync.WaitGroup // connections to upstreams
}

// New returns a proxy. Name and version are those of [server.New]. It connects to no upstream
// before the first client. New fails if an upstream has no Connect, a Name that is empty, has a
// colon, is not unique or begins another one before a slash, a Prefix that begins another one, or a
// negative limit. Mistakes in Options.Server are reported as those of [server.New].
func New(name, version string, cfg *Options) (*Proxy, error) {
	p := &Proxy{clients: map[clientKey]*client{}, process: rand.Text()}
	if cfg != nil {
		p.cfg = *cfg
	}
	p.cfg.Upstreams = slices.Clone(p.cfg.Upstreams)
	p.cfg.ConnectTimeout = cmp.Or(p.cfg.ConnectTimeout, defaultConnectTimeout)
	p.known, p.slots = make([]known, len(p.cfg.Upstreams)), make([]slots, len(p.cfg.Upstreams))
	for i := range p.cfg.Upstreams {
		u := &p.cfg.Upstreams[i]
		if err := u.check(i, p.cfg.Upstreams[:i]); err != nil {
			return nil, err
		}
		p.slots[i] = slots{
			name: u.Name, max: cmp.Or(u.MaxConnections, defaultMaxConnections),
			perPrincipal: cmp.Or(u.MaxPerPrincipal, defaultMaxPerPrincipal), patience: p.cfg.ConnectTimeout, shares: map[string]*share{},
		}
	}
	s := p.cfg.Server
	p.keys = rerun.NewKeys(s.Shared.StateKeys...)
	p.log = boundary.Logger(cmp.Or(s.Logger, s.Session.Logger))
	p.cfg.Server.Features.PageSize = cmp.Or(s.Features.PageSize, boundary.DefaultPageSize)
	declare := s.Features.Capabilities
	s.Features.Capabilities = func(c *mcp.ServerCapabilities) {
		if declare != nil {
			declare(c)
		}
		p.own.Store(new(*c))
		add(c, everything())
	}
	if s.Session.Limits.ProgressInterval == 0 {
		s.Session.Limits.ProgressInterval = -1 // upstreams limit their progress
	}
	s.Session.Hooks.Receiving = append(slices.Clone(s.Session.Hooks.Receiving), p.receive)
	p.Server = server.New(name, version, &s)
	return p, nil
}

// check returns an error if the upstream, which follows others, is not valid.
func (u *Upstream) check(i int, before []Upstream) error {
	switch {
	case u.Name == "":
		return fmt.Errorf("proxy: upstream %d: empty Name", i)
	case strings.Contains(u.Name, ":"):
		return fmt.Errorf("proxy: upstream %q: Name has a colon", u.Name)
	case u.Connect == nil:
		return fmt.Errorf("proxy: upstream %q: nil Connect", u.Name)
	case u.MaxConnections < 0:
		return fmt.Errorf("proxy: upstream %q: negative MaxConnections (%d)", u.Name, u.MaxConnections)
	case u.MaxPerPrincipal < 0:
		return fmt.Errorf("proxy: upstream %q: negative MaxPerPrincipal (%d)", u.Name, u.MaxPerPrincipal)
	}
	for _, other := range before {
		switch {
		case u.Name == other.Name:
			return fmt.Errorf("proxy: upstream %q: Name is not unique", u.Name)
		case strings.HasPrefix(u.Name, other.Name+"/"):
			return overlapOfNames(u, &other)
		case strings.HasPrefix(other.Name, u.Name+"/"):
			return overlapOfNames(&other, u)
		case strings.HasPrefix(u.Prefix, other.Prefix):
			return overlap(u, &other)
		case strings.HasPrefix(other.Prefix, u.Prefix):
			return overlap(&other, u)
		}
	}
	return nil
}

// overlap is the error for two upstreams, the second of which could offer features in the name of
// the first.
func overlap(u, by *Upstream) error {
	return fmt.Errorf("proxy: upstreams %q and %q: Prefix %q begins with Prefix %q: choose prefixes of which none begins another", u.Name, by.Name, u.Prefix, by.Prefix)
}

// overlapOfNames is the error for two upstreams, the second of which could name itself as the first.
func overlapOfNames(u, by *Upstream) error {
	return fmt.Errorf("proxy: upstreams %q and %q: the first Name begins with the second and a slash: choose another Name", u.Name, by.Name)
}

// Close closes the server, see [server.Server.Close], and waits until the connections to upstreams
// are closed.
func (p *Proxy) Close() error {
	err := p.Server.Close()
	p.end()
	p.upstream.Wait()
	return err
}

// Shutdown shuts the server down, see [server.Server.Shutdown], and waits until the connections to
// upstreams are closed or ctx ends. It returns the error of the server.
func (p *Proxy) Shutdown(ctx context.Context) error {
	err := p.Server.Shutdown(ctx)
	p.end()
	done := make(chan struct{})
	go func() { // ends when the connections are closed
		defer close(done)
		p.upstream.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return err
}

// end closes the connections to upstreams and does not wait.
func (p *Proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.clients {
		c.cancel()
	}
}

// clientOf returns the state of a session. If the session has none yet, clientOf creates it and
// starts to connect to the upstreams. It fails if the proxy is closed.
func (p *Proxy) clientOf(ctx context.Context, s *session.Session) (*client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := clientKey{session: s}
	c := p.clients[key]
	if c != nil {
		return c, nil
	}
	if p.closed {
		return nil, session.ErrClosed
	}
	c = newClient(ctx, p, key)
	c.session = s
	p.start(c)
	s.Internals(boundary.Caller{}).AfterDone(func() { p.remove(c) })
	return c, nil
}

// remove closes the connections of a client and does not wait.
func (p *Proxy) remove(c *client) {
	c.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clients[c.key] == c {
		delete(p.clients, c.key)
	}
}
