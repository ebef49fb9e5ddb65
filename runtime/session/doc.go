// Package session is a conversation with one peer, in either role, over any transport: the base protocol of MCP,
// from initialize to the end.
//
// # Words
//
// The requestor sends a request, the receiver serves it; both sides are either at times. A handler is what serves
// a request. A revision is a dated version of the protocol.
//
// # What a session does
//
// [Connect] and [Serve] open one: the client introduces itself with initialize, both settle on a revision, and the
// client confirms. Requests before that are refused; those that come while initialize is being answered wait for it.
// [Resume] goes on with one that was opened before. From then on a session
//
//   - sends requests, finds the answer to each by its id, in its exact text, and gives up after a timeout,
//   - serves requests, each in a goroutine of its own, and notifications, one after another,
//   - sends and serves nothing for which a capability or the revision is lacking,
//   - cancels in both directions, answers pings, and sends them if asked to,
//   - carries progress in both directions ([Reporter], [Tracker]),
//   - ends: at once with Close, in order with Shutdown.
//
// # What it does not wait for
//
// One goroutine reads. It waits for no handler, callback or caller, nor for the transport to take the answers that it
// gives itself, such as refusals. A handler that panics, hangs or is slow harms its own request alone.
//
// # Limits
//
// A peer cannot make a session grow without bounds, whether it sends faster than it is served or
// does not read. All bytes that the session holds count. Requests above [Config.MaxRequests] and
// [Config.MaxBytes] are refused with [CodeOverloaded]. They are not left unread, as the answers
// that handlers wait for may be behind them. A request counts until the transport has its answer.
// Notifications above [Config.MaxNotifications] are dropped. Ids and the names of methods have at
// most 1024 bytes, and the params of initialize [Config.MaxInitialize]. The transport limits the
// length of a message. When its queue is full, writers wait. When thousands of refusals or 4 MiB of
// them are pending too, reading stops. A peer that reads slowly is served. If it reads nothing for
// long, the transport gives up, and the session ends.
//
// # User code
//
// Handlers, middleware, callbacks, transports, and the methods of errors and values are not trusted: a panic in one is
// logged with its stack, and fails the request that it was called for.
//
// # Tasks
//
// A session knows of tasks what the base protocol does: which requests may ask for one, that those are never
// cancelled by notification, and that their progress goes on. The rest is done by middleware, see [Request.Keep],
// [Request.Task], [Session.NewReporter], [Session.NewTracker], [WithPeer] and [AddMeta].
package session
