package rerun

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// recordable caches the results of [Recordable]. Keys are [reflect.Type], values are error or nil.
var recordable sync.Map

// Recordable returns an error if no value of type T can be recorded as the result of a step and
// read again, except perhaps its zero value.
func Recordable[T any]() error {
	t := reflect.TypeFor[T]()
	if known, ok := recordable.Load(t); ok {
		err, _ := known.(error)
		return err
	}
	err := checkType(t, map[reflect.Type]bool{})
	if err != nil {
		err = fmt.Errorf("results of type %v cannot be recorded: %w", t, err)
	}
	recordable.Store(t, err)
	return err
}

var (
	decoderType         = reflect.TypeFor[codec.Decoder]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// decodes reports whether values of a type decode themselves.
func decodes(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Interface && (p.Implements(decoderType) || p.Implements(unmarshalerType) || p.Implements(textUnmarshalerType))
}

var (
	encoderType       = reflect.TypeFor[codec.Encoder]()
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// encodesOnly reports whether values of a type encode themselves, but do not decode themselves. The
// members of their JSON may not be those of the type.
func encodesOnly(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer && !decodes(t) &&
		(p.Implements(encoderType) || p.Implements(marshalerType) || p.Implements(textMarshalerType))
}

// lossy caches the results of [mayLose]. Keys are [reflect.Type], values are bool.
var lossy sync.Map

// mayLose reports whether decoding may lose a part of the JSON of a value of type T: such a value
// has a part that only encodes itself.
func mayLose[T any]() bool {
	t := reflect.TypeFor[T]()
	if known, ok := lossy.Load(t); ok {
		return known.(bool)
	}
	found := hasEncodesOnly(t, map[reflect.Type]bool{})
	lossy.Store(t, found)
	return found
}

func hasEncodesOnly(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] || decodes(t) {
		return false
	}
	seen[t] = true
	if encodesOnly(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer:
		return hasEncodesOnly(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if hasEncodesOnly(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// checkLoss returns an error if a value of type T that is decoded from text has another JSON form.
func checkLoss[T any](text json.RawMessage) error {
	var decoded T
	var before, after any
	if decode(text, value.Of(&decoded)) != nil {
		return nil // the caller reports it
	}
	again, err := codec.Marshal(value.Of(&decoded))
	if err == nil {
		err = errors.Join(decode(text, value.Of(&before)), decode(again, value.Of(&after)))
	}
	if err == nil && !reflect.DeepEqual(before, after) {
		err = fmt.Errorf("a value of type %v loses parts when it is decoded: a type in it has MarshalJSON, but not UnmarshalJSON", reflect.TypeFor[T]())
	}
	return err
}

// checkType returns an error if values of a type have no JSON form, or cannot be decoded from it.
func checkType(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || decodes(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("type %v has no JSON form", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("JSON does not say which type a value of interface %v has", t)
		}
	case reflect.Map:
		switch key := t.Key(); key.Kind() {
		case reflect.Bool, reflect.Complex64, reflect.Complex128, reflect.Struct, reflect.Array, reflect.Pointer, reflect.Interface, reflect.Chan:
			if !decodes(key) {
				return fmt.Errorf("type %v is not a name of a JSON object", key)
			}
		}
		return checkType(t.Elem(), seen)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return checkType(t.Elem(), seen)
	case reflect.Struct:
		return checkFields(t, seen)
	}
	return nil
}

// checkFields is checkType for the fields of a struct.
func checkFields(t reflect.Type, seen map[reflect.Type]bool) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" || !f.IsExported() && !(f.Anonymous && tag == "") {
			continue
		}
		if err := checkType(f.Type, seen); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	return nil
}
