package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/issuer/issuertest"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/provider"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
)

const (
	iss      = "https://mcp.example.com"
	resource = iss + "/mcp"
	upstream = "http://127.0.0.1:9"
	redirect = "https://app.example.com/callback"
	secret   = "upstream secret"
)

// fixture has a server behind a Proxy, and a trial server that is the provider.
type fixture struct {
	t        *testing.T
	web      issuertest.Web
	provider *trial.Server
	proxy    *provider.Proxy
	now      time.Time
	logs     bytes.Buffer

	contacts []string       // requests to the provider, as method and path
	forms    []string       // that the token endpoint of the provider has received
	down     bool           // whether the provider fails
	keep     bool           // whether the provider answers a refresh without a new refresh token
	proceed  chan struct{}  // the token endpoint of the provider waits for it; nil if it does not
	suffix   string         // of the subjects that the provider names
	identity *auth.Identity // of the last request to the protected server
}

// start returns a fixture. change modifies the configuration of the Proxy.
func start(t *testing.T, change func(*provider.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Unix(1e9, 0), web: issuertest.Web{}}
	clock := func() time.Time { return f.now }
	var err error
	if f.provider, err = trial.New(trial.Options{
		Issuer: upstream, Resources: []string{upstream + "/api"}, Scopes: []string{"profile"}, Users: []string{"ann", "bob"},
		Clients: []trial.Client{{ID: "static", Secret: auth.NewSecret(secret), RedirectURIs: []string{iss + "/callback"}}}, Now: clock,
	}); err != nil {
		t.Fatal(err)
	}
	c := provider.Options{
		Issuer: iss, Resource: resource, Name: "Example", Scopes: []string{"mcp"}, Now: clock, Key: []byte("0123456789abcdef"),
		HTTP: &http.Client{Transport: f.web}, Logger: slog.New(slog.NewTextHandler(&f.logs, nil)), AccessTTL: 20 * time.Minute,
		Upstream: provider.Upstream{
			Metadata: auth.ServerMetadata{
				Issuer: upstream, AuthorizationEndpoint: upstream + "/authorize?prompt=login", TokenEndpoint: upstream + "/token",
				RevocationEndpoint: upstream + "/revoke", IssParameter: true,
			},
			Client: oauth.Client{ID: "static", Secret: auth.NewSecret(secret)}, Scopes: []string{"profile", "offline_access"},
			Subject: func(ctx context.Context, token *oauth.Token) (string, map[string]any, error) {
				i, err := f.provider.Verify(ctx, &auth.Credentials{Scheme: "Bearer", Token: token.Access})
				if err != nil {
					return "", nil, err
				}
				return i.Subject + f.suffix, map[string]any{"email": i.Subject + "@example.com"}, nil
			},
		},
	}
	if change != nil {
		change(&c)
	}
	if f.proxy, err = provider.New(c); err != nil {
		t.Fatal(err)
	}
	p, err := auth.NewProtector(auth.Options{Resource: resource, Issuers: []string{iss}, Verifier: f.proxy, Scopes: []string{"mcp"}, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	f.web[iss] = f.proxy.Handler(p.Handler(p.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := auth.FromContext(r.Context())
		f.identity = i
		token, err := f.proxy.UpstreamToken(r.Context())
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{
			"subject": i.Subject, "email": i.Claims["email"], "token": token.Reveal(), "error": fmt.Sprint(err), "unavailable": errors.Is(err, auth.ErrUnavailable),
		})
	}))))
	own := f.provider.Handler(nil)
	f.web[upstream] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.contacts = append(f.contacts, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/token" {
			text, _ := io.ReadAll(r.Body)
			f.forms = append(f.forms, string(text))
			if f.proceed != nil {
				<-f.proceed
			}
			r.Body = io.NopCloser(bytes.NewReader(text))
		}
		if f.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		if !f.keep || r.URL.Path != "/token" {
			own.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		own.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", "application/json")
		w.Write(bytes.Replace(rec.Body.Bytes(), []byte("refresh_token"), []byte("other_member"), 1))
	})
	return f
}

func (f *fixture) authorizeURL(client string) string {
	return issuertest.AuthorizeURL(iss, client, redirect, url.Values{"scope": {"mcp offline_access"}, "resource": {resource}})
}

