package value

import (
	"encoding/json"
	"reflect"
	"sync"

	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
)

// Value is a Go value of any type as a [codec.Value]. It may be used from many goroutines at once
// if the Go value may.
type Value struct{ v any }

// Of returns v for package codec. To be decoded into, v must be a pointer that is not nil.
func Of(v any) Value { return Value{v} }

// Decode decodes text into what v points to, as [codec.Unmarshal] does with [Of], and fails as that
// does. But it trusts that the text is well formed and within the limits, and so is faster by what
// that check costs. Only text that package codec has read may be given to it, such as a raw value
// in a message that was decoded.
func Decode(text json.RawMessage, v any) error {
	if decode(text, v) == nil {
		return nil
	}
	return codec.Unmarshal(text, Of(v), codec.AllowSize(text)...) // which can say what is wrong, and where
}

// decode lets the engine decode, again in another mode if the first one is not enough for the type
// or the text.
func decode(text []byte, v any) error {
	m := modeOf(reflect.TypeOf(v))
	for {
		err := engine.Unmarshal(text, v, readers[m])
		if err == nil {
			return nil
		}
		better := m | remedy(err)
		if better == m {
			return err
		}
		m = better
	}
}

// DecodeJSON reads the next value. A value of the wrong kind fails with a [codec.TypeError], a
// fraction where an integer is due with [codec.ErrInteger], a number out of range with [ErrRange];
// what a method of the type, or one of package time or base64, says of its text is passed on. After
// a failure the Go value may be partly set.
func (x Value) DecodeJSON(r *codec.Reader) {
	start := r.Offset()
	text := r.RawBytes()
	if r.Failed() {
		return
	}
	if err := decode(text, x.v); err != nil {
		at, cause := fault(text, err)
		r.Fail(start+at, cause)
	}
}

// EncodeJSON writes the value. It fails with [codec.ErrUTF8] for a string and [codec.ErrFloat] for
// a float that JSON cannot express, with [codec.ErrDuplicate] for keys of a map that are written
// alike, and with what a method of a type fails with.
//
// What the engine writes is well formed, raw values and what methods return included, so it is not
// checked again.
func (x Value) EncodeJSON(w *codec.Writer) {
	err := engine.MarshalWrite(sink{w}, x.v, writers[0])
	if err != nil && remedy(err) == lenient {
		err = engine.MarshalWrite(sink{w}, x.v, writers[lenient])
	}
	if err != nil {
		w.Fail("", unwritten(err))
	}
}

// sink passes what is written on to a Writer.
type sink struct{ w *codec.Writer }

func (s sink) Write(text []byte) (int, error) {
	s.w.LitBytes(text)
	return len(text), nil
}

// modes are those that types need from the start, by type.
var modes sync.Map

// modeOf returns the mode that values of a type are decoded in first.
func modeOf(t reflect.Type) mode {
	if m, ok := modes.Load(t); ok {
		return m.(mode)
	}
	var m mode
	if t != nil && namedAny(t, map[reflect.Type]bool{}) {
		m = exact
	}
	modes.Store(t, m)
	return m
}

// namedAny reports whether decoding into a value of type t can reach an empty interface of a type
// that has a name of its own, which unmarshalers for any do not apply to.
func namedAny(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || reads(reflect.PointerTo(t)) {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return t.NumMethod() == 0 && t != reflect.TypeFor[any]()
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return namedAny(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && namedAny(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
