package sse

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// HandlerOptions configures a server. The zero value means the defaults, which are safe for a
// server on the loopback interface.
type HandlerOptions struct {
	// Auth authorizes requests. It answers those without valid credentials, and with too few scopes.
	// The context of a message has its identity, see [auth.FromContext], and its principal. Its
	// header has no fields with credentials: Authorization, Proxy-Authorization and DPoP. A
	// connection ends when its token expires or is revoked, unless a message with a token that is
	// valid for longer was posted to it. Nil admits all requests.
	Auth *auth.Protector

	// Access decides which requests are accepted, in addition to Auth.
	Access Access

	// Endpoint is the URL to which clients post, without a query. The Handler must be mounted
	// there, too. A relative URL is resolved against that of the stream. The default is the URL of
	// the stream.
	Endpoint string

	// KeepAlive is the interval between comments on an idle stream. They prevent proxies from
	// closing it. The default is 30 seconds.
	KeepAlive time.Duration

	// Limits limit the work and the memory that clients can cause.
	Limits Limits
	// Timeouts limit how long something may take.
	Timeouts Timeouts
}

// Access are the options of a [Handler] that decide which requests it accepts, in addition to Auth.
type Access struct {
	// Origins are the origins of web pages on other sites that may use the server; "*" allows all.
	// Hosts are the host names of the server, without a port. If there are none, requests over a
	// loopback address must use a loopback name, and others may use any.
	Origins, Hosts []string

	// RequiredScopes returns the scopes that a message needs, in addition to those of Auth. Without
	// them, the POST is answered with status 403 and a challenge that names all scopes. It must not
	// modify params. If it is nil, Auth alone decides.
	RequiredScopes func(ctx context.Context, method string, params []byte) []string

	// Principal returns the principal of a request. It is ignored if Auth is set. Only the
	// principal that has opened the stream may post messages to it. If Principal fails, the request
	// is answered with 401, the text of the error, and a WWW-Authenticate header: that of a
	// [transport.ChallengeError], otherwise "Bearer". If it is nil, all requests have the same
	// principal.
	Principal func(*http.Request) (string, error)

	// ClientAddress returns the address of the client of a request, whose network counts for
	// Limits.StreamsPerPrincipal if the request has no principal. It is that of [streamable.Access].
	//
	// [streamable.Access]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/transport/streamable#Access
	ClientAddress func(*http.Request) netip.Addr
}

// Limits are the options of a [Handler] that limit the work and the memory that clients can cause.
type Limits struct {
	// Streams is the maximum number of connections. The default is 10000. StreamsPerPrincipal
	// is that of one principal, or of one network of clients without a principal, for which it is
	// at most half of Streams. The default is 1000, or half of Streams if that is less. One more is
	// rejected with status 503, or with 429 if those of its principal are in use.
	// Without principals, clients whose network is unknown may have Streams.
	Streams, StreamsPerPrincipal int

	// Message is the maximum size in bytes of a received message. It is also a quarter of three
	// limits for all connections of one principal: of the messages that are being received or wait
	// for room in Queue, apart from the first 64 KiB of each; of the messages that are being
	// served or wait for a handler, each of which counts 4 KiB more, as many as
	// StreamsPerPrincipal in addition to the limit; and of the messages that wait for their
	// clients to read. The last two do not count the first 64 KiB of each connection. A message
	// above its limit is rejected, and a notification that waits for a handler is dropped. An answer
	// is replaced by an error; other messages of the server wait. One network of clients without a
	// principal has half of these limits, and all networks together have as much as one principal.
	// The default is [transport.DefaultMaxMessage].
	Message int

	// Queue is the maximum size in bytes of pending messages, in each direction of a connection. The
	// default is [transport.DefaultMaxQueue].
	Queue int
}

// Timeouts are the options of a [Handler] that limit how long something may take.
type Timeouts struct {
	// Stall is how long a client may accept no data, and how long the session may read no message.
	// The default is [transport.Defaul Timeouts.Stall]. Over HTTP/2, set HTTP2.WriteByteTimeout of the
	// [http.Server], too: a connection that accepts no data is closed by that timeout alone.
	Stall time.Duration

	// Flush is how long closing a connection waits for the client to read. The default is a second.
	Flush time.Duration
}

