// Package provider protects a server with an identity provider that does not register MCP clients,
// for example because an operator registers each application by hand. A [Proxy] is an authorization
// server in front of this upstream provider. It registers clients, asks the user to consent to each
// client, sends the user to the provider to log in, and issues its own tokens. Clients never get a
// token of the provider, and the provider never gets a token of a client.
//
//	proxy, err := provider.New(provider.Options{
//		Issuer: "https://mcp.example.com", Resource: "https://mcp.example.com/mcp", Name: "Example",
//		Upstream: provider.Upstream{…},
//	})
//	protector, err := auth.NewProtector(auth.Options{
//		Resource: "https://mcp.example.com/mcp", Issuers: []string{"https://mcp.example.com"}, Verifier: proxy,
//	})
//	http.Handle("/", proxy.Handler(protector.Handler(…)))
//
// Register the URI that [Proxy.RedirectURI] returns at the provider. Handlers call the API of the
// provider with [Proxy.UpstreamToken].
//
// Tokens and consents are in memory: users log in again after a restart, and all requests must
// reach the same process. A Proxy holds at most 100,000 grants. Beyond that, it drops the least
// recently refreshed ones. It fetches at most 32 Client ID Metadata Documents at once, 8 of them for
// one network of clients (24 bits of an IPv4 address, or 64 of an IPv6 address), because anyone can
// cause such a fetch; further requests get status 503. The name and the redirect URIs of a client
// have at most 4 KiB.
package provider

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/issuer"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Defaults of [Options].
const (
	defaultAccessTTL  = 10 * time.Minute
	defaultRefreshTTL = 30 * 24 * time.Hour
)

// Options configures a [Proxy].
type Options struct {
	Issuer   string   // URL of the proxy; its endpoints are below its path; required
	Resource string   // URL of the protected server; required
	Name     string   // of the service, for the consent page; default: the host of Issuer
	Scopes   []string // that clients may request, besides offline_access
	Upstream Upstream

	// Key authenticates the ids of registered clients. It has at least 16 random bytes. By default,
	// each Proxy generates a new one, and clients must register again after a restart. Many clients
	// do so only if the user removes the server and adds it again.
	Key []byte

	AccessTTL  time.Duration // lifetime of access tokens; default: 10 minutes
	RefreshTTL time.Duration // lifetime of refresh tokens; default: 30 days

	// HTTP provides the transport of requests to the provider and for Client ID Metadata Documents.
	// The default is [http.DefaultTransport].
	HTTP *http.Client
	// Logger receives failed logins. If it is nil, warnings and errors go to [slog.Default].
	Logger *slog.Logger
	// Now returns the current time. The default is [time.Now].
	Now func() time.Time
}

// Upstream describes the provider, and the registration of the proxy there.
type Upstream struct {
	// Metadata describes the provider. AuthorizationEndpoint, which may have a query, and
	// TokenEndpoint are required. If Issuer is set, responses of other issuers are rejected (RFC
	// 9207). If RevocationEndpoint is set, the Proxy revokes the tokens of the provider when the
	// client revokes its own.
	Metadata auth.ServerMetadata
	// Client is the registration of the proxy at the provider. Its Secret is sent in the
	// Authorization header unless its Method is "client_secret_post". A public client has the
	// Method "none".
	Client oauth.Client
	Scopes []string // to request from the provider
	// Subject returns the subject of the user that t belongs to, and claims for handlers. It asks the
	// provider, for example at its userinfo endpoint. It is called after each login, and before each
	// refresh of the tokens of a client. An error that wraps [auth.ErrInvalidToken] means that the
	// provider no longer accepts the token, and the user must log in again. Required.
	Subject func(ctx context.Context, t *oauth.Token) (subject string, claims map[string]any, err error)
}

// Proxy is an authorization server in front of a provider. It is safe for concurrent use.
type Proxy struct {
	c      Options
	server *issuer.Server
	fetch  *fetch.Client // for the provider
	path   string        // of the callback
}

// Limits of pending logins. The Proxy does not store them: the state is bound to the browser, and a
// cookie has the authorization request of the client.
const (
	loginTTL = 10 * time.Minute
	maxQuery = 2800 // bytes; in Base64, it fits into a cookie of 4096 bytes
)

