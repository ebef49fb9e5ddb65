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
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// Handler answers clients over HTTP.
type Handler struct {
	http.Handler
	path   string
	close  func(context.Context) error
	mirror *mirror // nil for a command
}

// Path is where clients find the server.
func (h *Handler) Path() string { return h.path }

// Shutdown ends the conversations in order, or at once when ctx ends.
func (h *Handler) Shutdown(ctx context.Context) error { return h.close(ctx) }

// maxServers is how many servers may run for clients over HTTP.
const maxServers = 100

// Web returns a Handler for clients of a server. Where the server is a command, each session of a client gets one of its
// own.
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
	}, streamable.HandlerOptions{MaxSessions: maxServers})
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	return &Handler{Handler: mux, path: "/mcp", close: func(ctx context.Context) error {
		err := handler.Shutdown(ctx)
		end()
		bridges.Wait()
		return err
	}}, nil
}

// mirror passes on HTTP requests to a server, and its answers, and records the messages in both.
type mirror struct {
	log    *trace.Log
	target *url.URL
	proxy  *httputil.ReverseProxy
	life   context.Context // ends what is under way

	mu    sync.Mutex
	talks map[string]*talking // by session id; ids are secret and not recorded
	uses  int                 // counts the uses of all talks
	loose string              // name of the conversation of requests without a session id; "" if there was none
}

// talking is the conversation of a session, with the time of its last use.
type talking struct {
	talk *trace.Session
	used int // the value of mirror.uses at the last use
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
	m := &mirror{log: records, target: target, life: life, talks: map[string]*talking{}}
	m.proxy = &httputil.ReverseProxy{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true}, // what is compressed cannot be read here
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = target.Scheme, target.Host, target.Host
			if r.Out.URL.Path == target.Path && r.Out.URL.RawQuery == "" {
				r.Out.URL.RawQuery = target.RawQuery
			}
			r.Out.Header.Del("Accept-Encoding")
			if r.In.URL.Path != target.Path {
				return // the header fields are for the endpoint only, and may be secret
			}
			for name, values := range server.Header {
				r.Out.Header[name] = values
			}
		},
		ModifyResponse: m.answered,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if x := exchangeOf(r); x != nil && r.Context().Err() == nil {
				x.talk.Event(fmt.Sprintf("HTTP %s: %v", r.Method, err))
			}
			w.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0), // clients that hang up are no news
	}
	return &Handler{Handler: streamable.Protect(m, streamable.HandlerOptions{}), path: target.Path, mirror: m, close: func(context.Context) error {
		end()
		m.proxy.Transport.(*http.Transport).CloseIdleConnections()
		return nil
	}}, nil
}

// exchange is a request to the server, which belongs to a conversation.
type exchange struct {
	talk  *trace.Session
	opens bool // it is initialize
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// ServeHTTP passes a request on. What goes elsewhere than to the endpoint of the server, as to find out about
// authorization, is not recorded. The mirror adds credentials to requests, so the server cannot tell
// its clients from web pages. The mirror therefore rejects requests that a page of another site can
// send.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Origin") == "" {
		http.Error(w, "the request is from a page of another site", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPost && r.URL.Path == m.target.Path {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			http.Error(w, "the content type is not application/json", http.StatusUnsupportedMediaType)
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
			http.Error(w, "the request cannot be read", http.StatusBadRequest)
			return
		}
		parsed, _ := jsonrpc.Parse(body, codec.NoCopy())
		x.opens = parsed.Method == mcp.MethodInitialize
	}
	x.talk = m.talk(r.Header.Get("Mcp-Session-Id"), x.opens)
	keep(x.talk, mcp.FromClient, body, size)
	m.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// talk returns the conversation of a session. Requests to servers without sessions are all in one
// conversation, but are decoded separately, because they may have the same ids. An unknown session
// gets a new conversation. The mirror stores it once the server has accepted the session id.
func (m *mirror) talk(id string, opens bool) *trace.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case id == "" && m.loose == "" && opens: // there may be an id in the answer
		return m.log.Session("")
	case id == "":
		talk := m.log.Session(m.loose)
		m.loose = talk.Name()
		return talk
	case m.talks[id] == nil:
		return m.log.Session("")
	}
	m.remember(id, m.talks[id].talk)
	return m.talks[id].talk
}

// opened notes the conversation that an answer to initialize begins.
func (m *mirror) opened(talk *trace.Session, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" {
		m.remember(id, talk)
	} else if m.loose == "" {
		m.loose = talk.Name()
	}
}

// maxTalks is the number of most recently used sessions that are stored. A session that was dropped
// and is used again gets a new name in the recording.
const maxTalks = 1000

