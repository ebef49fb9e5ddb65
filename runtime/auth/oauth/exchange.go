package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

// authOf returns the authentication of a client: its Auth, else its registered method, else the
// first offered method that its credentials allow.
func authOf(m *auth.ServerMetadata, c *Client) (ClientAuth, error) {
	if c.Auth != nil {
		return c.Auth, nil
	}
	offered := m.TokenEndpointAuthMethods
	if len(offered) == 0 {
		offered = []string{clientauth.Basic}
	}
	switch method := c.Method; {
	case c.Secret.Empty() && (method == "" || method == clientauth.None || method == clientauth.Basic || method == clientauth.Post):
		return clientauth.New(clientauth.None, c.Secret), nil
	case method == clientauth.Basic, method == "" && slices.Contains(offered, clientauth.Basic):
		return clientauth.New(clientauth.Basic, c.Secret), nil
	case method == clientauth.Post, method == "" && slices.Contains(offered, clientauth.Post):
		return clientauth.New(clientauth.Post, c.Secret), nil
	case method == clientauth.None, method == "" && slices.Contains(offered, clientauth.None):
		return clientauth.New(clientauth.None, c.Secret), nil
	case method != "":
		return nil, fmt.Errorf("%w: authentication method %q needs Client.Auth", ErrNoClient, fetch.Printable(method))
	}
	return nil, fmt.Errorf("%w: the authorization server offers no authentication method with a client secret", ErrNoClient)
}

// endpoint sends requests to the endpoints of one authorization server for one client.
type endpoint struct {
	fetch    *fetch.Client
	metadata *auth.ServerMetadata
	client   *Client // nil if the grant needs no client
	resource string
	scopes   []string // requested
	prover   Prover   // nil without DPoP
	key      auth.Secret
	nonces   *nonces
}

// secretFields are the form parameters whose values must not appear in an error.
var secretFields = []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion", "subject_token", "actor_token", "token", "password"}

// secrets are the secret parameters of a form, by name.
type secrets map[string]auth.Secret

// reveal adds the secrets to a form that is posted to endpoint. All secrets that package oauth
// sends to authorization servers pass through it, except for the authentication of clients and the
// parameters of a Grant.
func (s secrets) reveal(form url.Values, endpoint string) error {
	to, err := url.Parse(endpoint)
	if err != nil {
		return errors.New("malformed endpoint")
	}
	for name, secret := range s {
		text, err := secret.RevealTo(to)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		form.Set(name, text)
	}
	return nil
}

// post posts form and secrets with the authentication of the client. It repeats the request once if
// the server asks for a DPoP proof with a nonce.
func (e *endpoint) post(ctx context.Context, op, endpoint string, form url.Values, s secrets, dpop bool) (*fetch.Response, error) {
	for attempt := 0; ; attempt++ {
		sent, header := maps.Clone(form), http.Header{}
		if err := s.reveal(sent, endpoint); err != nil {
			return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: err}
		}
		if e.client != nil && e.client.Issuer != e.metadata.Issuer {
			return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: fmt.Errorf("%w: client %q is registered at %q", ErrIssuer, e.client.ID, e.client.Issuer)}
		}
		if e.client != nil {
			method, err := authOf(e.metadata, e.client)
			if err == nil {
				err = method.Apply(ctx, e.metadata.Issuer, e.client.ID, sent, header)
			}
			if err != nil {
				return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: err}
			}
		}
		nonce := ""
		if dpop && e.prover != nil {
			nonce = e.nonces.get(endpoint)
			proof, err := e.prover.Proof(e.key, http.MethodPost, endpoint, auth.Secret{}, nonce)
			if err != nil {
				return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: err}
			}
			header.Set("DPoP", proof)
		}
		r, err := e.fetch.PostForm(ctx, endpoint, header, sent)
		if err != nil {
			return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: err}
		}
		e.nonces.set(endpoint, r.Header)
		if r.Status >= 200 && r.Status <= 299 {
			return r, nil
		}
		failed := refusal(op, e.metadata.Issuer, r, sent, header)
		if failed.Code == "use_dpop_nonce" && attempt == 0 && e.nonces.get(endpoint) != nonce {
			continue
		}
		return nil, failed
	}
}

// refusal returns the error of an unsuccessful response to form with header (RFC 6749, section 5.2).
func refusal(op, issuer string, r *fetch.Response, form url.Values, header http.Header) *Error {
	e := &Error{Op: op, Issuer: issuer}
	var answer struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if r.JSON(&answer) == nil && answer.Code != "" {
		hide := strings.NewReplacer(sentSecrets(form, header)...)
		e.Code, e.Description = fetch.Printable(hide.Replace(answer.Code)), fetch.Printable(hide.Replace(answer.Description))
	}
	if e.Code == "" || r.Status >= 500 {
		e.Err = &statusError{r.Status}
	}
	if delay := r.RetryAfter(); delay > 0 {
		e.Retry = time.Now().Add(delay)
	}
	return e
}

