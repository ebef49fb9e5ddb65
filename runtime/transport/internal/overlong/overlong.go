// Package overlong identifies a message that is too long to be held, by its beginning and its end.
package overlong

import (
	"bytes"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Part is how many bytes of the beginning and of the end of a text [NewError] needs. In practice
// peers write the id of a message near the start or the end.
const Part = 4 << 10

// Head returns a copy of the beginning of text.
func Head(text []byte) []byte { return bytes.Clone(text[:min(len(text), Part)]) }

// AppendTail returns the last [Part] bytes of tail followed by chunk. It writes to tail and does
// not retain chunk.
func AppendTail(tail, chunk []byte) []byte {
	chunk = chunk[max(0, len(chunk)-Part):]
	if extra := len(tail) + len(chunk) - Part; extra > 0 {
		tail = append(tail[:0], tail[extra:]...)
	}
	return append(tail, chunk...)
}

// NewError returns the error for a message of more than limit bytes with the given head and tail,
// of at most [Part] bytes each. It is a [*transport.DeliveryError] if the message is an answer and
// its id is found, otherwise a [*transport.MessageError], with the id of a request if that is
// found. It wraps [transport.ErrTooLong].
func NewError(head, tail []byte, limit int) error {
	err := fmt.Errorf("%w: more than MaxMessage (%d bytes)", transport.ErrTooLong, limit)
	m, _ := jsonrpc.Parse(head) // finds an id before the cut
	id := m.ID
	if id.IsZero() {
		id = lastID(tail)
	}
	isResponse, isRequest := direction(head)
	switch {
	case isResponse && !id.IsZero():
		return &transport.DeliveryError{ID: id, Taken: true, Err: err}
	case isRequest:
		return &transport.MessageError{ID: id, Err: err}
	}
	return &transport.MessageError{Err: err}
}

// direction reports the kind of a message by the members that begin in its head. It reports a
// notification as a request.
func direction(head []byte) (isResponse, isRequest bool) {
	r := wire.NewReader(head, wire.Limits{})
	r.Object()
	for {
		name, ok := r.NextKey()
		if !ok {
			return false, false
		}
		switch string(name) {
		case "result", "error":
			return true, false
		case "method":
			return false, true
		}
		r.Skip()
	}
}

// lastID returns the id of a message that ends with the id, or with the id and the protocol
// version. Otherwise it returns the zero ID. The id is that of the message only if the text from
// the last "id" on completes an object: after a nested id, a closing brace would be left over.
func lastID(tail []byte) (none jsonrpc.ID) {
	i := bytes.LastIndex(tail, []byte(`"id"`))
	if i < 0 {
		return none
	}
	object := append([]byte("{"), tail[i:]...)
	if codec.Valid(object) != nil {
		return none
	}
	m, _ := jsonrpc.Parse(object)
	return m.ID
}
