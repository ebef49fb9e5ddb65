package emit

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

func (w *printer) types() {
	w.f("// This generated code needs a version of package wire that declares this constant.\nconst _ = wire.GeneratedVersion3\n\n")
	w.f("// Revision names a revision of the protocol, in the protocol's own notation.\ntype Revision string\n\n")
	w.f("// The revisions that this package supports.\nconst (\n")
	for _, r := range w.p.Revisions {
		w.f("\t%s Revision = %q\n", r.Const, r.Label)
	}
	w.f(")\n\n")
	w.f("// Value is a value of a definition in the protocol's schemas, such as *%s. It\n// decodes, encodes and validates itself.\n", w.example())
	w.f("type Value interface {\n\tcodec.Value\n\n\t// Validate encodes the value and checks it against the schema of one revision. The\n\t// error lists every fault with its JSON pointer ([jsonschema.Faults]); nil means there is none.\n\tValidate(rev Revision) error\n}\n\n")
	for _, s := range w.p.Structs {
		w.structType(s)
	}
	for _, o := range w.p.OneOrMany {
		w.doc("", o.Doc)
		w.f("//\n// It is encoded as a list if List is set or Items does not hold exactly one element.\n")
		w.f("type %s struct {\n\tItems []%s\n\tList bool // written as a list even if there is one element\n}\n\n", o.GoName, goType(o.Elem))
	}
	for _, x := range w.p.Wrappers {
		w.doc("", x.Doc)
		w.f("type %s struct{ Value %s }\n\n", x.GoName, goType(x.Type))
	}
	for _, a := range w.p.Aliases {
		w.doc("", a.Doc)
		w.f("type %s = %s\n\n", a.GoName, goType(a.Type))
	}
}

// example returns the name of a struct of the package for use in comments: Task if there is one.
func (w *printer) example() string {
	name := "T"
	for _, s := range w.p.Structs {
		if name = s.GoName; name == "Task" {
			break
		}
	}
	return name
}

func (w *printer) structType(s *ir.Struct) {
	w.doc("", s.Doc)
	w.f("type %s struct {\n", s.GoName)
	for _, f := range s.Fields {
		if f.GoName == "" {
			continue
		}
		w.fieldDoc(f.Doc)
		w.f("\t%s %s\n", f.GoName, fieldType(f))
	}
	if s.Rest != nil {
		w.f("\t// AdditionalProperties holds all other members.\n\tAdditionalProperties map[string]%s\n", goType(s.Rest))
	}
	var consts []string
	for _, f := range s.Fields {
		if f.GoName == "" {
			consts = append(consts, fmt.Sprintf("%q is always %s", f.JSON, f.Const))
		}
	}
	if len(consts) < len(s.Fields) || s.Rest != nil {
		w.f("\n")
	}
	w.f("\t// Extra keeps the members that have no field here.")
	if consts != nil {
		w.f(" The member %s.", strings.Join(consts, ", and "))
	}
	w.f("\n\tExtra wire.Extra\n}\n\n")
}

func (w *printer) enums() {
	for _, e := range w.p.Enums {
		base := "int64"
		if e.String {
			base = "string"
		}
		w.doc("", e.Doc)
		w.f("//\n// Decoding keeps a value that has no constant; Validate reports it.\ntype %s %s\n\n", e.GoName, base)
		w.f("// The values of [%s].\nconst (\n", e.GoName)
		for _, v := range e.Values {
			w.fieldDoc(v.Doc)
			w.f("\t%s %s = %s\n", v.GoName, e.GoName, v.JSON)
		}
		w.f(")\n\n")
	}
}

func (w *printer) unions() {
	if len(w.p.Unions) == 0 {
		return
	}
	w.f("// Unknown holds a value that matches no variant of its union. A newer peer may send such a value.\n// Unknown is a variant of every union in this package and keeps the JSON text unchanged.\ntype Unknown struct{ Raw json.RawMessage }\n\n")
	w.f("// DecodeJSON reads any value and stores its text.\nfunc (x *Unknown) DecodeJSON(r *wire.Reader) { x.Raw = r.Raw() }\n\n")
	w.f("// EncodeJSON writes the value unchanged.\nfunc (x *Unknown) EncodeJSON(w *wire.Writer) { w.Raw(x.Raw) }\n\n")
	w.f("// MarshalJSON returns the value unchanged.\nfunc (x Unknown) MarshalJSON() ([]byte, error) { return codec.Marshal(&x) }\n\n")
	w.f("// UnmarshalJSON stores any value unchanged.\nfunc (x *Unknown) UnmarshalJSON(data []byte) error { return codec.Unmarshal(data, x) }\n\n")
	w.f("// Validate returns an error, because no revision defines the value.\nfunc (x *Unknown) Validate(rev Revision) error {\n\treturn fmt.Errorf(\"value matches no variant of revision %%s\", rev)\n}\n\n")
	w.f("func newUnknown(r *wire.Reader) *Unknown { return &Unknown{Raw: r.Raw()} }\n\n")
	for _, u := range w.p.Unions {
		w.union(u)
	}
	for _, u := range w.p.Unions {
		for _, v := range u.Variants {
			w.f("func (*%s) is%s() {}\n", goType(v.Type), u.GoName)
		}
		w.f("func (*Unknown) is%s() {}\n\n", u.GoName)
	}
}

