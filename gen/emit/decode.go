package emit

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/gen/ir"
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
	w.f("// DecodeJSON reads an object. Members that have no field are kept in x.Extra, and so is\n// what a field cannot hold.\n")
	w.f("func (x *%s) DecodeJSON(r *codec.Reader) {\n\t*x = %[1]s{}\n", s.GoName)
	if len(s.Fields) > 0 {
		w.f("\tvar seen codec.Seen\n")
	}
	name := "name"
	if len(s.Fields) == 0 {
		name = "_"
	}
	w.f("\tr.Object()\n\tfor %s, ok := r.NextKey(); ok; %[1]s, ok = r.NextKey() {\n\t\t", name)
	if len(s.Fields) > 0 {
		w.f("switch string(name) {\n")
		for _, f := range s.Fields {
			w.f("\t\tcase %q:\n", f.JSON)
			w.decodeField(f)
		}
		w.f("\t\tdefault:\n\t\t\t")
		w.decodeRest(s)
		w.f("\t\t}\n")
	} else {
		w.decodeRest(s)
	}
	w.f("\t}\n")
	if s.Required > 0 {
		w.f("\tseen.Require(&x.Extra, %d)\n", s.Required)
	}
	w.f("}\n\n")
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
		kind := "ConstMember"
		if !strings.HasPrefix(f.Const, `"`) {
			kind = "ConstIntMember"
		}
		w.f("\t\t\tr.%s(&x.Extra, &seen, %d, %q, %s)\n", kind, f.Bit, f.JSON, f.Const)
		return
	}
	if t == ir.RawAny || isNullable {
		w.f("\t\t\tif r.MemberOrNull(&seen, %d) {\n", f.Bit)
	} else {
		w.f("\t\t\tif r.Member(&x.Extra, &seen, %d, %q) {\n", f.Bit, f.JSON)
	}
	if f.Open {
		w.f("\t\t\t\tstart := r.Place()\n")
	}
	switch {
	case isNullable && f.Presence == ir.Plain:
		w.f("\t\t\t\tif !r.Null() {\n\t\t\t\t\t%s = %s\n\t\t\t\t}\n", field, newMember(nullable.Elem, f.JSON))
	case isNullable:
		w.f("\t\t\t\t%s = &codec.Nullable[%s]{Null: r.Null()}\n\t\t\t\tif !%[1]s.Null {\n\t\t\t\t\t%[1]s.Value = %[3]s\n\t\t\t\t}\n", field, goType(nullable.Elem), readMember(nullable.Elem, f.JSON))
	case byPointer(t) && f.Presence != ir.Pointer:
		w.f("\t\t\t\t%s.DecodeJSON(r)\n", field)
	case f.Presence == ir.Pointer:
		w.f("\t\t\t\t%s = %s\n", field, newMember(f.Type, f.JSON))
	default:
		w.f("\t\t\t\t%s = %s\n", field, readMember(f.Type, f.JSON))
	}
	if f.Open {
		w.f("\t\t\t\tcodec.OrKeep(r, start, &x.Extra, %q, &%s)\n", f.JSON, field)
	}
	w.f("\t\t\t}\n")
}

// newMember is the expression that reads the member name of x and returns a pointer to it.
func newMember(t ir.Type, name string) string {
	if byPointer(t) {
		return fmt.Sprintf("codec.New(r, (*%s).DecodeJSON)", goType(t))
	}
	under, _ := underlying(t)
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
