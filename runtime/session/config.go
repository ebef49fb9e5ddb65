package session

import (
	"log/slog"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
)

// Config configures a session. The zero value is useful. A nil *Config is the zero value.
type Config struct {
	// Handler serves the requests and notifications of the peer. The session itself answers
	// initialize and ping, and handles notifications/cancelled and notifications/progress. If
	// Handler is nil, every request is answered with [jsonrpc.CodeMethodNotFound]. See
	// [ServerHandler], [ClientHandler] and [Methods].
	Handler Handler

	// Receiving wraps Handler and the handling of initialize. The first middleware is the
	// outermost.
	Receiving []Middleware

	// State is a value for the Handler and the middleware, which [Request.State] returns.
	State any

	// Sending wraps the sending of requests and notifications. The first middleware is the
	// outermost.
	Sending []SendMiddleware

	// Rejected, if set, is called for each request of the peer that is rejected before Receiving: a
	// limit is reached, the session is not initialized or ends, the revision is not served or does
	// not have the method, or the message is invalid. Method is "" if it is unknown, and at most
	// 1024 bytes of it are passed. Rejected may delay further messages of the peer, so it must return
	// soon. Its panics are logged.
	Rejected func(method string, err *jsonrpc.Error)

	// Responder serves the modern requests that arrive over the connection of a server, modern
	// notifications, and all notifications before initialize. If it is nil, they are messages like
	// all others.
	Responder *Responder

	// ExtensionMethods reports whether an extension defines a method, such as tasks/get. A Responder
	// passes requests for it to the Handler, and a client sends them in revisions without sessions,
	// although the protocol has a method of that name in other revisions only. Nil means none.
	ExtensionMethods func(method string) bool

	// Revisions are the protocol revisions that the session accepts, the preferred one first. Nil
	// means those of [Revisions]. A client may add [ModernRevisions]; see [Connect]. A server that
	// names only these rejects initialize; see [Responder].
	Revisions []mcp.Revision

	// Known is what a client has learned about the server over an earlier connection, from
	// [Session.State]. With a revision without sessions, [Connect] sends nothing; with another one,
	// it sends initialize at once. If the server rejects initialize, Connect sends server/discover.
	// Nil means that nothing is known.
	Known *State

	// IDPrefix makes the ids of requests to the peer strings that begin with it. Sessions that share
	// a connection need different prefixes. The default is ids that are numbers.
	IDPrefix string

	// Timeout limits how long a request to the peer may take. The option [Timeout] overrides it.
	// The default is a minute; a negative value means no limit.
	//
	// A server often answers only after the user or the model has answered an input request of it.
	// The Timeout of a client therefore starts again when an input request has ended, until the
	// request has taken InputTimeout in total.
	Timeout time.Duration

	// InputTimeout replaces Timeout for requests that a user or a model answers: elicitation/create
	// and sampling/createMessage. The default is [DefaultInputTimeout]; a negative value means no
	// limit.
	InputTimeout time.Duration

	// ProgressInterval is the minimum time between two progress notifications for one token. The
	// default is 100 milliseconds; a negative value means no limit.
	ProgressInterval time.Duration

	// MaxRequests is how many requests of the peer are served at once. It is also how many answers
	// may be queued while the peer does not read. A further request is answered with
	// [CodeOverloaded] at once. The default is 16,384.
	MaxRequests int

	// MaxBytes limits the total size of requests and their answers, from the arrival of a request
	// until the transport has accepted its answer. A further request is answered with
	// [CodeOverloaded], unless it is the only one. While queued answers have MaxBytes bytes,
	// further answers are dropped and replaced by CodeOverloaded. The default is 64 MiB.
	MaxBytes int

	// MaxNotifications is how many notifications may be pending for the Handler, which receives one
	// at a time. Their total size is limited by MaxBytes. Further notifications are dropped, and
	// logged. The default is 1,024.
	MaxNotifications int

	// MaxInitialize is the maximum size of the params of initialize in bytes. A server session
	// holds them until it ends. Longer params are rejected with [jsonrpc.CodeInvalidParams]. The
	// default is [DefaultMaxInitialize].
	MaxInitialize int

	// KeepAlive is the interval between pings to the peer. Each must be answered within KeepAlive.
	// Zero means no pings. A client over Streamable HTTP is only pinged while it has a standing
	// stream, which is optional: Timeouts.Idle of the handler limits sessions without one. A
	// client that sends modern requests to the Responder is only pinged if it opens a session. No
	// ping makes a user log in.
	KeepAlive time.Duration

	// MaxMissedPings is how many pings of KeepAlive in a row may stay unanswered. Then the session
	// of a client over HTTP is lost, and replaced by a new one; see [Connect]. Other sessions end
	// with [ErrUnresponsive]. The default is 2 (MCP ping, "Behavior Requirements").
	MaxMissedPings int

	// Grace is how long handlers of requests and notifications may run after the peer has closed
	// its sending side, for instance a server's standard input. The default is [DefaultGrace]; a
	// negative value means no grace period. Clients terminate a server that has not exited two
	// seconds after they closed its standard input: keep Grace shorter, so that the server can
	// close its stores.
	Grace time.Duration

	// Reopened, if set, is called with the result of initialize after a lost session was replaced
	// by a new one; see [Connect]. It runs in a goroutine that Close waits for. It must restore the
	// state that the server held for the session, such as subscriptions and the log level. Its
	// calls do not overlap: if several sessions are replaced during one call, the next call is for
	// the latest.
	Reopened func(*mcp.InitializeResult)

	// Principal identifies the user or client on whose behalf the peer acts, unless the transport
	// sets a principal per message. The empty string is a valid principal.
	Principal string

	// Logger receives events that are not reported to the peer: rejected and unexpected messages,
	// panics with their stack, reasons of cancellations. At most ten rejected messages are logged
	// per second, with the number of those skipped before. If it is nil, warnings and errors go to
	// [slog.Default], and other events are discarded.
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	defaultTimeout          = time.Minute
	DefaultInputTimeout     = time.Hour
	defaultProgressInterval = 100 * time.Millisecond
	defaultMaxRequests      = 16384
	defaultMaxBytes         = 64 << 20
	defaultMaxNotifications = 1024
	DefaultMaxInitialize    = 64 << 10
	defaultMaxMissedPings   = 2
	DefaultGrace            = time.Second
)

