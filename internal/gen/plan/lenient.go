package plan

import (
	"errors"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// soften makes a note of an error about a place in a schema, if the plan may go on without what the
// error is about. Any other error it returns.
func (b *builder) soften(err error) error {
	e, ok := errors.AsType[*load.Error](err)
	if b.Note == nil || !ok {
		return err
	}
	b.Note(e)
	return nil
}

// unowned returns name, or the first of name2, name3 and so on that has no owner. It notes another name
// than the wanted one. In a strict plan, it returns name, and claim fails.
func (b *builder) unowned(name, at string, n merge.Node) string {
	owner, owned := b.taken[name]
	if !owned || b.Note == nil {
		return name
	}
	other := name
	for i := 2; owned; i++ {
		other = name + strconv.Itoa(i)
		_, owned = b.taken[other]
	}
	if at != "" {
		b.seconds = append(b.seconds, second{other, n.At().Errorf("its Go name is %s, because %s is taken by %s; a name row for %q in the overrides gives it another", other, name, owner, at)})
	}
	return other
}

// second is a Go name that is not the wanted one, with the note about it.
type second struct {
	name string
	note error
}

// noteNames notes the second names of types that stay in the package.
func (b *builder) noteNames(used uses) {
	names := map[string]bool{}
	for t := range used {
		switch t := t.(type) {
		case *ir.Struct:
			names[t.GoName] = true
		case *ir.Union:
			names[t.GoName] = true
		case *ir.OneOrMany:
			names[t.GoName] = true
		case *ir.Wrapper:
			names[t.GoName] = true
		case *ir.Alias:
			names[t.GoName] = true
		case *ir.Enum:
			names[t.GoName] = true
			for _, v := range t.Values {
				names[v.GoName] = true
			}
		}
	}
	for _, s := range b.seconds {
		if names[s.name] {
			_ = b.soften(s.note)
		}
	}
}

// strict returns err in a strict plan, and nil in any other.
func (b *builder) strict(err error) error {
	if b.Note == nil {
		return err
	}
	return nil
}

// joinAlike makes one variant of those that nothing distinguishes, if they are no definitions. It
// has the members of all of them.
func (b *builder) joinAlike() {
	if b.Note == nil {
		return
	}
	joined := map[*merge.Union]bool{}
	var visit func(n merge.Node) bool
	visit = func(n merge.Node) (changed bool) {
		switch n := n.(type) {
		case *merge.Object:
			for _, m := range n.Members {
				changed = visit(m.Node) || changed
			}
			return visit(n.Rest) || changed
		case *merge.Array:
			return visit(n.Elem)
		case *merge.Nullable:
			return visit(n.Node)
		case *merge.Union:
			for _, v := range n.Variants {
				changed = visit(v.Node) || changed
			}
			for b.joinOne(n, joined[n]) {
				joined[n], changed = true, true
			}
		}
		return changed
	}
	for changed := true; changed; {
		changed = false
		for _, name := range b.g.Names() {
			changed = visit(b.g.Defs[name].Node) || changed
		}
	}
}

// joinOne joins some variants of u, and reports whether it did.
func (b *builder) joinOne(u *merge.Union, noted bool) bool {
	p := &pendingUnion{node: u, variants: b.flatten(u)}
	for i := range p.variants {
		p.variants[i].out = new(ir.Variant)
	}
	if len(p.variants) < 2 || b.byMethod(p, holdsAny) != nil || b.byMethod(p, admits) != nil {
		return false
	}
	_, err := b.pick(p)
	e, ok := errors.AsType[*alike](err)
	if !ok {
		return false
	}
	at := func(v variant) int {
		return slices.IndexFunc(u.Variants, func(w *merge.Variant) bool { return w.Node == v.node })
	}
	for _, v := range e.variants {
		if at(v) < 0 { // a definition, or inside of another union
			return false
		}
	}
	first := u.Variants[at(e.variants[0])]
	for _, v := range e.variants[1:] {
		first.Node = merge.Join(first.Node, v.node)
		first.In |= v.in
		u.Variants = slices.Delete(u.Variants, at(v), at(v)+1)
	}
	if !noted {
		_ = b.soften(u.At().Errorf("the alternatives %s have one type together, because nothing distinguishes them; "+
			"if one has a member that always has some string value, a tag row in the overrides separates it", e.places()))
	}
	return true
}

// maxMembers is the number of members whose presence the generated code can track.
const maxMembers = 64

// wide makes maps of the objects below n that have too many members for a struct. The values have
// the shape of all members, if these have but one.
func (b *builder) wide(n merge.Node) error {
	switch n := n.(type) {
	case *merge.Object:
		for _, m := range n.Members {
			if err := b.wide(m.Node); err != nil {
				return err
			}
		}
		if len(n.Members) > maxMembers {
			if err := b.soften(n.At().Errorf("%d members, but the generated code can track the presence of at most %d, so the object becomes a map unless the run is strict", len(n.Members), maxMembers)); err != nil {
				return err
			}
			shape := n.Members[0].Node
			for _, m := range n.Members {
				if merge.Describe(m.Node) != merge.Describe(shape) {
					shape = merge.NewAny(n.At())
					break
				}
			}
			if _, closed := n.Rest.(*merge.Never); !closed {
				shape = merge.NewAny(n.At())
			}
			n.Members, n.Rest = nil, shape
		}
		return b.wide(n.Rest)
	case *merge.Array:
		return b.wide(n.Elem)
	case *merge.Nullable:
		return b.wide(n.Node)
	case *merge.Union:
		for _, v := range n.Variants {
			if err := b.wide(v.Node); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawUnion makes u, whose variants cannot be distinguished, raw JSON text.
func (b *builder) rawUnion(u *ir.Union) {
	p := b.pkg
	var raw ir.Type = ir.RawAny
	if u.Def != "" {
		alias := &ir.Alias{GoName: u.GoName, Def: u.Def, Doc: u.Doc, Type: ir.RawAny}
		p.Aliases = append(p.Aliases, alias)
		raw = alias
	}
	swap := func(t *ir.Type) { *t = replace(*t, u, raw) }
	for _, s := range p.Structs {
		for _, f := range s.Fields {
			swap(&f.Type)
			if f.Presence == ir.Pointer && nilMeansAbsent(f.Type) {
				f.Presence = ir.NilEmpty
			}
			f.Open = f.Open && resolveAlias(f.Type) != ir.RawAny
		}
		if s.Rest != nil {
			swap(&s.Rest)
		}
		s.Unions = without(s.Unions, u)
	}
	for _, o := range p.OneOrMany {
		swap(&o.Elem)
	}
	for _, w := range p.Wrappers {
		swap(&w.Type)
		w.Unions = without(w.Unions, u)
	}
	for _, a := range p.Aliases {
		swap(&a.Type)
	}
	for _, d := range p.Defs {
		swap(&d.Type)
	}
	for name, t := range b.defs {
		b.defs[name] = replace(t, u, raw)
	}
	p.Unions = without(p.Unions, u)
	b.others = slices.DeleteFunc(b.others, func(o other) bool { return o.t == ir.Type(u) })
}

func without(list []*ir.Union, u *ir.Union) []*ir.Union {
	return slices.DeleteFunc(list, func(v *ir.Union) bool { return v == u })
}

// replace returns t with u replaced by raw. Raw text may be null, so that it needs no Nullable.
func replace(t ir.Type, u *ir.Union, raw ir.Type) ir.Type {
	switch t := t.(type) {
	case *ir.Union:
		if t == u {
			return raw
		}
	case *ir.List:
		t.Elem = replace(t.Elem, u, raw)
	case *ir.Map:
		t.Elem = replace(t.Elem, u, raw)
	case *ir.Nullable:
		if t.Elem = replace(t.Elem, u, raw); resolveAlias(t.Elem) == ir.RawAny {
			return t.Elem
		}
	}
	return t
}
