// Package mcpgo adds durable tasks to servers and clients made with mcp-go
// (github.com/mark3labs/mcp-go). Tools keep their handlers: they run as tasks of revision
// 2025-11-25, as tasks of the Tasks extension, and as plain calls.
//
// # Servers
//
// [Attach] adds tasks to a server. The methods of [Tasks] serve it: [Tasks.Handler],
// [Tasks.ServeStdio], [Tasks.InProcess], and [Tasks.HandleMessage] for other transports. A server
// whose clients can resume streams has an EventStore of [Tasks.EventStore].
//
// A tool that runs as a task has a session of its own. RequestElicitation, RequestSampling,
// RequestRoots, SendNotificationToClient and SendLogMessageToClient work in it as usual. They reach
// the client of the task in any revision. Requests wait until a client is connected. Tools and
// resources that the handler sets in the session are set in that of the client. The context of
// the handler ends with the task. Until a restart, it has the values of the request that created
// the task. Hooks and middleware see a call in each run of the handler, with an id that begins with
// "mcpwire-". If the handler returns a [*jsonrpc.Error], that is the error of the task. Of other
// errors, the SDK sends only the text.
//
// [*jsonrpc.Error]: https://pkg.go.dev/github.com/mcpwire/mcpwire/codec/jsonrpc#Error
package mcpgo

import "github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"

// The module works with the version of mcpwire that it was released with.
var _ [3]struct{} = [embedding.Seam]struct{}{}
