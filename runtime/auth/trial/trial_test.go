package trial_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/issuer/issuertest"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
)

const (
	origin   = "http://127.0.0.1:9"
	iss      = origin + "/auth"
	resource = "http://127.0.0.1:9/mcp"
	redirect = "http://127.0.0.1:5000/callback"
)

// clock is a time that tests advance.
type clock struct{ now time.Time }

func start(t *testing.T, change func(*trial.Options)) (*trial.Server, issuertest.Web, *clock) {
	t.Helper()
	c := &clock{time.Unix(1e9, 0)}
	o := trial.Options{
		Issuer: iss, Resources: []string{resource}, Scopes: []string{"read", "write"}, Users: []string{"ann", "bob"},
		Clients: []trial.Client{{ID: "job", Secret: auth.NewSecret("s:e c")}, {ID: "app", RedirectURIs: []string{redirect}}},
		Now:     func() time.Time { return c.now },
	}
	if change != nil {
		change(&o)
	}
	s, err := trial.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s, issuertest.Web{origin: s.Handler(nil)}, c
}

// verify returns the identity of the access token in a token response, or nil if it is invalid.
func verify(t *testing.T, s *trial.Server, answer map[string]any) *auth.Identity {
	t.Helper()
	text, _ := answer["access_token"].(string)
	i, err := s.Verify(t.Context(), &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret(text)})
	if err != nil && !errors.Is(err, auth.ErrInvalidToken) {
		t.Fatal(err)
	}
	return i
}

func refresh(t *testing.T, web issuertest.Web, client string, answer map[string]any) (int, map[string]any) {
	t.Helper()
	text, _ := answer["refresh_token"].(string)
	return web.Post(t, iss+"/token", nil, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {text}, "client_id": {client}})
}

// login logs in with the client "app" and returns the token response.
func login(t *testing.T, web issuertest.Web, scope string) map[string]any {
	t.Helper()
	b := issuertest.NewBrowser(t, web)
	p := b.Get(issuertest.AuthorizeURL(iss, "app", redirect, url.Values{"scope": {scope}}))
	return web.Redeem(t, iss, "app", redirect, b.Submit(p, "approve", nil))
}

func TestLoginWithRegistration(t *testing.T) {
	s, web, c := start(t, nil)
	id := web.Register(t, iss, "An <i>app</i>", "http://localhost/callback", redirect)
	b := issuertest.NewBrowser(t, web)
	const elsewhere = "http://127.0.0.1:6000/callback" // another port
	p := b.Get(issuertest.AuthorizeURL(iss, id, elsewhere, url.Values{"scope": {"write offline_access"}, "resource": {"HTTP://127.0.0.1:9/mcp"}}))
	for _, want := range []string{"An &lt;i&gt;app", "127.0.0.1:6000", "write", resource, "no password"} {
		if !strings.Contains(p.Text, want) {
			t.Errorf("%q is not on the page:\n%s", want, p.Text)
		}
	}
	if csp := p.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") {
		t.Error(csp)
	}
	answer := web.Redeem(t, iss, id, elsewhere, b.Submit(p, "approve", url.Values{"user": {"bob"}}))
	i := verify(t, s, answer)
	if i == nil || i.Issuer != iss || i.Subject != "bob" || i.ClientID != id || !slices.Equal(i.Audience, []string{resource}) ||
		!i.HasScopes("write") || i.HasScopes("read") || !i.Expiry.Equal(c.now.Add(trial.DefaultAccessTTL)) || answer["expires_in"] != 300.0 {
		t.Errorf("%+v, %v", i, answer)
	}
	c.now = c.now.Add(trial.DefaultAccessTTL)
	if verify(t, s, answer) != nil {
		t.Error("an expired token is valid")
	}
	if status, answer := refresh(t, web, id, answer); status != 200 || verify(t, s, answer) == nil {
		t.Errorf("status %d, %v", status, answer)
	}
}

