package merge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// resolver turns the nodes of one document into shapes.
type resolver struct {
	doc  *load.Document
	revs Revs // the one revision
	// same maps a fingerprint to the definition that has it, or to "" if several have it.
	same map[string]string
	// busy holds the definitions being flattened into an allOf, to detect cycles.
	busy []string
}

func (r *resolver) defs() (map[string]*Def, error) {
	r.same = map[string]string{}
	for _, name := range r.doc.Names() {
		print := fingerprint(r.doc.Defs[name])
		if _, several := r.same[print]; several {
			r.same[print] = ""
		} else {
			r.same[print] = name
		}
	}
	out := map[string]*Def{}
	for _, name := range r.doc.Names() {
		n, err := r.flatten(r.doc.Defs[name])
		if err != nil {
			return nil, err
		}
		out[name] = &Def{Name: name, Node: n, In: r.revs}
	}
	return out, nil
}

// node resolves s, which is not the top of a definition. An enum or combination that
// repeats a definition word for word stands for that definition.
func (r *resolver) node(s *load.Schema) (Node, error) {
	if len(s.Enum) > 1 || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil {
		if name := r.same[fingerprint(s)]; name != "" {
			return &Ref{pos{s}, name, r.revs}, nil
		}
	}
	return r.flatten(s)
}

// flatten returns the conjunction of all keywords of s.
func (r *resolver) flatten(s *load.Schema) (Node, error) {
	parts, err := r.parts(s)
	if err != nil {
		return nil, err
	}
	var n Node = &Any{pos{s}}
	for _, p := range parts {
		n, err = r.both(s, n, p)
		switch {
		case errors.Is(err, errNoValue):
			return &Any{pos{s}}, nil // any shape will do, because no value is valid
		case err != nil:
			return nil, err
		}
	}
	return n, nil
}