// login logs ann in, and returns the token response of the Proxy.
func (f *fixture) login(client string) map[string]any {
	f.t.Helper()
	b := issuertest.NewBrowser(f.t, f.web)
	p := b.Submit(b.Get(f.authorizeURL(client)), "approve", nil)
	if !p.IsConsent() || p.URL.Host != "127.0.0.1:9" {
		f.t.Fatalf("not at the provider, but at %v: status %d: %s", p.URL, p.Status, p.Text)
	}
	return f.web.Redeem(f.t, iss, client, redirect, b.Submit(p, "approve", nil))
}

// call sends a request with a token to the protected server.
func (f *fixture) call(token string) (status int, answer map[string]any) {
	f.t.Helper()
	return f.web.Post(f.t, resource, http.Header{"Authorization": {"Bearer " + token}}, map[string]any{})
}

func (f *fixture) refresh(client string, answer map[string]any) (int, map[string]any) {
	f.t.Helper()
	return f.web.Post(f.t, iss+"/token", nil, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {answer["refresh_token"].(string)}, "client_id": {client}, "resource": {resource},
	})
}

func (f *fixture) verifyUpstream(token string) error {
	_, err := f.provider.Verify(f.t.Context(), &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret(token)})
	return err
}

// Proves SDK-19, AUTH-22, M-AUTH-03.
func TestLoginThroughTheProxy(t *testing.T) {
	f := start(t, nil)
	client := f.web.Register(t, iss, "app", redirect)
	answer := f.login(client)
	access := answer["access_token"].(string)
	status, result := f.call(access)
	token, _ := result["token"].(string)
	if status != 200 || result["subject"] != "ann" || result["email"] != "ann@example.com" || f.verifyUpstream(token) != nil {
		t.Fatalf("status %d, %v", status, result)
	}
	if f.verifyUpstream(access) == nil {
		t.Error("the provider accepts the token of the client")
	}
	for name, secret := range map[string]string{"access token": token, "refresh token": answer["refresh_token"].(string)} {
		if _, err := f.proxy.Verify(t.Context(), &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret(secret)}); !errors.Is(err, auth.ErrInvalidToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, form := range f.forms {
		if strings.Contains(form, access) || strings.Contains(form, issuertest.Verifier) || strings.Contains(form, "client_secret") {
			t.Errorf("the provider has got %s", form)
		}
	}

	// The token of the client and that of the provider have expired.
	f.now = f.now.Add(time.Hour - time.Minute)
	if status, answer := f.web.Post(t, resource, nil, map[string]any{}); status != 401 {
		t.Errorf("status %d, %v", status, answer)
	}
	status, answer = f.refresh(client, answer)
	if status != 200 {
		t.Fatalf("status %d, %v", status, answer)
	}
	if status, result := f.call(answer["access_token"].(string)); status != 200 || result["token"] == token || f.verifyUpstream(result["token"].(string)) != nil {
		t.Errorf("status %d, %v", status, result)
	}

	if status, _ := f.web.Post(t, iss+"/revoke", nil, url.Values{"client_id": {client}, "token": {answer["access_token"].(string)}}); status != 200 {
		t.Errorf("revoke: status %d", status)
	}
	if f.verifyUpstream(result["token"].(string)) == nil {
		t.Error("the token of the provider was not revoked")
	}
	if f.logs.Len() > 0 {
		t.Error(f.logs.String())
	}
}

// user is a user agent that approves each page.
type user struct{ *issuertest.Browser }

func (u user) Begin(context.Context, []string) (oauth.Redirect, error) { return u, nil }
func (user) URI() string                                               { return "http://127.0.0.1:5000/callback" }
func (user) Close() error                                              { return nil }

func (u user) Wait(_ context.Context, authorizationURL string, _ func(string) bool) (url.Values, error) {
	p := u.Get(authorizationURL)
	for p.IsConsent() {
		p = u.Submit(p, "approve", nil)
	}
	return p.URL.Query(), nil
}

// Proves SDK-19.
func TestAuthorizerLogsInThroughTheProxy(t *testing.T) {
	f := start(t, nil)
	f.now = time.Now() // as the Authorizer has no clock of its own
	a, err := oauth.New(oauth.Options{User: user{issuertest.NewBrowser(t, f.web)}, HTTP: &http.Client{Transport: f.web}})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Login(t.Context(), resource); err != nil {
		t.Fatal(err)
	}
	first, err := a.Token(t.Context(), resource)
	if err != nil {
		t.Fatal(err)
	}
	status, result := f.call(first.Access.Reveal())
	if status != 200 || f.verifyUpstream(result["token"].(string)) != nil || first.Refresh.Empty() {
		t.Errorf("status %d, %v, %+v", status, result, first)
	}
	if err := a.Logout(t.Context(), resource); err != nil {
		t.Error(err)
	}
	if status, _ := f.call(first.Access.Reveal()); status != 401 || f.verifyUpstream(result["token"].(string)) == nil {
		t.Errorf("after Logout: status %d", status)
	}
}

// Proves AUTH-31.
func TestEachClientNeedsConsent(t *testing.T) {
	f := start(t, nil)
	first, second := f.web.Register(t, iss, "first", redirect), f.web.Register(t, iss, "second", redirect, redirect+"2", "http://127.0.0.1:1/")
	b, other := issuertest.NewBrowser(t, f.web), issuertest.NewBrowser(t, f.web)
	asks := func(name string, b *issuertest.Browser, rawURL string) *issuertest.Page {
		t.Helper()
		before := len(f.contacts)
		p := b.Get(rawURL)
		if !p.IsConsent() || p.URL.Host != "mcp.example.com" || len(f.contacts) != before {
			t.Fatalf("%s: no page, but at %v: status %d, contacts %v", name, p.URL, p.Status, f.contacts[before:])
		}
		return p
	}
	approve := func(b *issuertest.Browser, p *issuertest.Page) {
		t.Helper()
		p = b.Submit(p, "approve", nil)
		if p.URL.Host != "127.0.0.1:9" || p.URL.Query().Get("prompt") != "login" {
			t.Fatalf("not at the provider, but at %v", p.URL)
		}
		b.Submit(p, "approve", nil)
	}
	p := asks("first client", b, f.authorizeURL(first))
	for _, want := range []string{"first", "app.example.com", redirect, resource, "mcp", "offline_access", "127.0.0.1:9", "profile"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("%q is not on the page:\n%s", want, p.Text)
		}
	}
	if cookie := p.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-") || !strings.Contains(cookie, "Secure") ||
		!strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Error(cookie)
	}
	asks("other browser, without an answer", other, f.authorizeURL(first))
	for name, answer := range map[string]*issuertest.Page{
		"no CSRF token": b.Submit(p, "approve", url.Values{"token": nil}),
		"other browser": other.Submit(p, "approve", nil),
	} {
		if answer.Status != 403 || len(f.contacts) > 0 {
			t.Errorf("%s: status %d, contacts %v", name, answer.Status, f.contacts)
		}
	}
	if denied := b.Submit(p, "deny", nil); denied.URL.Query().Get("error") != "access_denied" || len(f.contacts) > 0 {
		t.Errorf("%v, contacts %v", denied.URL, f.contacts)
	}
	approve(b, asks("after a denial", b, f.authorizeURL(first)))
	if p := b.Get(f.authorizeURL(first)); p.URL.Host != "127.0.0.1:9" {
		t.Errorf("same client: at %v", p.URL)
	}

	asks("same client in another browser", other, f.authorizeURL(first))
	asks("other scopes", b, issuertest.AuthorizeURL(iss, first, redirect, nil))
	approve(b, asks("second client", b, f.authorizeURL(second)))
	asks("other redirect URI", b, issuertest.AuthorizeURL(iss, second, redirect+"2", url.Values{"scope": {"mcp offline_access"}}))
	const program = "http://127.0.0.1:7000/" // any program of this computer can listen there
	approve(b, asks("program", b, issuertest.AuthorizeURL(iss, second, program, nil)))
	asks("program again", b, issuertest.AuthorizeURL(iss, second, program, nil))
	asks("same metadata, registered again", b, f.authorizeURL(f.web.Register(t, iss, "first", redirect)))
}

