// Package schemas holds what a server knows about JSON Schemas: it infers them from Go types and
// the tags of their fields, and applies those of its features. An [Input] validates arguments of a
// tool and adds defaults, an [Output] validates its output, a [Form] is what a user fills in, and
// [Arguments] are those of a prompt.
//
// A [Schema] describes the JSON that package codec/value decodes into a type, or encodes from it.
// It is for authors, so a tag that has no effect, or a value that does not comply with the rest of
// the schema, is an error when the feature is added, and names the field and what to write instead.
package schemas

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// Direction distinguishes schemas of decoded values, such as arguments, from those of encoded
// values, such as output. They may differ because of the methods of a type.
type Direction bool

const (
	Reading Direction = false // of values that are decoded
	Writing Direction = true  // of values that are encoded
)

// Schema is an inferred schema. The zero value admits every value. It is encoded as a JSON object.
type Schema struct {
	Type                 any               `json:"type,omitempty"` // a string or a []string
	Enum                 []json.RawMessage `json:"enum,omitempty"`
	Format               string            `json:"format,omitempty"`
	ContentEncoding      string            `json:"contentEncoding,omitempty"`
	Title                string            `json:"title,omitempty"`
	Description          string            `json:"description,omitempty"`
	Header               string            `json:"x-mcp-header,omitempty"`
	Deprecated           bool              `json:"deprecated,omitempty"`
	Default              json.RawMessage   `json:"default,omitempty"`
	Examples             []json.RawMessage `json:"examples,omitempty"`
	Minimum              json.Number       `json:"minimum,omitempty"`
	Maximum              json.Number       `json:"maximum,omitempty"`
	ExclusiveMinimum     json.Number       `json:"exclusiveMinimum,omitempty"`
	ExclusiveMaximum     json.Number       `json:"exclusiveMaximum,omitempty"`
	MultipleOf           json.Number       `json:"multipleOf,omitempty"`
	MinLength            *int              `json:"minLength,omitempty"`
	MaxLength            *int              `json:"maxLength,omitempty"`
	Pattern              string            `json:"pattern,omitempty"`
	Items                *Schema           `json:"items,omitempty"`
	MinItems             *int              `json:"minItems,omitempty"`
	MaxItems             *int              `json:"maxItems,omitempty"`
	UniqueItems          bool              `json:"uniqueItems,omitempty"`
	Properties           properties        `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	AdditionalProperties any               `json:"additionalProperties,omitempty"` // false or a *Schema
	AnyOf                []*Schema         `json:"anyOf,omitempty"`

	own []rawMember // of a schema that JSONSchema or DefineType sets; the fields above take precedence
}

// MarshalJSON writes an object.
func (s *Schema) MarshalJSON() ([]byte, error) {
	type plain Schema
	text, err := codec.Marshal(value.Of((*plain)(s)))
	if err != nil || len(s.own) == 0 {
		return text, err
	}
	added, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	members := slices.Clone(s.own)
	for _, m := range added {
		i := slices.IndexFunc(members, func(o rawMember) bool { return o.name == m.name })
		if i < 0 {
			members = append(members, m)
		} else {
			members[i] = m
		}
	}
	return marshalMembers(members)
}

// hasDefault reports whether a schema has a default.
func (s *Schema) hasDefault() bool {
	return s.Default != nil || slices.ContainsFunc(s.own, func(m rawMember) bool { return m.name == "default" })
}

// choices returns the values of the enum of a schema, or nil if it has none.
func (s *Schema) choices() (list []json.RawMessage) {
	if s.Enum != nil {
		return s.Enum
	}
	for _, m := range s.own {
		if m.name == "enum" && codec.Unmarshal(m.value, value.Of(&list)) == nil {
			return list
		}
	}
	for _, alternative := range s.AnyOf {
		if list = alternative.choices(); list != nil {
			return list
		}
	}
	return nil
}

// properties are the members of an object in the order of their fields.
type properties []property

type property struct {
	name   string
	schema *Schema
}

// MarshalJSON writes an object.
func (p properties) MarshalJSON() ([]byte, error) {
	members := make([]rawMember, len(p))
	for i, m := range p {
		text, err := codec.Marshal(value.Of(m.schema))
		if err != nil {
			return nil, err
		}
		members[i] = rawMember{m.name, text}
	}
	return marshalMembers(members)
}

// marshalMembers returns a JSON object with the given members.
func marshalMembers(members []rawMember) ([]byte, error) {
	b := bytes.NewBufferString("{")
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := codec.Marshal(codec.StringScalar(m.name))
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Infer returns the schema of a type. The last of several definitions of a type takes precedence.
func Infer(t reflect.Type, dir Direction, types []Definition) (*Schema, error) {
	return (&inference{dir: dir, types: types}).of(t)
}

// of returns the schema of a type that no other one encloses.
func (x *inference) of(t reflect.Type) (*Schema, error) {
	s, err := x.schema(t)
	if err != nil {
		return nil, fmt.Errorf("no schema for type %v: %w", t, err)
	}
	return s, nil
}

// IsObject reports whether the type of a schema is object, and nothing else.
func (s *Schema) IsObject() bool { return s.Type == "object" }

// Into decodes the text of a schema into a description.
func (s *Schema) Into(description codec.Decoder) error {
	text, err := codec.Marshal(value.Of(s))
	if err != nil {
		return err
	}
	return codec.Unmarshal(text, description)
}

// inference derives the schema of a type, as package codec/value decodes or encodes its values.
type inference struct {
	dir        Direction
	types      []Definition   // the last one for a type takes precedence
	forForm    bool           // the schema is that of a form: a default does not make a field optional
	enclosing  []reflect.Type // the named types around the current one
	path       []string       // the tokens of the pointer from the root to the current schema
	unverified bool           // the values in tags are not verified
}

// at calls f for the schema at further tokens of the path.
func (x *inference) at(f func() (*Schema, error), tokens ...string) (*Schema, error) {
	n := len(x.path)
	x.path = append(x.path, tokens...)
	defer func() { x.path = x.path[:n] }()
	return f()
}

// fieldError is an error about a field of a struct.
type fieldError struct {
	path string // the names of fields, separated by dots
	err  error
}

func (e *fieldError) Error() string { return "field " + e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// inField adds the name of a field to an error.
func inField(name string, err error) error {
	if e, ok := err.(*fieldError); ok {
		return &fieldError{name + "." + e.path, e.err}
	}
	return &fieldError{name, err}
}

// knownTypes holds the schemas of types whose methods encode only one kind of value.
var knownTypes = map[reflect.Type]Schema{
	reflect.TypeFor[time.Time]():     {Type: "string", Format: "date-time"},
	reflect.TypeFor[time.Duration](): {Type: "integer", Description: "a duration in nanoseconds"},
	reflect.TypeFor[json.Number]():   {Type: "number"},
	reflect.TypeFor[codec.Number]():  {Type: "number"},
	reflect.TypeFor[big.Int]():       {Type: "integer"},
	reflect.TypeFor[slog.Level]():    {Type: "string"},
}

func (x *inference) schema(t reflect.Type) (*Schema, error) {
	if s, err := x.ownSchema(t); s != nil || err != nil {
		return s, err
	}
	if t.Kind() == reflect.Pointer {
		return x.pointer(t)
	}
	if s, ok := knownTypes[t]; ok {
		return &s, nil
	}
	switch x.form(t) {
	case formText:
		return &Schema{Type: "string"}, nil
	case formAny:
		return &Schema{}, nil
	}
	if t.Name() != "" {
		if slices.Contains(x.enclosing, t) {
			return nil, fmt.Errorf("type %v contains itself; give it the method JSONSchema", t)
		}
		x.enclosing = append(x.enclosing, t)
		defer func() { x.enclosing = x.enclosing[:len(x.enclosing)-1] }()
	}
	switch t.Kind() {
	case reflect.Bool:
		return &Schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int64:
		return &Schema{Type: "integer"}, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		limit := int64(1) << (t.Bits() - 1)
		return &Schema{Type: "integer", Minimum: decimal(-limit), Maximum: decimal(limit - 1)}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return &Schema{Type: "integer", Minimum: "0"}, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return &Schema{Type: "integer", Minimum: "0", Maximum: decimal(1<<t.Bits() - 1)}, nil
	case reflect.Float32, reflect.Float64:
		return &Schema{Type: "number"}, nil
	case reflect.String:
		return &Schema{Type: "string"}, nil
	case reflect.Interface:
		if x.dir == Reading && t.NumMethod() > 0 {
			return nil, fmt.Errorf("cannot decode into interface type %v", t)
		}
		return &Schema{}, nil
	case reflect.Slice, reflect.Array:
		return x.list(t)
	case reflect.Map:
		return x.object(t)
	case reflect.Struct:
		return x.record(t)
	}
	return nil, fmt.Errorf("type %v has no JSON form", t)
}

func decimal(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// pointer returns the schema of a pointer type: that of its element, or null.
func (x *inference) pointer(t reflect.Type) (*Schema, error) {
	if t.Name() != "" {
		return nil, fmt.Errorf("pointer type %v has a name", t)
	}
	elem, err := x.schema(t.Elem())
	if err != nil {
		return nil, err
	}
	s := nullable(elem)
	if s != elem { // its references are to a place further down
		s.AnyOf[0], err = x.at(func() (*Schema, error) { return x.schema(t.Elem()) }, "anyOf", "0")
	}
	return s, err
}

// jsonForm is the form of the JSON of a type that results from its methods.
type jsonForm int

const (
	formKind jsonForm = iota // no methods: the kind of the type decides
	formText                 // a string
	formAny                  // a value of any kind
)

// form returns the JSON form that results from the methods of a type in the direction of x.
func (x *inference) form(t reflect.Type) jsonForm {
	p, kind := reflect.PointerTo(t), t.Kind()
	if kind == reflect.Interface {
		return formKind
	}
	if x.dir == Reading {
		_, v2 := p.MethodByName("UnmarshalJSONFrom")
		switch {
		case v2, p.Implements(reflect.TypeFor[json.Unmarshaler]()):
			return formAny
		case p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
			return formText
		}
		return formKind
	}
	_, v2 := p.MethodByName("MarshalJSONTo")
	switch {
	case v2, p.Implements(reflect.TypeFor[json.Marshaler]()):
		return formAny
	case p.Implements(reflect.TypeFor[encoding.TextAppender]()), p.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return formText
	}
	return formKind
}

// hasNoJSONMethods reports whether a type has no methods that encode or decode it as JSON or text.
func hasNoJSONMethods(t reflect.Type) bool {
	return (&inference{dir: Reading}).form(t) == formKind && (&inference{dir: Writing}).form(t) == formKind
}

// list returns the schema of a slice or an array.
func (x *inference) list(t reflect.Type) (*Schema, error) {
	elem := t.Elem()
	if t.Kind() == reflect.Slice && elem.Kind() == reflect.Uint8 {
		if !hasNoJSONMethods(elem) {
			return nil, fmt.Errorf("byte type of %v has JSON methods", t)
		}
		return &Schema{Type: "string", ContentEncoding: "base64"}, nil
	}
	items, err := x.at(func() (*Schema, error) { return x.schema(elem) }, "items")
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: "array", Items: items}
	if t.Kind() == reflect.Array {
		s.MinItems, s.MaxItems = new(t.Len()), new(t.Len())
	}
	return s, nil
}

// object returns the schema of a map.
func (x *inference) object(t reflect.Type) (*Schema, error) {
	key := t.Key()
	switch f := x.form(key); {
	case f == formText:
	case f == formAny, key.Kind() != reflect.String && !isInteger(key.Kind()):
		return nil, fmt.Errorf("type %v cannot be the key of a JSON object", key)
	}
	values, err := x.at(func() (*Schema, error) { return x.schema(t.Elem()) }, "additionalProperties")
	if err != nil {
		return nil, err
	}
	return &Schema{Type: "object", AdditionalProperties: values}, nil
}

func isInteger(k reflect.Kind) bool { return reflect.Int <= k && k <= reflect.Uintptr }

// record returns the schema of a struct.
func (x *inference) record(t reflect.Type) (*Schema, error) {
	fields, err := x.fieldsOf(t)
	if err != nil {
		return nil, err
	}
	s := &Schema{Type: "object", AdditionalProperties: false}
	presets := x.dir == Reading && !x.forForm // the server adds absent members
	for _, f := range fields {
		p, err := x.at(func() (*Schema, error) { return x.member(f) }, "properties", f.name)
		if err != nil {
			return nil, inField(f.Name, err)
		}
		s.Properties = append(s.Properties, property{f.name, p})
		if !f.optional && !(presets && p.hasDefault()) {
			s.Required = append(s.Required, f.name)
		}
	}
	return s, nil
}

// member returns the schema of a field with its tags.
func (x *inference) member(f field) (*Schema, error) {
	s, err := x.schema(f.Type)
	if err != nil {
		return nil, err
	}
	if f.quoted {
		if s, err = quoted(f.Type); err != nil {
			return nil, err
		}
	}
	if s.Description, err = f.description(s.Description); err != nil {
		return nil, err
	}
	return s, x.addTags(&f, s)
}

// description returns the description in the tag of a field, or other if there is none.
func (f *field) description(other string) (string, error) {
	tag, ok := f.Tag.Lookup("jsonschema")
	if !ok {
		return other, nil
	}
	if keyword := keywordIn(tag); keyword != "" {
		return "", fmt.Errorf("tag jsonschema:%q is a description and cannot contain the keyword %s%s", tag, keyword, instead(tag, keyword))
	}
	return tag, nil
}

// quoted returns the schema of a field with the json tag option string.
func quoted(t reflect.Type) (*Schema, error) {
	elem := t
	if t.Kind() == reflect.Pointer {
		elem = t.Elem()
	}
	k := elem.Kind()
	number := isInteger(k) || k == reflect.Float32 || k == reflect.Float64
	if !hasNoJSONMethods(elem) || elem == reflect.TypeFor[json.Number]() || !number && k != reflect.Bool && k != reflect.String {
		return nil, fmt.Errorf("json tag option string does not apply to type %v", t)
	}
	if elem != t {
		return &Schema{Type: []string{"null", "string"}}, nil
	}
	return &Schema{Type: "string"}, nil
}

// keywords matches the keywords that other libraries admit in a jsonschema tag.
var keywords = regexp.MustCompile(`^([^\s,]+?=)|(?:^|,)\s*((?:type|enum|const|default|title|description|example|examples|format|pattern|multipleOf|` +
	`minimum|maximum|exclusiveMinimum|exclusiveMaximum|minLength|maxLength|minItems|maxItems|uniqueItems|minProperties|maxProperties|` +
	`min|max|required|nullable|oneof_type|oneof_required|anyof_type|anyof_required)\s*=)|^\s*(required|nullable|optional|-)\s*$`)

// keywordIn returns the first keyword in a jsonschema tag, or "" if the tag is a description.
func keywordIn(tag string) string {
	if tag == "" {
		return `""`
	}
	m := keywords.FindStringSubmatch(tag)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(cmp.Or(m[1], m[2], m[3]))
}

// instead says what to write instead of a keyword in a description, or "" if that is not known.
func instead(tag, keyword string) string {
	name, ok := strings.CutSuffix(keyword, "=")
	if name = cmp.Or(nearKeyword(name), name); !ok || keywordTags[name].set == nil {
		switch keyword {
		case `""`:
			return "; leave out the tag"
		case "required", "required=", "optional", "nullable", "nullable=":
			return "; a field is required unless its json tag says omitempty or omitzero, and a pointer may be null"
		case "description=":
			return "; write the description alone"
		}
		return ""
	}
	_, text, _ := strings.Cut(tag, keyword)
	text, _, _ = strings.Cut(text, ",")
	return fmt.Sprintf("; write the tag %s:%q beside it", name, strings.TrimSpace(text))
}

// field is a member of the JSON object of a struct.
type field struct {
	reflect.StructField
	index            []int // from the outermost struct
	name             string
	tagged           bool // the name is from a tag
	optional, quoted bool
}

// embedded is an embedded struct, whose fields are members of the enclosing object.
type embedded struct {
	typ      reflect.Type
	index    []int
	optional bool // the path to it has a pointer
}

// fieldsOf returns the members of a struct by the rules of encoding/json. If several fields have
// the same name, the one with the shortest path takes precedence. At equal depth, a field whose
// name is from a tag takes precedence. If several fields remain, none of them is a member. Fields
// of one struct must not have the same name, as in version 2 of encoding/json.
func (x *inference) fieldsOf(t reflect.Type) ([]field, error) {
	var members []field
	taken := map[string]bool{}
	visited := map[reflect.Type]bool{}
	for level := []embedded{{typ: t}}; len(level) > 0; {
		var next []embedded
		var found []field
		for _, e := range level {
			if visited[e.typ] {
				continue
			}
			names := map[string]string{} // of the fields of this struct, by the name of the member
			for i := range e.typ.NumField() {
				f, inner, err := x.fieldOf(e, i)
				if err == nil && f != nil && names[f.name] != "" {
					err = fmt.Errorf("field %s has the same name %q", names[f.name], f.name)
				}
				if err != nil {
					return nil, inField(e.typ.Field(i).Name, err)
				}
				if inner != nil {
					next = append(next, *inner)
				} else if f != nil {
					names[f.name] = f.Name
					found = append(found, *f)
				}
			}
		}
		for _, e := range level {
			visited[e.typ] = true
		}
		members = append(members, dominant(found, taken)...)
		level = next
	}
	slices.SortFunc(members, func(a, b field) int { return slices.Compare(a.index, b.index) })
	return members, nil
}

// dominant returns the fields of one level that are members, and adds their names to taken.
func dominant(found []field, taken map[string]bool) (members []field) {
	for _, f := range found {
		if taken[f.name] {
			continue
		}
		rivals := 0
		for _, g := range found {
			if g.name == f.name && g.tagged == f.tagged {
				rivals++
			} else if g.name == f.name && g.tagged {
				rivals += 2 // g takes precedence over f
			}
		}
		if rivals == 1 {
			members = append(members, f)
		}
	}
	for _, f := range found {
		taken[f.name] = true
	}
	return members
}

// fieldOf returns field i of a struct as a member, or the struct that it embeds. It returns neither
// if the field is not encoded.
func (x *inference) fieldOf(e embedded, i int) (*field, *embedded, error) {
	f := e.typ.Field(i)
	tag := f.Tag.Get("json")
	elem := f.Type
	if elem.Kind() == reflect.Pointer && elem.Name() == "" {
		elem = elem.Elem()
	}
	if tag == "-" || !f.IsExported() && !(f.Anonymous && elem.Kind() == reflect.Struct) {
		return nil, nil, nil
	}
	name, list, _ := strings.Cut(tag, ",")
	if strings.ContainsAny(name, "'\"`\\") || !utf8.ValidString(name) {
		return nil, nil, fmt.Errorf("name in the tag json:%q has quotes, backslashes or invalid UTF-8", tag)
	}
	options := strings.Split(list, ",")
	for _, option := range options {
		if strings.ContainsFunc(option, func(c rune) bool { return c != ':' && c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) ||
			option == "embed" || strings.HasPrefix(option, "format") {
			return nil, nil, fmt.Errorf("option %q in the tag json:%q is not supported", option, tag)
		}
	}
	index := append(slices.Clip(e.index), i)
	if f.Anonymous && name == "" && elem.Kind() == reflect.Struct {
		switch {
		case !hasNoJSONMethods(elem):
			return nil, nil, fmt.Errorf("embedded type %v has JSON methods", elem)
		case hasSchemaMethod(elem):
			return nil, nil, fmt.Errorf("embedded type %v has the method JSONSchema, which does not describe the members of the enclosing struct; name the field", elem)
		case x.dir == Reading && elem != f.Type && !f.IsExported():
			return nil, nil, fmt.Errorf("cannot decode into an embedded pointer to the unexported type %v", elem)
		}
		return nil, &embedded{elem, index, e.optional || elem != f.Type}, nil
	}
	return &field{
		StructField: f, index: index, name: cmp.Or(name, f.Name), tagged: name != "",
		optional: e.optional || slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero"),
		quoted:   slices.Contains(options, "string"),
	}, nil, nil
}