func TestMetadataNamesTheEndpoints(t *testing.T) {
	_, web, _ := start(t, nil)
	r, _ := http.NewRequest("GET", origin+"/.well-known/oauth-authorization-server/auth", nil)
	resp, _ := web.RoundTrip(r)
	var m auth.ServerMetadata
	if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
		t.Fatal(err)
	}
	if m.Issuer != iss || m.AuthorizationEndpoint != iss+"/authorize" || !m.IssParameter || !m.ClientIDDocuments ||
		!slices.Equal(m.CodeChallengeMethods, []string{"S256"}) || !slices.Contains(m.ScopesSupported, "offline_access") ||
		!slices.Contains(m.GrantTypesSupported, "client_credentials") || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%+v", m)
	}
	r.Host = "evil.example.com"
	r.URL.Host = r.Host
	if resp, _ := (issuertest.Web{"http://evil.example.com": web[origin]}).RoundTrip(r); resp.StatusCode != 404 {
		t.Errorf("another host: status %d", resp.StatusCode)
	}
}

func TestApproveSkipsPageForLoopbackRedirects(t *testing.T) {
	s, web, _ := start(t, func(o *trial.Options) { o.Approve = true })
	id := web.Register(t, iss, "app", redirect, "https://app.example.com/callback")
	b := issuertest.NewBrowser(t, web)
	answer := web.Redeem(t, iss, id, redirect, b.Get(issuertest.AuthorizeURL(iss, id, redirect, nil)))
	if i := verify(t, s, answer); i == nil || i.Subject != "ann" || len(i.Scopes) != 0 || answer["refresh_token"] != nil {
		t.Errorf("%+v, %v", i, answer)
	}
	if p := b.Get(issuertest.AuthorizeURL(iss, id, "https://app.example.com/callback", nil)); !p.IsConsent() {
		t.Errorf("website: status %d: %s", p.Status, p.Text)
	}
}

