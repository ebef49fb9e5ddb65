package oauth

import (
	"errors"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

var (
	// ErrLoginNeeded means that the user must log in, but cannot be asked: there is no UserAgent,
	// or the request may not wait for a login.
	ErrLoginNeeded = errors.New("login needed")
	// ErrDenied means that the user or the authorization server has denied the authorization.
	ErrDenied = errors.New("authorization denied")
	// ErrScope means that the server demands scopes again that have already been requested, or has
	// demanded more scopes too often.
	ErrScope = errors.New("insufficient scope")
	// ErrIssuer means that metadata or an authorization response has another issuer than expected,
	// or that an issuer could not be told apart from another one, and is not trusted.
	ErrIssuer = errors.New("wrong issuer")
	// ErrNoClient means that there is no client id for the authorization server.
	ErrNoClient = errors.New("no client for this authorization server")
	// ErrBackoff means that the next flow may not begin yet, because earlier flows failed or were
	// too frequent.
	ErrBackoff = errors.New("waiting after a failure")
)

// Error is the error of a failed authorization. It contains no secrets, no authorization codes and
// no content of pages.
type Error struct {
	Op          string    // "discover", "register", "authorize", "exchange", "refresh" or "revoke"
	Server      string    // canonical URL of the server; "" if the failure concerns the issuer only
	Issuer      string    // "" if not known yet
	Code        string    // error code from the authorization server, such as "invalid_grant"; "" if it sent no code
	Description string    // error_description from the authorization server: at most 200 printable ASCII characters
	Retry       time.Time // when the next attempt may begin; zero means at once
	Err         error     // the cause; nil if Code is the cause
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("oauth: " + e.Op)
	for _, part := range []string{fetch.Printable(e.Server), fetch.Printable(e.Issuer)} {
		if part != "" {
			b.WriteString(" " + part)
		}
	}
	if e.Code != "" {
		b.WriteString(": " + e.Code)
		if e.Description != "" {
			b.WriteString(" (" + e.Description + ")")
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
