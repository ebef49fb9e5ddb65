package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// TokenRequest describes the token that is needed; see [FromSource].
type TokenRequest struct {
	Server     string      // canonical URL of the server
	Challenged bool        // the server has rejected a request
	Scopes     []string    // that the challenge of the server names; nil if there are none
	Metadata   string      // URL of the resource metadata that the challenge names; "" if there is none
	Rejected   auth.Secret // the token that the server has rejected; the source must not return it again
}

// FromSource returns an Authorizer that uses the tokens of a function. The function returns a
// token, or nil to send the request without one. It is called for every request, by several
// goroutines at once, so it should cache its token. After a 401, and after a 403 with
// error="insufficient_scope", it is called once with the challenge. If that returns another token,
// the request is sent again. Tokens of type DPoP are not supported.
func FromSource(token func(ctx context.Context, r TokenRequest) (*Token, error)) httpclient.Authorizer {
	return source(token)
}

type source func(context.Context, TokenRequest) (*Token, error)

func (s source) ask(ctx context.Context, server *url.URL, r TokenRequest) (*Token, error) {
	if server == nil {
		return nil, errors.New("oauth: no server URL")
	}
	var err error
	if r.Server, err = authtext.Canonical(server.String()); err != nil {
		return nil, err
	}
	t, err := s(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("oauth: token source: %w", err)
	}
	if t != nil && t.Type != "" && !strings.EqualFold(t.Type, "Bearer") {
		return nil, fmt.Errorf("oauth: token source: token type %q is not supported", t.Type)
	}
	return t, nil
}

func (s source) Authorize(req *http.Request, op httpclient.Operation) error {
	req.Header.Del("Authorization")
	if op.Server == nil || !sameOrigin(req.URL, op.Server) {
		return nil
	}
	t, err := s.ask(req.Context(), op.Server, TokenRequest{})
	if err != nil || t == nil || t.Access.Empty() {
		return err
	}
	access, err := t.Access.RevealTo(req.URL)
	if err != nil {
		return fmt.Errorf("oauth: token source: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+access)
	return nil
}

func (s source) Challenged(ctx context.Context, resp *http.Response, op httpclient.Operation) (bool, error) {
	if op.Attempt > 0 || resp.Request == nil || op.Server == nil || !sameOrigin(resp.Request.URL, op.Server) {
		return false, nil
	}
	var challenge authtext.Challenge
	for _, c := range authtext.ParseChallenges(resp.Header.Values("WWW-Authenticate")) {
		if strings.EqualFold(c.Scheme, "Bearer") {
			challenge = c
			break
		}
	}
	stepUp := resp.StatusCode == http.StatusForbidden && challenge.Param("error") == "insufficient_scope"
	if resp.StatusCode != http.StatusUnauthorized && !stepUp {
		return false, nil
	}
	_, sent, _ := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
	t, err := s.ask(ctx, op.Server, TokenRequest{
		Challenged: true,
		Scopes:     challenge.Scopes(),
		Metadata:   challenge.Param("resource_metadata"),
		Rejected:   auth.NewSecret(sent),
	})
	if err != nil || t == nil {
		return false, err
	}
	return !t.Access.Empty() && t.Access.Reveal() != sent, nil
}
