package shape_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/shape"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

// Unions inside each other, and what must be known of an object before its members are looked into, do not have the
// same text walked over at every level.
func TestWorkGrowsWithTheTextAndNotItsSquare(t *testing.T) {
	in := func(node int32) shape.Prop { return shape.Prop{Name: "in", Node: node} }
	tag := func(node int32) shape.Prop { return shape.Prop{Name: "type", Node: node, Required: true} }
	a, b := shape.Node{Enum: []string{`"a"`}}, shape.Node{Enum: []string{`"b"`}}
	str := shape.Node{Types: shape.String}
	for _, c := range []struct {
		name        string
		nodes       []shape.Node // from 2 on; the last one is the root
		open, close string       // of one level
	}{
		{"a tag behind what is inside", []shape.Node{
			a, b, {Types: shape.Object, Props: []shape.Prop{in(6), tag(2)}}, {Types: shape.Object, Props: []shape.Prop{in(6), tag(3)}},
			{Union: []shape.Variant{{Node: 4, Tags: []string{`"a"`}}, {Node: 5, Tags: []string{`"b"`}}}, Tag: "type"},
		}, `{"in":`, `,"type":"b"}`},
		{"a tag that no variant has", []shape.Node{
			a, b, {Types: shape.Object, Props: []shape.Prop{in(6), tag(2)}}, {Types: shape.Object, Props: []shape.Prop{in(6), tag(3)}},
			{Union: []shape.Variant{{Node: 4, Tags: []string{`"a"`}}, {Node: 5, Tags: []string{`"b"`}}}, Tag: "type"},
		}, `{"in":`, `,"type":"c"}`},
		{"variants told apart by their members", []shape.Node{
			str, {Types: shape.Object, Props: []shape.Prop{in(5), tag(2)}},
			{Types: shape.Object, Props: []shape.Prop{in(5), {Name: "kind", Node: 2, Required: true}}},
			{Union: []shape.Variant{{Node: 3}, {Node: 4}}},
		}, `{"in":`, `,"kind":"b"}`},
		{"a required member that is missing", []shape.Node{
			str, {Types: shape.Object, Props: []shape.Prop{in(3), tag(2)}},
		}, `{"in":`, `,"x":1}`},
		{"a member that is skipped at every level", []shape.Node{
			{Types: shape.Object, Props: []shape.Prop{in(2)}},
		}, `{"other":{"x":[1]},"in":`, `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				depth := n / 2
				text := []byte(strings.Repeat(c.open, depth) + `{"type":"a","kind":"b"}` + strings.Repeat(c.close, depth))
				table := shape.Table{Nodes: append([]shape.Node{{}, {Types: shape.Never}}, c.nodes...)}
				root := int32(len(table.Nodes) - 1)
				return func() { table.CheckValid(root, text) }
			})
		})
	}
}
