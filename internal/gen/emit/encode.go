package emit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

func (w *printer) encode() {
	for _, s := range w.p.Structs {
		w.encodeStruct(s)
	}
	for _, o := range w.p.OneOrMany {
		w.f("// EncodeJSON writes one element or a list.\nfunc (x *%s) EncodeJSON(w *wire.Writer) {\n", o.GoName)
		w.f("\tif !x.List && len(x.Items) == 1 {\n\t\t%s\n\t\treturn\n\t}\n\t%s\n}\n\n", write(o.Elem, "x.Items[0]"), write(&ir.List{Elem: o.Elem}, "x.Items"))
		w.f("// IsZero reports whether x has no element and is not marked as a list.\nfunc (x *%s) IsZero() bool { return x.Items == nil && !x.List }\n\n", o.GoName)
	}
	for _, x := range w.p.Wrappers {
		w.f("// EncodeJSON writes the value.\nfunc (x *%s) EncodeJSON(w *wire.Writer) { %s }\n\n", x.GoName, write(x.Type, "x.Value"))
	}
}

func (w *printer) encodeStruct(s *ir.Struct) {
	w.f("// EncodeJSON writes x as an object: its fields, then the members in x.Extra.\nfunc (x *%s) EncodeJSON(w *wire.Writer) {\n\tif x == nil {\n\t\tw.Fail(\"\", codec.ErrNoValue)\n\t\treturn\n\t}\n\tstart := w.Begin()\n", s.GoName)
	if slices.ContainsFunc(s.Fields, asksExtra) {
		w.f("\textra := x.Extra.ForMembers(&membersOf%s)\n", s.GoName)
	}
	for _, f := range tagsFirst(s.Fields) {
		key := "w.Key(" + literal(","+quote(f.JSON)+":") + ")"
		field := "x." + f.GoName
		switch {
		case f.GoName == "":
			w.f("\tif !extra.Absent(%d) {\n\t\tw.Key(%s)\n\t}\n", f.Bit, literal(","+quote(f.JSON)+":"+f.Const))
			continue
		case f.Presence == ir.Plain:
			w.f("\tif !extra.Absent(%d) || %s {\n", f.Bit, isSet(f.Type, field))
			if n, ok := nullable(f.Type); ok {
				w.f("\t\t%s\n", key)
				w.f("\t\tif %s == nil {\n\t\t\tw.Null()\n\t\t} else {\n\t\t\t%s\n\t\t}\n", field, writeMember(n.Elem, "*"+field, f.JSON))
			} else {
				w.f("\t\t%s\n", writeKeyed(f.Type, field, f.JSON))
			}
		case f.Presence == ir.Pointer:
			w.f("\tif %s != nil {\n", field)
			if n, ok := nullable(f.Type); ok {
				w.f("\t\t%s\n", key)
				w.f("\t\tif %s.Null {\n\t\t\tw.Null()\n\t\t} else {\n\t\t\t%s\n\t\t}\n", field, writeMember(n.Elem, field+".Value", f.JSON))
			} else {
				w.f("\t\t%s\n", writeKeyed(f.Type, "*"+field, f.JSON))
			}
		default:
			w.f("\tif %s {\n\t\t%s\n", isSet(f.Type, field), writeKeyed(f.Type, field, f.JSON))
		}
		w.f("\t}\n")
	}
	if s.Rest != nil {
		w.f("\twire.WriteMembers(w, x.AdditionalProperties, %s)\n", writer(s.Rest))
	}
	if len(s.Fields) > 0 {
		w.f("\tw.EndExtra(start, x.Extra, &membersOf%s)\n}\n\n", s.GoName)
	} else {
		w.f("\tw.EndExtra(start, x.Extra, nil)\n}\n\n")
	}
	if s.Embedded {
		w.f("// IsZero reports whether no field is set.\nfunc (x *%s) IsZero() bool {\n\treturn %s\n}\n\n", s.GoName, strings.Join(each(s, "x", isUnset), " &&\n\t\t"))
	}
}

// asksExtra reports whether the generated code that writes f uses the variable extra.
func asksExtra(f *ir.Field) bool {
	if f.GoName == "" || f.Presence == ir.Plain {
		return true
	}
	t := f.Type
	if n, ok := nullable(t); ok {
		t = n.Elem
	}
	under, _ := underlying(t)
	e, isEnum := under.(*ir.Enum)
	return under == ir.Type(ir.Int) || under == ir.Type(ir.Float) || isEnum && !e.String
}

// writeKeyed returns the code that writes the member name with the value v.
func writeKeyed(t ir.Type, v, name string) string {
	under, _ := underlying(t)
	if under == ir.Type(ir.String) {
		return fmt.Sprintf("w.KeyText(%s, %s)", literal(","+quote(name)+":\""), v)
	}
	if e, ok := under.(*ir.Enum); ok && e.String {
		return fmt.Sprintf("w.KeyText(%s, string(%s))", literal(","+quote(name)+":\""), v)
	}
	return fmt.Sprintf("w.Key(%s)\n\t\t%s", literal(","+quote(name)+":"), writeMember(t, v, name))
}

// tagsFirst moves the constants to the front. They select the variants of unions, and a reader need
// not skip a large value to find them.
func tagsFirst(fields []*ir.Field) []*ir.Field {
	return slices.SortedStableFunc(slices.Values(fields), func(a, b *ir.Field) int {
		return cmp.Compare(min(len(a.GoName), 1), min(len(b.GoName), 1))
	})
}

