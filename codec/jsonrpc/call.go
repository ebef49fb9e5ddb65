package jsonrpc

import (
	"context"
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
)

// Caller sends a request to the peer and waits for its result. Params are nil if the request has
// none. Call returns an error response as an [*Error].
type Caller interface {
	Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error)
}

// Notifier sends a notification to the peer. Params are nil if it has none.
type Notifier interface {
	Notify(ctx context.Context, method string, params codec.Encoder) error
}

// MethodNotFound returns the error that answers a request for a method that does not exist.
func MethodNotFound(method string) error {
	return &Error{Code: CodeMethodNotFound, Message: "method not found: " + method}
}

// InvalidParams returns the error that answers a request whose params are refused because of err.
// It returns an err that is an [*Error] unchanged.
func InvalidParams(err error) error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Code: CodeInvalidParams, Message: "invalid params: " + err.Error()}
}
