// Package transport defines the connection below a session: it moves whole messages in both
// directions, in order.
//
// A transport is independent of tools and tasks. It inspects a message only as far as delivery
// requires (see [Message]). The packages below this one are transports: stdio, streamable and sse
// over HTTP, and inmemory, a pair of connected ends in one process. Package tap logs or records the
// messages of any of them.
//
// A custom transport is a type with the methods of [Conn]; package transporttest has the suite that
// it must pass. It carries JSON-RPC messages in UTF-8 and leaves them unchanged (MCP, "Custom
// Transports"). One connection carries the requests of all revisions. A transport whose messages
// travel on their own, as over HTTP, also gives each request a [Reply], passes requests without a
// session to a [Responder], and may let sessions outlive their connections ([Persister]). A test of
// transporttest is such a transport.
package transport

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// Conn is one end of a connection.
//
// Read is called by one goroutine at a time, Write by many at once, and Close by any.
type Conn interface {
	// Read returns the next message. It waits for one until the connection is closed. After these
	// errors the connection stays open: a [*MessageError] if a received message was rejected, a
	// [*DeliveryError] if a written message is lost, and a [*SessionLostError] if the server has
	// lost the session. The error is [io.EOF] if the peer sends no further messages but may still
	// read. After any other error the connection has ended. The error wraps [ErrClosed] if one of
	// the ends was closed.
	Read() (Message, error)

	// Write queues a message for delivery, after those written before. It waits while too many
	// bytes are pending, until ctx ends. Success does not mean that the message has arrived. After
	// a [*MessageError], if this message cannot be sent, and a [*SessionLostError], if its session
	// is lost, the connection stays open. The error wraps [ErrClosed] if the connection has ended,
	// and is [ErrStalled] if the peer has accepted no data for too long.
	Write(ctx context.Context, m Message) error

	// Close ends the connection, waits for the goroutines of the transport, and returns the error
	// of the connection as a whole. Messages written before are delivered if the peer accepts them
	// soon. Later calls have no effect.
	Close() error
}

// Unwrapper is a [Conn] that wraps another one, such as one that logs or counts messages. With this
// one method, a wrapper keeps the optional methods of the connection that it wraps:
//
//	func (c *loggedConn) Unwrap() transport.Conn { return c.Conn }
//
// A wrapper of Write also wraps the [Reply] of each message that it reads: over HTTP, answers and
// other messages that belong to a request do not pass through Write.
type Unwrapper interface {
	Conn

	// Unwrap returns the connection that this one wraps.
	Unwrap() Conn
}

// As returns c as a T, where T is one of the optional interfaces here, such as [HalfCloser]. If c is
// not a T but an [Unwrapper], As looks at the connection that it wraps, and so on.
func As[T Conn](c Conn) (t T, ok bool) {
	for c != nil {
		if t, ok = c.(T); ok {
			return t, true
		}
		u, wraps := c.(Unwrapper)
		if !wraps {
			break
		}
		c = u.Unwrap()
	}
	return t, false
}

// HalfCloser is a [Conn] that can be closed in one direction. A gateway uses it to forward the end
// of one side's messages while it still receives the answers of the other.
type HalfCloser interface {
	Conn

	// CloseWrite ends the direction to the peer: the peer's Read returns [io.EOF] after the
	// messages written before. CloseWrite returns when they are sent, or with an error that wraps
	// [ErrClosed] when Close stops waiting for them. Messages of the peer can still be read; Write
	// fails with an error that wraps ErrClosed. Close is still needed. Later calls have no effect.
	CloseWrite() error
}

// Persister is a [Conn] of a session that may outlive it: a later connection of the same session
// restores the session, possibly in another process. Its methods give access to the state that the
// transport stores for the session, and to the state that the owner of the connection persists.
type Persister interface {
	Conn

	// Restored returns the negotiated revision, and the params of initialize, which are nil if the
	// client is unknown. ok is false unless the session was opened over an earlier connection.
	Restored() (revision mcp.Revision, client []byte, ok bool)

	// PersistedState returns the state that was persisted last over an earlier connection, or nil.
	// ok is false if the connection cannot persist a state. PersistedState is called at most once.
	// The caller owns the state.
	PersistedState() (state []byte, ok bool)

	// PersistState replaces the persisted state, for as long as the session exists, and returns
	// once it is persisted. It fails with an error that wraps [ErrTooLong] if the state is too
	// long, [ErrClosed] if the connection is closed, or [errors.ErrUnsupported] if it cannot
	// persist a state. Before the handshake is complete, it may return at once: the state is then
	// persisted before the peer learns that the handshake is complete.
	PersistState(ctx context.Context, state []byte) error

	// Suspend makes Close retain the session, so that another process can restore it, if the
	// transport can persist it. The peer may try again later. A server that shuts down calls
	// Suspend before Close.
	Suspend()
}

