package jsonrpc

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// The error codes of JSON-RPC 2.0, section 5.1.
const (
	CodeParseError     = -32700 // the text is malformed
	CodeInvalidRequest = -32600 // the JSON is no valid message
	CodeMethodNotFound = -32601 // the method does not exist here
	CodeInvalidParams  = -32602 // the params do not fit the method
	CodeInternalError  = -32603 // something failed on the receiver's side
)

// Error is the error object of an error response. As a Go error it is an error that the peer sent,
// or one to be sent to the peer.
type Error struct {
	Code    int64           // saturated if it does not fit; Extra then has its text
	Message string          // one short sentence
	Data    json.RawMessage // any value; nil if absent
	Extra   wire.Extra      // unknown members
}

// Error returns the message and the code.
func (e *Error) Error() string {
	if e == nil {
		return "jsonrpc: error is nil"
	}
	return "jsonrpc: " + e.Message + " (code " + strconv.FormatInt(e.Code, 10) + ")"
}

// CodeOf returns the code of the error response to a request that failed with err. For an [*Error]
// it is its Code, for an invalid message the code of the rule that it breaks, and for an error from
// reading the result of [codec.Code]. For any other error, including a nil *Error, it is
// [CodeInternalError]. For a nil error it is 0.
func CodeOf(err error) int64 {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*Error](err); ok {
		if e == nil {
			return CodeInternalError
		}
		return e.Code
	}
	code := int64(codec.Code(err))
	if _, ok := errors.AsType[*codec.Error](err); ok && code == 0 {
		return CodeInternalError // an error from writing is internal, whatever rule it breaks
	}
	if f, ok := errors.AsType[*jsonfault.Message](err); ok {
		return f.Code
	}
	if code == 0 {
		return CodeInternalError
	}
	return code
}
