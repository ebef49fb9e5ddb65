package results

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Text is the JSON text of a result.
type Text []byte

// EncodeJSON writes the text.
func (t Text) EncodeJSON(w *wire.Writer) { w.LitBytes(t) }

// Hint is the caching hint of a result. The zero value means that there is none.
type Hint struct {
	TTL   time.Duration
	Scope mcp.CacheScope
}

// encode writes the members of the hint, unless there is none.
func (h Hint) encode(w *wire.Writer) {
	if h.Scope == "" {
		return
	}
	w.Key(`,"ttlMs":`)
	w.Int(h.TTL.Milliseconds())
	w.KeyText(`,"cacheScope":"`, string(h.Scope))
}

// maxQuoted limits the length of the text of a result that an error quotes, in bytes.
const maxQuoted = 200

// Completer adds the members that all results of revisions without sessions have: the kind of the
// result, the server info and, for some methods, caching hints. Its fields are set before the first
// use; it is safe for concurrent use.
type Completer struct {
	ServerInfo json.RawMessage // nil for none

	// SharesExtension reports whether both sides of a request have declared a common extension. Such
	// an extension may define kinds of results.
	SharesExtension func(*session.Request) bool
}

// Complete returns a result with the added members. It keeps those that the result already has. Nil
// is an empty result.
func (c *Completer) Complete(req *session.Request, hint Hint, result codec.Encoder) codec.Encoder {
	if result == nil {
		result = Text(`{}`)
	}
	return &completed{c, req, hint, result}
}

// completed is a result with the members that Complete adds.
type completed struct {
	*Completer
	req    *session.Request
	hint   Hint
	result codec.Encoder
}

// EncodeJSON writes the added members, then those of the result.
func (c *completed) EncodeJSON(w *wire.Writer) {
	w.Begin()
	if isTyped(c.req.Method, c.result) {
		c.encodeServerInfo(w)
		w.EndWith(c.result)
		return
	}
	if isBare(c.result) {
		w.KeyText(`,"resultType":"`, modern.ResultComplete)
		c.encodeServerInfo(w)
		c.hint.encode(w)
		w.EndWith(c.result)
		return
	}
	text, err := c.withServerInfo()
	if err != nil {
		w.Fail("", err)
		return
	}
	kind, found := codec.Member(text, "resultType")
	if !found {
		w.KeyText(`,"resultType":"`, modern.ResultComplete)
	} else if !c.mayBe(kind) {
		w.Fail("", fmt.Errorf("server: %s: resultType %s is not defined by the protocol or by an extension that both sides declare", c.req.Method, boundary.Text(string(kind), maxQuoted)))
		return
	}
	_, hasTTL := codec.Member(text, "ttlMs")
	_, hasScope := codec.Member(text, "cacheScope")
	if !hasTTL && !hasScope && (!found || string(kind) == `"`+modern.ResultComplete+`"`) {
		c.hint.encode(w)
	}
	w.EndWith(Text(text))
}

// mayBe reports whether the result may be of a kind, given as JSON. Kinds that the protocol does
// not define belong to an extension that both sides have declared (MCP basic, "ResultType").
func (c *completed) mayBe(kind json.RawMessage) bool {
	switch string(kind) {
	case `"` + modern.ResultComplete + `"`:
		return true
	case `"` + modern.ResultInputRequired + `"`:
		return modern.TakesInput(c.req.Method)
	}
	return len(kind) > 0 && kind[0] == '"' && c.SharesExtension(c.req)
}

// encodeServerInfo writes a _meta with the server info, if there is one.
func (c *completed) encodeServerInfo(w *wire.Writer) {
	if c.ServerInfo == nil {
		return
	}
	w.Key(`,"_meta":`)
	w.Begin()
	w.Key(`,"` + modern.MetaServerInfo + `":`)
	w.LitBytes(c.ServerInfo)
	w.End()
}

// withServerInfo returns the text of the result, with the server info in its _meta. A server info
// that is already there is kept. withServerInfo checks the keys of the _meta, except those of raw
// text, which may come from a third party.
func (c *completed) withServerInfo() (json.RawMessage, error) {
	text, err := codec.Marshal(c.result)
	if err != nil {
		return nil, err
	}
	meta, _ := codec.Member(text, "_meta")
	if _, raw := c.result.(session.Raw); !raw {
		err = methods.CheckMetaKeys(meta)
	}
	if _, found := codec.Member(meta, modern.MetaServerInfo); found || err != nil || c.ServerInfo == nil {
		return text, err
	}
	return methods.AddMeta(text, modern.MetaServerInfo, Text(c.ServerInfo))
}

// CheckMeta returns an error if a result with this _meta cannot be sent.
func CheckMeta(meta *mcp.ResultMetaObject) error {
	if meta == nil {
		return nil
	}
	text, err := boundary.Marshal(meta)
	if err == nil {
		err = methods.CheckMetaKeys(text)
	}
	return err
}

// isTyped reports whether a result has a resultType that the method allows, and no _meta.
func isTyped(method string, result codec.Encoder) bool {
	if r, ok := result.(*mcp.InputRequiredResult); ok {
		return r.Meta == nil && modern.TakesInput(method)
	}
	_, ok := result.(interface{ Typed() })
	return ok
}

// isBare reports whether a result is of a type of the protocol and has none of the members that
// Complete adds. Most results are.
func isBare(result codec.Encoder) bool {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.CompleteResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.GetPromptResult:
		return r.Meta == nil && r.ResultType == nil
	case *mcp.ListPromptsResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListResourcesResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListResourceTemplatesResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ListToolsResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	case *mcp.ReadResourceResult:
		return r.Meta == nil && r.ResultType == nil && r.TTLMs == nil && r.CacheScope == nil
	}
	return false
}
