package schemadocs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Member is a subject of documentation: a definition, one of its fields, or a value.
type Member struct {
	Definition string // name of the definition
	Path       string // path of the field, or of the one that has the value; "" is the definition itself
	Value      string // the value: a string as it is, any other as JSON text
	IsValue    bool   // distinguishes the value "" from no value
}

// String returns the member as the rows of docs.md name it, behind the definition's name
// and a dot: Task, Task.status, Task.status=working.
func (m Member) String() string {
	s := m.Definition
	if m.Path != "" {
		s += "." + m.Path
	}
	if m.IsValue {
		s += "=" + m.Value
	}
	return s
}

// Members returns the definitions, fields and values of the schema src, sorted by
// definition, path and value. Errors are those of [Canonical].
func Members(src []byte) ([]Member, error) {
	src, err := Canonical(src) // rejects faults that the walk below would skip
	if err != nil {
		return nil, err
	}
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	var c collector
	if top, ok := root.(map[string]any); ok {
		for _, keyword := range []string{"$defs", "definitions"} {
			defs, _ := top[keyword].(map[string]any)
			for name, def := range defs {
				c.add(Member{Definition: name})
				c.schema(name, "", def)
			}
		}
	}
	slices.SortFunc(c.members, Member.compare)
	return slices.Compact(c.members), nil
}

func (m Member) compare(o Member) int {
	return cmp.Or(
		strings.Compare(m.Definition, o.Definition),
		strings.Compare(m.Path, o.Path),
		strings.Compare(m.Value, o.Value))
}

// collector gathers members in no order and with repetitions.
type collector struct{ members []Member }

func (c *collector) add(m Member) { c.members = append(c.members, m) }

// schema collects the fields and values of v, which stands at path in definition def.
func (c *collector) schema(def, path string, v any) {
	s, ok := v.(map[string]any)
	if !ok {
		return // true or false
	}
	for keyword, v := range s {
		switch keyword {
		case "properties":
			for name, sub := range v.(map[string]any) {
				at := name
				if path != "" {
					at = path + "." + name
				}
				c.add(Member{Definition: def, Path: at})
				c.schema(def, at, sub)
			}
		case "patternProperties":
			for _, sub := range v.(map[string]any) {
				c.schema(def, path+"{}", sub)
			}
		case "additionalProperties", "unevaluatedProperties":
			c.schema(def, path+"{}", v)
		case "items", "prefixItems", "contains", "unevaluatedItems":
			for _, sub := range asList(v) {
				c.schema(def, path+"[]", sub)
			}
		case "anyOf", "oneOf", "allOf", "if", "then", "else":
			for _, sub := range asList(v) {
				c.schema(def, path, sub)
			}
		case "enum":
			for _, value := range asList(v) {
				c.add(Member{Definition: def, Path: path, Value: valueText(value), IsValue: true})
			}
		case "const":
			c.add(Member{Definition: def, Path: path, Value: valueText(v), IsValue: true})
		}
	}
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // v was parsed from JSON
	}
	return strings.TrimSpace(text.String())
}
