// Package server is a server of the Model Context Protocol that is made of Go functions: tools, resources, prompts,
// completion and logging, for every revision that opens with initialize.
//
//	s, err := server.New(server.Config{Info: mcp.Implementation{Name: "calculator", Version: "1"}})
//	...
//	_, err = server.AddTool(s, mcp.Tool{Name: "add", Description: new("Adds two numbers.")},
//		func(ctx context.Context, c *server.Call, in Terms) (Sum, error) {
//			return Sum{in.A + in.B}, nil
//		})
//	...
//	err = s.Run(ctx, conn)
//
// # Words
//
// A feature is a tool, a resource, a resource template or a prompt. A handler is the function of an author that serves
// it. A call is one request that a handler serves; its [Call] reaches back to who asked: progress, log messages,
// elicitation, sampling, roots, and the task if the call runs as one.
//
// # One set of handlers
//
// Features are described by the types of package mcp, and handlers return them, as the newest revision has them. What
// the revision of a session does not know is left out of what the session sends, or replaced by what it knows: a link
// to a resource becomes a text, say.
//
// # What is declared
//
// A server declares the capabilities of the features that it has when a session opens, see [Config.Capabilities].
// Features may come, change and go at any time; sessions that were told of their kind hear of it.
//
// # Restarts
//
// Where the transport keeps sessions over a restart, as Streamable HTTP does with a file, they go on with their
// subscriptions and log level, and with the pages that users were asked to open; see [Server.Serve]. Tasks have a store
// of their own, see [Server.OfferTasks].
//
// # Limits
//
// [Config] limits what a client can make the server do and hold: the length of URIs, the number and
// the bytes of subscriptions, calls and log messages per second, how long the client may take to
// answer an input request, and the rounds of tool calls in a conversation. The limits of messages
// and of requests that are served at once are those of [session.Config]. Arguments and output are
// refused if validation takes more than a million steps, plus 8 for each byte. A schema that refers
// to itself in several branches can reach that with a few levels of nesting.
//
// # Access
//
// [Call.Principal] returns the principal of a call. To offer a feature to some principals only, put
// middleware into Receiving of the Session. It may refuse a tools/call before the tool runs, and
// remove tools from the [*mcp.ListToolsResult] that tools/list returns. Call [Server.ToolsChanged]
// when that changes.
//
// # What is checked
//
// Arguments of tools are validated against the input schema, and structured output against the
// output schema. Content of tools, prompts and resources must comply with the protocol: base64 data
// with a media type, resources with a URI, messages of the user or the assistant. Invalid results
// are logged, and answered with an internal error.
//
// # Shutdown
//
// [Server.Run] serves one connection until its context ends, and gives calls 5 seconds to finish. With several
// sessions, such as those of an HTTP handler, [Server.Shutdown] ends all of them in order and refuses new ones; then
// shut down the handler and the http.Server.
//
// # Errors
//
// A failure inside of a tool, and arguments that its schema refuses, are results with isError, for the model to read.
// A [*jsonrpc.Error] that a handler returns goes to the peer as it is. Text of other errors of tools goes to the
// model: wrap what it must not see. For other handlers they are internal errors, whose text goes to the client.
package server
