package recorder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"mime"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// Handler serves clients over HTTP.
type Handler struct {
	http.Handler
	path   string
	close  func(context.Context) error
	mirror *mirror // nil for a command
}

// Path returns the path of the endpoint for clients.
func (h *Handler) Path() string { return h.path }

// Shutdown ends all sessions. When ctx ends, it closes those that remain.
func (h *Handler) Shutdown(ctx context.Context) error { return h.close(ctx) }

// maxServers limits the number of server processes for HTTP clients.
const maxServers = 100

// Web returns a Handler for clients of a server. If the server is a command, each session gets a
// separate process.
func Web(log *trace.Log, server Server) (*Handler, error) {
	if server.URL != "" {
		return newMirror(log, server)
	}
	var bridges sync.WaitGroup
	life, end := context.WithCancel(context.Background())
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		bridges.Go(func() { // ends with the session
			if err := Forward(life, log, server, conn); err != nil && server.Stderr != nil {
				fmt.Fprintln(server.Stderr, err)
			}
		})
	}, streamable.HandlerOptions{Limits: streamable.Limits{Sessions: maxServers}})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return &Handler{Handler: mux, path: "/mcp", close: func(ctx context.Context) error {
		err := handler.Shutdown(ctx)
		end()
		bridges.Wait()
		return err
	}}, nil
}

// mirror is a reverse proxy that records the messages in requests and responses.
type mirror struct {
	log    *trace.Log
	target *url.URL
	proxy  *httputil.ReverseProxy
	life   context.Context // ends pending requests and streams

	mu          sync.Mutex
	sessions    map[string]*storedSession // by session id; ids are secret and not recorded
	uses        int                       // counts the uses of all sessions
	sessionless string                    // name of the session of requests without a session id; "" if there was none
	modern      string                    // the same for requests of revisions without sessions
}

// storedSession is a recorded session with the time of its last use.
type storedSession struct {
	session *trace.Session
	used    int // the value of mirror.uses at the last use
}

func newMirror(records *trace.Log, server Server) (*Handler, error) {
	target, err := url.Parse(server.URL)
	if err != nil {
		return nil, err
	}
	if target.Path == "" {
		target.Path = "/"
	}
	life, end := context.WithCancel(context.Background())
	m := &mirror{log: records, target: target, life: life, sessions: map[string]*storedSession{}}
	base := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true} // compressed bodies could not be recorded
	var sender http.RoundTripper = base
	if server.Auth != nil {
		sender = &authorizing{base, server.Auth, endpoint(target)}
	}
	m.proxy = &httputil.ReverseProxy{
		Transport: sender,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
			if r.Out.URL.Path == target.Path && r.Out.URL.RawQuery == "" {
				r.Out.URL.RawQuery = target.RawQuery
			}
			r.Out.Header.Del("Accept-Encoding")
			if r.In.URL.Path != target.Path {
				return // the header fields may be secret and are for the endpoint only
			}
			for name, values := range server.Header {
				r.Out.Header[name] = values
			}
		},
		ModifyResponse: m.recordResponse,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if x := exchangeOf(r); x != nil && r.Context().Err() == nil {
				x.session.Event(fmt.Sprintf("HTTP %s: %v", r.Method, err))
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0), // the proxy would only report clients that disconnect
	}
	return &Handler{Handler: streamable.Protect(m, streamable.HandlerOptions{}), path: target.Path, mirror: m, close: func(context.Context) error {
		end()
		base.CloseIdleConnections()
		return nil
	}}, nil
}

