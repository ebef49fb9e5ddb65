package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// messages makes structs of params and results without named members, so that handlers can take and
// return them like any other.
func (b *builder) messages() {
	mark := func(n merge.Node) {
		if r, ok := n.(*merge.Ref); ok && !strings.HasSuffix(r.Name, "Params") && !strings.HasSuffix(r.Name, "Result") {
			return // a definition that may have other uses
		}
		if o, ok := b.g.Follow(n).(*merge.Object); ok && len(o.Members) == 0 {
			o.Struct = true
		}
	}
	for name, d := range b.g.Defs {
		if methodOf(d.Node) == "" || b.external(name) {
			continue
		}
		if p := d.Node.(*merge.Object).Member("params"); p != nil {
			mark(p.Node)
		}
		for _, stem := range b.stems(name, "Request") {
			if r := b.paired(stem + "Result"); r != "" && !b.external(r) {
				mark(merge.NewRef(d.Node.At(), r))
				break
			}
		}
	}
}

// stems returns the names of a definition that have the suffix, without the suffix. The names are
// its own and those that rename rows replace.
func (b *builder) stems(def, suffix string) (stems []string) {
	for _, name := range b.Overrides.Names(def) {
		if stem, ok := strings.CutSuffix(name, suffix); ok {
			stems = append(stems, stem)
		}
	}
	return stems
}

// paired returns the current name of the definition that is called name, or was called so before a
// rename row. It returns "" if there is none.
func (b *builder) paired(name string) string {
	for _, name := range []string{name, b.Overrides.Renamed(name)} {
		if b.g.Defs[name] != nil {
			return name
		}
	}
	return ""
}

