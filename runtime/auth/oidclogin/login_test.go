package oidclogin_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/oidclogin"
)

const (
	issuer      = "https://idp.example.com"
	redirectURI = "http://127.0.0.1:1234/callback"
)

var key = sync.OnceValue(func() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
})

// provider is an identity provider in memory, and the user agent of a user that logs in at it.
type provider struct {
	metadata map[string]any
	claims   func(claims map[string]any)               // changes those of the ID token
	redirect func(query url.Values)                    // changes that to the client
	answer   func(form url.Values) (int, string, bool) // replaces that of the token endpoint

	mu     sync.Mutex
	logins []url.Values // authorization requests
	tokens []url.Values // token requests
	basic  []string     // their Authorization headers
	known  []string
}

func (p *provider) RoundTrip(req *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, value any) (*http.Response, error) {
		text, ok := value.(string)
		if !ok {
			b, err := json.Marshal(value)
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		header := http.Header{"Content-Type": {"application/json"}, "Location": {issuer + "/elsewhere"}}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: req}, nil
	}
	switch req.URL.String() {
	case issuer + "/.well-known/openid-configuration":
		metadata := map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
		for name, value := range p.metadata {
			metadata[name] = value
		}
		return answer(http.StatusOK, metadata)
	case issuer + "/keys":
		return answer(http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key().Public(), KeyID: "a"}}})
	case issuer + "/token":
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		form, err := url.ParseQuery(string(text))
		if err != nil {
			return nil, err
		}
		p.tokens, p.basic = append(p.tokens, form), append(p.basic, req.Header.Get("Authorization"))
		if p.answer != nil {
			if status, text, ok := p.answer(form); ok {
				return answer(status, text)
			}
		}
		login := p.logins[len(p.logins)-1]
		hash := sha256.Sum256([]byte(form.Get("code_verifier")))
		if form.Get("code") != "code" || form.Get("redirect_uri") != redirectURI || base64.RawURLEncoding.EncodeToString(hash[:]) != login.Get("code_challenge") {
			return answer(http.StatusBadRequest, `{"error":"invalid_grant"}`)
		}
		claims := map[string]any{
			"iss": issuer, "sub": "ann", "aud": login.Get("client_id"), "nonce": login.Get("nonce"),
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		if p.claims != nil {
			p.claims(claims)
		}
		return answer(http.StatusOK, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": sign(claims)})
	}
	return answer(http.StatusNotFound, "not found")
}