// parts lists shapes. A value satisfies s if it has all of them.
func (r *resolver) parts(s *load.Schema) ([]Node, error) {
	at := pos{s}
	if s.False || isNothing(s.Not) {
		return []Node{&Never{at}}, nil
	}
	// A not of any other form only narrows the valid values. Package tables checks that; the Go
	// type may hold more.
	var parts []Node
	if s.Ref != "" {
		parts = append(parts, &Ref{at, s.Ref, r.revs})
	}
	own, err := r.own(s)
	if err != nil {
		return nil, err
	}
	if own != nil {
		parts = append(parts, own)
	}
	for _, sub := range s.AllOf {
		n, err := r.node(sub)
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	for _, alternatives := range [][]*load.Schema{s.AnyOf, s.OneOf} {
		if alternatives == nil {
			continue
		}
		n, err := r.union(s, alternatives)
		if err != nil {
			return nil, err
		}
		parts = append(parts, n)
	}
	return parts, nil
}

// own resolves the keywords of s that involve no other schema. It returns nil if there are none.
func (r *resolver) own(s *load.Schema) (Node, error) {
	at := pos{s}
	values := s.Enum
	if s.Const != nil {
		values = []json.RawMessage{s.Const}
	}
	if values != nil {
		return r.enum(s, values)
	}
	types := slices.Clone(s.Types)
	object := s.Properties != nil || s.Additional != nil || s.Required != nil || s.PropertyNames != nil || s.Patterns != nil
	every := !slices.ContainsFunc([]string{"null", "boolean", "number", "string", "array", "object"}, func(t string) bool { return !slices.Contains(types, t) })
	switch {
	case every && !object && s.Items == nil: // as without the keyword
		return nil, nil
	case types != nil:
	case object:
		types = []string{"object"}
	case s.Items != nil || s.Prefix != nil || s.MinItems != nil || s.MaxItems != nil:
		types = []string{"array"}
	default:
		return nil, nil
	}
	var kinds Kinds
	var alternatives []Node
	null := false
	for _, t := range types {
		switch t {
		case "null":
			null = true
		case "string":
			kinds |= KindString
		case "integer":
			kinds |= KindInteger
		case "number":
			kinds |= KindNumber | KindInteger
		case "boolean":
			kinds |= KindBool
		case "object":
			o, err := r.object(s)
			if err != nil {
				return nil, err
			}
			alternatives = append(alternatives, o)
		case "array":
			var elem Node = &Any{at}
			if s.Items != nil && s.Prefix == nil {
				var err error
				if elem, err = r.node(s.Items); err != nil {
					return nil, err
				}
			}
			alternatives = append(alternatives, &Array{at, elem})
		}
	}
	if kinds != 0 {
		alternatives = append(alternatives, &Scalar{at, kinds})
	}
	n := r.oneOf(s, alternatives)
	if null {
		n = &Nullable{at, n}
	}
	return n, nil
}

// oneOf returns the node for a choice of alternatives. Without alternatives it returns Never; the
// value may still be null.
func (r *resolver) oneOf(s *load.Schema, alternatives []Node) Node {
	switch len(alternatives) {
	case 0:
		return &Never{pos{s}}
	case 1:
		return alternatives[0]
	}
	u := &Union{pos: pos{s}}
	for _, n := range alternatives {
		u.Variants = append(u.Variants, &Variant{n, r.revs})
	}
	return u
}

func (r *resolver) object(s *load.Schema) (Node, error) {
	o := &Object{pos: pos{s}, Rest: &Any{pos{s}}, In: r.revs}
	for _, p := range s.Properties {
		n, err := r.node(p.Schema)
		if err != nil {
			return nil, err
		}
		o.Members = append(o.Members, &Member{Name: p.Name, Node: n, In: r.revs, Default: p.Schema.Default})
	}
	for _, name := range s.Required {
		m := o.Member(name)
		if m == nil { // required, but without a stated shape
			m = &Member{Name: name, Node: &Any{pos{s}}, In: r.revs}
			o.Members = append(o.Members, m)
			slices.SortFunc(o.Members, func(a, b *Member) int { return compare(a.Name, b.Name) })
		}
		m.Required = r.revs
	}
	if s.Additional != nil {
		rest, err := r.node(s.Additional)
		if err != nil {
			return nil, err
		}
		o.Rest = rest
	}
	if s.Patterns != nil {
		rest, err := r.matched(s, o.Rest)
		if err != nil {
			return nil, err
		}
		o.Rest = rest
	}
	_, any := o.Rest.(*Any)
	o.Extensible = any && (s.Additional != nil || len(o.Members) == 0)
	return o, nil
}

// matched returns the shape of the members of s that have no name. Rest is that of the members whose
// names match no pattern.
func (r *resolver) matched(s *load.Schema, rest Node) (Node, error) {
	for _, p := range s.Patterns {
		n, err := r.node(p.Schema)
		if err != nil {
			return nil, err
		}
		if _, never := rest.(*Never); never && len(s.Patterns) == 1 {
			return n, nil
		}
	}
	return &Any{pos{s}}, nil
}

// enum resolves const and enum. Strings, integers and booleans are an enumeration if there is but one
// kind of them. Other values have the shape of their JSON types.
func (r *resolver) enum(s *load.Schema, values []json.RawMessage) (Node, error) {
	e := &Enum{pos: pos{s}, Const: s.Const != nil}
	null, other := false, false // a value is an array or an object
	var kinds Kinds
	for _, raw := range values {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return nil, s.Errorf("bad value %s: %v", raw, err)
		}
		switch text := b.String(); text[0] {
		case '"':
			e.Values = append(e.Values, &EnumValue{quote((&EnumValue{JSON: text}).Text()), r.revs})
			kinds |= KindString
		case 'n':
			null = true
		case 't', 'f':
			e.Values = append(e.Values, &EnumValue{text, r.revs})
			kinds |= KindBool
		case '[', '{':
			other = true
		default:
			kinds |= KindInteger
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				kinds |= KindNumber
			}
			e.Values = append(e.Values, &EnumValue{text, r.revs})
		}
	}
	var n Node = e
	switch {
	case other:
		return &Any{pos{s}}, nil
	case len(e.Values) == 0:
		n = &Never{pos{s}}
	case kinds != e.Kind():
		n = &Scalar{pos{s}, kinds}
	}
	if null {
		n = &Nullable{pos{s}, n}
	}
	return n, nil
}

