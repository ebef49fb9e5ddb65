package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Options configures a [Protector].
type Options struct {
	// Resource is the URL of the protected endpoint as clients know it, such as
	// "https://mcp.example.com/mcp". It must be canonical (RFC 8707, section 2): the scheme and the host
	// in lower case, without the default port of the scheme, the path "/", userinfo and a fragment.
	// Without TLS, it must name a loopback address. Host and X-Forwarded headers of requests do not
	// change it.
	Resource string
	// Issuers are the authorization servers whose tokens are accepted, at least one.
	Issuers []string
	// Verifier verifies tokens.
	Verifier Verifier

	// Audience lists audiences that are accepted in addition to Resource. A token without an audience
	// is rejected.
	Audience []string
	// Scopes are required for every request. Challenges name them.
	Scopes []string
	// Imply returns the scopes that a granted scope implies. It is called for implied scopes, too. Nil
	// means that no scope implies another.
	Imply func(granted string) []string
	// Principal returns the principal of an identity. If it fails, the token is rejected. By default,
	// that is the issuer, "#" and the subject. Without a subject, it is the issuer, "#client_id=" and
	// the client id. If that has more than 512 bytes, it is "sha256:" and its hash. By default, a token
	// is rejected if it has neither a subject nor a client id, or if its subject begins with
	// "client_id=". The function gets an identity whose Principal is the default, or "".
	Principal func(*Identity) (string, error)
	// RequireDPoP rejects bearer tokens, and NoDPoP proofs of possession (RFC 9449). By default,
	// both are accepted if Verifier is a [ProofVerifier]. Metadata.DPoPAlgorithms tells clients the
	// algorithms that a proof may have.
	RequireDPoP, NoDPoP bool
	// Metadata has the further members of the resource metadata. Resource and AuthorizationServers
	// must be empty. The default of ScopesSupported is Scopes, and that of BearerMethods "header".
	Metadata ResourceMetadata

	// Skew is how much the clock of an issuer may differ. The default is one minute.
	Skew time.Duration
	// Recheck is the interval at which the token of an open stream is verified again; see
	// [Protector.Watch]. The default is one minute. A negative value means never.
	Recheck time.Duration
	// CacheSize limits how many verified tokens are cached. The default is 10,000.
	CacheSize int
	// MaxVerifications limits the tokens that are being verified at once, apart from those of open
	// streams. Nine times as many wait, for up to 10 seconds, and half of all may be of one network of
	// clients: the first 24 bits of an IPv4 address, or 64 of an IPv6 address. Further requests are
	// rejected with status 503. The default is 100.
	//
	// The address of a client is that of the connection, unless that is a loopback or private one,
	// or what ClientAddress of the HTTP handler returns.
	MaxVerifications int
	// CacheTTL is how long a verified token is cached, at most until it expires. A revoked token is
	// accepted until its cache entry ends. The default is that of the verifier; see [Verifier]. A
	// negative value means that tokens are not cached. If tokens are cached, a rejected one is
	// remembered for 5 seconds, among the last 1000.
	CacheTTL time.Duration

	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
	// Logger receives rejected credentials at level debug, and failures of the verifier. If it is
	// nil, warnings and errors go to [slog.Default].
	Logger *slog.Logger
}

// Defaults of [Options].
const (
	defaultSkew      = time.Minute
	defaultRecheck   = time.Minute
	defaultCacheSize = 10_000

	defaultMaxVerifications = 100
)

// Rejected tokens that are remembered: their number, and how long.
const (
	maxRejections = 1000
	rejectionTTL  = 5 * time.Second
)

// Limits of a token: its length and its claims as JSON, in bytes, and the number of its scopes.
const (
	maxToken  = 16 << 10
	maxClaims = 16 << 10
	maxScopes = 100
)

// The authentication schemes.
const (
	schemeBearer = "Bearer"
	schemeDPoP   = "DPoP"
)

// Protector decides which HTTP requests are authorized (MCP basic/authorization). Create it with
// [NewProtector]. Its methods may be called by many goroutines.
type Protector struct {
	c        Options
	proofs   ProofVerifier // nil without DPoP
	audience map[string]bool
	cache    *cache[*Identity] // nil: tokens are not cached
	ttl      time.Duration     // of its entries
	rejects  *cache[error]     // nil without cache
	gate     *gate

	mu      sync.Mutex
	running map[cacheKey]*verification

	origin, path  string // of the resource; the path is "" for the root
	metadata      ResourceMetadata
	metadataURL   string
	metadataText  []byte
	metadataPaths map[string]bool
}

