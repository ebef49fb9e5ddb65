package streamable

import (
	"context"
	"errors"

	"github.com/mcpwire/mcpwire/mcp"
)

// ErrUnknown is returned for a session or stream that is not in the [EventStore].
var ErrUnknown = errors.New("streamable: unknown session or stream")

// Event is a message that was sent on a stream, or the end of a stream.
type Event struct {
	Number uint64 // position in its stream, from 1
	Text   []byte // the message; nil if the stream ends without one; must not be changed
	Last   bool   // the last event of the stream
}

// EventStore stores the events of streams, so that a client whose connection broke receives those
// that it has missed. Its methods may be called concurrently; events of one stream are appended
// sequentially.
//
// A store may drop events, the oldest first, to limit its size. Its errors are logged and must not
// contain the session, because its id is secret. A panic of a store counts as an error. A method
// should return when its context ends, which is when the client has gone or the [Handler] is closed.
type EventStore interface {
	// Append adds an event to the end of a stream. When it returns, Events returns the event. It
	// fails with an error that wraps [transport.ErrTooLong] if the event is longer than the store's
	// limit.
	Append(ctx context.Context, session, stream string, e Event) error

	// Events returns events of a stream after the event with the number after, in order. It starts
	// with the first one that the store still has, and returns at least one if there is any. It
	// fails with [ErrUnknown] if the store has no event of the stream, with any number.
	Events(ctx context.Context, session, stream string, after uint64) ([]Event, error)

	// Forget deletes a session with all of its streams. It returns nil if there is none.
	Forget(ctx context.Context, session string) error
}

// SessionStore is an [EventStore] that also stores sessions, so that they survive a restart of the
// server. PersistState is called sequentially for each session.
type SessionStore interface {
	EventStore

	// PersistOpening stores how a session was opened. It is called once, before PersistState.
	PersistOpening(ctx context.Context, session string, o Opening) error

	// PersistState stores the state of a session's owner, and replaces the previous one.
	PersistState(ctx context.Context, session string, state []byte) error

	// Begin stores that a stream was opened for requests, with their ids as JSON. It is called
	// before the first event of the stream is appended, and not for the standing stream. The store
	// may delete the ids when the last event of the stream is appended.
	Begin(ctx context.Context, session, stream string, requests []byte) error

	// Touch records that sessions are in use. A store that drops unused sessions counts their age
	// from the last change or Touch. It ignores sessions that it does not have. The [Handler] calls
	// it every quarter of Timeouts.Idle, or every five minutes if that is shorter, and when it
	// shuts down.
	Touch(ctx context.Context, sessions []string) error

	// Load returns how a session was opened, and its streams. It fails with [ErrUnknown] if there
	// is no such session.
	Load(ctx context.Context, session string) (Opening, []PersistedStream, error)
}

// Opening is the stored data of a session.
type Opening struct {
	Principal string       // principal that opened it
	Revision  mcp.Revision // the negotiated revision
	Client    []byte       // the params of initialize, as JSON
	State     []byte       // argument of the last PersistState, otherwise that of the opening; may be nil
}

// PersistedStream is a stored stream of a session.
type PersistedStream struct {
	Stream   string
	Requests []byte // argument of Begin; nil without one or if the stream has ended
	Last     Event  // the newest event, without its text; the zero Event if there is none
}