// Check returns an error that names every number of the options that is invalid, or nil. A
// [Handler] takes the default for them, and logs the error.
func (o HandlerOptions) Check() error { return o.complete() }

// complete sets the defaults of all numbers, and returns an error that names the invalid ones.
func (o *HandlerOptions) complete() error {
	faults := boundary.Faults{Package: "sse"}
	boundary.Default(&faults, "Limits.Streams", &o.Limits.Streams, 10000)
	boundary.Default(&faults, "Limits.StreamsPerPrincipal", &o.Limits.StreamsPerPrincipal, min(1000, (o.Limits.Streams+1)/2))
	o.Limits.StreamsPerPrincipal = min(o.Limits.StreamsPerPrincipal, o.Limits.Streams)
	boundary.Default(&faults, "Limits.Message", &o.Limits.Message, transport.DefaultMaxMessage)
	boundary.Default(&faults, "Limits.Queue", &o.Limits.Queue, transport.DefaultMaxQueue)
	boundary.Default(&faults, "Timeouts.Stall", &o.Timeouts.Stall, transport.DefaultStallTimeout)
	boundary.Default(&faults, "Timeouts.Flush", &o.Timeouts.Flush, time.Second)
	boundary.Default(&faults, "KeepAlive", &o.KeepAlive, 30*time.Second)
	return faults.Err()
}

// maxServed is how many bytes of the messages of one principal may be served or wait for a handler.
func (o *HandlerOptions) maxServed() int {
	return guard.MaxBodies*o.Limits.Message + o.Limits.StreamsPerPrincipal*mailbox.Overhead
}

// Handler is an [http.Handler] that serves the transport. A GET opens a connection, and a POST with
// the query of its endpoint URL sends a message to it. If another handler wraps the
// [http.ResponseWriter], the wrapper must have a method Flush or Unwrap; otherwise streams fail.
type Handler struct {
	open func(*http.Request, transport.Conn)
	o    HandlerOptions
	gate guard.Guard

	mu        sync.Mutex
	conns     map[string]*conn
	accounts  map[string]*usage // of conns; see guard.Account
	strangers *usage            // the rooms of all networks
	closed    bool
}

// usage is what the connections of one principal use, or of one network of clients without a
// principal.
type usage struct {
	key      string
	conns    int
	users    int         // the connections, and POSTs that are being received
	bodies   *guard.Room // messages that are being received
	requests *guard.Room // requests that are being served, and other messages that sessions hold
	unread   *guard.Room // messages that are not written yet
}

// NewHandler returns a Handler. open is called for each new connection with the request that has
// opened it. It owns the connection and must return at once, as session.Serve does.
func NewHandler(open func(r *http.Request, conn transport.Conn), o HandlerOptions) *Handler {
	if err := o.complete(); err != nil {
		slog.Error("invalid options", "error", err)
	}
	return &Handler{
		open: open, o: o, strangers: o.newUsage(""),
		gate: guard.Guard{
			Origins: o.Access.Origins, Hosts: o.Access.Hosts, Methods: "GET, POST",
			Auth: o.Auth, RequiredScopes: o.Access.RequiredScopes, Principal: o.Access.Principal, ClientAddress: o.Access.ClientAddress,
		},
		conns:    map[string]*conn{},
		accounts: map[string]*usage{},
	}
}

// sessionKey is the query parameter that identifies a connection.
const sessionKey = "sessionId"

// ServeHTTP serves a stream or receives a message.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.LimitBody(w, r, h.o.Timeouts.Stall)
	ctx, ok := h.gate.Admit(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodGet:
		h.stream(ctx, w, r)
	case http.MethodPost:
		h.receive(ctx, w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		guard.Refuse(w, http.StatusMethodNotAllowed, jsonrpc.CodeInvalidRequest, "method not allowed")
	}
}