// exchange is a request to the server in a session.
type exchange struct {
	session *trace.Session
	opens   bool   // the request is initialize
	body    []byte // nil if there is none, or if it is too long to be recorded
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP forwards a request. It records only requests to the endpoint of the server, not those
// to other paths, such as requests for authorization metadata. The mirror adds credentials to
// requests, so the server cannot distinguish its clients from web pages. Therefore the mirror
// rejects requests that a page of another site can send.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Origin") == "" {
		http.Error(w, "requests from pages of other sites are not allowed", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPost && r.URL.Path == m.target.Path {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			http.Error(w, "the content type must be application/json", http.StatusUnsupportedMediaType)
			return
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(m.life, cancel)()
	r = r.WithContext(ctx)
	if r.URL.Path != m.target.Path {
		m.proxy.ServeHTTP(w, r)
		return
	}
	x := new(exchange)
	var body []byte
	size := int64(0)
	if r.Method == http.MethodPost {
		var err error
		if body, size, err = read(&r.Body, r.ContentLength); err != nil {
			http.Error(w, "cannot read the request body", http.StatusBadRequest)
			return
		}
		parsed, _ := jsonrpc.Parse(body, codec.NoCopy())
		x.opens, x.body = parsed.Method == mcp.MethodInitialize, body
	}
	if revision := mcp.Revision(r.Header.Get("MCP-Protocol-Version")); slices.Contains(session.ModernRevisions(), revision) {
		x.session = m.modernSession()
	} else {
		x.session = m.session(r.Header.Get("Mcp-Session-Id"), x.opens)
	}
	recordMessage(x.session, mcp.FromClient, body, size)
	m.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// modernSession returns the record of the requests of revisions without sessions. Like those to a server
// without sessions, they share one record and are decoded separately.
func (m *mirror) modernSession() *trace.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	session := m.log.Session(m.modern)
	m.modern = session.Name()
	return session
}

// session returns the record of a session. All requests to a server without sessions share one
// record, but are decoded separately, because they may have the same ids. An unknown session gets a
// new record. The mirror stores it once the server has accepted the session id.
func (m *mirror) session(id string, opens bool) *trace.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case id == "" && m.sessionless == "" && opens: // the response may have an id
		return m.log.Session("")
	case id == "":
		session := m.log.Session(m.sessionless)
		m.sessionless = session.Name()
		return session
	case m.sessions[id] == nil:
		return m.log.Session("")
	}
	m.store(id, m.sessions[id].session)
	return m.sessions[id].session
}

// opened stores the record of the session that a response to initialize opens.
func (m *mirror) opened(session *trace.Session, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" {
		m.store(id, session)
	} else if m.sessionless == "" {
		m.sessionless = session.Name()
	}
}

// maxSessions limits the number of stored sessions. If a dropped session is used again, it gets a
// new name in the recording.
const maxSessions = 1000

// store stores the record of a session as the most recently used one. If there are too many, it
// drops the least recently used one. It must be called with mu held.
func (m *mirror) store(id string, session *trace.Session) {
	m.uses++
	m.sessions[id] = &storedSession{session, m.uses}
	if len(m.sessions) <= maxSessions {
		return
	}
	oldest := id
	for other, t := range m.sessions {
		if t.used < m.sessions[oldest].used {
			oldest = other
		}
	}
	delete(m.sessions, oldest)
}

// accepted stores the record of a session whose id the server has accepted.
func (m *mirror) accepted(session *trace.Session, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" && m.sessions[id] == nil {
		m.store(id, session)
	}
}

