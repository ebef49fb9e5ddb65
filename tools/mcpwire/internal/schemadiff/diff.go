package schemadiff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// Effect is the effect of a change on the generated Go API; see the package comment.
type Effect int

// The effects, the most important first.
const (
	Breaking Effect = iota
	Widened
	Added
	None
)

func (e Effect) String() string {
	return [...]string{"breaking", "widened", "added", "none"}[e]
}

// Kind is the kind of a change.
type Kind int

// The kinds, in the order in which they are printed.
const (
	Method     Kind = iota // a method: a definition whose member method is a constant
	Definition             // a new, removed or renamed definition
	Field                  // a new or removed field
	Presence               // whether a field is required
	Type                   // the type of a field or definition
	Value                  // a value of an enum, or the value of a constant
	Variant                // a variant of a union
	Bound                  // a bound, format or default
	Others                 // members without a name: additionalProperties
)

func (k Kind) String() string {
	return [...]string{"method", "definition", "field", "presence", "type", "value", "variant", "bound", "other members"}[k]
}

// Change is one difference between the revisions.
type Change struct {
	Kind       Kind
	Definition string // the definition, or the method
	Path       string // path of the field below it, as in docs.md; "" for the definition itself
	Text       string // the change, such as "required → optional"
	Effect     Effect
	Reason     string // the reason for the effect, or "" if it is obvious
}

// Diff lists the changes from one revision to another.
type Diff struct {
	From, To string   // labels of the revisions
	Changes  []Change // sorted by kind of section, definition and path
}

// Compare compares two revisions. An error is about a schema that the generator cannot
// read, and is a [*load.Error].
func Compare(from, to *load.Document) (*Diff, error) {
	a, err := merge.Merge([]*load.Document{from}, nil)
	if err != nil {
		return nil, err
	}
	b, err := merge.Merge([]*load.Document{to}, nil)
	if err != nil {
		return nil, err
	}
	c := &comparer{a: a, b: b, diff: &Diff{From: from.Revision, To: to.Revision}, named: map[string][]string{}}
	c.renamed = renames(a, b)
	c.methods()
	for _, name := range a.Names() {
		if d := b.Defs[name]; d != nil {
			c.shape(place{name, ""}, a.Defs[name].Node, d.Node)
		}
	}
	c.definitions()
	c.confirm(from, to)
	slices.SortStableFunc(c.diff.Changes, func(x, y Change) int {
		return cmp.Or(
			cmp.Compare(min(x.Kind, Field), min(y.Kind, Field)),
			strings.Compare(x.Definition, y.Definition),
			strings.Compare(x.Path, y.Path),
			cmp.Compare(x.Kind, y.Kind),
			strings.Compare(x.Text, y.Text))
	})
	return c.diff, nil
}

type comparer struct {
	a, b    *merge.Graph
	diff    *Diff
	renamed map[string]string   // definitions of a by their names in b, where they differ
	named   map[string][]string // definitions of b that were inline shapes at these places in a
}

// place is the position of a shape: a path in a definition.
type place struct{ def, path string }

func (p place) member(name string) place {
	if p.path != "" {
		name = p.path + "." + name
	}
	return place{p.def, name}
}

func (p place) below(mark string) place { return place{p.def, p.path + mark} }

func (p place) String() string {
	if p.path == "" {
		return p.def
	}
	return p.def + "." + p.path
}

func (c *comparer) add(k Kind, p place, e Effect, reason, format string, args ...any) {
	c.diff.Changes = append(c.diff.Changes, Change{k, p.def, p.path, fmt.Sprintf(format, args...), e, reason})
}

// definitions adds the definitions that only one side has.
func (c *comparer) definitions() {
	removed := maps.Clone(c.a.Defs)
	for _, name := range c.b.Names() {
		delete(removed, name)
		if c.a.Defs[name] != nil {
			continue
		}
		reason := ""
		if places := c.named[name]; len(places) > 0 {
			slices.Sort(places)
			reason = "names the inline type of " + list(slices.Compact(places), 3)
		}
		c.add(Definition, place{name, ""}, Added, reason, "new: %s", words(c.b.Defs[name].Node))
	}
	for old, now := range c.renamed {
		c.add(Definition, place{old, ""}, Added, "a rename row in the overrides keeps the old name as an alias", "renamed to %s, same form", now)
		delete(removed, old)
		c.diff.Changes = slices.DeleteFunc(c.diff.Changes, func(d Change) bool { return d.Kind == Definition && d.Definition == now })
	}
	for name := range removed {
		c.add(Definition, place{name, ""}, None, "the Go type stays", "removed")
	}
}

