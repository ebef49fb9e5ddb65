package streamable

import (
	"context"
	"errors"
)

// Locator says which of several processes holds a session, so that a load balancer may send its
// requests to any of them. The processes share a [SessionStore]. Its methods may be called
// concurrently, and should return when their context ends, as those of an [EventStore]; its errors
// must not contain the session, because its id is secret.
//
// A process holds a session from Open or Claim until Release, or until the Locator cannot say so any
// longer, for instance because the process was cut off. Then the Locator calls lost, in its own
// goroutine, once: another process may hold the session. From that time on, the SessionStore must
// reject writes of this process to the session with [ErrNotHeld]. The Locator decides when the others
// count a process as dead; the SessionStore, not a clock, decides which process may write.
type Locator interface {
	// Open makes this process the holder of a new session.
	Open(ctx context.Context, session string, lost func()) error

	// Claim makes this process the holder of a session that no living process holds. If another one
	// holds it, Claim returns that process instead; otherwise the zero Holder. It fails with
	// [ErrUnknown] if there is no such session, and writes nothing then: clients may send any id.
	Claim(ctx context.Context, session string, lost func()) (Holder, error)

	// Alive reports whether a process that Claim has returned still counts as alive. The Handler
	// calls it every few seconds while it forwards requests to that process. When Alive returns
	// false, the Handler ends these requests, because a process that hangs does not. An error means
	// that it is unknown.
	Alive(ctx context.Context, holder Holder) (bool, error)

	// Release ends the claim of this process, if it has one, so that others need not wait until
	// they count it as dead. lost is not called after Release.
	Release(ctx context.Context, session string) error
}

// Holder is another process that holds a session.
type Holder struct {
	URL     string // of its endpoint
	Process string // identifies the process; a later process with the same URL has another one
}

// ErrNotHeld is the error of a [SessionStore] for a write to a session that another process holds,
// or no process. See [Locator].
var ErrNotHeld = errors.New("streamable: session is not held by this process")
