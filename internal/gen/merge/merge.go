package merge

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Merge resolves the documents and merges them into one graph. Docs are sorted from the oldest
// revision to the newest. Overrides may be nil. If two shapes cannot be reconciled, the error names
// both.
func Merge(docs []*load.Document, overrides *Overrides) (*Graph, error) {
	m := &merger{g: &Graph{Defs: map[string]*Def{}, Renamed: map[string]string{}}, refers: overrides.rows("refer"), settled: map[string]bool{}}
	for i, doc := range docs {
		m.g.Revisions = append(m.g.Revisions, doc.Revision)
		m.g.Files = append(m.g.Files, doc.File)
		r := &resolver{doc: doc, revs: 1 << i}
		defs, err := r.defs()
		if err != nil {
			return nil, err
		}
		overrides.rename(defs)
		m.add(defs)
	}
	if err := m.run(); err != nil {
		return nil, err
	}
	for _, row := range overrides.rows("rename") {
		if row.used {
			m.g.Renamed[row.Def] = row.As
		}
	}
	if err := overrides.refer(m); err != nil {
		return nil, err
	}
	if err := overrides.merged(m.g); err != nil {
		return nil, err
	}
	return m.g, nil
}

type merger struct {
	g       *Graph
	pending []fold
	refers  []*Override

	place   []string        // place being merged: the definition, then the path of members
	settled map[string]bool // places where a refer row ended a conflict
	folding []fold          // shapes that are being merged, outermost first
}

// fold is a shape that is still to be merged into a definition.
type fold struct {
	name string
	node Node
	in   Revs
}

// add records the definitions of the next newer document. All definitions are added before any
// shapes are merged, because merging follows references.
func (m *merger) add(defs map[string]*Def) {
	for name, d := range defs {
		m.pending = append(m.pending, fold{name, d.Node, d.In})
	}
}

func (m *merger) run() error {
	slices.SortStableFunc(m.pending, func(a, b fold) int {
		if c := a.in.First() - b.in.First(); c != 0 {
			return c
		}
		return compare(a.name, b.name)
	})
	// Start with the newest shape of each definition and merge the others into it, from new to old.
	// The shape that is merged in is always the older one.
	var older []fold
	for _, f := range slices.Backward(m.pending) {
		if m.g.Defs[f.name] == nil {
			m.g.Defs[f.name] = &Def{Name: f.name, Node: f.node, In: f.in}
		} else {
			older = append(older, f)
		}
	}
	m.pending = nil
	for _, f := range older {
		m.g.Defs[f.name].In |= f.in
		if err := m.fold(f.name, f.node, f.in); err != nil {
			return err
		}
	}
	return nil
}

// fold merges n, the shape in the older revisions in, into the definition called name.
func (m *merger) fold(name string, n Node, in Revs) error {
	d := m.g.Defs[name]
	outer := m.place
	m.place = []string{name}
	if slices.ContainsFunc(m.folding, func(f fold) bool { return f.name == name && f.node == n }) {
		m.place = outer // the definition refers to itself, so merging it would not end
		return m.conflict(n, d.Node)
	}
	m.folding = append(m.folding, fold{name, n, in})
	defer func() { m.folding = m.folding[:len(m.folding)-1] }()
	merged, err := m.merge(n, d.Node)
	m.place = outer
	if err != nil {
		return err
	}
	if o, ok := m.g.Defs[name].Node.(*Object); ok {
		o.In |= in
	}
	d.Node = merged
	return nil
}

// merge returns the shape that can hold the values of the older shape a and the newer shape b.
func (m *merger) merge(a, b Node) (Node, error) {
	if _, never := a.(*Never); never {
		return b, nil
	}
	if _, never := b.(*Never); never {
		return a, nil
	}
	if _, any := a.(*Any); any {
		return &Any{pos{b.At()}}, nil
	}
	if _, any := b.(*Any); any {
		return b, nil
	}
	ra, aref := a.(*Ref)
	rb, bref := b.(*Ref)
	switch {
	case aref && bref:
		return m.refs(ra, rb)
	case aref:
		return m.refAndShape(ra, b, b)
	case bref:
		return m.refAndShape(rb, a, a)
	}
	na, anull := a.(*Nullable)
	nb, bnull := b.(*Nullable)
	if anull || bnull {
		if anull {
			a = na.Node
		}
		if bnull {
			b = nb.Node
		}
		n, err := m.merge(a, b)
		return &Nullable{pos{b.At()}, n}, err
	}
	ua, aunion := a.(*Union)
	ub, bunion := b.(*Union)
	switch {
	case aunion && bunion:
		return m.unions(ua, ub)
	case aunion:
		return m.intoUnion(ua, b, m.revsOf(b))
	case bunion:
		return m.intoUnion(ub, a, m.revsOf(a))
	}
	switch b := b.(type) {
	case *Object:
		if a, ok := a.(*Object); ok {
			return m.objects(a, b)
		}
	case *Array:
		if a, ok := a.(*Array); ok {
			elem, err := m.inside("[]", a.Elem, b.Elem)
			return &Array{b.pos, elem}, err
		}
	case *Scalar:
		switch a := a.(type) {
		case *Scalar:
			return &Scalar{b.pos, a.Kinds | b.Kinds}, nil
		case *Enum:
			if b.Kinds&a.Kind() != 0 {
				return b, nil
			}
		}
	case *Enum:
		switch a := a.(type) {
		case *Scalar:
			if a.Kinds == b.Kind() { // an enum decodes unknown values too
				return b, nil
			}
		case *Enum:
			if a.Kind() == b.Kind() {
				return a.And(b), nil
			}
		}
	}
	return nil, m.conflict(a, b)
}

