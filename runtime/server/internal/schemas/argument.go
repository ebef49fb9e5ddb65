package schemas

import (
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Arguments are the arguments of a prompt that are fields of a struct. They are nil for a prompt
// that takes a map.
type Arguments []Argument

// Argument is an argument of a prompt, and the field that holds it.
type Argument struct {
	field
	schema *Schema
	check  *toolschema.Schema // of the schema
	preset *string            // the default; nil for none
}

// ArgumentsOf returns the arguments of a prompt that takes values of type t.
func ArgumentsOf(t reflect.Type, types []Definition) (Arguments, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return nil, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("want a struct or map[string]string, got %v", t)
	}
	x := &inference{dir: Reading, types: types}
	fields, err := x.fieldsOf(t)
	if err != nil {
		return nil, err
	}
	set := make(Arguments, len(fields))
	for i, f := range fields {
		if set[i], err = x.argument(f); err != nil {
			return nil, inField(f.Name, err)
		}
	}
	return set, nil
}

// argument returns the argument of a prompt that a field holds.
func (x *inference) argument(f field) (a Argument, err error) {
	if !readsText(f.Type) {
		return a, fmt.Errorf("cannot read a value of type %v from a text", f.Type)
	}
	a.field = f
	if a.schema, err = x.member(f); err != nil {
		return a, err
	}
	text, err := codec.Marshal(value.Of(a.schema))
	if err != nil {
		return a, err
	}
	if a.check, err = toolschema.Compile(text); err != nil {
		return a, err
	}
	if a.schema.Default != nil {
		preset := textOf(a.schema.Default)
		a.preset, a.optional = &preset, true
	}
	return a, nil
}

// textOf returns the text of a string, and the JSON of any other value.
func textOf(v json.RawMessage) string {
	var s codec.Scalar
	if codec.Unmarshal(v, &s) == nil {
		if text, ok := s.Text(); ok {
			return text
		}
	}
	return string(v)
}

// Name returns the name of an argument.
func (a *Argument) Name() string { return a.name }

// Title returns the title of an argument, or "".
func (a *Argument) Title() string { return a.schema.Title }

// Description returns the description of an argument, or "".
func (a *Argument) Description() string { return a.schema.Description }

// Optional reports whether an argument may be absent.
func (a *Argument) Optional() bool { return a.optional }

// Choices returns the values that an argument may have, or nil if it may have others.
func (a *Argument) Choices() (list []string) {
	for _, v := range a.schema.choices() {
		if string(v) != "null" {
			list = append(list, textOf(v))
		}
	}
	return list
}

// Check returns an error unless the arguments of the description are the fields of the struct.
func (set Arguments) Check(described map[string]bool) error {
	if set == nil {
		return nil
	}
	for _, a := range set {
		if !described[a.name] {
			return fmt.Errorf("argument %q is not in the description", a.name)
		}
	}
	for name := range described {
		if !slices.ContainsFunc(set, func(a Argument) bool { return a.name == name }) {
			return fmt.Errorf("no field for the argument %q", name)
		}
	}
	return nil
}

// Decode sets the fields of a struct to the arguments that are present, or to their defaults. Its
// error names the argument that does not comply with its field.
func (set Arguments) Decode(ctx context.Context, in reflect.Value, arguments map[string]string) error {
	for _, a := range set {
		text, ok := arguments[a.name]
		if !ok && a.preset == nil {
			continue
		}
		if !ok {
			text = *a.preset
		}
		v := in
		for _, i := range a.index {
			v = pointee(v).Field(i)
		}
		v = pointee(v)
		if err := setText(v, text); err != nil {
			return fmt.Errorf("argument %q: %w", a.name, err)
		}
		if faults := a.faults(ctx, v, text); faults != "" {
			return fmt.Errorf("argument %q: %s", a.name, FirstFault(faults))
		}
	}
	return nil
}

// faults returns the faults of an argument with a value and a text under the schema of its field.
func (a *Argument) faults(ctx context.Context, v reflect.Value, text string) string {
	var literal json.RawMessage
	var err error
	switch a.schema.TypeName() {
	case "string":
		literal, err = codec.Marshal(codec.StringScalar(text))
	case "integer", "number", "boolean":
		literal, err = codec.Marshal(value.Of(v.Addr().Interface()))
	default:
		return ""
	}
	if err != nil {
		return err.Error()
	}
	faults, err := a.check.Check(ctx, literal)
	if err != nil {
		return err.Error()
	}
	return faults
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
	} else if (&inference{dir: Reading}).form(t) == formAny {
		return false
	}
	k := t.Kind()
	return k == reflect.String || k == reflect.Bool || isInteger(k) || k == reflect.Float32 || k == reflect.Float64
}

// maxQuoted limits the length of a text that an error quotes, in bytes.
const maxQuoted = 200

// setText sets a value to the one that a text stands for.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := u.UnmarshalText([]byte(text))
		if _, ok := errors.AsType[*time.ParseError](err); ok && v.Type() == reflect.TypeFor[time.Time]() {
			return fmt.Errorf("want a date and time such as 2025-01-31T12:00:00Z, got %q", boundary.Text(text, maxQuoted))
		}
		if err != nil {
			return fmt.Errorf("%s", boundary.ErrorText(err))
		}
		return nil
	}
	bits, want, err := 0, "a whole number", error(nil)
	if k := v.Kind(); k != reflect.String && k != reflect.Bool {
		bits = v.Type().Bits()
	}
	switch k := v.Kind(); {
	case k == reflect.String:
		v.SetString(text)
	case k == reflect.Bool:
		var b bool
		want = "true or false"
		b, err = strconv.ParseBool(text)
		v.SetBool(b)
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(text, 10, bits)
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		want = "a whole number, not negative"
		n, err = strconv.ParseUint(text, 10, bits)
		v.SetUint(n)
	default:
		var x float64
		want = "a number"
		x, err = strconv.ParseFloat(text, bits)
		v.SetFloat(x)
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("number %q is out of range", boundary.Text(text, maxQuoted))
	case err != nil:
		return fmt.Errorf("want %s, got %q", want, boundary.Text(text, maxQuoted))
	}
	return nil
}
