package oauth

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

const offlineAccess = "offline_access"

// flow is one attempt to obtain a token.
type flow struct {
	s           *server
	challenge   challenge
	rejected    *grantedToken // the token that the server rejected or that is stale; nil without a token
	user        bool          // whether the user may be asked
	login       bool          // whether it was started by Login
	keep        bool          // whether the token is valid and only lacks scopes
	skipRefresh bool          // whether a refresh cannot help

	endpoints  *endpoint
	binding    binding // to be stored
	supported  []string
	dpop       bool
	registered bool // whether the client comes from dynamic registration
}

// mayAsk reports whether the flow can ask the user.
func (f *flow) mayAsk() bool {
	c := f.s.a.config
	return f.user && (c.Grant == nil && c.User != nil || c.Grant != nil && c.Grant.NeedsUser())
}

// fault wraps err in an Error with the server and issuer of the flow, unless it is one already.
func (f *flow) fault(op string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Op: op, Server: f.s.canonical, Issuer: f.binding.Issuer, Err: err}
}

// run obtains a token. It tries in order: a token stored by another process, a refresh, the grant.
func (f *flow) run(ctx context.Context) error {
	s := f.s
	if !f.login {
		rejected := ""
		if f.rejected != nil {
			rejected = f.rejected.Access.Reveal()
		}
		if found, err := s.reload(ctx, rejected); found || err != nil {
			return f.fault("authorize", err)
		}
	}
	if (f.rejected == nil || f.skipRefresh) && !f.mayAsk() && !s.a.quiet() {
		return f.fault("authorize", ErrLoginNeeded)
	}
	old, err := f.discover(ctx)
	if err != nil {
		return f.fault("discover", err)
	}
	if f.rejected != nil && !f.skipRefresh && old.Issuer == f.binding.Issuer && !f.rejected.Refresh.Empty() {
		done, err := f.refresh(ctx, old.Issuer)
		if done || err != nil {
			return f.fault("refresh", err)
		}
	}
	if !s.a.quiet() && !f.mayAsk() {
		return f.fault("authorize", ErrLoginNeeded)
	}
	s.mu.Lock()
	allowed := f.login || count(&s.flows, maxFlows, window)
	if f.keep {
		f.challenge.scopes = slices.Concat(f.challenge.scopes, s.demanded)
		s.demanded = nil
	}
	s.mu.Unlock()
	if !allowed {
		return f.fault("authorize", fmt.Errorf("%w: %d flows in %v", ErrBackoff, maxFlows, window))
	}
	return f.fault("authorize", f.authorize(ctx, old))
}

// renew replaces a stale token. It does not request the resource metadata of the server.
func (f *flow) renew(ctx context.Context) error {
	var done bool
	var err error
	if !f.rejected.Refresh.Empty() {
		done, err = f.refresh(ctx, "")
	}
	f.s.mu.Lock()
	f.binding = f.s.binding
	f.s.mu.Unlock()
	switch {
	case done || err != nil:
		return f.fault("refresh", err)
	case !f.s.a.quiet():
		return f.fault("authorize", ErrLoginNeeded)
	}
	return f.fault("authorize", f.authorize(ctx, f.binding))
}

// discover determines the issuer and the resource, and returns the previous binding of the server.
func (f *flow) discover(ctx context.Context) (old binding, err error) {
	s := f.s
	s.mu.Lock()
	old = s.binding
	m := s.resource
	again := f.rejected != nil && !f.keep
	if m != nil && (f.login || again || f.challenge.metadata != "" && f.challenge.metadata != s.found || time.Since(s.foundAt) > window) {
		m = nil
	}
	allowed := m != nil || !again || count(&s.lookups, maxLookups, time.Minute)
	advertised := cmp.Or(f.challenge.metadata, s.found)
	s.mu.Unlock()
	if !allowed {
		return old, fmt.Errorf("%w: the server has rejected %d tokens in a minute", ErrBackoff, maxLookups)
	}
	if m == nil {
		m, err = discoverResource(ctx, s.fetch, s.url, advertised)
		if errors.Is(err, errNoMetadata) {
			if s.a.config.Issuer == "" {
				return old, fmt.Errorf("%w: set Options.Issuer for a server without metadata", err)
			}
			m, err = &auth.ResourceMetadata{Resource: s.canonical, AuthorizationServers: []string{s.a.config.Issuer}}, nil
		}
		if err != nil {
			return old, err
		}
		s.mu.Lock()
		s.resource, s.found, s.foundAt = m, advertised, time.Now()
		s.mu.Unlock()
	}
	f.supported, f.dpop = m.ScopesSupported, m.DPoPRequired
	f.binding.Resource = m.Resource
	f.binding.Issuer, err = f.chooseIssuer(ctx, m.AuthorizationServers, old.Issuer)
	return old, err
}

