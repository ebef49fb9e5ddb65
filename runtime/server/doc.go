// Package server builds Model Context Protocol servers from Go functions. It supports tools,
// resources, prompts, completion and logging, for every revision of the protocol: those whose
// sessions begin with initialize, and modern ones such as 2026-07-28, whose requests need no
// session. One server serves both at the same time, at one HTTP endpoint or over one pair of
// standard streams.
//
//	s := server.New("calculator", "1", nil)
//	server.AddTool(s, "add", "Adds two numbers.",
//		func(ctx context.Context, c *server.Call, in Terms) (Sum, error) {
//			return Sum{in.A + in.B}, nil
//		})
//	err := s.ServeStdio(ctx) // or s.ListenAndServe(ctx, "localhost:8080", nil)
//
// # Mistakes
//
// If a feature is invalid, the server does not start. The error of the start lists all such mistakes,
// with file and line of each call, so that a program checks one error and not one for each feature.
// If the server runs already, the mistake is logged, and [Handle.Err] of the feature returns it.
//
// # Words
//
// A feature is a tool, a resource, a resource template or a prompt. A handler is the author's
// function for a feature. A call is one request that a handler serves. Its [Call] reaches the
// client: progress, log messages, elicitation, sampling and roots. It also returns the task, if the
// call runs as one. These methods describe the request: [Call.ClientInfo],
// [Call.ClientCapabilities], [Call.Revision], [Call.Meta], [Call.Principal] and, over HTTP,
// [Call.Header] and [Call.RemoteAddr].
//
// # Schemas
//
// The schemas of arguments and output are inferred from Go types. Struct tags add descriptions,
// choices, limits, formats, defaults and examples, for tools, prompts and the forms of [Elicit]
// alike:
//
//	type render struct {
//		Format string `json:"format" jsonschema:"of the film" enum:"gif,mp4"`
//		Frames int    `json:"frames" minimum:"1" maximum:"1000" default:"24"`
//	}
//
// [SchemaFor] lists the tags. If a tag is invalid, the function that adds the feature fails. A type
// with the method JSONSchema() [json.RawMessage] has the schema that the method returns;
// [DefineType] sets the schemas of other types.
//
// # One set of handlers
//
// Features and results use the types of package mcp, which follow the newest revision. If a session
// has an older revision, the server omits members that this revision does not define, or replaces
// them: a link to a resource becomes text, for example.
//
// # Input in rounds
//
// From revision 2026-07-28 on, there are no sessions, and input requests travel in the result of a
// call: the client makes the call again with the responses, and the handler runs again from its
// top. The methods of [Call] are the same: an input request without a response fails with an
// [*InputRequiredError], which the handler returns, and later runs get the response at once. [Step]
// runs a function once in all rounds. [Call.RunAll] makes several input requests in one round, at
// most 64. What a call knows so far passes through the client in sealed form; see
// [Shared.StateKeys].
//
// # Requests without a session
//
// A modern request names its revision and the capabilities of its client. The server keeps no state
// between such requests:
//
//   - [Call.Session] is nil, and [Call.ClientInfo] and [Call.ClientCapabilities] are those of the
//     request. So are the extensions that [DefineToolFor], [VisibleTo] and [Extension] look at.
//   - A handler that fails with a [*session.CapabilityError] of the client rejects the request with
//     an error that lists the capability. In a session, the model reads the error.
//   - Results have caching hints; see [Caching].
//   - Clients listen to changes of lists and resources with subscriptions/listen, any number at once.
//     Changes that a client has not read yet are merged.
//   - [Call.Log] and [Call.Logger] send messages only if the request asks for them.
//   - Structured output may be any JSON, where sessions need an object; see [AddTool].
//   - Arguments can be repeated in header fields of HTTP; see [SchemaFor].
//   - [Limits.Calls], [Limits.Logs] and [Limits.Subscriptions] limit each principal.
//   - Tasks are those of the Tasks extension; see below.
//
// [Server.Logger], [Hooks.Initialized], [Hooks.RootsChanged], [Call.ElicitTask] and
// [Call.SampleTask] are for sessions only.
//
// # Declared capabilities
//
// A server declares the capabilities of the features that it has when a session opens; see
// [Features.Capabilities]. Features may be added, changed and removed at any time. The server
// notifies the sessions in which it has declared that kind of feature. Modern clients discover the
// current capabilities; methods of other features do not exist for them.
//
// # Restarts
//
// If the transport persists sessions, as Streamable HTTP does with a file, a restarted server
// restores their subscriptions, log levels and open URL elicitations; see [Server.Serve].
//
// # Tasks
//
// With [Options].Tasks.Store, calls of tools with the option [Durable] or [Tasks] can be tasks,
// which run without a connection. [Server.Start] recovers the tasks that are in the store: it runs
// the functions of durable tools again.
//
// In a session, the client asks for a task. It can list its tasks if the session has a principal;
// see [session.Options] and [streamable.HandlerOptions].
//
// In revisions without sessions, the server decides, if the client has declared the Tasks extension
// (io.modelcontextprotocol/tasks) with the request. A call that has not finished after a time
// becomes a task while its function is running; see After of [receiver.Support]. That of a
// [Durable] tool becomes one before its first [Step], [Sleep] or input request. Until then it is a
// plain call, with input in rounds. Then [Call.Task] returns the task, progress and log messages
// are dropped, and input requests wait for tasks/update. Clients learn of changes by tasks/get, or
// listen to them with subscriptions/listen.
//
// All tasks are in one store. A principal finds its tasks in revisions with and without sessions.
//
// # Limits
//
// [Options] limits the work and the memory that a client can cause: the length of URIs, the number
// and the bytes of subscriptions, calls and log messages per second, how long the client may take
// to respond to an input request, and the rounds of tool calls in a conversation. [session.Options]
// limits the length of messages and the number of concurrent requests. Arguments and output are
// rejected if validation takes more than a million steps, plus 8 for each byte. A schema that
// refers to itself in several branches can reach this limit with a few levels of nesting.
//
// # Access
//
// [Call.Principal] returns the principal of a call, and [Call.Identity] what its access token says.
// The options [RequireScopes] and [RequireScopesFor], and [Features.Scopes], demand scopes of the
// token; package auth protects a server with tokens. The option [VisibleTo] shows a feature to some
// calls only, and [Features.Visible] decides for all features. A hidden feature does not exist for
// the call: it is not listed, and cannot be called, read, completed or subscribed to.
//
// # Extensions
//
// [Server.Extend] adds an extension of the protocol: its settings, methods with typed functions, and
// what clients hear of with subscriptions/listen. Package apps, which shows web pages in clients (MCP
// Apps), and the Tasks extension use it, too. A package that implements an extension takes a Server,
// extends it, describes tools for clients that have declared the extension with [DefineToolFor], and
// reports mistakes of its callers with [Server.RecordMistake]. [Call.Stand] serves requests that stay
// open.
//
// # Middleware
//
// Middleware wraps the calls of tools, the requests for prompts and the reading of
// resources: those of the whole server, see [Middleware], or of one feature.
//
// # Sessions
//
// [Hooks] are functions that are called when sessions open and close, and when their clients are
// initialized or have changed their roots. [Server.Logger] and [Server.SessionLogger] send log
// messages to clients outside of calls.
//
// # Own methods
//
// [Features.Methods] serves requests and notifications that the protocol does not define, with
// typed Go functions; see [Method] and [Notification]. A handler sends such requests to the client
// with [Request], and such notifications with [Call.Notify]. Package client has the counterparts.
//
// # Validation
//
// Arguments of tools are validated against the input schema, and structured output against the
// output schema. Content of tools, prompts and resources must comply with the protocol: base64 data
// with a media type, resources with a URI, messages of the user or the assistant. The server logs
// an invalid result and responds with an internal error.
//
// # Shutdown
//
// [Server.ServeStdio] and [Server.ListenAndServe] serve until their context ends or the process
// receives a signal. They give calls 5 seconds to finish and shut the server down. With
// [Limits.Drain], the work of tasks has time to finish, too. [Server.Run] serves one connection
// until its context ends, and does not shut the server down. [Server.Shutdown] ends all sessions in
// order, rejects new ones, and closes the Manager of the tasks; then shut down the handler of
// [Server.Handler] and its http.Server.
//
// # Errors
//
// A [*jsonrpc.Error] that a handler returns is sent to the client unchanged. Any other error of a
// tool, and arguments that do not comply with its schema, become results with isError. The model
// reads their text: return no error whose text the model must not see. Any other error of a handler
// for prompts, resources or completion becomes an internal error, and its text is sent to the
// client.
package server
