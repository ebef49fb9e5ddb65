package plan

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// doc returns the documentation of a type declared at s.
func (b *builder) doc(s scope, n merge.Node) ir.Doc {
	var d ir.Doc
	rev := b.g.Revisions[s.in.Last()]
	switch {
	case s.isDef():
		if d.Text = b.docText(rev, s.def); d.Text != "" {
			d.Text = s.name + strings.TrimPrefix(d.Text, s.def)
		}
		if b.Link != nil {
			d.Link = b.Link(rev, s.def)
		}
		d.Revisions = b.since(s.in, b.all())
	case b.Docs != nil:
		d.Text = b.Docs.Field(rev, s.def, s.path)
	}
	switch {
	case d.Text == "" && s.isDef():
		d.Text = s.name + " is the definition " + s.def + "."
	case s.path == "" && !s.isDef():
		d.Text = s.name + " is a part of " + s.def + "."
	case s.path != "":
		text := s.name + " is " + place(s.path, s.def)
		if d.Text != "" && d.Text[0] != ':' {
			text += ". It"
		}
		d.Text = predicate(text, d.Text)
	}
	return d
}

// predicate joins a subject and the documentation of a field, such as "Names the tool." or ": The
// name of the tool."
func predicate(subject, text string) string {
	switch {
	case text == "":
		return subject + "."
	case text[0] == ':':
		return subject + text
	}
	first, size := utf8.DecodeRuneInString(text)
	return subject + " " + string(unicode.ToLower(first)) + text[size:]
}

// fieldDoc returns the documentation of the field called name for the member m of o.
func (b *builder) fieldDoc(s scope, name string, m *merge.Member, o *merge.Object) ir.Doc {
	var d ir.Doc
	if b.Docs != nil {
		d.Text = b.Docs.Field(b.g.Revisions[m.In.Last()], s.def, s.path)
	}
	if m.Doc != "" {
		d.Text = m.Doc
	}
	if d.Text != "" {
		d.Text = predicate(name, d.Text)
	}
	d.Revisions = b.since(m.In, o.In)
	switch {
	case m.Required == 0 || m.Required == o.In || len(b.g.Revisions) == 1:
	case m.Required == m.In:
		d.Revisions = join(", ", d.Revisions, "required")
	default:
		d.Revisions = join("; ", d.Revisions, "required "+b.spell(m.Required))
	}
	if m.Default != nil {
		d.Revisions = join("; ", d.Revisions, "default "+string(m.Default))
	}
	return d
}

func join(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

func (b *builder) all() merge.Revs { return 1<<len(b.g.Revisions) - 1 }

// since describes the revisions in the set in, or returns "" if it contains all of whole.
func (b *builder) since(in, whole merge.Revs) string {
	if in&whole == whole || len(b.g.Revisions) == 1 {
		return ""
	}
	return b.spell(in)
}

func (b *builder) spell(in merge.Revs) string {
	first, last := in.First(), in.Last()
	gap := false
	for i := first; i <= last; i++ {
		gap = gap || !in.Has(i)
	}
	newest := len(b.g.Revisions) - 1
	label := func(i int) string { return b.g.Revisions[i] }
	switch {
	case gap:
		var list []string
		for i := range b.g.Revisions {
			if in.Has(i) {
				list = append(list, label(i))
			}
		}
		return "in " + strings.Join(list, ", ")
	case first == last:
		return "in " + label(first) + " only"
	case first == 0:
		return "until " + label(last)
	case last == newest:
		return "since " + label(first)
	}
	return "from " + label(first) + " to " + label(last)
}

// place describes the place of an inline shape in words, such as "the type of Def.member".
func place(path, def string) string {
	if outer, ok := strings.CutSuffix(path, "[]"); ok {
		return "the type of the elements of " + dotted(def, outer)
	}
	if outer, ok := strings.CutSuffix(path, "{}"); ok {
		return "the type of the values of " + dotted(def, outer)
	}
	return "the type of " + dotted(def, path)
}

func dotted(def, path string) string {
	if path == "" {
		return def
	}
	return def + "." + path
}
