package oauth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

const (
	serverURL = "https://mcp.example/mcp"
	issuer    = "https://as.example"
)

// world is a protected server, its authorization server, a user and an Authorizer.
type world struct {
	t        testing.TB
	network  *mockas.Network
	as       *mockas.Server
	resource *mockas.Resource
	browser  *mockas.Browser
	a        *oauth.Authorizer
}

func newWorld(t testing.TB, configure func(*world, *oauth.Options)) *world {
	t.Helper()
	w := &world{t: t, network: &mockas.Network{}, as: mockas.NewServer(issuer)}
	w.resource = mockas.NewResource(serverURL, w.as)
	w.browser = &mockas.Browser{Network: w.network}
	w.network.Handle("as.example", w.as)
	w.network.Handle("mcp.example", w.resource)
	c := oauth.Options{User: w.browser, HTTP: w.network.Client()}
	if configure != nil {
		configure(w, &c)
	}
	var err error
	if w.a, err = oauth.New(c); err != nil {
		t.Fatal(err)
	}
	return w
}

// document returns the metadata of the authorization server, for changes.
func (w *world) document() map[string]any {
	return w.as.Documents["/.well-known/oauth-authorization-server"]
}

// send sends a message with an Authorizer as a connection does.
func send(ctx context.Context, n *mockas.Network, a httpclient.Authorizer, rawURL string, op httpclient.Operation) (int, error) {
	return sendThrough(ctx, n.Client(), a, rawURL, op)
}

func sendThrough(ctx context.Context, c *http.Client, a httpclient.Authorizer, rawURL string, op httpclient.Operation) (int, error) {
	var err error
	if op.Server, err = url.Parse(rawURL); err != nil {
		return 0, err
	}
	op.Server.RawQuery = ""
	for ; ; op.Attempt++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, nil)
		if err != nil {
			return 0, err
		}
		if err := a.Authorize(req, op); err != nil {
			return 0, err
		}
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp.StatusCode, nil
		}
		again, err := a.Challenged(ctx, resp, op)
		if err != nil || !again {
			return resp.StatusCode, err
		}
	}
}

// tool is a tools/call.
var tool = httpclient.Operation{Method: "tools/call", Name: "tool"}

// call sends a tools/call.
func (w *world) call() (int, error) { return send(w.t.Context(), w.network, w.a, serverURL, tool) }

func (w *world) mustCall() {
	w.t.Helper()
	if status, err := w.call(); status != http.StatusOK || err != nil {
		w.t.Fatalf("status %d, %v; requests: %q", status, err, w.network.Lines())
	}
}

// Proves AUTH-01, AUTH-14, AUTH-16, AUTH-26, M-AUTH-06 and M-AUTH-07.
func TestAuthorizationCodeFlow(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	want := []string{
		"POST https://mcp.example/mcp",
		"GET https://mcp.example/.well-known/oauth-protected-resource/mcp",
		"GET https://as.example/.well-known/oauth-authorization-server",
		"POST https://as.example/register",
		"GET https://as.example/authorize",
		"POST https://as.example/token",
		"POST https://mcp.example/mcp",
	}
	if got := w.network.Lines(); !slices.Equal(got, want) {
		t.Fatalf("requests: %q\nwant: %q", got, want)
	}
	authorize := w.network.Requests("GET https://as.example/authorize")[0].Form
	token := w.network.Requests("POST https://as.example/token")[0].Form
	if authorize.Get("resource") != serverURL || token.Get("resource") != serverURL {
		t.Errorf("resource is %q and %q", authorize.Get("resource"), token.Get("resource"))
	}
	if authorize.Get("code_challenge_method") != "S256" || len(token.Get("code_verifier")) < 43 {
		t.Errorf("method %q, %d characters of verifier", authorize.Get("code_challenge_method"), len(token.Get("code_verifier")))
	}
	w.mustCall()
	if got := len(w.network.Lines()); got != len(want)+1 {
		t.Errorf("the second call made %d requests", got-len(want))
	}
	for _, r := range w.network.Requests("POST " + serverURL)[1:] {
		if r.Header.Get("Authorization") == "" || r.Form.Has("access_token") {
			t.Errorf("header %v, query %v", r.Header, r.Form)
		}
	}
}

