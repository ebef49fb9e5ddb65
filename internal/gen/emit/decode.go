package emit

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

func (w *printer) decode() {
	for _, s := range w.p.Structs {
		w.decodeStruct(s)
	}
	for _, o := range w.p.OneOrMany {
		w.f("// DecodeJSON reads one element or a list of them.\nfunc (x *%s) DecodeJSON(r *wire.Reader) {\n", o.GoName)
		w.f("\tif x.List = r.Kind() == wire.KindArray; x.List {\n\t\tx.Items = %s\n\t\treturn\n\t}\n", read(&ir.List{Elem: o.Elem}))
		w.f("\tx.Items = []%s{%s}\n}\n\n", goType(o.Elem), read(o.Elem))
	}
	for _, x := range w.p.Wrappers {
		w.f("// DecodeJSON reads the value.\nfunc (x *%s) DecodeJSON(r *wire.Reader) { x.Value = %s }\n\n", x.GoName, read(x.Type))
	}
}

func (w *printer) decodeStruct(s *ir.Struct) {
	fields := slices.SortedFunc(slices.Values(s.Fields), func(f, g *ir.Field) int { return f.Bit - g.Bit })
	if len(fields) > 0 {
		w.members(s, fields)
	}
	w.f("// DecodeJSON reads x from an object. Members without a field, and values that do not fit their field,\n// go to x.Extra.\n")
	w.f("func (x *%s) DecodeJSON(r *wire.Reader) {\n\t*x = %[1]s{}\n", s.GoName)
	if len(fields) == 0 {
		w.f("\tr.Object()\n\tfor _, ok := r.NextKey(); ok; _, ok = r.NextKey() {\n")
		w.decodeRest(s)
		w.f("\t}\n}\n\n")
		return
	}
	w.f("\to := r.Enter(&membersOf%s, &x.Extra)\n", s.GoName)
	w.f("\tfor i := o.Next(); i >= 0; i = o.Next() {\n\t\tswitch i {\n")
	for _, f := range fields {
		w.f("\t\tcase %d: // %s\n", f.Bit, strings.Trim(literal(f.JSON), "`"))
		w.decodeField(f)
	}
	w.f("\t\tdefault:\n")
	w.decodeRest(s)
	w.f("\t\t}\n\t}\n")
	if s.Required > 0 {
		w.f("\to.Require(%d)\n", s.Required)
	}
	w.f("}\n\n")
}

// members prints the table of the members that have a field in s.
func (w *printer) members(s *ir.Struct, fields []*ir.Field) {
	var names, null []string
	for _, f := range fields {
		names = append(names, literal(quote(f.JSON)+":"))
		t, _ := underlying(f.Type)
		if _, nullable := t.(*ir.Nullable); f.GoName != "" && (nullable || t == ir.RawAny) {
			null = append(null, fmt.Sprintf("1<<%d", f.Bit))
		}
	}
	parts := []string{"Names: []string{" + strings.Join(names, ", ") + "}"}
	if len(null) > 0 {
		parts = append(parts, "Null: "+strings.Join(null, "|"))
	}
	id := fnv.New32a()
	id.Write([]byte(s.GoName))
	parts = append(parts, fmt.Sprintf("ID: %d", id.Sum32()&0xFFFF))
	line := fmt.Sprintf("var membersOf%s = wire.Members{%s}", s.GoName, strings.Join(parts, ", "))
	if len(line) > 100 {
		line = fmt.Sprintf("var membersOf%s = wire.Members{\n%s,\n}", s.GoName, strings.Join(parts, ",\n"))
	}
	w.f("%s\n\n", line)
}

func (w *printer) decodeRest(s *ir.Struct) {
	switch {
	case s.Rest == nil && len(s.Fields) == 0:
		w.f("r.Extra(&x.Extra)\n")
		return
	case s.Rest == nil:
		w.f("o.Extra()\n")
		return
	}
	w.f("wire.Put(r, &x.AdditionalProperties, %s)\n", reader(s.Rest))
}

func (w *printer) decodeField(f *ir.Field) {
	field := "x." + f.GoName
	t, _ := underlying(f.Type)
	nullable, isNullable := t.(*ir.Nullable)
	if f.GoName == "" {
		kind := "Const"
		if !strings.HasPrefix(f.Const, `"`) {
			kind = "ConstInt"
		}
		w.f("o.%s(%s)\n", kind, f.Const)
		return
	}
	keep := func(value string) string { return value }
	if f.Open {
		keep = func(value string) string { return "wire.KeepMismatch(&o, " + value + ")" }
	}
	switch {
	case isNullable && f.Presence == ir.Plain:
		w.f("if !r.Null() {\n%s = %s\n}\n", field, newMember(nullable.Elem))
	case isNullable:
		w.f("%s = &wire.Nullable[%s]{Null: r.Null()}\nif !%[1]s.Null {\n%[1]s.Value = %[3]s\n}\n", field, goType(nullable.Elem), readMember(nullable.Elem))
		if f.Open {
			w.f("%s = wire.KeepMismatch(&o, %[1]s)\n", field)
		}
	case byPointer(t) && f.Presence != ir.Pointer:
		w.f("%s.DecodeJSON(r)\n", field)
	case f.Presence == ir.Pointer:
		w.f("%s = %s\n", field, keep(newMember(f.Type)))
	default:
		w.f("%s = %s\n", field, keep(readMember(f.Type)))
	}
}

