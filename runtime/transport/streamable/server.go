package streamable

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// HandlerOptions configures a [Handler]. The zero value is useful and safe. A number that is zero
// means the default, and a negative one is a fault, see [HandlerOptions.Check]; [NoLimit] means no
// limit, and [Off] that something is switched off, where the field says so.
type HandlerOptions struct {
	// Stateless makes every POST a separate conversation. Any of several processes may serve it.
	// There are no session ids and no standing stream, streams cannot be resumed, and the server
	// cannot send requests to clients. Modern requests are served in the same way with and without
	// it.
	Stateless bool

	// Auth authorizes requests. It answers those without valid credentials, and with too few
	// scopes. The context of an admitted request has its identity, see [auth.FromContext], and its
	// principal. Its header has no fields with credentials: Authorization, Proxy-Authorization and
	// DPoP. When the token of a client expires or is revoked, its GET streams and its
	// subscriptions/listen end; requests that are being served do not. The Handler does not serve
	// the resource metadata: [auth.Protector.Handler] does. Nil admits all requests.
	Auth *auth.Protector

	// Access decides which requests are accepted, in addition to Auth.
	Access Access
	// Sessions configures sessions and where they are stored.
	Sessions Sessions
	// Streams configures event streams.
	Streams Streams
	// Timeouts limit how long something may take.
	Timeouts Timeouts
	// Limits limit the work and the memory that clients can cause.
	Limits Limits

	// Responder serves modern requests: those of revisions without sessions, such as 2026-07-28. It
	// must be ended before the Handler, unless Close ends both. If it is nil, such requests are
	// rejected like those of an unknown revision. If it supports no revision with sessions, the
	// Handler opens none: it rejects GET and DELETE with status 405, and initialize with the
	// revisions that it supports.
	Responder transport.Responder

	// Rejected, if set, is called for each request that is answered with a status of 400 or more,
	// before the status is sent, so it must return soon. Most of these requests are rejected before
	// a message is handled: without valid credentials, for an unknown session, or above a limit.
	// The answer to a modern request can have such a status, too. If Locator has forwarded the
	// request, both processes call it. It must not modify r.
	Rejected func(r *http.Request, status int)

	// Logger receives events that are not reported to clients, with the beginning of session ids.
	// If it is nil, warnings and errors go to [slog.Default].
	Logger *slog.Logger
}

// NoLimit is the value of a field that sets no limit, and Off that of one that switches off what
// the field is about.
const (
	NoLimit = boundary.None
	Off     = boundary.None
)

// Access are the options of a [Handler] that decide which requests it accepts, in addition to Auth.
type Access struct {
	// Origins are the origins of web pages that may use the server, such as
	// "https://app.example.com", in addition to the server's own; "*" stands for all. Their
	// requests are answered with CORS headers.
	Origins []string

	// Hosts are the host names by which clients may address the server, without a port. If it is
	// empty, requests to a loopback address must use a loopback name. A server behind a proxy on
	// the same machine that preserves the Host header lists the public name.
	Hosts []string

	// RequiredScopes returns the scopes that a message needs, in addition to those of Auth. Without
	// them, the POST is answered with status 403 and a challenge that names all scopes, before any
	// of its messages is served. It must not modify params, which are JSON of any kind, and may be
	// nil. If it is nil, Auth alone decides.
	RequiredScopes func(ctx context.Context, method string, params []byte) []string

	// Principal returns the principal of a request. It is ignored if Auth is set. If it fails, the
	// request is answered with 401, the text of the error, and a WWW-Authenticate header: that of a
	// [transport.ChallengeError], otherwise "Bearer". A session belongs to the principal that
	// opened it and does not exist for others. If it is nil, all requests have the same principal.
	Principal func(*http.Request) (string, error)

	// ClientAddress returns the address of the client of a request. Limits that each principal has
	// apply to clients without a principal by their network: the first 24 bits of an IPv4 address,
	// or 64 of an IPv6 address. Behind proxies, use [ForwardedFor], or a function that reads the
	// header field of your platform, and that clients cannot set. If the address is invalid, the
	// client shares its limits with others. Nil means the address of the connection, unless that is
	// a loopback or private one: then the connection may be that of a proxy, and such clients
	// share those of Limits.Sessions and Limits.Requests.
	ClientAddress func(*http.Request) netip.Addr
}