// Revisions returns the protocol revisions that begin with initialize, newest first.
func Revisions() []mcp.Revision {
	all := slices.DeleteFunc(mcp.Revisions(), func(rev mcp.Revision) bool { return rev.Traits().Sessionless })
	slices.Reverse(all)
	return all
}

// withDefaults returns a copy of c with defaults for unset limits. In the copy, 0 means no limit.
func (c *Config) withDefaults() Config {
	var out Config
	if c != nil {
		out = *c
	}
	if len(out.Revisions) == 0 {
		out.Revisions = Revisions()
	} else {
		out.Revisions = slices.Clone(out.Revisions)
	}
	out.Timeout = orDefault(out.Timeout, defaultTimeout)
	out.InputTimeout = orDefault(out.InputTimeout, DefaultInputTimeout)
	out.ProgressInterval = orDefault(out.ProgressInterval, defaultProgressInterval)
	out.Grace = orDefault(out.Grace, DefaultGrace)
	if out.MaxRequests <= 0 {
		out.MaxRequests = defaultMaxRequests
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = defaultMaxBytes
	}
	if out.MaxNotifications <= 0 {
		out.MaxNotifications = defaultMaxNotifications
	}
	if out.MaxMissedPings <= 0 {
		out.MaxMissedPings = defaultMaxMissedPings
	}
	if out.MaxInitialize <= 0 {
		out.MaxInitialize = DefaultMaxInitialize
	}
	out.Logger = boundary.Logger(out.Logger)
	return out
}

// rejected calls Rejected.
func (c *Config) rejected(method string, err *jsonrpc.Error) {
	if c.Rejected == nil || err == nil {
		return
	}
	boundary.Report(c.Logger, "Rejected panicked", boundary.Run(func() error {
		c.Rejected(boundary.Text(method, maxMethod), err)
		return nil
	}))
}

// timeout returns how long a request may take, 0 for no limit.
func (c *Config) timeout(method string) time.Duration {
	if engine.IsInput(method) {
		return c.InputTimeout
	}
	return c.Timeout
}

// orDefault returns d, or def if d is 0, or 0 if d is negative.
func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}
