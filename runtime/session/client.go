package session

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// describedClient is what is known of the client that has sent a request. An agreement knows it
// from the handshake; stated knows it from the request itself. Code asks the client, and not which
// of the two it is.
type describedClient interface {
	Revision() mcp.Revision                // "" if unknown
	Info() mcp.Implementation              // zero if unknown
	Capabilities() *mcp.ClientCapabilities // nil if unknown
	Extension(id string) (settings json.RawMessage, ok bool)
}

var (
	_ describedClient = (*agreement)(nil)
	_ describedClient = (*stated)(nil)
)

// described returns what is known of the client of a request.
func (r *Request) described() describedClient {
	if r.Session != nil {
		return r.Session.handshake.current.Load()
	}
	return (*stated)(r)
}

func (a *agreement) Revision() mcp.Revision { return a.revision }

func (a *agreement) Info() (info mcp.Implementation) {
	if a.client != nil {
		info = a.client.ClientInfo
	}
	return info
}

func (a *agreement) Capabilities() *mcp.ClientCapabilities {
	if a.client == nil {
		return nil
	}
	return &a.client.Capabilities
}

func (a *agreement) Extension(id string) (settings json.RawMessage, ok bool) {
	if a.client == nil {
		return nil, false
	}
	return codec.Member(a.client.Capabilities.Extensions, id)
}

// stated is a client as the _meta of its request describes it: in revisions without sessions, and
// for a stored request.
type stated Request

func (c *stated) Revision() mcp.Revision { return c.revision }

func (c *stated) Info() (info mcp.Implementation) {
	if meta, err := (*Request)(c).Meta(); err == nil && meta.ClientInfo != nil {
		info = *meta.ClientInfo
	}
	return info
}

// Capabilities returns no capabilities instead of nil if the revision demands them, because the
// client of such a request has declared all that it has.
func (c *stated) Capabilities() *mcp.ClientCapabilities {
	if meta, err := (*Request)(c).Meta(); err == nil && meta.ClientCapabilities != nil {
		return meta.ClientCapabilities
	}
	if c.revision.Traits().Sessionless {
		return new(mcp.ClientCapabilities)
	}
	return nil
}

// Extension decodes no other part of the _meta, because most requests ask for nothing else.
func (c *stated) Extension(id string) (settings json.RawMessage, ok bool) {
	capabilities := c.capabilities
	if capabilities == nil {
		meta, _ := codec.Member(c.Params, "_meta")
		capabilities, _ = codec.Member(meta, modern.MetaCapabilities)
	}
	extensions, _ := codec.Member(capabilities, "extensions")
	return codec.Member(extensions, id)
}
