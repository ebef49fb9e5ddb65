// Package probe sends one document through one Go type and looks at what the type made of it. It imports the
// standard library only: the comparison runs it in its own process and, compiled from [Source], beside code that
// was generated a moment before.
package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Trial is what became of one document. The zero Trial means that there was no type to try.
type Trial struct {
	Tried   bool   // there was a type
	Refused string // the error of decoding; "" if it went well
	Stuck   string // the error of encoding
	Out     []byte // the document as it was written again
	Untyped bool   // the subject is in no field, or in one that holds any JSON
}

// Run decodes doc with decode and encodes the result with encode. Subject is a JSON pointer to what the document
// is about, "" for nothing in particular.
func Run(doc []byte, subject string, decode func([]byte) (any, error), encode func(any) ([]byte, error)) (t Trial) {
	t.Tried = true
	defer func() {
		if p := recover(); p != nil {
			t.Refused = fmt.Sprint("panic: ", p)
		}
	}()
	v, err := decode(doc)
	if err != nil {
		t.Refused = oneLine(err)
		return t
	}
	t.Untyped = !Typed(v, subject)
	if t.Out, err = encode(v); err != nil {
		t.Stuck = oneLine(err)
	}
	return t
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Unmarshal returns a decoder that reads into a new value of the type that zero points to.
func Unmarshal(zero any) func([]byte) (any, error) {
	t := reflect.TypeOf(zero).Elem()
	return func(doc []byte) (any, error) {
		v := reflect.New(t).Interface()
		return v, json.Unmarshal(doc, v)
	}
}

// Marshal encodes v as encoding/json does, but without escaping HTML.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Typed reports whether the value at pointer has a Go type of its own: whether fields, list elements and map
// entries lead to it from v, none of which holds just any JSON.
func Typed(v any, pointer string) bool {
	var tokens []string
	if pointer != "" {
		tokens = strings.Split(pointer[1:], "/")
	}
	for i, t := range tokens {
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return typed(reflect.ValueOf(v), tokens)
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

func typed(v reflect.Value, tokens []string) bool {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return typed(reflect.Zero(v.Type().Elem()), tokens)
		}
		return typed(v.Elem(), tokens)
	case reflect.Interface:
		if v.IsNil() {
			return v.NumMethod() > 0
		}
		if v.NumMethod() == 0 && free(v.Elem().Type()) {
			return false
		}
		return typed(v.Elem(), tokens)
	}
	if !v.IsValid() || v.Type() == rawMessage {
		return false
	}
	if len(tokens) == 0 {
		return true
	}
	switch v.Kind() {
	case reflect.Struct:
		f, ok := field(v, tokens[0])
		return ok && typed(f, tokens[1:])
	case reflect.Map:
		e := v.MapIndex(reflect.ValueOf(tokens[0]).Convert(v.Type().Key()))
		if !e.IsValid() {
			return !free(v.Type().Elem())
		}
		return typed(e, tokens[1:])
	case reflect.Slice:
		i, err := strconv.Atoi(tokens[0])
		if err != nil || i >= v.Len() {
			return !free(v.Type().Elem())
		}
		return typed(v.Index(i), tokens[1:])
	}
	return false
}

// free reports whether a type takes any JSON, or is what encoding/json makes of any JSON.
func free(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return t.NumMethod() == 0
	case reflect.Map, reflect.Slice:
		return t.Name() == "" && free(t.Elem())
	case reflect.String, reflect.Float64, reflect.Bool:
		return t.PkgPath() == ""
	}
	return false
}

// field finds the field for a member by its tag or, in types that write themselves, by its name.
func field(v reflect.Value, member string) (reflect.Value, bool) {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && (tag == member || tag == "" && strings.EqualFold(f.Name, strings.TrimPrefix(member, "_"))) {
			return v.Field(i), true
		}
	}
	for i := range t.NumField() {
		f, e := t.Field(i), v.Field(i)
		if !f.Anonymous || f.Tag.Get("json") != "" {
			continue
		}
		for e.Kind() == reflect.Pointer {
			e = reflect.Zero(e.Type().Elem())
			if p := v.Field(i); !p.IsNil() {
				e = p.Elem()
			}
		}
		if e.Kind() == reflect.Struct {
			if g, ok := field(e, member); ok {
				return g, true
			}
		}
	}
	return reflect.Value{}, false
}
