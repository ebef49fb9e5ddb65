package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// project prints the projection of values to a revision.
func (w *printer) project() {
	if len(w.p.Projected) == 0 {
		return
	}
	w.f("%s", projectHead)
	p := &projection{used: map[string]bool{}}
	var functions []string
	add := func(name string, varies ir.Revs, fields ...*ir.Field) {
		w.f("\tcase *%s:\n\t\treturn project%[1]s(x, bit)\n", name)
		functions = append(functions, p.copied(name, varies, fields...))
	}
	for _, t := range w.p.Projected {
		switch t := t.(type) {
		case *ir.Struct:
			fields := t.Fields
			if t.Rest != nil {
				fields = append(slices.Clip(fields), &ir.Field{GoName: "AdditionalProperties", Type: &ir.Map{Elem: t.Rest}, In: t.Varies})
			}
			add(t.GoName, t.Varies, fields...)
		case *ir.OneOrMany:
			add(t.GoName, t.Varies, &ir.Field{GoName: "Items", Type: &ir.List{Elem: t.Elem}, In: t.Varies})
		case *ir.Wrapper:
			add(t.GoName, t.Varies, &ir.Field{GoName: "Value", Type: t.Type, In: t.Varies})
		}
	}
	w.f("\t}\n\treturn v\n}\n\n")
	for _, f := range functions {
		w.f("%s", f)
	}
	for _, t := range w.p.Projected {
		if u, ok := t.(*ir.Union); ok {
			w.f("%s", p.union(u))
		}
	}
	for _, h := range projectHelpers {
		if p.used[h.name] {
			w.f("%s\n", h.source)
		}
	}
}

// projection records the helpers that the output calls.
type projection struct{ used map[string]bool }

func (p *projection) use(name string) string {
	p.used[name] = true
	return name
}

// copied returns the function that projects a struct. It is a function of its own, because project
// would need stack for the copies of all types.
func (p *projection) copied(name string, varies ir.Revs, fields ...*ir.Field) string {
	var parts []string
	for _, f := range fields {
		if f.Lacking != 0 {
			set := isSet(f.Type, "y."+f.GoName)
			if f.Presence == ir.Pointer {
				set = "y." + f.GoName + " != nil"
			}
			parts = append(parts, fmt.Sprintf("%s(bit&%#b, %s, &y.%s)", p.use("drop"), f.Lacking, set, f.GoName))
		}
	}
	for _, f := range fields {
		if varies := f.In & ir.Varies(f.Type); varies != 0 {
			parts = append(parts, p.inside(f, varies))
		}
	}
	// Put several calls on a line.
	const width = 100
	var b strings.Builder
	const end = " {\n\t\treturn own(y)\n\t}\n\treturn x\n}\n\n"
	fmt.Fprintf(&b, "func project%s(x *%[1]s, bit uint64) *%[1]s {\n\tif y, ok := copied(x, bit&%#b); ok && ", name, varies)
	if len(parts) == 1 {
		return b.String() + parts[0] + end
	}
	b.WriteString(p.use("changed") + "(")
	line := width
	for i, part := range parts {
		if line += len(part) + 2; line > width {
			b.WriteString("\n\t\t")
			line = len(part)
		} else {
			b.WriteString(" ")
		}
		b.WriteString(part + ","[:min(1, len(parts)-1-i)])
	}
	return b.String() + ")" + end
}

// inside returns the call that projects the field f of x to that of y.
func (p *projection) inside(f *ir.Field, varies ir.Revs) string {
	null, isNull := nullable(f.Type)
	switch {
	case f.Presence == ir.Pointer && isNull:
		return fmt.Sprintf("%s(bit&%#b, &y.%s, %s(%s))", p.use("within"), varies, f.GoName, p.use("orNull"), p.of(null.Elem))
	case f.Presence == ir.Pointer:
		return fmt.Sprintf("%s(bit&%#b, &y.%s, %s)", p.use("within"), varies, f.GoName, p.of(f.Type))
	case f.Presence == ir.Plain && lacking(f.Type):
		return fmt.Sprintf("%s(bit&%#b, &x.%s, &y.%[3]s, %s(%s))", p.use("inside"), varies, f.GoName, p.use("required"), p.of(f.Type))
	}
	return fmt.Sprintf("%s(bit&%#b, &x.%s, &y.%[3]s, %s)", p.use("inside"), varies, f.GoName, p.of(f.Type))
}

// lacking reports whether t is a union with a variant that some revision lacks.
func lacking(t ir.Type) bool {
	under, _ := underlying(t)
	u, ok := under.(*ir.Union)
	return ok && slices.ContainsFunc(u.Variants, func(v *ir.Variant) bool { return v.Lacking != 0 })
}

// union returns the function for a union with variants that some revision lacks.
func (p *projection) union(u *ir.Union) string {
	var b strings.Builder
	fmt.Fprintf(&b, "func project%s(x *%[1]s, bit uint64) *%[1]s {\n\tswitch (*x).(type) {\n", u.GoName)
	seen := map[ir.Revs]bool{0: true}
	for i, v := range u.Variants {
		if seen[v.Lacking] {
			continue
		}
		seen[v.Lacking] = true
		var types []string
		for _, same := range u.Variants[i:] {
			if same.Lacking == v.Lacking {
				types = append(types, "*"+goType(same.Type))
			}
		}
		fmt.Fprintf(&b, "\tcase %s:\n\t\tif bit&%#b != 0 {\n\t\t\treturn nil\n\t\t}\n", strings.Join(types, ", "), v.Lacking)
	}
	fmt.Fprintf(&b, "\t}\n\treturn %s(x, bit)\n}\n\n", p.use("variant"))
	return b.String()
}

