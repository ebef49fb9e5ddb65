package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Handler returns a handler that serves h, with tasks. Use it in place of h and of the Start method
// of h, which must be a handler of the server of t. The checks that h makes come first.
func (t *Tasks) Handler(h *server.StreamableHTTPServer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.engine.Begin() // on an error, requests about tasks try again and report it
		c := &carrier{t: t, header: r.Header, rewrites: true, request: r.Context()}
		c.special.Store(r.Method == http.MethodGet) // the stream may have requests of the server
		rw := &responseWriter{ResponseWriter: w, c: c}
		defer rw.release()
		w = rw
		if flusher, ok := rw.ResponseWriter.(http.Flusher); ok {
			w = flushingWriter{rw, flusher}
		}
		if r.Method == http.MethodPost && t.requests.open.Load() > 0 {
			if message := peekBody(r); message != nil {
				defer func() {
					if rw.status == http.StatusAccepted { // the SDK has accepted the session
						t.requests.cancelNamed(r.Header.Get(server.HeaderKeySessionID), message)
					}
				}()
			}
		}
		h.ServeHTTP(w, r.WithContext(withCarrier(r.Context(), c)))
		if c.issued != "" { // a request that resumes the stream may still write the response
			time.AfterFunc(ticketLifetime, func() { t.tickets.close(c.issued) })
		}
		if r.Method == http.MethodDelete && rw.status == http.StatusOK {
			if principal, err := t.engine.Principal(r.Context(), r.Header, ""); err == nil {
				t.waits.End(embedding.Waiter{Session: r.Header.Get(server.HeaderKeySessionID), Principal: principal})
			}
		}
	})
}

// ticketLifetime is how long the ticket of a response that was not written remains valid after its
// HTTP request.
const ticketLifetime = time.Minute

// EventStore returns an EventStore that records in s what clients receive. Pass it to
// [server.WithEventStore]: clients can then resume the streams of requests about tasks, also at
// another process that has the same s. A tasks/result continues to wait after its stream was broken,
// up to 16 of each session, until the session ends. With an EventStore that is not one of this
// method, clients that resume such a stream get an error in place of the response, and can repeat
// the request.
func (t *Tasks) EventStore(s server.EventStore) server.EventStore {
	t.resumable.Store(true)
	return eventStore{s, t}
}

// eventStore is an EventStore that records the messages that the transport wrapper writes.
type eventStore struct {
	server.EventStore
	t *Tasks
}

// StoreEvent implements [server.EventStore].
func (s eventStore) StoreEvent(ctx context.Context, session, stream string, message json.RawMessage) (string, error) {
	if r, ok := s.t.rewrite(message); ok {
		if r.message == "" { // the client has cancelled the request, or it was answered
			return "", nil
		}
		message = json.RawMessage(r.message)
	}
	return s.EventStore.StoreEvent(ctx, session, stream, message)
}

// peekBody returns the body of a request if it may be a notifications/cancelled, or nil. The body
// of the request can still be read.
func peekBody(r *http.Request) []byte {
	if r.ContentLength > maxCancelled || r.Body == nil {
		return nil
	}
	start, err := io.ReadAll(io.LimitReader(r.Body, maxCancelled+1))
	rest := r.Body
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), rest}
	if err != nil || len(start) > maxCancelled || !bytes.Contains(start, []byte("cancelled")) {
		return nil
	}
	return start
}

// responseWriter replaces the responses and requests that the SDK writes about tasks; see rewrite.
type responseWriter struct {
	http.ResponseWriter
	c      *carrier
	status int  // 0 before WriteHeader
	held   bool // the status has not been written
}

// Unwrap supports [http.ResponseController].
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader holds the status back if Write may replace the response, and with it the status.
func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.c.special.Load() {
		w.held = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write replaces a message or an event. The SDK writes each of them with one call.
func (w *responseWriter) Write(text []byte) (int, error) {
	if !w.c.special.Load() {
		return w.ResponseWriter.Write(text)
	}
	r, ok := w.c.t.rewrite(text)
	if !ok {
		if bytes.HasPrefix(text, []byte("id: ")) && !w.c.t.resumable.Load() {
			w.c.t.warning.Do(func() {
				w.c.t.engine.Logger().Warn("responses not recorded: the EventStore is not one of Tasks.EventStore")
			})
		}
		w.release()
		return w.ResponseWriter.Write(text)
	}
	event := bytes.HasPrefix(text, []byte("event:"))
	if w.held && !event {
		w.status = statusOf(r.message, w.status)
	}
	w.release()
	var err error
	switch {
	case event && r.message == "": // the request was cancelled
	case event:
		_, err = io.WriteString(w.ResponseWriter, "event: message\ndata: "+r.message+"\n\n")
	default:
		_, err = io.WriteString(w.ResponseWriter, r.message)
	}
	if err != nil {
		return 0, err
	}
	w.c.t.tickets.close(r.ticket)
	return len(text), nil
}

// release writes the status that was held back.
func (w *responseWriter) release() {
	if w.held {
		w.held = false
		w.ResponseWriter.WriteHeader(w.status)
	}
}

// statusOf returns the status for a response, given the status of the SDK. In sessions, both are
// 200.
func statusOf(response string, status int) int {
	if response == "" {
		return http.StatusAccepted
	}
	if status == http.StatusOK {
		return status
	}
	var m struct {
		Error *jsonrpc.Error `json:"error"`
	}
	json.Unmarshal([]byte(response), &m)
	if m.Error == nil {
		return http.StatusOK
	}
	switch m.Error.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, modern.CodeHeaderMismatch, modern.CodeMissingCapability, modern.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case modern.CodeOverloaded, modern.CodeClosing:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// flushingWriter is a responseWriter that implements [http.Flusher].
type flushingWriter struct {
	*responseWriter
	flusher http.Flusher
}

// Flush implements [http.Flusher].
func (w flushingWriter) Flush() {
	w.release()
	w.flusher.Flush()
}
