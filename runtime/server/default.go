package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// defaultMember is a member of the arguments that has a default.
type defaultMember struct {
	name string
	text []byte // the member as JSON, with its name
}

// findDefaults finds the defaults in the input schema, and checks that the schema and the type of
// the arguments admit them.
func (t *tool) findDefaults() error {
	t.defaults = nil
	if len(t.def.InputSchema.Properties) == 0 {
		return nil
	}
	var list map[string]json.RawMessage
	if err := codec.Unmarshal(t.def.InputSchema.Properties, value.Of(&list)); err != nil {
		return err
	}
	for name, p := range list {
		var property struct {
			Default json.RawMessage `json:"default"`
		}
		if err := codec.Unmarshal(p, value.Of(&property)); err != nil {
			return fmt.Errorf("property %q: %w", name, err)
		}
		if property.Default == nil {
			continue
		}
		if faults := t.in.CheckMember(name, property.Default); faults != "" {
			return fmt.Errorf("default of %q does not comply with its schema: %s", name, faults)
		}
		text, err := codec.Marshal(value.Of(map[string]json.RawMessage{name: property.Default}))
		if err != nil {
			return err
		}
		if err := t.decode(text); err != nil {
			if e, ok := errors.AsType[*codec.Error](err); ok && strings.HasPrefix(e.Pointer, "/") {
				return fmt.Errorf("default of %q does not fit the type of the arguments: %w", name, e.Err)
			}
		}
		t.defaults = append(t.defaults, defaultMember{name, text[1 : len(text)-1]})
	}
	slices.SortFunc(t.defaults, func(a, b defaultMember) int { return strings.Compare(a.name, b.name) })
	return nil
}

// withDefaults adds the defaults of absent members to arguments, which must be an object. It
// reports whether it added any.
func (t *tool) withDefaults(arguments json.RawMessage) (json.RawMessage, bool) {
	if len(t.defaults) == 0 {
		return arguments, false
	}
	present := make([]bool, len(t.defaults))
	empty, missing := true, len(present)
	err := codec.ReadPart(arguments, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more; key, more = r.NextKey() {
			empty = false
			i, ok := slices.BinarySearchFunc(t.defaults, string(key), func(d defaultMember, name string) int { return strings.Compare(d.name, name) })
			if ok {
				present[i] = true
				missing--
			}
			r.Skip()
		}
	})
	if err != nil || missing == 0 {
		return arguments, false
	}
	end := bytes.LastIndexByte(arguments, '}')
	out := bytes.Clone(arguments[:end])
	for i, d := range t.defaults {
		if present[i] {
			continue
		}
		if !empty {
			out = append(out, ',')
		}
		out, empty = append(out, d.text...), false
	}
	return append(out, '}'), true
}