// authorizations returns the forms of the authorization requests.
func (w *world) authorizations() []url.Values {
	var forms []url.Values
	for _, r := range w.network.Requests("GET https://as.example/authorize") {
		forms = append(forms, r.Form)
	}
	return forms
}

// tokenRequests returns the forms of the token requests with a grant type.
func (w *world) tokenRequests(grantType string) []url.Values {
	var forms []url.Values
	for _, r := range w.network.Requests("POST https://as.example/token") {
		if r.Form.Get("grant_type") == grantType {
			forms = append(forms, r.Form)
		}
	}
	return forms
}

// Proves AUTH-26, AUTH-27 and M-AUTH-06.
func TestNoFlowWithoutPKCE(t *testing.T) {
	for name, offered := range map[string]any{"missing": nil, "plain": []string{"plain"}, "empty": []string{}} {
		for _, document := range []string{"oauth-authorization-server", "openid-configuration"} {
			t.Run(name+" in "+document, func(t *testing.T) {
				w := newWorld(t, func(w *world, _ *oauth.Options) {
					metadata := w.as.Document()
					metadata["code_challenge_methods_supported"] = offered
					w.as.Documents = map[string]map[string]any{"/.well-known/" + document: metadata}
				})
				_, err := w.call()
				if err == nil || !strings.Contains(err.Error(), "does not offer PKCE with S256") || len(w.authorizations()) != 0 {
					t.Errorf("%v; requests: %q", err, w.network.Lines())
				}
			})
		}
	}
	w := newWorld(t, nil)
	for range 2 {
		if err := w.a.Login(t.Context(), serverURL); err != nil {
			t.Fatal(err)
		}
	}
	forms := w.tokenRequests("authorization_code")
	if forms[0].Get("code_verifier") == forms[1].Get("code_verifier") {
		t.Error("two flows have the same verifier")
	}
}

// Proves AUTH-07 and AUTH-15.
func TestScopesOfTheFirstFlow(t *testing.T) {
	for _, test := range []struct {
		name            string
		need, supported []string
		configured, of  []string // Options.Scopes and the scopes_supported of the authorization server
		noOffline       bool
		want            string
		wantPrompt      bool
	}{
		{name: "challenge", need: []string{"a:x", "b"}, supported: []string{"c"}, want: "a:x b"},
		{name: "supported", supported: []string{"c", "d"}, want: "c d"},
		{name: "none"},
		{name: "configured", need: []string{"a"}, configured: []string{"z", "a"}, want: "a z"},
		{name: "offline access", need: []string{"a"}, of: []string{"offline_access"}, want: "a offline_access", wantPrompt: true},
		{name: "offline access not wanted", need: []string{"a"}, of: []string{"offline_access"}, noOffline: true, want: "a"},
		{name: "only offline access", of: []string{"offline_access"}},
		{name: "offline access not offered", supported: []string{"a", "offline_access"}, of: []string{"a"}, want: "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, c *oauth.Options) {
				w.resource.Need = test.need
				if test.supported != nil {
					w.resource.Documents["/.well-known/oauth-protected-resource/mcp"]["scopes_supported"] = test.supported
				}
				if test.of != nil {
					w.document()["scopes_supported"] = test.of
				}
				c.Scopes, c.NoOffline = test.configured, test.noOffline
			})
			w.mustCall()
			form := w.authorizations()[0]
			if got := form.Get("scope"); got != test.want || form.Has("scope") != (test.want != "") {
				t.Errorf("scope %q, want %q", form["scope"], test.want)
			}
			if (form.Get("prompt") == "consent") != test.wantPrompt {
				t.Errorf("prompt %q", form.Get("prompt"))
			}
		})
	}
}

