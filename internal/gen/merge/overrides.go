package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/token"
	"path"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Override is one row of the overrides file: a decision that no schema states. A row that applies
// to nothing is an error, so that obsolete rows are removed.
type Override struct {
	// Rule is the effect of the row. The type Overrides of package gen documents the rules.
	Rule string `json:"rule"`

	Def      string `json:"def,omitempty"`
	As       string `json:"as,omitempty"`
	At       string `json:"at,omitempty"` // "Definition/member", both with path.Match wildcards
	Member   string `json:"member,omitempty"`
	Ref      string `json:"ref,omitempty"`
	Type     string `json:"type,omitempty"`
	Value    string `json:"value,omitempty"`
	Revision string `json:"revision,omitempty"`
	Doc      string `json:"doc,omitempty"` // documentation of an added member
	Method   string `json:"method,omitempty"`
	From     string `json:"from,omitempty"`
	Keyword  string `json:"keyword,omitempty"`

	Reason string `json:"reason"` // why the row is needed; required

	used bool
}

// Overrides is the overrides file.
type Overrides struct {
	File string
	Rows []*Override
}

// ParseOverrides reads an overrides file: a JSON array of rows. An empty src has no rows.
func ParseOverrides(file string, src []byte) (*Overrides, error) {
	o := &Overrides{File: file}
	if len(src) == 0 {
		return o, nil
	}
	var rows []json.RawMessage
	if err := json.Unmarshal(src, &rows); err != nil {
		return nil, &load.Error{File: file, Message: "not a JSON list of rows: " + load.Cause(err)}
	}
	for i, raw := range rows {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		row := new(Override)
		if err := d.Decode(row); err != nil {
			return nil, o.errorf(i, "not a row of overrides: %s", load.Cause(err))
		}
		o.Rows = append(o.Rows, row)
	}
	needs := map[string][]string{
		"rename": {"def", "as"}, "refer": {"at", "as"}, "add": {"def", "member", "revision"}, "struct": {"def"},
		"tag": {"def", "member", "value"}, "widen": {"def", "member", "type"}, "name": {"at", "as"}, "field": {"at", "as"}, "direction": {"method", "from"}, "ignore": {"keyword"},
	}
	for i, row := range o.Rows {
		fields := map[string]string{"def": row.Def, "as": row.As, "at": row.At, "member": row.Member, "value": row.Value, "type": row.Type,
			"revision": row.Revision, "method": row.Method, "from": row.From, "keyword": row.Keyword, "reason": row.Reason}
		need, ok := needs[row.Rule]
		if !ok {
			return nil, o.errorf(i, "rule %q is not one of rename, refer, add, struct, tag, widen, name, field, direction, ignore", row.Rule)
		}
		for _, f := range append(need, "reason") {
			if fields[f] == "" {
				return nil, o.errorf(i, "a %s row needs %q", row.Rule, f)
			}
		}
		if row.Rule == "widen" && row.Type != "number" {
			return nil, o.errorf(i, "type %q: integers can only become number", row.Type)
		}
		if row.Rule == "direction" && !slices.Contains([]string{"client", "server", "both"}, row.From) {
			return nil, o.errorf(i, "from is %q; it must be client, server or both", row.From)
		}
		if (row.Rule == "name" || row.Rule == "field") && (!token.IsIdentifier(row.As) || !token.IsExported(row.As)) {
			return nil, o.errorf(i, "%q is not an exported Go identifier", row.As)
		}
	}
	return o, nil
}

func (o *Overrides) errorf(i int, format string, args ...any) error {
	return &load.Error{File: o.File, Pointer: fmt.Sprintf("/%d", i), Message: fmt.Sprintf(format, args...)}
}

// rows returns the rows of a rule. It does not mark them as used.
func (o *Overrides) rows(rule string) []*Override {
	if o == nil {
		return nil
	}
	var out []*Override
	for _, row := range o.Rows {
		if row.Rule == rule {
			out = append(out, row)
		}
	}
	return out
}

