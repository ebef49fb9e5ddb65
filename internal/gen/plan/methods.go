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
		if r, ok := n.(*merge.Ref); ok && !b.Messages.own && !strings.HasSuffix(r.Name, "Params") && !strings.HasSuffix(r.Name, "Result") {
			return // a definition that may have other uses
		}
		if o, ok := b.g.Follow(n).(*merge.Object); ok && len(o.Members) == 0 {
			o.Struct = true
		}
	}
	for name, d := range b.g.Defs {
		k := b.Messages.kindOf(b.Overrides.Names(name))
		if k == nil || k.methodOf(d.Node) == "" || b.external(name) {
			continue
		}
		member := func(n merge.Node, name string) {
			if o, ok := n.(*merge.Object); name == "" {
				mark(n)
			} else if ok && o.Member(name) != nil {
				mark(o.Member(name).Node)
			}
		}
		member(d.Node, k.Params)
		for _, stem := range b.stems(name, k.Suffix) {
			if r := b.paired(stem + k.Response); k.Response != "" && r != "" && !b.external(r) {
				if k.Result == "" {
					mark(merge.NewRef(d.Node.At(), r))
				} else {
					member(b.g.Defs[r].Node, k.Result)
				}
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

// methods makes the method table. It has every definition that is a message by the table of
// messages. A name that a rename row replaces counts, too.
func (b *builder) methods() error {
	sent := map[string]ir.Direction{} // by method
	listed := map[merge.Node]bool{}   // the messages listed in the definitions of sides
	for union, from := range sides {
		d := b.g.Defs[union]
		if d == nil || b.Messages.own {
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
		n := b.g.Defs[name].Node
		k := b.Messages.kindOf(b.Overrides.Names(name))
		if _, side := sides[name]; k == nil || side && !b.Messages.own || b.external(name) {
			continue
		}
		method := k.methodOf(n)
		if method == "" || sent[method] != 0 && !listed[n] {
			continue // another definition is listed as this message
		}
		if other, taken := byName[method]; taken {
			return n.At().Errorf("the method %q belongs to the definition %s already", method, other)
		}
		byName[method] = name
		m, err := b.method(k, name, method, sent[method])
		if err != nil {
			if err := b.soften(err); err != nil {
				return err
			}
			continue // without a method
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

// method returns the row of the method table for a definition of kind k.
func (b *builder) method(k *MessageKind, name, method string, from ir.Direction) (*ir.Method, error) {
	n := b.g.Defs[name].Node
	stems := b.stems(name, k.Suffix)
	m := &ir.Method{Name: method, GoName: goName(stems[0]), Def: name, ParamsDef: name + "/params", ParamsMember: k.Params,
		Notification: k.Kind == "notification", From: from, In: ir.Revs(b.g.Defs[name].In)}
	if m.GoName == "Caller" || m.GoName == "Notifier" {
		m.GoName += "Method" // the types that send messages have a field of that name
	}
	m.Const = b.unowned("Method"+joined(m.Name), "", n)
	if err := b.claim(m.Const, "", n); err != nil {
		return nil, err
	}
	stated, err := b.Messages.from(k, n)
	if err != nil {
		return nil, err
	}
	if m.From |= stated; m.From == 0 {
		m.From = ir.FromBoth
	}
	if from, ok := b.Overrides.Direction(m.Name); ok {
		m.From = sideOf[from]
	}
	o, object := n.(*merge.Object)
	switch {
	case k.Keyword != "":
		m.ParamsDef = name
		m.Params = resolveAlias(b.defs[name])
		m.OptParams = object && !slices.ContainsFunc(o.Members, func(mem *merge.Member) bool { return mem.Required != 0 })
	case object && o.Member(k.Params) != nil:
		m.OptParams = o.Member(k.Params).Required != o.In
		m.Params = b.memberType(name, k.Params)
		if b.Messages.own && m.Params != nil && resolveAlias(m.Params) == ir.RawAny {
			m.Params = nil // a base that all messages share allows any
		}
	}
	if m.Params != nil && !isMessage(m.Params) {
		at := n.At()
		if object && o.Member(k.Params) != nil {
			at = o.Member(k.Params).Node.At()
		}
		return nil, at.Errorf("the params of the method %q are not an object, so handlers cannot take them as a struct; "+
			"if they refer to an open object, a struct row in the overrides makes one of it", m.Name)
	}
	if m.Notification {
		return m, nil
	}
	if b.Messages.own {
		err = b.plainResult(m, k, stems, n)
	} else {
		err = b.result(m, stems, o)
	}
	if err == nil && !isMessage(m.Result) {
		err = n.At().Errorf("the result of the method %q is not an object, so handlers cannot return it as a struct; "+
			"if it is an open object, a struct row in the overrides makes one of it", m.Name)
	}
	return m, err
}

// plainResult sets the result type of a request as the table of messages says. If the response has
// no result, that is an object without members.
func (b *builder) plainResult(m *ir.Method, k *MessageKind, stems []string, n merge.Node) error {
	for _, stem := range stems {
		def := b.paired(stem + k.Response)
		if def == "" {
			continue
		}
		if k.Result == "" {
			m.Result = resolveAlias(b.defs[def])
		} else if t := b.memberType(def, k.Result); t != nil && resolveAlias(t) != ir.RawAny {
			m.Result, m.ResultDef, m.ResultMember = t, def+"/result", k.Result
		}
		break
	}
	if m.Result == nil {
		return b.emptyResult(m, merge.NewObject(n.At(), b.g.Defs[m.Def].In))
	}
	return nil
}

// sides are the definitions that list the messages of one side.
var sides = map[string]ir.Direction{
	"ClientRequest": ir.FromClient, "ClientNotification": ir.FromClient,
	"ServerRequest": ir.FromServer, "ServerNotification": ir.FromServer,
}

// methodOf returns the constant value of the member method, or "".
func methodOf(n merge.Node) string {
	k := MessageKind{Member: "method"}
	return k.methodOf(n)
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

// memberType returns the Go type of a member of a definition that is a struct, or nil if it has none.
func (b *builder) memberType(def, name string) ir.Type {
	st, ok := resolveAlias(b.defs[def]).(*ir.Struct)
	if !ok || member(st, name) == nil {
		return nil
	}
	return member(st, name).Type
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
		if b.Note != nil {
			if err := b.soften(request.At().Errorf("the method %q has no result: neither %sResult nor %[2]sResultResponse, EmptyResult or Result exists; "+
				"it is an object without members", m.Name, stems[0])); err != nil {
				return err
			}
			return b.emptyResult(m, request)
		}
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