// remember stores the conversation of a session as the most recently used one. If there are too many,
// it drops the least recently used one. It must be called with mu held.
func (m *mirror) remember(id string, talk *trace.Session) {
	m.uses++
	m.talks[id] = &talking{talk, m.uses}
	if len(m.talks) <= maxTalks {
		return
	}
	oldest := id
	for other, t := range m.talks {
		if t.used < m.talks[oldest].used {
			oldest = other
		}
	}
	delete(m.talks, oldest)
}

// known stores the conversation of a session whose id the server has accepted.
func (m *mirror) known(talk *trace.Session, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != "" && m.talks[id] == nil {
		m.remember(id, talk)
	}
}

// answered records an answer of the server, or what its stream will bring.
func (m *mirror) answered(resp *http.Response) error {
	if resp.Request.Header.Get("Origin") != "" { // the access of pages is decided by the mirror, not by the server
		maps.DeleteFunc(resp.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Access-Control-") })
	}
	x := exchangeOf(resp.Request)
	if x == nil {
		return nil
	}
	id, method := resp.Header.Get("Mcp-Session-Id"), resp.Request.Method
	switch {
	case resp.StatusCode/100 == 2 && x.opens:
		m.opened(x.talk, id)
	case resp.StatusCode/100 == 2:
		m.known(x.talk, resp.Request.Header.Get("Mcp-Session-Id"))
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	last := resp.Request.Header.Get("Last-Event-Id")
	switch {
	case resp.StatusCode/100 != 2:
		x.talk.Event(fmt.Sprintf("HTTP %s: %s", method, resp.Status))
	case method == http.MethodDelete:
		x.talk.Event("HTTP DELETE: the session is over")
		m.mu.Lock()
		delete(m.talks, resp.Request.Header.Get("Mcp-Session-Id"))
		m.mu.Unlock()
	case method == http.MethodGet && last != "":
		x.talk.Event("HTTP GET: a stream is resumed")
	case method == http.MethodGet:
		x.talk.Event("HTTP GET: a stream for what belongs to no request")
	}
	switch kind {
	case "text/event-stream":
		resp.Body = &events{ReadCloser: resp.Body, talk: x.talk}
	case "application/json":
		body, size, err := read(&resp.Body, resp.ContentLength)
		if err != nil {
			return err
		}
		if _, err := jsonrpc.Parse(body, codec.NoCopy()); err == nil || resp.StatusCode/100 == 2 {
			keep(x.talk, mcp.FromServer, body, size)
		}
	}
	return nil
}

// keep records a message of a number of bytes, which is nil if it is too long.
func keep(talk *trace.Session, from mcp.Direction, text []byte, size int64) {
	switch {
	case text == nil && size > 0:
		talk.TooLong(from, size)
	case len(bytes.TrimSpace(text)) > 0:
		talk.Message(from, text)
	}
}

// read reads a body of a length, -1 if that is not known, and puts another one in its place that reads the same. A body
// that is too long to be kept is nil, and its size at least what is returned if the length is not known.
func read(body *io.ReadCloser, length int64) (text []byte, size int64, err error) {
	text, err = io.ReadAll(io.LimitReader(*body, transport.DefaultMaxMessage+1))
	if err != nil {
		return nil, 0, err
	}
	*body = &again{io.MultiReader(bytes.NewReader(text), *body), *body}
	if len(text) > transport.DefaultMaxMessage {
		return nil, max(length, int64(len(text))), nil
	}
	return text, int64(len(text)), nil
}

// again reads a body from its beginning.
type again struct {
	io.Reader
	io.Closer
}

// events is the body of an event stream, whose messages are recorded before they can be read.
type events struct {
	io.ReadCloser
	talk *trace.Session

	line  []byte // begun and not ended
	width int64  // of the line, in bytes
	data  []byte // of the event, each line with a line feed behind it
	name  string // of the event
	over  int64  // bytes of the event if that is too long to be kept
	ended bool   // the line before has ended with a carriage return, whose line feed may come
}

func (e *events) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.take(p[:n])
	return n, err
}

func (e *events) take(p []byte) {
	for len(p) > 0 {
		if e.ended && p[0] == '\n' {
			p = p[1:]
		}
		e.ended = false
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			e.keep(p)
			return
		}
		e.keep(p[:i])
		e.ended = p[i] == '\r'
		p = p[i+1:]
		e.endLine()
	}
}

// keep adds to the line, as long as the event is not too long.
func (e *events) keep(p []byte) {
	e.width += int64(len(p))
	if e.over > 0 || len(e.line)+len(e.data)+len(p) > transport.DefaultMaxMessage {
		e.over += int64(len(e.line) + len(e.data) + len(p))
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
	case e.over > 0:
		e.talk.TooLong(mcp.FromServer, e.over)
	case len(e.data) > 1: // else it has no more than an id
		e.talk.Message(mcp.FromServer, bytes.TrimSuffix(e.data, []byte("\n")))
	}
	e.data, e.name, e.over = e.data[:0], "", 0
}
