package toolschema

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/pattern"
)

// quick validates a value without decoding it first. It supports only the keywords of inferred
// schemas; a schema with another keyword has no quick. If quick does not accept a value, the
// validator checks it again and reports the fault. So quick may be too strict, but must never be
// too lenient.
type quick struct {
	kinds    uint16 // the bits of the admitted kinds; 0 admits all
	integer  bool   // numbers are integers
	min, max *int64
	members  []member // the members with a property or required, sorted by name
	required uint64   // the bits of the required members
	others   *quick   // the schema of members without a property; nil refuses them
	items    *quick

	enum                 map[string]bool // the admitted strings; nil admits all values
	minLength, maxLength *int64          // of strings, in characters
	minItems, maxItems   *int64
	pattern              *pattern.Pattern // nil for none
}

// member is a member of an object that the schema names.
type member struct {
	name  string
	value *quick // nil if the member has no property
	bit   uint64 // unique; 0 beyond 64 members
}

// newQuick returns nil if the schema has a keyword that quick does not support. It gets the
// compiled patterns of the schema.
func newQuick(object map[string]any, patterns *pattern.Set) *quick {
	q := &quick{others: &quick{}, items: &quick{}}
	q.others.others, q.others.items = q.others, q.others
	q.items.others, q.items.items = q.others, q.others
	for name, v := range object {
		if !q.take(name, v, patterns) {
			return nil
		}
	}
	return q
}

func (q *quick) take(name string, v any, patterns *pattern.Set) bool {
	switch name {
	case "title", "description", "default", "examples", "contentEncoding", "deprecated", "format", "x-mcp-header":
		return true // no assertions in dialect 2020-12
	case "$schema":
		text, _ := v.(string)
		return strings.TrimSuffix(text, "#") == Dialects()[0]
	case "type":
		return q.takeType(v)
	case "minimum":
		return takeInt(&q.min, v)
	case "maximum":
		return takeInt(&q.max, v)
	case "minLength":
		return takeInt(&q.minLength, v)
	case "maxLength":
		return takeInt(&q.maxLength, v)
	case "minItems":
		return takeInt(&q.minItems, v)
	case "maxItems":
		return takeInt(&q.maxItems, v)
	case "pattern":
		text, _ := v.(string)
		q.pattern = patterns.Compiled(text)
		return q.pattern != nil
	case "enum":
		list, ok := v.([]any)
		q.enum = map[string]bool{}
		for _, e := range list {
			text, isText := e.(string)
			q.enum[text] = isText
			ok = ok && isText
		}
		return ok
	case "required":
		list, _ := v.([]any)
		for _, e := range list {
			text, ok := e.(string)
			if !ok {
				return false
			}
			m := q.member(text)
			if m.bit == 0 {
				return false
			}
			q.required |= m.bit
		}
		return true
	case "properties":
		object, ok := v.(map[string]any)
		for key, e := range object {
			value := sub(e, patterns)
			if value == nil {
				return false
			}
			q.member(key).value = value
		}
		return ok
	case "additionalProperties":
		if v == false || isNever(v) {
			q.others = nil
			return true
		}
		q.others = sub(v, patterns)
		return q.others != nil
	case "items":
		q.items = sub(v, patterns)
		return q.items != nil
	}
	return false
}

// takeInt sets a limit to an integer. It returns false for other values.
func takeInt(limit **int64, v any) bool {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	*limit = &i
	return ok && err == nil
}

// member returns the member with the given name. It adds the member if it is new.
func (q *quick) member(name string) *member {
	i, found := slices.BinarySearchFunc(q.members, name, func(m member, name string) int { return strings.Compare(m.name, name) })
	if !found {
		m := member{name: name}
		if n := len(q.members); n < 64 {
			m.bit = 1 << n
		}
		q.members = slices.Insert(q.members, i, m)
	}
	return &q.members[i]
}

