package codec

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Error is the error type of this package. It says what is wrong and where.
type Error struct {
	// Offset counts the bytes before the fault: in the whole input when reading, in the output
	// written so far when writing.
	Offset int64
	// Line and Column are Offset as an editor shows it. Both start at 1. A line ends with a line
	// feed; a column is a byte, not a character.
	Line, Column int
	// Pointer is the place as a JSON pointer (RFC 6901), such as "/params/name"; "" is the whole
	// value. It points at a wrong member value, at a repeated member, or, for broken grammar, at
	// the value that was being read.
	Pointer string
	// Err is the cause, never nil: it wraps one of the errors below, or is the error given to Fail.
	Err error

	writing bool // the error is from a Writer
}

// Error returns the place and the cause in one line. It shortens a Pointer of more than 1024 bytes,
// because the peer chooses the member names in it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("json: ")
	if e.Pointer != "" {
		b.WriteString(shortPointer(e.Pointer))
		b.WriteString(": ")
	}
	b.WriteString(e.Err.Error())
	b.WriteString(" (line ")
	b.WriteString(strconv.Itoa(e.Line))
	b.WriteString(", column ")
	b.WriteString(strconv.Itoa(e.Column))
	b.WriteString(", offset ")
	b.WriteString(strconv.FormatInt(e.Offset, 10))
	b.WriteByte(')')
	return b.String()
}

// shortPointer returns p if it has at most 1024 bytes, and otherwise the first 1024 bytes or a few
// less, with an ellipsis appended. It does not cut within a UTF-8 sequence.
func shortPointer(p string) string {
	const most = 1 << 10
	if len(p) <= most {
		return p
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(p[cut]) {
		cut--
	}
	return p[:cut] + "…"
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// JSONPointer returns Pointer. [wire.Writer.Fail] extends its own pointer with it.
func (e *Error) JSONPointer() string { return e.Pointer }

// failure returns the failure of r, which has read data, as an *Error, or nil.
func failure(r *wire.Reader, data []byte) error {
	at, err := r.Failure()
	if err == nil {
		return nil
	}
	line, column := Position(data, at)
	e := &Error{Offset: int64(at), Line: line, Column: column, Err: err}
	if err != jsonfault.Size { // else nothing was read, and the pointer could have any length
		e.Pointer = scan.PointerTo(data, at)
	}
	return e
}

// writeFailure returns the failure of w as an *Error, or nil. Its Line is 1, because a Writer
// writes no line breaks.
func writeFailure(w *wire.Writer) error {
	f := w.Failure()
	if f.Err == nil {
		return nil
	}
	return &Error{Offset: int64(f.Offset), Line: 1, Column: f.Offset + 1, Pointer: f.Pointer, Err: f.Err, writing: true}
}

// The classes of errors. The text of an [Error] says which rule is broken; see the package comment.
var (
	// ErrSyntax means that the text is no JSON: its grammar is broken, it ends early or is followed by
	// something, or a string is not Unicode. The last is also an error when writing. If the text ends
	// early, the error wraps [io.ErrUnexpectedEOF], too.
	ErrSyntax = jsonfault.Syntax
	// ErrDuplicate means that a member name appears twice in one object.
	ErrDuplicate = jsonfault.Duplicate
	// ErrLimit means that the text exceeds a limit: see [MaxDepth], [MaxSize] and [MaxString], and the
	// limit on memory in the package comment.
	ErrLimit = jsonfault.Limit
	// ErrType means that a value has the wrong kind, such as a string in place of an object, or 1.5
	// where an integer is needed.
	ErrType = jsonfault.Type
	// ErrNoValue means that there is nothing that JSON can express, when writing: nil or an empty value
	// where a value is required, an infinity or NaN.
	ErrNoValue = jsonfault.NoValue
)

// Code returns the JSON-RPC 2.0 error code for an error from reading: -32700 (parse error) for
// malformed text, including text over a limit, and -32602 (invalid params) for text of the wrong
// shape, which is any other [*Error]. It returns 0 for nil, for errors from writing, and for errors
// of other packages.
func Code(err error) int {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || e.writing:
		return 0
	case jsonfault.Malformed(e.Err):
		return -32700
	}
	return -32602
}
