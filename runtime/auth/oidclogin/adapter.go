package oidclogin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/oauth2"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// FromOAuth2 returns a function for oauth.FromSource with the tokens of s. It provides them
// only for requests to the given server, because a token must not be sent to a server that it is
// not for. It calls s for every request; to cache tokens, see oauth2.ReuseTokenSource. The call has
// no context, so a request that is canceled still waits for s.
func FromOAuth2(server string, s oauth2.TokenSource) (func(context.Context, oauth.TokenRequest) (*oauth.Token, error), error) {
	canonical, err := authtext.Canonical(server)
	if err != nil {
		return nil, fmt.Errorf("oidclogin: %w", err)
	}
	return source{canonical, s}.token, nil
}

type source struct {
	server string
	tokens oauth2.TokenSource
}

func (s source) token(_ context.Context, r oauth.TokenRequest) (*oauth.Token, error) {
	if r.Server != s.server {
		return nil, nil
	}
	t, err := s.tokens.Token()
	if err != nil {
		return nil, fmt.Errorf("oidclogin: %w", brief(err))
	}
	token := &oauth.Token{Access: auth.NewSecret(t.AccessToken), Type: t.Type(), Expiry: t.Expiry}
	if !r.Rejected.Empty() && token.Access.Equal(r.Rejected) {
		return nil, nil // s has no other token
	}
	return token, nil
}

// ToOAuth2 returns an oauth2.TokenSource with the tokens of an Authorizer for one server. The
// tokens have no refresh token, because the Authorizer refreshes them. ctx limits the requests for
// tokens. Token fails if the token is bound to a key, because the caller does not have the key.
func ToOAuth2(ctx context.Context, a *oauth.Authorizer, server string) oauth2.TokenSource {
	return authorizerSource{ctx, a, server}
}

type authorizerSource struct {
	ctx        context.Context
	authorizer *oauth.Authorizer
	server     string
}

func (s authorizerSource) Token() (*oauth2.Token, error) {
	t, err := s.authorizer.Token(s.ctx, s.server)
	if err != nil {
		return nil, err
	}
	if !strings.EqualFold(t.Type, "Bearer") {
		return nil, errors.New("oidclogin: token is bound to a key")
	}
	return &oauth2.Token{AccessToken: t.Access.Reveal(), TokenType: t.Type, Expiry: t.Expiry}, nil
}