// renames returns the definitions of a that have another name in b: both are structs, enums
// or unions of the same shape, and no third definition has that shape.
func renames(a, b *merge.Graph) map[string]string {
	only := func(g, other *merge.Graph) map[string][]string {
		byShape := map[string][]string{}
		for name, d := range g.Defs {
			if other.Defs[name] == nil && declared(d.Node) {
				shape := fingerprint(d.Node)
				byShape[shape] = append(byShape[shape], name)
			}
		}
		return byShape
	}
	removed, fresh := only(a, b), only(b, a)
	to := map[string]string{}
	for shape, names := range removed {
		if len(names) == 1 && len(fresh[shape]) == 1 {
			to[names[0]] = fresh[shape][0]
		}
	}
	return to
}

// declared reports whether a definition of shape n gets a declared Go type. All others are
// aliases.
func declared(n merge.Node) bool {
	switch n := n.(type) {
	case *merge.Object:
		return len(n.Members) > 0
	case *merge.Enum:
		return len(n.Values) > 1
	case *merge.Union:
		return true
	}
	return false
}

// shape compares the shapes at p in both revisions.
func (c *comparer) shape(p place, a, b merge.Node) {
	na, aNull := a.(*merge.Nullable)
	nb, bNull := b.(*merge.Nullable)
	if aNull {
		a = na.Node
	}
	if bNull {
		b = nb.Node
	}
	switch {
	case aNull && !bNull:
		c.add(Type, p, None, "the Go type still has null", "null is no longer allowed")
	case bNull && !aNull:
		c.add(Type, p, Breaking, "the Go type changes to distinguish null from absent", "null is allowed")
	}

	ra, aRef := a.(*merge.Ref)
	rb, bRef := b.(*merge.Ref)
	if aRef && bRef && (ra.Name == rb.Name || c.renamed[ra.Name] == rb.Name) {
		return // changes of the definition are reported there
	}
	freeA, freeB := free(c.a, a), free(c.b, b)
	da, db := c.declaration(c.a, a), c.declaration(c.b, b)
	switch {
	case freeA && freeB:
		if isAny(c.b.Follow(b)) && !isAny(c.a.Follow(a)) {
			c.retyped(p, a, b, Widened, "raw JSON before and after")
		} else if words(a) != words(b) {
			c.retyped(p, a, b, None, "raw JSON before and after")
		}
	case freeB && isAny(c.b.Follow(b)):
		c.retyped(p, a, b, Breaking, "it becomes raw JSON")
	case freeA && isAny(c.a.Follow(a)):
		c.retyped(p, a, b, None, "it stays raw JSON")
	case da != "" && db != "":
		c.references(p, ra, rb)
	case da != "":
		c.fromNamed(p, ra, b)
	case db != "":
		c.intoNamed(p, a, rb)
	default:
		c.inline(p, a, b)
	}
}

// declaration returns the name of the declared type that n refers to, or "".
func (c *comparer) declaration(g *merge.Graph, n merge.Node) string {
	for range len(g.Defs) + 1 {
		r, ok := n.(*merge.Ref)
		if !ok {
			return ""
		}
		if n = g.Defs[r.Name].Node; declared(n) {
			return r.Name
		}
	}
	return ""
}

func (c *comparer) retyped(p place, a, b merge.Node, e Effect, reason string) {
	c.add(Type, p, e, reason, "%s → %s", words(a), words(b))
}

// references compares references to different declared types.
func (c *comparer) references(p place, a, b *merge.Ref) {
	switch {
	case isUnion(c.a.Follow(a)) && !isUnion(c.b.Follow(b)):
		c.intoUnion(p, c.a.Follow(a).(*merge.Union), b)
	case refersTo(c.b.Follow(b), a.Name):
		c.retyped(p, a, b, Breaking, "one type becomes a union")
	default:
		c.retyped(p, a, b, Breaking, "")
	}
}

// fromNamed compares a declared type with a shape that no longer has a name.
func (c *comparer) fromNamed(p place, a *merge.Ref, b merge.Node) {
	switch {
	case refersTo(b, a.Name):
		c.retyped(p, a, b, Breaking, "one type becomes a union")
	case isUnion(c.a.Follow(a)):
		c.intoUnion(p, c.a.Follow(a).(*merge.Union), b)
	default:
		oa, isObject := c.a.Follow(a).(*merge.Object)
		ob, ok := c.b.Follow(b).(*merge.Object)
		if !isObject || !ok {
			c.retyped(p, a, b, Breaking, "")
			return
		}
		c.retyped(p, a, b, None, "the Go type stays "+a.Name)
		if !open(ob) {
			c.objects(p, oa, ob)
		}
	}
}

