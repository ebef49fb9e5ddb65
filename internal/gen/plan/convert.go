package plan

import (
	"slices"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// conversions finds the structs whose definition is an allOf with a reference to another struct, so
// that they have all its members. It skips a struct that requires no member, such as the base of
// all results, because a conversion to it would be of no use.
func (b *builder) conversions() error {
	for _, name := range b.g.Names() {
		st, ok := b.defs[name].(*ir.Struct)
		if !ok {
			continue
		}
		n := b.g.Defs[name].Node
		for _, sub := range n.At().AllOf {
			part, ok := b.defs[sub.Ref].(*ir.Struct)
			if !ok || part.Required == 0 || slices.Contains(st.Parts, part) || !slices.ContainsFunc(part.Fields, func(f *ir.Field) bool { return f.GoName != "" }) || !repeats(st, part) {
				continue
			}
			st.Parts = append(st.Parts, part)
			for _, pair := range [][2]*ir.Struct{{st, part}, {part, st}} {
				if err := b.freeMethod(pair[0], "As"+pair[1].GoName, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// repeats reports whether st has every field of part, with the same type.
func repeats(st, part *ir.Struct) bool {
	return part.Rest == nil && !slices.ContainsFunc(part.Fields, func(f *ir.Field) bool {
		return f.GoName != "" && !slices.ContainsFunc(st.Fields, func(g *ir.Field) bool {
			return g.GoName == f.GoName && g.Presence == f.Presence && same(g.Type, f.Type)
		})
	})
}

// same reports whether two types are the same in Go.
func same(x, y ir.Type) bool {
	switch x := x.(type) {
	case *ir.Scalar:
		_, ok := y.(*ir.Scalar)
		return ok
	case ir.Raw:
		_, ok := y.(ir.Raw)
		return ok
	case *ir.List:
		y, ok := y.(*ir.List)
		return ok && same(x.Elem, y.Elem)
	case *ir.Map:
		y, ok := y.(*ir.Map)
		return ok && same(x.Elem, y.Elem)
	case *ir.Nullable:
		y, ok := y.(*ir.Nullable)
		return ok && same(x.Elem, y.Elem)
	case *ir.External:
		y, ok := y.(*ir.External)
		return ok && x.Type == y.Type
	}
	return x == y
}

// freeMethod fails if a field of st has the name of the method.
func (b *builder) freeMethod(st *ir.Struct, method string, n merge.Node) error {
	for _, f := range st.Fields {
		if f.GoName == method {
			return n.At().Errorf("the method %s of %s, which converts it, has the name of the member %q; give that another with a field row in the overrides",
				method, st.GoName, f.JSON)
		}
	}
	return nil
}
