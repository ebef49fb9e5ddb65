package streamable

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// namesModern reports whether the header of a request names a revision that sessions do not have.
func (h *Handler) namesModern(r *http.Request) bool {
	if h.o.Responder == nil {
		return false
	}
	version := r.Header.Get(headerProtocol)
	return version != "" && !mcp.Revision(version).Has(mcp.MethodInitialize)
}

// isModern reports whether a message is modern: its _meta names a version, or the header names one
// that sessions do not have. An initialize without such a _meta opens a session with any header.
func (h *Handler) isModern(named bool, m *jsonrpc.Message) bool {
	opens := m.Kind == jsonrpc.KindRequest && m.Method == mcp.MethodInitialize
	return named && !opens || h.o.Responder != nil && modern.Is(m.Params)
}

// serveModern serves a modern message (MCP Streamable HTTP, "Sending Messages").
func (h *Handler) serveModern(ctx context.Context, w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, taken *place) {
	notification := m.Kind == jsonrpc.KindNotification
	switch {
	case m.Kind != jsonrpc.KindRequest && !notification:
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "clients send no responses in this revision")
		return
	case isLong(m.ID):
		refuseLongID(w)
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
		w.WriteHeader(http.StatusAccepted)
		return
	}
	id := m.ID
	if notification {
		id = jsonrpc.ID{}
	}
	a, err := h.newAnswerer(ctx, w, r, id, taken)
	if err != nil {
		refuseModern(w, id, err)
		return
	}
	returned := false
	defer func() {
		if !returned { // the handler has ended the goroutine, which is one of package http
			boundary.Report(h.o.Logger, "handler panicked", boundary.ErrGoexit, "method", m.Method)
			a.abort(boundary.WireError(boundary.ErrGoexit))
		}
		a.leave()
	}()
	text, failed := h.o.Responder.Respond(&a.ctx, m, a)
	returned = true
	a.finish(text, failed)
}

// checkHeader returns the version of a modern message, or its first fault: an incomplete _meta, or a
// header field that differs from the message (MCP Streamable HTTP, "Server Validation"). It does not
// check the fields of arguments, and whether the server speaks the version. The _meta of a
// notification may be absent, and its fields may be, too, except for the version.
func checkHeader(header http.Header, m *jsonrpc.Message) (version string, fault *jsonrpc.Error) {
	version = header.Get(headerProtocol)
	notification := m.Kind == jsonrpc.KindNotification
	if !notification || modern.Is(m.Params) {
		if version, fault = modern.Read(m.Params); fault != nil {
			return "", fault
		}
	}
	fault = compare(header, modern.HeaderVersion, version, plainValue)
	if fault == nil && !(notification && len(header[modern.HeaderMethod]) == 0) {
		fault = compare(header, modern.HeaderMethod, m.Method, plainValue)
	}
	if param := modern.NameParam(m.Method); fault == nil && param != "" && !notification {
		var name string
		codec.ReadPart(m.Params, func(r *wire.Reader) { name, _, _ = r.PeekMember(param) })
		fault = compare(header, modern.HeaderName, name, modern.DecodeHeader)
	}
	return version, fault
}

// plainValue returns the text of a header field that does not use Base64.
func plainValue(value string) (string, error) { return strings.Trim(value, " \t"), nil }

// compare returns an error unless the header has exactly one field of a name, with the text that the
// message has.
func compare(header http.Header, name, want string, decode func(string) (string, error)) *jsonrpc.Error {
	values := header[name]
	switch len(values) {
	case 1:
	case 0:
		return mismatch("%s is missing", name)
	default:
		return mismatch("%s occurs %d times", name, len(values))
	}
	text, err := decode(values[0])
	switch {
	case err != nil:
		return mismatch("%s: %.100q: %v", name, values[0], err)
	case text != want:
		return mismatch("%s is %.100q, but the message has %.100q", name, text, want)
	}
	return nil
}

func mismatch(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: modern.CodeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
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