func (f *flow) chooseIssuer(ctx context.Context, issuers []string, old string) (string, error) {
	c := f.s.a.config
	if len(issuers) == 0 && c.Issuer != "" {
		issuers = []string{c.Issuer}
	}
	if c.ChooseIssuer == nil && f.s.a.quiet() && slices.ContainsFunc(issuers, c.names) {
		issuers = slices.DeleteFunc(slices.Clone(issuers), func(issuer string) bool { return !c.names(issuer) })
	}
	switch {
	case len(issuers) == 0:
		return "", errors.New("the resource metadata names no authorization server")
	case c.ChooseIssuer != nil:
		issuer, err := c.ChooseIssuer(ctx, slices.Clone(issuers))
		if err == nil && !slices.Contains(issuers, issuer) {
			err = fmt.Errorf("%w: ChooseIssuer returned %q", ErrIssuer, fetch.Printable(issuer))
		}
		return issuer, err
	case slices.Contains(issuers, old):
		return old, nil
	}
	return issuers[0], nil
}

// endpoint returns the endpoints of the issuer of b.
func (f *flow) endpoint(ctx context.Context, b binding) (*endpoint, error) {
	a := f.s.a
	m, err := a.shared.issuer(ctx, f.s.fetch, b.Issuer)
	if err == nil {
		err = checkEndpoints(f.s.fetch, b.Issuer, m.TokenEndpoint)
	}
	if err != nil {
		return nil, &Error{Op: "discover", Server: f.s.canonical, Issuer: b.Issuer, Err: err}
	}
	return &endpoint{fetch: f.s.fetch, metadata: m, resource: b.Resource, nonces: &a.shared.nonces}, nil
}

// tokenEndpoint returns the endpoints of the issuer of t, for the client of t. b is the binding of
// t.
func (f *flow) tokenEndpoint(ctx context.Context, b binding, t *grantedToken) (*endpoint, error) {
	b.Issuer = t.issuer
	e, err := f.endpoint(ctx, b)
	if err != nil {
		return nil, err
	}
	if e.client, err = f.s.a.knownClient(ctx, t.client); err != nil {
		return nil, err
	}
	e.scopes = t.Scopes
	if t.Type == "DPoP" {
		e.prover, e.key = f.s.a.config.Prover, t.Key
	}
	return e, nil
}

// knownClient returns the configured client with the id and the issuer of c, or c if there is no
// such client. A configured client may have Auth, which is not stored.
func (a *Authorizer) knownClient(ctx context.Context, c *Client) (*Client, error) {
	if c == nil {
		return nil, nil
	}
	for _, known := range a.config.Clients {
		if known.ID != c.ID {
			continue
		}
		if known.Issuer == "*" {
			// Another issuer may have registered a client with this id.
			var b binding
			if _, err := get(ctx, a.config.Store, boundKey(known.ID), &b); err != nil && !errors.Is(err, errMalformed) {
				return nil, err
			}
			known = known.at(b.Issuer)
		}
		if known.Issuer == c.Issuer {
			return &known, nil
		}
	}
	return c, nil
}

