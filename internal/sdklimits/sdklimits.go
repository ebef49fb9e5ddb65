// Package sdklimits lists what other SDKs make impossible for durable tasks inside their servers
// and clients.
package sdklimits

// Limit is something that an SDK makes impossible.
type Limit struct {
	ID  string // for example "G1"
	SDK string // "go-sdk" or "mcp-go"

	// Cases are the names of the cases of runtime/embed/internal/embedtest that fail for this
	// reason. It is nil if no case shows the limit.
	Cases []string
	// Transport is "memory", "stdio" or "http", and Era "session" or "modern"; "" means all.
	Transport, Era string
	// Rare means that the cases fail only at times. They are run again until they pass. The cases of
	// other limits must fail each time.
	Rare bool

	Limit    string // what is impossible
	Reason   string
	Source   string // place in the source of the SDK
	Upstream string // heading in docs/reference/upstream.md of a change that would lift it, like "U1"; or ""
	Instead  string // what to do instead; "" if there is nothing
}

// All lists what go-sdk v1.8.0 and mcp-go v1.2.1 make impossible.
var All = []Limit{
	{ID: "G1", SDK: "go-sdk", Limit: "input requests in sessions over a stateless HTTP handler that Wrap wraps", Reason: "servers cannot send requests over it", Source: "mcp/streamable.go:1831", Instead: "use Handler"},
	{ID: "G2", SDK: "go-sdk", Limit: "revision 2026-07-28 over a stateful HTTP handler that Wrap wraps", Reason: "only stateless handlers serve it", Source: "mcp/streamable.go:871", Upstream: "U13", Instead: "use Handler"},
	{ID: "G3", SDK: "go-sdk", Limit: "elicitation by the session in a plain call of revision 2026-07-28 whose client has not declared the Tasks extension", Reason: "the session refuses it: the revision has no such request", Source: "mcp/server.go:1619", Instead: "return input requests"},
	{ID: "G4", SDK: "go-sdk", Limit: "status notifications that were sent while a stream was broken", Reason: "the EventStore does not have notifications that the SDK has not sent", Source: "mcp/streamable.go:1909", Upstream: "U1"},
	{ID: "G5", SDK: "go-sdk", Limit: "tasks over SSEHandler, and over a transport that Transport does not wrap", Reason: "the SDK drops the members task and taskIds", Source: "mcp/protocol.go:241, 2068", Upstream: "U2", Instead: "use Transport or Handler"},
	{ID: "G6", SDK: "go-sdk", Limit: "the session of the client in a handler that runs as a task", Reason: "a task has a separate session; Server.Sessions lists it", Source: "mcp/server.go:1541", Upstream: "U3"},
	{ID: "G7", SDK: "go-sdk", Limit: "CloseSSEStream in a handler that runs as a task", Reason: "the stream belongs to the request, which has been answered"},
	{ID: "G8", SDK: "go-sdk", Limit: "tasks as results of ClientSession.CallTool", Reason: "the client decodes every result as that of a plain call", Source: "mcp/shared.go:193", Upstream: "U4", Instead: "use Client.CallTool"},
	{ID: "G9", SDK: "go-sdk", Limit: "status notifications in handlers of the SDK's client", Reason: "the client rejects unknown notifications", Source: "mcp/shared.go:235", Upstream: "U5", Instead: "use Handle.Updates"},
	{ID: "G10", SDK: "go-sdk", Limit: "tasks over HTTP as fast as those of mcp-go", Reason: "a task takes two exchanges of the SDK, each of which takes longer than one of mcp-go"},
	{ID: "G11", SDK: "go-sdk", Limit: "progress and log messages of a call before it becomes a task, over HTTP with JSONResponse", Reason: "the SDK sends them on the standing stream", Source: "mcp/streamable.go:1857", Instead: "leave JSONResponse unset"},
	{ID: "G12", SDK: "go-sdk", Cases: []string{"disconnect cancels a plain call"}, Transport: "http", Era: "session", Limit: "cancellation of plain calls by the end of their HTTP session", Reason: "the end of a session waits for the handlers, whose contexts do not end", Source: "internal/jsonrpc2/conn.go:504", Upstream: "U17"},
	{ID: "G13", SDK: "go-sdk", Limit: "tasks of 2026-07-28 that ask for input, through gosdk.Connect over a wrapper of StreamableClientTransport other than LoggingTransport", Reason: "the wrapper hides the HTTP client, whose requests need headers of the task", Instead: "wrap the Transport of its HTTPClient"},
	{ID: "G14", SDK: "go-sdk", Limit: "plain calls whose handler panics or whose result cannot be encoded", Reason: "a panic ends the process, and the SDK sends no response for such a result; as a task, the call fails with an error", Source: "internal/jsonrpc2/conn.go:686, 723", Instead: "call the tool as a task"},
	{ID: "G15", SDK: "go-sdk", Limit: "the end of a session by SessionTimeout while a client that has gone waits for a task", Reason: "the end of a session waits for the requests of the session, and a tasks/result with an EventStore waits for a client that resumes", Source: "internal/jsonrpc2/conn.go:504", Upstream: "U17", Instead: "DELETE ends these requests"},
	{ID: "M1", SDK: "mcp-go", Limit: "tools of AddTaskTool", Reason: "the SDK refuses plain calls of them, and does not export their handlers", Source: "server/server.go:2151", Upstream: "U6", Instead: "use AddTool"},
	{ID: "M2", SDK: "mcp-go", Limit: "two stdio servers in one process", Reason: "the session of stdio is a global variable", Source: "server/stdio.go:362", Upstream: "U7"},
	{ID: "M3", SDK: "mcp-go", Cases: []string{"input request fails with a code"}, Transport: "stdio", Era: "session", Limit: "the code of an error response to an input request over standard input and output", Reason: "the SDK passes on the text only", Source: "server/stdio.go:777", Upstream: "U8"},
	{ID: "M4", SDK: "mcp-go", Limit: "tools of a session (AddSessionTool) in a task after a restart", Reason: "they are held in the session", Source: "server/server.go:2079"},
	{ID: "M5", SDK: "mcp-go", Limit: "status notifications with WithStateLess, and more than 100 that a client has not read", Reason: "the SDK drops them", Source: "server/session.go:372, 430", Upstream: "U9"},
	{ID: "M6", SDK: "mcp-go", Limit: "tasks over SSEServer, and with Handle for other HTTP frameworks", Reason: "there is no http.ResponseWriter to wrap", Source: "server/streamable_http_handle.go:198", Upstream: "U10"},
	{ID: "M7", SDK: "mcp-go", Cases: []string{"roots in the middle"}, Transport: "http", Era: "session", Limit: "the related task in the _meta of roots/list over HTTP", Reason: "the SDK sends the request without params", Source: "server/streamable_http.go:1182", Upstream: "U19"},
	{ID: "M8", SDK: "mcp-go", Cases: []string{"roots in the middle"}, Transport: "stdio", Era: "session", Limit: "the related task in the _meta of roots/list over standard input and output", Reason: "the SDK sends the request without params", Source: "server/stdio.go:257", Upstream: "U19"},
	{ID: "M9", SDK: "mcp-go", Cases: []string{"session user cannot change"}, Transport: "http", Era: "session", Limit: "sessions bound to the user of the handshake", Reason: "the SDK does not compare users", Source: "server/streamable_http.go:663", Instead: "set Principal: each request reaches only the tasks of its principal"},
	{ID: "M10", SDK: "mcp-go", Cases: []string{"status notifications", "progress until the result", "progress of another token is dropped", "log messages of a task"}, Transport: "http", Era: "session", Rare: true, Limit: "a notification of a task at the moment in which a request of the session is answered", Reason: "the SDK takes it for the stream of that request, and drops it", Source: "server/streamable_http.go:826", Upstream: "U20", Instead: "poll"},
	{ID: "M11", SDK: "mcp-go", Limit: "interfaces of the author's own sessions in a handler that runs as a task", Reason: "a task has a separate session, which implements those of the SDK and passes what is set in it on to the session of the client"},
	{ID: "M12", SDK: "mcp-go", Limit: "input requests of a task on a stream that was resumed", Reason: "the SDK sends requests only over the connection that they came from", Source: "server/streamable_http.go:899", Instead: "repeat tasks/result, which sends them again"},
	{ID: "M13", SDK: "mcp-go", Cases: []string{"code of an error is that of a plain call"}, Limit: "the code and the data of a handler's error in a plain call", Reason: "the SDK passes on the text only; as a task, the call fails with both", Source: "server/server.go:2206", Instead: "return a result with isError"},
	{ID: "M14", SDK: "mcp-go", Cases: []string{"withdrawn input request"}, Transport: "http", Era: "session", Limit: "the withdrawal of an input request at the client of a session over HTTP", Reason: "the SDK waits for the response no longer, but sends no notifications/cancelled", Source: "server/streamable_http.go:2076", Upstream: "U21"},
	{ID: "M15", SDK: "mcp-go", Cases: []string{"withdrawn input request"}, Transport: "stdio", Era: "session", Limit: "the withdrawal of an input request at the client over standard input and output", Reason: "the SDK waits for the response no longer, but sends no notifications/cancelled", Source: "server/stdio.go:336", Upstream: "U21"},
}