// Reopener is a [Conn] of a client whose server can lose the session while the connection stays
// open, as servers over HTTP can. Its sessions are counted from 1. The owner opens a new one with
// Reopen and a further initialize.
//
// Read returns a [*SessionLostError] once for each lost session. From then until Reopen returns,
// Write fails with a [*SessionLostError]. For each request that was lost with its session, Read
// also returns a [*DeliveryError] that wraps [ErrSessionLost]. The request may be sent again in a
// new session unless Taken is set.
type Reopener interface {
	Conn

	// Reopen prepares the connection for a new session with the same server and returns its number.
	// It waits longer after each further session in a row that was not used. Reopen is called after
	// a loss, by one goroutine at a time. It is also called for an open session whose server does
	// not answer: then that session is lost, and Read reports it. It fails with the cause of ctx,
	// or if the server is not expected to accept another session, with [errors.ErrUnsupported] if
	// the connection is for one session only.
	Reopen(ctx context.Context) (session uint32, err error)
}

// Responder serves modern requests: those of revisions without sessions, such as 2026-07-28, each
// of which carries its revision and the capabilities of the client in its _meta.
type Responder interface {
	// Receive serves a request or a notification, and returns when it is answered. Its Context ends
	// if the client cancels the request. Its Reply must not be nil. If a notification is rejected,
	// Receive calls Answer with the reason and without a text.
	Receive(m Message)

	// Revisions returns the modern revisions that are served, the preferred one first.
	Revisions() []mcp.Revision

	// Supported returns the revisions for the error of a request in another version: the modern
	// ones that are served, then those of sessions.
	Supported() []mcp.Revision
}

// Described is a [Conn] that describes itself.
type Described interface {
	Conn

	// Info describes the connection. It does not change.
	Info() Info
}

// Info describes a connection for logs and traces. Its zero value describes an unknown one.
type Info struct {
	Network  string // "tcp", or "pipe" for two streams such as those of stdio
	Protocol string // on top of it: "http", or "" for none
	// Host and Port are those of the server's URL. They are "" and 0 at the end of the server, and
	// without a URL.
	Host string
	Port int
}

// Message is a message on its way through a transport.
type Message struct {
	// Text is the message as JSON. It belongs to the receiver of the Message. Neither side changes
	// it afterwards.
	Text []byte

	// Reply is where the messages go that belong to a received one. Nil means to Conn.Write. It is
	// not used in sent messages.
	Reply Reply

	// Session is the number of the session that the message belongs to; see [Reopener]. A message
	// that belongs to an earlier session is not sent. Zero means the current one.
	Session uint32

	// Context holds values for the handler of a received message, such as the [Principal] and the
	// [HTTP] request. Nil means none. Only a [Responder] uses its end.
	Context context.Context

	parsed   *jsonrpc.Message // see SetParsed; nil if unknown
	parsedOf []byte           // the text of which parsed is the content
}

// Reply sends the messages that belong to a received request. A transport with several paths to the
// peer, such as a stream for each request, gives one to each request that it receives. Its methods
// are safe for concurrent use.
type Reply interface {
	// Send sends a notification, or a request to the peer, that belongs to the request. It waits as
	// Write of the [Conn] does, and fails with the same errors. After Answer, a Reply with a path of
	// its own fails with [ErrAnswered]: the message was not sent, and may be written to the Conn.
	Send(ctx context.Context, text []byte) error

	// Answer sends the answer to the request, and returns when the transport has accepted it. It is
	// called once. If text is nil, the request will not be answered, because it was cancelled: Answer
	// then frees its path to the peer, and does not wait for the peer. failed is the error in the
	// answer, or nil.
	Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error
}

// SetParsed records the content of Text, so that Parse need not parse it again. The message must be
// what [jsonrpc.ParseReceived] returns for Text, and must not change. The record is ignored once
// Text is another slice.
func (m *Message) SetParsed(message *jsonrpc.Message) { m.parsed, m.parsedOf = message, m.Text }

// Parse returns the content of Text as [jsonrpc.ParseReceived] does. It does not parse a text whose
// content SetParsed has recorded.
func (m *Message) Parse() (jsonrpc.Message, error) {
	if m.parsed != nil && len(m.parsedOf) == len(m.Text) && unsafe.SliceData(m.parsedOf) == unsafe.SliceData(m.Text) {
		return *m.parsed, nil
	}
	return jsonrpc.ParseReceived(m.Text)
}

// Causes of messages that a connection does not deliver.
var (
	// ErrClosed says that the connection has ended.
	ErrClosed = errors.New("transport: connection closed")
	// ErrStalled says that the queue is full and the peer has accepted no data for StallTimeout.
	ErrStalled = errors.New("transport: the peer has stopped reading")
	// ErrAnswered says that a message belongs to a request that was answered; see [Reply].
	ErrAnswered = errors.New("transport: the request was answered")
	// ErrTooLong says that a message is longer than allowed.
	ErrTooLong = errors.New("transport: message is too long")
	// ErrSessionLost is the error of a message whose session has ended while the connection is
	// open; see [Reopener].
	ErrSessionLost = errors.New("transport: session lost")
)

