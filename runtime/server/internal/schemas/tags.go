package schemas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/toolschema"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// keywordTag adds the keyword of a struct tag to a schema. The schema is that of the field or, for
// keywords about single values, that of the innermost elements of a list.
type keywordTag struct {
	ofField bool   // the keyword is about the whole field, even if it is a list
	types   string // the JSON types that the keyword applies to; "" for all
	set     func(s *Schema, text string) error
}

// keywordTags holds the struct tags that are keywords, by name.
var keywordTags = map[string]keywordTag{
	"title":            {ofField: true, set: setTitle},
	"deprecated":       {ofField: true, set: setDeprecated},
	"default":          {ofField: true, set: setDefault},
	"example":          {ofField: true, set: setExample},
	"mcp-header":       {ofField: true, types: "string integer boolean", set: setHeader},
	"enum":             {types: "string integer number boolean", set: setEnum},
	"minimum":          {types: "integer number", set: setMinimum},
	"maximum":          {types: "integer number", set: setMaximum},
	"exclusiveMinimum": {types: "integer number", set: numberSetter(func(s *Schema) *json.Number { return &s.ExclusiveMinimum })},
	"exclusiveMaximum": {types: "integer number", set: numberSetter(func(s *Schema) *json.Number { return &s.ExclusiveMaximum })},
	"multipleOf":       {types: "integer number", set: setMultipleOf},
	"minLength":        {types: "string", set: countSetter(func(s *Schema) **int { return &s.MinLength })},
	"maxLength":        {types: "string", set: countSetter(func(s *Schema) **int { return &s.MaxLength })},
	"pattern":          {types: "string", set: setPattern},
	"format":           {types: "string", set: setFormat},
	"minItems":         {ofField: true, types: "array", set: countSetter(func(s *Schema) **int { return &s.MinItems })},
	"maxItems":         {ofField: true, types: "array", set: countSetter(func(s *Schema) **int { return &s.MaxItems })},
	"uniqueItems":      {ofField: true, types: "array", set: setUniqueItems},
}

// misspelled holds tags that authors write for a keyword, in lower case.
var misspelled = map[string]string{"min": "minimum", "max": "maximum", "examples": "example", modern.Annotation: "mcp-header"}

// addTags adds the keywords of a field's tags to its schema.
func (x *inference) addTags(f *field, s *Schema) error {
	verify := false
	for _, tag := range tagsOf(f.Tag) {
		k, ok := keywordTags[tag.key]
		if !ok {
			if near := nearKeyword(tag.key); near != "" {
				meant := keywordTags[near]
				target := s
				if !meant.ofField {
					target = innermost(s)
				}
				if err := meant.applies(target, f); err != nil {
					return fmt.Errorf("tag %s:%q is not a keyword, and %s %w", tag.key, tag.text, near, err)
				}
				return fmt.Errorf("tag %s:%q is not a keyword; write %s:%q", tag.key, tag.text, near, tag.text)
			}
			continue
		}
		target := s
		if !k.ofField {
			target = innermost(s)
		}
		err := k.applies(target, f)
		if err == nil {
			err = k.set(target, tag.text)
		}
		if err != nil {
			return fmt.Errorf("tag %s:%q: %w", tag.key, tag.text, err)
		}
		verify = verify || tag.key == "enum" || tag.key == "default" || tag.key == "example"
	}
	if err := innermost(s).checkBounds(); err != nil {
		return err
	}
	if err := s.checkBounds(); err != nil {
		return err
	}
	if !verify || x.unverified {
		return nil
	}
	return x.verify(f)
}

// applies returns an error unless the keyword applies to values of schema s, which belongs to a
// field.
func (k keywordTag) applies(s *Schema, f *field) error {
	name := s.TypeName()
	switch {
	case k.types == "":
		return nil
	case name == "":
		return fmt.Errorf("the JSON of %v may be of any type; put the keyword in a schema of its own, see DefineType", f.Type)
	case !slices.Contains(strings.Fields(k.types), name):
		return fmt.Errorf("applies to %s, and the JSON of %v is %s %s", strings.ReplaceAll(k.types, " ", ", "), f.Type, article(name), name)
	case s.ContentEncoding != "":
		return fmt.Errorf("does not apply to %v, whose JSON is base64", f.Type)
	}
	return nil
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "aeio") {
		return "an"
	}
	return "a"
}

