package tasks

import (
	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
)

// ReadParams reads the params of a message that belongs to the protocol or to the extension. It is
// the Params of a [mcp.Conversation] on a connection that may use the extension:
//
//	talk := mcp.Conversation{Params: tasks.ReadParams, Result: tasks.ReadResult}
//
// Revision 2025-11-25 has methods of the same names. Params belong to the extension if their _meta
// names a revision of the protocol, as every request does that may use the extension.
func ReadParams(r *wire.Reader, method string) codec.Value {
	if _, ok := LookupMethod(method); ok {
		_, both := mcp.LookupMethod(method)
		if !both || r.PeekPath(1<<wire.KindString, "_meta", versionMeta) {
			return ReadMethodParams(r, method)
		}
	}
	return mcp.ReadMethodParams(r, method)
}

// versionMeta is the key in _meta under which a request names its protocol revision.
const versionMeta = "io.modelcontextprotocol/protocolVersion"

// ReadResult is [ReadParams] for results. A result of a method that revision 2025-11-25 has, too,
// belongs to the extension if it has a resultType. Any result whose resultType is "task" is a
// [CreateTaskResult].
func ReadResult(r *wire.Reader, method string) codec.Value {
	kind := string(r.PeekText("resultType"))
	if kind == "task" {
		return wire.New(r, (*CreateTaskResult).DecodeJSON)
	}
	if _, ok := LookupMethod(method); ok {
		if _, both := mcp.LookupMethod(method); !both || kind != "" {
			return ReadMethodResult(r, method)
		}
	}
	return mcp.ReadMethodResult(r, method)
}
