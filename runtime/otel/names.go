package otel

import "go.opentelemetry.io/otel/attribute"

// scope is the name of the tracer and of the meter.
const scope = "github.com/mcpwire/mcpwire/runtime/otel"

// Attributes of the semantic conventions.
const (
	keyMethod        = attribute.Key("mcp.method.name")
	keyRevision      = attribute.Key("mcp.protocol.version")
	keyResource      = attribute.Key("mcp.resource.uri")
	keyTool          = attribute.Key("gen_ai.tool.name")
	keyPrompt        = attribute.Key("gen_ai.prompt.name")
	keyOperation     = attribute.Key("gen_ai.operation.name")
	keyRequestID     = attribute.Key("jsonrpc.request.id")
	keyStatusCode    = attribute.Key("rpc.response.status_code")
	keyErrorType     = attribute.Key("error.type")
	keyNetwork       = attribute.Key("network.transport")
	keyProtocol      = attribute.Key("network.protocol.name")
	keyServerAddress = attribute.Key("server.address")
	keyServerPort    = attribute.Key("server.port")
	keyClientAddress = attribute.Key("client.address")
	keyClientPort    = attribute.Key("client.port")
	keyHTTPMethod    = attribute.Key("http.request.method")
	keyHTTPStatus    = attribute.Key("http.response.status_code")
)

// Attributes of this package.
const (
	keyResult    = attribute.Key("mcpwire.result.type")     // "task" or "input_required"
	keyTask      = attribute.Key("mcpwire.task.hash")       // of the spans of a run; see taskHash
	keyReruns    = attribute.Key("mcpwire.task.reruns")     // see task.Record
	keyOutcome   = attribute.Key("mcpwire.task.outcome")    // of a run
	keyStatus    = attribute.Key("mcpwire.task.status")     // terminal status of a task, or "expired"
	keyState     = attribute.Key("mcpwire.task.state")      // "running", "queued", "parked" or "unstored"
	keyStream    = attribute.Key("mcpwire.stream.type")     // "get" or "listen"
	keyStep      = attribute.Key("mcpwire.step.name")       // of the span of a step
	keyStoreCall = attribute.Key("mcpwire.store.operation") // method of a task.Store
)

// Metrics of the semantic conventions.
const (
	clientDuration        = "mcp.client.operation.duration"
	serverDuration        = "mcp.server.operation.duration"
	clientSessionDuration = "mcp.client.session.duration"
	serverSessionDuration = "mcp.server.session.duration"
)

// Metrics of this package.
const (
	clientActive   = "mcpwire.client.active_requests"
	serverActive   = "mcpwire.server.active_requests"
	clientSessions = "mcpwire.client.active_sessions"
	serverSessions = "mcpwire.server.active_sessions"
	serverStreams  = "mcpwire.server.active_streams"
	rejected       = "mcpwire.server.rejected_requests"
	httpRejected   = "mcpwire.server.rejected_http_requests"
	tasksActive    = "mcpwire.tasks.active"
	tasksWaiting   = "mcpwire.tasks.waiting_calls"
	tasksCreated   = "mcpwire.tasks.created"
	tasksEnded     = "mcpwire.tasks.ended"
	tasksRefused   = "mcpwire.tasks.rejected_calls"
	runDuration    = "mcpwire.task.run.duration"
	storeDuration  = "mcpwire.task.store.duration"
	fleetMembers   = "mcpwire.fleet.members"
	fleetTakenOver = "mcpwire.fleet.taken_over"
	fleetLapsed    = "mcpwire.fleet.lapsed_leases"
)

// Names of the spans of tasks. The name of the tool follows spanRun, and the method of the input
// request follows spanWait.
const (
	spanRun  = "mcpwire.task.run"
	spanWait = "mcpwire.task.input"
	spanStep = "mcpwire.step"
)

// other stands for values that are not in a known set: unknown names of tools and methods of the
// peer, and errors without a class.
const other = "_OTHER"

// toolError is the error.type of a tool's result with isError.
const toolError = "tool_error"

// bounds are the bucket boundaries for durations in seconds, from the conventions.
var bounds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// storeBounds are the bucket boundaries for calls of a store, in seconds.
var storeBounds = []float64{0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}