// methods makes the method table. It has every definition with a constant member "method" and a
// name that ends in Request or Notification. A name that a rename row replaces counts, too.
func (b *builder) methods() error {
	sent := map[string]ir.Direction{} // by method
	listed := map[merge.Node]bool{}   // the messages listed in the definitions of sides
	for union, from := range sides {
		d := b.g.Defs[union]
		if d == nil {
			continue
		}
		// A union of one variant may be written as that variant.
		variants := []merge.Node{b.g.Follow(d.Node)}
		if u, ok := variants[0].(*merge.Union); ok {
			variants = nil
			for _, v := range b.flatten(u) {
				variants = append(variants, v.node)
			}
		}
		for _, v := range variants {
			sent[methodOf(v)] |= from
			listed[v] = true
		}
	}
	byName := map[string]string{}
	for _, name := range b.g.Names() {
		o, ok := b.g.Defs[name].Node.(*merge.Object)
		if _, side := sides[name]; !ok || side || b.external(name) {
			continue
		}
		stems := b.stems(name, "Request")
		request := len(stems) > 0
		if !request {
			if stems = b.stems(name, "Notification"); len(stems) == 0 {
				continue
			}
		}
		method := methodOf(o)
		if method == "" || sent[method] != 0 && !listed[o] {
			continue // another definition is listed as this message
		}
		m := &ir.Method{Name: method, GoName: goName(stems[0]), Def: name, Notification: !request, From: sent[method], In: ir.Revs(o.In)}
		if m.GoName == "Caller" || m.GoName == "Notifier" {
			m.GoName += "Method" // the types that send messages have a field of that name
		}
		if other, taken := byName[m.Name]; taken {
			return o.At().Errorf("the method %q belongs to the definition %s already", m.Name, other)
		}
		byName[m.Name] = name
		m.Const = "Method" + joined(m.Name)
		if err := b.claim(m.Const, "", o); err != nil {
			return err
		}
		if from, ok := b.Overrides.Direction(m.Name); ok {
			m.From = map[string]ir.Direction{"client": ir.FromClient, "server": ir.FromServer, "both": ir.FromBoth}[from]
		}
		if m.From == 0 {
			m.From = ir.FromBoth
		}
		if p := o.Member("params"); p != nil {
			m.OptParams = p.Required != o.In
			m.Params = b.paramsType(name)
			if m.Params != nil && !isMessage(m.Params) {
				return p.Node.At().Errorf("the params of the method %q are not an object, so handlers cannot take them as a struct; "+
					"if they refer to an open object, a struct row in the overrides makes one of it", m.Name)
			}
		}
		if request {
			if err := b.result(m, stems, o); err != nil {
				return err
			}
			if !isMessage(m.Result) {
				return o.At().Errorf("the result of the method %q is not an object, so handlers cannot return it as a struct; "+
					"if it is an open object, a struct row in the overrides makes one of it", m.Name)
			}
		}
		b.pkg.Methods = append(b.pkg.Methods, m)
	}
	slices.SortFunc(b.pkg.Methods, func(a, b *ir.Method) int {
		if a.Notification != b.Notification {
			if a.Notification {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return nil
}

// sides are the definitions that list the messages of one side.
var sides = map[string]ir.Direction{
	"ClientRequest": ir.FromClient, "ClientNotification": ir.FromClient,
	"ServerRequest": ir.FromServer, "ServerNotification": ir.FromServer,
}

// methodOf returns the constant value of the member method, or "".
func methodOf(n merge.Node) string {
	o, ok := n.(*merge.Object)
	if !ok || o.Member("method") == nil {
		return ""
	}
	e, ok := o.Member("method").Node.(*merge.Enum)
	if !ok || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0].Text()
}

// isMessage reports whether t can be the params or the result of a method.
func isMessage(t ir.Type) bool {
	t = resolveAlias(t)
	if e, ok := t.(*ir.External); ok {
		t = resolveAlias(e.Type)
	}
	switch t.(type) {
	case *ir.Struct, *ir.Union:
		return true
	}
	return false
}

// paramsType returns the Go type of the member params of a request or notification, or nil if it
// has none.
func (b *builder) paramsType(def string) ir.Type {
	st, ok := b.defs[def].(*ir.Struct)
	if !ok {
		return nil
	}
	for _, f := range st.Fields {
		if f.JSON == "params" {
			return f.Type
		}
	}
	return nil
}

// result sets the result type of a request. It is the result member of STEMResultResponse, the
// definition STEMResult, or the empty result, where STEM is the first of stems for which one
// exists. Requests that may run as tasks, or may need input first, get a union of the possible
// results.
func (b *builder) result(m *ir.Method, stems []string, request *merge.Object) error {
	var nodes []merge.Node
	add := func(n merge.Node) {
		r, ok := n.(*merge.Ref)
		if !ok || !slices.ContainsFunc(nodes, func(o merge.Node) bool { return o.(*merge.Ref).Name == r.Name }) {
			nodes = append(nodes, n)
		}
	}
	ref := func(name string) bool {
		if name = b.paired(name); name == "" {
			return false
		}
		add(merge.NewRef(b.g.Defs[name].Node.At(), name))
		return true
	}
	primary := slices.ContainsFunc(stems, func(stem string) bool { return ref(stem + "Result") })
	for _, stem := range stems {
		d := b.g.Defs[b.paired(stem+"ResultResponse")]
		if d == nil {
			continue
		}
		if o, ok := d.Node.(*merge.Object); ok && o.Member("result") != nil {
			switch n := o.Member("result").Node.(type) {
			case *merge.Union:
				for _, v := range n.Variants {
					if r, ok := v.Node.(*merge.Ref); ok {
						add(r)
					}
				}
				primary = true
			case *merge.Ref:
				if !primary {
					add(n)
				}
				primary = true
			}
		}
		break
	}
	if !primary && !ref("EmptyResult") && !ref("Result") {
		return request.At().Errorf("the method %q has no result: none of the definitions %sResult, %[2]sResultResponse, EmptyResult and Result exists", m.Name, stems[0])
	}
	if b.taskable(request) && ref("CreateTaskResult") {
		m.Task = true
	}
	if len(nodes) == 1 {
		t, err := b.def(nodes[0].(*merge.Ref).Name)
		m.Result = resolveAlias(t)
		return err
	}
	u := merge.NewUnion(request.At())
	for _, n := range nodes {
		u.Variants = append(u.Variants, &merge.Variant{Node: n, In: b.g.Defs[n.(*merge.Ref).Name].In})
	}
	name := m.GoName + "Outcome"
	for _, n := range []string{name, "Decode" + name} {
		if err := b.claim(n, "", request); err != nil {
			return err
		}
	}
	union := &ir.Union{GoName: name}
	p := &pendingUnion{union: union, node: u}
	for _, v := range b.flatten(u) {
		var st *ir.Struct
		if v.name != "" {
			t, err := b.def(v.name)
			if err != nil {
				return err
			}
			st, _ = t.(*ir.Struct)
		}
		if st == nil {
			return v.node.At().Errorf("this is one of several results of the method %q, but it is not an object that this package declares; "+
				"only such can be told apart", m.Name)
		}
		st.Unions = append(st.Unions, union)
		v.out = &ir.Variant{Type: st, In: ir.Revs(v.in), Revs: b.since(v.in, b.all())}
		p.variants = append(p.variants, v)
		union.Variants = append(union.Variants, v.out)
	}
	union.Doc.Text = name + " is the result of " + m.Name + "."
	b.pkg.Unions = append(b.pkg.Unions, union)
	var err error
	if union.Pick, err = b.pick(p); err != nil {
		return err
	}
	// A result that no member identifies is the plain result.
	settleDefault(&union.Pick, union.Variants[0])
	m.Result = union
	return nil
}

// settleDefault selects v wherever a missing member would otherwise select the unknown variant.
func settleDefault(p *ir.Pick, v *ir.Variant) {
	p.Keys = slices.DeleteFunc(p.Keys, func(k ir.KeyCase) bool { return k.Variant == v })
	for i := range p.Tags {
		for _, sub := range []*ir.Pick{p.Tags[i].Absent, p.Tags[i].Other} {
			if sub != nil {
				settleDefault(sub, v)
			}
		}
	}
	if len(p.Tags) == 0 && p.Default == nil {
		p.Default = v
	}
}

func resolveAlias(t ir.Type) ir.Type {
	for {
		a, ok := t.(*ir.Alias)
		if !ok {
			return t
		}
		t = a.Type
	}
}

// taskable reports whether the params of a request have a member task.
func (b *builder) taskable(request *merge.Object) bool {
	p := request.Member("params")
	if p == nil {
		return false
	}
	has := func(n merge.Node) bool {
		o, ok := b.g.Follow(n).(*merge.Object)
		return ok && o.Member("task") != nil
	}
	if u, ok := b.g.Follow(p.Node).(*merge.Union); ok {
		return !slices.ContainsFunc(u.Variants, func(v *merge.Variant) bool { return !has(v.Node) })
	}
	return has(p.Node)
}