// grantClaim is the claim with the id of the grant. UpstreamToken looks the grant up by it.
const grantClaim = "grant_id"

// New returns a Proxy. It fails if the configuration is incomplete or invalid.
func New(c Options) (*Proxy, error) {
	p := &Proxy{c: c}
	if err := p.complete(); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	return p, nil
}

func (p *Proxy) complete() error {
	c := &p.c
	up := &c.Upstream
	switch {
	case c.Resource == "":
		return errors.New("no Resource")
	case up.Client.ID == "":
		return errors.New("no Upstream.Client.ID")
	case up.Subject == nil:
		return errors.New("no Upstream.Subject")
	}
	if up.Client.Auth == nil {
		method := cmp.Or(up.Client.Method, clientauth.Basic)
		switch {
		case method != clientauth.Basic && method != clientauth.Post && method != clientauth.None:
			return fmt.Errorf("Upstream.Client: method %q needs Auth", method)
		case method != clientauth.None && up.Client.Secret.Empty():
			return errors.New(`Upstream.Client has neither Secret nor Auth: a public client needs the Method "none"`)
		}
		up.Client.Auth = clientauth.New(method, up.Client.Secret)
	}
	p.fetch = fetch.New(c.HTTP, fetch.Network{})
	endpoints := []string{up.Metadata.AuthorizationEndpoint, up.Metadata.TokenEndpoint}
	if up.Metadata.RevocationEndpoint != "" {
		endpoints = append(endpoints, up.Metadata.RevocationEndpoint)
	}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if err != nil {
			return errors.New("malformed endpoint in Upstream.Metadata")
		}
		p.fetch = p.fetch.For(u)
		if err := p.fetch.CheckEndpoint(endpoint); err != nil {
			return fmt.Errorf("Upstream.Metadata: endpoint: %w", err)
		}
	}
	c.AccessTTL, c.RefreshTTL = cmp.Or(c.AccessTTL, defaultAccessTTL), cmp.Or(c.RefreshTTL, defaultRefreshTTL)
	c.Logger = boundary.Logger(c.Logger)
	if c.Now == nil {
		c.Now = time.Now
	}
	login, err := url.Parse(up.Metadata.AuthorizationEndpoint)
	if err != nil {
		return err
	}
	server, err := issuer.New(issuer.Config{
		Issuer: c.Issuer, Name: c.Name, Provider: login.Host, ProviderScopes: up.Scopes, Resources: []string{c.Resource}, Scopes: c.Scopes,
		Documents: fetch.New(c.HTTP, fetch.Network{}), AccessTTL: c.AccessTTL, RefreshTTL: c.RefreshTTL, Key: c.Key,
		Approved: p.begin, Refreshing: p.check, Revoked: p.revoke, Now: c.Now,
	})
	if err != nil {
		return err
	}
	p.server = server
	u, err := url.Parse(p.RedirectURI())
	p.path = u.Path
	return err
}

// RedirectURI returns the redirect URI to register at the provider: the issuer followed by
// "/callback".
func (p *Proxy) RedirectURI() string { return strings.TrimSuffix(p.c.Issuer, "/") + "/callback" }

