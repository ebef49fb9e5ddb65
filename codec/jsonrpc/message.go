package jsonrpc

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// ID is the id of a request: a string or an integer, compared by its exact text and type. The zero
// ID means that there is no id.
type ID = codec.Scalar

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages. KindInvalid is the zero value and no kind.
const (
	KindInvalid Kind = iota
	KindRequest
	KindNotification
	KindResponse      // with a result
	KindErrorResponse // with an error
)

// String names the kind, such as "error response".
func (k Kind) String() string {
	switch k {
	case KindRequest:
		return "request"
	case KindNotification:
		return "notification"
	case KindResponse:
		return "response"
	case KindErrorResponse:
		return "error response"
	}
	return "invalid"
}

// Message is one message. Which fields it has depends on its kind; the others are zero. The
// functions [NewRequest], [NewNotification], [NewResponse] and [NewErrorResponse] set the right
// ones.
type Message struct {
	Kind   Kind
	ID     ID              // of all but notifications; an error response may have none
	Method string          // of requests and notifications
	Params json.RawMessage // of requests and notifications: an object, or nil if absent
	Result json.RawMessage // of responses: an object
	Error  *Error          // of error responses
	// Payload, if it is not nil, is the params or the result as a value of its own type, in the
	// place of Params or Result, which must then be nil.
	Payload codec.Value
	// Extra holds unknown members. The id of an error response is there if it is null.
	Extra wire.Extra
}

// NewRequest returns a request. Params must be an object, or nil for none.
func NewRequest(id ID, method string, params json.RawMessage) Message {
	return Message{Kind: KindRequest, ID: id, Method: method, Params: params}
}

// NewNotification returns a notification. Params must be an object, or nil for none.
func NewNotification(method string, params json.RawMessage) Message {
	return Message{Kind: KindNotification, Method: method, Params: params}
}

// NewResponse returns the answer to the request id. Result must be an object.
func NewResponse(id ID, result json.RawMessage) Message {
	return Message{Kind: KindResponse, ID: id, Result: result}
}

// NewErrorResponse returns the answer to the request id that failed with err. The zero ID is for a
// request whose id could not be read.
func NewErrorResponse(id ID, err *Error) Message {
	return Message{Kind: KindErrorResponse, ID: id, Error: err}
}

// MarshalJSON is EncodeJSON for encoding/json.
func (m Message) MarshalJSON() ([]byte, error) { return codec.Marshal(&m) }

// UnmarshalJSON is [Parse] for encoding/json.
func (m *Message) UnmarshalJSON(data []byte) (err error) {
	*m, err = Parse(data)
	return err
}

// AppendJSON appends the message to dst; see [codec.Append].
func (m *Message) AppendJSON(dst []byte) ([]byte, error) { return codec.Append(dst, m) }