// newMember returns the expression that reads a member and returns a pointer to its value.
func newMember(t ir.Type) string {
	if byPointer(t) {
		return fmt.Sprintf("wire.New(r, (*%s).DecodeJSON)", goType(t))
	}
	under, _ := underlying(t)
	if isText(under) {
		return "(*" + goType(t) + ")(r.NewText())"
	}
	if p, ok := under.(ir.Prim); ok {
		switch p {
		case ir.String:
			return "r.NewText()"
		case ir.Bool:
			return "r.NewBool()"
		case ir.Int:
			return "o.NewInt()"
		case ir.Float:
			return "o.NewFloat()"
		}
	}
	return "new(" + readMember(t) + ")"
}

// byPointer reports whether values of t have a method DecodeJSON with a pointer receiver.
func byPointer(t ir.Type) bool {
	t, _ = underlying(t)
	switch t.(type) {
	case *ir.Struct, *ir.OneOrMany, *ir.Wrapper:
		return true
	}
	return false
}

// readMember is like [read], but for the member that o.Next returned. Extra keeps the text of a
// number that the Go type cannot represent exactly.
func readMember(t ir.Type) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		switch u {
		case ir.Int:
			return "o.Int()"
		case ir.Float:
			return "o.Float()"
		}
	case *ir.Enum:
		if !u.String {
			return goType(t) + "(o.Int())"
		}
	}
	return read(t)
}

// read returns the expression that reads a value of type t from r.
func read(t ir.Type) string {
	under, pkg := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		return [...]string{"r.Text()", "r.Bool()", "codec.Number(r.Number())", "codec.Number(r.Number())", "codec.Number(r.Number())"}[u]
	case *ir.Scalar:
		return "codec.ReadScalar(r, " + scalarKinds(u) + ")"
	case ir.Raw:
		return [...]string{"r.Raw()", "r.RawObject()", "r.RawArray()"}[u]
	case *ir.Enum:
		if u.String {
			return goType(t) + "(r.Text())"
		}
		return "wire.ReadInt[" + goType(t) + "](r)"
	case *ir.List:
		if byPointer(u.Elem) {
			return fmt.Sprintf("wire.DecodeList[%s](r)", goType(u.Elem))
		}
		if u.Elem == ir.String {
			return "wire.ReadTexts[string](r)"
		}
		if e, _ := underlying(u.Elem); isText(e) {
			return fmt.Sprintf("wire.ReadTexts[%s](r)", goType(u.Elem))
		}
		return "wire.DecodeListFunc(r, " + reader(u.Elem) + ")"
	case *ir.Map:
		if byPointer(u.Elem) {
			return fmt.Sprintf("wire.DecodeMap[%s](r)", goType(u.Elem))
		}
		return "wire.DecodeMapFunc(r, " + reader(u.Elem) + ")"
	case *ir.Union:
		return pkg + "Decode" + u.GoName + "(r)"
	case *ir.Nullable:
		return fmt.Sprintf("wire.ReadOrNull(r, %s)", reader(u.Elem))
	}
	return fmt.Sprintf("wire.Read(r, (*%s).DecodeJSON)", goType(t))
}

// isText reports whether t is an enum of strings.
func isText(t ir.Type) bool {
	e, ok := t.(*ir.Enum)
	return ok && e.String
}

// reader returns the expression for a function that reads a value of type t.
func reader(t ir.Type) string {
	under, pkg := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		switch u {
		case ir.String:
			return "(*wire.Reader).Text"
		case ir.Bool:
			return "(*wire.Reader).Bool"
		}
	case ir.Raw:
		return [...]string{"(*wire.Reader).Raw", "(*wire.Reader).RawObject", "(*wire.Reader).RawArray"}[u]
	case *ir.Union:
		return pkg + "Decode" + u.GoName
	}
	return fmt.Sprintf("func(r *wire.Reader) %s { return %s }", valueType(t), read(t))
}

func scalarKinds(s *ir.Scalar) string {
	var kinds []string
	for _, k := range []struct {
		on   bool
		name string
	}{{s.String, "String"}, {s.Number, "Number"}, {s.Integer && !s.Number, "Integer"}, {s.Bool, "Bool"}} {
		if k.on {
			kinds = append(kinds, "wire.Scalar"+k.name)
		}
	}
	return strings.Join(kinds, "|")
}