// refresh exchanges the refresh token at the issuer that issued it. It returns false without an
// error if there is none that is still valid, or if it is not of the expected issuer, unless that
// is "": another process may have logged in at another issuer meanwhile.
func (f *flow) refresh(ctx context.Context, expected string) (bool, error) {
	s := f.s
	unlock, err := s.store().Lock(ctx, s.serverKey())
	if err != nil {
		return false, err
	}
	defer unlock()
	if found, err := s.reload(ctx, f.rejected.Access.Reveal()); found || err != nil {
		return found, err
	}
	s.mu.Lock()
	b, old := s.binding, s.token
	s.mu.Unlock()
	if old == nil || old.Refresh.Empty() || expected != "" && old.issuer != expected {
		return false, nil
	}
	issuer := old.issuer
	e, err := f.tokenEndpoint(ctx, b, old)
	if err != nil {
		return false, err
	}
	now := time.Now()
	t, err := e.exchange(ctx, "refresh", url.Values{"grant_type": {"refresh_token"}}, secrets{"refresh_token": old.Refresh})
	switch code(err) {
	case "":
		if errors.Is(err, auth.ErrRecipient) { // the metadata of the issuer names another endpoint now
			s.a.config.Logger.Warn("token not refreshed", "server", s.canonical, "issuer", issuer, "error", err)
			return false, s.forget(ctx, old)
		}
		if err != nil {
			return false, err
		}
	case "invalid_client", "unauthorized_client":
		return false, errors.Join(s.store().Delete(ctx, clientKey(issuer)), s.forget(ctx, old))
	case "invalid_grant", "invalid_scope", "invalid_target":
		return false, s.forget(ctx, old)
	default:
		return false, err
	}
	if t.Refresh.Empty() {
		t.Refresh = old.Refresh
	}
	b.Issuer = issuer
	err = s.save(ctx, b, &grantedToken{Token: *t, issuer: issuer, endpoint: e.metadata.TokenEndpoint, issued: now, client: old.client, refreshed: true, fresh: true})
	s.a.config.Logger.Debug("token refreshed", "server", s.canonical, "issuer", issuer)
	return err == nil, err
}

// authorize obtains a token from the grant.
func (f *flow) authorize(ctx context.Context, old binding) error {
	s, c := f.s, f.s.a.config
	if s.a.quiet() && !c.Grant.NeedsClient() && !c.names(f.binding.Issuer) {
		// Such a grant may present a credential, and the server has named the issuer.
		return fmt.Errorf("%w: a grant without a user needs an issuer that Options.Issuer or Options.Clients names", ErrIssuer)
	}
	e, err := f.endpoint(ctx, f.binding)
	if err != nil {
		return err
	}
	f.endpoints = e
	e.scopes = f.scopes(old)
	bound := f.rejected != nil && f.rejected.Type == "DPoP"
	if p := c.Prover; p != nil && (c.RequireDPoP || bound || f.dpop || f.challenge.dpop || slices.Contains(e.metadata.DPoPAlgorithms, p.Algorithm())) {
		e.prover = p
		if e.key, err = p.NewKey(); err != nil {
			return err
		}
	}
	var t *Token
	now := time.Now()
	if c.Grant == nil {
		t, err = f.authorizationCode(ctx, old)
	} else {
		if c.Grant.NeedsClient() {
			if e.client, err = f.client(ctx, old, ""); err != nil {
				return err
			}
		}
		t, err = c.Grant.Token(ctx, e.target())
	}
	if code(err) == "invalid_scope" && old.Scopes != nil {
		// The scopes of earlier requests no longer exist: the next flow begins without them.
		old.Scopes = nil
		s.mu.Lock()
		s.binding = old
		s.mu.Unlock()
		return errors.Join(err, put(ctx, c.Store, s.serverKey(), old))
	}
	if err != nil {
		return err
	}
	if c.RequireDPoP && t.Type != "DPoP" {
		return errors.New("the authorization server issued a bearer token, but Options.RequireDPoP is set")
	}
	f.binding.Scopes = e.scopes
	unlock, err := s.store().Lock(ctx, s.serverKey())
	if err != nil {
		return err
	}
	defer unlock()
	s.a.config.Logger.Info("token obtained", "server", s.canonical, "issuer", f.binding.Issuer, "scopes", t.Scopes)
	return s.save(ctx, f.binding, &grantedToken{Token: *t, issuer: f.binding.Issuer, endpoint: e.metadata.TokenEndpoint, issued: now, client: e.client, fresh: true})
}

