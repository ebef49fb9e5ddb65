package schemadiff

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// sameFrom is the number of definitions from which on equal changes are printed once for all.
const sameFrom = 3

// Count returns the number of changes with the effect e.
func (d *Diff) Count(e Effect) int {
	n := 0
	for _, c := range d.Changes {
		if c.Effect == e {
			n++
		}
	}
	return n
}

// Print writes the changes as text: a line with the counts by effect, then the methods, the
// new and removed definitions, changes that are equal in several definitions, and all other
// changes by definition.
func (d *Diff) Print(w io.Writer) error {
	p := printer{}
	p.f("%s → %s: %d breaking, %d widened, %d added, %d without effect on the Go API\n",
		d.From, d.To, d.Count(Breaking), d.Count(Widened), d.Count(Added), d.Count(None))
	var methods, definitions, fields []Change
	for _, c := range d.Changes {
		switch c.Kind {
		case Method:
			methods = append(methods, c)
		case Definition:
			definitions = append(definitions, c)
		default:
			fields = append(fields, c)
		}
	}
	p.section("Methods", methods)
	p.section("Definitions", definitions)
	alike, single := groups(fields)
	if len(alike) > 0 {
		p.f("\nIn several definitions\n")
		for _, g := range alike {
			p.change(g[0], "")
			var names []string
			for _, c := range g {
				names = append(names, c.Definition)
			}
			p.wrapped("            in ", strings.Join(names, ", "))
		}
	}
	last := ""
	for _, c := range single {
		if c.Definition != last {
			p.f("\n%s\n", c.Definition)
			last = c.Definition
		}
		p.change(c, "")
	}
	_, err := io.WriteString(w, p.b.String())
	return err
}

// groups separates changes that are equal in several definitions from the others, and keeps
// the order of both.
func groups(changes []Change) (alike [][]Change, single []Change) {
	type key struct {
		kind               Kind
		path, text, reason string
		effect             Effect
	}
	keyOf := func(c Change) key { return key{c.Kind, c.Path, c.Text, c.Reason, c.Effect} }
	byKey := map[key][]Change{}
	for _, c := range changes {
		byKey[keyOf(c)] = append(byKey[keyOf(c)], c)
	}
	for _, c := range changes {
		g := byKey[keyOf(c)]
		if len(g) < sameFrom {
			single = append(single, c)
		} else if g[0].Definition == c.Definition {
			alike = append(alike, g)
		}
	}
	slices.SortStableFunc(alike, func(a, b []Change) int {
		return cmp.Or(strings.Compare(a[0].Path, b[0].Path), cmp.Compare(a[0].Kind, b[0].Kind), strings.Compare(a[0].Text, b[0].Text))
	})
	return alike, single
}

type printer struct{ b strings.Builder }

func (p *printer) f(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *printer) section(title string, changes []Change) {
	if len(changes) == 0 {
		return
	}
	p.f("\n%s\n", title)
	for _, c := range changes {
		p.change(c, c.Definition)
	}
}

// change prints one line: the effect, the place, the change and the reason.
func (p *printer) change(c Change, name string) {
	p.f("  %-8s  ", c.Effect)
	for _, s := range []string{name, c.Path} {
		if s != "" {
			p.f("%s: ", s)
		}
	}
	p.f("%s", c.Text)
	if c.Reason != "" {
		p.f(" (%s)", c.Reason)
	}
	p.f("\n")
}

// wrapped prints text in lines of some eighty characters, the first after a prefix and the
// others with the same indentation.
func (p *printer) wrapped(prefix, text string) {
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > 84 && strings.TrimSpace(line) != strings.TrimSpace(prefix) {
			p.f("%s\n", strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(prefix))
		}
		line += word + " "
	}
	p.f("%s\n", strings.TrimRight(line, " "))
}
