// Package probe decodes one document into one Go type, encodes it again and examines the value. It
// imports only the standard library: the comparison runs it in its own process and also compiles it
// from [Source] with generated code.
package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Trial is the result for one document. The zero Trial means that there is no type for it.
type Trial struct {
	Tried   bool   // there was a type
	Refused string // the error of decoding; "" if it succeeded
	Stuck   string // the error of encoding; "" if it succeeded
	Out     []byte // the encoded value
	Untyped bool   // the subject has no field, or one that holds arbitrary JSON
}

// Run decodes doc with decode and encodes the result with encode. Subject is a JSON pointer to the
// value of interest, "" for the whole document.
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

// Typed reports whether the value at pointer has a specific Go type: it is reached from v through
// fields, list elements and map entries, and none of them holds arbitrary JSON.
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

// free reports whether a type holds arbitrary JSON, or is one to which encoding/json decodes
// arbitrary JSON.
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

// field returns the field for a member, by its tag or, if the type has its own encoding, by its
// name.
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
