package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

const (
	grantJWTBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeIDToken        = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG          = "urn:ietf:params:oauth:token-type:id-jag"
)

// maxAssertion bounds the tokens that grants read and send.
const maxAssertion = 64 << 10

// grant obtains a token without a user, for a registered client.
type grant func(ctx context.Context, t *oauth.Target) (*oauth.Token, error)

func (g grant) Token(ctx context.Context, t *oauth.Target) (*oauth.Token, error) { return g(ctx, t) }
func (grant) NeedsUser() bool                                                    { return false }
func (grant) NeedsClient() bool                                                  { return true }

// ClientCredentials returns the grant client_credentials (OAuth 2.1, section 4.2) for programs that
// act on their own behalf. The client needs Secret or Auth, for example PrivateKeyJWT.
func ClientCredentials() oauth.Grant {
	return grant(func(ctx context.Context, t *oauth.Target) (*oauth.Token, error) {
		if t.Client == nil || t.Client.Secret.Empty() && t.Client.Auth == nil {
			return nil, errors.New("machine: client credentials: the client has neither Secret nor Auth")
		}
		return t.Exchange(ctx, withScopes(t, url.Values{"grant_type": {"client_credentials"}}))
	})
}

// EnterpriseOptions configures Enterprise.
type EnterpriseOptions struct {
	IDP           string // issuer of the identity provider; required if Client.Auth is set, as the audience of its assertions
	TokenEndpoint string // of the identity provider; required
	// Client is the registration at the identity provider, which differs from the one at the
	// authorization server of the MCP server. Its secret is sent in the Authorization header unless
	// its Method is client_secret_post. Its Issuer is ignored.
	Client oauth.Client
	// IDToken returns an ID token that the identity provider has issued to Client. It is called
	// once per flow. Required.
	IDToken func(ctx context.Context) (auth.Secret, error)
}

// Enterprise returns the grant for enterprise-managed authorization. It exchanges an ID token at
// the identity provider for an Identity Assertion JWT Authorization Grant (RFC 8693). Then it
// exchanges that assertion at the authorization server for an access token (RFC 7523).
func Enterprise(c EnterpriseOptions) oauth.Grant {
	return grant(func(ctx context.Context, t *oauth.Target) (*oauth.Token, error) {
		assertion, err := c.assertion(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("machine: enterprise: %w", err)
		}
		return bearer(ctx, t, assertion)
	})
}

func (c *EnterpriseOptions) assertion(ctx context.Context, t *oauth.Target) (auth.Secret, error) {
	if c.TokenEndpoint == "" {
		return auth.Secret{}, errors.New("no TokenEndpoint")
	}
	if c.IDToken == nil {
		return auth.Secret{}, errors.New("no IDToken")
	}
	subject, err := c.IDToken(ctx)
	if err != nil {
		return auth.Secret{}, fmt.Errorf("ID token: %w", err)
	}
	if subject.Empty() {
		return auth.Secret{}, errors.New("the ID token is empty")
	}
	form := withScopes(t, url.Values{
		"grant_type":           {grantTokenExchange},
		"requested_token_type": {typeIDJAG},
		"audience":             {t.Metadata.Issuer},
		"resource":             {t.Resource},
		"subject_token_type":   {typeIDToken},
	})
	if err := reveal(form, "subject_token", subject, c.TokenEndpoint); err != nil {
		return auth.Secret{}, err
	}
	header := http.Header{}
	if err := c.authenticate(ctx, form, header); err != nil {
		return auth.Secret{}, err
	}
	var answer struct {
		Token string `json:"access_token"` // an assertion, despite the name of the member
		Type  string `json:"issued_token_type"`
	}
	if err := t.Post(ctx, c.TokenEndpoint, header, form, &answer); err != nil {
		return auth.Secret{}, fmt.Errorf("token exchange at %q: %w", c.TokenEndpoint, err)
	}
	if answer.Type != typeIDJAG {
		return auth.Secret{}, fmt.Errorf("token exchange at %q: issued token type %.100q, want %q", c.TokenEndpoint, answer.Type, typeIDJAG)
	}
	if answer.Token == "" {
		return auth.Secret{}, fmt.Errorf("token exchange at %q: no token in the response", c.TokenEndpoint)
	}
	return auth.NewSecret(answer.Token).For(t.Metadata.TokenEndpoint), nil
}