// sentSecrets returns the secrets in a request, each as it was sent and as it is, and what replaces
// them in an error. Some servers quote the request in their error_description.
func sentSecrets(form url.Values, header http.Header) (replaced []string) {
	add := func(secrets ...string) {
		for _, secret := range secrets {
			if secret != "" {
				replaced = append(replaced, secret, auth.Secret{}.String())
			}
		}
	}
	for _, name := range secretFields {
		secret := form.Get(name)
		add(secret, url.QueryEscape(secret))
	}
	if _, credentials, ok := strings.Cut(header.Get("Authorization"), " "); ok {
		add(credentials)
	}
	if _, password, ok := (&http.Request{Header: header}).BasicAuth(); ok {
		add(password)
		if secret, err := url.QueryUnescape(password); err == nil {
			add(secret)
		}
	}
	return replaced
}

// statusError is the error of a response without an error code.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("status %d", e.status) }

// exchange posts form and secrets to the token endpoint and returns the token of the response.
func (e *endpoint) exchange(ctx context.Context, op string, form url.Values, s secrets) (*Token, error) {
	form = maps.Clone(form)
	form.Set("resource", e.resource)
	r, err := e.post(ctx, op, e.metadata.TokenEndpoint, form, s, true)
	if err != nil {
		return nil, err
	}
	token, err := e.token(r)
	if err != nil {
		return nil, &Error{Op: op, Issuer: e.metadata.Issuer, Err: err}
	}
	return token, nil
}

// seconds is a number of seconds. Some servers send it as a string.
type seconds float64

func (s *seconds) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil || n != n {
		n = 0
	}
	*s = seconds(n)
	return nil
}

const maxLifetime = 10 * 365 * 24 * time.Hour

// token reads the token of a successful response (RFC 6749, section 5.1).
func (e *endpoint) token(r *fetch.Response) (*Token, error) {
	var answer struct {
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires seconds `json:"expires_in"`
		Refresh string  `json:"refresh_token"`
		Scope   *string `json:"scope"`
	}
	if err := r.JSON(&answer); err != nil {
		if fault := (*json.UnmarshalTypeError)(nil); errors.As(err, &fault) {
			err = fmt.Errorf("the member %q of the response has a wrong type", fault.Field)
		}
		return nil, err
	}
	t := &Token{Access: auth.NewSecret(answer.Access), Refresh: auth.NewSecret(answer.Refresh), Scopes: slices.Clone(e.scopes)}
	switch {
	case answer.Access == "":
		return nil, errors.New("the response has no access_token")
	case strings.ContainsFunc(answer.Access, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the access token contains characters that are not allowed in a header")
	case strings.EqualFold(answer.Type, "Bearer"):
		t.Type = "Bearer"
	case strings.EqualFold(answer.Type, "DPoP") && e.prover != nil:
		t.Type, t.Key = "DPoP", e.key
	default:
		return nil, fmt.Errorf("token type %q is not supported", fetch.Printable(answer.Type))
	}
	if answer.Scope != nil {
		t.Scopes = strings.Fields(*answer.Scope)
	}
	if answer.Expires > 0 {
		t.Expiry = time.Now().Add(time.Duration(min(float64(answer.Expires), maxLifetime.Seconds()) * float64(time.Second)))
	}
	return t, nil
}

// revoke revokes a token (RFC 7009, section 2.1).
func (e *endpoint) revoke(ctx context.Context, token auth.Secret, hint string) error {
	if token.Empty() {
		return nil
	}
	_, err := e.post(ctx, "revoke", e.metadata.RevocationEndpoint, url.Values{"token_type_hint": {hint}}, secrets{"token": token}, false)
	if code(err) == "unsupported_token_type" { // such as a JSON Web Token, which is valid until it expires
		return nil
	}
	return err
}

// target returns the Target of a Grant.
func (e *endpoint) target() *Target {
	return &Target{
		Metadata: e.metadata, Resource: e.resource, Scopes: e.scopes, Client: e.client,
		Exchange: func(ctx context.Context, form url.Values) (*Token, error) {
			return e.exchange(ctx, "exchange", form, nil)
		},
		Post: func(ctx context.Context, endpoint string, header http.Header, form url.Values, result any) error {
			u, err := url.Parse(endpoint)
			if err != nil {
				return &Error{Op: "exchange", Err: errors.New("malformed endpoint")}
			}
			named := e.fetch.For(u) // trusted, because the Grant itself names the endpoint
			if err := named.CheckEndpoint(endpoint); err != nil {
				return &Error{Op: "exchange", Err: err}
			}
			r, err := named.PostForm(ctx, endpoint, header, form)
			if err == nil && (r.Status < 200 || r.Status > 299) {
				return refusal("exchange", fetch.Show(endpoint), r, form, header)
			}
			if err == nil {
				err = r.JSON(result)
			}
			if err != nil {
				return &Error{Op: "exchange", Err: err}
			}
			return nil
		},
	}
}

// code returns the error code that the authorization server sent, or "" if err has none.
func code(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