// Sessions are the options of a [Handler] for sessions.
type Sessions struct {
	// ID returns the id of a new session: up to 128 printable ASCII characters without
	// spaces, unique and impossible to guess. The id may name the process for a load balancer. If
	// the id is invalid or in use, initialize is rejected with status 500. Nil means 26 random
	// letters and digits (130 bits).
	ID func() string

	// Store stores events for clients that resume a stream. The default is that of [NewMemoryStore].
	// With a [SessionStore], sessions survive a restart, with their streams and the state that their
	// owners have persisted: a connection is a [transport.Persister]. A type that wraps a SessionStore
	// must embed a SessionStore, not an EventStore.
	Store EventStore

	// Locator says which of several processes holds a session; see "Several processes" in the
	// documentation of the package. It needs a [SessionStore] that the processes share. Nil means
	// that this process alone serves the sessions in the Store.
	Locator Locator

	// ForwardTransport sends requests to the processes that hold their sessions. The default is a
	// transport without a proxy. Set it to give TLS a client certificate, for example.
	ForwardTransport http.RoundTripper
}

// Streams are the options of a [Handler] for event streams.
type Streams struct {
	// After is how long a request may be served until the response becomes an event stream,
	// which the client can resume. A request that is answered sooner, without other messages, is
	// answered with JSON. The default is half a second; [Off] means at once.
	// tasks/get and tasks/list are always answered with JSON.
	//
	// The stream of a modern request cannot be resumed. It keeps the connection open, by KeepAlive,
	// and its status is 200 also for an error. For such requests, Off means half a second.
	//
	// An answer in JSON is lost if its connection breaks: the client does not know whether the
	// request was served, and should not repeat it unless it is idempotent. An event stream is lost
	// only until its first event has arrived, and that event does not wait for the answer. With
	// Off, fewer answers are lost, and a request costs more. Clients of revisions before 2025-11-25
	// receive no such event, and can resume only after they have received a message. A task exists
	// even if the answer with its id is lost: the client finds it with tasks/list.
	After time.Duration

	// Retry is how long clients wait before they reconnect; default a second.
	Retry time.Duration

	// MaxConnection limits how long a connection with an event stream stays open. The client then
	// reconnects. Zero means no limit.
	MaxConnection time.Duration

	// KeepAlive is the interval of comments on an idle event stream. The default is
	// 25 seconds; [Off] means none.
	KeepAlive time.Duration
}

// Timeouts are the options of a [Handler] that limit how long something may take.
type Timeouts struct {
	// Idle is how long a session lives without an HTTP request, a request that is being
	// served, or an open stream. A handler that waits for an answer of the client, such as that of
	// an elicitation, does not count. The default is 30 minutes; [NoLimit] means no
	// limit.
	Idle time.Duration

	// Linger is how long a Stateless Handler serves a request after its client has disconnected.
	// Such a client can neither resume the stream nor cancel the request. The default is
	// a minute; [Off] means not at all.
	Linger time.Duration

	// Stall is how long a connection may accept no data before it is closed. The default is
	// [transport.DefaultStallTimeout]. Over HTTP/2, set HTTP2.WriteByteTimeout of the [http.Server],
	// too: a connection that accepts no data is closed by that timeout alone.
	Stall time.Duration

	// Read is how long a message may take to arrive, also one that is rejected before. The
	// default is 30 seconds.
	Read time.Duration

	// Flush is how long a session that ends waits for its connections. The default is one
	// second. After that, the connections are closed if the client has ended the session or the
	// Handler was closed.
	Flush time.Duration
}

