package mailbox

import "github.com/mcpwire/mcpwire/runtime/transport"

// Conn is a [transport.Conn] whose messages have limits together with those of other connections,
// for example of the same principal.
type Conn interface {
	transport.Conn

	// Meters returns the Meter of the peer's requests that are being served, which is nil if the
	// transport counts them itself, and that of the notifications of the peer and of the session's
	// short answers that are pending in the session.
	Meters() (requests, pending Meter)
}

// Meter counts bytes of one connection. Its methods return at once, and are safe for concurrent use.
type Meter interface {
	// Take counts n bytes. It returns false without counting them if there is no room.
	Take(n int) bool

	// Add counts n bytes, which may be negative, even if there is no room.
	Add(n int)

	// Limit returns how many bytes may be pending: max, or less if there is no room.
	Limit(max int) int
}

// Overhead is the memory of a message that a session holds in addition to its text, in bytes.
const Overhead = 4 << 10