// Ignored returns the keywords of the ignore rows. Those that used reports are used.
func (o *Overrides) Ignored(used func(keyword string) bool) (keywords []string) {
	for _, row := range o.rows("ignore") {
		row.used = row.used || used(row.Keyword)
		keywords = append(keywords, row.Keyword)
	}
	return keywords
}

// Unused returns an error for the first row that was never applied, or nil.
func (o *Overrides) Unused() error {
	if o == nil {
		return nil
	}
	for i, row := range o.Rows {
		if !row.used {
			return o.errorf(i, "this %s row applies to nothing; remove it", row.Rule)
		}
	}
	return nil
}

// Name returns the Go name that a name row gives to the shape at a place, written as
// "Definition/member/member".
func (o *Overrides) Name(at string) (string, bool) { return o.as("name", at) }

// Field returns the Go name that a field row gives to the member at the given place.
func (o *Overrides) Field(at string) (string, bool) { return o.as("field", at) }

func (o *Overrides) as(rule, at string) (string, bool) {
	for _, row := range o.rows(rule) {
		if row.At == at {
			row.used = true
			return row.As, true
		}
	}
	return "", false
}

// Direction returns the sender of method according to a direction row.
func (o *Overrides) Direction(method string) (from string, ok bool) {
	for _, row := range o.rows("direction") {
		if row.Method == method {
			row.used = true
			return row.From, true
		}
	}
	return "", false
}

// Names returns the name of a definition, followed by its names in older revisions according to the
// rename rows.
func (o *Overrides) Names(def string) []string {
	names := []string{def}
	for _, row := range o.rows("rename") {
		if row.As == def {
			names = append(names, row.Def)
		}
	}
	return names
}

// Renamed returns the name that the rename rows give the definition def, or def if no row renames
// it.
func (o *Overrides) Renamed(def string) string {
	for _, row := range o.rows("rename") {
		if row.Def == def {
			return row.As
		}
	}
	return def
}

// rename applies the rename rows to one resolved document.
func (o *Overrides) rename(defs map[string]*Def) {
	to := map[string]string{}
	for _, row := range o.rows("rename") {
		if d := defs[row.Def]; d != nil && defs[row.As] == nil {
			row.used = true
			to[row.Def] = row.As
			delete(defs, row.Def)
			d.Name = row.As
			defs[row.As] = d
		}
	}
	if len(to) == 0 {
		return
	}
	for _, d := range defs {
		d.Node = rewrite(d.Node, func(n Node) Node {
			if r, ok := n.(*Ref); ok && to[r.Name] != "" {
				return &Ref{r.pos, to[r.Name], r.In}
			}
			return n
		})
	}
}

// merged applies the rows that change the merged graph.
func (o *Overrides) merged(g *Graph) error {
	if o == nil {
		return nil
	}
	for i, row := range o.Rows {
		if row.Rule != "struct" || g.Defs[row.Def] == nil {
			continue
		}
		obj, ok := g.Defs[row.Def].Node.(*Object)
		if !ok || !obj.Open() {
			return o.errorf(i, "definition %q is not an object that leaves all its members open, so it needs no such row or cannot have one", row.Def)
		}
		row.used = true
		obj.Struct = true
	}
	for i, row := range o.Rows {
		if row.Rule != "add" || g.Defs[row.Def] == nil {
			continue
		}
		obj, ok := g.Defs[row.Def].Node.(*Object)
		rev := slices.Index(g.Revisions, row.Revision)
		switch {
		case !ok:
			return o.errorf(i, "definition %q is not an object", row.Def)
		case obj.Member(row.Member) != nil:
			return o.errorf(i, "definition %q has a member %q of its own", row.Def, row.Member)
		case rev < 0:
			continue
		case row.Ref != "" && g.Defs[row.Ref] == nil:
			return o.errorf(i, "there is no definition %q", row.Ref)
		}
		at := obj.pos
		var n Node = &Any{at}
		switch {
		case row.Ref != "":
			n = &Ref{at, row.Ref, 1 << rev}
		case row.Type == "string":
			n = &Scalar{at, KindString}
		case row.Type != "":
			return o.errorf(i, "type %q: only string can be added", row.Type)
		}
		row.used = true
		obj.Members = append(obj.Members, &Member{Name: row.Member, Node: n, In: 1 << rev, Doc: row.Doc})
		slices.SortFunc(obj.Members, func(a, b *Member) int { return compare(a.Name, b.Name) })
	}
	for i, row := range o.Rows {
		if row.Rule != "tag" || g.Defs[row.Def] == nil {
			continue
		}
		obj, ok := g.Defs[row.Def].Node.(*Object)
		if !ok || obj.Member(row.Member) == nil {
			return o.errorf(i, "definition %q has no member %q", row.Def, row.Member)
		}
		row.used = true
		obj.Member(row.Member).Tag, _ = json.Marshal(row.Value)
	}
	return o.widen(g)
}

