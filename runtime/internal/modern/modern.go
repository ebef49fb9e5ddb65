// Package modern recognizes modern requests: those of revisions without sessions, such as
// 2026-07-28. Each names its revision and the capabilities of its client in its _meta (MCP basic,
// "_meta").
package modern

import (
	"bytes"
	"encoding/json"
	"errors"
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
	MetaVersion      = "io.modelcontextprotocol/protocolVersion" // makes a request modern
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
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

// ErrHeaders is returned to a client if a server has rejected a request because its HTTP headers do
// not match its params, for instance because a tool has changed. The error of the server is wrapped
// too.
var ErrHeaders = errors.New("session: server rejected the headers of the request")

// Error codes of this module. Modern revisions reserve those that sessions use:
// session.CodeOverloaded and session.CodeClosing.
const (
	CodeOverloaded = -31050
	CodeClosing    = -31051
)

// MapCode returns the error code of modern requests for one of sessions. A missing resource is
// among the invalid params (MCP resources, "Error Handling"). The protocol reserves the codes from
// -32000 to -32099: other ones than its own are mapped to the range from -31000.
func MapCode(code int64) int64 {
	if code == -32002 {
		return jsonrpc.CodeInvalidParams
	}
	if code <= -32023 && code >= -32099 || code <= -32000 && code >= -32019 {
		return code + 1000
	}
	return code
}

// IsCode reports whether modern revisions define an error code, so that it shows that a server
// speaks one of them.
func IsCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedVersion
}

// Revisions returns the modern revisions, newest first.
func Revisions() []mcp.Revision {
	all := slices.DeleteFunc(mcp.Revisions(), func(rev mcp.Revision) bool { return !rev.Traits().Sessionless })
	slices.Reverse(all)
	return all
}

// Split divides a list into the modern revisions and those with sessions. It keeps their order.
func Split(all []mcp.Revision) (current, sessions []mcp.Revision) {
	for _, rev := range all {
		if rev.Traits().Sessionless {
			current = append(current, rev)
		} else {
			sessions = append(sessions, rev)
		}
	}
	return current, sessions
}

// Kinds of results (MCP basic, "ResultType").
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)

// Typed is embedded in a result that writes its resultType, and has no _meta.
type Typed struct{}

// Typed marks the result.
func (Typed) Typed() {}

// TypedTask is embedded in the state of a task of the Tasks extension.
type TypedTask struct{ Typed }

// TypedTask marks the result.
func (TypedTask) TypedTask() {}

// TakesInput reports whether the result of a method may ask for input (MCP multi round-trip
// requests, "Supported Requests").
func TakesInput(method string) bool {
	return method == mcp.MethodToolsCall || method == mcp.MethodPromptsGet || method == mcp.MethodResourcesRead
}

// Is reports whether params name a version in their _meta.
func Is(params json.RawMessage) bool {
	if !mayName(params) {
		return false
	}
	meta, _ := codec.Member(params, "_meta")
	_, ok := codec.Member(meta, MetaVersion)
	return ok
}

// mayName is a fast check. If it returns false, params name no version: most requests of sessions.
func mayName(params json.RawMessage) bool {
	return bytes.Contains(params, []byte("protocolVersion")) || bytes.IndexByte(params, '\\') >= 0
}

// Repeated holds the parts of the params that the header of an HTTP request repeats (MCP Streamable
// HTTP, "Request Metadata").
type Repeated struct {
	Version string // the version in _meta; "" if it is not a string
	Name    string // the param that NameParam names, as text
	Named   bool   // the param is there, and is a string
}

// Repeat returns the parts of params that the header of the message repeats. ok is false if the
// params name no version.
func Repeat(method string, params json.RawMessage) (repeated Repeated, ok bool) {
	if !mayName(params) {
		return repeated, false
	}
	p := read(method, params)
	return p.repeated()
}

// Read returns the version that the params of a request name, and the other text that its header
// repeats. It fails with [jsonrpc.CodeInvalidParams] if there is no version, or if the client has
// not declared its capabilities.
func Read(method string, params json.RawMessage) (repeated Repeated, fault *jsonrpc.Error) {
	p := read(method, params)
	repeated, _ = p.repeated()
	return repeated, p.fault()
}

// Meta returns the members that the _meta of a modern request must have. They share the memory of
// the params. ok is false if the params name no version.
func Meta(params json.RawMessage) (meta RequestMeta, ok bool) {
	if !mayName(params) {
		return meta, false
	}
	p := read("", params)
	return p.meta, p.meta.version != nil
}

// RequestMeta is the part of the _meta that all modern requests have, as JSON.
type RequestMeta struct {
	version      []byte // nil if it is missing
	Capabilities []byte // of the client; nil if they are missing
}

