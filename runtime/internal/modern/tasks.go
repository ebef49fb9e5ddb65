package modern

import (
	"encoding/json"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// WithExtension returns the extensions in capabilities with the settings of one more. It returns
// them unchanged if they have it, or are not an object.
func WithExtension(extensions json.RawMessage, id string, settings json.RawMessage) json.RawMessage {
	if _, ok := codec.Member(extensions, id); ok {
		return extensions
	}
	return jsonedit.With(extensions, id, settings)
}

// WithTasks is WithExtension for the Tasks extension.
func WithTasks(extensions json.RawMessage) json.RawMessage {
	return WithExtension(extensions, tasks.ExtensionID, json.RawMessage(`{}`))
}

// IsReserved reports whether the name of a method is reserved for tasks, and no method of tasks has
// it (MCP tasks extension, "Reservations").
func IsReserved(method string) bool {
	if !strings.HasPrefix(method, "tasks/") && !strings.HasPrefix(method, "notifications/tasks/") {
		return false
	}
	_, ofSessions := mcp.LookupMethod(method)
	return !ofSessions && !tasks.RevisionExtTasks.Has(method)
}
