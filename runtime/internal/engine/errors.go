package engine

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// ErrCancelled is the cause of the context of an exchange that the peer has cancelled.
var ErrCancelled = errors.New("session: request cancelled by the peer")

// Error codes for a peer that may send the same request again later. Revisions that reserve these
// codes for themselves have other ones, see [mcp.Traits].
const (
	CodeOverloaded = -32050
	CodeClosing    = -32051
)

// EncodeError returns the error response to a request. It leaves out data that is not valid JSON.
func EncodeError(id jsonrpc.ID, failed *jsonrpc.Error) (text []byte) {
	message := jsonrpc.NewErrorResponse(id, failed)
	text, err := codec.Marshal(&message)
	if err != nil {
		message.Error = &jsonrpc.Error{Code: failed.Code, Message: failed.Message}
		text, _ = codec.Marshal(&message) // the message is valid UTF-8
	}
	return text
}

// Overloaded returns the error for a request above a limit.
func Overloaded(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeOverloaded, Message: "overloaded: " + fmt.Sprintf(format, args...)}
}

// Closing returns the error that rejects or ends an exchange because its Set is being drained.
func Closing() *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeClosing, Message: "session is shutting down"}
}
