package rerun

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
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
