package plan

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// picks finds the discriminator of every union.
func (b *builder) picks() error {
	used := uses{}
	if b.Note != nil {
		used = b.used()
	}
	for _, p := range b.pending {
		if p.union.ByMethod {
			continue
		}
		var err error
		if p.union.Pick, err = b.pick(p); err == nil {
			continue
		}
		base := b.byMethod(p, holdsAny)
		if base == nil {
			if b.Note == nil || !used[p.union] {
				err = b.strict(err)
			} else {
				err = b.soften(err)
			}
			if err != nil {
				return err
			}
			b.rawUnion(p.union)
			continue
		}
		p.union.ByMethod, p.union.Pick = true, ir.Pick{Default: base}
	}
	return nil
}

// kinds lists the JSON types that a shape admits, by their names in package codec.
func (b *builder) kinds(n merge.Node) []string {
	switch n := b.g.Follow(n).(type) {
	case *merge.Object:
		return []string{"Object"}
	case *merge.Array:
		return []string{"Array"}
	case *merge.Enum:
		return b.kinds(merge.NewScalar(n.At(), n.Kind()))
	case *merge.Scalar:
		var out []string
		if n.Kinds&merge.KindString != 0 {
			out = append(out, "String")
		}
		if n.Kinds&(merge.KindNumber|merge.KindInteger) != 0 {
			out = append(out, "Number")
		}
		if n.Kinds&merge.KindBool != 0 {
			out = append(out, "Bool")
		}
		return out
	}
	return nil
}

// pick decides by JSON type first, and among several objects by their members.
func (b *builder) pick(p *pendingUnion) (ir.Pick, error) {
	var pick ir.Pick
	var objects []variant
	for _, v := range p.variants {
		if _, object := v.node.(*merge.Object); object {
			objects = append(objects, v)
			continue
		}
		kinds := b.kinds(v.node)
		if kinds == nil {
			return pick, p.node.At().Errorf("the alternative %s admits any value, so no other alternative can be distinguished from it; "+
				"only the schema can say more", v.node.At().Pointer)
		}
		for _, k := range kinds { // flatten leaves one alternative for each kind
			pick.Kinds = append(pick.Kinds, ir.KindCase{Kind: k, Variant: v.out})
		}
	}
	if len(objects) == 1 && len(pick.Kinds) > 0 {
		pick.Kinds = append(pick.Kinds, ir.KindCase{Kind: "Object", Variant: objects[0].out})
		return pick, nil
	}
	if len(objects) == 0 {
		return pick, nil
	}
	rest, err := b.pickObject(p, objects)
	rest.Kinds = pick.Kinds
	return rest, err
}

// pickObject distinguishes objects by a member with constant values or, if there is none, by the
// members that are required or allowed.
func (b *builder) pickObject(p *pendingUnion, vs []variant) (ir.Pick, error) {
	if tag := b.tagMember(vs); tag != "" {
		return b.pickTag(p, vs, tag)
	}
	return b.pickKeys(p, vs)
}

// tagValues returns the strings or booleans that identify v by the member called name. Free reports
// whether v may have other values there.
func tagValues(v variant, name string) (values []string, free bool) {
	m := v.node.(*merge.Object).Member(name)
	if m == nil {
		return nil, true
	}
	if m.Tag != nil {
		return []string{(&merge.EnumValue{JSON: string(m.Tag)}).Text()}, false
	}
	e, ok := m.Node.(*merge.Enum)
	if !ok || e.Kind() == merge.KindInteger {
		return nil, true
	}
	for _, value := range e.Values {
		values = append(values, value.Text())
	}
	return values, false
}

