package toolschema

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
)

// quick says yes to a value without decoding it first. It knows what inferred schemas are made of, and nothing more:
// a schema with any other keyword has none. What it does not admit is looked at again, by the validator that can say
// what is wrong. So it may be too strict, but never too lenient.
type quick struct {
	kinds      []codec.Kind // that are admitted; nil for all
	integer    bool         // numbers are integers
	min, max   *int64
	properties map[string]*quick
	required   []string
	others     *quick // members without a property of their own; nil refuses them
	items      *quick
}

// newQuick returns nil if the schema is not of the kind that it knows.
func newQuick(object map[string]any) *quick {
	q := &quick{others: &quick{}, items: &quick{}}
	q.others.others, q.others.items = q.others, q.others
	q.items.others, q.items.items = q.others, q.others
	for name, v := range object {
		if !q.take(name, v) {
			return nil
		}
	}
	return q
}

func (q *quick) take(name string, v any) bool {
	switch name {
	case "title", "description", "default", "examples", "contentEncoding", "deprecated":
		return true
	case "$schema":
		text, _ := v.(string)
		return strings.TrimSuffix(text, "#") == Dialects()[0]
	case "type":
		return q.takeType(v)
	case "minimum", "maximum":
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		i, err := n.Int64()
		if name == "minimum" {
			q.min = &i
		} else {
			q.max = &i
		}
		return err == nil
	case "required":
		list, _ := v.([]any)
		for _, e := range list {
			text, ok := e.(string)
			if !ok {
				return false
			}
			q.required = append(q.required, text)
		}
		return len(q.required) < 64
	case "properties":
		object, ok := v.(map[string]any)
		q.properties = map[string]*quick{}
		for key, e := range object {
			if q.properties[key] = sub(e); q.properties[key] == nil {
				return false
			}
		}
		return ok
	case "additionalProperties":
		if v == false || isNever(v) {
			q.others = nil
			return true
		}
		q.others = sub(v)
		return q.others != nil
	case "items":
		q.items = sub(v)
		return q.items != nil
	}
	return false
}

// isNever reports whether a schema is {"not":{}}.
func isNever(v any) bool {
	object, _ := v.(map[string]any)
	not, ok := object["not"].(map[string]any)
	return ok && len(object) == 1 && len(not) == 0
}

func sub(v any) *quick {
	switch v := v.(type) {
	case bool:
		if v {
			return newQuick(nil)
		}
	case map[string]any:
		return newQuick(v)
	}
	return nil
}

func (q *quick) takeType(v any) bool {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		k, ok := map[any]codec.Kind{
			"null": codec.KindNull, "boolean": codec.KindBool, "integer": codec.KindNumber, "number": codec.KindNumber,
			"string": codec.KindString, "array": codec.KindArray, "object": codec.KindObject,
		}[e]
		if !ok {
			return false
		}
		q.kinds = append(q.kinds, k)
		q.integer = q.integer || e == "integer"
	}
	return true
}

// admits reports whether a value is certainly valid.
func (q *quick) admits(text json.RawMessage) bool {
	r := codec.Borrow(text, codec.NoCopy())
	ok := q.read(r)
	r.End()
	return r.Release() == nil && ok
}

func (q *quick) read(r *codec.Reader) bool {
	k := r.Kind()
	if q.kinds != nil && !slices.Contains(q.kinds, k) {
		return false
	}
	switch k {
	case codec.KindNumber:
		return q.number(r)
	case codec.KindObject:
		return q.object(r)
	case codec.KindArray:
		for r.Array(); r.More(); {
			if !q.items.read(r) {
				return false
			}
		}
		return true
	}
	r.Skip()
	return true
}

func (q *quick) number(r *codec.Reader) bool {
	if !q.integer && q.min == nil && q.max == nil {
		r.Skip()
		return true
	}
	n, exact := r.Int()
	return exact && (q.min == nil || n >= *q.min) && (q.max == nil || n <= *q.max)
}

func (q *quick) object(r *codec.Reader) bool {
	var found uint64
	r.Object()
	for key, more := r.NextKey(); more; key, more = r.NextKey() {
		for i, name := range q.required {
			if name == string(key) {
				found |= 1 << i
			}
		}
		member := q.properties[string(key)]
		if member == nil {
			member = q.others
		}
		if member == nil || !member.read(r) {
			return false
		}
	}
	return found == 1<<len(q.required)-1
}
