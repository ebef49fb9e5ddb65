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

// Options configures a session. The zero value is useful. A nil *Options is the zero value. A
// number that is zero means the default, and a negative one is an error that names the field, see
// [Connect] and [Serve]; [NoLimit] means no limit, and [Off] that something is switched off, where
// the field says so.
type Options struct {
	// Handler serves the requests and notifications of the peer. The session itself answers
	// initialize and ping, and handles notifications/cancelled and notifications/progress. If
	// Handler is nil, every request is answered with [jsonrpc.CodeMethodNotFound]. The
	// functions mcp.DispatchServer and mcp.DispatchClient pass requests to typed handlers.
	Handler Handler

	// Principal identifies the user or client on whose behalf the peer acts, unless the transport
	// sets a principal per message. The empty string is a valid principal.
	Principal string

	// Revisions are the protocol revisions that the session accepts, the preferred one first. Nil
	// means those of [Revisions]. A client may add [ModernRevisions]; see [Connect]. A server that
	// names only these rejects initialize.
	Revisions []mcp.Revision

	// Hooks are middleware, and functions that the session calls when something happens.
	Hooks Hooks
	// Limits limit the work and the memory that the peer can cause.
	Limits Limits
	// Timeouts limit how long something may take.
	Timeouts Timeouts

	// Logger receives events that are not reported to the peer: rejected and unexpected messages,
	// panics with their stack, reasons of cancellations. At most ten rejected messages are logged
	// per second, with the number of those skipped before. If it is nil, warnings and errors go to
	// [slog.Default], and other events are discarded.
	Logger *slog.Logger

	inner     inner
	responder *responder // that of inner
}

// NoLimit is the value of a field that sets no limit, and Off that of one that switches off what
// the field is about.
const (
	NoLimit = boundary.None
	Off     = boundary.None
)

// Hooks is the part of an [Options] with functions that see messages and events.
type Hooks struct {
	// Receiving wraps the Handler and the handling of initialize, and Sending the sending of
	// requests and notifications. The first middleware is the outermost.
	Receiving []Middleware
	Sending   []SendMiddleware

	// Rejected, if set, is called for each request of the peer that is rejected before Receiving: a
	// limit is reached, the session is not initialized or ends, the revision is not served or does
	// not have the method, or the message is invalid. Method is "" if it is unknown, and at most
	// 1024 bytes of it are passed. Rejected may delay further messages of the peer, so it must return
	// soon. Its panics are logged.
	Rejected func(method string, err *jsonrpc.Error)

	// Reopened, if set, is called with the result of initialize after a lost session was replaced
	// by a new one; see [Connect]. It runs in a goroutine that Close waits for. It must restore the
	// state that the server held for the session, such as subscriptions and the log level. Its
	// calls do not overlap: if several sessions are replaced during one call, the next call is for
	// the latest.
	Reopened func(*mcp.InitializeResult)
}

// Limits is the part of an [Options] that limits the work and the memory that the peer can cause.
type Limits struct {
	// Requests is how many requests of the peer are served at once. It is also how many answers
	// may be queued while the peer does not read. A further request is answered with
	// [CodeOverloaded] at once. The default is 16,384.
	Requests int

	// Bytes limits the total size of requests and their answers, from the arrival of a request
	// until the transport has accepted its answer. A further request is answered with
	// [CodeOverloaded], unless it is the only one. While queued answers have Bytes bytes,
	// further answers are dropped and replaced by CodeOverloaded. The default is 64 MiB.
	Bytes int

	// Notifications is how many notifications may be pending for the Handler, which receives one
	// at a time. Their total size is limited by Bytes. Further notifications are dropped, and
	// logged. The default is 1,024.
	Notifications int

	// Initialize is the maximum size of the params of initialize in bytes. A server session
	// holds them until it ends. Longer params are rejected with [jsonrpc.CodeInvalidParams]. The
	// default is 64 KiB.
	Initialize int

	// ProgressInterval is the minimum time between two progress notifications for one token. The
	// default is 100 milliseconds; [Off] means no minimum.
	ProgressInterval time.Duration

	// MissedPings is how many pings of Timeouts.KeepAlive in a row may stay unanswered. Then the
	// session of a client over HTTP is lost, and replaced by a new one; see [Connect]. Other
	// sessions end with [ErrUnresponsive]. The default is 2 (MCP ping, "Behavior Requirements").
	MissedPings int
}

