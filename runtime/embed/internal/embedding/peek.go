package embedding

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Peek returns the method of a message, and whether [Engine.Serve] may handle it: a request about
// tasks, a tools/call that may become one or that must be one, or a subscriptions/listen with
// tasks. For a response, and for text that is not a message, the method is "". Peek looks for these
// members without decoding or checking the message.
func (e *Engine) Peek(message []byte) (method string, special bool) {
	method, params := peek(message)
	return method, e.IsSpecial(method, params)
}

// IsSpecial is Peek for a request that has been decoded.
func (e *Engine) IsSpecial(method string, params json.RawMessage) bool {
	if isSpecial(method, params) {
		return true
	}
	if !e.required || method != mcp.MethodToolsCall {
		return false
	}
	name, _ := toolName(params)
	t := e.tool(name)
	return t != nil && t.Mode == mcp.TaskSupportRequired
}

var messageMembers = []string{"method", "params"}

func peek(message []byte) (method string, params json.RawMessage) {
	var values [2][]byte
	codec.ReadPart(message, func(r *wire.Reader) { r.PeekRaws(messageMembers, values[:]) })
	if len(values[0]) == 0 || values[0][0] != '"' {
		return "", nil
	}
	codec.ReadPart(values[0], func(r *wire.Reader) {
		text := r.TextBytes()
		if r.Failed() {
			return
		}
		if known, ok := mcp.LookupMethod(string(text)); ok {
			method = known.Name
		} else {
			method = string(text)
		}
	})
	return method, values[1]
}

func isSpecial(method string, params json.RawMessage) bool {
	switch method {
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksList, mcp.MethodTasksCancel, tasks.MethodTasksUpdate:
		return true
	case mcp.MethodToolsCall:
		return mayHave(params, `"task"`) && has(params, "task") ||
			mayHave(params, tasks.ExtensionID) && has(params, "_meta", modern.MetaCapabilities, "extensions", tasks.ExtensionID)
	case mcp.MethodSubscriptionsListen:
		return mayHave(params, `"taskIds"`) && has(params, "notifications", "taskIds")
	}
	return false
}

// mayHave reports whether JSON may contain text. It is fast, and returns true for any JSON with
// escapes.
func mayHave(params json.RawMessage, text string) bool {
	return bytes.Contains(params, []byte(text)) || bytes.IndexByte(params, '\\') >= 0
}

func has(object json.RawMessage, path ...string) (ok bool) {
	for _, name := range path {
		if object, ok = codec.Member(object, name); !ok {
			return false
		}
	}
	return true
}

// CheckName returns an error with code -32020 unless the header of a modern HTTP request repeats
// the tool or task that its params name (MCP Streamable HTTP, "Request Metadata"). SDKs check the
// header only for methods that they know.
func CheckName(method string, params json.RawMessage, header http.Header) *jsonrpc.Error {
	member := modern.NameParam(method)
	if member == "" {
		return nil
	}
	name, _ := modern.TextMember(params, member)
	return modern.CompareHeader(header, modern.HeaderName, name, modern.DecodeHeader)
}