func (w *printer) union(u *ir.Union) {
	w.doc("", u.Doc)
	w.f("//\n// It is one of\n")
	for _, v := range u.Variants {
		note := ""
		if v.Revs != "" {
			note = ", " + v.Revs
		}
		w.f("//   - [*%s]%s\n", goType(v.Type), note)
	}
	w.f("//   - [*Unknown]\n")
	if u.ByMethod {
		w.f("//\n// The method of the request determines the variant; see [DecodeResult].\n")
	}
	w.f("type %s interface {\n\tcodec.Encoder\n\n\tis%[1]s() // only the types above\n}\n\n", u.GoName)
	if u.ByMethod {
		comment(&w.b, "", fmt.Sprintf("Decode%s reads a result of an unknown method as its base [*%s].", u.GoName, goType(u.Pick.Default.Type)))
	} else {
		comment(&w.b, "", fmt.Sprintf("Decode%s reads %s [%[1]s]. It selects the variant %[3]s.", u.GoName, article(u.GoName), pickWords(u.Pick)))
	}
	w.f("func Decode%s(r *wire.Reader) %[1]s {\n", u.GoName)
	code, final := pick(u.Pick, true)
	w.f("%s%s", guess(u.Guesses), code)
	if !final {
		w.f("return newUnknown(r)\n")
	}
	w.f("}\n\n")
}

// guess returns the code that tries the guesses in turn.
func guess(list []ir.Guess) string {
	if list == nil {
		return ""
	}
	code := ""
	for _, g := range list {
		var conditions []string
		for _, c := range g.Unless {
			if c.Field == nil {
				conditions = append(conditions, fmt.Sprintf("!x.Extra.Has(%q)", c.Member))
			} else {
				conditions = append(conditions, fmt.Sprintf("!wire.EqualText(x.%s, %q)", c.Field.GoName, c.Value))
			}
		}
		if len(conditions) == 0 {
			conditions = append(conditions, "true")
		}
		try := fmt.Sprintf("if x := wire.New(r, (*%s).DecodeJSON); r.Confirm(start, %s) {\nreturn x\n}\n", goType(g.Variant.Type), strings.Join(conditions, " && "))
		if g.First != nil {
			try = fmt.Sprintf("if r.PeekFirst(%s) {\n%s} else ", key(*g.First), try)
		}
		code += try
	}
	return "// The first member nearly always determines the variant.\nstart := r.Checkpoint()\n" + code
}

// article returns the indefinite article for a name by its sound. A name that starts with several
// capitals starts with the name of a letter, as in "an SSE" and "a URL".
func article(name string) string {
	vowel := "AEIO"
	switch {
	case len(name) == 1 || !unicode.IsLower(rune(name[1])):
		vowel = "AEFHILMNORSX"
	case len(name) > 2 && name[0] == 'U' && (!strings.ContainsRune("aeiou", rune(name[2])) || name[1] == 'n' && name[2] != 'i'):
		vowel = "U" // as in Update, Untitled and Unequal, but not in User and Unit
	}
	if strings.IndexByte(vowel, name[0]) >= 0 {
		return "an"
	}
	return "a"
}

// pickWords describes how the decoder selects a variant.
func pickWords(p ir.Pick) string {
	var how []string
	if p.Kinds != nil {
		how = append(how, "its JSON type")
	}
	for _, t := range p.Tags {
		how = append(how, fmt.Sprintf("its member %q", t.Member))
	}
	if p.Keys != nil || p.Default != nil && how == nil {
		how = append(how, "the members present")
	}
	for _, t := range p.Tags {
		for _, v := range t.Values {
			if len(v.Pick.Keys) > 0 {
				return "by " + strings.Join(append(how, "the members present"), " and ")
			}
		}
	}
	return "by " + strings.Join(how, " and ")
}

