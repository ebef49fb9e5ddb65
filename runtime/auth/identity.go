package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Credentials are the credentials of one request.
type Credentials struct {
	Scheme string // "Bearer" or "DPoP"
	Token  Secret
	Proof  string // the DPoP proof; "" without one
	Method string // of the HTTP request, for the proof
	URL    string // of the request as the client sent it, from Options.Resource; for the proof
}

// Identity is the verified content of an access token. It must not be changed after Verify has
// returned it.
type Identity struct {
	Issuer   string // the authorization server
	Subject  string // the user; "" for a client that acts on its own behalf
	ClientID string
	Audience []string       // the servers that the token is for
	Scopes   []string       // granted
	Expiry   time.Time      // zero if unknown
	Claims   map[string]any // further verified claims for handlers; at most 16 KiB as JSON
	// Thumbprint is the thumbprint of the key that the token is bound to (RFC 9449, section 6). It is
	// "" for a bearer token.
	Thumbprint string

	// Principal identifies the user or the client. A Protector sets it; see [Options].
	Principal string

	implied []string // scopes that the granted ones include
}

// HasScopes reports whether each of the scopes was granted, directly or by a scope that implies it;
// see [Options].Imply.
func (i *Identity) HasScopes(scopes ...string) bool {
	for _, scope := range scopes {
		if !slices.Contains(i.Scopes, scope) && !slices.Contains(i.implied, scope) {
			return false
		}
	}
	return true
}

// Verifier verifies access tokens. It checks the signature of a token, or asks its issuer. The
// Protector then checks the issuer, the audience and the expiry of the Identity. Results may be
// cached, so they may depend only on the scheme and the token.
//
// Results are only cached if [Options].CacheTTL is set, or if the Verifier has a method CacheTTL()
// [time.Duration], which returns for how long.
//
// Verify fails with [ErrUnavailable] if it cannot decide, for example because the authorization
// server is down: the client then retries later. After a [NonceError], the client repeats the
// request with the nonce. Any other error rejects the token. Errors are logged, and must not
// contain the token. The context of Verify ends after 30 seconds at the latest; the request is then
// rejected as if the verifier were unavailable. A Verifier is safe for concurrent use.
type Verifier interface {
	Verify(ctx context.Context, c *Credentials) (*Identity, error)
}

// VerifierFunc is an adapter that makes a function a [Verifier].
type VerifierFunc func(ctx context.Context, c *Credentials) (*Identity, error)

// Verify implements [Verifier].
func (f VerifierFunc) Verify(ctx context.Context, c *Credentials) (*Identity, error) {
	return f(ctx, c)
}

// ProofVerifier is a [Verifier] that supports DPoP (RFC 9449). The Protector calls VerifyProof for
// each request with the scheme DPoP, after it has verified the token. VerifyProof checks the proof,
// and that its key is the one that the token is bound to. It fails with the errors of Verify, and its
// context ends after 30 seconds, too.
type ProofVerifier interface {
	VerifyProof(ctx context.Context, c *Credentials, i *Identity) error
}

// Errors of a [Verifier].
var (
	// ErrInvalidToken rejects a token: it is unknown, expired, revoked or forged.
	ErrInvalidToken = errors.New("auth: invalid token")
	// ErrUnavailable means that the token cannot be verified at the moment.
	ErrUnavailable = errors.New("auth: verifier unavailable")
)

// NonceError is the error of a [Verifier] that demands a DPoP proof with a nonce (RFC 9449, section
// 9).
type NonceError struct{ Nonce string }

func (*NonceError) Error() string { return "auth: DPoP proof needs a nonce" }

// maxPrincipal limits the length of a principal, in bytes. It is a key of maps and stores.
const maxPrincipal = 512

// clientMark precedes the client id in a principal without a subject.
const clientMark = "client_id="

// principalOf returns the default principal of an identity; see [Options].Principal.
func principalOf(i *Identity) (string, error) {
	name := i.Subject
	switch {
	case strings.HasPrefix(name, clientMark):
		return "", fmt.Errorf("auth: principal: subject begins with the reserved text %q", clientMark)
	case name == "" && i.ClientID == "":
		return "", errors.New("auth: principal: token has neither a subject nor a client id")
	case name == "":
		name = clientMark + i.ClientID
	}
	principal := i.Issuer + "#" + name
	if len(principal) > maxPrincipal {
		sum := sha256.Sum256([]byte(principal))
		return "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	return principal, nil
}

type identityKey struct{}

// WithIdentity returns a context with the identity i. [Protector.Middleware] and the transports
// call it for each request.
func WithIdentity(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// FromContext returns the identity in the context of a request. ok is false if there is none.
func FromContext(ctx context.Context) (i *Identity, ok bool) {
	i, ok = ctx.Value(identityKey{}).(*Identity)
	return i, ok
}
