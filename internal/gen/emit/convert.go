package emit

import (
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// convert prints the conversions between a struct and the structs that consist of some of its
// fields.
func (w *printer) convert() {
	for _, s := range w.p.Structs {
		for _, part := range s.Parts {
			comment(&w.b, "", fmt.Sprintf("As%s returns the members that x shares with [%[1]s], without Extra.", part.GoName))
			w.f("func (x *%s) As%s() %[2]s {\n\treturn %[2]s{", s.GoName, part.GoName)
			w.fields(part)
			comment(&w.b, "", fmt.Sprintf("As%s returns %s [%[1]s] with the members of x, without Extra.", s.GoName, article(s.GoName)))
			w.f("func (x *%s) As%s() *%[2]s {\n\treturn &%[2]s{", part.GoName, s.GoName)
			w.fields(part)
		}
	}
}

// fields prints the rest of a literal that copies the fields of part from x.
func (w *printer) fields(part *ir.Struct) {
	named := slices.DeleteFunc(slices.Clone(part.Fields), func(f *ir.Field) bool { return f.GoName == "" })
	for i, f := range named {
		if i%4 == 0 {
			w.f("\n\t\t")
		} else {
			w.f(" ")
		}
		w.f("%s: x.%[1]s,", f.GoName)
	}
	w.f("\n\t}\n}\n\n")
}
