package instance

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Value is a JSON value made for a schema.
type Value struct {
	kind    kind
	text    string // of a scalar, as it is written
	items   []*Value
	members []member

	schemas []*load.Schema // the schemas that the value was made for, without refs, unions and allOf
}

type member struct {
	key   string // the name
	text  string // the name as it is written
	value *Value
}

// kind is the kind of a value; integers are a kind of number.
type kind string

const (
	null    kind = "null"
	boolean kind = "boolean"
	number  kind = "number"
	str     kind = "string"
	array   kind = "array"
	object  kind = "object"
)

// JSON returns v as JSON text.
func (v *Value) JSON() []byte {
	var w writer
	w.value(v, Place{Name: -1})
	return w.text
}

// Indent returns v as JSON text with line breaks and other white space.
func (v *Value) Indent() []byte {
	text, _ := v.IndentPlaces()
	return text
}

// IndentPlaces returns the result of Indent and the place of each value in it, outer values first.
func (v *Value) IndentPlaces() ([]byte, []Place) {
	w := writer{text: []byte(" "), line: "\r\n", space: "\t "}
	w.value(v, Place{Name: -1})
	return w.text, w.places
}

// Place is the position of a value in a text.
type Place struct {
	Pointer     string // JSON pointer to it
	Offset, End int    // the text of the value
	Depth       int    // the number of arrays and objects around it
	Name        int    // offset of the name, if it is a member; otherwise negative
	Index       int    // index of the element, if the value is one
	Scalar      bool   // the value is neither an array nor an object
}

// writer writes values as JSON text.
type writer struct {
	text        []byte
	line, space string // white space between elements and members, and around the colon
	places      []Place
}

// value writes v and sets the offsets of its place.
func (w *writer) value(v *Value, at Place) {
	at.Offset, at.Scalar = len(w.text), v.kind != array && v.kind != object
	n := len(w.places)
	w.places = append(w.places, at)
	inside := Place{Depth: at.Depth + 1, Name: -1}
	switch v.kind {
	case array:
		w.text = append(w.text, '[')
		for i, item := range v.items {
			w.next(i)
			inside.Pointer, inside.Index = at.Pointer+"/"+strconv.Itoa(i), i
			w.value(item, inside)
		}
		w.text = append(append(w.text, w.line...), ']')
	case object:
		w.text = append(w.text, '{')
		for i, m := range v.members {
			w.next(i)
			inside.Pointer, inside.Name = at.Pointer+"/"+jsonedit.EscapeToken(m.key), len(w.text)
			w.text = append(append(append(append(w.text, m.text...), w.space...), ':'), w.space...)
			w.value(m.value, inside)
		}
		w.text = append(append(w.text, w.line...), '}')
	default:
		w.text = append(w.text, v.text...)
	}
	w.places[n].End = len(w.text)
}

// next writes the separator before the i-th element or member.
func (w *writer) next(i int) {
	if i > 0 {
		w.text = append(w.text, ',')
	}
	w.text = append(w.text, w.line...)
}

// clone returns a deep copy of v, and every value in it, parents first.
func (v *Value) clone() (*Value, []*Value) {
	c := *v
	all := []*Value{&c}
	c.items, c.members = nil, nil
	for _, item := range v.items {
		i, inner := item.clone()
		c.items = append(c.items, i)
		all = append(all, inner...)
	}
	for _, m := range v.members {
		i, inner := m.value.clone()
		c.members = append(c.members, member{m.key, m.text, i})
		all = append(all, inner...)
	}
	return &c, all
}

func (v *Value) has(key string) bool {
	for _, m := range v.members {
		if m.key == key {
			return true
		}
	}
	return false
}

// parse returns the value of a const or enum, or of a default.
func parse(raw json.RawMessage) *Value {
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.UseNumber()
	var x any
	if err := dec.Decode(&x); err != nil {
		panic(err) // load has parsed the schema
	}
	return from(x)
}

func from(x any) *Value {
	switch x := x.(type) {
	case nil:
		return &Value{kind: null, text: "null"}
	case bool:
		return &Value{kind: boolean, text: strconv.FormatBool(x)}
	case json.Number:
		return &Value{kind: number, text: x.String()}
	case string:
		return &Value{kind: str, text: quote(x)}
	case []any:
		v := &Value{kind: array}
		for _, item := range x {
			v.items = append(v.items, from(item))
		}
		return v
	default:
		v := &Value{kind: object}
		members := x.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(members)) {
			v.members = append(v.members, member{key, quote(key), from(members[key])})
		}
		return v
	}
}

// quote returns s as a JSON string.
func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // encoding a string does not fail
	}
	return string(text)
}

// quoteRandomly returns s as a JSON string with some needless escapes.
func quoteRandomly(rng *rand.Rand, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		text := quote(string(r))
		text = text[1 : len(text)-1]
		switch {
		case r == '/' && rng.IntN(2) == 0:
			text = `\/`
		case r < 0x10000 && rng.IntN(4) == 0:
			text = `\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16)
		}
		b.WriteString(text)
	}
	b.WriteByte('"')
	return b.String()
}

// unquote returns the value of a JSON string.
func unquote(text string) string {
	var s string
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err) // the text was made by this package
	}
	return s
}
