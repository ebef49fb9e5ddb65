// Package introspect verifies access tokens by asking their authorization server (RFC 7662). Use it
// for tokens that are not JSON Web Tokens, or if a revocation must take effect within seconds.
package introspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// defaultCacheTTL is the default of Options.CacheTTL.
const defaultCacheTTL = 30 * time.Second

const skew = time.Minute // how much the clock of the issuer may be ahead, for the member nbf

// Options are the options of New. The zero value has the defaults.
type Options struct {
	// CacheTTL is how long a result may be cached. A revoked token may be accepted for as long. The
	// default is 30 seconds. If it is negative, results are not cached.
	CacheTTL time.Duration
	// HTTP provides the transport of requests. The default is that of http.DefaultClient. A request
	// ends after 10 seconds, follows no redirects, and reads up to 64 KiB. Up to 16 connections are
	// kept for later requests, for 30 seconds each.
	HTTP *http.Client
}

// Verifier verifies the tokens of one issuer. Its methods may be called concurrently.
type Verifier interface {
	auth.Verifier
	// CacheTTL returns how long results are cached by default.
	CacheTTL() time.Duration
}

type verifier struct {
	endpoint string
	client   oauth.Client
	ttl      time.Duration
	http     *fetch.Client
}

// New returns a Verifier that sends tokens to endpoint, the introspection endpoint of
// client.Issuer. client is the registration of the MCP server at that issuer. Requests are
// authenticated with client.Auth. If that is nil, the secret is sent in the Authorization header,
// or in the form if client.Method is "client_secret_post".
func New(endpoint string, client oauth.Client, o *Options) (Verifier, error) {
	if o == nil {
		o = &Options{}
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("introspect: malformed endpoint")
	}
	v := &verifier{endpoint, client, o.CacheTTL, fetch.New(o.HTTP, fetch.Network{}).For(u).Reuse()}
	if err := v.http.CheckEndpoint(endpoint); err != nil {
		return nil, fmt.Errorf("introspect: endpoint: %w", err)
	}
	if client.Issuer == "" || client.Issuer == "*" {
		return nil, errors.New("introspect: client has no Issuer")
	}
	if client.ID == "" {
		return nil, errors.New("introspect: client has no ID")
	}
	if client.Auth == nil {
		switch {
		case client.Secret.Empty(): // the endpoint is for authenticated clients only (RFC 7662, section 2.1)
			return nil, errors.New("introspect: client has neither Secret nor Auth")
		case client.Method == "" || client.Method == clientauth.Basic:
			v.client.Auth = clientauth.New(clientauth.Basic, client.Secret)
		case client.Method == clientauth.Post:
			v.client.Auth = clientauth.New(clientauth.Post, client.Secret)
		default:
			return nil, fmt.Errorf("introspect: method %q needs Client.Auth", client.Method)
		}
	}
	if v.ttl == 0 {
		v.ttl = defaultCacheTTL
	}
	return v, nil
}

// CacheTTL returns how long results are cached by default.
func (v *verifier) CacheTTL() time.Duration { return v.ttl }

// answer is an introspection response (RFC 7662, section 2.2).
type answer struct {
	Active    bool     `json:"active"`
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"`
	ClientID  string   `json:"client_id"`
	Audience  list     `json:"aud"`
	Scope     string   `json:"scope"`
	Expiry    *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`
	Key       *struct {
		Thumbprint string `json:"jkt"`
	} `json:"cnf"`
}

// list is a list of strings. In JSON, it is a string or an array of strings.
type list []string

func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = list{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// Verify implements auth.Verifier. It fails with auth.ErrInvalidToken if the token is not active,
// and with auth.ErrUnavailable if the response is not a valid introspection response, for example
// because the authorization server rejects the client.
func (v *verifier) Verify(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
	form, header := url.Values{"token": {c.Token.Reveal()}, "token_type_hint": {"access_token"}}, http.Header{}
	// The value is not sent. The key says that the request may be sent again if it was written to a
	// connection that the server was about to close.
	header["Idempotency-Key"] = []string{}
	if err := v.client.Auth.Apply(ctx, v.client.Issuer, v.client.ID, form, header); err != nil {
		return nil, unavailable(err)
	}
	r, err := v.http.PostForm(ctx, v.endpoint, header, form)
	if err != nil {
		return nil, unavailable(err)
	}
	if r.Status != http.StatusOK {
		return nil, unavailable(fmt.Errorf("%s: status %d", fetch.Show(v.endpoint), r.Status))
	}
	var a answer
	var claims map[string]any
	if err := errors.Join(r.JSON(&a), r.JSON(&claims)); err != nil {
		return nil, unavailable(errors.New("malformed introspection response")) // err may quote it
	}
	return v.identity(&a, claims)
}

func (v *verifier) identity(a *answer, claims map[string]any) (*auth.Identity, error) {
	switch {
	case !a.Active:
		return nil, fmt.Errorf("introspect: %w: not active", auth.ErrInvalidToken)
	case a.Issuer != "" && a.Issuer != v.client.Issuer:
		return nil, fmt.Errorf("introspect: %w: issuer %.200q, want %q", auth.ErrInvalidToken, a.Issuer, v.client.Issuer)
	case a.NotBefore != nil && *a.NotBefore > float64(time.Now().Add(skew).Unix()):
		return nil, fmt.Errorf("introspect: %w: not valid yet", auth.ErrInvalidToken)
	}
	i := &auth.Identity{
		Issuer: v.client.Issuer, Subject: a.Subject, ClientID: a.ClientID,
		Audience: a.Audience, Scopes: strings.Fields(a.Scope), Claims: claims,
	}
	if a.Expiry != nil {
		i.Expiry = time.Unix(int64(min(max(*a.Expiry, 0), 1<<40)), 0)
	}
	if a.Key != nil {
		if i.Thumbprint = a.Key.Thumbprint; i.Thumbprint == "" {
			return nil, fmt.Errorf("introspect: %w: bound to a key by a method other than DPoP", auth.ErrInvalidToken)
		}
	}
	for _, name := range []string{"active", "iss", "sub", "client_id", "aud", "scope", "exp", "cnf"} {
		delete(claims, name)
	}
	return i, nil
}

func unavailable(err error) error { return fmt.Errorf("introspect: %w: %w", auth.ErrUnavailable, err) }
