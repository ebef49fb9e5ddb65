package gosdk

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Handler returns a handler for Streamable HTTP. At one URL, it serves revisions with and without
// sessions. The options are those of [mcp.NewStreamableHTTPHandler]; nil means the defaults. If
// Stateless is set, clients of revisions with sessions get no session, and their tasks cannot send
// requests to them.
func (t *Tasks) Handler(o *mcp.StreamableHTTPOptions) http.Handler {
	var options mcp.StreamableHTTPOptions
	if o != nil {
		options = *o
	}
	server := func(*http.Request) *mcp.Server { return t.server }
	sessions := mcp.NewStreamableHTTPHandler(server, &options)
	stateless := options
	stateless.Stateless = true
	modern := mcp.NewStreamableHTTPHandler(server, &stateless)
	limit := options.MaxRequestBodyBytes
	if limit == 0 {
		limit = mcp.DefaultMaxRequestBodyBytes
	}
	return t.wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isModernHeader(r.Header) {
			modern.ServeHTTP(w, r)
		} else {
			sessions.ServeHTTP(w, r)
		}
	}), limit, options.EventStore != nil)
}

// Wrap returns a handler that serves h, with tasks. The handler h is a [mcp.StreamableHTTPHandler]
// of the server, possibly inside other handlers. For revisions with sessions, it must not be
// Stateless; for revision 2026-07-28, it must be. [Tasks.Handler] serves both. Requests of more
// than [mcp.DefaultMaxRequestBodyBytes] cannot create tasks.
func (t *Tasks) Wrap(h http.Handler) http.Handler {
	return t.wrap(h, mcp.DefaultMaxRequestBodyBytes, true)
}

func isModernHeader(header http.Header) bool {
	return header.Get(modern.HeaderVersion) >= modernVersion
}

// headerTicket carries the id of a ticket from the HTTP wrapper to the middleware of the server,
// through the SDK.
const headerTicket = "Mcpwire-Ticket"

// ticket has the parts of a request that the SDK does not pass on to middleware.
type ticket struct {
	id        wirerpc.ID
	params    json.RawMessage   // as received
	ctx       context.Context   // of the HTTP request, or nil
	resumable bool              // the client may resume the stream of the response
	stream    *embedding.Stream // of the response, if notifications may be added to it; else nil

	// For a subscription that the SDK serves: its tasks, and the function that ends their
	// notifications.
	taskIDs []string
	stop    func()
}

// ticket returns the ticket of a request and makes it invalid. It returns nil if there is none.
func (t *Tasks) ticket(req mcp.Request) *ticket {
	extra := req.GetExtra()
	if extra == nil {
		return nil
	}
	id := extra.Header.Get(headerTicket)
	if id == "" {
		return nil
	}
	k, ok := t.tickets.LoadAndDelete(id)
	if !ok {
		return nil
	}
	return k.(*ticket)
}

// wrap returns a handler that issues tickets for the requests of h. It reads messages of up to
// limit bytes and passes longer ones to h; a negative limit means no limit.
func (t *Tasks) wrap(h http.Handler, limit int64, resumable bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.begin() // on an error, requests about tasks try again and report it
		if _, ok := r.Header[headerTicket]; ok {
			r = withHeader(r, "")
		}
		received := r.Header
		r = withPlainName(r)
		switch r.Method {
		case http.MethodGet:
			t.serveGET(h, w, r)
			return
		case http.MethodDelete:
			// The SDK waits for the requests of the session before it responds.
			if principal, err := t.principal(r.Context(), &mcp.RequestExtra{Header: r.Header, TokenInfo: auth.TokenInfoFromContext(r.Context())}); err == nil {
				t.waits.End(embedding.Waiter{Session: r.Header.Get("Mcp-Session-Id"), Principal: principal})
			}
			h.ServeHTTP(w, r)
			return
		case http.MethodPost:
		default:
			h.ServeHTTP(w, r)
			return
		}
		if r.Body == nil { // possible if the caller is not an http.Server
			h.ServeHTTP(w, r)
			return
		}
		body, rest, err := readBody(r, limit)
		replay := new(http.Request)
		*replay = *r
		replay.Body = rest
		if err != nil {
			h.ServeHTTP(w, replay)
			return
		}
		method, special := t.engine.Peek(body)
		switch {
		case special, method == methodInitialize, method == methodListTools, method == methodDiscover:
		default:
			h.ServeHTTP(w, replay)
			return
		}
		m, err := wirerpc.ParseReceived(body)
		if err != nil || m.Kind != wirerpc.KindRequest {
			h.ServeHTTP(w, replay) // the SDK reports the fault
			return
		}
		if special && isModernHeader(r.Header) {
			if fault := embedding.CheckName(method, m.Params, received); fault != nil {
				writeError(w, m.ID, fault)
				return
			}
		}
		k := &ticket{id: m.ID, params: m.Params, ctx: r.Context(), resumable: resumable}
		if method == wire.MethodTasksResult || method == methodListen {
			k.stream = embedding.NewStream(w)
			defer k.stream.Close()
			w = k.stream
		}
		id := rand.Text()
		t.tickets.Store(id, k)
		defer t.tickets.Delete(id)
		h.ServeHTTP(w, withHeader(replay, id))
	})
}

// withPlainName returns r, or a copy whose header has the name of the tool, prompt or resource
// without the encoding of other characters than those of ASCII (MCP Streamable HTTP, "Value
// Encoding"). The SDK does not decode it.
func withPlainName(r *http.Request) *http.Request {
	name := r.Header.Get(modern.HeaderName)
	plain, err := modern.DecodeHeader(name)
	if err != nil || plain == name {
		return r
	}
	copied := new(http.Request)
	*copied = *r
	copied.Header = r.Header.Clone()
	copied.Header.Set(modern.HeaderName, plain)
	return copied
}

// withHeader returns a copy of r with the ticket id in its header, or without a ticket if id is "".
func withHeader(r *http.Request, id string) *http.Request {
	copied := new(http.Request)
	*copied = *r
	copied.Header = r.Header.Clone()
	copied.Header.Del(headerTicket)
	if id != "" {
		copied.Header.Set(headerTicket, id)
	}
	return copied
}

// readBody reads a body of up to limit bytes. It returns the body, and rest, a reader of the same
// bytes. If the body is longer, or reading it fails, readBody returns an error; reading rest then
// yields the whole body, or the same failure.
func readBody(r *http.Request, limit int64) (body []byte, rest io.ReadCloser, err error) {
	var buffer bytes.Buffer
	if n := r.ContentLength; n > 0 && n < 1<<20 {
		buffer.Grow(int(n) + bytes.MinRead)
	}
	var from io.Reader = r.Body
	if limit >= 0 {
		from = io.LimitReader(r.Body, limit+1)
	}
	_, err = buffer.ReadFrom(from)
	body = buffer.Bytes()
	if err == nil && (limit < 0 || int64(len(body)) <= limit) {
		return body, io.NopCloser(bytes.NewReader(body)), nil
	}
	if err == nil {
		err = http.ErrBodyReadAfterClose
	}
	return nil, &struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}, err
}

// writeError responds to a modern request with an error that the SDK cannot send with status 400.
func writeError(w http.ResponseWriter, id wirerpc.ID, fault *wirerpc.Error) {
	m := wirerpc.NewErrorResponse(id, fault)
	text, err := m.AppendJSON(nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	w.Write(text)
}