// NewProtector returns a Protector. It fails if the configuration is incomplete or invalid.
func NewProtector(c Options) (*Protector, error) {
	p := &Protector{c: c, audience: map[string]bool{}}
	if err := p.complete(); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	return p, nil
}

// complete checks the configuration, and sets its defaults and the fields derived from it.
func (p *Protector) complete() error {
	c := &p.c
	resource, err := checkURL(c.Resource)
	if err != nil {
		return fmt.Errorf("invalid Resource %q: %w", c.Resource, err)
	}
	canonical, err := authtext.Canonical(c.Resource)
	if err != nil {
		return fmt.Errorf("invalid Resource %q: %w", c.Resource, err)
	}
	if canonical != c.Resource {
		return fmt.Errorf("resource %q is not canonical, want %q", c.Resource, canonical)
	}
	if len(c.Issuers) == 0 {
		return errors.New("no Issuers: for keys that no authorization server has issued, use Principal of HandlerOptions instead of Auth")
	}
	for _, issuer := range c.Issuers {
		if u, err := checkURL(issuer); err != nil {
			return fmt.Errorf("issuer %q: %w", issuer, err)
		} else if u.RawQuery != "" {
			return fmt.Errorf("issuer %q has a query", issuer)
		}
	}
	if c.Verifier == nil {
		return errors.New("no Verifier")
	}
	if err := p.completeDPoP(); err != nil {
		return err
	}
	scopes := slices.Concat(c.Scopes, c.Metadata.ScopesSupported)
	if err := boundary.CheckScopes(scopes); err != nil {
		return err
	}
	if slices.Contains(scopes, "offline_access") {
		return errors.New(`scope "offline_access" is for authorization servers, and a resource cannot require it`)
	}
	if c.Metadata.Resource != "" || c.Metadata.AuthorizationServers != nil {
		return errors.New("Metadata.Resource and Metadata.AuthorizationServers must be empty")
	}
	for _, audience := range append([]string{c.Resource}, c.Audience...) {
		p.audience[audience] = true
		if canonical, err := authtext.Canonical(audience); err == nil {
			p.audience[canonical] = true
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Skew < 0 {
		return fmt.Errorf("negative Skew (%v)", c.Skew)
	}
	if c.CacheSize < 0 {
		return fmt.Errorf("negative CacheSize (%d)", c.CacheSize)
	}
	if c.MaxVerifications < 0 {
		return fmt.Errorf("negative MaxVerifications (%d)", c.MaxVerifications)
	}
	p.gate = newGate(cmp.Or(c.MaxVerifications, defaultMaxVerifications))
	c.Issuers, c.Scopes = slices.Clone(c.Issuers), slices.Clone(c.Scopes)
	c.Skew = cmp.Or(c.Skew, defaultSkew)
	c.Recheck = cmp.Or(c.Recheck, defaultRecheck)
	c.Logger = boundary.Logger(c.Logger)
	p.ttl = c.CacheTTL
	if v, ok := c.Verifier.(interface{ CacheTTL() time.Duration }); ok && p.ttl == 0 {
		p.ttl = v.CacheTTL()
	}
	if p.ttl > 0 {
		p.cache = newCache[*Identity](cmp.Or(c.CacheSize, defaultCacheSize))
		p.rejects = newCache[error](maxRejections)
		p.running = map[cacheKey]*verification{}
	}
	return p.completeMetadata(resource)
}

func (p *Protector) completeDPoP() error {
	verifier, supported := p.c.Verifier.(ProofVerifier)
	switch {
	case p.c.RequireDPoP && p.c.NoDPoP:
		return errors.New("RequireDPoP and NoDPoP exclude each other")
	case p.c.RequireDPoP && !supported:
		return fmt.Errorf("RequireDPoP: verifier %T has no VerifyProof", p.c.Verifier)
	case !p.c.NoDPoP:
		p.proofs = verifier
	}
	return nil
}

// checkURL parses the URL of a server. It fails unless the URL is safe for credentials: https, or
// http to a loopback address.
func checkURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case u.Host == "" || u.User != nil || strings.Contains(text, "#"):
		return nil, errors.New("want an absolute URL without userinfo or fragment")
	case u.Scheme != "https" && !(u.Scheme == "http" && network.IsLoopback(u.Hostname())):
		return nil, errors.New("the scheme is not https, and the host is not a loopback address")
	}
	return u, nil
}