// nearKeyword returns the keyword that the author of an unknown tag seems to mean, or "".
func nearKeyword(key string) string {
	if near := misspelled[strings.ToLower(key)]; near != "" {
		return near
	}
	for name := range keywordTags {
		if strings.EqualFold(name, key) {
			return name
		}
	}
	return ""
}

// structTag is one key of a struct tag with its value.
type structTag struct{ key, text string }

// tagsOf returns the keys of a struct tag in their order.
func tagsOf(tag reflect.StructTag) (list []structTag) {
	for rest := strings.TrimLeft(string(tag), " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, ok := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(after)
		if !ok || err != nil {
			break
		}
		if text, err := strconv.Unquote(quoted); err == nil {
			list = append(list, structTag{key, text})
		}
		rest = after[len(quoted):]
	}
	return list
}

// innermost returns the schema of the innermost elements of a list, or s itself if its values are
// not lists.
func innermost(s *Schema) *Schema {
	for s.Items != nil {
		s = s.Items
	}
	return s
}

// TypeName returns the JSON type of the values of a schema, or "" if it admits several types other
// than null.
func (s *Schema) TypeName() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []string:
		if rest := slices.DeleteFunc(slices.Clone(t), func(name string) bool { return name == "null" }); len(rest) == 1 {
			return rest[0]
		}
	}
	return ""
}

// admitsNull reports whether the type of a schema includes null.
func (s *Schema) admitsNull() bool {
	list, _ := s.Type.([]string)
	return slices.Contains(list, "null")
}

func setTitle(s *Schema, text string) error {
	if text == "" {
		return errors.New("the title is empty")
	}
	s.Title = text
	return nil
}

func setDeprecated(s *Schema, text string) (err error) {
	s.Deprecated, err = truth(text)
	return err
}

func setUniqueItems(s *Schema, text string) (err error) {
	s.UniqueItems, err = truth(text)
	return err
}

func truth(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("want true or false, got %q", text)
	}
	return text == "true", nil
}

// setHeader sets the name of the header field that repeats the argument. It limits integers to those
// that all software can read.
func setHeader(s *Schema, text string) error {
	switch {
	case !modern.IsToken(text):
		return fmt.Errorf("want a name for a header field, such as %q", "Region")
	case s.admitsNull():
		return errors.New("the field may be null; use a type without a pointer, and omitempty if it is optional")
	}
	s.Header = text
	if s.TypeName() == "integer" {
		if s.Minimum == "" || compare(s.Minimum, decimal(-modern.MaxInteger)) < 0 {
			s.Minimum = decimal(-modern.MaxInteger)
		}
		if s.Maximum == "" || compare(s.Maximum, decimal(modern.MaxInteger)) > 0 {
			s.Maximum = decimal(modern.MaxInteger)
		}
	}
	return nil
}

func setDefault(s *Schema, text string) (err error) {
	s.Default, err = s.literal(text)
	return err
}

func setExample(s *Schema, text string) error {
	v, err := s.literal(text)
	s.Examples = []json.RawMessage{v}
	return err
}

func setEnum(s *Schema, text string) error {
	list, err := s.literals(text)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("want values separated by commas")
	}
	for i, v := range list {
		if slices.ContainsFunc(list[:i], func(w json.RawMessage) bool { return bytes.Equal(v, w) }) {
			return fmt.Errorf("value %s is listed twice", v)
		}
	}
	if s.admitsNull() {
		list = append(list, json.RawMessage("null"))
	}
	s.Enum = list
	return nil
}

