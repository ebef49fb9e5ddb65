// Package streamable implements Streamable HTTP, the transport of revisions from 2025-03-26 on (MCP
// transports, "Streamable HTTP"). [Handler] is the server end, an [http.Handler] for one endpoint.
// [Client] is the client end.
//
// Clients of revisions from 2026-07-28 on have no sessions: see "Modern requests". The other
// sections are about sessions, unless they say otherwise.
//
// # Terms
//
// A message of the client is the body of a POST. A stream is a sequence of server-sent events with
// messages of the server. It belongs to one request or, as the standing stream, to none. It
// outlives the connections over which it is read. A session has an id, and outlives streams.
//
// # Routing of the server's messages
//
// The answer to a request, and messages sent while it is served, go to the stream of that request.
// Other messages, and those sent after the answer, go to the standing stream, which the client
// opens by GET. The stream of a request that the client cancels ends at once, without an answer.
// Input requests of a task are sent on the stream of the request for its result. A message is never
// sent on two streams. A request that is answered soon, without other messages, is answered with
// JSON instead of a stream.
//
// # Broken connections
//
// A broken connection ends neither stream nor session. An event is written to the [EventStore]
// before it is written to a connection. The client reconnects with the id of the last event that it
// has received, and receives the following ones. The first event of a stream has only an id, for
// clients of revision 2025-11-25. Older clients do not know such events, and can resume only after
// they have received a message. A client that opens the standing stream again receives the events
// that no connection has taken.
//
// # Restarts of the server
//
// With a [SessionStore], a later process restores a session when its client returns: its revision,
// its client info, its streams, and the state that its owner has persisted
// ([transport.Persister]). Requests that were being served are answered with an error. Without a
// SessionStore, the client opens a new session.
//
// While the handler shuts down, requests are answered with status 503 and Retry-After, so that
// clients retry and keep the session. Answers and cancellations are still accepted. Shut down the
// Handler before the http.Server, so that requests do not find the port closed while sessions end.
//
// # Several processes
//
// With a [Locator], a load balancer may send the requests of a session to any of several processes,
// which share a SessionStore. One process holds the session. The others admit a request, and then
// forward it to the holder over HTTP, with its credentials: the holder admits it again. So streams
// and requests of the server reach the client whatever process its connections lead to. If the
// holder dies, or shuts down, the next process that receives a request claims the session and
// restores it, as after a restart. Until the Locator counts a dead process as dead, requests wait,
// for 30 seconds at most, and are then answered with status 503 and Retry-After. If the holder
// hangs, the requests that wait for it end up to five seconds after the Locator counts it as dead.
// A POST that the holder may have received is never sent again: its connection is closed without a
// response, so the client knows that the outcome is unknown.
//
// The processes have the same Auth and Access. A request is forwarded once. The
// holder sees the address of the other process as that of the client; the header field
// X-Forwarded-For is passed on. Client certificates are not passed on, so tokens that are bound to
// one do not work. The limits of Limits.Sessions count per process.
//
// Modern requests need none of that: any process serves them. Only the keys that protect the state
// of calls must be the same, in the configuration of the server. A Stateless Handler ignores the
// Locator.
//
// # Modern requests
//
// A modern request is one of a revision without sessions. A Handler with a Responder serves modern
// requests and sessions at one endpoint, at the same time. A request is modern if its header or its
// _meta names such a revision; header fields of sessions, such as MCP-Session-Id, have no effect on
// it. The method does not matter, except that an initialize without such a _meta opens a session.
//
// The Handler rejects a modern message with status 400 if its _meta is incomplete (-32602); then if
// MCP-Protocol-Version, Mcp-Method or Mcp-Name differ from the message (-32020); then if the revision
// is not served (-32022). Handlers of tools check the Mcp-Param fields, which they find with
// [transport.HTTP]. Names are decoded from Base64 where the client has encoded them. A field that
// occurs twice is rejected: another program on the way may have read the other one.
//
// Errors of a served request have status 404 for a method that does not exist (-32601), 400 for
// -32020, -32021 and -32022, and 503 with Retry-After if the server is overloaded or shutting down
// (-31050, -31051). All other errors are outcomes of a request that was served, with status 200. An
// accepted notification has status 202. Batches and responses are rejected.
//
// The answer is JSON. With the first notification of the handler, or after Streams.After, the
// response becomes an event stream instead, which ends with the answer. Its events have no ids. If
// the client disconnects, or accepts no data for Timeouts.Stall, the context of the handler ends,
// and nothing more is sent. A handler that sends a notification waits until it is written, so
// nothing is queued for slow clients.
//
// # Limits
//
// Limits mean the same in sessions and without. Requests have limits for each principal: how many
// are not answered, the bytes of those that are being received or served, and the bytes of long
// answers that are not yet read ([HandlerOptions], Limits.RequestsPerPrincipal and Limits.Message).
// Clients without a principal have these limits for each network ([Access.ClientAddress]), so that
// one stranger cannot take all places. The numbers of requests and of sessions are limited for all
// clients together, too (Limits.Requests and Limits.Sessions).
//
// Events pending for slow connections are limited per session and per principal, and connections
// that accept no data are closed. Stored events, sessions and streams are limited, too
// ([HandlerOptions], [MemoryOptions]). If the store has dropped events that a client needs, the
// client receives the remaining ones. An answer that the store could not write is lost with its
// connection: a client that resumes the stream receives an error, or status 400 if the store could
// not write the error either.
//
// A request whose header has more than 64 KiB is answered with status 431. The [http.Server] limits
// the header, too, by its ReadHeaderTimeout and MaxHeaderBytes. Its other timeouts do not end
// streams. With TLS, set its HTTP2.WriteByteTimeout: without it, a client over HTTP/2 that reads
// nothing holds its connection and its requests for ever, with all that they count for the limits.
//
// # Wrappers of the http.ResponseWriter
//
// A stream needs the method Flush of the [http.ResponseWriter]. If another handler wraps the
// writer, for instance to log the status, the wrapper must have that method or Unwrap
// ([http.ResponseController]). Otherwise data arrives only when a connection ends: the Handler then
// ends each connection after the first messages, logs a warning once, and the client reconnects for
// the rest. Without a session, to which clients could reconnect, all messages are sent with the
// answer.
//
// A wrapper without Unwrap also hides the deadlines of the connection. Then Timeouts.Stall and
// Timeouts.Read of the Handler have no effect, and the WriteTimeout of the http.Server ends
// streams.
//
// # Access
//
// See [HandlerOptions]. Without options, the Handler rejects web pages of other sites, and pages
// whose host name resolves to the server's address (DNS rebinding).
//
// [transport.HTTP]: https://pkg.go.dev/github.com/mcpwire/mcpwire/runtime/transport#HTTP
package streamable
