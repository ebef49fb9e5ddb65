// Package jwtauth verifies access tokens that are JSON Web Tokens (RFC 9068), with the public keys
// of their issuer. It also verifies DPoP proofs (RFC 9449).
//
//	verifier, err := jwtauth.New("https://as.example.com", nil)
//	protector, err := auth.NewProtector(auth.Options{
//		Resource: "https://mcp.example.com/mcp",
//		Issuers:  []string{"https://as.example.com"},
//		Verifier: verifier,
//	})
//
// The Protector checks the audience and the expiry of tokens. For several issuers, create a
// Verifier for each of them and call the right one from an auth.VerifierFunc.
//
// # Keys
//
// The metadata of the issuer has the URL of the keys, unless Options.Keys is set. A Verifier
// fetches the keys for the first token, and again when the response has expired: after the max-age
// of its Cache-Control header, but at least 5 minutes and at most a day, and after an hour without
// that header. It also fetches them for a token with an unknown key id, at most every 30 seconds.
// After a failed fetch, the next one is possible after 5 seconds. Concurrent requests share one
// fetch. If the issuer is unreachable, the Verifier uses the last keys for up to a day. Without
// keys, Verify fails with auth.ErrUnavailable.
package jwtauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Defaults of Options.
const (
	defaultSkew          = time.Minute
	defaultNonceLifetime = 5 * time.Minute
)

const (
	maxToken = 16 << 10 // bytes
	cacheTTL = 5 * time.Minute
	maxTried = 8 // keys that are tried for one token
)

// defaultAlgorithms is the default of Options.Algorithms. "none" and symmetric algorithms are never
// supported: a symmetric key would be the public key of the issuer.
var defaultAlgorithms = []string{"RS256", "PS256", "ES256", "ES384", "EdDSA"}

var otherAlgorithms = []string{"RS384", "RS512", "PS384", "PS512", "ES512"}

// Options are the options of New. The zero value has the defaults.
type Options struct {
	// Keys is the URL of the JSON Web Key Set. The default is the jwks_uri in the metadata of the
	// issuer (RFC 8414, OpenID Connect Discovery).
	Keys string
	// Algorithms are the accepted signature algorithms, of tokens and of proofs. The default is RS256,
	// PS256, ES256, ES384 and EdDSA. RS384, RS512, PS384, PS512 and ES512 are supported as well.
	Algorithms []string
	// Types are the accepted values of the header parameter typ of access tokens, without
	// "application/". "" accepts tokens without typ. The default is "at+jwt", "JWT" and "". If the
	// issuer follows RFC 9068, set "at+jwt" alone, which rejects other tokens of the issuer, such as
	// ID tokens.
	Types []string
	// Skew is how far the clock of the issuer may be ahead when the claim nbf is checked. The default
	// is one minute.
	Skew time.Duration
	// NonceKey makes the server require DPoP proofs with a nonce that it has issued (RFC 9449, section
	// 9). Processes with the same key accept each other's nonces. It has at least 32 random bytes.
	NonceKey auth.Secret
	// NonceLifetime is how long a nonce is accepted. The default is 5 minutes.
	NonceLifetime time.Duration
	// HTTP provides the transport of requests. The default is that of http.DefaultClient. A fetch of
	// the keys ends after 10 seconds, follows up to 3 redirects, and reads up to 1 MiB.
	HTTP *http.Client
	// Network limits the addresses of the jwks_uri in the metadata. Public addresses, and the hosts of
	// the issuer and of Keys, are always allowed.
	Network oauth.Network
	// Logger receives failed fetches of keys. If it is nil, warnings and errors go to slog.Default.
	Logger *slog.Logger
}

// Verifier verifies the tokens of one issuer. Its methods may be called concurrently.
type Verifier interface {
	auth.Verifier
	auth.ProofVerifier
	// CacheTTL returns how long results are cached by default.
	CacheTTL() time.Duration
}

