package session

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// requestMeta is what a client adds to the _meta of each modern request: its revision, its client
// info and its capabilities (MCP basic, "_meta"). It is immutable.
type requestMeta struct {
	members []methods.MetaMember
	text    []byte // the members of the _meta, encoded and without braces
}

// noRequestMeta has no members. It is for messages of sessions that have a _meta of their own.
var noRequestMeta = new(requestMeta)

// newRequestMeta returns the members for a revision.
func newRequestMeta(revision mcp.Revision, client *mcp.InitializeRequestParams) (*requestMeta, error) {
	capabilities := *mcp.Project(revision, &client.Capabilities)
	if roots := capabilities.Roots; roots != nil && !revision.Has(mcp.MethodNotificationsRootsListChanged) {
		own := *roots
		own.ListChanged = nil
		capabilities.Roots = &own
	}
	m := &requestMeta{members: []methods.MetaMember{
		{Name: modern.MetaVersion, Value: codec.StringScalar(string(revision))},
		{Name: modern.MetaClientInfo, Value: mcp.Project(revision, &client.ClientInfo)},
		{Name: modern.MetaCapabilities, Value: &capabilities},
	}}
	for i := range m.members {
		raw, err := boundary.Marshal(m.members[i].Value)
		if err != nil {
			return nil, err
		}
		m.members[i].Value = Raw(raw)
	}
	text, err := boundary.MarshalFunc(func(w *wire.Writer) { methods.WriteMeta(w, nil, m.members) })
	if err != nil {
		return nil, err
	}
	m.text = text[1 : len(text)-1]
	return m, nil
}

// with returns the members of m that are not in own, and own.
func (m *requestMeta) with(own []methods.MetaMember) []methods.MetaMember {
	all := make([]methods.MetaMember, 0, len(m.members)+len(own))
	for _, member := range m.members {
		if !has(own, member.Name) {
			all = append(all, member)
		}
	}
	return append(all, own...)
}

// has reports whether there is a member with a name.
func has(members []methods.MetaMember, name string) bool {
	return slices.ContainsFunc(members, func(m methods.MetaMember) bool { return m.Name == name })
}

// encode encodes a request without decoding its params. encoded is the part of text with the
// params. Both are nil if the params have a _meta, or may have one that is not their first member:
// encode cannot add to it.
func (m *requestMeta) encode(id jsonrpc.ID, method string, params codec.Encoder, own []methods.MetaMember) (text []byte, encoded json.RawMessage) {
	if !m.insertable(own) {
		return nil, nil
	}
	var from int
	var ok bool
	text, err := boundary.MarshalFunc(func(w *wire.Writer) {
		beginCall(w, id, method)
		w.Key(`,"params":`)
		from = len(w.Bytes())
		ok = m.insert(w, params, own)
		w.End()
	})
	if !ok || err != nil {
		return nil, nil
	}
	to := len(text) - len("}")
	return text, json.RawMessage(text[from:to:to])
}

// insertable reports whether own has none of the members of m, and only valid names.
func (m *requestMeta) insertable(own []methods.MetaMember) bool {
	for _, member := range own {
		if has(m.members, member.Name) || methods.CheckMetaKey(member.Name) != nil {
			return false
		}
	}
	return true
}

// insert writes params with a _meta as their first member. It returns false, and leaves the text
// invalid, if they have one already, are empty or cannot be encoded.
func (m *requestMeta) insert(w *wire.Writer, params codec.Encoder, own []methods.MetaMember) bool {
	w.Lit(`{"_meta":{`)
	w.LitBytes(m.text)
	for _, member := range own {
		w.MapKey(member.Name)
		member.Value.EncodeJSON(w)
	}
	w.Lit("}")
	if params == nil {
		w.End()
		return w.Failure().Err == nil
	}
	at := len(w.Bytes())
	params.EncodeJSON(w)
	text := w.Bytes()
	if len(text) <= at+len("{}") || text[at] != '{' || hasMeta(params, text[at:]) {
		return false
	}
	text[at] = ',' // joins the two objects
	return true
}

// hasMeta reports whether params, whose text is given, have a _meta.
func hasMeta(params codec.Encoder, text []byte) bool {
	if bytes.HasPrefix(text, metaFirst) {
		return true
	}
	if _, generated := params.(interface{ Validate(mcp.Revision) error }); generated {
		return false // it would be the first member
	}
	_, found := codec.Member(text, "_meta")
	return found
}
