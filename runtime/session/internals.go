package session

import (
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// sessionInternals is a Session with the methods that only packages of this module call.
type sessionInternals struct{ *Session }

// Internals returns the Session with methods for packages of this module.
func (s *Session) Internals(boundary.Caller) sessionInternals { return sessionInternals{s} }

// IsServer reports whether this side is the server.
func (s sessionInternals) IsServer() bool { return s.role == roleServer }

// requestInternals is a Request with the methods that only packages of this module call.
type requestInternals struct{ *Request }

// Internals returns the Request with methods for packages of this module.
func (r *Request) Internals(boundary.Caller) requestInternals { return requestInternals{r} }

// optionsInternals is an Options with the fields and methods that only packages of this module use.
type optionsInternals struct {
	*inner
	options *Options
}

// Internals returns the part of the Options that is for packages of this module.
func (o *Options) Internals(boundary.Caller) optionsInternals { return optionsInternals{&o.inner, o} }

// Check returns an error that names each invalid number of the Options, or nil if all are valid.
func (o optionsInternals) Check() error {
	_, err := o.options.complete()
	return err
}

// inner adapts a session to its peer and to its connection.
type inner struct {
	// State is a value for the Handler and the middleware. The method State of a request returns
	// it.
	State any

	// Responder serves modern requests that arrive over the connection of a server, modern
	// notifications, and all notifications before initialize. NewResponder returns it. If it is
	// nil, the session serves them like all other messages.
	Responder transport.Responder

	// ExtensionMethods reports whether an extension defines a method, such as tasks/get. A
	// Responder passes requests for it to the Handler, and a client sends them in revisions without
	// sessions, although the protocol has a method of that name in other revisions only. Nil means
	// none.
	ExtensionMethods func(method string) bool

	// Known is the state of the server that a client has learned over an earlier connection. If its
	// revision has no sessions, [Connect] sends nothing. Otherwise, Connect sends initialize at
	// once, and server/discover only if the server rejects initialize. Nil means that the server is
	// unknown.
	Known *State

	// IDPrefix makes the ids of requests to the peer strings that begin with it. Sessions that
	// share a connection need different prefixes. The default is ids that are numbers.
	IDPrefix string
}