// stream serves the stream of a new connection until it ends.
func (h *Handler) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	endpoint, id, err := h.endpoint(r)
	if err != nil {
		guard.Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, err.Error())
		return
	}
	principal, _ := transport.Principal(ctx)
	c := newConn(principal, h.o)
	key := guard.Account(ctx)
	if err := h.add(id, key, c); err != nil {
		refuse(w, err)
		return
	}
	defer h.remove(id, c)
	defer close(c.served)
	err = boundary.Run(func() error {
		h.open(r, c)
		return nil
	})
	if err != nil {
		boundary.Report(boundary.Logger(nil), "open panicked", err)
		c.fail(transport.ErrClosed)
	}
	if !c.startServing() {
		guard.Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, "connection not opened")
		return
	}
	c.watch(&h.gate, ctx, r)
	defer c.unwatch()
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // some proxies would otherwise buffer events
	w.WriteHeader(http.StatusOK)
	c.serve(w, r.Context(), eventstream.Event{Name: "endpoint", Data: []byte(endpoint)})
}

// endpoint returns the URL to post to for a new connection, and the connection's id.
func (h *Handler) endpoint(r *http.Request) (endpoint, id string, err error) {
	// RequestURI is the URL of the client's request, before prefixes were stripped.
	u, err := url.ParseRequestURI(cmp.Or(r.RequestURI, r.URL.RequestURI()))
	if err != nil {
		return "", "", err
	}
	if u, err = u.Parse(h.o.Endpoint); err != nil {
		return "", "", fmt.Errorf("endpoint: %w", err)
	}
	if u.Host == "" { // "//host/path" would be the URL of another host
		for strings.HasPrefix(u.EscapedPath(), "//") {
			u.Path, u.RawPath = u.Path[1:], strings.TrimPrefix(u.RawPath, "/")
		}
	}
	id = rand.Text()
	u.RawQuery, u.Fragment = url.Values{sessionKey: {id}}.Encode(), ""
	return u.String(), id, nil
}

// receive receives a message for a connection.
func (h *Handler) receive(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	principal, _ := transport.Principal(ctx)
	c, free := h.find(r.URL.Query().Get(sessionKey), principal)
	if c == nil {
		guard.Refuse(w, http.StatusNotFound, jsonrpc.CodeInvalidRequest, "no such session")
		return
	}
	defer h.leave(c.account)
	share := &guard.Share{Room: c.account.bodies, Free: free, Code: engine.CodeOverloaded}
	defer share.Release() // after the message has waited for room in the queue
	text, ok := guard.ReadBody(w, r, h.o.Limits.Message, h.o.Timeouts.Stall, share)
	if !ok {
		share.Release() // text is short
		if fail, ok := guard.FailUnread(text, h.o.Limits.Message, share); ok {
			c.in.Put(r.Context(), fail) // fails only if the connection ends
		}
		return
	}
	parsed, err := jsonrpc.ParseReceived(text)
	if !h.permits(ctx, w, &parsed, err, text) {
		return
	}
	c.watch(&h.gate, ctx, r)
	m := transport.Message{Text: text, Context: ctx}
	if err == nil {
		m.SetParsed(&parsed)
		if parsed.Kind == jsonrpc.KindRequest {
			m.Reply = &request{c, parsed.ID}
		}
	}
	if err := c.in.Put(r.Context(), m); err != nil {
		refuse(w, err)
		return
	}
	guard.WriteStatus(w, http.StatusAccepted)
}

// permits reports whether a posted message has the scopes that it needs. m and err are what parsing
// its text has returned. If it does not, permits has written the response.
func (h *Handler) permits(ctx context.Context, w http.ResponseWriter, m *jsonrpc.Message, err error, text []byte) bool {
	switch {
	case h.o.Auth == nil || h.o.Access.RequiredScopes == nil:
		return true
	case err == nil:
		id := m.ID
		if m.Kind != jsonrpc.KindRequest {
			id = jsonrpc.ID{}
		}
		return h.gate.Permits(ctx, w, id, m)
	case !errors.Is(err, jsonfault.Batch):
		return true // the session rejects it
	}
	items, err := jsonrpc.ParseReceivedBatch(text)
	var messages []*jsonrpc.Message
	for i := range items {
		messages = append(messages, &items[i].Message)
	}
	return err != nil || h.gate.Permits(ctx, w, jsonrpc.ID{}, messages...)
}

