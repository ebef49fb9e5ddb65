package streamable

import (
	"context"
	"net/http"
	"slices"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// namesModern reports whether the header of a request names a revision that sessions do not have.
// Without sessions, it need not.
func (h *Handler) namesModern(r *http.Request) bool {
	if h.o.Responder == nil || h.modernOnly {
		return h.modernOnly
	}
	version := r.Header.Get(headerProtocol)
	return version != "" && !mcp.Revision(version).Has(mcp.MethodInitialize)
}

// isModern reports whether a message is modern: its _meta names a version, or the header names one
// that sessions do not have. An initialize without such a _meta opens a session with any header.
func (h *Handler) isModern(named bool, m *jsonrpc.Message) bool {
	return named && (h.modernOnly || !opens(m)) || h.o.Responder != nil && modern.Is(m.Params)
}

// opens reports whether a message is initialize.
func opens(m *jsonrpc.Message) bool {
	return m.Kind == jsonrpc.KindRequest && m.Method == mcp.MethodInitialize
}

// serveModern serves a modern message with a text (MCP Streamable HTTP, "Sending Messages").
func (h *Handler) serveModern(ctx context.Context, w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, text []byte, taken *place) {
	notification := m.Kind == jsonrpc.KindNotification
	switch {
	case m.Kind != jsonrpc.KindRequest && !notification:
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "clients send no responses in this revision")
		return
	case isLong(m.ID):
		refuseLongID(w)
		return
	case h.modernOnly && opens(m) && !modern.Is(m.Params):
		guard.RefuseCall(w, http.StatusBadRequest, m.ID, modern.NoSessions(m.Params, h.supported))
		return
	}
	version, fault := checkHeader(r.Header, m)
	if fault == nil && !slices.Contains(h.revisions, mcp.Revision(version)) {
		fault = modern.Unsupported(version, h.supported)
	}
	if fault != nil {
		guard.RefuseCall(w, http.StatusBadRequest, m.ID, fault)
		return
	}
	if notification && m.Method == mcp.MethodNotificationsCancelled { // over HTTP, the disconnect cancels
		guard.WriteStatus(w, http.StatusAccepted)
		return
	}
	id := m.ID
	if notification {
		id = jsonrpc.ID{}
	}
	if !h.guard.Permits(ctx, w, id, m) {
		return
	}
	a, err := h.newAnswerer(ctx, w, r, id, version, taken)
	if err != nil {
		refuseModern(w, id, err)
		return
	}
	if m.Method == mcp.MethodSubscriptionsListen { // whatever the Responder says
		a.Waits()
	}
	returned := false
	defer func() {
		if !returned { // the handler has ended the goroutine, which is one of package http
			boundary.Report(h.o.Logger, "handler panicked", boundary.ErrGoexit, "method", m.Method)
			a.abort(boundary.WireError(boundary.ErrGoexit))
		}
		a.leave()
	}()
	message := transport.Message{Text: text, Context: &a.ctx, Reply: a}
	message.SetParsed(m)
	h.o.Responder.Receive(message)
	returned = true
	a.finish()
}

// errReauthorize ends a request that waits, such as subscriptions/listen, when its token is no longer valid. The client listens
// again, with a new one.
var errReauthorize = &jsonrpc.Error{Code: engine.CodeClosing, Message: auth.ErrExpired.Error()}

// checkHeader returns the version of a modern message, or its first fault: an incomplete _meta, or
// a header field that differs from the message (MCP Streamable HTTP, "Server Validation"). It does
// not check the fields of arguments, and whether the server speaks the version. The _meta of a
// notification may be absent, and its fields may be, too, except for the version.
func checkHeader(header http.Header, m *jsonrpc.Message) (version string, fault *jsonrpc.Error) {
	version = header.Get(headerProtocol)
	notification := m.Kind == jsonrpc.KindNotification
	var repeated modern.Repeated
	if !notification || modern.Is(m.Params) {
		if repeated, fault = modern.Read(m.Method, m.Params); fault != nil {
			return "", fault
		}
		version = repeated.Version
	}
	fault = modern.CompareHeader(header, modern.HeaderVersion, version, modern.PlainHeader)
	if fault == nil && !(notification && len(header[modern.HeaderMethod]) == 0) {
		fault = modern.CompareHeader(header, modern.HeaderMethod, m.Method, modern.PlainHeader)
	}
	if fault == nil && modern.NameParam(m.Method) != "" && !notification {
		fault = modern.CompareHeader(header, modern.HeaderName, repeated.Name, modern.DecodeHeader)
	}
	return version, fault
}

// refuseModern answers a modern request that is not served because of err. id may be zero.
func refuseModern(w http.ResponseWriter, id jsonrpc.ID, err error) {
	status, code := http.StatusServiceUnavailable, int64(modern.CodeOverloaded)
	switch err {
	case errDraining:
		code = modern.CodeClosing
	case errTooManyRequests:
		status = http.StatusTooManyRequests
	}
	guard.RefuseCall(w, status, id, &jsonrpc.Error{Code: code, Message: err.Error()})
}

// statusOf returns the HTTP status of an error response. The specification demands some; other
// errors are outcomes of a request that was served.
func statusOf(e *jsonrpc.Error) int {
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case modern.CodeHeaderMismatch, modern.CodeMissingCapability, modern.CodeUnsupportedVersion:
		return http.StatusBadRequest
	case modern.CodeOverloaded, modern.CodeClosing:
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// notificationStatus returns the HTTP status of a rejected notification.
func notificationStatus(e *jsonrpc.Error) int {
	if status := statusOf(e); status == http.StatusServiceUnavailable {
		return status
	}
	return http.StatusBadRequest
}
