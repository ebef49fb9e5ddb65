package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/issuer"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// session is a login at the provider, the Data of a grant.
type session struct {
	lock  chan struct{} // a mutex that can be waited for with a context; guards token
	token *oauth.Token
}

func newSession(t *oauth.Token) *session { return &session{make(chan struct{}, 1), t} }

// refreshBefore is how long before its expiry a token of the provider is refreshed.
const refreshBefore = 30 * time.Second

// maxLifetime limits the expires_in of a token response, so that it fits a time.Duration.
const maxLifetime = 10 * 365 * 24 * time.Hour

// UpstreamToken returns the access token with which a handler calls the API of the provider on
// behalf of the user. ctx is the context of the handler. UpstreamToken refreshes the token if
// necessary. It fails with [auth.ErrInvalidToken] if the request has no token of this proxy, or if
// the login at the provider has ended. In the latter case, the token of the client ends as well. It
// fails with [auth.ErrUnavailable] if the provider does not respond.
func (p *Proxy) UpstreamToken(ctx context.Context) (auth.Secret, error) {
	i, ok := auth.FromContext(ctx)
	if !ok || i.Issuer != p.c.Issuer {
		return auth.Secret{}, fmt.Errorf("provider: %w: the request has no token of this proxy", auth.ErrInvalidToken)
	}
	id, _ := i.Claims[grantClaim].(string)
	g, ok := p.server.Grant(id)
	if !ok {
		return auth.Secret{}, fmt.Errorf("provider: %w: the grant has ended", auth.ErrInvalidToken)
	}
	t, err := p.fresh(ctx, g)
	if err != nil {
		return auth.Secret{}, fmt.Errorf("provider: %w", err)
	}
	return t.Access, nil
}

// fresh returns the provider's token for a grant. It refreshes the token if it is about to expire.
// If the login at the provider has ended, fresh ends the grant and fails with auth.ErrInvalidToken.
func (p *Proxy) fresh(ctx context.Context, g *issuer.Grant) (*oauth.Token, error) {
	s := g.Data.(*session)
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", auth.ErrUnavailable, ctx.Err())
	}
	now := p.c.Now()
	switch {
	case s.token.Expiry.IsZero() || now.Before(s.token.Expiry.Add(-refreshBefore)):
		return s.token, nil
	case s.token.Refresh.Empty() && now.Before(s.token.Expiry):
		return s.token, nil
	case s.token.Refresh.Empty():
		p.server.End(g.ID)
		return nil, fmt.Errorf("%w: token of the provider has expired", auth.ErrInvalidToken)
	}
	// The provider may replace the refresh token. If ctx canceled the request, the new one could be
	// lost.
	t, err := p.exchange(context.WithoutCancel(ctx), url.Values{"grant_type": {"refresh_token"}, "refresh_token": {s.token.Refresh.Reveal()}})
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		p.server.End(g.ID)
		return nil, err
	case err != nil && p.c.Now().Before(s.token.Expiry):
		return s.token, nil
	case err != nil:
		return nil, err
	}
	if t.Refresh.Empty() {
		t.Refresh = s.token.Refresh
	}
	s.token = t
	return t, nil
}

// check fails if the login at the provider has ended. If check cannot find out, its error wraps
// auth.ErrUnavailable.
func (p *Proxy) check(ctx context.Context, g *issuer.Grant) error {
	t, err := p.fresh(ctx, g)
	if err != nil {
		return err
	}
	subject, _, err := p.c.Upstream.Subject(ctx, t)
	switch {
	case errors.Is(err, auth.ErrInvalidToken):
		return err
	case err != nil:
		p.c.Logger.Warn("login at the provider not verified", "error", err)
		return fmt.Errorf("%w: %w", auth.ErrUnavailable, err)
	case subject != g.Subject:
		return errors.New("subject at the provider has changed")
	}
	return nil
}

// post sends a form to an endpoint of the provider.
func (p *Proxy) post(ctx context.Context, endpoint string, form url.Values) (*fetch.Response, error) {
	up, header := &p.c.Upstream, http.Header{}
	if err := up.Client.Auth.Apply(ctx, up.Metadata.Issuer, up.Client.ID, form, header); err != nil {
		return nil, err
	}
	return p.fetch.PostForm(ctx, endpoint, header, form)
}

// exchange posts a form to the token endpoint of the provider. Its error wraps auth.ErrInvalidToken
// if the provider rejects the code or the refresh token. Any other error wraps auth.ErrUnavailable.
func (p *Proxy) exchange(ctx context.Context, form url.Values) (*oauth.Token, error) {
	r, err := p.post(ctx, p.c.Upstream.Metadata.TokenEndpoint, form)
	if err != nil {
		return nil, fmt.Errorf("%w: token request: %w", auth.ErrUnavailable, err)
	}
	var answer struct {
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
		Refresh string  `json:"refresh_token"`
		Scope   string  `json:"scope"`
		Error   string  `json:"error"`
	}
	// The JSON error is dropped, because it may quote the response.
	malformed := r.JSON(&answer) != nil
	switch {
	case answer.Error == "invalid_grant" || answer.Error == "bad_refresh_token": // the latter is GitHub's
		return nil, fmt.Errorf("%w: error %q at the provider", auth.ErrInvalidToken, answer.Error)
	case answer.Error != "":
		return nil, fmt.Errorf("%w: error %q at the provider", auth.ErrUnavailable, fetch.Printable(answer.Error))
	case r.Status != http.StatusOK || malformed || answer.Access == "" || !strings.EqualFold(answer.Type, "Bearer"):
		return nil, fmt.Errorf("%w: token response with status %d has no bearer token", auth.ErrUnavailable, r.Status)
	}
	t := &oauth.Token{Access: auth.NewSecret(answer.Access), Refresh: auth.NewSecret(answer.Refresh), Type: "Bearer", Scopes: strings.Fields(answer.Scope)}
	if t.Scopes == nil {
		t.Scopes = slices.Clone(p.c.Upstream.Scopes)
	}
	if answer.Expires > 0 {
		t.Expiry = p.c.Now().Add(time.Duration(min(answer.Expires, maxLifetime.Seconds()) * float64(time.Second)))
	}
	return t, nil
}

// revoke revokes the tokens of a grant at the provider (RFC 7009).
func (p *Proxy) revoke(ctx context.Context, g *issuer.Grant) {
	endpoint := p.c.Upstream.Metadata.RevocationEndpoint
	if endpoint == "" {
		return
	}
	s := g.Data.(*session)
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return
	}
	for kind, secret := range map[string]auth.Secret{"access_token": s.token.Access, "refresh_token": s.token.Refresh} {
		if secret.Empty() {
			continue
		}
		r, err := p.post(context.WithoutCancel(ctx), endpoint, url.Values{"token": {secret.Reveal()}, "token_type_hint": {kind}})
		if err == nil && r.Status != http.StatusOK {
			err = fmt.Errorf("status %d", r.Status)
		}
		if err != nil {
			p.c.Logger.Warn("token of the provider not revoked", "kind", kind, "error", err)
		}
	}
}
