// Package embed configures the durable tasks of servers made with other SDKs, and records the steps
// of their handlers. Packages gosdk and mcpgo attach the tasks to a server of one SDK each.
package embed

import (
	"context"
	"net/http"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// Options configures the tasks of a server.
type Options struct {
	// Tasks configures the [task.Manager]. Store is required, and serves one server: the tasks of a
	// second one with the same store do not start, with [task.ErrInUse]. Recover must be nil: the
	// embedding runs the handlers of recovered tasks itself.
	Tasks task.Options

	// Tools are the tools that can be called as tasks, by name. It may name tools that are added
	// to the server later. So a name that no tool has is not an error, and calls of the tool that
	// was meant stay plain; a warning is logged when a client first lists the tools. A task that runs again while the server does not have its tool waits
	// for the tool.
	Tools map[string]Tool

	// Default is used for tools that Tools does not name. Nil means that they are never tasks.
	Default *Tool

	// Principal returns the principal of a request. Only the principal that created a task can read
	// and cancel it. The header is nil outside of HTTP. If Principal is nil, gosdk uses UserID of
	// the token info, and mcpgo uses "" for all requests.
	Principal func(ctx context.Context, header http.Header) string

	// List offers tasks/list in revisions with sessions. Set it only if clients have different
	// principals.
	List bool
}

// Tool configures how a tool runs as a task.
type Tool struct {
	// Support is the task support of the tool. An empty Mode means optional. If Restartable is set,
	// the task is durable: it runs again after a restart of the server.
	receiver.Support

	// Accepts lists other versions of the tool whose tasks its handler can continue after a
	// restart. Tasks of any other version than Version wait for a process that has it.
	Accepts []string

	// Rounds means that the handler asks for input by returning input requests, not by calling its
	// session. In a task, the handler is called again with the responses, at most ten times.
	Rounds bool
}

// Durable returns the Tool of a durable task.
func Durable() Tool { return Tool{Support: receiver.Support{Restartable: true}} }