type verifier struct {
	issuer     string
	algorithms []jose.SignatureAlgorithm
	types      []string
	skew       time.Duration
	keys       *keySet
	nonces     *nonces // nil: nonces are not required
	proofs     *replays
}

// New returns a Verifier for the tokens of an issuer. It fails if an option is invalid. It sends no
// requests, so a server can start while the issuer is unreachable.
func New(issuer string, o *Options) (Verifier, error) {
	if o == nil {
		o = &Options{}
	}
	v := &verifier{issuer: issuer, types: o.Types, skew: o.Skew, proofs: &replays{}}
	names := o.Algorithms
	if len(names) == 0 {
		names = defaultAlgorithms
	}
	for _, name := range names {
		if !slices.Contains(defaultAlgorithms, name) && !slices.Contains(otherAlgorithms, name) {
			return nil, fmt.Errorf("jwtauth: algorithm %q is not supported", name)
		}
		v.algorithms = append(v.algorithms, jose.SignatureAlgorithm(name))
	}
	if len(v.types) == 0 {
		v.types = []string{"at+jwt", "JWT", ""}
	}
	if o.Skew < 0 {
		return nil, fmt.Errorf("jwtauth: negative Skew (%v)", o.Skew)
	}
	if o.NonceLifetime < 0 {
		return nil, fmt.Errorf("jwtauth: negative NonceLifetime (%v)", o.NonceLifetime)
	}
	if v.skew == 0 {
		v.skew = defaultSkew
	}
	if !o.NonceKey.Empty() {
		if len(o.NonceKey.Reveal()) < 32 {
			return nil, fmt.Errorf("jwtauth: NonceKey has %d bytes, want at least 32", len(o.NonceKey.Reveal()))
		}
		v.nonces = &nonces{o.NonceKey, o.NonceLifetime}
		if v.nonces.lifetime == 0 {
			v.nonces.lifetime = defaultNonceLifetime
		}
	}
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, errors.New("jwtauth: issuer is not a URL")
	}
	guarded := fetch.New(o.HTTP, fetch.Network(o.Network)).For(u)
	if err := guarded.CheckEndpoint(issuer); err != nil {
		return nil, fmt.Errorf("jwtauth: issuer: %w", err)
	}
	if o.Keys != "" {
		if u, err = url.Parse(o.Keys); err != nil {
			return nil, errors.New("jwtauth: Keys is not a URL")
		}
		guarded = guarded.For(u)
		if err := guarded.CheckEndpoint(o.Keys); err != nil {
			return nil, fmt.Errorf("jwtauth: Keys: %w", err)
		}
	}
	v.keys = &keySet{issuer: issuer, url: o.Keys, http: guarded, log: boundary.Logger(o.Logger)}
	return v, nil
}

// CacheTTL returns 5 minutes. Without the cache, too, a revoked
// token is accepted until it expires, because the Verifier does not ask the issuer about single
// tokens.
func (v *verifier) CacheTTL() time.Duration { return cacheTTL }

// claims are the claims of an access token that the fields of an auth.Identity come from.
type claims struct {
	Issuer       string           `json:"iss"`
	Subject      string           `json:"sub"`
	Audience     jwt.Audience     `json:"aud"`
	Expiry       *jwt.NumericDate `json:"exp"`
	NotBefore    *jwt.NumericDate `json:"nbf"`
	ClientID     string           `json:"client_id"`
	Party        string           `json:"azp"`
	Scope        words            `json:"scope"`
	Scopes       words            `json:"scp"` // of some issuers that do not follow RFC 9068
	Confirmation *confirmation    `json:"cnf"`
}

type confirmation struct {
	Thumbprint string `json:"jkt"`
}

// words is a list of words. In JSON, it is an array or one string with spaces.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*w = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(w))
}

