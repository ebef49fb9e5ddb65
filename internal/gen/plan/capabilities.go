package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Capabilities is the table of the capabilities that messages need, which no schema states. Each
// method is in one of its rows.
type Capabilities struct {
	File string
	Rows []CapabilityRow
}

// CapabilityRow is one row of the table. A row is about Methods, about Params, or about Capability.
type CapabilityRow struct {
	// Methods need the capability Needs. If Needs is empty they need none.
	Methods []string `json:"methods,omitempty"`
	// Params is the definition of params that need Needs. If there are Members, the params need it
	// only if one of these is present.
	Params  string   `json:"params,omitempty"`
	Members []string `json:"members,omitempty"`

	Needs string `json:"needs,omitempty"` // path in the capabilities object, joined with dots
	Of    string `json:"of,omitempty"`    // the side that must have declared Needs: "sender" or "receiver"

	// Capability is also declared if the object around it is present without Unless.
	Capability string `json:"capability,omitempty"`
	Unless     string `json:"unless,omitempty"`
}

// ParseCapabilities reads a JSON array of rows.
func ParseCapabilities(file string, src []byte) (*Capabilities, error) {
	c := &Capabilities{File: file}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&c.Rows); err != nil {
		return nil, &load.Error{File: file, Message: "not a JSON list of rows: " + load.Cause(err)}
	}
	for i, row := range c.Rows {
		about := 0
		for _, is := range []bool{row.Methods != nil, row.Params != "", row.Capability != ""} {
			if is {
				about++
			}
		}
		switch {
		case about != 1:
			return nil, c.errorf(i, "a row is about methods, about params or about a capability, and about one of these alone")
		case row.Params != "" && (row.Needs == "" || row.Of != "receiver"):
			return nil, c.errorf(i, `a row about params needs "needs", and "of" must be receiver`)
		case row.Needs != "" && row.Of != "sender" && row.Of != "receiver":
			return nil, c.errorf(i, "of is %q; it must be sender or receiver", row.Of)
		case row.Capability != "" && row.Unless == "":
			return nil, c.errorf(i, `a row about a capability needs "unless"`)
		}
	}
	return c, nil
}

func (c *Capabilities) errorf(row int, format string, args ...any) error {
	return &load.Error{File: c.File, Pointer: fmt.Sprintf("/%d", row), Message: fmt.Sprintf(format, args...)}
}

