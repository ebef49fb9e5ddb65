// Package jsonfault has the causes of the errors of packages codec and jsonrpc, one for each rule
// that a text or a message can break. Programs need fewer: package codec exports the classes, which
// the others wrap, and jsonrpc.CodeOf returns the code of the response. The tests of broken input
// compare each cause.
package jsonfault

import (
	"errors"
	"io"
)

// fault is a cause that may be a special case of others.
type fault struct {
	text    string
	parents []error
}

func (f *fault) Error() string   { return f.text }
func (f *fault) Unwrap() []error { return f.parents }

func of(text string, parents ...error) error { return &fault{text, parents} }

// The causes of malformed text, which is wrong for every type.
var (
	Syntax      = of("syntax error") // the class of the next nine
	BOM         = of("byte order mark", Syntax)
	ControlChar = of("control character in a string", Syntax)
	Escape      = of("bad escape in a string", Syntax)
	Number      = of("malformed number", Syntax)
	Literal     = of("malformed literal", Syntax)
	EOF         = of("text ends early", io.ErrUnexpectedEOF, Syntax)
	Trailing    = of("text after the value", Syntax)
	UTF8        = of("invalid UTF-8", Syntax) // also when writing
	Surrogate   = of("escape of half a surrogate pair", Syntax)

	Duplicate = of("member name appears twice")

	Limit      = of("text exceeds a limit") // the class of the next four
	Depth      = of("nested too deeply", Limit)
	Size       = of("text is too long", Limit)
	StringSize = of("string is too long", Limit)
	Memory     = of("value needs too much memory for the length of the text", Limit)
)

// The causes for well-formed text, or a Go value, of the wrong shape.
var (
	Type    = of("value of the wrong kind")
	Integer = of("number is not an integer", Type)

	NoValue = of("no value to write")                           // when writing
	Float   = of("number is infinite or not a number", NoValue) // when writing
)

// Malformed reports whether err is a cause of malformed text, or wraps one.
func Malformed(err error) bool {
	return errors.Is(err, Syntax) || errors.Is(err, Duplicate) || errors.Is(err, Limit)
}

// Codes of JSON-RPC for invalid messages.
const (
	invalidRequest = -32600
	invalidParams  = -32602
)

// Message is why a well-formed text is not a valid message.
type Message struct {
	text string
	Code int64 // of the error response
}

// Error returns the text of the cause.
func (m *Message) Error() string { return m.text }

func message(text string, code int64) error { return &Message{text, code} }

// The causes for a well-formed text that is not a valid message. The comment of package jsonrpc has
// the rules.
var (
	NotObject  = message("message is not an object", invalidRequest)
	Version    = message(`"jsonrpc" is not "2.0"`, invalidRequest)
	ID         = message("id is neither a string nor an integer", invalidRequest)
	NoID       = message("id is missing", invalidRequest)
	Method     = message("method is not a string", invalidRequest)
	Params     = message("params are not an object", invalidRequest)
	Positional = message("params are an array, not an object", invalidParams)
	Result     = message("result is not an object", invalidRequest)
	Error      = message("error is not an object with a code and a message", invalidRequest)
	Both       = message("message has a result and an error", invalidRequest)
	Mixed      = message("member belongs to another kind of message", invalidRequest)
	Neither    = message("message has no method, result or error", invalidRequest)
	Batch      = message("batches are not allowed here", invalidRequest)
	NoBatch    = message("batch is not an array", invalidRequest)
	EmptyBatch = message("batch is empty", invalidRequest)
	BatchSize  = message("batch has more than 1000 messages", invalidRequest)
)