// reveal sets a parameter of a form that is posted to endpoint.
func reveal(form url.Values, name string, secret auth.Secret, endpoint string) error {
	to, err := url.Parse(endpoint)
	if err != nil {
		return errors.New("malformed endpoint")
	}
	text, err := secret.RevealTo(to)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	form.Set(name, text)
	return nil
}

// authenticate adds the client authentication for the identity provider.
func (c *EnterpriseOptions) authenticate(ctx context.Context, form url.Values, header http.Header) error {
	client := &c.Client
	method := client.Auth
	switch {
	case client.ID == "":
		return errors.New("no Client.ID")
	case method != nil && c.IDP == "":
		return errors.New("no IDP: Client.Auth needs it as audience")
	case method != nil:
	case client.Secret.Empty():
		method = clientauth.New(clientauth.None, client.Secret)
	case client.Method == clientauth.Post:
		method = clientauth.New(clientauth.Post, client.Secret)
	default:
		method = clientauth.New(clientauth.Basic, client.Secret)
	}
	return method.Apply(ctx, c.IDP, client.ID, form, header)
}

// WorkloadIdentity returns the grant that exchanges the token of a workload for an access token
// (RFC 7523, section 2.1). assertion returns the token that the platform of the workload has issued
// for an audience, which is the issuer of the authorization server; it must be safe for concurrent
// use. Each flow calls it once and sends one request. A failure is not retried, because a second
// attempt would fail as well. The token goes only to issuers for which oauth.Options.Clients has a
// client, or for which oauth.Options.AskClient returns one.
func WorkloadIdentity(assertion func(ctx context.Context, audience string) (auth.Secret, error)) oauth.Grant {
	return grant(func(ctx context.Context, t *oauth.Target) (*oauth.Token, error) {
		token, err := assertion(ctx, t.Metadata.Issuer)
		if err != nil {
			return nil, fmt.Errorf("machine: workload identity: %w", err)
		}
		if token.Empty() {
			return nil, errors.New("machine: workload identity: the assertion is empty")
		}
		return bearer(ctx, t, token)
	})
}

// AssertionFile returns a function for [WorkloadIdentity] that reads a file, such as the projected
// token of a service account in Kubernetes. The function reads the file on each call, because the
// platform replaces it. It ignores its audience parameter: the configuration of the platform
// determines the audience of the token.
func AssertionFile(path string) func(ctx context.Context, audience string) (auth.Secret, error) {
	return func(context.Context, string) (auth.Secret, error) {
		f, err := os.Open(path)
		if err != nil {
			return auth.Secret{}, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxAssertion+1))
		if err != nil {
			return auth.Secret{}, err
		}
		if len(text) > maxAssertion {
			return auth.Secret{}, fmt.Errorf("%s is longer than %d bytes", path, maxAssertion)
		}
		token := strings.TrimSpace(string(text))
		if token == "" {
			return auth.Secret{}, fmt.Errorf("%s is empty", path)
		}
		return auth.NewSecret(token), nil
	}
}

// bearer exchanges an assertion for an access token.
func bearer(ctx context.Context, t *oauth.Target, assertion auth.Secret) (*oauth.Token, error) {
	form := withScopes(t, url.Values{"grant_type": {grantJWTBearer}})
	if err := reveal(form, "assertion", assertion, t.Metadata.TokenEndpoint); err != nil {
		return nil, fmt.Errorf("machine: %w", err)
	}
	return t.Exchange(ctx, form)
}

func withScopes(t *oauth.Target, form url.Values) url.Values {
	if len(t.Scopes) > 0 {
		form.Set("scope", strings.Join(t.Scopes, " "))
	}
	return form
}
