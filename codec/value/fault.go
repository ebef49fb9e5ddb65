package value

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	legacy "github.com/goccy/go-json"
	"github.com/goccy/go-json/jsontext"
	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// ErrRange means that a number is too large or too small for the Go type that it is decoded into.
var ErrRange = errors.New("number is out of range")

// retryMode returns a mode in which the engine may succeed after it has failed with err, or 0 if
// there is none.
func retryMode(err error) mode {
	e, ok := semantic(err)
	switch {
	case !ok || e.GoType == nil:
		return 0
	case e.JSONKind == '0' && jsonKind(e.GoType) == integer:
		if _, ok := plainInteger(e.JSONValue); ok {
			return exact
		}
	case e.JSONKind == '0' && e.GoType.Kind() == reflect.Float32:
		if _, err := strconv.ParseFloat(string(e.JSONValue), 32); err == nil {
			return exact
		}
	case e.Err != nil && e.Err.Error() == "invalid use of `string` tag option": // not exported
		return lenient
	case e.Err != nil && e.GoType.Kind() == reflect.Struct && !reads(reflect.PointerTo(e.GoType)) && !writes(e.GoType) && plainTags(e.GoType):
		return lenient
	}
	return 0
}

// plainTags reports whether the json tags of struct type t have the same meaning in the engine and
// in encoding/json, apart from options that only one of them knows. If the meanings differ, the
// type has no JSON form that both agree on.
func plainTags(t reflect.Type) bool {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.ContainsAny(name, "'\"`\\") || !utf8.ValidString(name) {
			return false
		}
		for _, c := range options {
			if c != ',' && c != ':' && c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
				return false
			}
		}
	}
	return true
}

// reads reports whether a pointer type has a method that decodes what it points to.
func reads(pointer reflect.Type) bool {
	return pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		readsJSON(pointer)
}

// readsJSON reports whether a pointer type has a method that decodes JSON into what it points to.
func readsJSON(pointer reflect.Type) bool {
	return pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[engine.UnmarshalerFrom]()) ||
		standardReader != nil && pointer.Implements(standardReader)
}

// writes reports whether a type, or a pointer to it, has a method that encodes it.
func writes(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextAppender]()) ||
		p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[engine.MarshalerTo]()) ||
		standardWriter != nil && p.Implements(standardWriter)
}

// semantic returns the engine's error about a value and a Go type. In mode lenient the engine
// returns errors of another type, which semantic converts.
func semantic(err error) (*engine.SemanticError, bool) {
	if e, ok := errors.AsType[*engine.SemanticError](err); ok {
		return e, true
	}
	e, ok := errors.AsType[*legacy.UnmarshalTypeError](err)
	if !ok {
		return nil, false
	}
	out := &engine.SemanticError{GoType: e.Type, Err: e.Err}
	if e.Field != "" {
		out.JSONPointer = jsontext.Pointer("/" + strings.ReplaceAll(e.Field, ".", "/"))
	}
	if n, ok := strings.CutPrefix(e.Value, "number "); ok {
		out.JSONKind, out.JSONValue = '0', jsontext.Value(n)
		out.Err = cmp.Or(e.Err, strconv.ErrRange)
	}
	return out, true
}

// decodeFailure converts an error of the engine about a well-formed text to one of package codec,
// and returns it with the offset of the value it is about.
func decodeFailure(text []byte, err error) (at int, cause error) {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(e.Err, jsontext.ErrDuplicateName) { // of two names that differ in case
			return locate(text, e.JSONPointer, ""), errors.New("another member has set the same field")
		}
		return locate(text, e.JSONPointer, ""), syntaxFault(e)
	}
	e, ok := semantic(err)
	if !ok {
		return 0, err
	}
	if inner, ok := errors.AsType[*codec.Error](err); ok { // from a method that decodes with package codec
		return locate(text, e.JSONPointer, inner.Pointer), inner.Err
	}
	at = locate(text, e.JSONPointer, "")
	return at, mismatch(text[at:], e)
}

// locate returns the offset of the value at pointer followed by rest. rest comes from a method,
// which may have decoded another text than the one at pointer. If there is no value at rest, locate
// returns the offset of the value at pointer.
func locate(text []byte, pointer jsontext.Pointer, rest string) int {
	if at, ok := codec.Locate(text, string(pointer)+rest); ok {
		return at
	}
	at, _ := codec.Locate(text, string(pointer))
	return at
}

