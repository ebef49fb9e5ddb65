// Package httpclient has the options and errors that the clients of the HTTP transports share. See
// packages streamable and sse.
package httpclient

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Options configures a client over HTTP. A number that is zero means the default, and a negative one
// is an error of Dial that names the field.
type Options struct {
	// HTTP sends the requests. Its Timeout is ignored, because it would end streams; requests of
	// the protocol have their own timeouts. If it has no CheckRedirect, redirects are followed only
	// within one origin, and only if they keep the method. If HTTP is nil, the connection creates a
	// client that uses the proxies of the environment, and closes it at the end. That client pings
	// an HTTP/2 connection that is silent for 30 seconds, to notice that it is lost.
	HTTP *http.Client

	// Header is added to every HTTP request to the origin of the server. It must not be changed
	// afterwards. A redirect to another origin never gets it, but a CheckRedirect of HTTP can add
	// fields.
	Header http.Header

	// Prepare, if set, is called for every HTTP request before it is sent, with all headers set. It
	// may add headers. It is called concurrently. The context of the request has the values of the
	// context of Write. If Prepare fails, the request is not sent.
	Prepare func(*http.Request) error

	// Auth, if set, authorizes every HTTP request, after Prepare. Header must then have no
	// Authorization. A request is sent at most four times. If it cannot be authorized, its error
	// wraps that of the Authorizer. Timeouts do not run while Challenged waits for a user. A
	// redirect to another origin never gets the credentials.
	Auth Authorizer

	// Limits limit what the connection holds.
	Limits Limits
	// Timeouts limit how long the server may take.
	Timeouts Timeouts
	// Retries says when the client tries again.
	Retries Retries

	// Logger receives faults of streams that belong to no request. If it is nil, they are
	// discarded.
	Logger *slog.Logger
}

// Off is the value of a field that switches off what the field is about.
const Off = boundary.None

// Limits is the part of [Options] that limits what a connection holds.
type Limits struct {
	// Message is the maximum size in bytes of a received message. The default is 16 MiB.
	Message int
	// Queue is the maximum size in bytes of pending messages. The default is 4 MiB.
	Queue int
}

// Timeouts is the part of [Options] that limits how long the server may take.
type Timeouts struct {
	// Stall is how long the server may accept no pending message, and how long it may take to answer
	// a request that resumes a stream. The default is 30 seconds.
	Stall time.Duration
	// Flush is how long Close waits for the server to accept pending answers and notifications, and
	// again for it to accept the end of the session. The default is a second.
	Flush time.Duration
}

// Retries is the part of [Options] that says when a client tries again.
type Retries struct {
	// Delay is the delay before a broken connection is opened again. It doubles with each
	// failure, up to MaxDelay. The actual delay is a random value between half of it and all
	// of it. The defaults are 500 milliseconds and 30 seconds.
	//
	// A server may ask for another delay, by the retry field of its events. It is at least 100
	// milliseconds, or Delay if that is shorter. The first attempt waits for that delay and up
	// to a fifth more, and further attempts wait at least that long. Connections with events but
	// without messages do not count as failures at first, because a server may ask to be polled.
	// From the sixth in a row on, they count.
	Delay, MaxDelay time.Duration

	// Max is how many attempts in a row may fail to resume the stream of a request, to connect to
	// send a message, or to send a message again that the server has rejected for now or may receive
	// twice, before the message is lost. The default is 5; [Off] means no attempts. If a client of
	// Streamable HTTP sends its first request, and the connection is refused, it makes no further
	// attempts.
	Max int
}

// StatusError is returned if the server has rejected an HTTP request by its status.
type StatusError struct {
	Method string         // of the HTTP request
	Code   int            // the status, such as 401
	Header http.Header    // of the response, such as WWW-Authenticate
	Body   string         // the beginning of the body, as text without the secrets of the request; "" if there is none
	RPC    *jsonrpc.Error // the JSON-RPC error in the body; nil if there is none
}

// Error returns the status, and the JSON-RPC error or the beginning of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("HTTP %s: status %d %s", e.Method, e.Code, http.StatusText(e.Code))
	switch {
	case e.RPC != nil:
		return fmt.Sprintf("%s: %v", text, e.RPC)
	case e.Body != "":
		return fmt.Sprintf("%s: %q", text, e.Body)
	}
	return text
}

// Errors of the response to an HTTP request.
var (
	// ErrContent is returned for a response with a wrong content type.
	ErrContent = errors.New("httpclient: unexpected content type")
	// ErrCut is returned for a response that ends too early and cannot be resumed.
	ErrCut = errors.New("httpclient: incomplete response")
	// ErrRedirect is returned if a redirect is not followed.
	ErrRedirect = errors.New("httpclient: redirect rejected")
)
