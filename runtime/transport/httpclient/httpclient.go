// Package httpclient is what the client ends of the transports over HTTP share: their options, and the error that
// an HTTP status becomes. See packages streamable and sse.
package httpclient

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Options say how a client reaches its server. The zero value means the defaults.
type Options struct {
	// HTTP sends the requests. Its Timeout is ignored, for it would cut streams: requests of the protocol have
	// timeouts of their own. If it has no CheckRedirect, redirects are followed within one origin only, and only
	// where they keep the method. Nil means a client of the connection's own, which goes through the proxies that
	// the environment names and is closed with the connection.
	HTTP *http.Client

	// Header is added to every HTTP request. It must not be changed any more.
	Header http.Header

	// Prepare is called for every HTTP request before it goes out, with all headers set, by many goroutines at
	// once. It may add headers. The context of the request has the values of that which a message was written
	// with. If it fails the request is not sent. Nil does nothing.
	Prepare func(*http.Request) error

	MaxMessage   int           // bytes of a message that is received; default [transport.DefaultMaxMessage]
	MaxQueue     int           // bytes that may wait to be sent; default [transport.DefaultMaxQueue]
	StallTimeout time.Duration // how long the server may leave what waits untouched, and a stream that is resumed unanswered; default [transport.DefaultStallTimeout]

	// FlushTimeout is how long Close waits for answers and notifications to be taken, and again for the server to
	// take the end of the session; default one second.
	FlushTimeout time.Duration

	// RetryDelay is about how long a connection that broke is left alone before it is made again. It doubles with
	// each failure up to MaxRetryDelay; what is waited is between half of it and all. The defaults are 500
	// milliseconds and 30 seconds. A server may ask for another delay (the retry field of its events), of 100
	// milliseconds at least, or of RetryDelay if that is shorter: it is what the first attempt waits, and up to a fifth
	// more, and the least that further ones wait. Connections that bring events but no message are no failures at
	// first, for a server may want to be polled; from the sixth in a row on they count as such.
	RetryDelay, MaxRetryDelay time.Duration

	// MaxRetries is how many attempts in a row may fail to resume the stream of a request, or to connect in order to
	// send a message, until it is given up as lost; default [DefaultMaxRetries], and none if negative.
	MaxRetries int

	// Renewed is called after a session was lost and a new one was opened in its place, with the result of
	// initialize, in a goroutine that Close waits for. What the server kept with the session, such as subscriptions
	// and the log level, has to be set again. Nil does nothing.
	Renewed func(initializeResult json.RawMessage)

	// Logger gets what is wrong with streams that belong to no request. Nil discards it.
	Logger *slog.Logger
}

// DefaultMaxRetries is the default of [Options.MaxRetries].
const DefaultMaxRetries = 5

// WithDefaults returns a copy in which every limit is set; MaxRetries of 0 stands for none.
func (o Options) WithDefaults() Options {
	o.MaxMessage = positive(o.MaxMessage, transport.DefaultMaxMessage)
	o.MaxQueue = positive(o.MaxQueue, transport.DefaultMaxQueue)
	o.StallTimeout = positive(o.StallTimeout, transport.DefaultStallTimeout)
	o.FlushTimeout = positive(o.FlushTimeout, time.Second)
	o.RetryDelay = positive(o.RetryDelay, 500*time.Millisecond)
	o.MaxRetryDelay = max(positive(o.MaxRetryDelay, 30*time.Second), o.RetryDelay)
	o.MaxRetries = max(cmp.Or(o.MaxRetries, DefaultMaxRetries), 0)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func positive[T int | time.Duration](value, def T) T {
	if value > 0 {
		return value
	}
	return def
}

// StatusError says that the server has refused an HTTP request by its status.
type StatusError struct {
	Method string         // of the HTTP request
	Code   int            // the status, such as 401
	Header http.Header    // of the answer, such as WWW-Authenticate
	Body   string         // the beginning of the body, as text; "" if there is none
	RPC    *jsonrpc.Error // what the body says, if it is a JSON-RPC error
}

// Error says what the server has said.
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

// ErrSessionLost says that the session to which a message belonged is gone: the server has dropped it, or, with
// package sse, its stream has broken. Whether a request that fails so was served is not known.
var ErrSessionLost = errors.New("httpclient: the session is lost")

// What else is wrong with the answer to an HTTP request.
var (
	// ErrContent says that an answer is of a type that does not belong there.
	ErrContent = errors.New("httpclient: unexpected content type")
	// ErrCut says that an answer has ended too early, and cannot be resumed.
	ErrCut = errors.New("httpclient: the answer is incomplete")
	// ErrRedirect says that a redirect was not followed.
	ErrRedirect = errors.New("httpclient: redirect refused")
)
