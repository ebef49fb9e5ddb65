package jsonschema_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

// Neither nested unions nor objects whose members are scanned in advance cause the same text to be
// walked over at every level.
func TestWorkIsLinear(t *testing.T) {
	in := func(node int32) jsonschema.Prop { return jsonschema.Prop{Name: "in", Node: node} }
	tag := func(node int32) jsonschema.Prop { return jsonschema.Prop{Name: "type", Node: node, Required: true} }
	a, b := jsonschema.Node{Enum: []string{`"a"`}}, jsonschema.Node{Enum: []string{`"b"`}}
	str := jsonschema.Node{Types: jsonschema.String}
	for _, c := range []struct {
		name        string
		nodes       []jsonschema.Node // from 2 on; the last one is the root
		open, close string            // of one level
	}{
		{"a tag behind what is inside", []jsonschema.Node{
			a, b, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(6), tag(2)}}, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(6), tag(3)}},
			{Union: []jsonschema.Variant{{Node: 4, Tags: []string{`"a"`}}, {Node: 5, Tags: []string{`"b"`}}}, Tag: "type"},
		}, `{"in":`, `,"type":"b"}`},
		{"a tag that no variant has", []jsonschema.Node{
			a, b, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(6), tag(2)}}, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(6), tag(3)}},
			{Union: []jsonschema.Variant{{Node: 4, Tags: []string{`"a"`}}, {Node: 5, Tags: []string{`"b"`}}}, Tag: "type"},
		}, `{"in":`, `,"type":"c"}`},
		{"variants told apart by their members", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(5), tag(2)}},
			{Types: jsonschema.Object, Props: []jsonschema.Prop{in(5), {Name: "kind", Node: 2, Required: true}}},
			{Union: []jsonschema.Variant{{Node: 3}, {Node: 4}}},
		}, `{"in":`, `,"kind":"b"}`},
		{"a required member that is missing", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: []jsonschema.Prop{in(3), tag(2)}},
		}, `{"in":`, `,"x":1}`},
		{"a member that is skipped at every level", []jsonschema.Node{
			{Types: jsonschema.Object, Props: []jsonschema.Prop{in(2)}},
		}, `{"other":{"x":[1]},"in":`, `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				depth := n / 2
				text := []byte(strings.Repeat(c.open, depth) + `{"type":"a","kind":"b"}` + strings.Repeat(c.close, depth))
				table := jsonschema.Table{Nodes: append([]jsonschema.Node{{}, {Types: jsonschema.Never}}, c.nodes...)}
				root := int32(len(table.Nodes) - 1)
				return func() { table.CheckValid(root, text) }
			})
		})
	}
}