// of returns the function that projects values of type t.
func (p *projection) of(t ir.Type) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case *ir.Union:
		if lacking(u) {
			return "project" + u.GoName
		}
		return p.use("variant") + "[" + u.GoName + "]"
	case *ir.List:
		return p.use("list") + "(" + p.of(u.Elem) + ")"
	case *ir.Map:
		return p.use("mapOf") + "(" + p.of(u.Elem) + ")"
	case *ir.Nullable:
		return p.use("pointer") + "(" + p.of(u.Elem) + ")"
	}
	return p.use("object") + "[" + goType(under) + "]"
}

const projectHead = `// Project returns v without the members, list elements and map values that revision rev does not
// define. V is a pointer to the params or the result of a message, or to a part of one. Project
// does not modify v. It copies only the parts that change, and returns v itself if no part does.
//
// Project keeps Extra, the members of objects that some revision leaves open, such as _meta, and
// required members whose variant the revision lacks. If rev is unknown, Project returns v.
func Project[T codec.Encoder](rev Revision, v T) T {
	if p := project(v, rev.bit()); p != nil {
		return p.(T)
	}
	return v
}

// copied returns a copy of x. It returns false if x is nil or varies is 0. Varies is the bit of the
// target revision if the type of x varies in it, and 0 otherwise.
func copied[T any](x *T, varies uint64) (y T, ok bool) {
	if x == nil || varies == 0 {
		return y, false
	}
	return *x, true
}

// own returns a pointer to y. Copies that do not change stay on the stack.
func own[T any](y T) *T { return &y }

// project is Project for the revision with the bit. Functions for a part of a value take and return
// a pointer to it. They return the same pointer, one to a new value, or nil if the revision lacks
// the value.
func project(v codec.Encoder, bit uint64) codec.Encoder {
	switch x := v.(type) {
`

// projectHelpers are the functions that the projection of a type can call.
var projectHelpers = []struct{ name, source string }{
	{"changed", `// changed reports whether one of the parts of a copy has changed.
func changed(parts ...bool) bool { return slices.Contains(parts, true) }
`},
	{"drop", `// drop clears a member if it is set and lacking is not 0. Lacking is the bit of the target revision if
// that lacks the member, and 0 otherwise. Like the functions below, drop reports whether the member
// has changed.
func drop[T any](lacking uint64, set bool, member *T) bool {
	if lacking == 0 || !set {
		return false
	}
	*member = *new(T)
	return true
}
`},
	{"inside", `// inside projects the member at x to y.
func inside[T any](varies uint64, x, y *T, project func(*T, uint64) *T) bool {
	if varies == 0 {
		return false
	}
	z := project(x, varies)
	if z == x {
		return false
	}
	*y = *new(T)
	if z != nil {
		*y = *z
	}
	return true
}
`},
	{"within", `// within projects an optional member.
func within[T any](varies uint64, member **T, project func(*T, uint64) *T) bool {
	x := *member
	if varies == 0 || x == nil {
		return false
	}
	*member = project(x, varies)
	return *member != x
}
`},
	{"required", `// required keeps a value that the revision lacks.
func required[T any](project func(*T, uint64) *T) func(*T, uint64) *T {
	return func(x *T, bit uint64) *T {
		if y := project(x, bit); y != nil {
			return y
		}
		return x
	}
}
`},
	{"object", `func object[T any, P interface {
	*T
	codec.Encoder
}](x *T, bit uint64) *T {
	return project(P(x), bit).(P)
}
`},
	{"variant", `func variant[T codec.Encoder](x *T, bit uint64) *T {
	before := codec.Encoder(*x)
	after := project(before, bit)
	if after == before {
		return x
	}
	return own(after.(T))
}
`},
	{"list", `func list[E any](project func(*E, uint64) *E) func(*[]E, uint64) *[]E {
	return func(x *[]E, bit uint64) *[]E {
		var out []E
		for i := range *x {
			before := &(*x)[i]
			after := project(before, bit)
			if after != before && out == nil {
				out = append(make([]E, 0, len(*x)), (*x)[:i]...)
			}
			if after != nil && out != nil {
				out = append(out, *after)
			}
		}
		if out == nil {
			return x
		}
		return &out
	}
}
`},
	{"mapOf", `func mapOf[E any](project func(*E, uint64) *E) func(*map[string]E, uint64) *map[string]E {
	return func(x *map[string]E, bit uint64) *map[string]E {
		var out map[string]E
		for key, before := range *x {
			after := project(&before, bit)
			if after == &before {
				continue
			}
			if out == nil {
				out = maps.Clone(*x)
			}
			if delete(out, key); after != nil {
				out[key] = *after
			}
		}
		if out == nil {
			return x
		}
		return &out
	}
}
`},
	{"orNull", `func orNull[T any](project func(*T, uint64) *T) func(*wire.Nullable[T], uint64) *wire.Nullable[T] {
	return func(x *wire.Nullable[T], bit uint64) *wire.Nullable[T] {
		switch y := project(&x.Value, bit); {
		case x.Null || y == &x.Value:
			return x
		case y == nil:
			return nil
		default:
			return &wire.Nullable[T]{Value: *y}
		}
	}
}
`},
	{"pointer", `func pointer[T any](project func(*T, uint64) *T) func(**T, uint64) **T {
	return func(x **T, bit uint64) **T {
		if *x == nil {
			return x
		}
		switch y := project(*x, bit); y {
		case *x:
			return x
		case nil:
			return nil
		default:
			return &y
		}
	}
}
`},
}
