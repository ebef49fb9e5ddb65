// Package oauth obtains access tokens for MCP servers (MCP basic/authorization): discovery,
// registration, the authorization code grant with PKCE, refresh and step-up.
package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

// UserAgent lets the user authorize. It is safe for concurrent use.
type UserAgent interface {
	// Begin prepares to receive the redirect of one authorization. known lists the redirect URIs
	// that are already registered at the issuer. Begin uses one of them if possible.
	Begin(ctx context.Context, known []string) (Redirect, error)
}

// Redirect receives the redirect of one authorization.
type Redirect interface {
	// URI returns the redirect URI.
	URI() string
	// Wait sends the user to authorizationURL and returns the query of the redirect, unchecked.
	// accept reports whether a state belongs to this authorization. Wait ignores redirects with
	// another state.
	Wait(ctx context.Context, authorizationURL string, accept func(state string) bool) (url.Values, error)
	// Close ends Wait and releases the resources that Begin allocated.
	Close() error
}

// Grant is a way to obtain a token. It is safe for concurrent use.
type Grant interface {
	// Token obtains a token from the authorization server of t.
	Token(ctx context.Context, t *Target) (*Token, error)
	// NeedsUser reports whether Token asks the user to authorize. The rules for PKCE and redirects
	// apply to such a grant.
	NeedsUser() bool
	// NeedsClient reports whether Token needs Target.Client.
	NeedsClient() bool
}

// Target describes the token that a Grant is to obtain, and the authorization server that issues
// it.
type Target struct {
	Metadata *auth.ServerMetadata // validated; its Issuer is the expected one
	Resource string               // the resource as published in its metadata; the canonical URL of the server if it has no metadata
	Scopes   []string             // to request; nil means that the parameter is omitted
	Client   *Client              // nil if the Grant does not need one

	// Exchange posts form to the token endpoint and returns the token of the response. It adds
	// resource, client authentication and DPoP. If the authorization server demands a DPoP nonce,
	// it repeats the request once. The Grant reveals its secrets itself, with Secret.RevealTo.
	Exchange func(ctx context.Context, form url.Values) (*Token, error)
	// Post posts form to another endpoint, such as the token endpoint of an identity provider, and
	// decodes the JSON response into result. It checks addresses and limits sizes and times like
	// all requests of this package.
	Post func(ctx context.Context, endpoint string, header http.Header, form url.Values, result any) error
}

// ClientAuth authenticates a client at an endpoint of its issuer. It is safe for concurrent use.
type ClientAuth interface {
	// Method returns the name of the method, such as "private_key_jwt".
	Method() string
	// Apply adds the authentication to a request: to its form or its header.
	Apply(ctx context.Context, issuer, clientID string, form url.Values, header http.Header) error
}

// Client is a registration of a client at one issuer.
type Client struct {
	Issuer       string      // "*" binds the client to the first issuer for which it is used
	ID           string      // client_id
	Secret       auth.Secret // used with the method that the issuer offers; empty for a public client
	Auth         ClientAuth  // replaces Secret unless it is nil
	Method       string      // the registered token_endpoint_auth_method; "" if unknown
	RedirectURIs []string    // registered; nil if unknown
	Expires      time.Time   // when Secret expires; zero means never
}

// Token is an access token with its refresh token and properties.
type Token struct {
	Access  auth.Secret
	Refresh auth.Secret // empty if there is none
	Type    string      // "Bearer" or "DPoP"
	Scopes  []string    // granted
	Expiry  time.Time   // zero if unknown
	Key     auth.Secret // PEM of the private DPoP key; empty for bearer tokens, and if the Prover uses one key for all tokens
}

// Prover makes DPoP proofs (RFC 9449). It is safe for concurrent use.
type Prover interface {
	// Algorithm returns the name of the signature algorithm, such as "ES256".
	Algorithm() string
	// NewKey returns a new private key as PEM. It is stored with the token. A Prover with one key
	// for all tokens returns an empty secret.
	NewKey() (auth.Secret, error)
	// Proof returns a proof with a new id for a request. token is empty for the token endpoint, and
	// nonce is "" if the server has not given one.
	Proof(key auth.Secret, method, url string, token auth.Secret, nonce string) (string, error)
}

// Store keeps credentials. Its values are secret. It is safe for concurrent use.
type Store interface {
	// Get returns the value of k, which the caller may modify. It fails with ErrNotFound if k has
	// no value.
	Get(ctx context.Context, k Key) ([]byte, error)
	// Put stores a copy of value under k.
	Put(ctx context.Context, k Key, value []byte) error
	// Delete removes the value of k. It succeeds if k has no value.
	Delete(ctx context.Context, k Key) error
	// Lock waits until no other Authorizer or process holds the lock of k, then acquires it: those
	// that share a store refresh a token once, and do not refresh one that another deletes. A store
	// of one Authorizer may return a function that does nothing.
	Lock(ctx context.Context, k Key) (unlock func(), err error)
}

// Key identifies a value in a Store.
type Key struct {
	Kind      string // "server", "client" or "token"
	Issuer    string // identifier of the authorization server
	Resource  string // canonical URL of the server
	Principal string // the principal of the token; "" for a program with one user
}

// Kinds of stored values.
const (
	kindServer = "server" // the issuer and the requested scopes of a server, by Resource and Principal
	kindClient = "client" // a dynamic registration, by Issuer
	kindToken  = "token"  // a token, by Issuer, Resource and Principal
)

// ErrNotFound is returned by Store.Get if the key has no value.
var ErrNotFound = errors.New("oauth: not found")
