// Package merge folds the documents of one or more revisions into one graph of
// definitions.
//
// It is the second stage of the generator. Each document is first resolved: allOf is flattened,
// enumerations and unions get one form each. Then the revisions are merged from the oldest to the
// newest. The newest shape wins, members of older revisions stay, and every member, variant and
// value records the revisions that have it. A member also records the revisions that require it. A
// single document is merged with nothing.
//
// The merged graph determines which values a Go type must be able to hold. Package tables
// compiles the rules for valid values from the document of each revision, so merging does not
// weaken them.
package merge

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Revs is a set of revisions: bit i stands for Graph.Revisions[i].
type Revs uint64

// Has reports whether revision i is in the set.
func (r Revs) Has(i int) bool { return r&(1<<i) != 0 }

// First returns the index of the oldest revision in the set, which must not be empty.
func (r Revs) First() int { return bits.TrailingZeros64(uint64(r)) }

// Last returns the index of the newest revision in the set, which must not be empty.
func (r Revs) Last() int { return 63 - bits.LeadingZeros64(uint64(r)) }

// Graph is the merged set of definitions.
type Graph struct {
	Revisions []string        // labels, oldest first
	Files     []string        // names of the schema files, in the order of Revisions
	Defs      map[string]*Def // by name
	Renamed   map[string]string
}

// Names returns the names of all definitions, sorted.
func (g *Graph) Names() []string { return slices.Sorted(maps.Keys(g.Defs)) }

// Def is one named definition.
type Def struct {
	Name string
	Node Node
	In   Revs // revisions that have the definition
}

// Node is a shape: *Ref, *Object, *Array, *Union, *Enum, *Scalar, *Nullable, *Any or *Never.
type Node interface {
	// At is the schema node that the shape was read from, the newest where several were
	// merged. It is never nil and serves errors and documentation.
	At() *load.Schema
}

type pos struct{ at *load.Schema }

func (p pos) At() *load.Schema { return p.at }

// Ref stands for the definition called Name.
type Ref struct {
	pos
	Name string
	In   Revs // revisions that refer to it here; may be empty
}

// Object is an object with named members.
type Object struct {
	pos
	Members []*Member // sorted by name
	Rest    Node      // shape of further members: *Any if the schema leaves them open
	In      Revs      // revisions in which the object has this form
	// Struct is set by an override. The object then becomes a struct even if it names no member.
	Struct bool
	// Extensible is set if a revision explicitly allows members that it does not name, or names
	// none at all. Values of every revision may then have the members of all revisions.
	Extensible bool
}

// Member is a named member of an object.
type Member struct {
	Name     string
	Node     Node
	In       Revs // revisions that have the member
	Required Revs // revisions that require it
	Default  json.RawMessage
	Doc      string          // documentation of a member that an override adds
	Tag      json.RawMessage // value that identifies a union's variant, from an override
}

// Array is a list of Elem.
type Array struct {
	pos
	Elem Node
}

// Union is a value of one of several shapes.
type Union struct {
	pos
	Variants []*Variant
}

// Variant is one alternative of a union.
type Variant struct {
	Node Node
	In   Revs
}

// Enum is one of a set of strings, of integers, or of booleans.
type Enum struct {
	pos
	Values []*EnumValue
	Const  bool // written as a const
}

// EnumValue is one value of an enum.
type EnumValue struct {
	JSON string // the value's JSON text, compact
	In   Revs
}

// Scalar is a string, a number or a boolean, or a choice of these.
type Scalar struct {
	pos
	Kinds Kinds
}

// Kinds is a set of JSON types.
type Kinds uint8

// The scalar JSON types. KindNumber includes KindInteger.
const (
	KindString Kinds = 1 << iota
	KindInteger
	KindNumber
	KindBool
)

// Nullable is Node or null.
type Nullable struct {
	pos
	Node Node
}

// Any is any value.
type Any struct{ pos }

// Never is no value at all.
type Never struct{ pos }

// Member returns the member called name, or nil.
func (o *Object) Member(name string) *Member {
	i, ok := slices.BinarySearchFunc(o.Members, name, func(m *Member, name string) int {
		return compare(m.Name, name)
	})
	if !ok {
		return nil
	}
	return o.Members[i]
}

