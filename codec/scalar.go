package codec

import (
	"fmt"
	"strconv"
	"strings"
)

// ScalarKind is a set of kinds that a [Scalar] may have, or the one that it has.
type ScalarKind uint8

// The kinds of scalars, which may be combined with |. A number of integral value, such as 7, 1.0 or 6e4, has
// the kind ScalarInteger; where ScalarNumber is allowed, integers are too.
const (
	ScalarString ScalarKind = 1 << iota
	ScalarInteger
	ScalarNumber
	ScalarBool
)

// String names the kinds in the set, such as "string or integer".
func (k ScalarKind) String() string {
	var names []string
	if k&ScalarString != 0 {
		names = append(names, "string")
	}
	if k&ScalarNumber != 0 {
		names = append(names, "number")
	} else if k&ScalarInteger != 0 {
		names = append(names, "integer")
	}
	if k&ScalarBool != 0 {
		names = append(names, "boolean")
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, " or ")
}

// Scalar is a string, a number or a boolean. The zero value is none of them. Scalars may be compared with == and
// used as map keys; a number is compared by its text, so that 1 and 1.0 differ, and "1" is neither.
type Scalar struct {
	kind ScalarKind
	text string // a string's content, a number's text, true or false
}

// StringScalar returns the string s as a Scalar. If s is not UTF-8, writing it fails.
func StringScalar(s string) Scalar { return Scalar{ScalarString, s} }

// IntScalar returns the integer i as a Scalar.
func IntScalar(i int64) Scalar { return Scalar{ScalarInteger, strconv.FormatInt(i, 10)} }

// BoolScalar returns the boolean b as a Scalar.
func BoolScalar(b bool) Scalar { return Scalar{ScalarBool, strconv.FormatBool(b)} }

// NumberScalar returns the number n as a Scalar that keeps its text. It fails with an error that wraps
// [ErrNumber] if n is no JSON number.
func NumberScalar(n Number) (Scalar, error) {
	if _, _, ok := n.scan(); !ok {
		return Scalar{}, fmt.Errorf("%w: %q", ErrNumber, string(n))
	}
	return numberScalar(n), nil
}

// numberScalar is NumberScalar for a number that was checked.
func numberScalar(n Number) Scalar {
	if n.IsInteger() {
		return Scalar{ScalarInteger, string(n)}
	}
	return Scalar{ScalarNumber, string(n)}
}

// Equal reports whether s == t. It is there for packages that compare by method, such as go-cmp.
func (s Scalar) Equal(t Scalar) bool { return s == t }

// IsZero reports whether s is the zero value: no scalar at all.
func (s Scalar) IsZero() bool { return s.kind == 0 }

// Kind returns the one kind that s has, or 0 for the zero value.
func (s Scalar) Kind() ScalarKind { return s.kind }

// Text returns the content of a string.
func (s Scalar) Text() (text string, ok bool) {
	if s.kind != ScalarString {
		return "", false
	}
	return s.text, true
}

// Int returns an integer that fits an int64.
func (s Scalar) Int() (v int64, ok bool) {
	if s.kind != ScalarInteger {
		return 0, false
	}
	return Number(s.text).Int()
}

// Number returns the text of a number, integers included.
func (s Scalar) Number() (n Number, ok bool) {
	if s.kind != ScalarInteger && s.kind != ScalarNumber {
		return "", false
	}
	return Number(s.text), true
}

// Bool returns the value of a boolean.
func (s Scalar) Bool() (v, ok bool) {
	return s.text == "true" && s.kind == ScalarBool, s.kind == ScalarBool
}

// String returns s for people to read: as JSON text, and a string that is not UTF-8 quoted as Go does. It is
// empty for the zero value.
func (s Scalar) String() string {
	if s.kind != ScalarString {
		return s.text
	}
	text, err := Marshal(s)
	if err != nil {
		return strconv.Quote(s.text)
	}
	return string(text)
}

// EncodeJSON writes s; see [Writer.Scalar].
func (s Scalar) EncodeJSON(w *Writer) { w.Scalar(s) }

// DecodeJSON reads any scalar.
func (s *Scalar) DecodeJSON(r *Reader) { *s = r.Scalar(ScalarString | ScalarNumber | ScalarBool) }

// MarshalJSON is EncodeJSON for encoding/json.
func (s Scalar) MarshalJSON() ([]byte, error) { return Marshal(s) }

// UnmarshalJSON is DecodeJSON for encoding/json.
func (s *Scalar) UnmarshalJSON(data []byte) error { return Unmarshal(data, s) }
