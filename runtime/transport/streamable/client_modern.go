package streamable

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/httpcore"
)

// modernHeader returns the header of the POST of a modern message, or nil if the message belongs to
// a session. The context of the message has the fields of arguments (MCP Streamable HTTP, "Request
// Metadata").
func modernHeader(ctx context.Context, m jsonrpc.Message) http.Header {
	if !modern.Is(m.Params) {
		return nil
	}
	h := http.Header{
		"Accept":             {httpcore.JSON + ", " + httpcore.Events},
		"Content-Type":       {httpcore.JSON},
		modern.HeaderVersion: {modern.Version(m.Params)},
		modern.HeaderMethod:  {m.Method},
	}
	if param := modern.NameParam(m.Method); param != "" {
		if name, ok := textMember(m.Params, param); ok {
			h[modern.HeaderName] = []string{modern.EncodeHeader(name)}
		}
	}
	maps.Copy(h, modern.ParamHeaders(ctx))
	return h
}

// textMember returns the member name of an object if it is a string.
func textMember(object []byte, name string) (text string, ok bool) {
	codec.ReadPart(object, func(r *wire.Reader) {
		var kind wire.Kind
		text, kind, ok = r.PeekMember(name)
		ok = ok && kind == wire.KindString
	})
	return text, ok
}

// handleModernRejection handles the rejection of a modern request. The response belongs to the
// request, also if the error in its body has no id. Statuses about authorization say nothing about
// the request.
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

// ofStreamable reports whether the rejection of a message comes from a server of Streamable HTTP: its
// body is an error that only these send with the status (MCP Streamable HTTP, "HTTP+SSE Transport").
func ofStreamable(status *httpclient.StatusError) bool {
	return status.RPC != nil && (modern.IsCode(status.RPC.Code) ||
		status.RPC.Code == jsonrpc.CodeMethodNotFound && status.Code == http.StatusNotFound)
}