// Proves M-AUTH-08.
func TestIssuerOfResponseIsChecked(t *testing.T) {
	for _, test := range []struct {
		name       string
		advertised bool
		iss        []string
		ok         bool
	}{
		{"advertised and right", true, []string{issuer}, true},
		{"advertised and missing", true, nil, false},
		{"advertised and wrong", true, []string{"https://evil.example"}, false},
		{"advertised and with a slash", true, []string{issuer + "/"}, false},
		{"advertised and in capitals", true, []string{"HTTPS://AS.EXAMPLE"}, false},
		{"advertised and empty", true, []string{""}, false},
		{"twice", true, []string{issuer, issuer}, false},
		{"not advertised and right", false, []string{issuer}, true},
		{"not advertised and wrong", false, []string{"https://evil.example"}, false},
		{"not advertised and missing", false, nil, true},
	} {
		for _, refused := range []bool{false, true} {
			t.Run(test.name, func(t *testing.T) {
				w := newWorld(t, func(w *world, _ *oauth.Options) {
					w.document()["authorization_response_iss_parameter_supported"] = test.advertised
					w.browser.Answer = func(v url.Values) {
						delete(v, "iss")
						if test.iss != nil {
							v["iss"] = test.iss
						}
						if refused {
							v.Del("code")
							v.Set("error", "server_error")
							v.Set("error_description", "call evil.example")
						}
					}
				})
				_, err := w.call()
				switch {
				case !test.ok:
					if !errors.Is(err, oauth.ErrIssuer) || strings.Contains(err.Error(), "server_error") || strings.Contains(err.Error(), "call evil") {
						t.Errorf("call: %v", err)
					}
				case refused:
					var failed *oauth.Error
					if !errors.As(err, &failed) || failed.Code != "server_error" || failed.Description != "call evil.example" {
						t.Errorf("call: %v", err)
					}
				case err != nil:
					t.Error(err)
				}
				if n := len(w.tokenRequests("authorization_code")); (n == 1) != (test.ok && !refused) {
					t.Errorf("%d token requests", n)
				}
			})
		}
	}
}

// Proves AUTH-29.
func TestResponsesWithWrongStateAreRejected(t *testing.T) {
	for name, change := range map[string]func(url.Values){
		"missing":         func(v url.Values) { v.Del("state") },
		"wrong":           func(v url.Values) { v.Set("state", "x") },
		"twice":           func(v url.Values) { v.Add("state", v.Get("state")) },
		"wrong and error": func(v url.Values) { v.Set("state", "x"); v.Set("error", "access_denied") },
	} {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.browser.Answer = change })
		if _, err := w.call(); err == nil || !strings.Contains(err.Error(), "has no state, or a wrong one") || errors.Is(err, oauth.ErrDenied) || len(w.network.Requests("POST https://as.example/token")) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t, func(w *world, _ *oauth.Options) { w.browser.Answer = func(v url.Values) { v.Add("code", "another") } })
	if _, err := w.call(); err == nil || len(w.network.Requests("POST https://as.example/token")) != 0 {
		t.Errorf("two codes: %v", err)
	}
}

// Proves AUTH-24 and AUTH-07.
func TestStepUp(t *testing.T) {
	w := newWorld(t, func(w *world, _ *oauth.Options) {
		w.resource.Need = []string{"basic"}
		w.resource.Documents["/.well-known/oauth-protected-resource/mcp"]["scopes_supported"] = []string{"profile"}
	})
	w.mustCall()
	w.resource.Change(func() { w.resource.Need = []string{"write"} })
	w.mustCall()
	forms := w.authorizations()
	if len(forms) != 2 || forms[0].Get("scope") != "basic" || forms[1].Get("scope") != "basic write" {
		t.Errorf("authorization requests: %v", forms)
	}
	if n := len(gets(w.network, "mcp.example")); n != 1 {
		t.Errorf("%d requests for resource metadata", n)
	}
	// A new login after the token is lost asks for all of them.
	w.as.Revoke(true)
	w.mustCall()
	if forms = w.authorizations(); len(forms) != 3 || forms[2].Get("scope") != "basic write" {
		t.Errorf("authorization requests: %v", forms)
	}
}

// Requests that wait for another step-up add their scopes to the next step-up.
func TestConcurrentStepUpsToDifferentScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.mustCall()
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			w.as.Serve(rw, r, "/token")
		})
		server := w.resource
		w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			need := r.URL.Query().Get("need")
			if need != "" && !slices.Contains(w.as.Lookup(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")).Scopes, need) {
				rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, need))
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			server.ServeHTTP(rw, r)
		}))
		w.network.Clear()
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() { // ends with its call
				status, err := send(t.Context(), w.network, w.a, fmt.Sprintf("%s?need=scope-%d", serverURL, i), httpclient.Operation{Method: "tools/call", Name: fmt.Sprint(i)})
				if status != http.StatusOK || err != nil {
					t.Errorf("call %d: status %d, %v", i, status, err)
				}
			})
		}
		calls.Wait()
		if n := len(w.authorizations()); n > 2 {
			t.Errorf("%d authorization requests, want 2 at most", n)
		}
	})
}

