package streamable

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// headerForwarded marks a request that another process has forwarded. A client that sets it only
// prevents that its request is forwarded.
const headerForwarded = "Mcp-Session-Forwarded"

// heldError says that another process holds a session.
type heldError Holder

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

func (g guardedLocator) Claim(ctx context.Context, session string, lost func()) (holder Holder, err error) {
	defer boundary.Catch(&err)
	return g.locator.Claim(ctx, session, lost)
}

func (g guardedLocator) Alive(ctx context.Context, holder Holder) (alive bool, err error) {
	defer boundary.Catch(&err)
	return g.locator.Alive(ctx, holder)
}

func (g guardedLocator) Release(ctx context.Context, session string) (err error) {
	defer boundary.Catch(&err)
	return g.locator.Release(ctx, session)
}

// claimNew makes this process the holder of a new session.
func (h *Handler) claimNew(ctx context.Context, id string) (*claimed, error) {
	x := &claimed{}
	if h.o.Sessions.Locator == nil {
		return x, nil
	}
	if err := h.o.Sessions.Locator.Open(ctx, id, x.lose); err != nil {
		h.o.Logger.Error("session not claimed", logged(id), "error", err)
		return nil, errStore
	}
	return x, nil
}

// claim makes this process the holder of a stored session. It fails with a heldError if another
// process holds it.
func (h *Handler) claim(ctx context.Context, id string) (*claimed, error) {
	x := &claimed{}
	if h.o.Sessions.Locator == nil {
		return x, nil
	}
	holder, err := h.o.Sessions.Locator.Claim(ctx, id, x.lose)
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, ErrUnknown
	case err != nil:
		if ctx.Err() == nil {
			h.o.Logger.Error("session not claimed", logged(id), "error", err)
		}
		return nil, errStore
	case holder != Holder{}:
		return nil, heldError(holder)
	}
	return x, nil
}

// release lets other processes claim a session.
func (h *Handler) release(id string) {
	if h.o.Sessions.Locator == nil {
		return
	}
	if err := h.o.Sessions.Locator.Release(h.stores, id); err != nil {
		h.o.Logger.Error("claim of a session not released", logged(id), "error", err)
	}
}

// forwarder forwards requests to the processes that hold their sessions.
type forwarder struct {
	locator   Locator
	transport http.RoundTripper
	idle      interface{ CloseIdleConnections() } // the transport if it belongs to the forwarder, else nil
	buffers   sync.Pool                           // of []byte; see Get

	getsEnd, allEnd context.Context // end the forwarded GETs, and all forwarded requests
	endGets, endAll context.CancelFunc

	mu      sync.Mutex
	holders map[Holder]*followed // those with forwarded requests
}

// followed is a process to which requests are being forwarded.
type followed struct {
	forwards int
	dead     context.Context // ends when the process counts as dead
	end      context.CancelFunc
}

func newForwarder(o *HandlerOptions) *forwarder {
	f := &forwarder{locator: o.Sessions.Locator, transport: o.Sessions.ForwardTransport, holders: map[Holder]*followed{}}
	if f.transport == nil {
		// Each stream needs a connection of its own. The environment may name a proxy, which is meant
		// for other hosts.
		own := &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			DisableCompression:  true,
		}
		f.transport, f.idle = own, own
	}
	f.getsEnd, f.endGets = context.WithCancel(context.Background())
	f.allEnd, f.endAll = context.WithCancel(context.Background())
	return f
}

// close ends all forwarded requests, and the connections to other processes.
func (f *forwarder) close() {
	f.endGets()
	f.endAll()
	if f.idle != nil {
		f.idle.CloseIdleConnections()
	}
}

// Get and Put implement [httputil.BufferPool].
func (f *forwarder) Get() []byte {
	if b, ok := f.buffers.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 16<<10)
}

func (f *forwarder) Put(b []byte) { f.buffers.Put(&b) }

// aliveInterval is the time between two calls of Alive for a process. A process that has stopped
// without closing its connections would otherwise hold up the requests that wait for it.
const aliveInterval = 5 * time.Second

