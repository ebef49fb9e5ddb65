// Package session implements one session with a peer, as client or server, over any transport: the
// base protocol of MCP from initialize to Close.
//
// # Terms
//
// The requestor sends a request, and the receiver serves it. Each side can be both. A handler
// serves requests. A revision is a dated version of the protocol.
//
// # What a session does
//
// [Connect] and [Serve] open a session: the client sends initialize, both sides agree on a
// revision, and the client sends initialized. Earlier requests are rejected. Requests that arrive
// while initialize is being answered wait for that answer. Serve restores a session that was opened
// before if its connection is a [transport.Persister]. An open session
//
//   - sends requests, matches each answer to its request by id, and gives up after a timeout,
//   - serves requests, each in its own goroutine, and notifications, one after another,
//   - rejects requests, in both directions, that need a missing capability or another revision,
//   - cancels in both directions, answers pings, and sends pings if configured,
//   - reports and receives progress ([Peer], [OnProgress]),
//   - ends at once with Close, or in order with Shutdown.
//
// # Faulty peers
//
// An answer that is invalid, too long, or part of a batch in a revision without batches fails the
// call that waits for it, at once, as far as its id can be read. A byte order mark before a message
// is ignored, params that are null count as absent, and an answer with id 1.0 is for request 1. See
// [jsonrpc.ParseReceived]. The same holds for the messages of a batch.
//
// # Blocking
//
// One goroutine reads. It does not wait for handlers, callbacks or callers, nor for the transport
// to accept its own answers, such as rejections. A handler that panics, hangs or is slow affects
// only its own request.
//
// # Limits
//
// A peer cannot make a session grow without bounds, whether it sends too fast or does not read. All
// bytes that the session holds count. Requests above [Limits].Requests and Bytes are
// rejected with [CodeOverloaded]. They are not left unread, because answers that handlers wait for
// may follow them. A request counts until the transport has accepted its answer. Notifications
// above [Limits].Notifications are dropped. Ids and method names have at most 1024 bytes, and
// the params of initialize [Limits].Initialize. The transport limits the length of a message.
// When its queue is full, writers wait. When thousands of rejections or 4 MiB of them are pending
// too, the session stops reading. A peer that reads slowly is served. If it reads nothing for a
// long time, the transport fails, and the session ends.
//
// # User code
//
// The session recovers panics in handlers, middleware, callbacks, transports, and the methods of
// errors and values. It logs the panic with its stack, and fails the request in which it happened.
//
// # Tasks
//
// A session implements the parts of tasks that belong to the base protocol: which requests may ask
// for a task, that these are never cancelled by notification, and that their progress continues
// after the result. Middleware of the packages below runtime/task does the rest. It calls what
// Internals of a Session and of a Request return, which only packages of this module can.
package session
