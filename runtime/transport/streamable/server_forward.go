package streamable

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// headerForwarded marks a request that another process has forwarded. A client that sets it only
// prevents that its request is forwarded.
const headerForwarded = "Mcp-Session-Forwarded"

// heldError says that another process, with this URL, holds a session.
type heldError string

func (heldError) Error() string { return "another process holds the session" }

// claimed is the claim of a connection for its session.
type claimed struct {
	mu   sync.Mutex
	c    *serverConn // nil until the connection is complete
	lost bool
}

// lose ends the connection, because another process may hold the session.
func (x *claimed) lose() {
	x.mu.Lock()
	x.lost = true
	c := x.c
	x.mu.Unlock()
	if c != nil {
		c.h.o.Logger.Warn("session lost", logged(c.id))
		c.Suspend()
		c.end()
	}
}

// bind makes lose end c. It returns false if the claim is already lost.
func (x *claimed) bind(c *serverConn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.c = c
	return !x.lost
}

// guardedLocator wraps a user's Locator and returns panics as errors.
type guardedLocator struct{ locator Locator }

func (g guardedLocator) Open(ctx context.Context, session string, lost func()) (err error) {
	defer boundary.Catch(&err)
	return g.locator.Open(ctx, session, lost)
}

func (g guardedLocator) Claim(ctx context.Context, session string, lost func()) (holder string, err error) {
	defer boundary.Catch(&err)
	return g.locator.Claim(ctx, session, lost)
}

func (g guardedLocator) Release(ctx context.Context, session string) (err error) {
	defer boundary.Catch(&err)
	return g.locator.Release(ctx, session)
}

// claimNew makes this process the holder of a new session.
func (h *Handler) claimNew(ctx context.Context, id string) (*claimed, error) {
	x := &claimed{}
	if h.o.Locator == nil {
		return x, nil
	}
	if err := h.o.Locator.Open(ctx, id, x.lose); err != nil {
		h.o.Logger.Error("session not claimed", logged(id), "error", err)
		return nil, errStore
	}
	return x, nil
}

// claim makes this process the holder of a stored session. It fails with a heldError if another
// process holds it.
func (h *Handler) claim(ctx context.Context, id string) (*claimed, error) {
	x := &claimed{}
	if h.o.Locator == nil {
		return x, nil
	}
	holder, err := h.o.Locator.Claim(ctx, id, x.lose)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, ErrUnknown
	case err != nil:
		h.o.Logger.Error("session not claimed", logged(id), "error", err)
		return nil, errStore
	case holder != "":
		return nil, heldError(holder)
	}
	return x, nil
}

// release lets other processes claim a session.
func (h *Handler) release(id string) {
	if h.o.Locator == nil {
		return
	}
	if err := h.o.Locator.Release(context.Background(), id); err != nil {
		h.o.Logger.Error("claim of a session not released", logged(id), "error", err)
	}
}

// forwarder forwards requests to the processes that hold their sessions.
type forwarder struct {
	transport http.RoundTripper
	buffers   sync.Pool // of []byte; see Get

	getsEnd, allEnd context.Context // end the forwarded GETs, and all forwarded requests
	endGets, endAll context.CancelFunc
}

func newForwarder(o *HandlerOptions) *forwarder {
	f := &forwarder{transport: o.ForwardTransport}
	if f.transport == nil {
		// Each stream needs a connection of its own. The environment may name a proxy, which is meant
		// for other hosts.
		f.transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		}
	}
	f.getsEnd, f.endGets = context.WithCancel(context.Background())
	f.allEnd, f.endAll = context.WithCancel(context.Background())
	return f
}

// Get and Put implement [httputil.BufferPool].
func (f *forwarder) Get() []byte {
	if b, ok := f.buffers.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 16<<10)
}

func (f *forwarder) Put(b []byte) { f.buffers.Put(&b) }

// forward passes a request on to the process that holds its session, and the response back. That
// process admits the request again: the header has the credentials of the client.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, id, holder string) {
	if r.Header.Get(headerForwarded) != "" { // the holder has changed meanwhile
		refuse(w, errMoved)
		return
	}
	target, err := url.Parse(holder)
	if err != nil {
		h.o.Logger.Error("request not forwarded", logged(id), "error", err)
		refuse(w, errMoved)
		return
	}
	if !h.beginForward() {
		refuse(w, errDraining)
		return
	}
	defer h.endForward()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	end := h.forwarder.allEnd
	if r.Method == http.MethodGet { // the client resumes the stream
		end = h.forwarder.getsEnd
	}
	defer context.AfterFunc(end, cancel)()
	conn := http.NewResponseController(w)
	conn.SetWriteDeadline(time.Time{}) // a stream has no end; the holder cuts slow connections
	// Otherwise package http closes the body when the response begins, and the transport, which
	// looks for the end of the body at that time, takes that for a failure.
	conn.EnableFullDuplex()
	proxy := httputil.ReverseProxy{
		Transport:     h.forwarder.transport,
		FlushInterval: -1,
		BufferPool:    h.forwarder,
		ErrorLog:      slog.NewLogLogger(h.o.Logger.Handler(), slog.LevelDebug), // broken connections
		Rewrite: func(p *httputil.ProxyRequest) {
			query := p.Out.URL.RawQuery
			p.Out.URL = target
			p.Out.URL.RawQuery = query
			p.Out.Host = p.In.Host
			p.Out.Header.Set(headerForwarded, "1")
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := p.In.Header[name]; values != nil {
					p.Out.Header[name] = values
				}
			}
			if p.In.TLS != nil {
				p.Out.Header.Set("X-Forwarded-Proto", "https")
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			for name := range w.Header() { // those of CORS are already set
				resp.Header.Del(name)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			h.o.Logger.Warn("request not forwarded", logged(id), "error", err)
			// With status 503, the client sends the request again. The holder may have received it.
			if r.Method == http.MethodPost && !httpcore.Unreached(err) {
				panic(http.ErrAbortHandler)
			}
			refuse(w, errMoved)
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// beginForward counts a forwarded request. It returns false if the handler is shutting down.
func (h *Handler) beginForward() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining.Load() {
		return false
	}
	h.forwards++
	return true
}

func (h *Handler) endForward() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forwards--
	h.checkEmpty()
}

// checkLocator reports options that a Locator needs.
func (o *HandlerOptions) checkLocator() {
	if o.Locator == nil {
		return
	}
	if _, ok := o.Store.(SessionStore); !ok {
		o.Logger.Error("option ignored", "option", "Locator", "reason", "Store is not a SessionStore")
		o.Locator = nil
		return
	}
	o.Locator = guardedLocator{o.Locator}
}
