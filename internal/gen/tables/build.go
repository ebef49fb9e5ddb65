package tables

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// types is a set of kinds of values; the bits are those of jsonschema.Types.
type types uint8

const (
	null types = 1 << iota
	boolean
	integer
	fraction
	str
	array
	object
	never

	every = never - 1
)

var typeNames = map[string]types{
	"null": null, "boolean": boolean, "integer": integer, "number": integer | fraction,
	"string": str, "array": array, "object": object,
}

// node is one schema; see jsonschema.Node for the meaning of the fields. Once a node is built,
// rest, names and items are not nil.
type node struct {
	from  *load.Schema // the first schema with this node; nil for any and none
	place string       // a short name for the position of from, such as "Task.status"
	alias *node        // while building: the node that stands for this one
	index int32        // in the table

	types  types // zero is all
	enum   []string
	bounds []bound

	pattern string

	props    []prop // sorted by name
	required []string
	patterns []prop // by pattern
	rest     *node
	names    *node

	prefix   []*node
	items    *node
	contains *node
	unique   bool

	all   []*node
	not   *node
	cond  *node // if; then and otherwise are not nil
	then  *node
	other *node // else
	union []variant
	exact bool
	tag   string
}

type bound struct{ keyword, limit string }

type prop struct {
	name     string
	node     *node
	required bool
}

type variant struct {
	node  *node
	kinds types
	tags  []string
}

// isAny reports whether n is the first node of every table, which admits every value.
func (n *node) isAny() bool { return n.from == nil && n.types == 0 }

type builder struct {
	defs  map[*load.Document]map[string]*node
	nodes []*node // every node built, parents first

	any, none *node // the first two nodes of every table
}

func newBuilder() *builder {
	b := &builder{
		defs: map[*load.Document]map[string]*node{},
		any:  &node{place: "anything"},
		none: &node{place: "nothing", types: never},
	}
	b.any.close(b)
	b.none.close(b)
	return b
}

func (b *builder) document(doc *load.Document) error {
	defs := map[string]*node{}
	b.defs[doc] = defs
	for _, name := range doc.Names() {
		defs[name] = &node{from: doc.Defs[name], place: name}
	}
	for _, name := range doc.Names() {
		if err := b.fill(defs[name], doc.Defs[name]); err != nil {
			return err
		}
	}
	return nil
}

// close makes rest, names and items of n point to the node that admits every value.
func (n *node) close(b *builder) {
	n.rest, n.names, n.items, n.then, n.other = b.any, b.any, b.any, b.any, b.any
}

// schema builds the node of s, whose position is called place. If s is nil, the node admits every
// value.
func (b *builder) schema(s *load.Schema, place string) (*node, error) {
	switch {
	case s == nil:
		return b.any, nil
	case s.False:
		return b.none, nil
	}
	n := &node{from: s, place: place}
	return n, b.fill(n, s)
}