// Limits are the options of a [Handler] that limit the work and the memory that clients can cause.
type Limits struct {
	// Message is the size limit of a received message in bytes. It is also a quarter of three
	// limits for one principal, in all its sessions and without sessions: of the messages that are
	// being received or served, apart from the first Initialize bytes of each; of the answers that
	// are longer than Initialize, or belong to a batch, and are not yet read; and of the messages
	// in all queues, see Queue. A message above its limit is rejected with status 429, and a
	// notification that waits for a handler is dropped. An answer is replaced by an error, which has
	// status 503 for a modern request. The default is [transport.DefaultMaxMessage].
	Message int

	// Queue is how many bytes may be pending for the connections of a session, or Initialize
	// while all sessions of the principal have more than four times Message. Senders of further
	// messages wait. A single message may be longer. The default is [transport.DefaultMaxQueue].
	// Events that are read from the Store for a connection that resumes a stream count for the limit
	// of the principal, above which the connection is closed, so that its client tries again. Up to
	// 16 reads of the Store run at once for a principal, and further ones wait. All networks of
	// clients without a principal have as many together, and each has half of them.
	Queue int

	// Sessions limits the sessions, and SessionsPerPrincipal those of one principal. One session
	// more ends one that has been idle longest, or nearly so, among those of the principal with the
	// most sessions. If that principal has no idle session, the new one is rejected: with status
	// 503 if all sessions are in use, and with status 429 if those of its principal are.
	// SessionsPerPrincipal also applies to each network of clients without a principal, up to half
	// of Sessions; see Access.ClientAddress. The defaults are 10,000 and 1,000.
	Sessions, SessionsPerPrincipal int

	// Requests limits the requests that are not answered, in sessions and without them together.
	// Without a session, a message counts from before it is received, and a subscription for as
	// long as the client listens. RequestsPerPrincipal limits those of one principal, and of each
	// network of clients without a principal, up to half of Requests. One request more is rejected,
	// with status 503 or 429, as for Sessions. The connections that hold the streams of a
	// principal, or are not read, may be more by SessionsPerPrincipal. The defaults are 10,000 and
	// 1,000.
	Requests, RequestsPerPrincipal int

	// Streams limits the unanswered requests of one session, and the connections that hold its
	// streams. The default is 1,000. POSTs without requests have a separate limit of
	// the same size.
	Streams int

	// Initialize is the size limit in bytes of initialize, which is stored with the session.
	// Unless the Handler is Stateless, it is the size limit of all messages without a session id
	// whose header does not name a modern revision. The default is 64 KiB.
	Initialize int

	// State is the size limit in bytes of the state that the owner of a session persists. The
	// default is 256 KiB.
	State int
}

// Defaults of [HandlerOptions].
const (
	defaultStreamAfter = 500 * time.Millisecond
	defaultRetry       = time.Second
	defaultKeepAlive   = 25 * time.Second
	defaultIdleTimeout = 30 * time.Minute
	defaultReadTimeout = 30 * time.Second
	defaultLinger      = time.Minute
	defaultMaxSessions = 10_000 // and requests
	defaultMaxStreams  = 1000
	defaultMaxState    = 256 << 10

	defaultMaxPerPrincipal = 1000 // sessions, and requests
	defaultMaxInitialize   = 64 << 10
)

// Check returns an error that names every number of the options that is invalid, or nil. A
// [Handler] takes the default for them, and logs the error.
func (o HandlerOptions) Check() error { return o.numbers() }

