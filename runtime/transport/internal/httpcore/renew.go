package httpcore

import (
	"errors"
	"net/http"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// ErrRevision says that a session cannot be replaced by a new one, for which the session above would be in the wrong
// revision.
var ErrRevision = errors.New("the server has changed its revision")

// Passing reports whether what has gone wrong may be better later. A refusal by the server is not, unless its status
// says so.
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

// Withdraw tells the session above that a request of the server needs no answer any more, because of err: nobody is
// there to take it, and the next session at the server may use its id again.
func (e *End) Withdraw(id jsonrpc.ID, err error) {
	reason := err.Error()
	params, err := codec.Marshal(&mcp.CancelledNotificationParams{RequestID: id, Reason: &reason})
	if err != nil {
		return // cannot be: the id was read
	}
	m := jsonrpc.NewNotification(mcp.MethodNotificationsCancelled, params)
	text, err := m.AppendJSON(nil)
	if err != nil {
		return
	}
	e.Deliver(e.Life(), text)
}
