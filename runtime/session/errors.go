package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Error codes that a session answers with, in addition to those of JSON-RPC. Answers to modern
// requests have -31050 and -31051 instead, because their revisions reserve these codes; see
// [IsTemporary].
const (
	// CodeOverloaded rejects a request because too many are being served; it may be sent again
	// later. It also replaces an answer that is dropped because the peer does not read earlier
	// ones.
	CodeOverloaded = engine.CodeOverloaded
	// CodeClosing rejects a request, or ends it, because the session is shutting down.
	CodeClosing = engine.CodeClosing
)

// IsTemporary reports whether err is an error response of the peer that says that the same request
// may succeed later: CodeOverloaded or CodeClosing, or the codes that modern requests have instead,
// or an internal error whose data has a member retryAfter. Servers of this module send such an
// internal error while their store of tasks cannot be reached.
func IsTemporary(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e == nil {
		return false
	}
	switch e.Code {
	case CodeOverloaded, CodeClosing, modern.CodeOverloaded, modern.CodeClosing:
		return true
	case jsonrpc.CodeInternalError:
		_, temporary := codec.Member(e.Data, "retryAfter")
		return temporary
	}
	return false
}

// Errors of requests and notifications that were not sent or not answered. An error that the peer
// answers with is a [*jsonrpc.Error].
var (
	// ErrClosed is returned after the session has ended. The cause is wrapped too.
	ErrClosed = errors.New("session: closed")
	// ErrNotInitialized is returned before the handshake is complete.
	ErrNotInitialized = errors.New("session: not initialized")
	// ErrUnresponsive is the cause if the peer did not answer pings in time; see
	// [Limits].MissedPings.
	ErrUnresponsive = errors.New("session: peer does not answer pings")
	// ErrCancelled is the cause of a handler's context if the peer has cancelled the request.
	ErrCancelled = engine.ErrCancelled
	// ErrTimeout is returned if the peer did not answer in time. It matches
	// [context.DeadlineExceeded].
	ErrTimeout error = &timeoutError{}
)

// errTokenInUse is returned for a progress token that belongs to another operation.
var errTokenInUse = errors.New("session: progress token is in use")

type timeoutError struct{}

func (*timeoutError) Error() string   { return "session: request timed out" }
func (*timeoutError) Timeout() bool   { return true }
func (*timeoutError) Is(e error) bool { return e == context.DeadlineExceeded }

// CapabilityError is returned for a message that was not sent because a side has not declared the
// capability, or the revision does not have the method (MCP lifecycle, "Capability Negotiation").
// It is also returned if a server rejects a modern request that needs a capability; the
// [*jsonrpc.Error] is wrapped then.
type CapabilityError struct {
	Method string // of the message
	// Capability is the missing capability, such as "resources.subscribe", or "" if the revision
	// lacks the method.
	Capability string
	Own        bool         // this side has not declared it; otherwise the peer has not
	Revision   mcp.Revision // of the session
}

// Error names the method and the missing capability or revision.
func (e *CapabilityError) Error() string {
	switch {
	case e.Capability == "":
		return fmt.Sprintf("session: revision %s has no %s in this direction", e.Revision, e.Method)
	case e.Own:
		return fmt.Sprintf("session: %s needs the capability %s, which was not declared", e.Method, e.Capability)
	}
	return fmt.Sprintf("session: %s needs the capability %s, which the peer has not declared", e.Method, e.Capability)
}

// wireError returns the error object for an error of a handler, in a revision with given traits.
func wireError(t mcp.Traits, err error) *jsonrpc.Error {
	if missing, ok := errors.AsType[*CapabilityError](err); ok && t.OwnErrors && missing.Capability != "" && !missing.Own {
		return &jsonrpc.Error{
			Code: modern.CodeMissingCapability, Message: boundary.ErrorText(missing), Data: modern.RequiredCapabilities(missing.Capability),
		}
	}
	wire := boundary.WireError(err)
	if code := modern.MapCode(wire.Code); t.OwnErrors && code != wire.Code {
		out := *wire
		out.Code = code
		return &out
	}
	return wire
}

// VersionError is returned if the peers have no common revision. If the server has answered with
// that error, the [*jsonrpc.Error] is wrapped too.
type VersionError struct {
	Requested mcp.Revision   // by the client
	Offered   mcp.Revision   // by the server
	Supported []mcp.Revision // by the client
}

// Error names the revisions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("session: the server offers revision %q, not one of %q", e.Offered, e.Supported)
}