// capabilities lists the capabilities of both sides and the messages that need them.
func (b *builder) capabilities() error {
	for def, of := range map[string]ir.Direction{"ClientCapabilities": ir.FromClient, "ServerCapabilities": ir.FromServer} {
		if st, ok := b.defs[def].(*ir.Struct); ok {
			b.addCapabilities(st, of, st, nil, st.In)
		}
	}
	slices.SortStableFunc(b.pkg.Capabilities, func(x, y *ir.Capability) int { return int(x.Of) - int(y.Of) })
	for _, m := range b.pkg.Methods {
		if m.Task {
			name := "tasks.requests." + strings.ReplaceAll(m.Name, "/", ".")
			if in := b.capability(m.From.Other(), name); in != 0 {
				m.TaskCapability, m.TaskIn = name, in
			}
		}
	}
	if b.Capabilities == nil {
		return nil
	}
	listed := map[string]bool{}
	for i, row := range b.Capabilities.Rows {
		var err error
		switch {
		case row.Methods != nil:
			err = b.methodsNeed(i, row, listed)
		case row.Params != "":
			err = b.paramsNeed(i, row)
		default:
			err = b.implied(i, row)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range b.pkg.Methods {
		if !listed[m.Name] {
			return &load.Error{File: b.Capabilities.File, Message: fmt.Sprintf(
				"there is no row for the method %q; add it to one, or to the one of methods that need nothing", m.Name)}
		}
	}
	slices.SortStableFunc(b.pkg.Needs, func(x, y *ir.Need) int { return strings.Compare(x.Params.GoName, y.Params.GoName) })
	return nil
}

// addCapabilities lists the capabilities that the fields of st, the value at path, declare.
func (b *builder) addCapabilities(root *ir.Struct, of ir.Direction, st *ir.Struct, path []*ir.Field, in ir.Revs) {
	for _, f := range st.Fields {
		c := &ir.Capability{Of: of, Type: root, Path: append(slices.Clip(path), f), In: in & f.In}
		for i, p := range c.Path {
			c.Name += strings.Repeat(".", min(i, 1)) + p.JSON
		}
		switch t := resolveAlias(f.Type).(type) {
		case *ir.Struct:
			if f.Presence == ir.Pointer {
				b.pkg.Capabilities = append(b.pkg.Capabilities, c)
				b.addCapabilities(root, of, t, c.Path, c.In)
			}
		case ir.Raw:
			b.pkg.Capabilities = append(b.pkg.Capabilities, c)
		case ir.Prim:
			if t == ir.Bool && f.Presence == ir.Pointer {
				b.pkg.Capabilities = append(b.pkg.Capabilities, c)
			}
		}
	}
}

// capability returns the revisions in which one of the sides has a capability.
func (b *builder) capability(of ir.Direction, name string) (in ir.Revs) {
	for _, c := range b.pkg.Capabilities {
		if c.Of&of != 0 && c.Name == name {
			in |= c.In
		}
	}
	return in
}

func (b *builder) methodsNeed(i int, row CapabilityRow, listed map[string]bool) error {
	for _, name := range row.Methods {
		at := slices.IndexFunc(b.pkg.Methods, func(m *ir.Method) bool { return m.Name == name })
		switch {
		case at < 0:
			return b.Capabilities.errorf(i, "there is no method %q", name)
		case listed[name]:
			return b.Capabilities.errorf(i, "the method %q is in a row before", name)
		}
		listed[name] = true
		m := b.pkg.Methods[at]
		of := m.From
		if m.Capability, m.SenderDeclares = row.Needs, row.Of == "sender"; !m.SenderDeclares {
			of = m.From.Other()
		}
		if m.CapabilityIn = b.capability(of, row.Needs); row.Needs != "" && m.CapabilityIn == 0 {
			return b.Capabilities.errorf(i, "the %s of %q has no capability %q", row.Of, name, row.Needs)
		}
	}
	return nil
}

func (b *builder) paramsNeed(i int, row CapabilityRow) error {
	st, ok := b.defs[row.Params].(*ir.Struct)
	if !ok {
		return b.Capabilities.errorf(i, "there is no definition %q that is an object", row.Params)
	}
	n := &ir.Need{Params: st, In: st.In, Capability: row.Needs, CapabilityIn: b.capability(ir.FromBoth, row.Needs)}
	if n.CapabilityIn == 0 {
		return b.Capabilities.errorf(i, "there is no capability %q", row.Needs)
	}
	for _, name := range row.Members {
		at := slices.IndexFunc(st.Fields, func(f *ir.Field) bool { return f.JSON == name })
		if at < 0 || st.Fields[at].Presence == ir.Plain {
			return b.Capabilities.errorf(i, "the definition %q has no optional member %q", row.Params, name)
		}
		n.Fields = append(n.Fields, st.Fields[at])
		n.In &= st.Fields[at].In
	}
	b.pkg.Needs = append(b.pkg.Needs, n)
	return nil
}

// implied applies a row with Capability and Unless.
func (b *builder) implied(i int, row CapabilityRow) error {
	found := false
	for _, c := range b.pkg.Capabilities {
		if c.Name != row.Capability {
			continue
		}
		for _, other := range b.pkg.Capabilities {
			if other.Of == c.Of && other.Name == row.Unless {
				c.Unless, found = other, true
			}
		}
	}
	if !found {
		return b.Capabilities.errorf(i, "no side has the capabilities %q and %q", row.Capability, row.Unless)
	}
	return nil
}
