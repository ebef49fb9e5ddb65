package embedding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// Edit adds the tasks to the result of an SDK: the capability to that of initialize, the extension
// to that of server/discover, and the task support of tools to that of tools/list in revisions whose
// tools have one. Other members, and results of other methods, stay as they are. The revision is
// that of the request. For initialize, the result has it, and rev may be "". Edit fails if the
// result is not a JSON object.
func (e *Engine) Edit(method string, rev mcp.Revision, result json.RawMessage) (json.RawMessage, error) {
	if method == mcp.MethodToolsList {
		e.noteListed(result)
	}
	var edit func(result json.RawMessage) json.RawMessage
	switch {
	case method == mcp.MethodInitialize && !rev.Traits().Sessionless:
		edit = e.declareTasks
	case method == mcp.MethodToolsList && rev.Has(mcp.MethodTasksGet):
		edit = e.describeTools
	case method == mcp.MethodServerDiscover:
		edit = declareExtension
	default:
		return result, nil
	}
	if len(result) == 0 {
		return nil, fmt.Errorf("embed: result of %s is empty", method)
	}
	if err := checkObject(result); err != nil {
		return nil, fmt.Errorf("embed: result of %s: %w", method, err)
	}
	return edit(result), nil
}

// declareTasks adds the tasks capability to the result of initialize.
func (e *Engine) declareTasks(result json.RawMessage) json.RawMessage {
	version, _ := modern.TextMember(result, "protocolVersion")
	if !mcp.Revision(version).Has(mcp.MethodTasksGet) {
		return result
	}
	capability, err := codec.Marshal(receiver.ServerCapabilities(e.list))
	if err != nil {
		return result
	}
	return jsonedit.WithPath(result, capability, "capabilities", "tasks")
}

// declareExtension adds the Tasks extension to the result of server/discover.
func declareExtension(result json.RawMessage) json.RawMessage {
	result = jsonedit.WithPath(result, nil, "capabilities", "tasks") // a capability of sessions
	return jsonedit.WithPath(result, json.RawMessage(`{}`), "capabilities", "extensions", tasks.ExtensionID)
}

// noteListed removes the tools in a result of tools/list from those that Options.Tools names and that
// were in no list so far. After the last page of a list, it logs the others, once: a name may be
// misspelled.
func (e *Engine) noteListed(result json.RawMessage) {
	e.unlisted.Lock()
	defer e.unlisted.Unlock()
	if len(e.unlisted.names) == 0 {
		return
	}
	list, _ := codec.Member(result, "tools")
	codec.ReadPart(list, func(r *wire.Reader) {
		for r.Array(); r.More(); {
			name, _ := toolName(r.RawBytes())
			delete(e.unlisted.names, name)
		}
	})
	if _, more := codec.Member(result, "nextCursor"); !more {
		for _, name := range slices.Sorted(maps.Keys(e.unlisted.names)) {
			e.logger().Warn("tool of Options.Tools not listed", "tool", name)
		}
		e.unlisted.names = nil
	}
}

// describeTools sets the task support of the tools in the result of tools/list.
func (e *Engine) describeTools(result json.RawMessage) json.RawMessage {
	list, ok := codec.Member(result, "tools")
	if !ok {
		return result
	}
	out := []byte{'['}
	err := codec.ReadPart(list, func(r *wire.Reader) {
		for r.Array(); r.More(); {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, e.describeTool(r.RawBytes())...)
		}
	})
	if err != nil {
		return result
	}
	return jsonedit.With(result, "tools", append(out, ']'))
}

func (e *Engine) describeTool(tool json.RawMessage) json.RawMessage {
	name, ok := toolName(tool)
	mode := mcp.TaskSupportForbidden
	if t := e.tool(name); ok && t != nil {
		mode = t.Mode
	}
	if mode == mcp.TaskSupportForbidden && !has(tool, "execution", "taskSupport") {
		return tool
	}
	return jsonedit.WithPath(tool, json.RawMessage(`"`+mode+`"`), "execution", "taskSupport")
}