// Version returns the version. It fails as Read does.
func (m *RequestMeta) Version() (version string, fault *jsonrpc.Error) {
	p := parts{found: true, meta: *m}
	return text(m.version), p.fault()
}

// parts are parts of the params of a request, as JSON.
type parts struct {
	found bool // the _meta
	meta  RequestMeta
	name  []byte // the param that NameParam names; nil if it is missing
}

// metaMembers are the members of RequestMeta.
var metaMembers = []string{MetaVersion, MetaCapabilities}

// read reads the params of a request of a method.
func read(method string, params json.RawMessage) (p parts) {
	names, values := [2]string{"_meta", NameParam(method)}, [2][]byte{}
	n := len(names)
	if names[1] == "" {
		n--
	}
	codec.ReadPart(params, func(r *wire.Reader) { r.PeekRaws(names[:n], values[:n]) })
	var members [2][]byte
	codec.ReadPart(values[0], func(r *wire.Reader) { r.PeekRaws(metaMembers, members[:]) })
	return parts{values[0] != nil, RequestMeta{members[0], members[1]}, values[1]}
}

// repeated returns the parts that the header repeats. ok is false if there is no version.
func (p *parts) repeated() (repeated Repeated, ok bool) {
	return Repeated{text(p.meta.version), text(p.name), isString(p.name)}, p.meta.version != nil
}

// fault returns the error of Read, or nil.
func (p *parts) fault() *jsonrpc.Error {
	switch version, capabilities := p.meta.version, p.meta.Capabilities; {
	case !p.found:
		return invalidParams("_meta is missing")
	case version == nil:
		return invalidParams("_meta has no %s", MetaVersion)
	case !isString(version):
		return invalidParams("_meta: %s is not a string", MetaVersion)
	case capabilities == nil:
		return invalidParams("_meta has no %s", MetaCapabilities)
	case capabilities[0] != '{':
		return invalidParams("_meta: %s is not an object", MetaCapabilities)
	}
	return nil
}

func isString(value []byte) bool { return len(value) > 0 && value[0] == '"' }

// text returns the text of a JSON string, or "" for other values.
func text(value []byte) (s string) {
	if isString(value) {
		codec.ReadPart(value, func(r *wire.Reader) { s = r.Text() })
	}
	return s
}

// Checked is a transport.Reply for a request whose params [Read] has accepted.
type Checked interface {
	// Version returns the version that the params name.
	Version() string
	// Waits is called by the handler when the request begins to wait. From then on, the context ends
	// with CodeClosing as its cause when the client is no longer authorized.
	Waits()
}

func invalidParams(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: " + fmt.Sprintf(format, args...)}
}

// Unsupported returns the error for a modern request with a version that is not supported. The
// slice supported holds the versions of modern requests and of sessions.
func Unsupported(version string, supported []mcp.Revision) *jsonrpc.Error {
	supported = slices.DeleteFunc(slices.Clone(supported), func(rev mcp.Revision) bool { return string(rev) == version }) // a revision with sessions
	data, _ := codec.Marshal(value.Of(struct {
		Supported []mcp.Revision `json:"supported"`
		Requested string         `json:"requested"`
	}{supported, version})) // strings are always encoded
	return &jsonrpc.Error{Code: CodeUnsupportedVersion, Message: "unsupported protocol version", Data: data}
}

// NoSessions returns the error for an initialize with params if only modern revisions are
// supported. Its text names them: clients that know only sessions may show nothing else to their
// users (MCP versioning, "Backward Compatibility with Initialization-Based Versions").
func NoSessions(params json.RawMessage, supported []mcp.Revision) *jsonrpc.Error {
	requested, _ := TextMember(params, "protocolVersion")
	e := Unsupported(requested, supported)
	e.Message = fmt.Sprintf("initialize is not supported: the server speaks revisions without sessions only: %q", supported)
	return e
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

// IsResponse reports whether a response has the type of responses to a method.
func IsResponse(method string, response mcp.InputResponse) bool {
	switch r := response.(type) {
	case *mcp.ElicitResult:
		return method == mcp.MethodElicitationCreate && IsElicitResult(r)
	case *mcp.CreateMessageResult:
		return method == mcp.MethodSamplingCreateMessage
	case *mcp.ListRootsResult:
		return method == mcp.MethodRootsList
	}
	return false
}

// IsElicitResult reports whether the protocol defines the action and the values of a result. Unlike
// the schema of revision 2025-11-25, it admits fractions as values, because forms may have number
// fields.
func IsElicitResult(result *mcp.ElicitResult) bool {
	switch result.Action {
	case mcp.ElicitActionAccept, mcp.ElicitActionDecline, mcp.ElicitActionCancel:
	default:
		return false
	}
	for _, v := range result.Content {
		switch v.(type) {
		case *mcp.ElicitResultContentValueScalar, *mcp.ElicitResultContentValueList:
		default:
			return false
		}
	}
	return true
}