// pick returns the code of a decision and reports whether the code always returns. Top is set for
// the decision about the whole union.
func pick(p ir.Pick, top bool) (code string, final bool) {
	var b strings.Builder
	if len(p.Kinds) > 0 {
		b.WriteString("switch r.Kind() {\n")
		for i, k := range p.Kinds {
			if i == 0 || k.Variant != p.Kinds[i-1].Variant {
				labels := []string{}
				for _, same := range p.Kinds[i:] {
					if same.Variant == k.Variant {
						labels = append(labels, "wire.Kind"+same.Kind)
					}
				}
				fmt.Fprintf(&b, "case %s:\n%s", strings.Join(labels, ", "), choose(k.Variant))
			}
		}
		b.WriteString("}\n")
	}
	objects := p.Tags != nil || p.Keys != nil || p.Default != nil
	if top && objects && (p.Default != nil || p.Kinds != nil || lenient(p)) {
		b.WriteString("if r.Kind() != wire.KindObject {\nreturn newUnknown(r)\n}\n")
	}
	for _, t := range p.Tags {
		tag, done := pickTag(t)
		b.WriteString(tag)
		final = final || done
	}
	if len(p.Keys) > 0 {
		b.WriteString(pickKeys(p.Keys))
	}
	if p.Default != nil {
		b.WriteString(choose(p.Default))
		final = true
	}
	return b.String(), final
}

// lenient reports whether a value without any of the tag members still has a variant.
func lenient(p ir.Pick) bool {
	for _, t := range p.Tags {
		if t.Absent != nil || t.Other != nil {
			return true
		}
	}
	return false
}

// pickTag switches on the value of a member. Values with the same outcome share a case.
func pickTag(t ir.TagCase) (code string, final bool) {
	type outcome struct {
		labels []string
		code   string
		final  bool
	}
	var cases []*outcome
	add := func(label string, p *ir.Pick) {
		code, final := pick(*p, false)
		for _, c := range cases {
			if c.code == code {
				c.labels = append(c.labels, label)
				return
			}
		}
		cases = append(cases, &outcome{[]string{label}, code, final})
	}
	if t.Absent != nil {
		add(`""`, t.Absent)
	}
	for _, v := range t.Values {
		add(fmt.Sprintf("%q", v.Value), v.Pick)
	}
	other, otherFinal := "", false
	if t.Other != nil {
		other, otherFinal = pick(*t.Other, false)
	}
	var b strings.Builder
	if t.Bool {
		fmt.Fprintf(&b, "switch r.PeekBool(%q) {\n", t.Member)
	} else {
		fmt.Fprintf(&b, "switch string(r.PeekText(%q)) {\n", t.Member)
	}
	final = otherFinal
	for _, c := range cases {
		if c.code != other {
			fmt.Fprintf(&b, "case %s:\n%s", strings.Join(c.labels, ", "), c.code)
			final = final && c.final
		}
	}
	if other != "" {
		fmt.Fprintf(&b, "default:\n%s", other)
	}
	b.WriteString("}\n")
	return b.String(), final
}

// pickKeys switches on the members present.
func pickKeys(keys []ir.KeyCase) string {
	var names []string
	for _, k := range keys {
		if len(k.Path) == 1 {
			names = append(names, key(k))
		}
	}
	var b strings.Builder
	if len(keys) == 1 && len(names) == 1 {
		return fmt.Sprintf("if r.PeekKeys(%s) != 0 {\n%s}\n", names[0], choose(keys[0].Variant))
	}
	if names != nil {
		fmt.Fprintf(&b, "switch keys := r.PeekKeys(%s); {\n", strings.Join(names, ", "))
	} else {
		b.WriteString("switch {\n")
	}
	bit := 0
	for _, k := range keys {
		if len(k.Path) == 1 {
			fmt.Fprintf(&b, "case keys&%#x != 0:\n", 1<<bit)
			bit++
		} else {
			fmt.Fprintf(&b, "case r.PeekPath(%s, %q, %q):\n", kindSet(k.Kinds), k.Path[0], k.Path[1])
		}
		b.WriteString(choose(k.Variant))
	}
	b.WriteString("}\n")
	return b.String()
}

// key returns the Go expression for a member that selects a variant.
func key(k ir.KeyCase) string {
	if k.Kinds == nil {
		return fmt.Sprintf("wire.Key{Name: %q}", k.Path[0])
	}
	return fmt.Sprintf("wire.Key{Name: %q, Kinds: %s}", k.Path[0], kindSet(k.Kinds))
}

// kindSet returns the Go expression for a set of kinds.
func kindSet(kinds []string) string {
	if kinds == nil {
		return "0"
	}
	var bits []string
	for _, k := range kinds {
		bits = append(bits, "1<<wire.Kind"+k)
	}
	return strings.Join(bits, "|")
}

func choose(v *ir.Variant) string {
	return fmt.Sprintf("return wire.New(r, (*%s).DecodeJSON)\n", goType(v.Type))
}
