package wire

import (
	"strings"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Kind is the kind of a JSON value.
type Kind byte

// The kinds of values. KindInvalid means that there is no value: the text has ended, or the next
// byte cannot start one.
const (
	KindInvalid Kind = iota
	KindNull
	KindBool
	KindNumber
	KindString
	KindArray
	KindObject
)

// String returns the kind's name, such as "object".
func (k Kind) String() string {
	switch k {
	case KindNull:
		return "null"
	case KindBool:
		return "boolean"
	case KindNumber:
		return "number"
	case KindString:
		return "string"
	case KindArray:
		return "array"
	case KindObject:
		return "object"
	}
	return "invalid"
}

// kindOf returns the kind of the value that starts with c.
func kindOf(c byte) Kind { return kinds[c] }

// kinds has the kinds of values by their first byte.
var kinds = [256]Kind{
	'{': KindObject, '[': KindArray, '"': KindString, 't': KindBool, 'f': KindBool, 'n': KindNull, '-': KindNumber,
	'0': KindNumber, '1': KindNumber, '2': KindNumber, '3': KindNumber, '4': KindNumber,
	'5': KindNumber, '6': KindNumber, '7': KindNumber, '8': KindNumber, '9': KindNumber,
}

// WrongKind returns the error for a value of the kind got where want, such as "string or integer",
// is needed. It wraps codec.ErrType.
func WrongKind(want string, got Kind) error { return &kindFault{want, got} }

type kindFault struct {
	want string
	got  Kind
}

func (e *kindFault) Error() string { return "want " + e.want + ", got " + e.got.String() }
func (e *kindFault) Unwrap() error { return jsonfault.Type }

// ScalarKind is a set of kinds that a codec.Scalar may have, or the kind that it has.
type ScalarKind uint8

// The kinds of scalars, which may be combined with |. A number of integral value, such as 7, 1.0 or
// 6e4, has the kind ScalarInteger; where ScalarNumber is allowed, integers are too.
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