func (b *builder) fill(n *node, s *load.Schema) (err error) {
	n.close(b)
	b.nodes = append(b.nodes, n)
	if s.False {
		n.alias = b.none
		return nil
	}
	if s.Ref != "" {
		n.all = append(n.all, b.defs[s.Doc][s.Ref])
	}
	for _, name := range s.Types {
		n.types |= typeNames[name]
	}
	if s.Const != nil {
		if err := n.admit(s, s.Const); err != nil {
			return err
		}
	}
	if s.Enum != nil {
		m := n
		if s.Const != nil { // a node holds only one of the two
			m = b.also(n, s)
		}
		if err := m.admit(s, s.Enum...); err != nil {
			return err
		}
	}
	n.limit("Minimum", s.Minimum)
	n.limit("Maximum", s.Maximum)
	n.limit("ExclusiveMinimum", s.ExclusiveMinimum)
	n.limit("ExclusiveMaximum", s.ExclusiveMaximum)
	n.count("MinLength", s.MinLength)
	n.count("MaxLength", s.MaxLength)
	n.count("MinItems", s.MinItems)
	n.count("MaxItems", s.MaxItems)
	n.count("MinProperties", s.MinProps)
	n.count("MaxProperties", s.MaxProps)
	if s.MultipleOf != "" {
		n.bounds = append(n.bounds, bound{"MultipleOf", string(s.MultipleOf)})
	}
	n.pattern, n.unique = s.Pattern, s.Unique

	n.required = s.Required
	for _, p := range s.Patterns {
		c, err := b.schema(p.Schema, n.place+"."+p.Name)
		if err != nil {
			return err
		}
		n.patterns = append(n.patterns, prop{name: p.Name, node: c})
	}
	for _, p := range s.Properties {
		c, err := b.schema(p.Schema, n.place+"."+p.Name)
		if err != nil {
			return err
		}
		n.props = append(n.props, prop{name: p.Name, node: c})
	}
	if n.rest, err = b.schema(s.Additional, n.place+".*"); err != nil {
		return err
	}
	if n.names, err = b.schema(s.PropertyNames, n.place+" names"); err != nil {
		return err
	}
	if n.items, err = b.schema(s.Items, n.place+"[]"); err != nil {
		return err
	}
	if n.prefix, err = b.list(s.Prefix, n.place+"[]"); err != nil {
		return err
	}
	if err := b.contained(n, s); err != nil {
		return err
	}
	if s.If != nil && (s.Then != nil || s.Else != nil) {
		if err := b.condition(n, s.If, s.Then, s.Else); err != nil {
			return err
		}
	}
	for _, d := range s.Dependent {
		m := n
		if n.cond != nil { // a node holds only one
			m = b.also(n, s)
		}
		has := &load.Schema{Doc: s.Doc, Pointer: s.Pointer, Types: []string{"object"}, Required: []string{d.Name}}
		if err := b.condition(m, has, d.Schema, nil); err != nil {
			return err
		}
	}
	all, err := b.list(s.AllOf, n.place)
	if err != nil {
		return err
	}
	n.all = append(n.all, all...)
	if s.Not != nil {
		if n.not, err = b.schema(s.Not, n.place+" not"); err != nil {
			return err
		}
	}
	anyOf, err := b.list(s.AnyOf, n.place)
	if err != nil {
		return err
	}
	oneOf, err := b.list(s.OneOf, n.place)
	if err != nil {
		return err
	}
	switch {
	case oneOf == nil:
		n.setUnion(anyOf, false)
	case anyOf == nil:
		n.setUnion(oneOf, true)
	default: // a node holds only one of the two
		n.setUnion(anyOf, false)
		b.also(n, s).setUnion(oneOf, true)
	}
	return nil
}

// contained sets what n demands of some of the items of a list.
func (b *builder) contained(n *node, s *load.Schema) (err error) {
	if s.Contains == nil || s.MinContains != nil && *s.MinContains == 0 && s.MaxContains == nil {
		return nil
	}
	n.contains, err = b.schema(s.Contains, n.place+" contains")
	n.count("MinContains", s.MinContains)
	n.count("MaxContains", s.MaxContains)
	return err
}

// condition makes n check a value against then if it is valid against cond, and otherwise against
// other.
func (b *builder) condition(n *node, cond, then, other *load.Schema) (err error) {
	if n.cond, err = b.schema(cond, n.place+" if"); err != nil {
		return err
	}
	if n.then, err = b.schema(then, n.place+" then"); err != nil {
		return err
	}
	n.other, err = b.schema(other, n.place+" else")
	return err
}

// also returns a new node that a value of n must satisfy, too.
func (b *builder) also(n *node, s *load.Schema) *node {
	m := &node{from: s, place: n.place}
	m.close(b)
	b.nodes = append(b.nodes, m)
	n.all = append(n.all, m)
	return m
}

func (n *node) setUnion(nodes []*node, exact bool) {
	n.exact = exact
	for _, v := range nodes {
		n.union = append(n.union, variant{node: v})
	}
}

func (b *builder) list(schemas []*load.Schema, place string) ([]*node, error) {
	var nodes []*node
	for i, s := range schemas {
		n, err := b.schema(s, place+"/"+strconv.Itoa(i))
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// admit adds values to the enum of n.
func (n *node) admit(s *load.Schema, values ...json.RawMessage) error {
	for _, v := range values {
		text, err := canonical(v)
		if err != nil {
			return s.Errorf("a value of const or enum cannot be compared: %v", err)
		}
		if !slices.Contains(n.enum, text) {
			n.enum = append(n.enum, text)
		}
	}
	return nil
}

// canonical returns the JSON text v without white space and needless escapes.
func canonical(v json.RawMessage) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return "", err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(out.Bytes())), nil
}

func (n *node) limit(keyword string, v *float64) {
	if v == nil {
		return
	}
	format := byte('f') // without exponent, unless that would be very long
	if a := math.Abs(*v); a >= 1e21 || a != 0 && a < 1e-6 {
		format = 'g'
	}
	n.bounds = append(n.bounds, bound{keyword, strconv.FormatFloat(*v, format, -1, 64)})
}

func (n *node) count(keyword string, v *int) {
	if v != nil {
		n.bounds = append(n.bounds, bound{keyword, strconv.Itoa(*v)})
	}
}