// quote returns the canonical JSON text of a string.
func quote(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // encoding a string to a Builder cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

// union resolves anyOf and oneOf. Alternatives that are all constants make an enum, and
// an alternative that is null makes the rest nullable.
func (r *resolver) union(s *load.Schema, alternatives []*load.Schema) (Node, error) {
	at := pos{s}
	null := false
	var nodes []Node
	for _, sub := range alternatives {
		if name := r.same[fingerprint(sub)]; name != "" && sub.Ref == "" && (sub.Properties != nil || sub.Items != nil) {
			nodes = append(nodes, &Ref{pos{sub}, name, r.revs})
			continue
		}
		n, err := r.node(sub)
		if err != nil {
			return nil, err
		}
		if nn, ok := n.(*Nullable); ok {
			null = true
			n = nn.Node
		}
		if _, never := n.(*Never); never {
			continue
		}
		if u, ok := n.(*Union); ok { // an inline union in a union
			for _, v := range u.Variants {
				nodes = append(nodes, v.Node)
			}
			continue
		}
		nodes = append(nodes, n)
	}
	n := r.oneOf(s, nodes)
	if u, ok := n.(*Union); ok {
		if e := enumOf(u); e != nil {
			n = e
		}
	}
	if null {
		n = &Nullable{at, n}
	}
	return n, nil
}

// enumOf returns the enum that is equivalent to u if every variant is an enum, or nil.
func enumOf(u *Union) *Enum {
	e := &Enum{pos: u.pos}
	for _, v := range u.Variants {
		sub, ok := v.Node.(*Enum)
		if !ok {
			return nil
		}
		for _, value := range sub.Values {
			if e.Values = append(e.Values, value); value.kind() != e.Kind() {
				return nil
			}
		}
	}
	return e
}

// both returns the shape of the values that have shape a and shape b.
func (r *resolver) both(s *load.Schema, a, b Node) (Node, error) {
	if _, any := a.(*Any); any {
		return b, nil
	}
	if _, any := b.(*Any); any {
		return a, nil
	}
	if _, never := a.(*Never); never {
		return a, nil
	}
	if _, never := b.(*Never); never {
		return b, nil
	}
	if ref, ok := a.(*Ref); ok {
		if other, ok := b.(*Ref); ok && other.Name == ref.Name {
			return ref, nil
		}
		return r.deref(s, ref, func(n Node) (Node, error) {
			if objects(n) && isOpen(b) { // b adds nothing to the definition
				return ref, nil
			}
			return r.both(s, n, b)
		})
	}
	if ref, ok := b.(*Ref); ok {
		return r.deref(s, ref, func(n Node) (Node, error) {
			if objects(n) && isOpen(a) {
				return ref, nil
			}
			return r.both(s, a, n)
		})
	}
	if u, ok := a.(*Union); ok {
		return r.each(s, u, func(n Node) (Node, error) { return r.both(s, n, b) })
	}
	if u, ok := b.(*Union); ok {
		return r.each(s, u, func(n Node) (Node, error) { return r.both(s, a, n) })
	}
	switch a := a.(type) {
	case *Object:
		if b, ok := b.(*Object); ok {
			return r.bothObjects(s, a, b)
		}
	case *Array:
		if b, ok := b.(*Array); ok {
			elem, err := r.either(s, a.Elem, b.Elem)
			return &Array{pos{s}, elem}, err
		}
	case *Scalar:
		switch b := b.(type) {
		case *Scalar:
			if k := a.Kinds & b.Kinds; k != 0 {
				return &Scalar{pos{s}, k}, nil
			}
		case *Enum:
			return b, nil
		}
	case *Enum:
		switch b := b.(type) {
		case *Scalar:
			return a, nil
		case *Enum:
			e := &Enum{pos: pos{s}, Const: a.Const || b.Const}
			for _, v := range a.Values {
				if slices.ContainsFunc(b.Values, func(w *EnumValue) bool { return w.JSON == v.JSON }) {
					e.Values = append(e.Values, v)
				}
			}
			if len(e.Values) > 0 {
				return e, nil
			}
		}
	case *Nullable:
		if b, ok := b.(*Nullable); ok {
			n, err := r.both(s, a.Node, b.Node)
			return &Nullable{pos{s}, n}, err
		}
		return r.both(s, a.Node, b)
	}
	if b, ok := b.(*Nullable); ok {
		return r.both(s, a, b.Node)
	}
	return nil, errNoValue
}

// errNoValue reports that two shapes contradict each other.
var errNoValue = errors.New("no value has both shapes")

// objects reports whether n admits objects only.
func objects(n Node) bool {
	u, ok := n.(*Union)
	if !ok {
		_, ok = n.(*Object)
		return ok
	}
	return !slices.ContainsFunc(u.Variants, func(v *Variant) bool {
		_, ref := v.Node.(*Ref) // in the schemas, all such variants are objects
		return !ref && !objects(v.Node)
	})
}

func isOpen(n Node) bool {
	o, ok := n.(*Object)
	return ok && o.Open()
}

func (r *resolver) bothObjects(s *load.Schema, a, b *Object) (Node, error) {
	o := &Object{pos: pos{s}, In: r.revs, Extensible: a.Extensible && b.Extensible}
	var err error
	if o.Rest, err = r.either(s, a.Rest, b.Rest); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, m := range append(slices.Clone(a.Members), b.Members...) {
		if names[m.Name] {
			continue
		}
		names[m.Name] = true
		ma, mb := a.Member(m.Name), b.Member(m.Name)
		if ma == nil {
			ma = &Member{Node: beside(a)}
		}
		if mb == nil {
			mb = &Member{Node: beside(b)}
		}
		c := &Member{Name: m.Name, In: r.revs, Required: ma.Required | mb.Required, Default: m.Default}
		both := r.either
		if c.Required != 0 {
			both = r.both
		}
		if c.Node, err = both(s, ma.Node, mb.Node); err != nil {
			return nil, err
		}
		o.Members = append(o.Members, c)
	}
	slices.SortFunc(o.Members, func(a, b *Member) int { return compare(a.Name, b.Name) })
	return o, nil
}

// either is both for optional values. If a and b contradict each other, the value must be absent.
func (r *resolver) either(s *load.Schema, a, b Node) (Node, error) {
	n, err := r.both(s, a, b)
	if errors.Is(err, errNoValue) {
		return &Never{pos{s}}, nil
	}
	return n, err
}

// beside returns the shape of members that o does not name but another part of an allOf does. If o
// forbids them, that only narrows the valid values, and the type still holds the members of all
// parts.
func beside(o *Object) Node {
	if _, never := o.Rest.(*Never); never {
		return &Any{o.pos}
	}
	return o.Rest
}

// each applies f to every variant of u and omits those for which f fails.
func (r *resolver) each(s *load.Schema, u *Union, f func(Node) (Node, error)) (Node, error) {
	var nodes []Node
	var first error
	for _, v := range u.Variants {
		n, err := f(v.Node)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if o, ok := n.(*Object); ok && o.At() == s { // errors should name the alternative
			o.pos = pos{v.Node.At()}
		}
		nodes = append(nodes, n)
	}
	if len(nodes) == 0 {
		return nil, first
	}
	return r.oneOf(s, nodes), nil
}

func (r *resolver) deref(s *load.Schema, ref *Ref, f func(Node) (Node, error)) (Node, error) {
	if slices.Contains(r.busy, ref.Name) {
		return nil, s.Errorf("the definition %q is narrowed inside itself here, so that it never ends; refer to it without further keywords", ref.Name)
	}
	r.busy = append(r.busy, ref.Name)
	defer func() { r.busy = r.busy[:len(r.busy)-1] }()
	n, err := r.flatten(r.doc.Defs[ref.Name])
	if err != nil {
		return nil, err
	}
	return f(n)
}

// isNothing reports whether s is a schema that admits every value.
func isNothing(s *load.Schema) bool {
	if s == nil {
		return false
	}
	plain := *s
	plain.Format = ""
	return fingerprint(&plain) == fingerprint(&load.Schema{})
}

// fingerprint returns a text that is equal for two schemas if and only if they are equal apart from
// prose and position.
func fingerprint(s *load.Schema) string {
	if s == nil {
		return "-"
	}
	var b strings.Builder
	deref := func(p *float64) any {
		if p == nil {
			return nil
		}
		return *p
	}
	count := func(p *int) any {
		if p == nil {
			return nil
		}
		return *p
	}
	fmt.Fprintf(&b, "%v %q %q %s %s %q %v %v %v %v %v %v %v %v %q", s.False, s.Ref, s.Types, string(s.Const), s.Enum, s.Required,
		count(s.MinItems), count(s.MaxItems), deref(s.Minimum), deref(s.Maximum), deref(s.ExclusiveMinimum), deref(s.ExclusiveMaximum),
		count(s.MinLength), count(s.MaxLength), s.Format)
	fmt.Fprintf(&b, " %q %q %v %v %v %v %v", s.Pattern, s.MultipleOf, s.Unique, count(s.MinProps), count(s.MaxProps), count(s.MinContains), count(s.MaxContains))
	for _, named := range [][]load.Property{s.Properties, s.Patterns, s.Dependent} {
		if named != nil {
			b.WriteString(" {")
			for _, p := range named {
				fmt.Fprintf(&b, "%q:(%s)", p.Name, fingerprint(p.Schema))
			}
			b.WriteString("}")
		} else {
			b.WriteString(" -")
		}
	}
	for _, sub := range []*load.Schema{s.Additional, s.PropertyNames, s.Items, s.Not, s.Contains, s.If, s.Then, s.Else} {
		fmt.Fprintf(&b, " (%s)", fingerprint(sub))
	}
	for _, list := range [][]*load.Schema{s.AnyOf, s.OneOf, s.AllOf, s.Prefix} {
		b.WriteString(" [")
		for _, sub := range list {
			fmt.Fprintf(&b, "(%s)", fingerprint(sub))
		}
		b.WriteString("]")
	}
	return b.String()
}

// Same returns the definitions that are equal in both documents and refer only to such definitions.
func Same(a, b *load.Document) map[string]bool {
	same := map[string]bool{}
	for name, s := range a.Defs {
		same[name] = b.Defs[name] != nil && fingerprint(s) == fingerprint(b.Defs[name])
	}
	for changed := true; changed; {
		changed = false
		for name, s := range a.Defs {
			if same[name] && !refsHold(s, same) {
				same[name] = false
				changed = true
			}
			if same[name] {
				continue
			}
			// A union adds a method to the types of its alternatives, so they must be declared in
			// the same package.
			for _, alternative := range alternatives(s, nil) {
				if same[alternative] {
					same[alternative] = false
					changed = true
				}
			}
		}
	}
	return same
}

// alternatives adds to names the definitions that anyOf and oneOf below s refer to.
func alternatives(s *load.Schema, names []string) []string {
	for _, sub := range slices.Concat(s.AnyOf, s.OneOf) {
		if sub.Ref != "" {
			names = append(names, sub.Ref)
		}
	}
	for _, sub := range s.Below() {
		names = alternatives(sub, names)
	}
	return names
}

// refsHold reports whether all references below s are in the set.
func refsHold(s *load.Schema, set map[string]bool) bool {
	if s.Ref != "" && !set[s.Ref] {
		return false
	}
	return !slices.ContainsFunc(s.Below(), func(sub *load.Schema) bool { return !refsHold(sub, set) })
}