func TestErrorDoesNotRedirectToUnknownWebsite(t *testing.T) {
	f := start(t, nil)
	client := f.web.Register(t, iss, "app", redirect, "http://127.0.0.1/")
	b := issuertest.NewBrowser(t, f.web)
	invalid := url.Values{"scope": {"admin"}}
	if p := b.Get(issuertest.AuthorizeURL(iss, client, redirect, invalid)); p.Status != 400 || p.URL.Host != "mcp.example.com" {
		t.Errorf("website: at %v, status %d", p.URL, p.Status)
	}
	if p := b.Get(issuertest.AuthorizeURL(iss, client, "http://127.0.0.1/", invalid)); p.URL.Query().Get("error") != "invalid_scope" {
		t.Errorf("program: at %v, status %d", p.URL, p.Status)
	}
}

func TestClientIDAtPrivateAddressIsNotFetched(t *testing.T) {
	f := start(t, nil)
	for _, host := range []string{"https://10.0.0.1", "https://127.0.0.1:9", "https://localhost", "https://metadata.internal"} {
		f.web[host] = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s is reached", host) })
		if p := issuertest.NewBrowser(t, f.web).Get(f.authorizeURL(host + "/client.json")); p.Status != 400 {
			t.Errorf("%s: status %d", host, p.Status)
		}
	}
}