// tagMember returns the member whose value separates the most variants, or "".
func (b *builder) tagMember(vs []variant) string {
	best, most := "", 0
	names := map[string]bool{}
	for _, v := range vs {
		for _, m := range v.node.(*merge.Object).Members {
			names[m.Name] = true
		}
	}
	for name := range names {
		groups := map[string]int{}
		tagged, marked := 0, false
		for _, v := range vs {
			values, free := tagValues(v, name)
			if free {
				continue
			}
			tagged++
			m := v.node.(*merge.Object).Member(name)
			marked = marked || m.Tag != nil
			for _, value := range values {
				groups[value]++
			}
		}
		if len(groups) < 2 && !marked {
			continue
		}
		if slices.ContainsFunc(vs, func(v variant) bool { // a value that every variant admits separates nothing
			values, free := tagValues(v, name)
			return !free && len(values) > 0 && groups[values[0]] == len(vs)
		}) {
			continue
		}
		if !marked && tagged < 2 {
			continue
		}
		if tagged > most || tagged == most && name < best {
			best, most = name, tagged
		}
	}
	return best
}

// isBool reports whether the values of a tag are booleans.
func isBool(vs []variant, name string) bool {
	return slices.ContainsFunc(vs, func(v variant) bool {
		m := v.node.(*merge.Object).Member(name)
		if m == nil {
			return false
		}
		e, ok := m.Node.(*merge.Enum)
		return ok && e.Kind() == merge.KindBool
	})
}

func (b *builder) pickTag(p *pendingUnion, vs []variant, name string) (ir.Pick, error) {
	groups := map[string][]variant{}
	var order []string
	var absent, other []variant
	for _, v := range vs {
		values, free := tagValues(v, name)
		m := v.node.(*merge.Object).Member(name)
		if free {
			other = append(other, v)
		}
		if m == nil || m.Required != v.node.(*merge.Object).In || free {
			absent = append(absent, v)
		}
		for _, value := range values {
			if groups[value] == nil {
				order = append(order, value)
			}
			groups[value] = append(groups[value], v)
		}
	}
	slices.Sort(order)
	c := ir.TagCase{Member: name, Bool: isBool(vs, name)}
	for _, value := range order {
		sub, err := b.pickGroup(p, groups[value], vs)
		if err != nil {
			return ir.Pick{}, err
		}
		c.Values = append(c.Values, ir.TagValue{Value: value, Pick: sub})
	}
	var err error
	if c.Absent, err = b.pickGroup(p, absent, vs); err != nil {
		return ir.Pick{}, err
	}
	if c.Other, err = b.pickGroup(p, other, vs); err != nil {
		return ir.Pick{}, err
	}
	return ir.Pick{Tags: []ir.TagCase{c}}, nil
}

// pickGroup decides among the variants that a tag leaves, if any.
func (b *builder) pickGroup(p *pendingUnion, group, before []variant) (*ir.Pick, error) {
	switch {
	case len(group) == 0:
		return nil, nil
	case len(group) == 1:
		return &ir.Pick{Default: group[0].out}, nil
	case len(group) == len(before):
		sub, err := b.pickKeys(p, group)
		return &sub, err
	}
	sub, err := b.pickObject(p, group)
	return &sub, err
}

// pickKeys selects the variants one by one. The next is a variant with a required member that no
// other remaining variant has. If there is none, it is a variant with an optional member that no
// other has, provided that another variant can hold a value without that member.
func (b *builder) pickKeys(p *pendingUnion, vs []variant) (ir.Pick, error) {
	var pick ir.Pick
	rest := slices.Clone(vs)
	for len(rest) > 1 {
		i, paths := b.exclusive(rest)
		if i < 0 {
			return pick, &alike{rest, p}
		}
		for _, path := range paths {
			pick.Keys = append(pick.Keys, ir.KeyCase{Path: path, Kinds: b.keyKinds(rest[i], path), Variant: rest[i].out})
		}
		rest = slices.Delete(rest, i, i+1)
	}
	last := rest[0]
	if key := b.lastKey(last, vs); key != nil {
		pick.Keys = append(pick.Keys, ir.KeyCase{Path: key, Kinds: b.keyKinds(last, key), Variant: last.out})
	} else {
		pick.Default = last.out
	}
	return pick, nil
}

// alike is the error of a union with variants that nothing distinguishes.
type alike struct {
	variants []variant
	union    *pendingUnion
}

