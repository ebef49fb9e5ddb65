package tables

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Source returns the Go declaration of the table as a variable of the given name, gofmt-clean. The
// file that contains it must import github.com/mcpwire/mcpwire/codec/wire/jsonschema and nothing
// else.
func (t *Tables) Source(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "// %s has the rules of each revision's published schema. Nodes carry the place where\n", name)
	s.WriteString("// they are met first.\n")
	fmt.Fprintf(&s, "var %s = jsonschema.Table{\n", name)
	fmt.Fprintf(&s, "\tRevisions: []string{%s},\n", list(t.revisions, strconv.Quote))
	s.WriteString("\tDefinitions: []jsonschema.Definition{\n")
	for _, d := range t.definitions {
		nodes := list(d.nodes, func(n *node) string {
			if n == nil {
				return "-1"
			}
			return strconv.Itoa(int(n.index))
		})
		fmt.Fprintf(&s, "\t\t{Name: %q, Nodes: []int32{%s}},\n", d.name, nodes)
	}
	s.WriteString("\t},\n\tNodes: []jsonschema.Node{\n")
	for i, n := range t.nodes {
		fmt.Fprintf(&s, "\t\t/* %d %s */ {%s},\n", i, comment(n.place), n.literal())
	}
	s.WriteString("\t},\n}\n")
	return s.String()
}

// comment returns s as the inside of a Go comment.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
	return strings.ReplaceAll(s, "*/", "* /")
}

// literal returns the fields of n that are not zero.
func (n *node) literal() string {
	var fields []string
	field := func(name, value string) { fields = append(fields, name+": "+value) }
	index := func(name string, m *node) {
		if m != nil && m.index != 0 {
			field(name, strconv.Itoa(int(m.index)))
		}
	}
	if n.types != 0 && n.types != every {
		field("Types", n.types.source())
	}
	if len(n.enum) > 0 {
		field("Enum", "[]string{"+list(n.enum, quote)+"}")
	}
	if len(n.bounds) > 0 {
		field("Bounds", "[]jsonschema.Bound{"+list(n.bounds, func(b bound) string {
			return fmt.Sprintf("{Keyword: jsonschema.%s, Limit: %q}", b.keyword, b.limit)
		})+"}")
	}
	if len(n.props) > 0 {
		field("Props", "[]jsonschema.Prop{"+list(n.props, func(p prop) string {
			s := fmt.Sprintf("{Name: %q", p.name)
			if p.node.index != 0 {
				s += fmt.Sprintf(", Node: %d", p.node.index)
			}
			if p.required {
				s += ", Required: true"
			}
			return s + "}"
		})+"}")
	}
	if n.pattern != "" {
		field("Pattern", pattern(n.pattern))
	}
	if len(n.patterns) > 0 {
		field("Patterns", "[]jsonschema.PatternProp{"+list(n.patterns, func(p prop) string {
			return fmt.Sprintf("{Pattern: %s, Node: %d}", pattern(p.name), p.node.index)
		})+"}")
	}
	index("Rest", n.rest)
	index("Names", n.names)
	if len(n.prefix) > 0 {
		field("Prefix", "[]int32{"+list(n.prefix, func(m *node) string { return strconv.Itoa(int(m.index)) })+"}")
	}
	index("Items", n.items)
	index("Contains", n.contains)
	if n.unique {
		field("Unique", "true")
	}
	if len(n.all) > 0 {
		field("All", "[]int32{"+list(n.all, func(m *node) string { return strconv.Itoa(int(m.index)) })+"}")
	}
	index("Not", n.not)
	index("If", n.cond)
	index("Then", n.then)
	index("Else", n.other)
	if len(n.union) > 0 {
		field("Union", "[]jsonschema.Variant{"+list(n.union, func(v variant) string {
			s := fmt.Sprintf("{Node: %d", v.node.index)
			if v.kinds != every {
				s += ", Kinds: " + v.kinds.source()
			}
			if v.tags != nil {
				s += ", Tags: []string{" + list(v.tags, quote) + "}"
			}
			return s + "}"
		})+"}")
	}
	if n.exact {
		field("Exact", "true")
	}
	if n.tag != "" {
		field("Tag", strconv.Quote(n.tag))
	}
	return strings.Join(fields, ", ")
}

// pattern returns the Go expression of a pattern.
func pattern(text string) string { return "&jsonschema.Pattern{Text: " + quote(text) + "}" }

var kindNames = []struct {
	kind         types
	source, word string
}{
	{null, "Null", "null"},
	{boolean, "Bool", "boolean"},
	{integer | fraction, "Number", "number"},
	{integer, "Integer", "integer"},
	{fraction, "Fraction", "fraction"},
	{str, "String", "string"},
	{array, "Array", "array"},
	{object, "Object", "object"},
	{never, "Never", "nothing"},
}

// source returns the Go expression of k. A variant that admits nothing has no kinds.
func (k types) source() string {
	if k == 0 {
		return "jsonschema.Never"
	}
	var names []string
	for _, n := range kindNames {
		if k&n.kind == n.kind {
			names = append(names, "jsonschema."+n.source)
			k &^= n.kind
		}
	}
	return strings.Join(names, " | ")
}

// String returns k in words.
func (k types) String() string {
	var names []string
	for _, n := range kindNames {
		if k&n.kind == n.kind {
			names = append(names, n.word)
			k &^= n.kind
		}
	}
	return strings.Join(names, " or ")
}

// quote returns the Go literal of a JSON text: a raw one if possible, because the text has many
// quotes.
func quote(s string) string {
	if strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

func list[T any](items []T, text func(T) string) string {
	out := make([]string, len(items))
	for i, item := range items {
		out[i] = text(item)
	}
	return strings.Join(out, ", ")
}