func TestInvalidCallbackIsRejected(t *testing.T) {
	f := start(t, nil)
	client := f.web.Register(t, iss, "app", redirect)
	b, other := issuertest.NewBrowser(t, f.web), issuertest.NewBrowser(t, f.web)
	other.Get(f.authorizeURL(client)) // so that it has a cookie
	p := b.Submit(b.Get(f.authorizeURL(client)), "approve", nil)
	callback := iss + "/callback?" + url.Values{"state": p.URL.Query()["state"], "error": {"access_denied"}, "iss": {upstream}}.Encode()
	for name, p := range map[string]*issuertest.Page{
		"other browser": other.Get(callback),
		"no cookie":     issuertest.NewBrowser(t, f.web).Get(callback),
		"no state":      b.Get(iss + "/callback?code=a"),
		"other state":   b.Get(iss + "/callback?code=a&state=b"),
	} {
		if p.Status != 403 {
			t.Errorf("%s: status %d", name, p.Status)
		}
	}
	if p := b.Get(callback); p.URL.Query().Get("error") != "access_denied" || p.URL.Query().Get("state") != "a state" || p.URL.Query().Get("iss") != iss {
		t.Errorf("denied at the provider: at %v", p.URL)
	}
	if p := b.Get(callback); p.Status != 403 {
		t.Errorf("second time: status %d", p.Status)
	}

	for name, answer := range map[string]url.Values{
		"error of the provider": {"error": {"bad\nthing"}, "iss": {upstream}},
		"no code":               {"iss": {upstream}},
		"no issuer":             {"code": {"a"}},
		"other issuer":          {"code": {"a"}, "iss": {"https://evil.example.com"}},
		"provider down":         {"code": {"a"}, "iss": {upstream}},
	} {
		p := b.Get(f.authorizeURL(client)) // the consent is recorded
		requests := len(f.forms)
		f.down = name == "provider down"
		answer["state"] = p.URL.Query()["state"]
		p = b.Get(iss + "/callback?" + answer.Encode())
		if query := p.URL.Query(); query.Get("error") != "server_error" || query.Get("code") != "" || (len(f.forms) > requests) != f.down {
			t.Errorf("%s: at %v, %d token requests", name, p.URL, len(f.forms)-requests)
		}
		f.down = false
	}
	if logs := f.logs.String(); strings.Count(logs, "login at the provider failed") != 5 || strings.Contains(logs, secret) {
		t.Error(logs)
	}
}

func TestGrantEndsWithLoginAtProvider(t *testing.T) {
	f := start(t, nil)
	client := f.web.Register(t, iss, "app", redirect)
	answer := f.login(client)
	access := answer["access_token"].(string)

	f.now = f.now.Add(10 * time.Minute) // the token of the provider has expired
	f.down = true
	if status, result := f.call(access); status != 200 || result["unavailable"] != true || result["token"] != "" {
		t.Errorf("provider down: status %d, %v", status, result)
	}
	if status, result := f.refresh(client, answer); status != 503 || result["error"] != "temporarily_unavailable" {
		t.Errorf("provider down: status %d, %v", status, result)
	}
	f.down = false
	if status, result := f.call(access); status != 200 || f.verifyUpstream(result["token"].(string)) != nil {
		t.Errorf("status %d, %v", status, result)
	}

	f.provider.Revoke("ann")
	if status, result := f.refresh(client, answer); status != 400 || result["error"] != "invalid_grant" {
		t.Errorf("revoked at the provider: status %d, %v", status, result)
	}
	if status, _ := f.call(access); status != 401 {
		t.Errorf("revoked at the provider: status %d", status)
	}

	answer = f.login(client)
	f.now = f.now.Add(10 * time.Minute)
	f.provider.Revoke("ann")
	if _, result := f.call(answer["access_token"].(string)); !strings.Contains(result["error"].(string), "invalid_grant") || result["token"] != "" {
		t.Error(result)
	}
	if status, _ := f.call(answer["access_token"].(string)); status != 401 {
		t.Errorf("after the failed refresh: status %d", status)
	}

	answer = f.login(client)
	f.suffix = "other"
	if status, result := f.refresh(client, answer); status != 400 || result["error"] != "invalid_grant" {
		t.Errorf("other subject: status %d, %v", status, result)
	}
	f.suffix = ""

	answer = f.login(client)
	f.proxy.Revoke("ann")
	if status, _ := f.call(answer["access_token"].(string)); status != 401 {
		t.Errorf("revoked at the proxy: status %d", status)
	}
}

