package emit

import (
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// protocol prints the functions and constants for revisions, methods and capabilities.
func (w *printer) protocol() {
	w.f(`// Revisions returns the revisions that this package supports, oldest first.
func Revisions() []Revision {
	return []Revision{`)
	for i, r := range w.p.Revisions {
		w.f("%s%s", strings.Repeat(", ", min(i, 1)), r.Const)
	}
	w.f(`}
}

// Defines reports whether the schema of the revision has the definition.
func (rev Revision) Defines(definition string) bool {
	_, ok := table.Root(string(rev), definition)
	return ok
}

`)
	if len(w.p.Methods) > 0 || len(w.p.Needs) > 0 {
		w.f(`// bit returns the bit of the revision in a set of revisions, or 0 if it is unknown.
func (rev Revision) bit() uint64 {
	switch rev {
`)
		for i, r := range w.p.Revisions {
			w.f("\tcase %s:\n\t\treturn 1 << %d\n", r.Const, i)
		}
		w.f(`	}
	return 0
}

`)
	}
	if len(w.p.Methods) > 0 {
		w.f(`// Has reports whether the revision has the method.
func (rev Revision) Has(method string) bool {
	m := lookup(method)
	return m != nil && m.revisions&rev.bit() != 0
}

`)
		w.methodNames()
	}
	w.capabilities()
	w.needs()
}

// methodNames prints a constant for the name of each method.
func (w *printer) methodNames() {
	w.f("// The names of the methods on the wire.\nconst (\n")
	for _, m := range w.p.Methods {
		w.f("\t%s = %q\n", m.Const, m.Name)
	}
	w.f(")\n\n")
}

// methodColumns prints the columns of the method table that are about capabilities.
func (w *printer) methodColumns(m *ir.Method) {
	if m.Capability != "" {
		w.f(", Capability: %q, capabilityIn: %#b", m.Capability, m.CapabilityIn)
	}
	if m.SenderDeclares {
		w.f(", SenderDeclares: true")
	}
	if m.TaskCapability != "" {
		w.f(", TaskCapability: %q, taskIn: %#b", m.TaskCapability, m.TaskIn)
	}
}

// capabilities prints the method Declares for the capabilities of each side.
func (w *printer) capabilities() {
	if len(w.p.Capabilities) == 0 {
		return
	}
	var last *ir.Struct
	for _, c := range w.p.Capabilities {
		if c.Type != last {
			if last != nil {
				w.f("\t}\n\treturn false\n}\n\n")
			}
			last = c.Type
			w.f(`// Declares reports whether c declares a capability. The name of a capability is the path of its member,
// joined by dots, such as %q. A boolean member must be true, and any other must not be null.
func (c *%s) Declares(capability string) bool {
	switch capability {
`, longest(w.p.Capabilities, c.Type), c.Type.GoName)
		}
		w.f("\tcase %q:\n\t\treturn %s\n", c.Name, declares(c))
	}
	w.f("\t}\n\treturn false\n}\n\n")
	w.f("func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != \"null\" }\n\n")
	w.f("func isTrue(b *bool) bool { return b != nil && *b }\n\n")
}

// longest returns the name of the first of the most deeply nested capabilities of st, as an
// example.
func longest(all []*ir.Capability, st *ir.Struct) string {
	var best *ir.Capability
	for _, c := range all {
		if c.Type == st && (best == nil || len(c.Path) > len(best.Path)) {
			best = c
		}
	}
	return best.Name
}

// declares returns the condition under which c is declared.
func declares(c *ir.Capability) string {
	var conditions []string
	place := "c"
	for _, f := range c.Path[:len(c.Path)-1] {
		place += "." + f.GoName
		conditions = append(conditions, place+" != nil")
	}
	last := c.Path[len(c.Path)-1]
	own := declared(last, place)
	if c.Unless != nil {
		own = "(" + own + " || !" + declared(c.Unless.Path[len(c.Unless.Path)-1], place) + ")"
	}
	return strings.Join(append(conditions, own), " && ")
}

// declared returns the condition under which the member f of the object at place is declared.
func declared(f *ir.Field, place string) string {
	v := place + "." + f.GoName
	switch under, _ := underlying(f.Type); under.(type) {
	case ir.Raw:
		return "present(" + v + ")"
	case ir.Prim:
		return "isTrue(" + v + ")"
	}
	return v + " != nil"
}

// needs prints the capabilities that params need in addition to that of their method.
func (w *printer) needs() {
	if len(w.p.Needs) == 0 {
		return
	}
	w.f(`// ParamsNeed returns the capability that the receiver of params must have declared in addition to that
// of the method, or "" if revision rev defines none. It returns false if the revision does not
// allow such params.
func ParamsNeed(rev Revision, params codec.Encoder) (capability string, ok bool) {
`)
	x := ""
	for _, n := range w.p.Needs {
		if n.Fields != nil {
			x = "x := "
		}
	}
	w.f("\tswitch %sparams.(type) {\n", x)
	var last *ir.Struct
	for _, n := range w.p.Needs {
		if n.Params != last {
			w.f("\tcase *%s:\n", n.Params.GoName)
		}
		last = n.Params
		var set []string
		for _, f := range n.Fields {
			set = append(set, isSet(f.Type, "x."+f.GoName))
			if f.Presence == ir.Pointer {
				set[len(set)-1] = "x." + f.GoName + " != nil"
			}
		}
		if set != nil {
			w.f("\t\tif %s {\n", strings.Join(set, " || "))
		}
		w.f("\t\treturn need(rev, %q, %#b, %#b)\n", n.Capability, n.CapabilityIn, n.In)
		if set != nil {
			w.f("\t\t}\n")
		}
	}
	w.f(`	}
	return "", true
}

// need implements ParamsNeed for params that exist in the revisions in. Those in capabilityIn have
// the capability.
func need(rev Revision, capability string, capabilityIn, in uint64) (string, bool) {
	switch bit := rev.bit(); {
	case in&bit == 0:
		return capability, false
	case capabilityIn&bit == 0:
		return "", true
	}
	return capability, true
}

`)
}
