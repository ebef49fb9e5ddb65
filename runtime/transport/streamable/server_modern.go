package streamable

import (
	"context"
	"net/http"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// isModern reports whether a POST belongs to a revision without sessions: its message names its
// version, or its header names one that is not of a session.
func (h *Handler) isModern(r *http.Request, m *jsonrpc.Message) bool {
	if h.o.Responder == nil {
		return false
	}
	version := r.Header.Get(headerProtocol)
	return version != "" && !mcp.Revision(version).Has(mcp.MethodInitialize) || modern.Is(m.Params)
}

// respond serves a modern request (MCP Streamable HTTP, "Sending Messages").
func (h *Handler) respond(ctx context.Context, w http.ResponseWriter, r *http.Request, m *jsonrpc.Message) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	answer, failed := h.o.Responder.Respond(ctx, m, func([]byte) error { return nil })
	status := http.StatusOK
	if failed != nil {
		status = statusOf(failed)
	}
	guard.WriteJSON(w, status, answer)
}

// statusOf returns the HTTP status of an error response.
func statusOf(e *jsonrpc.Error) int {
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case modern.CodeHeaderMismatch, modern.CodeMissingCapability, modern.CodeUnsupportedVersion, jsonrpc.CodeInvalidParams:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
