package sse

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// HandlerOptions say how a server behaves. The zero value means the defaults, which are safe for a server on the
// loopback interface.
type HandlerOptions struct {
	// Origins are the origins of web pages elsewhere that may use the server; "*" stands for all. Hosts are the
	// names by which the server is called, without a port; if there are none, a connection over a loopback address
	// must use a loopback name, and others may use any.
	Origins, Hosts []string

	// Principal finds out on whose authority a request is made. Messages are taken from the principal alone that
	// has opened the stream. If it fails, the request is answered with 401, the text of the error, and a
	// WWW-Authenticate header: that of a [transport.ChallengeError], or else "Bearer". Nil means that all have the same.
	Principal func(*http.Request) (string, error)

	// Endpoint is the URL that clients post to, where the Handler is mounted as well, without a query; a relative
	// one counts from that of the stream. The default is the URL of the stream itself.
	Endpoint string

	MaxStreams   int           // connections at once; default 10000
	MaxMessage   int           // bytes of a message that is received, and a quarter of what a connection may be sending at once; default [transport.DefaultMaxMessage]
	MaxQueue     int           // bytes that may wait in each direction of a connection; default [transport.DefaultMaxQueue]
	StallTimeout time.Duration // how long either side may leave the other waiting; default [transport.DefaultStallTimeout]
	FlushTimeout time.Duration // how long closing a connection waits for the client to read; default one second

	// KeepAlive is how often something is sent on a stream that is silent, so that nothing on the way takes it for
	// dead; default 30 seconds.
	KeepAlive time.Duration
}

func (o HandlerOptions) withDefaults() HandlerOptions {
	o.MaxStreams = cmp.Or(max(o.MaxStreams, 0), 10000)
	o.MaxMessage = cmp.Or(max(o.MaxMessage, 0), transport.DefaultMaxMessage)
	o.MaxQueue = cmp.Or(max(o.MaxQueue, 0), transport.DefaultMaxQueue)
	o.StallTimeout = cmp.Or(max(o.StallTimeout, 0), transport.DefaultStallTimeout)
	o.FlushTimeout = cmp.Or(max(o.FlushTimeout, 0), time.Second)
	o.KeepAlive = cmp.Or(max(o.KeepAlive, 0), 30*time.Second)
	return o
}

// Handler is a server. A GET opens a connection, a POST with the query that the client was given brings a message to
// it. It is mounted wherever the program likes, beside the handler of Streamable HTTP for example. A handler in front that
// wraps the [http.ResponseWriter] must give its wrapper a method Flush or Unwrap, without which there are no streams.
type Handler struct {
	open func(*http.Request, transport.Conn)
	o    HandlerOptions
	gate guard.Guard

	mu     sync.Mutex
	conns  map[string]*conn
	closed bool
}

// NewHandler returns a server. Open is called with each new connection and the request that has opened it, and
// returns at once, as session.Serve does; the connection is its own from then on.
func NewHandler(open func(r *http.Request, conn transport.Conn), o HandlerOptions) *Handler {
	o = o.withDefaults()
	return &Handler{
		open: open, o: o,
		gate:  guard.Guard{Origins: o.Origins, Hosts: o.Hosts, Methods: "GET, POST", Principal: o.Principal},
		conns: map[string]*conn{},
	}
}

// sessionKey is the name of the query that tells connections apart.
const sessionKey = "sessionId"

// ServeHTTP serves a stream or takes a message.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, ok := h.gate.Admit(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodGet:
		h.stream(ctx, w, r)
	case http.MethodPost:
		h.take(ctx, w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		guard.Refuse(w, http.StatusMethodNotAllowed, jsonrpc.CodeInvalidRequest, "method not allowed")
	}
}

// stream serves the stream of a new connection until that is over.
func (h *Handler) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	endpoint, id, err := h.endpoint(r)
	if err != nil {
		guard.Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, err.Error())
		return
	}
	principal, _ := transport.Principal(ctx)
	c := newConn(principal, h.o)
	if err := h.add(id, c); err != nil {
		refuse(w, err)
		return
	}
	defer h.remove(id)
	defer close(c.over)
	err = boundary.Run(func() error {
		h.open(r, c)
		return nil
	})
	if err != nil {
		boundary.Report(boundary.Logger(nil), "open panicked", err)
		c.fail(transport.ErrClosed)
		guard.Refuse(w, http.StatusInternalServerError, jsonrpc.CodeInternalError, "the server failed to open the connection")
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // or some proxies would keep events back
	w.WriteHeader(http.StatusOK)
	c.serve(w, r.Context(), eventstream.Event{Name: "endpoint", Data: []byte(endpoint)})
}

// endpoint returns the URL to post to for a new connection, and its id.
func (h *Handler) endpoint(r *http.Request) (endpoint, id string, err error) {
	u, err := url.ParseRequestURI(cmp.Or(r.RequestURI, r.URL.RequestURI())) // what the client has asked for, whatever was stripped since
	if err != nil {
		return "", "", err
	}
	if u, err = u.Parse(h.o.Endpoint); err != nil {
		return "", "", fmt.Errorf("endpoint: %w", err)
	}
	id = rand.Text()
	u.RawQuery, u.Fragment = url.Values{sessionKey: {id}}.Encode(), ""
	return u.String(), id, nil
}

// take takes a message for a connection.
func (h *Handler) take(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	c := h.conns[r.URL.Query().Get(sessionKey)]
	h.mu.Unlock()
	if principal, _ := transport.Principal(ctx); c == nil || c.principal != principal {
		guard.Refuse(w, http.StatusNotFound, jsonrpc.CodeInvalidRequest, "no such session")
		return
	}
	text, ok := guard.ReadBody(w, r, h.o.MaxMessage, h.o.StallTimeout, c.bodies)
	if !ok {
		return
	}
	if err := c.in.Put(r.Context(), transport.Message{Text: text, Context: ctx}); err != nil {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// Why there is no connection.
var (
	errClosed  = errors.New("the server is shutting down")
	errTooMany = errors.New("too many connections")
)

// refuse answers a request that was not taken because of err.
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

func (h *Handler) add(id string, c *conn) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return errClosed
	case len(h.conns) >= h.o.MaxStreams:
		return errTooMany
	}
	h.conns[id] = c
	return nil
}

func (h *Handler) remove(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, id)
}

// Close ends all connections and takes no new ones. It is for [http.Server.RegisterOnShutdown], because Shutdown waits
// for streams to end.
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
		group.Go(func() { c.Close() }) // ends after FlushTimeout at the latest
	}
	group.Wait()
}
