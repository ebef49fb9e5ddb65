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
		w.f("// DecodeJSON reads one element or a list of them.\nfunc (x *%s) DecodeJSON(r *codec.Reader) {\n", o.GoName)
		w.f("\tif x.List = r.Kind() == codec.KindArray; x.List {\n\t\tx.Items = %s\n\t\treturn\n\t}\n", read(&ir.List{Elem: o.Elem}))
		w.f("\tx.Items = []%s{%s}\n}\n\n", goType(o.Elem), read(o.Elem))
	}
	for _, x := range w.p.Wrappers {
		w.f("// DecodeJSON reads the value.\nfunc (x *%s) DecodeJSON(r *codec.Reader) { x.Value = %s }\n\n", x.GoName, read(x.Type))
	}
}

func (w *printer) decodeStruct(s *ir.Struct) {
	fields := slices.SortedFunc(slices.Values(s.Fields), func(f, g *ir.Field) int { return f.Bit - g.Bit })
	if len(fields) > 0 {
		w.members(s, fields)
	}
	w.f("// DecodeJSON reads x from an object; x.Extra keeps what has no field or does not fit its field.\n")
	w.f("func (x *%s) DecodeJSON(r *codec.Reader) {\n\t*x = %[1]s{}\n", s.GoName)
	if len(fields) == 0 {
		w.f("\tr.Object()\n\tfor _, ok := r.NextKey(); ok; _, ok = r.NextKey() {\n")
		w.decodeRest(s)
		w.f("\t}\n}\n\n")
		return
	}
	w.f("\tseen := r.Enter(&membersOf%s)\n", s.GoName)
	w.f("\tfor i := r.Member(&seen, &x.Extra); i >= 0; i = r.Member(&seen, &x.Extra) {\n\t\tswitch i {\n")
	for _, f := range fields {
		w.f("\t\tcase %d: // %s\n", f.Bit, strings.Trim(literal(f.JSON), "`"))
		w.decodeField(f)
	}
	w.f("\t\tdefault:\n")
	w.decodeRest(s)
	w.f("\t\t}\n\t}\n")
	if s.Required > 0 {
		w.f("\tr.Require(&seen, &x.Extra, %d)\n", s.Required)
	}
	w.f("}\n\n")
}

// members prints the table of what s knows.
func (w *printer) members(s *ir.Struct, fields []*ir.Field) {
	var names, null []string
	for _, f := range fields {
		names = append(names, literal(quote(f.JSON)+":"))
		t, _ := underlying(f.Type)
		if _, nullable := t.(*ir.Nullable); f.GoName != "" && (nullable || t == ir.RawAny) {
			null = append(null, fmt.Sprintf("1<<%d", f.Bit))
		}
	}
	w.f("var membersOf%s = codec.Members{\nNames: []string{%s},\n", s.GoName, strings.Join(names, ", "))
	if len(null) > 0 {
		w.f("Null: %s,\n", strings.Join(null, "|"))
	}
	id := fnv.New32a()
	id.Write([]byte(s.GoName))
	w.f("ID: %d,\n}\n\n", id.Sum32()&0xFFFF)
}

func (w *printer) decodeRest(s *ir.Struct) {
	if s.Rest == nil {
		w.f("r.Extra(&x.Extra)\n")
		return
	}
	w.f("codec.Put(r, &x.AdditionalProperties, %s)\n", reader(s.Rest))
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
		w.f("r.%s(&seen, &x.Extra, %s)\n", kind, f.Const)
		return
	}
	keep := func(value string) string { return value }
	if f.Open {
		keep = func(value string) string { return "codec.OrKeep(r, &seen, &x.Extra, " + value + ")" }
	}
	switch {
	case isNullable && f.Presence == ir.Plain:
		w.f("if !r.Null() {\n%s = %s\n}\n", field, newMember(nullable.Elem, f.JSON))
	case isNullable:
		w.f("%s = &codec.Nullable[%s]{Null: r.Null()}\nif !%[1]s.Null {\n%[1]s.Value = %[3]s\n}\n", field, goType(nullable.Elem), readMember(nullable.Elem, f.JSON))
		if f.Open {
			w.f("%s = codec.OrKeep(r, &seen, &x.Extra, %[1]s)\n", field)
		}
	case byPointer(t) && f.Presence != ir.Pointer:
		w.f("%s.DecodeJSON(r)\n", field)
	case f.Presence == ir.Pointer:
		w.f("%s = %s\n", field, keep(newMember(f.Type, f.JSON)))
	default:
		w.f("%s = %s\n", field, keep(readMember(f.Type, f.JSON)))
	}
}

