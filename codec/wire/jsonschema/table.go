// Package jsonschema checks JSON text against the published schema of a protocol
// revision and reports every fault.
//
// A [Table] holds the schemas of one or more revisions, flattened. A [Node] is one schema. Nodes
// refer to each other by index, and equal nodes of all revisions are stored once. The generator
// prints tables as plain composite literals, so that they are data in the binary, take no time at
// start-up and can be read beside the schema they come from.
//
// [Table.Check] checks a text against a node. It accepts the same values as JSON Schema draft
// 2020-12, where format and default are annotations. Patterns are regular expressions of package
// regexp. Numbers are exact: 60000.0 and 6e4 are
// integers, and 9007199254740993 is over a maximum of 9007199254740992.
//
// Words used here and in messages: a value has a kind (null, boolean, number,
// string, array, object); an object has members, an array has items; a union is an
// anyOf or oneOf, and its schemas are variants; a fault is one way in which a value
// breaks the schema.
package jsonschema

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Table is the flattened schemas of one or more revisions. A table is never
// changed and may be used by any number of goroutines.
type Table struct {
	Revisions   []string     // labels of the revisions
	Definitions []Definition // sorted by name
	Nodes       []Node       // Nodes[Any] and Nodes[None] are fixed
}

// The first two nodes of every table. Since Any is zero, a keyword that is absent
// from a node and one that admits everything are the same.
const (
	Any  int32 = 0 // admits every value
	None int32 = 1 // admits no value
)

// Definition is a named schema.
type Definition struct {
	Name  string
	Nodes []int32 // its node in each of Table.Revisions, negative if undefined there
}

// Types is a set of kinds of values; numbers without a fraction, such as 5, 5.0 and 5e0, are a kind
// of their own. In a node, the zero value is the set of all kinds.
type Types uint8

// The kinds. Never is a kind that no value has.
const (
	Null Types = 1 << iota
	Bool
	Integer
	Fraction
	String
	Array
	Object
	Never

	Number = Integer | Fraction
	every  = Never - 1
)

// Node is one schema. Every keyword limits values of its own kind only, as in JSON Schema: Items
// does not limit a string. Fields of type int32 are indices in Table.Nodes.
type Node struct {
	Types  Types    // type
	Enum   []string // const, enum: the JSON texts admitted; nil admits all
	Bounds []Bound  // minimum, maxItems and the like

	Pattern *Pattern // pattern

	Props    []Prop        // properties and required, sorted by name
	Patterns []PatternProp // patternProperties
	Rest     int32         // additionalProperties: members that neither Props nor Patterns name
	Names    int32         // propertyNames: the names of all members, as strings

	Prefix   []int32 // prefixItems: the first items
	Items    int32   // items: those after Prefix
	Contains int32   // contains; zero is absent
	Unique   bool    // uniqueItems

	All   []int32   // allOf
	Not   int32     // not; zero is absent
	If    int32     // if; zero is absent
	Then  int32     // then: for values that If admits
	Else  int32     // else: for all other values
	Union []Variant // anyOf, or oneOf if Exact; at most MaxVariants
	Exact bool      // oneOf: exactly one variant may admit the value
	Tag   string    // the member whose value tells variants apart; "" if none does
}

// Prop is one member of an object.
type Prop struct {
	Name     string
	Node     int32
	Required bool
}

// PatternProp is a schema for the members whose name matches a pattern.
type PatternProp struct {
	Pattern *Pattern
	Node    int32
}

// Pattern is a regular expression as in package regexp, compiled when it is first needed. The
// generator has checked that it compiles.
type Pattern struct {
	Text string

	once sync.Once
	re   *regexp.Regexp
}

func (p *Pattern) match(text []byte) bool {
	p.once.Do(func() { p.re = regexp.MustCompile(p.Text) })
	return p.re.Match(text)
}

// Variant is one schema of a union. The generator computes Kinds and Tags, so that Check need not
// try most variants: Node does not admit a value outside of Kinds, or with a Tag member that is not
// in Tags.
type Variant struct {
	Node  int32
	Kinds Types    // the kinds of values that Node may admit; zero is all
	Tags  []string // JSON texts that the member Tag may have; nil if Node does not limit it
}

// MaxVariants is the largest number of variants in a union.
const MaxVariants = 64

// Bound is one limit on the size of a value.
type Bound struct {
	Keyword Keyword
	Limit   string // JSON number
}

// Keyword says what a [Bound] limits.
type Keyword uint8

// Numbers are compared exactly. The length of a string is counted in code points.
const (
	Minimum Keyword = iota
	Maximum
	ExclusiveMinimum
	ExclusiveMaximum
	MinLength
	MaxLength
	MinItems
	MaxItems
	MinProperties
	MaxProperties
	MultipleOf  // the limit has at most 18 digits, without zeros at either end
	MinContains // 1 by default
	MaxContains
)

// Root returns the node of a definition in a revision, such as "Task" in
// "2025-11-25", and false if that revision has no such definition.
func (t *Table) Root(revision, definition string) (int32, bool) {
	rev := slices.Index(t.Revisions, revision)
	if rev < 0 {
		return None, false
	}
	i, ok := slices.BinarySearchFunc(t.Definitions, definition, func(d Definition, name string) int {
		return strings.Compare(d.Name, name)
	})
	if !ok || t.Definitions[i].Nodes[rev] < 0 {
		return None, false
	}
	return t.Definitions[i].Nodes[rev], true
}

// Requires reports whether a value that the node at root admits must have the member name.
func (t *Table) Requires(root int32, name string) bool {
	n := &t.Nodes[root]
	for _, p := range n.Props {
		if p.Name == name && p.Required {
			return true
		}
	}
	return slices.ContainsFunc(n.All, func(i int32) bool { return t.Requires(i, name) })
}
