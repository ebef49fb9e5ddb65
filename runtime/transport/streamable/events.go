package streamable

import (
	"context"
	"errors"

	"github.com/mcpwire/mcpwire/mcp"
)

// ErrUnknown says that an [EventStore] has nothing of a session or a stream.
var ErrUnknown = errors.New("streamable: unknown session or stream")

// Event is a message that was sent on a stream, or the end of one.
type Event struct {
	Number uint64 // within its stream; the first has 1, each other one more than the one before
	Text   []byte // the message; nil if the stream ends without one. Neither side changes it.
	Last   bool   // nothing comes after it
}

// EventStore keeps what was sent on the streams of sessions, so that a client whose connection broke gets what it has
// missed. Its methods may be called by many goroutines; events of one stream are appended one after another.
//
// A store may forget events, the oldest first, to keep its size within bounds. Its errors, which are logged, do not name
// the session: the id is a secret. A store that panics fails.
type EventStore interface {
	// Append adds an event to the end of a stream. When it returns, Events returns the event. It fails with an error that
	// wraps [transport.ErrTooLong] if the event is longer than any that the store keeps.
	Append(ctx context.Context, session, stream string, e Event) error

	// Events returns events of a stream that come after the one with a number, in order: from the first on that
	// it still has, and at least one if there is any. It fails with [ErrUnknown] if it has none of the stream,
	// neither before nor after.
	Events(ctx context.Context, session, stream string, after uint64) ([]Event, error)

	// Forget drops a session with all of its streams; it is no error if there is none.
	Forget(ctx context.Context, session string) error
}

// SessionStore is an [EventStore] that keeps the sessions as well, so that both survive a restart of the server. The
// states of one session are kept one after another.
type SessionStore interface {
	EventStore

	// Keep notes how a session was opened, but for its state.
	Keep(ctx context.Context, session string, o Opening) error

	// KeepState notes what is to be known of a session to whom serves it, in the place of what was noted before.
	KeepState(ctx context.Context, session string, state []byte) error

	// Begin notes that a stream was opened for requests, whose ids it gets as JSON, before the first event of the stream
	// is appended. The standing stream has none. The store may forget it when the last event of the stream is appended.
	Begin(ctx context.Context, session, stream string, requests []byte) error

	// Touch records that sessions are in use. A store that drops unused sessions counts their age
	// from the last change or Touch. It ignores sessions that it does not have. The [Handler] calls
	// it every quarter of an IdleTimeout, or every five minutes if that is shorter, and when it
	// shuts down.
	Touch(ctx context.Context, sessions []string) error

	// Load returns how a session was opened, and its streams. It fails with [ErrUnknown] if there is none.
	Load(ctx context.Context, session string) (Opening, []KeptStream, error)
}

// Opening is what must be known of a session to go on with it.
type Opening struct {
	Principal string       // who opened it
	Revision  mcp.Revision // that was agreed on
	Client    []byte       // the params of initialize, as JSON
	State     []byte       // what KeepState was called with last; nil if it was not called
}

// KeptStream is a stream of a session that is kept.
type KeptStream struct {
	Stream   string
	Requests []byte // that Begin got; nil if it was not called or the stream has ended
	Last     Event  // the newest event, without its text; the zero Event if there is none
}