func (e *alike) Error() string { return e.Unwrap().Error() }

func (e *alike) Unwrap() error {
	return e.union.node.At().Errorf("the alternatives %s cannot be distinguished by a constant member, by JSON type or by a member that only one of them has; "+
		"if one has a member that always has some string value, say so with a tag row in the overrides", e.places())
}

func (e *alike) places() string {
	var names []string
	for _, v := range e.variants {
		names = append(names, v.node.At().Pointer)
	}
	return strings.Join(names, ", ")
}

// keyKinds returns the JSON types that v admits for the member at path. It returns nil if they are
// not limited, which stands for every type but null.
func (b *builder) keyKinds(v variant, path []string) []string {
	n := v.node
	for _, name := range path {
		o, ok := b.g.Follow(n).(*merge.Object)
		if !ok || o.Member(name) == nil {
			return nil
		}
		n = o.Member(name).Node
	}
	if null, ok := b.g.Follow(n).(*merge.Nullable); ok {
		kinds := b.kinds(null.Node)
		if _, never := b.g.Follow(null.Node).(*merge.Never); kinds == nil && !never {
			return nil
		}
		return append(kinds, "Null")
	}
	return b.kinds(n)
}

// exclusive returns the variant to select next and the paths of the members that identify it.
func (b *builder) exclusive(vs []variant) (int, [][]string) {
	objects := make([]*merge.Object, len(vs))
	for i, v := range vs {
		objects[i] = v.node.(*merge.Object)
	}
	if i, key := exclusiveMember(objects); i >= 0 {
		return i, [][]string{{key}}
	}
	// A required member of a required object.
	for _, m := range objects[0].Members {
		inner := make([]*merge.Object, len(vs))
		for i, o := range objects {
			inner[i] = b.inner(o, m.Name)
		}
		if slices.Contains(inner, nil) {
			continue
		}
		if i, key := exclusiveMember(inner); i >= 0 {
			return i, [][]string{{m.Name, key}}
		}
	}
	// Optional members, if another variant can hold a value without them.
	for i, v := range vs {
		if !slices.ContainsFunc(vs, func(w variant) bool { return w.out != v.out && holds(w, v) }) {
			continue
		}
		var paths [][]string
		for _, m := range objects[i].Members {
			if only(objects, i, m.Name) {
				paths = append(paths, []string{m.Name})
			}
		}
		if paths != nil {
			return i, paths
		}
	}
	for i, v := range vs {
		if !slices.ContainsFunc(vs, func(w variant) bool { return w.out != v.out && holds(w, v) }) {
			continue
		}
		for _, m := range objects[i].Members {
			inner := make([]*merge.Object, len(vs))
			for j, o := range objects {
				if inner[j] = b.inner(o, m.Name); inner[j] == nil && j != i {
					inner[j] = new(merge.Object)
				}
			}
			if inner[i] == nil {
				continue
			}
			var paths [][]string
			for _, key := range inner[i].Members {
				if only(inner, i, key.Name) {
					paths = append(paths, []string{m.Name, key.Name})
				}
			}
			if paths != nil {
				return i, paths
			}
		}
	}
	return -1, nil
}

// inner returns the object that is the required member of o called name, or nil.
func (b *builder) inner(o *merge.Object, name string) *merge.Object {
	m := o.Member(name)
	if m == nil || m.Required != o.In {
		return nil
	}
	inner, _ := b.g.Follow(m.Node).(*merge.Object)
	return inner
}

// exclusiveMember finds an object with a required member that no other one has.
func exclusiveMember(objects []*merge.Object) (int, string) {
	for i, o := range objects {
		for _, m := range o.Members {
			if m.Required == o.In && only(objects, i, m.Name) {
				return i, m.Name
			}
		}
	}
	return -1, ""
}

// only reports whether object i alone has the member called name.
func only(objects []*merge.Object, i int, name string) bool {
	for j, o := range objects {
		if j != i && o.Member(name) != nil {
			return false
		}
	}
	return true
}