// widen applies the widen rows.
func (o *Overrides) widen(g *Graph) error {
	for i, row := range o.Rows {
		if row.Rule != "widen" || g.Defs[row.Def] == nil {
			continue
		}
		obj, ok := g.Defs[row.Def].Node.(*Object)
		if !ok || obj.Member(row.Member) == nil {
			return o.errorf(i, "definition %q has no member %q", row.Def, row.Member)
		}
		m := obj.Member(row.Member)
		m.Node = rewrite(m.Node, func(n Node) Node {
			s, ok := n.(*Scalar)
			if !ok || s.Kinds&(KindInteger|KindNumber) != KindInteger {
				return n
			}
			row.used = true
			return &Scalar{s.pos, s.Kinds | KindNumber}
		})
	}
	return nil
}

// refer applies the refer rows: an inline object that matches is folded into the
// definition, and the member refers to it.
func (o *Overrides) refer(m *merger) error {
	rows := o.rows("refer")
	if len(rows) == 0 {
		return nil
	}
	for _, name := range m.g.Names() {
		var fault error
		var visit func(at string, n Node)
		visit = func(at string, n Node) {
			obj, ok := n.(*Object)
			if !ok || fault != nil {
				return
			}
			for _, mem := range obj.Members {
				place := at + "/" + mem.Name
				row := firstMatch(rows, name, strings.TrimPrefix(place, name+"/"))
				if row == nil || m.g.Defs[row.As] == nil || name == row.As || m.settled[place] {
					visit(place, mem.Node)
					continue
				}
				row.used = true
				if _, isRef := mem.Node.(*Ref); isRef {
					// A reference to a definition that names members of its own is not changed.
					if obj, ok := m.g.Follow(mem.Node).(*Object); !ok || !obj.Open() {
						continue
					}
				} else if fault = m.fold(row.As, mem.Node, mem.In); fault != nil {
					return
				}
				mem.Node = &Ref{pos{mem.Node.At()}, row.As, mem.In}
			}
		}
		visit(name, m.g.Defs[name].Node)
		if fault != nil {
			return fault
		}
	}
	return nil
}

func firstMatch(rows []*Override, def, member string) *Override {
	for _, row := range rows {
		d, m, _ := strings.Cut(row.At, "/")
		if ok, _ := path.Match(d, def); !ok {
			continue
		}
		// "**/x" matches x at any depth.
		if last, deep := strings.CutPrefix(m, "**/"); deep {
			member = member[strings.LastIndexByte(member, '/')+1:]
			m = last
		}
		if ok, _ := path.Match(m, member); ok || m == member {
			return row
		}
	}
	return nil
}

// rewrite rebuilds n with f applied to every node below it and then to it.
func rewrite(n Node, f func(Node) Node) Node {
	switch n := n.(type) {
	case *Object:
		for _, m := range n.Members {
			m.Node = rewrite(m.Node, f)
		}
		n.Rest = rewrite(n.Rest, f)
	case *Array:
		n.Elem = rewrite(n.Elem, f)
	case *Union:
		for _, v := range n.Variants {
			v.Node = rewrite(v.Node, f)
		}
	case *Nullable:
		n.Node = rewrite(n.Node, f)
	}
	return f(n)
}
