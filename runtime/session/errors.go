package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// Codes of errors that a session answers with, beside those of JSON-RPC.
const (
	// CodeOverloaded refuses a request because too many are being served; it may be sent again
	// later. It also replaces an answer that is dropped because the peer does not read earlier
	// ones.
	CodeOverloaded = -32050
	// CodeClosing refuses a request, or gives it up, because the session is shutting down.
	CodeClosing = -32051
)

// Why a request or notification was not sent, or not answered. What the peer answers is a [*jsonrpc.Error]
// instead.
var (
	// ErrClosed says that the session is over, or ended meanwhile; what ended it is wrapped too.
	ErrClosed = errors.New("session: closed")
	// ErrNotInitialized says that the peers have not introduced themselves yet.
	ErrNotInitialized = errors.New("session: not initialized")
	// ErrUnresponsive says that the peer did not answer a ping in time.
	ErrUnresponsive = errors.New("session: peer does not answer pings")
	// ErrCancelled is the cause of a handler's context if the peer has cancelled the request.
	ErrCancelled = errors.New("session: request cancelled by the peer")
	// ErrTimeout says that the peer took too long to answer. It is a [context.DeadlineExceeded] too.
	ErrTimeout error = &timeoutError{}
	// ErrTokenInUse says that a progress token belongs to another operation.
	ErrTokenInUse = errors.New("session: progress token is in use")
)

type timeoutError struct{}

func (*timeoutError) Error() string   { return "session: request timed out" }
func (*timeoutError) Timeout() bool   { return true }
func (*timeoutError) Is(e error) bool { return e == context.DeadlineExceeded }

// CapabilityError says that a message was not sent because one side has not declared, or the revision does not
// have, what it needs (MCP lifecycle, "Capability Negotiation").
type CapabilityError struct {
	Method     string       // of the message
	Capability string       // what is missing, such as "resources.subscribe"; "" if the revision lacks the method
	Own        bool         // it is missing on this side, not on the peer's
	Revision   mcp.Revision // of the session
}

// Error says what is missing.
func (e *CapabilityError) Error() string {
	switch {
	case e.Capability == "":
		return fmt.Sprintf("session: revision %s has no %s in this direction", e.Revision, e.Method)
	case e.Own:
		return fmt.Sprintf("session: %s needs the capability %s, which was not declared", e.Method, e.Capability)
	}
	return fmt.Sprintf("session: %s needs the capability %s, which the peer has not declared", e.Method, e.Capability)
}

// VersionError says that the peers speak no common revision.
type VersionError struct {
	Requested mcp.Revision   // by the client
	Offered   mcp.Revision   // by the server
	Supported []mcp.Revision // by the client
}

// Error names the revisions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("session: the server offers revision %q, not one of %q", e.Offered, e.Supported)
}
