package emit

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// validate prints the functions that check values, and their tables.
func (w *printer) validate(tables string) {
	w.f(`// Validate checks data, JSON text, against a definition in the schema of one revision. The suffix
// "/params" selects the params of a request or notification. The error lists every fault with its
// JSON pointer ([jsonschema.Faults]); nil means there is none.
func Validate(rev Revision, definition string, data []byte) error {
	return table.Validate(string(rev), definition, data)
}

// validate checks x against the first of the definitions that the revision has.
func validate(x codec.Encoder, rev Revision, definitions ...string) error {
	return table.ValidateValue(x, string(rev), definitions...)
}

`)
	params := w.paramsOf()
	for _, s := range w.p.Structs {
		var roots []string
		if s.Def != "" {
			roots = append(roots, s.Def)
		}
		for _, d := range w.p.Defs { // names that older revisions give to the definition
			if d.Type == ir.Type(s) && d.Name != s.Def {
				roots = append(roots, d.Name)
			}
		}
		roots = append(roots, params[s]...)
		if len(roots) == 0 {
			roots = unionsOf(s.Unions)
		}
		w.validateMethod(s.GoName, roots)
	}
	for _, x := range w.p.Wrappers {
		w.validateMethod(x.GoName, unionsOf(x.Unions))
	}
	w.registry()
	w.f("%s\n", tables)
}

// validateMethod prints the method Validate of a type that is checked against one of the
// definitions in roots. It prints nothing if there are none.
func (w *printer) validateMethod(name string, roots []string) {
	if len(roots) > 0 {
		quoted := make([]string, len(roots))
		for i, root := range roots {
			quoted[i] = strconv.Quote(root)
		}
		w.f("// Validate encodes x and checks it against the schema of revision rev; see [Value].\nfunc (x *%s) Validate(rev Revision) error { return validate(x, rev, %s) }\n\n", name, strings.Join(quoted, ", "))
	}
}

// unionsOf lists the unions that are definitions. A variant without a definition of its own is
// checked against them.
func unionsOf(unions []*ir.Union) []string {
	var defs []string
	for _, u := range unions {
		if u.Def != "" {
			defs = append(defs, u.Def)
		}
	}
	return defs
}

// paramsOf maps each struct to the "/params" definitions of the requests and notifications that
// have it as params. It omits a struct with a definition of its own that several messages use; that
// struct is checked under its own name.
func (w *printer) paramsOf() map[*ir.Struct][]string {
	out := map[*ir.Struct][]string{}
	for _, m := range w.p.Methods {
		under, _ := underlying(m.Params)
		switch t := under.(type) {
		case *ir.Struct:
			out[t] = append(out[t], m.ParamsDef)
		case *ir.Union:
			for _, v := range t.Variants {
				if s, ok := v.Type.(*ir.Struct); ok {
					out[s] = append(out[s], m.ParamsDef)
				}
			}
		}
	}
	for _, m := range w.p.Methods {
		if under, _ := underlying(m.Result); m.ResultDef != "" {
			if s, ok := under.(*ir.Struct); ok && s.Def == "" {
				out[s] = append(out[s], m.ResultDef)
			}
		}
	}
	for s, places := range out {
		if len(places) > 1 && s.Def != "" {
			out[s] = nil
		}
	}
	return out
}

func (w *printer) registry() {
	var rows strings.Builder
	structs, others := false, false
	for _, d := range w.p.Defs {
		if d.Base {
			continue
		}
		if under, _ := underlying(d.Type); isStruct(under) {
			structs = true
			fmt.Fprintf(&rows, "\t{%q, structOf[%s]},\n", d.Name, goType(d.Type))
			continue
		}
		others = true
		fmt.Fprintf(&rows, "\t{%q, hold(%[1]q, %s, %s)},\n", d.Name, reader(d.Type), writer(d.Type))
	}
	w.f(`// New returns a new value of the definition with that name in the schemas, or nil if there is none. A
// struct is returned as a pointer. Any other value is returned in a holder, whose method Unwrap
// returns the value itself. The holder of a JSON-RPC message contains raw JSON text; package
// jsonrpc decodes it as a [jsonrpc.Message].
func New(definition string) Value {
	i, ok := slices.BinarySearchFunc(definitions[:], definition, func(d registered, name string) int { return strings.Compare(d.name, name) })
	if !ok {
		return nil
	}
	return definitions[i].make()
}

// Definitions returns the names of all definitions, of all revisions, sorted.
func Definitions() []string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = d.name
	}
	return names
}

// registered is a definition and a function that makes a value of it.
type registered struct {
	name string
	make func() Value
}

// definitions are sorted by name.
var definitions = [...]registered{
%s}

`, rows.String())
	if structs {
		w.f(`// structOf makes a Value of a struct.
func structOf[T any, P interface {
	*T
	Value
}]() Value {
	return P(new(T))
}

`)
	}
	if others {
		w.f(`// holder makes a Value of a definition that is not a struct.
type holder[T any] struct {
	value      T
	definition string
	read       func(*wire.Reader) T
	write      func(*wire.Writer, T)
}

// hold returns a function that makes a holder.
func hold[T any](definition string, read func(*wire.Reader) T, write func(*wire.Writer, T)) func() Value {
	return func() Value { return &holder[T]{definition: definition, read: read, write: write} }
}

func (h *holder[T]) DecodeJSON(r *wire.Reader)  { h.value = h.read(r) }
func (h *holder[T]) EncodeJSON(w *wire.Writer)  { h.write(w, h.value) }
func (h *holder[T]) Validate(rev Revision) error { return validate(h, rev, h.definition) }
func (h *holder[T]) Unwrap() any                 { return h.value }

`)
	}
}

func isStruct(t ir.Type) bool { _, ok := t.(*ir.Struct); return ok }
