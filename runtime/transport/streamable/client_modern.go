package streamable

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// modernHeader returns the header of the POST of a modern message, or nil if the message belongs to
// a session. The context of the message has the fields of arguments (MCP Streamable HTTP, "Request
// Metadata").
func modernHeader(ctx context.Context, m jsonrpc.Message) http.Header {
	repeated, ok := modern.Repeat(m.Method, m.Params)
	if !ok {
		return nil
	}
	values := [...]string{repeated.Version, m.Method, ""}
	h := http.Header{
		"Accept":             acceptBoth,
		"Content-Type":       contentJSON,
		modern.HeaderVersion: values[0:1:1],
		modern.HeaderMethod:  values[1:2:2],
	}
	if repeated.Named {
		values[2] = modern.EncodeHeader(repeated.Name)
		h[modern.HeaderName] = values[2:3:3]
	}
	maps.Copy(h, modern.ParamHeaders(ctx))
	return h
}

// Values of header fields. All requests share them.
var (
	acceptBoth  = []string{httpcore.JSON + ", " + httpcore.Events}
	contentJSON = []string{httpcore.JSON}
)

// handleModernRejection handles the rejection of a modern request. An error in the body is the
// answer to the request, even if it has no id, unless the status demands authorization.
func (x *exchange) handleModernRejection(status *httpclient.StatusError, id jsonrpc.ID, h http.Header) error {
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return status
	}
	if status.RPC == nil || !id.IsZero() && id != x.id && jsonrpc.CanonicalID(id) != x.id {
		return status
	}
	m := jsonrpc.NewErrorResponse(x.id, status.RPC)
	text, err := m.AppendJSON(nil)
	if err != nil {
		return status
	}
	x.take(text, h)
	return nil
}

// hasSessions reports whether the rejection of server/discover shows that the server speaks only
// revisions with sessions, and not just that it is unavailable or demands authorization (MCP
// Streamable HTTP, "Backward Compatibility").
func hasSessions(err error) bool {
	status, ok := errors.AsType[*httpclient.StatusError](err)
	if !ok {
		return errors.Is(err, httpclient.ErrContent) || errors.Is(err, httpclient.ErrRedirect)
	}
	switch status.Code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError, http.StatusNotImplemented:
		return true // of servers that fail on unknown methods
	}
	return status.Code < 500
}

// ofStreamable reports whether the rejection of a message comes from a server of Streamable HTTP:
// its body is an error that only these send with the status (MCP Streamable HTTP, "HTTP+SSE
// Transport").
func ofStreamable(status *httpclient.StatusError) bool {
	return status.RPC != nil && (modern.IsCode(status.RPC.Code) ||
		status.RPC.Code == jsonrpc.CodeMethodNotFound && status.Code == http.StatusNotFound)
}