// follow counts a request that is forwarded to a process. dead ends when the process counts as dead.
// The caller calls release at the end of the request.
func (f *forwarder) follow(holder Holder) (dead context.Context, release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.holders[holder]
	if x == nil {
		x = &followed{}
		x.dead, x.end = context.WithCancel(f.allEnd)
		f.holders[holder] = x
		time.AfterFunc(aliveInterval, func() { f.check(holder, x) }) // its goroutine ends by itself
	}
	x.forwards++
	return x.dead, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		x.forwards--
	}
}

// check asks the Locator about a process, and does so again until no request is forwarded to it, or
// until it is dead.
func (f *forwarder) check(holder Holder, x *followed) {
	f.mu.Lock()
	unused := x.forwards == 0
	if unused {
		delete(f.holders, holder)
	}
	f.mu.Unlock()
	if unused {
		x.end() // releases its memory
		return
	}
	alive, err := f.locator.Alive(f.allEnd, holder)
	if err != nil || alive {
		time.AfterFunc(aliveInterval, func() { f.check(holder, x) }) // its goroutine ends by itself
		return
	}
	f.mu.Lock()
	delete(f.holders, holder)
	f.mu.Unlock()
	x.end()
}

// forwardBody is the body of a forwarded request. It must arrive within Timeouts.Read, as at the
// process that serves it.
type forwardBody struct {
	body   io.Reader
	length int64 // 0 for no body; negative if unknown
	conn   *http.ResponseController

	reading sync.Mutex // held while the body is read

	mu      sync.Mutex
	stopped bool  // the transport must not send the rest
	read    int64 // number of bytes
	whole   bool  // the transport has the whole body: the other process may receive it
	err     error // of the client's connection
}

var errStopped = errors.New("request has ended")

func (b *forwardBody) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if err := b.ended(); err != nil {
		return 0, err
	}
	n, err = b.body.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return 0, errStopped
	}
	b.read += int64(n)
	if err == io.EOF || b.read == b.length {
		b.whole = true
	} else if err != nil {
		b.err = err
	}
	return n, err
}

// ended returns the error of a read that must not read the body, or nil. The transport reads once
// more after the whole body, and takes another error than io.EOF for a failure of the request.
func (b *forwardBody) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.whole:
		return io.EOF
	case b.stopped:
		return errStopped
	}
	return nil
}

// Close lets the transport read nothing more. Package http closes the body itself.
func (b *forwardBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return nil
}

// begun reports whether the transport has read a part of the body.
func (b *forwardBody) begun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read > 0 || b.whole || b.err != nil
}

// maxSkip is how many bytes of a body are skipped that the other process does not read, so that the
// connection can be used again.
const maxSkip = 256 << 10

// end lets the transport read nothing more, and waits until it does not. It skips the rest of the
// body: package http allows no reads after the handler, and its own skip is not compatible with
// EnableFullDuplex. end returns whether the transport has read the whole body, and otherwise the
// error with which the client's connection has failed, if it has. w is the response, which must not
// have begun if the body may have a rest.
func (b *forwardBody) end(w http.ResponseWriter) (whole bool, err error) {
	b.mu.Lock()
	b.stopped = true
	whole, err = b.whole, b.err
	b.mu.Unlock()
	if whole || b.length == 0 {
		return whole, err
	}
	if b.conn.SetReadDeadline(time.Now()) != nil {
		return whole, err // without deadlines, the wait could be long
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	b.conn.SetReadDeadline(time.Now().Add(time.Second))
	if _, skipErr := io.CopyN(io.Discard, b.body, maxSkip); skipErr != io.EOF {
		b.conn.SetReadDeadline(time.Now())
		w.Header().Set("Connection", "close") // the rest is no request
	}
	return whole, err
}

// skipBody skips the body of a request that was not forwarded; see end.
func skipBody(w http.ResponseWriter, r *http.Request) {
	body := forwardBody{body: r.Body, length: r.ContentLength, conn: http.NewResponseController(w)}
	body.end(w)
}

// forwardWriter writes the response to a forwarded request. Its client may accept no data.
type forwardWriter struct {
	stallWriter
	progress progress

	mu    sync.Mutex
	ended bool // package http may use the connection for another request
}

// interrupt ends the write that waits for the client, and later ones.
func (w *forwardWriter) interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.progress.interrupted.Store(true)
		w.conn.SetWriteDeadline(time.Now())
	}
}