func TestInvalidAuthorizationRequestIsRejected(t *testing.T) {
	_, web, _ := start(t, nil)
	for name, test := range map[string]struct {
		change url.Values
		code   string // of the redirect; "" for a page
	}{
		"unknown client":          {url.Values{"client_id": {"nobody"}}, ""},
		"other redirect URI":      {url.Values{"redirect_uri": {"http://127.0.0.1:5000/other"}}, ""},
		"redirect URI with user":  {url.Values{"redirect_uri": {"http://x@127.0.0.1:5000/callback"}}, ""},
		"redirect to other host":  {url.Values{"redirect_uri": {"http://localhost:5000/callback"}}, ""},
		"no redirect URI":         {url.Values{"redirect_uri": nil}, ""},
		"client id twice":         {url.Values{"client_id": {"app", "app"}}, ""},
		"implicit flow":           {url.Values{"response_type": {"token"}}, "unsupported_response_type"},
		"no challenge":            {url.Values{"code_challenge": nil}, "invalid_request"},
		"plain challenge":         {url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		"unknown scope":           {url.Values{"scope": {"read admin"}}, "invalid_scope"},
		"unknown resource":        {url.Values{"resource": {"http://127.0.0.1:9/other"}}, "invalid_target"},
		"two resources":           {url.Values{"resource": {resource, resource}}, "invalid_target"},
		"resource with fragment":  {url.Values{"resource": {resource + "#a"}}, "invalid_target"},
		"resource without a host": {url.Values{"resource": {"mcp"}}, "invalid_target"},
	} {
		t.Run(name, func(t *testing.T) {
			p := issuertest.NewBrowser(t, web).Get(issuertest.AuthorizeURL(iss, "app", redirect, test.change))
			query := p.URL.Query()
			switch {
			case test.code == "" && (p.Status != 400 || !strings.HasPrefix(p.URL.String(), iss)):
				t.Errorf("redirected to %v, status %d", p.URL, p.Status)
			case test.code != "" && (query.Get("error") != test.code || query.Get("state") != "a state" || query.Get("iss") != iss || query.Get("code") != ""):
				t.Errorf("redirected to %v", p.URL)
			}
		})
	}
}

func TestFormNeedsTokenOfPageAndItsBrowser(t *testing.T) {
	_, web, c := start(t, nil)
	b, other := issuertest.NewBrowser(t, web), issuertest.NewBrowser(t, web)
	ask := func(b *issuertest.Browser) *issuertest.Page {
		return b.Get(issuertest.AuthorizeURL(iss, "app", redirect, nil))
	}
	p := ask(b)
	ask(other)
	late := ask(b)
	for name, answer := range map[string]*issuertest.Page{
		"no token":      b.Submit(p, "approve", url.Values{"token": nil}),
		"wrong token":   b.Submit(p, "approve", url.Values{"token": {"AAAA"}}),
		"other request": b.Submit(p, "approve", url.Values{"request": {ask(b).URL.RawQuery + "&nonce=1"}}),
		"other browser": other.Submit(p, "approve", nil),
		"no cookie":     issuertest.NewBrowser(t, web).Submit(p, "approve", nil),
	} {
		if answer.Status != 403 || answer.URL.Query().Has("code") {
			t.Errorf("%s: status %d, %v", name, answer.Status, answer.URL)
		}
	}
	if answer := b.Submit(p, "deny", nil); answer.URL.Query().Get("error") != "access_denied" {
		t.Errorf("denied: %v", answer.URL)
	}
	c.now = c.now.Add(time.Hour)
	if answer := b.Submit(late, "approve", nil); answer.Status != 403 {
		t.Errorf("late: status %d", answer.Status)
	}
}

func TestInvalidTokenRequestIsRejected(t *testing.T) {
	for name, test := range map[string]struct {
		change url.Values
		code   string
	}{
		"other verifier":     {url.Values{"code_verifier": {issuertest.Verifier + "a"}}, "invalid_grant"},
		"no verifier":        {url.Values{"code_verifier": nil}, "invalid_grant"},
		"other redirect URI": {url.Values{"redirect_uri": {"http://127.0.0.1:5001/callback"}}, "invalid_grant"},
		"other client":       {url.Values{"client_id": {"job"}, "client_secret": {"s:e c"}}, "invalid_grant"},
		"no client":          {url.Values{"client_id": nil}, "invalid_client"},
		"wrong secret":       {url.Values{"client_secret": {"guess"}}, "invalid_client"},
		"other resource":     {url.Values{"resource": {"http://127.0.0.1:9/other"}}, "invalid_target"},
		"other code":         {url.Values{"code": {"AAAA"}}, "invalid_grant"},
		"other grant":        {url.Values{"grant_type": {"password"}}, "unsupported_grant_type"},
		"code twice":         {url.Values{"code": {"AAAA", "AAAA"}}, "invalid_request"},
		"late":               {nil, "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			_, web, c := start(t, func(o *trial.Options) { o.Approve = true })
			p := issuertest.NewBrowser(t, web).Get(issuertest.AuthorizeURL(iss, "app", redirect, nil))
			form := url.Values{
				"grant_type": {"authorization_code"}, "code": p.URL.Query()["code"], "redirect_uri": {redirect},
				"client_id": {"app"}, "code_verifier": {issuertest.Verifier},
			}
			for name, values := range test.change {
				form[name] = values
			}
			if test.change == nil {
				c.now = c.now.Add(time.Minute)
			}
			if status, answer := web.Post(t, iss+"/token", nil, form); status != 400 || answer["error"] != test.code || answer["access_token"] != nil {
				t.Errorf("status %d, %v", status, answer)
			}
		})
	}
}

func TestReusedCodeRevokesItsTokens(t *testing.T) {
	s, web, _ := start(t, func(o *trial.Options) { o.Approve = true })
	p := issuertest.NewBrowser(t, web).Get(issuertest.AuthorizeURL(iss, "app", redirect, nil))
	answer := web.Redeem(t, iss, "app", redirect, p)
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": p.URL.Query()["code"], "redirect_uri": {redirect},
		"client_id": {"app"}, "code_verifier": {issuertest.Verifier},
	}
	if status, again := web.Post(t, iss+"/token", nil, form); status != 400 || again["error"] != "invalid_grant" || verify(t, s, answer) != nil {
		t.Errorf("status %d, %v", status, again)
	}
}