// Timeouts is the part of an [Options] that limits how long something may take.
type Timeouts struct {
	// Request limits how long a request to the peer may take. The option [Timeout] overrides it.
	// The default is a minute. It may be [NoLimit].
	//
	// A server often answers only after the user or the model has answered an input request of it.
	// The timeout of a client therefore starts again when an input request has ended, until the
	// request has taken Input in total.
	Request time.Duration

	// Input replaces Request for requests that a user or a model answers: elicitation/create
	// and sampling/createMessage. The default is an hour. It may be [NoLimit].
	Input time.Duration

	// KeepAlive is the interval between pings to the peer. Each must be answered within KeepAlive.
	// Zero means no pings. A client over Streamable HTTP is only pinged while it has a standing
	// stream, which is optional: Timeouts.Idle of the handler limits sessions without one. A
	// client that sends modern requests to the Responder is only pinged if it opens a session. No
	// ping makes a user log in.
	KeepAlive time.Duration

	// Grace is how long handlers of requests and notifications may run after the peer has closed
	// its sending side, for instance a server's standard input. The default is a second; [Off]
	// means no grace period. Clients terminate a server that has not exited two seconds after they
	// closed its standard input: keep Grace shorter, so that the server can close its stores.
	Grace time.Duration
}

// Defaults of [Options].
const (
	defaultTimeout          = time.Minute
	defaultProgressInterval = 100 * time.Millisecond
	defaultMaxRequests      = 16384
	defaultMaxBytes         = 64 << 20
	defaultMaxNotifications = 1024
	defaultMaxMissedPings   = 2
)

// Revisions returns the protocol revisions that begin with initialize, newest first.
func Revisions() []mcp.Revision {
	all := slices.DeleteFunc(mcp.Revisions(), func(rev mcp.Revision) bool { return rev.Traits().Sessionless })
	slices.Reverse(all)
	return all
}

// complete returns a copy of c with defaults for unset and invalid fields, and an error that names
// every number that is invalid. In the copy, 0 means no limit.
func (c *Options) complete() (out Options, invalid error) {
	if c != nil {
		out = *c
	}
	if len(out.Revisions) == 0 {
		out.Revisions = Revisions()
	} else {
		out.Revisions = slices.Clone(out.Revisions)
	}
	faults := boundary.Faults{Package: "session"}
	boundary.Default(&faults, "Limits.Requests", &out.Limits.Requests, defaultMaxRequests)
	boundary.Default(&faults, "Limits.Bytes", &out.Limits.Bytes, defaultMaxBytes)
	boundary.Default(&faults, "Limits.Notifications", &out.Limits.Notifications, defaultMaxNotifications)
	boundary.Default(&faults, "Limits.Initialize", &out.Limits.Initialize, engine.DefaultMaxInitialize)
	boundary.OrNone(&faults, "Limits.ProgressInterval", &out.Limits.ProgressInterval, defaultProgressInterval)
	boundary.Default(&faults, "Limits.MissedPings", &out.Limits.MissedPings, defaultMaxMissedPings)
	boundary.OrNone(&faults, "Timeouts.Request", &out.Timeouts.Request, defaultTimeout)
	boundary.OrNone(&faults, "Timeouts.Input", &out.Timeouts.Input, engine.DefaultInputTimeout)
	boundary.Default(&faults, "Timeouts.KeepAlive", &out.Timeouts.KeepAlive, 0)
	boundary.OrNone(&faults, "Timeouts.Grace", &out.Timeouts.Grace, engine.DefaultGrace)
	out.Logger = boundary.Logger(out.Logger)
	out.responder, _ = out.inner.Responder.(*responder)
	return out, faults.Err()
}

// rejected calls Rejected.
func (c *Options) rejected(method string, err *jsonrpc.Error) {
	if c.Hooks.Rejected == nil || err == nil {
		return
	}
	boundary.Report(c.Logger, "Rejected panicked", boundary.Run(func() error {
		c.Hooks.Rejected(boundary.Text(method, maxMethod), err)
		return nil
	}))
}

// timeout returns how long a request may take, 0 for no limit.
func (c *Options) timeout(method string) time.Duration {
	if engine.IsInput(method) {
		return c.Timeouts.Input
	}
	return c.Timeouts.Request
}
