package tables

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// fold keeps one node of each set of equivalent nodes, and numbers the nodes that it keeps.
//
// At first, a class contains the nodes with the same keywords. Classes are then split as long as
// two nodes of one class refer to different classes. The nodes of a final class are equivalent at
// every depth, even if they are recursive.
func (t *Tables) fold(docs []*load.Document, b *builder) {
	nodes := order(docs, b)
	class := make(map[*node]int, len(nodes))
	count := 0
	for {
		ids := map[string]int{}
		next := make(map[*node]int, len(nodes))
		for _, n := range nodes {
			key := n.signature(class)
			if _, ok := ids[key]; !ok {
				ids[key] = len(ids)
			}
			next[n] = ids[key]
		}
		class = next
		if len(ids) == count {
			break
		}
		count = len(ids)
	}
	first := make([]*node, count)
	for _, n := range nodes {
		if c := class[n]; first[c] == nil {
			first[c] = n
			t.nodes = append(t.nodes, n)
		}
	}
	for _, n := range t.nodes {
		n.each(func(m *node) *node { return first[class[m]] })
		n.all = unique(n.all)
		if n.not == t.nodes[0] { // a cycle that limits nothing; resolve has replaced a plain {}
			n.not, n.all = nil, append(n.all, t.nodes[1])
		}
		n.absent(t.nodes[0])
	}
	for i := range t.definitions {
		for j, n := range t.definitions[i].nodes {
			if n != nil {
				t.definitions[i].nodes[j] = first[class[n]]
			}
		}
	}
	// Nodes that only limit the kind come first.
	slices.SortStableFunc(t.nodes[2:], func(a, b *node) int { return a.rank() - b.rank() })
	for i, n := range t.nodes {
		n.index = int32(i)
		if n.rank() == 0 {
			n.place = n.types.String()
		}
	}
}

// absent rewrites keywords of n whose schema admits every value. In a table, the index of that schema
// means that there is no such keyword.
func (n *node) absent(any *node) {
	if n.cond == any {
		n.all = slices.DeleteFunc(unique(append(n.all, n.then)), func(m *node) bool { return m == any })
		n.cond, n.then, n.other = nil, any, any
	}
	if n.contains != any {
		return
	}
	n.contains = nil
	least := slices.ContainsFunc(n.bounds, func(b bound) bool { return b.keyword == "MinContains" })
	if !least {
		n.bounds = append(n.bounds, bound{"MinItems", "1"})
	}
	for i, b := range n.bounds {
		n.bounds[i].keyword = strings.Replace(b.keyword, "Contains", "Items", 1)
	}
}

func (n *node) rank() int {
	if n.types != 0 && len(n.enum) == 0 && n.bare() {
		return 0
	}
	return 1
}

// order lists the reachable nodes: any and none, then each definition followed by the nodes inside
// of it.
func order(docs []*load.Document, b *builder) []*node {
	nodes := []*node{b.any, b.none}
	seen := map[*node]bool{b.any: true, b.none: true}
	named := map[*node]bool{}
	for _, doc := range docs {
		for name, n := range b.defs[doc] {
			named[n] = true
			if n.from == doc.Defs[name] { // else the definition is only a $ref
				n.place = name + " " + doc.Revision
			}
		}
	}
	var add func(n *node)
	add = func(n *node) {
		seen[n] = true
		nodes = append(nodes, n)
		n.each(func(m *node) *node {
			if !seen[m] && !named[m] {
				add(m)
			}
			return m
		})
	}
	for _, doc := range docs {
		for _, name := range doc.Names() {
			if n := b.defs[doc][name]; !seen[n] {
				add(n)
			}
		}
	}
	return nodes
}

// signature returns a text that is equal for two nodes with the same keywords that refer to the
// same classes.
func (n *node) signature(class map[*node]int) string {
	var s strings.Builder
	types := n.types
	if types == every {
		types = 0
	}
	fmt.Fprintf(&s, "%d %q %v", types, n.enum, n.bounds)
	for _, p := range n.props {
		fmt.Fprintf(&s, " %q:%d:%t", p.name, class[p.node], p.required)
	}
	fmt.Fprintf(&s, " %q %t", n.pattern, n.unique)
	for _, p := range n.patterns {
		fmt.Fprintf(&s, " %q~%d", p.name, class[p.node])
	}
	for _, m := range n.prefix {
		fmt.Fprintf(&s, " ,%d", class[m])
	}
	fmt.Fprintf(&s, " %d %d %d %d %d", class[n.rest], class[n.names], class[n.items], class[n.then], class[n.other])
	for _, m := range [...]*node{n.contains, n.cond} {
		if m != nil {
			fmt.Fprintf(&s, " ?%d", class[m])
		} else {
			s.WriteString(" ?-")
		}
	}
	for _, m := range n.all {
		fmt.Fprintf(&s, " &%d", class[m])
	}
	if n.not != nil {
		fmt.Fprintf(&s, " !%d", class[n.not])
	}
	for _, v := range n.union {
		fmt.Fprintf(&s, " |%d", class[v.node])
	}
	fmt.Fprintf(&s, " %t", n.exact)
	return s.String()
}

func unique(nodes []*node) []*node {
	var out []*node
	for _, n := range nodes {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
