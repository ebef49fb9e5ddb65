package form

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

func scalar(s codec.Scalar) Value { return &mcp.ElicitResultContentValueScalar{Value: s} }

// scalarOf returns the scalar in v, or the zero Scalar if v is not one.
func scalarOf(v Value) codec.Scalar {
	if s, ok := v.(*mcp.ElicitResultContentValueScalar); ok && s != nil {
		return s.Value
	}
	return codec.Scalar{}
}

// isNil reports whether v is nil or a nil pointer.
func isNil(v Value) bool {
	switch v := v.(type) {
	case nil:
		return true
	case *mcp.ElicitResultContentValueScalar:
		return v == nil
	case *mcp.ElicitResultContentValueList:
		return v == nil
	}
	return false
}

func text(s *string) Value {
	if s == nil {
		return nil
	}
	return scalar(codec.StringScalar(*s))
}

func texts(list []string) Value {
	if list == nil {
		return nil
	}
	return &mcp.ElicitResultContentValueList{Value: list}
}

func number(x *float64) Value {
	if x == nil {
		return nil
	}
	v, err := of(*x)
	if err != nil {
		return nil
	}
	return v
}

// of converts a Go value to the value of a field. It accepts string, bool, int, int64, float64,
// []string and [Value]. It fails for any other type, for infinities and for NaN.
func of(v any) (Value, error) {
	switch v := v.(type) {
	case Value:
		return v, nil
	case string:
		return scalar(codec.StringScalar(v)), nil
	case bool:
		return scalar(codec.BoolScalar(v)), nil
	case int:
		return scalar(codec.IntScalar(int64(v))), nil
	case int64:
		return scalar(codec.IntScalar(v)), nil
	case float64:
		s, err := codec.NumberScalar(codec.Number(strconv.FormatFloat(v, 'f', -1, 64)))
		if err != nil {
			return nil, fmt.Errorf("form: %v: %w", v, err)
		}
		return scalar(s), nil
	case []string:
		return texts(append([]string{}, v...)), nil
	}
	return nil, fmt.Errorf("form: type %T is not supported as the value of a field", v)
}

// Parse converts the user's input for the field to a value and checks it. An option is given by its
// value, its title, or its number, counted from 1. Several options are separated by commas. An
// option that contains a comma, or begins or ends with a space, is quoted as a Go string. Errors
// are meant for the user and have no package prefix.
func (f *Field) Parse(input string) (Value, error) {
	v, err := f.read(input)
	if err != nil {
		return nil, err
	}
	return v, f.accept(v)
}

func (f *Field) read(input string) (Value, error) {
	trimmed := strings.TrimSpace(input)
	switch f.Kind {
	case Number, Integer:
		s, err := codec.NumberScalar(codec.Number(trimmed))
		if err != nil {
			return nil, fmt.Errorf("%q is not a number", trimmed)
		}
		return scalar(s), nil
	case Bool:
		switch strings.ToLower(trimmed) {
		case "y", "yes", "true", "1":
			return of(true)
		case "n", "no", "false", "0":
			return of(false)
		}
		return nil, fmt.Errorf("%q is neither yes nor no", trimmed)
	case Choice:
		if isOption(f.Options, input) {
			return of(input)
		}
		return of(f.option(trimmed))
	case Choices:
		list := []string{}
		for rest := trimmed; rest != ""; {
			var part string
			part, rest = nextPart(rest)
			if isOption(f.Options, part) {
				list = append(list, part)
			} else if part = strings.TrimSpace(part); part != "" {
				list = append(list, f.option(part))
			}
		}
		return of(list)
	}
	return of(input)
}

// nextPart returns the first part of a comma-separated list, and the rest after the comma.
func nextPart(list string) (part, rest string) {
	list = strings.TrimLeft(list, " \t")
	if quoted, err := strconv.QuotedPrefix(list); err == nil && quoted[0] == '"' {
		after := strings.TrimLeft(list[len(quoted):], " \t")
		if part, err := strconv.Unquote(quoted); err == nil && (after == "" || after[0] == ',') {
			return part, strings.TrimPrefix(after, ",")
		}
	}
	part, rest, _ = strings.Cut(list, ",")
	return strings.TrimSpace(part), rest
}

// option returns the value of the option that input selects, or input itself if there is no such
// option.
func (f *Field) option(input string) string {
	if isOption(f.Options, input) {
		return input
	}
	for _, o := range f.Options {
		if strings.EqualFold(o.Title, input) || strings.EqualFold(o.Value, input) {
			return o.Value
		}
	}
	if i, err := strconv.Atoi(input); err == nil && i >= 1 && i <= len(f.Options) {
		return f.Options[i-1].Value
	}
	return input
}

// Format returns v in the syntax that [Field.Parse] reads. It returns "" for nil.
func Format(v Value) string {
	if isNil(v) {
		return ""
	}
	if list, ok := v.(*mcp.ElicitResultContentValueList); ok {
		parts := make([]string, len(list.Value))
		for i, part := range list.Value {
			if parts[i] = part; part == "" || strings.TrimSpace(part) != part || strings.ContainsAny(part, `",`) {
				parts[i] = strconv.Quote(part)
			}
		}
		return strings.Join(parts, ", ")
	}
	s := scalarOf(v)
	if text, ok := s.Text(); ok {
		return text
	}
	return s.String()
}
