package codec

import (
	"fmt"
	"strconv"

	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Scalar is a string, a number or a boolean. The zero value is none of them. Scalars may be
// compared with == and used as map keys. Numbers are compared by their text: 1 and 1.0 differ, and
// the string "1" differs from both.
type Scalar struct {
	kind wire.ScalarKind
	text string // a string's content, a number's text, true or false
}

// StringScalar returns the string s as a Scalar. If s is not UTF-8, writing it fails.
func StringScalar(s string) Scalar { return Scalar{wire.ScalarString, s} }

// IntScalar returns the integer i as a Scalar.
func IntScalar(i int64) Scalar { return Scalar{wire.ScalarInteger, strconv.FormatInt(i, 10)} }

// BoolScalar returns the boolean b as a Scalar.
func BoolScalar(b bool) Scalar { return Scalar{wire.ScalarBool, strconv.FormatBool(b)} }

// NumberScalar returns the number n as a Scalar that keeps its text. It fails with an error that
// wraps [ErrSyntax] if n is no JSON number.
func NumberScalar(n Number) (Scalar, error) {
	if _, _, ok := n.scan(); !ok {
		return Scalar{}, fmt.Errorf("%w: %q", jsonfault.Number, string(n))
	}
	return numberScalar(n), nil
}

// numberScalar is NumberScalar for a number that was checked.
func numberScalar(n Number) Scalar {
	if n.IsInteger() {
		return Scalar{wire.ScalarInteger, string(n)}
	}
	return Scalar{wire.ScalarNumber, string(n)}
}

// Equal reports whether s == t. Packages such as go-cmp compare with it.
func (s Scalar) Equal(t Scalar) bool { return s == t }

// IsZero reports whether s is the zero value: no scalar at all.
func (s Scalar) IsZero() bool { return s.kind == 0 }

// Kind returns the one kind that s has, or 0 for the zero value.
func (s Scalar) Kind() wire.ScalarKind { return s.kind }

// Text returns the content of a string.
func (s Scalar) Text() (text string, ok bool) {
	if s.kind != wire.ScalarString {
		return "", false
	}
	return s.text, true
}

// Int returns an integer that fits an int64.
func (s Scalar) Int() (v int64, ok bool) {
	if s.kind != wire.ScalarInteger {
		return 0, false
	}
	return Number(s.text).Int()
}

// Number returns the text of a number, integers included.
func (s Scalar) Number() (n Number, ok bool) {
	if s.kind != wire.ScalarInteger && s.kind != wire.ScalarNumber {
		return "", false
	}
	return Number(s.text), true
}

// Bool returns the value of a boolean.
func (s Scalar) Bool() (v, ok bool) {
	return s.text == "true" && s.kind == wire.ScalarBool, s.kind == wire.ScalarBool
}

// String returns s as JSON text for display. It quotes a string that is not UTF-8 with
// [strconv.Quote], and returns "" for the zero value.
func (s Scalar) String() string {
	if s.kind != wire.ScalarString {
		return s.text
	}
	text, err := Marshal(s)
	if err != nil {
		return strconv.Quote(s.text)
	}
	return string(text)
}

// ReadScalar reads a scalar of one of the allowed kinds. Another kind fails with [ErrType], and so
// does a number that is no integer, where only integers are allowed.
func ReadScalar(r *wire.Reader, allow wire.ScalarKind) Scalar {
	kind, text := r.Scalar(allow)
	return Scalar{kind, text}
}

// EncodeJSON writes s. It fails with [ErrNoValue] for the zero value.
func (s Scalar) EncodeJSON(w *wire.Writer) {
	switch s.kind {
	case 0:
		w.Fail("", ErrNoValue)
	case wire.ScalarString:
		w.Text(s.text)
	default:
		w.Lit(s.text)
	}
}

// DecodeJSON reads any scalar.
func (s *Scalar) DecodeJSON(r *wire.Reader) {
	*s = ReadScalar(r, wire.ScalarString|wire.ScalarNumber|wire.ScalarBool)
}

// MarshalJSON is EncodeJSON for encoding/json.
func (s Scalar) MarshalJSON() ([]byte, error) { return Marshal(s) }

// UnmarshalJSON is DecodeJSON for encoding/json.
func (s *Scalar) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }
