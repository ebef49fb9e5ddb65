// Package plan decides the Go package for a merged graph: names, types, presence, the
// discriminators of unions, and the method table. Its result determines the output of package emit.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// Config configures [Build].
type Config struct {
	Name      string // package name
	Doc       string // package comment, after "Package NAME "
	Overrides *merge.Overrides
	Docs      Docs     // nil for no documentation
	Link      LinkFunc // page of the specification for a definition, or nil
	Messages  *Messages
	// Capabilities lists the capabilities that messages need, or is nil.
	Capabilities *Capabilities
	// Note gets what the plan had to decide by itself, such as a second name for a type. If it is
	// nil, there is an error instead.
	Note func(*load.Error)
	Base *Base // generated package whose types are used where definitions are the same, or nil
}

// Docs supplies documentation; an empty text means that there is none.
type Docs interface {
	Definition(rev, name string) string
	Field(rev, def, path string) string // see predicate
	Value(rev, def, path, value string) string
}

// LinkFunc returns the address of the page that specifies the definition in a revision.
type LinkFunc func(rev, def string) string

// Base is a package generated before.
type Base struct {
	Path    string                // import path
	Package *ir.Package           //
	Same    func(def string) bool // whether a definition is the same in both
}

// Build decides the package for g.
func Build(g *merge.Graph, c Config) (*ir.Package, error) {
	b := &builder{Config: c, g: g, defs: map[string]ir.Type{}, inline: map[string]ir.Type{}, taken: map[string]string{}, free: map[string]bool{},
		named: map[string]bool{}, objects: map[*ir.Struct]*merge.Object{}}
	if b.Messages == nil {
		b.Messages = protocolMessages()
	}
	b.defNames = map[string]string{}
	b.pkg = &ir.Package{Name: c.Name, Doc: c.Doc}
	for _, label := range g.Revisions {
		b.pkg.Revisions = append(b.pkg.Revisions, ir.Revision{Label: label, Const: "Revision" + strings.TrimPrefix(goName(label), "X")})
	}
	for _, name := range g.Names() {
		if err := b.wide(g.Defs[name].Node); err != nil {
			return nil, err
		}
	}
	b.joinAlike()
	b.messages()
	b.findFree()
	b.pkg.Sides, b.pkg.Plain = [2]string{b.Messages.Client, b.Messages.Server}, b.Messages.own
	for _, name := range b.Messages.reservedNames() {
		b.taken[name] = "the generated package itself"
	}
	for i, r := range b.pkg.Revisions {
		if by, ok := b.taken[r.Const]; ok {
			return nil, &load.Error{File: g.Files[i], Message: fmt.Sprintf(
				"the Go name %s of revision %q is taken by %s; choose another label", r.Const, r.Label, by)}
		}
		b.taken[r.Const] = "the revision " + r.Label
	}
	// Definitions take their names before any inline shape does.
	for _, name := range g.Names() {
		if !b.external(name) {
			own := b.unowned(b.defName(name), name, g.Defs[name].Node)
			if err := b.claim(own, name, g.Defs[name].Node); err != nil {
				return nil, err
			}
			b.named[own], b.defNames[name] = true, own
		}
	}
	// Definitions composed of others come after those, so that an inline shape is named after the
	// definition that contains it.
	for _, composed := range []bool{false, true} {
		for _, name := range g.Names() {
			if at := g.Defs[name].Node.At(); composed != (at.Ref != "" || at.AllOf != nil) {
				continue
			}
			if _, err := b.def(name); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range g.Names() {
		b.pkg.Defs = append(b.pkg.Defs, &ir.Def{Name: name, Type: b.defs[name], Base: b.external(name)})
	}
	for old, now := range g.Renamed {
		if err := b.renamed(old, now); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(b.pkg.Defs, func(a, b *ir.Def) int { return cmp.Compare(a.Name, b.Name) })
	finite := map[*ir.Struct]bool{}
	for _, st := range b.pkg.Structs {
		if err := b.finite(st, finite); err != nil {
			return nil, err
		}
	}
	if err := b.unions(); err != nil {
		return nil, err
	}
	if err := b.picks(); err != nil {
		return nil, err
	}
	if err := b.methods(); err != nil {
		return nil, err
	}
	if err := b.capabilities(); err != nil {
		return nil, err
	}
	b.dropEnvelopes()
	b.finish()
	if err := b.conversions(); err != nil {
		return nil, err
	}
	b.projections()
	return b.pkg, nil
}

// reserved are names that the generated package declares for itself. Those with the name of a side
// are in [Messages].
var reserved = []string{"Revision", "Value", "Unknown", "New", "Validate", "ValidateParams", "Definitions", "Method", "Methods", "LookupMethod",
	"DecodeParams", "DecodeResult", "ReadMethodParams", "ReadMethodResult", "Direction", "Revisions", "ParamsNeed", "Project"}

type builder struct {
	Config
	g   *merge.Graph
	pkg *ir.Package

	defs   map[string]ir.Type // by definition name
	inline map[string]ir.Type // shared inline enums and unions, by content
	taken  map[string]string  // owner of each Go name in use
	named  map[string]bool    // Go names that definitions have

	defNames map[string]string // Go names by definition, once decided
	seconds  []second
	free     map[string]bool // definitions that do not limit the shape of values

	objects map[*ir.Struct]*merge.Object // the shape that each struct was made from

	// pending lists the unions that still need a discriminator, with their variants.
	pending []*pendingUnion
	// others lists further uses of a union that was declared for another place.
	others []other
}

// other is a place with the alternatives flat. Their type is t, a union or a OneOrMany.
type other struct {
	t    ir.Type
	flat []variant
}

type pendingUnion struct {
	union    *ir.Union
	node     *merge.Union
	variants []variant
}

// variant pairs a union's alternative in the graph with its Go type.
type variant struct {
	node merge.Node // with references followed
	name string     // definition, or ""
	in   merge.Revs
	out  *ir.Variant
}

// claim reserves a Go name for n. It fails if the name has an owner. At is the place for a name row
// that changes the name, or "" if no row can.
func (b *builder) claim(name, at string, n merge.Node) error {
	if owner, ok := b.taken[name]; ok {
		row := ""
		if at != "" {
			row = fmt.Sprintf(", this one with a name row for %q in the overrides", at)
		}
		return n.At().Errorf("the Go name %s is taken by %s; one of them needs another%s", name, owner, row)
	}
	b.taken[name] = n.At().Doc.File + "#" + n.At().Pointer
	return nil
}

func (b *builder) external(name string) bool { return b.Base != nil && b.Base.Same(name) }

// scope is the place of a shape in the graph.
type scope struct {
	def  string // definition
	path string // documentation path below it, such as "tasks.requests" or "items[]"
	at   string // place for name rows: "Def/member/member"
	name string // Go name that a type declared here gets
	in   merge.Revs
	null bool // s is a definition that may be null
	part bool // s is a part of the definition itself, not of a member
}

// isDef reports whether s is a definition and not a place inside one.
func (s scope) isDef() bool { return s.path == "" && !s.part }

func (s scope) member(m *merge.Member) scope {
	outer := s.name
	if s.path == "error" && strings.HasSuffix(outer, "ErrorError") {
		outer = strings.TrimSuffix(outer, "Error") // XErrorData is error.data of XError
	}
	c := scope{def: s.def, at: s.at + "/" + m.Name, name: outer + goName(m.Name), in: m.In}
	c.part = m.Name == "" // its path is that of the definition
	if c.path = m.Name; s.path != "" {
		c.path = s.path + "." + m.Name
	}
	return c
}

func (s scope) elem(mark, suffix string) scope {
	s.path += mark
	s.at += mark
	s.name += suffix
	return s
}

// declare chooses the Go name for a type declared at s.
func (b *builder) declare(s scope, n merge.Node) (string, error) {
	if s.isDef() {
		return s.name, nil // claimed before
	}
	if name, ok := b.Overrides.Name(s.at); ok {
		return name, b.claim(name, s.at, n)
	}
	if b.named[s.name] { // by a definition, which may be unrelated
		s.name += "Value"
	}
	s.name = b.unowned(s.name, s.at, n)
	return s.name, b.claim(s.name, s.at, n)
}

// defName returns the Go name of a definition.
func (b *builder) defName(def string) string {
	if name := b.defNames[def]; name != "" {
		return name
	}
	if name, ok := b.Overrides.Name(def); ok {
		return name
	}
	return goName(def)
}

// def returns the type of the definition called name. It builds the type on first use.
func (b *builder) def(name string) (ir.Type, error) {
	if t := b.defs[name]; t != nil {
		return t, nil
	}
	d := b.g.Defs[name]
	if b.external(name) {
		for _, other := range b.Base.Package.Defs {
			if other.Name == name {
				b.defs[name] = b.fromBase(other.Type)
				return b.defs[name], nil
			}
		}
		return nil, d.Node.At().Errorf("package %s has no type for it", b.Base.Path)
	}
	s := scope{def: name, at: name, name: b.defName(name), in: d.In}
	if o, ok := d.Node.(*merge.Object); ok {
		s.in |= o.In
	}
	doc := b.doc(s, d.Node)
	node := d.Node
	if n, ok := node.(*merge.Nullable); ok {
		node, s.null = n.Node, true
	}
	if u, ok := node.(*merge.Union); ok {
		s.null = s.null || b.mayBeNull(u)
		if flat := b.flatten(u); len(flat) == 1 && flat[0].name == "" {
			node = flat[0].node
		}
	}
	var err error
	switch n := node.(type) {
	case *merge.Object:
		if !b.isFree(n) && (len(n.Members) > 0 || n.Struct) {
			// Define the struct before its members are built, so that they can refer back to it.
			st := &ir.Struct{GoName: s.name, Def: name, Doc: doc}
			b.define(s, st)
			err = b.fillStruct(st, n, s)
		}
	case *merge.Union:
		if !b.isFree(n) && len(b.flatten(n)) > 1 {
			_, err = b.union(n, s)
		}
	case *merge.Enum:
		if n.Kind() != merge.KindBool {
			_, err = b.enum(n, s)
		}
	}
	if t := b.defs[name]; t != nil || err != nil {
		return t, err
	}
	s.null, s.part = false, true
	alias := &ir.Alias{GoName: s.name, Def: name, Doc: doc}
	b.defs[name] = alias
	t, err := b.typ(d.Node, s)
	if err != nil {
		return nil, err
	}
	alias.Type = t
	b.pkg.Aliases = append(b.pkg.Aliases, alias)
	return alias, nil
}

// define makes t the type of the definition at s.
func (b *builder) define(s scope, t ir.Type) {
	if s.null {
		t = &ir.Nullable{Elem: t}
	}
	b.defs[s.def] = t
}

// fromBase returns the reference to t, a type of the base package.
func (b *builder) fromBase(t ir.Type) ir.Type {
	switch u := t.(type) {
	case *ir.Struct, *ir.Union, *ir.Enum, *ir.Alias, *ir.OneOrMany, *ir.Wrapper:
		return &ir.External{Package: b.Base.Package.Name, Type: t}
	case *ir.Nullable:
		return &ir.Nullable{Elem: b.fromBase(u.Elem)}
	}
	return t
}

// renamed gives the old name of a definition to the type of the new one.
func (b *builder) renamed(old, now string) error {
	if b.g.Defs[old] != nil {
		return nil
	}
	n := b.g.Defs[now].Node
	name := b.defName(old)
	if err := b.claim(name, old, n); err != nil {
		return err
	}
	var before merge.Revs
	for i, label := range b.g.Revisions {
		if b.docText(label, old) != "" {
			before |= 1 << i
		}
	}
	b.pkg.Aliases = append(b.pkg.Aliases, &ir.Alias{GoName: name, Def: old, Type: b.defs[now],
		Doc: ir.Doc{Text: fmt.Sprintf("%s is the name that older revisions give to %s.", name, b.defName(now))}})
	b.pkg.Defs = append(b.pkg.Defs, &ir.Def{Name: old, Type: b.defs[now], Base: b.external(now)})
	return nil
}

func (b *builder) docText(rev, def string) string {
	if b.Docs == nil {
		return ""
	}
	return b.Docs.Definition(rev, def)
}

// typ returns the Go type for n.
func (b *builder) typ(n merge.Node, s scope) (ir.Type, error) {
	const maxLists = 32 // the Go compiler fails on types that are nested much deeper
	if b.isFree(n) {
		return b.raw(n), nil
	}
	switch n := n.(type) {
	case *merge.Ref:
		return b.def(n.Name)
	case *merge.Object:
		if len(n.Members) == 0 && !n.Struct {
			elem, err := b.elem(n.Rest, s.elem("{}", "Value"))
			return &ir.Map{Elem: elem}, err
		}
		name, err := b.declare(s, n)
		if err != nil {
			return nil, err
		}
		s.name = name
		st := &ir.Struct{GoName: name, Doc: b.doc(s, n)}
		return st, b.fillStruct(st, n, s)
	case *merge.Array:
		if strings.HasSuffix(s.path, strings.Repeat("[]", maxLists)) {
			return nil, n.At().Errorf("more than %d lists inside each other; give one of them a definition of its own that is an object", maxLists)
		}
		elem, err := b.elem(n.Elem, s.elem("[]", "Item"))
		return &ir.List{Elem: elem}, err
	case *merge.Union:
		t, err := b.union(n, s)
		if err == nil && b.mayBeNull(n) {
			t = &ir.Nullable{Elem: notNull(t)}
		}
		return t, err
	case *merge.Enum:
		switch kind := n.Kind(); {
		case kind == merge.KindBool:
			return ir.Bool, nil
		case len(n.Values) > 1:
			return b.enum(n, s)
		case kind == merge.KindString:
			return ir.String, nil
		}
		return ir.Int, nil
	case *merge.Scalar:
		return scalar(n.Kinds), nil
	case *merge.Nullable:
		t, err := b.typ(n.Node, s)
		return &ir.Nullable{Elem: notNull(t)}, err
	case *merge.Any, *merge.Never:
		return ir.RawAny, nil
	}
	panic(fmt.Sprintf("unreachable: %T", n))
}

// elem is typ for the elements of lists and maps, where no Extra can keep the exact text of a
// number.
func (b *builder) elem(n merge.Node, s scope) (ir.Type, error) {
	t, err := b.typ(n, s)
	if t == nil || err != nil {
		return nil, err
	}
	return exact(t), nil
}

// exact replaces integers and floats, however named, by the type that keeps their text.
func exact(t ir.Type) ir.Type {
	under := resolveAlias(t)
	if e, ok := under.(*ir.External); ok {
		under = resolveAlias(e.Type)
	}
	switch u := under.(type) {
	case ir.Prim:
		if u == ir.Int || u == ir.Float {
			return ir.Number
		}
	case *ir.Nullable:
		if e := exact(u.Elem); e != u.Elem {
			return &ir.Nullable{Elem: e}
		}
	}
	return t
}

// notNull returns t without null.
func notNull(t ir.Type) ir.Type {
	if n, ok := resolveAlias(t).(*ir.Nullable); ok {
		return n.Elem
	}
	return t
}

func scalar(k merge.Kinds) ir.Type {
	switch k {
	case merge.KindString:
		return ir.String
	case merge.KindBool:
		return ir.Bool
	case merge.KindInteger:
		return ir.Int
	case merge.KindNumber, merge.KindNumber | merge.KindInteger:
		return ir.Float
	}
	return &ir.Scalar{String: k&merge.KindString != 0, Integer: k&merge.KindInteger != 0, Number: k&merge.KindNumber != 0, Bool: k&merge.KindBool != 0}
}

func (b *builder) fillStruct(st *ir.Struct, n *merge.Object, s scope) error {
	b.objects[st] = n
	st.In = ir.Revs(n.In)
	b.pkg.Structs = append(b.pkg.Structs, st)
	names := map[string]string{"Extra": "the struct's own field for unknown members", "Validate": "a method", "EncodeJSON": "a method",
		"DecodeJSON": "a method", "MarshalJSON": "a method", "UnmarshalJSON": "a method", "AppendJSON": "a method"}
	members := slices.Clone(n.Members)
	members = slices.DeleteFunc(members, func(m *merge.Member) bool {
		_, never := m.Node.(*merge.Never)
		return never
	})
	required := func(m *merge.Member) bool { return m.Required == n.In }
	bit := 0
	for _, m := range members {
		ms := s.member(m)
		f := &ir.Field{JSON: m.Name, GoName: goName(m.Name), In: ir.Revs(m.In), Bit: -1}
		if as, ok := b.Overrides.Field(ms.at); ok {
			f.GoName = as
		}
		f.Doc = b.fieldDoc(ms, f.GoName, m, n)
		if e, ok := m.Node.(*merge.Enum); ok && len(e.Values) == 1 && e.Kind() != merge.KindBool {
			f.Const = e.Values[0].JSON
			if required(m) {
				f.GoName = ""
			}
		}
		if f.GoName != "" {
			for i, name := 2, f.GoName; b.Note != nil && names[f.GoName] != ""; i++ {
				f.GoName = name + strconv.Itoa(i)
			}
			if other := names[f.GoName]; other != "" {
				return m.Node.At().Errorf("the member %q would have the Go name %s, which is that of %s; "+
					"give it another with a field row for %q in the overrides", m.Name, f.GoName, other, ms.at)
			}
			names[f.GoName] = fmt.Sprintf("member %q", m.Name)
		}
		var err error
		if f.Type, err = b.typ(m.Node, ms); err != nil {
			return err
		}
		if required(m) {
			f.Bit = bit
			bit++
		} else if f.Presence = ir.Pointer; nilMeansAbsent(f.Type) {
			f.Presence = ir.NilEmpty
		}
		_, closed := n.Rest.(*merge.Never)
		f.Open = m.In != n.In && !closed && f.Type != ir.RawAny
		st.Fields = append(st.Fields, f)
	}
	st.Required = bit
	for _, f := range st.Fields {
		if f.Bit < 0 {
			f.Bit = bit
			bit++
		}
	}
	if _, never := n.Rest.(*merge.Never); !never && !b.isFree(n.Rest) {
		if names["AdditionalProperties"] != "" {
			return n.At().Errorf("%s would have the Go name AdditionalProperties, which is that of the field for all other members; "+
				"give it another with a field row in the overrides", names["AdditionalProperties"])
		}
		rest, err := b.elem(n.Rest, s.elem("{}", "Value"))
		if err != nil {
			return err
		}
		st.Rest = rest
	}
	return nil
}

// finite fails if each value of st must contain another value of st. Known is false for the structs
// that contain st and true for those that are finite.
func (b *builder) finite(st *ir.Struct, known map[*ir.Struct]bool) error {
	if done, seen := known[st]; seen {
		if !done {
			return b.objects[st].At().Errorf("each object of this kind must contain another one in its required members, so that it never ends; " +
				"one of them must be optional")
		}
		return nil
	}
	known[st] = false
	for _, f := range st.Fields {
		if child, ok := resolveAlias(f.Type).(*ir.Struct); ok && f.Presence == ir.Plain {
			if err := b.finite(child, known); err != nil {
				return err
			}
		}
	}
	known[st] = true
	return nil
}

func nilMeansAbsent(t ir.Type) bool {
	switch t := t.(type) {
	case *ir.List, *ir.Map, ir.Raw, *ir.Scalar, *ir.Union:
		return true
	case *ir.Alias:
		return nilMeansAbsent(t.Type)
	case *ir.External:
		return nilMeansAbsent(t.Type)
	}
	return false
}

func (b *builder) enum(n *merge.Enum, s scope) (ir.Type, error) {
	key := "enum"
	for _, v := range n.Values {
		key += " " + v.JSON
	}
	if t := b.inline[key]; t != nil && !s.isDef() {
		return t, nil
	}
	name, err := b.declare(s, n)
	if err != nil {
		return nil, err
	}
	s.name = name
	e := &ir.Enum{GoName: name, Doc: b.doc(s, n), String: n.Values[0].JSON[0] == '"'}
	if s.isDef() {
		e.Def = s.def
		b.define(s, e)
	}
	for _, v := range n.Values {
		value := v.Text()
		c := ir.EnumValue{GoName: name + valueName(value), JSON: v.JSON}
		if as, ok := b.Overrides.Name(s.at + "=" + value); ok {
			c.GoName = as
		} else {
			c.GoName = b.unowned(c.GoName, s.at+"="+value, n)
		}
		if b.Docs != nil {
			c.Doc.Text = b.Docs.Value(b.g.Revisions[v.In.Last()], s.def, s.path, value)
		}
		c.Doc.Revisions = b.since(v.In, s.in)
		if err := b.claim(c.GoName, s.at+"="+value, n); err != nil {
			return nil, err
		}
		e.Values = append(e.Values, c)
	}
	b.inline[key] = e
	b.pkg.Enums = append(b.pkg.Enums, e)
	return e, nil
}

// union returns the type for a choice: an interface, or a simpler type for a choice between one
// value and a list of such values.
func (b *builder) union(n *merge.Union, s scope) (ir.Type, error) {
	flat := b.flatten(n)
	switch {
	case len(flat) == 0: // nothing but null
		return ir.RawAny, nil
	case len(flat) == 1 && flat[0].name != "":
		t, err := b.def(flat[0].name)
		return notNull(t), err
	case len(flat) == 1: // such as several scalars joined into one
		return b.typ(flat[0].node, s)
	}
	key := "union"
	for _, v := range flat {
		key += " " + b.shapeKey(v)
	}
	if t := b.inline[key]; t != nil && !s.isDef() {
		b.others = append(b.others, other{t, flat})
		return t, nil
	}
	if t, err := b.oneOrMany(n, flat, s); t != nil || err != nil {
		b.inline[key] = t
		b.others = append(b.others, other{t, flat})
		return t, err
	}
	name, err := b.declare(s, n)
	if err != nil {
		return nil, err
	}
	if err := b.claim("Decode"+name, s.at, n); err != nil {
		return nil, err
	}
	s.name = name
	u := &ir.Union{GoName: name, Doc: b.doc(s, n)}
	if s.isDef() {
		u.Def = s.def
		b.define(s, u)
	}
	b.inline[key] = u
	b.pkg.Unions = append(b.pkg.Unions, u)
	p := &pendingUnion{union: u, node: n}
	for _, v := range flat {
		out, err := b.variant(v, flat, s)
		if err != nil {
			return nil, err
		}
		v.out = &ir.Variant{Type: out, In: ir.Revs(v.in), Revs: b.since(v.in, s.in)}
		p.variants = append(p.variants, v)
		u.Variants = append(u.Variants, v.out)
	}
	b.pending = append(b.pending, p)
	return u, nil
}

// shapeKey returns a text that is equal for two alternatives if and only if they admit the same
// values.
func (b *builder) shapeKey(v variant) string {
	if v.name != "" {
		return v.name
	}
	return merge.Describe(v.node)
}

// flatten lists the alternatives of u and of unions inside it, each once. It joins lists into one
// list, scalars into one scalar, and enums of one type into one enum. It drops constants that a
// scalar admits.
func (b *builder) flatten(u *merge.Union) []variant {
	var out []variant
	var array *merge.Array
	var scalars *merge.Scalar
	enums := map[merge.Kinds]int{} // index in out
	var visit func(u *merge.Union, in merge.Revs)
	visit = func(u *merge.Union, in merge.Revs) {
		for _, v := range u.Variants {
			c := variant{node: b.g.Follow(v.Node), in: v.In & in}
			if r, ok := v.Node.(*merge.Ref); ok {
				c.name = b.lastRef(r)
			}
			if n, ok := c.node.(*merge.Nullable); ok { // see mayBeNull
				c.node = b.g.Follow(n.Node)
			}
			// also adds the revisions of c to the alternative for node.
			also := func(node merge.Node) {
				i := slices.IndexFunc(out, func(o variant) bool { return o.node == node })
				out[i].in |= c.in
			}
			switch n := c.node.(type) {
			case *merge.Never:
				continue
			case *merge.Union:
				visit(n, c.in)
				continue
			case *merge.Array:
				if array != nil {
					array.Elem = b.join(array.Elem, n.Elem)
					also(array)
					continue
				}
				copied := *n
				array, c.node, c.name = &copied, &copied, ""
			case *merge.Scalar:
				if scalars != nil {
					scalars.Kinds |= n.Kinds
					also(scalars)
					continue
				}
				copied := *n
				scalars, c.node, c.name = &copied, &copied, ""
			case *merge.Enum:
				if i, ok := enums[n.Kind()]; ok {
					if b.shapeKey(out[i]) != b.shapeKey(c) {
						out[i].node, out[i].name = n.And(out[i].node.(*merge.Enum)), ""
					}
					out[i].in |= c.in
					continue
				}
				enums[n.Kind()] = len(out)
			}
			if i := slices.IndexFunc(out, func(o variant) bool { return b.shapeKey(o) == b.shapeKey(c) }); i >= 0 {
				out[i].in |= c.in
			} else {
				out = append(out, c)
			}
		}
	}
	visit(u, b.all())
	for i, v := range out {
		if v.in == 0 { // the union and the reference to it are from different revisions
			out[i].in = b.all()
		}
	}
	return slices.DeleteFunc(out, func(v variant) bool {
		e, ok := v.node.(*merge.Enum)
		return ok && scalars != nil && scalars.Kinds&e.Kind() != 0
	})
}

// mayBeNull reports whether an alternative of u is a definition that may be null. Null is
// then a value of the whole union.
func (b *builder) mayBeNull(u *merge.Union) bool {
	return slices.ContainsFunc(u.Variants, func(v *merge.Variant) bool {
		switch n := b.g.Follow(v.Node).(type) {
		case *merge.Nullable:
			return true
		case *merge.Union:
			return b.mayBeNull(n)
		}
		return false
	})
}

// lastRef returns the name of the definition at the end of a chain of references.
func (b *builder) lastRef(r *merge.Ref) string {
	for {
		next, ok := b.g.Defs[r.Name].Node.(*merge.Ref)
		if !ok {
			return r.Name
		}
		r = next
	}
}

// join returns the union of two shapes.
func (b *builder) join(x, y merge.Node) merge.Node {
	u := merge.NewUnion(x.At())
	for _, n := range []merge.Node{x, y} {
		if sub, ok := b.g.Follow(n).(*merge.Union); ok {
			u.Variants = append(u.Variants, sub.Variants...)
		} else {
			u.Variants = append(u.Variants, &merge.Variant{Node: n, In: b.all()})
		}
	}
	return u
}

// oneOrMany recognizes a union of some shapes and of a list of the same shapes.
func (b *builder) oneOrMany(n *merge.Union, flat []variant, s scope) (ir.Type, error) {
	i := slices.IndexFunc(flat, func(v variant) bool { _, ok := v.node.(*merge.Array); return ok })
	if i < 0 || len(flat) == 1 || s.path == "" {
		return nil, nil
	}
	elem := flat[i].node.(*merge.Array).Elem
	var inside []variant
	if u, ok := b.g.Follow(elem).(*merge.Union); ok {
		inside = b.flatten(u)
	} else if r, ok := elem.(*merge.Ref); ok {
		inside = []variant{{node: b.g.Follow(r), name: b.lastRef(r)}}
	}
	if len(inside) != len(flat)-1 {
		return nil, nil
	}
	for j, v := range flat {
		if j != i && !slices.ContainsFunc(inside, func(w variant) bool { return w.name != "" && w.name == v.name }) {
			return nil, nil
		}
	}
	name, err := b.declare(s, n)
	if err != nil {
		return nil, err
	}
	s.name = name
	t, err := b.elem(elem, scope{def: s.def, path: s.path + "[]", at: s.at + "[]", name: name + "Item", in: s.in})
	if err != nil {
		return nil, err
	}
	o := &ir.OneOrMany{GoName: name, Doc: b.doc(s, n), Elem: t}
	b.pkg.OneOrMany = append(b.pkg.OneOrMany, o)
	return o, nil
}

// variant returns the Go type for one alternative: a struct, or a wrapper around any other type.
func (b *builder) variant(v variant, all []variant, s scope) (ir.Type, error) {
	if v.name != "" {
		t, err := b.def(v.name)
		if err != nil {
			return nil, err
		}
		t = notNull(t)
		switch e := t.(type) {
		case *ir.Struct:
			return t, nil
		case *ir.External:
			if _, ok := e.Type.(*ir.Struct); ok {
				return t, nil
			}
		}
	}
	if o, ok := v.node.(*merge.Object); ok && !b.isFree(o) && len(o.Members) > 0 {
		vs := s
		own := variantName(o, all)
		vs.name += own
		vs.at += "/" + own
		name, err := b.declareVariant(vs, o)
		if err != nil {
			return nil, err
		}
		vs.name = name
		st := &ir.Struct{GoName: name, Doc: ir.Doc{Text: fmt.Sprintf("%s is a variant of [%s].", name, s.name)}}
		return st, b.fillStruct(st, o, vs)
	}
	suffix := map[string]string{"Array": "List", "Object": "Object", "String": "String", "Number": "Number", "Bool": "Bool"}
	kinds := b.kinds(v.node)
	name := "Scalar"
	if len(kinds) == 1 {
		name = suffix[kinds[0]]
	}
	vs := s
	vs.name += name
	vs.at += "/" + name
	name, err := b.declareVariant(vs, v.node)
	if err != nil {
		return nil, err
	}
	inner := vs
	inner.name, inner.part = name, true
	if _, ok := v.node.(*merge.Enum); ok {
		inner.name += "Value"
	}
	t, err := b.elem(v.node, inner)
	if err != nil {
		return nil, err
	}
	w := &ir.Wrapper{GoName: name, Doc: ir.Doc{Text: fmt.Sprintf("%s is the variant of [%s] that is %s.", name, s.name, kindWords(kinds))}, Type: t}
	b.pkg.Wrappers = append(b.pkg.Wrappers, w)
	return w, nil
}

func (b *builder) declareVariant(s scope, n merge.Node) (string, error) {
	if name, ok := b.Overrides.Name(s.at); ok {
		s.name = name
	} else {
		if b.Note != nil && b.named[s.name] { // often the definition that the variant adds a constant to
			s.name += "Variant"
		}
		s.name = b.unowned(s.name, s.at, n)
	}
	return s.name, b.claim(s.name, s.at, n)
}

func kindWords(kinds []string) string {
	text := map[string]string{"Array": "a list", "Object": "an object", "String": "a string", "Number": "a number", "Bool": "a boolean"}
	var out []string
	for _, k := range kinds {
		out = append(out, text[k])
	}
	return strings.Join(out, " or ")
}

// variantName names an inline variant after a constant or a required member. It prefers a member
// that no other variant has.
func variantName(o *merge.Object, all []variant) string {
	shared := func(name, value string) bool {
		return slices.ContainsFunc(all, func(v variant) bool {
			other, ok := v.node.(*merge.Object)
			return ok && other != o && constant(other.Member(name)) == value
		})
	}
	for _, m := range o.Members {
		switch value := constant(m); {
		case value == "" || shared(m.Name, value):
		case value[0] == '"':
			return goName(m.Node.(*merge.Enum).Values[0].Text())
		case value[0] == 't' || value[0] == 'f':
			return goName(m.Name) + goName(value)
		}
	}
	required := func(o *merge.Object, name string) bool { m := o.Member(name); return m != nil && m.Required != 0 }
	var names []string
	for _, m := range o.Members {
		if m.Required == 0 {
			continue
		}
		names = append(names, goName(m.Name))
		shared := slices.ContainsFunc(all, func(v variant) bool {
			other, ok := v.node.(*merge.Object)
			return ok && other != o && required(other, m.Name)
		})
		if !shared {
			return goName(m.Name)
		}
	}
	return append(names, "Object")[0]
}

// constant returns the JSON text of the only value that m can have, or "".
func constant(m *merge.Member) string {
	if m == nil {
		return ""
	}
	if e, ok := m.Node.(*merge.Enum); ok && e.Const && len(e.Values) == 1 {
		return e.Values[0].JSON
	}
	return ""
}

// findFree marks the definitions that admit any value of their JSON type, because nothing below
// them names a member or distinguishes JSON types. References of such a definition to itself are
// allowed.
func (b *builder) findFree() {
	for name := range b.g.Defs {
		b.free[name] = true
	}
	for changed := true; changed; {
		changed = false
		for _, name := range slices.Sorted(maps.Keys(b.g.Defs)) {
			if b.free[name] && !b.isFree(b.g.Defs[name].Node) {
				b.free[name] = false
				changed = true
			}
		}
	}
}

func (b *builder) isFree(n merge.Node) bool {
	switch n := n.(type) {
	case *merge.Any:
		return true
	case *merge.Ref:
		return b.free[n.Name]
	case *merge.Object:
		return len(n.Members) == 0 && !n.Struct && b.isFree(n.Rest)
	case *merge.Array:
		return b.isFree(n.Elem)
	case *merge.Union:
		container := false
		for _, v := range n.Variants {
			if _, scalar := v.Node.(*merge.Scalar); scalar {
				continue
			}
			if !b.isFree(v.Node) {
				return false
			}
			container = true
		}
		return container
	case *merge.Nullable:
		return b.isFree(n.Node)
	}
	return false
}

// raw returns the type of a free-form value.
func (b *builder) raw(n merge.Node) ir.Type {
	switch b.g.Follow(n).(type) {
	case *merge.Object:
		return ir.RawObject
	case *merge.Array:
		return ir.RawArray
	}
	return ir.RawAny
}

// finish sorts the declarations, so that the output does not depend on the order of discovery.
func (b *builder) finish() {
	p := b.pkg
	slices.SortFunc(p.Structs, func(a, b *ir.Struct) int { return cmp.Compare(a.GoName, b.GoName) })
	slices.SortFunc(p.Unions, func(a, b *ir.Union) int { return cmp.Compare(a.GoName, b.GoName) })
	slices.SortFunc(p.Enums, func(a, b *ir.Enum) int { return cmp.Compare(a.GoName, b.GoName) })
	slices.SortFunc(p.OneOrMany, func(a, b *ir.OneOrMany) int { return cmp.Compare(a.GoName, b.GoName) })
	slices.SortFunc(p.Wrappers, func(a, b *ir.Wrapper) int { return cmp.Compare(a.GoName, b.GoName) })
	slices.SortFunc(p.Aliases, func(a, b *ir.Alias) int { return cmp.Compare(a.GoName, b.GoName) })
	for _, u := range p.Unions {
		if !recursive(u) {
			u.Guesses = guesses(u.Pick)
		}
	}
	for _, s := range p.Structs {
		for _, f := range s.Fields {
			if child, ok := resolveAlias(f.Type).(*ir.Struct); ok && f.Presence == ir.Plain {
				child.Embedded = true
			}
		}
		slices.SortFunc(s.Unions, func(a, b *ir.Union) int { return cmp.Compare(a.GoName, b.GoName) })
	}
	if b.Base != nil {
		p.Imports = append(p.Imports, ir.Import{Name: b.Base.Package.Name, Path: b.Base.Path})
	}
}