// freeBytes is how many bytes at the beginning of each message do not count for the limit of those
// that are being received, so that long messages do not delay short ones. As many bytes of the
// requests of each connection do not count for the limit of those that are being served, and of its
// messages for that of the unread ones.
const freeBytes = 64 << 10

// Errors of add.
var (
	errClosed  = errors.New("the server is shutting down")
	errFull    = errors.New("too many connections")
	errTooMany = errors.New("too many connections of this principal")
)

// refuse answers a request that failed with err.
func refuse(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, transport.ErrClosed):
		guard.Refuse(w, http.StatusNotFound, jsonrpc.CodeInvalidRequest, "no such session")
	case errors.Is(err, errTooMany), errors.Is(err, transport.ErrStalled):
		guard.Refuse(w, http.StatusTooManyRequests, jsonrpc.CodeInternalError, err.Error())
	default:
		guard.Refuse(w, http.StatusServiceUnavailable, jsonrpc.CodeInternalError, err.Error())
	}
}

// add adds a connection, which counts for the account with the given key.
func (h *Handler) add(id, key string, c *conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.accounts[key]
	switch {
	case h.closed:
		return errClosed
	case a != nil && a.conns >= h.gate.Limit(key, h.o.Limits.Streams, h.o.Limits.StreamsPerPrincipal):
		return errTooMany
	case len(h.conns) >= h.o.Limits.Streams:
		return errFull
	case a == nil:
		a = h.newUsage(key)
		h.accounts[key] = a
	}
	a.conns++
	a.users++
	c.begin(a)
	h.conns[id] = c
	return nil
}

// newUsage returns the usage of an account that has no connections yet.
func (h *Handler) newUsage(key string) *usage {
	if all := h.strangers; h.gate.IsNetwork(key) { // the number of networks is not limited
		size := guard.MaxBodies * h.o.Limits.Message
		return &usage{key: key, bodies: all.bodies.Part(size / 2), requests: all.requests.Part(h.o.maxServed() / 2), unread: all.unread.Part(size / 2)}
	}
	return h.o.newUsage(key)
}

// newUsage returns the usage of a principal that has no connections yet.
func (o *HandlerOptions) newUsage(key string) *usage {
	size := guard.MaxBodies * o.Limits.Message
	return &usage{key: key, bodies: guard.NewRoom(size), requests: guard.NewRoom(o.maxServed()), unread: guard.NewRoom(size)}
}

// remove undoes add.
func (h *Handler) remove(id string, c *conn) {
	defer h.leave(c.account)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, id)
	c.account.conns--
}

// find returns a connection of a principal for a POST, or nil. Call leave with its account when the
// POST has ended. free is how many bytes of the message do not count: none if the account is sending
// very many at once.
func (h *Handler) find(id, principal string) (c *conn, free int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c = h.conns[id]
	if c == nil || c.principal != principal {
		return nil, 0
	}
	if c.account.users++; c.account.users > 2*h.o.Limits.StreamsPerPrincipal {
		return c, 0
	}
	return c, freeBytes
}

// leave records that a connection or a POST of an account has ended.
func (h *Handler) leave(a *usage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.users--; a.users == 0 {
		delete(h.accounts, a.key)
	}
}

// Close closes all connections and rejects new ones. Register it with
// [http.Server.RegisterOnShutdown], because Shutdown waits for streams to end.
func (h *Handler) Close() {
	h.mu.Lock()
	h.closed = true
	var conns []*conn
	for _, c := range h.conns {
		conns = append(conns, c)
	}
	h.mu.Unlock()
	var group sync.WaitGroup
	for _, c := range conns {
		group.Go(func() { c.Close() }) // ends after Timeouts.Flush at the latest
	}
	group.Wait()
}
