package modern

import (
	"encoding/json"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// NotificationTask is the notification of a change of a task that a subscription names.
const NotificationTask = tasks.MethodNotificationsTasks

// ExtensionMethods returns the methods of requests that extensions of the protocol define.
func ExtensionMethods() (names []string) {
	for _, m := range tasks.Methods() {
		if !m.Notification {
			names = append(names, m.Name)
		}
	}
	return names
}

// WithTasks returns the extensions in capabilities with the Tasks extension. It returns them
// unchanged if they have it, or are not an object.
func WithTasks(extensions json.RawMessage) json.RawMessage {
	if _, ok := codec.Member(extensions, tasks.ExtensionID); ok {
		return extensions
	}
	return jsonedit.With(extensions, tasks.ExtensionID, json.RawMessage(`{}`))
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