func setMinimum(s *Schema, text string) error {
	n, err := s.bound(text)
	if err == nil && s.Minimum != "" && compare(n, s.Minimum) < 0 {
		return fmt.Errorf("the type of the field admits no value below %s", s.Minimum)
	}
	s.Minimum = n
	return err
}

func setMaximum(s *Schema, text string) error {
	n, err := s.bound(text)
	if err == nil && s.Maximum != "" && compare(n, s.Maximum) > 0 {
		return fmt.Errorf("the type of the field admits no value above %s", s.Maximum)
	}
	s.Maximum = n
	return err
}

func setMultipleOf(s *Schema, text string) error {
	n, err := s.bound(text)
	if err == nil && compare(n, "0") <= 0 {
		return errors.New("want a number above 0")
	}
	s.MultipleOf = n
	return err
}

// numberSetter returns the setter of a keyword whose value is a number.
func numberSetter(member func(*Schema) *json.Number) func(*Schema, string) error {
	return func(s *Schema, text string) (err error) {
		*member(s), err = s.bound(text)
		return err
	}
}

// bound parses a limit of the values of a schema.
func (s *Schema) bound(text string) (json.Number, error) {
	v, err := literalOf(s.TypeName(), text)
	return json.Number(v), err
}

// countSetter returns the setter of a keyword whose value is a number of characters or elements.
func countSetter(member func(*Schema) **int) func(*Schema, string) error {
	return func(s *Schema, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fmt.Errorf("want a number of characters or elements such as 10, got %q", text)
		}
		p := member(s)
		if *p != nil && **p != n { // an array
			return fmt.Errorf("the type of the field has %d elements", **p)
		}
		*p = &n
		return nil
	}
}

func setPattern(s *Schema, text string) error {
	if text == "" {
		return errors.New("the pattern is empty")
	}
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("want a regular expression in the syntax of package regexp: %w", err)
	}
	s.Pattern = text
	return nil
}

// formats holds the formats that JSON Schema 2020-12 defines.
var formats = strings.Fields("date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference " +
	"iri iri-reference uuid uri-template json-pointer relative-json-pointer regex")

func setFormat(s *Schema, text string) error {
	switch {
	case !slices.Contains(formats, text):
		return fmt.Errorf("not a format of JSON Schema; want %s; for another one, see DefineType", strings.Join(formats, ", "))
	case s.Format != "" && s.Format != text:
		return fmt.Errorf("the type of the field has the format %s", s.Format)
	}
	s.Format = text
	return nil
}

// literal returns the JSON of a value of schema s. The text is a plain string, a number, true or
// false, or a list as in literals. For schemas of other types, it is JSON.
func (s *Schema) literal(text string) (json.RawMessage, error) {
	name := s.TypeName()
	if name != "array" || s.Items == nil {
		return literalOf(name, text)
	}
	list, err := s.Items.literals(text)
	if err != nil {
		return nil, err
	}
	return codec.Marshal(value.Of(append([]json.RawMessage{}, list...)))
}

// literals returns the JSON of several values of schema s. The text is a JSON array, or values
// separated by commas.
func (s *Schema) literals(text string) (list []json.RawMessage, err error) {
	if strings.HasPrefix(text, "[") {
		if err := codec.Unmarshal([]byte(text), value.Of(&list)); err != nil {
			return nil, fmt.Errorf("want a JSON array: %w", err)
		}
		return list, nil
	}
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			return nil, errors.New(`empty value; to have one, write a JSON array such as ["a",""]`)
		}
		v, err := s.literal(part)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// literalOf returns the JSON of a value of a JSON type, which is not a list.
func literalOf(name, text string) (json.RawMessage, error) {
	switch name {
	case "string":
		return codec.Marshal(codec.StringScalar(text))
	case "integer", "number":
		n := codec.Number(text)
		if _, err := codec.NumberScalar(n); err != nil {
			return nil, fmt.Errorf("want a number such as 1, got %q", text)
		}
		if name == "integer" && !n.IsInteger() {
			return nil, fmt.Errorf("want a whole number such as 1, got %q", text)
		}
	case "boolean":
		if _, err := truth(text); err != nil {
			return nil, err
		}
	default:
		if err := codec.Valid([]byte(text)); err != nil {
			return nil, fmt.Errorf("want JSON: %w", err)
		}
	}
	return json.RawMessage(text), nil
}