func TestReusedRefreshTokenRevokesItsGrant(t *testing.T) {
	s, web, _ := start(t, nil)
	first := login(t, web, "read offline_access")
	if status, answer := refresh(t, web, web.Register(t, iss, "other", redirect), first); status != 400 || answer["error"] != "invalid_grant" {
		t.Errorf("other client: status %d, %v", status, answer)
	}
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {first["refresh_token"].(string)}, "client_id": {"app"}, "scope": {"write"}, "resource": {resource},
	}
	if status, answer := web.Post(t, iss+"/token", nil, form); status != 400 || answer["error"] != "invalid_scope" {
		t.Errorf("scope that was not granted: status %d, %v", status, answer)
	}
	form.Set("scope", "offline_access")
	status, narrow := web.Post(t, iss+"/token", nil, form)
	if i := verify(t, s, narrow); status != 200 || i == nil || i.HasScopes("read") || i.Subject != "ann" {
		t.Fatalf("status %d, %v, %+v", status, narrow, i)
	}
	status, third := refresh(t, web, "app", narrow)
	if i := verify(t, s, third); status != 200 || i == nil || !i.HasScopes("read") {
		t.Fatalf("status %d, %v, %+v", status, third, i)
	}
	if status, answer := refresh(t, web, "app", first); status != 400 || answer["error"] != "invalid_grant" {
		t.Errorf("status %d, %v", status, answer)
	}
	if status, answer := refresh(t, web, "app", third); status != 400 || answer["error"] != "invalid_grant" || verify(t, s, third) != nil {
		t.Errorf("after the reuse: status %d, %v", status, answer)
	}
}

// A client that refreshes very often does not end the grants of others. Only its own latest access
// tokens are valid, and the reuse of any earlier refresh token is detected.
func TestManyRefreshesOfOneGrantDoNotAffectOthers(t *testing.T) {
	s, web, _ := start(t, nil)
	other, first := login(t, web, "offline_access"), login(t, web, "offline_access")
	latest := first
	for i := range 100 {
		status, next := refresh(t, web, "app", latest)
		if status != 200 {
			t.Fatalf("refresh %d: status %d, %v", i, status, next)
		}
		latest = next
	}
	if verify(t, s, other) == nil || verify(t, s, latest) == nil || verify(t, s, first) != nil {
		t.Error("want the token of the other grant and the latest one, and not the first one")
	}
	if status, answer := refresh(t, web, "app", other); status != 200 {
		t.Errorf("refresh of the other grant: status %d, %v", status, answer)
	}
	if status, _ := refresh(t, web, "app", first); status != 400 || verify(t, s, latest) != nil {
		t.Errorf("a refresh token was used again: status %d, and the grant is valid: %v", status, verify(t, s, latest) != nil)
	}
}

func TestClientCredentials(t *testing.T) {
	s, web, _ := start(t, nil)
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"write"}}
	basic := http.Header{"Authorization": {"Basic am9iOnMlM0FlK2M="}} // job:s%3Ae+c
	status, answer := web.Post(t, iss+"/token", basic, form)
	if i := verify(t, s, answer); status != 200 || i == nil || i.Subject != "" || i.ClientID != "job" || !i.HasScopes("write") || answer["refresh_token"] != nil {
		t.Errorf("Basic: status %d, %v, %+v", status, answer, i)
	}
	if status, answer := web.Post(t, iss+"/token", http.Header{"Authorization": {"Basic am9iOng="}}, form); status != 401 || answer["error"] != "invalid_client" {
		t.Errorf("wrong secret: status %d, %v", status, answer)
	}
	form.Set("client_id", "job")
	form.Set("client_secret", "s:e c")
	if status, answer := web.Post(t, iss+"/token", nil, form); status != 200 || verify(t, s, answer) == nil {
		t.Errorf("form: status %d, %v", status, answer)
	}
	if status, answer := web.Post(t, iss+"/token", basic, form); status != 400 || answer["error"] != "invalid_request" {
		t.Errorf("both: status %d, %v", status, answer)
	}
	if status, answer := web.Post(t, iss+"/token", nil, url.Values{"grant_type": {"client_credentials"}, "client_id": {"app"}}); status != 400 || answer["error"] != "unauthorized_client" {
		t.Errorf("public client: status %d, %v", status, answer)
	}
}

