package plan

import (
	"slices"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// projections finds the members and variants that a value loses when it is projected to a revision,
// because the revision does not have them.
func (b *builder) projections() {
	messages := b.bases()
	for _, st := range b.pkg.Structs {
		o := b.objects[st]
		if o.Extensible {
			continue
		}
		for _, f := range st.Fields {
			f.Lacking = ir.Revs(o.In) &^ f.In
			for _, base := range messages[st] {
				if m := base.Member(f.JSON); m != nil {
					f.Lacking &^= ir.Revs(m.In)
				}
			}
			st.Varies |= f.Lacking
		}
	}
	b.shared()
	for _, u := range b.pkg.Unions {
		var in ir.Revs
		for _, v := range u.Variants {
			in |= v.In
		}
		for _, v := range u.Variants {
			v.Lacking = in &^ v.In
			u.Varies |= v.Lacking
		}
	}
	// A type also varies where a type inside it does. Types can be recursive.
	for changed := true; changed; {
		changed = false
		widen := func(to *ir.Revs, more ir.Revs) {
			if *to|more != *to {
				*to |= more
				changed = true
			}
		}
		for _, st := range b.pkg.Structs {
			for _, f := range st.Fields {
				widen(&st.Varies, f.In&ir.Varies(f.Type))
			}
			widen(&st.Varies, ir.Varies(st.Rest))
		}
		for _, u := range b.pkg.Unions {
			for _, v := range u.Variants {
				widen(&u.Varies, v.In&ir.Varies(v.Type))
			}
		}
		for _, o := range b.pkg.OneOrMany {
			widen(&o.Varies, ir.Varies(o.Elem))
		}
		for _, w := range b.pkg.Wrappers {
			widen(&w.Varies, ir.Varies(w.Type))
		}
	}
	reached := map[ir.Type]bool{}
	var reach func(t ir.Type)
	reach = func(t ir.Type) {
		if t == nil || ir.Varies(t) == 0 || reached[t] {
			return
		}
		reached[t] = true
		switch t := t.(type) {
		case *ir.Struct:
			for _, f := range t.Fields {
				reach(f.Type)
			}
			reach(t.Rest)
		case *ir.Union:
			for _, v := range t.Variants {
				reach(v.Type)
			}
		case *ir.OneOrMany:
			reach(t.Elem)
		case *ir.Wrapper:
			reach(t.Type)
		case *ir.Alias:
			reach(t.Type)
		case *ir.List:
			reach(t.Elem)
		case *ir.Map:
			reach(t.Elem)
		case *ir.Nullable:
			reach(t.Elem)
		}
	}
	for _, m := range b.pkg.Methods {
		for _, t := range []ir.Type{resolveAlias(m.Params), resolveAlias(m.Result)} {
			if u, ok := t.(*ir.Union); ok { // the message is one of the variants, never a union
				for _, v := range u.Variants {
					reach(v.Type)
				}
				continue
			}
			reach(t)
		}
	}
	add(b, reached, b.pkg.Structs)
	add(b, reached, slices.DeleteFunc(slices.Clone(b.pkg.Unions), func(u *ir.Union) bool {
		return !slices.ContainsFunc(u.Variants, func(v *ir.Variant) bool { return v.Lacking != 0 })
	}))
	add(b, reached, b.pkg.OneOrMany)
	add(b, reached, b.pkg.Wrappers)
}

// add appends the types that are in set to the projected types of the package.
func add[T ir.Type](b *builder, set map[ir.Type]bool, types []T) {
	for _, t := range types {
		if set[t] {
			b.pkg.Projected = append(b.pkg.Projected, t)
		}
	}
}

// shared handles unions that are used in several places. It adds to each variant the revisions in
// which it is a variant at the other places.
func (b *builder) shared() {
	for _, other := range b.others {
		switch t := other.t.(type) {
		case *ir.Union: // the alternatives are the same
			for i, v := range other.flat {
				t.Variants[i].In |= ir.Revs(v.in)
			}
		case *ir.OneOrMany: // flat also has the list, which is not a variant of u
			u, ok := resolveAlias(t.Elem).(*ir.Union)
			if !ok {
				continue
			}
			for _, v := range other.flat {
				for _, w := range u.Variants {
					if v.name != "" && w.Type == notNull(b.defs[v.name]) {
						w.In |= ir.Revs(v.in)
					}
				}
			}
		}
	}
}

// bases maps the params and results of methods to their base definitions, which have the members
// common to all params or results. In older revisions only the base definitions have the member
// _meta.
func (b *builder) bases() map[*ir.Struct][]*merge.Object {
	out := map[*ir.Struct][]*merge.Object{}
	add := func(t ir.Type, base string) {
		d := b.g.Defs[base]
		if d == nil {
			return
		}
		o, ok := d.Node.(*merge.Object)
		if !ok {
			return
		}
		switch t := resolveAlias(t).(type) {
		case *ir.Struct:
			out[t] = append(out[t], o)
		case *ir.Union:
			for _, v := range t.Variants {
				if st, ok := v.Type.(*ir.Struct); ok {
					out[st] = append(out[st], o)
				}
			}
		}
	}
	for _, m := range b.pkg.Methods {
		base := "RequestParams"
		if m.Notification {
			base = "NotificationParams"
		}
		add(m.Params, base)
		add(m.Result, "Result")
	}
	return out
}