// Open reports whether the object names no member and leaves all of them open.
func (o *Object) Open() bool {
	_, any := o.Rest.(*Any)
	return len(o.Members) == 0 && any && !o.Struct
}

// Follow returns the node behind any chain of references.
func (g *Graph) Follow(n Node) Node {
	for range len(g.Defs) + 1 {
		r, ok := n.(*Ref)
		if !ok {
			return n
		}
		n = g.Defs[r.Name].Node
	}
	return n
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// NewUnion returns a union without variants, read from at.
func NewUnion(at *load.Schema) *Union { return &Union{pos: pos{at}} }

// Join returns a shape that can hold the values of a and of b, which are of one revision.
func Join(a, b Node) Node {
	if Describe(a) == Describe(b) {
		return a
	}
	if _, never := a.(*Never); never {
		return b
	}
	if _, never := b.(*Never); never {
		return a
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
		n := Join(a, b)
		if _, any := n.(*Any); any {
			return n
		}
		return &Nullable{pos{n.At()}, n}
	}
	kinds := func(n Node) Kinds {
		switch n := n.(type) {
		case *Scalar:
			return n.Kinds
		case *Enum:
			return n.Kind()
		}
		return 0
	}
	if ka, kb := kinds(a), kinds(b); ka != 0 && kb != 0 {
		return &Scalar{pos{a.At()}, ka | kb}
	}
	oa, aobject := a.(*Object)
	ob, bobject := b.(*Object)
	if !aobject || !bobject {
		return NewAny(a.At())
	}
	o := &Object{pos: oa.pos, In: oa.In | ob.In, Rest: Join(oa.Rest, ob.Rest), Extensible: true}
	for _, m := range slices.Concat(oa.Members, ob.Members) {
		ma, mb := oa.Member(m.Name), ob.Member(m.Name)
		if o.Member(m.Name) != nil {
			continue
		}
		c := *m
		c.Required = 0
		if ma != nil && mb != nil {
			c.Node, c.Required = Join(ma.Node, mb.Node), ma.Required&mb.Required
		}
		o.Members = append(o.Members, &c)
		slices.SortFunc(o.Members, func(a, b *Member) int { return compare(a.Name, b.Name) })
	}
	return o
}

// NewObject returns an object of the given revisions that names no member, read from at.
func NewObject(at *load.Schema, in Revs) *Object {
	return &Object{pos: pos{at}, Rest: NewAny(at), In: in, Struct: true, Extensible: true}
}

// NewAny returns the shape of any value, read from at.
func NewAny(at *load.Schema) *Any { return &Any{pos{at}} }

// NewScalar returns a scalar of the given types, read from at.
func NewScalar(at *load.Schema, kinds Kinds) *Scalar { return &Scalar{pos{at}, kinds} }

// NewRef returns a reference to the definition called name, read from at.
func NewRef(at *load.Schema, name string) *Ref { return &Ref{pos: pos{at}, Name: name} }

// Describe returns a description of a shape in one line, with references by name. Two shapes that
// admit the same values have the same description, even if they are from different revisions.
func Describe(n Node) string {
	var b strings.Builder
	describe(&b, n)
	return b.String()
}

func describe(b *strings.Builder, n Node) {
	switch n := n.(type) {
	case *Ref:
		b.WriteString(n.Name)
	case *Object:
		b.WriteString("{")
		for _, m := range n.Members {
			fmt.Fprintf(b, "%q", m.Name)
			if m.Required != n.In {
				b.WriteString("?")
			}
			b.WriteString(": ")
			describe(b, m.Node)
			b.WriteString(", ")
		}
		describe(b, n.Rest)
		b.WriteString("}")
	case *Array:
		b.WriteString("[")
		describe(b, n.Elem)
		b.WriteString("]")
	case *Union:
		for i, v := range n.Variants {
			b.WriteString([]string{"(", " | "}[min(i, 1)])
			describe(b, v.Node)
		}
		b.WriteString(")")
	case *Enum:
		for i, v := range n.Values {
			b.WriteString([]string{"", "/"}[min(i, 1)] + v.JSON)
		}
	case *Scalar:
		fmt.Fprintf(b, "scalar%b", n.Kinds)
	case *Nullable:
		describe(b, n.Node)
		b.WriteString("/null")
	case *Any:
		b.WriteString("any")
	case *Never:
		b.WriteString("never")
	}
}