// Authenticate returns the identity of a request. It fails with a [*Denied] unless the request has
// valid credentials with [Options].Scopes.
func (p *Protector) Authenticate(r *http.Request) (*Identity, error) {
	i, err := p.authenticate(r)
	if err == nil {
		err = p.Permit(i)
	}
	if err == nil {
		return i, nil
	}
	denied, ok := errors.AsType[*Denied](err)
	if !ok {
		denied = &Denied{Status: http.StatusInternalServerError, Reason: "internal error", Err: err}
	}
	switch {
	case denied.Err == nil:
	case boundary.Report(p.c.Logger, "verifier panicked", denied.Err):
	case denied.Status >= http.StatusInternalServerError:
		p.c.Logger.Warn("credentials not verified", "error", denied.Err)
	default:
		p.c.Logger.Debug("credentials rejected", "reason", denied.Reason, "error", denied.Err)
	}
	return nil, denied
}

func (p *Protector) authenticate(r *http.Request) (*Identity, error) {
	scheme, token, err := p.token(r)
	if err != nil {
		return nil, err
	}
	key := keyOf(scheme, token)
	i := p.cached(&key)
	var c *Credentials
	if i == nil || scheme == schemeDPoP {
		if c, err = p.credentials(r, scheme, token); err != nil {
			return nil, err
		}
	}
	if i == nil {
		if i, err = p.identifyOnce(r, &key, c); err != nil {
			return nil, err
		}
	}
	bound := i.Thumbprint != ""
	switch {
	case bound && scheme != schemeDPoP:
		return nil, p.deny(http.StatusUnauthorized, schemeDPoP, codeInvalidToken, "the access token is bound to a key, and needs a proof", p.c.Scopes, nil)
	case !bound && scheme == schemeDPoP:
		return nil, p.deny(http.StatusUnauthorized, schemeDPoP, codeInvalidToken, "the access token is not bound to a key", p.c.Scopes, nil)
	case bound:
		if err := p.verifyProof(r.Context(), c, i); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// verifyProof verifies the proof of a request whose token belongs to i.
func (p *Protector) verifyProof(ctx context.Context, c *Credentials, i *Identity) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	if err := p.call(func() error { return p.proofs.VerifyProof(ctx, c, i) }); err != nil {
		return p.rejected(ctx, c, codeInvalidProof, "the DPoP proof is invalid", err)
	}
	return nil
}

// token returns the scheme and the token of a request.
func (p *Protector) token(r *http.Request) (scheme, token string, err error) {
	malformed := func(reason string) (string, string, error) {
		return "", "", p.deny(http.StatusBadRequest, p.scheme(), codeInvalidRequest, reason, p.c.Scopes, nil)
	}
	if r.URL.RawQuery != "" && r.URL.Query().Has("access_token") {
		return malformed("the URL has an access token")
	}
	values := r.Header["Authorization"]
	switch len(values) {
	case 0:
		return "", "", p.deny(http.StatusUnauthorized, p.scheme(), "", "no access token", p.c.Scopes, nil)
	case 1:
	default:
		return malformed("more than one Authorization header")
	}
	scheme, token, _ = strings.Cut(values[0], " ")
	switch {
	case strings.EqualFold(scheme, schemeBearer) && !p.c.RequireDPoP:
		scheme = schemeBearer
	case strings.EqualFold(scheme, schemeDPoP) && p.proofs != nil:
		scheme = schemeDPoP
	default:
		return "", "", p.deny(http.StatusUnauthorized, p.scheme(), "", "the authentication scheme is not "+p.scheme(), p.c.Scopes, nil)
	}
	token = strings.Trim(token, " ")
	if !authtext.IsToken68(token) {
		return malformed("the Authorization header is malformed")
	}
	if len(token) > maxToken {
		return "", "", p.deny(http.StatusUnauthorized, scheme, codeInvalidToken, fmt.Sprintf("the access token has more than %d bytes", maxToken), p.c.Scopes, nil)
	}
	return scheme, token, nil
}

// credentials returns the credentials of a request with the given scheme and token.
func (p *Protector) credentials(r *http.Request, scheme, token string) (*Credentials, error) {
	c := &Credentials{Scheme: scheme, Token: NewSecret(token), Method: r.Method, URL: p.urlOf(r)}
	if scheme == schemeDPoP {
		proofs := r.Header["Dpop"]
		if len(proofs) != 1 || len(proofs[0]) > maxToken {
			return nil, p.deny(http.StatusUnauthorized, schemeDPoP, codeInvalidProof, "want one DPoP header with a proof", p.c.Scopes, nil)
		}
		c.Proof = proofs[0]
	}
	return c, nil
}

// scheme returns the scheme of challenges for requests without usable credentials.
func (p *Protector) scheme() string {
	if p.c.RequireDPoP {
		return schemeDPoP
	}
	return schemeBearer
}

// urlOf returns the URL to which the client sent a request. A proxy may have removed a prefix of
// the path.
func (p *Protector) urlOf(r *http.Request) string {
	path := r.URL.EscapedPath()
	if p.path == path || path == "/" || strings.HasSuffix(p.path, path) && strings.HasPrefix(path, "/") {
		return p.c.Resource
	}
	return p.origin + path
}

// cached returns the identity of a token from the cache, or nil.
func (p *Protector) cached(key *cacheKey) *Identity {
	if p.cache == nil {
		return nil
	}
	return p.cache.get(key, p.c.Now())
}

// verification is a running verification of a token, which concurrent requests share.
type verification struct {
	done     chan struct{} // closed when the verification has ended
	identity *Identity     // nil if the verification failed
	err      error         // both are nil if the verifying request was canceled
}

// identifyOnce is identify, but with a cache, concurrent requests with one token share a
// verification.
func (p *Protector) identifyOnce(r *http.Request, key *cacheKey, c *Credentials) (*Identity, error) {
	if p.cache == nil {
		return p.identifyNext(r, key, c)
	}
	if err := p.rejects.get(key, p.c.Now()); err != nil {
		return nil, err
	}
	ctx := r.Context()
	for {
		p.mu.Lock()
		v := p.running[*key]
		if v == nil {
			v = &verification{done: make(chan struct{})}
			p.running[*key] = v
			p.mu.Unlock()
			return p.run(r, v, key, c)
		}
		p.mu.Unlock()
		select {
		case <-v.done:
		case <-ctx.Done():
			return nil, p.rejected(ctx, c, codeInvalidToken, "", context.Cause(ctx))
		}
		if v.identity != nil || v.err != nil {
			return v.identity, v.err
		}
	}
}

// run verifies a token for all requests that wait for v.
func (p *Protector) run(r *http.Request, v *verification, key *cacheKey, c *Credentials) (*Identity, error) {
	defer func() {
		p.mu.Lock()
		delete(p.running, *key)
		p.mu.Unlock()
		close(v.done)
	}()
	i, err := p.identifyNext(r, key, c)
	if r.Context().Err() == nil || err == nil {
		v.identity, v.err = i, err
	}
	return i, err
}

// identifyNext is identify, after other verifications if many are running.
func (p *Protector) identifyNext(r *http.Request, key *cacheKey, c *Credentials) (*Identity, error) {
	from := network.From(r.Context())
	if from == "" {
		from = network.Of(r, nil)
	}
	if !p.gate.enter(r.Context(), from) {
		return nil, errBusy
	}
	defer p.gate.leave(from)
	ctx, cancel := context.WithTimeout(r.Context(), verifyTimeout)
	defer cancel()
	return p.identify(ctx, key, c)
}

// identify verifies a token, updates the cache, and returns the identity.
func (p *Protector) identify(ctx context.Context, key *cacheKey, c *Credentials) (*Identity, error) {
	i, until, err := p.verify(ctx, c)
	switch {
	case p.cache == nil:
	case err == nil:
		p.cache.put(key, i, until)
	case !errors.Is(err, ErrUnavailable):
		p.cache.remove(key)
		if d, ok := err.(*Denied); ok && d.Status == http.StatusUnauthorized && d.nonce == "" {
			p.rejects.put(key, err, p.c.Now().Add(rejectionTTL))
		}
	}
	return i, err
}

// verify verifies a token. It returns the identity, and the time until which it may be cached.
func (p *Protector) verify(ctx context.Context, c *Credentials) (i *Identity, until time.Time, err error) {
	reject := func(reason string, cause error) (*Identity, time.Time, error) {
		return nil, until, p.deny(http.StatusUnauthorized, c.Scheme, codeInvalidToken, reason, p.c.Scopes, cause)
	}
	var found *Identity
	err = p.call(func() (err error) {
		found, err = p.c.Verifier.Verify(ctx, c)
		return err
	})
	switch {
	case err != nil:
		return nil, until, p.rejected(ctx, c, codeInvalidToken, "the access token is invalid", err)
	case found == nil:
		return reject("the access token is invalid", fmt.Errorf("verifier %T returned no identity", p.c.Verifier))
	}
	i = new(*found)
	if i.Issuer == "" && len(p.c.Issuers) == 1 {
		i.Issuer = p.c.Issuers[0]
	}
	if !slices.Contains(p.c.Issuers, i.Issuer) {
		return reject("the access token is of another issuer", fmt.Errorf("issuer %.200q", i.Issuer))
	}
	if !slices.ContainsFunc(i.Audience, p.accepts) {
		return reject("the access token is for another audience", fmt.Errorf("audience %.200q", i.Audience))
	}
	now := p.c.Now()
	until = now.Add(p.ttl)
	if !i.Expiry.IsZero() {
		end := i.Expiry.Add(p.c.Skew)
		if !now.Before(end) {
			return reject("the access token has expired", fmt.Errorf("expired at %v", i.Expiry))
		}
		if end.Before(until) {
			until = end
		}
	}
	if len(i.Scopes) > maxScopes {
		return reject("the access token has too many scopes", nil)
	}
	if i.implied, err = p.implied(i.Scopes); err != nil {
		return nil, until, err
	}
	if len(i.Claims) > 0 {
		if text, err := json.Marshal(i.Claims); err != nil || len(text) > maxClaims {
			return reject("the access token has too many claims", err)
		}
	}
	i.Principal, err = principalOf(i)
	if p.c.Principal != nil {
		err = p.call(func() (err error) {
			i.Principal, err = p.c.Principal(i)
			return err
		})
	}
	if boundary.Report(p.c.Logger, "Principal panicked", err) {
		return nil, until, err
	}
	if err != nil || i.Principal == "" || len(i.Principal) > maxPrincipal {
		return reject("the access token names no principal", err)
	}
	return i, until, nil
}

// accepts reports whether a token with the given audience is for this server.
func (p *Protector) accepts(audience string) bool {
	if p.audience[audience] {
		return true
	}
	canonical, err := authtext.Canonical(audience)
	return err == nil && p.audience[canonical]
}

// implied returns the scopes that the granted scopes imply, directly or through others.
func (p *Protector) implied(granted []string) (all []string, err error) {
	if p.c.Imply == nil {
		return nil, nil
	}
	defer boundary.Catch(&err)
	for next := granted; len(next) > 0; {
		var more []string
		for _, scope := range next {
			for _, s := range p.c.Imply(scope) {
				if !slices.Contains(granted, s) && !slices.Contains(all, s) {
					all, more = append(all, s), append(more, s)
				}
			}
		}
		next = more
	}
	return all, nil
}

// call calls a function of the configuration, and returns a panic of it as an error.
func (p *Protector) call(f func() error) (err error) {
	defer boundary.Catch(&err)
	return f()
}

// rejected returns the Denied for credentials for which the verifier failed with err.
func (p *Protector) rejected(ctx context.Context, c *Credentials, code, reason string, err error) error {
	if _, ok := err.(*boundary.Panic); ok {
		return &Denied{Status: http.StatusInternalServerError, Reason: "internal error", Err: err}
	}
	if ctx.Err() != nil || errors.Is(err, ErrUnavailable) || isTimeout(err) {
		if !errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return &Denied{Status: http.StatusServiceUnavailable, Reason: "the access token cannot be verified at the moment", Err: err}
	}
	if e, ok := errors.AsType[*NonceError](err); ok {
		d := p.deny(http.StatusUnauthorized, schemeDPoP, codeUseNonce, "the DPoP proof needs a nonce", p.c.Scopes, nil)
		d.nonce = e.Nonce
		return d
	}
	return p.deny(http.StatusUnauthorized, c.Scheme, code, reason, p.c.Scopes, err)
}

// isTimeout reports whether err is a timeout of a network operation.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// Permit returns nil if the identity has [Options].Scopes and all further scopes. Otherwise, it
// returns a [*Denied] with status 403. Its challenge names all of these scopes.
func (p *Protector) Permit(i *Identity, further ...string) error {
	if i.HasScopes(p.c.Scopes...) && i.HasScopes(further...) {
		return nil
	}
	scopes := slices.Clone(p.c.Scopes)
	for _, scope := range further {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	scheme := schemeBearer
	if i.Thumbprint != "" {
		scheme = schemeDPoP
	}
	return p.deny(http.StatusForbidden, scheme, codeInsufficientScope, "the access token has too few scopes", scopes, nil)
}