// intoNamed compares a shape without a name with the declared type that replaces it. If the type
// is new, it also compares the members, because they are reported nowhere else.
func (c *comparer) intoNamed(p place, a merge.Node, b *merge.Ref) {
	if refersTo(a, b.Name) {
		c.retyped(p, a, b, None, "the Go type stays the union")
		return
	}
	oa, isObject := a.(*merge.Object)
	ob, ok := c.b.Follow(b).(*merge.Object)
	switch {
	case isObject && len(oa.Members) == 0:
		c.retyped(p, a, b, Breaking, "an open object becomes a struct")
		return
	case !isObject || !ok:
		c.retyped(p, a, b, Breaking, "")
		return
	case !sameName(p, b.Name):
		c.retyped(p, a, b, Breaking, "the type of the inline object becomes "+b.Name)
	}
	if c.a.Defs[b.Name] == nil { // otherwise its changes are reported there
		c.named[b.Name] = append(c.named[b.Name], p.String())
		c.objects(p, oa, ob)
	}
}

// sameName reports whether the inline shape at p has the Go name of the definition name:
// inline shapes are named for the definition and the path that lead to them.
func sameName(p place, name string) bool {
	path := strings.NewReplacer("[]", "Item", "{}", "Value").Replace(p.path)
	inline := p.def + strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, path)
	return strings.EqualFold(inline, name) // Go names differ only in case
}

// inline compares shapes without a declared type, or the top shapes of definitions.
func (c *comparer) inline(p place, a, b merge.Node) {
	// Names of other shapes are aliases in Go.
	a, b = c.a.Follow(a), c.b.Follow(b)
	ua, aUnion := a.(*merge.Union)
	ub, bUnion := b.(*merge.Union)
	switch {
	case aUnion && bUnion:
		c.unions(p, ua, ub)
		return
	case aUnion:
		c.intoUnion(p, ua, b)
		return
	case bUnion:
		c.retyped(p, a, b, Breaking, "one type becomes a union")
		return
	}
	switch a := a.(type) {
	case *merge.Object:
		if b, ok := b.(*merge.Object); ok {
			c.objects(p, a, b)
			return
		}
	case *merge.Array:
		if b, ok := b.(*merge.Array); ok {
			c.shape(p.below("[]"), a.Elem, b.Elem)
			c.bounds(p, a, b)
			return
		}
	case *merge.Enum:
		switch b := b.(type) {
		case *merge.Enum:
			c.enums(p, a, b)
			return
		case *merge.Scalar:
			c.retyped(p, a, b, Breaking, enumReason(a))
			return
		}
	case *merge.Scalar:
		switch b := b.(type) {
		case *merge.Scalar:
			c.scalars(p, a, b)
			return
		case *merge.Enum:
			c.retyped(p, a, b, Breaking, "it gets a type of its own, or none if it is a constant")
			return
		}
	}
	if words(a) != words(b) {
		c.retyped(p, a, b, Breaking, "the generator needs a row in the overrides to merge them")
	}
}

func enumReason(a *merge.Enum) string {
	if len(a.Values) == 1 {
		return "a constant becomes a field"
	}
	return "the enum's type becomes a plain one"
}

func (c *comparer) scalars(p place, a, b *merge.Scalar) {
	switch {
	case a.Kinds == b.Kinds:
	case a.Kinds|b.Kinds == a.Kinds:
		c.retyped(p, a, b, None, "the wider Go type stays")
		return
	case several(a.Kinds):
		c.retyped(p, a, b, Widened, "both are scalars of several kinds")
		return
	default:
		c.retyped(p, a, b, Breaking, "")
		return
	}
	c.bounds(p, a, b)
}

// several reports whether a scalar of these kinds needs a type for all of them.
func several(k merge.Kinds) bool {
	switch k {
	case merge.KindString, merge.KindBool, merge.KindInteger, merge.KindNumber, merge.KindNumber | merge.KindInteger:
		return false
	}
	return true
}

func (c *comparer) enums(p place, a, b *merge.Enum) {
	has := func(e *merge.Enum, json string) bool {
		return slices.ContainsFunc(e.Values, func(v *merge.EnumValue) bool { return v.JSON == json })
	}
	if len(a.Values) == 1 && (len(b.Values) > 1 || !has(b, a.Values[0].JSON)) {
		c.add(Value, p, Breaking, "a constant becomes a field", "%s → %s", words(a), words(b))
		return
	}
	for _, v := range b.Values {
		if !has(a, v.JSON) {
			c.add(Value, p, Added, "", "value %s new", v.JSON)
		}
	}
	for _, v := range a.Values {
		if !has(b, v.JSON) {
			c.add(Value, p, None, "the constant stays", "value %s removed", v.JSON)
		}
	}
}

