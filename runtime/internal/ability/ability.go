// Package ability has the optional methods of connections that only the transports of this module
// have. Sessions and servers find them with [transport.As], except for [Pusher], which would bypass the
// Read of a wrapper. A session works without each of them.
package ability

import (
	"context"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Pusher is a [transport.Conn] that can pass received messages to a function, so that no goroutine needs to
// wait in Read.
type Pusher interface {
	transport.Conn

	// Push makes the connection call take with each result of Read, one after another and in order,
	// including the end of the connection. It replaces Read, and is called at most once, before the
	// first Write. take returns soon and does not wait for Close, because Close waits for take.
	// take may be called once more after Close has returned.
	//
	// of is the connection that the caller uses. If that is a wrapper of this connection, Push
	// returns false and does nothing: the caller must use the wrapper's Read.
	Push(of transport.Conn, take func(transport.Message, error)) bool
}

// Restored is a [transport.Conn] that may belong to a session that was opened over an earlier connection.
type Restored interface {
	transport.Conn

	// Restored returns the negotiated revision, and the params of initialize, which are nil if the
	// client is unknown. ok is false if the session has not been opened.
	Restored() (revision mcp.Revision, client []byte, ok bool)
}

// Persister is a [transport.Conn] that persists a state for its owner. A later connection of the same session
// finds it, possibly in another process; see [Restored].
type Persister interface {
	transport.Conn

	// PersistedState returns the state that was persisted last over an earlier connection, or nil.
	// ok is false if the connection cannot persist a state. PersistedState is called at most once.
	// The caller owns the state.
	PersistedState() (state []byte, ok bool)

	// PersistState replaces the persisted state, for as long as the session exists, and returns
	// once it is persisted. It fails with an error that wraps [transport.ErrTooLong] if the state is too
	// long, [transport.ErrClosed] if the connection is closed, or [errors.ErrUnsupported] if it cannot
	// persist a state. Before the handshake is complete, it may return at once: the state is then
	// persisted before the peer learns that the handshake is complete.
	PersistState(ctx context.Context, state []byte) error
}

// Forgetter is a [transport.Conn] that holds a resource, such as a stream, for each written request until its
// answer arrives.
type Forgetter interface {
	transport.Conn

	// Forget is called when no caller waits for the answer to a request and no cancellation is sent
	// for it. The answer may still be read. Forget does not block.
	Forget(id jsonrpc.ID)
}

// Owned is a [transport.Conn] that calls the session that owns it, for example one of an HTTP server.
type Owned interface {
	transport.Conn

	// Own sets the owner of the connection. The owner calls it once, before Push and the first
	// Read.
	Own(Owner)
}

// Owner is the session that owns an [Owned] connection. Its methods are safe for concurrent use.
// Only Shutdown calls a method of the connection: Close.
type Owner interface {
	// Speaks reports whether the session speaks a revision.
	Speaks(mcp.Revision) bool

	// AwaitsPeer reports whether every request of the peer that is being served waits for an answer
	// of the peer, such as that of an elicitation. It returns true if none is being served.
	AwaitsPeer() bool

	// Shutdown ends the session in order: it rejects further requests, answers those that are being
	// served, and closes the connection. If ctx ends first, it answers the rest with an error and
	// returns the cause of ctx.
	Shutdown(ctx context.Context) error
}

// Suspender is a [transport.Conn] whose session can be restored over another connection; see [Restored].
type Suspender interface {
	transport.Conn

	// Suspend makes Close retain the session, so that another process can restore it, if the
	// transport can persist it. The peer may try again later. A server that shuts down calls
	// Suspend before Close.
	Suspend()
}

// Detachable is a [transport.Conn] whose peer may not be connected for a while, such as a client of
// Streamable HTTP without a standing stream. The session continues.
type Detachable interface {
	transport.Conn

	// Detached reports whether the peer cannot receive messages that belong to none of its
	// requests.
	Detached() bool
}