// Proves AUTH-25.
func TestStepUpsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		need := 0
		grow := false
		w.resource.Need = []string{"scope-0"}
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) { // grants none of the requested scopes
			if grow {
				need++
			}
			w.resource.Need = []string{fmt.Sprintf("scope-%d", need)}
			mockas.JSON(rw, http.StatusOK, map[string]any{"access_token": "narrow-" + fmt.Sprint(len(w.network.Requests())), "token_type": "Bearer"})
		})
		server := w.resource
		w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer narrow") {
				rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope=%q`, strings.Join(server.Need, " ")))
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			server.ServeHTTP(rw, r)
		}))
		try := func(op httpclient.Operation, want int) {
			t.Helper()
			w.network.Clear()
			status, err := send(t.Context(), w.network, w.a, serverURL, op)
			if status != http.StatusForbidden || want == 0 && !errors.Is(err, oauth.ErrScope) {
				t.Errorf("status %d, %v", status, err)
			}
			if n := len(w.authorizations()); n != want {
				t.Errorf("%d authorization requests, want %d", n, want)
			}
		}
		try(tool, 2) // the login and one step-up for the scope that was requested before
		try(tool, 0)
		try(httpclient.Operation{Method: "tools/call", Name: "other"}, 1)
		time.Sleep(11 * time.Minute)
		try(tool, 1)
		time.Sleep(11 * time.Minute)
		grow = true
		try(tool, 2) // the scope is another one each time
		try(tool, 0)
	})
}

func TestForbiddenWithoutInsufficientScopeIsFinal(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	w.network.Clear()
	for _, challenge := range []string{"", `Bearer error="invalid_token"`, `Basic error="insufficient_scope"`} {
		w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("WWW-Authenticate", challenge)
			rw.WriteHeader(http.StatusForbidden)
		}))
		if status, err := w.call(); status != http.StatusForbidden || err != nil {
			t.Errorf("%q: %d, %v", challenge, status, err)
		}
	}
	if got := w.network.Lines(); len(got) != 3 {
		t.Errorf("requests: %q", got)
	}
}

// Proves AUTH-19.
func TestTokenIsOnlySentToItsServer(t *testing.T) {
	w := newWorld(t, nil)
	w.mustCall()
	second := mockas.NewServer("https://second.example")
	w.network.Handle("second.example", second)
	w.network.Handle("mcp2.example", mockas.NewResource("https://mcp2.example/mcp", second))
	w.network.Clear()
	if status, err := send(t.Context(), w.network, w.a, "https://mcp2.example/mcp", tool); status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	for _, r := range w.network.Requests() {
		if strings.Contains(r.Header.Get("Authorization"), "as.example") || strings.Contains(r.Form.Encode(), "as.example") {
			t.Errorf("%s %s has the token of another server", r.Method, r.URL)
		}
	}
	// A request that a redirect has sent elsewhere gets no token, and its challenge starts no flow.
	op := tool
	op.Server, _ = url.Parse(serverURL)
	req, _ := http.NewRequest(http.MethodPost, "https://evil.example/mcp", nil)
	if err := w.a.Authorize(req, op); err != nil || req.Header.Get("Authorization") != "" {
		t.Errorf("%v, Authorization %q", err, req.Header.Get("Authorization"))
	}
	resp := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {`Bearer resource_metadata="https://evil.example/x"`}}, Request: req}
	w.network.Clear()
	if again, err := w.a.Challenged(t.Context(), resp, op); again || err != nil || len(w.network.Lines()) != 0 {
		t.Errorf("again %v, %v, requests %q", again, err, w.network.Lines())
	}
	// A tenant of the same host gets a token of its own.
	if req, _ = http.NewRequest(http.MethodPost, "https://mcp.example/other", nil); w.a.Authorize(req, httpclient.Operation{Server: req.URL}) != nil || req.Header.Get("Authorization") != "" {
		t.Errorf("another path of the host gets %q", req.Header.Get("Authorization"))
	}
}