// recordResponse records a response of the server, or the messages of its event stream.
func (m *mirror) recordResponse(resp *http.Response) error {
	if resp.Request.Header.Get("Origin") != "" { // the mirror, not the server, decides about access of pages
		maps.DeleteFunc(resp.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Access-Control-") })
	}
	x := exchangeOf(resp.Request)
	if x == nil {
		return nil
	}
	id, method := resp.Header.Get("Mcp-Session-Id"), resp.Request.Method
	switch {
	case resp.StatusCode/100 == 2 && x.opens:
		m.opened(x.session, id)
	case resp.StatusCode/100 == 2:
		m.accepted(x.session, resp.Request.Header.Get("Mcp-Session-Id"))
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	last := resp.Request.Header.Get("Last-Event-Id")
	switch {
	case resp.StatusCode/100 != 2:
		x.session.Event(fmt.Sprintf("HTTP %s: %s", method, resp.Status))
	case method == http.MethodDelete:
		x.session.Event("HTTP DELETE: session ended")
		m.mu.Lock()
		delete(m.sessions, resp.Request.Header.Get("Mcp-Session-Id"))
		m.mu.Unlock()
	case method == http.MethodGet && last != "":
		x.session.Event("HTTP GET: stream resumed")
	case method == http.MethodGet:
		x.session.Event("HTTP GET: stream for messages outside requests")
	}
	switch kind {
	case "text/event-stream":
		resp.Body = &events{ReadCloser: resp.Body, session: x.session}
	case "application/json":
		body, size, err := read(&resp.Body, resp.ContentLength)
		if err != nil {
			return err
		}
		if _, err := jsonrpc.Parse(body, codec.NoCopy()); err == nil || resp.StatusCode/100 == 2 {
			recordMessage(x.session, mcp.FromServer, body, size)
		}
	}
	return nil
}

// recordMessage records a message of size bytes. text is nil if the message is too long.
func recordMessage(session *trace.Session, from mcp.Direction, text []byte, size int64) {
	switch {
	case text == nil && size > 0:
		session.TooLong(from, size)
	case len(bytes.TrimSpace(text)) > 0:
		session.Message(from, text)
	}
}

// read reads a body of the given length, -1 if unknown, and replaces it by one with the same
// content. If the body is too long to be recorded, the text is nil; if its length is also unknown,
// the returned size is a lower bound.
func read(body *io.ReadCloser, length int64) (text []byte, size int64, err error) {
	text, err = io.ReadAll(io.LimitReader(*body, transport.DefaultMaxMessage+1))
	if err != nil {
		return nil, 0, err
	}
	*body = &replayedBody{io.MultiReader(bytes.NewReader(text), *body), *body}
	if len(text) > transport.DefaultMaxMessage {
		return nil, max(length, int64(len(text))), nil
	}
	return text, int64(len(text)), nil
}

// replayedBody is a body whose beginning was read and put back.
type replayedBody struct {
	io.Reader
	io.Closer
}

// events is the body of an event stream. It records messages before they are read.
type events struct {
	io.ReadCloser
	session *trace.Session

	line    []byte // the incomplete last line
	width   int64  // of the line, in bytes
	data    []byte // of the event, each line followed by a line feed
	name    string // of the event
	dropped int64  // bytes of the event, if it is too long to be recorded; otherwise 0
	skipLF  bool   // the previous line ended with a carriage return; a line feed that follows belongs to it
}

func (e *events) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.feed(p[:n])
	return n, err
}

func (e *events) feed(p []byte) {
	for len(p) > 0 {
		if e.skipLF && p[0] == '\n' {
			p = p[1:]
		}
		e.skipLF = false
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			e.collect(p)
			return
		}
		e.collect(p[:i])
		e.skipLF = p[i] == '\r'
		p = p[i+1:]
		e.endLine()
	}
}

// collect appends to the line, unless the event is too long.
func (e *events) collect(p []byte) {
	e.width += int64(len(p))
	if e.dropped > 0 || len(e.line)+len(e.data)+len(p) > transport.DefaultMaxMessage {
		e.dropped += int64(len(e.line) + len(e.data) + len(p))
		e.line, e.data = nil, nil
		return
	}
	e.line = append(e.line, p...)
}

func (e *events) endLine() {
	name, value, _ := bytes.Cut(e.line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case e.width == 0:
		e.endEvent()
	case string(name) == "data":
		e.data = append(append(e.data, value...), '\n')
	case string(name) == "event":
		e.name = string(value)
	}
	e.line, e.width = e.line[:0], 0
}

func (e *events) endEvent() {
	switch {
	case e.name != "" && e.name != "message":
	case e.dropped > 0:
		e.session.TooLong(mcp.FromServer, e.dropped)
	case len(e.data) > 1: // otherwise the event has only an id
		e.session.Message(mcp.FromServer, bytes.TrimSuffix(e.data, []byte("\n")))
	}
	e.data, e.name, e.dropped = e.data[:0], "", 0
}