// numbers sets the defaults of all numbers, and returns an error that names the invalid ones. A
// number that means no limit, or that something is off, becomes 0.
func (o *HandlerOptions) numbers() error {
	faults := boundary.Faults{Package: "streamable"}
	boundary.OrNone(&faults, "Streams.After", &o.Streams.After, defaultStreamAfter)
	boundary.OrNone(&faults, "Streams.KeepAlive", &o.Streams.KeepAlive, defaultKeepAlive)
	boundary.Default(&faults, "Streams.Retry", &o.Streams.Retry, defaultRetry)
	o.Streams.Retry = max(o.Streams.Retry, time.Millisecond)
	boundary.OrNone(&faults, "Streams.MaxConnection", &o.Streams.MaxConnection, 0)
	boundary.OrNone(&faults, "Timeouts.Idle", &o.Timeouts.Idle, defaultIdleTimeout)
	boundary.OrNone(&faults, "Timeouts.Linger", &o.Timeouts.Linger, defaultLinger)
	boundary.Default(&faults, "Timeouts.Stall", &o.Timeouts.Stall, transport.DefaultStallTimeout)
	boundary.Default(&faults, "Timeouts.Read", &o.Timeouts.Read, defaultReadTimeout)
	boundary.Default(&faults, "Timeouts.Flush", &o.Timeouts.Flush, time.Second)
	boundary.Default(&faults, "Limits.Message", &o.Limits.Message, transport.DefaultMaxMessage)
	boundary.Default(&faults, "Limits.Queue", &o.Limits.Queue, transport.DefaultMaxQueue)
	boundary.Default(&faults, "Limits.Sessions", &o.Limits.Sessions, defaultMaxSessions)
	boundary.Default(&faults, "Limits.SessionsPerPrincipal", &o.Limits.SessionsPerPrincipal, defaultMaxPerPrincipal)
	o.Limits.SessionsPerPrincipal = min(o.Limits.SessionsPerPrincipal, o.Limits.Sessions)
	boundary.Default(&faults, "Limits.Requests", &o.Limits.Requests, defaultMaxSessions)
	boundary.Default(&faults, "Limits.RequestsPerPrincipal", &o.Limits.RequestsPerPrincipal, defaultMaxPerPrincipal)
	o.Limits.RequestsPerPrincipal = min(o.Limits.RequestsPerPrincipal, o.Limits.Requests)
	boundary.Default(&faults, "Limits.Streams", &o.Limits.Streams, defaultMaxStreams)
	boundary.Default(&faults, "Limits.Initialize", &o.Limits.Initialize, defaultMaxInitialize)
	boundary.Default(&faults, "Limits.State", &o.Limits.State, defaultMaxState)
	return faults.Err()
}

func (o HandlerOptions) withDefaults() HandlerOptions {
	invalid := o.numbers()
	if o.Sessions.ID == nil {
		o.Sessions.ID = rand.Text
	}
	o.Logger = boundary.Logger(o.Logger)
	if invalid != nil {
		o.Logger.Error("invalid options", "error", invalid)
	}
	switch {
	case o.Stateless:
		o.Sessions.Store = nil
	case o.Sessions.Store == nil:
		o.Sessions.Store = NewMemoryStore(MemoryOptions{})
	default:
		o.Sessions.Store = guardStore(o.Sessions.Store)
	}
	o.checkLocator()
	return o
}

// Handler is the server end of the transport: an [http.Handler] for one endpoint, with any path.
// Create it with [NewHandler], and end it with Shutdown or Close.
type Handler struct {
	o     HandlerOptions
	open  func(*http.Request, transport.Conn)
	guard guard.Guard

	forwarder *forwarder // nil without a Locator

	revisions, supported []mcp.Revision // of the Responder
	modernOnly           bool           // it supports no revision with sessions

	stores    context.Context // of calls of the store
	endStores context.CancelFunc

	timers  timerPool
	wakes   sync.Pool // of the wake of a sink
	buffers sync.Pool // of *[]byte for events

	mu        sync.Mutex
	sessions  map[string]*serverConn
	conns     map[*serverConn]struct{} // with and without a session
	holders   map[string]connSet       // conns without a place, by account; see guard.Account
	usages    map[string]*usage        // by account
	strangers usage                    // the bytes and reads of all networks
	forwards  int                      // number of requests that are being forwarded
	answerers *answerer                // head of the list of modern requests that are being served
	loading   map[string]*loading      // sessions being loaded from the store
	sweep     *time.Timer              // calls sweepIdle; nil while there is no session
	empty     chan struct{}            // closed when draining and no conn and answerer is left
	emptied   bool                     // empty is closed

	streams  atomic.Int64 // number of GETs whose streams are open
	requests atomic.Int64 // number of unanswered requests and places; see usage.serve
	draining atomic.Bool  // set with mu held
	closed   atomic.Bool  // Close was called
	warned   atomic.Bool  // see warnNoFlush
}

