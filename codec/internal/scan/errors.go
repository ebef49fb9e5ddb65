package scan

import (
	"errors"
	"fmt"
	"io"
)

// fault is a sentinel that may be a special case of another.
type fault struct {
	text   string
	parent error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.parent }

// The causes of errors. Package codec documents and exports them.
var (
	ErrSyntax      error = &fault{"syntax error", nil}
	ErrBOM         error = &fault{"byte order mark", ErrSyntax}
	ErrControlChar error = &fault{"control character in a string", ErrSyntax}
	ErrEscape      error = &fault{"bad escape in a string", ErrSyntax}
	ErrNumber      error = &fault{"malformed number", ErrSyntax}
	ErrLiteral     error = &fault{"malformed literal", ErrSyntax}
	ErrEOF         error = &fault{"text ends early", io.ErrUnexpectedEOF}
	ErrTrailing    error = &fault{"text after the value", nil}
	ErrUTF8        error = &fault{"invalid UTF-8", nil}
	ErrSurrogate   error = &fault{"escape of half a surrogate pair", nil}
	ErrDuplicate   error = &fault{"member name appears twice", nil}
	ErrDepth       error = &fault{"nested too deeply", nil}
	ErrSize        error = &fault{"text is too long", nil}
	ErrStringSize  error = &fault{"string is too long", nil}
	ErrMemory      error = &fault{"value needs too much memory for the length of the text", nil}

	ErrType    error = &fault{"value of the wrong kind", nil}
	ErrInteger error = &fault{"number is not an integer", nil}
	ErrFloat   error = &fault{"number is infinite or not a number", nil}
	ErrNoValue error = &fault{"no value to write", nil}
)

// Malformations lists the errors for malformed text, which is wrong for every type.
var Malformations = [...]error{
	ErrSyntax, ErrEOF, ErrTrailing, ErrUTF8, ErrSurrogate, ErrDuplicate, ErrDepth, ErrSize, ErrStringSize, ErrMemory,
}

// Malformed reports whether err is one of Malformations, or wraps one.
func Malformed(err error) bool {
	for _, m := range Malformations {
		if errors.Is(err, m) {
			return true
		}
	}
	return false
}

// Unexpected returns the error for the byte at offset i, where want was expected.
func Unexpected(data []byte, i int, want string) error {
	if i >= len(data) {
		return ErrEOF
	}
	return fmt.Errorf("%w: want %s, got %q", ErrSyntax, want, data[i:i+1])
}