// quote returns s as JSON text.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string to a Builder cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// literal returns s as a Go string literal, a raw one if possible.
func literal(s string) string {
	if strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// isSet returns the condition under which a required field is not zero, or an optional field
// without pointer is present.
func isSet(t ir.Type, field string) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		return [...]string{field + ` != ""`, field, field + " != 0", field + " != 0", field + ` != ""`}[u]
	case *ir.Scalar:
		return "!" + field + ".IsZero()"
	case *ir.Enum:
		if u.String {
			return field + ` != ""`
		}
		return field + " != 0"
	case *ir.Struct:
		if !u.Embedded { // its package gives it an IsZero only if Embedded is set
			return strings.Join(each(u, field, isSet), " || ")
		}
		return "!" + field + ".IsZero()"
	case *ir.OneOrMany:
		return "!" + field + ".IsZero()"
	}
	return field + " != nil"
}

// each returns a condition for each field of x, which has type s.
func each(s *ir.Struct, x string, condition func(t ir.Type, field string) string) (list []string) {
	for _, f := range s.Fields {
		switch {
		case f.GoName == "":
		case f.Presence == ir.Pointer:
			list = append(list, condition(&ir.Nullable{}, x+"."+f.GoName))
		default:
			list = append(list, condition(f.Type, x+"."+f.GoName))
		}
	}
	if s.Rest != nil {
		list = append(list, condition(&ir.Map{}, x+".AdditionalProperties"))
	}
	return append(list, condition(&ir.OneOrMany{}, x+".Extra"))
}

// isUnset returns the negation of the condition that [isSet] returns.
func isUnset(t ir.Type, field string) string {
	s := isSet(t, field)
	if strings.Contains(s, " || ") {
		return "!(" + s + ")"
	}
	if c, negated := strings.CutPrefix(s, "!"); negated {
		return c
	}
	if strings.Contains(s, "!=") {
		return strings.Replace(s, "!=", "==", 1)
	}
	return "!" + s
}

// writeMember is like [write], but for a member: Extra may have the exact text of its number.
func writeMember(t ir.Type, v, name string) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		switch u {
		case ir.Int:
			return fmt.Sprintf("w.IntExact(%s, extra, %q)", v, name)
		case ir.Float:
			return fmt.Sprintf("w.FloatExact(%s, extra, %q)", v, name)
		}
	case *ir.Enum:
		if !u.String {
			return fmt.Sprintf("w.IntExact(int64(%s), extra, %q)", v, name)
		}
	}
	return write(t, v)
}

// write returns the statement that writes v, of type t, to w.
func write(t ir.Type, v string) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		return fmt.Sprintf([...]string{"w.Text(%s)", "w.Bool(%s)", "w.Number(string(%s))", "w.Number(string(%s))", "w.Number(string(%s))"}[u], v)
	case ir.Raw:
		return [...]string{"w.Raw", "w.RawObject", "w.RawArray"}[u] + "(" + v + ")"
	case *ir.Enum:
		if u.String {
			return "w.Text(string(" + v + "))"
		}
		return "w.Int(int64(" + v + "))"
	case *ir.List:
		if byPointer(u.Elem) {
			return fmt.Sprintf("wire.EncodeList(w, %s)", v)
		}
		return fmt.Sprintf("wire.EncodeListFunc(w, %s, %s)", v, writer(u.Elem))
	case *ir.Map:
		if byPointer(u.Elem) {
			return fmt.Sprintf("wire.EncodeMap(w, %s)", v)
		}
		return fmt.Sprintf("wire.EncodeMapFunc(w, %s, %s)", v, writer(u.Elem))
	case *ir.Union:
		return fmt.Sprintf("wire.WriteUnion(w, %s)", v)
	case *ir.Nullable:
		return fmt.Sprintf("wire.WriteOrNull(w, %s, %s)", v, writer(u.Elem))
	}
	return strings.TrimPrefix(v, "*") + ".EncodeJSON(w)"
}

// writer returns the expression for a function that writes a value of type t.
func writer(t ir.Type) string {
	under, _ := underlying(t)
	switch u := under.(type) {
	case ir.Prim:
		switch u {
		case ir.String:
			return "(*wire.Writer).Text"
		case ir.Bool:
			return "(*wire.Writer).Bool"
		}
	case ir.Raw:
		return [...]string{"(*wire.Writer).Raw", "(*wire.Writer).RawObject", "(*wire.Writer).RawArray"}[u]
	case *ir.Union:
		return "wire.WriteUnion[" + goType(t) + "]"
	}
	return fmt.Sprintf("func(w *wire.Writer, v %s) { %s }", valueType(t), write(t, "v"))
}

func (w *printer) marshal() {
	one := func(name string) {
		w.f("// MarshalJSON is EncodeJSON for encoding/json.\nfunc (x %s) MarshalJSON() ([]byte, error) { return codec.Marshal(&x) }\n\n", name)
		w.f("// UnmarshalJSON is DecodeJSON for encoding/json.\nfunc (x *%s) UnmarshalJSON(data []byte) error { return codec.Unmarshal(data, x) }\n\n", name)
	}
	for _, s := range w.p.Structs {
		one(s.GoName)
	}
	for _, o := range w.p.OneOrMany {
		one(o.GoName)
	}
	for _, x := range w.p.Wrappers {
		one(x.GoName)
	}
}
