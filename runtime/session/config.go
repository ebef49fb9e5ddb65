package session

import (
	"log/slog"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Config says how a session behaves. The zero value is useful; a nil *Config is the zero value.
type Config struct {
	// Handler answers the requests of the peer and takes its notifications, but for those that the session sees
	// to itself: initialize and ping are answered, and cancellation and progress are brought where they belong.
	// Nil knows no method. See [ServerHandler], [ClientHandler] and [Methods].
	Handler Handler

	// Receiving wraps Handler and what answers initialize; the first is the outermost.
	Receiving []Middleware

	// Sending wraps what sends requests and notifications; the first is the outermost.
	Sending []SendMiddleware

	// Revisions are the revisions that the session speaks, the most wanted one first. Nil means all that have
	// sessions: 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05.
	Revisions []mcp.Revision

	// Timeout is how long a request to the peer may take if neither its context nor the option [Timeout] says
	// otherwise. The default is [DefaultTimeout]; a negative value means no limit.
	Timeout time.Duration

	// InputTimeout replaces Timeout for requests that a user or a model answers: elicitation/create
	// and sampling/createMessage. The default is [DefaultInputTimeout]; a negative value means no
	// limit.
	InputTimeout time.Duration

	// ProgressInterval is the least time between two progress notifications for one token. The default is
	// [DefaultProgressInterval]; a negative value means no limit.
	ProgressInterval time.Duration

	// MaxRequests is how many requests of the peer are served at once. It is also how many answers
	// may wait for the transport while the peer does not read. A further request is answered with
	// [CodeOverloaded] at once. The default is [DefaultMaxRequests].
	MaxRequests int

	// MaxBytes is how many bytes the messages of requests and their answers may have together, from
	// when a request comes until the transport has its answer. A further request is answered with
	// [CodeOverloaded], unless it is the only one. When as many bytes of answers wait for the
	// transport, further answers are dropped, and CodeOverloaded is sent in their place. The
	// default is [DefaultMaxBytes].
	MaxBytes int

	// MaxNotifications is how many notifications may wait for the Handler, which takes them one after another; their
	// messages may have as many bytes as MaxBytes says. Further ones are dropped, and logged as such. The default
	// is [DefaultMaxNotifications].
	MaxNotifications int

	// MaxInitialize is how many bytes the params of initialize may have. A server's session holds
	// them until it ends. Longer params are refused with [jsonrpc.CodeInvalidParams]. The default
	// is [DefaultMaxInitialize].
	MaxInitialize int

	// KeepAlive is how often the peer is pinged. A ping that is not answered within KeepAlive ends the session
	// with [ErrUnresponsive]. Zero means never.
	KeepAlive time.Duration

	// Grace is how long handlers of requests and notifications may run after the peer has closed
	// its sending side, as when the standard input of a server ends. The default is [DefaultGrace];
	// a negative value means no grace period. Clients terminate a server that has not exited two
	// seconds after they closed its standard input: keep Grace shorter, so that the server can
	// close its stores.
	Grace time.Duration

	// Principal is on whose authority the peer acts, if the transport does not say so for each message. The
	// empty string is a principal like any other.
	Principal string

	// Logger receives events that are not reported to the peer: refused and unexpected messages,
	// panics with their stack, reasons of cancellations. At most ten refused messages are logged
	// per second, with the number of those skipped before. If it is nil, warnings and errors go to
	// [slog.Default], and other events are discarded.
	Logger *slog.Logger
}

// What holds where a [Config] does not say otherwise.
const (
	DefaultTimeout          = time.Minute
	DefaultInputTimeout     = time.Hour
	DefaultProgressInterval = 100 * time.Millisecond
	DefaultMaxRequests      = 16384
	DefaultMaxBytes         = 64 << 20
	DefaultMaxNotifications = 1024
	DefaultMaxInitialize    = 64 << 10
	DefaultGrace            = time.Second
)

// revisions are those that open with initialize, newest first.
func revisions() []mcp.Revision {
	return []mcp.Revision{mcp.Revision20251125, mcp.Revision20250618, mcp.Revision20250326, mcp.Revision20241105}
}

// withDefaults returns a copy of c in which every limit is set: 0 stands for none.
func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	if len(out.Revisions) == 0 {
		out.Revisions = revisions()
	} else {
		out.Revisions = slices.Clone(out.Revisions)
	}
	out.Timeout = orDefault(out.Timeout, DefaultTimeout)
	out.InputTimeout = orDefault(out.InputTimeout, DefaultInputTimeout)
	out.ProgressInterval = orDefault(out.ProgressInterval, DefaultProgressInterval)
	out.Grace = orDefault(out.Grace, DefaultGrace)
	if out.MaxRequests <= 0 {
		out.MaxRequests = DefaultMaxRequests
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = DefaultMaxBytes
	}
	if out.MaxNotifications <= 0 {
		out.MaxNotifications = DefaultMaxNotifications
	}
	if out.MaxInitialize <= 0 {
		out.MaxInitialize = DefaultMaxInitialize
	}
	out.Logger = boundary.Logger(out.Logger)
	return out
}

// timeout returns how long a request may take, 0 for no limit.
func (c *Config) timeout(method string) time.Duration {
	if method == mcp.MethodElicitationCreate || method == mcp.MethodSamplingCreateMessage {
		return c.InputTimeout
	}
	return c.Timeout
}

// orDefault is d, or def if d is 0, or 0 if d is negative.
func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}
