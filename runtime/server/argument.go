package server

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// argumentSet holds the arguments of a prompt that are fields of a struct. It is nil for a prompt
// that takes a map.
type argumentSet []argument

// argument is an argument of a prompt, and the field that holds it.
type argument struct {
	field
	description string
}

// argumentsOf returns the arguments of a prompt that takes values of type t.
func argumentsOf(t reflect.Type) (argumentSet, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return nil, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("want a struct or map[string]string, got %v", t)
	}
	fields, err := (&inference{dir: reading}).fieldsOf(t)
	if err != nil {
		return nil, err
	}
	set := make(argumentSet, len(fields))
	for i, f := range fields {
		if !readsText(f.Type) {
			return nil, fmt.Errorf("field %s: cannot read a value of type %v from a text", f.Name, f.Type)
		}
		description, err := f.description("")
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		set[i] = argument{f, description}
	}
	return set, nil
}

// declared returns the arguments for the description of the prompt.
func (set argumentSet) declared() (list []mcp.PromptArgument) {
	for _, a := range set {
		p := mcp.PromptArgument{Name: a.name, Description: optional(a.description)}
		if !a.optional {
			p.Required = new(true)
		}
		list = append(list, p)
	}
	return list
}

// check returns an error unless the arguments of the description are the fields of the struct.
func (set argumentSet) check(described map[string]bool) error {
	if set == nil {
		return nil
	}
	for _, a := range set {
		if !described[a.name] {
			return fmt.Errorf("argument %q is not in the description", a.name)
		}
	}
	for name := range described {
		if !slices.ContainsFunc(set, func(a argument) bool { return a.name == name }) {
			return fmt.Errorf("no field for the argument %q", name)
		}
	}
	return nil
}

// decode sets the fields of a struct to the arguments that are present.
func (set argumentSet) decode(in reflect.Value, arguments map[string]string) error {
	for _, a := range set {
		text, ok := arguments[a.name]
		if !ok {
			continue
		}
		v := in
		for _, i := range a.index {
			v = pointee(v).Field(i)
		}
		if err := setText(pointee(v), text); err != nil {
			return invalidParams("argument %q: %v", a.name, err)
		}
	}
	return nil
}

// pointee returns the value that a pointer points to, which it allocates if necessary, or v itself
// if it is no pointer.
func pointee(v reflect.Value) reflect.Value {
	if v.Kind() != reflect.Pointer {
		return v
	}
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	return v.Elem()
}

// readsText reports whether setText can set a value of a type, or the value that it points to.
func readsText(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	} else if p.Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return false
	}
	k := t.Kind()
	return k == reflect.String || k == reflect.Bool || isInteger(k) || k == reflect.Float32 || k == reflect.Float64
}

// setText sets a value to the one that a text stands for.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("%s", boundary.ErrorText(err))
		}
		return nil
	}
	bits, err := 0, error(nil)
	if k := v.Kind(); k != reflect.String && k != reflect.Bool {
		bits = v.Type().Bits()
	}
	switch k := v.Kind(); {
	case k == reflect.String:
		v.SetString(text)
	case k == reflect.Bool:
		var b bool
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(text, 10, bits)
		v.SetUint(n)
	default:
		var x float64
		x, err = strconv.ParseFloat(text, bits)
		v.SetFloat(x)
	}
	if err != nil {
		return fmt.Errorf("want %v, got %q", v.Kind(), boundary.Text(text, maxQuotedBytes))
	}
	return nil
}