// inside merges shapes at one step below the shapes being merged. A refer row can resolve a
// conflict: each of the shapes then belongs to the definition.
func (m *merger) inside(step string, a, b Node) (Node, error) {
	m.place = append(m.place, step)
	defer func() { m.place = m.place[:len(m.place)-1] }()
	n, err := m.merge(a, b)
	if err == nil {
		return n, nil
	}
	row := firstMatch(m.refers, m.place[0], strings.TrimPrefix(strings.Join(m.place[1:], ""), "/"))
	if row == nil || m.g.Defs[row.As] == nil {
		return nil, err
	}
	ref := func(n Node) (Node, error) {
		if _, ok := n.(*Object); !ok {
			return n, nil
		}
		return &Ref{pos{n.At()}, row.As, m.revsOf(n)}, m.fold(row.As, n, m.revsOf(n))
	}
	if a, err = ref(a); err != nil {
		return nil, err
	}
	if b, err = ref(b); err != nil {
		return nil, err
	}
	row.used = true
	m.settled[strings.Join(m.place, "")] = true
	return m.merge(a, b)
}

func (m *merger) conflict(a, b Node) error {
	if len(m.place) < 2 {
		return b.At().Errorf("the definition cannot be merged with the shape that it has at %s#%s; generate the revisions into packages of their own",
			a.At().Doc.File, a.At().Pointer)
	}
	return b.At().Errorf("cannot be merged with the shape at %s#%s; if a definition describes the one that is an object, say so with a refer row for %q in the overrides, "+
		"or else generate the revisions into packages of their own", a.At().Doc.File, a.At().Pointer, strings.Join(m.place, ""))
}

// Kind is the JSON type of the values: KindString, KindInteger or KindBool.
func (e *Enum) Kind() Kinds { return e.Values[0].kind() }

// Text returns the value of a string, or the JSON text of any other value.
func (v *EnumValue) Text() string {
	var text string
	if json.Unmarshal([]byte(v.JSON), &text) != nil {
		return v.JSON
	}
	return text
}

func (v *EnumValue) kind() Kinds {
	switch v.JSON[0] {
	case '"':
		return KindString
	case 't', 'f':
		return KindBool
	}
	return KindInteger
}

// refs merges references to different definitions. It returns the one that can hold both.
func (m *merger) refs(a, b *Ref) (Node, error) {
	in := a.In | b.In
	if a.Name == b.Name {
		return &Ref{b.pos, b.Name, in}, nil
	}
	na, nb := m.g.Follow(a), m.g.Follow(b)
	oa, aobj := na.(*Object)
	ob, bobj := nb.(*Object)
	switch {
	case aobj && oa.Open() && bobj:
		return &Ref{b.pos, b.Name, in}, nil
	case bobj && ob.Open() && aobj:
		return &Ref{a.pos, a.Name, in}, nil
	}
	if u, ok := nb.(*Union); ok && refersTo(u, a.Name) {
		return &Ref{b.pos, b.Name, in}, nil
	}
	if u, ok := na.(*Union); ok && refersTo(u, b.Name) {
		return &Ref{a.pos, a.Name, in}, nil
	}
	if _, ok := nb.(*Scalar); ok {
		if _, err := m.merge(na, nb); err == nil {
			return &Ref{b.pos, b.Name, in}, nil
		}
	}
	return nil, m.conflict(a, b)
}

func refersTo(u *Union, name string) bool {
	return slices.ContainsFunc(u.Variants, func(v *Variant) bool {
		r, ok := v.Node.(*Ref)
		return ok && r.Name == name
	})
}

// refAndShape merges an inline shape into the definition that the other revision refers to.
func (m *merger) refAndShape(r *Ref, n, at Node) (Node, error) {
	if u, ok := n.(*Union); ok && refersTo(u, r.Name) {
		return m.intoUnion(u, r, r.In)
	}
	if _, scalar := m.g.Follow(r).(*Scalar); scalar {
		return m.merge(m.g.Follow(r), n)
	}
	if err := m.fold(r.Name, n, m.revsOf(n)); err != nil {
		return nil, err
	}
	return &Ref{pos{at.At()}, r.Name, r.In | m.revsOf(n)}, nil
}