func TestRegistration(t *testing.T) {
	_, web, _ := start(t, nil)
	status, answer := web.Post(t, iss+"/register", nil, map[string]any{"redirect_uris": []string{redirect}})
	id, _ := answer["client_id"].(string)
	secret, _ := answer["client_secret"].(string)
	if status != 201 || secret == "" || answer["token_endpoint_auth_method"] != "client_secret_basic" || answer["client_secret_expires_at"] != 0.0 {
		t.Errorf("status %d, %v", status, answer)
	}
	for name, form := range map[string]url.Values{
		"no secret":    {"client_id": {id}},
		"wrong secret": {"client_id": {id}, "client_secret": {"x" + secret}},
		"forged id":    {"client_id": {"x" + id}, "client_secret": {secret}},
	} {
		form.Set("grant_type", "authorization_code")
		if status, answer := web.Post(t, iss+"/token", nil, form); answer["error"] != "invalid_client" {
			t.Errorf("%s: status %d, %v", name, status, answer)
		}
	}
	form := url.Values{"client_id": {id}, "client_secret": {secret}, "grant_type": {"authorization_code"}}
	if _, answer := web.Post(t, iss+"/token", nil, form); answer["error"] != "invalid_grant" {
		t.Error(answer)
	}
	for name, metadata := range map[string]any{
		"no redirect URI": map[string]any{},
		"plain HTTP":      map[string]any{"redirect_uris": []string{"http://app.example.com/"}},
		"own scheme":      map[string]any{"redirect_uris": []string{"app://callback"}},
		"script":          map[string]any{"redirect_uris": []string{"javascript:alert(1)"}},
		"fragment":        map[string]any{"redirect_uris": []string{redirect + "#"}},
		"signed requests": map[string]any{"redirect_uris": []string{redirect}, "token_endpoint_auth_method": "private_key_jwt"},
		"too large":       map[string]any{"redirect_uris": []string{redirect}, "client_name": strings.Repeat("a", 5000)},
		"no object":       "metadata",
	} {
		if status, answer := web.Post(t, iss+"/register", nil, metadata); status != 400 || answer["client_id"] != nil {
			t.Errorf("%s: status %d, %v", name, status, answer)
		}
	}
}

