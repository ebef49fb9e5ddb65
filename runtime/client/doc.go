// Package client connects a host to an MCP server. It provides typed calls for tools, resources,
// prompts and completion, iterators over the server's lists, and handlers for its input requests.
//
//	c, err := client.Command(ctx, stdio.Command{Path: "weather-server"}, nil)
//	…
//	defer c.Close()
//	result, err := c.CallTool(ctx, "forecast", map[string]any{"city": "Oslo"})
//
// # Tasks
//
// [Client.CallTool] waits for the result. It runs a tool as a task if the tool requires that.
// [Client.StartTool] starts a task and returns its handle. [Client.AttachTool] returns the handle
// of an existing task by its id, after a reconnect or in another process. [requestor.Handle.Result]
// describes how a handle behaves when the connection breaks or the server is silent. Tasks are an
// experimental part of revision 2025-11-25, and an extension of 2026-07-28. In the latter, the
// server decides which calls become tasks, tasks cannot be listed and have no progress, and a
// handler of an input request that fails ends the wait for the result with an [*InputError]. The
// task still waits for the input then, but CallTool cancels it.
//
// # Partial results
//
// CallTool fetches all parts of a result if the tool announces partial results in tools/list and
// the client has fetched that list; see package [partial]. To fetch one part at a time, or to use a
// tool that does not announce them, call [partial.Start] with [Client.Session].
//
// # Input requests of the server
//
// A server may send the input requests that [Options] has a handler for: to fill in a form, to open
// a URL, or to sample a message from a model. The client declares the matching capabilities. It
// rejects requests that it has not declared or that the protocol does not allow, fills in the
// defaults of forms, checks responses, and limits the rate. It ends loops of a model and its tools
// after 50 rounds.
//
// URLs must be https, or http on this machine, without user information. The server sees the roots
// that [Input].CheckRoot admits each time; by default, those that exist and can be opened. Package
// icon fetches icons from the server's own origin and from public addresses of trusted hosts.
//
// # Revisions without sessions
//
// The client speaks revisions with and without sessions, and its methods are the same for both. It
// speaks one without sessions if the server does, unless the Revisions of [Options].Session say
// otherwise. In a revision without sessions, such as 2026-07-28:
//   - [Client.Server] returns what the server has answered to server/discover.
//   - Input requests arrive in the results of CallTool, GetPrompt and ReadResource. The handlers in
//     [Options] respond to them, all requests of one result at once, and the client sends the request
//     again with the responses.
//   - [Client.Subscribe] and the lists whose changes [Options].Notifications receives share one
//     subscription. Tasks that are followed share another one.
//   - Results are cached for as long as the server says; see [Cache].Bytes.
//   - [Client.Ping] sends server/discover, and [Client.SetLogLevel] sends nothing.
//   - The roots have no notifications.
//
// A request whose response is lost with its connection is not sent again: it fails with a
// [*transport.DeliveryError], whose Taken tells whether the server may have received it.
//
// # Own methods
//
// [Call] sends a request that the protocol does not define, and [Client.Notify] a notification.
// [Features].Methods serves those of the server. Package server has the other side.
//
// # Duties of the host
//
// The client leaves some duties to the host. Show which server sent an input request, and let the
// user decline it. Show a URL in full, with its host, and warn if it is [URLRequest].International.
// Open or fetch nothing before the user has agreed, and open the URL where neither the host nor a
// model can see the page. Let the user continue by hand if a server never reports that the
// elicitation is complete. Ask for confirmation of sensitive tool calls. Trust the descriptions of
// tools, annotations included, no more than the server that sent them.
package client
