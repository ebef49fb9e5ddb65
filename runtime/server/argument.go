package server

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
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// argumentSet holds the arguments of a prompt that are fields of a struct. It is nil for a prompt
// that takes a map.
type argumentSet []argument

// argument is an argument of a prompt, and the field that holds it.
type argument struct {
	field
	schema *typeSchema
	check  *toolschema.Schema // of the schema
	preset *string            // the default; nil for none
}

// argumentsOf returns the arguments of a prompt that takes values of type t.
func argumentsOf(t reflect.Type, types []TypeDefinition) (argumentSet, error) {
	if t == reflect.TypeFor[map[string]string]() {
		return nil, nil
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("want a struct or map[string]string, got %v", t)
	}
	x := &inference{dir: reading, types: types}
	fields, err := x.fieldsOf(t)
	if err != nil {
		return nil, err
	}
	set := make(argumentSet, len(fields))
	for i, f := range fields {
		if set[i], err = x.argument(f); err != nil {
			return nil, inField(f.Name, err)
		}
	}
	return set, nil
}

// argument returns the argument of a prompt that a field holds.
func (x *inference) argument(f field) (a argument, err error) {
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

// complete adds completions for the arguments that have an enum and no completion of their own.
func (set argumentSet) complete(completers map[string]CompleteFunc) {
	for _, a := range set {
		var choices []string
		for _, v := range a.schema.choices() {
			if string(v) != "null" {
				choices = append(choices, textOf(v))
			}
		}
		if _, ok := completers[a.name]; !ok && choices != nil {
			completers[a.name] = OneOf(choices...)
		}
	}
}

// declared returns the arguments for the description of the prompt.
func (set argumentSet) declared() (list []mcp.PromptArgument) {
	for _, a := range set {
		p := mcp.PromptArgument{Name: a.name, Title: optional(a.schema.Title), Description: optional(a.schema.Description)}
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
func (set argumentSet) decode(ctx context.Context, in reflect.Value, arguments map[string]string) error {
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
			return invalidParams("argument %q: %v", a.name, err)
		}
		if faults := a.faults(ctx, v, text); faults != "" {
			return invalidParams("argument %q: %s", a.name, firstFault(faults))
		}
	}
	return nil
}

// faults returns the faults of an argument with a value and a text under the schema of its field.
func (a *argument) faults(ctx context.Context, v reflect.Value, text string) string {
	var literal json.RawMessage
	var err error
	switch a.schema.typeName() {
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
	} else if (&inference{dir: reading}).form(t) == formAny {
		return false
	}
	k := t.Kind()
	return k == reflect.String || k == reflect.Bool || isInteger(k) || k == reflect.Float32 || k == reflect.Float64
}

// setText sets a value to the one that a text stands for.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		err := u.UnmarshalText([]byte(text))
		if _, ok := errors.AsType[*time.ParseError](err); ok && v.Type() == reflect.TypeFor[time.Time]() {
			return fmt.Errorf("want a date and time such as 2025-01-31T12:00:00Z, got %q", boundary.Text(text, maxQuotedBytes))
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
		return fmt.Errorf("number %q is out of range", boundary.Text(text, maxQuotedBytes))
	case err != nil:
		return fmt.Errorf("want %s, got %q", want, boundary.Text(text, maxQuotedBytes))
	}
	return nil
}
