package schemadiff

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// words describes a shape briefly: "list of Tool", "string | integer",
// "object {name, title?, …}".
func words(n merge.Node) string { return describe(n, 6) }

// fingerprint returns equal strings for shapes with equal types and members.
func fingerprint(n merge.Node) string { return describe(n, 0) }

// describe names at most most members, values or variants. If most is 0, it names all and
// describes each member.
func describe(n merge.Node, most int) string {
	switch n := n.(type) {
	case *merge.Ref:
		return n.Name
	case *merge.Any:
		return "any value"
	case *merge.Never:
		return "nothing"
	case *merge.Nullable:
		return describe(n.Node, most) + " | null"
	case *merge.Array:
		return "list of " + grouped(n.Elem, most)
	case *merge.Scalar:
		return scalarWords(n.Kinds)
	case *merge.Enum:
		var values []string
		for _, v := range n.Values {
			values = append(values, v.JSON)
		}
		return cut(values, " | ", most)
	case *merge.Union:
		var variants []string
		for _, v := range n.Variants {
			variants = append(variants, grouped(v.Node, most))
		}
		return cut(variants, " | ", most)
	case *merge.Object:
		return objectWords(n, most)
	}
	panic(fmt.Sprintf("unreachable: %T", n))
}

func objectWords(n *merge.Object, most int) string {
	var members []string
	for _, m := range n.Members {
		s := m.Name
		if m.Required != n.In {
			s += "?"
		}
		if most == 0 {
			s += ": " + describe(m.Node, most)
		}
		members = append(members, s)
	}
	_, any := n.Rest.(*merge.Any)
	_, never := n.Rest.(*merge.Never)
	switch {
	case len(members) == 0 && any:
		return "any object"
	case len(members) == 0 && !never:
		return "map of " + grouped(n.Rest, most)
	case !any && !never:
		members = append(members, "others: "+describe(n.Rest, most))
	case never && most == 0:
		members = append(members, "no others")
	}
	return "object {" + cut(members, ", ", most) + "}"
}

func grouped(n merge.Node, most int) string {
	s := describe(n, most)
	switch n.(type) {
	case *merge.Union, *merge.Enum, *merge.Scalar, *merge.Nullable:
		if strings.Contains(s, " | ") {
			return "(" + s + ")"
		}
	}
	return s
}

func scalarWords(k merge.Kinds) string {
	var kinds []string
	for _, kind := range []struct {
		bit  merge.Kinds
		name string
	}{{merge.KindString, "string"}, {merge.KindNumber, "number"}, {merge.KindInteger, "integer"}, {merge.KindBool, "boolean"}} {
		if k&kind.bit == 0 || kind.bit == merge.KindInteger && k&merge.KindNumber != 0 {
			continue
		}
		kinds = append(kinds, kind.name)
	}
	return strings.Join(kinds, " | ")
}

// cut joins the first few items and replaces the others by an ellipsis.
func cut(items []string, sep string, most int) string {
	if most > 0 && len(items) > most {
		items = append(items[:most:most], "…")
	}
	return strings.Join(items, sep)
}

// list joins names for a sentence: the first few and the number of the others.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func isAny(n merge.Node) bool {
	_, ok := n.(*merge.Any)
	return ok
}

func isUnion(n merge.Node) bool {
	_, ok := n.(*merge.Union)
	return ok
}

func open(n merge.Node) bool {
	o, ok := n.(*merge.Object)
	return ok && o.Open()
}

// free reports whether values of shape n are raw JSON in Go, because the schema does not
// restrict their content.
func free(g *merge.Graph, n merge.Node) bool { return freeBelow(g, n, map[string]bool{}) }

// freeBelow implements free. Busy holds the definitions that lead to n, to stop at recursive
// ones such as JSONValue.
func freeBelow(g *merge.Graph, n merge.Node, busy map[string]bool) bool {
	switch n := n.(type) {
	case *merge.Ref:
		if busy[n.Name] {
			return true
		}
		busy[n.Name] = true
		defer delete(busy, n.Name)
		return freeBelow(g, g.Defs[n.Name].Node, busy)
	case *merge.Any:
		return true
	case *merge.Nullable:
		return freeBelow(g, n.Node, busy)
	case *merge.Object:
		return len(n.Members) == 0 && freeBelow(g, n.Rest, busy)
	case *merge.Array:
		return freeBelow(g, n.Elem, busy)
	case *merge.Union:
		containers := 0
		for _, v := range n.Variants {
			if _, scalar := v.Node.(*merge.Scalar); scalar {
				continue
			}
			if !freeBelow(g, v.Node, busy) {
				return false
			}
			containers++
		}
		return containers > 0
	}
	return false
}

// nilMeansAbsent reports whether the Go type of n has a nil that means an absent member, so
// that an optional field needs no pointer.
func nilMeansAbsent(g *merge.Graph, n merge.Node) bool {
	if free(g, n) {
		return true
	}
	switch n := g.Follow(n).(type) {
	case *merge.Array, *merge.Union:
		return true
	case *merge.Object:
		return len(n.Members) == 0
	case *merge.Scalar:
		return several(n.Kinds)
	}
	return false
}