// NewHandler returns a Handler that calls open for every conversation, with its first request. Open
// passes the connection to its owner, usually with [session.Serve], and returns at once. The
// connection is a [transport.Persister], for a session that was opened before, by this process or
// another. If open closes a connection that it has not suspended, the request is answered with
// status 500.
//
// [session.Serve]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/session#Serve
func NewHandler(open func(r *http.Request, conn transport.Conn), o HandlerOptions) *Handler {
	o = o.withDefaults()
	h := &Handler{
		o:    o,
		open: open,
		guard: guard.Guard{
			Origins: o.Access.Origins, Hosts: o.Access.Hosts, Methods: "GET, POST, DELETE",
			Auth: o.Auth, RequiredScopes: o.Access.RequiredScopes, Principal: o.Access.Principal, ClientAddress: o.Access.ClientAddress, Logger: o.Logger,
		},
		sessions: map[string]*serverConn{},
		conns:    map[*serverConn]struct{}{},
		holders:  map[string]connSet{},
		usages:   map[string]*usage{},
		loading:  map[string]*loading{},
		empty:    make(chan struct{}),
	}
	h.stores, h.endStores = context.WithCancel(context.Background())
	if o.Auth != nil && o.Access.Principal != nil {
		o.Logger.Warn("option ignored", "option", "Principal", "reason", "Auth is set")
	}
	if o.Sessions.Locator != nil {
		h.forwarder = newForwarder(&h.o)
	}
	h.strangers.bodies, h.strangers.queued, h.strangers.answers = guard.NewRoom(h.maxBodies()), guard.NewRoom(h.maxBodies()), guard.NewRoom(h.maxBodies())
	h.strangers.reads = newReads(maxReads, nil)
	if o.Responder != nil {
		h.revisions, h.supported = o.Responder.Revisions(), o.Responder.Supported()
		_, sessions := modern.Split(h.supported)
		h.modernOnly = len(sessions) == 0
	}
	if !h.hasSessions() {
		h.guard.Methods = http.MethodPost
	}
	return h
}

// ServeHTTP serves a request to the endpoint.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.o.Rejected != nil {
		w = &watchedWriter{w, h, r}
	}
	guard.LimitBody(w, r, h.o.Timeouts.Read)
	ctx, ok := h.guard.Admit(w, r)
	if !ok {
		return
	}
	switch {
	case r.Method == http.MethodPost:
		h.post(ctx, w, r)
	case r.Method == http.MethodGet && h.hasSessions():
		h.get(ctx, w, r)
	case r.Method == http.MethodDelete && h.hasSessions():
		h.delete(ctx, w, r)
	default:
		w.Header().Set("Allow", h.guard.Methods)
		guard.Refuse(w, http.StatusMethodNotAllowed, jsonrpc.CodeInvalidRequest, "the method is not one of "+h.guard.Methods)
	}
}

// watchedWriter calls Rejected for an error status.
type watchedWriter struct {
	http.ResponseWriter
	h *Handler
	r *http.Request
}

// Unwrap is for [http.ResponseController].
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *watchedWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		boundary.Report(w.h.o.Logger, "Rejected panicked", boundary.Run(func() error {
			w.h.o.Rejected(w.r, status)
			return nil
		}))
	}
	w.ResponseWriter.WriteHeader(status)
}

