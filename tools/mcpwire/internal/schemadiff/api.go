package schemadiff

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
	"github.com/mcpwire/mcpwire/internal/gen/plan"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// confirm runs the generator to find the Go types of the older revision that change when the newer
// one is merged. It adds a breaking change for each such definition that has none yet. The rules
// cannot find all of these, such as a new name for the variant of a union.
func (c *comparer) confirm(from, to *load.Document) {
	rows := new(merge.Overrides)
	for _, old := range slices.Sorted(maps.Keys(c.renamed)) {
		rows.Rows = append(rows.Rows, &merge.Override{Rule: "rename", Def: old, As: c.renamed[old]})
	}
	before, err := goTypes(rows, from)
	if err != nil {
		return // the older revision alone cannot be generated
	}
	breaking, methods := map[string]bool{}, false
	for _, d := range c.diff.Changes {
		breaking[d.Definition] = breaking[d.Definition] || d.Effect == Breaking
		methods = methods || d.Kind == Method && d.Effect == Breaking
	}
	after, err := goTypes(rows, from, to)
	if fault := (*load.Error)(nil); errors.As(err, &fault) {
		if p := placeOf(fault.Pointer); !breaking[p.def] && !methods {
			c.add(Type, p, Breaking, "the generator needs a row in the overrides to merge them", "cannot be merged")
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		old, now := before[name], after[name]
		if old.text == now.text || old.plain == now.plain || breaking[old.def] {
			continue
		}
		breaking[old.def] = true
		if now.text == "" {
			c.add(Type, place{old.def, ""}, Breaking, "", "the Go name %s goes", name)
		} else {
			c.add(Type, place{old.def, ""}, Breaking, "", "the Go type of %s changes", name)
		}
	}
}

// placeOf returns the place that a JSON pointer into a schema refers to.
func placeOf(pointer string) place {
	tokens := strings.Split(pointer, "/")
	if len(tokens) < 3 {
		return place{}
	}
	p := place{def: jsonedit.UnescapeToken(tokens[2])}
	for i := 3; i < len(tokens); i++ {
		switch tokens[i] {
		case "properties":
			if i++; i < len(tokens) {
				p = p.member(jsonedit.UnescapeToken(tokens[i]))
			}
		case "items":
			p = p.below("[]")
		case "additionalProperties":
			p = p.below("{}")
		}
	}
	return p
}

// goName is a type, a field or a constant that a generated package declares.
type goName struct {
	text, plain string // its Go type, with alias names and with aliases resolved
	def         string // the definition that it belongs to
}

// goTypes returns the declarations of the package that is generated from docs, by name.
func goTypes(rows *merge.Overrides, docs ...*load.Document) (map[string]goName, error) {
	graph, err := merge.Merge(docs, rows)
	if err != nil {
		return nil, err
	}
	for i := range graph.Revisions { // file names and duplicate revisions do not give valid Go names
		graph.Revisions[i] = fmt.Sprintf("number %d", i)
	}
	pkg, err := plan.Build(graph, plan.Config{Name: "p", Overrides: rows})
	if err != nil {
		return nil, err
	}
	names := map[string]goName{}
	owner := func(name, def string) string {
		if def != "" {
			return def
		}
		for _, d := range graph.Names() { // an inline shape is named after the definition that contains it
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(d)) && len(d) > len(def) {
				def = d
			}
		}
		return def
	}
	add := func(name, def, before string, t ir.Type) {
		n := goName{text: before, plain: before, def: owner(name, def)}
		if t != nil {
			n.text, n.plain = n.text+goType(t, false), n.plain+goType(t, true)
		}
		names[name] = n
	}
	for _, s := range pkg.Structs {
		add(s.GoName, s.Def, "struct", nil)
		for _, f := range s.Fields {
			if f.GoName != "" {
				add(s.GoName+"."+f.GoName, s.Def, strings.Repeat("*", int(f.Presence)%2), f.Type)
			}
		}
		if s.Rest != nil {
			add(s.GoName+".AdditionalProperties", s.Def, "map[string]", s.Rest)
		}
	}
	for _, u := range pkg.Unions {
		add(u.GoName, u.Def, "union", nil)
	}
	for _, e := range pkg.Enums {
		add(e.GoName, e.Def, fmt.Sprintf("enum, of strings: %t", e.String), nil)
		for _, v := range e.Values {
			add(v.GoName, e.Def, e.GoName+" "+v.JSON, nil)
		}
	}
	for _, o := range pkg.OneOrMany {
		add(o.GoName, "", "one or many ", o.Elem)
	}
	for _, w := range pkg.Wrappers {
		add(w.GoName, "", "wrapped ", w.Type)
	}
	for _, a := range pkg.Aliases {
		add(a.GoName, a.Def, "= ", a.Type)
	}
	return names, nil
}

// goType returns the name of a type. If plain is set, it resolves aliases.
func goType(t ir.Type, plain bool) string {
	switch t := t.(type) {
	case *ir.Struct:
		return t.GoName
	case *ir.Union:
		return t.GoName
	case *ir.Enum:
		return t.GoName
	case *ir.OneOrMany:
		return t.GoName
	case *ir.Wrapper:
		return t.GoName
	case *ir.Alias:
		if plain {
			return goType(t.Type, plain)
		}
		return t.GoName
	case *ir.List:
		return "[]" + goType(t.Elem, plain)
	case *ir.Map:
		return "map[string]" + goType(t.Elem, plain)
	case *ir.Nullable:
		return "nullable " + goType(t.Elem, plain)
	case *ir.Scalar:
		return "codec.Scalar"
	case ir.Raw:
		return "json.RawMessage"
	}
	return fmt.Sprintf("%T %v", t, t)
}