// holds reports whether v requires all members that w requires.
func holds(w, v variant) bool {
	ov := v.node.(*merge.Object)
	ow := w.node.(*merge.Object)
	for _, m := range ow.Members {
		if m.Required == ow.In {
			if other := ov.Member(m.Name); other == nil || other.Required != ov.In {
				return false
			}
		}
	}
	return true
}

// lastKey returns the path of the member that identifies the last variant: a required member that
// is not constant. It prefers one that no other variant has, or that contains such a member.
func (b *builder) lastKey(v variant, all []variant) []string {
	others := slices.DeleteFunc(slices.Clone(all), func(w variant) bool { return w.out == v.out })
	o := v.node.(*merge.Object)
	var best, inside []string
	for _, m := range o.Members {
		if _, constant := m.Node.(*merge.Enum); constant || m.Required != o.In {
			continue
		}
		var inner []*merge.Object // the same member of the others
		for _, w := range others {
			if wm := w.node.(*merge.Object).Member(m.Name); wm != nil {
				wo, _ := b.g.Follow(wm.Node).(*merge.Object)
				inner = append(inner, wo)
			}
		}
		if inner == nil {
			return []string{m.Name}
		}
		if best == nil {
			best = []string{m.Name}
		}
		if mo, ok := b.g.Follow(m.Node).(*merge.Object); ok && inside == nil && !slices.Contains(inner, nil) {
			if i, key := exclusiveMember(append([]*merge.Object{mo}, inner...)); i == 0 {
				inside = []string{m.Name, key}
			}
		}
	}
	if inside != nil {
		return inside
	}
	return best
}

// unions makes the decisions that depend on all definitions: the unions that only the method table
// can decide, the unions of each struct, and the unions inside others.
func (b *builder) unions() error {
	for _, p := range b.pending {
		if base := b.byMethod(p, admits); base != nil {
			p.union.ByMethod = true
			p.union.Pick.Default = base
		}
		for _, v := range p.variants {
			switch t := v.out.Type.(type) {
			case *ir.Struct:
				t.Unions = append(t.Unions, p.union)
			case *ir.Wrapper:
				t.Unions = append(t.Unions, p.union)
			case *ir.External:
				return p.node.At().Errorf("the alternative %s is a type of package %s, which a union declared here cannot mark as its own; "+
					"generate without that base, or put the union there, too", v.name, t.Package)
			}
		}
	}
	return nil
}

// byMethod returns the base of a union of results: each variant is a result, and the base admits
// all of them according to admits. It returns nil for other unions.
func (b *builder) byMethod(p *pendingUnion, admits func(o *merge.Object, n merge.Node) bool) *ir.Variant {
	for _, v := range p.variants {
		if !strings.HasSuffix(v.name, "Result") {
			return nil
		}
	}
	var base variant
	for _, w := range p.variants {
		o, ok := w.node.(*merge.Object)
		if ok && len(p.variants) > 1 && !slices.ContainsFunc(p.variants, func(v variant) bool { return !admits(o, v.node) }) &&
			bits.OnesCount64(uint64(w.in)) > bits.OnesCount64(uint64(base.in)) {
			base = w // prefer the one that most revisions have
		}
	}
	return base.out
}

// holdsAny reports whether o requires no member and has no member that n has with another shape. It
// applies to unions without a discriminator.
func holdsAny(o *merge.Object, n merge.Node) bool {
	other, ok := n.(*merge.Object)
	return ok && !slices.ContainsFunc(o.Members, func(m *merge.Member) bool {
		om := other.Member(m.Name)
		return m.Required != 0 || om != nil && merge.Describe(om.Node) != merge.Describe(m.Node)
	})
}

// admits reports whether n has all members that o has.
func admits(o *merge.Object, n merge.Node) bool {
	other, ok := n.(*merge.Object)
	if !ok {
		return false
	}
	for _, m := range o.Members {
		// Ignore members that no revision of n has.
		if other.Member(m.Name) == nil && m.In&other.In != 0 {
			return false
		}
	}
	return true
}