// scopes returns the scopes to request, or nil to omit the parameter.
func (f *flow) scopes(old binding) []string {
	c, m := f.s.a.config, f.endpoints.metadata
	offline := slices.Contains(m.ScopesSupported, offlineAccess)
	var scopes []string
	add := func(more ...string) {
		for _, scope := range more {
			if scope != "" && !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	if old.Issuer == f.binding.Issuer && !f.login {
		add(old.Scopes...)
	}
	add(f.challenge.scopes...)
	if len(scopes) == 0 {
		for _, scope := range f.supported {
			if scope != offlineAccess || offline {
				add(scope)
			}
		}
	}
	add(c.Scopes...)
	if len(scopes) > 0 && offline && !c.NoOffline && !f.s.a.quiet() {
		add(offlineAccess)
	}
	return scopes
}

// authorizationCode obtains a token with the authorization code grant and PKCE (MCP
// basic/authorization).
func (f *flow) authorizationCode(ctx context.Context, old binding) (*Token, error) {
	e := f.endpoints
	m := e.metadata
	switch {
	case !slices.Contains(m.CodeChallengeMethods, "S256"):
		return nil, errors.New("authorization server does not offer PKCE with S256")
	case m.AuthorizationEndpoint == "":
		return nil, errors.New("the metadata has no authorization_endpoint")
	}
	if err := checkEndpoints(e.fetch, m.AuthorizationEndpoint); err != nil {
		return nil, err
	}
	if err := f.checkMixUp(); err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		t, err := f.askUser(ctx, old)
		failed := code(err)
		if failed != "invalid_client" && failed != "unauthorized_client" || !f.registered {
			return t, err
		}
		// The authorization server has deleted the registration.
		if fault := f.unregister(ctx); fault != nil || attempt > 0 {
			return nil, errors.Join(err, fault)
		}
	}
}

// checkMixUp checks that the code comes from the party that gets it. If responses name their issuer
// (RFC 9207), checkAnswer finds out. Otherwise, hostile metadata could send the user to the page of
// another authorization server and the code to its own token endpoint, so both endpoints must have
// the same origin. The caller is trusted to name issuers with endpoints elsewhere.
func (f *flow) checkMixUp() error {
	m := f.endpoints.metadata
	if m.IssParameter || f.s.a.config.names(m.Issuer) {
		return nil
	}
	authorization, err := url.Parse(m.AuthorizationEndpoint)
	if err != nil {
		return err
	}
	token, err := url.Parse(m.TokenEndpoint)
	if err != nil {
		return err
	}
	if sameOrigin(authorization, token) {
		return nil
	}
	return fmt.Errorf("%w: the authorization endpoint is at %s, the token endpoint at %s, and responses do not name their issuer; "+
		"to trust the issuer, name it in Options", ErrIssuer, fetch.Printable(authorization.Host), fetch.Printable(token.Host))
}

// askUser sends the user to the authorization endpoint and redeems the code.
func (f *flow) askUser(ctx context.Context, old binding) (*Token, error) {
	c, e := f.s.a.config, f.endpoints
	m := e.metadata
	known, err := f.knownRedirects(ctx)
	if err != nil {
		return nil, err
	}
	redirect, err := c.User.Begin(ctx, known)
	if err != nil {
		return nil, err
	}
	defer redirect.Close()
	if err := checkRedirectURI(redirect.URI()); err != nil {
		return nil, err
	}
	if e.client, err = f.client(ctx, old, redirect.URI()); err != nil {
		return nil, err
	}
	// The response and the exchange are checked against these values.
	verifier, state, issuer := random(32), random(16), m.Issuer
	sum := sha256.Sum256([]byte(verifier))
	u, err := url.Parse(m.AuthorizationEndpoint)
	if err != nil {
		return nil, err
	}
	query := u.Query()
	for name, value := range map[string]string{
		"response_type":         "code",
		"client_id":             e.client.ID,
		"redirect_uri":          redirect.URI(),
		"state":                 state,
		"code_challenge":        base64.RawURLEncoding.EncodeToString(sum[:]),
		"code_challenge_method": "S256",
		"resource":              e.resource,
	} {
		query.Set(name, value)
	}
	if len(e.scopes) > 0 {
		query.Set("scope", strings.Join(e.scopes, " "))
	}
	if slices.Contains(e.scopes, offlineAccess) {
		query.Set("prompt", "consent") // OpenID Connect Core 1.0, section 11
	}
	u.RawQuery = query.Encode()
	answer, err := f.wait(ctx, redirect, u.String(), state)
	if err != nil {
		return nil, err
	}
	authorizationCode, err := checkAnswer(answer, state, issuer, m.IssParameter)
	if err != nil {
		return nil, err
	}
	from := m.AuthorizationEndpoint // has issued the code, unless the response names the issuer
	if answer.Has("iss") || c.names(issuer) {
		from = m.TokenEndpoint
	}
	return e.exchange(ctx, "exchange", url.Values{"grant_type": {"authorization_code"}, "redirect_uri": {redirect.URI()}}, secrets{
		"code":          auth.NewSecret(authorizationCode).For(from),
		"code_verifier": auth.NewSecret(verifier).For(from),
	})
}

// wait waits for the redirect.
func (f *flow) wait(ctx context.Context, redirect Redirect, authorizationURL, state string) (url.Values, error) {
	c := f.s.a.config
	limited, cancel := context.WithTimeout(ctx, c.LoginTimeout)
	defer cancel()
	answer, err := redirect.Wait(limited, authorizationURL, func(got string) bool { return equal(got, state) })
	if err == nil {
		return answer, nil
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		err = fmt.Errorf("the login was canceled: %w", ctx.Err())
	case limited.Err() != nil:
		err = fmt.Errorf("the user did not authorize within %v: %w", c.LoginTimeout, limited.Err())
		// The authorization server may have deleted the registration. It reports that error only to
		// the user, on a page.
		err = errors.Join(err, f.unregister(context.WithoutCancel(ctx)))
	}
	return nil, &userError{err}
}

// userError is the error of a flow that the user has not completed.
type userError struct{ err error }

func (e *userError) Error() string { return e.err.Error() }
func (e *userError) Unwrap() error { return e.err }

// random returns n random bytes in base64url.
func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// checkAnswer checks an authorization response and returns its code (RFC 6749, section 4.1.2, and
// RFC 9207, section 2.4). It ignores all other parameters if the state or the issuer is wrong.
func checkAnswer(answer url.Values, state, issuer string, issRequired bool) (string, error) {
	if got := answer["state"]; len(got) != 1 || !equal(got[0], state) {
		return "", errors.New("the authorization response has no state, or a wrong one")
	}
	switch got := answer["iss"]; {
	case len(got) == 0 && issRequired:
		return "", fmt.Errorf("%w: the authorization response has no iss, want %q", ErrIssuer, fetch.Printable(issuer))
	case len(got) > 1 || len(got) == 1 && got[0] != issuer:
		return "", fmt.Errorf("%w: the authorization response has iss %q, want %q", ErrIssuer, fetch.Printable(got[0]), fetch.Printable(issuer))
	}
	if answer.Has("error") {
		e := &Error{Op: "authorize", Issuer: issuer, Code: fetch.Printable(answer.Get("error")), Description: fetch.Printable(answer.Get("error_description"))}
		if e.Code == "access_denied" {
			e.Err = ErrDenied
		}
		return "", e
	}
	if got := answer["code"]; len(got) != 1 || got[0] == "" {
		return "", errors.New("the authorization response has no code")
	}
	return answer.Get("code"), nil
}
