package tables

import (
	"regexp"
	"slices"
	"strings"
)

// resolve replaces each node that is equivalent to another one, usually a bare $ref, with that
// other node. It terminates because package load rejects schemas that refer back to themselves.
func (b *builder) resolve() {
	for _, n := range b.nodes {
		b.follow(n)
	}
	for _, defs := range b.defs {
		for name, n := range defs {
			defs[name] = target(n)
		}
	}
	live := b.nodes[:0]
	for _, n := range b.nodes {
		if n.alias != nil {
			continue
		}
		live = append(live, n)
		n.each(target)
		n.all = slices.DeleteFunc(n.all, func(m *node) bool { return m == b.any })
		switch n.not {
		case b.any:
			n.not, n.all = nil, append(n.all, b.none)
		case b.none:
			n.not = nil
		}
		if n.names.admitsStrings() {
			n.names = b.any
		}
	}
	b.nodes = live
}

// follow sets the alias of n to the last node of its chain of aliases.
func (b *builder) follow(n *node) {
	if n == b.any || n == b.none {
		return
	}
	if n.alias == nil {
		if n.not != nil {
			b.follow(n.not)
		}
		switch {
		case n.onlyNot() && target(n.not) == b.any:
			n.alias = b.none
		case n.onlyAll() && len(n.all) == 0:
			n.alias = b.any
		case n.onlyAll() && len(n.all) == 1:
			n.alias = n.all[0]
		default:
			return
		}
	}
	b.follow(n.alias)
	n.alias = target(n.alias)
}

// target returns the node that stands for n.
func target(n *node) *node {
	if n != nil && n.alias != nil {
		return n.alias
	}
	return n
}

// each replaces every node that n refers to by the result of f for it, in the order
// of the fields of jsonschema.Node.
func (n *node) each(f func(*node) *node) {
	for i := range n.props {
		n.props[i].node = f(n.props[i].node)
	}
	for i := range n.patterns {
		n.patterns[i].node = f(n.patterns[i].node)
	}
	for i := range n.prefix {
		n.prefix[i] = f(n.prefix[i])
	}
	n.rest, n.names, n.items, n.then, n.other = f(n.rest), f(n.names), f(n.items), f(n.then), f(n.other)
	for _, m := range [...]**node{&n.contains, &n.cond} {
		if *m != nil {
			*m = f(*m)
		}
	}
	for i := range n.all {
		n.all[i] = f(n.all[i])
	}
	if n.not != nil {
		n.not = f(n.not)
	}
	for i := range n.union {
		n.union[i].node = f(n.union[i].node)
	}
}

// bare reports whether n has no keywords other than type, const and enum.
func (n *node) bare() bool {
	return len(n.bounds) == 0 && len(n.props) == 0 && len(n.required) == 0 &&
		n.rest.isAny() && n.names.isAny() && n.items.isAny() && n.pattern == "" && len(n.patterns) == 0 && len(n.prefix) == 0 &&
		n.contains == nil && !n.unique && n.cond == nil &&
		len(n.all) == 0 && n.not == nil && len(n.union) == 0
}

// onlyAll reports whether n has no keyword but allOf.
func (n *node) onlyAll() bool {
	m := *n
	m.all = nil
	return (n.types == 0 || n.types == every) && len(n.enum) == 0 && m.bare()
}

// onlyNot reports whether n has no keyword but not.
func (n *node) onlyNot() bool {
	m := *n
	m.not = nil
	return n.not != nil && (n.types == 0 || n.types == every) && len(n.enum) == 0 && m.bare()
}

// onlyUnion reports whether n has no keyword but anyOf.
func (n *node) onlyUnion() bool {
	m := *n
	m.union = nil
	return len(n.union) > 0 && !n.exact && (n.types == 0 || n.types == every) && len(n.enum) == 0 && m.bare()
}

// admitsStrings reports whether n certainly admits every string.
func (n *node) admitsStrings() bool {
	return (n.types == 0 || n.types&str != 0) && len(n.enum) == 0 && n.bare()
}

// simplify rewrites n to a node that admits the same values; see the package comment.
func (n *node) simplify(any *node) error {
	for _, name := range n.required {
		i, ok := slices.BinarySearchFunc(n.props, name, func(p prop, name string) int { return strings.Compare(p.name, name) })
		if !ok {
			node := n.rest
			if slices.ContainsFunc(n.patterns, func(p prop) bool { return regexp.MustCompile(p.name).MatchString(name) }) {
				node = any
			}
			n.props = slices.Insert(n.props, i, prop{name: name, node: node})
		}
		n.props[i].required = true
	}
	n.required = nil
	if !n.exact {
		n.union = flat(nil, n.union)
	}
	n.constants()
	if most := 64; len(n.union) > most { // jsonschema.MaxVariants
		return n.from.Errorf("the union has %d variants; at most %d can be told apart", len(n.union), most)
	}
	return nil
}

// flat appends union to out. In place of a variant that is only an anyOf, it appends the variants
// of that anyOf.
func flat(out, union []variant) []variant {
	for _, v := range union {
		if v.node.onlyUnion() {
			out = flat(out, v.node.union)
		} else {
			out = append(out, v)
		}
	}
	return out
}

// constants turns a union of constants into an enum.
func (n *node) constants() {
	if len(n.union) == 0 || len(n.enum) > 0 {
		return
	}
	var kinds types
	var texts []string
	for _, v := range n.union {
		if len(v.node.enum) == 0 || !v.node.bare() {
			return
		}
		kinds |= v.node.admitted()
		for _, text := range v.node.enum {
			switch k := kindOf(text); {
			case k&v.node.admitted() == 0:
				// the variant's own type excludes it
			case k&(boolean|str|null) == 0:
				return // equal numbers may differ in text, such as 1 and 1.0
			case !slices.Contains(texts, text):
				texts = append(texts, text)
			case n.exact:
				return // two variants admit it, so that the union does not
			}
		}
	}
	if len(texts) == 0 {
		return
	}
	n.enum, n.union, n.exact = texts, nil, false
	if n.types == 0 {
		n.types = kinds
	}
}

// admitted returns the kinds that n.types allows.
func (n *node) admitted() types {
	if n.types == 0 {
		return every
	}
	return n.types
}

// kindOf returns the kind of a canonical JSON text. For a number it returns both kinds of numbers.
func kindOf(text string) types {
	switch text[0] {
	case 'n':
		return null
	case 't', 'f':
		return boolean
	case '"':
		return str
	case '[':
		return array
	case '{':
		return object
	}
	return integer | fraction
}