func TestUpstreamTokenWithoutRefreshToken(t *testing.T) {
	f := start(t, func(c *provider.Options) { c.Upstream.Scopes = []string{"profile"} })
	access := f.login(f.web.Register(t, iss, "app", redirect))["access_token"].(string)
	f.now = f.now.Add(5*time.Minute - time.Second)
	if status, result := f.call(access); status != 200 || result["token"] == "" {
		t.Errorf("status %d, %v", status, result)
	}
	f.now = f.now.Add(time.Second)
	if _, result := f.call(access); result["token"] != "" {
		t.Error(result)
	}
	if status, _ := f.call(access); status != 401 {
		t.Errorf("status %d", status)
	}
	if _, err := f.proxy.UpstreamToken(t.Context()); !errors.Is(err, auth.ErrInvalidToken) {
		t.Error(err)
	}
}

func TestConcurrentCallersShareOneRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, nil)
		f.call(f.login(f.web.Register(t, iss, "app", redirect))["access_token"].(string))
		f.now = f.now.Add(5 * time.Minute)
		f.forms, f.proceed = nil, make(chan struct{})
		tokens := make(chan string, 4)
		for range cap(tokens) {
			go func() {
				token, err := f.proxy.UpstreamToken(auth.WithIdentity(t.Context(), f.identity))
				if err != nil {
					t.Error(err)
				}
				tokens <- token.Reveal()
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(auth.WithIdentity(t.Context(), f.identity))
		cancel()
		if _, err := f.proxy.UpstreamToken(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		close(f.proceed)
		first := <-tokens
		for range cap(tokens) - 1 {
			if token := <-tokens; token != first || f.verifyUpstream(token) != nil {
				t.Error("the tokens differ")
			}
		}
		if len(f.forms) != 1 {
			t.Errorf("%d refreshes", len(f.forms))
		}
	})
}

func TestUpstreamTokenIsRefreshed(t *testing.T) {
	f := start(t, nil)
	access := f.login(f.web.Register(t, iss, "app", redirect))["access_token"].(string)
	_, first := f.call(access)
	f.now = f.now.Add(5*time.Minute - 10*time.Second)
	f.down = true
	if _, result := f.call(access); result["token"] != first["token"] {
		t.Errorf("provider down, token not expired: %v", result)
	}
	f.down, f.keep = false, true
	_, second := f.call(access)
	if second["token"] == first["token"] || f.verifyUpstream(second["token"].(string)) != nil {
		t.Errorf("refreshed: %v", second)
	}
	if _, result := f.call(access); result["token"] != second["token"] {
		t.Errorf("again: %v", result)
	}
	f.now = f.now.Add(5 * time.Minute)
	f.forms = nil
	f.call(access)
	if len(f.forms) != 1 || !strings.Contains(f.forms[0], "grant_type=refresh_token") {
		t.Errorf("the refresh token was not kept: %v", f.forms)
	}

	access = f.login(f.web.Register(t, iss, "app", redirect))["access_token"].(string)
	f.call(access)
	own := *f.identity
	if _, err := f.proxy.UpstreamToken(auth.WithIdentity(t.Context(), &own)); err != nil {
		t.Error(err)
	}
	own.Issuer = upstream
	if _, err := f.proxy.UpstreamToken(auth.WithIdentity(t.Context(), &own)); !errors.Is(err, auth.ErrInvalidToken) {
		t.Errorf("identity of another issuer: %v", err)
	}
}