func sign(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key(), KeyID: "a"}}, nil)
	if err != nil {
		panic(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		panic(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return token
}

func (p *provider) Begin(_ context.Context, known []string) (oauth.Redirect, error) {
	p.known = known
	return p, nil
}

func (*provider) URI() string { return redirectURI }

func (p *provider) Wait(_ context.Context, to string, accept func(string) bool) (url.Values, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	login := u.Query()
	p.logins = append(p.logins, login)
	if !accept(login.Get("state")) || accept("other") {
		return nil, errors.New("accept does not know its state")
	}
	query := url.Values{"code": {"code"}, "state": {login.Get("state")}}
	if p.redirect != nil {
		p.redirect(query)
	}
	return query, nil
}

func (*provider) Close() error { return nil }

func (p *provider) login(t *testing.T, client oauth.Client) *oidclogin.Login {
	t.Helper()
	l, err := oidclogin.New(oidclogin.Options{Issuer: issuer, Client: client, User: p, Scopes: []string{"email"}, HTTP: &http.Client{Transport: p}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var desk = oauth.Client{ID: "desk", Secret: auth.NewSecret("planted secret"), RedirectURIs: []string{redirectURI}}

func TestIDTokenLogsUserIn(t *testing.T) {
	p := &provider{}
	token, err := p.login(t, desk).IDToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if parsed, err := jose.ParseSignedCompact(token.Reveal(), []jose.SignatureAlgorithm{jose.ES256}); err != nil || !strings.Contains(string(parsed.UnsafePayloadWithoutVerification()), `"sub":"ann"`) {
		t.Errorf("token %q, %v", token.Reveal(), err)
	}
	login := p.logins[0]
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "desk", "redirect_uri": redirectURI, "scope": "openid email", "code_challenge_method": "S256",
	} {
		if login.Get(name) != want {
			t.Errorf("%s %q, want %q", name, login.Get(name), want)
		}
	}
	if len(login.Get("state")) < 22 || len(login.Get("nonce")) < 22 || login.Get("state") == login.Get("nonce") {
		t.Errorf("state %q, nonce %q", login.Get("state"), login.Get("nonce"))
	}
	if len(p.known) != 1 || p.known[0] != redirectURI {
		t.Errorf("known redirect URIs: %v", p.known)
	}
}

func TestSecretIsSentOnceWithSupportedMethod(t *testing.T) {
	header := "Basic " + base64.StdEncoding.EncodeToString([]byte("desk:planted+secret"))
	for _, c := range []struct {
		name          string
		client        oauth.Client
		offered       []string
		secret, basic string
	}{
		{"not said", desk, nil, "", header},
		{"both", desk, []string{"client_secret_post", "client_secret_basic"}, "", header},
		{"form", desk, []string{"client_secret_post"}, "planted secret", ""},
		{"registered for the form", oauth.Client{ID: "desk", Secret: desk.Secret, Method: "client_secret_post"}, nil, "planted secret", ""},
		{"none", oauth.Client{ID: "desk"}, nil, "", ""},
	} {
		p := &provider{metadata: map[string]any{}}
		if c.offered != nil {
			p.metadata["token_endpoint_auth_methods_supported"] = c.offered
		}
		p.answer = func(url.Values) (int, string, bool) { return 401, `{"error":"invalid_client"}`, true }
		_, err := p.login(t, c.client).IDToken(t.Context())
		if err == nil || !strings.Contains(err.Error(), "invalid_client") || len(p.tokens) != 1 {
			t.Errorf("%s: %v after %d requests", c.name, err, len(p.tokens))
			continue
		}
		if p.tokens[0].Get("client_secret") != c.secret || p.basic[0] != c.basic {
			t.Errorf("%s: form %v, header %q", c.name, p.tokens[0], p.basic[0])
		}
	}
}

func TestFailedLoginReturnsNoToken(t *testing.T) {
	claims := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	answer := func(status int, text string) func(url.Values) (int, string, bool) {
		return func(url.Values) (int, string, bool) { return status, text, true }
	}
	redirect := func(name, value string) func(url.Values) {
		return func(query url.Values) { query.Set(name, value) }
	}
	for _, c := range []struct {
		want     string
		provider *provider
		tokens   int // requests to the token endpoint
	}{
		{"too large", &provider{metadata: map[string]any{"padding": strings.Repeat("planted", 1<<18)}}, 0},
		{"did not match the issuer", &provider{metadata: map[string]any{"issuer": "https://evil.example.com"}}, 0},
		{"authorization endpoint", &provider{metadata: map[string]any{"authorization_endpoint": "http://idp.example.com/authorize"}}, 0},
		{"authorization endpoint", &provider{metadata: map[string]any{"authorization_endpoint": "javascript:alert(1)"}}, 0},
		{"token endpoint: http://10.0.0.1/token", &provider{metadata: map[string]any{"token_endpoint": "http://10.0.0.1/token"}}, 0},
		{"another state", &provider{redirect: redirect("state", "other")}, 0},
		{"login failed: access_denied", &provider{redirect: redirect("error", "access_denied")}, 0},
		{`issuer "https://evil.example.com"`, &provider{redirect: redirect("iss", "https://evil.example.com")}, 0},
		{`issuer ""`, &provider{metadata: map[string]any{"authorization_response_iss_parameter_supported": true}}, 0},
		{"no code", &provider{redirect: redirect("code", "")}, 0},
		{"status 500: no error code", &provider{answer: answer(500, "planted")}, 1},
		{"status 307", &provider{answer: answer(307, "planted")}, 1},
		{"no id_token", &provider{answer: answer(200, `{"access_token":"planted","token_type":"Bearer"}`)}, 1},
		{"another login", &provider{claims: claims("nonce", "other")}, 1},
		{"audience", &provider{claims: claims("aud", "other")}, 1},
		{"different provider", &provider{claims: claims("iss", "https://evil.example.com")}, 1},
		{"expired", &provider{claims: claims("exp", 1)}, 1},
	} {
		token, err := c.provider.login(t, desk).IDToken(t.Context())
		if err == nil || !token.Empty() || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "planted") || len(err.Error()) > 500 {
			t.Errorf("%s: %v", c.want, err)
		}
		if len(c.provider.tokens) != c.tokens {
			t.Errorf("%s: %d requests to the token endpoint", c.want, len(c.provider.tokens))
		}
	}
}

func TestUserLogsInAgainWhenTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		l := p.login(t, desk)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				if _, err := l.IDToken(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		time.Sleep(58 * time.Minute)
		first, err := l.IDToken(t.Context())
		if err != nil || len(p.logins) != 1 {
			t.Errorf("%v, %d logins", err, len(p.logins))
		}
		time.Sleep(90 * time.Second) // half a minute before the expiry
		second, err := l.IDToken(t.Context())
		if err != nil || len(p.logins) != 2 || second.Equal(first) {
			t.Errorf("%v, %d logins after the token has expired", err, len(p.logins))
		}
		l.Forget()
		if _, err := l.IDToken(t.Context()); err != nil || len(p.logins) != 3 {
			t.Errorf("%v, %d logins after Forget", err, len(p.logins))
		}
	})
}

type blocked struct{ provider }

func (b *blocked) Begin(ctx context.Context, _ []string) (oauth.Redirect, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestWaitForLoginEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &blocked{}
		l, err := oidclogin.New(oidclogin.Options{Issuer: issuer, Client: desk, User: b, HTTP: &http.Client{Transport: b}})
		if err != nil {
			t.Fatal(err)
		}
		first, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := l.IDToken(first); done <- err }()
		synctest.Wait()
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.IDToken(second); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		end()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

type keyAuth struct{ oauth.ClientAuth }

func (keyAuth) Method() string { return "private_key_jwt" }

func TestNewRejectsInvalidConfig(t *testing.T) {
	p := &provider{}
	for _, c := range []struct {
		want   string
		config oidclogin.Options
	}{
		{"Issuer", oidclogin.Options{Client: desk, User: p}},
		{"https", oidclogin.Options{Issuer: "http://idp.example.com", Client: desk, User: p}},
		{"Client.ID", oidclogin.Options{Issuer: issuer, User: p}},
		{"private_key_jwt", oidclogin.Options{Issuer: issuer, Client: oauth.Client{ID: "desk", Auth: keyAuth{}}, User: p}},
		{"User", oidclogin.Options{Issuer: issuer, Client: desk}},
	} {
		if _, err := oidclogin.New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}