// Verify implements auth.Verifier. It checks the signature, the type, the issuer and the nbf claim
// of a token, and rejects a token without an expiry.
func (v *verifier) Verify(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
	if len(c.Token.Reveal()) > maxToken {
		return nil, invalid("more than %d bytes", maxToken)
	}
	token, err := jose.ParseSignedCompact(c.Token.Reveal(), v.algorithms)
	if err != nil {
		return nil, malformed(err, "not a signed JSON Web Token")
	}
	header := &token.Signatures[0].Protected
	if typ := typeOf(header); !slices.ContainsFunc(v.types, func(t string) bool { return strings.EqualFold(t, typ) }) {
		return nil, invalid("type %.50q, want one of %q", typ, v.types)
	}
	payload, err := v.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	var known claims
	var all map[string]any
	if json.Unmarshal(payload, &known) != nil || json.Unmarshal(payload, &all) != nil {
		return nil, invalid("malformed claims")
	}
	return v.identity(&known, all)
}

func (v *verifier) identity(c *claims, all map[string]any) (*auth.Identity, error) {
	switch {
	case c.Issuer != v.issuer:
		return nil, invalid("issuer %.200q, want %q", c.Issuer, v.issuer)
	case c.Expiry == nil:
		return nil, invalid("no expiry")
	case c.NotBefore != nil && c.NotBefore.Time().After(time.Now().Add(v.skew)):
		return nil, invalid("not valid before %v", c.NotBefore.Time().UTC())
	}
	i := &auth.Identity{
		Issuer:   c.Issuer,
		Subject:  c.Subject,
		ClientID: c.ClientID,
		Audience: c.Audience,
		Scopes:   slices.Concat(c.Scope, c.Scopes),
		Expiry:   c.Expiry.Time(),
		Claims:   all,
	}
	if i.ClientID == "" {
		i.ClientID = c.Party
	}
	if c.Confirmation != nil {
		if i.Thumbprint = c.Confirmation.Thumbprint; i.Thumbprint == "" {
			return nil, invalid("bound to a key by a method other than DPoP")
		}
	}
	for _, name := range []string{"iss", "sub", "aud", "exp", "client_id", "scope", "scp", "cnf"} {
		delete(all, name)
	}
	return i, nil
}

// verify verifies the signature of a token with the keys of the issuer, and returns the payload.
func (v *verifier) verify(ctx context.Context, token *jose.JSONWebSignature) ([]byte, error) {
	header := &token.Signatures[0].Protected
	found, err := v.keys.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	tried := 0
	for i := range found {
		if key := &found[i]; fits(key, header.Algorithm) {
			if tried++; tried > maxTried {
				break
			}
			if payload, err := token.Verify(key.Key); err == nil {
				return payload, nil
			}
		}
	}
	if tried == 0 {
		return nil, invalid("the issuer has no key for %s with the id %.100q", header.Algorithm, header.KeyID)
	}
	return nil, invalid("wrong signature")
}

// typeOf returns the header parameter typ without "application/" (RFC 7515, section 4.1.9).
func typeOf(header *jose.Header) string {
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	const prefix = "application/"
	if len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		return typ[len(prefix):]
	}
	return typ
}

// fits reports whether a public key may be used with alg. Package jose checks the curves.
func fits(key *jose.JSONWebKey, alg string) bool {
	if key.Algorithm != "" && key.Algorithm != alg {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		bits := public.N.BitLen() // verification with larger keys is slow
		return (alg[0] == 'R' || alg[0] == 'P') && bits >= 2048 && bits <= 8192
	case *ecdsa.PublicKey:
		return strings.HasPrefix(alg, "ES")
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return false
}

// invalid returns an auth.ErrInvalidToken with a cause. The Protector logs it.
func invalid(format string, args ...any) error {
	return fmt.Errorf("jwtauth: %w: "+format, append([]any{auth.ErrInvalidToken}, args...)...)
}

// malformed is invalid for an error of package jose. It drops the text of err, which may quote the
// token. otherwise is the cause unless the algorithm is not accepted.
func malformed(err error, otherwise string) error {
	var unexpected *jose.ErrUnexpectedSignatureAlgorithm
	if errors.As(err, &unexpected) {
		return invalid("algorithm %.50q is not accepted", unexpected.Got)
	}
	return invalid("%s", otherwise)
}