// SessionLostError is returned when the server has lost a session; see [Reopener]. If Write returns
// it, the server has not received the message. It wraps [ErrSessionLost].
type SessionLostError struct {
	Session uint32 // number of the session
	Err     error  // the cause; nil if the session was lost before

	// Unanswered is set if all requests of the session that have no answer are lost, and Read
	// returns no [*DeliveryError] for them.
	Unanswered bool
}

// Error returns the text of ErrSessionLost and the cause.
func (e *SessionLostError) Error() string {
	if e.Err == nil {
		return ErrSessionLost.Error()
	}
	return fmt.Sprintf("%v: %v", ErrSessionLost, e.Err)
}

// Unwrap returns ErrSessionLost and Err.
func (e *SessionLostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrSessionLost}
	}
	return []error{ErrSessionLost, e.Err}
}

// MessageError says that a transport has rejected one message. Later messages are not affected.
type MessageError struct {
	ID  jsonrpc.ID // of a received request; the zero ID if it cannot be read
	Err error      // the cause, such as ErrTooLong
}

// Error returns the text of Err with a prefix.
func (e *MessageError) Error() string { return fmt.Sprintf("transport: message rejected: %v", e.Err) }

// Unwrap returns Err.
func (e *MessageError) Unwrap() error { return e.Err }

// DeliveryError is returned if a message that was written is lost, or if its answer can no longer
// arrive. Other messages are not affected. It is for transports on which each message travels on
// its own, such as those over HTTP, and for answers that are rejected, for example because they are
// too long.
type DeliveryError struct {
	// ID of the request that will not be answered; the zero ID if the message was not a request.
	ID jsonrpc.ID
	// The peer may have received the request, and may be serving it or have served it. If the request
	// is sent again, it may have its effect twice.
	Taken   bool
	Refused bool  // the peer has rejected the message, and would reject it again
	Err     error // the cause; never nil
}

// Error returns the text of Err with a prefix, which says whether the peer may have the message.
func (e *DeliveryError) Error() string {
	if !e.Taken {
		return fmt.Sprintf("transport: message not delivered: %v", e.Err)
	}
	return fmt.Sprintf("transport: message lost: %v", e.Err)
}

// Unwrap returns Err.
func (e *DeliveryError) Unwrap() error { return e.Err }

// ChallengeError is an error of a function that determines the principal of an HTTP request. Its
// Challenge describes how the client may authenticate.
type ChallengeError struct {
	// Challenge is the value of the WWW-Authenticate header, such as
	// `Bearer resource_metadata="https://…"`.
	Challenge string
	Err       error // why the request has no principal; never nil
}

// Error returns the text of Err.
func (e *ChallengeError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ChallengeError) Unwrap() error { return e.Err }

// Default limits of the transports below this package.
const (
	// DefaultMaxMessage is the size limit of a received message in bytes.
	DefaultMaxMessage = 16 << 20
	// DefaultMaxQueue is how many bytes may be pending. A single message may be longer.
	DefaultMaxQueue = 4 << 20
	// DefaultStallTimeout is how long a writer waits for a peer that accepts no data.
	DefaultStallTimeout = 30 * time.Second
)

type principalKey struct{}

// WithPrincipal returns a context with the principal of a message. A transport that authenticates
// its peer sets it in [Message.Context].
func WithPrincipal(ctx context.Context, principal string) context.Context {
	return &principalContext{ctx, principal}
}

// principalContext is a context with a principal.
type principalContext struct {
	context.Context
	principal string
}

// Value implements [context.Context].
func (c *principalContext) Value(key any) any {
	if key == (principalKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Principal returns the principal of a message. ok is false if the transport does not authenticate
// its peer.
func Principal(ctx context.Context) (principal string, ok bool) {
	c, ok := ctx.Value(principalKey{}).(*principalContext)
	if !ok {
		return "", false
	}
	return c.principal, true
}

type httpKey struct{}

// httpContext is the context of a message that has arrived in an HTTP request.
type httpContext struct {
	lazyctx.Detached
	header     map[string][]string
	remoteAddr string
}

// Value implements [context.Context].
func (c *httpContext) Value(key any) any {
	if key == (httpKey{}) {
		return c
	}
	return c.Detached.Value(key)
}

// WithHTTP returns a context with the header (an http.Header) and the remote address of the HTTP
// request in which a message arrived. It has the values of ctx and does not end with ctx, because a
// message outlives its request. A transport over HTTP sets it in [Message.Context]. The context of
// a task keeps the header while the task runs: limit its size, and do not change it.
func WithHTTP(ctx context.Context, header map[string][]string, remoteAddr string) context.Context {
	return &httpContext{lazyctx.Detached{Parent: ctx}, header, remoteAddr}
}

// HTTP returns the header and the remote address of the HTTP request in which a message arrived.
// They are nil and "" if the message did not arrive over HTTP. The header must not be changed.
func HTTP(ctx context.Context) (header map[string][]string, remoteAddr string) {
	if c, ok := ctx.Value(httpKey{}).(*httpContext); ok {
		return c.header, c.remoteAddr
	}
	return nil, ""
}
