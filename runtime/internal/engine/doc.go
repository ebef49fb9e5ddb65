// Package engine holds what all requests and notifications of a peer have in common while they are
// served, in all revisions and over all transports.
//
// An [Exchange] is one of them, from its arrival until the transport has accepted its response. The
// exchanges of a connection are in one [Set], and so are those of a server without sessions, which
// arrive over many connections. The Set admits them within its limits, cancels them, and drains
// them when its owner shuts down. A [Reply] sends the messages of one exchange to the peer.
//
// Package session makes exchanges from messages, runs their handlers, and decides what a Set must
// not know: the handshake, capabilities, revisions.
//
// # The life of an exchange
//
//  1. [Set.Enter] admits it, or returns the error that rejects it. From then on it counts towards
//     the limits, and [Activity.Done] waits for it.
//  2. Its handler runs. Meanwhile, [Exchange.Interrupt] may end it without a response, after
//     [Set.Cancel] or [Set.Withdraw] has found it. Whatever comes second has no effect: a
//     cancellation or the response.
//  3. [Exchange.Finish] flushes its progress and sends the response. No notification of the exchange
//     follows the response.
//  4. What it holds counts until the transport has accepted the response.
//     Otherwise a peer that sends requests and reads nothing could make the process grow.
package engine