// hasSessions reports whether the Handler has sessions, which GET and DELETE belong to.
func (h *Handler) hasSessions() bool { return !h.o.Stateless && !h.modernOnly }

// Streams returns the number of event streams that clients have opened with GET and that are still
// open. A client of a session has one of them, and one for each stream that it resumes.
func (h *Handler) Streams() int { return int(h.streams.Load()) }

// Drain rejects further sessions and requests with status 503, and returns at once. Sessions go on
// with the requests that are being served, and so do modern requests. Shutdown and Close call
// Drain. Call it before, if the owners of the sessions shut down first.
func (h *Handler) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining.Swap(true) {
		if h.sweep != nil {
			h.sweep.Stop()
		}
		h.checkEmpty()
	}
}

// Shutdown ends the Handler in order. It rejects further sessions and requests with status 503,
// lets the sessions answer the requests that are being served, and returns when all sessions have
// ended and all modern requests are answered. Handlers can still send input requests. Sessions in a
// [SessionStore] stay there. If ctx ends first, Shutdown answers the remaining requests with an
// error, closes all sessions, and returns the cause of ctx. It does not wait for handlers of modern
// requests that ignore the end of their context, nor, for longer than four times Timeouts.Flush,
// for a Store or a Locator that does not return. Unlike Close, it does not interrupt writes to
// connections: closing the http.Server does. If a connection belongs to no session.Session, its
// Read returns [io.EOF], and its owner decides when to close.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.Drain()
	if h.forwarder != nil {
		h.forwarder.endGets()
	}
	conns := h.openConns()
	used := usedSince(conns) // before any of them ends
	ended := make(chan struct{})
	go func() { // ends with all sessions
		defer close(ended)
		h.touch(used)
		<-h.empty
	}()
	for _, c := range conns {
		go c.shutdown(ctx) // ends with the session
	}
	select {
	case <-ended:
		if h.forwarder != nil {
			h.forwarder.close()
		}
		return nil
	case <-ctx.Done():
	}
	if h.forwarder != nil {
		h.forwarder.close()
	}
	for _, a := range h.openAnswerers() {
		go a.close() // ends when the client has accepted the answer, or after Timeouts.Flush
	}
	flush := time.NewTimer(h.o.Timeouts.Flush) // for the errors that answer the remaining requests
	defer flush.Stop()
	select {
	case <-ended:
		return context.Cause(ctx)
	case <-flush.C:
	}
	closed := make(chan struct{})
	go func() { // ends when the store returns
		defer close(closed)
		h.closeConns()
	}()
	flush.Reset((storeFlushes + 1) * h.o.Timeouts.Flush)
	select {
	case <-closed:
	case <-flush.C:
		h.o.Logger.Error("sessions not closed", "reason", "the store or the locator does not return")
	}
	return context.Cause(ctx)
}

// storeFlushes is how many times Timeouts.Flush a Handler that is being closed waits for its
// connections, before the contexts of calls of the store and the Locator end.
const storeFlushes = 3

// Close ends the Handler and all sessions at once, and waits until their connections are closed,
// and calls of the Store and the Locator for them have returned. The contexts of these calls end
// after three times Timeouts.Flush. Modern requests that are being served are cancelled and
// answered with an error. Sessions in a [SessionStore] stay there. Later requests are rejected with
// status 503. Close always returns nil.
func (h *Handler) Close() error {
	h.closed.Store(true)
	h.closeConns()
	return nil
}

// closeConns closes all connections and rejects further ones.
func (h *Handler) closeConns() {
	var wait sync.WaitGroup
	time.AfterFunc(storeFlushes*h.o.Timeouts.Flush, h.endStores) // its goroutine ends by itself
	h.Drain()
	if h.forwarder != nil {
		h.forwarder.close()
	}
	conns := h.openConns()
	h.touch(usedSince(conns))
	for _, c := range conns {
		wait.Go(func() { c.Close() })
	}
	for _, a := range h.openAnswerers() {
		wait.Go(a.close)
	}
	wait.Wait()
	<-h.empty
}