func (c *comparer) unions(p place, a, b *merge.Union) {
	for _, v := range b.Variants {
		if !hasVariant(a, v.Node) && !c.hasRenamed(a, v.Node) {
			c.add(Variant, p, Widened, "", "variant %s new", words(v.Node))
		}
	}
	for _, v := range a.Variants {
		if r, ok := v.Node.(*merge.Ref); ok && c.renamed[r.Name] != "" {
			if refersTo(b, c.renamed[r.Name]) {
				continue
			}
		}
		if !hasVariant(b, v.Node) {
			c.add(Variant, p, None, "the variant stays", "variant %s removed", words(v.Node))
		}
	}
}

// intoUnion compares a union with another shape that replaces it. Merging keeps the union and
// makes the shape one of its variants.
func (c *comparer) intoUnion(p place, a *merge.Union, b merge.Node) {
	if hasVariant(a, b) {
		c.retyped(p, a, b, None, "the Go type stays the union")
	} else {
		c.retyped(p, a, b, Widened, "the Go type stays the union and gets this as a variant")
	}
}

func (c *comparer) hasRenamed(a *merge.Union, n merge.Node) bool {
	r, ok := n.(*merge.Ref)
	return ok && slices.ContainsFunc(a.Variants, func(v *merge.Variant) bool {
		old, ok := v.Node.(*merge.Ref)
		return ok && c.renamed[old.Name] == r.Name
	})
}

func hasVariant(u *merge.Union, n merge.Node) bool {
	return slices.ContainsFunc(u.Variants, func(v *merge.Variant) bool { return fingerprint(v.Node) == fingerprint(n) })
}

func refersTo(n merge.Node, name string) bool {
	u, ok := n.(*merge.Union)
	return ok && slices.ContainsFunc(u.Variants, func(v *merge.Variant) bool {
		r, ok := v.Node.(*merge.Ref)
		return ok && r.Name == name
	})
}

func (c *comparer) objects(p place, a, b *merge.Object) {
	if len(a.Members) == 0 && len(b.Members) > 0 {
		c.retyped(p, a, b, Breaking, "an open object becomes a struct")
		return
	}
	if len(a.Members) > 0 && open(b) {
		c.retyped(p, a, b, None, "the struct stays and keeps unknown members")
		return
	}
	for _, mb := range b.Members {
		ma := a.Member(mb.Name)
		at := p.member(mb.Name)
		if ma == nil {
			need := "optional"
			if mb.Required == b.In {
				need = "required, but missing in the older revision"
			}
			c.add(Field, at, Added, "", "new: %s, %s", words(mb.Node), need)
			continue
		}
		if wasRequired, isRequired := ma.Required == a.In, mb.Required == b.In; wasRequired != isRequired {
			if isRequired {
				c.add(Presence, at, None, "it is optional in the older revision", "optional → required")
			} else {
				effect, reason := c.loosened(ma.Node)
				c.add(Presence, at, effect, reason, "required → optional")
			}
		}
		c.shape(at, ma.Node, mb.Node)
		c.defaults(at, ma, mb)
	}
	for _, ma := range a.Members {
		if b.Member(ma.Name) != nil {
			continue
		}
		effect, reason := None, "the field stays"
		if ma.Required == a.In {
			effect, reason = c.loosened(ma.Node)
		}
		c.add(Field, p.member(ma.Name), effect, reason, "removed")
	}
	c.others(p, a, b)
}

// loosened returns the effect if a required field of type n becomes optional.
func (c *comparer) loosened(n merge.Node) (Effect, string) {
	if e, ok := n.(*merge.Enum); ok && len(e.Values) == 1 {
		return Added, "the constant gets a field"
	}
	if nilMeansAbsent(c.a, n) {
		return Widened, "nil means absent"
	}
	return Breaking, "a plain field becomes a pointer"
}

// others compares the shapes of members without a name.
func (c *comparer) others(p place, a, b *merge.Object) {
	_, aNever := a.Rest.(*merge.Never)
	_, bNever := b.Rest.(*merge.Never)
	switch {
	case aNever && bNever:
	case bNever:
		c.add(Others, p, None, "they are kept anyway", "other members are forbidden")
	case aNever:
		c.add(Others, p, Widened, "", "other members are allowed")
	default:
		c.shape(p.below("{}"), a.Rest, b.Rest)
	}
}

func (c *comparer) defaults(p place, a, b *merge.Member) {
	if string(a.Default) == string(b.Default) {
		return
	}
	show := func(text json.RawMessage) string {
		if text == nil {
			return "none"
		}
		return string(text)
	}
	c.add(Bound, p, None, "", "default: %s → %s", show(a.Default), show(b.Default))
}
