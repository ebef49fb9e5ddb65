// Package modern recognizes modern requests: those of revisions without sessions, such as
// 2026-07-28. Each names its revision and the capabilities of its client in its _meta (MCP basic,
// "_meta").
package modern

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
)

// The members of _meta that modern revisions define.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"    // makes a request modern
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities" // makes a request modern
	MetaClientInfo   = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaServerInfo   = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
)

// Error codes of modern revisions (MCP basic, "Error Codes").
const (
	CodeHeaderMismatch     = -32020 // a header of the HTTP request differs from the message
	CodeMissingCapability  = -32021 // the client has not declared a capability that the request needs
	CodeUnsupportedVersion = -32022 // the receiver does not speak the revision
)

// Error codes of our own. Modern revisions reserve those that sessions use: session.CodeOverloaded
// and session.CodeClosing.
const (
	CodeOverloaded = -31050
	CodeClosing    = -31051
)

// IsCode reports whether modern revisions define an error code, so that it shows that a server speaks
// one of them.
func IsCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Revisions returns the modern revisions, newest first.
func Revisions() []mcp.Revision {
	all := slices.DeleteFunc(mcp.Revisions(), func(rev mcp.Revision) bool { return rev.Has(mcp.MethodInitialize) })
	slices.Reverse(all)
	return all
}

// Is reports whether params name a version in their _meta.
func Is(params json.RawMessage) bool {
	if !bytes.Contains(params, []byte("protocolVersion")) && bytes.IndexByte(params, '\\') < 0 {
		return false // most requests of sessions
	}
	meta, _ := codec.Member(params, "_meta")
	_, ok := codec.Member(meta, MetaVersion)
	return ok
}

// Version returns the version that params name, or "" if there is none.
func Version(params json.RawMessage) (version string) {
	meta, _ := codec.Member(params, "_meta")
	codec.ReadPart(meta, func(r *wire.Reader) {
		text, kind, ok := r.PeekMember(MetaVersion)
		if ok && kind == wire.KindString {
			version = text
		}
	})
	return version
}

// Read returns the version that params name. It fails with [jsonrpc.CodeInvalidParams] if there is
// none, or if the client has not declared its capabilities.
func Read(params json.RawMessage) (version string, fault *jsonrpc.Error) {
	meta, ok := codec.Member(params, "_meta")
	if !ok {
		return "", invalidParams("_meta is missing")
	}
	var kind wire.Kind
	codec.ReadPart(meta, func(r *wire.Reader) { version, kind, ok = r.PeekMember(MetaVersion) })
	switch {
	case !ok:
		return "", invalidParams("_meta has no %s", MetaVersion)
	case kind != wire.KindString:
		return "", invalidParams("_meta: %s is not a string", MetaVersion)
	}
	capabilities, ok := codec.Member(meta, MetaCapabilities)
	switch {
	case !ok:
		return "", invalidParams("_meta has no %s", MetaCapabilities)
	case capabilities[0] != '{':
		return "", invalidParams("_meta: %s is not an object", MetaCapabilities)
	}
	return version, nil
}

func invalidParams(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: " + fmt.Sprintf(format, args...)}
}

// Unsupported returns the error for a version that modern requests cannot have. supported are the
// versions that they and sessions can have.
func Unsupported(version string, supported []mcp.Revision) *jsonrpc.Error {
	supported = slices.DeleteFunc(slices.Clone(supported), func(rev mcp.Revision) bool { return string(rev) == version }) // one of sessions
	data, _ := codec.Marshal(value.Of(struct {
		Supported []mcp.Revision `json:"supported"`
		Requested string         `json:"requested"`
	}{supported, version})) // strings are always encoded
	return &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "unsupported protocol version", Data: data}
}

// RequiredCapabilities returns the data of the error for a missing capability: an object like the
// client's capabilities, with the capability of a name such as "sampling.tools".
func RequiredCapabilities(name string) json.RawMessage {
	data := `{}`
	parts := strings.Split(name, ".")
	for i := len(parts) - 1; i >= 0; i-- {
		key, _ := codec.Marshal(codec.StringScalar(parts[i])) // strings are always encoded
		data = "{" + string(key) + ":" + data + "}"
	}
	return json.RawMessage(`{"requiredCapabilities":` + data + `}`)
}