// openConns returns the open connections.
func (h *Handler) openConns() []*serverConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	conns := make([]*serverConn, 0, len(h.conns))
	for c := range h.conns {
		conns = append(conns, c)
	}
	return conns
}

// Causes of rejected requests; see refuse.
var (
	errDraining        = errors.New("the server is shutting down")
	errStore           = errors.New("the session cannot be loaded")
	errNotDeleted      = errors.New("the session cannot be deleted")
	errMoved           = errors.New("the process that holds the session cannot be reached")
	errTooMany         = errors.New("too many sessions of this principal")
	errFullOfSessions  = errors.New("too many sessions")
	errFull            = errors.New("too many requests are being served")
	errTooManyRequests = errors.New("too many requests of this principal are being served")
	errID              = errors.New("cannot create a session id")
	errOpen            = errors.New("the server failed to open the session")
)

// newConn opens a conversation. setup, which may be nil, completes the connection before other
// goroutines can find it.
func (h *Handler) newConn(ctx context.Context, r *http.Request, id string, setup func(*serverConn)) (*serverConn, error) {
	principal, _ := transport.Principal(ctx)
	c := newServerConn(h, id, principal)
	c.account = guard.Account(ctx)
	c.journal.account = c.account
	if setup != nil {
		setup(c)
	}
	h.mu.Lock()
	for !h.draining.Load() { // again, because other goroutines may use the room that end makes
		idle := h.mustEnd(c.account)
		if idle == nil {
			break
		}
		h.mu.Unlock()
		h.o.Logger.Info("idle session ended for a new one", logged(idle.id))
		idle.end()
		h.mu.Lock()
	}
	switch {
	case h.draining.Load():
		h.mu.Unlock()
		return nil, errDraining
	case c.place == nil && len(h.holders[c.account]) >= h.maxSessions(c.account):
		h.mu.Unlock()
		return nil, errTooMany
	case c.place == nil && len(h.conns) >= h.o.Limits.Sessions:
		h.mu.Unlock()
		return nil, errFullOfSessions
	case id != "" && h.sessions[id] != nil:
		h.mu.Unlock()
		return nil, errID
	}
	h.conns[c] = struct{}{}
	if c.place != nil {
		c.place.users++
		c.begin(c.place.usage)
	} else {
		c.begin(h.use(c.account))
		if h.holders[c.account] == nil {
			h.holders[c.account] = connSet{}
		}
		h.holders[c.account][c] = struct{}{}
	}
	if id != "" {
		h.sessions[id] = c
		h.sweepLater()
	}
	h.mu.Unlock()
	if err := h.opens(r, c); err != nil {
		boundary.Report(h.o.Logger, "open panicked", err)
		c.end()
		return nil, errOpen
	}
	if c.isRefused() {
		return nil, errOpen
	}
	return c, nil
}

// opens passes a connection to its owner.
func (h *Handler) opens(r *http.Request, c *serverConn) (err error) {
	defer boundary.Catch(&err)
	h.open(r, c)
	return nil
}

// connSet is a set of connections.
type connSet map[*serverConn]struct{}

// maxSessions returns the limit of the sessions of an account.
func (h *Handler) maxSessions(account string) int {
	return h.guard.Limit(account, h.o.Limits.Sessions, h.o.Limits.SessionsPerPrincipal)
}

// enoughToEnd is the number of sessions of which the longest idle one has to end. A client that
// opens sessions in a loop would otherwise make the Handler look at all of them each time.
const enoughToEnd = 64

