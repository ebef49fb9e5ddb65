// Package ability has the optional methods of connections that only the transports of this module
// have. Sessions and servers find them with [transport.As], except for [Pusher], which would bypass
// the Read of a wrapper. A session works without each of them.
package ability

import (
	"context"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Pusher is a [transport.Conn] that can pass received messages to a function, so that no goroutine
// needs to wait in Read.
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

// Forgetter is a [transport.Conn] that holds a resource, such as a stream, for each written request
// until its answer arrives.
type Forgetter interface {
	transport.Conn

	// Forget is called when no caller waits for the answer to a request and no cancellation is sent
	// for it. The answer may still be read. Forget does not block.
	Forget(id jsonrpc.ID)
}

// Owned is a [transport.Conn] that calls the session that owns it, for example one of an HTTP
// server.
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

// Detachable is a [transport.Conn] whose peer may not be connected for a while, such as a client of
// Streamable HTTP without a standing stream. The session continues.
type Detachable interface {
	transport.Conn

	// Detached reports whether the peer cannot receive messages that belong to none of its
	// requests.
	Detached() bool
}