// mismatch returns the error for the value that text starts with, which does not fit the Go type in
// e.
func mismatch(text []byte, e *engine.SemanticError) error {
	want, got := jsonKind(e.GoType), kindOf(text)
	var unparsed *time.ParseError
	switch {
	case errors.Is(e.Err, codec.ErrType):
		return e.Err
	case e.JSONKind == '"' && !bytes.HasPrefix(text, e.JSONValue):
		return fmt.Errorf("cannot decode member name %s into Go type %v", e.JSONValue, e.GoType)
	case got == wire.KindNumber && want == integer && !number(text).IsInteger():
		return jsonfault.Integer
	case got == wire.KindNumber && (want == integer || want == float) && e.Err != nil:
		return fmt.Errorf("%w of Go type %v", ErrRange, e.GoType)
	case got == wire.KindNumber && (want == integer || want == float): // a field with the tag option string
		return wire.WrongKind("string with a number", got)
	case e.GoType == reflect.TypeFor[time.Time]() && errors.As(e.Err, &unparsed):
		return fmt.Errorf("want a date and time such as 2025-01-31T12:00:00Z, got %.40q%s", unparsed.Value, unparsed.Message)
	case want != "" && want != got.String() && (got != wire.KindString || e.Err == nil):
		return wire.WrongKind(want, got)
	case e.Err != nil:
		return e.Err
	}
	return fmt.Errorf("cannot decode %v into Go type %v", got, e.GoType)
}

// number returns the number that text starts with.
func number(text []byte) codec.Number {
	return codec.Number(wire.NewReader(text, wire.Limits{Size: math.MaxInt}).Number())
}

// kindOf returns the kind of the value that text starts with.
func kindOf(text []byte) wire.Kind {
	return wire.NewReader(text, wire.Limits{Size: math.MaxInt}).Kind()
}

// The results of jsonKind for numbers.
const (
	integer = "integer"
	float   = "number"
)

// jsonKind returns the kind of JSON value that t is decoded from, as it appears in a
// [codec.ErrType]. It returns "" if methods of t decide that, or if the kind is not known.
func jsonKind(t reflect.Type) string {
	if t == nil {
		return ""
	}
	p := reflect.PointerTo(t)
	switch {
	case t == reflect.TypeFor[time.Time](), p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return wire.KindString.String()
	case readsJSON(p):
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonKind(t.Elem())
	case reflect.Bool:
		return wire.KindBool.String()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return integer
	case reflect.Float32, reflect.Float64:
		return float
	case reflect.String:
		return wire.KindString.String()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return wire.KindString.String() // base64
		}
		return wire.KindArray.String()
	case reflect.Array:
		return wire.KindArray.String()
	case reflect.Struct, reflect.Map:
		return wire.KindObject.String()
	}
	return ""
}

// encodeFailure converts an error of the engine in encoding to one of package codec, with the
// pointer to the value that cannot be encoded.
func encodeFailure(err error) error {
	if e, ok := errors.AsType[*engine.SemanticError](err); ok {
		out := &codec.Error{Pointer: string(e.JSONPointer), Err: e.Err}
		inner, nested := errors.AsType[*codec.Error](err)
		switch {
		case nested: // from a method that encodes with package codec
			out.Pointer += inner.Pointer
			out.Err = inner.Err
		case e.GoType != nil && (e.GoType.Kind() == reflect.Float64 || e.GoType.Kind() == reflect.Float32):
			out.Err = jsonfault.Float
		case e.Err == nil:
			out.Err = fmt.Errorf("type %v has no JSON form", e.GoType)
		}
		return out
	}
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &codec.Error{Pointer: string(e.JSONPointer), Err: syntaxFault(e)}
	}
	return err
}

// syntaxFault returns the error of package codec that corresponds to e.
func syntaxFault(e *jsontext.SyntacticError) error {
	switch {
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		return codec.ErrDuplicate
	case e.Err.Error() == "invalid UTF-8": // the engine exports neither this one nor the next
		return jsonfault.UTF8
	case e.Err.Error() == "exceeded max depth": // of 10,000
		return jsonfault.Depth
	}
	return e.Err
}