func TestRegistrationSurvivesRestart(t *testing.T) {
	client := start(t, nil).web.Register(t, iss, "app", redirect)
	f := start(t, nil)
	if status, result := f.call(f.login(client)["access_token"].(string)); status != 200 || result["subject"] != "ann" {
		t.Errorf("status %d, %v", status, result)
	}
	f = start(t, func(c *provider.Options) { c.Key = nil })
	if p := issuertest.NewBrowser(t, f.web).Get(f.authorizeURL(client)); p.Status != 400 {
		t.Errorf("another key: status %d", p.Status)
	}
}

// The proxy does not store pages and pending logins. Neither a restart nor requests of other
// clients end them.
func TestPendingLoginSurvivesRestart(t *testing.T) {
	var c provider.Options
	f := start(t, func(x *provider.Options) { c = *x })
	restart := func() {
		t.Helper()
		var err error
		if f.proxy, err = provider.New(c); err != nil {
			t.Fatal(err)
		}
		f.web[iss] = f.proxy.Handler(nil)
	}
	client := f.web.Register(t, iss, "app", redirect)
	b := issuertest.NewBrowser(t, f.web)
	p := b.Get(f.authorizeURL(client))
	restart()
	if p = b.Submit(p, "approve", nil); p.URL.Host != "127.0.0.1:9" {
		t.Fatalf("approved: at %v, status %d", p.URL, p.Status)
	}
	restart()
	if f.web.Redeem(t, iss, client, redirect, b.Submit(p, "approve", nil))["access_token"] == nil {
		t.Error("no token")
	}
}

// A cookie has the request of the client. Browsers limit its size.
func TestTooLongRequestIsRejected(t *testing.T) {
	f := start(t, nil)
	client := f.web.Register(t, iss, "app", redirect)
	b := issuertest.NewBrowser(t, f.web)
	p := b.Submit(b.Get(f.authorizeURL(client)+"&x="+strings.Repeat("y", 2800)), "approve", nil)
	if p.URL.Query().Get("error") != "invalid_request" || len(f.contacts) > 0 {
		t.Errorf("at %v, contacts %v", p.URL, f.contacts)
	}
}

func TestNewRejectsConfig(t *testing.T) {
	good := provider.Options{Issuer: iss, Resource: resource, Upstream: provider.Upstream{
		Metadata: auth.ServerMetadata{AuthorizationEndpoint: "https://as.example.com/a", TokenEndpoint: "https://as.example.com/t"},
		Client:   oauth.Client{ID: "static", Method: "none"}, Subject: func(context.Context, *oauth.Token) (string, map[string]any, error) { return "", nil, nil },
	}}
	p, err := provider.New(good)
	if err != nil {
		t.Fatal(err)
	}
	if p.RedirectURI() != iss+"/callback" {
		t.Error(p.RedirectURI())
	}
	for name, change := range map[string]func(*provider.Options){
		"no issuer":                 func(c *provider.Options) { c.Issuer = "" },
		"issuer without TLS":        func(c *provider.Options) { c.Issuer = "http://mcp.example.com" },
		"issuer with a query":       func(c *provider.Options) { c.Issuer += "?a" },
		"no resource":               func(c *provider.Options) { c.Resource = "" },
		"malformed resource":        func(c *provider.Options) { c.Resource = "mcp" },
		"malformed scope":           func(c *provider.Options) { c.Scopes = []string{"a b"} },
		"short key":                 func(c *provider.Options) { c.Key = make([]byte, 15) },
		"negative lifetime":         func(c *provider.Options) { c.AccessTTL = -1 },
		"no authorization endpoint": func(c *provider.Options) { c.Upstream.Metadata.AuthorizationEndpoint = "" },
		"no token endpoint":         func(c *provider.Options) { c.Upstream.Metadata.TokenEndpoint = "" },
		"endpoint without TLS":      func(c *provider.Options) { c.Upstream.Metadata.TokenEndpoint = "http://as.example.com/t" },
		"revocation without TLS":    func(c *provider.Options) { c.Upstream.Metadata.RevocationEndpoint = "http://as.example.com/r" },
		"no client id":              func(c *provider.Options) { c.Upstream.Client.ID = "" },
		"no authentication":         func(c *provider.Options) { c.Upstream.Client.Method = "" },
		"method without Auth":       func(c *provider.Options) { c.Upstream.Client.Method = "private_key_jwt" },
		"no subject":                func(c *provider.Options) { c.Upstream.Subject = nil },
	} {
		c := good
		change(&c)
		if _, err := provider.New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