// Handler returns a handler that serves /authorize, /token, /register, /revoke and /callback below
// the path of the issuer, and the metadata at /.well-known/oauth-authorization-server followed by
// the path of the issuer. It passes all other requests to next. If next is nil, they get status
// 404.
func (p *Proxy) Handler(next http.Handler) http.Handler {
	own := p.server.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == p.path {
			p.callback(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// Verify implements [auth.Verifier]: it verifies tokens that the proxy has issued.
func (p *Proxy) Verify(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
	return p.server.Verify(ctx, c)
}

// Revoke ends all grants of a user. It does not revoke tokens at the provider.
func (p *Proxy) Revoke(subject string) {
	p.server.Revoke(func(g *issuer.Grant) bool { return g.Subject == subject })
}

// begin redirects the browser to the provider after the user has approved a client.
func (p *Proxy) begin(w http.ResponseWriter, _ *http.Request, a *issuer.Authorization, _ string) {
	if len(a.Query) > maxQuery {
		p.server.Fail(w, a, "invalid_request", "the request is too long")
		return
	}
	state := p.server.Bind("login", loginTTL, a)
	http.SetCookie(w, p.cookie(state, base64.RawURLEncoding.EncodeToString([]byte(a.Query)), int(loginTTL/time.Second)))
	u, _ := url.Parse(p.c.Upstream.Metadata.AuthorizationEndpoint) // checked by New
	query := u.Query()
	query.Set("response_type", "code")
	query.Set("client_id", p.c.Upstream.Client.ID)
	query.Set("redirect_uri", p.RedirectURI())
	query.Set("state", state)
	if len(p.c.Upstream.Scopes) > 0 {
		query.Set("scope", strings.Join(p.c.Upstream.Scopes, " "))
	}
	sum := sha256.Sum256([]byte(p.server.Verifier(state)))
	query.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
	query.Set("code_challenge_method", "S256")
	u.RawQuery = query.Encode()
	w.Header().Set("Location", u.String())
	w.WriteHeader(http.StatusSeeOther)
}

// callback serves the redirect from the provider. It accepts a state only from the browser that
// approved the client, and deletes the cookie of the login.
func (p *Proxy) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	a, ok := p.begun(r, query.Get("state"))
	if !ok {
		http.Error(w, "The login has expired, or was started in another browser. Start again from the client.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, p.cookie(query.Get("state"), "", -1))
	g, err := p.finish(r.Context(), query)
	switch {
	case err == nil:
		p.server.Complete(w, a, g)
	case errors.Is(err, errDenied):
		p.server.Fail(w, a, "access_denied", "the provider denied the login")
	default:
		p.c.Logger.Warn("login at the provider failed", "client", fetch.Printable(a.Client.Name), "error", err)
		p.server.Fail(w, a, "server_error", "the login at the provider failed")
	}
}

// begun returns the client's authorization request for which the browser of r began a login.
func (p *Proxy) begun(r *http.Request, state string) (*issuer.Authorization, bool) {
	c, err := r.Cookie(p.cookie(state, "", 0).Name)
	if err != nil {
		return nil, false
	}
	query, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil {
		return nil, false
	}
	return p.server.Resume(r, "login", state, string(query))
}

// cookie returns the cookie for the authorization request of the client during a login. Each login
// has its own, so that one browser can have several pending logins.
func (p *Proxy) cookie(state, value string, age int) *http.Cookie {
	sum := sha256.Sum256([]byte(state))
	return p.server.Cookie("login-"+hex.EncodeToString(sum[:8]), value, age)
}

var errDenied = errors.New("access_denied")

// finish exchanges the code in a redirect from the provider, and returns the grant of the user.
func (p *Proxy) finish(ctx context.Context, query url.Values) (*issuer.Grant, error) {
	m := &p.c.Upstream.Metadata
	if iss := query.Get("iss"); m.Issuer != "" && iss != m.Issuer && (iss != "" || m.IssParameter) {
		return nil, fmt.Errorf("response of issuer %q, want %q", fetch.Printable(iss), m.Issuer)
	}
	switch code := query.Get("error"); {
	case code == "access_denied":
		return nil, errDenied
	case code != "":
		return nil, fmt.Errorf("response with error %q", fetch.Printable(code))
	case query.Get("code") == "":
		return nil, errors.New("response has no code")
	}
	t, err := p.exchange(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {query.Get("code")}, "redirect_uri": {p.RedirectURI()},
		"code_verifier": {p.server.Verifier(query.Get("state"))},
	})
	if err != nil {
		return nil, err
	}
	subject, claims, err := p.c.Upstream.Subject(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case subject == "":
		return nil, errors.New("Upstream.Subject returned an empty subject")
	}
	g := &issuer.Grant{ID: rand.Text(), Subject: subject, Claims: maps.Clone(claims), Data: newSession(t)}
	if g.Claims == nil {
		g.Claims = map[string]any{}
	}
	g.Claims[grantClaim] = g.ID
	return g, nil
}
