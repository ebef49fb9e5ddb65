package codec

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Error is the one error type of this package: what is wrong, and where.
type Error struct {
	// Offset counts the bytes in front of the fault: in the whole input when reading, in the output written so
	// far when writing.
	Offset int64
	// Line and Column are Offset as an editor shows it. Both start at 1. A line ends with a line feed; a
	// column is a byte, not a character.
	Line, Column int
	// Pointer is the place as a JSON pointer (RFC 6901), such as "/params/name"; "" is the whole value. A wrong
	// member value and a repeated member are pointed at; for broken grammar it is the value that was being
	// read.
	Pointer string
	// Err is what is wrong, never nil: one of the errors below, perhaps with detail wrapped around, or what
	// was given to Fail.
	Err error

	writing bool // it comes from a Writer
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

// fault is a sentinel that may be a special case of another.
type fault struct {
	text   string
	parent error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.parent }

// Malformed text: wrong whatever type was wanted. See the package comment for the rule behind each.
var (
	ErrSyntax      error = &fault{"syntax error", nil}                        // the grammar is broken
	ErrBOM         error = &fault{"byte order mark", ErrSyntax}               // wraps ErrSyntax
	ErrControlChar error = &fault{"control character in a string", ErrSyntax} // wraps ErrSyntax
	ErrEscape      error = &fault{"bad escape in a string", ErrSyntax}        // wraps ErrSyntax
	ErrNumber      error = &fault{"malformed number", ErrSyntax}              // wraps ErrSyntax
	ErrLiteral     error = &fault{"malformed literal", ErrSyntax}             // wraps ErrSyntax: not quite true, false or null
	ErrEOF         error = &fault{"text ends early", io.ErrUnexpectedEOF}     // wraps io.ErrUnexpectedEOF
	ErrTrailing    error = &fault{"text after the value", nil}                // something follows the value
	ErrUTF8        error = &fault{"invalid UTF-8", nil}                       // also when writing
	ErrSurrogate   error = &fault{"escape of half a surrogate pair", nil}     // such as "\ud800"
	ErrDuplicate   error = &fault{"member name appears twice", nil}           // in one object
	ErrDepth       error = &fault{"nested too deeply", nil}                   // see MaxDepth
	ErrSize        error = &fault{"text is too long", nil}                    // see MaxSize
	ErrStringSize  error = &fault{"string is too long", nil}                  // see MaxString
)

// Well-formed text, or a Go value, of the wrong shape. See also [TypeError].
var (
	ErrInteger error = &fault{"number is not an integer", nil}           // 1.5, but not 1.0 or 1e3
	ErrFloat   error = &fault{"number is infinite or not a number", nil} // when writing
	ErrNoValue error = &fault{"no value to write", nil}                  // when writing: nil or empty, where a value must stand
)

// malformed lists what Code counts as malformed text.
var malformed = [...]error{
	ErrSyntax, ErrEOF, ErrTrailing, ErrUTF8, ErrSurrogate, ErrDuplicate, ErrDepth, ErrSize, ErrStringSize,
}

// TypeError says that a value is of the wrong kind.
type TypeError struct {
	Want string // what would do, such as "string or integer"
	Got  Kind
}

// Error names both kinds.
func (e *TypeError) Error() string { return "want " + e.Want + ", got " + e.Got.String() }

// Code gives the JSON-RPC 2.0 error code for an error that came from reading: -32700 (parse error) for malformed
// text, texts over a limit included, and -32602 (invalid params) for text of the wrong shape, which is any other
// [*Error]. It is 0 for nil, for errors from writing, and for those that are not from this package.
func Code(err error) int {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.writing {
		return 0
	}
	for _, m := range malformed {
		if errors.Is(e.Err, m) {
			return -32700
		}
	}
	return -32602
}

// unexpected is the error for the byte at offset i, where want was expected.
func unexpected(data []byte, i int, want string) error {
	if i >= len(data) {
		return ErrEOF
	}
	return fmt.Errorf("%w: want %s, got %q", ErrSyntax, want, data[i:i+1])
}
