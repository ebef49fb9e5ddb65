package value

import (
	"encoding/json"
	"reflect"
	"sync"

	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Value is a Go value of any type as a [codec.Value]. It may be used by several goroutines at once
// if the Go value may.
type Value struct{ v any }

// Of returns v as a [Value]. To decode into it, v must be a pointer that is not nil.
func Of(v any) Value { return Value{v} }

// Decode decodes text into the value v points to, with the same result and the same errors as
// [codec.Unmarshal] with [Of]. It is faster because it does not check that the text is well formed
// and within the limits. Pass it only text that package codec has read, such as a raw value in a
// decoded message.
func Decode(text json.RawMessage, v any) error {
	if decode(text, v) == nil {
		return nil
	}
	return decodeWithPlace(text, v)
}

// decodeWithPlace is Decode for a text that cannot be decoded. Its error has the place. Inlined, it
// would double the stack that Decode needs.
//
//go:noinline
func decodeWithPlace(text json.RawMessage, v any) error {
	return codec.Unmarshal(text, Of(v), codec.AllowSize(text)...)
}

// decode decodes text with the engine. If that fails, it tries again in other modes that the type
// or the text may need.
func decode(text []byte, v any) error {
	m := modeOf(reflect.TypeOf(v))
	if m&singles != 0 {
		m &^= singles
		if roundsTwice(text) {
			m |= exact
		}
	}
	for {
		err := engine.Unmarshal(text, v, readers[m])
		if err == nil {
			return nil
		}
		better := m | retryMode(err)
		if better == m {
			return err
		}
		m = better
	}
}

// DecodeJSON reads the next value. A value of the wrong kind fails with a [codec.ErrType], such as a
// number that is not an integer for an integer type, and a number out of range with [ErrRange]. Errors of the type's own methods, and of packages time and base64, are
// passed on. After a failure the Go value may be partly set.
func (x Value) DecodeJSON(r *wire.Reader) {
	start := r.Offset()
	text := r.RawBytes()
	if r.Failed() {
		return
	}
	if err := decode(text, x.v); err != nil {
		at, cause := decodeFailure(text, err)
		r.Fail(start+at, cause)
	}
}

// EncodeJSON writes the value. It fails with [codec.ErrSyntax] for a string that is not UTF-8, with
// [codec.ErrNoValue] for a float that JSON cannot express, and with [codec.ErrDuplicate] for map keys
// with the same text. Errors of a type's own methods are passed on.
//
// The engine writes only well-formed text, and checks raw values and the results of methods.
// EncodeJSON does not check it again.
func (x Value) EncodeJSON(w *wire.Writer) {
	if standardWriter != nil && needsStandard(reflect.TypeOf(x.v)) {
		if err := standardMarshal(sink{w}, x.v); err != nil {
			w.Fail("", err)
		}
		return
	}
	err := engine.MarshalWrite(sink{w}, x.v, writers[0])
	if err != nil && retryMode(err) == lenient {
		err = engine.MarshalWrite(sink{w}, x.v, writers[lenient])
	}
	if err != nil {
		w.Fail("", encodeFailure(err))
	}
}

// sink is an io.Writer that appends to a Writer.
type sink struct{ w *wire.Writer }

func (s sink) Write(text []byte) (int, error) {
	s.w.LitBytes(text)
	return len(text), nil
}

// modes caches the results of modeOf. Keys are [reflect.Type], values are [mode].
var modes sync.Map

// modeOf returns the mode in which values of type t are decoded first.
func modeOf(t reflect.Type) mode {
	if m, ok := modes.Load(t); ok {
		return m.(mode)
	}
	var m mode
	if t != nil {
		m = reach(t, map[reflect.Type]bool{})
	}
	modes.Store(t, m)
	return m
}

// standardTypes caches the results of needsStandard. Keys are [reflect.Type], values are bool.
var standardTypes sync.Map

// needsStandard reports whether encoding a value of type t can reach a type that has the method
// MarshalJSONTo of the standard library. Types in interfaces are not known.
func needsStandard(t reflect.Type) bool {
	if t == nil {
		return false
	}
	if needs, ok := standardTypes.Load(t); ok {
		return needs.(bool)
	}
	needs := reachesStandard(t, map[reflect.Type]bool{})
	standardTypes.Store(t, needs)
	return needs
}

func reachesStandard(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || t == reflect.TypeFor[json.Number]() {
		return false
	}
	seen[t] = true
	if reflect.PointerTo(t).Implements(standardWriter) {
		return true
	}
	switch t.Kind() {
	case reflect.Map:
		return reachesStandard(t.Key(), seen) || reachesStandard(t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return reachesStandard(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && reachesStandard(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// reach returns the mode for what decoding into a value of type t can reach: exact for a named empty
// interface type, for which the engine does not call the unmarshaler for any, and singles for a
// float32 type and for an interface, which may hold a pointer to one.
func reach(t reflect.Type, seen map[reflect.Type]bool) (m mode) {
	if seen[t] || reads(reflect.PointerTo(t)) {
		return 0
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		if t.NumMethod() == 0 && t != reflect.TypeFor[any]() {
			return exact
		}
		return singles
	case reflect.Float32:
		return singles
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return reach(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() || f.Anonymous {
				m |= reach(f.Type, seen)
			}
		}
	}
	return m
}