// find returns the member with the given name, or nil.
func (q *quick) find(name []byte) *member {
	list := q.members
	for len(list) > 8 { // below that, a linear search is faster
		if middle := len(list) / 2; list[middle].name <= string(name) {
			list = list[middle:]
		} else {
			list = list[:middle]
		}
	}
	for i := range list {
		if list[i].name == string(name) {
			return &list[i]
		}
	}
	return nil
}

// isNever reports whether a schema is {"not":{}}.
func isNever(v any) bool {
	object, _ := v.(map[string]any)
	not, ok := object["not"].(map[string]any)
	return ok && len(object) == 1 && len(not) == 0
}

func sub(v any, patterns *pattern.Set) *quick {
	switch v := v.(type) {
	case bool:
		if v {
			return newQuick(nil, patterns)
		}
	case map[string]any:
		return newQuick(v, patterns)
	}
	return nil
}

func (q *quick) takeType(v any) bool {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		k, ok := map[any]wire.Kind{
			"null": wire.KindNull, "boolean": wire.KindBool, "integer": wire.KindNumber, "number": wire.KindNumber,
			"string": wire.KindString, "array": wire.KindArray, "object": wire.KindObject,
		}[e]
		if !ok {
			return false
		}
		q.kinds |= 1 << k
		q.integer = q.integer || e == "integer"
	}
	return true
}

// admits reports whether a value is certainly valid.
func (q *quick) admits(text json.RawMessage) bool {
	var c check
	ok := false
	err := codec.ReadPart(text, func(r *wire.Reader) {
		c.r = r
		ok = c.value(q)
		r.End()
	})
	return err == nil && ok && (!c.unnamed || codec.Valid(text, codec.AllowSize(text)...) == nil)
}

// check validates one value.
type check struct {
	r       *wire.Reader
	unnamed bool // an object may have duplicate names; codec.Valid decides
	steps   int  // of patterns
}

func (c *check) value(q *quick) bool {
	k := c.r.Kind()
	if q.kinds != 0 && q.kinds&(1<<k) == 0 {
		return false
	}
	switch k {
	case wire.KindNumber:
		return q.enum == nil && q.number(c.r)
	case wire.KindString:
		return c.text(q)
	case wire.KindObject:
		return q.enum == nil && c.object(q)
	case wire.KindArray:
		n := int64(0)
		for c.r.Array(); c.r.More(); n++ {
			if !c.value(q.items) {
				return false
			}
		}
		return q.enum == nil && within(n, q.minItems, q.maxItems)
	}
	c.r.Skip()
	return q.enum == nil
}

func within(n int64, least, most *int64) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

func (c *check) text(q *quick) bool {
	if q.enum == nil && q.minLength == nil && q.maxLength == nil && q.pattern == nil {
		c.r.Skip()
		return true
	}
	text := c.r.TextBytes()
	return !c.r.Failed() && (q.enum == nil || q.enum[string(text)]) &&
		within(int64(utf8.RuneCount(text)), q.minLength, q.maxLength) && (q.pattern == nil || c.match(q.pattern, text))
}

// match reports whether a pattern matches a text. It leaves large matches to the validator, which
// may give them up.
func (c *check) match(p *pattern.Pattern, text []byte) bool {
	c.steps += p.Steps(len(text))
	return c.steps <= baseSteps/10 && p.Match(text)
}

func (q *quick) number(r *wire.Reader) bool {
	if !q.integer && q.min == nil && q.max == nil {
		r.Skip()
		return true
	}
	n, exact := r.Int()
	return exact && within(n, q.min, q.max)
}

func (c *check) object(q *quick) bool {
	var found uint64
	unnamed := 0
	c.r.Object()
	for key, more := c.r.NextKey(); more; key, more = c.r.NextKey() {
		value := q.others
		var bit uint64
		if m := q.find(key); m != nil {
			bit = m.bit
			if m.value != nil {
				value = m.value
			}
		}
		if found&bit != 0 {
			return false // the name appears twice
		}
		found |= bit
		if bit == 0 {
			unnamed++
		}
		if value == nil || !c.value(value) {
			return false
		}
	}
	c.unnamed = c.unnamed || unnamed > 1
	return found&q.required == q.required
}
