// Package embedding runs the tools of another SDK as tasks. It is the engine of the packages below
// runtime/embed: an adapter passes JSON between an SDK and an [Engine].
package embedding

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Seam is the version of this package. An adapter is a module of its own, and compares the version
// when it is compiled:
//
//	var _ [1]struct{} = [embedding.Seam]struct{}{}
const Seam = 3

// Backend is implemented by an adapter.
type Backend interface {
	// CallTool runs a tool in a session of the SDK whose peer is c. It returns the result as JSON,
	// or an error. If the SDK responds with an error, the chain has a [*jsonrpc.Error]. If the SDK
	// does not have the tool, that is the Response of an [*UnknownToolError].
	CallTool(ctx context.Context, c *Call) (json.RawMessage, error)
	// ListTools returns a page of the tools that the client of a call can see, as the result of
	// tools/list. It runs in a session as CallTool does.
	ListTools(ctx context.Context, c *Call) (json.RawMessage, error)
}

// UnknownToolError is the error of a call of a tool that the SDK does not have.
type UnknownToolError struct{ Response *jsonrpc.Error }

// Error implements error.
func (e *UnknownToolError) Error() string { return e.Response.Error() }

// Unwrap returns the response.
func (e *UnknownToolError) Unwrap() error { return e.Response }

// Call is one run of a tool, or one page of the list of tools.
type Call struct {
	Params json.RawMessage // of tools/call, without the members that make it a task, or of tools/list
	Client Client
	// Modern means that the tool may ask for input by its result. Params then have the _meta of a
	// request without sessions, even if the client has a session. If the result asks for input and
	// the call is a task, the Engine calls the tool again with the responses.
	Modern bool
	// ID is the id of the session that the call came from. For a call without a session, and after
	// a restart, it is the id of the task, or "" if the call is not a task from its beginning.
	ID string
	// Header is that of the HTTP request that made the call, or nil. It is not stored.
	Header http.Header
	// Request sends an input request of the handler to the client. A plain call becomes a task. If
	// the client responds with an error, or the Engine rejects the request, the chain of the error
	// has a [*jsonrpc.Error]. After any other error, the call ends or runs again later, and the
	// Engine ignores its outcome.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Notify sends a notification of the handler to the client. It drops notifications that cannot
	// be delivered, and progress with another token than that of the request. It fails if params
	// are not valid.
	Notify func(ctx context.Context, method string, params json.RawMessage) error
}

// Client describes the client that made a call. It is stored in the task.
type Client struct {
	Initialize json.RawMessage `json:"initialize,omitempty"` // an object with protocolVersion, clientInfo and capabilities
	User       string          `json:"user,omitempty"`       // of the access token
	Scopes     []string        `json:"scopes,omitempty"`     // of the access token
}

// Incoming is a request from a client.
type Incoming struct {
	ID        jsonrpc.ID
	Method    string
	Params    json.RawMessage // as received, with task and taskIds
	Revision  mcp.Revision
	Principal string
	Header    http.Header // of HTTP, or nil
	Client    Client
	Session   string // session id, or ""

	// Requestor reaches the client of a revision with sessions. While the request waits in
	// tasks/result, calls have the context of that request. Requestors are comparable, and those of
	// one client are equal.
	Requestor task.Requestor

	// Plain sends notifications of a plain call in a revision without sessions, also before the call
	// becomes a task.
	Plain session.Peer

	// Send sends a notification on the stream of a subscriptions/listen. If the SDK serves the
	// request, Send waits until the acknowledgment has been sent; see [Stream].
	Send func(ctx context.Context, method string, params json.RawMessage) error
}

// Outcome is the result of [Engine.Serve].
type Outcome struct {
	// Handled is false if the SDK has to serve the request as if there were no tasks.
	Handled bool
	// Result is the result of a request that was handled.
	Result codec.Encoder
	// TaskIDs are the tasks of a subscriptions/listen whose other subscriptions the SDK serves. The
	// acknowledgment names them. Stop ends their notifications, and waits for one that is being
	// sent. It is nil for other requests.
	TaskIDs []string
	Stop    func()
}
