// Package oidclogin logs in users at the identity provider of an enterprise with OpenID Connect. It
// provides the ID token for the grant machine.Enterprise.
//
//	login, err := oidclogin.New(oidclogin.Options{
//		Issuer: "https://idp.example.com", Client: client, User: loopback.New(nil),
//	})
//	grant := machine.Enterprise(machine.EnterpriseOptions{
//		IDP: "https://idp.example.com", TokenEndpoint: "https://idp.example.com/token",
//		Client: client, IDToken: login.IDToken,
//	})
//
// FromOAuth2 and ToOAuth2 convert between the token sources of package oauth and
// golang.org/x/oauth2.
package oidclogin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// early is how long before its expiry an ID token is replaced.
const early = time.Minute

// Options configures a Login.
type Options struct {
	Issuer string // of the identity provider; required
	// Client is the registration at the identity provider. Secret may be empty. Auth must be nil.
	// RedirectURIs are passed to User. Issuer is ignored.
	Client oauth.Client
	User   oauth.UserAgent // shows the login page to the user; required
	Scopes []string        // requested in addition to openid
	// HTTP provides the transport of requests to the identity provider. The default is that of
	// http.DefaultClient. A request ends after 10 seconds, follows no redirects, and reads up to 1
	// MiB.
	HTTP *http.Client
}

// Login logs in one user, and keeps the ID token in memory. It is safe for concurrent use.
type Login struct {
	config Options
	http   *http.Client
	policy *fetch.Client // checks the URLs in the metadata of the identity provider
	busy   chan struct{} // a mutex that can be waited for with a context; guards the fields below
	token  auth.Secret
	expiry time.Time
}

// New returns a Login. It sends no requests.
func New(c Options) (*Login, error) {
	issuer, err := url.Parse(c.Issuer)
	switch {
	case err != nil || issuer.Hostname() == "":
		return nil, errors.New("oidclogin: Issuer is not an absolute URL")
	case c.Client.ID == "":
		return nil, errors.New("oidclogin: no Client.ID")
	case c.Client.Auth != nil:
		return nil, fmt.Errorf("oidclogin: Client.Auth (%q) is not supported", c.Client.Auth.Method())
	case c.User == nil:
		return nil, errors.New("oidclogin: no User")
	}
	policy := fetch.New(nil, fetch.Network{}).For(issuer)
	if err := policy.CheckEndpoint(c.Issuer); err != nil {
		return nil, fmt.Errorf("oidclogin: Issuer: %w", err)
	}
	transport := http.DefaultTransport
	if c.HTTP != nil && c.HTTP.Transport != nil {
		transport = c.HTTP.Transport
	}
	limited := &http.Client{
		Transport:     limit{transport, policy},
		Timeout:       fetch.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Login{config: c, http: limited, policy: policy, busy: make(chan struct{}, 1)}, nil
}

// IDToken returns a verified ID token of the user. The user logs in for the first token, and again
// when the token is about to expire. Concurrent calls share one login.
func (l *Login) IDToken(ctx context.Context) (auth.Secret, error) {
	select {
	case l.busy <- struct{}{}:
	case <-ctx.Done():
		return auth.Secret{}, context.Cause(ctx)
	}
	defer func() { <-l.busy }()
	if time.Now().Before(l.expiry.Add(-early)) {
		return l.token, nil
	}
	token, expiry, err := l.login(ctx)
	if err != nil {
		return auth.Secret{}, fmt.Errorf("oidclogin: %q: %w", l.config.Issuer, err)
	}
	l.token, l.expiry = token, expiry
	return token, nil
}

// Forget drops the ID token. The user must log in for the next one.
func (l *Login) Forget() {
	l.busy <- struct{}{}
	l.token, l.expiry = auth.Secret{}, time.Time{}
	<-l.busy
}

func (l *Login) login(ctx context.Context) (auth.Secret, time.Time, error) {
	fail := func(err error) (auth.Secret, time.Time, error) { return auth.Secret{}, time.Time{}, err }
	ctx = oidc.ClientContext(ctx, l.http)
	provider, err := oidc.NewProvider(ctx, l.config.Issuer)
	if err != nil {
		return fail(fmt.Errorf("discovery: %w", brief(err)))
	}
	var metadata auth.ServerMetadata
	if err := provider.Claims(&metadata); err != nil {
		return fail(fmt.Errorf("discovery: %w", brief(err)))
	}
	if err := l.policy.CheckEndpoint(metadata.AuthorizationEndpoint); err != nil {
		return fail(fmt.Errorf("authorization endpoint: %w", err))
	}
	redirect, err := l.config.User.Begin(ctx, l.config.Client.RedirectURIs)
	if err != nil {
		return fail(err)
	}
	defer redirect.Close()
	flow := l.flow(provider.Endpoint(), &metadata, redirect.URI())
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	is := func(other string) bool { return subtle.ConstantTimeCompare([]byte(state), []byte(other)) == 1 }
	answer, err := redirect.Wait(ctx, flow.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), is)
	if err != nil {
		return fail(err)
	}
	if !is(answer.Get("state")) {
		return fail(errors.New("redirect has another state"))
	}
	// The issuer is checked before the rest of the response (RFC 9207, section 2.4), because an error
	// may be of another issuer, too.
	if issuer := answer.Get("iss"); issuer != l.config.Issuer && (issuer != "" || metadata.IssParameter) {
		return fail(fmt.Errorf("redirect of issuer %q", fetch.Printable(issuer)))
	}
	if code := answer.Get("error"); code != "" {
		return fail(fmt.Errorf("login failed: %s", fetch.Printable(code)))
	}
	if answer.Get("code") == "" {
		return fail(errors.New("redirect has no code"))
	}
	token, err := flow.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return fail(fmt.Errorf("token endpoint: %w", brief(err)))
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return fail(errors.New("token response has no id_token"))
	}
	verified, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: l.config.Client.ID}).Verify(ctx, raw)
	if err != nil {
		return fail(fmt.Errorf("ID token: %w", brief(err)))
	}
	if verified.Nonce != nonce {
		return fail(errors.New("ID token: nonce of another login"))
	}
	return auth.NewSecret(raw), verified.Expiry, nil
}

func (l *Login) flow(endpoint oauth2.Endpoint, metadata *auth.ServerMetadata, redirect string) *oauth2.Config {
	client := &l.config.Client
	offered := metadata.TokenEndpointAuthMethods
	// By default, package oauth2 tries both styles, and may send the secret twice.
	switch endpoint.AuthStyle = oauth2.AuthStyleInHeader; {
	case client.Secret.Empty(), client.Method == "client_secret_post", client.Method == "" && len(offered) > 0 &&
		!slices.Contains(offered, "client_secret_basic"):
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: client.ID, ClientSecret: client.Secret.Reveal(), Endpoint: endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, l.config.Scopes...),
	}
}

// brief removes the text of responses, which some errors of the libraries quote.
func brief(err error) error {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("status %d: %s", e.Response.StatusCode, cmp.Or(fetch.Printable(e.ErrorCode), "no error code"))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%s: %w", fetch.Show(e.URL), e.Err)
	}
	return errors.New(fetch.Printable(err.Error()))
}

// limit is a transport that limits the size of responses, and rejects URLs that policy does not
// allow.
type limit struct {
	next   http.RoundTripper
	policy *fetch.Client
}

func (t limit) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.policy.CheckEndpoint(req.URL.String()); err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil {
		resp.Body = &limited{resp.Body, fetch.MaxMetadata}
	}
	return resp, err
}

type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fetch.ErrTooLarge
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