// newMember is the expression that reads the member name of x and returns a pointer to it.
func newMember(t ir.Type, name string) string {
	if byPointer(t) {
		return fmt.Sprintf("codec.New(r, (*%s).DecodeJSON)", goType(t))
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
			return fmt.Sprintf("r.NewInt(&x.Extra, %q)", name)
		case ir.Float:
			return fmt.Sprintf("r.NewFloat(&x.Extra, %q)", name)
		}
	}
	return "new(" + readMember(t, name) + ")"
}

// byPointer reports whether values of t decode into a place they are given.
func byPointer(t ir.Type) bool {
	t, _ = underlying(t)
	switch t.(type) {
	case *ir.Struct, *ir.OneOrMany, *ir.Wrapper:
		return true
	}
	return false
}

// readMember is read for the value of the member name of x, where a number that Go cannot
// hold exactly leaves its text.
func readMember(t ir.Type, name string) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		switch u {
		case ir.Int:
			return fmt.Sprintf("r.IntExact(&x.Extra, %q)", name)
		case ir.Float:
			return fmt.Sprintf("r.FloatExact(&x.Extra, %q)", name)
		}
	case *ir.Enum:
		if !u.String {
			return fmt.Sprintf("%s(r.IntExact(&x.Extra, %q))", goType(t), name)
		}
	}
	return read(t)
}

// read is the expression that reads a value of type t from r.
func read(t ir.Type) string {
	under, pkg := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		return [...]string{"r.Text()", "r.Bool()", "r.Number()", "r.Number()", "r.Number()"}[u]
	case *ir.Scalar:
		return "r.Scalar(" + scalarKinds(u) + ")"
	case ir.Raw:
		return [...]string{"r.Raw()", "r.RawObject()", "r.RawArray()"}[u]
	case *ir.Enum:
		if u.String {
			return goType(t) + "(r.Text())"
		}
		return "codec.ReadInt[" + goType(t) + "](r)"
	case *ir.List:
		if byPointer(u.Elem) {
			return fmt.Sprintf("codec.DecodeList[%s](r)", goType(u.Elem))
		}
		if u.Elem == ir.String {
			return "r.Texts()"
		}
		if e, _ := underlying(u.Elem); isText(e) {
			return fmt.Sprintf("codec.ReadTexts[%s](r)", goType(u.Elem))
		}
		return "codec.DecodeListFunc(r, " + reader(u.Elem) + ")"
	case *ir.Map:
		if byPointer(u.Elem) {
			return fmt.Sprintf("codec.DecodeMap[%s](r)", goType(u.Elem))
		}
		return "codec.DecodeMapFunc(r, " + reader(u.Elem) + ")"
	case *ir.Union:
		return pkg + "Decode" + u.GoName + "(r)"
	case *ir.Nullable:
		return fmt.Sprintf("codec.ReadOrNull(r, %s)", reader(u.Elem))
	}
	return fmt.Sprintf("codec.Read(r, (*%s).DecodeJSON)", goType(t))
}

// isText reports whether t is an enum of strings.
func isText(t ir.Type) bool {
	e, ok := t.(*ir.Enum)
	return ok && e.String
}

// reader is a function that reads a value of type t.
func reader(t ir.Type) string {
	under, pkg := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		return [...]string{"(*codec.Reader).Text", "(*codec.Reader).Bool", "(*codec.Reader).Number", "(*codec.Reader).Number", "(*codec.Reader).Number"}[u]
	case ir.Raw:
		return [...]string{"(*codec.Reader).Raw", "(*codec.Reader).RawObject", "(*codec.Reader).RawArray"}[u]
	case *ir.Union:
		return pkg + "Decode" + u.GoName
	}
	return fmt.Sprintf("func(r *codec.Reader) %s { return %s }", valueType(t), read(t))
}

func scalarKinds(s *ir.Scalar) string {
	var kinds []string
	for _, k := range []struct {
		on   bool
		name string
	}{{s.String, "String"}, {s.Number, "Number"}, {s.Integer && !s.Number, "Integer"}, {s.Bool, "Bool"}} {
		if k.on {
			kinds = append(kinds, "codec.Scalar"+k.name)
		}
	}
	return strings.Join(kinds, "|")
}