// end limits the time in which package http writes the end of the response.
func (w *forwardWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.limitWrite()
}

// Header implements [http.ResponseWriter].
func (w *forwardWriter) Header() http.Header { return w.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (w *forwardWriter) WriteHeader(status int) { w.w.WriteHeader(status) }

// Write writes and flushes p.
func (w *forwardWriter) Write(p []byte) (int, error) {
	if err := w.write(p); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return 0, err
	}
	return len(p), nil
}

// FlushError writes the header, if that was not written.
func (w *forwardWriter) FlushError() error { return w.write() }

// A request waits at most reachTimeout for a process that cannot be reached: until it can be, or until
// it counts as dead. Some clients do not send requests again after status 503, and give up a stream
// after a few seconds.
const (
	reachTimeout  = 30 * time.Second
	reachInterval = time.Second
)

// awaitHolder waits before the next attempt to forward a request. It returns false if there is none.
func (h *Handler) awaitHolder(r *http.Request, start time.Time) bool {
	if time.Since(start) >= reachTimeout || r.Context().Err() != nil {
		return false
	}
	timer := h.timers.start(reachInterval)
	defer h.timers.stop(timer)
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-h.forwarder.getsEnd.Done(): // the Handler shuts down
	}
	return false
}

// forward passes a request on to the process that holds its session, and the response back. That
// process admits the request again: the header has the credentials of the client. forward returns
// false if the process has not been reached. Otherwise it has answered the request.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, id string, holder Holder) (ok bool) {
	if r.Header.Get(headerForwarded) != "" { // the holder has changed meanwhile
		refuse(w, errMoved)
		return true
	}
	target, err := url.Parse(holder.URL)
	if err != nil {
		h.o.Logger.Error("request not forwarded", logged(id), "error", err)
		refuse(w, errMoved)
		return true
	}
	if !h.beginForward() {
		refuse(w, errDraining)
		return true
	}
	defer h.endForward()
	dead, release := h.forwarder.follow(holder)
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(dead, cancel)()
	if r.Method == http.MethodGet { // the client resumes the stream
		defer context.AfterFunc(h.forwarder.getsEnd, cancel)()
	}
	out := &forwardWriter{}
	out.stallWriter = newStallWriter(w, h.o.Timeouts.Stall, &out.progress)
	defer out.end()
	defer context.AfterFunc(h.forwarder.allEnd, out.interrupt)()
	out.conn.SetWriteDeadline(time.Time{}) // a stream has no end
	// Otherwise package http closes the body when the response begins, and the transport, which
	// looks for the end of the body at that time, takes that for a failure.
	out.conn.EnableFullDuplex()
	body := &forwardBody{body: r.Body, length: r.ContentLength, conn: &out.conn}
	defer func() {
		if ok {
			body.end(w) // if the client has disconnected
		}
	}()
	ok = true
	r = r.WithContext(ctx)
	if r.ContentLength != 0 {
		out.conn.SetReadDeadline(time.Now().Add(h.o.Timeouts.Read)) // package http removes it at the end of the body
		r.Body = body
	}
	proxy := httputil.ReverseProxy{
		Transport:  h.forwarder.transport,
		BufferPool: h.forwarder,
		ErrorLog:   slog.NewLogLogger(h.o.Logger.Handler(), slog.LevelDebug), // broken connections
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
			body.end(w)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			h.o.Logger.Warn("request not forwarded", logged(id), "error", err)
			if !body.begun() {
				ok = false
				return
			}
			whole, err := body.end(w)
			switch {
			case err != nil:
				guard.RefuseIncomplete(w, err)
			case whole: // with status 503, the client would send it again
				panic(http.ErrAbortHandler)
			default: // the other process has not received it
				refuse(w, errMoved)
			}
		},
	}
	proxy.ServeHTTP(out, r)
	return ok
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
	if o.Sessions.Locator == nil {
		return
	}
	if _, ok := o.Sessions.Store.(SessionStore); !ok {
		o.Logger.Error("option ignored", "option", "Locator", "reason", "Store is not a SessionStore")
		o.Sessions.Locator = nil
		return
	}
	o.Sessions.Locator = guardedLocator{o.Sessions.Locator}
}