func TestClientIDMetadataDocument(t *testing.T) {
	const id = "https://app.example.com/client.json"
	document, fetched := map[string]any{"client_id": id, "client_name": "The app", "redirect_uris": []string{redirect}}, 0
	web := issuertest.Web{"https://app.example.com": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched++
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(document)
	})}
	s, own, c := start(t, func(o *trial.Options) { o.HTTP = &http.Client{Transport: web} })
	web[origin] = own[origin]
	b := issuertest.NewBrowser(t, web)
	p := b.Get(issuertest.AuthorizeURL(iss, id, redirect, nil))
	if !strings.Contains(p.Text, "The app") {
		t.Error(p.Text)
	}
	if i := verify(t, s, web.Redeem(t, iss, id, redirect, b.Submit(p, "approve", nil))); i == nil || i.ClientID != id || fetched != 1 {
		t.Errorf("%+v, fetched %d times", i, fetched)
	}
	c.now = c.now.Add(time.Hour)
	document["client_id"] = "https://other.example.com/client.json"
	long := maps.Clone(document)
	long["client_name"] = strings.Repeat("a", 5000)
	for _, id := range []string{id, "https://app.example.com", "https://app.example.com/client.json#a", "http://app.example.com/client.json"} {
		if p := b.Get(issuertest.AuthorizeURL(iss, id, redirect, nil)); p.Status != 400 {
			t.Errorf("%s: status %d", id, p.Status)
		}
	}
	long["client_id"], document = id, long
	if p := b.Get(issuertest.AuthorizeURL(iss, id, redirect, nil)); p.Status != 400 {
		t.Errorf("a long document: status %d", p.Status)
	}
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Anyone can make the server fetch documents, from hosts that do not respond. The fetches of one
// network are limited, and so are all.
func TestFetchesOfClientIDMetadataDocumentsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := trial.New(trial.Options{
			Issuer: iss, Resources: []string{resource}, Users: []string{"ann"},
			HTTP: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})},
		})
		if err != nil {
			t.Fatal(err)
		}
		h := s.Handler(nil)
		statuses := make(chan int, 100)
		fetch := func(method, from string) {
			form := url.Values{"client_id": {"https://" + strings.ToLower(rand.Text()) + ".example.com/client.json"}}
			r := httptest.NewRequest("GET", iss+"/authorize?"+form.Encode(), nil)
			if method == "POST" {
				r = httptest.NewRequest("POST", iss+"/token", strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			r.RemoteAddr = from
			go func() { // ends with the fetch
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				statuses <- w.Code
			}()
			synctest.Wait()
		}
		for i, from := range []string{"203.0.113.7:1", "198.51.100.1:1", "192.0.2.1:1", "127.0.0.1:1", "198.18.0.1:1"} {
			for range 6 {
				fetch("GET", from)
				fetch("POST", from)
			}
			refused := []int{4, 4, 4, 4, 12}[i] // the fourth network is unknown, and has what is left
			if len(statuses) != refused {
				t.Errorf("%s: %d fetches are refused, want %d", from, len(statuses), refused)
			}
			for len(statuses) > 0 {
				if status := <-statuses; status != http.StatusServiceUnavailable {
					t.Errorf("%s: status %d", from, status)
				}
			}
		}
		time.Sleep(time.Minute)
		for range 32 {
			if status := <-statuses; status != http.StatusBadRequest {
				t.Errorf("without a response: status %d", status)
			}
		}
		if len(statuses) > 0 {
			t.Errorf("%d fetches more than 32", len(statuses))
		}
		fetch("GET", "203.0.113.7:1")
		time.Sleep(time.Minute)
		if status := <-statuses; status != http.StatusBadRequest {
			t.Errorf("afterwards: status %d", status)
		}
	})
}

func TestRevocation(t *testing.T) {
	s, web, _ := start(t, nil)
	revoke := func(client, token string) {
		t.Helper()
		if status, answer := web.Post(t, iss+"/revoke", nil, url.Values{"client_id": {client}, "token": {token}}); status != 200 || answer != nil {
			t.Errorf("status %d, %v", status, answer)
		}
	}
	answer, other := login(t, web, "offline_access"), login(t, web, "read")
	revoke(web.Register(t, iss, "other", redirect), answer["access_token"].(string))
	revoke("app", "unknown")
	if verify(t, s, answer) == nil {
		t.Error("another client has revoked a token")
	}
	revoke("app", answer["refresh_token"].(string))
	if status, _ := refresh(t, web, "app", answer); status != 400 || verify(t, s, answer) != nil || verify(t, s, other) == nil {
		t.Errorf("status %d", status)
	}
	s.Revoke("bob")
	if verify(t, s, other) == nil {
		t.Error("the token of another user was revoked")
	}
	if s.Revoke("ann"); verify(t, s, other) != nil {
		t.Error("a revoked token is valid")
	}
}

func TestNewRejectsOtherHosts(t *testing.T) {
	for _, issuer := range []string{"", "https://auth.example.com", "http://10.0.0.1:80", "http://localhost.example.com", "http://[::]:80", "http://127.0.0.1/?a", "ftp://127.0.0.1"} {
		if _, err := trial.New(trial.Options{Issuer: issuer}); err == nil {
			t.Errorf("%q was accepted", issuer)
		}
	}
	for _, issuer := range []string{"http://localhost:80", "http://[::1]:80/a", "https://127.0.0.2"} {
		if _, err := trial.New(trial.Options{Issuer: issuer}); err != nil {
			t.Errorf("%q: %v", issuer, err)
		}
	}
}
