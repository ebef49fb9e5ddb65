package httpcore

import (
	"errors"
	"net/http"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// ErrRevision is returned if the server chooses another revision for a new session. The new session
// cannot replace the lost one then.
var ErrRevision = errors.New("server has changed its revision")

// Passing reports whether a request that failed with err may succeed later. Rejections by the
// server are permanent, except for some statuses.
func Passing(err error) bool {
	if status, ok := errors.AsType[*httpclient.StatusError](err); ok {
		switch status.Code {
		case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly,
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return false
	}
	return !errors.Is(err, ErrRevision) && !errors.Is(err, httpclient.ErrContent) && !errors.Is(err, httpclient.ErrRedirect)
}

// Withdraw delivers a notifications/cancelled for a request of the server, with err as the reason.
// The session that sent the request has ended, and its successor may reuse the id.
func (e *End) Withdraw(id jsonrpc.ID, err error) {
	reason := err.Error()
	params, err := codec.Marshal(&mcp.CancelledNotificationParams{RequestID: id, Reason: &reason})
	if err != nil {
		return // not reached: the id was decoded
	}
	m := jsonrpc.NewNotification(mcp.MethodNotificationsCancelled, params)
	text, err := m.AppendJSON(nil)
	if err != nil {
		return
	}
	e.Deliver(e.Life(), text)
}