// compare compares two numbers, which must be well formed.
func compare(a, b json.Number) int {
	x, _, _ := big.ParseFloat(string(a), 10, 1000, big.ToNearestEven)
	y, _, _ := big.ParseFloat(string(b), 10, 1000, big.ToNearestEven)
	if x == nil || y == nil {
		return 0
	}
	return x.Cmp(y)
}

// checkBounds returns an error if no value can be within the limits of a schema.
func (s *Schema) checkBounds() error {
	switch {
	case s.Minimum != "" && s.Maximum != "" && compare(s.Minimum, s.Maximum) > 0:
		return fmt.Errorf("minimum %s is above maximum %s", s.Minimum, s.Maximum)
	case s.ExclusiveMinimum != "" && s.ExclusiveMaximum != "" && compare(s.ExclusiveMinimum, s.ExclusiveMaximum) >= 0:
		return fmt.Errorf("exclusiveMinimum %s is not below exclusiveMaximum %s", s.ExclusiveMinimum, s.ExclusiveMaximum)
	case s.MinLength != nil && s.MaxLength != nil && *s.MinLength > *s.MaxLength:
		return fmt.Errorf("minLength %d is above maxLength %d", *s.MinLength, *s.MaxLength)
	case s.MinItems != nil && s.MaxItems != nil && *s.MinItems > *s.MaxItems:
		return fmt.Errorf("minItems %d is above maxItems %d", *s.MinItems, *s.MaxItems)
	}
	return nil
}

// verify returns an error unless the values in the tags enum, default and example comply with the
// rest of the schema of a field and, if arguments are decoded into it, with its type.
func (x *inference) verify(f *field) error {
	fresh := inference{dir: x.dir, types: x.types, enclosing: slices.Clone(x.enclosing), unverified: true} // without a path, because it compiles on its own
	s, err := fresh.member(*f)
	if err != nil {
		return err
	}
	elem, elemType := s, f.Type
	for elem.Items != nil {
		elem, elemType = elem.Items, WithoutPointers(elemType).Elem()
	}
	enum, preset, examples := elem.Enum, s.Default, s.Examples
	s.Default, s.Examples, elem.Enum = nil, nil, nil
	if err := x.checkValues("enum", elem, elemType, f.quoted, enum...); err != nil {
		return err
	}
	elem.Enum = enum
	if preset != nil {
		if err := x.checkValues("default", s, f.Type, f.quoted, preset); err != nil {
			return err
		}
	}
	return x.checkValues("example", s, f.Type, f.quoted, examples...)
}

// checkValues returns an error unless the values of a tag comply with a schema and a type.
func (x *inference) checkValues(tag string, s *Schema, t reflect.Type, quoted bool, values ...json.RawMessage) error {
	if len(values) == 0 {
		return nil
	}
	text, err := codec.Marshal(value.Of(s))
	if err != nil {
		return err
	}
	compiled, err := toolschema.Compile(text)
	if err != nil {
		return err
	}
	for _, v := range values {
		if faults, _ := compiled.Check(context.Background(), v); faults != "" {
			return fmt.Errorf("tag %s: value %s does not comply with the schema of the field: %s", tag, v, FirstFault(faults))
		}
		if x.dir == Writing || quoted {
			continue
		}
		if err := value.Decode(v, reflect.New(t).Interface()); err != nil {
			if e, ok := errors.AsType[*codec.Error](err); ok {
				err = e.Err // the position is meaningless
			}
			return fmt.Errorf("tag %s: value %s does not fit type %v: %w", tag, v, t, err)
		}
	}
	return nil
}

// WithoutPointers returns the type that is left of a type without its pointers.
func WithoutPointers(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