// revsOf returns the revisions that have the shape n. For a shape that does not record them, it
// returns the revision of its document.
func (m *merger) revsOf(n Node) Revs {
	switch n := n.(type) {
	case *Object:
		return n.In
	case *Ref:
		return n.In
	case *Union:
		var in Revs
		for _, v := range n.Variants {
			in |= v.In
		}
		return in
	}
	return 1 << slices.Index(m.g.Revisions, n.At().Doc.Revision)
}

func (m *merger) objects(a, b *Object) (Node, error) {
	o := &Object{pos: b.pos, In: a.In | b.In, Struct: a.Struct || b.Struct, Extensible: a.Extensible || b.Extensible}
	var err error
	if o.Rest, err = m.inside("{}", a.Rest, b.Rest); err != nil {
		return nil, err
	}
	for _, mb := range b.Members {
		c := *mb
		if ma := a.Member(mb.Name); ma != nil {
			c.In |= ma.In
			c.Required |= ma.Required
			if c.Node, err = m.inside("/"+mb.Name, ma.Node, mb.Node); err != nil {
				return nil, err
			}
		}
		o.Members = append(o.Members, &c)
	}
	for _, ma := range a.Members {
		if b.Member(ma.Name) == nil {
			o.Members = append(o.Members, ma)
		}
	}
	slices.SortFunc(o.Members, func(a, b *Member) int { return compare(a.Name, b.Name) })
	return o, nil
}

func (m *merger) unions(a, b *Union) (Node, error) {
	for _, v := range a.Variants {
		var err error
		if b, err = m.intoUnion(b, v.Node, v.In); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// intoUnion adds the shape n of the revisions in to u, in the variant that can hold it or as a new
// one.
func (m *merger) intoUnion(u *Union, n Node, in Revs) (*Union, error) {
	out := &Union{pos: u.pos}
	for _, v := range u.Variants {
		c := *v
		out.Variants = append(out.Variants, &c)
	}
	if r, ok := n.(*Ref); ok {
		for _, v := range out.Variants {
			if vr, ok := v.Node.(*Ref); ok && vr.Name == r.Name {
				v.In |= in
				return out, nil
			}
		}
		out.Variants = append(out.Variants, &Variant{n, in})
		return out, nil
	}
	var fits []int
	for i, v := range u.Variants {
		if m.fits(n, m.g.Follow(v.Node)) {
			fits = append(fits, i)
		}
	}
	if _, isObject := n.(*Object); isObject && len(fits) != 1 {
		return nil, n.At().Errorf("this object can be merged with %d variants of the union that another revision has at %s#%s, not with exactly one; "+
			"say which definition describes it with a refer row for %q in the overrides", len(fits), u.At().Doc.File, u.At().Pointer, strings.Join(m.place, ""))
	}
	if len(fits) == 0 {
		out.Variants = append(out.Variants, &Variant{n, in})
		return out, nil
	}
	v := out.Variants[fits[0]]
	v.In |= in
	merged, err := m.merge(n, v.Node)
	v.Node = merged
	return out, err
}

// fits reports whether variant v can hold shape n: it has the same JSON type and, if it is an
// object, every member of n.
func (m *merger) fits(n, v Node) bool {
	switch n := n.(type) {
	case *Object:
		o, ok := v.(*Object)
		if !ok {
			return false
		}
		for _, mem := range n.Members {
			other := o.Member(mem.Name)
			if other == nil || !compatible(m.g.Follow(mem.Node), m.g.Follow(other.Node)) {
				return false
			}
		}
		return true
	case *Array:
		_, ok := v.(*Array)
		return ok
	case *Scalar, *Enum:
		_, ok := v.(*Scalar)
		return ok
	}
	return false
}

// compatible reports whether a and b can be shapes of the same member: if a is a constant, b must
// admit it.
func compatible(a, b Node) bool {
	ea, ok := a.(*Enum)
	if !ok || !ea.Const {
		return true
	}
	eb, ok := b.(*Enum)
	return ok && slices.ContainsFunc(eb.Values, func(v *EnumValue) bool { return v.JSON == ea.Values[0].JSON })
}

// And returns the enum of the values of b and of a, in that order.
func (a *Enum) And(b *Enum) *Enum {
	e := &Enum{pos: b.pos, Const: a.Const && b.Const}
	for _, v := range b.Values {
		c := *v
		e.Values = append(e.Values, &c)
	}
	for _, v := range a.Values {
		i := slices.IndexFunc(e.Values, func(w *EnumValue) bool { return w.JSON == v.JSON })
		if i < 0 {
			e.Values = append(e.Values, v)
			e.Const = false
		} else {
			e.Values[i].In |= v.In
		}
	}
	return e
}