// mustEnd returns a session that has to end so that an account can have one more. It returns nil if
// there is room, or no idle session. mu must be held.
func (h *Handler) mustEnd(account string) *serverConn {
	if len(h.holders[account]) < h.maxSessions(account) {
		if len(h.conns) < h.o.Limits.Sessions {
			return nil
		}
		for other, conns := range h.holders {
			if len(conns) > len(h.holders[account]) {
				account = other
			}
		}
	}
	var longest *serverConn
	var since time.Time
	seen := 0
	for c := range h.holders[account] {
		if seen++; longest != nil && seen > enoughToEnd {
			break
		}
		if t, idle := c.idleSince(); c.id != "" && idle && (longest == nil || t.Before(since)) {
			longest, since = c, t
		}
	}
	return longest
}

// remove removes a connection.
func (h *Handler) remove(c *serverConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[c.id] == c {
		delete(h.sessions, c.id)
	}
	if _, ok := h.conns[c]; ok {
		delete(h.conns, c)
		if c.place != nil {
			h.leave(c.place)
		} else {
			h.unuse(c.usage)
			delete(h.holders[c.account], c)
			if len(h.holders[c.account]) == 0 {
				delete(h.holders, c.account)
			}
		}
		h.checkEmpty()
	}
}

// newSession returns a connection with a new session id.
func (h *Handler) newSession(ctx context.Context, r *http.Request) (*serverConn, error) {
	var id string
	err := boundary.Run(func() error {
		id = h.o.Sessions.ID()
		return nil
	})
	if err != nil {
		boundary.Report(h.o.Logger, "Sessions.ID panicked", err)
		return nil, errID
	}
	if id == "" || len(id) > maxID || strings.ContainsFunc(id, func(c rune) bool { return c < 0x21 || c > 0x7E }) {
		h.o.Logger.Error("result of SessionID rejected", "bytes", len(id))
		return nil, errID
	}
	claim, err := h.claimNew(r.Context(), id)
	if err != nil {
		return nil, err
	}
	c, err := h.newConn(ctx, r, id, nil)
	if err != nil {
		h.discard(id)
		return nil, err
	}
	if !claim.bind(c) {
		claim.lose()
		return nil, errStore
	}
	return c, nil
}

// discard ends the claim of a new session that was not opened.
func (h *Handler) discard(id string) {
	if h.o.Sessions.Locator == nil {
		return
	}
	if err := h.o.Sessions.Store.Forget(h.stores, id); err != nil {
		h.o.Logger.Error("session not deleted from the store", logged(id), "error", err)
	}
	h.release(id)
}

// find returns the connection of a session. It fails with ErrUnknown if the principal has no such
// session. While the Handler shuts down, it fails with errDraining instead, because the session may
// be in the store.
func (h *Handler) find(ctx context.Context, r *http.Request, id, principal string) (*serverConn, error) {
	if len(id) > maxID {
		return nil, ErrUnknown
	}
	h.mu.Lock()
	c := h.sessions[id]
	h.mu.Unlock()
	draining := h.draining.Load()
	var err error
	if store, ok := h.o.Sessions.Store.(SessionStore); c == nil && ok && !draining {
		c, err = h.load(ctx, r, store, id, principal)
	}
	switch {
	case err != nil:
		return nil, err
	case c != nil && c.principal == principal:
		return c, nil
	case draining:
		return nil, errDraining
	}
	return nil, ErrUnknown
}

// logged returns the log attribute for a session: the beginning of its id, because the whole id is
// a secret.
func logged(id string) slog.Attr { return slog.String("session", id[:min(len(id)/2, 8)]) }

// maxID is the maximum length of a session id or event id, in bytes.
const maxID = 128

// hasBatches reports whether a revision has batches.
func hasBatches(rev mcp.Revision) bool { return rev.Defines("JSONRPCBatchRequest") }

// ForwardedFor returns a function for [Access.ClientAddress] of a server behind proxies with
// the given addresses. It returns the last address in X-Forwarded-For, followed by that of the
// connection, that is not one of a proxy. The proxies must append the address of their client to
// the header field. If none is given, it returns the address of the connection.
func ForwardedFor(proxies ...netip.Prefix) func(*http.Request) netip.Addr {
	return network.Forwarded(proxies...)
}
