// Package streamable is the transport over HTTP that revisions from 2025-03-26 on have (MCP transports, "Streamable
// HTTP"): [Handler] is the server's end, an [http.Handler] for one endpoint, and [Client] the client's.
//
// # Words
//
// A message of the client is the body of a POST. A stream is a sequence of server-sent events with messages of the
// server. It belongs to one request, or, as the standing stream, to none, and outlives the connections that it is
// read by. A session is a conversation that has an id.
//
// # Which way a message of the server takes
//
// One that answers a request, or comes up while a request is being served, goes on the stream of that request; any
// other one, and what comes up after the answer, on the standing stream, which the client opens by GET. The stream of
// a request that the client cancels ends at once, without an answer. A task's questions come on the stream of the
// request for its result. A message is never on two streams. A request that is answered soon, and for which nothing
// else is sent, is answered with JSON, without a stream.
//
// # Connections that break
//
// A broken connection ends nothing. What is sent on a stream is in the [EventStore] before a connection takes it; the
// client comes back with the id of the last event that it has, and gets what follows. The first event of a stream
// has an id alone, for clients of revision 2025-11-25; older ones know no such event, and can come back once they
// have got a message. A client that opens the standing stream anew gets what no connection has taken.
//
// # Restarts of the server
//
// With a [SessionStore] a session goes on in the next process when its client comes back: with its revision, what the
// client said of itself, its streams, and the state that its owner had kept ([transport.Resumed], [transport.Keeper]).
// Requests that were being served are answered with an error. Without one, the client opens a new session.
//
// While the handler shuts down, requests get status 503 with Retry-After, by which clients know that the session may be
// there again soon; answers and cancellations are taken. Shut down the Handler first and the http.Server behind it, so
// that no request finds the port closed while sessions end.
//
// # Limits
//
// Events that wait for slow connections are bounded per session, and connections that take nothing are cut; so are
// events that are kept, sessions, and streams ([HandlerOptions], [MemoryOptions]). When events are dropped that a
// client still wants, it gets those that are left. An answer that the store could not keep is lost with its connection:
// a client that comes back for it gets an error, or status 400 if the store could not keep that either.
//
// What comes in front of a message is for the [http.Server] to limit, by its ReadHeaderTimeout and MaxHeaderBytes. Its
// other timeouts do not end streams.
//
// # Wrappers of the http.ResponseWriter
//
// A stream needs the method Flush of the [http.ResponseWriter]. A handler in front that wraps the writer, as to log the
// status, gives its wrapper that method or Unwrap ([http.ResponseController]). Otherwise what is sent arrives when a
// connection ends: the Handler ends each one behind the first messages, logs a warning once, and the client comes back
// for the rest. A Stateless Handler, to which it cannot come back, sends all with the answer.
//
// # Who may use a server
//
// See [HandlerOptions]. Without options, pages of other sites may not, nor may those that make their own name lead
// to the server's address.
package streamable
